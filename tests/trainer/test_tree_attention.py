"""A packed tree gives the log-probabilities and the gradient of its rollouts, each run by itself through the unchanged model."""

import numpy as np
import pytest
import torch
from token_trees import (
    FAMILIES,
    VOCABULARY,
    difference,
    exact_norms,
    flat_gradient,
    gradient,
    packed_gradient,
    random_advantages,
    random_trees,
    rollout_logprobs,
    tiny_model,
    turn,
)

import trainer.attention_plan
from trainer.attention_plan import AttentionPlan
from trainer.errors import ConfigError
from trainer.prefix_tree import micro_batches, pack
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import ATTENTION_NAME, tree_attention
from tree_rollout.tree import TrajectoryTree


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_logprobs_and_entropies_are_those_of_each_rollout(family, dtype):
    model = tiny_model(family, dtype)
    tolerance = 1e-5 if dtype is torch.float32 else 1e-10
    trees, advantages, weights = random_trees(1, turns=16)
    batch = pack(trees, advantages, weights, observation_weight=1.0, dtype=dtype)
    with torch.no_grad(), tree_attention(model):
        logprobs_S, entropies_S = token_logprobs(model, batch)
    index = 0
    for tree in trees:
        for number, one in enumerate(tree.turns):
            path = tree.path(number)
            with torch.no_grad():
                alone = rollout_logprobs(model, tree, path)[-len(one.ids_T) :]
                ids_T = torch.from_numpy(tree.ids(number).astype(np.int64))
                all_TV = model(input_ids=ids_T[None], use_cache=False).logits[0].log_softmax(-1)
            alone = alone[1:] if len(path) == 1 else alone
            torch.testing.assert_close(logprobs_S[index : index + len(alone)], alone, rtol=0, atol=tolerance)
            entropies = -(all_TV.exp() * all_TV).sum(-1)[-len(alone) - 1 : -1]
            torch.testing.assert_close(entropies_S[index : index + len(alone)], entropies, rtol=0, atol=tolerance)
            index += len(alone)
    assert index == len(logprobs_S)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_packed_gradient_is_the_gradient_of_the_flattened_rollouts(family, dtype, seed):
    model = tiny_model(family, dtype, seed)
    model = exact_norms(model) if dtype is torch.float64 else model
    work = random_trees(seed)
    bound = 1e-10 if dtype is torch.float64 else 1e-5
    assert difference(packed_gradient(model, *work, dtype=dtype), flat_gradient(model, *work)) < bound


def test_leaf_weights_give_the_gradient_in_which_every_rollout_counts_once():
    model = tiny_model("qwen3")
    trees, advantages, _ = random_trees(4)
    packed = packed_gradient(model, trees, advantages, [tree.leaf_weights() for tree in trees])
    assert difference(packed, flat_gradient(model, trees, advantages, [np.ones(len(tree.turns)) for tree in trees])) < 1e-5


@pytest.mark.parametrize("heads", [(4, 4), (4, 1)], ids=["one key head per head", "one key head for all"])
def test_any_number_of_key_heads(heads):
    model = tiny_model("qwen3", num_attention_heads=heads[0], num_key_value_heads=heads[1])
    work = random_trees(2)
    assert difference(packed_gradient(model, *work), flat_gradient(model, *work)) < 1e-5


def long_tree(rng, lengths):
    """Turns of these lengths: a root, its two continuations, and so on."""
    tree = TrajectoryTree("tokens", 0)
    for index, length in enumerate(lengths):
        tree.add(turn((index - 1) // 2 if index else -1, [1, 2], rng.integers(VOCABULARY, size=length).tolist()))
    return tree


def test_long_segments_are_cut_into_blocks_and_stay_exact():
    rng = np.random.default_rng(0)
    tree = long_tree(rng, [150, 1, 97, 300, 64])
    work = [tree], random_advantages(rng, [tree]), [tree.path_weights()]
    model = tiny_model("llama", num_hidden_layers=2)
    plan = pack(*work).plan
    assert len(plan.blocks()) > len(plan.lengths) / 2
    assert difference(packed_gradient(model, *work), flat_gradient(model, *work)) < 1e-5


@pytest.mark.parametrize("window", [None, 7])
def test_how_the_row_is_cut_into_blocks_changes_nothing(monkeypatch, window):
    model = tiny_model("qwen2", use_sliding_window=window is not None, sliding_window=window, max_window_layers=1)
    work = random_trees(3, longest=20)
    found = []
    for call, finest, stride, longest in ((10**9, 8, 32, 256), (0, 1, 1, 256), (0, 1, 3, 3)):
        for name, value in {"_CALL": call, "_FINEST": finest, "_STRIDE": stride, "_LONGEST": longest}.items():
            monkeypatch.setattr(trainer.attention_plan, name, value)
        found.append((packed_gradient(model, *work), len(pack(*work).plan.blocks(window))))
    assert len({blocks for _, blocks in found}) == 3
    assert max(difference(other, found[0][0]) for other, _ in found[1:]) < 1e-6


@pytest.mark.parametrize(
    "parents_lengths", [([0], [1]), ([-1, 2], [1, 1]), ([-1], [0]), ([-1], [1, 1]), ([], []), ([-1, 0, 0, 1], [1] * 4)]
)
def test_impossible_plans_are_refused(parents_lengths):
    with pytest.raises(ValueError, match="parent that stands before it"):
        AttentionPlan(*parents_lengths)


def test_micro_batches_add_up_to_the_whole():
    model = tiny_model("qwen2")
    trees, advantages, weights = random_trees(6)
    parts = micro_batches(trees, weights, 80)
    assert len(parts) > 1
    summed = sum(packed_gradient(model, *(column[part.start : part.stop] for column in (trees, advantages, weights))) for part in parts)
    assert difference(summed, packed_gradient(model, trees, advantages, weights)) < 1e-5


def test_the_order_of_trees_does_not_change_the_gradient():
    model, work = tiny_model("qwen3"), random_trees(5)
    assert difference(packed_gradient(model, *(column[::-1] for column in work)), packed_gradient(model, *work)) < 1e-5


def test_a_zero_weight_branch_changes_neither_logprobs_nor_gradient():
    model = tiny_model("llama")
    trees, advantages, weights = random_trees(7)
    whole = packed_gradient(model, trees, advantages, weights)
    trees[0].add(turn(2, [3, 4], [5, 6]))
    grown = packed_gradient(model, trees, [np.append(advantages[0], np.nan), *advantages[1:]], [np.append(weights[0], 0.0), *weights[1:]])
    assert torch.equal(grown, whole)


def test_temperature_is_applied_to_logprobs_and_entropies():
    model, work = tiny_model("qwen3"), random_trees(8)
    batch = pack(*work)
    with torch.no_grad(), tree_attention(model):
        cold, entropies = token_logprobs(model, batch, temperature=0.5)
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight * 2)
        doubled, doubled_entropies = token_logprobs(model, batch)
    torch.testing.assert_close(cold, doubled)
    torch.testing.assert_close(entropies, doubled_entropies)


def test_entropies_have_a_gradient_only_on_request():
    model, batch = tiny_model("qwen3"), pack(*random_trees(8))
    with tree_attention(model):
        assert not token_logprobs(model, batch)[1].requires_grad
        _, entropies_S = token_logprobs(model, batch, entropy_grad=True)
        entropies_S.sum().backward()
    assert gradient(model).norm() > 0


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable:FutureWarning")
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_inside_the_context_is_exact_and_outside_an_error(reentrant):
    model, work = tiny_model("qwen3"), random_trees(9)
    whole = packed_gradient(model, *work)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.train()
    assert difference(packed_gradient(model, *work), whole) < 1e-6
    with tree_attention(model):
        logprobs_S, _ = token_logprobs(model, pack(*work))
    with pytest.raises(RuntimeError):
        logprobs_S.sum().backward()


def test_the_model_attends_as_before_afterwards_even_after_an_error():
    model = tiny_model("qwen2")
    model.set_attn_implementation("eager")
    with pytest.raises(KeyError), tree_attention(model):
        assert model.config._attn_implementation == ATTENTION_NAME
        raise KeyError
    assert model.config._attn_implementation == "eager"


def test_token_logprobs_outside_the_context_is_an_error():
    with pytest.raises(ValueError, match="with tree_attention"):
        token_logprobs(tiny_model("qwen2"), pack(*random_trees(0)))


def test_a_forward_pass_without_or_with_another_plan_is_an_error():
    model = tiny_model("qwen2")
    ids = torch.zeros(1, 4, dtype=torch.long)
    with tree_attention(model):
        with pytest.raises(ValueError, match="tree_plan"):
            model(input_ids=ids, use_cache=False)
        with pytest.raises(ValueError, match="one row of 3 tokens"):
            model(input_ids=ids, use_cache=False, tree_plan=AttentionPlan([-1], [3]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_dropout": 0.1}, "attention_dropout"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
    ],
)
def test_models_that_packing_would_change_are_refused(changes, message):
    model = tiny_model("qwen2")
    if "layer_types" in changes:
        model.config.layer_types = changes["layer_types"]
    else:
        model = tiny_model("qwen2", **changes)
    model.train()
    with pytest.raises(ConfigError, match=message), tree_attention(model):
        token_logprobs(model, pack(*random_trees(0)))


@pytest.mark.parametrize("window", [1, 3, 8, 200], ids="window {}".format)
@pytest.mark.parametrize("full_layers", [0, 1])
def test_windows_shorter_than_a_rollout_are_exact(window, full_layers):
    model = tiny_model("qwen2", use_sliding_window=True, sliding_window=window, max_window_layers=full_layers)
    work = random_trees(1, longest=20)
    assert difference(packed_gradient(model, *work), flat_gradient(model, *work)) < 1e-5
