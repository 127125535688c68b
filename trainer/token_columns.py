"""A column holds one number for each token of a tree, turn after turn, so that what one pack computed another one finds again."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from trainer.prefix_tree import PrefixTreeBatch
from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]


def empty_column(trees: Sequence[TrajectoryTree]) -> Floats:
    """NaN for each token of the trees, tree after tree."""
    return np.full(sum(len(turn.ids_T) for tree in trees for turn in tree.turns), np.nan)


def split_column(whole: Floats, trees: Sequence[TrajectoryTree]) -> list[Floats]:
    """One column per tree, from one for all their tokens."""
    sizes = [sum(len(turn.ids_T) for turn in tree.turns) for tree in trees]
    return np.split(whole, np.cumsum(sizes)[:-1]) if sizes else []


def from_columns(batch: PrefixTreeBatch, columns: Sequence[Floats]) -> torch.Tensor:
    """The values of a pack's scored tokens, shape (S,), in its dtype; there is a column for each tree that was packed, here or beside."""
    whole = np.concatenate([np.zeros(0), *columns])
    return torch.from_numpy(whole)[batch.tokens_S.cpu()].to(batch.weights_S.device, batch.weights_S.dtype)


def per_turn(tree: TrajectoryTree, column_T: Floats) -> Floats:
    """The sum of a column over the tokens of each turn, shape (N,); NaN counts nothing."""
    lengths = [len(turn.ids_T) for turn in tree.turns]
    turn_T = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(turn_T, np.nan_to_num(column_T), minlength=len(lengths)).astype(np.float64)
