"""What an iteration's record says follows from its trees, its credit and what the run's state counted; nothing here changes the training.

A record's figures are of this iteration alone; the sums over the run stand in the state, which this module adds to.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from trainer.run_state import RunState
from trainer.tree_credit import TreeCredit
from tree_rollout.sampler_report import Purpose, SamplerReport, sum_spent
from tree_rollout.state_graph import count_merges, sound_turns
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


class IterationMetrics:
    """Makes the record of each iteration; made before the first of them, it knows where the state stood before each."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._note()

    def record(
        self, number: int, reports: Sequence[SamplerReport], trees: Sequence[TrajectoryTree], credits: Sequence[TreeCredit]
    ) -> dict[str, Any]:
        """The figures of iteration `number`, which has been learned from; `credits` are those of the trees that were."""
        # What failed before the policy was asked is a turn without tokens, and tells nothing of the policy.
        turns = [turn for tree in trees for turn in tree.turns if turn.mask_T.any()]
        spent = _spent(reports)
        self._count(spent)
        record = {
            "iteration": number,
            "trees": len(trees),
            **spent,
            **_quality(reports, trees, turns),
            "unanimous_trees": sum(not credit.advantages_N.any() for credit in credits),
            **_advantages(credits),
            **_branches(trees),
            **_lengths(turns, trees),
            **_staleness(turns, self._version),
            "cache_hit_share": _share(spent["shared_tokens"], spent["shared_tokens"] + spent["prefilled_tokens"]),
            "failures": {str(reason): spent["stop_reasons"].get(reason, 0) for reason in StopReason if reason.failed},
            **self._speed(spent["tokens"]),
        }
        self._note()
        return record

    def _note(self) -> None:
        """Keep where the state stands between two iterations."""
        self._seconds, self._unique_tokens = dict(self._state.seconds), self._state.unique_tokens
        self._version = self._state.version

    def _count(self, spent: Mapping[str, Any]) -> None:
        """Add an iteration's counts to those of the run."""
        state = self._state
        state.generated_tokens += spent["tokens"]
        state.env_steps += spent["env_steps"]
        state.branches += spent["branches"]
        state.rollouts += spent["rollouts"]
        state.stop_reasons += Counter(spent["stop_reasons"])

    def _speed(self, tokens: int) -> dict[str, Any]:
        """Seconds by phase since the last record, and tokens per second of the phases that take them; 0 where a phase took no time."""
        seconds = {
            phase: total - self._seconds.get(phase, 0.0)
            for phase, total in self._state.seconds.items()
            if phase in ("rollout", "credit", "trace", "training", "checkpoint")
        }
        trained = self._state.unique_tokens - self._unique_tokens
        return {
            "phase_seconds": seconds,
            "tokens_per_second": {
                "rollout": _share(tokens, seconds.get("rollout", 0.0)),
                "training": _share(trained, seconds.get("training", 0.0)),
            },
        }


def _spent(reports: Sequence[SamplerReport]) -> dict[str, Any]:
    """What sampling took, and how its rollouts ended."""
    reasons = Counter(str(reason) for report in reports for reason in report.stop_reasons.elements())
    return {
        "tokens": sum(report.sampled_tokens for report in reports),
        "prefilled_tokens": sum(report.prefilled_tokens for report in reports),
        "shared_tokens": sum(report.shared_tokens for report in reports),
        "env_steps": sum(report.env_steps for report in reports),
        "rollouts": sum(report.rollouts for report in reports),
        "branches": sum(report.branches for report in reports),
        "unforked_trees": sum(report.unforked_trees for report in reports),
        "decided_trees": sum(report.decided_trees for report in reports),
        "new_segments": sum(report.new_segments for report in reports),
        "spent": {str(purpose): asdict(sum_spent(report.spent[purpose] for report in reports)) for purpose in Purpose},
        "waiting": {
            "engine_idle_share": sum(report.engine_idle_share for report in reports) / max(1, len(reports)),
            "env_idle_share": sum(report.env_idle_share for report in reports) / max(1, len(reports)),
            "loop_lag_s": max((report.lag_s() for report in reports), default=0.0),
        },
        "stop_reasons": dict(reasons),
    }


def _quality(reports: Sequence[SamplerReport], trees: Sequence[TrajectoryTree], turns: Sequence[Turn]) -> dict[str, Any]:
    """How the policy did."""
    leaves = [tree.turns[leaf] for tree in trees for leaf in tree.leaves()]
    sound = [leaf for leaf in leaves if leaf.stop_reason is None or leaf.stop_reason.counts]
    return {
        "train_success": sum(leaf.success for leaf in sound) / max(1, len(sound)),
        "success_by_type": _success_by_type(trees, {seed: kind for report in reports for seed, kind in report.task_types.items()}),
        "turns": len(turns),
        "merge_rate": count_merges(trees).merge_rate,
        "invalid_share": sum(not turn.valid for turn in turns) / max(1, len(turns)),
        "cut_share": sum(report.cut_turns for report in reports) / max(1, len(turns)),
        "entropy": sum(turn.entropy for turn in turns) / max(1, len(turns)),
    }


def _success_by_type(trees: Sequence[TrajectoryTree], kinds: Mapping[int, str]) -> dict[str, float]:
    """Share of the rollouts that count with success, by the type of their task; a type of which none counts is left out."""
    by_type: dict[str, list[bool]] = {}
    for tree in trees:
        leaves = [tree.turns[leaf] for leaf in tree.leaves()]
        sound = [leaf.success for leaf in leaves if leaf.stop_reason is None or leaf.stop_reason.counts]
        if (kind := kinds.get(tree.seed)) and sound:
            by_type.setdefault(kind, []).extend(sound)
    return {kind: sum(won) / len(won) for kind, won in sorted(by_type.items())}


def _advantages(credits: Sequence[TreeCredit]) -> dict[str, float]:
    """`advantage_std` over all turns; the others over those with a weight in the loss: a rollout that counts went through each."""
    advantages_N = np.concatenate([np.zeros(0), *(credit.advantages_N for credit in credits)])
    weighed_N = np.concatenate([np.zeros(0), *(credit.advantages_N[credit.weights_N > 0] for credit in credits)])
    any_weighed = bool(weighed_N.size)
    return {
        "advantage_std": float(advantages_N.std()) if advantages_N.size else 0.0,
        "advantage_mean": float(weighed_N.mean()) if any_weighed else 0.0,
        "advantage_min": float(weighed_N.min()) if any_weighed else 0.0,
        "advantage_max": float(weighed_N.max()) if any_weighed else 0.0,
        "advantage_positive_share": float((weighed_N > 0).mean()) if any_weighed else 0.0,
        "advantage_zero_share": float((weighed_N == 0).mean()) if any_weighed else 0.0,
    }


def _branches(trees: Sequence[TrajectoryTree]) -> dict[str, float]:
    """Branch gain (reconstructed): the share of forks that ended differently from the rollout that they left.

    Different is another success, or another sum of rewards after the turn at which they parted. A fork that ends as the rollout did that
    it left taught nothing that was not known. Where one of the two does not count, they are not compared.
    `sibling_spread` is the mean standard deviation of the values of a turn's continuations, where it has several.
    """
    compared = [outcomes for tree in trees for outcomes in _parted(tree)]
    spreads = [spread for tree in trees for spread in _spreads(tree)]
    return {
        "compared_branches": len(compared),
        "branch_gain": _share(sum(not _alike(*outcomes) for outcomes in compared), len(compared)),
        "sibling_spread": _share(sum(spreads), len(spreads)),
    }


def _spreads(tree: TrajectoryTree) -> Iterator[float]:
    """For each turn with several continuations that count, the standard deviation of their values.

    A turn's value is its reward and the mean of the values of what continues it: continuations weigh the same, however often forked.
    """
    sound_N, values_N = sound_turns(tree), np.zeros(len(tree.turns))
    for index in range(len(tree.turns) - 1, -1, -1):
        below = [child for child in tree.children(index) if sound_N[child]]
        values_N[index] = tree.turns[index].reward + (values_N[below].mean() if below else 0.0)
        if len(below) > 1:
            yield float(values_N[below].std())


def _parted(tree: TrajectoryTree) -> Iterator[tuple[tuple[bool, float], tuple[bool, float]]]:
    """For each fork that can be compared, how it and the rollout that it left went on."""
    for index, turn in enumerate(tree.turns):
        if turn.origin is None or turn.origin.kind != "branch":
            continue
        # The turn that was there first; a fork before the first turn leaves the first fresh start.
        own, left = _outcome(tree, index), _outcome(tree, tree.children(turn.parent)[0])
        if own is not None and left is not None:
            yield own, left


def _outcome(tree: TrajectoryTree, index: int) -> tuple[bool, float] | None:
    """Success, and the sum of rewards from turn `index` on, of the rollout that first took it; None where that does not count."""
    reward = tree.turns[index].reward
    while below := tree.children(index):
        index = below[0]
        reward += tree.turns[index].reward
    leaf = tree.turns[index]
    return (leaf.success, reward) if leaf.stop_reason is None or leaf.stop_reason.counts else None


def _alike(one: tuple[bool, float], other: tuple[bool, float]) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) <= 1e-9


def _lengths(turns: Sequence[Turn], trees: Sequence[TrajectoryTree]) -> dict[str, float]:
    """Sampled tokens of the turns that have any, and of rollouts; turns of rollouts."""
    lengths = [int(turn.mask_T.sum()) for turn in turns]
    paths = [[int(tree.turns[index].mask_T.sum()) for index in path] for tree in trees for path in tree.rollouts()]
    return {
        "turn_tokens_mean": _share(sum(lengths), len(lengths)),
        "turn_tokens_max": max(lengths, default=0),
        "rollout_tokens_mean": _share(sum(map(sum, paths)), len(paths)),
        "rollout_turns_mean": _share(sum(sum(count > 0 for count in path) for path in paths), len(paths)),
    }


def _staleness(turns: Sequence[Turn], version: int) -> dict[str, float]:
    """Optimizer steps between the weights that sampled a turn and those that learning from it began with."""
    ages = [version - turn.policy_version for turn in turns]
    return {"staleness_mean": _share(sum(ages), len(ages)), "staleness_max": max(ages, default=0)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
