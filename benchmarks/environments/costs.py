"""Costs of one environment: resets, steps, questions about a state, and forks; what it does not declare to be able to do has no row."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import envs
from benchmarks.environments.episode import halfway, outcomes, play
from benchmarks.environments.forks import fork_rows
from benchmarks.environments.scale import Scale
from benchmarks.environments.subject import Subject
from benchmarks.environments.timing import call_us, reset_ms, steps_per_s
from benchmarks.report import Row, factor, measured

UNPLAYED = 1_000_000
"""The first of the seeds whose tasks are only started, so that no environment has them at hand from what was played before."""
_LONG_S = 0.02
"""A reset that takes this long is its own measurement."""
_AGAIN = 20
"""Resets of the same task behind one measurement, where they are short."""


def measure(spec: envs.EnvSpec, scale: Scale) -> Iterator[Row]:
    """All rows of one environment."""
    subject = Subject(spec, envs.make(spec.id), scale)
    try:
        yield from reset_rows(subject)
        if spec.abilities.expert or spec.abilities.admissible:
            policy = envs.ExpertPolicy() if spec.abilities.expert else envs.RandomPolicy(np.random.default_rng(0))
            subject = replace(subject, episodes=[play(subject.env, seed, policy) for seed in scale.up_to(scale.episodes)])
            yield from step_rows(subject)
            yield from inquiry_rows(subject)
            if spec.abilities.fork is not envs.ForkKind.NONE:
                yield from fork_rows(subject)
    finally:
        subject.env.close()
    if spec.abilities.expert:
        for split in spec.splits[: scale.splits]:
            yield from expert_rows(spec, split, scale)


def reset_rows(subject: Subject) -> Iterator[Row]:
    """A task that is new, and the same once more."""
    env, scale, clock = subject.env, subject.scale, subject.clock
    began = time.perf_counter()
    env.reset(seed=UNPLAYED - 1)
    together = 1 if time.perf_counter() - began > _LONG_S else scale.episodes
    firsts = (UNPLAYED + repeat * together for repeat in scale.up_to(scale.repeats))
    new = [reset_ms(env, range(first, first + together), clock) for first in firsts]
    yield measured(f"{subject.name}: reset", new, "ms", better="lower", note="one task generated")
    env.reset(seed=0)
    again = [call_us(lambda: env.reset(seed=0), _AGAIN, clock) / 1e3 for _ in scale.up_to(scale.repeats)]
    note = "the same task once more, as the rollouts of a group start"
    yield measured(f"{subject.name}: reset again", again, "ms", better="lower", note=note)


def step_rows(subject: Subject) -> Iterator[Row]:
    """Steps alone, and with the expert where there is one."""
    env, episodes, scale, clock = subject.env, subject.episodes, subject.scale, subject.clock
    expert = subject.spec.abilities.expert
    note = f"step() alone; actions of {'the expert' if expert else 'random play'}"
    rates = [steps_per_s(env, episodes, clock=clock) for _ in scale.up_to(scale.repeats)]
    yield measured(f"{subject.name}: step", rates, "steps/s", better="higher", note=note)
    if expert:
        both = [steps_per_s(env, episodes, envs.ExpertPolicy(), clock) for _ in scale.up_to(scale.repeats)]
        yield measured(f"{subject.name}: step with expert", both, "steps/s", better="higher", note="expert_action() and step()")


def inquiry_rows(subject: Subject) -> Iterator[Row]:
    """What it costs to ask about a state, in the middle of episodes."""
    can = subject.spec.abilities
    asked = {"state_signature": can.signature, "admissible_actions": can.admissible, "expert_action": can.expert}
    for method in (name for name, declared in asked.items() if declared):
        samples = []
        for repeat in subject.scale.up_to(subject.scale.repeats):
            halfway(subject.env, subject.episode(repeat))
            samples.append(call_us(getattr(subject.env, method), clock=subject.clock))
        yield measured(f"{subject.name}: {method}", samples, "us", better="lower", note="in the middle of an episode")


def expert_rows(spec: envs.EnvSpec, split: str, scale: Scale) -> Iterator[Row]:
    """How often the expert solves a task of the split, and in how many turns.

    Random play, whose episodes are longer, is left out where the expert's already took the time.
    """
    name = spec.id.partition("/")[2]
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
