"""Scripted policies act by the live environment and by nothing else; chance comes from the generator that was given."""

from collections import Counter

import numpy as np
import pytest

import envs
from envs import AbilityError, ExpertPolicy, RandomPolicy, TextEnv
from envs.household.env import HouseholdEnv


class Listing(TextEnv):
    """Lists what the test says."""

    def __init__(self, actions: list[str]) -> None:
        super().__init__()
        self.actions = actions

    def admissible_actions(self) -> list[str]:
        return self.actions


class Broken(TextEnv):
    """Has both abilities, and a fault in each."""

    def admissible_actions(self) -> list[str]:
        return self.nowhere  # type: ignore[attr-defined]

    def expert_action(self) -> str:
        return self.nowhere  # type: ignore[attr-defined]


def test_random_play_is_uniform_over_what_is_listed():
    policy, env = RandomPolicy(np.random.default_rng(0)), Listing(["a", "b", "c", "d"])
    counts = Counter(policy(env) for _ in range(4000))
    assert set(counts) == set("abcd") and all(abs(count - 1000) < 120 for count in counts.values())


def test_random_play_is_a_function_of_its_generator():
    env = HouseholdEnv()

    def episode(seed: int) -> list[str]:
        policy = RandomPolicy(np.random.default_rng(seed))
        env.reset(seed=0)
        actions = []
        for _ in range(20):
            actions.append(policy(env))
            assert actions[-1] in env.admissible_actions()
            env.step(actions[-1])
        return actions

    assert episode(1) == episode(1) != episode(2)


def test_random_play_looks_at_the_present_state():
    env = Listing(["a"])
    policy = RandomPolicy(np.random.default_rng(0))
    assert policy(env) == "a"
    env.actions = ["b"]
    assert policy(env) == "b"


def test_nothing_to_choose_from_is_an_error():
    with pytest.raises(AbilityError, match="Listing has no admissible action in its present state"):
        RandomPolicy(np.random.default_rng(0))(Listing([]))


def test_a_fault_inside_an_environment_is_not_taken_for_a_missing_ability():
    for policy in (RandomPolicy(np.random.default_rng(0)), ExpertPolicy()):
        with pytest.raises(AttributeError, match="nowhere") as caught:
            policy(Broken())
        assert not isinstance(caught.value, AbilityError)


def test_the_expert_policy_is_the_environments_expert():
    env = envs.make("branchwise/Household-v0")
    policy = ExpertPolicy()
    env.reset(seed=8)
    for _ in range(5):
        assert policy(env) == env.expert_action()
        env.step(policy(env))
