"""The benchmark of traces and pages measures what it says, on little."""

import numpy as np
import pytest

from benchmarks.traces.page_rows import page_rows
from benchmarks.traces.recorded import TreeMaker
from benchmarks.traces.store_rows import find_rows, record_rows


def test_the_same_seed_makes_the_same_trees():
    one, other = (list(TreeMaker(seed=3, episodes=2).trees(3, 40, 4)) for _ in range(2))
    for tree, again in zip(one, other, strict=True):
        assert len(tree.leaves()) == 4 and len(tree.turns) == 40
        for turn, same in zip(tree.turns, again.turns, strict=True):
            assert turn.action == same.action and turn.parent == same.parent
            np.testing.assert_array_equal(turn.logprobs_T, same.logprobs_T)


def test_the_rows_of_the_store(tmp_path):
    rows = {row.name: row for row in (*record_rows(tmp_path, trees=3, batches=1), *find_rows(tmp_path, trees=12, turns=4))}
    assert rows["turns recorded a second"].baseline and rows["turns recorded a second"].value > 0
    assert rows["size of a trace"].value == (tmp_path / "record0.sqlite").stat().st_size
    assert {"open and list, 200 rows of all", "open, and find by a text, 200 rows of all", "open and read one tree"} <= rows.keys()


@pytest.mark.slow
def test_the_rows_of_the_pages(tmp_path):
    rows = {row.name: row.value for row in page_rows(tmp_path, nodes=60, trees=5, tokens=700)}
    assert rows["page: frames a second, pan"] > 1 and rows["page: frames a second, zoom"] > 1
    assert all(rows[name] > 0 for name in ("page: a tree of 60 turns", "page: the list of 5 trees", "page: 700 tokens of one rollout"))
