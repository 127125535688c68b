"""What benchmarks write can be read again, compares in the right direction, and is whole or not there."""

import json

import numpy as np
import pytest
from rich.table import Table

from benchmarks.report import Row, arguments, estimate, factor, machine, measured, report, shown


def test_an_estimate_is_the_median_with_an_interval_around_it():
    samples = np.random.default_rng(1).normal(10, 1, size=200)
    found = estimate(samples.tolist())
    assert found.median == np.median(samples) and found.repeats == 200
    assert found.low < found.median < found.high and found.low > 9.5 and found.high < 10.5
    assert found == estimate(samples.tolist()), "the resamples are drawn from a seed"
    assert estimate([3.0]).low == estimate([3.0]).high == 3.0


def test_the_interval_covers_the_median_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    covered = sum(found.low <= 0 <= found.high for found in (estimate(rng.normal(size=31).tolist(), resamples=300) for _ in range(200)))
    assert 180 <= covered <= 199


def test_nothing_measured_is_an_error():
    with pytest.raises(ValueError, match="nothing to estimate from"):
        estimate([])


def test_a_ratio_is_the_factor_in_our_favour():
    assert factor(200, 100, "higher") == 2 and factor(50, 100, "lower") == 2 and factor(100, 50, "lower") == 0.5
    assert factor(1, None, "higher") is None and factor(1, 0, "higher") is None
    row = measured("r", [1.0, 2.0, 3.0], "us", better="lower", baseline=[8.0], note="n")
    assert (row.value, row.baseline, row.ratio) == (2.0, 8.0, 4.0) and row.note.startswith("n; median of 3, 95 % interval [")
    assert measured("r", [1.0], "us", better="lower").ratio is None


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (1.5, "1.5"), (12345.6, "12,346"), (0.00123, "0.00123"), (99.95, "100"), (-2.5, "-2.5"), (1200, "1,200")]
)
def test_numbers_are_shown_with_three_digits(number, text):
    assert shown(number) == text


def test_the_file_holds_the_rows_and_the_machine(tmp_path, capsys):
    out = tmp_path / "deep" / "rows.json"
    options = arguments("text", ["--quick", "--out", str(out)])
    rows = [Row("a: step", 12.5, "us", 25.0, 2.0, "note"), Row("b", 1.0, "%")]
    report("name", rows, quick=options.quick, out=options.out)
    content = json.loads(out.read_text())
    assert content["benchmark"] == "name" and content["quick"] is True
    assert content["rows"][0] == {"name": "a: step", "value": 12.5, "unit": "us", "baseline": 25.0, "ratio": 2.0, "note": "note"}
    assert content["rows"][1]["baseline"] is None
    assert content["machine"].keys() == machine().keys() and content["machine"]["cores"] >= 1 and content["machine"]["packages"]["numpy"]
    printed = capsys.readouterr().out
    assert "a: step" in printed and "12.5 us" in printed and "2x" in printed
    assert [path.name for path in out.parent.iterdir()] == ["rows.json"], "no temporary file is left"


def test_details_are_written_beside_the_rows_with_numbers_on_one_line(tmp_path, capsys):
    out = tmp_path / "rows.json"
    details = {"a": {"x": [1.25, -1e-05, None, 3], "words": ["one", "two"], "empty": []}}
    shown_as = Table("instead")
    shown_as.add_row("of the rows")
    report("name", [Row("hidden", 1.0, "us")], quick=False, out=out, details=details, shown_as=shown_as)
    text = out.read_text()
    assert '"x": [ 1.25, -1e-05, null, 3 ]' in text and json.loads(text)["details"] == details
    assert '"words": [\n' in text, "only numbers are drawn together"
    printed = capsys.readouterr().out
    assert "of the rows" in printed and "hidden" not in printed
    report("name", [], quick=False, out=out)
    assert "details" not in json.loads(out.read_text())


def test_a_benchmark_can_have_options_of_its_own(tmp_path):
    options = arguments("text", ["--deep", "3"], lambda parser: parser.add_argument("--deep", type=int))
    assert (options.deep, options.quick, options.out) == (3, False, None)


def test_a_row_that_json_cannot_hold_leaves_the_old_file(tmp_path):
    out = tmp_path / "rows.json"
    report("name", [Row("a", 1.0, "us")], quick=False, out=out)
    before = out.read_text()
    with pytest.raises(ValueError, match="not JSON compliant"):
        report("name", [Row("a", float("nan"), "us")], quick=False, out=out)
    assert out.read_text() == before and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("out", [".", "rows.json/more.json", "x" * 300, "/dev/null"])
def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_measured(tmp_path, out, capsys):
    (tmp_path / "rows.json").touch()
    with pytest.raises(SystemExit) as caught:
        arguments("text", ["--out", str(tmp_path / out)])
    assert caught.value.code == 2 and "cannot write" in capsys.readouterr().err


def test_asking_for_a_file_makes_and_changes_nothing(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "deep" / "new.json"
    old.write_text("as it was")
    assert [arguments("text", ["--out", str(out)]).out for out in (old, new)] == [old, new]
    assert old.read_text() == "as it was" and list(tmp_path.iterdir()) == [old]


def test_an_unknown_option_is_an_error(capsys):
    with pytest.raises(SystemExit) as caught:
        arguments("text", ["--quik"])
    assert caught.value.code == 2 and "--quik" in capsys.readouterr().err
