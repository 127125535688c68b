"""From a critic's values to advantages and to what the critic is to learn: at the turns' first sampled tokens, or at every sampled token.

The estimator gives a turn's advantage (`credit.method` gae, `credit/gae.py`), `token_gae` that of a token. What the critic is to say
is the advantage plus what it said, and a penalty that is taken off an advantage alone is no part of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trainer.token_gae import token_gae
from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenCredit:
    """One tree's columns (see `token_columns`): one number for each of its tokens, NaN where there is none."""

    values_T: Floats
    """What the critic said."""
    targets_T: Floats
    """What it is to say; with turns as steps, at each turn's first sampled token alone."""
    advantages_T: Floats | None
    """Advantage of each token; None where each has its turn's."""

    def penalised(self, tree: TrajectoryTree, turns: Sequence[int], penalty: float) -> "TokenCredit":
        """The same with the penalty taken off the advantage of all tokens of these turns."""
        if self.advantages_T is None or not turns:
            return self
        advantages_T, starts_N = self.advantages_T.copy(), _starts(tree)
        for turn in turns:
            advantages_T[starts_N[turn] : starts_N[turn + 1]] -= penalty
        return replace(self, advantages_T=advantages_T)


@dataclass(frozen=True, slots=True)
class CriticValues:
    """What the critic said of some trees."""

    trees: Sequence[TrajectoryTree]
    columns: Sequence[Floats]
    """One per tree: the value before each sampled token, NaN elsewhere."""
    level: Literal["turn", "token"]
    """What a step is."""

    def of_turns(self, number: int) -> Floats:
        """The value before each turn of a tree, shape (N,); 0 where the policy was not asked."""
        return np.array([values_T[0] if len(values_T) else 0.0 for values_T in self._of_tokens(number)])

    def credit(
        self,
        number: int,
        part: TrajectoryTree,
        kept: Sequence[int],
        advantages_N: Floats,
        rewards_N: Floats,
        weights_N: Floats,
        settings: Any,
    ) -> tuple[Floats, TokenCredit]:
        """Each turn's advantage, and the tokens' credit.

        `part` is what of tree `number` counts, `kept` the place of its turns in the tree; the axis N is its turns. `settings` are those of
        the estimator gae.
        """
        column_T, starts_N = self.columns[number], _starts(self.trees[number])
        targets_T = np.full(len(column_T), np.nan)
        known = [starts_N[turn] + np.flatnonzero(~np.isnan(column_T[starts_N[turn] : starts_N[turn + 1]])) for turn in kept]
        if self.level == "turn":
            for places, advantage in zip(known, advantages_N, strict=True):
                targets_T[places[:1]] = column_T[places[:1]] + advantage
            return advantages_N, TokenCredit(column_T, targets_T, None)
        parents = [turn.parent for turn in part.turns]
        values = [column_T[places] for places in known]
        advantages_T = np.full(len(column_T), np.nan)
        for places, numbers_T in zip(known, token_gae(parents, values, rewards_N, weights_N, settings.gamma, settings.lam), strict=True):
            advantages_T[places], targets_T[places] = numbers_T, column_T[places] + numbers_T
        means_N = np.array([advantages_T[places].mean() if len(places) else 0.0 for places in known])
        return means_N, TokenCredit(column_T, targets_T, advantages_T)

    def _of_tokens(self, number: int) -> list[Floats]:
        """The values of each turn's tokens that have one."""
        parts = np.split(self.columns[number], _starts(self.trees[number])[1:-1])
        return [part_T[~np.isnan(part_T)] for part_T in parts]


def _starts(tree: TrajectoryTree) -> npt.NDArray[np.int64]:
    """Where each turn begins among the tree's tokens, and where the last one ends; shape (N + 1,)."""
    return np.cumsum([0, *(len(turn.ids_T) for turn in tree.turns)])
