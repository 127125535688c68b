from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainer.errors import RunFolderError
from trainer.plot import CurvePoint, learning_curve
from trainer.statistics import Proportion


def curve(count: int, greedy: bool = True) -> list[CurvePoint]:
    return [
        CurvePoint(5 * i, 9000 * 5 * i, Proportion(60 + 10 * i, 200), Proportion(80 + 5 * i, 200) if greedy else None) for i in range(count)
    ]


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def coloured(path: Path, colour: tuple[int, int, int]) -> int:
    return int((np.abs(pixels(path) - np.array(colour)).max(axis=2) < 8).sum())


BLUE, ORANGE = (0x1F, 0x6F, 0xB4), (0xD9, 0x74, 0x1A)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_png_shows_both_curves(tmp_path: Path, count: int) -> None:
    path = tmp_path / "new" / "curve.png"
    learning_curve(curve(count), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert coloured(path, BLUE) > 200
    assert coloured(path, ORANGE) > 200
    assert [entry.name for entry in path.parent.iterdir()] == ["curve.png"]


def test_without_greedy_only_the_sampled_curve_is_drawn(tmp_path: Path) -> None:
    learning_curve(curve(5, greedy=False), tmp_path / "curve.png")
    assert coloured(tmp_path / "curve.png", BLUE) > 200
    assert coloured(tmp_path / "curve.png", ORANGE) == 0


def test_fewer_tasks_draw_wider_bands(tmp_path: Path) -> None:
    tinted = []
    for trials in (20, 2000):
        points = [CurvePoint(i, 1000 * i, Proportion(trials // 2, trials)) for i in range(10)]
        learning_curve(points, tmp_path / "curve.png")
        tinted.append(coloured(tmp_path / "curve.png", (0xDD, 0xE9, 0xF3)))
    assert tinted[0] > 3 * tinted[1] > 0


def test_same_points_give_the_same_picture(tmp_path: Path) -> None:
    learning_curve(curve(6), tmp_path / "a.png")
    learning_curve(curve(6), tmp_path / "b.png")
    assert (pixels(tmp_path / "a.png") == pixels(tmp_path / "b.png")).all()


def test_nothing_to_draw_and_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one evaluation"):
        learning_curve([], tmp_path / "curve.png")
    (tmp_path / "curve.png").mkdir()
    with pytest.raises(RunFolderError, match="cannot be written"):
        learning_curve(curve(2), tmp_path / "curve.png")
    assert [entry.name for entry in tmp_path.iterdir()] == ["curve.png"]
