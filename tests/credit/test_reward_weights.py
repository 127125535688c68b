"""Weights of named rewards: constants and schedules over steps, and what a batch makes of them."""

import pickle

import numpy as np
import pytest

from credit import Batch, GroupError, RewardWeights, SettingError, Turn, estimate


def rollouts() -> list[list[Turn]]:
    parts = ({"task": 1.0, "format": 0.0}, {"task": 0.0, "format": 1.0}, {"task": 0.0})
    return [[Turn("s", i, "e", 7.0, rewards=part)] for i, part in enumerate(parts)]


def test_constants_and_schedules():
    weights = RewardWeights({"task": 1, "format": [(0, 0.5), (100, 0.1)], "length": [[10, -1.0], [20, 0], [40, 1.0]]})
    table = {
        -5: (0.5, -1.0),
        0: (0.5, -1.0),
        10: (0.46, -1.0),
        15: (0.44, -0.5),
        20: (0.42, 0.0),
        30: (0.38, 0.5),
        100: (0.1, 1.0),
        1e9: (0.1, 1.0),
    }
    for step, (form, length) in table.items():
        given = weights.at(step)
        assert list(given) == ["task", "format", "length"] and all(type(weight) is float for weight in given.values())
        assert given == pytest.approx({"task": 1.0, "format": form, "length": length})


def test_a_schedule_of_one_pair_is_a_constant_and_wide_ones_do_not_overflow():
    assert RewardWeights({"a": [(5, 2.0)]}).at(0) == RewardWeights({"a": 2}).at(9) == {"a": 2.0}
    wide = RewardWeights({"a": [(-1e308, -1e308), (1e308, 1e308)]})
    assert wide.at(0)["a"] == pytest.approx(0.0, abs=1e290) and wide.at(1e308)["a"] == 1e308


def test_weights_are_read_once_and_survive_pickling():
    given = {"task": 1.0, "format": [[0, 0.5], [100, 0.1]]}
    weights = RewardWeights(given)
    given["format"][1][1] = 9.0  # type: ignore[index]
    assert weights.at(100)["format"] == 0.1
    again = pickle.loads(pickle.dumps(weights))
    assert again == weights and again.at(50) == weights.at(50)
    with pytest.raises(AttributeError):
        weights.schedules = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        weights.schedules["task"] = 2.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give a mapping"),
        ([("task", 1.0)], "give a mapping"),
        ({1: 1.0}, "a reward is named 1"),
        ({"": 1.0}, "a reward is named ''"),
        ({"task": "1"}, "the weight of reward 'task' is '1'; give a finite number"),
        ({"task": True}, "the weight of reward 'task' is True"),
        ({"task": float("inf")}, "the weight of reward 'task' is inf"),
        ({"task": None}, "the weight of reward 'task' is None"),
        ({"task": []}, "the schedule of reward 'task' is empty"),
        ({"task": [1.0, 2.0]}, "the schedule of reward 'task' has 1.0; give pairs"),
        ({"task": [(0, 1, 2)]}, "give pairs of a step and a weight"),
        ({"task": ["ab"]}, "has 'ab'; give pairs"),
        ({"task": [(0, float("nan"))]}, "the weight of reward 'task' is nan"),
        ({"task": [(float("nan"), 0)]}, "a step in the schedule of reward 'task' is nan"),
        ({"task": [(5, 0), (5, 1)]}, "goes from step 5 to step 5; give ascending steps"),
        ({"task": [(0, 0), (9, 1), (5, 1)]}, "goes from step 9 to step 5"),
    ],
)
def test_what_is_no_weight(given, message):
    with pytest.raises(SettingError, match=message):
        RewardWeights(given)


@pytest.mark.parametrize("step", [float("nan"), "3", None, True])
def test_what_is_no_step(step):
    with pytest.raises(SettingError, match="step is"):
        RewardWeights({"task": 1.0}).at(step)


def test_a_turns_reward_is_the_weighted_sum_of_its_parts():
    weights = RewardWeights({"task": 1.0, "format": [(0, 0.5), (100, -0.5)]})
    for step, outcomes in ((0, [1, 0.5, 0]), (50, [1, 0, 0]), (100, [1, -0.5, 0])):
        given = np.concatenate(estimate(rollouts(), "dr_grpo", reward_weights=weights.at(step)))
        np.testing.assert_allclose(given, np.array(outcomes) - np.mean(outcomes), atol=1e-12)


def test_a_batch_keeps_the_parts_as_they_were_paid():
    batch = Batch.read([rollouts()], reward_weights={"task": 2, "format": 0.5})
    assert {name: part.tolist() for name, part in batch.rewards.items()} == {"format": [0, 1, 0], "task": [1, 0, 0]}
    assert batch.reward_weights == {"task": 2.0, "format": 0.5}
    assert batch.reward_O.tolist() == batch.outcome_R.tolist() == [2.0, 0.5, 0.0]
    unweighted = Batch.read([rollouts()], needs={"rewards"})
    assert unweighted.reward_weights == {"task": 1.0, "format": 1.0} and unweighted.reward_O.tolist() == [7.0] * 3
    assert Batch.read([rollouts()]).rewards == {} == Batch.read([rollouts()]).reward_weights


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({"task": 1.0, "fromat": 1.0}, GroupError, "'fromat', which no turn has; did you mean 'format'"),
        ({"task": 1.0}, GroupError, "a reward 'format' without a weight"),
        ({"task": float("nan"), "format": 1.0}, SettingError, "the weight of reward 'task' is nan"),
        ({"task": "1", "format": 1.0}, SettingError, "the weight of reward 'task' is '1'"),
        ({"task": 1e200, "format": 1.0}, GroupError, r"turn 0 of rollout 0 has a weighted reward above 1e\+100"),
        (RewardWeights({"task": 1.0, "format": 1.0}), SettingError, r"a RewardWeights; .* RewardWeights.at\(step\) returns"),
        ([1.0, 2.0], SettingError, "reward_weights is a list"),
    ],
)
def test_weights_that_do_not_fit_the_turns(weights, error, message):
    with pytest.raises(error, match=message):
        estimate(rollouts(), "grpo", reward_weights=weights)


def test_weights_need_parts_on_every_turn():
    with pytest.raises(GroupError, match="turn 0 of rollout 3 has rewards None"):
        estimate([*rollouts(), [Turn("s", "a", "e", 1.0)]], "grpo", reward_weights={"task": 1.0, "format": 1.0})
    with pytest.raises(GroupError, match=r"turn 0 of rollout 3 has rewards \[1\]"):
        estimate([*rollouts(), [Turn("s", "a", "e", 1.0, rewards=[1])]], "gdpo")  # type: ignore[arg-type]
