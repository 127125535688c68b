import re
from collections import OrderedDict, deque
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from counter_world import CounterEnv, TiredEnv, UnforkableEnv, grow, record

import envs
from tree_rollout.errors import DigestError, TreeRolloutError
from tree_rollout.exact_states import ExactStates, sample_tasks
from tree_rollout.signature_report import report_signature
from tree_rollout.signatures import make_signature
from tree_rollout.state_digest import state_digest
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: Any


class Thing:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def ring(*values: int) -> list[Any]:
    made: list[Any] = list(values)
    made.append(made)
    return made


def drawn(count: int) -> np.random.Generator:
    rng = np.random.default_rng(0)
    rng.random(count)
    return rng


DIFFERENT: list[Any] = [
    None, True, 1, 1.0, "1", b"1", (1,), [1], {1}, {1: 1}, {1: None}, [], (), {}, "", [[1], 1], [1, [1]], 0.0, -0.0, 1 + 0j,
    Colour.RED, Colour.BLUE, Pair(1, 2), (1, 2), Pair(2, 1), Thing(a=1), Thing(a=2), Thing(b=1), Slotted(1), Slotted(2),
    np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1)), np.float64(1), deque([1]), deque([2]), bytearray(b"1"), OrderedDict(a=1),
    OrderedDict(a=2),
    ring(1), ring(1, 2), drawn(1), drawn(2), int, float, np.random.default_rng, re.compile("a"), Path("a"), frozenset({1}),
]  # fmt: skip


def test_values_that_differ_have_digests_that_differ() -> None:
    digests = [state_digest(value) for value in DIFFERENT]
    assert len(set(digests)) == len(DIFFERENT)
    assert all(re.fullmatch("[0-9a-f]{32}", digest) for digest in digests)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({f"{n}" for n in range(50)}, {f"{n}" for n in reversed(range(50))}),
        ([[1, 2]] * 2, [[1, 2], [1, 2]]),
        (Thing(a=[1], b="x"), Thing(b="x", a=[1])),
        (ring(1, 2), ring(1, 2)),
        (drawn(3), drawn(3)),
        (np.arange(3.0), np.array([0.0, 1.0, 2.0])),
        (float("nan"), -float("nan")),
        ("".join(["a", "b"]), "ab"),
    ],
)
def test_values_that_are_equal_have_equal_digests(one: Any, other: Any) -> None:
    assert state_digest(one) == state_digest(other)
    assert state_digest([one, other]) == state_digest([other, one])


@pytest.mark.parametrize("value", [lambda: 0, [(n for n in "ab")], Thing(inner=lambda: 0)], ids=["function", "generator", "within"])
def test_what_cannot_be_read_has_no_digest(value: Any) -> None:
    with pytest.raises(DigestError, match=r"cannot be compared by content.*leave it out of the snapshot") as caught:
        state_digest(value)
    assert isinstance(caught.value, TreeRolloutError) and caught.value.exit_code == 2


def test_a_value_without_end_has_no_digest() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(DigestError, match="nested too deeply"):
        state_digest(nested)


def test_a_method_belongs_to_its_object() -> None:
    assert state_digest([1].count) != state_digest([2].count)
    assert state_digest(len) == state_digest(len)


# ---------------------------------------------------------------------- replays


class HidingEnv(CounterEnv):
    """Takes all numbers for one state."""

    def state_signature(self) -> str:
        return "somewhere"


class NumberedEnv(CounterEnv):
    """Its snapshots hold how many were taken."""

    def snapshot(self) -> Any:
        self.taken = getattr(self, "taken", 0) + 1
        return *super().snapshot(), self.taken

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot[:3])


class PaidEnv(CounterEnv):
    """Not deterministic: after ten steps of the instance, each pays more than it did."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, reward + max(0, len(self.executed) - 10), *rest  # pyright: ignore


class OpenEnv(CounterEnv):
    """Its snapshots hold a function."""

    def snapshot(self) -> Any:
        return *super().snapshot(), lambda: 0

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot[:3])


@pytest.fixture
def made_as(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What replays find under the id of a tree."""
    return lambda env: monkeypatch.setattr(envs, "make", lambda id, **arguments: env)


def grown(env: CounterEnv, seed: int = 0) -> TrajectoryTree:
    return grow(env, seed, np.random.default_rng(seed), roots=3, forks=4)


def test_every_turn_that_replays_has_its_digest(made_as: Any) -> None:
    made_as(CounterEnv())
    tree, exact = grown(CounterEnv()), ExactStates()
    assert exact.of(tree) == {index: state_digest(turn.snapshot) for index, turn in enumerate(tree.turns)}
    assert (exact.trouble, exact.turns, exact.known) == (None, len(tree.turns), len(tree.turns))


def test_a_signature_that_hides_something_is_found_out(made_as: Any) -> None:
    made_as(HidingEnv())
    tree = grown(HidingEnv())
    digests = {(0, turn): digest for turn, digest in ExactStates().of(tree).items()}
    report = report_signature([tree], make_signature("env"), exact=digests)
    assert report.replayed is not None and report.replayed.collided > 2
    (_, one), (_, other) = report.replayed.example or ((0, 0), (0, 0))
    assert tree.turns[one].snapshot != tree.turns[other].snapshot and tree.turns[one].state == tree.turns[other].state


def test_failed_rollouts_are_not_executed(made_as: Any) -> None:
    env = CounterEnv()
    made_as(env)
    tree = grown(CounterEnv())
    tree.turns[-1].stop_reason = StopReason.ENV_ERROR
    exact = ExactStates()
    assert len(tree.turns) - 1 not in exact.of(tree)
    assert exact.turns < len(tree.turns)
    roots = grow(CounterEnv(), 0, np.random.default_rng(1), roots=2, forks=0)
    roots.turns[-1].stop_reason = StopReason.ENV_ERROR
    first = roots.children(-1)[1]
    executed = len(env.executed)
    assert list(exact.of(roots)) == list(range(first))
    assert len(env.executed) - executed == first - 1, "the last turn's answer is not needed"


def test_a_turn_that_is_answered_otherwise_ends_its_branch(made_as: Any) -> None:
    exact = ExactStates()
    made_as(CounterEnv())
    exact.of(grown(CounterEnv()))
    made_as(PaidEnv())
    tree = record(CounterEnv(), 0, "lllll", "ldllll", "lll")
    assert sorted(exact.of(tree)) == list(range(13)), "the answer to turn 12 is the eleventh"
    assert exact.trouble is None


def test_what_does_not_replay_is_not_known(made_as: Any) -> None:
    tree = grown(CounterEnv())
    first = ExactStates()
    made_as(CounterEnv())
    first.of(tree)
    made_as(TiredEnv(patience=10))
    tired = first.of(grown(CounterEnv(), seed=1))
    assert first.trouble is None and 0 < len(tired) < len(grown(CounterEnv(), seed=1).turns)
    assert first.known == len(tree.turns) + len(tired) < first.turns


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (NumberedEnv(), "executing turn 0 twice gives different snapshots"),
        (TiredEnv(patience=30), "twice gives different snapshots"),
        (OpenEnv(), "DigestError: .* cannot be compared by content"),
        (UnforkableEnv(), "AbilityError: UnforkableEnv takes no snapshots"),
    ],
)
def test_trouble_is_said_and_ends_it(env: CounterEnv, words: str, made_as: Any) -> None:
    made_as(env)
    exact = ExactStates()
    assert exact.of(grown(CounterEnv())) == {}
    assert exact.trouble is not None and re.search(words, exact.trouble)
    made_as(CounterEnv())
    assert exact.of(grown(CounterEnv())) == {} and exact.turns == 0


def test_an_environment_that_is_not_registered_is_trouble() -> None:
    exact = ExactStates()
    assert exact.of(grown(CounterEnv())) == {}
    assert exact.trouble is not None and "no environment is called 'test/Counter-v0'" in exact.trouble


def test_tasks_are_drawn_within_the_budget() -> None:
    turns = {f"task {number}": 10 for number in range(20)}
    drawn_tasks = sample_tasks(turns, 55, seed=0)
    assert len(drawn_tasks) == 5 and drawn_tasks == sample_tasks(dict(reversed(turns.items())), 55, seed=0)
    assert drawn_tasks != sample_tasks(turns, 55, seed=1)
    assert len(sample_tasks(turns, 3, seed=0)) == 1, "the first one in any case"
    assert sample_tasks(turns, 0, seed=0) == set() == sample_tasks({}, 10, seed=0)
    assert sample_tasks(turns, 10_000, seed=0) == set(turns)
