"""A fork is compared with the ways that need no `snapshot`: a deep copy, where there is one, and executing the actions so far again.

An environment that does not copy itself, or works elsewhere, may put off its work until it is needed: there the next action follows, after
forks and replays. An engine outside this interpreter has no deep copy either, but forks at once.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import envs
from benchmarks.environments.episode import Episode, halfway
from benchmarks.environments.memory import in_both, kept_bytes, pickled_bytes
from benchmarks.environments.subject import Subject
from benchmarks.environments.timing import call_us
from benchmarks.report import Row, factor, measured

_SLOW_CALLS = 3
"""Calls behind one measurement of what takes milliseconds."""


@dataclass(frozen=True, slots=True)
class _Times:
    """Microseconds, a measurement each."""

    forks: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)
    replays: list[float] = field(default_factory=list)


def fork_rows(subject: Subject) -> Iterator[Row]:
    """Time of a fork, and size of a snapshot."""
    can = subject.spec.abilities
    shared = _shared(subject) if can.copies_itself and can.portable and not subject.elsewhere else None
    times = _times(subject, shared)
    title = f"{subject.name}: snapshot + restore"
    if times.copies:
        note = "baseline: copy.deepcopy(env), without what instances share"
        yield measured(f"{title}, against a deep copy", times.forks, "us", better="lower", baseline=times.copies, note=note)
    note = "baseline: reset and half the actions"
    yield measured(f"{title}, against replay", times.forks, "us", better="lower", baseline=times.replays, note=note)
    yield _size_row(subject, shared)


def _shared(subject: Subject) -> Mapping[int, Any]:
    other = envs.make(subject.spec.id)
    try:
        return in_both(subject.env, other)
    finally:
        other.close()


def _times(subject: Subject, shared: Mapping[int, Any] | None) -> _Times:
    env, clock, times = subject.env, subject.clock, _Times()
    at_once = subject.spec.abilities.copies_itself and not subject.elsewhere
    for repeat in subject.scale.up_to(subject.scale.repeats):
        episode = subject.episode(repeat)
        done = len(halfway(env, episode))
        following = () if at_once else episode.actions[done : done + 1]
        snapshot = env.snapshot()
        if at_once:
            times.forks.append(call_us(lambda: env.restore(env.snapshot()), clock=clock))
        else:
            _go_on(env, following)  # The original moves on: a fork that finds it where it was would have nothing to do.
            times.forks.append(call_us(lambda kept=snapshot, then=following: _fork(env, kept, then), _SLOW_CALLS, clock))
        if shared is not None:
            times.copies.append(call_us(lambda: copy.deepcopy(env, dict(shared)), _SLOW_CALLS))
        times.replays.append(call_us(lambda whole=episode, then=following: _replay(env, whole, then), _SLOW_CALLS, clock))
    return times


def _fork(env: envs.TextEnv, snapshot: Any, following: tuple[str, ...]) -> None:
    env.restore(snapshot)
    _go_on(env, following)


def _replay(env: envs.TextEnv, episode: Episode, following: tuple[str, ...]) -> None:
    halfway(env, episode)
    _go_on(env, following)


def _go_on(env: envs.TextEnv, actions: tuple[str, ...]) -> None:
    for action in actions:
        env.step(action)


def _size_row(subject: Subject, shared: Mapping[int, Any] | None) -> Row:
    env, episodes, name = subject.env, subject.episodes, f"{subject.name}: snapshot"
    if subject.elsewhere:  # What this process holds of another program's answers would count as the snapshots'.
        sizes = pickled_bytes(env, episodes, subject.scale)
        return measured(name, sizes, "bytes", better="lower", note="pickled, in the middle of an episode")
    held = kept_bytes(env, episodes, env.snapshot)
    whole = kept_bytes(env, episodes, lambda: copy.deepcopy(env, dict(shared))) if shared is not None else None
    note = f"one kept per turn of {len(episodes)} episodes, what they share included"
    note += "; a deep copy is not possible" if shared is None else "; baseline: copy.deepcopy(env), without what instances share"
    return Row(name, held, "bytes", whole, factor(held, whole, "lower"), note)
