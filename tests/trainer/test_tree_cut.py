"""A tree cut to any budget trains as it does whole: the same coefficients, the same gradient, and little computed again."""

import numpy as np
import pytest
import torch
from token_trees import difference, exact_norms, gradient, random_advantages, random_tree, tiny_model, turn

from trainer.loss import LossRule, batch_coefficients, policy_loss
from trainer.prefix_tree import pack, packs
from trainer.ratio_groups import sequence_groups
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from trainer.tree_cut import Segments, cut
from tree_rollout.tree import TrajectoryTree

AGGREGATIONS = ["token", "turn", "sequence", "constant"]
BUDGETS = [1, 25, 60]


def work(seed, *, turns=24, segments=False):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, turns=turns, vocabulary=[3, 23][seed % 2])
    for one in tree.turns if segments else ():
        one.new_segment = one.parent >= 0 and bool(rng.random() < 0.4)
    return [tree], random_advantages(rng, [tree]), [tree.path_weights()]


def scored(batches):
    """What is scored, as sums over packs for each (turn of the tree, target): turns are told apart by their advantages."""
    sums = {}
    for batch in batches:
        places = {}
        rows = zip(batch.advantages_S.tolist(), batch.targets_S.tolist(), batch.behaviour_S.tolist(), strict=True)
        for index, (advantage, target, behaviour) in enumerate(rows):
            place = places[advantage] = places.get(advantage, -1) + 1
            key = (advantage, place, target, behaviour)
            sums[key] = sums.get(key, 0) + np.array([float(batch.weights_S[index]), float(batch.rollout_weights_S[index])])
    return sums


@pytest.mark.parametrize("segments", [False, True], ids=["", "new segments"])
@pytest.mark.parametrize("whole_rollouts", [False, True], ids=["turns", "rollouts"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", range(4))
def test_the_parts_score_what_the_whole_scores(seed, budget, whole_rollouts, segments):
    given = work(seed, segments=segments)
    whole = pack(*given, dtype=torch.float64, observation_weight=0.5)
    parts = list(packs(*given, budget, whole_rollouts=whole_rollouts, dtype=torch.float64, observation_weight=0.5))
    expected, found = scored([whole]), scored(parts)
    assert len(parts) > 1 and found.keys() == expected.keys()
    for key, weights in expected.items():
        np.testing.assert_allclose(found[key], weights, rtol=1e-12)
    assert sum(part.rollouts for part in parts) == whole.rollouts
    assert sum(part.flat_tokens for part in parts) == whole.flat_tokens
    assert sum(part.unique_tokens - part.recomputed_tokens for part in parts) == whole.unique_tokens
    if not whole_rollouts:
        assert sum(len(part.targets_S) for part in parts) == len(whole.targets_S)


@pytest.mark.parametrize("whole_rollouts", [False, True], ids=["turns", "rollouts"])
@pytest.mark.parametrize("seed", range(4))
def test_parts_keep_the_budget_unless_one_path_is_longer(seed, whole_rollouts):
    given = work(seed, turns=40)
    tree = given[0][0]
    longest = max(len(tree.ids(leaf)) for leaf in tree.leaves())
    for budget in (longest, longest + 20):
        assert max(part.unique_tokens for part in packs(*given, budget, whole_rollouts=whole_rollouts)) <= budget
    for part in packs(*given, longest // 2, whole_rollouts=whole_rollouts):
        assert part.unique_tokens <= longest // 2 or part.plan.parents == [*range(-1, len(part.plan.parents) - 1)]


@pytest.mark.parametrize("seed", range(3))
def test_with_whole_rollouts_every_rollout_has_all_that_it_scores_in_one_pack(seed):
    given = work(seed)
    (tree,), (advantages_N,), _ = given
    parts = [set(part.advantages_S.tolist()) for part in packs(*given, 30, whole_rollouts=True, dtype=torch.float64)]
    assert len(parts) > 1
    for path in tree.rollouts():
        assert any({advantages_N[index] for index in path} <= part for part in parts)


def loss_gradient(model, batches, aggregation, groups=lambda batch: None):
    with tree_attention(model):
        for batch in batches:
            logprobs_S, entropies_S = token_logprobs(model, batch, entropy_grad=True)
            coefficients_S = batch_coefficients(batch, aggregation)
            rule = LossRule(entropy_coefficient=0.1, dual_clip=3.0)
            loss, _ = policy_loss(
                logprobs_S, batch.behaviour_S, batch.advantages_S, coefficients_S, 7.0, rule, groups=groups(batch), entropies_T=entropies_S
            )
            loss.backward()
    return gradient(model)


@pytest.mark.parametrize("whole_rollouts", [False, True], ids=["turns", "rollouts"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_gradient_of_a_cut_tree_is_that_of_the_whole(aggregation, whole_rollouts):
    model, given = exact_norms(tiny_model("qwen3", torch.float64)), work(1, segments=True)
    whole = loss_gradient(model, [pack(*given, dtype=torch.float64)], aggregation)
    parts = list(packs(*given, 30, whole_rollouts=whole_rollouts, dtype=torch.float64))
    assert len(parts) > 2
    assert difference(loss_gradient(model, parts, aggregation), whole) < 1e-10


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_ratio_of_whole_rollouts_survives_the_cut(aggregation):
    """Beside another tree, so that places and rollouts count through both."""
    model, given = (
        exact_norms(tiny_model("qwen3", torch.float64)),
        [[*first, *second] for first, second in zip(work(4), work(1), strict=True)],
    )

    def groups(batch):
        return sequence_groups(batch, given[0], given[2], by_length=aggregation == "sequence")

    whole = loss_gradient(model, [pack(*given, dtype=torch.float64)], aggregation, groups)
    parts = list(packs(*given, 30, whole_rollouts=True, by_length=aggregation == "sequence", dtype=torch.float64))
    assert len(parts) > 4
    assert difference(loss_gradient(model, parts, aggregation, groups), whole) < 1e-10
    assert difference(loss_gradient(model, [pack(*given, dtype=torch.float64)], aggregation), whole) > 1e-3, "the ratio matters"


def test_the_gradient_of_a_cut_tree_is_that_of_the_whole_in_single_precision():
    model, given = tiny_model("qwen2"), work(2)
    assert difference(loss_gradient(model, packs(*given, 30), "sequence"), loss_gradient(model, [pack(*given)], "sequence")) < 1e-5


def test_trees_within_the_budget_are_packed_as_they_are():
    first, second = work(1, turns=4), work(2, turns=30)
    given = [[*a, *b] for a, b in zip(first, second, strict=True)]
    small = pack(*first).unique_tokens
    parts = list(packs(*given, small))
    assert parts[0].unique_tokens == small and parts[0].recomputed_tokens == 0
    assert len(list(packs(*given, 10_000))) == 1


def combed(teeth: int, stem: int, tooth: int):
    """A stem with a branch at each of its turns."""
    tree, last = TrajectoryTree("comb", 0), -1
    for index in range(teeth):
        last = tree.add(turn(last, [1], [2 + index] * stem))
        tree.add(turn(last, [1], [100 + index] * tooth))
    return [tree], [np.ones(len(tree.turns))], [tree.path_weights()]


def test_a_bush_is_cut_at_its_root():
    tree = TrajectoryTree("bush", 0)
    for root in range(4):
        parent = tree.add(turn(-1, [0], [root + 1] * 9))
        for branch in range(4):
            tree.add(turn(parent, [0], [10 + branch] * 9))
    given = [tree], [np.ones(20)], [tree.path_weights()]
    parts = list(packs(*given, 100))
    assert [part.unique_tokens for part in parts] == [91, 91] or sum(part.recomputed_tokens for part in parts) <= 2
    assert len(parts) == 2


def test_little_of_a_comb_is_computed_again():
    given = combed(teeth=20, stem=9, tooth=29)
    whole = pack(*given).unique_tokens
    parts = list(packs(*given, 400))
    assert sum(part.recomputed_tokens for part in parts) < 0.35 * whole
    # Every rollout by itself would be much more.
    assert pack(*given).flat_tokens > 3 * whole


def test_the_cheaper_cut_is_taken_whichever_it_is():
    """Leaves of 6, 5, 4, 3 and 2 tokens behind a stem of 10, at most 20 tokens: 6+4 and 5+3+2 fit, in order there would be three parts."""
    segments = Segments([-1, 0, 0, 0, 0, 0], [10, 6, 5, 4, 3, 2])
    parts = cut(segments, [[(segment, segments.lengths[segment])] for segment in range(1, 6)], 20)
    assert parts == [[0, 2], [1, 3, 4]]


def test_what_ends_above_a_branching_costs_nothing():
    segments = Segments([-1, 0, 0], [10, 8, 8])
    parts = cut(segments, [[(0, 4)], [(0, 10)], [(1, 8)], [(2, 8)]], 18)
    assert [segments.size([[[(0, 4)], [(0, 10)], [(1, 8)], [(2, 8)]][unit] for unit in part]) for part in parts] == [18, 18]
