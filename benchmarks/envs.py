"""What an environment costs: each registered one is stepped, reset and forked, and its expert is counted on fixed tasks of every split.

Actions are chosen before the clock starts, so that a row says what it times and nothing else. An environment that runs inside this
process never waits, so its clock is the process's CPU time: seconds of one core, whatever else the machine does. One in a browser waits
for it: its clock is the wall's, on fewer episodes, and it has no deep copy to be held against.
"""

import copy
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np

import envs
from benchmarks.report import Row, arguments, factor, measured, report
from envs.household.env import HouseholdEnv
from trainer.statistics import Proportion

Clock = Callable[[], float]
"""Seconds from some moment on."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    repeats: int
    """Measurements behind a median."""
    episodes: int
    """Episodes that one measurement steps through."""
    tasks: int
    """Tasks of each split that the expert, and chance, are counted on."""

    def limited(self, most: "Scale") -> "Scale":
        """No more than the other."""
        return Scale(*(min(own, limit) for own, limit in zip(astuple(self), astuple(most), strict=True)))


FULL = Scale(repeats=60, episodes=60, tasks=1000)
QUICK = Scale(repeats=15, episodes=30, tasks=150)
ENGINE = "branchwise/ALFWorld-v0"
ENGINE_FULL = Scale(repeats=8, episodes=4, tasks=60)
"""Of the real engine, which takes a second for what the household takes a millisecond for."""
ENGINE_QUICK = Scale(repeats=3, episodes=2, tasks=3)
IN_A_BROWSER = Scale(repeats=3, episodes=3, tasks=5)
"""At most, where each step waits for a browser."""
DRAWS, QUICK_DRAWS = 100_000, 10_000
"""Tasks of the household that are compared with each other."""
UNPLAYED = 1_000_000
"""The first of the seeds whose tasks are only started, so that no environment has them at hand from what was played before."""
_PAIRS = 200
"""Calls between two looks at the clock, for what takes less than it resolves."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One task and the actions that are taken in it."""

    seed: int
    actions: tuple[str, ...]


def main(given: Sequence[str] | None = None) -> int:
    """Measure all registered environments and print the table."""
    options = arguments(__doc__ or "", given)
    scale, engine_scale = (QUICK, ENGINE_QUICK) if options.quick else (FULL, ENGINE_FULL)
    rows = [row for spec in envs.specs() for row in measure(spec, engine_scale if spec.id == ENGINE else scale)]
    rows += list(against_the_engine(rows))
    rows.append(distinct_tasks(QUICK_DRAWS if options.quick else DRAWS))
    report("envs", rows, quick=options.quick, out=options.out)
    return 0


def measure(spec: envs.EnvSpec, scale: Scale) -> Iterator[Row]:
    """All rows of one environment; what it does not declare to be able to do has none."""
    env = envs.make(spec.id)
    name = spec.id.partition("/")[2]
    waits = any(isinstance(need, envs.BrowserNeed) for need in spec.needs)
    scale, clock = (scale.limited(IN_A_BROWSER), time.perf_counter) if waits else (scale, time.process_time)
    seeds = range(scale.episodes)
    fresh = [range(start, start + scale.episodes) for start in range(UNPLAYED, UNPLAYED + scale.repeats * scale.episodes, scale.episodes)]
    yield measured(f"{name}: reset", reset_ms(env, fresh, clock), "ms", better="lower", note="one task generated")
    again = reset_ms(env, [range(1)] * (scale.repeats + 1), clock)[1:]
    yield measured(f"{name}: reset again", again, "ms", better="lower", note="the same task once more, as the rollouts of a group start")
    if not (spec.abilities.expert or spec.abilities.admissible):
        return
    policy = envs.ExpertPolicy() if spec.abilities.expert else envs.RandomPolicy(np.random.default_rng(0))
    episodes = [play(env, seed, policy) for seed in seeds]
    source = f"actions of {'the expert' if spec.abilities.expert else 'random play'}"
    rates = [steps_per_s(env, episodes, clock=clock) for _ in range(scale.repeats)]
    yield measured(f"{name}: step", rates, "steps/s", better="higher", note=f"step() alone; {source}")
    if spec.abilities.expert:
        both = [steps_per_s(env, episodes, policy, clock) for _ in range(scale.repeats)]
        yield measured(f"{name}: step with expert", both, "steps/s", better="higher", note="expert_action() and step()")
    yield from inquiry_rows(spec, name, env, episodes, scale)
    if spec.abilities.copies_itself:
        yield from fork_rows(spec, name, env, episodes, scale, clock, deep=not waits)
    if spec.abilities.expert:
        for split in spec.splits:
            yield from expert_rows(spec, name, split, scale.tasks)


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


def distinct_tasks(draws: int) -> Row:
    """How many tasks the household's seeds from 0 on give; those that differ in the numbers of things alone, or in the wording, are one."""
    env = HouseholdEnv()
    found, start = set(), time.process_time()
    for seed in range(draws):
        env.reset(seed=seed)
        task = env.snapshot()[0].task
        goal = task.goal.type, task.goal.object, task.goal.target
        found.add(hash((task.layout, goal, tuple(sorted(zip(task.kinds, task.start, strict=True))))))
    note = f"of {draws} seeds, in {time.process_time() - start:.0f} s: another goal, other furniture, or things in other places"
    return Row("Household-v0: distinct tasks", float(len(found)), "tasks", note=note)


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


def reset_ms(env: envs.TextEnv, series: Sequence[Sequence[int]], clock: Clock = time.process_time) -> list[float]:
    """Milliseconds of a reset, for each series of seeds the mean over them."""
    samples = []
    for seeds in series:
        start = clock()
        for seed in seeds:
            env.reset(seed=seed)
        samples.append((clock() - start) / len(seeds) * 1e3)
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
    """Microseconds of one call, the mean of `pairs`."""
    start = clock()
    for _ in range(pairs):
        call()
    return (clock() - start) / pairs * 1e6


def inquiry_rows(spec: envs.EnvSpec, name: str, env: envs.TextEnv, episodes: Sequence[Episode], scale: Scale) -> Iterator[Row]:
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
        for repeat in range(scale.repeats):
            halfway(env, episodes[repeat % len(episodes)])
            samples.append(call_us(getattr(env, method)))
        yield measured(f"{name}: {method}", samples, "us", better="lower", note="in the middle of an episode")


def fork_rows(
    spec: envs.EnvSpec,
    name: str,
    env: envs.TextEnv,
    episodes: Sequence[Episode],
    scale: Scale,
    clock: Clock = time.process_time,
    deep: bool = True,
) -> Iterator[Row]:
    """An exact fork against the two ways that need no `snapshot`: a deep copy, where there is one, and executing the actions so far again.

    One that waits, in a browser, puts off the page until it is needed: there the next action follows, after forks and replays (`deep` is
    false). An engine outside this interpreter has no deep copy either, but forks at once.
    """
    copied = deep and spec.abilities.portable
    ours, copies, replays = [], [], []
    for repeat in range(scale.repeats):
        episode = episodes[repeat % len(episodes)]
        actions = halfway(env, episode)
        snapshot, following = env.snapshot(), () if deep else episode.actions[len(actions) : len(actions) + 1]

        def forked(snapshot: Any = snapshot, following: tuple[str, ...] = following) -> None:
            env.restore(snapshot)
            for action in following:
                env.step(action)

        def replayed(episode: Episode = episode, following: tuple[str, ...] = following) -> None:
            halfway(env, episode)
            for action in following:
                env.step(action)

        ours.append(call_us(lambda: env.restore(env.snapshot()), clock=clock) if deep else call_us(forked, 3, clock))
        if copied:
            copies.append(call_us(lambda: copy.deepcopy(env), 3))
        replays.append(call_us(replayed, 3, clock))
        assert halfway(env, episode) == actions
    title = f"{name}: snapshot + restore"
    if copied:
        yield measured(f"{title}, against a deep copy", ours, "us", better="lower", baseline=copies, note="baseline: copy.deepcopy(env)")
    yield measured(f"{title}, against replay", ours, "us", better="lower", baseline=replays, note="baseline: reset and half the actions")
    if not deep:
        return  # What this process holds of a browser's answers would count as the snapshots'.
    held = kept_bytes(env, episodes, env.snapshot)
    whole = kept_bytes(env, episodes, lambda: copy.deepcopy(env)) if copied else None
    note = f"one kept per turn of {len(episodes)} episodes, what they share included"
    note += "; baseline: copy.deepcopy(env)" if copied else "; a deep copy is not possible"
    yield Row(f"{name}: snapshot", held, "bytes", whole, factor(held, whole, "lower"), note)


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


def expert_rows(spec: envs.EnvSpec, name: str, split: str, tasks: int) -> Iterator[Row]:
    """How often the expert solves a task of the split, and in how many turns."""
    env = envs.make(spec.id, split=split)
    solved, lengths = outcomes(env, envs.ExpertPolicy(), tasks)
    chance = outcomes(env, envs.RandomPolicy(np.random.default_rng(0)), tasks)[0] if spec.abilities.admissible else None
    rate = 100 * solved.rate
    note = f"{solved.successes}/{tasks} tasks of {spec.max_turns} turns, {solved}"
    against = None if chance is None else 100 * chance.rate
    if chance is not None:
        note += f"; baseline: random play, {chance.successes}/{tasks}"
    yield Row(f"{name}: expert success, {split}", rate, "%", against, factor(rate, against, "higher"), note)
    q50, q95 = (int(quantile) for quantile in np.quantile(lengths, (0.5, 0.95), method="inverted_cdf"))
    spread = f"mean of {tasks} tasks; median {q50}, 95 % within {q95}, longest {max(lengths)}"
    yield Row(f"{name}: expert episode length, {split}", float(np.mean(lengths)), "turns", note=spread)


def outcomes(env: envs.TextEnv, policy: envs.ScriptedPolicy, tasks: int) -> tuple[Proportion, list[int]]:
    """How many of the tasks with seeds from 0 on a policy solves, and the turns it took in each."""
    solved, lengths = 0, []
    for seed in range(tasks):
        env.reset(seed=seed)
        ended, turns, info = False, 0, {}
        while not ended:
            _, _, terminated, truncated, info = env.step(policy(env))
            ended, turns = terminated or truncated, turns + 1
        solved += bool(info["success"])
        lengths.append(turns)
    return Proportion(solved, tasks), lengths


if __name__ == "__main__":
    sys.exit(main())
