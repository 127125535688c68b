"""The turn-level methods against slow references: plain loops over rollouts and turns, written from the formulas alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from full_turns import filled
from random_trees import path_weights, random_tree

from credit import Turn, estimate, estimate_batch

Rollouts = list[list[Turn]]
Numbers = list[list[float]]
"""One number per turn of each rollout."""


def mean(values: list[float], weights: list[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def spread(values: list[float], weights: list[float], ddof: int) -> float:
    """Standard deviation by weight; with ddof 1 over sum(w) - sum(w^2) / sum(w)."""
    if len(values) == 1:
        return 0.0
    centre, total = mean(values, weights), sum(weights)
    freedom = total - ddof * sum(w * w for w in weights) / total
    return math.sqrt(sum(w * (v - centre) ** 2 for v, w in zip(values, weights, strict=True)) / freedom)


def unique_turns(rollouts: Rollouts, weights: list[float]) -> dict[int, tuple[Turn, int, bool, float, float]]:
    """Each node's turn, place, whether it is a last turn, the weight of the rollouts below, and the outcome of the last of them."""
    found: dict[int, tuple[Turn, int, bool, float, float]] = {}
    for rollout, weight in zip(rollouts, weights, strict=True):
        for t, turn in enumerate(rollout):
            assert turn.node is not None
            before = found[turn.node][3] if turn.node in found else 0.0
            found[turn.node] = (turn, t, t == len(rollout) - 1, before + weight, sum(step.reward for step in rollout))
    return found


def slow_gae(rollouts: Rollouts, weights: list[float], gamma: float, lam: float) -> Numbers:
    result = []
    for rollout in rollouts:
        own, later = [], 0.0
        for t in reversed(range(len(rollout))):
            after = rollout[t + 1].value if t + 1 < len(rollout) else rollout[t].next_value or 0.0
            later = rollout[t].reward + gamma * after - rollout[t].value + gamma * lam * later
            own.append(later)
        result.append(own[::-1])
    return result


def slow_agent_opsd(rollouts: Rollouts, base: Numbers, weights: list[float], b: float, lam: float, v_0: float) -> Numbers:
    result = []
    for rollout, own in zip(rollouts, base, strict=True):
        logit, belief, changes = math.log(v_0 / (1 - v_0)), v_0, []
        for turn in rollout:
            logit += turn.teacher_logprob_gap
            changes.append(1 / (1 + math.exp(-logit)) - belief)
            belief += changes[-1]
        even = [1.0] * len(changes)
        deviation, centre = spread(changes, even, 0), mean(changes, even)
        row = []
        for change, advantage in zip(changes, own, strict=True):
            z = (change - centre) / deviation if deviation > 0 else 0.0
            m = min(max(1 + b * np.sign(advantage) * z, 1 - b), 1 + b)
            row.append(advantage * ((1 - lam) + lam * m))
        result.append(row)
    return result


def slow_self_credit(rollouts: Rollouts, base: Numbers, weights: list[float], strength: float) -> Numbers:
    outcomes = [sum(turn.reward for turn in rollout) for rollout in rollouts]
    middle = mean(outcomes, weights)
    sides: dict[bool, list[int]] = {
        won: [i for i, r in enumerate(outcomes) if abs(r - middle) > 1e-9 and (r > middle) == won] for won in (True, False)
    }

    def rate(pair: tuple[object, object], won: bool) -> float:
        citing = [i for i in sides[won] if any(t.cited > 0 for t in rollouts[i] if (t.state, t.action) == pair)]
        return sum(weights[i] for i in citing) / sum(weights[i] for i in sides[won]) if sides[won] else 0.0

    result = []
    for rollout, own in zip(rollouts, base, strict=True):
        most = max(turn.cited for turn in rollout) or 1.0
        pairs = [(turn.state, turn.action) for turn in rollout]
        lifts = [rate(pair, True) - rate(pair, False) for pair in pairs]
        w = [
            1 + strength * t.cited / most * (np.sign(a) if abs(a) > 1e-9 else 0.0) * d for t, a, d in zip(rollout, own, lifts, strict=True)
        ]
        result.append([a * x / (sum(w) / len(w)) for a, x in zip(own, w, strict=True)])
    return result


def slow_mt_grpo(rollouts: Rollouts, weights: list[float], ddof: int, per_turn_index: bool, turn_weight: float, lam: float) -> Numbers:
    outcomes = [sum(turn.reward for turn in rollout) for rollout in rollouts]
    middle, size = mean(outcomes, weights), spread(outcomes, weights, ddof) + 1e-6
    inner = [entry for entry in unique_turns(rollouts, weights).values() if not entry[2]]
    result = []
    for rollout, outcome in zip(rollouts, outcomes, strict=True):
        row = []
        for t, turn in enumerate(rollout):
            advantage = (outcome - middle) / size
            if t < len(rollout) - 1:
                cell = [entry for entry in inner if not per_turn_index or entry[1] == t]
                values, own = [e[0].rewards["process"] for e in cell], [e[3] for e in cell]
                process = (turn.rewards["process"] - mean(values, own)) / (spread(values, own, ddof) + 1e-6)
                advantage = turn_weight * process + lam * advantage
            row.append(advantage)
        result.append(row)
    return result


def slow_igpo(rollouts: Rollouts, weights: list[float], gamma: float, mode: str, ddof: int) -> Numbers:
    entries = list(unique_turns(rollouts, weights).values())
    reward = lambda entry: entry[4] if entry[2] else entry[0].information_gain  # noqa: E731
    result = []
    for rollout in rollouts:
        row, later = [], 0.0
        for t in reversed(range(len(rollout))):
            last = t == len(rollout) - 1
            cell = [entry for entry in entries if mode == "joint" or entry[2] == last]
            values, own = [reward(entry) for entry in cell], [entry[3] for entry in cell]
            value = sum(turn.reward for turn in rollout) if last else rollout[t].information_gain
            later = (value - mean(values, own)) / (spread(values, own, ddof) + 1e-6) + gamma * later
            row.append(later)
        result.append(row[::-1])
    return result


def slow_empg(
    tasks: list[Rollouts], bases: list[Numbers], weights: list[list[float]], k: float, k_future: float, zeta: float
) -> list[Numbers]:
    part = [any(a != 0 for own in base for a in own) for base in bases]
    rows = [
        (turn, rollout[t + 1] if t + 1 < len(rollout) else None, a, w)
        for task, base, own, takes in zip(tasks, bases, weights, part, strict=True)
        for rollout, advantages, w in zip(task, base, own, strict=True)
        for t, (turn, a) in enumerate(zip(rollout, advantages, strict=True))
        if takes
    ]
    low, high = min(row[0].entropy for row in rows), max(row[0].entropy for row in rows)
    level = lambda turn: (turn.entropy - low) / (high - low)  # noqa: E731
    counts = [w for *_, w in rows]
    scale = mean([math.exp(-k * level(turn)) for turn, *_ in rows], counts)
    raw = [
        a * math.exp(-k * level(turn)) / scale + (zeta * math.exp(-k_future * level(after)) if after else 0.0) for turn, after, a, _ in rows
    ]
    shaped = iter([value - mean(raw, counts) for value in raw])
    return [[[next(shaped) if takes else 0.0 for _ in rollout] for rollout in task] for task, takes in zip(tasks, part, strict=True)]


def per_node(rollouts: Rollouts, rows: Numbers, weights: list[float]) -> Numbers:
    """The weighted mean of the rows of each node, given to all of them."""
    totals: dict[int | None, list[float]] = {}
    for rollout, own, weight in zip(rollouts, rows, weights, strict=True):
        for turn, value in zip(rollout, own, strict=True):
            entry = totals.setdefault(turn.node, [0.0, 0.0])
            entry[0] += weight * value
            entry[1] += weight
    return [[totals[turn.node][0] / totals[turn.node][1] for turn in rollout] for rollout in rollouts]


def weights_of(rollouts: Rollouts, weighting: str) -> list[float]:
    return [float(weight) for weight in path_weights(rollouts)] if weighting == "path" else [1.0] * len(rollouts)


ALONE: list[tuple[str, Callable[..., Numbers], dict]] = [
    ("gae", slow_gae, {"gamma": 0.9, "lam": 0.6}),
    ("mt_grpo", slow_mt_grpo, {"ddof": 1, "per_turn_index": False, "turn_weight": 1.0, "lam": 1.0}),
    ("mt_grpo", slow_mt_grpo, {"ddof": 0, "per_turn_index": True, "turn_weight": 0.5, "lam": 2.0}),
    ("igpo", slow_igpo, {"gamma": 1.0, "mode": "joint", "ddof": 0}),
    ("igpo", slow_igpo, {"gamma": 0.7, "mode": "separate", "ddof": 1}),
]
SHAPED: list[tuple[str, Callable[..., Numbers], dict]] = [
    ("agent_opsd", slow_agent_opsd, {"b": 0.2, "lam": 0.5, "v_0": 0.5}),
    ("agent_opsd", slow_agent_opsd, {"b": 0.9, "lam": 1.0, "v_0": 0.2}),
    ("self_credit", slow_self_credit, {"strength": 0.5}),
    ("self_credit", slow_self_credit, {"strength": 0.9}),
]
SEEDS = [seed for seed in range(12) if len({sum(t.reward for t in r) for r in random_tree(seed)}) > 1]
"""Trees whose outcomes differ; that unanimous groups give 0 is tested elsewhere."""


def assert_same(given: list[np.ndarray], expected: Numbers) -> None:
    for a, b in zip(given, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize(("method", "slow", "settings"), ALONE)
def test_against_plain_loops(method, slow, settings, weighting):
    for seed in SEEDS:
        rollouts = random_tree(seed)
        weights = weights_of(rollouts, weighting)
        expected = per_node(rollouts, slow(rollouts, weights, **settings), weights)
        assert_same(estimate(rollouts, method, weighting=weighting, **settings), expected)


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("base", ["grpo", "gigpo", {"method": "tree_mc", "group_weight": 1.0}])
@pytest.mark.parametrize(("method", "slow", "settings"), SHAPED)
def test_shaping_against_plain_loops(method, slow, settings, base, weighting):
    for seed in SEEDS:
        rollouts = random_tree(seed)
        weights = weights_of(rollouts, weighting)
        named = {"method": base} if isinstance(base, str) else base
        plain = [row.tolist() for row in estimate(rollouts, weighting=weighting, **named)]
        expected = per_node(rollouts, slow(rollouts, plain, weights, **settings), weights)
        assert_same(estimate(rollouts, method, weighting=weighting, base=base, **settings), expected)


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("settings", [{"k": 1.0, "k_future": 1.0, "zeta": 0.05}, {"k": 2.5, "k_future": 0.3, "zeta": 1.0}])
def test_empg_against_plain_loops(settings, weighting):
    unanimous = filled([[Turn("s", "a", "e", 1.0, node=i)] for i in range(2)])
    for seed in SEEDS:
        tasks = [random_tree(seed), unanimous, random_tree(seed + 100, roots=2, depth=3)]
        weights = [weights_of(task, weighting) for task in tasks]
        plain = [[row.tolist() for row in estimate(task, "grpo", weighting=weighting)] for task in tasks]
        rows = slow_empg(tasks, plain, weights, **settings)
        given = estimate_batch(tasks, "empg", weighting=weighting, **settings)
        for task, result, own, counts in zip(tasks, given, rows, weights, strict=True):
            assert_same(result, per_node(task, own, counts))
