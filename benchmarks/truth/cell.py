"""A cell is what one layout (flat, or a branching rule) sampled from several draws of one process: one batch, whose tasks are the groups.

Groups of a draw stand one after another, draws one after another; draw s has groups s * each to (s + 1) * each - 1.
Axes: _O rows of all draws, _G groups of all draws, _S states of the batch.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from benchmarks.truth.catalog import problem
from benchmarks.truth.exact import Solution, solve
from benchmarks.truth.inputs import CRITICS, critics, inputs
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import FloatArray, IntArray, Process
from benchmarks.truth.sample import Sample
from benchmarks.truth.tree_sampler import Rule, find_rule, sample_trees
from credit import Batch
from credit.batch import Weighting
from credit.moments import dense
from credit.reader import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """One draw of a process, its start policy, and what is true of it."""

    seed: int
    process: Process
    policy: Policy
    solution: Solution


@lru_cache(maxsize=4)
def starts_of(name: str, policy: str, draws: int) -> tuple[Start, ...]:
    """Draws 0, 1, ... of a process of the catalogue."""
    return tuple(start_of(seed, *problem(name, seed, policy)) for seed in range(draws))


def start_of(seed: int, process: Process, policy: Policy) -> Start:
    """The start of a process and policy made elsewhere."""
    return Start(seed, process, policy, solve(process, policy))


@dataclass(frozen=True, eq=False)
class Cell:
    """Samples of all draws and the batch that they form."""

    key: str
    """Names the cell; seeds what is drawn for it."""
    starts: tuple[Start, ...]
    samples: tuple[Sample, ...]
    each: int
    """Groups of each draw."""
    batch: Batch
    values: dict[str, FloatArray]
    """What critics of each quality say before each turn, shape (O,); by quality."""

    @property
    def groups(self) -> int:
        """Number of groups of all draws."""
        return self.each * len(self.starts)

    @cached_property
    def rows(self) -> list[slice]:
        """The rows of each draw."""
        ends = np.cumsum([len(sample.node_O) for sample in self.samples]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    @cached_property
    def truth_O(self) -> FloatArray:
        """The exact advantage of each row."""
        pairs = zip(self.starts, self.samples, strict=True)
        return np.concatenate([start.solution.advantage_HXK[s.time_O, s.state_O, s.action_O] for start, s in pairs])

    @property
    def pool_T(self) -> IntArray:
        """A training batch of each task: it holds one group of every draw."""
        return np.tile(np.arange(self.each), len(self.starts))

    @property
    def merge_rate(self) -> float:
        """Share of the turns after the first, rows counted by weight, whose state another rollout of the group was in as well."""
        batch, state_O = self.batch, dense(self.batch.state_O)
        visits_V = np.unique(state_O * batch.rollouts + batch.rollout_O)
        shared_O = np.bincount(visits_V // batch.rollouts)[state_O] > 1
        later_O = batch.position_O > 0
        return float((batch.weight_O * (shared_O & later_O)).sum() / (batch.weight_O * later_O).sum())


def draw_cell(
    key: str,
    starts: Sequence[Start],
    rule: str | Rule,
    each: int,
    *,
    rollouts: float = 16,
    reward_noise: float = 0.0,
    weighting: Weighting = "path",
) -> Cell:
    """`each` groups of every draw, each as many turns in expectation as `rollouts` flat rollouts; `key` seeds the sampling."""
    rule = find_rule(rule)
    samples, extras, parts = [], [], []
    for start in starts:
        rng = np.random.default_rng([start.seed, zlib.crc32(f"{key}/{rule.name}".encode())])
        budget = rollouts * start.solution.length
        sample = sample_trees(start.process, start.policy, rule, each, budget, rng, reward_noise)
        extra, rewards = inputs(start.process, start.solution, sample, rng)
        samples.append(sample)
        extras.append(extra)
        parts.append(rewards)
    judged = [critics(start.process, start.solution, start.seed) for start in starts]
    pairs = list(zip(judged, samples, strict=True))
    values = {name: np.concatenate([by[name][s.time_O, s.state_O] for by, s in pairs]) for name in CRITICS}
    batch = Batch.from_columns(_columns(samples, _joined(extras), _joined(parts)), weighting)
    return Cell(f"{key}/{rule.name}", tuple(starts), tuple(samples), each, batch, values)


def _joined(parts: list[dict[str, FloatArray]]) -> dict[str, FloatArray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _columns(samples: list[Sample], extra: dict[str, FloatArray], rewards: dict[str, FloatArray]) -> Columns:
    """All groups as tasks of one batch; states of different groups are never equal, nodes are numbered in order of first appearance."""
    lengths: list[list[int]] = []
    states: list[IntArray] = []
    nodes: list[IntArray] = []
    offset, first_node = 0, 0
    for sample in samples:
        ends = np.cumsum(np.bincount(sample.group_R, minlength=sample.groups))[:-1]
        lengths += [part.tolist() for part in np.split(sample.length_R, ends)]
        span = 1 + int(max(sample.signature_O.max(), sample.next_signature_O.max()))
        states.append(offset + sample.group_O * span + np.stack([sample.signature_O, sample.next_signature_O]))
        nodes.append(first_node + _in_order(sample.node_O))
        offset, first_node = offset + span * sample.groups, first_node + int(sample.turns_G.sum())
    state_2O = np.concatenate(states, axis=1)
    code_2O = dense(state_2O.ravel()).reshape(state_2O.shape)
    return Columns(
        lengths=lengths,
        states=list(range(int(code_2O.max()) + 1)),
        state_O=code_2O[0],
        next_state_O=code_2O[1],
        action_O=np.concatenate([sample.action_O for sample in samples]),
        reward_O=np.concatenate([sample.reward_O for sample in samples]),
        node_O=np.concatenate(nodes),
        rewards=rewards,
        extra=extra,
    )


def _in_order(node_O: IntArray) -> IntArray:
    """The nodes numbered by first appearance, so that parents stand before children."""
    _, first_N, code_O = np.unique(node_O, return_index=True, return_inverse=True)
    rank_N = np.empty(len(first_N), dtype=np.int64)
    rank_N[np.argsort(first_N)] = np.arange(len(first_N))
    return rank_N[code_O]
