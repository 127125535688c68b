"""The memory of a forward and backward pass is what that very pass holds, computed without numbers: on meta, every tensor has its size.

A model of many layers is computed with two and with three of them: each further layer adds what the third one adds.
"""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from trainer.attention_plan import AttentionPlan
from trainer.config import Config
from trainer.critic import trained
from trainer.dry_run.live_bytes import LiveBytes
from trainer.dry_run.made_policy import MadePolicy, made_policy, plain_policy
from trainer.prefix_tree import PrefixTreeBatch
from trainer.recomputed_layers import recomputed_layers
from trainer.shared_parameters import SharedParameters
from trainer.token_logprobs import packed_logits, score
from trainer.tree_attention import tree_attention

_FEW = 3
"""Layers that are really computed."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes beside weights and gradients."""

    kept: int
    """What the forward pass keeps for the backward pass."""
    peak: int
    """What is held at the worst moment."""


def step_memory(config: Config, architecture: PreTrainedConfig, batch: PrefixTreeBatch) -> StepMemory:
    """The memory of one micro-batch's forward and backward pass."""
    layers = architecture.num_hidden_layers
    if layers <= _FEW:
        return _computed(config, made_policy(config, architecture), batch)
    fewer, few = (_computed(config, made_policy(config, architecture, count), batch) for count in (_FEW - 1, _FEW))
    more = layers - _FEW
    return StepMemory(few.kept + more * (few.kept - fewer.kept), few.peak + more * (few.peak - fewer.peak))


def _computed(config: Config, policy: MadePolicy, batch: PrefixTreeBatch) -> StepMemory:
    model, critic = policy.model, policy.critic
    whole = trained(model, critic)
    shared = SharedParameters.imagined(whole, rows=1)
    shared.attach(whole, 0)
    known = [*whole.parameters(), *whole.buffers(), shared.weights_P, shared.gradients_SP]
    rows_P, row_S = torch.unique(batch.predictors_S, return_inverse=True)
    places = rows_P.to("meta"), row_S.to("meta")
    # A plan keeps what it has made for its blocks; each computation begins with a plan that has nothing.
    there = replace(batch.to("meta"), plan=AttentionPlan(batch.plan.parents, batch.plan.lengths))
    with (
        warnings.catch_warnings(action="ignore", category=FutureWarning),
        recomputed_layers(model, config.optimizer.gradient_checkpointing),
        tree_attention(model),
        nullcontext() if critic is None else critic.beside(model) as values,
        LiveBytes(known) as live,
    ):
        loss = _loss(config, model, there, *places)
        if values is not None:
            loss = loss + values.after(there).sum()
        kept = live.now
        loss.backward()
    return StepMemory(kept, live.peak)


def _loss(config: Config, model: PreTrainedModel, batch: PrefixTreeBatch, rows_P: torch.Tensor, row_S: torch.Tensor) -> torch.Tensor:
    """A number with the gradients of a loss; what a loss adds to it has one number for each scored token."""
    entropy_grad = config.loss.entropy_coefficient > 0
    # The order of calls, and what is let go between them, is that of `token_logprobs`.
    logits_PV = packed_logits(model, batch, rows_P, attention="sdpa")
    logprobs_S, entropies_S = score(logits_PV, row_S, batch.targets_S, temperature=config.rollout.temperature, entropy_grad=entropy_grad)
    return logprobs_S.sum() + entropies_S.sum() if entropy_grad else logprobs_S.sum()


def forward_peak(config: Config, architecture: PreTrainedConfig, batch: PrefixTreeBatch, dtype: str) -> int:
    """Bytes that the plain model holds at the worst moment when it computes the batch's tokens once, without a gradient, in `dtype`.

    No layer keeps anything for another, so a model of two layers says it of any depth.
    """
    model = plain_policy(config, architecture, dtype, min(_FEW - 1, architecture.num_hidden_layers))
    there = batch.to("meta")
    with torch.no_grad(), tree_attention(model), LiveBytes([*model.parameters(), *model.buffers()]) as live:
        packed_logits(model, there, torch.zeros(1, dtype=torch.int64, device="meta"), attention="sdpa")
    return live.peak


def with_checkpointing(config: Config, again: bool) -> Config:
    """The configuration with layers computed again, or kept."""
    return config.model_copy(update={"optimizer": config.optimizer.model_copy(update={"gradient_checkpointing": again})})
