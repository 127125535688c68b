"""BabyAI and MiniGrid in words: the view, the states, forks, and the bot's full reward."""

import numpy as np
import pytest
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

import envs
from envs import EnvironmentArgumentError
from envs.adapters.minigrid_env import ACTIONS, BabyAIEnv, MiniGridEnv, view_text


def solved(env: BabyAIEnv, seed: int) -> float:
    env.reset(seed=seed)
    reward, ended = 0.0, False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(env.expert_action())
        ended = terminated or truncated
    return reward


@pytest.mark.slow
@pytest.mark.parametrize("level", ["GoToLocal", "PickupLoc", "PutNextLocal", "UnlockPickup", "BabyAI-OpenDoor-v0"])
def test_the_bot_fulfils_every_mission(level):
    for split in ("train", "test"):
        env = BabyAIEnv(level, split, max_turns=300)
        assert [solved(env, seed) for seed in range(8)] == [1.0] * 8


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level"), [("BabyAI", "PutNextLocal"), ("MiniGrid", "MiniGrid-DoorKey-6x6-v0")])
def test_what_is_declared_holds(name, level):
    report = envs.check_env(f"branchwise/{name}-v0", seeds=1, steps=12, level=level)
    assert report.passed, str(report)


def test_the_view_is_told_from_where_the_agent_looks():
    image = np.zeros((7, 7, 3), dtype=np.uint8)
    image[:, :, 0] = OBJECT_TO_IDX["empty"]
    assert view_text(image, None) == "You see nothing but floor."
    image[3, 1] = (OBJECT_TO_IDX["wall"], COLOR_TO_IDX["grey"], 0)
    image[3, 4] = (OBJECT_TO_IDX["door"], COLOR_TO_IDX["red"], STATE_TO_IDX["locked"])
    image[1, 6] = (OBJECT_TO_IDX["ball"], COLOR_TO_IDX["blue"], 0)
    image[4, 5] = (OBJECT_TO_IDX["goal"], COLOR_TO_IDX["green"], 0)
    assert view_text(image, None) == "A blue ball 2 left. A goal 1 ahead and 1 right. A locked red door 2 ahead. A wall 5 ahead."


def test_an_episode_states_its_mission_and_a_carried_thing_is_told():
    env = MiniGridEnv("BabyAI-PickupLoc-v0")
    observation, _ = env.reset(seed=0)
    assert observation.startswith("Your task is to: pick up ") and "Your actions are: turn left, turn right, go forward, " in observation
    expert = BabyAIEnv("PutNextLocal", max_turns=200)
    expert.reset(seed=0)
    said = ""
    while not (terminated := expert.step(action := expert.expert_action())[2]):
        said = said or (action == "pick up" and expert._text(expert.inner.gen_obs())) or ""
    assert "You carry a " in said and terminated


def test_a_state_is_equal_however_it_was_reached():
    env = MiniGridEnv("MiniGrid-Empty-8x8-v0")
    signatures = {}
    for way in ((), ("turn left", "turn right"), ("turn left",) * 4, ("turn left",), ("go forward",)):
        env.reset(seed=0)
        for action in way:
            env.step(action)
        signatures[way] = env.state_signature()
    assert len(set(signatures.values())) == 3 and signatures[()] == signatures["turn left", "turn right"]


def test_how_many_steps_it_took_makes_no_difference_to_the_reward():
    env = BabyAIEnv(max_turns=300)
    env.reset(seed=0)
    for _ in range(150):
        assert env.step("turn left")[2:4] == (False, False), "the package's own limit is off"
    reward, ended = 0.0, False
    while not ended:
        _, reward, ended, _, _ = env.step(env.expert_action())
    assert reward == 1.0


def test_the_bot_goes_on_after_other_actions_and_after_forks():
    env, rng = BabyAIEnv("GoTo", max_turns=2000), np.random.default_rng(0)
    for seed in range(2):
        env.reset(seed=seed)
        reward, ended, turns = 0.0, False, 0
        while not ended:
            if turns % 5 == 0:
                snapshot = env.snapshot()
                env.step(ACTIONS[int(rng.integers(3))])
                env.restore(snapshot)
            action = ACTIONS[int(rng.integers(3))] if turns % 7 == 3 else env.expert_action()
            _, reward, ended, truncated, _ = env.step(action)
            turns += 1
            assert not truncated
        assert reward == 1


def test_seeds_decide_and_nothing_is_printed(capsys):
    assert [BabyAIEnv("GoTo").reset(seed=seed) for seed in range(6)] == [BabyAIEnv("GoTo").reset(seed=seed) for seed in range(6)]
    assert BabyAIEnv("GoTo").reset(seed=1) != BabyAIEnv("GoTo", "test").reset(seed=1)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("make", "level", "said"),
    [
        (BabyAIEnv, "GoToLocl", "BabyAI has no level 'GoToLocl'; did you mean GoToLocal"),
        (MiniGridEnv, "MiniGrid-Emty-8x8-v0", "MiniGrid-Empty-8x8-v0"),
    ],
)
def test_an_unknown_level_is_one_sentence(make, level, said):
    with pytest.raises(EnvironmentArgumentError, match=said):
        make(level)
