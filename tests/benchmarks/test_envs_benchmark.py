"""The benchmark of environments measures all that an environment declares, and nothing that it does not."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import envs
from benchmarks.envs import Scale, distinct_tasks, kept_bytes, measure, outcomes, play, steps_per_s
from envs import registry
from envs.household import env as household
from envs.household.task import Task

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
        *("reset", "reset again", "step", "step with expert", "state_signature", "admissible_actions", "expert_action", "snapshot"),
        *("snapshot + restore, against a deep copy", "snapshot + restore, against replay"),
        *(f"expert {what}, {split}" for what in ("success", "episode length") for split in ("train", "valid_seen", "valid_unseen")),
    }
    assert all(row.value > 0 and row.note for row in rows.values())
    assert rows["expert success, valid_unseen"].value == 100 and "4/4 tasks of 50 turns" in rows["expert success, valid_unseen"].note
    assert 3 < rows["expert episode length, train"].value < 25
    for name in ("snapshot + restore, against a deep copy", "snapshot + restore, against replay", "snapshot"):
        row = rows[name]
        assert row.baseline is not None and row.ratio is not None and row.ratio == pytest.approx(row.baseline / row.value)


def test_tasks_of_the_household_that_occur_again_are_counted_once(monkeypatch):
    assert distinct_tasks(1000).value == 1000
    generate = household.generate

    def one_of_five(rng: np.random.Generator, *how: Any) -> Task:
        return generate(np.random.default_rng(int(rng.integers(5))), *how)

    monkeypatch.setattr(household, "generate", one_of_five)
    assert distinct_tasks(100).value == 5


def test_what_is_not_declared_has_no_row(corridor):
    assert [row.name for row in measure(corridor, TINY)] == [
        "Corridor-v0: reset",
        "Corridor-v0: reset again",
        "Corridor-v0: step",
        "Corridor-v0: admissible_actions",
    ]


def test_a_plan_is_the_whole_episode_of_the_policy():
    env = envs.make("branchwise/Household-v0")
    episode = play(env, 5, envs.ExpertPolicy())
    env.reset(seed=5)
    ends = [env.step(action)[2] for action in episode.actions]
    assert ends == [False] * (len(ends) - 1) + [True]
    assert steps_per_s(env, [episode]) > 0


def test_outcomes_count_solved_tasks_and_turns(corridor):
    env = envs.make(corridor.id, max_turns=3)
    solved, lengths = outcomes(env, lambda env: "go on", 5)
    assert (solved.successes, solved.trials, lengths) == (5, 5, [3] * 5)
    assert outcomes(env, lambda env: "wait", 5)[0].successes == 0


def test_memory_is_what_each_kept_state_costs(corridor):
    env = envs.make(corridor.id)
    episode = play(env, 0, lambda env: "go on")
    assert 90_000 < kept_bytes(env, [episode] * 5, lambda: bytearray(100_000)) < 110_000
