"""Trees come and go at any time: tasks are added while others grow, and weights change between two turns of what grows.

Each turn is sampled by one policy, whose version it names; a rollout that lives through a change has turns of several (partial rollouts).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from agents.agent import Agent
from agents.engine import Engine
from envs.text_env import TextEnv
from tree_rollout.allocation import allocation_rule
from tree_rollout.branching import branching_rule
from tree_rollout.env_pool import EnvPool
from tree_rollout.env_workers import EnvWorkers
from tree_rollout.errors import SamplerError
from tree_rollout.ground import Ground
from tree_rollout.live_trees import LiveTrees
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.schedule import Continuous
from tree_rollout.stopping import stopping_rule
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


def oldest_version(turns: Iterable[Turn]) -> int | None:
    """The lowest version of the policy among the turns that were sampled; None where there is none."""
    return min((turn.policy_version for turn in turns if turn.mask_T.any()), default=None)


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A complete tree."""

    number: int
    """As it was added."""
    tree: TrajectoryTree
    seconds: float
    """From the moment it was added."""


class SteadySampler:
    """Grows trees without end; `make_env` and `agent` are those of `Sampler`, and the schedule is always continuous."""

    def __init__(self, engine: Engine, make_env: Callable[..., TextEnv], agent: Agent, settings: SamplerSettings, *, run_seed: int) -> None:
        """Raises `SamplerError` for settings that speak of all trees of a call, since there is no such call here."""
        allocation = allocation_rule(settings.allocation, settings.allocation_options)
        if allocation.across:
            raise SamplerError(f"the allocation rule {settings.allocation!r} looks at all trees of a call, and here trees come one by one")
        if settings.token_budget is not None or settings.step_budget is not None:
            raise SamplerError("token_budget and step_budget are for the trees of a call, and here trees come one by one; leave them out")
        self.engine = engine
        self._pool = EnvPool(make_env, settings.env_processes)
        self._workers = EnvWorkers(settings.env_threads)
        self._report = SamplerReport()
        rules = (settings, branching_rule(settings.branching, settings.branching_options))
        stopping = [stopping_rule(name, options) for name, options in settings.stopping]
        ground = Ground(engine, self._pool, agent, *rules, stopping, run_seed, 0, self._report, settings.forks > 0)
        self._trees = LiveTrees((), (), ground, allocation, None)
        self._schedule = Continuous(self._trees, self._workers)
        self._since: dict[int, float] = {}
        self._env_busy_s = 0.0

    @property
    def live(self) -> int:
        """Trees that are not complete."""
        return len(self._since)

    def add(self, number: int, task: Task, iteration: int, history: TaskHistory | None = None) -> None:
        """Let the tree of a task begin; `number` names it, and its samples are seeded as those of this iteration."""
        if number in self._since:
            raise SamplerError(f"a tree number {number} grows already")
        self._since[number] = time.monotonic()
        self._trees.add(task, number, iteration, history)

    def advance(self, within_s: float | None = None) -> list[GrownTree]:
        """Go on by one token, or by what environments answered; the trees that are complete now, each once.

        Where there is nothing to do but wait for environments, that takes at most `within_s` (None: as long as they take).
        """
        with self._report.timing("wall_s"):
            self._schedule.advance(within_s)
        now = time.monotonic()
        return [GrownTree(growth.place, growth.tree, now - self._since.pop(growth.place)) for growth in self._trees.take_done()]

    def recall(self) -> None:
        """Take back the turns that are on their way in the engine; they are sampled again."""
        self._schedule.recall()

    def renew(self, change: Callable[[], None], version: int) -> None:
        """Have `change` put other weights into the engine's model. Turns on their way are sampled again; what is complete stays."""
        self._schedule.recall()
        change()
        self.engine.version = version

    def oldest_versions(self) -> dict[int, int | None]:
        """For each tree that is not complete, the version of its oldest sampled turn; None where nothing is sampled yet."""
        grown = {growth.place: [turn for rollout in growth.rollouts for turn in rollout.turns] for growth in self._trees.unfinished()}
        return {number: oldest_version(turns) for number, turns in grown.items()}

    def drop(self, number: int) -> None:
        """Give up a tree, with its environments and what the engine holds of it; one that is complete or unknown is none to give up."""
        if self._since.pop(number, None) is not None:
            self._schedule.recall()
            for growth in self._trees.remove(number):
                growth.abandon()

    def take_report(self) -> SamplerReport:
        """What was spent since the last time; the trees are not in it."""
        self._report.env_busy_s = self._workers.busy_s - self._env_busy_s
        self._env_busy_s += self._report.env_busy_s
        taken = replace(self._report)
        self._report.__init__()
        return taken

    def close(self) -> None:
        """Give up all trees, and close the environments."""
        for number in list(self._since):
            self.drop(number)
        self._workers.close()
        self._pool.close()
