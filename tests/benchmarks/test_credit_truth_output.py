"""The command measures the same whoever does the work, ends when it is told to, and writes what can be read."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from rich.console import Console

import credit
from benchmarks import credit_truth
from benchmarks.report import report
from benchmarks.truth.catalog import CATALOG, build
from benchmarks.truth.cell import draw_cell, starts_of
from benchmarks.truth.effects import POINTS, Point, effect
from benchmarks.truth.entrants import EXACT, FLAT, TREE, entrants
from benchmarks.truth.figures import process_figure, write_figures
from benchmarks.truth.findings import LEAST, SETS, Findings
from benchmarks.truth.gradients import gradient_figures
from benchmarks.truth.resample import Sure, combined
from benchmarks.truth.rows import details, number, rows
from benchmarks.truth.scale import Scale
from benchmarks.truth.study import SEES_MORE, Study, study
from benchmarks.truth.table import findings_table, two_digits, with_interval
from benchmarks.truth.traps import TRAPS, spring
from benchmarks.truth.tree_sampler import RULES
from benchmarks.truth.workers import Job, run_jobs

TINY = Scale(draws=2, each=4, ruled=3, all_ruled=True, effects=3, traps=4)
ROOT = Path(__file__).parents[2]


def four_times(made: Study) -> Study:
    """The study with four times the ratios and PPO gains, so that not all processes are alike."""
    scaled = lambda number: combined(lambda values: 4 * values[0], [number])  # noqa: E731
    results = {
        label: {layout: replace(result, ratio=scaled(result.ratio), ppo=scaled(result.ppo)) for layout, result in by_layout.items()}
        for label, by_layout in made.results.items()
    }
    return replace(made, results=results)


@cache
def findings() -> Findings:
    """One process measured, under the names of all: what is written of each is then known."""
    made = study("stopping", "tabular", TINY)
    seen = study("stopping", "history", TINY)
    studies = [replace(made, name=name) if name != "random_w30" else four_times(replace(made, name=name)) for name in CATALOG]
    studies += [replace(seen, name=name, policy=policy) for policy in ("shared", "history") for name in SEES_MORE]
    measured = effect(Point(width=4, turns=5), TINY)
    return Findings(studies, [replace(measured, point=point) for point in POINTS], [spring(name, TINY) for name in TRAPS])


def test_every_process_stands_in_one_set():
    assert sorted(name for names in SETS.values() for name in names) == sorted(CATALOG)
    assert all("misleading" in build(name, 0).tags for name in SETS["misleading"])


def test_a_study_measures_every_entrant_in_its_layouts_and_under_every_rule():
    made = findings().tabular["stopping"]
    assert made.results.keys() == {EXACT} | {entrant.label for entrant in entrants()}
    for entrant in entrants():
        assert tuple(made.results[entrant.label]) == entrant.layouts()
    for label in (entrant.label for entrant in entrants()):
        flat = set() if FLAT in made.results[label] else {FLAT}
        assert made.ruled[label].keys() == RULES.keys() - flat
        assert made.ruled[label][TREE] is made.results[label][TREE]
    cell = draw_cell("stopping/tabular", starts_of("stopping", "tabular", TINY.draws), "random", TINY.ruled)
    cosine = gradient_figures(cell, cell.batch.per_node(credit.resolve("gigpo", {}).advantages(cell.batch))).cosine_G.mean()
    reference = made.results["dr_grpo"][FLAT].gradient.cosine.value
    assert made.ruled["gigpo"]["random"].ratio.value == pytest.approx((cosine / reference) ** 2)
    assert made.results["dr_grpo"][FLAT].ratio.interval == (1, 1) and made.results[EXACT][FLAT].ppo.interval == (1, 1)
    assert all(0 < held.value <= 1 for held in made.coverage.values()) and 0 < made.merge_rate <= 1
    assert not findings().under("history")["household"].ruled


def test_the_file_holds_every_number(tmp_path):
    out = tmp_path / "truth.json"
    report("credit_truth", rows(findings()), quick=True, out=out, details=details(findings()))
    content = json.loads(out.read_text())
    lines = [entrant.label for entrant in entrants() for _ in entrant.layouts()]
    names = [row["name"] for row in content["rows"]]
    assert len(names) == len(set(names)) == len(lines) + 2 + len(TRAPS) + 2
    found = content["details"]
    assert found.keys() >= {"legend", "inputs", "processes", "tabular", "rules", "policies", "effects", "coverage"}
    for by_line in found["tabular"].values():
        assert len(by_line) == len(lines) + 2
        for by_process in by_line.values():
            assert by_process.keys() == set(CATALOG) | {f"mean of {group}" for group in SETS}
            assert all(len(value) == 3 for value in by_process.values())
    made = findings().tabular["stopping"].results["rtmc"][FLAT]
    assert found["tabular"]["cos2_ratio"]["rtmc, flat"]["random_w4"] == number(made.ratio)
    for measure, measured in (("cos2_ratio", made.ratio), ("ppo_gain", made.ppo)):
        geometric = [4 ** (1 / 7) * part for part in (measured.value, *measured.interval)]
        assert found["tabular"][measure]["rtmc, flat"]["mean of seven"] == pytest.approx(geometric, rel=0.01)
        assert found["tabular"][measure]["rtmc, flat"]["mean of others"] == pytest.approx(number(measured), rel=0.01)
    assert set(found["policies"]["shared"]["ppo_gain"]["rtmc, flat"]) == {"mean", *SEES_MORE}
    assert [key for key in found["effects"]["width"] if key != "varies"] == [f"width {width}" for width in (4, 10, 30, 100, 300)]
    row = next(row for row in content["rows"] if row["name"] == "rtmc, flat")
    assert row["value"] == row["ratio"] == pytest.approx(4 ** (1 / 7) * made.ratio.value) and "95 % interval [" in row["note"]


def test_a_ratio_of_zero_does_not_make_a_mean_zero():
    lines = {line.name: line for line in findings().lines()}
    line = lines["tree_mc, trees"]
    none = Sure(0.0, np.zeros(len(line.result("stopping").ratio.value_B)))
    results = {"tree_mc": {TREE: replace(line.result("stopping"), ratio=none)}}
    broken = replace(line, studies={name: replace(made, results=results) for name, made in line.studies.items()})
    assert broken.ratio("seven").value == pytest.approx(LEAST) and broken.least("seven").value == 0


def test_the_table_has_a_line_for_each_and_fits_a_page():
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(findings_table(findings()))
    text = console.export_text()
    assert all(len(line.rstrip()) <= 160 for line in text.splitlines())
    for line in findings().lines():
        assert re.search(rf"^{re.escape(line.label)} +(flat|trees) ", text, re.MULTILINE), line.name
    assert "…" not in text, "nothing is cut off"
    values = [line.ratio("seven").value for line in findings().lines() if line.label != EXACT]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("value", "text"), [(0.004, "0.00"), (-0.001, "0.00"), (1.2345, "1.23"), (12.34, "12.3"), (-0.5, "-0.50")])
def test_numbers_have_two_digits(value, text):
    assert two_digits(value) == text


def test_an_interval_stands_behind_its_number():
    assert with_interval(Sure(1.0, np.linspace(0.5, 2.5, 1001))) == "1.00 [0.55, 2.45]"
    assert number(Sure(float("nan"), np.full(3, np.nan))) == [None, None, None]


def test_figures_are_small_and_900_pixels_wide(tmp_path):
    made = [findings().tabular["stopping"]]
    paths = write_figures(made, findings().effects, tmp_path / "new")
    assert [path.name for path in paths] == ["stopping.png", "effects.png"]
    for path in paths:
        with Image.open(path) as image:
            assert image.size[0] == 900 and path.stat().st_size < 60_000


def test_a_figure_has_a_row_for_each_estimator():
    figure = process_figure(findings().tabular["stopping"])
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [EXACT, *(entrant.label for entrant in entrants())]
    texts = [text.get_text() for text in figure.axes[0].texts]
    results = findings().tabular["stopping"].results
    assert sorted(texts) == sorted(two_digits(result.ratio.value) for by_layout in results.values() for result in by_layout.values())


def test_numbers_do_not_depend_on_the_number_of_workers():
    jobs = [Job(f"{width}", effect, (Point(width=width, turns=4, rollouts=4), TINY)) for width in (4, 5, 6)]
    ended: list[str] = []
    both = [run_jobs(jobs, workers, lambda job: ended.append(job.label)) for workers in (1, 2)]
    assert sorted(ended) == ["4", "4", "5", "5", "6", "6"]
    here = [job.run() for job in jobs]
    for one, two, alone in zip(*both, here, strict=True):
        assert one.point == two.point == alone.point
        for label, by_layout in alone.ratio.items():
            for layout, ratio in by_layout.items():
                np.testing.assert_array_equal(one.ratio[label][layout].value_B, two.ratio[label][layout].value_B)
                np.testing.assert_array_equal(one.ratio[label][layout].value_B, ratio.value_B)


def test_an_error_in_a_job_reaches_the_caller():
    with pytest.raises(LookupError, match="did you mean 'household'"):
        run_jobs([Job("wrong", build, ("houshold", 0))], 1, lambda job: None)


def test_an_interrupt_ends_all_of_it_with_one_line(tmp_path):
    out = tmp_path / "truth.json"
    command = [sys.executable, "-m", "benchmarks.credit_truth", "--out", str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        children: list[psutil.Process] = []
        deadline = time.monotonic() + 60
        while len(children) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
            # Two workers and the tracker of shared resources.
            children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 3
        time.sleep(1)  # Until the jobs are handed out, it leaves interrupts for later.
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == credit_truth.INTERRUPTED and said.strip().endswith("interrupted; nothing was written")
    assert "Traceback" not in said and not out.exists()
    assert not psutil.wait_procs(children, timeout=20)[1], "no worker is left"


def test_the_command_measures_all_and_writes_what_was_asked_for(tmp_path, monkeypatch, capsys):
    seen: dict[str, list[str]] = {}

    def instead(jobs, workers, done):
        seen["labels"] = [job.label for job in jobs]
        seen["workers"] = [str(workers)]
        for job in jobs:
            done(job)
        return [*findings().studies, *findings().effects, *findings().traps]

    monkeypatch.setattr(credit_truth, "run_jobs", instead)
    monkeypatch.setattr(
        credit_truth, "write_figures", lambda studies, effects, folder: seen.update(figures=[made.name for made in studies])
    )
    out = tmp_path / "rows.json"
    assert credit_truth.main(["--quick", "--out", str(out), "--figures", str(tmp_path), "--workers", "3"]) == 0
    assert len(seen["labels"]) == len(set(seen["labels"])) == len(CATALOG) + 2 * len(SEES_MORE) + len(POINTS) + len(TRAPS)
    assert seen["workers"] == ["3"] and sorted(seen["figures"]) == sorted(CATALOG)
    assert "tree_graph" in capsys.readouterr().out and json.loads(out.read_text())["quick"] is True


@pytest.mark.parametrize("workers", ["0", "-1", "two"])
def test_a_number_of_workers_that_cannot_be_is_named(workers, capsys):
    with pytest.raises(SystemExit) as caught:
        credit_truth.main(["--workers", workers])
    assert caught.value.code == 2 and "give 1 or more" in capsys.readouterr().err
