"""Every error of this package is one sentence that says what was wrong and what to do; each survives pickling."""


class AgentError(Exception):
    """Base of the package's errors; the command line prints the sentence and ends with `exit_code`."""

    exit_code = 2


class TokenizerError(AgentError, ValueError):
    """A tokenizer cannot be trained as asked."""


class PolicyError(AgentError, ValueError):
    """A policy cannot be built, saved or loaded."""


class ContextError(AgentError, ValueError):
    """A chat template cannot be followed token by token."""


class EngineError(AgentError, ValueError):
    """An engine was asked for something that it cannot do."""


class HandleError(AgentError, LookupError):
    """A sequence handle is unknown, or was released."""


class ContextLengthError(EngineError):
    """What was given does not fit into the engine's `max_length`; nothing was changed."""


class TurnError(EngineError):
    """One turn failed for good; its sequence holds what it held before, and the other turns go on."""

    handle: int = -1
    """The sequence whose turn it was."""

    @classmethod
    def of(cls, handle: int, message: str) -> "TurnError":
        """The error of one sequence's turn."""
        error = cls(message)
        error.handle = handle
        return error


class UnknownEngineError(EngineError):
    """No engine has this name."""


class MissingPackageError(EngineError):
    """An engine needs a package that is not installed."""


class StaleWeightsError(EngineError):
    """An engine serves other weights than those it was given; what it samples must not be trained on."""


class SettingError(AgentError, ValueError):
    """A chat template, a memory or an action format does not exist by that name, or does not take that setting."""


class ActionTextError(AgentError, ValueError):
    """What a policy wrote is no well-formed action; formats catch it and give its sentence as the reason."""
