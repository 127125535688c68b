"""A function is named by a word that a table has, or by `module:function`; either is found when a setting is read, not when it is used."""

import importlib
import re
from collections.abc import Mapping
from typing import Any

from envs.errors import nearest
from tree_rollout.errors import SignatureError

_NAME = re.compile(r"\w+(?:\.\w+)*:\w+(?:\.\w+)*")


def named_function(name: object, table: Mapping[str, Any], what: str) -> Any:
    """The entry of `table` or the imported callable; `what` begins the error's sentence."""
    if isinstance(name, str) and name in table:
        return table[name]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SignatureError(f"{what} is {name!r}; {nearest(str(name), table)} (or give a function of your own as module:function)")
    return import_function(name)


def import_function(name: str) -> Any:
    """The callable that `module:function` names; whatever its import raises is a `SignatureError`."""
    module, _, path = name.partition(":")
    if not _NAME.fullmatch(name):
        raise SignatureError(f"{name!r} names no function; write module:function, for example mypackage.states:sign")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SignatureError(f"{name}: {error}; install it, or put its folder on PYTHONPATH") from error
    except (Exception, SystemExit) as fault:
        raise SignatureError(f"{name}: importing {module} failed with {type(fault).__name__}: {fault}; correct it") from fault
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise SignatureError(
                f"{name}: {module} has no {path}; {nearest(path, [key for key in vars(found) if key[0] != '_'] or ['none'])}"
            )
        found = getattr(found, attribute)
    if not callable(found):
        raise SignatureError(f"{name} is a {type(found).__name__}, not a function; name a function")
    return found
