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
