import errno
import os
from pathlib import Path

import pytest
import torch
from token_trees import tiny_model

from trainer.errors import RunFolderError
from trainer.shared_parameters import SharedParameters


def test_every_view_sees_every_change(tmp_path: Path) -> None:
    model, other = tiny_model("qwen3"), tiny_model("qwen3", seed=1)
    size = SharedParameters.size(model)
    first = SharedParameters(tmp_path / "p", size, 2)
    first.publish(model)
    first.attach(model)
    second = SharedParameters(tmp_path / "p", size, 2)
    second.attach(other, shard=1)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
    other(input_ids=torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert not first.gradients_SP[0].any()
    assert first.gradients_SP[1].any(), "a backward pass lands in the shard's own row"
    summed = first.gradients_SP.sum(0)
    assert torch.equal(first.collect(), summed)
    assert not second.gradients_SP.any()


def test_tied_parameters_count_once() -> None:
    model = tiny_model("qwen3")
    assert (
        SharedParameters.size(model) == sum(p.numel() for p in model.state_dict().values()) - model.get_output_embeddings().weight.numel()
    )  # pyright: ignore


def test_room_that_is_not_there_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(RunFolderError, match=r"take 1,204 bytes in .*: No space left on device; free some space"):
        SharedParameters(tmp_path / "p", 100, 2)
    assert not list(tmp_path.iterdir())
