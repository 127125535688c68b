"""Whatever the architecture, and with adapters, checkpointed layers or half precision: the packed gradient is that of the rollouts."""

import numpy as np
import pytest
import torch
from token_trees import FAMILIES, difference, flat_gradient, packed_gradient, random_trees, tiny_model, turn

from trainer.prefix_tree import pack
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.tree import TrajectoryTree

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{name}:FutureWarning") for name in ("gradient_checkpointing_enable", "is_gradient_checkpointing")
]


def adapted(family: str):
    """A model with rank-8 adapters on queries and values, both of whose factors are random: as delivered one is zero."""
    peft = pytest.importorskip("peft")
    base = tiny_model(family)
    settings = peft.LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, settings)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return base, model


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_adapters_are_those_of_the_rollouts(family):
    base, model = adapted(family)
    work = random_trees(1)
    packed, flat = packed_gradient(base, *work, of=model), flat_gradient(base, *work, of=model)
    adapters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert len(adapters) == 2 * 2 * 2 and len(packed) == sum(map(torch.numel, adapters))
    assert difference(packed, flat) < 1e-5


def test_the_wrapped_model_itself_can_be_packed():
    base, model = adapted("qwen3")
    batch = pack(*random_trees(1))
    with torch.no_grad():
        with tree_attention(base):
            inner_S, _ = token_logprobs(base, batch)
        with tree_attention(model):
            outer_S, _ = token_logprobs(model, batch)
    assert torch.equal(inner_S, outer_S)


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "reentrant"])
@pytest.mark.parametrize("family", FAMILIES)
def test_checkpointed_layers_have_the_same_gradient(family, reentrant):
    model, work = tiny_model(family), random_trees(2)
    whole = packed_gradient(model, *work)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.train()
    assert difference(packed_gradient(model, *work), whole) < 1e-6


def test_adapters_on_checkpointed_layers_have_the_same_gradient():
    base, model = adapted("qwen3")
    work = random_trees(2)
    whole = packed_gradient(base, *work, of=model)
    base.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()
    model.train()
    assert difference(packed_gradient(base, *work, of=model), whole) < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_in_half_precision_packing_errs_no_more_than_the_plain_computation(family):
    work = random_trees(3)
    exact = flat_gradient(tiny_model(family), *work)
    half = tiny_model(family, torch.bfloat16)
    flat, packed = flat_gradient(half, *work).float(), packed_gradient(half, *work).float()
    assert difference(packed, exact) < 1.5 * difference(flat, exact) + 0.01
    assert difference(packed, flat) < 0.1


def saved_bytes(model, batch):
    """What a forward pass keeps for the backward pass, each storage once; parameters are not counted."""
    kept: dict[int, int] = {}
    held = []
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            # As long as it is held, no other storage has its address.
            held.append(tensor)
        return tensor

    with tree_attention(model), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        token_logprobs(model, batch)
    return sum(kept.values())


def spine(segments: int, length: int):
    """A path with a short branch at each of its segments: as deep as a tree of so many segments can be."""
    rng = np.random.default_rng(0)
    tree, last = TrajectoryTree("spine", 0), -1
    for _ in range(segments):
        last = tree.add(turn(last, [1], rng.integers(2, 23, size=length).tolist()))
        tree.add(turn(last, [0], [1] * 3))
    return pack([tree], [np.ones(len(tree.turns))], [tree.path_weights()])


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_memory_is_linear_in_the_tokens_however_deep_the_tree(family):
    model = tiny_model(family)
    batches = [spine(segments, 36) for segments in (8, 16, 32)]
    per_token = [saved_bytes(model, batch) / batch.unique_tokens for batch in batches]
    assert batches[-1].plan.longest_path > 3 * batches[0].plan.longest_path
    np.testing.assert_allclose(per_token, per_token[0], rtol=0.03)


def test_memory_of_a_checkpointed_model_is_less():
    model, batch = tiny_model("qwen3"), spine(16, 36)
    plain = saved_bytes(model, batch)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    assert saved_bytes(model, batch) < 0.5 * plain
