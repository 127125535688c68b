"""The shop as an environment: one seed is one task, the expert meets every goal, and a snapshot is the whole state."""

import time

import numpy as np
import pytest

import envs
from envs import EnvironmentArgumentError, NoEpisodeError
from envs.web.shop.env import ShopEnv

SHOP = "branchwise/Shop-v0"


def play(env, policy, seed):
    """Observations, the total reward and the last answer's info."""
    seen, info = env.reset(seed=seed)
    said, rewards, ended = [seen], [], False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(policy(env))
        said.append(observation)
        rewards.append(reward)
        ended = terminated or truncated
    return said, rewards, info


def test_the_first_observation_states_the_task():
    observation, info = ShopEnv().reset(seed=0)
    assert observation.startswith("Your task is to: Find me ") and observation.endswith(" dollars.\n\nYou are on the search page. [Search]")
    assert info == {"valid": True, "success": False, "task_type": info["task_type"]}
    assert {ShopEnv().reset(seed=seed)[1]["task_type"] for seed in range(40)} == {"fashion", "beauty", "grocery", "electronics", "home"}


@pytest.mark.parametrize(("products", "split"), [(1_000, "train"), (1_000, "valid"), (1_000, "test"), (3_000, "test")])
def test_the_expert_meets_every_goal_in_full(products, split):
    env = envs.make(SHOP, split=split, products=products)
    for seed in range(50):
        said, rewards, info = play(env, envs.ExpertPolicy(), seed)
        assert rewards[-1] == 1.0 and not any(rewards[:-1]) and info["success"], said


def test_the_expert_goes_on_from_anywhere():
    env = envs.make(SHOP, max_turns=200)
    for seed in range(60):
        env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(int(rng.integers(1, 12))):
            actions = [action for action in env.admissible_actions() if action != "click[Buy Now]"]
            env.step(actions[int(rng.integers(len(actions)))])
        reward = terminated = truncated = 0
        while not (terminated or truncated):
            _, reward, terminated, truncated, _ = env.step(env.expert_action())
        assert reward == 1.0, seed


def test_what_is_not_possible_changes_nothing_but_the_turns():
    env = envs.make(SHOP, max_turns=2)
    env.reset(seed=0)
    before = env.state_signature()
    assert env.step("click[Buy Now]") == ("Nothing happens.", 0.0, False, False, {"valid": False, "success": False, "task_type": "fashion"})
    assert env.state_signature() == before
    assert env.step("dance")[2:4] == (False, True), "it was the last turn"


def test_a_snapshot_holds_goal_session_and_turns():
    env, other = envs.make(SHOP, max_turns=5), envs.make(SHOP, max_turns=5)
    env.reset(seed=3)
    env.step(env.expert_action())
    snapshot, signature = env.snapshot(), env.state_signature()
    expected = [env.step(env.expert_action()) for _ in range(3)]
    other.restore(snapshot)
    assert other.state_signature() == signature
    assert [other.step(other.expert_action()) for _ in range(3)] == expected
    other.restore(snapshot)
    assert [other.step("nonsense")[3] for _ in range(4)] == [False] * 3 + [True]


def test_flaws_lower_the_reward():
    env = envs.make(SHOP)

    def mean(**habits):
        earned = []
        for seed in range(60):
            env.reset(seed=seed)
            act = env.demonstrator(np.random.default_rng(seed), **habits)
            ended = reward = 0
            while not ended:
                _, reward, terminated, truncated, _ = env.step(act())
                ended = terminated or truncated
            earned.append(reward)
        return np.mean(earned)

    assert mean() == 1.0
    assert mean(vague_search=1.0) == 1.0, "it only takes longer"
    assert 0.3 < mean(first_result=1.0) < 0.9
    assert 0.5 < mean(forget_option=1.0) < 0.9


@pytest.mark.parametrize(
    ("habits", "message"),
    [
        ({"hasty": 0.5}, "the shop's demonstrator has no habit 'hasty'"),
        ({"vague_search": 2}, "vague_search is 2; it must be a number from 0 to 1"),
    ],
)
def test_habits_that_do_not_exist_are_refused(habits, message):
    env = envs.make(SHOP)
    env.reset(seed=0)
    with pytest.raises(EnvironmentArgumentError, match=message):
        env.demonstrator(np.random.default_rng(0), **habits)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"products": 999}, "products is 999; it must be a whole number from 1000 to 100000"),
        ({"products": 100_001}, "products is 100001"),
        ({"products": "many"}, "products is 'many'"),
        ({"catalogue_seed": -1}, "catalogue_seed is -1"),
        ({"max_turns": 0}, "max_turns is 0; it must be a whole number of at least 1"),
        ({"split": "tset"}, "did you mean test"),
    ],
)
def test_arguments_that_cannot_be_are_refused(given, message):
    with pytest.raises(EnvironmentArgumentError, match=message):
        ShopEnv(**given)


def test_without_an_episode_nothing_can_be_asked():
    with pytest.raises(NoEpisodeError, match="call reset"):
        ShopEnv().step("search[table]")


@pytest.mark.slow
def test_what_the_shop_declares_holds():
    report = envs.check_env(SHOP, seeds=1, steps=12)
    assert report.passed, str(report)


def test_five_hundred_steps_a_second():
    env = envs.make(SHOP)
    turns, started = 0, time.process_time()
    for seed in range(100):
        turns += len(play(env, envs.ExpertPolicy(), seed)[1])
    assert turns / (time.process_time() - started) > 500
