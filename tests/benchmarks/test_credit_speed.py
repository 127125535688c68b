"""The benchmark of credit times every method on groups of the shape it says, and says which are too slow."""

import gc
import json
from itertools import pairwise

import pytest

from benchmarks import credit_speed
from benchmarks.credit_groups import SHAPES, fresh
from benchmarks.credit_speed import Samples, Scale, linearity_row, made, main, share_row, speed_table
from benchmarks.report import Row
from credit import estimate_batch, methods

TINY = Scale(repeats=2, groups=2, rollouts=8, turns=4, long=9, base=1)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(credit_speed, "QUICK", TINY)


@pytest.fixture
def run(tmp_path):
    minutes = {"rollout": 6.0, "credit": 0.1, "trace": 0.9, "training": 3.0, "evaluation": 50.0, "total": 60.0}
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({"minutes": minutes, "iterations": 20, "method": "rtmc", "benchmark": "household"}))
    return folder


def test_shapes_are_what_they_say():
    groups = {name: [turn for rollout in shape.group(1, 16, 50) for turn in rollout] for name, shape in SHAPES.items()}
    states = {name: {turn.state for turn in turns} for name, turns in groups.items()}
    assert all(len(turns) == 16 * 50 for turns in groups.values())
    assert len(states["unmerged"]) == 1 + 16 * 49 and 30 * 25 > len(states["layered"]) > 400 and 200 < len(states["cyclic"]) <= 301
    forked = {turn.node for turn in groups["trees"]}
    assert None not in forked and 4 * 50 < len(forked) < 16 * 50
    assert {turn.node for name, turns in groups.items() for turn in turns if name != "trees"} == {None}


def test_turns_lead_to_one_another_as_equal_text_in_other_objects():
    for shape in SHAPES.values():
        for rollout in shape.group(0, 5, 6):
            assert [turn.next_state for turn in rollout[:-1]] == [turn.state for turn in rollout[1:]]
            assert all(a.next_state is not b.state for a, b in pairwise(rollout))
            assert sum(turn.reward for turn in rollout[:-1]) == 0


def test_a_fresh_copy_is_equal_and_shares_no_text():
    tasks = made("trees", 2, 5, 6)
    again = fresh(tasks)
    assert again == tasks and again[0][0][0].state is not tasks[0][0][0].state
    gc.unfreeze()


def test_every_method_has_its_rows(tiny, run, tmp_path, capsys):
    out = tmp_path / "speed.json"
    assert main(["--quick", "--out", str(out), "--run", str(run)]) == 0
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    for name in methods():
        for shape in (*SHAPES, "long"):
            assert rows[f"{shape}: {name}, end to end"]["unit"] == rows[f"{shape}: {name}, on a read batch"]["unit"] == "turns/s"
        for way in ("longer rollouts", "more rollouts"):
            assert rows[f"layered: {name}, {way}"]["value"] > 0 and "8x the turns" in rows[f"cyclic: {name}, {way}"]["note"]
    assert rows["layered: reading"]["value"] > 0 and rows["trees: reading for the first time"]["value"] > 0
    assert "median of 2" in rows["gigpo with similarity 0.9, end to end"]["note"]
    assert rows["share of a training step"]["value"] == pytest.approx(1.0)
    printed = capsys.readouterr().out
    assert "share of a training step: 1 %" in printed and "tree_mc" in printed
    assert gc.get_freeze_count() == 0


def test_an_interrupt_is_one_line_and_leaves_no_file(tiny, tmp_path, monkeypatch, capsys):
    def interrupt(tasks, name):
        raise KeyboardInterrupt

    monkeypatch.setattr(credit_speed, "estimate_batch", interrupt)
    assert main(["--quick", "--out", str(tmp_path / "deep" / "speed.json")]) == 130
    assert capsys.readouterr().err == "interrupted; nothing was written\n"
    assert not list(tmp_path.iterdir()) and gc.get_freeze_count() == 0


def test_a_method_below_the_goal_is_named():
    rates = {(shape, name): 2e6 for shape in (*SHAPES, "long") for name in methods()}
    rates["cyclic", "salt"] = rates["trees", "salt"] = 9e5
    rows = [Row(f"{s}: {n}, {what}", r, "turns/s") for (s, n), r in rates.items() for what in ("end to end", "on a read batch")]
    rows += [Row(f"cyclic: {name}, {way}", 1.0, "x") for name in methods() for way in ("longer rollouts", "more rollouts")]
    rows += [Row(f"{shape}: {what}", 3e6, "turns/s") for shape in (*SHAPES, "long") for what in ("reading", "reading for the first time")]
    below = [f"{what}: salt (cyclic, trees)" for what in ("end to end", "on a read batch")]
    assert str(speed_table(rows).caption).splitlines() == ["below 1,000,000 turns/s (medians)", *below]


def test_linear_cost_is_a_ratio_of_one_and_quadratic_cost_one_of_eight():
    def samples(turns: int, power: int) -> Samples:
        return Samples(turns, cpu=[1e-6 * turns**power, 2e-6 * turns**power])

    for power, ratio in ((1, 1.0), (2, 8.0)):
        row = linearity_row("m", [samples(100 * factor, power) for factor in (1, 2, 4, 8)])
        assert row.value == pytest.approx(ratio) and f"2x: {2 ** (power - 1)}, 4x: {4 ** (power - 1)}" in row.note


def test_the_share_is_of_training_steps_alone(run):
    row = share_row(run)
    assert row.value == pytest.approx(100 * 0.1 / 10) and "30 s a step, mean of 20" in row.note


@pytest.mark.parametrize("content", [None, "{", "[]", '{"minutes": {"rollout": 1.0}}'])
def test_a_folder_without_a_result_is_an_error(tmp_path, content, capsys):
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["--run", str(tmp_path)])
    assert ended.value.code == 2 and "give the folder of a finished run" in capsys.readouterr().err


def test_methods_are_timed_on_what_they_are_given():
    """Every method runs on a made-up group without an error, so that no time is that of a refusal."""
    tasks = made("trees", 2, 4, 5)
    for name in methods():
        assert len(estimate_batch(tasks, name)) == 2
    gc.unfreeze()
