"""In a packed tree each token attends to exactly the tokens of its own path, so it is computed as if its rollout stood alone.

Attention is replaced through `transformers.AttentionInterface`; what a model does beside it, token by token, stays its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from transformers import AttentionInterface, PreTrainedModel

from trainer.attention_plan import AttentionPlan
from trainer.errors import ConfigError
from trainer.flex_kernel import flex_attend
from trainer.tree_kernel import BlockAttention

ATTENTION_NAME = "branchwise_tree"
Attention = Literal["auto", "sdpa", "flex"]
"""What computes attention: PyTorch's kernels for one block of queries after the other, or one fused kernel for the whole row (CUDA); auto
takes flex on CUDA and sdpa elsewhere."""
_ATTENTION_LAYERS = ("full_attention", "sliding_attention")


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree_plan: AttentionPlan | None = None,
    tree_kernel: Attention = "auto",
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one packed row by `tree_plan`; query (1, H, T, D), key and value (1, H_kv, T, D), result (1, T, H, D).

    Follows the interface of `transformers.AttentionInterface`; `attention_mask` is not looked at. Raises `ConfigError` for what
    would make a token depend on more than its path (dropout) or needs another kernel (soft caps, sinks).
    """
    if tree_plan is None:
        raise ValueError(f"attention {ATTENTION_NAME!r} needs the keyword tree_plan; call the model through trainer.token_logprobs")
    if query.shape[0] != 1 or query.shape[2] != tree_plan.tokens:
        raise ValueError(f"the plan is for one row of {tree_plan.tokens} tokens, the model got {query.shape[0]} of {query.shape[2]}")
    _refuse(dropout, kwargs)
    window: int | None = kwargs.get("sliding_window")
    if tree_kernel == "flex" or (tree_kernel == "auto" and query.is_cuda):
        return flex_attend(query, key, value, tree_plan, window, scaling), None
    # A group of query heads shares one key head: heads become (K, G).
    query_KGTD = query[0].unflatten(0, (key.shape[1], -1))
    output_TKGD = BlockAttention.apply(query_KGTD, key[0], value[0], tree_plan, window, scaling)
    return output_TKGD.flatten(1, 2).unsqueeze(0), None


def _refuse(dropout: float, kwargs: dict[str, Any]) -> None:
    if dropout:
        raise ConfigError(
            f"a packed tree allows no attention dropout, but the model has {dropout}; set attention_dropout to 0 in its config"
        )
    for name in ("softcap", "s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise ConfigError(f"the model's attention uses {name!r}, which packed trees do not support; choose another model")


@contextmanager
def tree_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let `model` attend along packed trees; afterwards it attends as before.

    Hold it until the backward pass is done: gradient checkpointing runs the layers again there.
    Raises `ConfigError` for a model whose layers do not all take their attention from `transformers.AttentionInterface`.
    """
    config: Any = model.config
    previous = config._attn_implementation
    others = sorted(set(getattr(config, "layer_types", None) or ()) - set(_ATTENTION_LAYERS))
    if not others:
        model.set_attn_implementation(ATTENTION_NAME)
    if config._attn_implementation != ATTENTION_NAME:
        what = f"it has layers of type {others[0]!r}" if others else "its attention cannot be replaced"
        raise ConfigError(f"{type(model).__name__} cannot be trained on packed trees: {what}; choose a decoder with plain attention")
    try:
        yield
    finally:
        model.set_attn_implementation(previous)


AttentionInterface.register(ATTENTION_NAME, attend)
