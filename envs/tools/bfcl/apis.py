"""The simulated APIs of the package as values: a call never changes the ones that it is given, but gives changed copies.

What a call answers is written as the package's own runner writes it, errors included, since its checks compare these texts.
"""

import copy
import importlib
import inspect
import json
import random
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, STATELESS_CLASSES

from envs.tools.bfcl.calls import Call

Apis = dict[str, Any]
"""Instances by the name of their class; treated as immutable."""


@lru_cache(maxsize=32)
def api_class(name: str) -> type:
    """The class of that name."""
    return getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)


@lru_cache(maxsize=32)
def methods(name: str) -> frozenset[str]:
    """The tools that a class has."""
    return frozenset(method for method, _ in inspect.getmembers(api_class(name), inspect.isfunction) if not method.startswith("_"))


def load_apis(names: Iterable[str], config: Mapping[str, Any], long_context: bool) -> Apis:
    """The APIs as a task begins with them."""
    apis = {}
    for name in names:
        apis[name] = api_class(name)()
        if name not in STATELESS_CLASSES:
            apis[name]._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long_context)
    return apis


def owner(apis: Apis, tool: str) -> str | None:
    """The class that a tool belongs to; the last one where several have it, as in the package."""
    return next((name for name in reversed(list(apis)) if tool in methods(name)), None)


def run(apis: Apis, calls: Iterable[Call]) -> tuple[Apis, tuple[str, ...]]:
    """The APIs after the calls, and what each answers."""
    changed: dict[str, Any] = {}
    answers = []
    for call in calls:
        name = owner(apis, call.name)
        if name is None:
            answers.append(f"Error during execution: name '{call.name}' is not defined")
            continue
        if name not in changed:
            changed[name] = _copied(apis[name])
        answers.append(_answer(changed[name], call))
    return {name: changed.get(name, api) for name, api in apis.items()}, tuple(answers)


def named(apis: Apis, call: Call) -> Call:
    """The call with its positional arguments under their names, where the tool has names for them."""
    name = owner(apis, call.name)
    if name is None or not call.positional:
        return call
    try:
        bound = inspect.signature(getattr(apis[name], call.name)).bind(*call.positional, **call.arguments)
    except TypeError:
        return call
    return Call(call.name, dict(bound.arguments))


def _copied(api: Any) -> Any:
    """A deep copy; a random generator is copied as a whole, not number by number, which would take nearly all of the time."""
    memo: dict[int, Any] = {}
    generator = getattr(api, "_random", None)
    if isinstance(generator, random.Random):
        memo[id(generator)] = random.Random()
        memo[id(generator)].setstate(generator.getstate())
    return copy.deepcopy(api, memo)


def _answer(api: Any, call: Call) -> str:
    try:
        answer = getattr(api, call.name)(*copy.deepcopy(call.positional), **copy.deepcopy(call.arguments))
    except Exception as error:  # Whatever a tool raises is its answer.
        return f"Error during execution: {error}"
    if isinstance(answer, str):
        return answer
    if isinstance(answer, dict):
        try:
            return json.dumps(answer)
        except (TypeError, ValueError, RecursionError):
            pass
    return str(answer)
