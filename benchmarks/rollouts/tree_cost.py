"""Figure 2: what a distinct leaf costs in a tree of R roots and F forks, against R + F rollouts that share nothing.

Counted are tokens that are computed (prompts and samples), tokens that are sampled, and model calls (turns that are sampled). Leaves are
distinct where their sequences differ, from the root to the leaf. All is counted by the sampler, and holds for any engine that keeps a
fork's prefix.

A fork saves the turns before it. Forks that start anywhere save half a rollout each, so F of them among R + F leaves save at most
F / (2 (R + F)) of the turns; and where the policy does again what it did, a fork ends in a leaf that is there already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import envs
from agents import Agent, train_tokenizer
from benchmarks.report import Row, shown
from benchmarks.rollouts.household_talk import HOUSEHOLD, entities, expert_texts
from benchmarks.rollouts.noisy_expert import NoisyExpert
from benchmarks.rollouts.part import PartResult
from benchmarks.rollouts.pictures import tree_cost_picture
from tree_rollout import Sampler, SamplerReport, SamplerSettings, Task, TrajectoryTree

ASKED = 0.4
"""By how much less a leaf should cost."""
COSTS = ("computed tokens", "sampled tokens", "model calls")
POLICIES = {"a fifth at random": 0.2, "half at random": 0.5, "all at random": 1.0}
"""Share of turns whose action is drawn at random; in the others the expert acts, always alike."""
RULES = ("topk_entropy", "signal_per_token", "uniform_depth")
"""The packaged benchmark's branching rule first."""
SHAPES = ((3, 3), (2, 14))
"""Roots and forks; the packaged benchmark's first."""
_VOCABULARY = 1536
_RESAMPLES = 2000
_FIRST_TASK = 5000
"""Seeds of tasks from here on, which the tokenizer has not seen."""
Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class World:
    """An environment whose tasks are rolled out."""

    name: str
    id: str
    max_turns: int
    max_new: int
    """Tokens that an action may have."""


HOUSE = World("household", HOUSEHOLD, max_turns=30, max_new=16)
SHOP = World("shop", "branchwise/Shop-v0", max_turns=20, max_new=48)
WORLDS = (HOUSE, SHOP)


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent on each task: costs_KC of K tasks in the order of `COSTS`, for leaves_K distinct leaves."""

    costs_KC: Costs
    leaves_K: Costs

    def per_leaf(self) -> Costs:
        """Costs of a distinct leaf over all tasks, shape (C,)."""
        return self.costs_KC.sum(0) / self.leaves_K.sum()

    def resampled(self, draws_RK: npt.NDArray[np.int64]) -> Costs:
        """The same over each draw of tasks, shape (R, C)."""
        return self.costs_KC[draws_RK].sum(1) / self.leaves_K[draws_RK].sum(1)[:, None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Trees of one rule and shape against independent rollouts, on the same tasks with the same policy."""

    world: str
    policy: str
    rule: str
    roots: int
    forks: int
    tree: Spending
    alone: Spending

    @property
    def saved_C(self) -> Costs:
        """Share by which a leaf costs less."""
        return 1 - self.tree.per_leaf() / self.alone.per_leaf()

    def interval_C2(self) -> Costs:
        """95 % percentile bootstrap interval of `saved_C` over tasks."""
        tasks = len(self.tree.leaves_K)
        draws_RK = np.random.default_rng(0).integers(tasks, size=(_RESAMPLES, tasks))
        saved_RC = 1 - self.tree.resampled(draws_RK) / self.alone.resampled(draws_RK)
        return np.quantile(saved_RC, (0.025, 0.975), axis=0).T

    def rows(self) -> list[Row]:
        """One for each cost."""
        leaves = self.roots + self.forks
        shares = f"distinct: {shown(self.tree.leaves_K.mean())} of {leaves} leaves, independent {shown(self.alone.leaves_K.mean())}"
        found, interval_C2 = [], self.interval_C2()
        for place, cost in enumerate(COSTS):
            low, high = 100 * interval_C2[place]
            tree, alone = self.tree.per_leaf()[place], self.alone.per_leaf()[place]
            note = (
                f"{100 * self.saved_C[place]:.1f} % fewer, 95 % interval [{low:.1f}, {high:.1f}], asked: {100 * ASKED:g} %; "
                f"{len(self.tree.leaves_K)} tasks; {shares}"
            )
            name = f"{cost} per leaf: {self.world}, {self.rule}, {self.roots} roots + {self.forks} forks, {self.policy}"
            found.append(Row(name, float(tree), cost.split()[-1], float(alone), float(alone / tree), note))
        return found


def measure(tasks: int) -> PartResult:
    """Every world, policy, rule and shape on so many tasks."""
    found = [each for world in WORLDS for each in compared(world, tasks)]
    return PartResult([row for each in found for row in each.rows()], lambda: tree_cost_picture(found, ASKED))


def compared(world: World, tasks: int) -> list[Comparison]:
    """Every policy, rule and shape on so many tasks of a world."""
    texts = expert_texts(60, world.id)
    tokenizer = train_tokenizer(texts, entities(texts), _VOCABULARY)
    agent = Agent.of(tokenizer)
    seeds = range(_FIRST_TASK, _FIRST_TASK + tasks)
    found: list[Comparison] = []
    for policy, noise in POLICIES.items():
        engine = NoisyExpert(tokenizer, agent, noise, world=world.id)
        singles = independent(engine, agent, seeds, max(map(sum, SHAPES)), world)
        for rule in RULES:
            for roots, forks in SHAPES:
                tree = spent([grown(engine, agent, seed, roots, forks, rule, world=world) for seed in seeds])
                alone = spent([singles[place][: roots + forks] for place in range(tasks)])
                found.append(Comparison(world.name, policy, rule, roots, forks, tree, alone))
    return found


def grown(
    engine: NoisyExpert, agent: Agent, seed: int, roots: int, forks: int, rule: str, run_seed: int = 0, world: World = HOUSE
) -> list[SamplerReport]:
    """One tree, as the one report of its cost."""
    settings = SamplerSettings(roots, forks, rule if forks else "none", max_turns=world.max_turns, max_new_tokens=world.max_new)
    with Sampler(engine, envs.make, agent, settings) as sampler:
        return [sampler.sample([Task(world.id, seed)], run_seed=run_seed)]


def independent(engine: NoisyExpert, agent: Agent, seeds: Sequence[int], rollouts: int, world: World = HOUSE) -> list[list[SamplerReport]]:
    """For each task, rollouts of one root each under run seeds of their own; each has its prompt computed."""
    return [[report for run in range(rollouts) for report in grown(engine, agent, seed, 1, 0, "none", 1 + run, world)] for seed in seeds]


def spent(reports_K: Sequence[Sequence[SamplerReport]]) -> Spending:
    """The sum of the reports of each task."""
    costs_KC = [np.sum([_costs(report) for report in reports], axis=0) for reports in reports_K]
    leaves_K = [len({leaf for report in reports for tree in report.trees for leaf in distinct_leaves(tree)}) for reports in reports_K]
    return Spending(np.array(costs_KC, dtype=np.float64), np.array(leaves_K, dtype=np.float64))


def _costs(report: SamplerReport) -> list[int]:
    return [report.prefilled_tokens + report.sampled_tokens, report.sampled_tokens, sum(len(tree.turns) for tree in report.trees)]


def distinct_leaves(tree: TrajectoryTree) -> set[bytes]:
    """The sequence of each leaf; equal ones are one."""
    return {tree.ids(leaf).tobytes() for leaf in tree.leaves()}
