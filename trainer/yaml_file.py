"""A YAML file is one table of plain values: no tags, no key twice, and `1e-3` is a number and `no` a word, as in YAML 1.2."""

import re
from pathlib import Path
from typing import Any

import yaml

from trainer.errors import ConfigError


class _PlainLoader(yaml.SafeLoader):
    """`yaml.SafeLoader` with YAML 1.2's scalars, and without duplicate keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - replaces the base class's table; filled below

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise _at(key_node, f"the key {getattr(key_node, 'value', '?')} is not text")
            if key_node.value in seen:
                raise _at(key_node, f"the key {key_node.value} stands twice in the same table")
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(inf|Inf|INF))|\.(nan|NaN|NAN)", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("merge", r"<<", "<"),
):
    # The empty string stands for an empty scalar, which only `null` matches.
    _PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), [*_first, ""])


def read_yaml(path: Path) -> dict[str, Any]:
    """The table in a file; an empty file is an empty table. Every fault is a `ConfigError` that names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration {path} is not UTF-8 text") from error
    value = parse_yaml(text, f"configuration {path}")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"configuration {path} holds {type(value).__name__} where a table of sections belongs")
    return value


def parse_yaml(text: str, source: str) -> Any:
    """One YAML document as plain values; `source` names it in errors."""
    try:
        return yaml.load(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{source} is not valid{where}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source} is not valid YAML: {str(error).splitlines()[0]}") from error


def _at(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
