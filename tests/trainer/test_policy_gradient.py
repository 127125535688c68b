from pathlib import Path

import numpy as np
import pytest
import torch
from token_trees import difference, gradient, random_advantages, random_tree, tiny_model
from words_world import config_of

from trainer.mini_batch import Share
from trainer.policy_gradient import PolicyGradient

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{name}:FutureWarning")
    for name in ("gradient_checkpointing_enable", "gradient_checkpointing_disable", "is_gradient_checkpointing")
]


def computed(path: Path, again: bool) -> tuple[torch.Tensor, int]:
    """The gradient of some trees, and the bytes that their forward passes kept for it."""
    model, rng = tiny_model("qwen3").eval(), np.random.default_rng(0)
    trees = [random_tree(rng, turns=20) for _ in range(2)]
    share = Share(trees, random_advantages(rng, trees), [tree.path_weights() for tree in trees])
    config = config_of(path, {"optimizer.gradient_checkpointing": str(again).lower()})
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        PolicyGradient(config, model, path).add(share)
    assert not model.training and not model.is_gradient_checkpointing, "sampling finds the model as it was"
    return gradient(model), sum(kept.values())


def test_layers_that_are_computed_again_take_less_memory_and_have_the_same_gradient(tmp_path: Path) -> None:
    (plain, whole), (again, less) = (computed(tmp_path, flag) for flag in (False, True))
    assert difference(again, plain) < 1e-6
    assert less < 0.7 * whole
