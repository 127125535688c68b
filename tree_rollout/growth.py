"""One tree grows in two waves: all roots from the same initial state, then the forks that the rule picked; its turns stand in that order.

What is sampled depends on the task, the seeds and the weights only, not on the other trees of the call or on who finishes first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from agents.action_parser import parse_action
from agents.context import Context, TurnTemplate
from agents.engine import Engine, Sample, SampleRequest
from envs.errors import EnvsError
from tree_rollout.branching import Branch, BranchingRule
from tree_rollout.env_pool import EnvPool
from tree_rollout.rollout import Rollout, Situation
from tree_rollout.sampler_report import RolloutFailure, SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.stepping import StepResult, reset, restore, step, stop_reason_of
from tree_rollout.stop_reason import StopReason
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

BRANCHING_STREAM = 1
"""Keeps the generator of the branching rule apart from all that is seeded with the same numbers."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all trees of one sampling call share."""

    engine: Engine
    pool: EnvPool
    template: TurnTemplate
    decode: Callable[[list[int]], str | list[str]]
    settings: SamplerSettings
    rule: BranchingRule
    run_seed: int
    iteration: int
    report: SamplerReport


@dataclass(slots=True)
class TreeGrowth:
    """Grows the tree of one task; the sampler asks for `waiting()` rollouts, gives each its sample, and calls `settle()`."""

    task: Task
    ground: Ground
    tree: TrajectoryTree = field(init=False)
    _roots: list[Rollout] = field(default_factory=list)
    _forks: list[Rollout] = field(default_factory=list)
    _sources: list[tuple[Rollout, int]] = field(default_factory=list)
    """For each turn of the tree, the rollout that sampled it and its place there."""
    _forked: bool = False

    def __post_init__(self) -> None:
        self.tree = TrajectoryTree(self.task.env_id, self.task.seed, dict(self.task.env_kwargs))

    # ------------------------------------------------------------------ what the sampler calls

    def start(self) -> None:
        """Reset once; only the first root has the engine compute the prompt, the others join after it."""
        ground = self.ground
        root = self._new_rollout(0, Origin("root"))
        self._roots.append(root)
        root.env = ground.pool.acquire(self.task)
        try:
            with ground.report.timing("env_s"):
                observation, state = reset(root.env, self.task.seed)
                snapshot = root.env.snapshot() if self._snapshot_needed or ground.settings.roots > 1 else None
        except EnvsError:
            raise  # A fault that the user can mend, and that every task would meet again.
        except Exception as fault:
            for rollout in self._all_roots():
                self._end_unsampled(rollout, "", "", StopReason.ENV_ERROR, fault)
            return
        situation = self._situation(observation, state, snapshot, Context(ground.template), stopped=True, prefix=0)
        if self._fits(situation):
            root.handle, root.situation = ground.engine.start(), situation
            return
        for rollout in self._all_roots():
            self._end_unsampled(rollout, observation, state, StopReason.CONTEXT_LENGTH)

    def waiting(self) -> list[Rollout]:
        """The rollouts that want a sample now, by number."""
        return [rollout for rollout in (*self._roots, *self._forks) if not rollout.over]

    def request(self, rollout: Rollout) -> SampleRequest:
        """What the engine is asked for the rollout's next turn."""
        situation, settings = rollout.situation, self.ground.settings
        assert situation is not None and rollout.handle is not None
        return SampleRequest(
            handle=rollout.handle,
            ids_T=rollout.prefill(),
            seed=(self.ground.run_seed, self.ground.iteration, self.task.seed, rollout.number, rollout.depth),
            max_tokens=min(settings.max_new_tokens, self.ground.engine.max_length - situation.length),
            temperature=settings.temperature,
        )

    def take(self, rollout: Rollout, sample: Sample) -> None:
        """Act on a sample: step the environment, record the turn, and prepare the next one or end the rollout."""
        situation = rollout.situation
        assert situation is not None
        if rollout is self._roots[0] and not rollout.turns:
            self._start_other_roots(situation)
        self.ground.report.cut_turns += not sample.stopped
        said_T = sample.ids_T[:-1] if sample.stopped else sample.ids_T
        action = parse_action(cast(str, self.ground.decode(said_T.tolist()))).action
        turn = rollout.new_turn(situation, action, sample, self.ground.engine.version)
        rollout.turns.append(turn)
        if self.ground.settings.forks and not self._forked:
            rollout.situations.append(situation)
        rollout.situation, rollout.shared = None, False
        try:
            result, snapshot = self._act(rollout, action)
        except Exception as fault:
            self._end(rollout, turn, stop_reason_of(fault), fault)
            return
        turn.reward, turn.terminated, turn.truncated = result.reward, result.terminated, result.truncated
        turn.valid, turn.success, turn.next_state = result.valid, result.success, result.state
        if self._is_last(rollout, result):
            self._end(rollout, turn, StopReason.TERMINATED if result.terminated else StopReason.TRUNCATED)
            return
        prefix = situation.length + len(sample.ids_T)
        follow_up = self._situation(result.observation, result.state, snapshot, situation.context, sample.stopped, prefix)
        if self._fits(follow_up):
            rollout.situation = follow_up
        else:
            self._end(rollout, turn, StopReason.CONTEXT_LENGTH)

    def settle(self) -> None:
        """Once all roots are over, add them to the tree and start the forks; once the forks are over, add those."""
        if not self._forked and all(rollout.over for rollout in self._roots):
            self._plant(self._roots)
            self._start_forks()
        if self._forked and self._forks and all(rollout.over for rollout in self._forks):
            self._plant(self._forks)
            self._forks = []

    def abandon(self) -> None:
        """Free what is still held in the engine, and drop the environments of rollouts that were cut off."""
        for rollout in (*self._roots, *self._forks):
            self._release(rollout)
            if rollout.env is not None:
                self.ground.pool.discard(rollout.env)
                rollout.env = None

    # ------------------------------------------------------------------ starting rollouts

    @property
    def _snapshot_needed(self) -> bool:
        settings = self.ground.settings
        return settings.keep_snapshots or (settings.forks > 0 and not self._forked)

    def _new_rollout(self, number: int, origin: Origin) -> Rollout:
        self.ground.report.rollouts += 1
        return Rollout(number, origin)

    def _all_roots(self) -> Sequence[Rollout]:
        """The roots, after adding those that do not exist yet."""
        while len(self._roots) < self.ground.settings.roots:
            self._roots.append(self._new_rollout(len(self._roots), Origin("root")))
        return self._roots

    def _start_other_roots(self, situation: Situation) -> None:
        """Start the remaining roots from the first one's state and computed prompt."""
        first = self._roots[0]
        for rollout in self._all_roots()[1:]:
            self._join(rollout, first, situation)

    def _start_forks(self) -> None:
        """Start the forks that the rule picks, unless the token budget is used up; then free what was kept for them."""
        ground, settings = self.ground, self.ground.settings
        self._forked = True
        if settings.token_budget is not None and ground.report.sampled_tokens >= settings.token_budget:
            ground.report.unforked_trees += 1
        elif settings.forks:
            numbers = (ground.run_seed, ground.iteration, self.task.seed)
            rng = np.random.default_rng(np.random.SeedSequence(numbers, spawn_key=(BRANCHING_STREAM,)))
            for branch in ground.rule.select(self.tree, settings.forks, rng):
                self._start_fork(branch)
        for root in self._roots:
            self._release(root)
            root.situations = []
        if not settings.keep_snapshots:
            for turn in self.tree.turns:
                turn.snapshot = None

    def _start_fork(self, branch: Branch) -> None:
        source, place = self._sources[branch.turn]
        rollout = self._new_rollout(self.ground.settings.roots + len(self._forks), Origin("branch", self.ground.rule.name, branch.score))
        rollout.parent = self.tree.turns[branch.turn].parent
        rollout.first_depth = place
        self._forks.append(rollout)
        self.ground.report.branches += 1
        self._join(rollout, source, source.situations[place])

    def _join(self, rollout: Rollout, source: Rollout, situation: Situation) -> None:
        """Bring a rollout into a situation that `source` was in: its own environment, and its own sequence behind the observation."""
        ground = self.ground
        rollout.env = ground.pool.acquire(self.task)
        try:
            with ground.report.timing("env_s"):
                restore(rollout.env, situation.snapshot, situation.state)
        except EnvsError:
            raise
        except Exception as fault:
            self._end_unsampled(rollout, situation.observation, situation.state, StopReason.ENV_ERROR, fault)
            return
        assert source.handle is not None
        with ground.report.timing("engine_s"):
            rollout.handle = ground.engine.fork(source.handle, situation.length)
        ground.report.shared_tokens += situation.length
        rollout.situation = replace(situation, snapshot=situation.snapshot if self._snapshot_needed else None)
        rollout.shared = True

    # ------------------------------------------------------------------ one turn

    def _act(self, rollout: Rollout, action: str) -> tuple[StepResult, Any]:
        """The environment's answer to the action, and a snapshot of the state after it where a turn that may be forked follows."""
        assert rollout.env is not None
        self.ground.report.env_steps += 1
        with self.ground.report.timing("env_s"):
            result = step(rollout.env, action)
            wanted = self._snapshot_needed and not self._is_last(rollout, result)
            return result, rollout.env.snapshot() if wanted else None

    def _is_last(self, rollout: Rollout, result: StepResult) -> bool:
        return result.terminated or result.truncated or rollout.depth >= self.ground.settings.max_turns

    def _situation(self, observation: str, state: str, snapshot: Any, context: Context, stopped: bool, prefix: int) -> Situation:
        """What the next action is sampled in, `context` being the conversation up to the last sample."""
        extended = context.copy()
        ids_T = extended.observe(observation, stopped=stopped)
        return Situation(observation, ids_T, state, snapshot, extended, prefix)

    def _fits(self, situation: Situation) -> bool:
        """True where at least one token can be sampled in the situation."""
        return situation.length < self.ground.engine.max_length

    # ------------------------------------------------------------------ ending rollouts

    def _end(self, rollout: Rollout, turn: Turn, reason: StopReason, fault: Exception | None = None) -> None:
        """Close a rollout with its last turn; what failed is reported, and its environment is not used again."""
        report = self.ground.report
        turn.stop_reason = reason
        report.stop_reasons[reason] += 1
        if fault is not None:
            message = f"{type(fault).__name__}: {fault}"
            report.failures.append(RolloutFailure(self.task, rollout.number, rollout.depth - 1, reason, message))
        if rollout.env is not None:
            self.ground.pool.discard(rollout.env) if fault else self.ground.pool.give_back(self.task, rollout.env)
            rollout.env = None
        if self._forked or not self.ground.settings.forks:
            self._release(rollout)

    def _end_unsampled(self, rollout: Rollout, observation: str, state: str, reason: StopReason, fault: Exception | None = None) -> None:
        """Close a rollout that ended before the engine saw it, with a turn that has no tokens."""
        turn = rollout.unsampled_turn(observation, state, self.ground.engine.version)
        rollout.turns.append(turn)
        self._end(rollout, turn, reason, fault)

    def _release(self, rollout: Rollout) -> None:
        if rollout.handle is not None:
            self.ground.engine.release(rollout.handle)
            rollout.handle = None

    def _plant(self, rollouts: Sequence[Rollout]) -> None:
        """Add finished rollouts to the tree, in the order of their numbers."""
        for rollout in rollouts:
            parent = rollout.parent
            for place, turn in enumerate(rollout.turns):
                turn.parent = parent
                parent = self.tree.add(turn)
                self._sources.append((rollout, place))
