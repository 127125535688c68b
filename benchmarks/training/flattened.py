"""The same rollouts as rows of a plain batch: every rollout computed in full, by the model's own sdpa, and scored like the pack.

Rows are sorted by length and filled up to a budget of tokens, as long as they need little padding. Padding stands at the end of a row,
where causal attention never looks, so no mask is needed and sdpa takes its fastest kernel. Only scored tokens get logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from trainer.token_logprobs import score
from tree_rollout import TrajectoryTree

Floats = npt.NDArray[np.float64]
_SHORTEST = 0.9
"""Rows of a micro-batch have at least this share of the length of its longest: more padding costs more than another call."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A micro-batch of rollouts; axes: B rollouts, T tokens of the longest, S scored tokens."""

    ids_BT: torch.Tensor
    scored_BT: torch.Tensor
    """True where the next token is scored."""
    targets_S: torch.Tensor
    coefficients_S: torch.Tensor
    """Advantage times weight of the rollout's last turn."""
    lengths: tuple[int, ...]
    """Tokens of each rollout."""


def flattened(trees: Sequence[TrajectoryTree], advantages: Sequence[Floats], weights: Sequence[Floats], token_budget: int) -> list[Rows]:
    """All rollouts of the trees, in micro-batches of similar length; one longer than the budget is a row by itself."""
    rollouts = [_rollout(*whole, path) for whole in zip(trees, advantages, weights, strict=True) for path in whole[0].rollouts()]
    rollouts.sort(key=lambda rollout: -len(rollout[0]))
    batches: list[list[tuple[npt.NDArray[np.int32], Floats]]] = []
    for rollout in rollouts:
        longest = len(batches[-1][0][0]) if batches else 0
        if longest * (len(batches[-1]) + 1 if batches else 0) > token_budget or len(rollout[0]) < _SHORTEST * longest or not batches:
            batches.append([])
        batches[-1].append(rollout)
    return [_rows(batch) for batch in batches]


def _rollout(tree: TrajectoryTree, advantages: Floats, weights: Floats, path: Sequence[int]) -> tuple[npt.NDArray[np.int32], Floats]:
    """Token ids, and what the log-probability of each counts; nothing predicts the first."""
    coefficients_T = np.concatenate([advantages[turn] * tree.turns[turn].mask_T for turn in path]) * weights[path[-1]]
    coefficients_T[0] = 0.0
    return tree.ids(path[-1]), coefficients_T


def _rows(rollouts: Sequence[tuple[npt.NDArray[np.int32], Floats]]) -> Rows:
    longest = len(rollouts[0][0])
    ids_BT, coefficients_BT = np.zeros((len(rollouts), longest), np.int64), np.zeros((len(rollouts), longest))
    for row, (ids_T, coefficients_T) in enumerate(rollouts):
        ids_BT[row, : len(ids_T)] = ids_T
        coefficients_BT[row, : len(ids_T)] = coefficients_T
    scored_BT = coefficients_BT != 0
    return Rows(
        ids_BT=torch.from_numpy(ids_BT),
        scored_BT=torch.from_numpy(np.roll(scored_BT, -1, axis=1)),
        targets_S=torch.from_numpy(ids_BT[scored_BT]),
        coefficients_S=torch.from_numpy(coefficients_BT[scored_BT]).float(),
        lengths=tuple(len(ids_T) for ids_T, _ in rollouts),
    )


def flattened_loss(model: PreTrainedModel, rows: Rows) -> torch.Tensor:
    """Sum of coefficient x log-probability; the entropies are computed as for a pack."""
    hidden_BTH = model.base_model(input_ids=rows.ids_BT, use_cache=False).last_hidden_state
    head: Any = model.get_output_embeddings()
    logits_SV = head(hidden_BTH[rows.scored_BT])
    logprobs_S, _ = score(logits_SV, torch.arange(len(rows.targets_S)), rows.targets_S)
    return (logprobs_S * rows.coefficients_S).sum()
