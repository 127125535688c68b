"""A turn is exact only if the environment, executing it again, says and does all that was recorded; no difference is passed over."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from envs.deadline import DeadlineExceededError
from envs.errors import AbilityError, EnvsError
from envs.forking.known_state import known_state
from envs.text_env import TextEnv
from tree_rollout.stepping import StepResult, reset, step
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

_SHOWN = 160
"""Characters of a value that a message shows."""


class Verdict(StrEnum):
    """What came of executing a turn again."""

    EXACT = "exact"
    """Everything recorded came out the same."""
    DIVERGED = "diverged"
    """At least one field came out otherwise."""
    SKIPPED = "skipped"
    """It was not executed: its rollout failed at this turn when it was recorded, or an earlier turn ended otherwise than recorded."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one turn that came out otherwise."""

    turn: int
    """Index in the tree."""
    field: str
    """Name of the field of `Turn`; `step` or `reset` where the environment raised."""
    expected: object
    """What was recorded."""
    got: object

    def __str__(self) -> str:
        return f"turn {self.turn}: {self.field} was {shown(self.expected)} and is now {shown(self.got)}"


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """The verdict on one turn."""

    turn: int
    verdict: Verdict
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The verdicts on all turns of a tree, in their order. Its text ends with the line that counts them."""

    turns: list[TurnVerdict]
    restored: bool
    """True where the ways to forked turns were restored from snapshots, False where each was executed from the start."""

    def count(self, verdict: Verdict) -> int:
        """How many turns got this verdict."""
        return sum(turn.verdict is verdict for turn in self.turns)

    @property
    def exact(self) -> bool:
        """True where no turn diverged; turns of failed rollouts may have been skipped."""
        return not self.count(Verdict.DIVERGED)

    @property
    def first_difference(self) -> Difference | None:
        """The first difference in the order of the turns; None where there is none."""
        return next((difference for turn in self.turns for difference in turn.differences), None)

    def __str__(self) -> str:
        exact, diverged, skipped = (self.count(verdict) for verdict in Verdict)
        line = f"replayed {exact + diverged}/{len(self.turns)} turns: exact {exact}, diverged {diverged}"
        line += f", skipped {skipped}" if skipped else ""
        return f"{self.first_difference}\n{line}" if self.first_difference else line


def replay(tree: TrajectoryTree, env: TextEnv, restore: bool = True) -> ReplayReport:
    """Execute every turn of `tree` again in `env` (made with the tree's id and arguments) and compare all that it answers.

    With `restore`, and where the environment can take snapshots, a turn that several rollouts share is executed once; otherwise every
    rollout is executed from `reset` on. What the environment said after the last turn of a rollout is not recorded, so not compared.
    """
    session = _Replay(tree, env)
    restored = restore and _can_snapshot(session)
    for root in tree.children(-1):
        if restored:
            session.descend(root)
        else:
            for leaf in _leaves_below(tree, root):
                session.follow(tree.path(leaf))
    return ReplayReport([session.verdict(index) for index in range(len(tree.turns))], restored)


def was_executed(turn: Turn) -> bool:
    """False where no answer of the environment is recorded: the step failed, or there was no room to sample an action at all."""
    if turn.stop_reason is not None and turn.stop_reason.failed:
        return False
    return not (turn.stop_reason is StopReason.CONTEXT_LENGTH and turn.action == "" and not turn.mask_T.any())


def compare_before(env: TextEnv, index: int, turn: Turn, observation: str) -> list[Difference]:
    """Where the situation before the turn (the observation just made, and the state) is not the recorded one."""
    if turn.stop_reason is not None and turn.stop_reason.failed and not turn.mask_T.any():
        return []  # The environment failed before it could say where it was.
    found = (("observation", turn.observation, observation), ("state", turn.state, known_state(env)))
    return [Difference(index, name, expected, got) for name, expected, got in found if expected != got]


def compare_after(index: int, turn: Turn, result: StepResult) -> list[Difference]:
    """Where the environment's answer to the turn's action is not the recorded one."""
    found = (
        ("reward", turn.reward, result.reward),
        ("terminated", turn.terminated, result.terminated),
        ("truncated", turn.truncated, result.truncated),
        ("valid", turn.valid, result.valid),
        ("success", turn.success, result.success),
        ("next_state", turn.next_state, result.state),
    )
    return [Difference(index, name, expected, got) for name, expected, got in found if expected != got]


def shown(value: object) -> str:
    """The value as a message shows it; a shortened one says so."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({_SHOWN} of {len(text):,} characters)"


@dataclass(slots=True)
class _Replay:
    """Collects differences while turns are executed; a turn executed several times keeps those of every time."""

    tree: TrajectoryTree
    env: TextEnv
    differences: dict[int, list[Difference]] = field(default_factory=dict)
    executed: set[int] = field(default_factory=set)
    stuck: bool = False
    """True once a step outran its deadline: the instance may still be busy with it, and is not used any more."""

    def verdict(self, index: int) -> TurnVerdict:
        differences = tuple(self.differences.get(index, ()))
        if differences:
            return TurnVerdict(index, Verdict.DIVERGED, differences)
        return TurnVerdict(index, Verdict.EXACT if index in self.executed else Verdict.SKIPPED)

    def descend(self, root: int) -> None:
        """Execute all turns from `root` down once, coming back to each fork by snapshot."""
        observation = self._reset(root)
        if observation is None:
            return
        pending: list[tuple[int, str, tuple[Any] | None]] = [(root, observation, None)]
        while pending and not self.stuck:
            index, observation, snapshot = pending.pop()
            if snapshot is not None:
                self.env.restore(snapshot[0])
            after = self._execute(index, observation)
            children = self.tree.children(index)
            if after is None or not children:
                continue
            snapshot = (self.env.snapshot(),) if len(children) > 1 else None
            pending.extend((child, after, snapshot) for child in reversed(children[1:]))
            pending.append((children[0], after, None))

    def follow(self, path: list[int]) -> None:
        """Execute one rollout from the start."""
        observation = self._reset(path[0])
        for index in path:
            if observation is None:
                return
            observation = self._execute(index, observation)

    def _reset(self, root: int) -> str | None:
        if self.stuck:
            return None
        try:
            return reset(self.env, self.tree.seed).observation
        except EnvsError:
            raise  # Says itself what is missing and what to do.
        except Exception as fault:
            self._note([Difference(root, "reset", "an observation", f"{type(fault).__name__}: {fault}")])
            return None

    def _execute(self, index: int, observation: str) -> str | None:
        """The observation after the turn; None where no turn can follow."""
        turn = self.tree.turns[index]
        self._note(compare_before(self.env, index, turn, observation))
        if not was_executed(turn):
            return None
        self.executed.add(index)
        try:
            result = step(self.env, turn.action)
        except Exception as fault:
            self._note([Difference(index, "step", "an answer", f"{type(fault).__name__}: {fault}")])
            self.stuck = isinstance(fault, DeadlineExceededError)
            return None
        self._note(compare_after(index, turn, result))
        return None if result.terminated or result.truncated else result.observation

    def _note(self, differences: list[Difference]) -> None:
        for difference in differences:
            known = self.differences.setdefault(difference.turn, [])
            if difference not in known:
                known.append(difference)


def _can_snapshot(session: _Replay) -> bool:
    try:
        reset(session.env, session.tree.seed)
        session.env.snapshot()
    except (AbilityError, NotImplementedError):
        return False
    except EnvsError:
        raise
    except Exception:
        return True  # A fault of reset or snapshot; the replay meets it again, and reports it where it belongs.
    return True


def _leaves_below(tree: TrajectoryTree, index: int) -> Iterator[int]:
    pending = [index]
    while pending:
        index = pending.pop()
        children = tree.children(index)
        pending.extend(reversed(children))
        if not children:
            yield index
