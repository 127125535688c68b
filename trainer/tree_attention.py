"""In a packed tree each token attends to exactly the tokens of its own path, so it is computed as if its rollout stood alone.

The tokens lie in one row, cut into segments (runs without a branching), each behind its parent segment. A segment's keys are its
ancestors' and its own, concatenated; nothing else is ever scored, so no N x N mask exists and nothing is padded. A long segment is
cut into blocks of queries, because a causal mask still costs its full rectangle. One kernel call per block was as fast as calls
that batch segments of similar shape would be without their padding, so there are no buckets.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel

from trainer.errors import ConfigError

ATTENTION_NAME = "branchwise_tree"
_BLOCK = 64
_BLOCKS_PER_SEGMENT = 16
_ATTENTION_LAYERS = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Consecutive queries of one segment; the last of them sees the first `keys` tokens of the segment's path, each earlier one fewer."""

    queries: int
    keys: int


class AttentionPlan:
    """Which tokens see which: `parents[i]` is the segment before segment i (-1: none), `lengths[i]` its tokens; parents come first."""

    def __init__(self, parents: Sequence[int], lengths: Sequence[int]) -> None:
        if len(parents) != len(lengths) or any(not -1 <= parent < index for index, parent in enumerate(parents)) or min(lengths) < 1:
            raise ValueError("every segment needs a length of at least 1 and a parent that stands before it")
        self.parents = list(parents)
        self.lengths = list(lengths)
        depths: list[int] = []
        self.blocks: list[list[QueryBlock]] = []
        """Per segment, its query blocks in order."""
        for parent, length in zip(parents, lengths, strict=True):
            before = depths[parent] if parent >= 0 else 0
            depths.append(before + length)
            self.blocks.append(_query_blocks(before, length))
        continued = set(parents)
        self.has_children = [index in continued for index in range(len(parents))]
        """Per segment, whether another continues it."""
        self.tokens = sum(self.lengths)
        self.longest_path = max(depths)
        self._widest = max(block.queries for blocks in self.blocks for block in blocks)
        self._band: torch.Tensor | None = None

    def mask(self, block: QueryBlock, like: torch.Tensor) -> torch.Tensor | None:
        """What is added to the scores of a block, shape (queries, keys): 0 where it sees, -inf where it does not; None where it is causal.

        All masks are cut from one band, which is kept for the dtype and device of `like`: query i of a block sees key j if and only
        if j <= i + keys - queries.
        """
        if block.queries == block.keys:
            return None
        if self._band is None or self._band.dtype != like.dtype or self._band.device != like.device:
            column = torch.arange(self.longest_path + self._widest, device=like.device)
            row = torch.arange(self._widest, device=like.device)
            hidden = column > row[:, None] + self.longest_path
            self._band = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))
        start = self.longest_path - (block.keys - block.queries)
        return self._band[: block.queries, start : start + block.keys]


def _query_blocks(before: int, length: int) -> list[QueryBlock]:
    """Blocks of about `_BLOCK` queries, or longer where a segment would fall into more than `_BLOCKS_PER_SEGMENT`."""
    count = min(_BLOCKS_PER_SEGMENT, max(1, round(length / _BLOCK)))
    ends = [length * (index + 1) // count for index in range(count)]
    return [QueryBlock(end - start, before + end) for start, end in zip([0, *ends], ends, strict=False)]


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree_plan: AttentionPlan | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one packed row by `tree_plan`; query (1, H, T, D), key and value (1, H_kv, T, D), result (1, T, H, D).

    Follows the interface of `transformers.AttentionInterface`; `attention_mask` is not looked at. Raises `ConfigError` for what
    would make a token depend on more than its path (dropout) or needs another kernel (windows shorter than a path, soft caps, sinks).
    """
    if tree_plan is None:
        raise ValueError(f"attention {ATTENTION_NAME!r} needs the keyword tree_plan; call the model through trainer.token_logprobs")
    if query.shape[0] != 1 or query.shape[2] != tree_plan.tokens:
        raise ValueError(f"the plan is for one row of {tree_plan.tokens} tokens, the model got {query.shape[0]} of {query.shape[2]}")
    _refuse(tree_plan, dropout, kwargs)
    # A group of query heads shares one key head: heads become (H_kv, group), and the key is expanded without a copy.
    query_KGTD = query[0].unflatten(0, (key.shape[1], -1))
    group = query_KGTD.shape[1]
    # Splitting has a backward that concatenates; slicing would write a gradient as long as the row for every slice.
    queries = iter(query_KGTD.split([block.queries for blocks in tree_plan.blocks for block in blocks], dim=2))
    keys = key[0].unsqueeze(1).split(tree_plan.lengths, dim=2)
    values = value[0].unsqueeze(1).split(tree_plan.lengths, dim=2)
    paths: list[tuple[torch.Tensor, torch.Tensor] | None] = []
    outputs: list[torch.Tensor] = []
    for index, (parent, blocks, has_children) in enumerate(zip(tree_plan.parents, tree_plan.blocks, tree_plan.has_children, strict=True)):
        path = (keys[index], values[index])
        above = paths[parent] if parent >= 0 else None
        if above is not None:
            path = (torch.cat((above[0], path[0]), dim=2), torch.cat((above[1], path[1]), dim=2))
        paths.append(path if has_children else None)
        path_key, path_value = path[0].expand(-1, group, -1, -1), path[1].expand(-1, group, -1, -1)
        for block in blocks:
            mask = tree_plan.mask(block, query)
            seen_key, seen_value = path_key[:, :, : block.keys], path_value[:, :, : block.keys]
            output = functional.scaled_dot_product_attention(
                next(queries), seen_key, seen_value, attn_mask=mask, is_causal=mask is None, scale=scaling
            )
            outputs.append(output.permute(2, 0, 1, 3))
    return torch.cat(outputs).flatten(1, 2).unsqueeze(0), None


def _refuse(plan: AttentionPlan, dropout: float, kwargs: dict[str, Any]) -> None:
    if dropout:
        raise ConfigError(
            f"a packed tree allows no attention dropout, but the model has {dropout}; set attention_dropout to 0 in its config"
        )
    window = kwargs.get("sliding_window")
    if window is not None and window < plan.longest_path:
        raise ConfigError(
            f"the model's attention window of {window} tokens is shorter than a rollout of {plan.longest_path}; "
            "choose a model with full attention, or lower policy.max_length"
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
