"""A rollout whose memory drops turns goes on in a new sequence; what was sampled is still what is recorded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampler_world import Maker, agent, engine, frozen, grow, settings, tasks

from agents.memory import SlidingWindow
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.trace import Trace


def windowed(seeds: range, by: Any, turns: int = 2, **changes: Any) -> SamplerReport:
    from dataclasses import replace

    forgetful = replace(agent(), memory=SlidingWindow(turns=turns))
    maker = Maker(end=0.0)
    with Sampler(by, maker, forgetful, settings(max_turns=6, **changes)) as sampler:
        return sampler.sample(tasks(seeds), run_seed=0)


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_every_sequence_is_what_the_engine_saw_and_produced(schedule: str):
    by = engine()
    report = windowed(range(8), by, schedule=schedule)
    assert report.new_segments > 20 and not by.sequences
    seen = {tuple(token for token, _ in tokens) for tokens in by.finished.values()}
    for tree in report.trees:
        begun = [tree.turns[index].parent for index in range(len(tree.turns)) if tree.turns[index].new_segment]
        for index in [*tree.leaves(), *begun]:
            assert tuple(tree.ids(index).tolist()) in seen
    sampled = sum(int(turn.mask_T.sum()) for tree in report.trees for turn in tree.turns)
    assert sampled == report.sampled_tokens
    assert [frozen(tree) for tree in report.trees] == [frozen(tree) for tree in windowed(range(8), engine()).trees]


def test_a_sequence_holds_no_more_turns_than_the_window():
    for turns in (1, 2, 3):
        for tree in windowed(range(4), engine(), turns=turns).trees:
            for leaf in tree.leaves():
                path = tree.path(leaf)
                starts = [place for place, index in enumerate(path) if tree.turns[index].new_segment]
                assert np.diff([0, *starts, len(path)]).max() <= turns + 1
    whole = grow(range(4), maker=Maker(end=0.0), max_turns=6)
    assert whole.new_segments == 0 and not any(turn.new_segment for tree in whole.trees for turn in tree.turns)


def test_what_a_new_sequence_shares_with_the_one_before_is_not_computed_again():
    by = engine()
    report = windowed(range(4), by, forks=0, branching="none")
    given = sum(len(turn.ids_T) - int(turn.mask_T.sum()) for tree in report.trees for turn in tree.turns)
    assert report.prefilled_tokens < given
    assert by.computed == report.prefilled_tokens + report.sampled_tokens


def test_a_fork_goes_on_in_the_sequence_that_its_turn_was_sampled_in():
    report = windowed(range(10), engine(), forks=6, branching="uniform_depth")
    forked = [(tree, turn) for tree in report.trees for turn in tree.turns if turn.origin is not None and turn.origin.kind == "branch"]
    assert any(turn.new_segment for _, turn in forked), "some forks stand where a sequence begins"
    for tree, turn in forked:
        sibling = next(tree.turns[index] for index in tree.children(turn.parent) if tree.turns[index] is not turn)
        observed = int((~turn.mask_T).sum())
        assert np.array_equal(turn.ids_T[:observed], sibling.ids_T[:observed]) and turn.new_segment == sibling.new_segment


def test_a_trace_keeps_where_sequences_begin(tmp_path: Path):
    trees = [*windowed(range(3), engine()).trees, *grow(range(3, 5)).trees]
    with Trace.create(tmp_path / "t.sqlite", {}) as trace:
        trace.append(trees, 1, [None] * len(trees))
    with Trace.open(tmp_path / "t.sqlite", readonly=True) as trace:
        back = [trace.tree(summary.id) for summary in trace.trees(1)]
    assert [frozen(tree) for tree in back] == [frozen(tree) for tree in trees]
    assert any(turn.new_segment for tree in back for turn in tree.turns)
