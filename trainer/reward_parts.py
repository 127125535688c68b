"""The outcome is what the environment paid, plus what a configuration weighs in: parts by name, each with a weight that may change."""

from collections.abc import Callable, Mapping
from typing import Any

from credit import RewardWeights
from tree_rollout.turn import Turn

REWARD_PARTS: dict[str, Callable[[Turn], float]] = {
    "task": lambda turn: turn.reward,
    "format": lambda turn: 0.0 if turn.valid else -1.0,
    "length": lambda turn: -1.0,
}
"""What each part pays for a turn: `task` the environment's reward, `format` -1 for an action that was refused, `length` -1 for any turn."""

Weights = Mapping[str, Any]
"""What `credit.RewardWeights` takes: a weight for each part, or [iteration, weight] points with straight lines between them."""


def weights_at(weights: Weights, iteration: int) -> dict[str, float] | None:
    """The weights in an iteration, `task` 1 where it is not named; None where the environment's reward alone counts."""
    return RewardWeights({"task": 1.0, **weights}).at(iteration) if weights else None


def parts_of(turn: Turn, weights: Weights) -> dict[str, float]:
    """The named parts of a turn's reward."""
    return {name: REWARD_PARTS[name](turn) for name in {"task": None, **weights}}
