"""A summary says what a recorded tree amounts to without its texts and arrays; adding a fork later does not change its figures."""

from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tree_rollout.state_graph import count_merges
from tree_rollout.trace_codec import Row, decode_json, encode_json
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import path_returns
from tree_rollout.walk import depths


@dataclass(frozen=True, slots=True)
class TreeSummary:
    """One recorded tree. The figures from `turns` to `self_merges` are those of the tree as it was appended."""

    id: int
    """What `Trace.tree` takes."""
    iteration: int
    position: int
    """Place within the iteration."""
    env_id: str
    seed: int
    env_kwargs: dict[str, object]
    turns: int
    rollouts: int
    failed: int
    """Rollouts that do not count (`StopReason.counts`): they failed, or were stopped without an outcome."""
    successes: int
    """Rollouts that count and whose last turn solved the task."""
    failed_turns: int
    """Turns that no rollout that counts contains."""
    states: int
    """Different states in which a turn was taken."""
    merged_turns: int
    """Turns whose state another rollout of the tree was in as well; see `MergeReport`."""
    convergent_turns: int
    self_merges: int
    depth: int | None = None
    """Turns of the longest rollout; like the figures below, None only where an older trace is damaged."""
    branches: int | None = None
    """Turns at which the sampler forked."""
    sampled_tokens: int | None = None
    """Tokens that the policy sampled, a shared turn counted once."""
    return_min: float | None = None
    """Least sum of rewards of a rollout that counts; None where none does, or where a sum is no number."""
    return_max: float | None = None
    advantage_min: float | None = None
    """Least advantage of a turn; None where the tree was recorded without, or where one is no number."""
    advantage_max: float | None = None
    forks: int = 0
    """Chains added with `add_fork`."""
    fork_turns: int = 0
    raw_bytes: int = 0
    """Unpacked size of its texts and arrays, forks included."""

    @classmethod
    def of(cls, tree: TrajectoryTree, iteration: int, position: int, advantages_N: npt.NDArray[np.float64] | None = None) -> "TreeSummary":
        """The summary of a tree that has no id yet; `advantages_N` has one number per turn, shape (N,)."""
        leaves = tree.leaves()
        counted = [leaf for leaf in leaves if (reason := tree.turns[leaf].stop_reason) is None or reason.counts]
        merges = count_merges([tree])
        returns = _range(path_returns(tree)[counted])
        advantages = _range(np.zeros(0) if advantages_N is None else advantages_N)
        return cls(
            id=0,
            iteration=iteration,
            position=position,
            env_id=tree.env_id,
            seed=tree.seed,
            env_kwargs=tree.env_kwargs,
            turns=len(tree.turns),
            rollouts=len(leaves),
            failed=len(leaves) - len(counted),
            successes=sum(tree.turns[leaf].success for leaf in counted),
            failed_turns=merges.failed_turns,
            states=merges.states,
            merged_turns=merges.merged_turns,
            convergent_turns=merges.convergent_turns,
            self_merges=merges.self_merges,
            depth=max(depths(tree), default=-1) + 1,
            branches=sum(turn.origin is not None and turn.origin.kind == "branch" for turn in tree.turns),
            sampled_tokens=sum(int(np.count_nonzero(turn.mask_T)) for turn in tree.turns),
            return_min=returns[0],
            return_max=returns[1],
            advantage_min=advantages[0],
            advantage_max=advantages[1],
        )

    @property
    def success_share(self) -> float | None:
        """Solved rollouts per rollout that counts; None where none does."""
        counted = self.rollouts - self.failed
        return self.successes / counted if counted else None

    @property
    def merge_rate(self) -> float:
        """Merged turns per turn, those left out that no counted rollout contains; 0 where there are none."""
        counted = self.turns - self.failed_turns
        return self.merged_turns / counted if counted else 0.0

    def row(self) -> Row:
        """The values of `SUMMARY_COLUMNS`."""
        values: dict[str, Any] = dict(zip(SUMMARY_COLUMNS, astuple(self), strict=True))
        values["env_kwargs"] = encode_json(self.env_kwargs, "env_kwargs")
        return tuple(values.values())

    @classmethod
    def from_row(cls, row: Row) -> "TreeSummary":
        """The inverse of `row`."""
        values = dict(zip(SUMMARY_COLUMNS, row, strict=True))
        values["env_kwargs"] = decode_json(values["env_kwargs"], "env_kwargs")
        return cls(**values)


def _range(numbers: npt.NDArray[np.float64]) -> tuple[float, float] | tuple[None, None]:
    """The least and the largest; neither where there are none, or one is not finite."""
    if not len(numbers) or not np.isfinite(numbers).all():
        return None, None
    return float(min(numbers)), float(max(numbers))


SUMMARY_COLUMNS = tuple(field.name for field in fields(TreeSummary))
"""Columns of the table `trees` that make up a summary, in order."""
