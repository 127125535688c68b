import time
from dataclasses import replace

import numpy as np
import pytest
from counter_world import CounterEnv, TiredEnv, UnforkableEnv, grow, make_turn, record

from tree_rollout.replay import Difference, Verdict, replay, shown
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree


@pytest.fixture
def tree() -> TrajectoryTree:
    """Five rollouts, two of them forks."""
    tree = grow(CounterEnv(), 11, np.random.default_rng(4))
    assert len(tree.leaves()) == 5
    return tree


@pytest.mark.parametrize("seed", range(20))
def test_what_was_recorded_replays_exactly_and_each_turn_once(seed):
    tree = grow(CounterEnv(), seed, np.random.default_rng(seed), forks=4)
    env, count = CounterEnv(), len(tree.turns)
    report = replay(tree, env)
    assert str(report) == f"replayed {count}/{count} turns: exact {count}, diverged 0"
    assert report.exact and report.restored and report.first_difference is None
    assert sorted(env.executed) == sorted(turn.action for turn in tree.turns)
    assert [turn.turn for turn in report.turns] == list(range(count))


@pytest.mark.parametrize(("env", "restore"), [(UnforkableEnv(), True), (CounterEnv(), False)])
def test_without_snapshots_every_rollout_is_executed_from_the_start(tree, env, restore):
    report = replay(tree, env, restore=restore)
    assert report.exact and not report.restored and report.count(Verdict.EXACT) == len(tree.turns)
    assert len(env.executed) == sum(len(path) for path in tree.rollouts()) > len(tree.turns)


def test_a_stored_tree_replays(tree, trace):
    (tree_id,) = trace.append([tree], 0)
    with Trace.open(trace.path, readonly=True) as reader:
        assert replay(reader.tree(tree_id), CounterEnv(**tree.env_kwargs)).exact


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("observation", "You see a dragon."),
        ("state", "9/9"),
        ("next_state", "9/9"),
        ("reward", 0.25),
        ("terminated", True),
        ("truncated", True),
        ("valid", None),
        ("success", True),
    ],
)
def test_every_field_is_compared(tree, field, value):
    index = next(index for index, turn in enumerate(tree.turns) if tree.children(index) and index)
    turn = tree.turns[index]
    got = getattr(turn, field)
    expected = (not turn.valid) if value is None else value
    setattr(turn, field, expected)
    report = replay(tree, CounterEnv())
    assert report.first_difference == Difference(index, field, expected, got)
    assert [turn.turn for turn in report.turns if turn.verdict is Verdict.DIVERGED] == [index]
    count = len(tree.turns)
    assert str(report) == (
        f"turn {index}: {field} was {expected!r} and is now {got!r}\nreplayed {count}/{count} turns: exact {count - 1}, diverged 1"
    )


@pytest.mark.parametrize("restore", [True, False])
def test_an_environment_that_is_not_deterministic_is_caught(tree, restore):
    report = replay(tree, TiredEnv(patience=3), restore=restore)
    assert not report.exact
    first = report.first_difference
    assert first is not None and first.field == "observation" and first.got == f"{first.expected} Again."
    assert report.turns[first.turn].differences == (first,)


def test_a_difference_that_shows_only_in_a_second_execution_is_kept():
    tree = record(CounterEnv(), 3, "ldl")
    tree.add(replace(tree.turns[2]))
    assert replay(tree, TiredEnv(patience=3)).exact, "each turn is executed once, before the environment tires"
    report = replay(tree, TiredEnv(patience=3), restore=False)
    assert [turn.verdict is Verdict.DIVERGED for turn in report.turns] == [True, True, False, True]


def test_another_task_diverges_at_its_first_turn(tree):
    tree.seed = 12
    report = replay(tree, CounterEnv())
    assert report.turns[0].verdict is Verdict.DIVERGED
    assert {difference.field for difference in report.turns[0].differences} >= {"observation", "state"}


def test_turns_that_cannot_be_reached_any_more_are_skipped_and_counted(tree):
    """The environment now gives up after two turns, so what follows cannot be executed."""
    report = replay(tree, CounterEnv(limit=2))
    deep = [index for index in range(len(tree.turns)) if len(tree.path(index)) > 2]
    assert [turn.turn for turn in report.turns if turn.verdict is Verdict.SKIPPED] == deep
    assert report.first_difference is not None and report.first_difference.field == "truncated"
    assert str(report).endswith(f", skipped {len(deep)}")


def test_turns_that_failed_when_they_were_recorded_are_not_executed(tree):
    leaf = tree.leaves()[1]
    tree.turns[leaf].stop_reason, tree.turns[leaf].next_state = StopReason.STEP_TIMEOUT, ""
    no_numbers = np.zeros(0, np.float32)
    arrays = {"ids_T": np.zeros(0, np.int32), "mask_T": np.zeros(0, np.bool_), "logprobs_T": no_numbers, "entropies_T": no_numbers}
    crashed = make_turn(-1, "", "", action="", observation="", stop_reason=StopReason.ENV_ERROR, **arrays)
    root = tree.turns[0]
    crowded = make_turn(
        -1, root.state, root.state, action="", observation=root.observation, stop_reason=StopReason.CONTEXT_LENGTH, **arrays
    )
    unsampled = [tree.add(crashed), tree.add(crowded)]
    report = replay(tree, CounterEnv())
    assert [turn.turn for turn in report.turns if turn.verdict is Verdict.SKIPPED] == [leaf, *unsampled]
    count = len(tree.turns)
    assert str(report) == f"replayed {count - 3}/{count} turns: exact {count - 3}, diverged 0, skipped 3"
    tree.turns[leaf].observation = "otherwise"
    assert replay(tree, CounterEnv()).turns[leaf].verdict is Verdict.DIVERGED, "what came before the failure is compared"


class BrittleEnv(CounterEnv):
    """Raises at one step, or hangs there."""

    def __init__(self, step: int, hang: bool = False) -> None:
        super().__init__()
        self.bad, self.hang = step, hang
        self.step_deadline_s = 0.2 if hang else None

    def step(self, action):
        if len(self.executed) == self.bad:
            self.executed.append(action)
            if not self.hang:
                raise OSError("the world ended")
            time.sleep(0.6)
        return super().step(action)


def test_an_environment_that_raises_is_a_difference_and_the_rest_goes_on(tree):
    report = replay(tree, BrittleEnv(step=1))
    assert report.first_difference == Difference(1, "step", "an answer", "OSError: the world ended")
    assert report.count(Verdict.DIVERGED) == 1
    other_root = tree.children(-1)[1]
    assert report.turns[other_root].verdict is Verdict.EXACT


def test_an_environment_that_hangs_is_not_used_any_more(tree):
    report = replay(tree, BrittleEnv(step=2, hang=True))
    assert report.count(Verdict.EXACT) == 2
    assert report.first_difference is not None and "no answer within 0.2 s" in str(report.first_difference)
    assert report.count(Verdict.SKIPPED) == len(tree.turns) - 3


def test_a_reset_that_raises_is_a_difference(tree):
    class NoReset(CounterEnv):
        def reset(self, *, seed=None, options=None):
            raise OSError("no world")

    report = replay(tree, NoReset())
    assert report.turns[0].differences == (Difference(0, "reset", "an observation", "OSError: no world"),)
    assert report.count(Verdict.EXACT) == 0


def test_a_restore_that_brings_back_another_state_is_caught(tree):
    class Forgetful(CounterEnv):
        def restore(self, snapshot):
            super().restore((snapshot[0] + 1, *snapshot[1:]))

    report = replay(tree, Forgetful())
    assert report.first_difference is not None and report.first_difference.field == "state"
    assert len(tree.path(report.first_difference.turn)) > 1
    assert replay(tree, Forgetful(), restore=False).exact


def test_an_empty_tree_replays():
    assert str(replay(TrajectoryTree("test/Counter-v0", 0), CounterEnv())) == "replayed 0/0 turns: exact 0, diverged 0"


def test_a_shortened_value_says_so():
    assert shown("short") == "'short'"
    assert shown("x" * 5000).endswith("... (160 of 5,002 characters)")
