"""Checks of whole episodes: they can be played, they follow from the seed alone, and the declared abilities are there."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.utils import env_checker

from envs.abilities import ForkKind
from envs.checking.player import Episode, Player
from envs.checking.report import NothingToCheckError, fail
from envs.deadline import call_within
from envs.errors import AbilityError, EnvironmentArgumentError
from envs.forking.fork_server import shared_server
from envs.forking.forked_env import ForkedEnv
from envs.registry import construction
from envs.text_env import TextEnv


def gymnasium(player: Player) -> str:
    """Gymnasium's own checker has nothing to say."""
    env: Any = gym.make(player.spec.id, **player.kwargs).unwrapped
    player.adopt(env)
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            call_within(lambda: env_checker.check_env(env), 20 * player.limit_s(env))
        except TimeoutError as hang:
            raise NothingToCheckError("a step hangs; see the check of deadlines") from hang
        except Exception as error:
            fail(f"{type(error).__name__}: {error}")
    for remark in remarks:
        if issubclass(remark.category, UserWarning):
            fail(str(remark.message))
    return "gymnasium.utils.env_checker.check_env"


def plays(player: Player) -> str:
    """Episodes can be played: nothing raises, and every answer is what the contract says."""
    for fault in player.faults:
        if not fault.hung:
            fail(f"{type(fault.error).__name__}: {fault.error}", fault.seed, fault.actions)
    turns = sum(len(episode.turns) for episode in player.episodes)
    return f"{len(player.episodes)} episodes of {turns} turns by {_names(player)}"


def abilities(player: Player) -> str:
    """What is declared can be called and gives what it should; what is not declared is an `AbilityError`."""
    declared, env = player.spec.abilities, player.make()
    player.reset(env, player.seeds[0])
    asked: dict[str, tuple[bool, Callable[[], object], type]] = {
        "snapshot": (declared.fork is not ForkKind.NONE, env.snapshot, object),
        "state_signature": (declared.signature, env.state_signature, str),
        "admissible_actions": (declared.admissible, env.admissible_actions, list),
        "expert_action": (declared.expert, env.expert_action, str),
    }
    for method, (present, call, kind) in asked.items():
        try:
            given = call()
        except AbilityError as error:
            if present:
                fail(f"{method}() is declared, but raises: {error}", player.seeds[0])
            continue
        if not present:
            fail(f"{method}() answers, but the ability is not declared", player.seeds[0])
        if not isinstance(given, kind):
            fail(f"{method}() gives a {type(given).__name__}; it must be {kind.__name__}", player.seeds[0])
    if declared.admissible:
        _listed_actions(player, env)
    return ", ".join(declared.words)


def same_seed(player: Player) -> str:
    """The same seed and actions give the same episode: again in an instance, in a new one, and in another process."""
    if not player.spec.abilities.deterministic:
        raise NothingToCheckError("it is declared not to be deterministic")
    used, outside = player.make(), elsewhere(player)
    for episode in (*player.episodes, *reversed(player.episodes)):
        _repeat(player, used, episode, "again in one instance")
    for episode in player.episodes[:2]:
        _repeat(player, player.make(), episode, "in a new instance")
        if outside is not None:
            _repeat(player, outside, episode, "in another process")
    return f"{len(player.episodes)} episodes again, and in new instances{'' if outside is None else ', in two processes'}"


def _repeat(player: Player, env: TextEnv, episode: Episode, place: str) -> None:
    again = player.reset(env, episode.seed)
    if (name := episode.first.difference(again, ignore=("signature",))) is not None:
        fail(f"the {name} of a reset with the same seed differs {place}", episode.seed, (), episode.first, again)
    answers = player.go_on(env, episode.actions)
    for index, (turn, answer) in enumerate(zip(episode.turns, answers, strict=False)):
        if (name := turn.answer.difference(answer, ignore=("signature",))) is not None:
            actions = episode.actions[: index + 1]
            fail(f"the {name} after the same seed and actions differs {place}", episode.seed, actions, turn.answer, answer)


def elsewhere(player: Player) -> TextEnv | None:
    """The environment in a process in which sets have another order; None where it cannot be made in another process."""
    if not hasattr(os, "fork"):
        return None
    factory, arguments = construction(player.spec, player.kwargs)
    try:
        env = ForkedEnv(factory, arguments, shared_server(hash_seed=2 if os.environ.get("PYTHONHASHSEED") == "1" else 1))
    except EnvironmentArgumentError:
        return None
    env.step_deadline_s = env.reset_deadline_s = None  # The player limits every call itself.
    return player.adopt(env)


def _listed_actions(player: Player, env: TextEnv) -> None:
    listed = env.admissible_actions()
    if listed != sorted(set(listed)):
        fail("admissible_actions() is not sorted, or names an action twice", player.seeds[0], (), sorted(set(listed)), listed)
    for episode in player.episodes:
        for index, turn in enumerate(episode.turns):
            if turn.listed and not turn.answer.valid:
                fail(f"admissible_actions() lists {turn.action!r}, which is not valid", episode.seed, episode.actions[: index + 1])


def _names(player: Player) -> str:
    return " and ".join(sorted({episode.policy for episode in player.episodes}, reverse=True)) + " play"
