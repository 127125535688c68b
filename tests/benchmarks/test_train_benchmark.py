"""The training benchmark compares equal work, and its command writes what it measured, whole."""

import json

import numpy as np
import pytest
import torch

from benchmarks import train
from benchmarks.report import Row
from benchmarks.training import async_success, packing
from benchmarks.training.flattened import flattened
from benchmarks.training.packing import Paired, Work, arithmetic, compare, packing_rows
from benchmarks.training.section import SectionResult
from benchmarks.training.trees import FORESTS, levels, tiny_model
from trainer.statistics import Proportion


def small() -> Work:
    """Seven turns of a few tokens."""
    return Work(levels(1, (12, 8, 10), 2), budget=60)


def test_trees_are_the_same_each_time_and_the_first_ones_whatever_their_number():
    few, many = FORESTS["main job"].grow(1), FORESTS["main job"].grow(2)
    assert few[0].ids(5).tolist() == many[0].ids(5).tolist() and len(few[0].turns) == len(many[0].turns)
    tree = levels(1)[0]
    assert sum(len(turn.ids_T) for turn in tree.turns) == 4300
    assert sum(len(tree.ids(leaf)) for leaf in tree.leaves()) == 11_200


@pytest.mark.parametrize("budget", [10, 70, 10_000])
def test_plain_rows_hold_every_rollout_once_within_the_budget(budget):
    trees = FORESTS["main job"].grow(1)
    rollouts = sorted(len(trees[0].ids(path[-1])) for path in trees[0].rollouts())
    rows = flattened(trees, [np.ones(len(trees[0].turns))], [trees[0].path_weights()], budget)
    assert sorted(length for batch in rows for length in batch.lengths) == rollouts
    for batch in rows:
        assert batch.ids_BT.numel() <= budget or len(batch.lengths) == 1
        assert min(batch.lengths) >= 0.9 * max(batch.lengths) == 0.9 * batch.ids_BT.shape[1]
        assert batch.scored_BT.sum() == len(batch.targets_S) == len(batch.coefficients_S)


def test_both_ways_have_the_same_gradient_and_are_measured_as_often():
    paired = compare(tiny_model(), small(), 3)
    assert paired.apart < 1e-5 and len(paired.packed) == len(paired.flat) == 3 and min(paired.packed + paired.flat) > 0


def test_unequal_work_is_refused():
    work = small()
    work.rows = work.rows[1:]
    with pytest.raises(ValueError, match="different work"):
        compare(tiny_model(), work, 1)


def test_rows_tell_the_share_of_the_ideal():
    work = small()
    assert [batch.unique_tokens for batch in work.packs()] == [44, 30] or len(work.packs()) > 1
    seconds, share = packing_rows("tiny", "levels", tiny_model(), work, Paired([1.0, 1.0], [1.5, 1.5], 0.0))
    unique, flat = 12 + 2 * 8 + 4 * 10, 4 * 30
    assert (seconds.value, seconds.baseline, seconds.ratio) == (1.0, 1.5, 1.5)
    assert share.value == pytest.approx(100 * 1.5 * unique / flat) and "asked: 90 %" in share.note


def test_arithmetic_of_a_lone_rollout_is_equal():
    work = Work(levels(1, (20,), 1))
    assert arithmetic(tiny_model(), work.packs(), work.rows) == pytest.approx(1.0)


def test_arithmetic_gains_less_than_the_tokens_where_attention_counts():
    work = Work(levels(1, (400, 50), 2), budget=10_000)
    ratio = arithmetic(tiny_model(), work.packs(), work.rows)
    assert 1 < ratio < 900 / 500


@pytest.fixture
def scripted(monkeypatch):
    """Two sections that measure nothing."""

    def section(name):
        return lambda quick: SectionResult([Row(f"{name}: figure", 1.0 + quick, "x")], {"samples": [1.0]}, [f"{name} on a GPU"])

    monkeypatch.setattr(train, "SECTIONS", {name: section(name) for name in ("packing", "other")})


def test_the_command_writes_the_rows_of_the_chosen_sections(scripted, tmp_path, capsys):
    assert train.main(["--quick", "--only", "other", "--out", str(tmp_path / "train.json")]) == 0
    written = json.loads((tmp_path / "train.json").read_text())
    assert [row["name"] for row in written["rows"]] == ["other: figure"] and written["rows"][0]["value"] == 2.0
    assert written["details"].pop("machines").keys() == {"other"}
    assert written["details"] == {"left_out": ["other on a GPU"], "other": {"samples": [1.0]}}
    assert "left out: other on a GPU" in capsys.readouterr().out


def test_an_interrupted_benchmark_writes_nothing(monkeypatch, tmp_path):
    def interrupt(quick):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "SECTIONS", {"packing": interrupt})
    assert train.main(["--out", str(tmp_path / "train.json")]) == 130
    assert not (tmp_path / "train.json").exists()


def test_a_missing_model_is_left_out_with_a_reason(monkeypatch):
    def missing():
        raise packing.PolicyError("its package is missing")

    monkeypatch.setattr(packing, "pretrained_policy", missing)
    monkeypatch.setattr(packing, "QUICK", {"SmolLM2-135M": packing.Scale(1, {"levels": 1})})
    before = torch.get_num_threads()
    result = packing.measure(quick=True)
    assert not result.rows and "its package is missing" in result.left_out[0] and torch.get_num_threads() == before


def test_sections_are_measured_one_by_one_into_one_file(scripted, tmp_path, capsys):
    file = tmp_path / "train.json"
    for section in ("other", "packing", "other"):
        assert train.main(["--quick", "--only", section, "--out", str(file)]) == 0
    written = json.loads(file.read_text())
    assert [row["name"] for row in written["rows"]] == ["packing: figure", "other: figure"]
    assert written["details"]["left_out"] == ["packing on a GPU", "other on a GPU"]
    assert written["details"]["packing"] == written["details"]["other"] == {"samples": [1.0]}
    assert all("cores" in machine for machine in written["details"]["machines"].values()) and len(written["details"]["machines"]) == 2
    assert train.main(["--quick", "--out", str(file)]) == 0, "without --only the file is written anew"


def test_sections_are_not_added_to_other_results(scripted, tmp_path, capsys):
    file = tmp_path / "train.json"
    assert train.main(["--quick", "--only", "other", "--out", str(file)]) == 0
    before = file.read_bytes()
    assert train.main(["--only", "packing", "--out", str(file)]) == 2
    assert "holds no results of this benchmark without --quick" in capsys.readouterr().err and file.read_bytes() == before


def result(sampled, greedy, tasks=200):
    def share(won):
        after = {"successes": won, "tasks": tasks, "rate": won / tasks}
        return {"before": {"successes": 20, "tasks": tasks}, "after": after}

    return {"success": {"sampled": share(sampled), "greedy": share(greedy)}, "trees": 600}


def test_success_of_both_modes_stands_with_the_interval_of_the_difference():
    runs = {"mode sync": [result(100, 120), result(110, 130)], "staleness 1": [result(90, 125), result(100, 140)]}
    sampled, greedy = async_success.rows(runs)
    assert (sampled.name, sampled.value, sampled.baseline) == ("async: household, sampled, staleness 1", 47.5, 52.5)
    assert "by seed 45.0, 50.0; baseline: mode sync 52.5 %" in sampled.note and "difference -5.0 points [-11." in sampled.note
    assert "600 trees learned from in each run" in greedy.note and greedy.ratio == pytest.approx(265 / 250)


def test_the_interval_of_a_difference_is_newcombes():
    # Newcombe (1998), Statistics in Medicine 17, table II, method 10: 56/70 against 48/80.
    low, high = async_success.difference(Proportion(56, 70), Proportion(48, 80))
    assert (low, high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))
