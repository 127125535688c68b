"""Every fault of this package that a user can mend is one of these: one sentence that says what was wrong and what to type."""


class TreeRolloutError(Exception):
    """Base of all errors that this package raises on purpose; the command line ends with `exit_code` instead of a traceback."""

    exit_code = 2


class SamplerError(TreeRolloutError, ValueError):
    """A setting of the sampler, or a task given to it, cannot be used."""


class BranchingError(TreeRolloutError, ValueError):
    """A branching rule got an option that it does not take, or a value outside its range."""


class UnknownBranchingRuleError(BranchingError, LookupError):
    """No branching rule is registered under that name."""


class BranchingFunctionError(BranchingError, RuntimeError):
    """A rule of one's own raised, or gave something else than forks within its budget."""


class StoppingError(TreeRolloutError, ValueError):
    """A stopping rule got an option that it does not take, or a value outside its range."""


class UnknownStoppingRuleError(StoppingError, LookupError):
    """No stopping rule is registered under that name."""


class StoppingFunctionError(StoppingError, RuntimeError):
    """A stopping rule of one's own raised, or answered something else than yes or no."""


class TraceError(TreeRolloutError, ValueError):
    """A trace cannot be read or written; the file is left as it was."""


class TraceVersionError(TraceError):
    """The trace was written in another schema version."""


class UnknownTreeError(TraceError, LookupError):
    """The trace holds no tree with this number."""


class TreeQueryError(TraceError):
    """A condition on trees names something that trees do not have, or is no condition."""


class ForkError(TreeRolloutError, ValueError):
    """A recorded tree cannot be continued there, or not in that way."""


class ReplayDivergedError(ForkError, RuntimeError):
    """Executing recorded turns again gave something else than was recorded, so the state to fork from cannot be reached."""

    def __init__(self, turn: int, field: str, expected: str, got: str) -> None:
        super().__init__(turn, field, expected, got)
        self.turn = turn
        """Index of the first turn that differs."""
        self.field = field
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return (
            f"turn {self.turn} does not replay: its {self.field} was {self.expected} and is now {self.got}; "
            "the environment is not deterministic, or not the one that was recorded"
        )


class SignatureError(TreeRolloutError, ValueError):
    """A signature got a setting that it does not take or a value outside its range, or cannot be registered or imported."""


class UnknownSignatureError(SignatureError, LookupError):
    """No signature is registered under that name."""


class SignatureFunctionError(SignatureError, RuntimeError):
    """A signature raised, or gave something else than two texts for each turn."""


class DigestError(TreeRolloutError, TypeError):
    """A snapshot holds something whose content cannot be read, so it has no digest."""


class EngineAnswerError(TreeRolloutError, RuntimeError):
    """The engine's answer contradicts what it was asked, so nothing of this call may be trained on."""


class AllocationError(TreeRolloutError, ValueError):
    """An allocation rule got an option that it does not take, a value outside its range, or a budget that leaves it nothing to decide."""


class UnknownAllocationError(AllocationError, LookupError):
    """No allocation rule is registered under that name."""


class AllocationFunctionError(AllocationError, RuntimeError):
    """An allocation rule of one's own raised, or gave something else than rollouts within its budget."""


class TaskChoiceError(TreeRolloutError, ValueError):
    """A task choice got an option that it does not take, a value outside its range, or too few tasks to choose from."""


class UnknownTaskChoiceError(TaskChoiceError, LookupError):
    """No task choice is registered under that name."""


class TaskChoiceFunctionError(TaskChoiceError, RuntimeError):
    """A task choice of one's own raised, or gave something else than distinct tasks of the pool."""


class TaskHistoryError(TreeRolloutError, ValueError):
    """A saved task history is damaged, or iterations were observed out of order."""


class SuccessPredictorError(TreeRolloutError, ValueError):
    """A saved success predictor is damaged, or a tree has numbers that nothing can be learnt from."""
