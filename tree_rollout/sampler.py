"""One loop grows all trees of a call: it keeps the engine and the environments at work, each rollout in an environment of its own.

In lockstep, equal tasks, seeds and weights give equal trees, however the tasks are spread over calls (floating-point arithmetic of the
engine aside, and as long as no rule looks across trees).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType

from agents.agent import Agent
from agents.engine import Engine
from envs.text_env import TextEnv
from tree_rollout.allocation import allocation_rule
from tree_rollout.branching import branching_rule
from tree_rollout.env_pool import EnvPool
from tree_rollout.env_workers import EnvWorkers
from tree_rollout.errors import SamplerError
from tree_rollout.ground import Ground
from tree_rollout.growth import TreeGrowth
from tree_rollout.live_trees import LiveTrees
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.schedule import SCHEDULERS
from tree_rollout.stopping import stopping_rule
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory
from tree_rollout.tree import TrajectoryTree


class Sampler:
    """Grows one `TrajectoryTree` per task with the policy that the engine serves.

    make_env: called as `make_env(env_id, **env_kwargs)`, for example `envs.make`; also from several threads at once.
    agent: what the policy is shown, and what of its words is the action.
    Environments, and trees that are paused, are kept from call to call; use the sampler in a `with` block, or call `close()`.
    """

    def __init__(
        self,
        engine: Engine,
        make_env: Callable[..., TextEnv],
        agent: Agent,
        settings: SamplerSettings,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self._agent = agent
        self._pool = EnvPool(make_env, settings.env_processes)
        self._workers = EnvWorkers(settings.env_threads)
        self._rule = branching_rule(settings.branching, settings.branching_options)
        self.allocation = allocation_rule(settings.allocation, settings.allocation_options)
        """Kept from call to call, as some rules learn from what they see."""
        self._stopping = [stopping_rule(name, options) for name, options in settings.stopping]
        self._paused: list[TreeGrowth] = []
        self._growing = False

    def sample(
        self,
        tasks: Sequence[Task],
        *,
        run_seed: int,
        iteration: int = 0,
        history: TaskHistory | None = None,
        finish: int | None = None,
    ) -> SamplerReport:
        """Grow a tree for each task, and return them in the order of the tasks.

        The seed of each sampled turn is (run_seed, iteration, task seed, rollout number in the tree, depth), and the branching rule's
        generator comes from the first three: so a tree depends on its own task only. Budgets and allocation rules look across trees.
        A rollout whose environment fails is part of its tree and of `SamplerReport.failures`; faults of the engine, and those of an
        environment that the user can mend, are raised.

        With `finish`, the call ends once at least that many trees are complete. The others are paused at the end of a turn and go on with
        the next call, before its own tasks, under the weights that serve then; each turn names the version that sampled it (APRIL,
        CoPRIS). `history` is what earlier iterations saw of the tasks, for allocation rules that use it.
        """
        report = SamplerReport()
        grown = list(self._grow(tasks, run_seed, iteration, history, finish, report))
        report.trees = [growth.tree for growth in sorted(grown, key=lambda growth: growth.place)]
        return report

    def stream(
        self, tasks: Sequence[Task], *, run_seed: int, iteration: int = 0, history: TaskHistory | None = None, report: SamplerReport
    ) -> Iterator[TrajectoryTree]:
        """The same trees, each as soon as it is complete; what they cost is counted in `report`, which holds none of them.

        Nothing is sampled while the caller is busy with a tree. So whoever writes them to a slow disk slows the sampler down, and with
        `max_live` no more than a few trees are held at any time. Closing the generator drops the trees that are not complete.
        """
        return (growth.tree for growth in self._grow(tasks, run_seed, iteration, history, None, report))

    def _grow(
        self,
        tasks: Sequence[Task],
        run_seed: int,
        iteration: int,
        history: TaskHistory | None,
        finish: int | None,
        report: SamplerReport,
    ) -> Iterator[TreeGrowth]:
        """Complete trees, `finish` of them; the others are paused. An error or an early end drops what is not complete."""
        if self._growing:
            raise SamplerError("a stream of this sampler is still open; read it to its end or close it first")
        _check(tasks, run_seed, iteration)
        self._check_paused(tasks, run_seed, iteration)
        self._check_finish(finish, len(tasks))
        trees = self._trees(tasks, run_seed, iteration, history, report)
        scheduler = SCHEDULERS[self.settings.schedule](trees, self._workers)
        left = len(tasks) + len(self._paused) if finish is None else finish
        self._paused = []
        busy_s = self._workers.busy_s
        self._growing = True
        try:
            while left > 0 and not trees.over:
                with report.timing("wall_s"):
                    scheduler.advance()
                for growth in trees.take_done():
                    left -= 1
                    yield growth
            trees.closing = True
            with report.timing("wall_s"):
                scheduler.pause()
            yield from trees.take_done()
            self._paused = trees.unfinished()
            report.paused_trees = len(self._paused)
        finally:
            self._growing = False
            report.env_busy_s += self._workers.busy_s - busy_s
            if not self._paused:
                self._abandon(trees.unfinished())

    def _trees(self, tasks: Sequence[Task], run_seed: int, iteration: int, history: TaskHistory | None, report: SamplerReport) -> LiveTrees:
        more = self.settings.forks > 0 or self.allocation.across
        rules = (self.settings, self._rule, self._stopping)
        ground = Ground(self.engine, self._pool, self._agent, *rules, run_seed, iteration, report, more)
        for growth in self._paused:
            growth.ground = replace(growth.ground, report=report)
        return LiveTrees(tasks, self._paused, ground, self.allocation, history)

    def _check_paused(self, tasks: Sequence[Task], run_seed: int, iteration: int) -> None:
        """A task that is paused under the same seeds would grow the same tree again."""
        paused = {(growth.task.instance_key, growth.task.seed, growth.ground.run_seed, growth.ground.iteration) for growth in self._paused}
        for task in tasks:
            if (task.instance_key, task.seed, run_seed, iteration) in paused:
                raise SamplerError(f"the task {task.env_id} with seed {task.seed} is paused and goes on by itself; leave it out")

    def _check_finish(self, finish: int | None, tasks: int) -> None:
        if finish is None:
            return
        most = tasks + len(self._paused)
        if isinstance(finish, bool) or not isinstance(finish, int) or not 1 <= finish <= most:
            raise SamplerError(f"finish is {finish!r}; give how many trees to complete, from 1 to {most}, or None for all")
        if self.allocation.across:
            raise SamplerError(f"the allocation rule {self.settings.allocation!r} looks at all trees of a call, so none can be paused")

    def _abandon(self, growths: Sequence[TreeGrowth]) -> None:
        for growth in growths:
            growth.abandon()
        if self._workers.open:
            # What is on its way is for nobody: its answers must not reach the next call.
            self._workers.close()
            self._workers = EnvWorkers(self.settings.env_threads)

    def close(self) -> None:
        """Drop paused trees, and close the environments."""
        self._abandon(self._paused)
        self._paused = []
        self._workers.close()
        self._pool.close()

    def __enter__(self) -> "Sampler":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _check(tasks: Sequence[Task], run_seed: int, iteration: int) -> None:
    """Seeds must be usable, and no task may come twice: its trees would be the same to the last token."""
    for name, value in (("run_seed", run_seed), ("iteration", iteration)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SamplerError(f"{name} is {value!r}; give an integer that is not negative")
    counts = Counter((task.instance_key, task.seed) for task in tasks)
    for task in tasks:
        if counts[task.instance_key, task.seed] > 1:
            raise SamplerError(f"the task {task.env_id} with seed {task.seed} was given twice; the trees would be equal, so set more roots")
