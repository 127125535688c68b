"""Runs on a real cluster of two nodes: what they compute is what one process computes."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayError
from ray_world import backend_config, measured, on, opened
from words_world import assert_same_run, run

from trainer.errors import ClusterError, WorkerError
from trainer.ray_backend.arrays import pack, unpack
from trainer.ray_backend.cluster import bundles, connected, engine_count
from trainer.ray_backend.policy_files import PolicyFiles
from trainer.ray_backend.slot import Restarts
from trainer.ray_backend.worker_facts import death
from trainer.run_folder import RunFolder
from trainer.shard_pool import workers

pytestmark = [pytest.mark.usefixtures("no_curves"), pytest.mark.slow]
FOUR = {"run.shards": 4, "rollout.tasks": 5}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, _start_policies: Path) -> RunFolder:
    """A run of four shards in one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(_start_policies))
        patch.setattr("trainer.run.learning_curve", lambda points, path, **options: path.write_bytes(b"a curve"))
        return run(tmp_path_factory.mktemp("local") / "run", FOUR)


def test_nobody_at_the_address_is_one_sentence(finished: RunFolder, tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"nobody answers at ray\.address 127\.0\.0\.1:1 "),
        opened(finished.policy(0), tmp_path, {"run.backend": "ray", "ray.address": "127.0.0.1:1"}),
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
        with opened(local.policy(0), tmp_path_factory.mktemp("backend"), changes) as backend:
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


def test_an_environment_that_hangs_ends_its_rollout_and_its_worker_is_replaced(backend: Any, tmp_path: Path) -> None:
    before, restarts = measured(backend, backend_config(tmp_path, {})), backend.restarts
    outcomes = [outcome for part in measured(backend, backend_config(tmp_path, {"env.kwargs.fault": "hang"})) for outcome in part]
    reasons = {str(outcome.stop_reason) for outcome in outcomes}
    assert "step_timeout" in reasons
    assert restarts < backend.restarts <= restarts + 2, "nothing was done again for it"
    assert measured(backend, backend_config(tmp_path, {})) == before


def test_more_deaths_than_allowed_end_the_run(backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.crew, "restarts", Restarts(0))
    os.kill(backend.crew.engines[0].facts.pid, signal.SIGKILL)
    words = r"engine worker 0 \(process \d+ on .*\) was killed or ended without a word .* ray\.restarts 0 allows no more"
    with pytest.raises(WorkerError, match=words):
        measured(backend, backend_config(tmp_path, {}))
    monkeypatch.undo()
    assert measured(backend, backend_config(tmp_path, {})), "here the next call finds the death again, and may replace the worker"


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


def test_a_request_that_cannot_be_met_is_one_sentence(cluster: Any, local: RunFolder, tmp_path: Path) -> None:
    changes = {**on(cluster.address), "run.workers": 2, "ray.engine_cpus": 50.0, "ray.start_deadline_s": 1.0}
    with (
        pytest.raises(ClusterError, match=r"2 engine workers of 50 CPU.*together 101 CPU.*it has 2 nodes with 8 CPU; 8 CPU"),
        opened(local.policy(0), tmp_path, changes),
    ):
        raise AssertionError


def test_the_death_of_a_learner_is_told_with_its_last_lines(backend: Any) -> None:
    slot = backend.learning.slots[1]
    os.kill(slot.facts.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=rf"learner 1 \(process {slot.facts.pid} on .*\) was killed or ended without a word"):
        backend.learning.call("ready", [()] * 4)


def test_what_ray_says_of_a_death_becomes_a_cause() -> None:
    causes = {
        "Worker exits unexpectedly. Worker exits with an exit code 3.": "ended with exit code 3",
        "Worker unexpectedly exits with a connection error code 2. End of file.": "was killed or ended without a word (out of memory",
        "killed by the memory monitor": "was ended by Ray because its node ran out of memory",
    }
    for said, words in causes.items():
        assert words in str(death("a worker", None, RayError(said)))


def test_a_ray_that_does_not_start_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**options: Any) -> None:
        raise Exception("The current node timed out during startup.\nMore lines.")

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with (
        pytest.raises(ClusterError, match=r"Ray cannot be had on this machine: The current node timed out during startup\.$"),
        connected(backend_config(tmp_path, {"run.backend": "ray"})),
    ):
        raise AssertionError


def test_workers_of_a_cluster_are_not_started_on_the_coordinators_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    config = backend_config(tmp_path, {"run.backend": "ray", "run.workers": 4})
    assert (workers(config), engine_count(config)) == (2, 4)


def test_every_request_is_named(tmp_path: Path) -> None:
    asked = {"ray.learners": 2, "ray.learner_cpus": 3.0, "ray.learner_gpus": 1.0, "ray.env_workers": 1, "ray.env_cpus": 0.5}
    config = backend_config(tmp_path, {"run.backend": "ray", "ray.engine_gpus": 0.25, "policy.device": "cuda", **asked})
    assert bundles(config, 1) == [{"CPU": 3.0, "GPU": 1.0}] * 2 + [{"CPU": 1.0, "GPU": 0.25}, {"CPU": 0.5}]
