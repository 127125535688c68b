"""PPO steps on exact policies do what PPO does, for each batch alone, and are valued exactly."""

from dataclasses import replace

import numpy as np
import pytest

import credit
from benchmarks.truth.cell import Cell, draw_cell, start_of, starts_of
from benchmarks.truth.policy import Policy
from benchmarks.truth.ppo import CLIP, GROUPS, Minibatch, clipped_slope, courses_of, fair_step, gains, softmax


def cell(name: str, draws: int, each: int) -> Cell:
    return draw_cell(f"test {name}", starts_of(name, "tabular", draws), "none", each)


def advantages(method: str, where: Cell) -> np.ndarray:
    return credit.resolve(method, {}).advantages(where.batch)


def test_a_small_step_gains_what_the_gradient_promises():
    where = cell("stopping", draws=1, each=GROUPS)
    (course,) = courses_of(where)
    start, sample = where.starts[0], where.samples[0]
    step = 1e-4
    gained = gains([course], where.truth_O, step)
    scaled_O = where.truth_O / np.sqrt(np.mean(where.truth_O**2))
    share_O = 1 / np.bincount(sample.group_O)[sample.group_O]
    slope_D = start.policy.gradients(sample.state_O, sample.action_O, share_O * scaled_O, np.zeros_like(sample.group_O), 1)[0]
    # Four epochs, each with one step for every group.
    assert gained == pytest.approx([4 * step * slope_D @ start.solution.gradient_D], rel=0.01)
    assert gains([course], 1e6 * where.truth_O, step) == pytest.approx(gained), "the size of advantages does not matter"
    assert gains([course], np.zeros(len(where.truth_O)), 1.0) == pytest.approx([0], abs=1e-12)
    assert gains([course], -where.truth_O, step)[0] < 0


def test_the_slope_is_that_of_the_clipped_objective():
    rng = np.random.default_rng(4)
    rows, pairs, actions = 40, 5, 3
    pair_O, action_O = rng.integers(pairs, size=rows), rng.integers(actions, size=rows)
    logits_KP, old_KP = rng.standard_normal((actions, pairs)), softmax(rng.standard_normal((actions, pairs)))
    advantage_O, share_O = rng.standard_normal(rows), rng.random(rows)
    minibatch = Minibatch(np.arange(rows), pair_O, action_O, old_KP[action_O, pair_O], share_O)

    def objective(logits_KP: np.ndarray) -> float:
        ratio_O = softmax(logits_KP)[action_O, pair_O] / minibatch.old_O
        return float(share_O @ np.minimum(ratio_O * advantage_O, np.clip(ratio_O, 1 - CLIP, 1 + CLIP) * advantage_O))

    for place in np.ndindex(actions, pairs):
        step_KP = np.zeros((actions, pairs))
        step_KP[place] = 1e-6
        expected = (objective(logits_KP + step_KP) - objective(logits_KP - step_KP)) / 2e-6
        assert clipped_slope(softmax(logits_KP), minibatch, advantage_O)[place] == pytest.approx(expected, abs=1e-7)


def test_a_ratio_beyond_the_clip_is_not_pushed_further():
    where = cell("first_w4", draws=1, each=GROUPS)
    (course,) = courses_of(where)
    first_O = np.where(where.batch.position_O == 0, where.truth_O, 0.0)
    start = where.starts[0]
    reached = [gains([course], first_O, step)[0] for step in (0.25, 0.5, 1.0)]
    # One state, one decision: no action's probability moves further than one step past the clip.
    p_K, q_K = start.policy.probs_XK[start.process.start], start.solution.q_HXK[0, start.process.start]
    bound = np.abs(p_K * CLIP) @ np.abs(q_K - start.solution.value)
    assert reached[0] < reached[1] and reached[2] < 2.5 * bound


def test_shared_parameters_that_are_a_table_train_like_a_table():
    process, table = starts_of("idle_chain", "tabular", 1)[0].process, starts_of("idle_chain", "tabular", 1)[0].policy
    states, actions = table.shape
    features_XKD = np.eye(states * actions).reshape(states, actions, -1)
    shared = start_of(0, process, Policy(table.theta_D, table.shape, features_XKD))
    where = cell("idle_chain", draws=1, each=2 * GROUPS + 1)
    twin = replace(where, starts=(shared,))
    advantage_O = advantages("rtmc", where)
    expected = gains(courses_of(where), advantage_O, 4.0)
    np.testing.assert_allclose(gains(courses_of(twin), advantage_O, 4.0), expected)
    assert len(expected) == 2, "groups that fill no batch are left out"


def test_batches_share_nothing():
    where = cell("idle_chain", draws=1, each=2 * GROUPS)
    (course,) = courses_of(where)
    advantage_O = advantages("rtmc", where)
    changed_O = np.where(where.batch.task_O < GROUPS, advantage_O, -advantage_O)
    first, second = gains([course], advantage_O, 4.0), gains([course], changed_O, 4.0)
    assert first[0] == second[0] and first[1] > 0 > second[1]


def test_the_fair_step_gains_half_of_the_most():
    where = cell("household", draws=2, each=GROUPS)
    courses = courses_of(where)
    step = fair_step(courses, where.truth_O)
    most = max(gains(courses, where.truth_O, 2.0**power).mean() for power in range(10))
    assert gains(courses, where.truth_O, step / 2).mean() < most / 2 <= gains(courses, where.truth_O, step).mean()


def test_softmax_stands_large_logits():
    np.testing.assert_allclose(softmax(np.array([[900.0, 0.0], [0.0, 0.0]])), [[1, 0.5], [0, 0.5]])
