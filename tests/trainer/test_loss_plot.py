from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainer.errors import RunFolderError
from trainer.evaluate import Evaluation, Measurement
from trainer.sft.loss_plot import loss_curve
from trainer.statistics import Proportion

RECORDS = [{"iteration": 0, "validation_loss": 3.0}] + [
    {"iteration": step, "loss": 3.0 / step, **({"validation_loss": 3.2 / step} if step % 4 == 0 else {})} for step in range(1, 9)
]


def evaluations() -> list[Evaluation]:
    measured = [Measurement(Proportion(won, 50), {}, 3.0, 0.0, 0) for won in (10, 30)]
    return [Evaluation(step, 0, {"sampled": part, "greedy": part}) for step, part in zip((0, 8), measured, strict=True)]


def coloured(path: Path, colour: tuple[int, int, int]) -> int:
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return int((np.abs(pixels - np.array(colour)).max(axis=2) < 8).sum())


def test_losses_and_success_are_drawn(tmp_path: Path) -> None:
    loss_curve(RECORDS, evaluations(), tmp_path / "curve.png", title="words")
    for colour in ((0x7A, 0x87, 0x94), (0xB0, 0x41, 0x3E), (0x1F, 0x6F, 0xB4), (0xD9, 0x74, 0x1A)):
        assert coloured(tmp_path / "curve.png", colour) > 100
    without = [{name: value for name, value in record.items() if name != "validation_loss"} for record in RECORDS]
    loss_curve(without, evaluations(), tmp_path / "other.png", title="words")
    assert coloured(tmp_path / "other.png", (0xB0, 0x41, 0x3E)) == 0


def test_nowhere_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"the loss curve .* cannot be written"):
        loss_curve(RECORDS, evaluations(), tmp_path / "file" / "curve.png", title="words")
