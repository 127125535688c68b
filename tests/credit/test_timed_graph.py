"""The graph unrolled over time is the one that dictionaries give; limits, ends and unseen states are where they belong."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from limited_trees import Rollouts, limited_tree, slow_graph, slow_nodes
from random_trees import random_tree

from credit import Batch, Turn
from credit.timed_graph import TimedGraph, meetings


def read(*tasks: Rollouts) -> tuple[Batch, TimedGraph]:
    batch = Batch.read(tasks, needs=["truncated"])
    return batch, TimedGraph.of(batch, batch.reward_O[batch.nodes.first_N], meetings(batch))


def place(batch: Batch, graph: TimedGraph, at: int, task: int):
    """A place as dictionaries name it."""
    inner = len(graph.state_X)
    if at == inner:
        return ("end",)
    if at > inner:
        assert (at - inner - 1) // (graph.turns + 1) == task
        return ("unseen", (at - inner - 1) % (graph.turns + 1))
    return ("state", batch.states[graph.state_X[at]], int(graph.turn_X[at]))


def check(*tasks: Rollouts) -> None:
    batch, graph = read(*tasks)
    slow = [slow_graph(slow_nodes(rollouts, [1.0] * len(rollouts), 1.0)) for rollouts in tasks]
    rows = iter(batch.nodes.of_O.tolist())
    inner = len(graph.state_X)
    for task, rollouts in enumerate(tasks):
        for rollout in rollouts:
            for turn in rollout:
                node = next(rows)
                assert ("state", *slow[task].at[turn.node]) == place(batch, graph, graph.at_N[node], task)
                edge = graph.edge_N[node]
                assert graph.source_E[edge] == graph.at_N[node]
                assert any(turn.node in numbers for numbers, _ in edges_at(slow[task], batch, graph, edge).values())
    found = {}
    for edge, source in enumerate(graph.source_E.tolist()):
        task = int(graph.task_X[source])
        key = (task, *place(batch, graph, source, task)[1:])
        target = place(batch, graph, graph.target_E[edge], task)
        kind = graph.kind_E[edge]
        assert graph.taken.state_D[kind] == graph.state_X[source]
        found.setdefault(key, []).append((target, graph.taken.count_D[kind], round(graph.taken.reward_D[kind], 9)))
    rewards = [{t.node: t.reward for rollout in rollouts for t in rollout} for rollouts in tasks]
    expected = {
        (task, *timed): [(to, len(own), round(sum(rewards[task][n] for n in own) / len(own), 9)) for own, to in edges.values()]
        for task, graph_of in enumerate(slow)
        for timed, edges in graph_of.edges.items()
    }
    assert {key: sorted(own, key=repr) for key, own in found.items()} == {key: sorted(own, key=repr) for key, own in expected.items()}
    counts_X = np.bincount(graph.source_E, graph.taken.count_D[graph.kind_E])
    np.testing.assert_array_equal(counts_X, graph.taken.visits_S[graph.state_X])
    assert len(counts_X) == inner and (np.diff(graph.source_E) >= 0).all()


def edges_at(slow, batch, graph, edge):
    """The dictionary's edges of the edge's timed state that lead where the edge leads."""
    task = int(graph.task_X[graph.source_E[edge]])
    timed = place(batch, graph, graph.source_E[edge], task)[1:]
    target = place(batch, graph, graph.target_E[edge], task)
    return {key: own for key, own in slow.edges[timed].items() if own[1] == target}


@pytest.mark.parametrize("forks", [0.0, 0.3])
@pytest.mark.parametrize("cut", [True, False])
def test_edges_are_those_of_a_dictionary(forks, cut):
    for seed in range(8):
        check(limited_tree(seed, 4 + seed % 4, forks=forks, cut=cut, states=2 + seed % 5), limited_tree(seed + 90, 5, cut=not cut))


def test_trees_cut_off_anywhere_have_no_limit_unless_it_is_the_last_turn():
    for seed in range(12):
        check(random_tree(seed), random_tree(seed + 50, roots=2, depth=3))


def test_the_transitions_of_a_state_and_action_stand_together():
    batch, graph = read(limited_tree(1), limited_tree(2))
    taken, first_N = graph.taken, batch.nodes.first_N
    np.testing.assert_array_equal(taken.state_D[taken.of_N], batch.state_O[first_N])
    action_D = np.full(len(taken.state_D), -1)
    action_D[taken.of_N] = batch.action_O[first_N]
    keys = list(zip(taken.state_D.tolist(), action_D.tolist(), strict=True))
    assert keys == sorted(keys) and len(keys) > len(set(keys)) > 2
    assert taken.first_D.tolist() == [place == keys.index(key) for place, key in enumerate(keys)]
    np.testing.assert_array_equal(np.bincount(taken.state_D, minlength=len(batch.states)), taken.kinds_S)


def test_levels_stand_latest_first_and_cover_all():
    _, graph = read(limited_tree(3), limited_tree(4, limit=3))
    turns = [set(graph.turn_X[here].tolist()) for here, _ in graph.levels]
    assert [len(turn) for turn in turns] == [1] * len(graph.levels)
    assert [turn.pop() for turn in turns] == list(range(graph.turns - 1, -1, -1))
    places = np.concatenate([np.arange(len(graph.state_X))[here] for here, _ in graph.levels])
    edges = np.concatenate([np.arange(len(graph.source_E))[edges] for _, edges in graph.levels])
    assert places.tolist() == list(range(len(graph.state_X))) and edges.tolist() == list(range(len(graph.source_E)))
    assert all(set(graph.source_E[edges]) == set(places[here]) for here, edges in graph.levels)
    # A target that is no rim place and no earlier turn stands before its source.
    inner = graph.target_E < len(graph.state_X)
    later = graph.turn_X[graph.target_E[inner]] > graph.turn_X[graph.source_E[inner]]
    assert (graph.target_E[inner] < graph.source_E[inner])[later].all()


def walk(*states: str, truncated: bool = False, first: int = 0) -> list[Turn]:
    turns = [Turn(a, "go", b, 0.0, node=first + t) for t, (a, b) in enumerate(pairwise(states))]
    turns[-1] = replace(turns[-1], truncated=truncated)
    return turns


def targets(*rollouts: list[Turn]) -> dict:
    """Of each timed state and next signature (or None at an end) the target."""
    batch, graph = read(list(rollouts))
    found = {}
    for n, first in enumerate(batch.nodes.first_N):
        state, after = batch.states[batch.state_O[first]], batch.states[batch.next_state_O[first]]
        end = batch.nodes.children_N[n] == 0 and not batch.extra["truncated"][first]
        for edge in np.flatnonzero(graph.kind_E == graph.taken.of_N[n]):
            timed = (state, int(graph.turn_X[graph.source_E[edge]]), None if end else after)
            found[timed] = place(batch, graph, graph.target_E[edge], 0)
    return found


def test_where_transitions_lead():
    """a at 0 and 3, b at 1 and 2, c at 4; the first rollout is cut off at the limit of 5 turns, before d."""
    found = targets(walk("a", "b", "b", "a", "c", "d", truncated=True), walk("a", "b", first=10))
    assert found == {
        ("a", 0, "b"): ("state", "b", 1),
        # At 3 and 4 b is met no more: the last time before.
        ("a", 3, "b"): ("state", "b", 2),
        ("a", 0, None): ("end",),
        ("a", 3, None): ("end",),
        # At 1, c is met later.
        ("a", 0, "c"): ("state", "c", 4),
        ("a", 3, "c"): ("state", "c", 4),
        ("b", 1, "b"): ("state", "b", 2),
        ("b", 2, "b"): ("state", "b", 2),
        # The next time after turn 2.
        ("b", 1, "a"): ("state", "a", 3),
        ("b", 2, "a"): ("state", "a", 3),
        # The limit cuts off what comes after.
        ("c", 4, "d"): ("end",),
    }


def test_a_state_in_which_no_turn_was_taken_has_a_place_of_its_turn():
    """d follows c at turn 1 as well, where turns are left."""
    group = [walk("a", "b", "c", "d", truncated=True), walk("a", "c", "a", "e", first=10)]
    check(limited_tree(0), group, group)
    found = targets(*group)
    assert found["c", 1, "d"] == ("unseen", 2) and found["c", 2, "d"] == ("end",)
    assert found["a", 2, None] == ("end",)


def test_a_rollout_cut_off_early_sets_no_limit():
    short, long = walk("a", "b", "c", truncated=True), walk("a", "b", "b", "b", "b", "e", first=10)
    found = targets(short, long)
    assert found["b", 1, "c"] == ("unseen", 2) and found["b", 4, "c"] == ("unseen", 5)
    assert found["b", 2, "b"] == ("state", "b", 3)


def test_one_tasks_limit_is_not_anothers():
    batch, graph = read([walk("a", "b", "c", truncated=True)], [walk("a", "a", "a", "a", "e")])
    other = graph.task_X[graph.source_E] == 1
    assert sum(place(batch, graph, at, 1) == ("end",) for at in graph.target_E[other].tolist()) == int(
        (graph.turn_X[graph.task_X == 1] < 9).sum()
    )


def test_values_behind_the_rim():
    _, graph = read(limited_tree(1), limited_tree(2))
    means = np.arange(2.0 * graph.turns).reshape(2, -1) + 1
    values = graph.with_rim(np.full(len(graph.state_X), -1.0), means)
    rim = values[len(graph.state_X) :]
    assert rim[0] == 0 and rim[1 : graph.turns + 1].tolist() == means[0].tolist() and rim[graph.turns + 1] == 0
    assert rim[graph.turns + 2 : -1].tolist() == means[1].tolist() and rim[-1] == 0


def hub(turns: int, ways: int) -> Rollouts:
    """One state met at every second turn, and left in many ways."""
    states = [state for t in range(turns // 2) for state in ("hub", f"s{t % ways}")]
    return [walk(*states, "hub")]


def test_a_state_met_at_very_many_turns_gets_few_timed_edges():
    batch, graph = read(hub(2000, 100))
    at_hub = graph.state_X == batch.states.index("hub")
    kinds, visits = 100, 1000
    assert graph.taken.visits_S[batch.states.index("hub")] == visits and at_hub.sum() == 8 * visits // kinds
    assert at_hub[graph.source_E].sum() == 8 * visits
    # Evenly chosen, each in the name of its latest turn: every node is at most one gap earlier than its timed state.
    assert np.unique(np.diff(np.sort(graph.turn_X[at_hub]))).tolist() in ([24, 26], [26, 24], [24], [26], [25])
    turn_N = batch.position_O[batch.nodes.first_N]
    late_N = graph.turn_X[graph.at_N] - turn_N
    assert late_N.min() == 0 and late_N.max() <= 26
    check(hub(400, 30))
