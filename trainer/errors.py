"""Every fault of this package that a user can mend is one of these: one sentence that says what was wrong and what to type."""


class TrainerError(Exception):
    """Base of all errors that this package raises on purpose."""

    exit_code = 2


class ConfigError(TrainerError, ValueError):
    """A setting has a value that it cannot have, or two settings contradict each other."""


class UnknownSettingError(TrainerError, LookupError):
    """No setting is called this."""


class UnknownBenchmarkError(TrainerError, LookupError):
    """No configuration of this name is packaged."""


class UnknownModelError(TrainerError, LookupError):
    """No model of this name is packaged."""


class UsageError(TrainerError, ValueError):
    """The command line asks for something that its verb cannot do."""


class RunFolderError(TrainerError, OSError):
    """A run folder lacks what a run folder holds, or holds what was not expected."""


class MetricsError(TrainerError, ValueError):
    """A metrics file is damaged in a place where no interrupted write can have damaged it."""


class CheckpointError(TrainerError, ValueError):
    """A checkpoint is missing, damaged, of another version, or cannot be written."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is not as it was written."""


class WorkerError(TrainerError, RuntimeError):
    """A process of the run ended on its own."""


class ClusterError(TrainerError, RuntimeError):
    """Ray cannot be reached, has no room for what was asked, or has run out of something."""


class RecordedRolloutsError(TrainerError, ValueError):
    """Recorded rollouts are not there, or cannot be learned from."""


class TooManyFailuresError(TrainerError, RuntimeError):
    """More rollouts failed than a run may lose."""


class DivergedError(TrainerError, ArithmeticError):
    """Training produced numbers that are not finite."""


class MetricSinkError(TrainerError, RuntimeError):
    """A logger that a run names cannot be opened."""
