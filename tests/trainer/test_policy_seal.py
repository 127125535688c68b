from collections.abc import Callable
from pathlib import Path

import pytest
from words_world import copy

from agents.policy_folder import load_policy, save_policy
from trainer.errors import CheckpointError
from trainer.policy_seal import check_seal, folder_digest, is_sealed, save_sealed
from trainer.run_folder import RunFolder


def test_a_sealed_folder_is_read_by_everybody(finished: RunFolder, tmp_path: Path) -> None:
    model, tokenizer = load_policy(finished.policy(0))
    save_sealed(model, tokenizer, tmp_path / "policy")
    assert is_sealed(tmp_path / "policy")
    check_seal(tmp_path / "policy")
    save_policy(model, tokenizer, tmp_path / "plain")
    assert not is_sealed(tmp_path / "plain"), "a Hugging Face folder of somebody else"
    assert folder_digest(tmp_path / "plain") == folder_digest(tmp_path / "policy")
    save_sealed(model, tokenizer, tmp_path / "policy")
    check_seal(tmp_path / "policy")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "its files were changed"),
        (lambda folder: (folder / "tokenizer.json").rename(folder / "tokenizer.jsn"), "its files were changed"),
        (lambda folder: (folder / "extra.bin").write_bytes(b"x"), "its files were changed"),
        (lambda folder: (folder / "seal.json").write_text("{}"), "its seal.json cannot be read"),
        (lambda folder: (folder / "seal.json").unlink(), "is missing or was never finished"),
    ],
)
def test_whatever_changes_breaks_the_seal(harm: Callable[[Path], object], words: str, finished: RunFolder, tmp_path: Path) -> None:
    policy = copy(finished, tmp_path / "run").policy(0)
    harm(policy)
    with pytest.raises(CheckpointError, match=words):
        check_seal(policy)


def test_an_unfinished_policy_is_not_counted(finished: RunFolder, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path / "run")
    (folder.policy(2) / "seal.json").unlink()
    assert folder.policies() == [0, 1]
    assert folder.chosen_policy()[0] == 1
