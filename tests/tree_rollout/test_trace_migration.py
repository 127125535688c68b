"""`data/trace_v1.sqlite` was written by the first version: five trees in three iterations, with advantages, and a fork in tree 1."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from counter_world import advantages_of, assert_same_tree, grown, tree_of
from trace_world import META

from tree_rollout.errors import TraceError
from tree_rollout.trace import Trace
from tree_rollout.trace_file import SCHEMA_VERSION
from tree_rollout.tree_summary import TreeSummary

_FIRST = Path(__file__).parent / "data" / "trace_v1.sqlite"
_CONTENT = "cf01b9d13f94c1dc21e5a1b67e2ee3eaa0d2c03d"


@pytest.fixture
def first(tmp_path):
    return Path(shutil.copy(_FIRST, tmp_path / "trace.sqlite"))


def version_of(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


def assert_holds_what_was_written(trace):
    assert trace.meta == META and trace.content_digest() == _CONTENT
    summaries = list(trace.trees())
    assert [(summary.iteration, summary.position) for summary in summaries] == [(0, 0), (0, 1), (1, 0), (1, 1), (7, 0)]
    written = [*grown(0), *grown(1), tree_of("0123", "0124", "05", failed=(2,))]
    advantages = [*advantages_of(grown(0)), *advantages_of(grown(1)), None]
    for summary, tree, advantages_N in zip(summaries, written, advantages, strict=True):
        fresh = TreeSummary.of(tree, summary.iteration, summary.position, advantages_N)
        for name in ("depth", "branches", "sampled_tokens", "return_min", "return_max", "advantage_min", "advantage_max"):
            assert getattr(summary, name) == getattr(fresh, name)
        if not summary.forks:
            assert_same_tree(trace.tree(summary.id), tree)


def test_the_first_version_is_read_without_changing_the_file(first):
    before = first.read_bytes()
    with Trace.open(first, readonly=True) as trace:
        assert_holds_what_was_written(trace)
    assert first.read_bytes() == before and [entry.name for entry in first.parent.iterdir()] == [first.name]


def test_the_first_version_is_lifted_in_place_and_goes_on(first):
    with Trace.open(first) as trace:
        assert_holds_what_was_written(trace)
        trace.append(grown(9), 9)
    assert version_of(first) == SCHEMA_VERSION
    with Trace.open(first, readonly=True) as trace:
        assert [summary.iteration for summary in trace.trees()] == [0, 0, 1, 1, 7, 9, 9]


@pytest.mark.parametrize("fault", ["UPDATE trees SET seed = 77 WHERE id = 2", "UPDATE turns SET reward = 77 WHERE tree = 2 AND turn = 0"])
def test_what_was_damaged_before_is_damaged_afterwards(first, fault):
    connection = sqlite3.connect(first)
    connection.execute(fault)
    connection.commit()
    connection.close()
    for readonly in (True, False, True):
        with Trace.open(first, readonly) as trace:
            with pytest.raises(TraceError, match="digest says"):
                trace.tree(2)
            trace.tree(1)


def test_a_lift_that_fails_leaves_the_first_version(first, monkeypatch):
    before = first.read_bytes()

    def fail(*arguments, **options):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("tree_rollout.trace_migration._added_2", fail)
    with pytest.raises(TraceError, match="disk I/O error"):
        Trace.open(first)
    assert version_of(first) == 1
    monkeypatch.undo()
    Trace.open(first).close()
    assert before and version_of(first) == SCHEMA_VERSION
