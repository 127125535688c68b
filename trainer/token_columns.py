"""A column holds one number for each token of a tree, turn after turn, so that what one pack computed another one finds again."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from trainer.prefix_tree import PrefixTreeBatch
from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]


def to_columns(batch: PrefixTreeBatch, values_S: torch.Tensor, trees: Sequence[TrajectoryTree]) -> list[Floats]:
    """One column per packed tree, shape (tokens of the tree,): the values of the scored tokens, NaN elsewhere."""
    sizes = [sum(len(turn.ids_T) for turn in tree.turns) for tree in trees]
    whole = np.full(sum(sizes), np.nan)
    whole[batch.tokens_S.cpu().numpy()] = values_S.detach().double().cpu().numpy()
    return np.split(whole, np.cumsum(sizes)[:-1])


def from_columns(batch: PrefixTreeBatch, columns: Sequence[Floats]) -> torch.Tensor:
    """The values of a pack's scored tokens, shape (S,), in the pack's dtype; `columns` has one per packed tree."""
    whole = np.concatenate([np.zeros(0), *columns])
    return torch.from_numpy(whole)[batch.tokens_S.cpu()].to(batch.weights_S.device, batch.weights_S.dtype)


def per_turn(tree: TrajectoryTree, column_T: Floats) -> Floats:
    """The sum of a column over the tokens of each turn, shape (N,); NaN counts nothing."""
    lengths = [len(turn.ids_T) for turn in tree.turns]
    turn_T = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(turn_T, np.nan_to_num(column_T), minlength=len(lengths)).astype(np.float64)
