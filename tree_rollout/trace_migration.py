"""A trace of any earlier version holds the same trees after migration, byte for byte in their digests; what was damaged stays damaged.

Each step lifts the tables by one version, inside the transaction of whoever calls it. A row that does not pass its digest before a step
keeps that digest, so that it does not pass afterwards either, and reading it says so.
"""

import sqlite3
from collections.abc import Callable

from tree_rollout import trace_codec as codec
from tree_rollout.errors import TraceError
from tree_rollout.trace_segment import decode_turns, read_advantages, read_segments
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_summary import TreeSummary

_SUMMARY_1 = (
    "id, iteration, position, env_id, seed, env_kwargs, turns, rollouts, failed, successes, failed_turns, states, "
    "merged_turns, convergent_turns, self_merges, forks, fork_turns, raw_bytes"
)
_ADDED_2 = ("depth", "branches", "sampled_tokens", "return_min", "return_max", "advantage_min", "advantage_max")


def migrate(connection: sqlite3.Connection, version: int, target: int) -> None:
    """Lift the tables from `version` to `target`."""
    for step in range(version, target):
        _STEPS[step](connection)
    connection.execute(f"PRAGMA user_version = {target}")


def _summaries_of_depth_returns_and_advantages(connection: sqlite3.Connection) -> None:
    """From 1 to 2: seven figures more in a tree's row."""
    for name in _ADDED_2:
        kind = " INTEGER" if name in ("depth", "branches", "sampled_tokens") else ""
        connection.execute(f"ALTER TABLE trees ADD COLUMN {name}{kind}")
    marks = ", ".join(f"{name} = ?" for name in (*_ADDED_2, "row_digest"))
    for row in connection.execute(f"SELECT {_SUMMARY_1}, appended, content, row_digest FROM trees").fetchall():
        *values, digest = row
        if codec.chain(b"", [tuple(values)]) != digest:
            continue
        tree_id = values[0]
        try:
            added = _added_2(connection, tree_id)
        except (TraceError, ValueError, TypeError, KeyError, IndexError, OverflowError):
            # Its turns cannot be read; that is said when somebody asks for them.
            added = (None,) * len(_ADDED_2)
        lifted = (*values[:15], *added, *values[15:])
        connection.execute(f"UPDATE trees SET {marks} WHERE id = ?", (*added, codec.chain(b"", [lifted]), tree_id))


def _added_2(connection: sqlite3.Connection, tree_id: int) -> codec.Row:
    """The figures `_ADDED_2` of a tree as it was appended, which its first segment is."""
    segments = read_segments(connection, tree_id)[:1]
    tree = TrajectoryTree("", 0, turns=list(decode_turns(connection, segments)))
    summary = TreeSummary.of(tree, 0, 0, read_advantages(connection, segments))
    return tuple(getattr(summary, name) for name in _ADDED_2)


_STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _summaries_of_depth_returns_and_advantages}
"""The step from each version to the next one."""
OLDEST = min(_STEPS)
"""The earliest version that can be read."""
