"""The state graph of a tree: states are nodes, placed by the fewest turns it takes to reach them; turns between two states are one edge."""

from collections import defaultdict
from typing import Any

from trainer.viewer.run_answers import RunReader, numbers
from tree_rollout.state_graph import StateGraph, StateNode
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import mean_known

_LARGEST = 600
"""States that are drawn; beyond that those with the most turns are, and the answer says how many there are."""


def graph_answer(reader: RunReader, tree_id: int) -> dict[str, Any]:
    """Nodes with visits and mean return, edges with their actions."""
    read = reader.tree(tree_id)
    tree = read.tree
    graph = StateGraph.from_trees([tree])
    turns_at: dict[StateNode, list[int]] = defaultdict(list)
    edges: dict[tuple[StateNode, StateNode], list[int]] = defaultdict(list)
    for before, after, (_, turn) in graph.graph.edges(keys=True):
        turns_at[before].append(turn)
        turns_at.setdefault(after, [])
        edges[before, after].append(turn)
    distance = _distances(tree, graph)
    shown = sorted(turns_at, key=lambda node: (-len(turns_at[node]), distance.get(node, 0)))[:_LARGEST]
    shown.sort(key=lambda node: (distance.get(node, 0), min(turns_at[node], default=0)))
    place = {node: number for number, node in enumerate(shown)}
    column = [distance.get(node, 0) for node in shown]
    row: list[int] = []
    used: dict[int, int] = defaultdict(int)
    for depth in column:
        row.append(used[depth])
        used[depth] += 1
    return {
        "tree": read.summary.id,
        "states": len(turns_at),
        "state": [node.state for node in shown],
        "column": column,
        "row": row,
        "visits": [len(turns_at[node]) for node in shown],
        "turn": [min(turns_at[node], default=-1) for node in shown],
        "value": numbers([mean_known(read.values_N[turns_at[node]]) for node in shown]),
        "edges": [
            [place[before], place[after], len(turns), tree.turns[turns[0]].action[:80]]
            for (before, after), turns in edges.items()
            if before in place and after in place
        ],
    }


def _distances(tree: TrajectoryTree, graph: StateGraph) -> dict[StateNode, int]:
    """The fewest turns from a root to each state."""
    distance: dict[StateNode, int] = {}
    frontier = [node for root in tree.children(-1) if (node := graph.node(0, root)) is not None]
    depth = 0
    while frontier:
        fresh = [node for node in dict.fromkeys(frontier) if node not in distance]
        distance.update(dict.fromkeys(fresh, depth))
        frontier = [after for node in fresh for after in graph.graph.successors(node)]
        depth += 1
    return distance
