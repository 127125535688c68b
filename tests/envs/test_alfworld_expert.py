"""ALFWorld's own expert solves generated games, forgets what it put down, and its actions follow from the turns alone."""

import random

import pytest

from envs.alfworld.engine_package import module
from envs.alfworld.env import AlfworldEnv
from envs.alfworld.expert import Expert
from envs.task_type import TaskType


def played(env: AlfworldEnv) -> tuple[bool, list[str]]:
    """Let the expert play to the end: success, and its actions."""
    actions, info, ended = [], {}, False
    while not ended:
        actions.append(env.expert_action())
        _, _, terminated, truncated, info = env.step(actions[-1])
        ended = terminated or truncated
    return bool(info["success"]), actions


@pytest.mark.parametrize("type", list(TaskType))
def test_it_solves_a_game_of_every_type(type):
    env = AlfworldEnv(task_types=[type])
    env.reset(seed=1)
    assert played(env)[0]


def test_what_it_put_down_it_no_longer_carries():
    env = AlfworldEnv(task_types=["pick_two_obj_and_place"])
    env.reset(seed=1)
    _, actions = played(env)
    moves = [action for action in actions if action.startswith("move ")]
    assert len(moves) >= 2 and len({action.split()[2] for action in moves}) >= 2, "two different things"
    assert env._expert is not None
    policy = env._expert[1]._agent.policy
    assert len(policy.inventory) <= 1


def test_its_actions_follow_from_the_turns_whatever_was_asked_before_and_the_global_generator_is_left_alone():
    env = AlfworldEnv()
    env.reset(seed=2)
    random.seed(5)
    state = random.getstate()
    _, actions = played(env)
    assert random.getstate() == state and module("alfworld.agents.expert.handcoded_expert").random is random
    env.reset(seed=2)
    middle, said = None, []
    for turn, action in enumerate(actions):
        if turn == len(actions) // 2:
            middle = env.snapshot()
        env.step(action)
    env.restore(middle)
    env.step("inventory")
    env.expert_action()
    env.restore(middle)
    for action in actions[len(actions) // 2 :]:
        said.append(env.expert_action())
        env.step(action)
    assert said == actions[len(actions) // 2 :]
    here, turn = env.snapshot()
    assert Expert(here).action(turn) == Expert(here).action(turn)
