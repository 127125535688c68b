"""Credible intervals lie around the estimates of `tree_graph` and hold about as often as they say."""

from dataclasses import replace

import numpy as np
import pytest
from known_worlds import layers
from limited_trees import limited_tree

from credit import GroupError, LoneRolloutError, SettingError, Turn, credible_intervals, estimate, estimate_batch


def flat(advantages) -> np.ndarray:
    return np.concatenate(advantages)


def test_intervals_lie_around_the_estimate_and_widen_with_the_level():
    tasks = [limited_tree(11), [[], *limited_tree(12)]]
    given = estimate_batch(tasks, "tree_graph", gamma=0.9)
    half, most, all_but = (credible_intervals(tasks, level=level, gamma=0.9) for level in (0.5, 0.95, 1 - 1e-16))
    for task, advantages in enumerate(given):
        for i, own in enumerate(advantages):
            narrow, wide, widest = half[task][i], most[task][i], all_but[task][i]
            assert narrow.shape == wide.shape == (len(own), 2)
            np.testing.assert_allclose(narrow.mean(axis=1), own, atol=1e-12)
            np.testing.assert_allclose(wide.mean(axis=1), own, atol=1e-12)
            # Quantiles of a normal distribution: .674490 and 1.959964 deviations.
            np.testing.assert_allclose(np.diff(wide), np.diff(narrow) * 1.959964 / 0.674490, rtol=1e-5)
            assert (np.diff(widest) >= 8 / 1.96 * np.diff(wide)).all()
        assert (np.diff(flat(half[task])) > 0.1).any()


def test_intervals_take_what_the_estimate_takes():
    parts = [[replace(turn, rewards={"a": turn.reward, "b": 1.0}) for turn in rollout] for rollout in limited_tree(13)]
    for taken in ({"weighting": "leaf"}, {"reward_weights": {"a": 1.0, "b": 0.3}}, {"pooled": False, "trust": 0.1}):
        (own,) = credible_intervals([parts], **taken)
        np.testing.assert_allclose(flat(own).mean(axis=1), flat(estimate(parts, "tree_graph", **taken)), atol=1e-12)
        assert not np.allclose(flat(own), flat(credible_intervals([parts])[0]))


def test_groups_without_an_interval():
    assert credible_intervals([]) == []
    empty, none = credible_intervals([[[], []], []])
    assert [own.shape for own in empty] == [(0, 2), (0, 2)] and none == []
    with pytest.raises(LoneRolloutError):
        credible_intervals([limited_tree(1)[:1]])
    with pytest.raises(GroupError):
        credible_intervals([[Turn("s", "a", "e", 1.0)]])


@pytest.mark.parametrize("level", [0, 1, 1.0, -0.5, True, "0.95", float("nan"), None])
def test_a_level_is_a_probability(level):
    with pytest.raises(SettingError, match=r"level is .*; allowed is a number above 0 and below 1, for example 0\.95"):
        credible_intervals([limited_tree(1)], level=level)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weighting": "leafs"}, "weighting is 'leafs'; did you mean 'leaf'"),
        ({"certainty": 1.0}, "certainty is 1.0, but has no effect with credible_intervals"),
        ({"gama": 1.0}, "no setting 'gama'; did you mean 'gamma'"),
    ],
)
def test_intervals_refuse_what_they_cannot_use(settings, message):
    with pytest.raises(SettingError, match=message):
        credible_intervals([limited_tree(1)], **settings)


def test_intervals_hold_about_as_often_as_they_say():
    """Where chance lies in the policy alone. Turns that were seen to lead nowhere else have an interval of no width, and are right."""
    tasks, exact = layers(80, 6, 1)
    for level in (0.5, 0.9):
        held = [
            (own[:, 0] - 1e-9 <= truth) & (truth <= own[:, 1] + 1e-9)
            for own, truth in zip(map(flat, credible_intervals(tasks, level=level)), exact, strict=True)
        ]
        assert level - 0.15 < np.concatenate(held).mean() < level + 0.1
