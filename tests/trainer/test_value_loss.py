"""The value loss by a plain loop, its gradient, and what its clip holds back."""

import numpy as np
import pytest
import torch
from token_trees import random_advantages, random_tree

from trainer.loss import batch_coefficients
from trainer.prefix_tree import pack
from trainer.value_loss import ValueStats, value_loss


def some_pack(seed=0):
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng) for _ in range(2)]
    batch = pack(trees, random_advantages(rng, trees), [tree.path_weights() for tree in trees], dtype=torch.float64)
    values, targets, old = (torch.from_numpy(rng.normal(size=len(batch.turn_S))) for _ in range(3))
    return batch, values.requires_grad_(), targets, old


def plain_term(value, target, old, clip):
    bounded = old + min(max(value - old, -clip), clip)
    return 0.5 * max((value - target) ** 2, (bounded - target) ** 2)


@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("aggregation", ["token", "turn", "sequence", "constant"])
def test_every_token_is_a_plain_sum(aggregation, clip):
    batch, values, targets, old = some_pack()
    coefficients = batch_coefficients(batch, aggregation)
    loss, stats = value_loss(batch, values, targets, old, coefficients, clip)
    bound = float("inf") if clip is None else clip
    terms = [plain_term(*numbers, bound) for numbers in zip(values.tolist(), targets.tolist(), old.tolist(), strict=True)]
    assert loss.item() == pytest.approx(np.dot(coefficients.numpy(), terms), rel=1e-12)
    assert stats.loss == pytest.approx(loss.item())
    assert torch.autograd.gradcheck(lambda x: value_loss(batch, x, targets, old, coefficients, clip)[0], (values,))


@pytest.mark.parametrize("aggregation", ["token", "turn"])
def test_a_turns_value_has_the_coefficient_of_all_its_tokens(aggregation):
    batch, values, targets, old = some_pack(1)
    first = torch.tensor([turn not in batch.turn_S[:place] for place, turn in enumerate(batch.turn_S)])
    coefficients = batch_coefficients(batch, aggregation)
    loss, stats = value_loss(batch, values, torch.where(first, targets, torch.nan), old, coefficients)
    wanted = sum(
        0.5 * float(coefficients[batch.turn_S == batch.turn_S[place]].sum()) * (values[place] - targets[place]).item() ** 2
        for place in first.nonzero().squeeze(1)
    )
    assert loss.item() == pytest.approx(wanted, rel=1e-12)
    assert stats.coefficient == pytest.approx(float(coefficients.sum()))
    loss.backward()
    assert values.grad is not None and not values.grad[~first].any() and values.grad.isfinite().all()


def test_the_clip_holds_back_what_has_moved_far_enough():
    """Past the clip towards the target there is no gradient; past it in the other direction there is."""
    batch, _, _, _ = some_pack()
    count = len(batch.turn_S)
    values = torch.full((count,), 1.0, dtype=torch.float64, requires_grad=True)
    old, targets = torch.zeros(count, dtype=torch.float64), torch.full((count,), 3.0, dtype=torch.float64)
    ones = torch.ones(count, dtype=torch.float64)
    loss, stats = value_loss(batch, values, targets, old, ones, 0.5)
    assert not torch.autograd.grad(loss, values)[0].any() and stats.means()["clipped"] == 1
    away, stats = value_loss(batch, values, -targets, old, ones, 0.5)
    assert torch.autograd.grad(away, values)[0].tolist() == pytest.approx([4.0] * count) and stats.clipped == 0


def test_statistics_add_up_and_say_how_much_is_explained():
    batch, values, targets, old = some_pack(2)
    ones = torch.ones(len(values), dtype=torch.float64)
    stats = value_loss(batch, values, targets, old, ones)[1].means()
    errors = (values - targets).detach().numpy()
    assert stats["explained"] == pytest.approx(1 - np.mean(errors**2) / np.var(targets.numpy()))
    assert (stats["value"], stats["target"]) == pytest.approx((values.mean().item(), targets.mean().item()))
    assert value_loss(batch, targets, targets, old, ones)[1].means()["explained"] == pytest.approx(1.0)
    assert set(ValueStats().means().values()) == {0.0}
    doubled = value_loss(batch, values, targets, old, ones)[1] + value_loss(batch, values, targets, old, ones)[1]
    assert doubled.means() == pytest.approx(stats)
