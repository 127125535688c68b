"""Two rooms and a locked door between them: the goal can be reached only by way of the key, which is picked up where it lies."""

import numpy as np

from benchmarks.truth.process import Process
from benchmarks.truth.world import enumerate_world

_ROWS, _COLUMNS, _WALL = 3, 7, 3
_DOOR = (1, _WALL)
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))

Cell = tuple[int, int]
GridState = tuple[Cell, bool]
"""Where the agent stands, and whether it has the key."""


def key_door(name: str, doc: str, seed: int) -> Process:
    """A grid of 3 x 7 cells whose middle column is a wall with the door in it; start, key and goal are placed by the seed.

    Actions: up, down, left, right. A move into a wall, or into the door without the key, leaves the state as it is.
    """
    rng = np.random.default_rng(seed)
    start, key = (_cell(place) for place in rng.choice(_ROWS * _WALL, size=2, replace=False))
    row, column = _cell(int(rng.integers(_ROWS * _WALL)))
    goal = (row, column + _WALL + 1)

    def step(state: GridState, action: int) -> GridState | None:
        cell, has_key = state
        to = (cell[0] + _MOVES[action][0], cell[1] + _MOVES[action][1])
        if not (0 <= to[0] < _ROWS and 0 <= to[1] < _COLUMNS) or (to[1] == _WALL and (to != _DOOR or not has_key)):
            return state
        return None if to == goal else (to, has_key or to == key)

    return enumerate_world(name, doc, (start, False), step, len(_MOVES), 24, {"merges", "idle", "cyclic"}, seed)


def _cell(place: int) -> Cell:
    """A cell of the left room."""
    return divmod(int(place), _WALL)
