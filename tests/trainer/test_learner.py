import math
from pathlib import Path

import pytest
import torch
from token_trees import tiny_model

from trainer.config import OptimizerConfig
from trainer.errors import CheckpointError, DivergedError
from trainer.learner import Learner, learning_rate
from trainer.shared_parameters import SharedParameters


def learner(path: Path, **changes: object) -> tuple[Learner, SharedParameters]:
    model = tiny_model("qwen3")
    shared = SharedParameters(path, SharedParameters.size(model), 2)
    shared.publish(model)
    shared.attach(model)
    return Learner(model, shared, OptimizerConfig.model_validate({"warmup_iterations": 0, "lr": 0.01, **changes})), shared


def put(shared: SharedParameters, seed: int, size: float = 1.0) -> None:
    """A random gradient in each shard's row."""
    shared.gradients_SP.copy_(size * torch.randn(shared.gradients_SP.shape, generator=torch.Generator().manual_seed(seed)))


def test_the_rate_rises_then_falls() -> None:
    plain = OptimizerConfig(lr=0.1, warmup_iterations=4)
    assert [learning_rate(plain, iteration) for iteration in (1, 2, 4, 100)] == pytest.approx([0.025, 0.05, 0.1, 0.1])
    falling = OptimizerConfig(lr=0.1, warmup_iterations=0, decay_iterations=10, final_lr_share=0.2)
    assert [learning_rate(falling, iteration) for iteration in (1, 6, 11, 50)] == pytest.approx([0.1, 0.06, 0.02, 0.02])
    round_ = falling.model_copy(update={"decay": "cosine"})
    assert [learning_rate(round_, iteration) for iteration in (1, 6, 11, 50)] == pytest.approx([0.1, 0.06, 0.02, 0.02])
    assert learning_rate(round_, 3) == pytest.approx(0.02 + 0.08 * (1 + math.cos(math.pi / 5)) / 2)
    assert learning_rate(round_, 3) > learning_rate(falling, 3)


def test_a_step_is_adamw_on_the_sum_of_the_rows(tmp_path: Path) -> None:
    ours, shared = learner(tmp_path / "p", max_grad_norm=1e9, weight_decay=0.1)
    model = tiny_model("qwen3")
    embedding = model.get_input_embeddings().weight
    others = [p for p in model.parameters() if p.ndim < 2 or p is embedding]
    decayed = [p for p in model.parameters() if p.ndim >= 2 and p is not embedding]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    plain = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95))
    for step in range(3):
        put(shared, step)
        summed, start = 0.5 * shared.gradients_SP.sum(0), 0
        for parameter in model.parameters():
            parameter.grad = summed[start : start + parameter.numel()].view(parameter.shape).clone()
            start += parameter.numel()
        norm = ours.step(1, 0.5)
        plain.step()
        assert norm == pytest.approx(float(summed.norm()), rel=1e-6)
        assert not shared.gradients_SP.any(), "the rows are ready for the next step"
    torch.testing.assert_close(shared.weights_P, torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
    assert ours.version == 3


def test_the_norm_is_clipped(tmp_path: Path) -> None:
    """A gradient a thousand times as large, clipped to the same norm, gives the same step."""
    results = []
    for size in (1.0, 1000.0):
        ours, shared = learner(tmp_path / str(size), max_grad_norm=0.5)
        put(shared, 0, size)
        norm = ours.step(1, 1.0)
        assert norm > 0.5
        results.append(shared.weights_P.clone())
    torch.testing.assert_close(*results)


def test_a_step_can_be_made_smaller_by_a_rate(tmp_path: Path) -> None:
    """AdamW moves by the learning rate, whatever the size of the gradient."""
    moves = []
    for rate in (1.0, 0.5):
        ours, shared = learner(tmp_path / str(rate))
        before = shared.weights_P.clone()
        put(shared, 0)
        ours.step(1, 1.0, rate)
        moves.append(shared.weights_P - before)
    torch.testing.assert_close(moves[1], 0.5 * moves[0], rtol=1e-3, atol=1e-7)


def test_a_restored_learner_goes_on(tmp_path: Path) -> None:
    whole, shared = learner(tmp_path / "whole")
    for step in range(2):
        put(shared, step)
        whole.step(1, 1.0)
    saved = {name: tensor.clone() for name, tensor in whole.tensors().items()}
    put(shared, 2)
    whole.step(2, 1.0)
    again, other = learner(tmp_path / "again")
    again.restore(saved, 2)
    put(other, 2)
    again.step(2, 1.0)
    assert torch.equal(shared.weights_P, other.weights_P)
    assert again.version == 3


@pytest.mark.parametrize("tensors", [{}, {"weights": torch.zeros(3)}])
def test_another_models_tensors_are_refused(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CheckpointError, match="does not fit this model"):
        learner(tmp_path / "p")[0].restore(tensors, 0)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(tmp_path: Path, number: float) -> None:
    ours, shared = learner(tmp_path / "p")
    before = shared.weights_P.clone()
    shared.gradients_SP[1, 3] = number
    with pytest.raises(DivergedError, match=r"the gradient of iteration 7 is not finite; .*optimizer\.lr"):
        ours.step(7, 1.0)
    assert torch.equal(shared.weights_P, before)
    assert ours.version == 0
