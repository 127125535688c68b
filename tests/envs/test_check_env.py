"""Each check passes in a sound world, and each can fail: one fault is found by one check, with what shows it, and by no other."""

import os
from collections.abc import Iterator
from typing import Any

import broken_worlds as worlds
import gymnasium as gym
import pytest
from uncopied_world import UncopiedEnv

import envs
from envs import Abilities, CheckReport, EnvironmentArgumentError, ForkKind, UnknownEnvironmentError, registry
from envs.answer import Answer
from envs.checking import fork_checks
from envs.checking.check_env import CHECKS
from envs.checking.report import CounterExample, Verdict, shown

ID = "tests/World-v0"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    registry._SPECS.pop(ID, None)
    gym.registry.pop(ID, None)
    worlds.Stubborn.released.set()
    while worlds.OpeningFiles.files:
        os.close(worlds.OpeningFiles.files.pop())


def check(world: Any, abilities: Abilities = worlds.SOUND, *, seeds: int = 2, steps: int = 8, patience_s: float = 2.0) -> CheckReport:
    envs.register_env(ID, world, abilities=abilities, max_turns=20)
    return envs.check_env(ID, seeds=seeds, steps=steps, patience_s=patience_s)


def verdicts(report: CheckReport, verdict: Verdict) -> set[str]:
    return {result.name for result in report.results if result.verdict is verdict}


# Sound worlds

NO_FORKS = {"restore", "restore often", "travel", "children", "memory"}


@pytest.mark.parametrize(
    ("world", "abilities", "skipped"),
    [
        (worlds.Lamps, worlds.SOUND, set()),
        (worlds.Lamps, Abilities(fork="exact", portable=False, admissible=True, expert=True), set()),
        (worlds.Lamps, Abilities(fork="sandbox", admissible=True, expert=True), set()),
        (worlds.BareLamps, Abilities(fork="replay", admissible=True, expert=True), set()),
        (worlds.BareLamps, Abilities(fork="process", admissible=True, expert=True), set()),
        (UncopiedEnv, Abilities(fork="process", admissible=True, expert=True), set()),
        (worlds.BareLamps, Abilities(admissible=True, expert=True), NO_FORKS),
        (worlds.Dicey, Abilities(fork="exact", deterministic=False), {"same seed", "children", "different states"}),
        (worlds.GivenUp, worlds.SOUND, set()),
        (worlds.unpicklable, worlds.SOUND, set()),
    ],
)
def test_what_holds_passes(world, abilities, skipped):
    report = check(world, abilities, seeds=1 if abilities.fork is ForkKind.PROCESS else 2)
    assert report.passed, str(report)
    assert verdicts(report, Verdict.SKIPPED) == skipped
    assert [result.name for result in report.results] == list(CHECKS)
    assert all(result.tried and result.seconds >= 0 and result.counter_example is None for result in report.results)


def test_the_household_passes():
    report = envs.check_env("branchwise/Household-v0", seeds=2, steps=20, split="valid_unseen")
    assert report.passed and not verdicts(report, Verdict.SKIPPED), str(report)


# One fault each

FAULTS = [
    ("gymnasium", worlds.Unseeded, "AssertionError: Expects the random number generator to have been generated"),
    ("plays", worlds.Raising, "LookupError: no such action"),
    ("plays", worlds.Boundless, "AnswerError: step() gave the reward nan; a reward is a finite number"),
    ("abilities", worlds.Overlisting, "admissible_actions() lists 'look', which is not valid"),
    ("abilities", worlds.Unsorted, "admissible_actions() is not sorted, or names an action twice"),
    ("same seed", worlds.Remembering, "the observation of a reset with the same seed differs again in one instance"),
    ("same seed", worlds.Unordered, "the observation of a reset with the same seed differs in another process"),
    ("restore", worlds.Forgetful, "the state after a restore is another one"),
    ("restore often", worlds.Aliasing, "the state in a state that is restored after the original has moved on is another one"),
    ("travel", worlds.Unpackable, "a snapshot cannot be packed: "),
    ("children", worlds.Shared, "differs beside a sibling that acts otherwise"),
    ("memory", worlds.Hoarding, "bytes that"),
    ("memory", worlds.OpeningFiles, "open files are left of"),
    ("equal states", worlds.Counting, "an action that is not valid changes the signature"),
    ("equal states", worlds.Hashing, "the signature of the same state differs, in another process"),
    ("equal states", worlds.Fickle, "the signature of the same state differs, asked for again"),
    ("different states", worlds.Overlooking, "two states have the signature"),
    ("deadline", worlds.Hanging, "step gives no answer within 0.3 s, and no step_deadline_s is declared"),
    ("deadline", worlds.Soon, "step_deadline_s is inf; it must be None or a number of seconds above 0"),
    ("deadline", worlds.Clinging, "close() raises after a step was given up: RuntimeError: still at work"),
]


@pytest.mark.parametrize(("name", "world", "what"), FAULTS, ids=[world.__name__ for _, world, _ in FAULTS])
def test_a_fault_is_found_by_its_check_alone(name, world, what):
    report = check(world, patience_s=0.3 if name == "deadline" else 2.0, steps=12 if name == "abilities" else 8)
    assert [result.name for result in report.failures] == [name], str(report)
    assert not verdicts(report, Verdict.SKIPPED) and not report.passed
    example = report.failures[0].counter_example
    assert example is not None and what in example.what


def test_every_check_has_a_fault_that_it_finds():
    assert {name for name, _, _ in FAULTS} == set(CHECKS)


@pytest.mark.slow
def test_a_step_that_does_not_end_when_told_to_is_found():
    worlds.Stubborn.released.clear()
    try:
        report = check(worlds.Stubborn, seeds=1)
    finally:
        worlds.Stubborn.released.set()
    assert [result.name for result in report.failures] == ["deadline"], str(report)
    assert "step goes on after its deadline" in report.failures[0].tried


@pytest.mark.parametrize(
    ("abilities", "what"),
    [
        (Abilities(fork="exact", admissible=True), "expert_action() answers, but the ability is not declared"),
        (Abilities(fork="exact", expert=True, admissible=True, signature=False), "state_signature() answers, but the ability is not"),
        (Abilities(admissible=True, expert=True), "snapshot() answers, but the ability is not declared"),
    ],
)
def test_an_ability_that_is_not_declared_is_found(abilities, what):
    report = check(worlds.Lamps, abilities)
    assert [result.name for result in report.failures] == ["abilities"] and what in report.failures[0].tried


def test_an_ability_that_is_declared_and_missing_is_found():
    report = check(worlds.Dicey, Abilities(fork="exact", deterministic=False, admissible=True))
    failed = {result.name: result.tried for result in report.failures}
    assert failed["abilities"].startswith("admissible_actions() is declared, but raises: Dicey has no list")


def test_a_replay_that_comes_out_otherwise_is_found_by_the_fork_manager():
    report = check(lambda max_turns=20: UncopiedEnv(max_turns, drift=True), Abilities(fork="replay", admissible=True, expert=True))
    failed = {result.name: result.tried for result in report.failures}
    assert "same seed" in failed and "ForkDivergedError: replay differs at reset: observation was" in failed["restore often"]


# What is shown


def test_a_counter_example_says_what_to_type_and_what_differed():
    report = check(worlds.Forgetful)
    example = report.failures[0].counter_example
    assert example is not None and example.seed == 0
    assert any(line.startswith("- signature") for line in example.diff()) and any(line.startswith("+ signature") for line in example.diff())
    env = worlds.Forgetful()
    env.reset(seed=example.seed)
    for action in example.actions:
        env.step(action)
    before = env.state_signature()
    env.restore(env.snapshot())
    assert env.state_signature() != before, "it can be reproduced by hand"
    text = str(report)
    assert "failed   restore: " in text and f"seed: {example.seed}\nactions: {list(example.actions)}" in text


def test_answers_are_compared_line_by_line():
    one = Answer("a\nb", 0.0, False, False, True, False, "s")
    two = Answer("a\nc", 1.0, True, False, False, True, "s")
    assert shown(two) == "a\nc\n[reward 1, terminated, success, invalid]\n[signature s]"
    example = CounterExample("x", 1, ("go",), shown(one), shown(two))
    assert example.diff() == [
        "  a", "- b", "- [reward 0]", "+ c", "+ [reward 1, terminated, success, invalid]", "  [signature s]",
    ]  # fmt: skip
    assert CounterExample("x").diff() == [] and str(CounterExample("x")) == "x"


def test_what_cannot_be_checked_is_an_error():
    with pytest.raises(UnknownEnvironmentError, match="did you mean branchwise/Household-v0"):
        envs.check_env("branchwise/Houshold-v0")
    for wrong in ({"seeds": 0}, {"steps": 0}, {"seeds": True}, {"steps": 2.5}):
        with pytest.raises(EnvironmentArgumentError, match="must be a whole number of at least 1"):
            envs.check_env("branchwise/Household-v0", **wrong)
    with pytest.raises(EnvironmentArgumentError, match="has no split 'test'"):
        envs.check_env("branchwise/Household-v0", split="test")


@pytest.mark.parametrize(("count", "held", "copies"), [(60, 60 * 300, 4), (60, 60 * 1100, 1), (60, 60 * 700, 2), (10, 0, 20), (0, 0, 0)])
def test_snapshots_are_kept_until_they_hold_enough_or_are_many(count, held, copies):
    assert fork_checks._copies(count, held) == copies
