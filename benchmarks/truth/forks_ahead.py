"""These rules decide before the turn's action is sampled, from state and time alone: with path weights the gradient stays unbiased.

Each is a table of chances over turns (axis H), states (X) and forks that the path may still make (F). No path forks at its first
turn: a second first turn would be one more root. All are reconstructed: the thresholds and the limit per path are ours.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.truth.errors import BudgetError
from benchmarks.truth.exact import solve
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import FloatArray, Process


@dataclass(frozen=True, slots=True)
class NoForks:
    """`none`: flat sampling. Unbiased."""

    name: ClassVar[str] = "none"
    unbiased: ClassVar[bool] = True
    forks: ClassVar[int] = 0

    def chances(self, process: Process, policy: Policy) -> FloatArray:
        """Zero everywhere; shape (H, X, F)."""
        return np.zeros((process.horizon, process.states, 1))


@dataclass(frozen=True, slots=True)
class EntropyForks:
    """`entropy`: fork in the states of highest policy entropy that make up `share` of all visits. Unbiased with path weights.

    The visits are the exact expected ones, so that the threshold does not depend on the sample.
    """

    name: ClassVar[str] = "entropy"
    unbiased: ClassVar[bool] = True
    forks: int = 2
    """Forks on one path at most."""
    share: float = 0.25

    def __post_init__(self) -> None:
        _check_forks(self.forks)
        if not 0 < self.share <= 1:
            raise BudgetError(f"share is {self.share}; give a share of the visits above 0 and up to 1")

    def chances(self, process: Process, policy: Policy) -> FloatArray:
        """1 in the states chosen while forks are left; shape (H, X, F)."""
        # A fork happens after the first turn only, so the visits that count are those.
        visits_X = solve(process, policy).visitation_HX[1:].sum(axis=0)
        order_X = np.argsort(-policy.entropy_X, kind="stable")
        above_X = np.cumsum(visits_X[order_X]) - visits_X[order_X]
        chosen_X = np.zeros(process.states, dtype=np.bool_)
        chosen_X[order_X] = above_X < self.share * visits_X.sum()
        chance_HXF = np.zeros((process.horizon, process.states, self.forks + 1))
        chance_HXF[1:, chosen_X, 1:] = 1.0
        return chance_HXF


@dataclass(frozen=True, slots=True)
class RandomForks:
    """`random`: each path forks at `forks` turns, a uniform subset of all but the first, whatever the state. Unbiased with path weights.

    The subset is drawn turn by turn: of f forks still to make in the L turns up to the limit, one falls on this turn with chance f / L.
    """

    name: ClassVar[str] = "random"
    unbiased: ClassVar[bool] = True
    forks: int = 2

    def __post_init__(self) -> None:
        _check_forks(self.forks)

    def chances(self, process: Process, policy: Policy) -> FloatArray:
        """Forks left over turns left; shape (H, X, F)."""
        left_H = process.horizon - np.arange(process.horizon)
        chance_HF = np.minimum(1.0, np.arange(self.forks + 1) / left_H[:, None])
        chance_HF[0] = 0.0
        return np.repeat(chance_HF[:, None, :], process.states, axis=1)


def expected_turns(process: Process, policy: Policy, chance_HXF: FloatArray) -> float:
    """Exact expected number of turns below one root that may fork F - 1 times, shared turns once."""
    turns_XF = np.zeros(chance_HXF.shape[1:])
    chance_XKM = policy.probs_XK[:, :, None] * process.prob_XKM
    for chance_XF in chance_HXF[::-1]:
        going_XF = np.einsum("xkm,xkmf->xf", chance_XKM, 1.0 + turns_XF[process.next_XKM])
        twice_XF = 2.0 * np.concatenate([going_XF[:, :1], going_XF[:, :-1]], axis=1)
        turns_XF = (1.0 - chance_XF) * going_XF + chance_XF * twice_XF
        turns_XF[process.terminal_X] = 0.0
    return float(turns_XF[process.start, -1])


def _check_forks(forks: int) -> None:
    if not 1 <= forks <= 12:
        raise BudgetError(f"forks is {forks}; give 1 to 12 forks on one path (12 already make 4,096 rollouts of one root)")
