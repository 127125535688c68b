"""Every branching rule gets the same number of turns in the mean, as roots and forks in the one proportion `FORKS_PER_ROOT`.

A tree grows as in `tree_rollout.growth`: R roots, then at most R * `FORKS_PER_ROOT` forks of the turns that the rule picks, in one wave.
How many roots that may be is settled by pilot trees with a generator of their own; between two whole numbers of roots, each group draws
one of them. So a rule that forks late, or leaves forks unused, gets more roots. Without a rule all turns go to roots.
Axes: _G groups of a draw.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.rollouts.process_tree import TreeMaker
from benchmarks.truth.cell import Cell, Start, _columns
from benchmarks.truth.errors import BudgetError
from benchmarks.truth.growth import Forest, fork, grow, join, root_frontier
from benchmarks.truth.process import FloatArray, IntArray
from benchmarks.truth.sample import Sample, to_sample
from credit import Batch
from tree_rollout.branching import BranchingRule

ROLLOUTS = 16
"""A tree costs as many turns, in expectation, as so many rollouts that share nothing."""
FORKS_PER_ROOT = 1.0
_PILOT_SEED = 20_260_102
_ROUNDS = 2
"""Pilots: the second starts from what the first found."""


@dataclass(frozen=True, slots=True)
class RuleCell:
    """What one rule grew on several draws of one process."""

    cell: Cell
    spent: float
    """Turns sampled over turns allowed, in the mean over all groups."""
    roots: float
    """Mean number of roots of a tree."""
    forks: float
    """Mean number of forks of a tree, fresh starts among them."""


def grow_cell(name: str, starts: Sequence[Start], rule: BranchingRule, each: int, pilot: int) -> RuleCell:
    """`each` groups of every draw, grown by the rule; `pilot` groups of every draw settle the number of roots, where there are forks."""
    if each < 2 or pilot < 1:
        raise BudgetError(f"{each} groups and {pilot} pilots of each draw are asked for; give at least 2 groups and 1 pilot")
    makers = [TreeMaker(start.process, start.policy) for start in starts]
    roots = ROLLOUTS if rule.name == "none" else _roots_for(starts, makers, rule, pilot)
    key = f"{name}/{rule.name}"
    rngs = [np.random.default_rng([start.seed, zlib.crc32(key.encode())]) for start in starts]
    samples = [_sample(start, maker, rule, roots, each, rng) for start, maker, rng in zip(starts, makers, rngs, strict=True)]
    truncated_O = np.concatenate([_truncated(start, sample) for start, sample in zip(starts, samples, strict=True)])
    batch = Batch.from_columns(_columns(samples, {"truncated": truncated_O}, {}), "path")
    cell = Cell(key, tuple(starts), tuple(samples), each, batch, {})
    return RuleCell(cell, _spent(starts, samples), roots, batch.rollouts / cell.groups - roots)


def _roots_for(starts: Sequence[Start], makers: Sequence[TreeMaker], rule: BranchingRule, pilot: int) -> float:
    """Mean number of roots with which the rule's trees cost as much as `ROLLOUTS` rollouts."""
    roots = ROLLOUTS / (1 + FORKS_PER_ROOT / 2)
    for number in range(_ROUNDS):
        rngs = [np.random.default_rng([_PILOT_SEED, number, start.seed]) for start in starts]
        samples = [_sample(start, maker, rule, roots, pilot, rng) for start, maker, rng in zip(starts, makers, rngs, strict=True)]
        roots /= _spent(starts, samples)
    return roots


def _sample(start: Start, maker: TreeMaker, rule: BranchingRule, roots: float, groups: int, rng: np.random.Generator) -> Sample:
    """Trees with so many roots, in the mean."""
    process, policy = start.process, start.policy
    roots_G = np.diff(np.floor(roots * np.arange(groups + 1) + rng.random()).astype(np.int64))
    forest = grow(process, policy, root_frontier(process, roots_G), rng)
    picked = _picked(forest, maker, rule, roots_G, rng)
    if len(picked):
        forest = join([forest, grow(process, policy, fork(forest, picked), rng, first_node=forest.size)])
    return to_sample(process, policy, forest, groups, rng)


def _picked(roots: Forest, maker: TreeMaker, rule: BranchingRule, roots_G: IntArray, rng: np.random.Generator) -> IntArray:
    """The nodes that the rule forks, one entry per fork."""
    if rule.name == "none":
        return np.zeros(0, dtype=np.int64)
    budget_G = np.floor(FORKS_PER_ROOT * roots_G + 0.5).astype(np.int64).tolist()
    trees = zip(maker.trees(roots, len(roots_G)), budget_G, strict=True)
    picked = [nodes[branch.turn] for (tree, nodes), budget in trees for branch in rule.select(tree, budget, rng)]
    return np.array(picked, dtype=np.int64)


def _spent(starts: Sequence[Start], samples: Sequence[Sample]) -> float:
    return float(
        np.mean([sample.turns_G.mean() / (ROLLOUTS * start.solution.length) for start, sample in zip(starts, samples, strict=True)])
    )


def _truncated(start: Start, sample: Sample) -> FloatArray:
    """1 for a last turn that the turn limit cut off, shape (O,)."""
    last_O = np.zeros(len(sample.node_O), dtype=np.bool_)
    last_O[sample.start_R + sample.length_R - 1] = True
    return (last_O & ~start.process.terminal_X[sample.next_state_O]).astype(np.float64)
