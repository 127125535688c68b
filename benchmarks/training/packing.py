"""Forward and backward pass on packed trees against the same rollouts as plain rows, with the same budget of tokens at a time.

Both are measured in turn within one run, in CPU seconds of one thread: gradients are compared first, then the seconds. Packing, cutting
and planning are part of the packed time. The ideal is the ratio of the tokens, which holds where a token costs the same wherever it
stands. Attention does not: what is shared stands early, where it is cheap. So each note also tells the ratio of the arithmetic, counted
as what the matrices and the pairs of attention take.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from agents.errors import PolicyError
from benchmarks.report import Row, estimate, measured, shown
from benchmarks.rollouts.policies import one_thread, pretrained_policy
from benchmarks.training.flattened import Rows, flattened, flattened_loss
from benchmarks.training.section import SectionResult
from benchmarks.training.trees import FORESTS, tiny_model
from trainer.prefix_tree import PrefixTreeBatch, packs
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout import TrajectoryTree

BUDGET = 2048
"""Tokens at a time, the packaged setting."""
_TOLERANCE = 1e-4
"""How far gradients may lie apart, relative to their norm, before a measurement is refused."""
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Scale:
    """Repeats, and trees of each kind."""

    repeats: int
    trees: dict[str, int]


FULL = {"tiny": Scale(15, {"main job": 8, "deep": 2, "levels": 1}), "SmolLM2-135M": Scale(3, {"main job": 2, "deep": 1, "levels": 1})}
QUICK = {"tiny": Scale(3, {"main job": 4, "deep": 1, "levels": 1}), "SmolLM2-135M": Scale(1, {"main job": 1})}
ASKED = {"tiny": 90.0, "SmolLM2-135M": 95.0}
"""Per cent of the ideal."""


@dataclass(slots=True)
class Work:
    """Trees to learn from in both ways."""

    trees: Sequence[TrajectoryTree]
    budget: int = BUDGET
    advantages: list[Floats] = field(init=False)
    weights: list[Floats] = field(init=False)
    rows: list[Rows] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self.advantages = [rng.normal(size=len(tree.turns)) for tree in self.trees]
        self.weights = [tree.path_weights() for tree in self.trees]
        self.rows = flattened(self.trees, self.advantages, self.weights, self.budget)

    def packs(self) -> list[PrefixTreeBatch]:
        """The packs of the trees."""
        return list(packs(self.trees, self.advantages, self.weights, self.budget))

    def learn_packed(self, model: PreTrainedModel) -> None:
        """Add the gradient of the sum of weight x advantage x log-probability."""
        with tree_attention(model):
            for batch in self.packs():
                logprobs_S, _ = token_logprobs(model, batch)
                (logprobs_S * batch.advantages_S * batch.weights_S).sum().backward()

    def learn_flattened(self, model: PreTrainedModel) -> None:
        """The same from plain rows."""
        for rows in self.rows:
            flattened_loss(model, rows).backward()


@dataclass(slots=True)
class Paired:
    """Seconds of both ways, measured in turn."""

    packed: list[float]
    flat: list[float]
    apart: float
    """How far the gradients lie apart, relative to their norm."""


def measure(quick: bool) -> SectionResult:
    """Every model on every kind of tree."""
    models: dict[str, Callable[[], PreTrainedModel]] = {"tiny": tiny_model, "SmolLM2-135M": lambda: pretrained_policy().model}
    rows: list[Row] = []
    left_out: list[str] = []
    details: dict[str, Any] = {}
    with one_thread():
        for name, scale in (QUICK if quick else FULL).items():
            try:
                model = models[name]()
            except PolicyError as error:
                left_out.append(f"packing with {name}: {error}")
                continue
            for kind, count in scale.trees.items():
                work = Work(FORESTS[kind].grow(count))
                paired = compare(model, work, scale.repeats)
                rows += packing_rows(name, kind, model, work, paired)
                details[f"{name}, {kind}"] = {"packed_s": paired.packed, "flattened_s": paired.flat, "gradients_apart": paired.apart}
    left_out.append("packing on a GPU with flex_attention: measured on a CPU alone")
    return SectionResult(rows, details, left_out)


def compare(model: PreTrainedModel, work: Work, repeats: int) -> Paired:
    """Both ways in turn; which goes first alternates. Raises `ValueError` where the gradients differ."""
    ways = {"packed": work.learn_packed, "flat": work.learn_flattened}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    gradients: dict[str, torch.Tensor] = {}
    for repeat in range(repeats):
        for name in list(ways)[:: 1 if repeat % 2 else -1]:
            begun = time.process_time()
            ways[name](model)
            seconds[name].append(time.process_time() - begun)
            gradients[name] = _taken_gradient(model)
    apart = float((gradients["packed"] - gradients["flat"]).norm() / gradients["flat"].norm())
    if not apart < _TOLERANCE:
        raise ValueError(f"the gradients of packed trees and of plain rows lie {apart:.1e} apart; seconds would compare different work")
    return Paired(seconds["packed"], seconds["flat"], apart)


def _taken_gradient(model: PreTrainedModel) -> torch.Tensor:
    gradient_P = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])
    model.zero_grad()
    return gradient_P


def packing_rows(name: str, kind: str, model: PreTrainedModel, work: Work, paired: Paired) -> list[Row]:
    """The speed-up, and its share of the ideal."""
    batches = work.packs()
    flat, computed = sum(batch.flat_tokens for batch in batches), sum(batch.unique_tokens for batch in batches)
    recomputed = sum(batch.recomputed_tokens for batch in batches)
    ideal = flat / (computed - recomputed)
    ratios = [b / a for a, b in zip(paired.packed, paired.flat, strict=True)]
    counts = (
        f"{len(work.trees)} trees: {FORESTS[kind].doc}; {shown(flat)} tokens flattened, {shown(computed - recomputed)} unique "
        f"and {shown(recomputed)} computed again in {len(batches)} packs of at most {work.budget:,}"
    )
    best = min(paired.flat) / min(paired.packed)
    note = (
        f"asked: {ASKED[name]:g} %; speed-up {estimate(ratios)}, of the best seconds {shown(best)}; "
        f"ideal {ideal:.2f}, of the arithmetic {arithmetic(model, batches, work.rows):.2f}"
    )
    title, shares = f"packing: {name}, {kind}", [100 * ratio / ideal for ratio in ratios]
    return [
        measured(f"{title}, seconds", paired.packed, "cpu s", better="lower", baseline=paired.flat, note=counts),
        measured(f"{title}, share of the ideal", shares, "%", better="higher", note=note),
    ]


def arithmetic(model: PreTrainedModel, batches: Sequence[PrefixTreeBatch], rows: Sequence[Rows]) -> float:
    """Multiplications of the plain rows, without padding, over those of the packs."""
    config: Any = model.config
    matrices = sum(parameter.numel() for name, parameter in model.named_parameters() if parameter.ndim == 2 and "embed" not in name)
    head = config.vocab_size * config.hidden_size
    matrices -= 0 if config.tie_word_embeddings else head
    pair = 2 * config.num_hidden_layers * config.num_attention_heads * getattr(config, "head_dim", 0)

    def total(tokens: float, pairs: float, scored: float) -> float:
        return tokens * matrices + pairs * pair + scored * head

    lengths = [length for batch in rows for length in batch.lengths]
    plain = total(sum(lengths), sum(length * (length + 1) / 2 for length in lengths), sum(len(batch.targets_S) for batch in rows))
    packed = sum(total(len(b.ids_T), float((b.positions_T + 1).sum()), len(b.predictors_S.unique())) for b in batches)
    return plain / packed
