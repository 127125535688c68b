"""Tokens of one ratio group share a probability ratio, the geometric mean of theirs: the tokens of a turn, or those of a rollout.

In a tree a token of a shared turn belongs to the groups of all rollouts below it, each with a ratio of its own. It is computed once and
counts in each of them with a share of its coefficient; the shares are what the rollouts would count if each were computed by itself.
Source: GSPO (arXiv 2507.18071); the form in which each token keeps its own advantage is its section 4.3, GSPO-token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from trainer.prefix_tree import PrefixTreeBatch
from tree_rollout.tree import TrajectoryTree

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ratio = Literal["token", "turn", "sequence"]


@dataclass(frozen=True, slots=True, eq=False)
class RatioGroups:
    """Membership of scored tokens (S) in groups; the axis I runs over pairs of a token and one of its groups, by token."""

    token_I: torch.Tensor
    """Place of the token among the scored tokens, ascending, int64."""
    group_I: torch.Tensor
    """Number of the group, int64."""
    share_I: torch.Tensor
    """Share of the token's coefficient that counts in this group; a token's shares add up to 1."""

    def among(self, kept_K: torch.Tensor, tokens: int) -> "RatioGroups":
        """The same for the tokens at `kept_K` alone, numbered anew; `tokens` is how many there were."""
        place_S = torch.full((tokens,), -1, dtype=torch.int64, device=kept_K.device)
        place_S[kept_K] = torch.arange(len(kept_K), device=kept_K.device)
        place_I = place_S[self.token_I]
        kept_I = place_I >= 0
        return RatioGroups(place_I[kept_I], self.group_I[kept_I], self.share_I[kept_I])

    def log_ratios(self, log_ratio_S: torch.Tensor) -> torch.Tensor:
        """The log-ratio of each pair's group, shape (I,): the mean over the group's tokens, with the gradient of its own token alone."""
        own_I = log_ratio_S[self.token_I]
        groups = int(self.group_I.max()) + 1 if len(self.group_I) else 0
        sum_G = own_I.new_zeros(groups).index_add(0, self.group_I, own_I.detach())
        mean_G = sum_G / torch.bincount(self.group_I, minlength=groups).clamp(min=1)
        return mean_G[self.group_I] + (own_I - own_I.detach())

    def per_token(self, values_I: torch.Tensor, tokens: int) -> torch.Tensor:
        """The mean over each token's groups, by share; shape (tokens,)."""
        return values_I.new_zeros(tokens).index_add(0, self.token_I, self.share_I * values_I)


def turn_groups(batch: PrefixTreeBatch) -> RatioGroups:
    """One group per turn; each token is in one."""
    return RatioGroups(torch.arange(len(batch.turn_S), device=batch.turn_S.device), batch.turn_S, torch.ones_like(batch.weights_S))


def sequence_groups(
    batch: PrefixTreeBatch, trees: Sequence[TrajectoryTree], node_weights: Sequence[npt.ArrayLike], *, by_length: bool
) -> RatioGroups:
    """One group per rollout; a token is in as many as go through it.

    `trees` and `node_weights` are those that `batch` was packed from, alone or with others (see `packs`); where it is a part of a tree,
    it holds whole rollouts. A rollout's share of its tokens follows its weight, which is that of
    its last turn; with `by_length` its weight divided by its number of scored tokens, as aggregation `sequence` has it.
    """
    lengths_N = np.array([len(turn.ids_T) for tree in trees for turn in tree.turns], dtype=np.int64)
    node_S = np.repeat(np.arange(len(lengths_N)), lengths_N)[batch.tokens_S.cpu().numpy()]
    scored_N = np.bincount(node_S, minlength=len(lengths_N))
    paths, weight_R = _rollouts(trees, node_weights, batch.ends_R)
    rollout_J = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    node_J = np.concatenate([np.zeros(0, np.int64), *paths])
    order_J = np.argsort(node_J, kind="stable")
    rollout_J, node_J = rollout_J[order_J], node_J[order_J]
    if by_length:
        weight_R = weight_R / np.maximum(np.bincount(rollout_J, scored_N[node_J], minlength=len(paths)), 1)
    share_J = weight_R[rollout_J] / np.bincount(node_J, weight_R[rollout_J], minlength=len(lengths_N))[node_J]
    first_N = np.searchsorted(node_J, np.arange(len(lengths_N) + 1))
    pair_I, token_I = _expanded(first_N[node_S], first_N[node_S + 1])
    device, dtype = batch.weights_S.device, batch.weights_S.dtype
    return RatioGroups(
        torch.from_numpy(token_I).to(device),
        torch.from_numpy(rollout_J[pair_I]).to(device),
        torch.from_numpy(share_J[pair_I]).to(device, dtype),
    )


def _expanded(starts_S: Ints, ends_S: Ints) -> tuple[Ints, Ints]:
    """All numbers from each start up to before its end, in one row; and for each number whose it is."""
    counts_S = ends_S - starts_S
    owner_I = np.repeat(np.arange(len(counts_S)), counts_S)
    within_I = np.arange(len(owner_I)) - np.repeat(np.cumsum(counts_S) - counts_S, counts_S)
    return starts_S[owner_I] + within_I, owner_I


def _rollouts(
    trees: Sequence[TrajectoryTree], node_weights: Sequence[npt.ArrayLike], ends_R: Sequence[tuple[int, int]]
) -> tuple[list[Ints], Floats]:
    """The turns of each of these rollouts, numbered through all trees, and its weight; shape (R,)."""
    first_N = np.cumsum([0] + [len(tree.turns) for tree in trees])
    paths = [np.array(trees[tree].path(last), dtype=np.int64) + first_N[tree] for tree, last in ends_R]
    return paths, np.array([float(np.asarray(node_weights[tree], dtype=np.float64)[last]) for tree, last in ends_R])
