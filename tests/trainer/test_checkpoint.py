import errno
import os
from pathlib import Path

import pytest
import torch

from trainer.checkpoint import CheckpointSeries, load_checkpoint, optimizer_tensors, restore_optimizer, save_checkpoint
from trainer.errors import CheckpointError

TENSORS = {"weights": torch.arange(6.0), "adamw.0.step": torch.tensor(3.0)}


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    state = {"iteration": 3, "seconds": {"rollout": 0.1 + 0.2}, "none": None, "text": "ä"}
    save_checkpoint(tmp_path / "one", state, TENSORS)
    checkpoint = load_checkpoint(tmp_path / "one")
    assert checkpoint.state == state
    assert checkpoint.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(checkpoint.tensors[name], tensor) for name, tensor in TENSORS.items())
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_newer_one_replaces_an_older(tmp_path: Path) -> None:
    for number in (1, 2):
        save_checkpoint(tmp_path / "one", {"number": number}, TENSORS)
    assert load_checkpoint(tmp_path / "one").state == {"number": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("place", range(0, 100, 9))
@pytest.mark.parametrize("name", ["state.json", "training.safetensors"])
def test_a_flipped_byte_is_noticed(tmp_path: Path, name: str, place: int) -> None:
    save_checkpoint(tmp_path / "one", {"iteration": 3, "rate": 0.125}, TENSORS)
    path = tmp_path / "one" / name
    content = bytearray(path.read_bytes())
    content[len(content) * place // 100] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"one (is damaged|has format).*(remove it|start a new run)"):
        load_checkpoint(tmp_path / "one")
    assert path.read_bytes() == bytes(content)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        with pytest.raises(CheckpointError, match=r"state\.json is missing"):
            load_checkpoint(tmp_path / name)
    for text in ("[]", "{}", '{"format": 1, "digests": [], "state": {}}', '{"format": "1", "digests": {}, "state": {}}'):
        (tmp_path / "empty" / "state.json").write_text(text)
        with pytest.raises(CheckpointError, match="is damaged"):
            load_checkpoint(tmp_path / "empty")


@pytest.mark.parametrize("failing", ["save_file", "os.replace"])
def test_a_refusing_disk_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    save_checkpoint(tmp_path / "one", {"number": 1}, TENSORS)
    calls = []
    replace = os.replace

    def refuse(*arguments: object) -> None:
        calls.append(arguments)
        if failing == "save_file" or ".draft" in str(arguments[0]):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(*arguments)  # pyright: ignore

    monkeypatch.setattr(f"trainer.checkpoint.{failing}", refuse)
    with pytest.raises(CheckpointError, match="one cannot be written: No space left on device"):
        save_checkpoint(tmp_path / "one", {"number": 2}, TENSORS)
    monkeypatch.undo()
    assert calls
    assert load_checkpoint(tmp_path / "one").state == {"number": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_series_keeps_the_last_ones(tmp_path: Path) -> None:
    series = CheckpointSeries(tmp_path / "series", keep=2)
    assert series.newest() is None
    for number in (0, 5, 9, 10):
        series.save(number, {"number": number}, TENSORS)
    (tmp_path / "series" / ".000011.draft").mkdir()
    assert series.numbers() == [9, 10]
    newest = series.newest()
    assert newest is not None
    assert newest.state == {"number": 10}
    (series.path(10) / "state.json").write_text("")
    told: list[str] = []
    whole = series.newest(lambda error: told.append(str(error)))
    assert whole is not None and whole.state == {"number": 9}
    assert len(told) == 1 and "000010 is damaged" in told[0]
    (series.path(9) / "state.json").write_text("")
    with pytest.raises(CheckpointError, match="000010 is damaged"):
        series.newest()


def test_an_optimizer_goes_on_as_if_never_stopped() -> None:
    def trained(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter, seed: int) -> None:
        parameter.grad = torch.randn(4, generator=torch.Generator().manual_seed(seed))
        optimizer.step()

    whole, halved = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
    first, second = (torch.optim.AdamW([parameter], lr=0.1) for parameter in (whole, halved))
    for optimizer, parameter in ((first, whole), (second, halved)):
        trained(optimizer, parameter, 0)
    third = torch.optim.AdamW([halved], lr=0.1)
    restore_optimizer(third, optimizer_tensors(second, "adamw"), "adamw")
    trained(first, whole, 1)
    trained(third, halved, 1)
    assert torch.equal(whole, halved)
