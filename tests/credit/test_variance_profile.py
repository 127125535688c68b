"""What pairs of rollouts tell: by hand, by plain loops over all pairs, and on processes whose variances are known."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from limited_trees import Rollouts, limited_tree
from random_trees import random_tree

from credit import Batch, Turn
from credit.isotonic import falling
from credit.timed_graph import meetings
from credit.variance_profile import VarianceProfile, _pasts, variance_profile


def profile(tasks: list[Rollouts], pools=None, gamma=1.0, prior_pairs=4.0, trust=0.5, weighting="path") -> VarianceProfile:
    batch = Batch.read(tasks, weighting)
    return of_batch(batch, np.zeros(batch.tasks, int) if pools is None else np.array(pools), gamma, prior_pairs, trust)


def of_batch(batch: Batch, pool_T, gamma=1.0, prior_pairs=4.0, trust=0.5) -> VarianceProfile:
    return_O = batch.returns(gamma)
    return_N = batch.per_node(return_O)[batch.nodes.first_N]
    return variance_profile(batch, meetings(batch), return_O, return_N, gamma, pool_T, prior_pairs, trust)


# --- By hand


def forked(*roots: tuple[float, ...], merged: bool = False) -> Rollouts:
    """A first turn per tuple, and a second one for each of its outcomes; all meet in one state, or each in its own."""
    rollouts, count = [], len(roots)
    for root, outcomes in enumerate(roots):
        after = "m" if merged else f"m{root}"
        for outcome in outcomes:
            rollouts.append([Turn("s", root, after, 0.0, node=root), Turn(after, count, "e", outcome, node=count)])
            count += 1
    return rollouts


@pytest.mark.parametrize(
    ("prior_pairs", "share"),
    # Before turn 1 v = 1/4. Products of deviations: 1/4 within a fork, -1/4 between; the mean of all six is -1/12.
    # Two close pairs: (1/4 + 1/12) / v = 4/3 each. The prior: one of two turns is settled, 1/2.
    [(4.0, (2 * 4 / 3 + 4 / 2) / (2 + 4)), (1e-9, 1.0), (1e9, 0.5)],
)
def test_forks_by_hand(prior_pairs, share):
    found = profile([forked((1.0, 1.0), (0.0, 0.0))], prior_pairs=prior_pairs)
    np.testing.assert_allclose(found.mean_TP, [[0.5, 0.5]])
    np.testing.assert_allclose(found.settled_TP, [[0.0, share / 4]], atol=1e-8)
    # The first turn settles what is settled before the second, and the second the rest of 1/4.
    np.testing.assert_allclose(found.step_TP, [[share / 4, (1 - share) / 4]], atol=1e-8)
    # No merged pair: phi is what its prior makes of it, .7 (half of the mean of .1 to 1) + .3 (the mean of 0 to 1).
    np.testing.assert_allclose(found.hidden_TP, [[0.7 * 0.5 * 0.55 + 0.3 * 0.5] * 2])


def test_trust_without_any_merge():
    tasks = [forked((1.0, 1.0), (0.0, 0.0))]
    np.testing.assert_array_equal(profile(tasks, trust=1.0).hidden_TP, 0.0)
    np.testing.assert_allclose(profile(tasks, trust=0.0).hidden_TP, 0.55)


def test_merges_by_hand():
    """Three roots meet in m and go on once each: 1, 1, 0. A pair's product relative to the mean of all is 0 in sum: no covariance.

    With prior_pairs 6 and phi known to be 0: tau^2 / v = (3 * 0 + 6 * 1/2) / 9 = 1/3; v = 2/9.
    """
    found = profile([forked((1.0,), (1.0,), (0.0,), merged=True)], prior_pairs=6.0, trust=1.0)
    np.testing.assert_allclose(found.settled_TP, [[0, 2 / 27]], atol=1e-12)
    np.testing.assert_allclose(found.step_TP, [[2 / 27, 4 / 27]], atol=1e-12)


def test_a_rollout_that_is_over_leaves_nothing_open():
    """Half of the rollouts end at once. Of the others' outcomes nothing is known before turn 1 but by the prior.

    v(0) = .25 (outcomes 1 0 1 0). Turns ahead: 1.5 on average, then 1: of v(0) 2/3 would be open at turn 1 but v(1) = .25 is more: the
    prior settles 1 - (1/6) / .25 = 1/3. alpha^2(0) = v(0) - S(1) sigma^2(1) = 1/4 - 1/2 * 1/6, alpha^2(1) = sigma^2(1) = 1/6.
    """
    rollouts = [
        [Turn("s", i, "e" if i < 2 else f"m{i}", float(i == 0)), *([Turn(f"m{i}", 0, "e", float(i == 2))] if i > 1 else [])]
        for i in range(4)
    ]
    found = profile([rollouts])
    np.testing.assert_allclose(found.settled_TP, [[0, 1 / 12]], atol=1e-12)
    np.testing.assert_allclose(found.step_TP, [[1 / 4 - 1 / 12, 1 / 6]], atol=1e-12)


def test_gamma_by_hand():
    """Outcomes 1 and 0 after two turns, gamma 1/2: v(0) = 1/16, v(1) = 1/4. Half of v(0) is open after turn 0, seen from the start;
    seen from turn 1 that is 1/8. alpha^2(0) = 1/16 - 1/4 * 1/8 = 1/32, alpha^2(1) = 1/8."""
    found = profile([forked((1.0,), (0.0,))], gamma=0.5)
    np.testing.assert_allclose(found.mean_TP, [[0.25, 0.5]])
    np.testing.assert_allclose(found.settled_TP, [[0, 1 / 8]], atol=1e-12)
    np.testing.assert_allclose(found.step_TP, [[1 / 32, 1 / 8]], atol=1e-12)


# --- By plain loops

GRID = [k / 10 for k in range(11)]


class SlowPool:
    """The module's docstring for the tasks of one pool, with a list of nodes (turn number, past, signature, return) for each task."""

    def __init__(self, batch: Batch, tasks: list[int], positions: int, gamma: float, prior_pairs: float) -> None:
        self.positions, self.gamma, self.prior_pairs = positions, gamma, prior_pairs
        returns, varied = batch.returns(gamma), [task for task in tasks if not batch.unanimous_T[task]]
        self.mean, self.v, self.alive, self.ahead = {}, {}, {}, {}
        rows = {(task, t): [] for task in tasks for t in range(positions)}
        for row in range(len(returns)):
            if (key := (int(batch.task_O[row]), int(batch.position_O[row]))) in rows:
                rows[key].append(row)
        for key, own in rows.items():
            weights, values = batch.weight_O[own], returns[own]
            self.alive[key] = weights.sum() / batch.weight_O[rows[key[0], 0]].sum()
            self.mean[key] = np.average(values, weights=weights) if own else 0.0
            self.v[key] = np.average((values - self.mean[key]) ** 2, weights=weights) if own else 0.0
            left = [int(batch.lengths_R[batch.rollout_O[r]] - batch.position_O[r]) for r in own]
            self.ahead[key] = np.average(left, weights=weights) if own else 0.0
        past = slow_pasts(batch)
        node_returns = batch.per_node(returns)
        self.close, self.merged = [[] for _ in range(positions)], [[] for _ in range(positions)]
        self.left, self.prior = np.zeros(positions), np.zeros(positions)
        for task in varied:
            most = max(self.alive[task, t] * self.v[task, t] for t in range(positions))
            for t in range(positions):
                v, first = self.v[task, t], self.v[task, 0]
                if v <= 1e-9 * first:
                    continue
                self.left[t] += self.alive[task, t] * v / most / sum(self.v[k, 0] > 0 for k in varied)
                even = first * self.ahead[task, t] / self.ahead[task, 0] / gamma ** (2 * t)
                total = sum(self.alive[k, t] for k in varied if self.v[k, t] > 1e-9 * self.v[k, 0])
                self.prior[t] += self.alive[task, t] * (1 - min(even, v) / v) / total
                self.add_pairs(batch, task, t, past, node_returns)

    def add_pairs(self, batch: Batch, task: int, t: int, past: list, returns) -> None:
        first = [int(r) for r in batch.nodes.first_N if batch.task_O[r] == task and batch.position_O[r] == t]
        pairs = list(combinations(first, 2))
        products = [(returns[a] - self.mean[task, t]) * (returns[b] - self.mean[task, t]) / self.v[task, t] for a, b in pairs]
        for (a, b), product in zip(pairs, products, strict=True):
            if past[a] == past[b]:
                self.close[t].append(product - np.mean(products))
            elif t and batch.state_O[a] == batch.state_O[b]:
                self.merged[t].append(product - np.mean(products))

    def share_at(self, t: int, phi: float) -> float:
        close, merged = self.close[t], self.merged[t]
        fit = sum(close) + (1 - phi) * sum(merged) + self.prior_pairs * self.prior[t]
        return min(max(fit / (len(close) + (1 - phi) ** 2 * len(merged) + self.prior_pairs), 0.0), 1.0)

    def shares(self, phi: list[float]) -> list[float]:
        """tau^2 / v."""
        weights = [len(self.close[t]) + (1 - phi[t]) ** 2 * len(self.merged[t]) + self.prior_pairs for t in range(self.positions)]
        going = [t for t in range(self.positions) if self.left[t] > 0]
        wanted = np.array([self.left[t] * (1 - self.share_at(t, phi[t]) * (t > 0)) for t in going])
        found = falling(wanted, np.array([1e9 * max(weights) if t == 0 else weights[t] for t in going]), self.gamma**2)
        shares = [0.0] * self.positions
        for t, left in zip(going, found, strict=True):
            shares[t] = 1 - min(left / self.left[t], 1.0)
        return shares

    def misfit(self, t: int, phi: float, share: float) -> float:
        close, merged = self.close[t], self.merged[t]
        far = len(close) * (np.mean(close) - share) ** 2 if close else 0.0
        return far + (len(merged) * (np.mean(merged) - (1 - phi) * share) ** 2 if merged else 0.0)

    def hidden(self, trust: float) -> list[float]:
        prior = np.array([trust] + [(1 - trust) / 10] * 10)
        misfits = [sum(self.misfit(t, phi, share) for t, share in enumerate(self.shares([phi] * self.positions))) for phi in GRID]
        whole = prior * np.exp(-0.25 * (np.array(misfits) - min(misfits)))
        whole /= whole.sum()
        found = []
        for t in range(self.positions):
            own = [self.share_at(t, phi) for phi in GRID]
            far = np.array([self.misfit(t, phi, s) + self.prior_pairs * (s - self.prior[t]) ** 2 for phi, s in zip(GRID, own, strict=True)])
            likely = (0.7 * whole + 0.3 * (prior > 0) / (prior > 0).sum()) * np.exp(-0.25 * (far - far.min()))
            found.append(float(np.dot(GRID, likely) / likely.sum()))
        return found


def slow_pasts(batch: Batch) -> list[tuple]:
    """Signature and all earlier signatures and actions of each row."""
    turns = list(zip(batch.state_O.tolist(), batch.action_O.tolist(), strict=True))
    starts = batch.starts_R[batch.rollout_O]
    return [(tuple(turns[start:row]), turns[row][0], int(batch.task_O[row])) for row, start in enumerate(starts.tolist())]


def compare(tasks: list[Rollouts], pools: list[int], weighting: str = "path", gamma: float = 1.0, trust: float = 0.5) -> None:
    batch = Batch.read(tasks, weighting)
    found = of_batch(batch, np.array(pools), gamma, 3.0, trust)
    turns = range(found.mean_TP.shape[1])
    for pool in set(pools):
        members = [task for task in range(len(tasks)) if pools[task] == pool]
        slow = SlowPool(batch, members, len(turns), gamma, 3.0)
        phi = slow.hidden(trust)
        shares = slow.shares(phi)
        for task in members:
            v, alive = ([own[task, t] for t in turns] for own in (slow.v, slow.alive))
            left = [alive[t] * (1 - shares[t]) * v[t] for t in turns] + [0.0]
            step = [max(left[t] - gamma**2 * left[t + 1], 0.0) / alive[t] if alive[t] else 0.0 for t in turns]
            np.testing.assert_allclose(found.mean_TP[task], [slow.mean[task, t] for t in turns], atol=1e-12)
            np.testing.assert_allclose(found.hidden_TP[task], phi, atol=1e-9)
            np.testing.assert_allclose(found.settled_TP[task], [shares[t] * v[t] for t in turns], atol=1e-9)
            np.testing.assert_allclose(found.step_TP[task], step, atol=1e-9)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("trust", [0.5, 1.0, 0.05])
def test_profiles_are_those_of_plain_loops(weighting, trust, gamma):
    unanimous = [[Turn("s0", i, "s1", r), Turn("s1", 0, "e", 1 - r)] for i, r in enumerate((0.0, 0.25, 0.5))]
    for seed, pools in enumerate(([0, 0, 0, 0], [0, 1, 0, 1], [2, 1, 0, 0])):
        tasks = [limited_tree(seed, 5), limited_tree(seed + 20, 3, forks=0.5), unanimous, limited_tree(seed + 40, 4, forks=0.0, roots=8)]
        compare(tasks, pools, weighting, gamma, trust)


def test_tasks_of_very_different_lengths():
    """Short ones that forks settle early, long ones about which little is known."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        short = [forked(*([float(rng.random() < 0.5)] * 3 for _ in range(3))) for _ in range(3)]
        compare([*short, limited_tree(seed, 9, forks=0.0)], [0] * 4)


def test_rollouts_that_begin_under_different_signatures_begin_in_one_state():
    rollouts = [[Turn(f"s{i // 3}", i, "m", 0.0), Turn("m", 0, "e", float(i < 3))] for i in range(6)]
    assert profile([rollouts]).settled_TP[0, 0] == 0
    compare([rollouts], [0])


def test_equal_pasts_are_found_exactly():
    """In trees, and in many small worlds where codes of turns and states are small numbers that are easily mixed up."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        walks = [[0, *rng.integers(4, size=3).tolist()] for _ in range(10)]
        small = [[Turn(a, int(rng.integers(3)), b, 0.0) for a, b in pairwise(walk)][: 2 + seed % 2] for walk in walks]
        for tasks in ([small], [small, small], [random_tree(seed), limited_tree(seed)]):
            batch = Batch.read(tasks)
            codes, pasts = _pasts(batch, np.arange(len(batch.reward_O))).tolist(), slow_pasts(batch)
            assert len(set(codes)) == len(set(pasts)) == len(set(zip(codes, pasts, strict=True)))


# --- Pools


def test_pools_do_not_influence_each_other_and_members_share():
    tasks = [limited_tree(seed, forks=0.3) for seed in range(4)]
    apart, together = profile(tasks, [0, 0, 1, 1]), profile(tasks)
    other = profile([*tasks[:2], limited_tree(9), limited_tree(10)], [0, 0, 1, 1])
    alone = profile(tasks[:2])
    for name in ("mean_TP", "settled_TP", "step_TP", "hidden_TP"):
        np.testing.assert_allclose(getattr(other, name)[:2], getattr(apart, name)[:2], atol=1e-12)
        np.testing.assert_allclose(getattr(alone, name), getattr(apart, name)[:2], atol=1e-12)
    assert np.abs(together.settled_TP[:2] - apart.settled_TP[:2]).max() > 1e-3
    np.testing.assert_array_equal(together.hidden_TP, np.broadcast_to(together.hidden_TP[:1], together.hidden_TP.shape))
    scaled = profile([*tasks[:3], [[replace(t, reward=1e6 * t.reward) for t in rollout] for rollout in tasks[3]]])
    # Tasks count by their shares of their own variance: its unit does not matter.
    np.testing.assert_allclose(scaled.settled_TP[:3], together.settled_TP[:3], rtol=1e-9)
    np.testing.assert_allclose(scaled.settled_TP[3], 1e12 * together.settled_TP[3], rtol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 1e-16])
def test_tasks_without_variance_tell_nothing(noise):
    same = [[Turn("s0", i, "s1", r), Turn("s1", 0, "e", 0.3 + noise * i - r)] for i, r in enumerate((0.1, 0.2, 0.0))]
    tasks = [limited_tree(0), limited_tree(1)]
    for name in ("settled_TP", "step_TP", "hidden_TP"):
        np.testing.assert_allclose(getattr(profile([*tasks, same]), name)[:2], getattr(profile(tasks), name), atol=1e-12)
    alone = profile([same])
    assert np.isfinite(alone.settled_TP).all() and (alone.settled_TP <= 0.02).all()


# --- Processes with known variances

CHANCE = np.array([0.9, 0.6, 0.4, 0.1])
"""Chance of an outcome of 1 in four states: tau^2 = .085 of v = .25; in classes {0, 1} and {2, 3} .0225 of it is hidden."""


def groups(count: int, classes: int, seed: int) -> list[Rollouts]:
    """One of 40 first actions leads to a state (its number modulo 4) and is forked in two; signatures merge states to `classes`."""
    rng, tasks = np.random.default_rng(seed), []
    for _ in range(count):
        rollouts = []
        for root in range(10):
            action = int(rng.integers(40))
            after = (action % 4) * classes // 4
            first = Turn("s", action, after, 0.0, node=root)
            outcomes = rng.random(2) < CHANCE[action % 4]
            rollouts += [[first, Turn(after, 0, "e", float(won), node=10 + 2 * root + i)] for i, won in enumerate(outcomes)]
        tasks.append(rollouts)
    return tasks


@pytest.mark.parametrize(("classes", "hidden"), [(4, 0.0), (2, 0.0225 / 0.085), (1, 1.0)])
def test_known_variances_are_recovered(classes, hidden):
    """Within a fifth of tau^2, and .15 of phi: variances among 20 outcomes are a little small, and phi is read off differences of them."""
    found = profile(groups(600, classes, 0))
    mean = {name: getattr(found, name).mean(axis=0) for name in ("mean_TP", "settled_TP", "step_TP", "hidden_TP")}
    np.testing.assert_allclose(mean["mean_TP"], [0.5, 0.5], atol=0.03)
    np.testing.assert_allclose(mean["settled_TP"], [0, 0.085], atol=0.017)
    np.testing.assert_allclose(mean["step_TP"], [0.085, 0.165], atol=0.025)
    assert mean["hidden_TP"][1] == pytest.approx(hidden, abs=0.15)
