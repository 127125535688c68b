"""A sealed policy folder holds what its seal says: one that was never finished has no seal, and one that was damaged breaks it."""

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_SEAL = "seal.json"
"""Lies in the folder beside the files of the Hugging Face format, whose readers do not care for it."""


def save_sealed(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Write a policy folder, then its seal; an older policy in the same place is replaced.

    A model with adapters is written with them merged, and the adapters by themselves into a folder inside.

    Raises `PolicyError` or `CheckpointError` where the disk refuses; the folder is then as it was, or without a seal.
    """
    # These import torch, which those who only read a run folder do without.
    from agents.policy_folder import save_policy
    from trainer.trained_model import ADAPTER, merged_weights, save_adapter

    weights = merged_weights(model)
    save_policy(model, tokenizer, folder, weights)
    draft = folder / f".{_SEAL}.draft"
    try:
        if weights is not None:
            save_adapter(model, folder / ADAPTER)
        draft.write_text(json.dumps({"digest": folder_digest(folder)}))
        os.replace(draft, folder / _SEAL)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise CheckpointError(f"policy {folder} cannot be written: {error.strerror or error}") from error


def is_sealed(folder: Path) -> bool:
    """True for a policy folder that was finished; whether it is intact, `check_seal` says."""
    return (folder / _SEAL).is_file()


def check_seal(folder: Path) -> None:
    """Raise `CheckpointError` where the folder is missing, was never finished, or is not as it was written."""
    try:
        digest = json.loads((folder / _SEAL).read_text())["digest"]
        intact = digest == folder_digest(folder)
    except FileNotFoundError as error:
        raise CheckpointError(f"policy {folder} is missing or was never finished") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"policy {folder} is damaged: its {_SEAL} cannot be read") from error
    if not intact:
        raise CheckpointError(f"policy {folder} is damaged: its files were changed after it was written")


def folder_digest(folder: Path) -> str:
    """Equal for folders that hold the same files under the same names, the seal and hidden files aside."""
    total = hashlib.blake2b()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _SEAL and not path.name.startswith(".")):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "blake2b").digest()
        total.update(f"{path.relative_to(folder).as_posix()}\0".encode() + content)
    return total.hexdigest()
