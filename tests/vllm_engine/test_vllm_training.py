"""Runs whose engine is vLLM: what was sampled has the probabilities that the learner gives it, after every update of its weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from vllm_world import truth

from agents.policy_folder import load_policy
from trainer.checkpoint import CheckpointSeries
from trainer.load_config import load_config
from trainer.metrics import read_metrics
from trainer.run import train
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree

TOLERANCE = 1e-3
SETTINGS = {
    "rollout.engine": "vllm",
    "env.max_turns": 4,
    "policy.layers": 1,
    "policy.hidden": 64,
    "policy.heads": 2,
    "policy.kv_heads": 2,
    "policy.intermediate": 64,
    "policy.max_length": 512,
    "warmstart.episodes": 20,
    "warmstart.steps": 10,
    "rollout.tasks": 2,
    "rollout.roots": 2,
    "rollout.forks": 2,
    "rollout.max_new_tokens": 8,
    "optimizer.lr": 0.02,
    "optimizer.warmup_iterations": 0,
    "optimizer.mini_batches": 1,
    "evaluation.tasks": 2,
    "run.shards": 2,
    "run.workers": 1,
    "run.iterations": 2,
    "run.checkpoint_every": 1,
    "run.keep_checkpoints": 9,
}


def run(out: Path, *, resume: bool = False, **changes: Any) -> RunFolder:
    """A very small run on household; a keyword such as `run__seed` changes the setting `run.seed`."""
    given = {**SETTINGS, "run.out": out, **{name.replace("__", "."): value for name, value in changes.items()}}
    config = load_config("household", None, {name: str(value) for name, value in given.items() if value is not None})
    return RunFolder(train(config, resume=resume, console=Console(quiet=True)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return run(tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(autouse=True)
def own_cache(finished: RunFolder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start policy is made once."""
    monkeypatch.setenv("BRANCHWISE_CACHE", str(next(tmp_path_factory.getbasetemp().glob("cache*"))))


def trees(folder: RunFolder, iteration: int) -> list[TrajectoryTree]:
    with Trace.open(folder.trace, readonly=True) as trace:
        return [trace.tree(summary.id) for summary in trace.trees(iteration)]


def sampled(folder: RunFolder) -> list[bytes]:
    """Everything that was sampled, with its probabilities."""
    return [turn.ids_T.tobytes() + turn.logprobs_T.tobytes() for n in (1, 2) for tree in trees(folder, n) for turn in tree.turns]


def weights(folder: RunFolder) -> np.ndarray:
    checkpoint = CheckpointSeries(folder.checkpoints).newest()
    assert checkpoint is not None
    return checkpoint.tensors["weights"].numpy()


def largest_difference(folder: RunFolder, iteration: int) -> float:
    """Between the recorded log-probabilities of an iteration and those of the policy that it sampled with; in nats."""
    model, _ = load_policy(folder.policy(iteration - 1))
    differences = []
    for tree in trees(folder, iteration):
        for leaf in tree.leaves():
            turns = [tree.turns[index] for index in tree.path(leaf)]
            ids_T, mask_T, said_T = (np.concatenate([getattr(turn, name) for turn in turns]) for name in ("ids_T", "mask_T", "logprobs_T"))
            logprobs_TV, _ = truth(model, ids_T, len(ids_T) - 1)
            exact_T = logprobs_TV[np.arange(len(ids_T) - 1), ids_T[1:]]
            differences.append(np.abs(exact_T - said_T[1:])[mask_T[1:]].max())
    return max(differences)


def test_a_run_samples_with_vllm_what_its_learner_would(finished: RunFolder) -> None:
    records = read_metrics(finished.metrics)
    assert [record["iteration"] for record in records] == [1, 2]
    for record in records:
        assert 0 <= record["train_success"] <= 1
        assert abs(record["first_max_ratio"] - 1) < TOLERANCE, "before its first step the learner is the policy that sampled"
    assert {"eval_sampled", "eval_greedy"} <= records[-1].keys()
    before, after = (load_policy(finished.policy(n))[0].state_dict() for n in (0, 1))
    assert max(float((after[name] - before[name]).abs().max()) for name in before) > 0.01, "an update that nobody could miss"
    assert largest_difference(finished, 1) < TOLERANCE and largest_difference(finished, 2) < TOLERANCE


def test_the_same_seed_gives_the_same_run_and_a_resumed_one_too(finished: RunFolder, tmp_path: Path) -> None:
    run(tmp_path / "run", run__iterations=1)
    folder = run(tmp_path / "run", resume=True)
    assert sampled(folder) == sampled(finished)
    assert np.array_equal(weights(folder), weights(finished))


def test_each_of_two_processes_samples_what_its_learner_would(finished: RunFolder, tmp_path: Path) -> None:
    """To the last bit of the same numbers only where vLLM has as many threads in each."""
    folder = run(tmp_path / "run", run__workers=2)
    assert [len(trees(folder, n)) for n in (1, 2)] == [len(trees(finished, n)) for n in (1, 2)]
    assert largest_difference(folder, 1) < TOLERANCE and largest_difference(folder, 2) < TOLERANCE


def test_adapters_are_served_merged(finished: RunFolder, tmp_path: Path) -> None:
    sizes = {f"policy__{name}": None for name in ("layers", "hidden", "heads", "kv_heads", "intermediate")}
    folder = run(tmp_path / "run", **sizes, policy__path=finished.policy(2), policy__lora__rank=4, warmstart__lr_muon="null")
    assert (folder.policy(1) / "adapter").is_dir()
    assert largest_difference(folder, 1) < TOLERANCE and largest_difference(folder, 2) < TOLERANCE
