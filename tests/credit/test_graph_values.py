"""Values on graphs with cycles are those of a dense solve; distances are those of a breadth-first search; closed cycles are named."""

import networkx as nx
import numpy as np
import pytest

from credit import GroupError
from credit import graph_knot as knots
from credit.adjacency import Adjacency, distances
from credit.graph_values import graph_values


def walks(seed: int, states: int, rollouts: int, turns: int, near: bool = False) -> tuple[np.ndarray, ...]:
    """Edges of random walks of several weights that all end: source, target (-1 at an end), weight, reward."""
    rng = np.random.default_rng(seed)
    columns = []
    for _ in range(rollouts):
        length = int(rng.integers(1, turns + 1))
        path = np.abs(np.cumsum(rng.integers(-1, 2, length))) % states if near else rng.integers(states, size=length)
        weight = float(rng.choice([1.0, 0.5, 1 / 3, 1e-30]))
        columns.append((path, np.append(path[1:], -1), np.full(length, weight), rng.normal(size=length)))
    source, target, weight, reward = (np.concatenate(column) for column in zip(*columns, strict=True))
    return source, target, weight, reward


def dense_solve(source, target, weight, reward, gamma: float, states: int) -> np.ndarray:
    """The equations written out one edge at a time."""
    matrix, constant = np.eye(states), np.zeros(states)
    total = np.bincount(source, weight, states)
    for u, v, w, r in zip(source, target, weight, reward, strict=True):
        constant[u] += w / total[u] * r
        if v >= 0:
            matrix[u, v] -= gamma * w / total[u]
    return np.linalg.solve(matrix, constant)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("near", [False, True])
def test_values_are_those_of_a_dense_solve(gamma, near):
    for seed in range(40):
        states = (3, 20, 90, 300)[seed % 4]
        edges = walks(seed, states, rollouts=1 + seed % 7, turns=150, near=near)
        values = graph_values(*edges, gamma, np.zeros(states, dtype=np.int64))
        np.testing.assert_allclose(values, dense_solve(*edges, gamma, states), atol=1e-8, rtol=0)


@pytest.mark.parametrize("gamma", [0.99, 1.0])
def test_parts_do_not_touch_each_other(gamma):
    """Three parts, small and large, whose nodes are interleaved and whose rewards differ by many orders: each as solved alone."""
    sizes, scales = (10, 200, 150), (1e12, 1.0, 1e-12)
    parts = [walks(seed, size, 6, 200) for seed, size in enumerate(sizes)]
    sources = [3 * s + part for part, (s, _, _, _) in enumerate(parts)]
    targets = [np.where(t < 0, -1, 3 * t + part) for part, (_, t, _, _) in enumerate(parts)]
    rewards = [r * scale for (_, _, _, r), scale in zip(parts, scales, strict=True)]
    weights = np.concatenate([w for _, _, w, _ in parts])
    columns = np.concatenate(sources), np.concatenate(targets), weights, np.concatenate(rewards)
    together = graph_values(*columns, gamma, np.arange(600) % 3)
    for part, (edges, size, scale) in enumerate(zip(parts, sizes, scales, strict=True)):
        np.testing.assert_allclose(together[part::3][:size] / scale, dense_solve(*edges, gamma, size), atol=1e-8)


def test_chains_and_hubs():
    """Long one-way chains between hubs, a pure circle with exits, a loop, and nodes before, between and after them."""
    # 0 -> 1 -> 2 -> 0 is a circle of single successors; 3 -> 4 -> 3 another; 5 loops; 6 leads in, 7 leads out; 8 is never a source.
    edges = [(6, 0), (0, 1), (1, 2), (2, 0), (2, -1), (0, 3), (3, 4), (4, 3), (4, -1), (3, 5), (5, 5), (5, 7), (7, -1), (7, 8)]
    source, target = (np.array(column) for column in zip(*edges, strict=True))
    rng = np.random.default_rng(0)
    weight, reward = rng.random(len(edges)) + 0.1, rng.normal(size=len(edges))
    for gamma in (0.7, 1.0):
        values = graph_values(source, target, weight, reward, gamma, np.zeros(9, dtype=np.int64))
        np.testing.assert_allclose(values, dense_solve(source, target, weight, reward, gamma, 9), atol=1e-12)


def test_circles_of_single_successors_leak_only_by_gamma():
    """Two nodes that lead to each other and nowhere else: V0 = 1 + gamma V1, V1 = gamma V0; a chain leads into them."""
    source, target = np.array([0, 1, 2, 3]), np.array([1, 0, 0, 2])
    values = graph_values(source, target, np.ones(4), np.array([1.0, 0, 0, 0]), 0.5, np.zeros(4, dtype=np.int64))
    np.testing.assert_allclose(values, [4 / 3, 2 / 3, 2 / 3, 1 / 3], atol=1e-12)


def test_a_stalled_iteration_is_solved_directly_or_named(monkeypatch):
    edges = walks(5, 200, 8, 150)
    part = np.zeros(200, dtype=np.int64)
    expected = graph_values(*edges, 0.99, part)
    monkeypatch.setattr(knots, "STEPS", 1)
    monkeypatch.setattr(knots, "ROUNDS", 2)
    np.testing.assert_allclose(graph_values(*edges, 0.99, part), expected, atol=1e-8)
    monkeypatch.setattr(knots, "LARGEST", 60)
    with pytest.raises(GroupError, match=r"states that form cycles with 'room \d+' do not converge"):
        graph_values(*edges, 0.99, part, [f"room {i}" for i in range(200)])


@pytest.mark.parametrize("edges", [[(0, -1), (1, 2), (2, 1)], [(0, 1), (0, -1), (1, 1)], [(0, 1), (1, 2), (2, 1), (2, 2)]])
def test_a_cycle_without_an_exit_has_a_value_only_below_gamma_one(edges):
    source, target = (np.array(column) for column in zip(*edges, strict=True))
    columns = source, target, np.ones(len(edges)), np.ones(len(edges))
    part = np.zeros(3, dtype=np.int64)
    np.testing.assert_allclose(graph_values(*columns, 0.9, part), dense_solve(*columns, 0.9, 3), atol=1e-9)
    with pytest.raises(GroupError, match=r"no rollout comes to an end from .* among them, .* gamma = 1"):
        graph_values(*columns, 1.0, part, ["start", "b", "c"])


def test_a_long_path_of_rare_exits_keeps_its_digits():
    """One rollout goes round two states 2,000 times and is paid once at the end: with gamma 1 both states are worth all of it."""
    source = np.arange(4000) % 2
    target, reward = np.append(source[1:], -1), np.zeros(4000)
    reward[-1] = 1e12
    values = graph_values(source, target, np.ones(4000), reward, 1.0, np.zeros(2, dtype=np.int64))
    np.testing.assert_allclose(values, 1e12, rtol=1e-8)


def test_adjacency_gives_every_edge_of_a_front_once():
    ends = np.array([2, 0, -1, 2, 1, 0])
    entering = Adjacency.by(ends, 4)
    assert entering.edges(np.array([0])).tolist() == [1, 5]
    assert entering.edges(np.array([3, 2, 0])).tolist() == [0, 3, 1, 5]
    assert entering.edges(np.array([3])).tolist() == [] == entering.edges(np.array([], dtype=np.int64)).tolist()


def test_distances_are_those_of_a_breadth_first_search():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        source, target = rng.integers(30, size=40), rng.integers(30, size=40)
        goal = rng.random(40) < 0.1
        graph = nx.DiGraph(list(zip(target[~goal].tolist(), source[~goal].tolist(), strict=True)))
        graph.add_edges_from(("goal", int(node)) for node in source[goal])
        graph.add_node("goal")
        lengths = nx.single_source_shortest_path_length(graph, "goal")
        assert distances(source, target, goal, 30).tolist() == [lengths.get(node, -1) for node in range(30)]
