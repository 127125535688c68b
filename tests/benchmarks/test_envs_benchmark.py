"""The benchmark of environments measures all that an environment declares, and nothing that it does not."""

import copy
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

import envs
from benchmarks.envs import Scale, call_us, in_both, kept_bytes, measure, outcomes, play, steps_per_s, works_elsewhere
from envs import registry

TINY = Scale(repeats=2, episodes=3, tasks=4)


class Corridor(envs.TextEnv):
    """Walk to the end; offers random play and no more."""

    def __init__(self, max_turns: int = 30) -> None:
        super().__init__()
        self.at, self.turns, self.max_turns = 0, 0, max_turns

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.turns = 0, 0
        return "A corridor.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.at, self.turns = self.at + (action == "go on"), self.turns + 1
        return "Further.", 0.0, self.at == 3, self.turns == self.max_turns, {"success": self.at == 3}

    def admissible_actions(self) -> list[str]:
        return ["go on", "wait"]


@pytest.fixture
def corridor() -> Iterator[envs.EnvSpec]:
    id = "tests/Corridor-v0"
    yield envs.register_env(id, Corridor, abilities=envs.Abilities(admissible=True, signature=False))
    del registry._SPECS[id], gym.registry[id]


def test_the_household_has_all_rows():
    rows = {row.name.partition(": ")[2]: row for row in measure(envs.spec("branchwise/Household-v0"), TINY)}
    assert set(rows) == {
        *("reset", "step", "step with expert", "state_signature", "admissible_actions", "expert_action", "snapshot"),
        *("snapshot + restore, against a deep copy", "snapshot + restore, against replay"),
        *(f"expert {what}, {split}" for what in ("success", "episode length") for split in ("train", "valid_seen", "valid_unseen")),
    }
    assert all(row.value > 0 and row.note for row in rows.values())
    assert rows["expert success, valid_unseen"].value == 100 and "4/4 tasks of 50 turns" in rows["expert success, valid_unseen"].note
    assert 3 < rows["expert episode length, train"].value < 25
    for name in ("snapshot + restore, against a deep copy", "snapshot + restore, against replay", "snapshot"):
        row = rows[name]
        assert row.baseline is not None and row.ratio is not None and row.ratio == pytest.approx(row.baseline / row.value)


def test_what_is_not_declared_has_no_row(corridor):
    assert [row.name for row in measure(corridor, TINY)] == ["Corridor-v0: reset", "Corridor-v0: step", "Corridor-v0: admissible_actions"]


def test_a_plan_is_the_whole_episode_of_the_policy():
    env = envs.make("branchwise/Household-v0")
    episode = play(env, 5, envs.ExpertPolicy())
    env.reset(seed=5)
    ends = [env.step(action)[2] for action in episode.actions]
    assert ends == [False] * (len(ends) - 1) + [True]
    assert steps_per_s(env, [episode]) > 0


def test_outcomes_count_solved_tasks_and_turns(corridor):
    env = envs.make(corridor.id, max_turns=3)
    solved, lengths = outcomes(env, lambda env: "go on", Scale(1, 1, 5))
    assert (solved.successes, solved.trials, lengths) == (5, 5, [3] * 5)
    assert outcomes(env, lambda env: "wait", Scale(1, 1, 5))[0].successes == 0


def test_memory_is_what_each_kept_state_costs(corridor):
    env = envs.make(corridor.id)
    episode = play(env, 0, lambda env: "go on")
    assert 90_000 < kept_bytes(env, [episode] * 5, lambda: bytearray(100_000)) < 110_000


def test_a_row_ends_after_its_time_with_one_measurement_at_least(corridor):
    env = envs.make(corridor.id, max_turns=3)
    solved, lengths = outcomes(env, lambda env: "go on", Scale(1, 1, 1000, seconds=0))
    assert (solved.successes, lengths) == (1, [3])
    assert list(Scale(1, 1, 1).up_to(3)) == [0, 1, 2] and list(Scale(1, 1, 1, seconds=-1).up_to(3)) == [0]


def test_a_call_that_takes_long_is_made_once():
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        time.sleep(0.03 if len(calls) == 1 else 0)

    assert call_us(call, 7, time.perf_counter) >= 30_000 and len(calls) == 1
    assert call_us(call, 7, time.perf_counter) < 30_000 and len(calls) == 1 + 1 + 7


def test_what_instances_share_is_no_part_of_a_deep_copy():
    one, other = (envs.make("branchwise/Search-v0", countries=4) for _ in range(2))
    one.reset(seed=0)
    shared = in_both(one, other)
    copied: Any = copy.deepcopy(one, dict(shared))
    assert copied._source is vars(one)["_source"] and id(vars(one)["_source"]) in shared
    assert copied._state is not vars(one)["_state"] or id(vars(one)["_state"]) in shared
    assert copied.np_random is not one.np_random and id(one) not in shared


@pytest.mark.parametrize(
    ("name", "elsewhere"), [("Household", False), ("TextWorldExpress", True), ("ShopBrowser", True), ("ALFWorld", False)]
)
def test_other_programs_are_timed_by_the_wall(name, elsewhere):
    assert works_elsewhere(envs.spec(f"branchwise/{name}-v0")) == elsewhere


@pytest.mark.slow
def test_an_environment_in_java_has_all_columns():
    rows = {row.name.partition(": ")[2]: row for row in measure(envs.spec("branchwise/TextWorldExpress-v0"), Scale(1, 1, 1, splits=1))}
    assert {"reset", "step", "snapshot + restore, against replay", "snapshot"} <= set(rows)
    assert all(row.value > 0 for row in rows.values())
