"""A restored state is the one that was saved: by the environment's own snapshot where that is valid, else by executing the way there again.

Each answer on the way is compared with what it was the first time; the first difference is a `ForkDivergedError`, never another state.
"""

import os
from collections.abc import Callable, Hashable
from typing import Any, Literal

import numpy as np

from envs.answer import Answer, read_reset, read_step, reset, step
from envs.deadline import call_within
from envs.errors import AbilityError, EnvironmentArgumentError, NoEpisodeError
from envs.forking.state_process import ProcessEndedError
from envs.forking.waypoint import Native, Waypoint, expect
from envs.text_env import TextEnv


class ForkableEnv(TextEnv):
    """An environment around another one, whose snapshots are `Waypoint`s.

    Args:
        env: what does the work.
        native: where its own snapshots are valid: in the `instance` that took them, in all instances of this `program`; None: it has none.
        replay: whether the same seed and actions always give the same episode, so that a state can be reached again.
    """

    def __init__(self, env: TextEnv, *, native: Literal["instance", "program"] | None, replay: bool) -> None:
        super().__init__()
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata = env.metadata
        self.step_deadline_s = env.step_deadline_s
        self._native = native
        self._replay = replay
        self._instance = object()
        self._at: Waypoint | None = None
        """The reset of this episode; None before it, and after a fault, when nobody knows the state."""
        self._turns: list[tuple[str, Answer]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Without a seed, the next one is drawn here, so that the way to every state is known."""
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        self._at = None
        said = call_within(lambda: self.env.reset(seed=chosen, options=options), self.env.reset_deadline_s)
        self._begin(Waypoint(chosen, options, read_reset(self.env, said), ()))
        return said

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        at, self._at = self._at, None
        observation, reward, terminated, truncated, info = said = self.env.step(action)
        answer = read_step(self.env, said)
        if at is not None:
            self._turns.append((action, answer))
            self._at = at
        return observation, float(reward), terminated, truncated, info

    def snapshot(self) -> Waypoint:
        if self._at is None:
            raise NoEpisodeError("there is no state to save; call reset(seed=...) first")
        native = None if self._native is None else Native(self.env.snapshot(), self._home)
        return Waypoint(self._at.seed, self._at.options, self._at.first, tuple(self._turns), native)

    def restore(self, snapshot: Any) -> None:
        if not isinstance(snapshot, Waypoint):
            raise EnvironmentArgumentError(f"a {type(snapshot).__name__} is no snapshot of this environment; pass what snapshot() returned")
        if not self._restored_natively(snapshot):
            if not self._replay:
                raise AbilityError(
                    "the snapshot is not valid here, and what is not deterministic cannot be replayed; set env_processes to 0"
                )
            self._walk(snapshot)

    def state_signature(self) -> str:
        return self.env.state_signature()

    def way(self) -> tuple[Any, ...] | None:
        """Seed, options and actions, which lead to the present state every time; None where they may not, or nobody knows it."""
        if self._at is None or not self._replay:
            return None
        return (self._at.seed, self._at.options, *(action for action, _ in self._turns))

    def admissible_actions(self) -> list[str]:
        return self.env.admissible_actions()

    def expert_action(self) -> str:
        return self.env.expert_action()

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        return self.env.demonstrator(rng, **habits)

    def close(self) -> None:
        self._at, self._turns = None, []
        self.env.close()

    @property
    def _home(self) -> Hashable:
        """Where a native snapshot that is taken now will be valid."""
        return (os.getpid(), self._instance if self._native == "instance" else None)

    def _begin(self, start: Waypoint) -> None:
        self._at, self._turns = start, []

    def _restored_natively(self, snapshot: Waypoint) -> bool:
        if snapshot.native is None or snapshot.native.home != self._home:
            return False
        native, self._at = snapshot.native.snapshot, None
        try:
            call_within(lambda: self.env.restore(native), self.env.reset_deadline_s)
        except ProcessEndedError:
            if self._replay:
                return False  # The system ended the process that held the state, for lack of memory perhaps; the way there is still known.
            raise
        self._at, self._turns = snapshot, list(snapshot.turns)
        return True

    def _walk(self, to: Waypoint) -> None:
        """Execute the way to a state, from here where this is a part of it."""
        if not self._on_the_way(to):
            self._at = None
            first = call_within(lambda: reset(self.env, to.seed, to.options), self.env.reset_deadline_s)
            expect(0, None, to.first, first)
            self._begin(Waypoint(to.seed, to.options, first, ()))
        at, self._at = self._at, None
        for turn, (action, expected) in enumerate(to.turns[len(self._turns) :], start=len(self._turns)):
            got = call_within(lambda action=action: step(self.env, action), self.env.step_deadline_s)
            expect(turn, action, expected, got)
            self._turns.append((action, got))
        self._at = at

    def _on_the_way(self, to: Waypoint) -> bool:
        at = self._at
        if at is None or (at.seed, at.options, at.first) != (to.seed, to.options, to.first):
            return False
        return self._turns == list(to.turns[: len(self._turns)])
