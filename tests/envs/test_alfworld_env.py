"""ALFWorld's real engine as an environment: forks are exact, games are shared and loaded once, and nothing leaks to the process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import envs
from envs import EnvironmentArgumentError, NoEpisodeError
from envs.alfworld import worlds
from envs.alfworld.env import AlfworldEnv
from envs.task_type import TaskType

ROOT = Path(__file__).parents[2]
SEED = 11


def started(seed: int = SEED, **arguments) -> AlfworldEnv:
    env = AlfworldEnv(**arguments)
    env.reset(seed=seed)
    return env


def wander(env: AlfworldEnv, turns: int, seed: int = 0) -> list[tuple]:
    """Random play, as answers with the signatures after them."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(turns):
        actions = env.admissible_actions()
        action = actions[int(rng.integers(len(actions)))]
        seen.append((action, env.step(action), env.state_signature()))
    return seen


def test_the_first_observation_states_the_room_and_the_task():
    observation, info = AlfworldEnv().reset(seed=SEED)
    head, room, task = observation.split("\n\n")
    assert head == "-= Welcome to TextWorld, ALFRED! =-"
    assert room.startswith("You are in the middle of a room. Looking quickly around you, you see a ") and room.endswith(".")
    assert task.startswith("Your task is to: ") and task.endswith(".") and "UNKNOWN" not in task
    assert info["valid"] is True and info["success"] is False and info["task_type"] in set(TaskType)


def test_what_is_not_possible_changes_nothing_and_costs_a_turn():
    env = started(max_turns=2)
    before = env.state_signature()
    assert env.step("fly to the moon 1")[:4] == ("Nothing happens.", 0.0, False, False)
    _, _, _, truncated, info = env.step("open window 1")
    assert truncated and info["valid"] is False and env.state_signature() == before


def test_admissible_actions_are_valid_and_others_are_not():
    env = started()
    for _ in range(6):
        start = env.snapshot()
        actions = env.admissible_actions()
        for action in actions[::3]:
            env.restore(start)
            assert env.step(action)[4]["valid"], action
        env.restore(start)
        wander(env, 1, seed=len(actions))


def test_a_snapshot_gives_the_same_future_again_and_again_in_every_instance_of_the_process():
    env, other = started(), AlfworldEnv()
    wander(env, 5)
    snapshot = env.snapshot()
    futures = [wander(env, 12, seed=1)]
    wander(env, 7, seed=2)
    for instance in (env, other, env):
        instance.restore(snapshot)
        futures.append(wander(instance, 12, seed=1))
    assert futures[0] == futures[1] == futures[2] == futures[3]


def test_two_instances_that_take_turns_in_one_game_do_not_meet():
    one, two = started(), started()
    alone = wander(started(), 10, seed=5)
    mixed = []
    rng = np.random.default_rng(5)
    for _ in range(10):
        actions = one.admissible_actions()
        action = actions[int(rng.integers(len(actions)))]
        wander(two, 1, seed=9)
        mixed.append((action, one.step(action), one.state_signature()))
    assert mixed == alone


def test_a_snapshot_of_a_game_lives_on_after_a_reset_to_another_one():
    env = started()
    wander(env, 3)
    snapshot, ahead = env.snapshot(), wander(env, 4, seed=3)
    env.reset(seed=SEED + 1)
    wander(env, 3)
    env.restore(snapshot)
    assert wander(env, 4, seed=3) == ahead


def test_a_group_pays_the_load_of_a_game_once(monkeypatch):
    started()
    monkeypatch.setattr(worlds, "World", lambda game: pytest.fail("loaded again"))
    first = {AlfworldEnv().reset(seed=SEED)[0] for _ in range(3)}
    assert len(first) == 1


def test_places_reached_on_two_ways_have_one_signature():
    env = started()
    goes = [action for action in env.admissible_actions() if action.startswith("go to ")][:2]
    start = env.snapshot()
    env.step(goes[0])
    there = env.state_signature()
    env.restore(start)
    for action in (goes[1], "look", "inventory", goes[0]):
        env.step(action)
    assert env.state_signature() == there


def test_solving_the_goal_gives_reward_one_and_ends_the_episode():
    env = started(seed=4, task_types=["pick_and_place_simple"])
    solved = play_the_expert(env)
    assert solved["rewards"][-1] == 1.0 and not any(solved["rewards"][:-1])
    assert solved["terminated"] and not solved["truncated"] and solved["info"]["success"]


def play_the_expert(env: AlfworldEnv) -> dict:
    rewards, terminated, truncated, info = [], False, False, {}
    while not (terminated or truncated):
        _, reward, terminated, truncated, info = env.step(env.expert_action())
        rewards.append(reward)
    return {"rewards": rewards, "terminated": terminated, "truncated": truncated, "info": info}


def test_the_same_seed_is_the_same_episode_in_another_process_whatever_the_hash_seed():
    code = (
        "import sys; sys.path.insert(0, 'tests/envs'); from test_alfworld_env import *; "
        "env = started(); print(env.draw.__name__, wander(env, 8), env.expert_action())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    env = started()
    assert said == {f"draw {wander(env, 8)} {env.expert_action()}\n"}


def test_loading_leaves_the_variables_the_arguments_and_the_output_as_they_were():
    code = (
        "import os, sys; before = dict(os.environ), list(sys.argv), sys.stdout; from envs.alfworld.env import AlfworldEnv; "
        "AlfworldEnv().reset(seed=1); assert (dict(os.environ), sys.argv, sys.stdout) == before; "
        "assert not {'torch', 'cv2', 'spacy'} & set(sys.modules); print('done')"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "done\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": "test"}, "split is 'test'"),
        ({"games": "oficial"}, "did you mean official"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"task_types": ["pick_two"]}, "task type 'pick_two' is unknown"),
        ({"task_types": []}, r"task_types is \[\]"),
    ],
)
def test_a_wrong_argument_is_a_sentence(arguments, said):
    with pytest.raises(EnvironmentArgumentError, match=said):
        AlfworldEnv(**arguments)


def test_without_an_episode_there_is_nothing_to_ask():
    with pytest.raises(NoEpisodeError, match="call reset"):
        AlfworldEnv().step("look")


@pytest.mark.slow
def test_check_passes():
    report = envs.check_env("branchwise/ALFWorld-v0", seeds=1, steps=8, split="valid_unseen")
    assert report.passed, str(report)
