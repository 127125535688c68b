"""A checkpoint is a folder that is complete or not there: it is written beside its place and renamed, and read only when its digests hold.

Tensors are safetensors, everything else is JSON; nothing is unpickled.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from trainer.errors import CheckpointError, DamagedCheckpointError

FORMAT = 1
_STATE = "state.json"
_TENSORS = "training.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint holds."""

    folder: Path
    state: dict[str, Any]
    """Plain values that the writer chose, such as the iteration."""
    tensors: dict[str, torch.Tensor]


def save_checkpoint(folder: Path, state: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a checkpoint; an older one in the same place is replaced only once the new one is complete and on the disk.

    Raises `CheckpointError` where the disk refuses; what was there before is then untouched.
    """
    draft, previous = (folder.with_name(f".{folder.name}.{name}") for name in ("draft", "previous"))
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, draft / _TENSORS)
        digests = {"tensors": _digest(draft / _TENSORS), "state": _state_digest(state)}
        record = {"format": FORMAT, "digests": digests, "state": dict(state)}
        (draft / _STATE).write_text(json.dumps(record, allow_nan=False))
        for path in (draft / _TENSORS, draft / _STATE, draft):
            _flush(path)
        _move_into_place(draft, folder, previous)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise CheckpointError(f"checkpoint {folder} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint; raises `DamagedCheckpointError` where it is missing or damaged, `CheckpointError` for another version's."""
    try:
        record = json.loads((folder / _STATE).read_text())
        version, digests, state = record["format"], record["digests"], record["state"]
        if isinstance(version, int) and version != FORMAT:
            raise CheckpointError(f"checkpoint {folder} has format {version}, this version reads format {FORMAT}; start a new run")
        if (version, digests["state"]) != (FORMAT, _state_digest(state)):
            raise ValueError(f"{_STATE} was changed")
        if _digest(folder / _TENSORS) != digests["tensors"]:
            raise ValueError(f"{_TENSORS} was changed")
        return Checkpoint(folder, state, load_file(folder / _TENSORS))
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise _damaged(folder, f"{Path(str(error.filename)).name} is missing") from error
    except (KeyError, TypeError) as error:
        raise _damaged(folder, f"{_STATE} is no record of a checkpoint") from error
    except (OSError, ValueError, SafetensorError) as error:
        raise _damaged(folder, str(error)) from error


class CheckpointSeries:
    """The checkpoints of one run, numbered by iteration; the last `keep` stay."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self._keep = keep

    def numbers(self) -> list[int]:
        """Iterations of the checkpoints that are there, ascending."""
        if not self.folder.is_dir():
            return []
        return sorted(int(entry.name) for entry in self.folder.iterdir() if entry.is_dir() and entry.name.isdigit())

    def path(self, number: int) -> Path:
        """Where the checkpoint of an iteration is."""
        return self.folder / f"{number:06d}"

    def save(self, number: int, state: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
        """Write one, then drop those that are too old."""
        save_checkpoint(self.path(number), state, tensors)
        for old in self.numbers()[: -self._keep]:
            shutil.rmtree(self.path(old), ignore_errors=True)

    def newest(self, passed_over: Callable[[DamagedCheckpointError], None] | None = None) -> Checkpoint | None:
        """The newest checkpoint that is whole; None where there is none at all.

        `passed_over` is told of each damaged one; where all are, that of the newest is raised. One of another version is an error.
        """
        damaged: list[DamagedCheckpointError] = []
        for number in reversed(self.numbers()):
            try:
                checkpoint = load_checkpoint(self.path(number))
            except DamagedCheckpointError as error:
                damaged.append(error)
                continue
            if passed_over is not None:
                for error in damaged:
                    passed_over(error)
            return checkpoint
        if damaged:
            raise damaged[0]
        return None


def optimizer_tensors(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, torch.Tensor]:
    """The optimizer's state as named tensors: `prefix.PARAMETER.NAME`; parameters without names go by their numbers."""
    state, names = optimizer.state_dict()["state"], _parameter_names(optimizer)
    return {
        f"{prefix}.{names[index]}.{name}": torch.as_tensor(value).cpu() for index, values in state.items() for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor], prefix: str) -> None:
    """Put back what `optimizer_tensors` gave, whatever groups the parameters were in. Raises `KeyError` for those of another optimizer."""
    indices = {name: index for index, name in _parameter_names(optimizer).items()}
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith(f"{prefix}."):
            parameter, _, name = key.removeprefix(f"{prefix}.").rpartition(".")
            state.setdefault(indices[parameter], {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _parameter_names(optimizer: torch.optim.Optimizer) -> dict[int, str]:
    """By the numbers that the optimizer's state has for its parameters."""
    names: dict[int, str] = {}
    for group in optimizer.state_dict()["param_groups"]:
        names |= dict(zip(group["params"], group.get("param_names") or map(str, group["params"]), strict=True))
    return names


def _move_into_place(draft: Path, folder: Path, previous: Path) -> None:
    """A folder cannot be renamed over another: the old one steps aside first, and comes back where the new one cannot follow."""
    shutil.rmtree(previous, ignore_errors=True)
    if folder.exists():
        os.replace(folder, previous)
    try:
        os.replace(draft, folder)
    except OSError:
        if previous.exists():
            os.replace(previous, folder)
        raise
    _flush(folder.parent)
    shutil.rmtree(previous, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()


def _state_digest(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode()).hexdigest()


def _damaged(folder: Path, what: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(f"checkpoint {folder} is damaged: {what}; put it back as it was, or remove it")
