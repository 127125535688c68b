"""Rollouts as stopping rules see them, written down as actions or probabilities; and random ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from branching_trees import turn

from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping import RolloutView
from tree_rollout.turn import Origin, Turn


def says(action: str, tokens: Sequence[int] | None = None, probability: float = 0.5, reason: StopReason | None = None) -> Turn:
    """A turn with this action behind two observation tokens; its sampled tokens are the action's letters, unless given."""
    sampled = [ord(letter) for letter in action] if tokens is None else list(tokens)
    made = turn(-1, entropy=[1.0] * len(sampled), logprob=np.log(probability), stop=reason)
    made.action, made.ids_T = action, np.array([0, 0, *sampled], dtype=np.int32)
    return made


def view(number: int, *turns: Turn, over: bool = False) -> RolloutView:
    """A fresh start."""
    first = replace(turns[0], origin=Origin("root"))
    return RolloutView(number, [first, *turns[1:]], over)


def fork(number: int, source: RolloutView, place: int, *turns: Turn, over: bool = False) -> RolloutView:
    """A rollout that left `source` before the turn at `place`."""
    first = replace(turns[0], origin=Origin("branch", "random"))
    return RolloutView(number, [*source.turns[:place], first, *turns[1:]], over)


def sure(number: int, probabilities: Sequence[float], reason: StopReason | None = None) -> RolloutView:
    """A rollout whose turns have these confidences; over where a reason is given."""
    turns = [says("ab", probability=value) for value in probabilities]
    turns[-1].stop_reason = reason
    return view(number, *turns, over=reason is not None)


def random_views(rng: np.random.Generator) -> list[RolloutView]:
    """Rollouts of random turns in few words; some are forks, some are over, for any reason."""
    views: list[RolloutView] = []
    for number in range(int(rng.integers(2, 7))):
        turns = [says("ab"[int(rng.integers(2))] * 2, probability=float(rng.uniform(0.05, 1))) for _ in range(int(rng.integers(1, 6)))]
        if rng.random() < 0.5:
            turns[-1].stop_reason = list(StopReason)[int(rng.integers(len(StopReason)))]
        over = turns[-1].stop_reason is not None
        if views and rng.random() < 0.4:
            source = views[int(rng.integers(len(views)))]
            views.append(fork(number, source, int(rng.integers(len(source.turns))), *turns, over=over))
        else:
            views.append(view(number, *turns, over=over))
    return views
