"""What vLLM is told, and when; an engine that writes down what it is asked stands in for it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from token_trees import random_tree, tiny_model
from words_world import config_of

import trainer.vllm_host
from agents.engines import EngineEntry
from agents.errors import MissingPackageError, StaleWeightsError
from agents.vllm_weights import WeightProbe
from trainer.errors import ConfigError
from trainer.opened_backend import check_engine
from trainer.vllm_host import VllmHost, vllm_host

VLLM = {"rollout.engine": "vllm", "policy.hidden": 64}
GPU = {**VLLM, "policy.device": "cuda"}


class Notebook:
    """An engine that computes nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.folder, self.stop_ids = arguments
        self.options = options
        self.calls: list[str] = []
        self.probes: list[WeightProbe] = []
        self.version = -1
        self.stale = False

    def load_weights(self, weights: Any, version: int, probe: WeightProbe) -> None:
        self.calls.append(f"load {len(dict(weights))}")
        self.probes.append(probe)
        if self.stale:
            raise StaleWeightsError("other weights")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: self.calls.append(name)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs and vLLM for them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(EngineEntry, "make", lambda self, *arguments, **options: Notebook(*arguments, **options))
    monkeypatch.setattr(EngineEntry, "is_missing", property(lambda self: False))
    monkeypatch.setattr(trainer.vllm_host, "_check_build", lambda name, kind: None)


def served(path: Path, changes: dict[str, Any], place: int = 0) -> Any:
    host = vllm_host(config_of(path, changes), path, place)
    assert host is not None
    return host.serving(tiny_model("qwen3"), 1, 0, [7])


@pytest.mark.parametrize(
    ("setting", "value", "option", "given"),
    [
        ("gpu_memory_utilization", 0.25, "gpu_memory_utilization", 0.25),
        ("cache_gib", 3, "cache_gib", 3),
        ("tensor_parallel", 2, "tensor_parallel_size", 2),
        ("dtype", "bfloat16", "dtype", "bfloat16"),
        ("enforce_eager", "true", "enforce_eager", True),
        ("top_logprobs", 5, "top_logprobs", 5),
        ("sleep", "true", "enable_sleep_mode", True),
    ],
)
def test_each_setting_reaches_vllm(setting: str, value: Any, option: str, given: Any, tmp_path: Path) -> None:
    plain, changed = served(tmp_path, GPU), served(tmp_path, {**GPU, f"rollout.vllm.{setting}": value})
    assert changed.options[option] == given != plain.options[option]
    apart = {name for name in plain.options if plain.options[name] != changed.options[name]} - {"device_ids"}
    assert apart == {option} and changed.options["max_length"] == 128


def test_the_engine_gets_its_device(tmp_path: Path) -> None:
    assert served(tmp_path, GPU, place=1).options["device_ids"] == [1]
    assert served(tmp_path, {**GPU, "rollout.device": "cuda:1"}).options["device_ids"] == [1]
    assert served(tmp_path, {**GPU, "rollout.vllm.tensor_parallel": 2}, place=1).options["device_ids"] == [0, 1]
    on_cpu = served(tmp_path, {**GPU, "rollout.device": "cpu"}).options
    assert "device_ids" not in on_cpu and "tensor_parallel_size" not in on_cpu


def test_weights_are_handed_over_once_for_each_state(tmp_path: Path) -> None:
    host, model = VllmHost(config_of(tmp_path, VLLM), tmp_path, 0), tiny_model("qwen3")
    engine: Any = host.serving(model, 1, 4, [7])
    tree = random_tree(np.random.default_rng(0), turns=5)
    host.done([tree])
    assert host.serving(model, 1, 4, [7]) is engine and engine.version == 4
    assert engine.calls == [f"load {len(model.state_dict())}", "reset_cache", "reset_cache"]
    host.serving(model, 2, 5, [7])
    assert engine.version == 5 and len(engine.probes) == 2
    first, second = (probe.ids_T for probe in engine.probes)
    longest = max((tree.path(leaf) for leaf in tree.leaves()), key=len)
    assert len(first) == 32 and np.array_equal(second, np.concatenate([tree.turns[turn].ids_T for turn in longest])[:127])
    np.testing.assert_allclose(engine.probes[1].logprobs_T, WeightProbe.of_model(model, second).logprobs_T)


def test_weights_that_were_refused_are_not_taken_for_served(tmp_path: Path) -> None:
    host, model = VllmHost(config_of(tmp_path, VLLM), tmp_path, 0), tiny_model("qwen3")
    engine: Any = host.serving(model, 1, 0, [7])
    engine.stale = True
    for _ in range(2):
        with pytest.raises(StaleWeightsError):
            host.serving(model, 2, 1, [7])
    assert engine.version == 0


def test_vllm_sleeps_while_the_run_learns(tmp_path: Path) -> None:
    host, model = VllmHost(config_of(tmp_path, {**GPU, "rollout.vllm.sleep": "true"}), tmp_path, 0), tiny_model("qwen3")
    engine: Any = host.serving(model, 1, 0, [7])
    host.done([])
    host.done([])
    assert engine.calls[-1] == "sleep" and engine.calls.count("sleep") == 1
    host.serving(model, 2, 1, [7])
    assert engine.calls[-3:] == ["wake", f"load {len(model.state_dict())}", "reset_cache"]
    awake: Any = VllmHost(config_of(tmp_path, GPU), tmp_path, 0).serving(model, 1, 0, [7])
    assert "sleep" not in awake.calls


def test_what_vllm_cannot_have_here_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = config_of(tmp_path, {**GPU, "run.shards": 3, "run.workers": 3, "rollout.vllm.gpu_memory_utilization": 0.6})
    with pytest.raises(ConfigError, match=r"2 of 3 processes would share a GPU, and each vLLM takes 0.6 of its memory; set run.workers"):
        check_engine(crowded)
    check_engine(config_of(tmp_path, {**GPU, "run.shards": 2, "run.workers": 2, "rollout.vllm.gpu_memory_utilization": 0.6}))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"policy.device cuda needs a GPU, and PyTorch"):
        check_engine(config_of(tmp_path, GPU))
    with pytest.raises(ConfigError, match=r"rollout.vllm.tensor_parallel is for GPUs, and this machine has none; leave it out"):
        served(tmp_path, {**VLLM, "policy.device": "auto", "rollout.vllm.tensor_parallel": 2})
    monkeypatch.setattr(EngineEntry, "is_missing", property(lambda self: True))
    with pytest.raises(
        (ConfigError, MissingPackageError), match=r'rollout.engine vllm needs the package vllm; type: pip install "branchwise\[vllm\]"'
    ):
        check_engine(config_of(tmp_path, VLLM))


def test_another_vllm_than_the_devices_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("agents.vllm_engine.computes_on_cpu", lambda: True)
    with pytest.raises(
        ConfigError, match=r"the vLLM that is installed here is for cpu, and rollout.device is cuda; set rollout.device to cpu"
    ):
        trainer.vllm_host._check_build("rollout.device", "cuda")
