"""Every fault of this package that a user can mend is one of these: one sentence that says what was wrong and what to type."""

import difflib
from collections.abc import Iterable


class EnvsError(Exception):
    """Base of all errors that this package raises on purpose."""

    exit_code = 2


class UnknownEnvironmentError(EnvsError, LookupError):
    """No environment is registered under this id."""


class EnvironmentArgumentError(EnvsError, ValueError):
    """An argument of an environment has a value that it cannot have."""


class EnvironmentImportError(EnvsError, ImportError):
    """A registered environment cannot be imported."""


class MissingNeedError(EnvsError, RuntimeError):
    """The environment needs something that is not on this machine."""


class ForkLimitError(EnvsError, RuntimeError):
    """More copies of environments in processes would be alive than may be."""


class ScaffoldError(EnvsError, OSError):
    """The files of a new environment cannot be written."""


class AbilityError(EnvsError, AttributeError):
    """The environment does not offer what was asked of it."""


class SuccessCheckError(EnvsError, RuntimeError):
    """A user's check of success raised, or gave what is no answer."""


class NoEpisodeError(EnvsError, RuntimeError):
    """The environment was used before its first `reset`."""


def nearest(word: str, known: Iterable[str], count: int = 3) -> str:
    """A clause naming the known words closest to `word`, or all of them where none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=count, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(names)}"
