"""Groups of made-up turns to time credit on: what an estimator meets is set by how often rollouts come by the same state.

Every optional field of a turn is set, so that one group suits every method. States are text that is made anew for each turn, as signatures
are: the state after a turn equals the one before the next turn, but is another object.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from credit import Turn

_WIDTH = 30
"""States of a layer: rollouts of one group meet in most of their turns."""
_CIRCLE = 300
"""States of a cyclic group, which rollouts meet again at random times."""
_LEAVES = 4
"""Rollouts that grow from one root."""
_ACTIONS = 8

Naming = Callable[[np.random.Generator, int, int], str]
"""Name of the state that a rollout reaches after a number of turns."""
Group = list[list[Turn]]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of group."""

    doc: str
    state: Naming
    forks: bool = False
    """Whether rollouts share the turns up to a fork."""

    def group(self, seed: int, rollouts: int, turns: int) -> Group:
        """Rollouts of one task, all with as many turns; what is paid is 0 or 1 at the end."""
        rng = np.random.default_rng(seed)
        made: Group = []
        for rollout in range(rollouts):
            source = made[rollout - rollout % _LEAVES] if self.forks and rollout % _LEAVES else []
            shared = source[: int(rng.integers(1, turns)) if source and turns > 1 else 0]
            made.append(shared + self._continued(rng, rollout, len(shared), turns, shared[-1].next_state if shared else "start"))
        return made

    def _continued(self, rng: np.random.Generator, rollout: int, begin: int, turns: int, state: object) -> list[Turn]:
        rollout_turns = []
        for t in range(begin, turns):
            last = t == turns - 1
            after = self.state(rng, rollout, t + 1)
            node = rollout * turns + t if self.forks else None
            rollout_turns.append(_turn(rng, _copy(state), after, float(rng.integers(2)) if last else 0.0, node))
            state = after
        return rollout_turns


SHAPES = {
    "layered": Shape(f"{_WIDTH} states for each turn number", lambda rng, rollout, t: f"turn {t:04d}, state {rng.integers(_WIDTH):08x}"),
    "cyclic": Shape(f"{_CIRCLE} states met at random times", lambda rng, rollout, t: f"any time, state {rng.integers(_CIRCLE):08x}"),
    "unmerged": Shape("no state is met twice", lambda rng, rollout, t: f"turn {t:04d}, state {rollout:08x}"),
    "trees": Shape(
        f"{_LEAVES} rollouts of a root, forked at random turns, {_WIDTH} states for each turn number",
        lambda rng, rollout, t: f"turn {t:04d}, state {rng.integers(_WIDTH):08x}",
        forks=True,
    ),
}


def fresh(tasks: list[Group]) -> list[Group]:
    """The same turns as new objects, whose text was never hashed; a shared turn becomes one object for each of its rollouts."""
    return [[[_again(turn) for turn in rollout] for rollout in task] for task in tasks]


def _again(turn: Turn) -> Turn:
    return replace(turn, state=_copy(turn.state), action=_copy(turn.action), next_state=_copy(turn.next_state))


def _turn(rng: np.random.Generator, state: object, after: str, reward: float, node: int | None) -> Turn:
    a, b, c, d = rng.random(4).tolist()
    return Turn(
        state,
        f"action {rng.integers(_ACTIONS)}",
        after,
        reward,
        node=node,
        rewards={"task": reward, "process": a},
        entropy=b,
        value=c,
        teacher_logprob_gap=d - 0.5,
        cited=float(a < 0.1),
        information_gain=b - 0.5,
        anchor=0.5,
    )


def _copy(value: object) -> object:
    """Text as a new object; anything else as it is."""
    return value[:1] + value[1:] if isinstance(value, str) else value
