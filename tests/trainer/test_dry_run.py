"""`branchwise train --dry-run`: what it says, where it puts processes, and what it names where a run does not fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from words_world import config_of

from trainer.cli import main
from trainer.config import Config
from trainer.dry_run.device import GIB, Device
from trainer.dry_run.estimate import Estimate, estimate
from trainer.dry_run.machine import Machine, machine
from trainer.dry_run.placement import Place, on_ray, on_this_machine
from trainer.dry_run.process import Process, processes
from trainer.dry_run.remedy import remedy
from trainer.dry_run.report import verdict
from trainer.errors import ConfigError
from trainer.load_config import load_config, models

BIG = Machine(gpu=80 * GIB, gpus=8, memory=64 * GIB, detected=False, named=True)
QWEN = ["qwen2.5-1.5b", "qwen2.5-1.5b-lora", "qwen2.5-7b-8gpu", "qwen2.5-7b-8gpu-full", "qwen2.5-7b-lora"]


def on_gpu(path: Path, **changes: Any) -> Config:
    """A tiny configuration whose learner is on a GPU."""
    return config_of(path, {"policy.device": "cuda", "run.workers": 1, "run.shards": 1, **changes})


def asking(*gpus: float) -> list[Process]:
    return [Process(f"process {number}", {"CPU": 1.0, "GPU": share} if share else {"CPU": 1.0}) for number, share in enumerate(gpus)]


def where(places: list[Place]) -> list[tuple[int, tuple[int, ...]]]:
    return [(place.node, place.gpus) for place in places]


def test_a_run_that_fits_is_told_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "household", "--out", str(tmp_path / "run"), "--run.shards", "1", "--dry-run"]) == 0
    said = capsys.readouterr().out
    for part in ("trained weights", "optimizer state", "activations", "KV cache", "together", "the run", "micro-batches", "fits: memory"):
        assert part in said
    assert not (tmp_path / "run").exists()


def test_programs_get_the_same_in_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "household", "--out", str(tmp_path / "run"), "--run.shards", "1", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (memory,) = told["devices"]
    assert memory["held"] == sum(part["size"] for part in memory["parts"])
    assert told["fits"] and told["change"] is None and told["verdict"].startswith("fits: memory holds ")
    assert told["iteration"]["rollouts"] == 24 * 6 and told["iteration"]["optimizer_steps"] == 2
    assert told["policy"]["trained"] == told["policy"]["parameters"]
    assert told["micro_batch"]["recomputed"]["peak"] < told["micro_batch"]["kept"]["peak"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "--json has no effect without --dry-run"),
        (["--gpu-memory", "24"], "--gpu-memory has no effect without --dry-run"),
        (["--gpus-per-node", "4"], "--gpus-per-node has no effect without --dry-run"),
        (["--dry-run", "--resume"], "--dry-run starts nothing"),
        (["--dry-run", "--gpu-memory", "none"], "'none' is no number of GiB above 0"),
        (["--dry-run", "--policy.path", "models/nothing"], "none is called 'nothing', choose one of Llama-3.2-1B-Instruct"),
        (["--dry-run", "--policy.path", "x/Qwen2.5-7B"], "none is called 'Qwen2.5-7B', did you mean"),
        (["--dry-run", "--model", "gpt"], "choose one of qwen2.5-1.5b, qwen2.5-1.5b-lora"),
        (["--dry-run", "--rollout.roots", "1", "--rollout.forks", "0", "--rollout.branching.rule", "none"], "nothing to be compared with"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "household", *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


@pytest.mark.parametrize("name", QWEN)
def test_packaged_large_models_are_valid_and_known_by_their_folder(name: str) -> None:
    from trainer.dry_run.architecture import architecture_of

    assert name in models()
    config = load_config("household", model=name)
    told = architecture_of(config)
    assert told.tokenizer is None and told.lacking is not None
    assert f"hf download Qwen/{Path(str(config.policy.path)).name} --local-dir {config.policy.path}" in told.lacking


def test_eight_gpus_are_four_learners_and_four_engines() -> None:
    config = load_config("household", model="qwen2.5-7b-8gpu")
    places = on_ray(processes(config), 8, config.ray.strategy)
    gpus = {place.process.name: place.gpus for place in places}
    assert [gpus[f"learner {rank}"] for rank in range(4)] == [(0,), (1,), (2,), (3,)]
    assert [gpus[f"engine worker {engine}"] for engine in range(4)] == [(4,), (5,), (6,), (7,)]
    assert gpus["coordinator"] == () and {place.node for place in places} == {0}


def test_processes_are_placed_as_ray_can() -> None:
    assert where(on_ray(asking(0.5, 0.5, 1, 0), 2, "PACK")) == [(0, (0,)), (0, (0,)), (0, (1,)), (0, ())]
    assert where(on_ray(asking(2, 1, 2), 2, "PACK")) == [(0, (0, 1)), (1, (0,)), (2, (0, 1))]
    assert where(on_ray(asking(1, 1), 1, "SPREAD")) == [(0, (0,)), (1, (0,))]
    assert where(on_ray(asking(0.25, 0.25), 1, "STRICT_SPREAD")) == [(0, (0,)), (1, (0,))]
    with pytest.raises(ConfigError, match="STRICT_PACK keeps all processes on one node, whose 1 GPUs have no room for process 1"):
        on_ray(asking(1, 1), 1, "STRICT_PACK")
    with pytest.raises(ConfigError, match="process 0 asks for 4 GPUs, and a node has 2"):
        on_ray(asking(4), 2, "PACK")


def test_processes_of_one_machine_are_dealt_over_its_gpus() -> None:
    some = [Process("coordinator", {}, steps=True), *(Process(f"worker {index}", {}, 1) for index in range(3))]
    assert where(on_this_machine(some, 2)) == [(0, (0,)), (0, (0,)), (0, (1,)), (0, (0,))]
    assert where(on_this_machine(some, 4, index=3)) == [(0, (3,))] * 4
    assert where(on_this_machine(some[:2], 4, width=2)) == [(0, (0, 1)), (0, (0, 1))]
    assert where(on_this_machine(some[:1], 0)) == [(0, ())]


def gpu(told: Estimate) -> Device:
    (device,) = [device for device in told.devices if "GPU" in device.name]
    return device


def test_every_part_is_on_the_device_that_holds_it(tmp_path: Path) -> None:
    told = estimate(on_gpu(tmp_path), BIG)
    held, sums = told.resident, gpu(told).sums()
    assert sums["trained weights"] == held.weights and sums["gradients"] == held.gradient
    assert sums["optimizer state"] == held.optimizer and sums["activations"] == told.kept.peak
    assert sums["KV cache"] == told.room.cache
    memory = next(device for device in told.devices if device.name == "memory")
    assert memory.sums()["gradients"] == held.gradient and "activations" not in memory.sums()
    assert memory.capacity is None and gpu(told).capacity == 80 * GIB, "a machine that is not here has a memory that is not known"


def test_where_it_does_not_fit_the_setting_that_helps_is_named(tmp_path: Path) -> None:
    config = on_gpu(tmp_path, **{"optimizer.micro_batch_tokens": 100})
    told = estimate(config, BIG)
    small = replace(BIG, gpu=gpu(told).held - (told.kept.peak - told.recomputed.peak) // 2)
    refused = estimate(config, small)
    assert not refused.fits
    change = remedy(refused, small)
    assert change is not None and change.settings == {"optimizer.gradient_checkpointing": True}
    assert "it fits with --optimizer.gradient_checkpointing true" in verdict(refused, change)
    none = replace(BIG, gpu=GIB)
    assert remedy(estimate(config, none), none) is None
    assert "no setting that was tried is enough" in verdict(estimate(config, none), None)


def test_learners_that_share_the_policy_hold_a_part_each(tmp_path: Path) -> None:
    ray = {"run.backend": "ray", "ray.learners": 2, "ray.learner_gpus": 1.0, "ray.engine_gpus": 1.0}
    both = {"policy.device": "cuda", "run.shards": 2, "run.workers": 1, **ray}
    whole = estimate(config_of(tmp_path, both), BIG)
    parted = estimate(config_of(tmp_path, {**both, "optimizer.sharding": "fsdp"}), BIG)
    held = parted.resident
    first, second = (device for device in parted.devices if device.name in ("node 0 GPU 0", "node 0 GPU 1"))
    assert list(first.sums().values()) == list(second.sums().values()), "nobody owns the optimizer alone"
    assert first.sums()["optimizer state"] == -(-held.optimizer // 2)
    assert first.sums()["trained weights"] == first.sums()["gradients"] == -(-held.gradient // 2)
    assert first.sums()["gathered weights"] > 0
    owner = next(device for device in whole.devices if device.name == "node 0 GPU 0")
    assert owner.sums()["optimizer state"] == whole.resident.optimizer


def test_vllm_takes_its_share_and_needs_room_for_a_rollout(tmp_path: Path) -> None:
    sizes = {"policy.hidden": 64, "policy.heads": 2, "policy.kv_heads": 2}
    config = on_gpu(tmp_path, **sizes, **{"rollout.engine": "vllm", "rollout.vllm.gpu_memory_utilization": 0.5})
    told = estimate(config, BIG)
    assert told.vllm is not None and told.fits
    assert told.vllm.taken == pytest.approx(40 * GIB, rel=1e-6)
    assert told.vllm.tokens == told.vllm.cache // (told.room.bytes_per_token)
    starved = replace(BIG, gpu=2 * (told.vllm.weights + told.vllm.working))
    refused = estimate(config, starved)
    assert refused.vllm is not None and refused.vllm.rollouts == 0 and not refused.fits


def test_gpus_that_are_named_stand_in_for_those_that_are_not_here() -> None:
    assert machine(24, 2).gpu == 24 * GIB and machine(24, 2).gpus == 2
    assert machine(24).means_gpu("auto") and not machine(24).means_gpu("cpu") and machine().means_gpu("cuda:1")
