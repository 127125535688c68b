"""The trees of one sampling call: which may start, what each gets after its first roots, and which are done, in the order of the tasks."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from agents.engine import Sample, SampleRequest
from tree_rollout.allocation import AllocationRule, Budget, Share, TaskState
from tree_rollout.env_call import EnvCall
from tree_rollout.errors import EngineAnswerError
from tree_rollout.ground import Ground
from tree_rollout.growth import Phase, TreeGrowth
from tree_rollout.rollout import Rollout
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory

ALLOCATION_STREAM = 2
"""Keeps the generator of the allocation rule apart from all that is seeded with the same numbers."""


class LiveTrees:
    """Grows from `tasks`; `paused` trees of an earlier call go on before any of them starts."""

    def __init__(
        self, tasks: Sequence[Task], paused: Sequence[TreeGrowth], ground: Ground, allocation: AllocationRule, history: TaskHistory | None
    ) -> None:
        self.ground = ground
        self._allocation = allocation
        self._history = history
        self._rng = self._generator(ground.iteration, *(task.seed for task in tasks[:1]))
        self._budget = Budget(ground.settings.roots, ground.settings.forks)
        roots = allocation.first([self._state(task) for task in tasks], self._budget, self._rng) if tasks else []
        first = max((tree.place for tree in paused), default=-1) + 1
        growths = (TreeGrowth(task, ground, count, first + place) for place, (task, count) in enumerate(zip(tasks, roots, strict=True)))
        self._new = deque(growth for growth in growths if growth.first_roots)
        self._left = len(tasks) * self._budget.rollouts - sum(roots)
        self._trees: list[TreeGrowth] = list(paused)
        self.closing = False
        """Set when no further tree is to begin."""

    def add(self, task: Task, place: int, iteration: int, history: TaskHistory | None) -> None:
        """Let another tree begin, for an allocation rule that looks at each tree alone; `place` is no other tree's."""
        record = None if history is None else history.record(task)
        roots = self._allocation.first([TaskState(task, record, None)], self._budget, self._generator(iteration, task.seed))[0]
        self._new.append(TreeGrowth(task, replace(self.ground, iteration=iteration), roots, place))

    def remove(self, place: int) -> list[TreeGrowth]:
        """Take a tree out that is not complete; nothing where there is none."""
        found = [tree for tree in self.unfinished() if tree.place == place]
        self._trees = [tree for tree in self._trees if tree.place != place]
        self._new = deque(tree for tree in self._new if tree.place != place)
        return found

    # ------------------------------------------------------------------ what a schedule asks

    def start(self) -> None:
        """Start the trees that may run beside those that do; none once the call is being closed."""
        if not self._new or self.closing:
            return
        most = self.ground.settings.max_live
        live = sum(tree.live for tree in self._trees)
        while self._new and (most is None or live + self._new[0].first_roots <= most or not live):
            tree = self._new.popleft()
            self._trees.append(tree)
            live += tree.first_roots
            tree.start()

    def take_calls(self) -> list[EnvCall]:
        """What environments have to do now, each call once, by tree and in the order in which they were wanted."""
        calls: list[EnvCall] = []
        for tree in self._trees:
            if tree.calls:
                calls += tree.calls
                tree.calls.clear()
        return calls

    def settle(self) -> None:
        """After answers came: close waves, give trees what they get after their first roots, and start others where there is room."""
        for tree in self._trees:
            tree.settle()
        asking = [tree for tree in self._trees if tree.phase is Phase.ASKING]
        if not self._allocation.across:
            for tree in asking:
                left = self._budget.rollouts - tree.first_roots
                tree.share(None if self._spent else self._shares([tree], left, self._generator(tree.ground.iteration, tree.task.seed))[0])
        elif asking and not self._new and all(tree.phase in (Phase.ASKING, Phase.DONE) for tree in self._trees):
            self._share_across(asking)
        self.start()

    def turns(self) -> list[tuple[TreeGrowth, Rollout]]:
        """The rollouts that want a sample, by tree and number."""
        return [(tree, rollout) for tree in self._trees for rollout in tree.waiting()]

    def count(self, rollout: Rollout, request: SampleRequest, sample: Sample) -> None:
        """Count a sample; an engine that holds other tokens than the tree will record is an error at once."""
        count = len(sample.ids_T)
        if not 1 <= count <= request.max_tokens or len(sample.logprobs_T) != count or len(sample.entropies_T) != count:
            sizes = f"{count} tokens, {len(sample.logprobs_T)} log-probabilities and {len(sample.entropies_T)} entropies"
            raise EngineAnswerError(f"the engine sampled {sizes} where 1 to {request.max_tokens} of each were asked for")
        held, recorded = self.ground.engine.length(request.handle), rollout.prompt_length + count
        if held != recorded:
            raise EngineAnswerError(f"the engine holds {held} tokens of a rollout that has {recorded}")
        self.ground.report.prefilled_tokens += len(request.ids_T)
        self.ground.report.sampled_tokens += count

    # ------------------------------------------------------------------ what the sampler asks

    @property
    def over(self) -> bool:
        """True when no tree is left to grow."""
        return not self._new and not self._trees

    def take_done(self) -> Iterator[TreeGrowth]:
        """The trees that are complete, each once, in the order of the tasks."""
        done = [tree for tree in self._trees if tree.phase is Phase.DONE]
        self._trees = [tree for tree in self._trees if tree.phase is not Phase.DONE]
        return iter(done)

    def unfinished(self) -> list[TreeGrowth]:
        """The trees that have begun and are not complete, and those that have not begun."""
        return [*self._trees, *self._new]

    # ------------------------------------------------------------------ sharing a budget

    @property
    def _spent(self) -> bool:
        settings, report = self.ground.settings, self.ground.report
        limits = ((settings.token_budget, report.sampled_tokens), (settings.step_budget, report.env_steps))
        return any(limit is not None and spent >= limit for limit, spent in limits)

    def _state(self, task: Task, tree: TreeGrowth | None = None) -> TaskState:
        record = None if self._history is None else self._history.record(task)
        return TaskState(task, record, None if tree is None else tree.tree)

    def _share_across(self, asking: Sequence[TreeGrowth]) -> None:
        """All first roots are over: ask the rule once for the whole call."""
        shares = [None] * len(asking) if self._spent else self._shares(asking, self._left, self._rng)
        for tree, share in zip(asking, shares, strict=True):
            tree.share(share)

    def _shares(self, asking: Sequence[TreeGrowth], left: int, rng: np.random.Generator) -> list[Share]:
        return self._allocation.further([self._state(tree.task, tree) for tree in asking], self._budget, left, rng)

    def _generator(self, iteration: int, *seeds: int) -> np.random.Generator:
        """What the allocation rule draws from, for one task or for all of a call, which the first one stands for."""
        numbers = (self.ground.run_seed, iteration, *seeds)
        return np.random.default_rng(np.random.SeedSequence(numbers, spawn_key=(ALLOCATION_STREAM,)))
