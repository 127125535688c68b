"""On Ray, engine workers hold vLLM: what is sampled has the probabilities that the learner gives it, also where weights change."""

from pathlib import Path

import pytest
from vllm_runs import TOLERANCE, difference_of_turn, largest_difference, run, trees

from trainer.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("taught_cache")


def test_engine_workers_sample_what_the_learner_would(finished: RunFolder, tmp_path: Path) -> None:
    """The local run, but for rounding where vLLM has other threads."""
    folder = run(tmp_path / "run", run__backend="ray")
    for n in (1, 2):
        assert [tree.seed for tree in trees(folder, n)] == [tree.seed for tree in trees(finished, n)]
        assert largest_difference(folder, n) < TOLERANCE


def test_what_samples_without_end_takes_up_new_weights(finished: RunFolder, tmp_path: Path) -> None:
    changes = {"run__backend": "ray", "run__mode": "async", "rollout__schedule": "continuous", "run__workers": 1, "run__shards": 1}
    folder = run(tmp_path / "run", **changes, run__iterations=3)
    grown = [tree for number in (1, 2, 3) for tree in trees(folder, number)]
    assert {turn.policy_version for tree in grown for turn in tree.turns} > {0}
    for tree in grown:
        for index in range(len(tree.turns)):
            assert difference_of_turn(folder, tree, index) < TOLERANCE
