"""An environment inside this process is timed by its CPU time, one that works in another program by the wall's clock.

The first never waits: seconds of one core are what it costs, whatever else the machine does. A browser or Java is waited for.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import envs
from benchmarks.environments.episode import Episode

Clock = Callable[[], float]
"""Seconds from some moment on."""
_CALLS = 200
"""Calls between two looks at the clock, for what takes less than it resolves."""
_LONG_US = 20_000
"""A single call that takes this long is its own measurement."""


def works_elsewhere(spec: envs.EnvSpec) -> bool:
    """Whether the environment works in another program, whose CPU time is not this process's."""
    return spec.abilities.fork is envs.ForkKind.PROCESS or any(isinstance(need, envs.BrowserNeed | envs.ProgramNeed) for need in spec.needs)


def reset_ms(env: envs.TextEnv, seeds: Sequence[int], clock: Clock = time.process_time) -> float:
    """Milliseconds of a reset, the mean over the seeds."""
    start = clock()
    for seed in seeds:
        env.reset(seed=seed)
    return (clock() - start) / len(seeds) * 1e3


def steps_per_s(
    env: envs.TextEnv, episodes: Sequence[Episode], policy: envs.ScriptedPolicy | None = None, clock: Clock = time.process_time
) -> float:
    """Steps per second through all episodes, resets left out; with a `policy`, it is asked before each step, and its time counts."""
    seconds, steps = 0.0, 0
    for episode in episodes:
        env.reset(seed=episode.seed)
        start = clock()
        if policy is None:
            for action in episode.actions:
                env.step(action)
        else:
            for _ in episode.actions:
                env.step(policy(env))
        seconds += clock() - start
        steps += len(episode.actions)
    return steps / seconds


def call_us(call: Callable[[], Any], calls: int = _CALLS, clock: Clock = time.process_time) -> float:
    """Microseconds of one call, the mean of `calls`; of the first one alone where that takes long."""
    start = time.perf_counter(), clock()
    call()
    first_us = (clock() - start[1]) * 1e6
    if (time.perf_counter() - start[0]) * 1e6 > _LONG_US:
        return first_us
    began = clock()
    for _ in range(calls):
        call()
    return (clock() - began) / calls * 1e6
