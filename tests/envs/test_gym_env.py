"""Plain Gymnasium environments as text: actions by name, forks as declared, and one sentence for what does not fit."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import envs
from envs import AbilityError, EnvironmentArgumentError, NoEpisodeError, registry
from envs.adapters.gym_env import GymEnv, observation_text
from envs.adapters.register_gym import register_gym

ID = "tests/Adapted-v0"
MOVES = ("left", "down", "right", "up")


def cell(env: Any) -> str:
    return f"cell {env.s}"


class Parrot(gym.Env[str, str]):
    """Takes text, and wants the word that it says."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Text(20)
        self.action_space = gym.spaces.Text(20)
        self.word = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.word = "abc"[int(self.np_random.integers(3))]
        return self.word, {}

    def step(self, action: str):
        return "yes" if action == self.word else "no", float(action == self.word), action == self.word, False, {}


gym.register("tests/Parrot-v0", Parrot)


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    registry._SPECS.pop(ID, None)
    gym.registry.pop(ID, None)


def frozen_lake(**arguments: Any) -> GymEnv:
    return GymEnv("FrozenLake-v1", **{"actions": MOVES, "signature": cell, "env_kwargs": {"is_slippery": False}, **arguments})


@pytest.mark.slow
@pytest.mark.parametrize("fork", ["exact", "process", "replay"])
def test_what_is_declared_holds(registered, fork):
    register_gym(ID, "FrozenLake-v1", fork=fork, actions=MOVES, signature="test_gym_env:cell", env_kwargs={"is_slippery": False})
    report = envs.check_env(ID, seeds=1, steps=8)
    assert report.passed, str(report)


def test_an_episode_is_played_by_names():
    env = frozen_lake(task="Cross the lake.", success=lambda lake: lake.s == 15)
    observation, info = env.reset(seed=0)
    assert observation == "Cross the lake.\nYour actions are: left, down, right, up.\n0" and info == {"valid": True, "success": False}
    assert env.step("fly") == ("Choose one of left, down, right, up.", 0.0, False, False, {"valid": False, "success": False})
    for action in (" DOWN ", "down", "right", "right", "down"):
        assert env.step(action)[1:4] == (0.0, False, False)
    assert env.state_signature() == "cell 14" and env.admissible_actions() == sorted(MOVES)
    assert env.step("right") == ("15", 1.0, True, False, {"valid": True, "success": True})


def test_a_snapshot_keeps_its_state_whatever_goes_on():
    env = frozen_lake()
    env.reset(seed=0)
    env.step("down")
    snapshot = env.snapshot()
    ahead = [env.step(action) for action in ("right", "right")]
    for _ in range(2):
        env.restore(snapshot)
        assert env.state_signature() == "cell 4"
        assert [env.step(action) for action in ("right", "right")] == ahead
    env.reset(seed=1)
    env.restore(snapshot)
    assert env.state_signature() == "cell 4"


def test_chance_goes_on_where_it_was():
    env = frozen_lake(env_kwargs={"is_slippery": True})
    env.reset(seed=3)
    snapshot = env.snapshot()
    ahead = [env.step("right")[0] for _ in range(4)]
    env.restore(snapshot)
    assert [env.step("right")[0] for _ in range(4)] == ahead


def test_seeds_decide_and_splits_differ():
    said = {}
    for split in ("train", "test"):
        env = GymEnv("tests/Parrot-v0", split)
        said[split] = [env.reset(seed=seed)[0] for seed in range(30)]
        assert [GymEnv("tests/Parrot-v0", split).reset(seed=seed)[0] for seed in range(30)] == said[split]
    assert said["train"] != said["test"]


def test_text_actions_pass_as_they_are():
    env = GymEnv("tests/Parrot-v0", max_turns=2)
    word, _ = env.reset(seed=0)
    assert env.step("Parrot!?" * 5)[0] == "That is no action." and env.step(word)[:4] == ("yes", 1.0, True, False)
    with pytest.raises(AbilityError, match="takes any text; it has no list of admissible actions"):
        env.admissible_actions()
    with pytest.raises(AbilityError, match="adapted without a signature; give signature=, a function of it"):
        env.state_signature()


def test_without_copies_there_are_no_snapshots():
    env = frozen_lake(copies=False)
    env.reset(seed=0)
    with pytest.raises(AbilityError, match="takes no snapshots"):
        env.snapshot()


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ("as it is", "as it is"),
        (np.int64(3), "3"),
        (np.array([0.123456, 2.0]), "[0.1235, 2.0]"),
        ({"a": np.array([1, 2]), "b": "c"}, "a: [1, 2]\nb: c"),
        ((1, np.float32(0.5)), "(1, 0.5)"),
    ],
)
def test_observations_are_written_out(observation, text):
    assert observation_text(observation) == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"env_id": "FrozenLake-v1"}, r"FrozenLake-v1 has 4 numbered actions; name them in their order: actions=\[...\]"),
        ({"env_id": "FrozenLake-v1", "actions": ["a"]}, "FrozenLake-v1 has 4 actions, and 1 different names are given; name each once"),
        ({"env_id": "FrozenLake-v1", "actions": "abcd"}, "actions is 'abcd'; it must be a list of names"),
        ({"env_id": "FrozenLake-v1", "actions": ["a", "A", "b", "c"]}, "and 3 different names are given"),
        ({"env_id": "Pendulum-v1"}, "Pendulum-v1 takes neither text nor discrete actions"),
        ({"env_id": "tests/Parrot-v0", "actions": ["a"]}, "takes text; leave out actions"),
        ({"env_id": "FrozenLac-v1"}, "Gymnasium cannot make 'FrozenLac-v1'"),
        ({"env_id": "FrozenLake-v1", "env_kwargs": {"ice": 1}}, "Gymnasium cannot make 'FrozenLake-v1'"),
        (
            {"env_id": "FrozenLake-v1", "actions": MOVES, "observe": "nowhere:at_all"},
            "'nowhere:at_all' is no function that can be imported",
        ),
        ({"env_id": "FrozenLake-v1", "actions": MOVES, "split": "all"}, "split is 'all'; choose train or test"),
        ({"env_id": "FrozenLake-v1", "actions": MOVES, "max_turns": 0}, "max_turns is 0"),
    ],
)
def test_what_does_not_fit_is_one_sentence(arguments, said):
    with pytest.raises(EnvironmentArgumentError, match=said) as fault:
        GymEnv(**arguments)
    assert "\n" not in str(fault.value)


def test_before_the_first_reset_there_is_no_episode():
    for ask in ("snapshot", "state_signature", "admissible_actions"):
        with pytest.raises(NoEpisodeError, match=r"no episode yet; call reset\(seed=...\) first"):
            getattr(frozen_lake(), ask)()
