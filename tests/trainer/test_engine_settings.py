"""Which engine and which device: what does not go together is refused before anything is loaded, with what to choose instead."""

from pathlib import Path

import pytest
import torch

from trainer.device import device_of
from trainer.errors import ConfigError
from trainer.load_config import load_config

VLLM = {"rollout.engine": "vllm"}
GPU = {"policy.device": "cuda"}
RAY = {"run.backend": "ray"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**VLLM, "rollout.temperature": "0.005"}, "is below 0.01, the least that vLLM samples at; raise it, or set rollout.engine to"),
        ({**VLLM, "policy.heads": "8", "policy.kv_heads": "8"}, "has 8 of 16; lower policy.heads, or set rollout.engine to transformers"),
        ({**VLLM, "rollout.vllm.tensor_parallel": "2"}, "is for GPUs, and rollout.device is cpu; set that to cuda"),
        ({**VLLM, "rollout.vllm.sleep": "true"}, "is for GPUs, and rollout.device is cpu"),
        ({**VLLM, **RAY, "rollout.device": "cuda"}, "needs a GPU in each process on Ray, but ray.engine_gpus is 0; set that to 1"),
        ({**RAY, **GPU}, "policy.device cuda needs a GPU in each process on Ray, but ray.learner_gpus is 0"),
        ({**RAY, "policy.device": "cuda:1", "ray.learner_gpus": "1"}, "names a GPU, and on Ray each process is given its own; set it"),
        ({**RAY, "ray.learner_gpus": "1"}, "ray.learner_gpus 1 would idle with policy.device cpu; set policy.device to cuda"),
        (
            {**VLLM, **RAY, "rollout.device": "cuda", "ray.engine_gpus": "1", "rollout.vllm.tensor_parallel": "2"},
            "takes as many GPUs in each engine worker, but ray.engine_gpus is 1; set both to the same number",
        ),
        (
            {**VLLM, **RAY, "rollout.device": "cuda", "ray.engine_gpus": "1", "rollout.vllm.sleep": "true", "run.mode": "async",
             "rollout.schedule": "continuous"},
            "stops the engine while the run learns, and run.mode async samples meanwhile",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("household", None, settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_the_engine_follows_the_policy_unless_it_is_told_otherwise() -> None:
    assert load_config("household", None, GPU).rollout_device == "cuda"
    assert load_config("household", None, {**GPU, **VLLM, "rollout.device": "cuda:1"}).rollout_device == "cuda:1"
    assert load_config("household", None, {**VLLM, "rollout.device": "auto", "rollout.vllm.tensor_parallel": "2"}).policy.device == "cpu"


def test_processes_are_dealt_over_the_gpus_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [str(device_of("policy.device", "cuda", place)) for place in range(3)]
    assert found == ["cuda:0", "cuda:1", "cuda:0"] and device_of("policy.device", "auto", 1).index == 1
    assert str(device_of("policy.device", "cuda:1", 0)) == "cuda:1" and str(device_of("policy.device", "cpu", 1)) == "cpu"
    with pytest.raises(ConfigError, match=r"rollout.device cuda:2 is not there: this machine's GPUs are cuda:0 to cuda:1; name one"):
        device_of("rollout.device", "cuda:2")


def test_a_gpu_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(device_of("policy.device", "auto")) == "cpu"
    with pytest.raises(ConfigError, match=r"policy.device cuda needs a GPU, and PyTorch .*; set policy.device to cpu, or to auto"):
        device_of("policy.device", "cuda")
