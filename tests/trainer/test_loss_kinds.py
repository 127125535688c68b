"""Each kind of loss on packed trees is the loss of the flattened rollouts, value and gradient; its formula is checked by hand beside."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flat_loss import Work, flat_loss, trees_near
from token_trees import difference, gradient, rollout_logprobs, tiny_model, turn

from trainer.errors import ConfigError
from trainer.loss import LossRule, batch_coefficients, loss_denominator, policy_loss
from trainer.loss_stats import LossStats
from trainer.prefix_tree import pack
from trainer.ratio_groups import sequence_groups, turn_groups
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

RULES = {
    "ppo": LossRule(),
    "dual": LossRule(dual_clip=1.5),
    "gspo": LossRule(kind="gspo", clip_low=0.02, clip_high=0.03),
    "cispo": LossRule(kind="cispo", clip_low=0.04, clip_high=0.03),
}
KINDS = [
    ("ppo", "token"),
    ("dual", "token"),
    ("gspo", "turn"),
    ("gspo", "sequence"),
    ("cispo", "token"),
    ("cispo", "turn"),
    ("cispo", "sequence"),
]
AGGREGATIONS = ["token", "turn", "sequence", "constant"]


def groups_of(batch: Any, work: Any, ratio: str, aggregation: str) -> Any:
    if ratio == "token":
        return None
    return turn_groups(batch) if ratio == "turn" else sequence_groups(batch, work[0], work[2], by_length=aggregation == "sequence")


def packed_loss(
    logprobs: Callable[[Any], torch.Tensor], work: Any, rule: LossRule, ratio: str, aggregation: Any
) -> tuple[torch.Tensor, LossStats]:
    """The loss of one pack of all trees; `logprobs(batch)` gives the log-probabilities of its scored tokens."""
    batch = pack(*work, dtype=torch.float64)
    denominator = loss_denominator([batch], aggregation, 20.0 if aggregation == "constant" else None)
    coefficients_S, groups = batch_coefficients(batch, aggregation), groups_of(batch, work, ratio, aggregation)
    return policy_loss(logprobs(batch), batch.behaviour_S, batch.advantages_S, coefficients_S, denominator, rule, groups=groups)


@pytest.fixture(scope="module")
def work() -> Work:
    return trees_near(tiny_model("qwen3", torch.float64), 3)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize(("name", "ratio"), KINDS)
def test_a_packed_tree_is_its_flattened_rollouts(name: str, ratio: str, aggregation: str, work: Work) -> None:
    """Value and gradient with respect to the log-probability of every token."""
    batch = pack(*work, dtype=torch.float64)
    noise_S = 0.2 * torch.randn(len(batch.turn_S), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logprobs_S = (batch.behaviour_S + noise_S).requires_grad_()
    ends = np.cumsum([sum(len(turn.ids_T) for turn in tree.turns) for tree in work[0]])
    whole_T = torch.zeros(int(ends[-1]), dtype=torch.float64).index_put((batch.tokens_S,), logprobs_S)

    def logprobs_of(number: int, path: list[int]) -> torch.Tensor:
        tree = work[0][number]
        starts = ends[number] - sum(len(turn.ids_T) for turn in tree.turns) + np.cumsum([0, *(len(turn.ids_T) for turn in tree.turns)])
        return whole_T[np.concatenate([np.arange(starts[index], starts[index + 1]) for index in path])]

    wanted = flat_loss(logprobs_of, work, RULES[name], ratio, aggregation, 20.0)
    packed, stats = packed_loss(lambda batch: logprobs_S, work, RULES[name], ratio, aggregation)
    assert packed.item() == pytest.approx(wanted.item(), rel=1e-12)
    gradients = [torch.autograd.grad(loss, logprobs_S, retain_graph=True)[0] for loss in (packed, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-14)
    assert stats.clipped_low > 0 and stats.clipped_high > 0, "the clip must bite for this to test it"


@pytest.mark.parametrize("ratio", ["turn", "sequence"])
def test_the_weights_move_as_by_the_flattened_rollouts(ratio: str, work: Work) -> None:
    """Through a model, whose norms compute in float32 whatever its weights are."""
    model, rule = tiny_model("qwen3", torch.float64), RULES["gspo"]
    flat_loss(lambda number, path: rollout_logprobs(model, work[0][number], path), work, rule, ratio, "sequence").backward()
    wanted = gradient(model)
    with tree_attention(model):
        packed_loss(lambda batch: token_logprobs(model, batch)[0], work, rule, ratio, "sequence")[0].backward()
    assert difference(gradient(model), wanted) < 1e-6


@pytest.mark.parametrize("ratio", ["turn", "sequence"])
def test_gspo_is_the_gradient_of_its_own_ratio_where_a_group_has_one_advantage(ratio: str) -> None:
    """Without stop-gradients: min(s A, clip(s) A) per group, s = (pi / pi_old)^(1 / |y|), autograd through s itself."""
    rng = np.random.default_rng(0)
    tree = TrajectoryTree("tokens", 0, turns=[turn(-1, [1, 2], [3, 4, 5]), turn(0, [6], [7]), turn(-1, [1, 2], [8, 9])])
    for leaf in tree.leaves():
        tree.turns[leaf].stop_reason = StopReason.TERMINATED
    work = [tree], [np.array([1.5, 1.5, -0.7])], [np.ones(3)]
    batch = pack(*work, dtype=torch.float64)
    logprobs_S = torch.tensor(np.asarray(batch.behaviour_S) + 0.1 * rng.normal(size=6), requires_grad=True)
    groups = {"turn": [[0, 1, 2], [3], [4, 5]], "sequence": [[0, 1, 2, 3], [4, 5]]}[ratio]
    aggregation = ratio
    rule = LossRule(kind="gspo", clip_low=0.2, clip_high=0.3)
    plain = torch.zeros((), dtype=torch.float64)
    for tokens in groups:
        s, advantage = (logprobs_S[tokens] - batch.behaviour_S[tokens]).mean().exp(), batch.advantages_S[tokens[0]]
        plain = plain - torch.minimum(s * advantage, s.clamp(0.8, 1.3) * advantage)
    wanted = torch.autograd.grad(plain / len(groups), logprobs_S)[0]
    coefficients_S = batch_coefficients(batch, aggregation)  # pyright: ignore[reportArgumentType]
    chosen = groups_of(batch, work, ratio, aggregation)
    loss, _ = policy_loss(
        logprobs_S, batch.behaviour_S, batch.advantages_S, coefficients_S, float(coefficients_S.sum()), rule, groups=chosen
    )
    assert loss.item() == pytest.approx((plain / len(groups)).item(), rel=1e-12)
    torch.testing.assert_close(torch.autograd.grad(loss, logprobs_S)[0], wanted, rtol=1e-12, atol=1e-14)


def test_cispo_by_hand() -> None:
    """-stopgrad(clip(rho)) A log pi: what ppo clips away still has a gradient."""
    ratios = torch.tensor([0.2, 0.8, 1.5, 3.0, 6.0], dtype=torch.float64)
    logprobs = torch.full((5,), -2.0, dtype=torch.float64, requires_grad=True)
    behaviour, ones = -2.0 - ratios.log(), torch.ones(5, dtype=torch.float64)
    rule = LossRule(kind="cispo", clip_low=1.0, clip_high=4.0)
    loss, stats = policy_loss(logprobs, behaviour, ones, ones, 1.0, rule)
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-0.2, -0.8, -1.5, -3.0, -5.0])
    assert loss.item() == pytest.approx(2.0 * 10.5)
    assert (stats.clipped_low, stats.clipped_high) == (0.0, 1.0)
    assert torch.autograd.gradcheck(lambda x: policy_loss(x, x.detach(), ones, ones, 1.0, rule)[0], (logprobs,))


def test_a_shared_token_counts_in_each_rollout_with_that_rollouts_ratio() -> None:
    tree = TrajectoryTree("tokens", 0, turns=[turn(-1, [1], [2, 3]), turn(0, [4], [5]), turn(0, [4], [6, 7])])
    for leaf in tree.leaves():
        tree.turns[leaf].stop_reason = StopReason.TERMINATED
    weights = [tree.path_weights()]
    batch = pack([tree], [np.ones(3)], weights, dtype=torch.float64)
    groups = sequence_groups(batch, [tree], weights, by_length=False)
    assert list(zip(groups.token_I.tolist(), groups.group_I.tolist(), groups.share_I.tolist(), strict=True)) == [
        (0, 0, 0.5), (0, 1, 0.5), (1, 0, 0.5), (1, 1, 0.5), (2, 0, 1.0), (3, 1, 1.0), (4, 1, 1.0)
    ]  # fmt: skip
    log_ratio_S = torch.tensor([0.1, 0.2, 0.6, -0.4, 0.5], dtype=torch.float64)
    assert groups.log_ratios(log_ratio_S).tolist() == pytest.approx([0.3, 0.1, 0.3, 0.1, 0.3, 0.1, 0.1])
    by_length = sequence_groups(batch, [tree], weights, by_length=True)
    assert by_length.share_I.tolist()[:2] == pytest.approx([(0.5 / 3) / (0.5 / 3 + 0.5 / 4), (0.5 / 4) / (0.5 / 3 + 0.5 / 4)])


def test_rollouts_that_do_not_count_are_in_no_group() -> None:
    turns = [turn(-1, [1], [2]), turn(0, [4], [5], StopReason.ENV_ERROR), turn(0, [4], [6], StopReason.TERMINATED), turn(0, [], [])]
    tree = TrajectoryTree("tokens", 0, turns=turns)
    tree.turns[3].stop_reason = StopReason.TERMINATED
    weights = [np.array([1.0, 0.3, 0.3, 0.4])]
    batch = pack([tree], [np.ones(4)], weights, dtype=torch.float64)
    groups = sequence_groups(batch, [tree], weights, by_length=False)
    assert groups.token_I.tolist() == [0, 0, 1]
    assert groups.share_I.tolist() == pytest.approx([0.3 / 0.7, 0.4 / 0.7, 1.0]), "a rollout may end in a turn without tokens"


def test_nan_where_the_coefficient_is_zero_poisons_no_group() -> None:
    model = tiny_model("qwen2", torch.float64)
    work = trees_near(model, 5, count=1)
    batch = pack(*work, dtype=torch.float64)
    groups = sequence_groups(batch, work[0], work[2], by_length=False)
    coefficients_S = batch.weights_S.clone()
    coefficients_S[3] = 0.0
    logprobs_S = (batch.behaviour_S + 0.1).requires_grad_()
    poisoned = torch.where(coefficients_S == 0, torch.nan, logprobs_S.detach()).requires_grad_()
    results = []
    for values_S in (logprobs_S, poisoned):
        loss, _ = policy_loss(values_S, batch.behaviour_S, batch.advantages_S, coefficients_S, 1.0, RULES["gspo"], groups=groups)
        results.append((loss.item(), torch.autograd.grad(loss, values_S)[0]))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "grpo"}, "ppo, gspo, cispo"),
        ({"clip_low": 1.0}, "1 for cispo alone"),
        ({"kind": "cispo", "dual_clip": 3.0}, "null with loss.kind cispo"),
    ],
)
def test_rules_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LossRule(**options)
