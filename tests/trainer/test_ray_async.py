"""Mode async on a real cluster: rollouts live through updates, and what dies or stops loses nothing that was acknowledged."""

import signal
from pathlib import Path
from typing import Any

import pytest
from ray_world import PATIENCE_S, on
from run_process import Mishap, command
from words_world import command_of, metrics, run, weights

from trainer.checkpoint import CheckpointSeries
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace

pytestmark = [pytest.mark.usefixtures("no_curves", "finished"), pytest.mark.slow]
ASYNC = {"run.mode": "async", "rollout.schedule": "continuous", "run.iterations": 4, "evaluation.every": 10}


def trees_of(folder: RunFolder) -> list[tuple[int, int]]:
    """Iteration and task of every recorded tree."""
    with Trace.open(folder.trace, readonly=True) as trace:
        return [(summary.iteration, summary.seed) for summary in trace.trees()]


def test_trees_are_carried_over_updates(cluster: Any, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {**ASYNC, **on(cluster.address), "ray.env_workers": 1, "run.max_staleness": 2})
    records = metrics(folder)
    assert [record["trees"] for record in records] == [3] * 4
    assert max(record["staleness_max"] for record in records) in (1.0, 2.0)
    assert sum(record["dropped_trees"] + record["begun_again_trees"] for record in records) == 0
    assert len({seed for _, seed in trees_of(folder)}) == 12
    state = CheckpointSeries(folder.checkpoints).newest()
    assert state is not None and len(state.state["queue"]) == 9, "three batches are on their way when the run ends"


@pytest.mark.parametrize("what", ["kill", "kill an engine worker"])
def test_a_death_loses_no_tree_and_teaches_none_twice(what: str, cluster: Any, tmp_path: Path) -> None:
    """The coordinator dies once its third iteration's trees are recorded; an engine worker while the second ones are wanted."""
    changes = {name.replace(".", "__"): value for name, value in {**ASYNC, **on(cluster.address)}.items()}
    place = ("trainer.iteration:Trainer._learn", 3) if what == "kill" else ("trainer.async_trainer:AsyncTrainer._sample", 2)
    ended = command(command_of(tmp_path / "run", **changes), Mishap(*place, what), PATIENCE_S)
    folder = RunFolder(tmp_path / "run")
    if what == "kill":
        assert ended.code == -signal.SIGKILL
        acknowledged = trees_of(folder)
        assert [iteration for iteration, _ in acknowledged] == [1] * 3 + [2] * 3 + [3] * 3
        run(tmp_path / "run", {**ASYNC, **on(cluster.address)}, resume=True)
        assert trees_of(folder)[:9] == acknowledged
    else:
        assert (ended.code, ended.err) == (0, "")
        assert sum(record["restarts"] for record in metrics(folder)) == 1
    seeds = [seed for _, seed in trees_of(folder)]
    assert len(set(seeds)) == len(seeds) == 12
    assert len(metrics(folder)) == 4 and weights(folder)
