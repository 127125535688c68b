"""TextWorldExpress in its Java process: the package's solutions win, forks by replay are exact, and seeds decide."""

from collections.abc import Iterator

import pytest

import envs
from envs import AbilityError, EnvironmentArgumentError
from envs.adapters.textworld_express_env import TextWorldExpressEnv


@pytest.fixture(scope="module")
def coin() -> Iterator[envs.TextEnv]:
    env = envs.make("branchwise/TextWorldExpress-v0", game="coin")
    yield env
    env.close()


@pytest.mark.slow
def test_the_solution_wins(coin):
    for seed in range(10):
        coin.reset(seed=seed)
        total, ended, info = 0.0, False, {}
        while not ended:
            assert coin.expert_action() in coin.admissible_actions()
            _, reward, ended, truncated, info = coin.step(coin.expert_action())
            total += reward
            assert info["valid"] and not truncated
        assert total == pytest.approx(1) and info["success"]


def test_a_fork_is_the_same_game_and_the_expert_is_lost_after_another_action(coin):
    first = coin.reset(seed=4)
    coin.step(coin.expert_action())
    snapshot, gold = coin.snapshot(), coin.expert_action()
    other = next(action for action in coin.admissible_actions() if action != gold)
    ahead = coin.step(other)
    with pytest.raises(AbilityError, match="reset, and follow it from the start"):
        coin.expert_action()
    coin.restore(snapshot)
    assert coin.expert_action() == gold and coin.step(other) == ahead
    assert coin.reset(seed=4) == first != coin.reset(seed=5)


def test_a_game_has_one_solution_however_often_it_is_begun(coin):
    def solution() -> list[str]:
        coin.reset(seed=3)
        actions, ended = [], False
        while not ended:
            actions.append(coin.expert_action())
            ended = coin.step(actions[-1])[2]
        return actions

    assert solution() == solution() == solution()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"game": "coins"}, "TextWorldExpress has no game 'coins'; did you mean coin"),
        ({"split": "dev"}, "split is 'dev'"),
        ({"max_turns": 0}, "max_turns is 0"),
    ],
)
def test_arguments_are_judged_with_one_sentence(arguments, said):
    with pytest.raises(EnvironmentArgumentError, match=said):
        TextWorldExpressEnv(**arguments)
