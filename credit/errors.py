"""Everything that `credit` raises is a `CreditError`: one sentence that says what was wrong and what to give instead."""

from collections.abc import Iterable
from difflib import get_close_matches


class CreditError(Exception):
    """Base of all errors of this package; the command line ends with `exit_code` instead of a traceback."""

    exit_code = 2


class UnknownMethodError(CreditError, LookupError):
    """No estimator is registered under that name."""


class SettingError(CreditError, ValueError):
    """A setting that the method does not have, a value outside its range, or a combination in which it would have no effect."""


class GroupError(CreditError, ValueError):
    """The rollouts are not well formed: a missing field, a reward that is no number, a node with two places in the tree."""


class LoneRolloutError(GroupError):
    """A group of one rollout, which has no baseline, given to a method without a fallback for it."""


class EstimatorError(CreditError, ValueError):
    """A registered estimator broke its contract: a wrong shape, a number that is not finite, a name that is taken."""


def nearest(name: object, options: Iterable[str]) -> str:
    """The end of an error message: what `name` may have meant, and all that it can be."""
    options = sorted(options)
    close = get_close_matches(str(name), options, n=2, cutoff=0.5)
    meant = f"did you mean {' or '.join(repr(option) for option in close)}? " if close else ""
    return f"{meant}(valid: {', '.join(options) or 'none'})"
