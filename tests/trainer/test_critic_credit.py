"""From values to advantages and targets: turns by `credit` gae, tokens by `token_gae`, penalties off the advantage alone."""

from typing import Any

import numpy as np
import pytest
from credit_trees import add, forked_tree, leaf_of

from trainer.config import CreditConfig, RewardConfig
from trainer.critic_credit import CriticValues
from trainer.tree_credit import TreeCredit, assign
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

NO_PENALTY = RewardConfig(invalid_penalty=0.0)
NAN = np.nan


def credit_of(
    tree: TrajectoryTree, values: list[list[float]], level: Any, reward: RewardConfig = NO_PENALTY, **settings: float
) -> TreeCredit:
    """`values` holds, per turn, what the critic says before its sampled tokens; every turn begins with one that was not."""
    column_T = np.concatenate([np.array([NAN, *numbers]) for numbers in values])
    method = CreditConfig(method="gae", settings={"gamma": 1.0, "lam": 1.0, **settings})
    (given,) = assign([tree], method, reward, 1, CriticValues([tree], [column_T], level)).trees
    return given


def test_turns_by_hand() -> None:
    """With lam 1 the advantage is the return minus the value; turn 2 is shared by outcomes 0 and 1."""
    given = credit_of(forked_tree(), [[0.5], [0.8], [0.4], [0.3], [0.6]], "turn")
    np.testing.assert_allclose(given.advantages_N, [0.5, 0.2, 0.1, -0.3, 0.4])
    assert given.tokens is not None and given.tokens.advantages_T is None
    np.testing.assert_allclose(given.tokens.targets_T, [NAN, 1.0, NAN, 1.0, NAN, 0.5, NAN, 0.0, NAN, 1.0])
    surprise = credit_of(forked_tree(), [[0.5], [0.8], [0.4], [0.3], [0.6]], "turn", lam=0.0)
    np.testing.assert_allclose(surprise.advantages_N, [0.3, 0.2, (0.3 + 0.6) / 2 - 0.4, -0.3, 0.4])


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (1.0, 0.0), (0.9, 0.5)])
def test_with_one_token_a_turn_both_levels_agree(gamma: float, lam: float) -> None:
    values = [[0.5], [0.8], [0.4], [0.3], [0.6]]
    by_turn, by_token = (credit_of(forked_tree(), values, level, gamma=gamma, lam=lam) for level in ("turn", "token"))
    np.testing.assert_allclose(by_token.advantages_N, by_turn.advantages_N)
    assert by_token.tokens is not None and by_turn.tokens is not None
    np.testing.assert_allclose(by_token.tokens.targets_T, by_turn.tokens.targets_T)


def long_turns() -> TrajectoryTree:
    tree = TrajectoryTree("tests", 0)
    first = add(tree, -1, "S", "a", "A", tokens=3)
    add(tree, first, "A", "b", "G", tokens=3, **leaf_of(reward=1.0))
    return tree


def test_tokens_have_advantages_of_their_own_and_turns_only_the_first_one_has_a_target() -> None:
    values = [[0.1, 0.2], [0.3, 0.4]]
    by_token = credit_of(long_turns(), values, "token")
    assert by_token.tokens is not None and by_token.tokens.advantages_T is not None
    np.testing.assert_allclose(by_token.tokens.advantages_T, [NAN, 0.9, 0.8, NAN, 0.7, 0.6])
    np.testing.assert_allclose(by_token.tokens.targets_T, [NAN, 1, 1, NAN, 1, 1])
    np.testing.assert_allclose(by_token.advantages_N, [0.85, 0.65])
    by_turn = credit_of(long_turns(), values, "turn")
    assert by_turn.tokens is not None
    np.testing.assert_allclose(by_turn.tokens.targets_T, [NAN, 1, NAN, NAN, 1, NAN])


@pytest.mark.parametrize("level", ["turn", "token"])
def test_a_penalty_is_for_the_policy_and_not_for_the_critic(level: str) -> None:
    tree = long_turns()
    tree.turns[0].valid = False
    plain = credit_of(tree, [[0.1, 0.2], [0.3, 0.4]], level)
    fined = credit_of(tree, [[0.1, 0.2], [0.3, 0.4]], level, RewardConfig(invalid_penalty=0.25))
    np.testing.assert_allclose(fined.advantages_N, plain.advantages_N - [0.25, 0.0])
    assert fined.tokens is not None and plain.tokens is not None
    np.testing.assert_array_equal(fined.tokens.targets_T, plain.tokens.targets_T)
    if level == "token":
        np.testing.assert_allclose(fined.tokens.advantages_T, plain.tokens.advantages_T - [0.25, 0.25, 0.25, 0, 0, 0])  # pyright: ignore


@pytest.mark.parametrize("level", ["turn", "token"])
def test_what_does_not_count_has_no_target_and_a_lone_rollout_does(level: str) -> None:
    tree = TrajectoryTree("tests", 0)
    add(tree, -1, "S", "a", "A", **leaf_of(StopReason.ENV_ERROR))
    add(tree, -1, "S", "b", "B", **leaf_of(reward=1.0))
    given = credit_of(tree, [[0.9], [0.25]], level)
    np.testing.assert_allclose(given.advantages_N, [0.0, 0.75])
    np.testing.assert_array_equal(given.weights_N, [0.0, 1.0])
    assert given.tokens is not None
    np.testing.assert_allclose(given.tokens.targets_T, [NAN, NAN, NAN, 1.0])


@pytest.mark.parametrize("level", ["turn", "token"])
def test_a_turn_that_was_never_sampled_passes_on_what_it_earned(level: str) -> None:
    tree = TrajectoryTree("tests", 0)
    first = add(tree, -1, "S", "a", "A")
    add(tree, first, "A", "", "A", tokens=0, **leaf_of(reward=1.0))
    column_T = np.array([NAN, 0.25])
    method = CreditConfig(method="gae", settings={"lam": 1.0})
    (given,) = assign([tree], method, NO_PENALTY, 1, CriticValues([tree], [column_T], level)).trees  # pyright: ignore
    assert given.advantages_N[0] == pytest.approx(0.75)
