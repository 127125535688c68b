"""Checks of forks: what is restored is the state that was saved, as often as wanted, in whatever instance, and nobody else notices."""

import gc
import math
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envs.abilities import ForkKind
from envs.answer import Answer
from envs.checking.player import Episode, Player, cuts
from envs.checking.report import NothingToCheckError, fail
from envs.deadline import call_within
from envs.text_env import TextEnv

_AHEAD = 12
"""Actions that are played after a fork."""
_SLACK_B = 32
"""Bytes per snapshot that may stay behind: what Python itself rounds up."""
_NOISE_B = 2**16
"""Bytes that may stay behind where snapshots are few, because each is a process or a sandbox, which also holds a file open."""
_MOST_KEPT = 200
"""Snapshots that are held at once, as many of each state, unless fewer hold `_ENOUGH_B`; fewer too where each is a process."""
_ENOUGH_B = 2**16
"""Bytes that snapshots hold at once, beside which nothing counts that Python keeps for itself: what stays behind of fewer shows as well."""


def restore(player: Player) -> str:
    """Restored at once, the same actions give the answers that they give without a fork."""
    _needs_forks(player)
    env, forks = player.make(), 0
    for episode in player.episodes:
        for cut in cuts(episode):
            player.bring(env, episode, cut)
            before = player.look(env)
            player.restore(env, env.snapshot())
            _same_look(player, env, before, episode, cut, "after a restore")
            if player.spec.abilities.deterministic:
                expected = list(episode.answers[cut : cut + _AHEAD])
                _same_future(player, env, expected, episode, cut, "after a restore")
            forks += 1
    return f"{forks} forks, {_AHEAD} actions after each"


def restore_often(player: Player) -> str:
    """A snapshot gives the same state every time, also after the original has moved on, and after another episode."""
    _needs_forks(player)
    env, forks = player.make(), 0
    for episode in player.episodes:
        for cut in cuts(episode):
            player.bring(env, episode, cut)
            snapshot = env.snapshot()
            player.restore(env, snapshot)
            before, expected = player.look(env), player.go_on(env, episode.actions[cut : cut + _AHEAD])
            for moment in ("after the original has moved on", "a second time", "after another episode"):
                if moment == "after another episode":
                    player.reset(env, episode.seed + 1)
                player.restore(env, snapshot)
                _same_look(player, env, before, episode, cut, f"in a state that is restored {moment}")
                if player.spec.abilities.deterministic:
                    _same_future(player, env, expected, episode, cut, f"in a state that is restored {moment}")
                forks += 1
    return f"{forks} restores"


def travel(player: Player) -> str:
    """A snapshot can be restored in another instance, and after it has been packed for another process."""
    _needs_forks(player)
    _needs_travel(player)
    env, forks = player.make(), 0
    for episode in player.episodes:
        for cut in cuts(episode)[1:3]:
            player.bring(env, episode, cut)
            snapshot, before = env.snapshot(), player.look(env)
            packed = _packed(snapshot, episode, cut)
            expected = player.go_on(env, episode.actions[cut : cut + _AHEAD])
            for place, saved in (("in another instance", snapshot), ("in another instance, packed", pickle.loads(packed))):
                other = player.make()
                player.restore(other, saved)
                _same_look(player, other, before, episode, cut, f"in a state that is restored {place}")
                if player.spec.abilities.deterministic:
                    _same_future(player, other, expected, episode, cut, f"in a state that is restored {place}")
                player.drop(other)
                forks += 1
    return f"{forks} restores in other instances, half of them packed"


def children(player: Player) -> str:
    """What a child does shows neither in its parent nor in its siblings."""
    _needs_forks(player)
    _needs_travel(player)
    if not player.spec.abilities.deterministic:
        raise NothingToCheckError("it is not deterministic, so what a sibling sees cannot be told from chance")
    parent, one, two = (player.make() for _ in range(3))
    families = 0
    for episode in player.episodes:
        for cut in cuts(episode)[:3]:
            player.bring(parent, episode, cut)
            player.restore(one, parent.snapshot())
            player.restore(two, parent.snapshot())
            ahead = episode.actions[cut : cut + _AHEAD]
            other = _other_actions(player, episode, cut)
            answers = []
            for action, different in zip(ahead, other, strict=True):
                if not (answers and answers[-1].ended):
                    answers.append(player.step(one, action))
                    player.step(two, different)
            _same_answers(answers, list(episode.answers[cut:]), episode, cut, "beside a sibling that acts otherwise")
            expected = list(episode.answers[cut : cut + _AHEAD])
            _same_future(player, parent, expected, episode, cut, "in a parent after its children have acted")
            families += 1
    return f"{families} families of a parent and two children"


def memory(player: Player) -> str:
    """Snapshots that are let go free their memory, and whatever else they hold."""
    _needs_forks(player)
    env = player.make()
    costly = player.spec.abilities.fork in (ForkKind.PROCESS, ForkKind.SANDBOX)
    kept: list[Any] = []

    episodes = player.episodes[: 1 if costly else None]
    limit_s = player.limit_s(env) * (sum(len(episode.turns) for episode in episodes) + 1)

    def fill(copies: int) -> None:
        for episode in episodes:
            env.reset(seed=episode.seed)
            for action in episode.actions:
                kept.extend(env.snapshot() for _ in range(copies))
                env.step(action)

    def left_behind(copies: int) -> tuple[int, int, int]:
        return _left_behind(lambda: call_within(lambda: fill(copies), limit_s * copies), kept)

    held, left, files = left_behind(1)
    if not costly and (copies := _copies(len(kept), held)) > 1:
        held, left, files = left_behind(copies)
    if files > 0:
        fail(f"{files} open files are left of {len(kept)} snapshots that were let go")
    if left > max(held // 2, _NOISE_B if costly else _SLACK_B * len(kept)):
        fail(f"of {held} bytes that {len(kept)} snapshots held, {left} are still held after they were let go")
    count = len(kept)
    return f"{count} snapshots of {held / max(count, 1):.0f} bytes let go"


def _copies(count: int, held: int) -> int:
    """How many snapshots are taken of each state so that enough is held, where `count` snapshots, one of each, hold `held` bytes."""
    wanted = min(_MOST_KEPT, math.ceil(count * _ENOUGH_B / max(held, 1)))
    return math.ceil(wanted / max(count, 1))


def _left_behind(fill: Callable[[], None], kept: list[Any]) -> tuple[int, int, int]:
    """Bytes that are held, bytes that stay, and open files that stay, after what `fill` kept is let go; `kept` keeps its length."""
    tracing = tracemalloc.is_tracing()
    held = left = left_files = count = 0
    if not tracing:
        tracemalloc.start()
    try:
        for _ in range(2):  # The first time, caches fill.
            kept.clear()
            gc.collect()
            before, files = tracemalloc.get_traced_memory()[0], _open_files()
            fill()
            count = len(kept)
            held = tracemalloc.get_traced_memory()[0] - before
            kept.clear()
            gc.collect()
            left, left_files = tracemalloc.get_traced_memory()[0] - before, _open_files() - files
    finally:
        if not tracing:
            tracemalloc.stop()
    kept.extend([None] * count)
    return held, left, left_files


def _open_files() -> int:
    """Open files of this program; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def _needs_forks(player: Player) -> None:
    if player.spec.abilities.fork is ForkKind.NONE:
        raise NothingToCheckError("it is declared not to fork")


def _packed(snapshot: Any, episode: Episode, cut: int) -> bytes:
    """A snapshot as it goes to another process."""
    try:
        return pickle.dumps(snapshot)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        fail(f"a snapshot cannot be packed: {error}", episode.seed, episode.actions[:cut])


def _needs_travel(player: Player) -> None:
    can = player.spec.abilities
    if not can.deterministic and not (can.copies_itself and can.portable):
        raise NothingToCheckError("its snapshots are not portable, and what is not deterministic cannot be replayed")


def _other_actions(player: Player, episode: Episode, cut: int) -> tuple[str, ...]:
    """As many actions as follow in the episode, others where there are others."""
    ahead = episode.actions[cut : cut + _AHEAD]
    known = sorted({action for other in player.episodes for action in other.actions})
    return tuple(known[(known.index(action) + 1 + index) % len(known)] for index, action in enumerate(ahead))


def _same_look(player: Player, env: TextEnv, before: str, episode: Episode, cut: int, where: str) -> None:
    now = player.look(env)
    if now != before:
        fail(f"the state {where} is another one", episode.seed, episode.actions[:cut], before, now)


def _same_future(player: Player, env: TextEnv, expected: list[Answer], episode: Episode, cut: int, where: str) -> None:
    _same_answers(player.go_on(env, episode.actions[cut : cut + len(expected)]), expected, episode, cut, where)


def _same_answers(answers: list[Answer], expected: list[Answer], episode: Episode, cut: int, where: str) -> None:
    for index, (got, wanted) in enumerate(zip(answers, expected, strict=False)):
        if (name := wanted.difference(got)) is not None:
            fail(f"the {name} differs {where}", episode.seed, episode.actions[: cut + index + 1], wanted, got)
