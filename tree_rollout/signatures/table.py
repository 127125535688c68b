"""One table from name to signature; a name or a setting that none has is an error that names the nearest one."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from envs.errors import nearest
from tree_rollout.errors import SignatureError, UnknownSignatureError
from tree_rollout.signatures.actions import Actions
from tree_rollout.signatures.env_state import EnvState
from tree_rollout.signatures.named_function import import_function
from tree_rollout.signatures.normalised import Normalised
from tree_rollout.signatures.observation import Observation
from tree_rollout.signatures.signature import Signature
from tree_rollout.signatures.similar import Similar
from tree_rollout.signatures.user_function import UserFunction
from tree_rollout.signatures.window import Window


def _window(of: str = "env", history: int = 1, settings: Mapping[str, Any] | None = None) -> Window:
    """`of` names what the window looks through, and `settings` are the settings of that one."""
    if settings is not None and not isinstance(settings, Mapping):
        raise SignatureError(f"window: settings is {settings!r}; give a table of settings for {of}")
    return Window(make_signature(of, settings), history)


_TABLE: dict[str, Callable[..., Signature]] = {
    **{signature.name: signature for signature in (EnvState, Observation, Normalised, Actions, Similar)},
    "window": _window,
}


def signatures() -> list[str]:
    """The names of all signatures: those of this package in the order of its documentation, then those that were registered."""
    return list(_TABLE)


def register_signature(name: str, signature: Callable[..., Iterable[tuple[str, str]]] | type[Signature]) -> None:
    """Add a signature to the table; a name that is taken is an error.

    `signature` is a function from a `TrajectoryTree` to one (before, after) for each of its turns, whose further arguments are its
    settings, or a class with `name` and `sign` whose constructor takes and checks the settings.
    """
    if not isinstance(name, str) or not name or ":" in name or "," in name:
        raise SignatureError(f"a signature cannot be called {name!r}; give a word without ':' and ','")
    if name in _TABLE:
        raise SignatureError(f"a signature called {name!r} is registered already; choose another name")
    if not callable(signature):
        raise SignatureError(
            f"the signature {name!r} is a {type(signature).__name__}; give a function from a tree to (before, after) pairs"
        )
    _TABLE[name] = _maker(name, signature)


def make_signature(name: str, settings: Mapping[str, Any] | None = None) -> Signature:
    """The signature called `name` (or `module:function`) with its settings, for example `make_signature("similar", {"threshold": 0.8})`."""
    given = dict(settings or {})
    if not isinstance(name, str) or (name not in _TABLE and ":" not in name):
        raise UnknownSignatureError(f"no signature is called {name!r}; {nearest(str(name), _TABLE)} (or your own as module:function)")
    maker = _TABLE[name] if name in _TABLE else _maker(name, import_function(name))
    _check_settings(name, maker, given)
    return maker(**given)


def _maker(name: str, thing: Any) -> Callable[..., Signature]:
    """What makes the signature from its settings: a class does so itself, and a function is bound to them."""
    return thing if isinstance(thing, type) else partial(_bind, thing, name)


def _bind(function: Callable[..., Iterable[tuple[str, str]]], name: str, /, **settings: Any) -> UserFunction:
    return UserFunction(name, function, settings)


def _check_settings(name: str, maker: Callable[..., Signature], given: Mapping[str, Any]) -> None:
    """Raise where the settings are not those that the class, or the function beside its tree, takes."""
    function = maker.args[0] if isinstance(maker, partial) else None
    takes = inspect.signature(function or maker)
    parameters = list(takes.parameters.values())[1 if function else 0 :]
    known = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    for setting in given:
        if setting not in known and len(known) == len(parameters):
            hint = nearest(setting, known) if known else "it takes none"
            raise SignatureError(f"the signature {name!r} has no setting {setting!r}; {hint}")
    try:
        takes.bind(*[None] if function else [], **given)
    except TypeError as error:
        raise SignatureError(f"the settings of the signature {name!r} do not fit: {error}") from error
