"""Very small runs whose engine is vLLM, and how far what they sampled is from what their learner would have sampled."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from vllm_world import truth

from agents.policy_folder import load_policy
from trainer.checkpoint import CheckpointSeries
from trainer.load_config import load_config
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


def difference_of_turn(folder: RunFolder, tree: TrajectoryTree, index: int) -> float:
    """Between a turn's recorded log-probabilities and those of the policy whose version it names; in nats."""
    turn = tree.turns[index]
    model, _ = load_policy(folder.policy(turn.policy_version))
    ids_T = np.concatenate([tree.turns[above].ids_T for above in tree.path(index)])
    count = min(len(turn.ids_T), len(ids_T) - 1)
    logprobs_TV, _ = truth(model, ids_T, count)
    exact_T = logprobs_TV[np.arange(count), ids_T[-count:]]
    return float(np.abs(exact_T - turn.logprobs_T[-count:])[turn.mask_T[-count:]].max(initial=0.0))
