"""Figure 4: the sampler's own share of the time of a sampling call, and how long engine and environments stand idle.

Environments sleep; as many may do so at once as there are rollouts, which leaves the sampler least time to hide its work in. The engine
runs the tiny model. Seconds are those of the clock on the wall: a busy machine shows in all of them.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.report import Row, estimate, measured, shown
from benchmarks.rollouts.paced_env import PACED, PACES, make_paced
from benchmarks.rollouts.part import PartResult
from benchmarks.rollouts.pictures import sampler_load_picture
from benchmarks.rollouts.policies import Policy, one_thread, tiny_policy
from tree_rollout import Sampler, SamplerReport, SamplerSettings, Task
from tree_rollout.sampler_settings import Schedule

ASKED = 5.0
"""Per cent of the time that the sampler itself may take at 256 rollouts."""
SCHEDULES: tuple[Schedule, Schedule] = ("lockstep", "continuous")
_ROOTS = 4
"""Rollouts of a tree; a call has a quarter as many trees as rollouts."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    rollouts: Sequence[int]
    paces: Sequence[str]
    repeats: int
    turns: int
    """Of each rollout."""
    tokens: int = 8
    """Of each turn, at most."""


FULL = Extent((16, 64, 256), tuple(PACES), repeats=3, turns=5)
QUICK = Extent((16, 256), ("0 ms", "heavy tail"), repeats=1, turns=2)


@dataclass(slots=True)
class Cell:
    """One schedule at one load, a value for each repeat."""

    schedule: Schedule
    rollouts: int
    pace: str
    overhead: list[float] = field(default_factory=list)
    """Per cent of the call in which the sampler itself worked."""
    engine_idle: list[float] = field(default_factory=list)
    env_idle: list[float] = field(default_factory=list)
    lag_ms: list[float] = field(default_factory=list)
    """99 % of the environments' answers waited at most so long."""
    rate: list[float] = field(default_factory=list)
    """Rollouts per second."""

    def add(self, report: SamplerReport) -> None:
        """Take in one call."""
        self.overhead.append(100 * report.rest_s / report.wall_s)
        self.engine_idle.append(100 * report.engine_idle_share)
        self.env_idle.append(100 * report.env_idle_share)
        self.lag_ms.append(1000 * report.lag_s(0.99))
        self.rate.append(report.rollouts / report.wall_s)

    def row(self) -> Row:
        """The sampler's own share; the rest is in the note."""
        idle = f"engine idle {_median(self.engine_idle)} %, environments idle {_median(self.env_idle)} %"
        note = f"{idle}, lag p99 {_median(self.lag_ms)} ms, {_median(self.rate)} rollouts/s; baseline: what is asked at 256"
        name = f"sampler overhead: {self.schedule}, {self.rollouts} rollouts, steps of {self.pace}"
        return measured(name, self.overhead, "%", better="lower", baseline=[ASKED], note=note)


def measure(extent: Extent) -> PartResult:
    """Every schedule at every load."""
    with one_thread():
        policy = tiny_policy()
        # As a run does: what stays for ever is not looked at again by every full collection of garbage, .3 s of it each time.
        gc.collect()
        gc.freeze()
        pairs = [_pair(policy, rollouts, pace, extent) for rollouts in extent.rollouts for pace in extent.paces]
    rows = [cell.row() for pair in pairs for cell in pair]
    rows += [_rate_row(*pair) for pair in pairs]
    return PartResult(rows, lambda: sampler_load_picture([cell for pair in pairs for cell in pair], ASKED))


def _pair(policy: Policy, rollouts: int, pace: str, extent: Extent) -> tuple[Cell, Cell]:
    """Lockstep and continuous, measured in turns."""
    cells = (Cell(SCHEDULES[0], rollouts, pace), Cell(SCHEDULES[1], rollouts, pace))
    for repeat in range(extent.repeats):
        for cell in cells:
            cell.add(call(policy, cell.schedule, rollouts, pace, extent.turns, extent.tokens, repeat))
    return cells


def call(policy: Policy, schedule: Schedule, rollouts: int, pace: str, turns: int, tokens: int, run_seed: int = 0) -> SamplerReport:
    """One sampling call with so many rollouts at once."""
    engine = policy.engine(rollouts, 64 + turns * (64 + tokens))
    settings = SamplerSettings(
        roots=_ROOTS, forks=0, branching="none", max_turns=turns, max_new_tokens=tokens, schedule=schedule, env_threads=rollouts
    )  # fmt: skip
    tasks = [Task(PACED, seed, {"pace": pace, "turns": turns}) for seed in range(rollouts // _ROOTS)]
    with Sampler(engine, make_paced, policy.agent, settings) as sampler:
        return sampler.sample(tasks, run_seed=run_seed)


def _rate_row(lockstep: Cell, continuous: Cell) -> Row:
    name = f"rollouts per second: continuous, {continuous.rollouts} rollouts, steps of {continuous.pace}"
    return measured(name, continuous.rate, "rollouts/s", better="higher", baseline=lockstep.rate, note="baseline: lockstep")


def _median(values: Sequence[float]) -> str:
    return shown(estimate(values).median)
