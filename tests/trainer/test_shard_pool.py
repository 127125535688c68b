"""With processes; the work is done by `EchoShard`, which needs no model."""

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from words_world import config_of

import trainer.shard_pool
from trainer.errors import CheckpointError, WorkerError
from trainer.shard_pool import ShardPool, workers
from trainer.shard_spec import ShardSpec


class AwkwardError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


class EchoShard:
    def __init__(self, shard: int) -> None:
        self.shard = shard

    def double(self, value: Any) -> tuple[int, int, Any]:
        return self.shard, os.getpid(), value * 2

    def fail(self, kind: str) -> None:
        if kind == "ours":
            raise CheckpointError(f"shard {self.shard} has no checkpoint")
        if kind == "awkward":
            raise AwkwardError("one", str(self.shard))
        if kind == "exit":
            os.write(2, b"first line\nlast line\n")
            os._exit(3)
        time.sleep(1000)


def build_echo(spec: ShardSpec, shards: Any, place: int) -> dict[int, EchoShard]:
    return {shard: EchoShard(shard) for shard in shards}


def serve_echo(*arguments: Any) -> None:
    trainer.shard_pool._build = build_echo
    serve(*arguments)


serve = trainer.shard_pool._serve


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Five shards in two processes."""
    monkeypatch.setattr(trainer.shard_pool, "_serve", serve_echo)
    multiprocessing.get_context("forkserver").set_forkserver_preload(["trainer.run"])
    config = config_of(tmp_path, {"run.shards": 5, "rollout.tasks": 5, "run.workers": 2})
    with ShardPool(ShardSpec(config, tmp_path, tmp_path, tmp_path / "p"), workers(config)) as pool:
        yield pool


def test_results_stand_in_the_order_of_shards(pool: ShardPool) -> None:
    answers = pool.call("double", [(shard,) for shard in range(5)])
    assert [(shard, value) for shard, _, value in answers] == [(shard, 2 * shard) for shard in range(5)]
    assert len({process for _, process, _ in answers}) == 2
    assert os.getpid() not in {process for _, process, _ in answers}


def test_large_messages_do_not_wait_for_each_other(pool: ShardPool) -> None:
    """Both ways, and several for one process: more than any pipe holds."""
    large = b"x" * 3_000_000
    answers = pool.call("double", [(large,)] * 5)
    assert [len(value) for _, _, value in answers] == [6_000_000] * 5


def test_what_a_shard_raises_is_raised_here(pool: ShardPool) -> None:
    with pytest.raises(CheckpointError, match="shard 0 has no checkpoint") as caught:
        pool.call("fail", [("ours",)] * 5)
    assert "in fail" in "".join(caught.value.__notes__), "the place in the process is told"
    with pytest.raises(RuntimeError, match="AwkwardError: one 0"):
        pool.call("fail", [("awkward",)] * 5)
    assert len(pool.call("double", [(1,)] * 5)) == 5, "the processes go on"


def test_a_process_that_ends_is_an_error_at_once(pool: ShardPool) -> None:
    """Although the other one would take for ever."""
    started = time.monotonic()
    with pytest.raises(WorkerError, match=r"the process of shards 1, 3 ended with exit code 3; its last lines: first line \| last line"):
        pool.call("fail", [("sleep",), ("exit",), ("sleep",), ("sleep",), ("sleep",)])
    processes = [psutil.Process(worker.process.pid) for worker in pool._workers if worker.process.is_alive()]
    pool.close(0.1)
    assert time.monotonic() - started < 60
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_closing_twice_is_fine(pool: ShardPool) -> None:
    pool.close()
    pool.close()


def test_how_many_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for shards, chosen, expected in ((5, "auto", 3), (2, "auto", 2), (5, 4, 4), (1, "auto", 1)):
        config = config_of(tmp_path, {"run.shards": shards, "rollout.tasks": 5, "run.workers": chosen})
        assert workers(config) == expected
