"""The table of settings is read off the configuration's models, so that a name, a range or a sentence is written down once."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from trainer.config import Config

_KINDS = {"integer": "an integer", "number": "a number", "string": "text", "boolean": "true or false", "null": "null"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of the configuration."""

    name: str
    """Dotted, for example `optimizer.lr`."""
    allowed: str
    """What it may be, as words."""
    default: Any
    """As a JSON value."""
    description: str
    free: bool
    """True for a table whose own keys are not known here: `env.kwargs`, `credit.settings`."""
    text: bool
    """True where the value is text, or null: on the command line it is taken as it stands."""


@cache
def settings() -> dict[str, Setting]:
    """All settings by dotted name, in the order of the models."""
    schema = Config.model_json_schema()
    return {setting.name: setting for setting in _walk(Config, "", schema["properties"], schema.get("$defs", {}))}


def find(name: str) -> Setting | None:
    """The setting of this name, or the free table that it lies in."""
    known = settings()
    if name in known:
        return known[name]
    return next((setting for setting in known.values() if setting.free and name.startswith(setting.name + ".")), None)


def suggest(name: str) -> str:
    """A clause that names the settings nearest to an unknown one."""
    known = list(settings())
    key = name.rpartition(".")[2]
    sections = list(dict.fromkeys(candidate.partition(".")[0] for candidate in known))
    names = [candidate for candidate in known if candidate.rpartition(".")[2] == key][:3]
    names = names or difflib.get_close_matches(name, known if "." in name else [*sections, *known], n=3, cutoff=0.6)
    if not names:
        close_keys = difflib.get_close_matches(key, [candidate.rpartition(".")[2] for candidate in known], n=1, cutoff=0.75)
        names = [candidate for candidate in known if candidate.rpartition(".")[2] in close_keys][:3]
    if names:
        return f"did you mean {' or '.join(names)}?"
    section = name.partition(".")[0]
    inside = [candidate for candidate in known if candidate.startswith(section + ".")]
    if inside:
        return f"the section {section} has {', '.join(candidate.partition('.')[2] for candidate in inside)}"
    return f"the sections are {', '.join(sections)}"


def _walk(model: type[BaseModel], prefix: str, properties: dict[str, Any], defs: dict[str, Any]) -> Iterator[Setting]:
    for key, field in model.model_fields.items():
        name = f"{prefix}{key}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _walk(field.annotation, f"{name}.", defs[field.annotation.__name__]["properties"], defs)
        elif prefix:
            schema = properties[key]
            kinds = {option.get("type") for option in schema.get("anyOf", [schema])}
            yield Setting(
                name=name,
                allowed=_describe(schema, defs),
                default=schema.get("default"),
                description=field.description or "",
                free=schema.get("type") == "object",
                text=kinds <= {"string", "null"},
            )


def _describe(schema: dict[str, Any], defs: dict[str, Any]) -> str:
    """What a JSON schema admits, as words."""
    if "anyOf" in schema:
        return " or ".join(_describe(option, defs) for option in schema["anyOf"])
    if "$ref" in schema:
        return f"a table of {', '.join(defs[schema['$ref'].rpartition('/')[2]]['properties'])}"
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        return f"a list, each {_describe(schema['items'], defs)}"
    if kind == "array":
        items = schema["prefixItems"]
        return f"a list of {len(items)} values, each {_describe(items[0], defs)}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return "a table of numbers" if isinstance(values, dict) and values.get("type") == "number" else "a table"
    like = f" such as {', '.join(schema['examples'])}" if "examples" in schema else ""
    return _KINDS[str(kind)] + like + _range(schema)


def _range(schema: dict[str, Any]) -> str:
    low, over = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, under = schema.get("maximum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}" if isinstance(low, float) else f" from {low} to {high}"
    bounds = [
        f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}"
        for words, bound in (("of at least", low), ("above", over), ("of at most", high), ("below", under))
        if bound is not None
    ]
    return " " + " and ".join(bounds) if bounds else ""
