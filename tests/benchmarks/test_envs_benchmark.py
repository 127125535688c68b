"""The benchmark of environments measures all that an environment declares, and nothing that it does not."""

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import envs
from benchmarks import envs as benchmark
from benchmarks.environments import page_reuse
from benchmarks.environments.costs import measure
from benchmarks.environments.episode import outcomes, play
from benchmarks.environments.household_rows import against_the_engine, distinct_tasks
from benchmarks.environments.memory import in_both, kept_bytes
from benchmarks.environments.overview import overview
from benchmarks.environments.scale import Scale
from benchmarks.environments.timing import call_us, steps_per_s, works_elsewhere
from benchmarks.report import Row
from envs import registry
from envs.household import env as household
from envs.household.task import Task
from envs.needs import BrowserNeed
from envs.web.miniwob.pages import PAGES

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
    corpus = vars(one)["_source"].corpus
    assert copied._source.corpus is corpus and id(corpus) in shared
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


def test_the_overview_has_a_line_for_each_environment():
    rows = [
        *(Row("One-v0: reset", 2.0, "ms"), Row("One-v0: step", 1234.0, "steps/s"), Row("One-v0: snapshot", 64.0, "bytes")),
        *(Row("One-v0: snapshot + restore, against replay", 1500.0, "us"), Row("Two-v0: reset", 3.0, "ms"), Row("Three: step", 1.0, "x")),
    ]
    table = overview(rows)
    columns = [list(column.cells) for column in table.columns]
    assert columns == [["One-v0", "Two-v0"], ["1,234", ""], ["2", "3"], ["", ""], ["1.5", ""], ["64", ""]]


def test_a_section_runs_alone_and_what_is_missing_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "QUICK", TINY)
    monkeypatch.setattr(BrowserNeed, "is_met", lambda need: False)
    out = tmp_path / "envs.json"
    assert benchmark.main(["--quick", "--only", "minigrid", "reuse", "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert {row["name"].partition(":")[0] for row in written["rows"]} == {"MiniGrid-v0"}
    assert "a Chromium browser" in written["details"]["left_out"][0] and "left out: reuse:" in capsys.readouterr().out


def test_both_households_are_compared_where_both_were_measured():
    rows = [Row("Household-v0: reset", 1.0, "ms"), Row("ALFWorld-v0: reset", 50.0, "ms"), Row("Household-v0: step", 9.0, "steps/s")]
    (row,) = against_the_engine(rows)
    assert (row.name, row.baseline, row.ratio) == ("Household-v0 against ALFWorld-v0: reset", 50.0, 50.0)


@pytest.mark.slow
def test_reuse_is_compared_with_a_context_for_each_episode(monkeypatch):
    stable = {name: PAGES[name] for name in ("click-test", "click-button")}
    monkeypatch.setattr(page_reuse, "PAGES", stable)
    (row,) = page_reuse.reuse_rows(TINY)
    assert row.baseline is not None and row.baseline > 2 * row.value > 0 and "of 2 pages within 60 ms" in row.note
