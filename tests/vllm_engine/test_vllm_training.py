"""Runs whose engine is vLLM: what was sampled has the probabilities that the learner gives it, after every update of its weights."""

from pathlib import Path

import numpy as np
import pytest
from vllm_runs import TOLERANCE, largest_difference, run, sampled, trees, weights

from agents.policy_folder import load_policy
from trainer.metrics import read_metrics
from trainer.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("taught_cache")


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
