"""Everything that the truth benchmark raises is a `TruthError`: one sentence that says what was wrong and what to give instead."""


class TruthError(Exception):
    """Base of all errors of this package; the command line ends with `exit_code` instead of a traceback."""

    exit_code = 2


class UnknownNameError(TruthError, LookupError):
    """No process, policy or rule has that name."""


class ProcessError(TruthError, ValueError):
    """The arrays do not form a decision process, or nothing can be measured on it."""


class BudgetError(TruthError, ValueError):
    """A number of turns, rollouts, groups or forks with which nothing can be sampled."""
