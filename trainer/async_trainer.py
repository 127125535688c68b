"""Mode async: trees grow all the time, each iteration learns from a batch of those that are complete, and nothing acknowledged is lost.

A tree is acknowledged once it is in the trace under the iteration that learns from it, which is before it does. A run that was cut off
there learns from the recorded trees again, in the same iteration and from the same weights, so that it arrives at the same weights; what
was not complete, or complete and not recorded, begins again. What is on its way is bounded as in AReaL (arXiv 2505.24298, section 5.1):
the trees begun so far never exceed (max_staleness + iterations + 1) times a batch.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.config import Config
from trainer.errors import RunFolderError
from trainer.iteration import Trainer
from trainer.ray_backend.steady_work import Begin
from trainer.run_state import RunState
from trainer.sampled_trees import SampledTrees
from trainer.staleness import Ripe, choose, fits, staleness
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.steady_sampler import oldest_version
from tree_rollout.task import Task
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree

if TYPE_CHECKING:
    from trainer.ray_backend.backend import RayBackend


_DRAWS = 100
"""Batches of tasks that are drawn at most in search of a recorded tree's."""


class AsyncTrainer(Trainer):
    """A `Trainer` whose trees come from a `Field`."""

    def __init__(self, config: Config, backend: "RayBackend", trace: Trace, state: RunState) -> None:
        super().__init__(config, backend, trace, state)
        self._field = backend.field
        self._handed: set[int] = set()
        """Numbers of the trees in the queue that the field has been given."""
        self._ripe: dict[int, Ripe] = {}
        """Complete trees that no iteration has learned from yet, by number."""
        self._since = time.monotonic()
        self._again = len(state.queue)
        """Trees that were on their way when the run was stopped."""

    def advance(self) -> dict[str, Any]:
        """Do the next iteration and return its metrics; what grows goes on with the new weights."""
        record = super().advance()
        self._field.renew()
        self._draw()
        if next(self._trace.trees(self.state.iteration + 1), None) is None:
            self._hand_out()  # Where a next iteration is recorded, its trees must not begin again.
        return record

    def _sample(self, number: int) -> SampledTrees:
        """The trees of this iteration: those that the trace has of it, else the next ones that are complete."""
        self._draw()
        recorded = list(self._recorded(number))
        if recorded:
            return self._batch([self._claimed(tree) for tree in recorded], [_report(recorded)], {})
        self._field.renew()
        self._hand_out()
        again, began = self._field.begun_again - self._again, time.monotonic()
        self._again = 0
        dropped = self._ripen(number)
        chosen = choose(self._ripe.values(), self._config.rollout.tasks)
        for tree in chosen:
            del self._ripe[tree.number]
        reports, self._field.reports = self._field.reports, []
        now = time.monotonic()
        figures = {
            "dropped_trees": dropped,
            "begun_again_trees": self._field.begun_again - again,
            "waited_s": now - began,
            "trees_per_s": len(chosen) / (now - self._since),
        }
        self._since = now
        return self._batch(chosen, reports, figures)

    # ------------------------------------------------------------------ what is on its way

    def _draw(self) -> None:
        """Draw tasks as far as capacity allows."""
        state, batch = self.state, self._config.rollout.tasks
        while len(state.queue) + batch <= (self._config.run.max_staleness + 1) * batch:
            self._draw_batch()

    def _draw_batch(self) -> None:
        state, batch = self.state, self._config.rollout.tasks
        state.drawn += 1
        tasks = self._tasks.draw(state.drawn, batch)
        state.queue += [[state.drawn * batch + place, task.seed] for place, task in enumerate(tasks)]

    def _hand_out(self) -> None:
        """Let those trees of the queue begin that have not."""
        self._draw()
        begin = []
        for number, seed in self.state.queue:
            if number not in self._handed:
                task = self._task(seed)
                begin.append(Begin(number, task, number // self._config.rollout.tasks, self._tasks.memory([task]).history))
        self._handed |= {tree.number for tree in begin}
        self._field.begin(begin)

    def _task(self, seed: int) -> Task:
        env = self._config.env
        return Task(env.id, seed, env.arguments(env.train_split))

    def _ripen(self, number: int) -> int:
        """Wait until this iteration has its batch, and no other tree will be too stale because of it; returns how many were dropped."""
        run, batch, dropped = self._config.run, self._config.rollout.tasks, 0
        waits_since: float | None = None
        while True:
            for grown in self._field.harvest():
                self._ripe[grown.number] = Ripe(grown.number, grown.tree, grown.seconds, oldest_version(grown.tree.turns))
            stale = [tree.number for tree in self._ripe.values() if self._age(tree.oldest, number) > run.max_staleness]
            dropped += self._forget(stale)
            if len(self._ripe) < batch:
                continue
            if fits(self._ages_left(number), batch, run.max_staleness):
                return dropped
            waits_since = time.monotonic() if waits_since is None else waits_since
            if run.straggler_wait_s is not None and time.monotonic() - waits_since >= run.straggler_wait_s:
                late = [tree for tree, oldest in self._field.oldest.items() if self._age(oldest, number) >= run.max_staleness]
                return dropped + self._forget(late)

    def _ages_left(self, number: int) -> list[int]:
        """Ages of the trees that this iteration would leave, were it to learn now."""
        chosen = {tree.number for tree in choose(self._ripe.values(), self._config.rollout.tasks)}
        left = [tree.oldest for tree in self._ripe.values() if tree.number not in chosen]
        return [self._age(version, number) for version in (*left, *self._field.oldest.values())]

    def _age(self, version: int | None, number: int) -> int:
        """Updates between the policy of this version and the one that iteration `number` learns with; 0 where nothing is sampled yet."""
        return 0 if version is None else number - 1 - version // self._config.optimizer.mini_batches

    def _forget(self, numbers: Sequence[int]) -> int:
        """Give up trees that are too stale; others are drawn in their place. Returns how many."""
        for number in numbers:
            self._ripe.pop(number, None)
            self._field.drop(number)
        self._leave_queue(numbers)
        self._hand_out()
        return len(numbers)

    def _leave_queue(self, numbers: Sequence[int]) -> None:
        gone = set(numbers)
        self.state.queue = [entry for entry in self.state.queue if entry[0] not in gone]
        self._handed -= gone

    # ------------------------------------------------------------------ an iteration's batch

    def _batch(self, trees: Sequence[Ripe], reports: Sequence[SamplerReport], figures: dict[str, float]) -> SampledTrees:
        """The trees, dealt to the shards one by one."""
        self._leave_queue([tree.number for tree in trees])
        version, updates = self._backend.learner.version, self._config.optimizer.mini_batches
        sampled = SampledTrees(
            tasks=[self._task(tree.tree.seed) for tree in trees],
            trees=[tree.tree for tree in trees],
            shards=[place % self._config.run.shards for place in range(len(trees))],
            reports=list(reports),
            chosen=range(len(trees)),
        )
        seconds = np.array([tree.seconds for tree in trees])
        ages = {
            f"tree_seconds_{name}": float(np.quantile(seconds, share)) for name, share in (("median", 0.5), ("p95", 0.95), ("max", 1.0))
        }
        sampled.figures = figures | ages | staleness(sampled.trees, version, updates)
        return sampled

    def _recorded(self, number: int) -> Iterator[TrajectoryTree]:
        """The iteration's trees in the trace, as they were sampled."""
        for summary in list(self._trace.trees(number)):
            tree = self._trace.tree(summary.id)
            yield TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs, tree.turns[: summary.turns])

    def _claimed(self, tree: TrajectoryTree) -> Ripe:
        """A recorded tree under the number that its task has in the queue; where trees were dropped, it was drawn in their place."""
        for _ in range(_DRAWS):
            for number, seed in self.state.queue:
                if seed == tree.seed:
                    self._leave_queue([number])
                    self._again = max(0, self._again - 1)
                    return Ripe(number, tree, 0.0, oldest_version(tree.turns))
            self._draw_batch()
        raise RunFolderError(f"{self._trace.path} holds a tree of task seed {tree.seed}, which this run never drew; put its own trace back")


def _report(trees: Sequence[TrajectoryTree]) -> SamplerReport:
    """What is known of the cost of recorded trees."""
    report = SamplerReport(rollouts=sum(len(tree.leaves()) for tree in trees))
    for tree in trees:
        report.env_steps += sum(bool(turn.mask_T.any()) for turn in tree.turns)
        report.sampled_tokens += sum(int(turn.mask_T.sum()) for turn in tree.turns)
        report.branches += sum(turn.origin is not None and turn.origin.kind == "branch" for turn in tree.turns)
        report.stop_reasons.update(reason for leaf in tree.leaves() if (reason := tree.turns[leaf].stop_reason) is not None)
    return report
