"""Runs on a real cluster of two nodes: what they compute is what one process computes."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ray_world import backend_config, measured, on, opened
from words_world import assert_same_run, run

from trainer.errors import ClusterError, WorkerError
from trainer.ray_backend.arrays import pack, unpack
from trainer.ray_backend.policy_files import PolicyFiles
from trainer.run_folder import RunFolder

pytestmark = [pytest.mark.usefixtures("no_curves"), pytest.mark.slow]
FOUR = {"run.shards": 4, "rollout.tasks": 5}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, _start_policies: Path) -> RunFolder:
    """A run of four shards in one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(_start_policies))
        patch.setattr("trainer.run.learning_curve", lambda points, path, **options: path.write_bytes(b"a curve"))
        return run(tmp_path_factory.mktemp("local") / "run", FOUR)


def test_nobody_at_the_address_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"nobody answers at ray\.address 127\.0\.0\.1:1 "),
        opened(tmp_path, {"run.backend": "ray", "ray.address": "127.0.0.1:1"}),
    ):
        raise AssertionError


@pytest.mark.parametrize(
    "processes",
    [
        {"run.workers": 1},
        {"run.workers": 2, "ray.env_workers": 2, "ray.strategy": "SPREAD"},
        {"run.workers": 4, "ray.learners": 2},
    ],
    ids=["one worker", "two workers and two environment workers", "four workers and two learners"],
)
def test_a_run_on_ray_is_the_same_run(processes: dict[str, Any], cluster: Any, local: RunFolder, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {**FOUR, **on(cluster.address), **processes})
    assert_same_run(local, folder)


@pytest.fixture(scope="module")
def backend(cluster: Any, local: RunFolder, tmp_path_factory: pytest.TempPathFactory, _start_policies: Path) -> Any:
    """Two engine workers, two environment workers and two learners; tests may kill the former."""
    changes = on(cluster.address) | {"run.workers": 2, "ray.env_workers": 2, "ray.learners": 2, "ray.strategy": "SPREAD", "ray.restarts": 9}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(_start_policies))
        with opened(tmp_path_factory.mktemp("backend"), changes) as backend:
            yield backend


def test_both_nodes_work(backend: Any) -> None:
    slots = [*backend.crew.engines, *backend.crew.envs, *backend.learning.slots]
    assert len({slot.facts.node for slot in slots}) == 2
    assert len({slot.facts.pid for slot in slots}) == 6


def test_an_engine_worker_refuses_weights_that_it_does_not_have(backend: Any) -> None:
    slot = backend.crew.engines[0]
    with pytest.raises(WorkerError, match="was asked for weights of version 7, and has those of version 0"):
        slot.get(slot.actor.call.remote(0, 7, "ready", ()))


def test_a_worker_that_dies_is_replaced_and_asked_again(backend: Any, tmp_path: Path) -> None:
    config = backend_config(tmp_path, {})
    before, restarts = measured(backend, config), backend.restarts
    for slot in (backend.crew.engines[1], backend.crew.envs[0]):
        gone = slot.facts.pid
        os.kill(gone, signal.SIGKILL)
        assert measured(backend, config) == before
        assert slot.facts.pid != gone
    assert backend.restarts == restarts + 2


def test_policy_files_reach_a_machine_that_lacks_them(
    backend: Any, local: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    source = local.policy(0)
    files = PolicyFiles.of(source)
    assert files.here() == source, "where the same files are, they are read there"
    elsewhere = PolicyFiles(tmp_path / "not here", files.digest, files.files)
    copied = elsewhere.here()
    assert copied != source and PolicyFiles.of(copied).digest == files.digest
    (copied / "config.json").write_text("{}")
    assert PolicyFiles.of(elsewhere.here()).digest == files.digest, "a damaged copy is made again"


def test_arrays_come_back_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    tensors = {"half": torch.randn(3, 4).bfloat16(), "step": torch.tensor(3.0), "ids": torch.arange(4)}
    back = unpack(pack(tensors))
    assert all(torch.equal(back[name], tensor) and back[name].dtype == tensor.dtype for name, tensor in tensors.items())


def test_a_request_that_cannot_be_met_is_one_sentence(cluster: Any, tmp_path: Path) -> None:
    changes = {**on(cluster.address), "run.workers": 2, "ray.engine_cpus": 50.0, "ray.start_deadline_s": 1.0}
    with (
        pytest.raises(ClusterError, match=r"2 engine workers of 50 CPU.*together 101 CPU.*it has 2 nodes with 8 CPU; 8 CPU"),
        opened(tmp_path, changes),
    ):
        raise AssertionError
