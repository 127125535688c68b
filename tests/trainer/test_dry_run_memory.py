"""Estimates are compared with what the same objects really take."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from token_trees import random_advantages, random_tree, tiny_model
from transformers import AutoModelForCausalLM
from words_world import config_of

from agents.transformers_engine import TransformersEngine
from trainer.config import Config
from trainer.critic import make_critic, trained
from trainer.dry_run.architecture import packaged_architecture, packaged_names
from trainer.dry_run.disk import disk_use
from trainer.dry_run.engine_room import engine_room, vllm_bytes_per_token
from trainer.dry_run.live_bytes import LiveBytes, bytes_of
from trainer.dry_run.made_policy import made_policy
from trainer.dry_run.resident import resident
from trainer.dry_run.step_memory import forward_peak, step_memory, with_checkpointing
from trainer.dry_run.synthetic_trees import largest_pack, micro_batches, synthetic_tree
from trainer.dry_run.turn_shape import TurnShape
from trainer.mini_batch import Share
from trainer.policy_gradient import PolicyGradient
from trainer.prefix_tree import PrefixTreeBatch, pack
from trainer.shared_parameters import SharedParameters
from trainer.token_logprobs import token_logprobs
from trainer.trained_model import add_adapters, trained_parameters
from trainer.tree_attention import tree_attention

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{name}:FutureWarning")
    for name in ("gradient_checkpointing_enable", "gradient_checkpointing_disable", "is_gradient_checkpointing")
]
SHAPE = TurnShape(first_tokens=20, later_tokens=7, action_tokens=5, turns=6, texts=("a room", "a drawer"), source="the test")


def lora(path: Path, **more: Any) -> Config:
    """A configuration with adapters; the folder is not looked at."""
    sizes = {name: None for name in ("layers", "hidden", "heads", "kv_heads", "intermediate", "vocab_size")}
    return config_of(
        path, {**{f"policy.{name}": value for name, value in sizes.items()}, "policy.path": path, "policy.lora.rank": 4, **more}
    )


@pytest.mark.parametrize("name", packaged_names())
def test_packaged_architectures_have_the_published_number_of_parameters(name: str, tmp_path: Path) -> None:
    packaged = packaged_architecture(name)
    model = made_policy(config_of(tmp_path, {}), packaged.config).model
    assert sum(parameter.numel() for parameter in model.parameters()) == packaged.parameters
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_what_is_live_is_counted_once_and_until_it_is_gone() -> None:
    given = torch.zeros(100)
    with LiveBytes([given]) as live:
        other = given + 1
        view = other[:50]
        same = given[:10]
        assert live.now == 400
        del other
        assert live.now == 400, "a view keeps the storage"
        del view
        assert live.now == 0 and same is not None
    assert live.peak == 400
    assert bytes_of([given, given[:10], given.view(10, 10)]) == 400


@pytest.mark.parametrize("kind", ["none", "head", "model"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_gradients_and_optimizer_are_those_of_the_real_model(tmp_path: Path, kind: str, dtype: str) -> None:
    from trainer.actor_critic_learner import make_learner

    gae = {"credit.method": "gae", "credit.settings": "{lam: 1.0}", "critic.kind": kind} if kind != "none" else {}
    config = config_of(tmp_path, {"policy.dtype": dtype, **gae})
    model = tiny_model("qwen3", torch.bfloat16 if dtype == "bfloat16" else torch.float32)
    critic = make_critic(config.critic, model)
    whole = trained(model, critic)
    shared = SharedParameters.of(whole, tmp_path / "parameters", 1)
    shared.publish(whole)
    shared.attach(whole, 0)
    learner = make_learner(config, model, critic, shared)
    shared.gradients_SP.fill_(1.0)
    learner.step(1, 1.0)
    told = resident(config, model.config)
    state = [tensor for name, tensor in learner.tensors().items() if not name.endswith("weights")]
    assert told.trained == sum(parameter.numel() for parameter in trained_parameters(whole)) == len(shared.weights_P)
    assert told.weights == sum(parameter.nbytes for parameter in trained_parameters(whole))
    assert told.master == (shared.weights_P.nbytes if dtype == "bfloat16" else 0)
    assert told.gradient == shared.gradients_SP.nbytes
    assert told.optimizer == sum(tensor.nbytes for tensor in state)
    assert told.checkpoint == sum(tensor.nbytes for tensor in learner.tensors().values())


def test_adapters_are_told_apart_from_the_model(tmp_path: Path) -> None:
    config, model = lora(tmp_path), tiny_model("llama")
    add_adapters(config.policy, model, 0)
    told = resident(config, tiny_model("llama").config)
    added = sum(parameter.nbytes for name, parameter in model.named_parameters() if ".lora_" in name)
    assert told.adapters == told.weights == told.gradient == added
    others = [parameter for name, parameter in model.named_parameters() if ".lora_" not in name]
    assert told.fixed == bytes_of([*others, *model.buffers()])


@pytest.mark.slow
def test_smollm2_takes_what_is_told(tmp_path: Path) -> None:
    config, architecture = lora(tmp_path), packaged_architecture("smollm2").config
    told = resident(config, architecture)
    model: Any = AutoModelForCausalLM.from_config(architecture, dtype=torch.float32)
    add_adapters(config.policy, model, 0)
    assert told.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert told.weights == sum(parameter.nbytes for parameter in trained_parameters(model))
    assert told.fixed == bytes_of([*(p for p in model.parameters() if not p.requires_grad), *model.buffers()])
    engine = TransformersEngine(model, [0], max_length=64, rows=1)
    assert engine_room(config, architecture, SHAPE).bytes_per_token == engine.cache.bytes_per_position


def held(config: Config, model: Any, path: Path) -> tuple[int, int, PrefixTreeBatch]:
    """Bytes that the real gradient of some trees saves for its backward pass, its real peak, and the pack."""
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, turns=40, longest=20) for _ in range(2)]
    advantages, weights = random_advantages(rng, trees), [tree.path_weights() for tree in trees]
    for parameter in trained_parameters(model):
        parameter.grad = torch.zeros_like(parameter)
    saved: dict[int, torch.UntypedStorage] = {}
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    with LiveBytes([*model.parameters(), *model.buffers(), *grads]) as live, torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        PolicyGradient(config, model, path).add(Share(trees, advantages, weights))
    first = sum(storage.nbytes() for storage in saved.values())
    saved.clear()
    del live
    for parameter in trained_parameters(model):
        parameter.grad = torch.zeros_like(parameter)
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    with LiveBytes([*model.parameters(), *model.buffers(), *grads]) as again:
        PolicyGradient(config, model, path).add(Share(trees, advantages, weights))
    return first, again.peak, pack(trees, advantages, weights)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_activations_are_those_of_the_real_pass(tmp_path: Path, family: str, checkpointing: bool) -> None:
    config = with_checkpointing(config_of(tmp_path, {"optimizer.micro_batch_tokens": 10**6}), checkpointing)
    saved, peak, batch = held(config, tiny_model(family).eval(), tmp_path)
    told = step_memory(config, tiny_model(family).config, batch)
    if not checkpointing:
        model = tiny_model(family).eval()
        with torch.no_grad(), tree_attention(model):
            token_logprobs(model, batch)
        assert told.kept == pytest.approx(saved + batch.plan.kept_bytes, rel=0.2), "the plan's masks are no saved tensors"
    assert told.peak == pytest.approx(peak, rel=0.2)


def test_layers_add_alike(tmp_path: Path) -> None:
    """What is told of eight layers, from two and three of them, is what eight take."""
    from trainer.dry_run import step_memory as module

    config, deep = (
        config_of(tmp_path, {"optimizer.micro_batch_tokens": 200}),
        tiny_model("qwen3", num_hidden_layers=8, layer_types=None).config,
    )
    batch = largest_pack(config, SHAPE, 23)
    for again in (False, True):
        settings = with_checkpointing(config, again)
        told = step_memory(settings, deep, batch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FEW", 8)
            assert told == step_memory(settings, deep, batch)


def test_what_an_engine_takes_to_compute_is_what_it_takes(tmp_path: Path) -> None:
    config, model = config_of(tmp_path, {}), tiny_model("llama")
    batch = largest_pack(config, SHAPE, 23)
    with torch.no_grad(), tree_attention(model), LiveBytes([*model.parameters(), *model.buffers()]) as live:
        from trainer.token_logprobs import packed_logits

        packed_logits(model, batch, torch.zeros(1, dtype=torch.int64))
    assert forward_peak(config, model.config, batch, "float32") == pytest.approx(live.peak, rel=0.2)


def test_a_cache_is_that_of_the_real_engine(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"rollout.tasks": 8, "rollout.roots": 3, "rollout.forks": 3, "run.shards": 1, "run.workers": 1})
    model = tiny_model("llama")
    engine = TransformersEngine(model, [0], max_length=config.policy.max_length, rows=32)
    room = engine_room(config, model.config, SHAPE)
    assert room.bytes_per_token == engine.cache.bytes_per_position
    assert room.rollouts == 48
    for _ in range(room.rollouts):
        engine.cache.acquire()
    engine.cache.reserve(min(SHAPE.tokens, config.policy.max_length))
    assert room.cache == engine.cache.bytes_allocated
    numbers = 2 * 2 * 2 * 8  # keys and values, layers, heads, width
    assert (vllm_bytes_per_token(config, model.config), room.bytes_per_token) == (4 * numbers, 4 * numbers)


def test_synthetic_trees_have_the_configured_shape(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"rollout.roots": 2, "rollout.forks": 3, "optimizer.micro_batch_tokens": 400})
    tree = synthetic_tree(config, SHAPE, np.random.default_rng(0), 23)
    paths = list(tree.rollouts())
    assert len(paths) == 5 and all(len(path) == SHAPE.turns for path in paths)
    assert len(tree.children(-1)) == 2
    assert max(len(tree.ids(leaf)) for leaf in tree.leaves()) == SHAPE.tokens == 20 + 5 * 7 + 6 * 5
    full = largest_pack(config, SHAPE, 23)
    assert 400 - SHAPE.first_tokens - SHAPE.action_tokens < full.unique_tokens <= 400
    share = micro_batches(config, SHAPE, 23)
    assert share.micro_batches >= share.unique_tokens / 400
    assert share.flat_tokens == 5 * SHAPE.tokens * share.trees


def test_the_disk_is_told_from_what_is_written(tmp_path: Path) -> None:
    from tree_rollout.trace import Trace

    config = config_of(tmp_path, {"rollout.tasks": 6})
    told = disk_use(config, resident(config, tiny_model("qwen3").config), SHAPE, 23)
    rng = np.random.default_rng(1)
    with Trace.create(tmp_path / "trace.sqlite", {}) as trace:
        empty = (tmp_path / "trace.sqlite").stat().st_size
        trees = [synthetic_tree(config, SHAPE, rng, 23) for _ in range(60)]
        trace.append(trees, 1, [np.zeros(len(tree.turns)) for tree in trees])
    real = (tmp_path / "trace.sqlite").stat().st_size - empty
    assert told.trace == pytest.approx(real / 10, rel=0.3)
