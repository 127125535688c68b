"""A configuration is layered: packaged file, user's file, then overrides; a fault is one sentence that names the layer it stands in."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envs.errors import nearest
from trainer.config import Config
from trainer.errors import ConfigError, UnknownBenchmarkError, UnknownModelError, UnknownSettingError
from trainer.names import check_names
from trainer.overrides import lay_over, lookup, nest
from trainer.settings import find, settings, suggest
from trainer.yaml_file import parse_yaml, read_yaml


@dataclass(frozen=True, slots=True)
class _Layer:
    source: str
    """How an error names it, with its preposition."""
    values: Mapping[str, Any]


def benchmarks() -> list[str]:
    """Names of the packaged configurations."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _packaged().iterdir() if entry.name.endswith(".yaml"))


def models() -> list[str]:
    """Names of the packaged models, which any benchmark can be trained with."""
    return sorted(entry.name.removesuffix(".yaml") for entry in (_packaged() / "models").iterdir() if entry.name.endswith(".yaml"))


def load_config(
    benchmark: str,
    file: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    model: str | None = None,
    below: tuple[str, Mapping[str, Any]] | None = None,
) -> Config:
    """The configuration of `benchmark`; over it a packaged model's, the user's YAML file and `overrides` (raw text by dotted name).

    `below` is a further layer right below the user's, with how an error names it ("in FILE").

    Raises `UnknownBenchmarkError`, `UnknownModelError`, `UnknownSettingError`, or `ConfigError`; names of environments, estimators
    and branching rules are checked against their tables, whose own errors pass through.
    """
    if benchmark not in benchmarks():
        raise UnknownBenchmarkError(f"no benchmark is called {benchmark!r}; {nearest(benchmark, benchmarks())}")
    with resources.as_file(_packaged() / f"{benchmark}.yaml") as path:
        layers = [_Layer(f"in the packaged {benchmark}.yaml", read_yaml(path))]
    if model is not None:
        if model not in models():
            raise UnknownModelError(f"no model is packaged as {model!r}; {nearest(model, models())}")
        with resources.as_file(_packaged() / "models" / f"{model}.yaml") as path:
            layers.append(_Layer(f"in the packaged models/{model}.yaml", read_yaml(path)))
    if below is not None:
        layers.append(_Layer(*below))
    if file is not None:
        layers.append(_Layer(f"in {file}", read_yaml(file)))
    if overrides:
        layers.append(_Layer("on the command line", nest({name: _parse_override(name, text) for name, text in overrides.items()})))
    values: Mapping[str, Any] = {}
    for layer in layers:
        _refuse_unknown(layer)
        values = lay_over(values, layer.values)
    config = _validate({**values, "benchmark": benchmark}, layers)
    check_names(config)
    return config


def restore_config(text: str, source: str) -> Config:
    """The configuration that `Config.model_dump_json()` wrote; `source` names it in errors."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not valid JSON: {error}") from error
    if not isinstance(values, dict) or not isinstance(values.get("benchmark"), str):
        raise ConfigError(f"{source} holds no configuration of a run")
    layer = _Layer(f"in {source}", {key: value for key, value in values.items() if key != "benchmark"})
    _refuse_unknown(layer)
    return _validate(values, [layer])


def _packaged() -> Any:
    return resources.files("trainer") / "configs"


def _parse_override(name: str, text: str) -> Any:
    setting = find(name)
    if setting is None:
        raise UnknownSettingError(f"no setting is called {name} (on the command line); {suggest(name)}")
    if setting.text and text != "null":
        return text
    return parse_yaml(text, f"the value {text!r} of setting {name}")


def _refuse_unknown(layer: _Layer) -> None:
    sections = {name.rpartition(".")[0] for name in settings()}
    sections |= {section.rpartition(".")[0] for section in sections} - {""}
    for name, value in _flatten(layer.values, sections):
        if name in sections:
            raise ConfigError(f"section {name} {layer.source} must be a table of settings, but is {_show(value)}")
        if name not in settings():
            raise UnknownSettingError(f"no setting is called {name} ({layer.source}); {suggest(name)}")


def _flatten(values: Mapping[str, Any], sections: set[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name in sections and isinstance(value, Mapping):
            yield from _flatten(value, sections, f"{name}.")
        else:
            yield name, value


def _validate(values: Mapping[str, Any], layers: Sequence[_Layer]) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_sentence(error, layers)) from None


def _sentence(error: ValidationError, layers: Sequence[_Layer]) -> str:
    """The first fault in one sentence: which setting, in which layer, what was given, what is allowed."""
    first = error.errors(include_url=False)[0]
    names = [str(part) for part in first["loc"]]
    name = next((name for end in range(len(names), 0, -1) if (name := ".".join(names[:end])) in settings()), None)
    if name is None:
        return str(first["msg"]).removeprefix("Value error, ")
    given = next((layer for layer in reversed(layers) if _holds(layer.values, name)), None)
    where = f" {given.source}" if given else ""
    value = lookup(given.values, name) if given else first["input"]
    return f"setting {name}{where} must be {settings()[name].allowed}, but is {_show(value)}"


def _holds(values: Mapping[str, Any], name: str) -> bool:
    *sections, key = name.split(".")
    table = lookup(values, ".".join(sections)) if sections else values
    return isinstance(table, Mapping) and key in table


def _show(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
