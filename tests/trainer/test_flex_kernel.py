"""The fused kernel's rule and tiles are those of the plan; on a CPU it runs forward alone, and says so."""

import numpy as np
import pytest
import torch
from test_attention_plan import ancestors, random_plan
from token_trees import random_advantages, random_tree, tiny_model

from trainer.errors import ConfigError
from trainer.flex_kernel import TILE, block_mask, mask_mod
from trainer.prefix_tree import pack
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def visible(plan, window):
    """All pairs, from the segments alone."""
    seen = torch.zeros(plan.tokens, plan.tokens, dtype=torch.bool)
    for query, path in enumerate(ancestors(plan)):
        seen[query, path[-(window or len(path)) :]] = True
    return seen


@pytest.mark.parametrize("window", [None, 1, 30, 150])
@pytest.mark.parametrize(("segments", "longest"), [(12, 6), (4, 256), (6, 300), (300, 4), (40, 40)])
def test_tiles_hold_all_that_is_seen_and_whole_ones_nothing_else(segments, longest, window):
    plan = random_plan(segments, segments, longest)
    seen, mask = visible(plan, window), block_mask(plan, window, CPU)
    rows = torch.arange(plan.tokens)
    rule = mask_mod(plan, plan.effective_window(window), CPU)
    assert torch.equal(rule(rows, rows, rows[:, None], rows[None]), seen)
    padded = torch.zeros(2 * [-(-plan.tokens // TILE) * TILE], dtype=torch.bool)
    padded[: plan.tokens, : plan.tokens] = seen
    tiles = padded.unflatten(0, (-1, TILE)).unflatten(2, (-1, TILE)).transpose(1, 2)
    for query in range(len(tiles)):
        counts = int(mask.kv_num_blocks[0, 0, query]), int(mask.full_kv_num_blocks[0, 0, query])
        partial = set(mask.kv_indices[0, 0, query, : counts[0]].tolist())
        whole = set(mask.full_kv_indices[0, 0, query, : counts[1]].tolist())
        needed = set(tiles[query].any(-1).any(-1).nonzero().flatten().tolist())
        assert needed <= partial | whole and not partial & whole
        assert all(tiles[query, key].all() for key in whole)
        if window is None:
            assert needed == partial | whole


def test_most_tiles_of_a_long_trunk_are_whole():
    mask = block_mask(random_plan(0, 1, 3000), None, CPU)
    assert int(mask.full_kv_num_blocks.sum()) > 0.8 * (int(mask.full_kv_num_blocks.sum()) + int(mask.kv_num_blocks.sum()) - 24)


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_both_kernels_give_the_same_log_probabilities(family, window):
    changes = {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 1} if window and family == "qwen2" else {}
    model, rng = tiny_model(family, **changes), np.random.default_rng(3)
    trees = [random_tree(rng, turns=20, longest=20) for _ in range(2)]
    batch = pack(trees, random_advantages(rng, trees), [tree.path_weights() for tree in trees])
    with torch.no_grad(), tree_attention(model):
        flex_S, _ = token_logprobs(model, batch, attention="flex")
        sdpa_S, _ = token_logprobs(model, batch, attention="sdpa")
        auto_S, _ = token_logprobs(model, batch)
    torch.testing.assert_close(flex_S, sdpa_S, rtol=0, atol=1e-5)
    assert torch.equal(auto_S, sdpa_S) and not torch.equal(flex_S, sdpa_S)


def test_training_with_flex_on_a_cpu_is_refused():
    model, tree = tiny_model("qwen3"), random_tree(np.random.default_rng(0))
    batch = pack([tree], [np.ones(len(tree.turns))], [tree.path_weights()])
    with pytest.raises(ConfigError, match=r"optimizer.attention to sdpa or auto"), tree_attention(model):
        token_logprobs(model, batch, attention="flex")
