"""A node is one turn of the tree, however many rollouts run through it: it has one parent, one content and one number.

Axes as in `credit.group`: _O rows (turns of rollouts), _N nodes, _R rollouts that have turns.
"""

from dataclasses import dataclass

import numpy as np

from credit.errors import GroupError
from credit.moments import IntArray
from credit.reader import Columns


@dataclass(frozen=True, slots=True)
class Nodes:
    """The tree that the rows of all rollouts form; nodes are numbered in order of first appearance, parents before children."""

    of_O: IntArray
    """The node of each row."""
    first_N: IntArray
    """The first row of each node."""
    parent_N: IntArray
    """The node before each node; -1 for a first turn."""
    children_N: IntArray
    """Number of distinct continuations of each node."""


def read_nodes(columns: Columns, position_O: IntArray, ends_R: IntArray) -> Nodes:
    """The tree of the rows, from each row's position in its rollout and each rollout's last row; raises `GroupError`."""
    node_O, first_N = _number(columns.nodes)
    before_O = np.where(position_O == 0, -1, np.roll(node_O, 1))
    _check_tree(columns, first_N[node_O], before_O, position_O)
    parent_N = before_O[first_N]
    children_N = np.bincount(parent_N[parent_N >= 0], minlength=len(first_N))
    _check_leaves(columns, node_O, children_N, ends_R)
    return Nodes(node_O, first_N, parent_N, children_N)


def _number(nodes: list[int | None]) -> tuple[IntArray, IntArray]:
    """The node of each row, and the first row of each node."""
    if set(map(type, nodes)) <= {type(None)}:
        return np.arange(len(nodes)), np.arange(len(nodes))
    seen: dict[int, int] = {}
    first_O = [row if node is None else seen.setdefault(int(node), row) for row, node in enumerate(nodes)]
    first_N, node_O = np.unique(np.array(first_O, dtype=np.int64), return_inverse=True)
    return node_O, first_N


def _check_tree(columns: Columns, first_O: IntArray, before_O: IntArray, position_O: IntArray) -> None:
    for what, column_O in (
        ("comes after another turn", before_O),
        ("stands at another depth", position_O),
        ("has another state", columns.state_O),
        ("has another action", columns.action_O),
        ("has another next_state", columns.next_state_O),
        ("has another reward", columns.reward_O),
    ):
        wrong = np.flatnonzero(column_O != column_O[first_O])
        if wrong.size:
            row, first = int(wrong[0]), int(first_O[wrong[0]])
            raise GroupError(
                f"{columns.place(row)} {what} than {columns.place(first)}, but both are node {columns.nodes[row]}; "
                "give equal integers to the same turn of one tree only"
            )


def _check_leaves(columns: Columns, node_O: IntArray, children_N: IntArray, ends_R: IntArray) -> None:
    leaf_R = node_O[ends_R]
    inner = np.flatnonzero(children_N[leaf_R] > 0)
    if inner.size:
        row = int(ends_R[inner[0]])
        raise GroupError(
            f"{columns.place(row)} ends its rollout at node {columns.nodes[row]}, where another rollout goes on; "
            "give each leaf of the tree as one rollout"
        )
    seen: dict[int, int] = {}
    for leaf, row in zip(leaf_R.tolist(), ends_R.tolist(), strict=True):
        if leaf in seen:
            raise GroupError(
                f"{columns.place(row)} and {columns.place(seen[leaf])} both end at node {columns.nodes[row]}; "
                "give each leaf of the tree as one rollout"
            )
        seen[leaf] = row
