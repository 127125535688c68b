"""An override is `--section.key value`: taken out of the command line before anything else reads it, and laid over what files say."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.errors import UsageError

_FLAG = re.compile(r"--([A-Za-z_]\w*(?:\.[\w-]+)+)(?:=(.*))?", re.DOTALL)

# What the first names is chosen together with the second: another choice in a later layer drops the earlier layers' companions.
_COMPANIONS = {
    "env.id": ("env.kwargs", "warmstart.habits"),
    "credit.method": ("credit.settings",),
    "credit.signature": ("credit.signature_settings",),
    "rollout.allocation.rule": ("rollout.allocation.options",),
    "rollout.branching.rule": ("rollout.branching.options",),
    "rollout.task_choice.rule": ("rollout.task_choice.options",),
    "agent.memory": ("agent.memory_settings",),
    "agent.action_format": ("agent.action_settings",),
    "policy.path": ("policy",),
}


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Separate `--section.key value` and `--section.key=value` from the other arguments.

    Returns the others in order, and the overrides as raw text by dotted name; the last of two equal names wins.
    Raises `UsageError` where a value is missing.
    """
    others: list[str] = []
    overrides: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        match = _FLAG.fullmatch(argument)
        if argument == "--":
            return [*others, argument, *rest], overrides
        if match is None:
            others.append(argument)
        elif match[2] is not None:
            overrides[match[1]] = match[2]
        elif rest and not _FLAG.fullmatch(rest[0]):
            overrides[match[1]] = rest.pop(0)
        else:
            raise UsageError(f"setting {match[1]} has no value; write --{match[1]} VALUE")
    return others, overrides


def take_options(arguments: argparse.Namespace, overrides: dict[str, str], options: Mapping[str, str]) -> None:
    """Put options that are short for settings among the overrides; `options` names the setting of each.

    Raises `UsageError` where an option and its setting are both given and differ.
    """
    for option, name in options.items():
        value = getattr(arguments, option)
        if value is not None and overrides.setdefault(name, str(value)) != str(value):
            raise UsageError(f"--{option} {value} and --{name} {overrides[name]} contradict each other; leave one out")


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`; raises `UsageError` where one name needs another to be a table and a value at once."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *sections, key = name.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise UsageError(f"setting {name} and one above it are both given; leave one out")
        if isinstance(table.get(key), dict) and isinstance(value, dict):
            table[key] = {**table[key], **value}
        elif key in table:
            raise UsageError(f"setting {name} and one below it are both given; leave one out")
        else:
            table[key] = value
    return tree


def lay_over(base: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `layer` on top, table by table; where `layer` chooses another method, the base's settings of the old one go."""
    kept = dict(base)
    for chooser, companions in _COMPANIONS.items():
        chosen = lookup(layer, chooser)
        if chosen is not None and chosen != lookup(base, chooser):
            for companion in companions:
                kept = _without(kept, companion.split("."))
    return _merge(kept, layer)


def lookup(tree: Mapping[str, Any], name: str) -> Any:
    """The value under a dotted name, or None."""
    value: Any = tree
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _merge(base: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in layer.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _without(tree: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    key, *deeper = path
    below = tree.get(key)
    if not deeper or not isinstance(below, Mapping):
        return {name: value for name, value in tree.items() if name != key} if not deeper else dict(tree)
    return {**tree, key: _without(below, deeper)}
