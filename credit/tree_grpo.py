"""Tree-GRPO: a rollout is compared with all rollouts of its task, and once more with those that grew from the same first turn.

    A = (R - mean) / (std + eps) over the task  +  own_weight (R - mean) / (std + eps) over the rollout's own tree

A tree is all that grew from one first turn. Every turn of a rollout gets the rollout's sum, a shared turn the weighted mean of the
rollouts below. A tree of one leaf, or of equal outcomes, adds exactly 0.
On a flat group every tree has one leaf, and this is `grpo` with the same `ddof`.
Needs a tree for its second term. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the
caller. Defaults: ddof 1, own_weight 1.
Source: Ji et al., Tree Search for LLM Agent Reinforcement Learning (arXiv 2509.21240).
"""

from dataclasses import dataclass

from credit.batch import Batch
from credit.grpo import EPS, standardised
from credit.moments import FloatArray, centre, dense, deviation
from credit.settings import Settings, integer, number


@dataclass(frozen=True)
class TreeGrpoSettings(Settings):
    ddof: int = integer(1, 0, 1)
    """1: sample standard deviations; 0: population."""
    own_weight: float = number(1.0, 0.0)
    """Weight of the comparison within the rollout's own tree."""


def tree_grpo(batch: Batch, settings: TreeGrpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged."""
    tree_R = dense(batch.nodes.of_O[batch.starts_R])
    own_R = centre(batch.outcome_R, batch.weight_R, tree_R, batch.error_R)
    own_R = own_R / (deviation(own_R, batch.weight_R, tree_R, settings.ddof)[tree_R] + EPS)
    return (standardised(batch, settings.ddof) + settings.own_weight * own_R)[batch.rollout_O]
