"""What an environment costs: each registered one is stepped, reset and forked, and its expert is counted on fixed tasks of every split.

Actions are chosen before the clock starts, so that a row says what it times and nothing else. An environment that runs inside this
process never waits, so its clock is the process's CPU time: seconds of one core, whatever else the machine does. One that works in
another program, a browser or Java, is waited for: its clock is the wall's. Every row ends after its time, with fewer tasks or repeats
where those are slow.
"""

import copy
import gc
import math
import pickle
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Literal

import numpy as np

import envs
from benchmarks.report import Row, arguments, factor, measured, report
from trainer.statistics import Proportion

Clock = Callable[[], float]
"""Seconds from some moment on."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured, at most."""

    repeats: int
    """Measurements behind a median."""
    episodes: int
    """Episodes that one measurement steps through."""
    tasks: int
    """Tasks of each split that the expert, and chance, are counted on."""
    seconds: float = math.inf
    """Of the wall's clock, after which a row begins no further task or repeat; there is always one."""
    splits: int | None = None
    """Splits that the expert is counted on, the first ones; all by default."""

    def up_to(self, most: int) -> Iterator[int]:
        """Count up to `most`, or to where the time is over."""
        end = time.perf_counter() + self.seconds
        for number in range(most):
            if number and time.perf_counter() > end:
                return
            yield number


ENGINE = "branchwise/ALFWorld-v0"
FULL = Scale(repeats=60, episodes=60, tasks=1000, seconds=30)
QUICK = Scale(repeats=15, episodes=30, tasks=100, seconds=0.1, splits=1)
_PAIRS = 200
"""Calls between two looks at the clock, for what takes less than it resolves."""
_LONG_US = 20_000
"""A single call that takes this long is its own measurement."""
_ATOMS = (ModuleType, type, FunctionType, BuiltinFunctionType, str, bytes, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Episode:
    """One task and the actions that are taken in it."""

    seed: int
    actions: tuple[str, ...]


def main(given: Sequence[str] | None = None) -> int:
    """Measure all registered environments and print the table."""
    options = arguments(__doc__ or "", given)
    scale = QUICK if options.quick else FULL
    rows = [row for spec in envs.specs() for row in measure(spec, scale)]
    rows += list(against_the_engine(rows))
    report("envs", rows, quick=options.quick, out=options.out)
    return 0


def measure(spec: envs.EnvSpec, scale: Scale) -> Iterator[Row]:
    """All rows of one environment; what it does not declare to be able to do has none."""
    env = envs.make(spec.id)
    name = spec.id.partition("/")[2]
    clock = time.perf_counter if works_elsewhere(spec) else time.process_time
    yield measured(f"{name}: reset", reset_ms(env, scale, clock), "ms", better="lower", note="one task generated")
    if spec.abilities.expert or spec.abilities.admissible:
        yield from rows_of_play(spec, name, env, scale, clock)
    env.close()
    if spec.abilities.expert:
        for split in spec.splits[: scale.splits]:
            yield from expert_rows(spec, name, split, scale)


def rows_of_play(spec: envs.EnvSpec, name: str, env: envs.TextEnv, scale: Scale, clock: Clock) -> Iterator[Row]:
    """Rows that are measured on the expert's episodes, or on those of random play."""
    policy = envs.ExpertPolicy() if spec.abilities.expert else envs.RandomPolicy(np.random.default_rng(0))
    episodes = [play(env, seed, policy) for seed in scale.up_to(scale.episodes)]
    source = f"actions of {'the expert' if spec.abilities.expert else 'random play'}"
    rates = [steps_per_s(env, episodes, clock=clock) for _ in scale.up_to(scale.repeats)]
    yield measured(f"{name}: step", rates, "steps/s", better="higher", note=f"step() alone; {source}")
    if spec.abilities.expert:
        both = [steps_per_s(env, episodes, policy, clock) for _ in scale.up_to(scale.repeats)]
        yield measured(f"{name}: step with expert", both, "steps/s", better="higher", note="expert_action() and step()")
    yield from inquiry_rows(spec, name, env, episodes, scale, clock)
    if spec.abilities.fork is not envs.ForkKind.NONE:
        yield from fork_rows(spec, name, env, episodes, scale, clock)


def works_elsewhere(spec: envs.EnvSpec) -> bool:
    """Whether the environment works in another program, whose CPU time is not this process's."""
    return spec.abilities.fork is envs.ForkKind.PROCESS or any(isinstance(need, envs.BrowserNeed | envs.ProgramNeed) for need in spec.needs)


def against_the_engine(rows: Sequence[Row]) -> Iterator[Row]:
    """The household against the real engine, from the rows of both."""
    found = {row.name: row for row in rows}
    ours, theirs = "Household-v0", ENGINE.partition("/")[2]
    compared: tuple[tuple[str, Literal["higher", "lower"]], ...] = (
        ("reset", "lower"),
        ("step", "higher"),
        ("step with expert", "higher"),
        ("snapshot + restore, against replay", "lower"),
        ("snapshot", "lower"),
    )
    for what, better in compared:
        mine, other = found.get(f"{ours}: {what}"), found.get(f"{theirs}: {what}")
        if mine is not None and other is not None:
            name = f"{ours} against {theirs}: {what.partition(',')[0]}"
            yield Row(name, mine.value, mine.unit, other.value, factor(mine.value, other.value, better), "baseline: the real engine")


def play(env: envs.TextEnv, seed: int, policy: envs.ScriptedPolicy) -> Episode:
    """The actions of a policy in one task, to the end of the episode."""
    env.reset(seed=seed)
    actions: list[str] = []
    ended = False
    while not ended:
        actions.append(policy(env))
        _, _, terminated, truncated, _ = env.step(actions[-1])
        ended = terminated or truncated
    return Episode(seed, tuple(actions))


def reset_ms(env: envs.TextEnv, scale: Scale, clock: Clock = time.process_time) -> list[float]:
    """Milliseconds of a reset, each the mean over the tasks."""
    samples = []
    for _ in scale.up_to(scale.repeats):
        start, tasks = clock(), 0
        for tasks in scale.up_to(scale.episodes):
            env.reset(seed=tasks)
        samples.append((clock() - start) / (tasks + 1) * 1e3)
    return samples


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


def halfway(env: envs.TextEnv, episode: Episode) -> tuple[str, ...]:
    """Bring the environment to the middle of an episode; the actions that led there."""
    actions = episode.actions[: len(episode.actions) // 2]
    env.reset(seed=episode.seed)
    for action in actions:
        env.step(action)
    return actions


def call_us(call: Callable[[], Any], pairs: int = _PAIRS, clock: Clock = time.process_time) -> float:
    """Microseconds of one call, the mean of `pairs`; of the first one alone where that takes long."""
    start = time.perf_counter(), clock()
    call()
    first_us = (clock() - start[1]) * 1e6
    if (time.perf_counter() - start[0]) * 1e6 > _LONG_US:
        return first_us
    began = clock()
    for _ in range(pairs):
        call()
    return (clock() - began) / pairs * 1e6


def inquiry_rows(
    spec: envs.EnvSpec, name: str, env: envs.TextEnv, episodes: Sequence[Episode], scale: Scale, clock: Clock = time.process_time
) -> Iterator[Row]:
    """What it costs to ask about a state, in the middle of episodes."""
    asked = {
        "state_signature": spec.abilities.signature,
        "admissible_actions": spec.abilities.admissible,
        "expert_action": spec.abilities.expert,
    }
    for method, declared in asked.items():
        if not declared:
            continue
        samples = []
        for repeat in scale.up_to(scale.repeats):
            halfway(env, episodes[repeat % len(episodes)])
            samples.append(call_us(getattr(env, method), clock=clock))
        yield measured(f"{name}: {method}", samples, "us", better="lower", note="in the middle of an episode")


def fork_rows(
    spec: envs.EnvSpec, name: str, env: envs.TextEnv, episodes: Sequence[Episode], scale: Scale, clock: Clock = time.process_time
) -> Iterator[Row]:
    """A fork against the ways that need no `snapshot`: a deep copy, where there is one, and executing the actions so far again.

    One that does not copy itself, or works elsewhere, may put off its work until it is needed: there the next action follows, after forks
    and replays. An engine outside this interpreter has no deep copy either, but forks at once.
    """
    elsewhere = works_elsewhere(spec)
    at_once = spec.abilities.copies_itself and not elsewhere
    copied = at_once and spec.abilities.portable
    shared = in_both(env, envs.make(spec.id)) if copied else {}
    ours, copies, replays = [], [], []
    for repeat in scale.up_to(scale.repeats):
        episode = episodes[repeat % len(episodes)]
        actions = halfway(env, episode)
        snapshot, following = env.snapshot(), () if at_once else episode.actions[len(actions) : len(actions) + 1]

        def forked(snapshot: Any = snapshot, following: tuple[str, ...] = following) -> None:
            env.restore(snapshot)
            for action in following:
                env.step(action)

        def replayed(episode: Episode = episode, following: tuple[str, ...] = following) -> None:
            halfway(env, episode)
            for action in following:
                env.step(action)

        if following:
            env.step(following[0])
        ours.append(call_us(lambda: env.restore(env.snapshot()), clock=clock) if at_once else call_us(forked, 3, clock))
        if copied:
            copies.append(call_us(lambda: copy.deepcopy(env, dict(shared)), 3))
        replays.append(call_us(replayed, 3, clock))
    title = f"{name}: snapshot + restore"
    if copied:
        note = "baseline: copy.deepcopy(env), without what instances share"
        yield measured(f"{title}, against a deep copy", ours, "us", better="lower", baseline=copies, note=note)
    yield measured(f"{title}, against replay", ours, "us", better="lower", baseline=replays, note="baseline: reset and half the actions")
    if elsewhere:  # What this process holds of another program's answers would count as the snapshots'.
        sizes = pickled_bytes(env, episodes, scale)
        yield measured(f"{name}: snapshot", sizes, "bytes", better="lower", note="pickled, in the middle of an episode")
        return
    held = kept_bytes(env, episodes, env.snapshot)
    whole = kept_bytes(env, episodes, lambda: copy.deepcopy(env, dict(shared))) if copied else None
    note = f"one kept per turn of {len(episodes)} episodes, what they share included"
    note += "; baseline: copy.deepcopy(env), without what instances share" if copied else "; a deep copy is not possible"
    yield Row(f"{name}: snapshot", held, "bytes", whole, factor(held, whole, "lower"), note)


def in_both(one: envs.TextEnv, other: envs.TextEnv) -> dict[int, Any]:
    """By id what two instances share, such as a corpus: the memo of a deep copy that leaves it where it is."""
    reached = []
    for env in (one, other):
        seen, waiting = {}, [env]
        while waiting:
            thing: Any = waiting.pop()
            if id(thing) not in seen and not isinstance(thing, _ATOMS):
                seen[id(thing)] = thing
                waiting += gc.get_referents(thing)
        reached.append(seen)
    return {key: thing for key, thing in reached[0].items() if key in reached[1]}


def pickled_bytes(env: envs.TextEnv, episodes: Sequence[Episode], scale: Scale) -> list[float]:
    """Bytes of a snapshot as it travels to another process, in the middle of each episode."""
    sizes = []
    for number in scale.up_to(len(episodes)):
        halfway(env, episodes[number])
        sizes.append(float(len(pickle.dumps(env.snapshot()))))
    return sizes


def kept_bytes(env: envs.TextEnv, episodes: Sequence[Episode], keep: Callable[[], Any]) -> float:
    """Bytes of memory that each kept state costs when one is kept at every turn of the episodes."""
    kept: list[Any] = []
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for episode in episodes:
        env.reset(seed=episode.seed)
        for action in episode.actions:
            kept.append(keep())
            env.step(action)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(kept)


def expert_rows(spec: envs.EnvSpec, name: str, split: str, scale: Scale) -> Iterator[Row]:
    """How often the expert solves a task of the split, and in how many turns.

    Random play, whose episodes are longer, is left out where the expert's already took the time.
    """
    env = envs.make(spec.id, split=split)
    solved, lengths = outcomes(env, envs.ExpertPolicy(), scale)
    compared = spec.abilities.admissible and solved.trials == scale.tasks
    chance = outcomes(env, envs.RandomPolicy(np.random.default_rng(0)), scale)[0] if compared else None
    env.close()
    rate = 100 * solved.rate
    note = f"{solved.successes}/{solved.trials} tasks of {spec.max_turns} turns, {solved}"
    against = None if chance is None else 100 * chance.rate
    if chance is not None:
        note += f"; baseline: random play, {chance.successes}/{chance.trials}"
    yield Row(f"{name}: expert success, {split}", rate, "%", against, factor(rate, against, "higher"), note)
    q50, q95 = (int(quantile) for quantile in np.quantile(lengths, (0.5, 0.95), method="inverted_cdf"))
    spread = f"mean of {solved.trials} tasks; median {q50}, 95 % within {q95}, longest {max(lengths)}"
    yield Row(f"{name}: expert episode length, {split}", float(np.mean(lengths)), "turns", note=spread)


def outcomes(env: envs.TextEnv, policy: envs.ScriptedPolicy, scale: Scale) -> tuple[Proportion, list[int]]:
    """How many of the tasks with seeds from 0 on a policy solves, and the turns it took in each."""
    solved, lengths = 0, []
    for seed in scale.up_to(scale.tasks):
        env.reset(seed=seed)
        ended, turns, info = False, 0, {}
        while not ended:
            _, _, terminated, truncated, info = env.step(policy(env))
            ended, turns = terminated or truncated, turns + 1
        solved += bool(info["success"])
        lengths.append(turns)
    return Proportion(solved, len(lengths)), lengths


if __name__ == "__main__":
    sys.exit(main())
