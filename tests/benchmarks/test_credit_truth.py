"""What the benchmark says of an estimator is what a slow, plain computation says, and the traps that it warns of are real."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

import credit
from benchmarks.truth import coverage
from benchmarks.truth.cell import Cell, draw_cell, starts_of
from benchmarks.truth.effects import BASE, EFFECTS, POINTS, Point, effect
from benchmarks.truth.entrants import FLAT, TREE, entrants, find
from benchmarks.truth.gradients import gradient_figures
from benchmarks.truth.leak import leaking_advantages
from benchmarks.truth.resample import Resamples, Sure, combined, geometric_mean
from benchmarks.truth.sample import path_weights
from benchmarks.truth.scale import Scale
from benchmarks.truth.scores import gradient_scores, turn_ratio, turn_scores
from benchmarks.truth.traps import TRAPS, spring
from benchmarks.truth.turns import turn_figures
from credit.graph_posterior import Posterior

TINY = Scale(draws=2, each=4, ruled=4, all_ruled=False, effects=4, traps=60)


@cache
def cell(name: str, layout: str = FLAT, draws: int = 2, each: int = 6, policy: str = "tabular") -> Cell:
    return draw_cell(f"test {name}", starts_of(name, policy, draws), layout, each)


def advantages(method: str, where: Cell) -> np.ndarray:
    return credit.resolve(method, {}).advantages(where.batch)


# ---------------------------------------------------------------------- what is measured


def test_every_estimator_is_measured_and_no_name_stands_twice():
    listed = entrants()
    assert {entrant.method for entrant in listed} == set(credit.methods())
    assert len({entrant.label for entrant in listed}) == len(listed)
    for entrant in listed:
        both = credit.resolve(entrant.method, entrant.settings).estimator.family != "tree" or entrant.method == "tree_graph"
        assert entrant.layouts() == ((FLAT, TREE) if both else (TREE,)), entrant.label


@pytest.mark.parametrize("layout", [FLAT, TREE])
def test_groups_of_a_cell_are_judged_as_each_would_be_alone(layout):
    where = cell("stopping", layout)
    group = 0
    for sample, rows in zip(where.samples, where.rows, strict=True):
        columns = (sample.signature_O, sample.action_O, sample.next_signature_O, sample.reward_O, sample.node_O)
        turns = [credit.Turn(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        rollouts = [turns[start : start + length] for start, length in zip(sample.start_R, sample.length_R, strict=True)]
        alone = [[rollouts[r] for r in np.flatnonzero(sample.group_R == g)] for g in range(where.each)]
        for method in ("rtmc", "salt", "tree_mc"):
            expected = np.concatenate([np.concatenate(credit.estimate(own, method)) for own in alone])
            np.testing.assert_allclose(advantages(method, where)[rows], expected, atol=1e-12)
        assert (where.batch.task_O[rows] == group + sample.group_O).all()
        group += where.each


def test_a_training_batch_has_one_group_of_every_draw():
    where = cell("stopping", draws=3)
    draws_of_pool = [sorted(np.flatnonzero(where.pool_T == pool) // where.each) for pool in range(where.each)]
    assert draws_of_pool == [[0, 1, 2]] * where.each


def test_the_same_key_gives_the_same_samples_and_another_key_others():
    starts = starts_of("stopping", "tabular", 1)
    first, again, other = (draw_cell(key, starts, TREE, 3) for key in ("a", "a", "b"))
    for name in ("action_O", "reward_O"):
        np.testing.assert_array_equal(getattr(first.batch, name), getattr(again.batch, name))
    for name, column_O in first.batch.extra.items():
        np.testing.assert_array_equal(column_O, again.batch.extra[name])
    assert not np.array_equal(first.batch.action_O, other.batch.action_O)


def test_the_merge_rate_counts_other_rollouts_only():
    where = draw_cell("test merges", starts_of("household", "tabular", 2), FLAT, 2, rollouts=3)
    batch = where.batch
    met, later = 0, 0
    for row in np.flatnonzero(batch.position_O > 0):
        others_O = (batch.task_O == batch.task_O[row]) & (batch.rollout_O != batch.rollout_O[row])
        met, later = met + bool((batch.state_O[others_O] == batch.state_O[row]).any()), later + 1
    assert where.merge_rate == pytest.approx(met / later)
    wide, narrow = (effect(Point(width=width), TINY).merge_rate for width in (300, 4))
    assert wide < 0.55 and narrow > 0.9


# ---------------------------------------------------------------------- inputs made from the truth


def test_inputs_say_what_the_notes_say():
    where = cell("key_door", TREE, draws=1, each=40)
    start, sample, batch = where.starts[0], where.samples[0], where.batch
    value_O = start.solution.value_HX[sample.time_O, sample.state_O]
    last_O = np.append(sample.time_O[1:] == 0, True)
    change_O = np.where(last_O, sample.reward_O, np.append(value_O[1:], 0.0)) - value_O
    judged_O = batch.rewards["process"] - change_O
    assert abs(judged_O.mean()) < 0.01 and judged_O.std() == pytest.approx(0.1, rel=0.05)
    np.testing.assert_array_equal(batch.rewards["process"], batch.extra["information_gain"])
    np.testing.assert_array_equal(batch.rewards["task"], sample.reward_O)
    assert (batch.extra["anchor"] == start.solution.value).all() and not batch.extra["next_value"].any()
    assert np.array_equal(batch.extra["truncated"] == 1, last_O & (sample.time_O == start.process.horizon - 1) & (sample.reward_O == 0))
    large_O = np.abs(where.truth_O) > np.quantile(np.abs(where.truth_O), 0.75)
    assert np.mean(batch.extra["cited"] == large_O) == pytest.approx(0.9, abs=0.02)
    assert np.corrcoef(batch.extra["teacher_logprob_gap"], change_O)[0, 1] > 0.5


def test_critics_are_wrong_by_as_much_as_they_say_and_always_in_the_same_way():
    for name, share in (("good critic", 0.25), ("poor critic", 1.0)):
        errors, spreads = [], []
        for layout in (FLAT, TREE):
            where = cell("random_w30", layout)
            pairs = list(zip(where.starts, where.samples, strict=True))
            values_O = np.concatenate([s.solution.value_HX[x.time_O, x.state_O] for s, x in pairs])
            places = [(s.seed, *place) for s, x in pairs for place in zip(x.time_O.tolist(), x.state_O.tolist(), strict=True)]
            errors.append(dict(zip(places, where.values[name] - values_O, strict=True)))
            spreads.append(np.std(where.values[name] - values_O) / np.std(values_O))
        assert spreads == pytest.approx([share, share], rel=0.25)
        both = errors[0].keys() & errors[1].keys()
        assert len(both) > 100 and all(errors[0][place] == errors[1][place] for place in both)


def test_each_critic_is_read_by_its_own_entrant():
    where = cell("stopping")
    batch = where.batch
    for quality in ("good critic", "poor critic"):
        value_O = where.values[quality]
        expected_O = np.zeros(len(value_O))
        for row in reversed(range(len(value_O))):
            is_last = batch.position_O[row] == batch.lengths_R[batch.rollout_O[row]] - 1
            ahead, later = (0.0, 0.0) if is_last else (value_O[row + 1], expected_O[row + 1])
            expected_O[row] = batch.reward_O[row] + ahead - value_O[row] + 0.95 * later
        (entrant,) = find(f"gae, {quality}")
        np.testing.assert_allclose(entrant.on(where), expected_O, atol=1e-12)


# ---------------------------------------------------------------------- gradients


def test_gradient_figures_are_those_of_a_plain_computation():
    where = cell("stopping", TREE, each=4)
    advantage_O = advantages("gigpo", where)
    figures = gradient_figures(where, advantage_O)
    along, pair, truth, cosines = 0.0, 0.0, 0.0, []
    for start, sample, rows in zip(where.starts, where.samples, where.rows, strict=True):
        weighted_O = (advantage_O * where.batch.weight_O)[rows]
        gradients = start.policy.gradients(sample.state_O, sample.action_O, weighted_O, sample.group_O, where.each)
        gradients *= where.each / path_weights(sample).sum()
        exact_D = start.solution.gradient_D
        along += gradients.mean(axis=0) @ exact_D
        pair += np.mean([gradients[g] @ gradients[h] for g, h in combinations(range(where.each), 2)])
        truth += exact_D @ exact_D
        cosines += [g @ exact_D / np.linalg.norm(g) / np.linalg.norm(exact_D) for g in gradients]
    np.testing.assert_allclose(figures.cosine_G, cosines)
    assert (figures.along_G.sum(), figures.pair_G.sum(), figures.truth) == pytest.approx((along, pair, truth))


@pytest.mark.parametrize("layout", [FLAT, TREE])
@pytest.mark.parametrize("policy", ["tabular", "shared", "history"])
def test_exact_advantages_have_the_exact_mean_gradient(policy, layout):
    where = cell("idle_chain", layout, each=40, policy=policy)
    figures = gradient_figures(where, where.truth_O)
    assert figures.along_G.sum() == pytest.approx(figures.truth, rel=0.03), "of the right size, too"
    scores = gradient_scores(figures, Resamples.of(where.key, 2, 40))
    assert scores.mean_cosine.value == pytest.approx(1, abs=0.01)
    assert scores.mean_error.value < 0.15 and scores.cosine.value < scores.mean_cosine.value
    turned = gradient_scores(gradient_figures(where, -where.truth_O), Resamples.of(where.key, 2, 40))
    assert turned.cosine.value == -scores.cosine.value and turned.mean_error.value == 1
    assert turn_ratio(turned.cosine, scores.cosine).value == 0 and turn_ratio(scores.cosine, scores.cosine).interval == (1, 1)


def test_a_group_without_a_gradient_points_nowhere():
    where = cell("stopping", each=4)
    advantage_O = np.where(where.batch.task_O == 1, 1e-17, 1.0) * where.truth_O
    assert np.flatnonzero(gradient_figures(where, advantage_O).cosine_G == 0).tolist() == [1]


# ---------------------------------------------------------------------- turn advantages


def test_the_systematic_part_is_that_of_pairs_of_groups():
    where = cell("stopping", TREE, draws=1, each=4)
    advantage_O = np.random.default_rng(0).standard_normal(len(where.truth_O))
    sample, weight_O = where.samples[0], where.batch.weight_O
    places = list(zip(sample.time_O.tolist(), sample.state_O.tolist(), sample.action_O.tolist(), strict=True))
    squared, product = 0.0, 0.0
    for place in set(places):
        rows_G = [[row for row, at in enumerate(places) if at == place and sample.group_O[row] == group] for group in range(4)]
        w_G = [weight_O[rows].sum() for rows in rows_G]
        s_G = [(weight_O[rows] * advantage_O[rows]).sum() for rows in rows_G]
        if sum(w > 0 for w in w_G) > 1:
            pairs = [(g, h) for g in range(4) for h in range(4) if g != h]
            squared += sum(w_G) * sum(s_G[g] * s_G[h] for g, h in pairs) / sum(w_G[g] * w_G[h] for g, h in pairs)
            product += sum((weight_O[rows] * advantage_O[rows] * where.truth_O[rows]).sum() for rows in rows_G)
    figures = turn_figures(where, advantage_O)
    assert figures.systematic_G.sum() == pytest.approx(squared) and figures.product_G.sum() == pytest.approx(product)


def test_noise_is_variance_and_an_offset_of_states_is_bias():
    where = cell("random_w4", draws=2, each=60)
    resamples = Resamples.of(where.key, 2, 60)
    size = np.sqrt(np.average(where.truth_O**2, weights=where.batch.weight_O))
    exact = turn_scores(turn_figures(where, 3 * where.truth_O), resamples)
    assert (exact.error.value, exact.bias.value, exact.variance.value) == pytest.approx((0, 0, 0), abs=1e-9)
    noise_O = 2 * size * np.random.default_rng(1).standard_normal(len(where.truth_O))
    noisy = turn_scores(turn_figures(where, 3 * (where.truth_O + noise_O)), resamples)
    assert noisy.error.value == pytest.approx(1 - 1 / 5, abs=0.02)
    assert noisy.bias.value == pytest.approx(0, abs=0.05) and noisy.variance.value == pytest.approx(4, rel=0.1)
    assert noisy.variance.interval[0] < 4 < noisy.variance.interval[1]
    state_O = np.concatenate([sample.state_O for sample in where.samples])
    offset_O = size * np.where(state_O % 2, 1.0, -1.0)
    shifted = turn_scores(turn_figures(where, where.truth_O + offset_O), resamples)
    assert shifted.bias.value == pytest.approx(0.5, abs=0.05) and shifted.variance.value == pytest.approx(0, abs=1e-9)
    turned = turn_scores(turn_figures(where, -where.truth_O), resamples)
    assert (turned.error.value, turned.bias.value) == (1, 1) and np.isnan(turned.variance.value)


def test_credible_intervals_hold_where_the_truth_lies_within_two_deviations(monkeypatch):
    where = cell("random_w200", draws=2, each=8)
    assert 0 < where.batch.unanimous_T.sum() < 16
    first_N = where.batch.nodes.first_N
    shares = []
    for off in (0.0, 1.9, 2.0):
        known = Posterior(where.truth_O[first_N] + 0.1 * off, np.full(len(first_N), 0.01), np.zeros(len(first_N)))
        monkeypatch.setattr(coverage, "known_advantages", lambda *_, known=known: known)
        held_G, counted_G = coverage.held_and_counted(where)
        shares.append(held_G.sum() / counted_G.sum())
        assert (counted_G > 0).sum() == (~where.batch.unanimous_T).sum()
    assert shares == [1, 1, 0]


# ---------------------------------------------------------------------- how sure


def test_resamples_keep_every_draw_and_intervals_cover_as_often_as_they_say():
    count_BG = Resamples.of("key", 3, 5).count_BG
    assert (count_BG.reshape(-1, 3, 5).sum(axis=2) == 5).all() and count_BG.mean() == 1
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(100):
        low, high = Resamples.of(f"{trial}", 4, 15).mean(rng.normal(size=60)).interval
        covered += low <= 0 <= high
    assert 86 <= covered <= 99


def test_pairs_leave_the_noise_out_and_know_how_sure_they_are():
    rng = np.random.default_rng(1)
    covered, found = 0, []
    for trial in range(100):
        x_G = 1 + 2 * rng.normal(size=60)
        squared = Resamples.of(f"pair {trial}", 1, 60).pairs(x_G * (x_G.sum() - x_G) / (60 * 59))
        covered += squared.interval[0] <= 1 <= squared.interval[1]
        found.append(squared.value)
    assert abs(np.mean(found) - 1) < 4 * np.std(found) / 10 and 84 <= covered <= 99


def test_numbers_that_share_groups_are_compared_on_the_same_resamples():
    resamples = Resamples.of("k", 1, 40)
    x_G = np.random.default_rng(2).normal(5, 1, size=40)
    once, twice = resamples.mean(x_G), resamples.mean(2 * x_G)
    assert twice.over(once).interval == pytest.approx((2, 2))
    assert np.isnan(once.over(resamples.mean(0 * x_G)).value)
    low, high = geometric_mean([once, twice], 0.01).interval
    assert low < np.sqrt(2) * once.value < high
    assert geometric_mean([Sure(0.0, np.zeros(3)), Sure(4.0, np.full(3, 4.0))], 0.01).value == pytest.approx(0.2)
    assert combined(lambda values: values.sum(axis=0), [once, twice]).value == pytest.approx(3 * once.value)
    assert Sure(np.nan, np.full(3, np.nan)).interval == pytest.approx((np.nan, np.nan), nan_ok=True)


# ---------------------------------------------------------------------- effects and traps


def test_each_effect_varies_one_thing_about_the_same_base():
    for name, (_, points) in EFFECTS.items():
        assert BASE in points and len(points) >= 3
        assert all(replace(point, **{name: getattr(BASE, name)}) == BASE for point in points)
    assert len(POINTS) == len(set(POINTS)) == 1 + sum(len(points) - 1 for _, points in EFFECTS.values())


def test_an_effect_has_its_own_reference():
    few, many = (effect(Point(rollouts=n), TINY) for n in (4, 32))
    for found in (few, many):
        assert found.ratio["dr_grpo"][FLAT].value == 1 and found.ratio["salt"][FLAT].value == pytest.approx(1)
        assert TREE in found.ratio["tree_mc"] and FLAT not in found.ratio["tree_mc"]
    assert many.cosine.value > 1.5 * few.cosine.value
    quiet, loud = (effect(Point(noise=noise), TINY).cosine.value for noise in (0.0, 2.0))
    assert loud < quiet / 2


def caught(name: str):
    return spring(name, TINY if name != "length" else replace(TINY, draws=4, traps=150))


@pytest.mark.parametrize("name", ["index, depthwise", "index, mt_grpo"])
def test_normalising_by_index_is_biased_where_the_policy_decides_when_to_stop(name):
    found = caught(name)
    assert found.wrong.mean_cosine.value < found.right.mean_cosine.value - 0.03
    assert found.wrong.mean_cosine.interval[1] < 0.97 and found.ratio.interval[1] < 1


def test_counting_long_rollouts_more_costs_turns_in_small_groups():
    found = caught("length")
    assert found.ratio.value < 0.95 and found.ratio.interval[1] < 1


def test_counting_leaves_is_biased_where_forks_are_at_high_entropy():
    found = caught("leaf")
    assert found.wrong.mean_cosine.value < 0.93 and found.wrong.mean_cosine.interval[1] < found.right.mean_cosine.interval[0]


def test_two_tasks_read_as_one_group_are_judged_by_each_others_outcomes():
    found = caught("leak")
    assert found.wrong.mean_cosine.interval[1] < 0.85 < found.right.mean_cosine.interval[0] and found.ratio.interval[1] < 0.8


def test_a_leak_joins_two_tasks_and_no_more():
    where = cell("idle_chain", draws=2, each=3)
    leaking_O = leaking_advantages(where, "dr_grpo")
    batch = where.batch
    for group in range(3):
        joint_R = np.isin(batch.task_R, [group, where.each + group])
        centred_R = batch.outcome_R - batch.outcome_R[joint_R].mean()
        rows_O = joint_R[batch.rollout_O]
        np.testing.assert_allclose(leaking_O[rows_O], centred_R[batch.rollout_O][rows_O], atol=1e-12)
    assert TRAPS["leak"].wrong.leaks and not TRAPS["leak"].right.leaks


def test_entrants_are_found_by_their_labels():
    assert [entrant.label for entrant in find("tree_graph", "dr_grpo")] == ["tree_graph", "dr_grpo"]
    with pytest.raises(KeyError):
        find("tree_grap")
