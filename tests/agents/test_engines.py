"""The table's names make what they promise, and its errors say what to type."""

import inspect
from importlib import import_module

import pytest

from agents.engine import Engine
from agents.engines import ENGINES, engine_entry, make_engine
from agents.errors import EngineError, MissingPackageError, UnknownEngineError


def test_a_name_makes_its_engine() -> None:
    engine: Engine = make_engine("random", [3], vocab_size=8)
    assert type(engine).__name__ == "RandomEngine"
    assert type(make_engine("scripted", lambda ids, seed: [1], [1], max_length=9)).__name__ == "ScriptedEngine"


@pytest.mark.parametrize("name", ENGINES)
def test_every_row_names_an_engine(name: str) -> None:
    entry = engine_entry(name)
    engine = getattr(import_module(entry.module), entry.class_name)
    for method in ("start", "fork", "length", "release", "generate", "submit", "step", "cancel"):
        assert inspect.isfunction(getattr(engine, method))
    assert isinstance(engine.pending, property)
    assert (entry.package is None) == (entry.extra is None)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(UnknownEngineError, match=r"no engine is called 'vlm'; did you mean 'vllm'\?"):
        make_engine("vlm")
    with pytest.raises(UnknownEngineError, match="choose one of human, openai, random, scripted, transformers, vllm"):
        engine_entry("xyzzy")


def test_options_that_an_engine_does_not_take() -> None:
    with pytest.raises(EngineError, match=r"'random' has no option 'vocab_sizes'; did you mean 'vocab_size'\?"):
        make_engine("random", [3], vocab_sizes=8)
    with pytest.raises(EngineError, match=r"'random' do not fit: .*stop_ids.*; see RandomEngine"):
        make_engine("random", vocab_size=8)


@pytest.mark.parametrize("name", ["vllm", "openai"])
def test_a_package_that_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.engines.find_spec", lambda package: None)
    with pytest.raises(
        MissingPackageError, match=rf'the engine \'{name}\' needs the package \w+; type: pip install "branchwise\[{name}\]"'
    ):
        make_engine(name)


def test_a_package_that_breaks_at_import_is_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "urllib3", None)
    with pytest.raises(MissingPackageError, match=r"branchwise\[openai\]"):
        make_engine("openai", "http://127.0.0.1:1/v1", "tiny", [1], max_length=9)
