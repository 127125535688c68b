"""A node is one turn of the tree, however many rollouts run through it: it has one parent, one content and one number.

Axes as in `credit.batch`: _O rows (turns of rollouts), _N nodes, _R rollouts that have turns.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from credit.errors import GroupError
from credit.moments import IntArray, first_rows
from credit.reader import Columns

_Scalar = TypeVar("_Scalar", bound=np.generic)


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

    @property
    def shared(self) -> bool:
        """Whether any turn belongs to more than one rollout."""
        return len(self.first_N) < len(self.of_O)

    def once(self, column_O: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
        """What the rows of each node say alike, shape (N,)."""
        return column_O[self.first_N] if self.shared else column_O


def read_nodes(columns: Columns, position_O: IntArray, ends_R: IntArray) -> Nodes:
    """The tree of the rows, from each row's position in its rollout and each rollout's last row; raises `GroupError`."""
    node_O = columns.node_O
    count = int(node_O.max(initial=-1)) + 1
    if count == len(node_O):
        rows_O, children_N = np.arange(count), np.ones(count, dtype=np.int64)
        children_N[ends_R] = 0
        return Nodes(rows_O, rows_O, np.where(position_O == 0, -1, rows_O - 1), children_N)
    first_N = first_rows(node_O)
    before_O = np.where(position_O == 0, -1, np.roll(node_O, 1))
    _check_tree(columns, first_N[node_O], before_O, position_O)
    parent_N = before_O[first_N]
    children_N = np.bincount(parent_N[parent_N >= 0], minlength=count)
    _check_leaves(columns, node_O, children_N, ends_R)
    return Nodes(node_O, first_N, parent_N, children_N)


def _check_tree(columns: Columns, first_O: IntArray, before_O: IntArray, position_O: IntArray) -> None:
    # What a rollout's summary cites is a fact of that rollout; all else is a fact of the turn.
    facts = {name: column_O for name, column_O in (*columns.rewards.items(), *columns.extra.items()) if name != "cited"}
    for what, column_O in (
        ("comes after another turn", before_O),
        ("stands at another depth", position_O),
        ("has another state", columns.state_O),
        ("has another action", columns.action_O),
        ("has another next_state", columns.next_state_O),
        ("has another reward", columns.reward_O),
        *((f"has another {name}", column_O) for name, column_O in facts.items()),
    ):
        wrong = np.flatnonzero(column_O != column_O[first_O])
        if wrong.size:
            row, first = int(wrong[0]), int(first_O[wrong[0]])
            raise GroupError(
                f"{columns.place(row)} {what} than {columns.place(first)}, but both are the same node; "
                "give equal integers to the same turn of one tree only"
            )


def _check_leaves(columns: Columns, node_O: IntArray, children_N: IntArray, ends_R: IntArray) -> None:
    leaf_R = node_O[ends_R]
    inner = np.flatnonzero(children_N[leaf_R] > 0)
    if inner.size:
        raise GroupError(
            f"{columns.place(int(ends_R[inner[0]]))} ends its rollout at a node where another rollout goes on; "
            "give each leaf of the tree as one rollout"
        )
    first_R = np.unique(leaf_R, return_index=True)[1]
    if len(first_R) < len(leaf_R):
        again = int(np.setdiff1d(np.arange(len(leaf_R)), first_R)[0])
        first = int(np.flatnonzero(leaf_R == leaf_R[again])[0])
        raise GroupError(
            f"{columns.place(int(ends_R[again]))} and {columns.place(int(ends_R[first]))} both end at the same node; "
            "give each leaf of the tree as one rollout"
        )
