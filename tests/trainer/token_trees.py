"""Random trees of random tokens, tiny models, and what the plain computation makes of them: one forward pass per rollout."""

from typing import Any

import numpy as np
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from trainer.prefix_tree import pack
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

VOCABULARY = 23
FAMILIES: dict[str, tuple[Any, Any]] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
}
"""Gemma-3 has windowed layers, with other position angles than its full ones; its test models have both (`WINDOWED`)."""
WINDOWED: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}


def turn(parent: int, observation: list[int], action: list[int], stop_reason: StopReason | None = None) -> Turn:
    """A turn with these tokens; its behaviour log-probabilities are a function of its action's tokens."""
    ids_T = np.array([*observation, *action], dtype=np.int32)
    mask_T = np.arange(len(ids_T)) >= len(observation)
    return Turn(
        parent=parent,
        observation="",
        action="",
        ids_T=ids_T,
        mask_T=mask_T,
        logprobs_T=np.where(mask_T, -0.5 - 0.1 * ids_T, 0.0).astype(np.float32),
        entropies_T=np.where(mask_T, 1.0, 0.0).astype(np.float32),
        policy_version=0,
        reward=0.0,
        terminated=False,
        truncated=False,
        valid=True,
        state="",
        next_state="",
        stop_reason=stop_reason,
    )


def random_tree(rng: np.random.Generator, *, turns: int = 12, vocabulary: int = VOCABULARY, longest: int = 6) -> TrajectoryTree:
    """Several roots and forks at any depth; siblings mostly, not always, share their observation. Few ids make turns begin alike."""
    tree = TrajectoryTree("tokens", int(rng.integers(1000)))
    observations: dict[int, list[int]] = {}
    for index in range(turns):
        parent = -1 if index == 0 or rng.random() < 0.2 else int(rng.integers(max(0, index - 4), index))
        fresh = rng.integers(vocabulary, size=int(rng.integers(1, longest))).tolist()
        observation = fresh if rng.random() < 0.1 else observations.setdefault(parent, fresh)
        tree.add(turn(parent, observation, rng.integers(vocabulary, size=int(rng.integers(1, longest))).tolist()))
    for leaf in tree.leaves():
        tree.turns[leaf].stop_reason = StopReason.TERMINATED
    return tree


def random_advantages(rng: np.random.Generator, trees: list[TrajectoryTree]) -> list[np.ndarray]:
    """One normal number per turn and tree."""
    return [rng.normal(size=len(tree.turns)) for tree in trees]


def tiny_model(family: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model of two layers with two query heads per key head (by default), with weights large enough for contexts to matter."""
    config_type, model_type = FAMILIES[family]
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
    rest = {"vocab_size": VOCABULARY, "head_dim": 8, "max_position_embeddings": 2048, "initializer_range": 0.2}
    own = {"tie_word_embeddings": family != "llama", "pad_token_id": None, **(WINDOWED if family == "gemma3" else {})}
    torch.manual_seed(seed)
    model = model_type(config_type(**{**sizes, **rest, **own, **changes}))
    return model.to(dtype)


def exact_norms(model: PreTrainedModel) -> PreTrainedModel:
    """The model, with normalisation in its own precision: as delivered it is done in float32, which hides differences below 1e-7."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            norm: Any = module

            def forward(hidden: torch.Tensor, norm: Any = norm) -> torch.Tensor:
                gemma = hasattr(norm, "eps")
                factor = 1 + norm.weight if gemma else norm.weight
                return (
                    factor * hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + (norm.eps if gemma else norm.variance_epsilon))
                )

            norm.forward = forward
    return model


def rollout_logprobs(model: PreTrainedModel, tree: TrajectoryTree, path: list[int]) -> torch.Tensor:
    """Log-probability of each token of one rollout by the model's ordinary forward pass; 0 for the first, which nothing predicts."""
    ids_T = torch.from_numpy(tree.ids(path[-1]).astype(np.int64))
    logprobs_TV = model(input_ids=ids_T[None], use_cache=False).logits[0].log_softmax(-1)
    chosen = logprobs_TV[:-1].gather(1, ids_T[1:, None]).squeeze(1)
    return torch.cat((torch.zeros(1, dtype=chosen.dtype), chosen))


def random_trees(seed: int, **sizes: int) -> tuple[list[TrajectoryTree], list[np.ndarray], list[np.ndarray]]:
    """Three trees with advantages and path weights."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, vocabulary=[3, VOCABULARY][seed % 2], **sizes) for _ in range(3)]
    return trees, random_advantages(rng, trees), [tree.path_weights() for tree in trees]


def packed_gradient(
    model: Any,
    trees: list[TrajectoryTree],
    advantages: list[np.ndarray],
    weights: list[np.ndarray],
    dtype: torch.dtype = torch.float32,
    of: Any = None,
) -> torch.Tensor:
    """Gradient of the sum of weight x advantage x log-probability, from one pack; of the parameters of `of`, or of the model's."""
    batch = pack(trees, advantages, weights, dtype=dtype)
    with tree_attention(model):
        logprobs_S, _ = token_logprobs(model, batch)
        (logprobs_S * batch.advantages_S * batch.weights_S).sum().backward()
    return gradient(model if of is None else of)


def flat_gradient(
    model: Any, trees: list[TrajectoryTree], advantages: list[np.ndarray], weights: list[np.ndarray], of: Any = None
) -> torch.Tensor:
    """The same with every rollout by itself, weighted as a whole: a shared turn is computed again and again."""
    for tree, advantages_N, weights_N in zip(trees, advantages, weights, strict=True):
        for path in tree.rollouts():
            per_token = np.concatenate([advantages_N[index] * tree.turns[index].mask_T for index in path])
            logprobs_T = rollout_logprobs(model, tree, path)
            (logprobs_T @ torch.from_numpy(per_token * weights_N[path[-1]]).to(logprobs_T.dtype)).backward()
    return gradient(model if of is None else of)


def gradient(model: Any) -> torch.Tensor:
    """Gradients of all parameters that are trained, as one vector; the model's are cleared."""
    parts = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters() if p.requires_grad]
    model.zero_grad()
    return torch.cat(parts)


def difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """Norm of the difference relative to the norm of the second."""
    return float((first - second).norm() / second.norm())
