"""An environment that lacks an ability says so by name; what it does not override is never silently something else."""

from typing import Any

import numpy as np
import pytest

from envs import AbilityError, EnvironmentArgumentError, ExpertPolicy, RandomPolicy, TextEnv, TextSpace


class Bare(TextEnv):
    """Can be reset and stepped, and no more."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return f"It is {self.np_random.integers(1000)}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return action, 0.0, False, False, {}


class Taught(Bare):
    """Has an expert."""

    def expert_action(self) -> str:
        return "wait"


def test_both_spaces_are_text():
    env = Bare()
    assert isinstance(env.observation_space, TextSpace) and isinstance(env.action_space, TextSpace)
    assert env.observation_space is not env.action_space, "sampling from one must not advance the other"
    assert env.step_deadline_s is None and env.metadata == {"render_modes": []}


def test_the_generator_of_a_seed_is_gymnasiums():
    env = Bare()
    assert env.reset(seed=4) == env.reset(seed=4) == Bare().reset(seed=4)
    assert env.reset(seed=4) != env.reset(seed=5)
    env.reset(seed=4)
    assert env.reset() != env.reset(seed=4), "without a seed the generator goes on"


@pytest.mark.parametrize(
    ("ability", "words"),
    [
        (lambda env: env.snapshot(), "takes no snapshots"),
        (lambda env: env.restore(None), "restores no snapshots"),
        (lambda env: env.state_signature(), "has no state signature"),
        (lambda env: env.admissible_actions(), "has no list of admissible actions"),
        (lambda env: env.expert_action(), "has no expert"),
        (lambda env: env.demonstrator(np.random.default_rng(0))(), "has no expert"),
        (RandomPolicy(np.random.default_rng(0)), "has no list of admissible actions"),
        (ExpertPolicy(), "has no expert"),
    ],
)
def test_an_ability_that_is_missing_is_an_error_that_names_the_environment(ability, words):
    env = Bare()
    env.reset(seed=0)
    with pytest.raises(AbilityError, match=f"Bare {words}"):
        ability(env)


def test_the_default_demonstrator_is_the_expert_and_has_no_habits():
    env = Taught()
    env.reset(seed=0)
    assert env.demonstrator(np.random.default_rng(0))() == "wait"
    with pytest.raises(EnvironmentArgumentError, match="demonstrator of Taught has no habit 'hurry'; leave it out"):
        env.demonstrator(np.random.default_rng(0), hurry=0.5)
