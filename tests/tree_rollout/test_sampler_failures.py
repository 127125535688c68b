import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from counter_world import CounterEnv
from sampler_world import Fault, Maker, RandomWorld, agent, engine, frozen, grow, settings, spin, tasks

from agents.engine import Sample, SampleRequest
from envs.errors import AbilityError
from tree_rollout.errors import EngineAnswerError
from tree_rollout.sampler import Sampler
from tree_rollout.stepping import EnvContractError, step
from tree_rollout.stop_reason import StopReason


def crash(env: RandomWorld, action: str) -> None:
    """Task 1 crashes in its third step, in every rollout that gets there."""
    if env.task == 1 and env.turn == 2:
        raise ZeroDivisionError("the oven is cold")


def test_a_crash_is_recorded_and_leaves_the_other_trees_as_they_were():
    maker = Maker(crash)
    broken, sound = grow(range(4), maker=maker), grow(range(4))
    assert [frozen(broken.trees[i]) for i in (0, 2, 3)] == [frozen(sound.trees[i]) for i in (0, 2, 3)]
    failed = [turn for turn in broken.trees[1].turns if turn.stop_reason == StopReason.ENV_ERROR]
    assert failed and len(failed) == broken.stop_reasons[StopReason.ENV_ERROR] == len(broken.failures)
    assert all(turn.mask_T.any() and turn.action and turn.reward == 0 and turn.next_state == "" for turn in failed)
    failure = broken.failures[0]
    assert (failure.task.seed, failure.depth, failure.message) == (1, 2, "ZeroDivisionError: the oven is cold")
    assert all(env.closed for env in maker.made)
    assert sum(broken.stop_reasons.values()) == broken.rollouts


def test_a_broken_instance_is_closed_and_never_used_again():
    """The first rollout of each task that gets to its third step breaks its instance."""
    broken: dict[int | None, RandomWorld] = {}

    def fault(env: RandomWorld, action: str) -> None:
        assert env not in broken.values(), "used again"
        if env.turn == 2 and env.task not in broken:
            broken[env.task] = env
            raise ZeroDivisionError

    report = grow(range(12), maker=Maker(fault))
    assert report.branches > 12 and {failure.message for failure in report.failures} == {"ZeroDivisionError: "}
    assert len(broken) == len(report.failures) > 6


def test_no_fork_starts_where_only_crashes_lie():
    def always(env: RandomWorld, action: str) -> None:
        raise ZeroDivisionError

    report = grow([1], maker=Maker(always))
    assert report.branches == 0 and report.stop_reasons == {StopReason.ENV_ERROR: 3}


def test_a_crash_in_reset_fails_all_roots_of_that_tree_only():
    def refuse(env: RandomWorld) -> None:
        if env.np_random_seed == 2:  # The seed of this reset.
            raise OSError("no rooms left")

    by = engine()
    report = grow(range(4), by, Maker(reset_fault=refuse))
    assert [len(tree.turns) for tree in report.trees].count(3) >= 1
    assert [(turn.parent, len(turn.ids_T), turn.stop_reason) for turn in report.trees[2].turns] == [(-1, 0, StopReason.ENV_ERROR)] * 3
    assert {failure.task.seed for failure in report.failures} == {2} and not by.sequences
    assert [frozen(report.trees[i]) for i in (0, 1, 3)] == [frozen(grow(range(4)).trees[i]) for i in (0, 1, 3)]


@pytest.mark.parametrize(
    "answer",
    [
        ("text", float("nan"), False, False, {}),
        ("text", "much", False, False, {}),
        (b"bytes", 0.0, False, False, {}),
        ("lone \ud800", 0.0, False, False, {}),
        None,
    ],
)
def test_an_answer_that_breaks_the_contract_is_a_failure(answer: Any):
    report = grow([0], maker=Maker(step=lambda action: answer))
    assert report.stop_reasons == {StopReason.ENV_ERROR: 3}
    assert all(turn.reward == 0 for turn in report.trees[0].turns)


@pytest.mark.parametrize("hang", [spin, lambda env, action: time.sleep(1.5)])
def test_a_step_beyond_its_deadline_ends_its_rollout_alone(hang: Fault):
    def fault(env: RandomWorld, action: str) -> None:
        if env.task == 1 and env.turn == 1:
            hang(env, action)

    maker = Maker(fault, step_deadline_s=0.1)
    report = grow(range(3), maker=maker, roots=2, forks=1)
    timed_out = report.stop_reasons[StopReason.STEP_TIMEOUT]
    assert timed_out >= 1 and report.stop_reasons[StopReason.ENV_ERROR] == 0
    assert {failure.task.seed for failure in report.failures} == {1}
    assert "no answer within 0.1 s" in report.failures[0].message
    assert [frozen(report.trees[i]) for i in (0, 2)] == [frozen(grow(range(3), roots=2, forks=1).trees[i]) for i in (0, 2)]
    assert all(env.closed for env in maker.made)


def test_a_prompt_that_does_not_fit_is_recorded_without_tokens():
    by = engine(max_length=3)
    report = grow(range(2), by)
    assert report.stop_reasons == {StopReason.CONTEXT_LENGTH: 6} and not report.failures and not by.batches
    assert [turn.observation[:6] for turn in report.trees[1].turns] == ["task 1"] * 3
    assert all(turn.state and not len(turn.ids_T) for turn in report.trees[1].turns)


@pytest.mark.parametrize("method", ["reset", "snapshot", "restore"])
def test_a_fault_that_the_user_can_mend_is_raised_and_nothing_is_left_behind(method: str):
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AbilityError("this world cannot do that")

    by = engine()
    made: list[RandomWorld] = []

    def make(env_id: str) -> RandomWorld:
        made.append(RandomWorld())
        if len(made) == 3:
            setattr(made[-1], method, refuse)
        return made[-1]

    with Sampler(by, make, agent(), settings()) as sampler, pytest.raises(AbilityError):
        sampler.sample(tasks([0] if method == "restore" else range(4)), run_seed=0)
    assert not by.sequences and len(made) >= 3 and all(env.closed for env in made)


def test_a_fault_of_the_engine_is_raised_and_frees_all_sequences():
    by = engine()
    generate = by.generate

    def lose_one(requests: Sequence[SampleRequest]) -> list[Sample]:
        return generate(requests)[: -1 if len(by.batches) == 3 else None]

    by.generate = lose_one
    with pytest.raises(EngineAnswerError, match="answered"):
        grow(range(4), by)
    assert not by.sequences


def test_an_engine_that_holds_other_tokens_than_recorded_is_found_out():
    by = engine()
    generate = by.generate

    def retokenise(requests: Sequence[SampleRequest]) -> list[Sample]:
        samples = generate(requests)
        by.sequences[requests[0].handle].append((0, False))
        return samples

    by.generate = retokenise
    with pytest.raises(EngineAnswerError, match=r"holds \d+ tokens of a rollout that has"):
        grow([0], by)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (("seen", "1", False, False, {}), "a reward is a finite number"),
        (("seen", 1.0, False, False, None), "info of type NoneType"),
        (("seen", 1.0, False, {}), "must give five values"),
    ],
)
def test_a_wrong_answer_is_named(answer: tuple, said: str):
    env = CounterEnv()
    env.reset(seed=0)
    env.step = lambda action: answer  # type: ignore[method-assign]
    with pytest.raises(EnvContractError, match=said):
        step(env, "up")


def test_a_step_that_ends_the_program_ends_its_rollout_alone():
    env = CounterEnv()
    env.reset(seed=0)
    env.step = lambda action: sys.exit(0)  # type: ignore[method-assign]
    with pytest.raises(EnvContractError, match=r"sys\.exit\(0\)"):
        step(env, "up")
