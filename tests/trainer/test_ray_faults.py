"""Whole runs on a cluster that lose a process, a node, memory or time: they go on, or stop with the cause and lose nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray_world import PATIENCE_S, backend_config, measured, on, opened
from run_process import Mishap, command
from words_world import assert_same_run, command_of, metrics, run, trees, weights

from trainer.errors import ClusterError
from trainer.run_folder import RunFolder

pytestmark = [pytest.mark.usefixtures("no_curves"), pytest.mark.slow]
STOPPED = "branchwise: stopped by Ctrl-C; everything so far is on disk, and the same command with --resume goes on\n"


def line_of(cluster: Any, folder: Path, **changes: Any) -> list[str]:
    """The command line of a tiny run on the cluster."""
    return command_of(folder, run__backend="ray", ray__address=cluster.address, **changes)


@pytest.mark.parametrize(
    ("mishap", "code", "words"),
    [
        (Mishap("trainer.iteration:Trainer._learn", 2, "kill"), -signal.SIGKILL, ""),
        (Mishap("trainer.iteration:Trainer._learn", 2, "kill the learner"), 2, "branchwise: learner 0 (process "),
        (Mishap("trainer.iteration:Trainer.advance", 1, "terminate"), 130, STOPPED),
    ],
    ids=["coordinator", "learner", "asked to stop"],
)
def test_a_run_that_stops_goes_on_as_if_nothing_had_been(
    mishap: Mishap, code: int, words: str, cluster: Any, finished: RunFolder, tmp_path: Path
) -> None:
    """It goes on in one process here, which is the same run."""
    ended = command(line_of(cluster, tmp_path / "run"), mishap, PATIENCE_S)
    assert ended.code == code
    assert ended.err.startswith(words) and ended.err.count("\n") == bool(words)
    assert "raylet" not in ended.out
    assert_same_run(finished, run(tmp_path / "run", resume=True))


def test_a_run_goes_on_with_another_engine_worker(cluster: Any, finished: RunFolder, tmp_path: Path) -> None:
    ended = command(line_of(cluster, tmp_path / "run"), Mishap("trainer.iteration:Trainer._round", 2, "kill an engine worker"), PATIENCE_S)
    assert (ended.code, ended.err) == (0, "")
    assert "raylet" not in ended.out
    folder = RunFolder(tmp_path / "run")
    assert trees(folder) == trees(finished) and weights(folder) == weights(finished)
    assert [record["restarts"] for record in metrics(folder)] == [0, 1]


def test_a_node_that_leaves_is_replaced_by_another_or_told(cluster: Any, finished: RunFolder, tmp_path: Path) -> None:
    """Engine workers ask for what only certain nodes have."""
    changes = {"run.workers": 1, "rollout.device": "auto", "ray.engine_gpus": 1.0, "ray.start_deadline_s": 5.0}
    first = cluster.add_node(num_cpus=1, num_gpus=1)
    with opened(finished.policy(0), tmp_path, {**on(cluster.address), **changes}) as backend:
        config = backend_config(tmp_path, {})
        before = measured(backend, config)
        second = cluster.add_node(num_cpus=1, num_gpus=1)
        cluster.remove_node(first, allow_graceful=False)
        assert measured(backend, config) == before
        assert backend.restarts == 1
        cluster.remove_node(second, allow_graceful=False)
        with pytest.raises(ClusterError, match=r"no room for engine worker 0 within 5 s .*since a node left; add one"):
            measured(backend, config)


FULL = """
import sys
from pathlib import Path
from words_world import config_of
from trainer.errors import ClusterError
from trainer.ray_backend.cluster import connected
from trainer.ray_backend.policy_files import PolicyFiles

folder = Path(sys.argv[1])
with connected(config_of(folder, {"run.backend": "ray", "run.workers": 1, "ray.object_store_bytes": 80_000_000})):
    try:
        PolicyFiles.of(folder)
    except ClusterError as error:
        print(error)
"""


def test_a_full_object_store_is_one_sentence(tmp_path: Path) -> None:
    """Ray moves to the disk what does not fit; only where that is full too, nothing goes on."""
    for number in range(4):
        (tmp_path / f"part{number}").write_bytes(bytes(60_000_000))
    path = os.pathsep.join(sys.path)
    full_disk = {"RAY_local_fs_capacity_threshold": "0.0001", "RAY_AUTH_MODE": "disabled"}
    for more, words in (({"RAY_AUTH_MODE": "disabled"}, ""), (full_disk, "is full; raise ray.object_store_bytes")):
        environment = {**os.environ, "PYTHONPATH": path, **more}
        ended = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert words in ended.stdout and bool(ended.stdout) == bool(words)


def test_a_grace_period_ends_the_wait_for_the_iteration(finished: RunFolder, tmp_path: Path) -> None:
    """On one machine: the signal comes when an iteration begins that takes longer than the grace."""
    line = command_of(tmp_path / "run", run__grace_s=0.001)
    ended = command(line, Mishap("trainer.iteration:Trainer._learn", 2, "terminate"))
    assert (ended.code, ended.err) == (130, STOPPED)
    assert len(metrics(RunFolder(tmp_path / "run"))) == 1, "the second iteration was given up"
    assert_same_run(finished, run(tmp_path / "run", resume=True))
