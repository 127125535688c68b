"""The README's pictures say what a run recorded, and nothing in them depends on the reader's fonts."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
import torch

from trainer.checkpoint import CheckpointSeries
from trainer.evaluate import Evaluation, Measurement
from trainer.load_config import load_config
from trainer.metrics import MetricsLog
from trainer.run_folder import RunFolder
from trainer.run_state import RunState
from trainer.statistics import Proportion

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    return importlib.import_module("picture")


def measured(solved: int) -> Measurement:
    return Measurement(Proportion(solved, 200), {"look_at_obj_in_light": Proportion(solved // 4, 50)}, 12.0, 0.1, 0)


def record(path: Path) -> RunFolder:
    """A run of three iterations: 60 of 200 tasks at the start, 140 at the end."""
    folder = RunFolder(path)
    path.mkdir()
    folder.config.write_text(load_config("household", None, {"run.iterations": "3"}).model_dump_json())
    marks = {0: (60, 80), 2: (111, 120), 3: (140, 150)}
    evaluations = [
        Evaluation(number, 5000 * number, {"sampled": measured(sampled), "greedy": measured(greedy)})
        for number, (sampled, greedy) in marks.items()
    ]
    state = RunState(3, 12, 15_000, 4000, 30_000, 60_000, 96, 192, evaluations=evaluations, seconds={"evaluation": 30.0})
    CheckpointSeries(folder.checkpoints).save(3, state.as_json(), {"weights": torch.zeros(1)})
    with MetricsLog(folder.metrics) as metrics:
        for number in (1, 2, 3):
            figures = {"train_success": 0.25 * number, "merge_rate": 0.43, "invalid_share": 0.07}
            metrics.append({"iteration": number, "tokens": 5000, "branches": 32, "seconds": 60.0, **figures})
    warm_start = {"minutes": 5.0, "steps": 1000, "tokens": 1_500_000, "final_loss": 0.256}
    folder.result.write_text(json.dumps({"warm_start": warm_start}))
    folder.curve.write_bytes(b"a curve")
    return folder


def words(path: Path) -> str:
    """The text of an SVG, word by word."""
    return " ".join(element.text or "" for element in ElementTree.fromstring(path.read_text()).iter(f"{SVG}text"))


def test_pictures_show_what_was_recorded(picture: ModuleType, tmp_path: Path) -> None:
    record(tmp_path / "run")
    assert picture.main([str(tmp_path / "run"), str(tmp_path / "images")]) == 0
    progress, outcome = words(tmp_path / "images" / "progress.svg"), words(tmp_path / "images" / "outcome.svg")
    assert "warm start 1,000/1,000; loss 0.256;" in progress
    assert "iteration 0: held-out success sampled 30.0 % [24.1, 36.7], greedy 40.0 %" in progress
    assert "reinforcement learning 2/3" in progress
    assert "tokens generated 10,000" in progress
    assert "training success 50.0 % (mean of 2: 37.5 %)" in progress
    assert "7:20 elapsed, 1:10 left" in progress  # 5 minutes, two of 60 s, two evaluations of 10 s; 70 s an iteration
    assert "sampled 30.0 % [24.1, 36.7] 70.0 % [63.3, 75.9]" in outcome
    assert "look_at_obj_in_light" in outcome
    assert "branchwise replay runs/household-seed0" in outcome and str(tmp_path) not in outcome
    assert (tmp_path / "images" / "learning_curve.png").read_bytes() == b"a curve"


def test_another_iteration_can_be_shown(picture: ModuleType, tmp_path: Path) -> None:
    record(tmp_path / "run")
    assert picture.main([str(tmp_path / "run"), str(tmp_path), "--at", "1"]) == 0
    assert "reinforcement learning 1/3" in words(tmp_path / "progress.svg")


def test_the_same_run_gives_the_same_pictures(picture: ModuleType, tmp_path: Path) -> None:
    record(tmp_path / "run")
    for name in ("one", "two"):
        picture.main([str(tmp_path / "run"), str(tmp_path / name)])
    for name in ("progress.svg", "outcome.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_run_that_is_not_finished_is_one_sentence(picture: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "run").result.unlink()
    assert picture.main([str(tmp_path / "run"), str(tmp_path / "images")]) == 2
    assert picture.main([str(tmp_path / "nowhere"), str(tmp_path / "images")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in said] == ["picture", "picture"]
    assert "is no finished run" in said[0] and "is no run folder" in said[1]


@pytest.mark.parametrize(
    ("char", "arms"),
    [
        ("─", "L1 R1"),
        ("┃", "U2 D2"),
        ("┏", "D2 R2"),
        ("┡", "D1 R2 U2"),
        ("╇", "D1 U2 L2 R2"),
        ("┼", "U1 D1 L1 R1"),
        ("╸", "L2"),
        ("╺", "R2"),
    ],
)
def test_box_characters_are_drawn_to_the_edges_of_their_cell(picture: ModuleType, char: str, arms: str) -> None:
    svg = sys.modules["terminal_svg"]
    ends = {"L": "H0", "R": f"H{svg.CELL:g}", "U": "V0", "D": f"V{svg.LINE:g}"}
    middle = f"M{svg.CELL / 2:g} {svg.LINE / 2:g}"
    expected = [(middle + ends[arm], svg.HEAVY if weight == "2" else svg.LIGHT) for arm, weight in arms.split()]
    assert sorted(svg._arms(char, 0.0, 0.0)) == sorted(expected)


def test_every_word_stands_on_the_grid(picture: ModuleType) -> None:
    svg = sys.modules["terminal_svg"]
    root = ElementTree.fromstring(svg.terminal_svg("one  \x1b[1;36mtwo\x1b[0m <&> \x1b[2mdim\x1b[0m\n▁█", columns=20, title="a & b"))
    placed = {element.text: element for element in root.iter(f"{SVG}text")}
    columns = {word: round((float(placed[word].get("x", "")) - svg.MARGIN) / svg.CELL, 6) for word in ("one", "two", "<&>", "dim")}
    assert columns == {"one": 0, "two": 5, "<&>": 9, "dim": 13}
    assert placed["two"].get("font-weight") == "bold" and placed["two"].get("fill") == "#56b6c2"
    assert placed["dim"].get("opacity") and not placed["one"].get("opacity")
    low, full = [float(element.get("height", "")) for element in root.iter(f"{SVG}rect")][1:]
    assert full == pytest.approx(8 * low)
