"""Corrections by hand, and what they do to the loss: which ratio each acts on, and what a rejected token still counts in."""

import math

import pytest
import torch

from trainer.errors import ConfigError
from trainer.loss import LossRule, policy_loss
from trainer.loss_stats import LossStats
from trainer.off_policy import accepted, correction_weights

RATIOS = torch.tensor([0.2, 0.8, 1.5, 3.0, 6.0], dtype=torch.float64)
ONES = torch.ones(5, dtype=torch.float64)
ZEROS = torch.zeros(5, dtype=torch.float64)


@pytest.mark.parametrize(
    ("correction", "high", "low", "weights"),
    [
        ("none", 2.0, 0.0, [0.2, 0.8, 1.5, 3.0, 6.0]),
        ("tis", 2.0, 0.0, [0.2, 0.8, 1.5, 2.0, 2.0]),
        ("mis", 2.0, 0.0, [0.2, 0.8, 1.5, 0.0, 0.0]),
        ("double_sided", 6.0, 0.7, [0.0, 0.8, 1.5, 3.0, 0.0]),
    ],
)
def test_weights_by_hand(correction, high, low, weights):
    assert correction_weights(RATIOS, correction, high, low).tolist() == pytest.approx(weights)
    if correction not in ("none", "tis"):
        assert accepted(RATIOS, correction, high, low).tolist() == [weight > 0 for weight in weights]


@pytest.mark.parametrize("correction", ["none", "tis", "mis", "double_sided"])
def test_with_a_proximal_policy_the_weight_multiplies_the_term_clipped_against_it(correction):
    """x = prox / behaviour weighs; rho = pi / prox is clipped."""
    bounds = {"correction_high": 6.0, "correction_low": 0.7} if correction == "double_sided" else {}
    rho = torch.tensor([1.5, 1.1, 0.9, 1.0, 0.5], dtype=torch.float64)
    proximal, behaviour = ZEROS - 1.0, -1.0 - RATIOS.log()
    logprobs = (proximal + rho.log()).requires_grad_()
    rule = LossRule(correction=correction, **bounds)
    loss, stats = policy_loss(logprobs, behaviour, ONES, ONES, 10.0, rule, proximal_T=proximal)
    weights = correction_weights(RATIOS, correction, rule.correction_high, rule.correction_low)
    assert loss.item() == pytest.approx(-(weights * rho.clamp(max=1.28)).sum().item() / 10, rel=1e-12)
    loss.backward()
    torch.testing.assert_close(logprobs.grad, -weights * rho * (rho < 1.28) / 10, rtol=1e-12, atol=0)
    assert stats.rejected == (weights == 0).sum()
    assert stats.weight == pytest.approx((weights * rho).sum().item())
    assert stats.means()["proximal_kl"] == pytest.approx((RATIOS - 1 - RATIOS.log()).mean().item())
    total = rho * RATIOS
    assert stats.means()["behaviour_kl"] == pytest.approx((total - 1 - total.log()).mean().item())


def test_the_gradient_through_the_decoupled_loss_matches_finite_differences():
    generator = torch.Generator().manual_seed(0)
    behaviour, proximal, advantages = (torch.randn(12, generator=generator, dtype=torch.float64) for _ in range(3))
    logprobs = (proximal + 0.2 * torch.randn(12, generator=generator, dtype=torch.float64)).requires_grad_()
    for correction in ("none", "tis", "mis", "double_sided"):
        rule = LossRule(correction=correction, correction_high=3.0, correction_low=0.5)
        assert torch.autograd.gradcheck(
            lambda x, rule=rule: policy_loss(x, behaviour, advantages, torch.ones(12), 3.0, rule, proximal_T=proximal)[0], (logprobs,)
        )


@pytest.mark.parametrize(("correction", "kept"), [("mis", [1, 1, 1, 0, 0]), ("double_sided", [0, 1, 1, 1, 0])])
def test_without_one_the_present_ratio_rejects_and_weighs_only_once(correction, kept):
    """cispo without its own clip: -rho A log pi for accepted tokens; the denominator keeps the rejected ones."""
    bounds = {"correction_high": 6.0, "correction_low": 0.7} if correction == "double_sided" else {}
    rule = LossRule(kind="cispo", clip_low=1.0, clip_high=100.0, correction=correction, **bounds)
    logprobs = (ZEROS - 1.0).requires_grad_()
    loss, stats = policy_loss(logprobs, -1.0 - RATIOS.log(), ONES, ONES, 5.0, rule)
    loss.backward()
    torch.testing.assert_close(logprobs.grad, -RATIOS * torch.tensor(kept) / 5.0)
    assert stats.coefficient == 5.0
    assert stats.rejected == 5 - sum(kept)
    ppo, _ = policy_loss(logprobs, -1.0 - RATIOS.log(), ONES, ONES, 5.0, LossRule(correction=correction, **bounds))
    assert ppo.item() == pytest.approx(-(RATIOS.clamp(max=1.28) * torch.tensor(kept)).sum().item() / 5.0)


def test_a_proximal_policy_that_is_the_behaviour_policy_changes_nothing():
    generator = torch.Generator().manual_seed(1)
    logprobs, advantages = (torch.randn(20, generator=generator, dtype=torch.float64) for _ in range(2))
    behaviour = logprobs - 0.2 * torch.randn(20, generator=generator, dtype=torch.float64)
    ones = torch.ones(20)
    plain, _ = policy_loss(logprobs, behaviour, advantages, ones, 1.0)
    decoupled, stats = policy_loss(logprobs, behaviour, advantages, ones, 1.0, proximal_T=behaviour)
    assert decoupled.item() == pytest.approx(plain.item(), rel=1e-14)
    assert stats.proximal_kl == 0


def test_effective_sample_size_by_hand():
    """VCPO: w = 1 1 1 5 gives ESS / B .571429 and a learning rate of .755929 times the plain one."""
    weights = torch.tensor([1.0, 1.0, 1.0, 5.0], dtype=torch.float64)
    ones = torch.ones(4, dtype=torch.float64)
    _, stats = policy_loss(weights.log(), 0 * ones, ones, ones, 1.0)
    assert stats.ess == pytest.approx(0.571429, abs=1e-6)
    assert math.sqrt(stats.ess) == pytest.approx(0.755929, abs=1e-6)
    assert stats.means()["ess"] == stats.ess
    halves = [policy_loss(weights.log()[part], 0 * ones[part], ones[part], ones[part], 1.0)[1] for part in (slice(0, 1), slice(1, 4))]
    assert (halves[0] + halves[1]).ess == pytest.approx(stats.ess)
    _, doubled = policy_loss(weights.log(), 0 * ones, ones, 2 * ones, 1.0)
    assert doubled.ess == pytest.approx(stats.ess), "a coefficient is no sample"
    assert LossStats().ess == 0


def test_truncation_needs_a_weight_to_truncate():
    with pytest.raises(ConfigError, match=r"mis or double_sided, or loss\.kind cispo"):
        policy_loss(ZEROS, ZEROS, ONES, ONES, 1.0, LossRule(correction="tis"))
    with pytest.raises(ConfigError, match="none, tis, mis, double_sided"):
        correction_weights(RATIOS, "sis")
