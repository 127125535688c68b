"""How much of the outcome's variance is settled before each turn, and how much of that a signature hides: read off pairs of rollouts.

The return from the state before turn t varies among the rollouts of a task by v(t). Two rollouts that stand in the *same state* go on
independently, so the covariance of their returns is the variance of the state's value, tau^2(t) = v(t) - sigma^2(t): what is settled.
Two rollouts that merely have equal signatures, where signatures merge states that differ, covary by (1 - phi(t)) tau^2(t) only: phi is
the *hidden* share of what is settled. Rollouts with equal signatures *and* equal pasts (all earlier states and actions: forks of one
turn, and rollouts that began alike) are taken to be in the same state; they give tau, and the others give phi.

Seen from the start, what the rest of a rollout leaves open can only shrink: gamma^2t S(t) sigma^2(t) never rises, S(t) the share of
rollouts that are still going. How much one turn settles, gamma^2t S(t) alpha^2(t), is its fall from t to t + 1. Without data sigma^2 is
what makes every turn settle the same.

Axes: _T tasks, _P positions (turns t), _C cells (tasks by positions), _B pools (tasks that share their shares tau^2 / v and phi; their
variances v stay their own; tasks whose outcomes are all equal tell nothing), _O rows, _N nodes, _K sets of nodes, _G the grid of phi.
Source: ours. tau^2 / v is the intraclass correlation (Fisher 1925) of returns within states.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.isotonic import falling
from credit.moments import FloatArray, IntArray, sums

_TINY = float(np.finfo(np.float64).tiny)
_GRID = np.linspace(0.0, 1.0, 11)
"""The values that the hidden share may have."""
_INDEPENDENT = 0.5
"""What a pair counts in a likelihood: pairs of the same rollouts are not independent of each other."""
_OWN = 0.3
"""How much a position's hidden share may depart from that of all positions: the weight of a flat distribution in its prior."""


@dataclass(frozen=True, slots=True)
class VarianceProfile:
    """Means and variances of returns before each turn, shape (T, P) each, in the units of the returns."""

    mean_TP: FloatArray
    """Mean return from position t on of the rollouts that are still going."""
    settled_TP: FloatArray
    """tau^2: variance of the value of the state before turn t."""
    step_TP: FloatArray
    """alpha^2: variance of r + gamma V(s') that turn t settles, given the state before it."""
    hidden_TP: FloatArray
    """phi: share of `settled_TP` between states of one signature, from 0 (signatures are states) to 1 (they tell nothing)."""


def variance_profile(
    batch: Batch,
    met_N: IntArray,
    return_O: FloatArray,
    return_N: FloatArray,
    gamma: float,
    pool_T: IntArray,
    prior_pairs: float,
    trust: float,
) -> VarianceProfile:
    """The profile of each task, from the returns of rows and of nodes (the weighted mean of their rows), discounted by `gamma` per turn.

    `met_N` is a dense code of (turn number, state), `pool_T` one of the pools; `prior_pairs` is how many pairs the prior of tau^2 counts
    at each position; `trust` is the probability, before any data, that signatures hide nothing.
    """
    tasks, positions = batch.tasks, int(batch.position_O.max()) + 1
    shape = (tasks, positions)
    cell_O = batch.task_O * positions + batch.position_O
    alive_TP = sums(cell_O, batch.weight_O, tasks * positions)
    present_TP = np.maximum(alive_TP, _TINY)
    mean_TP = sums(cell_O, batch.weight_O * return_O, tasks * positions) / present_TP
    spread_TP = sums(cell_O, batch.weight_O * (return_O - mean_TP[cell_O]) ** 2, tasks * positions) / present_TP
    ahead_O = batch.lengths_R[batch.rollout_O] - batch.position_O
    ahead_TP = (sums(cell_O, batch.weight_O * ahead_O, tasks * positions) / present_TP).reshape(shape)
    spread_TP, alive_TP = spread_TP.reshape(shape), alive_TP.reshape(shape)
    alive_TP = alive_TP / alive_TP[:, :1]
    cell_N = batch.nodes.once(cell_O)
    close, merged = _pairs(batch, met_N, cell_N, return_N - mean_TP[cell_N])
    varied_TP = np.where(batch.unanimous_T[:, None], 0.0, spread_TP)
    pooled = _Pooled.of(varied_TP, alive_TP, ahead_TP, close, merged, gamma, pool_T, prior_pairs)
    hidden_BP = pooled.hidden(trust)
    settled_BP = pooled.settled(hidden_BP[None])[0]
    open_TP = (1.0 - settled_BP[pool_T]) * spread_TP
    left_TP = alive_TP * open_TP
    fall_TP = np.maximum(left_TP - gamma**2 * np.pad(left_TP[:, 1:], ((0, 0), (0, 1))), 0.0)
    return VarianceProfile(
        mean_TP=mean_TP.reshape(shape),
        settled_TP=spread_TP - open_TP,
        step_TP=np.divide(fall_TP, alive_TP, out=np.zeros(shape), where=alive_TP > 0),
        hidden_TP=hidden_BP[pool_T],
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of nodes by task and position: how many, and the sum of the products of their deviations; shape (T, P) each."""

    count_TP: FloatArray
    product_TP: FloatArray


def _pairs(batch: Batch, met_N: IntArray, cell_N: IntArray, deviation_N: FloatArray) -> tuple[_Pairs, _Pairs]:
    """Pairs in one state with equal pasts, and pairs in one state with different ones.

    A product is taken relative to the mean product of all pairs of its task and position: deviations from a mean of few are correlated.
    """
    shape = (batch.tasks, int(batch.position_O.max()) + 1)
    all_C, all_product_C = _products(cell_N, deviation_N, shape[0] * shape[1])
    level_C = np.divide(all_product_C, all_C, out=np.zeros(len(all_C)), where=all_C > 0)
    # Only nodes that are not alone in their state make pairs.
    nodes = np.flatnonzero(np.bincount(met_N)[met_N] > 1)
    cell, deviation = cell_N[nodes], deviation_N[nodes]

    def by_cell(code: IntArray) -> tuple[FloatArray, FloatArray]:
        count_K, product_K = _products(code, deviation)
        cell_K = np.zeros(len(count_K), dtype=np.int64)
        cell_K[code] = cell
        return sums(cell_K, count_K, len(all_C)), sums(cell_K, product_K, len(all_C))

    state_C, state_product_C = by_cell(met_N[nodes])
    close_C, close_product_C = by_cell(_pasts(batch, batch.nodes.first_N[nodes]))
    # Before the first turn all pasts are equal, and there are none.
    merged_C = state_C - close_C
    merged_product_C = np.where(merged_C > 0, state_product_C - close_product_C, 0.0)
    return (
        _Pairs(close_C.reshape(shape), (close_product_C - close_C * level_C).reshape(shape)),
        _Pairs(merged_C.reshape(shape), (merged_product_C - merged_C * level_C).reshape(shape)),
    )


def _products(code_X: IntArray, deviation_X: FloatArray, codes: int = 0) -> tuple[FloatArray, FloatArray]:
    """Number of pairs of each code, and the sum of the products of their deviations."""
    count_K = np.bincount(code_X, minlength=codes)
    return count_K * (count_K - 1) / 2, (sums(code_X, deviation_X, codes) ** 2 - sums(code_X, deviation_X**2, codes)) / 2


def _pasts(batch: Batch, rows: IntArray) -> IntArray:
    """Code of each of these rows that is equal exactly where task, state and all earlier states and actions are equal, shape (rows,).

    Pasts are compared by the sum of a 64-bit mix of each turn, its position included; the odds of two different pasts with one sum are
    below one in a million for a million turns.
    """
    pair_O = batch.state_O * (int(batch.action_O.max()) + 1) + batch.action_O
    mixed_O = _mix((pair_O * (int(batch.position_O.max()) + 1) + batch.position_O).astype(np.uint64))
    total_O = np.cumsum(mixed_O) - mixed_O
    past = total_O[rows] - total_O[batch.starts_R[batch.rollout_O[rows]]]
    # A state is no turn: the highest bit tells their codes apart, so that a state after a turn never looks like two turns swapped.
    whole = past + _mix(batch.state_O[rows].astype(np.uint64) | np.uint64(1 << 63))
    return np.unique(whole, return_inverse=True)[1]


def _mix(codes_X: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit integers that scatters them (the finaliser of SplitMix64, Steele, Lea, Flood 2014)."""
    codes_X = codes_X + np.uint64(0x9E3779B97F4A7C15)
    codes_X = (codes_X ^ (codes_X >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes_X = (codes_X ^ (codes_X >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes_X ^ (codes_X >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class _Pooled:
    """What the tasks of each pool say together, in units of each task's own variance at that position; shape (B, P) each."""

    close_BP: FloatArray
    close_mean_BP: FloatArray
    merged_BP: FloatArray
    merged_mean_BP: FloatArray
    left_BP: FloatArray
    """S v: variance in all rollouts of a task, relative to where it is largest."""
    prior_BP: FloatArray
    """tau^2 / v where every turn settles the same."""
    gamma: float
    prior_pairs: float

    @classmethod
    def of(
        cls,
        spread_TP: FloatArray,
        alive_TP: FloatArray,
        ahead_TP: FloatArray,
        close: _Pairs,
        merged: _Pairs,
        gamma: float,
        pool_T: IntArray,
        prior_pairs: float,
    ) -> "_Pooled":
        spread_T = spread_TP[:, :1]
        varies_TP = (spread_TP > 1e-9 * spread_T) & (spread_T > 0)
        left_TP = alive_TP * spread_TP
        most_T = left_TP.max(axis=1, keepdims=True)
        unit_TP = np.where(varies_TP, spread_TP, 1.0)

        pools, positions = int(pool_T.max()) + 1, spread_TP.shape[1]
        place_TP = pool_T[:, None] * positions + np.arange(positions)

        def pooled(values_TP: FloatArray) -> FloatArray:
            return sums(place_TP[varies_TP], values_TP[varies_TP], pools * positions).reshape(pools, positions)

        def mean(values_BP: FloatArray, counts_BP: FloatArray) -> FloatArray:
            return np.divide(values_BP, counts_BP, out=np.zeros_like(values_BP), where=counts_BP > 0)

        seen_P = gamma ** (2 * np.arange(positions))
        even_TP = spread_T * ahead_TP / np.maximum(ahead_TP[:, :1], 1.0)
        open_TP = np.divide(even_TP, seen_P, out=spread_TP.copy(), where=even_TP < seen_P * spread_TP)
        close_BP, merged_BP, alive_BP = pooled(close.count_TP), pooled(merged.count_TP), pooled(alive_TP)
        # The same tasks at every position: those whose rollouts are over leave nothing open.
        tasks_B = np.maximum(pooled(np.ones_like(alive_TP))[:, :1], 1.0)
        return cls(
            close_BP=close_BP,
            close_mean_BP=mean(pooled(close.product_TP / unit_TP), close_BP),
            merged_BP=merged_BP,
            merged_mean_BP=mean(pooled(merged.product_TP / unit_TP), merged_BP),
            left_BP=pooled(left_TP / np.where(most_T > 0, most_T, 1.0)) / tasks_B,
            prior_BP=mean(pooled(alive_TP * (1.0 - open_TP / unit_TP)), alive_BP),
            gamma=gamma,
            prior_pairs=prior_pairs,
        )

    def settled(self, hidden_GBP: FloatArray) -> FloatArray:
        """tau^2 / v by least squares over both kinds of pairs and the prior, made so that what is left open never rises."""
        weight_GBP = self._weights(1.0 - hidden_GBP)
        share_GBP = self._settled_here(hidden_GBP)
        # All rollouts of a task begin in one state, whose value is no source of variance.
        weight_GBP[..., 0] = 1e9 * weight_GBP.max(axis=(1, 2))[:, None]
        share_GBP[..., 0] = 0.0
        open_GBP = self.left_BP * (1.0 - share_GBP)
        for place in np.ndindex(open_GBP.shape[:2]):
            going = self.left_BP[place[1]] > 0
            open_GBP[place][going] = falling(open_GBP[place][going], weight_GBP[place][going], self.gamma**2)
        return np.where(self.left_BP > 0, 1.0 - np.minimum(open_GBP / np.where(self.left_BP > 0, self.left_BP, 1.0), 1.0), 0.0)

    def hidden(self, trust: float) -> FloatArray:
        """Posterior mean of phi at each position: first one for all positions, then each position's own around it."""
        prior_G = np.where(_GRID == 0.0, trust, (1.0 - trust) / (len(_GRID) - 1))
        grid_GBP = np.broadcast_to(_GRID[:, None, None], (len(_GRID), *self.close_BP.shape))
        fits_GBP = self._misfit(grid_GBP, self.settled(grid_GBP))
        whole_GB = _normalised(_log(prior_G)[:, None] - _INDEPENDENT / 2 * fits_GBP.sum(axis=2))
        # What is impossible before any data stays so.
        flat_G = (prior_G > 0) / np.count_nonzero(prior_G)
        own_prior_GB = (1.0 - _OWN) * whole_GB + _OWN * flat_G[:, None]
        own_settled_GBP = self._settled_here(grid_GBP)
        own_GBP = self._misfit(grid_GBP, own_settled_GBP) + self.prior_pairs * (own_settled_GBP - self.prior_BP) ** 2
        own_GBP = _normalised(_log(own_prior_GB)[:, :, None] - _INDEPENDENT / 2 * own_GBP)
        return np.einsum("g,gbp->bp", _GRID, own_GBP)

    def _weights(self, seen_GBP: FloatArray) -> FloatArray:
        """How many pairs tell of tau^2 / v, those with different pasts by what signatures show, the prior's included."""
        return self.close_BP + seen_GBP**2 * self.merged_BP + self.prior_pairs

    def _settled_here(self, hidden_GBP: FloatArray) -> FloatArray:
        """tau^2 / v of each position by itself."""
        close_BP, merged_BP = self.close_BP * self.close_mean_BP, self.merged_BP * self.merged_mean_BP
        fitted_GBP = close_BP + (1.0 - hidden_GBP) * merged_BP + self.prior_pairs * self.prior_BP
        return np.clip(fitted_GBP / self._weights(1.0 - hidden_GBP), 0.0, 1.0)

    def _misfit(self, hidden_GBP: FloatArray, settled_GBP: FloatArray) -> FloatArray:
        """Squared distance of the pairs' products from what tau^2 / v and phi make of them; a product of standard scores has variance 1."""
        close_GBP = self.close_BP * (self.close_mean_BP - settled_GBP) ** 2
        return close_GBP + self.merged_BP * (self.merged_mean_BP - (1.0 - hidden_GBP) * settled_GBP) ** 2


def _log(values_X: FloatArray) -> FloatArray:
    return np.log(values_X, out=np.full_like(values_X, -np.inf), where=values_X > 0)


def _normalised(log_G: FloatArray) -> FloatArray:
    """Probabilities over the first axis."""
    weights_G = np.exp(log_G - log_G.max(axis=0))
    return weights_G / weights_G.sum(axis=0)
