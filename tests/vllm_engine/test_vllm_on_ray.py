"""On Ray, engine workers hold vLLM: the run is the local one, and in mode async each turn is sampled with the weights that it names."""

from pathlib import Path

import numpy as np
import pytest
from vllm_runs import TOLERANCE, difference_of_turn, run, sampled, trees, weights

from trainer.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("taught_cache")


def test_on_ray_vllm_samples_the_same_run(finished: RunFolder, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", run__backend="ray")
    assert sampled(folder) == sampled(finished)
    assert np.array_equal(weights(folder), weights(finished))


def test_what_samples_without_end_takes_up_new_weights(finished: RunFolder, tmp_path: Path) -> None:
    changes = {"run__backend": "ray", "run__mode": "async", "rollout__schedule": "continuous", "run__workers": 1, "run__shards": 1}
    folder = run(tmp_path / "run", **changes, run__iterations=3)
    grown = [tree for number in (1, 2, 3) for tree in trees(folder, number)]
    assert {turn.policy_version for tree in grown for turn in tree.turns} > {0}
    for tree in grown:
        for index in range(len(tree.turns)):
            assert difference_of_turn(folder, tree, index) < TOLERANCE
