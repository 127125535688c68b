"""The imitation loss on prefix trees is that of the kept rollouts one by one."""

import numpy as np
import pytest
import torch
from token_trees import difference, exact_norms, gradient, random_tree, rollout_logprobs, tiny_model

from trainer.config import OptimizerConfig
from trainer.tree_encoding import KeptTree
from trainer.tree_imitation import ImitationSums, TreeImitation


def kept_trees(seed: int) -> list[KeptTree]:
    """Random trees, all of whose rollouts are kept."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, turns=9) for _ in range(3)]
    return [KeptTree(tree, tree.leaf_weights(), len(tree.leaves()), 0) for tree in trees]


def flat_sums(model: torch.nn.Module, kept: list[KeptTree]) -> tuple[torch.Tensor, int]:
    """Every rollout by itself: the summed -log p of its own tokens, and how many there are."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for entry in kept:
        for path in entry.tree.rollouts():
            mask_T = np.concatenate([entry.tree.turns[index].mask_T for index in path])
            mask_T[0] = False  # Nothing predicts the first token.
            total = total - rollout_logprobs(model, entry.tree, path)[torch.from_numpy(mask_T)].sum()  # pyright: ignore
            count += int(mask_T.sum())
    return total, count


@pytest.mark.parametrize("budget", [100_000, 25, 1])
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_gradient_equal_those_of_flattened_rollouts(seed: int, budget: int) -> None:
    model, kept = exact_norms(tiny_model("qwen3", dtype=torch.float64)), kept_trees(seed)
    expected, count = flat_sums(model, kept)
    expected.backward()
    wanted = gradient(model)
    sums = TreeImitation(OptimizerConfig(micro_batch_tokens=budget), model).add(kept)
    assert sums.loss == pytest.approx(expected.item(), rel=1e-9)
    assert sums.weight == count and sums.mean == pytest.approx(expected.item() / count, rel=1e-9)
    assert difference(gradient(model), wanted) < 1e-9
    assert TreeImitation(OptimizerConfig(), model).loss(kept).loss == pytest.approx(expected.item(), rel=1e-9)
    assert not gradient(model).any(), "measuring leaves no gradient"


def test_each_shared_token_is_computed_once() -> None:
    model, kept = tiny_model("qwen3"), kept_trees(0)
    sums = TreeImitation(OptimizerConfig(micro_batch_tokens=100_000), model).add(kept)
    flat = sum(len(entry.tree.ids(path[-1])) for entry in kept for path in entry.tree.rollouts())
    assert sums.flattened_tokens == flat
    assert sums.unique_tokens <= sum(len(turn.ids_T) for entry in kept for turn in entry.tree.turns) < flat


def test_parts_add_up() -> None:
    model, kept = tiny_model("qwen3", dtype=torch.float64), kept_trees(1)
    imitation = TreeImitation(OptimizerConfig(), model)
    whole, parts = imitation.loss(kept), [imitation.loss(kept[part::2]) for part in range(2)]
    total = sum(parts, ImitationSums())
    assert total.mean == pytest.approx(whole.mean, rel=1e-9) and total.weight == whole.weight
    assert imitation.loss([]) == ImitationSums() and ImitationSums().mean == 0.0
