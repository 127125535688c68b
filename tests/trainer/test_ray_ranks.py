"""Runs whose learners share the policy: what they learn is what one process learns, and none waits for one that died."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_world import on, opened
from words_world import run

from trainer.checkpoint import CheckpointSeries
from trainer.errors import WorkerError
from trainer.mini_batch import Share
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace

pytestmark = [pytest.mark.usefixtures("no_curves"), pytest.mark.slow]
SHARDED = {"run.workers": 1, "ray.learners": 2, "optimizer.sharding": "fsdp"}


def tensors(folder: RunFolder) -> dict[str, Any]:
    checkpoint = CheckpointSeries(folder.checkpoints).newest()
    assert checkpoint is not None
    return {name: tensor.numpy() for name, tensor in checkpoint.tensors.items()}


def sampled(folder: RunFolder) -> list[bytes]:
    """All tokens of both iterations; their log-probabilities differ by rounding."""
    with Trace.open(folder.trace, readonly=True) as trace:
        summaries = [summary for iteration in (1, 2) for summary in trace.trees(iteration)]
        return [turn.ids_T.tobytes() for summary in summaries for turn in trace.tree(summary.id).turns]


def test_a_run_with_two_ranks_learns_what_one_process_learns_and_goes_on_without_them(
    cluster: Any, finished: RunFolder, tmp_path: Path
) -> None:
    """The first iteration's learners share the policy, the second one's are one process; and the other way round."""
    for first, second in ((on(cluster.address, **SHARDED), {}), ({}, on(cluster.address, **SHARDED))):
        out = tmp_path / f"to {len(second)}"
        run(out, {**first, "run.iterations": 1})
        folder = run(out, {**second, "run.iterations": 2}, resume=True)
        assert sampled(folder) == sampled(finished)
        expected, learned = tensors(finished), tensors(folder)
        assert expected.keys() == learned.keys()
        for name, tensor in expected.items():
            np.testing.assert_allclose(learned[name], tensor, rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_rank_that_dies_ends_the_run_with_one_sentence(cluster: Any, finished: RunFolder, tmp_path: Path) -> None:
    """The other one would wait for it in the middle of its work."""
    with opened(finished.policy(0), tmp_path, on(cluster.address, **SHARDED)) as backend:
        slot = backend.learning.slots[1]
        assert slot.facts is not None
        os.kill(slot.facts.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=rf"^learner 1 \(process {slot.facts.pid} on .*\) was killed or ended without a word"):
            backend.learning.call("learn", [(Share(),)] * 4)
            backend.learner.step(1, 1.0)
