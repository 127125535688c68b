"""The shared world gives what TextWorld's own environment gives; and the household by its rules does the same."""

import json

import numpy as np
import pytest

from benchmarks import alfworld_crosscheck as crosscheck
from envs import EnvironmentArgumentError, MissingNeedError
from envs.alfworld import data_folder
from envs.alfworld.engine_package import module
from envs.alfworld.env import AlfworldEnv
from envs.alfworld.generator import generate
from envs.alfworld.world import World
from envs.household.alfworld_rules import AlfworldHousehold
from envs.household.env import HouseholdEnv
from envs.household.task import generate as household_task
from envs.household.world import Household
from envs.task_type import SPLITS


def test_the_world_is_textworlds_own_environment():
    game = generate(np.random.default_rng([1, 0]), "train")
    world = World(game)
    original = module("textworld.envs.pddl").PddlEnv(module("textworld").EnvInfos(admissible_commands=True))
    grammar = game.grammar.replace("UNKNOWN GOAL", game.goal)
    original.load({"pddl_domain": game.domain, "grammar": grammar, "pddl_problem": game.problem})
    demangler = module("alfworld.agents.utils.misc").Demangler(game_infos=original._entity_infos)
    for info in original._entity_infos.values():
        info.name = demangler.demangle_alfred_name(info.id)
    theirs, ours = original.reset(), world.start
    assert theirs.feedback == world.intro
    rng = np.random.default_rng(0)
    for _ in range(12):
        assert theirs["admissible_commands"] == world.admissible(ours)
        command = crosscheck.chosen(world.admissible(ours), rng)
        theirs = original.step(command)[0]
        ours, said, _ = world.act(ours, command)
        assert theirs.feedback == said and theirs["won"] == world.solved(ours)


def test_the_household_by_the_engines_rules_differs_in_nothing():
    tally = crosscheck.Tally()
    for seed in range(3):
        crosscheck.compare(crosscheck.loaded(seed), AlfworldHousehold, tally, np.random.default_rng([seed, 1]))
    assert not tally.differences, tally.examples
    assert tally.episodes == 6 and tally.solved and tally.turns > 60


def test_a_household_that_plays_by_other_rules_is_found_out():
    tally = crosscheck.Tally()
    crosscheck.compare(crosscheck.loaded(0), Household, tally, np.random.default_rng([0, 1]))
    assert tally.differences["examine: offered only in the household"]


def test_the_households_rules_are_an_argument():
    env = HouseholdEnv(rules="alfworld")
    env.reset(seed=3)
    assert env.step("look")[0].endswith("you see nothing.")
    with pytest.raises(EnvironmentArgumentError, match="did you mean alfworld"):
        HouseholdEnv(rules="alfwold")


@pytest.mark.slow
def test_the_household_has_far_more_than_a_hundred_thousand_distinct_tasks():
    # Among n draws from N equally likely tasks, n² / 2N pairs agree: with none in 12,000, N is above 24 million (95 %).
    tasks = {hash(household_task(np.random.default_rng([seed, 0]), "train")) for seed in range(12_000)}
    assert len(tasks) == 12_000


def test_the_official_data_folder_is_read(tmp_path, monkeypatch):
    for index in range(4):
        game = generate(np.random.default_rng(index), "train")
        data_folder.write(game, tmp_path, "train", f"trial_{index}", walkthrough=None if index == 0 else ["look"])
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    env = AlfworldEnv(games="official")
    seen = set()
    for seed in range(5):
        observation, info = env.reset(seed=seed)
        assert env._world is not None
        seen.add(env._world.game.name.split("/")[1])
        assert f"Your task is to: {env._world.game.goal}." in observation and "UNKNOWN" not in observation
        assert env.admissible_actions() and info["task_type"] == env._world.game.type
    assert seen <= {"trial_1", "trial_2", "trial_3"} and len(seen) > 1
    with pytest.raises(EnvironmentArgumentError, match="has no solvable game"):
        AlfworldEnv(games="official", split="valid_seen").reset(seed=0)
    record = json.loads(next((tmp_path / data_folder.GAMES / "train").glob("*/trial_1/traj_data.json")).read_text())
    assert set(record["pddl_params"]) >= {"object_target", "parent_target", "toggle_target"}
    with pytest.raises(EnvironmentArgumentError, match="split is 'test'"):
        data_folder.write(generate(np.random.default_rng(0), SPLITS[0]), tmp_path, "test", "trial_9", None)


def test_without_a_data_folder_the_sentence_says_what_to_type(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(MissingNeedError, match="choose games='generated'"):
        AlfworldEnv(games="official")
