"""A schedule decides when engine and environments work; what they are asked is decided by the trees."""

import time
from collections.abc import Callable
from typing import Protocol

from agents.engine import SampleRequest
from agents.errors import TurnError
from tree_rollout.env_workers import EnvWorkers
from tree_rollout.errors import EngineAnswerError
from tree_rollout.growth import TreeGrowth
from tree_rollout.live_trees import LiveTrees
from tree_rollout.rollout import Rollout


class Scheduler(Protocol):
    """Drives the trees of one call."""

    def advance(self) -> None:
        """Go on by one round; raises what the engine raises, and what of an environment the user can mend."""
        ...

    def pause(self) -> None:
        """Bring all rollouts to the end of a turn: no sample and no environment call is on its way afterwards."""
        ...


class Lockstep:
    """Engine and environments take turns, and each waits for all of the other: who finishes first makes no difference."""

    def __init__(self, trees: LiveTrees, workers: EnvWorkers) -> None:
        self._trees = trees
        self._workers = workers

    def advance(self) -> None:
        """One turn of every live rollout."""
        self._trees.start()
        self._environments()
        turns = self._trees.turns()
        if not turns:
            return
        requests = [tree.request(rollout) for tree, rollout in turns]
        report = self._trees.ground.report
        with report.timing("engine_s"):
            samples = self._trees.ground.engine.generate(requests)
        report.engine_calls += 1
        if len(samples) != len(requests):
            raise EngineAnswerError(f"the engine answered {len(samples)} of {len(requests)} requests")
        for (_, rollout), request, sample in zip(turns, requests, samples, strict=True):
            self._trees.count(rollout, request, sample)
        for (tree, rollout), sample in zip(turns, samples, strict=True):
            tree.take(rollout, sample)
        self._environments()

    def pause(self) -> None:
        """Nothing is on its way between two rounds."""

    def _environments(self) -> None:
        while calls := self._trees.take_calls():
            report = self._trees.ground.report
            with report.timing("env_wait_s"):
                self._workers.run_all(calls)
            for call in calls:
                report.env_s += call.seconds
                call.finish()
            self._trees.settle()


class Continuous:
    """Each rollout goes on as soon as it can; the engine decodes one token for all that wait for it, and environments work meanwhile."""

    def __init__(self, trees: LiveTrees, workers: EnvWorkers) -> None:
        self._trees = trees
        self._workers = workers
        self._asked: dict[int, tuple[TreeGrowth, Rollout, SampleRequest]] = {}
        """What is asked of the engine, by handle."""

    def advance(self, within_s: float | None = None) -> None:
        """Take what environments answered, hand over what is wanted, and go on by one token.

        Where only environments have something to do, their answer is waited for, for at most `within_s`.
        """
        engine, report = self._trees.ground.engine, self._trees.ground.report
        self._trees.start()
        self._environments(wait=not engine.pending and not self._trees.turns(), within_s=within_s)
        asked = [(tree, rollout, tree.request(rollout)) for tree, rollout in self._trees.turns()]
        for tree, rollout, request in asked:
            self._asked[request.handle] = tree, rollout, request
            rollout.asked = True
        if not asked and not engine.pending:
            return
        report.engine_calls += 1
        try:
            with report.timing("engine_s"):
                for _, _, request in asked:
                    engine.submit(request)
                answers = engine.step()
        except TurnError as fault:
            tree, rollout, _ = self._taken(fault.handle)
            tree.lose(rollout, fault)
            self._trees.settle()
            return
        for handle, sample in answers:
            tree, rollout, request = self._taken(handle)
            self._trees.count(rollout, request, sample)
            tree.take(rollout, sample)
        self._hand_over()

    def _taken(self, handle: int) -> tuple[TreeGrowth, Rollout, SampleRequest]:
        if handle not in self._asked:
            raise EngineAnswerError(f"the engine answered for sequence {handle}, which was not asked for")
        return self._asked.pop(handle)

    def recall(self) -> None:
        """Give up the samples that are on their way; `advance` asks for them again."""
        for handle, (_, rollout, _) in self._asked.items():
            self._trees.ground.engine.cancel(handle)
            rollout.asked = False
        self._asked = {}

    def pause(self) -> None:
        """Give up the samples that are on their way, and wait for the environments."""
        self.recall()
        self._hand_over()
        while self._workers.open:
            self._environments(wait=True)

    def _hand_over(self) -> None:
        """Begin the wanted calls; those that are not worth a thread are done on the spot."""
        calls = self._trees.take_calls()
        if calls:
            with self._trees.ground.report.timing("env_wait_s"):
                for call in calls:
                    self._workers.start(call)

    def _environments(self, *, wait: bool, within_s: float | None = None) -> None:
        """Begin and take back calls until no answer is left to be had at once; with `wait` at least one, where any comes in time."""
        report = self._trees.ground.report
        while True:
            self._hand_over()
            with report.timing("env_wait_s"):
                done = self._workers.finished(wait=wait, within_s=within_s)
            if not done:
                return
            wait = False
            for call in done:
                report.env_s += call.seconds
                if call.threaded:
                    report.lags_s.append(time.perf_counter() - call.ended)
                call.finish()
            self._trees.settle()


SCHEDULERS: dict[str, Callable[[LiveTrees, EnvWorkers], Scheduler]] = {"lockstep": Lockstep, "continuous": Continuous}
