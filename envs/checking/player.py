"""Episodes to check with: played once by chance and by the expert, each call within a limit, so that nothing here can hang.

A step that outruns its limit, or raises, ends its episode and the instance; what was played before it is still checked.
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from envs import registry
from envs.answer import Answer, read_reset, read_step, signature_of
from envs.deadline import DeadlineExceededError, call_within
from envs.errors import AbilityError, EnvsError
from envs.text_env import TextEnv

IMPOSSIBLE = "do the impossible 0"
"""An action that no environment is expected to understand; one in ten of random play."""
_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One turn of an episode."""

    action: str
    answer: Answer
    listed: bool
    """Whether the action was in the list of admissible ones."""


@dataclass(frozen=True, slots=True)
class Episode:
    """What a policy did in the task of one seed, and what it saw."""

    seed: int
    policy: str
    first: Answer
    turns: tuple[PlayedTurn, ...]

    @property
    def actions(self) -> tuple[str, ...]:
        """All actions from the reset on."""
        return tuple(turn.action for turn in self.turns)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers to them."""
        return tuple(turn.answer for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Fault:
    """A call that raised or outran its limit while episodes were played."""

    seed: int
    actions: tuple[str, ...]
    """The last one is at fault; none: the reset is."""
    error: Exception

    @property
    def hung(self) -> bool:
        """True where it outran its limit."""
        return isinstance(self.error, DeadlineExceededError)


@dataclass(slots=True)
class Player:
    """Makes instances of one environment, and plays in them."""

    spec: "registry.EnvSpec"
    kwargs: Mapping[str, Any]
    seeds: range
    steps: int
    """Actions of an episode at most."""
    patience_s: float
    """Limit of a call for which the environment declares no deadline."""
    episodes: list[Episode] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _made: list[TextEnv] = field(default_factory=list)

    def make(self, bare: bool = False) -> TextEnv:
        """A new instance; a `bare` one is as its entry point gives it."""
        make = registry.make_bare if bare else registry.make
        env = make(self.spec.id, **self.kwargs)
        self._made.append(env)
        return env

    def adopt(self, env: TextEnv) -> TextEnv:
        """Have an instance closed in the end."""
        self._made.append(env)
        return env

    def close(self) -> None:
        """Close all instances."""
        while self._made:
            self.drop(self._made[-1])

    def drop(self, env: TextEnv) -> None:
        """Close an instance that is not used any more, whatever state it is in."""
        self._made.remove(env)
        with contextlib.suppress(Exception):
            call_within(env.close, _CLOSE_S)

    def limit_s(self, env: TextEnv) -> float:
        """What a step may take."""
        return env.step_deadline_s if is_deadline(env.step_deadline_s) else self.patience_s

    def reset(self, env: TextEnv, seed: int) -> Answer:
        limit_s = env.reset_deadline_s if is_deadline(env.reset_deadline_s) else 4 * self.patience_s
        return read_reset(env, call_within(lambda: env.reset(seed=seed), limit_s))

    def step(self, env: TextEnv, action: str) -> Answer:
        return read_step(env, call_within(lambda: env.step(action), self.limit_s(env)))

    def restore(self, env: TextEnv, snapshot: Any) -> None:
        call_within(lambda: env.restore(snapshot), 4 * self.patience_s)

    def bring(self, env: TextEnv, episode: Episode, turns: int) -> None:
        """Play the first turns of an episode again."""
        self.reset(env, episode.seed)
        self.go_on(env, episode.actions[:turns])

    def go_on(self, env: TextEnv, actions: tuple[str, ...]) -> list[Answer]:
        """The answers to actions, up to the end of the episode."""

        def play() -> list[Answer]:
            answers: list[Answer] = []
            for action in actions:
                answers.append(read_step(env, env.step(action)))
                if answers[-1].ended:
                    break
            return answers

        return call_within(play, self.limit_s(env) * max(1, len(actions)))

    def look(self, env: TextEnv) -> str:
        """What can be told of the present state without changing it."""
        lines = [f"signature {signature_of(env)}"]
        if self.spec.abilities.admissible:
            lines += env.admissible_actions()
        return "\n".join(lines)

    def record(self) -> None:
        """Play the episodes: each seed by chance, and by the expert where there is one."""
        env = self.make()
        for seed in self.seeds:
            for policy in ("random", "expert") if self.spec.abilities.expert else ("random",):
                if not self._record(env, seed, policy):
                    self.drop(env)
                    env = self.make()

    def _record(self, env: TextEnv, seed: int, policy: str) -> bool:
        """Play one episode; False where the instance is at fault."""
        rng = np.random.default_rng([seed, self.steps])
        actions: list[str] = []
        turns: list[PlayedTurn] = []
        try:
            first = self.reset(env, seed)
        except EnvsError:
            raise
        except Exception as error:
            self.faults.append(Fault(seed, (), error))
            return False
        try:
            while len(turns) < self.steps and not (turns and turns[-1].answer.ended):
                action, listed = self._choose(env, policy, rng)
                actions.append(action)
                turns.append(PlayedTurn(action, self.step(env, action), listed))
        except Exception as error:
            self.faults.append(Fault(seed, tuple(actions), error))
        self.episodes.append(Episode(seed, policy, first, tuple(turns)))
        return len(actions) == len(turns)

    def _choose(self, env: TextEnv, policy: str, rng: np.random.Generator) -> tuple[str, bool]:
        if policy == "expert":
            return env.expert_action(), False
        if rng.random() < 0.1:
            return IMPOSSIBLE, False
        if not self.spec.abilities.admissible:
            env.action_space.seed(int(rng.integers(2**31)))
            return env.action_space.sample(), False
        actions = env.admissible_actions()
        if not actions:
            raise AbilityError("the list of admissible actions is empty before the episode has ended")
        return actions[int(rng.integers(len(actions)))], True


def is_deadline(seconds: object) -> TypeGuard[float]:
    """Whether something is a number of seconds above 0."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf


def cuts(episode: Episode) -> list[int]:
    """Numbers of turns after which an episode is forked: the start, a third, two thirds, and before the last turn."""
    length = len(episode.turns)
    return sorted({0, length // 3, 2 * length // 3, length - 1}) if length else []
