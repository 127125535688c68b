"""One tree grows in two waves: roots from one initial state, then the forks and further roots it is given; its turns stand in that order.

It does nothing by itself: it says which environment calls and which samples it wants, and is told the answers. What is sampled depends on
the task, the seeds and the weights only, as long as answers come in the order of the rollouts' numbers.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from agents.action_parser import ParsedAction
from agents.engine import Sample, SampleRequest
from envs.errors import EnvsError
from envs.text_env import TextEnv
from tree_rollout.allocation import Share
from tree_rollout.branching import Branch, check_entropies
from tree_rollout.env_call import CallKind, EnvCall
from tree_rollout.env_host import EnvProcessLostError
from tree_rollout.ground import Ground
from tree_rollout.rollout import Rollout, Situation
from tree_rollout.sampler_report import Purpose, RolloutFailure
from tree_rollout.stepping import Beginning, StepResult, reset, restore, step, stop_reason_of
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping import RolloutView
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

_Said = tuple[Situation, Sample, ParsedAction]
"""What a turn was sampled in, what was sampled, and what it means."""

BRANCHING_STREAM = 1
"""Keeps the generator of the branching rule apart from all that is seeded with the same numbers."""


class Phase(Enum):
    """How far a tree is."""

    ROOTS = 1
    """Its first roots are on their way."""
    ASKING = 2
    """They are over, and the tree is to be told what else it gets."""
    REST = 3
    """Forks and further roots are on their way."""
    DONE = 4


@dataclass(slots=True, eq=False)
class TreeGrowth:
    """Grows the tree of one task.

    Whoever drives it calls `start()`; runs the `calls` (taking them off the list) and finishes each; gives the `waiting()` rollouts their
    samples with `take`; calls `settle()` after either; and answers `Phase.ASKING` with `share`.
    """

    task: Task
    ground: Ground
    first_roots: int
    place: int
    """Among the trees that the sampler has begun or will begin."""
    tree: TrajectoryTree = field(init=False)
    phase: Phase = Phase.ROOTS
    calls: list[EnvCall] = field(default_factory=list)
    """What environments have to do before some rollouts can go on."""
    rollouts: list[Rollout] = field(default_factory=list)
    """By number: first roots, further roots, forks."""
    _going: int = 0
    """Rollouts that are not over."""
    _planted: int = 0
    """Rollouts that are in the tree."""
    _sources: list[tuple[Rollout, int]] = field(default_factory=list)
    """For each turn of the tree, the rollout that sampled it and its place there."""

    def __post_init__(self) -> None:
        self.tree = TrajectoryTree(self.task.env_id, self.task.seed, dict(self.task.env_kwargs))

    # ------------------------------------------------------------------ what the sampler calls

    def start(self) -> None:
        """Reset once; only the first root has the engine compute the prompt, the others join after it."""
        root = self._new_rollout(Origin("root"), Purpose.ROOTS)
        snapshot_needed = self._snapshot_needed or self.first_roots > 1

        def begin(env: TextEnv) -> tuple[Beginning, Any]:
            return reset(env, self.task.seed), env.snapshot() if snapshot_needed else None

        def failed(fault: Exception) -> None:
            for rollout in self._all_first_roots():
                self._end_unsampled(rollout, "", "", stop_reason_of(fault), fault)

        self._call("reset", root, begin, lambda answer: self._begun(root, *answer), failed)

    def waiting(self) -> list[Rollout]:
        """The rollouts that want a sample and have not asked for one, by number."""
        return [rollout for rollout in self.rollouts if rollout.situation is not None and not rollout.asked]

    def request(self, rollout: Rollout) -> SampleRequest:
        """What the engine is asked for the rollout's next turn."""
        situation, settings, ground = rollout.situation, self.ground.settings, self.ground
        assert situation is not None
        return SampleRequest(
            handle=situation.handle,
            ids_T=rollout.prefill(),
            seed=(ground.run_seed, ground.iteration, self.task.seed, rollout.number, rollout.depth),
            max_tokens=min(settings.max_new_tokens, ground.engine.max_length - situation.length),
            temperature=settings.temperature,
            stop_texts=ground.agent.action_format.stop_texts,
        )

    def take(self, rollout: Rollout, sample: Sample) -> None:
        """Record a sample as a turn, and have the environment act on it."""
        situation, report = rollout.situation, self.ground.report
        assert situation is not None
        if rollout is self.rollouts[0] and not rollout.turns:
            for other in self._all_first_roots()[1:]:
                self._join(other, situation)
        report.cut_turns += not sample.stopped and sample.stop_text is None
        parsed = self.ground.agent.read(sample)
        turn = rollout.new_turn(situation, parsed.action, sample, self.ground.engine.version)
        rollout.turns.append(turn)
        if self._open:
            rollout.situations.append(situation)
        rollout.situation, rollout.shared, rollout.asked = None, False, False
        report.env_steps += 1
        report.spent[rollout.purpose].add(tokens=len(sample.ids_T), steps=1)
        at_limit, snapshot_needed = rollout.depth >= self.ground.settings.max_turns, self._snapshot_needed
        deadline_s = rollout.seconds_left(self.ground.settings.rollout_deadline_s)

        def act(env: TextEnv) -> tuple[StepResult, Any]:
            result = step(env, parsed.action, deadline_s)
            last = result.terminated or result.truncated or at_limit
            return result, env.snapshot() if snapshot_needed and not last else None

        self._call(
            "step",
            rollout,
            act,
            lambda answer: self._acted(rollout, turn, (situation, sample, parsed), *answer),
            lambda fault: self._end(rollout, turn, stop_reason_of(fault), fault),
        )

    def lose(self, rollout: Rollout, fault: Exception) -> None:
        """End a rollout whose turn the engine gave up."""
        situation = rollout.situation
        assert situation is not None
        if rollout is self.rollouts[0] and not rollout.turns:
            for other in self._all_first_roots()[1:]:
                self._join(other, situation, computed=False)
        rollout.situation, rollout.asked = None, False
        self._end_unsampled(rollout, situation.observation, situation.state, StopReason.ENGINE_ERROR, fault)

    def settle(self) -> None:
        """Once all rollouts of a wave are over, add them to the tree."""
        if not self._going and self.phase in (Phase.ROOTS, Phase.REST):
            self._plant()
            self.phase = Phase.ASKING if self.phase is Phase.ROOTS and self.ground.more else Phase.DONE
            if self.phase is Phase.DONE:
                self._let_go()

    def share(self, share: Share | None) -> None:
        """Start what the tree gets after its first roots; None where the budget is used up."""
        self.phase = Phase.REST
        ground = self.ground
        if share is None:
            ground.report.unforked_trees += 1
        elif any(rule.enough(self.tree) for rule in ground.stopping):
            ground.report.decided_trees += 1
        else:
            branches: Sequence[Branch] = share.branches
            if share.forks and not branches:
                numbers = (ground.run_seed, ground.iteration, self.task.seed)
                rng = np.random.default_rng(np.random.SeedSequence(numbers, spawn_key=(BRANCHING_STREAM,)))
                check_entropies(ground.rule.name, self.tree)
                branches = ground.rule.select(self.tree, share.forks, rng)
            for _ in range(share.roots if self.rollouts[0].situations else 0):
                root = self._new_rollout(Origin("root", ground.settings.allocation), Purpose.FURTHER_ROOTS)
                self._join(root, self.rollouts[0].situations[0])
            for branch in branches:
                self._start_fork(branch)
        self._let_go()
        self.settle()

    @property
    def live(self) -> int:
        """Rollouts that are on their way, those of the first roots included that have not begun."""
        unborn = max(0, self.first_roots - len(self.rollouts)) if self.phase is Phase.ROOTS else 0
        return unborn + self._going

    def abandon(self) -> None:
        """Free what is still held in the engine, and drop the environments of rollouts that were cut off."""
        for rollout in self.rollouts:
            rollout.dropped = True
            self._release(rollout)
            if rollout.env is not None:
                self.ground.pool.discard(rollout.env)
                rollout.env = None

    # ------------------------------------------------------------------ starting rollouts

    @property
    def _open(self) -> bool:
        """Whether more rollouts may still start in this tree."""
        return self.ground.more and self.phase is Phase.ROOTS

    @property
    def _snapshot_needed(self) -> bool:
        return self.ground.settings.keep_snapshots or self._open

    def _new_rollout(self, origin: Origin, purpose: Purpose) -> Rollout:
        self.ground.report.rollouts += 1
        self.ground.report.spent[purpose].add(rollouts=1)
        self.rollouts.append(Rollout(len(self.rollouts), origin, purpose))
        self._going += 1
        return self.rollouts[-1]

    def _all_first_roots(self) -> Sequence[Rollout]:
        """The first roots, after adding those that do not exist yet."""
        while len(self.rollouts) < self.first_roots:
            self._new_rollout(Origin("root"), Purpose.ROOTS)
        return self.rollouts

    def _begun(self, root: Rollout, beginning: Beginning, snapshot: Any) -> None:
        """Give the first root its first situation, if the observation leaves room for an answer."""
        observation, state, self.ground.report.task_types[self.task.seed] = beginning
        context = self.ground.agent.context()
        situation = Situation(observation, context.extend(observation).ids_T, state, snapshot, context, prefix=0)
        if self._fits(situation):
            root.handles.append(self.ground.engine.start())
            root.situation = situation._replace(handle=root.handles[-1])
            return
        for rollout in self._all_first_roots():
            self._end_unsampled(rollout, observation, state, StopReason.CONTEXT_LENGTH)

    def _start_fork(self, branch: Branch) -> None:
        source, place = self._sources[branch.turn]
        rule = self.ground.rule.name if self.ground.rule.name != "none" else self.ground.settings.allocation
        rollout = self._new_rollout(Origin("branch", rule, branch.score), Purpose.FORKS)
        rollout.parent = self.tree.turns[branch.turn].parent
        rollout.first_depth = place
        self.ground.report.branches += 1
        self._join(rollout, source.situations[place])

    def _join(self, rollout: Rollout, situation: Situation, computed: bool = True) -> None:
        """Bring a rollout into a situation that another one was in: its own sequence, and its own environment.

        `computed` says whether the other one's sequence holds the observation, so that it is taken over too.
        """
        held = situation.length if computed else situation.prefix
        with self.ground.report.timing("engine_s"):
            rollout.handles.append(self.ground.engine.fork(situation.handle, held))
        kept = situation._replace(snapshot=situation.snapshot if self._snapshot_needed else None, handle=rollout.handles[-1])

        def joined(_: None) -> None:
            self.ground.report.shared_tokens += held
            rollout.situation, rollout.shared = kept, computed

        def failed(fault: Exception) -> None:
            self._end_unsampled(rollout, situation.observation, situation.state, stop_reason_of(fault), fault)

        self._call("restore", rollout, lambda env: restore(env, situation.snapshot, situation.state), joined, failed)

    def _call(
        self,
        kind: CallKind,
        rollout: Rollout,
        work: Callable[[TextEnv], Any],
        answered: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Want `work` done with the rollout's environment, which it is given first where it has none."""
        pool = self.ground.pool
        if rollout.env is None:
            rollout.env = pool.idle(self.task)

        def whole() -> Any:
            if rollout.env is None:
                rollout.env = pool.make(self.task, lambda: not rollout.dropped)
            started = time.perf_counter()
            try:
                return work(rollout.env)
            finally:
                rollout.worked_s += time.perf_counter() - started

        def taken(answer: Any) -> None:
            if not rollout.dropped:
                answered(answer)

        def refused(fault: Exception) -> None:
            if rollout.dropped:
                return
            # An environment that cannot be made, or that says what the user can mend, would fail every task alike.
            made = rollout.env is not None or isinstance(fault, EnvProcessLostError)
            if not made or (kind != "step" and isinstance(fault, EnvsError)):
                raise fault
            failed(fault)

        self.calls.append(EnvCall(self.task.env_id, kind, whole, taken, refused))

    # ------------------------------------------------------------------ one turn

    def _acted(self, rollout: Rollout, turn: Turn, said: _Said, result: StepResult, snapshot: Any) -> None:
        """Complete the turn with the environment's answer, and prepare the next one or end the rollout."""
        turn.reward, turn.terminated, turn.truncated = result.reward, result.terminated, result.truncated
        turn.valid, turn.success, turn.next_state = result.valid, result.success, result.state
        if result.terminated or result.truncated or rollout.depth >= self.ground.settings.max_turns:
            self._end(rollout, turn, StopReason.TERMINATED if result.terminated else StopReason.TRUNCATED)
            return
        follow_up = self._follow_up(*said, result, snapshot)
        if not self._fits(follow_up):
            self._end(rollout, turn, StopReason.CONTEXT_LENGTH)
        elif (reason := self._stopped(rollout)) is not None:
            self._end(rollout, turn, reason)
        else:
            rollout.situation = self._entered(rollout, follow_up) if follow_up.new_segment else follow_up

    def _follow_up(self, situation: Situation, sample: Sample, parsed: ParsedAction, result: StepResult, snapshot: Any) -> Situation:
        """What the next action is sampled in."""
        context = situation.context.copy()
        context.record(sample.ids_T, stopped=sample.stopped)
        delta = context.extend(self.ground.agent.action_format.reply(result.observation, parsed))
        prefix = 0 if delta.new_segment else situation.length + len(sample.ids_T)
        sequence = (prefix, delta.new_segment, delta.shared, situation.handle)
        return Situation(result.observation, delta.ids_T, result.state, snapshot, context, *sequence)

    def _entered(self, rollout: Rollout, situation: Situation) -> Situation:
        """The situation in a new sequence, which takes over what it has in common with the one that is left."""
        engine, left = self.ground.engine, rollout.handles[-1]
        with self.ground.report.timing("engine_s"):
            rollout.handles.append(engine.fork(left, situation.taken_over) if situation.taken_over else engine.start())
        self.ground.report.shared_tokens += situation.taken_over
        self.ground.report.new_segments += 1
        if not self._open:
            engine.release(rollout.handles.pop(0))
        return situation._replace(handle=rollout.handles[-1])

    def _stopped(self, rollout: Rollout) -> StopReason | None:
        """Why a rule ends the rollout here, if one does."""
        if not self.ground.stopping:
            return None
        path = self._view(rollout)
        others = [self._view(other) for other in self.rollouts if other is not rollout and other.turns]
        return next((rule.reason for rule in self.ground.stopping if rule.should_stop(path, others)), None)

    def _view(self, rollout: Rollout) -> RolloutView:
        before = [self.tree.turns[index] for index in self.tree.path(rollout.parent)]
        return RolloutView(rollout.number, [*before, *rollout.turns], rollout.over)

    def _fits(self, situation: Situation) -> bool:
        """True where at least one token can be sampled in the situation."""
        return situation.length < self.ground.engine.max_length

    # ------------------------------------------------------------------ ending rollouts

    def _end(self, rollout: Rollout, turn: Turn, reason: StopReason, fault: Exception | None = None) -> None:
        """Close a rollout with its last turn; what failed is reported, and its environment is not used again."""
        report = self.ground.report
        turn.stop_reason, rollout.over = reason, True
        self._going -= 1
        report.stop_reasons[reason] += 1
        if fault is not None:
            message = f"{type(fault).__name__}: {fault}"
            report.failures.append(RolloutFailure(self.task, rollout.number, rollout.depth - 1, reason, message))
        if rollout.env is not None:
            broken = fault is not None and reason is not StopReason.ENGINE_ERROR
            self.ground.pool.discard(rollout.env) if broken else self.ground.pool.give_back(self.task, rollout.env)
            rollout.env = None
        if not self._open:
            self._release(rollout)

    def _end_unsampled(self, rollout: Rollout, observation: str, state: str, reason: StopReason, fault: Exception | None = None) -> None:
        """Close a rollout that ended before the engine saw it, with a turn that has no tokens."""
        turn = rollout.unsampled_turn(observation, state, self.ground.engine.version)
        rollout.turns.append(turn)
        self._end(rollout, turn, reason, fault)

    def _release(self, rollout: Rollout) -> None:
        while rollout.handles:
            self.ground.engine.release(rollout.handles.pop())

    def _let_go(self) -> None:
        """Free what finished rollouts kept for forks."""
        for rollout in self.rollouts:
            if rollout.over:
                self._release(rollout)
                rollout.situations = []
        if not self.ground.settings.keep_snapshots:
            for turn in self.tree.turns:
                turn.snapshot = None

    def _plant(self) -> None:
        """Add the rollouts that ended since the last time to the tree, in the order of their numbers."""
        for rollout in self.rollouts[self._planted :]:
            parent = rollout.parent
            for place, turn in enumerate(rollout.turns):
                turn.parent = parent
                parent = self.tree.add(turn)
                self._sources.append((rollout, place))
        self._planted = len(self.rollouts)
