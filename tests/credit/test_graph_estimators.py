"""HGPO, GRAFT and GraphGPO give the numbers worked out by hand and those of slow, plain references, on flat groups and on trees."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from random_trees import path_weights, random_tree

from credit import Turn, estimate

GRAPH = ("hgpo", "graft_graph", "graphgpo")
THIRD = 1 / 3


def flat(advantages) -> np.ndarray:
    return np.concatenate(advantages)


def weights_of(rollouts, weighting: str) -> list[float]:
    return [float(weight) for weight in path_weights(rollouts)] if weighting == "path" else [1.0] * len(rollouts)


def averaged(rollouts, weights, values) -> np.ndarray:
    """The weighted mean over the rows of each node, for every row."""
    cells: dict[object, list[tuple[float, float]]] = {}
    keys = [[turn.node if turn.node is not None else (i, t) for t, turn in enumerate(rollout)] for i, rollout in enumerate(rollouts)]
    for row, weight, numbers in zip(keys, weights, values, strict=True):
        for key, number in zip(row, numbers, strict=True):
            cells.setdefault(key, []).append((weight, number))
    return np.array([np.average([n for _, n in cells[k]], weights=[w for w, _ in cells[k]]) for row in keys for k in row])


def varied(rollouts: list[list[Turn]]) -> bool:
    return len({sum(turn.reward for turn in rollout) for rollout in rollouts}) > 1


def groups(count: int):
    """Random trees and, from the same turns, flat groups; their states merge and form cycles."""
    for seed in range(count):
        rollouts = random_tree(seed, roots=4)
        if varied(rollouts):
            yield rollouts
            yield [[Turn(t.state, t.action, t.next_state, t.reward) for t in rollout] for rollout in rollouts]


def spread(values, weights, ddof: int) -> float:
    """Weighted deviation: `ddof` 1 divides by W - sum(w^2) / W."""
    values, weights = np.array(values), np.array(weights)
    squares = (weights * (values - np.average(values, weights=weights)) ** 2).sum()
    total = weights.sum()
    return float(np.sqrt(squares / (total - ddof * (weights**2).sum() / total)))


# --- HGPO

E1 = [
    ("hgpo", {}, [0.45125, 0.475, THIRD], [-0.45125, -0.475, -2 * THIRD], [-0.45125, -0.475]),
    ("graft_graph", {}, [0, 0.16335, 0.33], [0, 0.16335, -0.66], [0, -0.49005]),
    # gamma 1: V(S2) = 2/3, V(S1) = V(S0) = 1/2. gamma 1/2: V(S2) = 1/3, V(S1) = 1/2 3/4 1/3 = 1/8, V(S0) = 1/16.
    ("graft_graph", {"gamma": 1.0}, [0, 1 / 6, THIRD], [0, 1 / 6, -2 * THIRD], [0, -0.5]),
    ("graft_graph", {"gamma": 0.5}, [0, 1 / 24, 1 / 6], [0, 1 / 24, -THIRD], [0, -1 / 8]),
]


@pytest.mark.parametrize(("method", "settings", "t1", "t2", "t4"), E1)
@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_e1(e1, method, settings, t1, t2, t4, weighting):
    for given, expected in zip(estimate(e1, method, weighting=weighting, **settings), (t1, t2, t1, t4), strict=True):
        np.testing.assert_allclose(given, expected, atol=1e-6, rtol=0)


def test_graphgpo_on_e1(e1):
    """Distances to G: 1 from S2, 2 from S1, 3 from S0, and 4, one more than any, from F.

    In S1, c leads to 1 and d to 4: relative worths 1 1 1 .001, mean .75025, sample deviation .4995. In S2, g leads to success itself
    (0) and h to F (4): 1 1 .0001, mean .6667, deviation .57729. In S0 all lead to S1. The episode adds +-.866024.
    """
    episode = 0.866024
    t1 = [episode, episode + 0.24975 / 0.499501, episode + 0.3333 / 0.577293]
    t2 = [-episode, -episode + 0.24975 / 0.499501, -episode - 0.6666 / 0.577293]
    t4 = [-episode, -episode - 0.74925 / 0.499501]
    for given, expected in zip(estimate(e1, "graphgpo"), (t1, t2, t1, t4), strict=True):
        np.testing.assert_allclose(given, expected, atol=4e-6, rtol=0)


def histories() -> list[list[Turn]]:
    """Three ways into C, two of them by A: returns 1, 0, 0."""
    starts, outcomes = "ABA", (1.0, 0.0, 0.0)
    return [[Turn(start, "x", "C", 0.0), Turn("C", "y", "E", outcome)] for start, outcome in zip(starts, outcomes, strict=True)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # In C: level 0 centres 1 0 0 to 2/3 -1/3 -1/3; level 1 compares the two by A, +-1/2, and drops the one by B.
        # With alpha 1 levels weigh 1 and 2: (2/3 + 2/2) / 3 = 5/9, (-1/3 - 2/2) / 3 = -4/9. In A: +-1/2; B stands alone.
        ({}, [[0.5, 5 / 9], [0, -THIRD], [-0.5, -4 / 9]]),
        ({"alpha": 0}, [[0.5, 7 / 12], [0, -THIRD], [-0.5, -5 / 12]]),
        ({"history": 0}, [[0.5, 2 * THIRD], [0, -THIRD], [-0.5, -THIRD]]),
        ({"gamma": 0.5}, [[0.25, 5 / 9], [0, -THIRD], [-0.25, -4 / 9]]),
        # Population deviations: .471405 at level 0 (1.414214, -.707107), .5 at level 1 (+-1).
        ({"mode": "mean_std"}, [[1, 1.138071], [0, -0.707107], [-1, -0.902369]]),
    ],
)
def test_hgpo_levels(settings, expected):
    for given, numbers in zip(estimate(histories(), "hgpo", **{"gamma": 1.0, **settings}), expected, strict=True):
        np.testing.assert_allclose(given, numbers, atol=5e-6)


def test_hgpo_level_without_a_difference_takes_no_weight():
    rollouts = [[Turn(s, "x", "C", 0.0), Turn("C", "y", "E", r)] for s, r in (("A", 1.0), ("A", 1.0), ("B", 0.0))]
    # In C level 1 compares 1 with 1, so level 0 stands alone.
    np.testing.assert_allclose([a[1] for a in estimate(rollouts, "hgpo")], [THIRD, THIRD, -2 * THIRD], atol=1e-12)


def test_hgpo_state_that_one_node_visited_gives_exactly_zero():
    fork = Turn("s", "go", "m", 0.0, node=0)
    rollouts = [[fork, Turn(f"m{i}", "l", "e", outcome)] for i, outcome in enumerate((0.1, 0.7, 0.3))]
    assert flat(estimate(rollouts, "hgpo")).tolist() == [0.0] * 6


def test_hgpo_without_history_is_the_step_term_of_gigpo():
    for rollouts in groups(6):
        step = flat(estimate(rollouts, "gigpo")) - flat(estimate(rollouts, "gigpo", omega=0))
        np.testing.assert_allclose(flat(estimate(rollouts, "hgpo", history=0)), step, atol=1e-12)


def slow_hgpo(rollouts, weights, gamma: float, history: int, alpha: float, mode: str) -> list[list[float]]:
    returns = [[sum(gamma**later * u.reward for later, u in enumerate(r[t:])) for t in range(len(r))] for r in rollouts]
    cells: dict[object, list[tuple[float, float, object]]] = {}
    for i, rollout in enumerate(rollouts):
        for t, turn in enumerate(rollout):
            for level in range(min(t, history) + 1):
                key = tuple(u.state for u in rollout[t - level : t + 1])
                cells.setdefault(key, []).append((weights[i], returns[i][t], turn.node if turn.node is not None else (i, t)))
    values = []
    for i, rollout in enumerate(rollouts):
        values.append([])
        for t in range(len(rollout)):
            total = share = 0.0
            for level in range(min(t, history) + 1):
                members = cells[tuple(u.state for u in rollout[t - level : t + 1])]
                w, g = [m[0] for m in members], [m[1] for m in members]
                if len({m[2] for m in members}) == 1 or max(g) - min(g) < 1e-12:
                    continue
                number = returns[i][t] - np.average(g, weights=w)
                if mode == "mean_std":
                    number /= spread(g, w, 0) + 1e-6
                if abs(number) > 1e-13:
                    total, share = total + (level + 1) ** alpha * number, share + (level + 1) ** alpha
            values[-1].append(total / share if share else 0.0)
    return values


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("settings", [{}, {"history": 4, "alpha": 0.5, "mode": "mean_std", "gamma": 0.7}])
def test_hgpo_is_the_slow_reference(weighting, settings):
    full = {"gamma": 0.95, "history": 2, "alpha": 1.0, "mode": "mean"} | settings
    for rollouts in groups(12):
        weights = weights_of(rollouts, weighting)
        expected = averaged(rollouts, weights, slow_hgpo(rollouts, weights, **full))
        np.testing.assert_allclose(flat(estimate(rollouts, "hgpo", weighting=weighting, **settings)), expected, atol=1e-9)


# --- GRAFT


def test_graft_divides_a_loop_out():
    rollouts = [[Turn("s", "stay", "s", 0.0), Turn("s", "win", "e", 1.0)], [Turn("s", "lose", "e", 0.0)]]
    # gamma 1/2: V = 1/3 (V + 1 + 0) / 2, so V = 1/5; staying is worth 1/10 - 1/5.
    np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=0.5)), [-0.1, 0.3, -0.2], atol=1e-12)
    # gamma 1: V = 1/3 (V + 1), so V = 1/2, and staying costs nothing.
    np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=1.0)), [0, 0.5, -0.5], atol=1e-12)


def test_graft_solves_a_cycle_of_two_states():
    rollouts = [[Turn("p", "x", "q", 0.0), Turn("q", "y", "p", 0.0), Turn("p", "z", "e", 1.0)], [Turn("q", "w", "e", 0.0)]]
    # V(p) = 1/2 gamma (V(q) + 1), V(q) = 1/2 gamma V(p): with gamma 1/2, V(p) = 4/15 and V(q) = 1/15.
    expected = [1 / 30 - 4 / 15, 2 / 15 - 1 / 15, 1 / 2 - 4 / 15, -1 / 15]
    np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=0.5)), expected, atol=1e-12)


def test_graft_counts_rewards_where_they_were_earned():
    rollouts = [[Turn("s", "a", "m", 2.0), Turn("m", "x", "e", 1.0)], [Turn("s", "b", "m", 0.0), Turn("m", "y", "e", 0.0)]]
    # gamma 1/2: V(m) = 1/4, V(s) = 1/2 (1 + V(m)) = 5/8; a: (2 + 1/4) / 2 - 5/8 = 1/2, b: 1/8 - 5/8; x: 1/2 - 1/4, y: -1/4.
    np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=0.5)), [0.5, 0.25, -0.5, -0.25], atol=1e-12)


def test_graft_end_in_a_state_is_not_that_state():
    """The first rollout is cut off in m with nothing; the second goes on from m to success: m keeps its value, the end has none."""
    cut, on = [Turn("s", "a", "m", 0.0)], [Turn("s", "a", "m", 0.0), Turn("m", "x", "e", 1.0)]
    # gamma 1: V(m) = 1, V(s) = (0 + 1) / 2.
    np.testing.assert_allclose(flat(estimate([cut, on], "graft_graph", gamma=1.0)), [-0.5, 0.5, 0.0], atol=1e-12)


def test_graft_tells_ends_in_one_state_apart():
    rollouts = [[Turn("s", "a", "e", 1.0)], [Turn("s", "a", "e", 0.0)]]
    np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=1.0)), [0.5, -0.5], atol=1e-12)


def test_graft_with_gamma_one_keeps_small_differences_between_large_outcomes():
    rollouts = [[Turn("s", "a", "s", 0.0), Turn("s", "b", "m", 0.0), Turn("m", "x", "e", 1e15 + r)] for r in (0.0, 1.0, 1.0)]
    # V(s) = V(m) = 1e15 + 2/3.
    expected = [0, 0, -2 * THIRD, 0, 0, THIRD, 0, 0, THIRD]
    np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=1.0)), expected, atol=1e-12)


def slow_graft(rollouts, weights, gamma: float) -> list[list[float]]:
    states = sorted({turn.state for rollout in rollouts for turn in rollout})
    place = {state: k for k, state in enumerate(states)}
    matrix, constant, total = np.zeros((len(states),) * 2), np.zeros(len(states)), np.zeros(len(states))
    for weight, rollout in zip(weights, rollouts, strict=True):
        for turn, after in zip(rollout, [*rollout[1:], None], strict=True):
            here = place[turn.state]
            total[here] += weight
            constant[here] += weight * gamma * turn.reward
            if after is not None:
                matrix[here, place[after.state]] += weight * gamma
    values = np.linalg.solve(np.eye(len(states)) - matrix / total[:, None], constant / total)
    ahead = [[0.0 if u is None else values[place[u.state]] for u in [*r[1:], None]] for r in rollouts]
    return [
        [gamma * (t.reward + v) - values[place[t.state]] for t, v in zip(r, a, strict=True)] for r, a in zip(rollouts, ahead, strict=True)
    ]


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("gamma", [0.99, 0.6, 1.0])
def test_graft_is_the_slow_reference(weighting, gamma):
    for rollouts in groups(12):
        weights = weights_of(rollouts, weighting)
        expected = averaged(rollouts, weights, slow_graft(rollouts, weights, gamma))
        np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", weighting=weighting, gamma=gamma)), expected, atol=1e-8)


def test_graft_converges_with_gamma_one_whatever_the_cycles():
    """Rollouts of 2,000 turns that wander among a few states, or among hundreds, and end but once."""
    rng = np.random.default_rng(0)
    for states in (3, 400):
        rollouts = []
        for i in range(4):
            path = rng.integers(states, size=2001).tolist()
            rollouts.append([Turn(a, "go", b, 0.0) for a, b in pairwise(path)] + [Turn(path[-1], "end", "e", float(i % 2))])
        expected = flat(slow_graft(rollouts, [1.0] * 4, 1.0))
        np.testing.assert_allclose(flat(estimate(rollouts, "graft_graph", gamma=1.0)), expected, atol=1e-8)


# --- GraphGPO


def shortcut() -> list[list[Turn]]:
    """From s, a leads to m, one turn from success; b leads away. The second rollout took a and failed later, the third took b."""
    won = [Turn("s", "a", "m", 0.0), Turn("m", "x", "won", 1.0)]
    return [won, [Turn("s", "a", "m", 0.0), Turn("m", "y", "lost", 0.0)], [Turn("s", "b", "n", 0.0), Turn("n", "x", "lost", 0.0)]]


def test_graphgpo_credits_the_good_turn_of_a_failure():
    # In s: worths 1 1 .01 (n is out of reach: 3 turns, against 1), so +-.577350 and twice that down, whatever omega is.
    graph = estimate(shortcut(), "graphgpo", episode_weight=0)
    np.testing.assert_allclose([a[0] for a in graph], [0.577350, 0.577350, -1.154700], atol=1e-5)
    # In m: success or out of reach, two turns in all; n was seen once.
    np.testing.assert_allclose([a[1] for a in graph], [0.707107, -0.707107, 0], atol=1e-5)


def test_graphgpo_settings_bite():
    rollouts = shortcut()
    rollouts.append([Turn("s", "c", "k", 0.0), Turn("k", "x", "m", 0.0), Turn("m", "x", "won", 0.5)])
    base = {key: flat(estimate(rollouts, "graphgpo", **{key: 0})) for key in ("episode_weight", "graph_weight")}
    both = flat(estimate(rollouts, "graphgpo", episode_weight=2, graph_weight=3))
    np.testing.assert_allclose(both, 2 * base["graph_weight"] + 3 * base["episode_weight"], atol=1e-12)
    np.testing.assert_allclose(base["graph_weight"], flat(estimate(rollouts, "grpo")), atol=1e-12)
    assert not np.allclose(flat(estimate(rollouts, "graphgpo", omega=0.9)), flat(estimate(rollouts, "graphgpo")))
    # With .5 as a success the last rollout's last turn in m reaches it, as the first one's does.
    low = estimate(rollouts, "graphgpo", episode_weight=0, success=0.5)
    assert low[3][2] == pytest.approx(low[0][1]) and low[3][2] > 0
    assert estimate(rollouts, "graphgpo", episode_weight=0)[3][2] < 0


def test_graphgpo_without_a_success_is_grpo(e1):
    np.testing.assert_allclose(flat(estimate(e1, "graphgpo", success=2)), flat(estimate(e1, "grpo")), atol=1e-12)


def test_graphgpo_sees_far_from_the_goal_as_well_as_near():
    """1,500 turns from success one action still loses a turn, in a state that both rollouts visit."""
    tail = [Turn(i, "go", i + 1, float(i == 1499)) for i in range(1500)]
    rollouts = [tail, [Turn(0, "stay", 0, 0.0), *tail[:-1]], [Turn("other", "go", "x", 0.0)]]
    graph = estimate(rollouts, "graphgpo", episode_weight=0)
    assert graph[0][0] > 0.5 and graph[1][0] < -0.5 and graph[1][1] == pytest.approx(graph[0][0])


def slow_graphgpo(rollouts, weights, omega: float = 0.1) -> list[list[float]]:
    outcomes = [sum(turn.reward for turn in rollout) for rollout in rollouts]
    best = max(outcomes)
    graph = nx.DiGraph()
    graph.add_node("goal")
    after = []
    for rollout, outcome in zip(rollouts, outcomes, strict=True):
        steps = [(turn.state, turn.next_state) for turn in rollout]
        if outcome == best:
            steps[-1] = (steps[-1][0], "goal")
        graph.add_edges_from((v, u) for u, v in steps)
        after.append([v for _, v in steps])
    reach = nx.single_source_shortest_path_length(graph, "goal")
    distance = {state: reach.get(state, max(reach.values()) + 1) for state in graph}
    cells: dict[str, list[tuple[float, float]]] = {}
    for weight, rollout, row in zip(weights, rollouts, after, strict=True):
        for turn, v in zip(rollout, row, strict=True):
            cells.setdefault(turn.state, []).append((weight, distance[v]))
    episode = [(o - np.average(outcomes, weights=weights)) / (spread(outcomes, weights, 1) + 1e-6) for o in outcomes]
    values = []
    for rollout, row, number in zip(rollouts, after, episode, strict=True):
        values.append([])
        for turn, v in zip(rollout, row, strict=True):
            members = cells[turn.state]
            w, low = [m[0] for m in members], min(m[1] for m in members)
            worths = [omega ** (m[1] - low) for m in members]
            contrast = omega ** (distance[v] - low) - np.average(worths, weights=w)
            values[-1].append(number + (contrast / (spread(worths, w, 1) + 1e-6) if len(members) > 1 else 0.0))
    return values


@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_graphgpo_is_the_slow_reference(weighting):
    for rollouts in groups(12):
        weights = weights_of(rollouts, weighting)
        expected = averaged(rollouts, weights, slow_graphgpo(rollouts, weights))
        np.testing.assert_allclose(flat(estimate(rollouts, "graphgpo", weighting=weighting)), expected, atol=1e-8)


# --- All three


@pytest.mark.parametrize("method", GRAPH)
def test_scale_of_rewards(method):
    """hgpo and graft_graph are linear in the rewards; graphgpo is indifferent to their scale, but for eps."""
    rollouts = random_tree(4)
    plain = flat(estimate(rollouts, method))
    for scale in (1e-12, 1e12):
        scaled = [[Turn(t.state, t.action, t.next_state, t.reward * scale, node=t.node) for t in rollout] for rollout in rollouts]
        given = flat(estimate(scaled, method))
        if method != "graphgpo":
            np.testing.assert_allclose(given / scale, plain, atol=1e-8)
        else:
            assert np.isfinite(given).all()
            graph = [flat(estimate(group, method, episode_weight=0)) for group in (rollouts, scaled)]
            np.testing.assert_allclose(graph[1], graph[0], atol=1e-12)


@pytest.mark.parametrize("method", GRAPH)
def test_smallest_groups(method):
    """Two rollouts of one turn in one state; then two that share nothing."""
    same = estimate([[Turn("s", "a", "e", 1.0)], [Turn("s", "b", "f", 0.0)]], method)
    assert same[0][0] > 0 > same[1][0] and same[0][0] == pytest.approx(-same[1][0])
    apart = estimate([[Turn("s", "a", "e", 1.0)], [Turn("t", "b", "f", 0.0)]], method)
    assert flat(apart) == pytest.approx([0.707106, -0.707106] if method == "graphgpo" else [0, 0], abs=1e-5)
