"""GAE over tokens: on a chain by its definition, on a tree the mean of each rollout's own by weight."""

import numpy as np
import pytest
from token_trees import random_tree

from trainer.token_gae import token_gae


def chain_gae(values, rewards, gamma, lam):
    """The definition, as a double sum over one row of tokens; `rewards` are those that come with each."""
    following = [*values[1:], 0.0]
    deltas = [reward + gamma * after - value for reward, after, value in zip(rewards, following, values, strict=True)]
    return [sum((gamma * lam) ** (j - k) * deltas[j] for j in range(k, len(deltas))) for k in range(len(deltas))]


def test_by_hand():
    """Two turns of two tokens and of one: the step over the observation is one step."""
    advantages = token_gae([-1, 0], [np.array([0.5, 0.25]), np.array([1.0])], np.array([0.0, 2.0]), np.ones(2), 1.0, 0.5)
    assert advantages[1].tolist() == [1.0]  # 2 + 0 - 1
    assert advantages[0].tolist() == [0.375, 1.25]  # .25 - .5 + .5 x 1.25, and 0 + 1 - .25 + .5 x 1


def test_a_fork_is_the_mean_of_what_grew_from_it():
    values, weights_N = [np.array([0.5]), np.array([1.0]), np.array([0.0])], np.array([1, 0.75, 0.25])
    advantages = token_gae([-1, 0, 0], values, np.array([0.0, 2.0, 1.0]), weights_N, 1.0, 1.0)
    assert advantages[0].tolist() == pytest.approx([0.75 * 2 + 0.25 * 1 - 0.5])


@pytest.mark.parametrize("weighting", ["path_weights", "leaf_weights"])
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (1.0, 0.0), (0.9, 0.7)])
@pytest.mark.parametrize("seed", range(3))
def test_a_tree_is_its_flattened_rollouts(seed, gamma, lam, weighting):
    """Also where turns have no tokens: what they earned comes with the token before."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, turns=14)
    counts = [int(rng.integers(0, 4)) if turn.parent >= 0 else 2 for turn in tree.turns]
    values = [rng.normal(size=count) for count in counts]
    rewards_N, weights_N = rng.normal(size=14), getattr(tree, weighting)()
    given = token_gae([turn.parent for turn in tree.turns], values, rewards_N, weights_N, gamma, lam)
    sums, totals = [np.zeros(count) for count in counts], np.zeros(14)
    for path in tree.rollouts():
        row = [(index, place) for index in path for place in range(counts[index])]
        rewards = np.zeros(len(row))
        for index in path:
            last = max(step for step, (turn, _) in enumerate(row) if turn <= index)
            rewards[last] += rewards_N[index]
        advantages = chain_gae([values[index][place] for index, place in row], rewards, gamma, lam)
        weight = weights_N[path[-1]]
        for (index, place), advantage in zip(row, advantages, strict=True):
            sums[index][place] += weight * advantage
        totals[path] += weight
    for index, numbers_T in enumerate(given):
        np.testing.assert_allclose(numbers_T, sums[index] / totals[index], rtol=0, atol=1e-12)
