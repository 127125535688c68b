"""The loss equals a plain loop over tokens, is a function of weighted tokens alone, and adds up over micro-batches."""

import math

import numpy as np
import pytest
import torch
from token_trees import difference, gradient, random_advantages, random_tree, tiny_model, turn

from trainer.errors import ConfigError
from trainer.kl_estimate import kl_estimate
from trainer.loss import (
    LossRule,
    batch_coefficients,
    imitation_loss,
    loss_denominator,
    policy_loss,
    token_coefficients,
)
from trainer.loss_stats import LossStats
from trainer.prefix_tree import micro_batches, pack
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.tree import TrajectoryTree

AGGREGATIONS = ["token", "turn", "sequence", "constant"]


def random_tokens(seed=0, count=40):
    """Log-probabilities with a gradient, behaviour log-probabilities, advantages, coefficients, reference, entropies."""
    rng = np.random.default_rng(seed)
    logprobs = torch.tensor(-rng.exponential(size=count), requires_grad=True)
    behaviour = logprobs.detach() + torch.tensor(rng.normal(scale=0.4, size=count))
    advantages, coefficients = torch.tensor(rng.normal(size=count)), torch.tensor(rng.uniform(0.1, 2, size=count))
    reference = behaviour + torch.tensor(rng.normal(scale=0.3, size=count))
    entropies = torch.tensor(rng.uniform(size=count), requires_grad=True)
    return logprobs, behaviour, advantages, coefficients, reference, entropies


def plain_term(logprob, behaviour, advantage, clip_low, clip_high, dual_clip):
    """One token's clipped term, by cases."""
    ratio = math.exp(logprob - behaviour)
    if advantage >= 0:
        return -min(ratio, 1 + clip_high) * advantage
    ratio = max(ratio, 1 - clip_low)
    return -(ratio if dual_clip is None else min(ratio, dual_clip)) * advantage


@pytest.mark.parametrize("dual_clip", [None, 1.3, 3.0])
@pytest.mark.parametrize("clip", [(0.2, 0.28), (0.1, 0.5)])
def test_the_loss_is_the_plain_sum_over_tokens(clip, dual_clip):
    logprobs, behaviour, advantages, coefficients, _, _ = random_tokens()
    loss, stats = policy_loss(
        logprobs, behaviour, advantages, coefficients, 7.0, LossRule(clip_low=clip[0], clip_high=clip[1], dual_clip=dual_clip)
    )
    terms = [
        weight * plain_term(*values, *clip, dual_clip)
        for weight, *values in zip(coefficients.tolist(), logprobs.tolist(), behaviour.tolist(), advantages.tolist(), strict=True)
    ]
    assert loss.item() == pytest.approx(sum(terms) / 7.0, rel=1e-12)
    assert stats.means()["objective"] == pytest.approx(sum(terms) / coefficients.sum().item(), rel=1e-12)


def test_hand_checked_terms():
    ratios = torch.tensor([0.2, 0.8, 1.5, 3.0, 6.0], dtype=torch.float64)
    ones, zeros = torch.ones_like(ratios), torch.zeros_like(ratios)

    def terms(advantage, **options):
        singles = zip(ratios.log().split(1), zeros.split(1), (advantage * ones).split(1), ones.split(1), strict=True)
        return [policy_loss(*single, 1.0, LossRule(**options))[0].item() for single in singles]

    assert terms(1.0) == pytest.approx([-0.2, -0.8, -1.28, -1.28, -1.28])
    assert terms(-1.0) == pytest.approx([0.8, 0.8, 1.5, 3.0, 6.0])
    assert terms(-1.0, dual_clip=3.0) == pytest.approx([0.8, 0.8, 1.5, 3.0, 3.0])


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "low_variance"])
@pytest.mark.parametrize("dual_clip", [None, 1.5])
def test_gradients_match_finite_differences(estimator, dual_clip):
    logprobs, behaviour, advantages, coefficients, reference, entropies = random_tokens(1, 12)

    def loss(logprobs, entropies):
        return policy_loss(
            logprobs,
            behaviour,
            advantages,
            coefficients,
            3.0,
            LossRule(dual_clip=dual_clip, kl_coefficient=0.3, kl_estimator=estimator, entropy_coefficient=0.05),
            reference_T=reference,
            entropies_T=entropies,
        )[0]

    assert torch.autograd.gradcheck(loss, (logprobs, entropies))
    assert torch.autograd.gradcheck(lambda x: imitation_loss(x, coefficients, 3.0), (logprobs,))


def test_without_clipping_the_gradient_is_the_policy_gradient():
    logprobs, _, advantages, coefficients, _, _ = random_tokens(2)
    loss, stats = policy_loss(logprobs, logprobs.detach(), advantages, coefficients, 5.0)
    loss.backward()
    torch.testing.assert_close(logprobs.grad, -coefficients * advantages / 5.0)
    assert stats.means()["ratio"] == pytest.approx(1.0)
    assert stats.means()["behaviour_kl"] == pytest.approx(0.0, abs=1e-12)


def test_clipped_tokens_have_no_gradient_and_are_counted_by_side():
    behaviour = torch.zeros(6, dtype=torch.float64)
    logprobs = torch.tensor([0.5, 0.5, -0.5, -0.5, 0.0, 1.5], dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    weights = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], dtype=torch.float64)
    loss, stats = policy_loss(logprobs, behaviour, advantages, weights, 1.0, LossRule(dual_clip=3.0))
    loss.backward()
    assert (logprobs.grad != 0).tolist() == [False, True, True, False, True, False]
    assert (stats.clipped_high, stats.clipped_low, stats.clipped_dual) == (1.0, 8.0, 32.0)
    assert stats.means()["clipped_low"] == pytest.approx(8 / 63)
    assert stats.max_ratio == pytest.approx(math.exp(1.5))


def test_statistics_are_weighted_means_and_add_up():
    logprobs, behaviour, advantages, coefficients, reference, entropies = random_tokens(3)

    def stats_of(part):
        inputs = (logprobs[part], behaviour[part], advantages[part], coefficients[part], 1.0)
        return policy_loss(*inputs, LossRule(kl_estimator="k2"), reference_T=reference[part], entropies_T=entropies[part])[1]

    whole, summed = stats_of(slice(None)), stats_of(slice(0, 11)) + stats_of(slice(11, None))
    assert summed.means() == pytest.approx(whole.means())
    ratio = (logprobs - behaviour).exp().detach()

    def mean(values):
        return ((coefficients * values).sum() / coefficients.sum()).item()

    assert whole.means()["ratio"] == pytest.approx(mean(ratio))
    assert whole.means()["behaviour_kl"] == pytest.approx(mean(ratio - 1 - ratio.log()))
    assert whole.means()["reference_kl"] == pytest.approx(mean(0.5 * (logprobs - reference).detach() ** 2))
    assert whole.means()["entropy"] == pytest.approx(mean(entropies.detach()))
    assert whole.means()["tokens"] == 40
    assert set(LossStats().means().values()) == {0.0}


def test_kl_estimates_by_their_formulas():
    policy, reference = torch.tensor([-1.0, -2.0], dtype=torch.float64), torch.tensor([-1.5, -1.0], dtype=torch.float64)
    assert kl_estimate(policy, reference, "k1").tolist() == pytest.approx([0.5, -1.0])
    assert kl_estimate(policy, reference, "k2").tolist() == pytest.approx([0.125, 0.5])
    assert kl_estimate(policy, reference, "k3").tolist() == pytest.approx([math.exp(-0.5) - 1 + 0.5, math.e - 1 - 1])


def test_kl_estimates_have_the_means_they_promise():
    policy = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    exact = (policy * (policy / reference).log()).sum()
    for estimator in ("k1", "k3"):
        assert (policy * kl_estimate(policy.log(), reference.log(), estimator)).sum().item() == pytest.approx(exact.item())
    # The gradient of k2 with respect to logits, in expectation over the policy, is that of the KL; that of k1 is 0.
    logits = policy.detach().log().requires_grad_()
    fixed = policy.detach()

    def pull(estimator):
        return torch.autograd.grad((fixed * kl_estimate(logits.log_softmax(0), reference.log(), estimator)).sum(), logits)[0]

    probabilities = logits.softmax(0)
    true = torch.autograd.grad((probabilities * (probabilities / reference).log()).sum(), logits)[0]
    torch.testing.assert_close(pull("k2"), true)
    torch.testing.assert_close(pull("k1"), torch.zeros_like(true))


def test_nan_where_the_coefficient_is_zero_poisons_nothing():
    logprobs, behaviour, advantages, coefficients, reference, entropies = random_tokens(4)
    plain, plain_stats = policy_loss(
        logprobs, behaviour, advantages, coefficients, 3.0, LossRule(kl_coefficient=0.1), reference_T=reference, entropies_T=entropies
    )
    wanted = torch.autograd.grad(plain, logprobs)[0]
    nan = torch.full((5,), torch.nan, dtype=torch.float64)
    padded = [torch.cat((x.detach(), nan)) for x in (logprobs, behaviour, advantages, reference, entropies)]
    padded[0].requires_grad_()
    loss, stats = policy_loss(
        *padded[:3],
        torch.cat((coefficients, torch.zeros(5))),
        3.0,
        LossRule(kl_coefficient=0.1),
        reference_T=padded[3],
        entropies_T=padded[4],
    )
    loss.backward()
    assert loss.item() == pytest.approx(plain.item(), rel=1e-14)
    assert stats.means() == pytest.approx(plain_stats.means(), rel=1e-14)
    torch.testing.assert_close(padded[0].grad, torch.cat((wanted, torch.zeros(5))))


def test_a_huge_ratio_stays_finite():
    logprobs = torch.tensor([-0.1, -0.1], requires_grad=True)
    loss, stats = policy_loss(logprobs, torch.tensor([-300.0, -300.0]), torch.tensor([0.0, -1.0]), torch.ones(2), 2.0)
    loss.backward()
    assert math.isfinite(loss.item())
    assert math.isfinite(stats.ratio)
    assert torch.isfinite(logprobs.grad).all()


def test_no_token_with_weight_gives_a_zero_loss_that_can_be_differentiated():
    logprobs = torch.tensor([torch.nan], requires_grad=True)
    loss, stats = policy_loss(logprobs, torch.zeros(1), torch.ones(1), torch.zeros(1), 2.0)
    loss.backward()
    assert loss.item() == 0
    assert logprobs.grad.tolist() == [0.0]
    assert stats == LossStats()


def plain_aggregate(aggregation, trees, weights, values):
    """What an aggregation means, computed turn by turn and rollout by rollout; `values[tree][turn]` lists the terms of its tokens."""
    trios = list(zip(trees, weights, values, strict=True))
    if aggregation == "sequence":
        paths = [(w[path[-1]], [v[n] for n in path]) for tree, w, v in trios for path in tree.rollouts()]
        rollouts = [(weight, [term for terms in path for term in terms]) for weight, path in paths]
        return sum(weight * np.mean(terms) for weight, terms in rollouts) / sum(weight for weight, _ in rollouts)
    turns = [(w[n], v[n]) for _, w, v in trios for n in range(len(w))]
    if aggregation == "turn":
        return sum(weight * np.mean(terms) for weight, terms in turns) / sum(weight for weight, _ in turns)
    total = sum(weight * sum(terms) for weight, terms in turns)
    return total / (50.0 if aggregation == "constant" else sum(weight * len(terms) for weight, terms in turns))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("weighting", ["path_weights", "leaf_weights"])
def test_aggregations_mean_what_they_say(aggregation, weighting):
    rng = np.random.default_rng(6)
    trees = [random_tree(rng) for _ in range(3)]
    weights = [getattr(tree, weighting)() for tree in trees]
    batch = pack(trees, random_advantages(rng, trees), weights, dtype=torch.float64)
    values = [[rng.normal(size=int(one.mask_T.sum())).tolist() for one in tree.turns] for tree in trees]
    terms_S = torch.tensor([x for tree in values for one in tree for x in one], dtype=torch.float64)
    denominator = loss_denominator([batch], aggregation, 50.0 if aggregation == "constant" else None)
    loss = imitation_loss(-terms_S, batch_coefficients(batch, aggregation), denominator)
    assert loss.item() == pytest.approx(plain_aggregate(aggregation, trees, weights, values), rel=1e-12)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_tokens_without_weight_change_no_coefficient(aggregation):
    weights, turns = torch.tensor([1.0, 1.0, 0.5]), torch.tensor([0, 0, 1])
    shares = torch.tensor([0.4, 0.4, 0.2])
    plain = token_coefficients(aggregation, weights, turns, shares)
    nan = torch.tensor([torch.nan])
    padded = token_coefficients(aggregation, torch.cat((weights, torch.zeros(1))), torch.cat((turns, turns[:1])), torch.cat((shares, nan)))
    assert padded.tolist() == [*plain.tolist(), 0.0]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_micro_batches_accumulate_the_gradient_of_the_mini_batch(aggregation):
    rng = np.random.default_rng(7)
    trees = [random_tree(rng) for _ in range(4)]
    advantages, weights = random_advantages(rng, trees), [tree.path_weights() for tree in trees]
    model = tiny_model("qwen3", torch.float64)

    def accumulate(parts):
        batches = [pack(*(column[p.start : p.stop] for column in (trees, advantages, weights)), dtype=torch.float64) for p in parts]
        denominator = loss_denominator(batches, aggregation, 50.0 if aggregation == "constant" else None)
        stats = LossStats()
        for batch in batches:
            with tree_attention(model):
                logprobs_S, entropies_S = token_logprobs(model, batch, entropy_grad=True)
                loss, part = policy_loss(
                    logprobs_S,
                    batch.behaviour_S,
                    batch.advantages_S,
                    batch_coefficients(batch, aggregation),
                    denominator,
                    LossRule(entropy_coefficient=0.01),
                    entropies_T=entropies_S,
                )
                loss.backward()
            stats += part
        return gradient(model), stats

    parts = micro_batches(trees, weights, 80)
    assert len(parts) > 1
    (whole, whole_stats), (summed, summed_stats) = accumulate([range(4)]), accumulate(parts)
    assert difference(summed, whole) < 1e-6
    assert summed_stats.means() == pytest.approx(whole_stats.means(), rel=1e-6)


def test_a_step_along_the_gradient_makes_good_turns_likelier():
    model = tiny_model("qwen2")
    tree = TrajectoryTree("tokens", 0, turns=[turn(-1, [1, 2], [3]), turn(-1, [1, 2], [4])])
    batch = pack([tree], [[1.0, -1.0]], [[1.0, 1.0]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    for _ in range(2):
        optimizer.zero_grad()
        with tree_attention(model):
            logprobs_S, _ = token_logprobs(model, batch)
            loss, _ = policy_loss(logprobs_S, logprobs_S.detach(), batch.advantages_S, batch.weights_S, loss_denominator([batch], "token"))
            loss.backward()
        optimizer.step()
        seen.append(logprobs_S.detach())
    assert seen[1][0] > seen[0][0]
    assert seen[1][1] < seen[0][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_low": 1.0}, "clip_low"),
        ({"clip_high": 0.0}, "clip_high"),
        ({"dual_clip": 1.0}, "dual_clip"),
        ({"kl_coefficient": 0.1}, "kl_coefficient"),
        ({"entropy_coefficient": 0.1}, "entropy_grad"),
        ({"entropy_coefficient": 0.1, "entropies_T": torch.ones(1)}, "entropy_grad"),
        ({"reference_T": torch.ones(1), "kl_estimator": "k4"}, "k1, k2, k3"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, message):
    tensors = {name: options.pop(name) for name in ("reference_T", "entropies_T") if name in options}
    with pytest.raises(ConfigError, match=message):
        policy_loss(torch.zeros(1), torch.zeros(1), torch.zeros(1), torch.ones(1), 1.0, LossRule(**options), **tensors)


def test_denominators_that_cannot_work_are_refused():
    batch = pack([TrajectoryTree("tokens", 0, turns=[turn(-1, [1], [2])])], [[1.0]], [[1.0]])
    with pytest.raises(ConfigError, match="token, turn, sequence, constant"):
        loss_denominator([batch], "tokens")
    with pytest.raises(ConfigError, match="needs a constant"):
        loss_denominator([batch], "constant")
    with pytest.raises(ConfigError, match="no other aggregation"):
        loss_denominator([batch], "turn", 3.0)
    with pytest.raises(ConfigError, match="above 0"):
        loss_denominator([batch], "constant", 0.0)
    with pytest.raises(ValueError, match="leave out mini-batches"):
        imitation_loss(torch.zeros(1), torch.ones(1), 0.0)
