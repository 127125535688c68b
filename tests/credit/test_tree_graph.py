"""The values and advantages of `tree_graph` are those of plain loops, and act as a reader of its docstring expects."""

from dataclasses import replace

import numpy as np
import pytest
from known_worlds import corridor, layers, rooms
from limited_trees import Rollouts, limited_tree, slow_graph, slow_nodes
from random_trees import path_weights
from slow_tree_graph import SlowProfile, SlowValues

from credit import Batch, LoneRolloutError, SettingError, Turn, credible_intervals, estimate, estimate_batch, resolve
from credit import graph_posterior as posteriors
from credit.tree_graph import TreeGraphSettings, known_advantages, tree_graph
from credit.variance_profile import VarianceProfile, variance_profile


def read(*tasks: Rollouts, weighting="path") -> Batch:
    return Batch.read(tasks, weighting, needs=["truncated"])


def flat(advantages) -> np.ndarray:
    return np.concatenate(advantages)


def straight(rollouts: Rollouts) -> Rollouts:
    """The same turns without the tree."""
    return [[replace(turn, node=None) for turn in rollout] for rollout in rollouts]


def numbered(rollouts: Rollouts) -> Rollouts:
    """The same with a node for each turn of each rollout."""
    return [[replace(turn, node=1000 * i + t) for t, turn in enumerate(rollout)] for i, rollout in enumerate(rollouts)]


# --- Against plain loops


@pytest.fixture
def profiles(monkeypatch) -> dict:
    """The last profile that was used; set "random" to a generator to have one drawn instead of read off pairs."""
    used: dict = {"random": None}

    def profile(batch, return_O, *others):
        found = variance_profile(batch, return_O, *others)
        if used["random"] is not None:
            rng, shape = used["random"], found.mean_TP.shape
            found = VarianceProfile(rng.normal(size=shape), *(rng.random(shape) * (rng.random(shape) < 0.8) for _ in range(3)))
        used["profile"] = found
        return found

    monkeypatch.setattr(posteriors, "variance_profile", profile)
    return used


def compare(tasks: list[Rollouts], weighting: str, gamma: float, profiles: dict, **settings) -> None:
    batch = read(*tasks, weighting=weighting)
    known = known_advantages(batch, TreeGraphSettings(gamma=gamma, **settings))
    units = posteriors.outcome_deviations(batch)
    profile, row = profiles["profile"], 0
    for task, rollouts in enumerate(tasks):
        weights = [float(weight) for weight in path_weights(rollouts)] if weighting == "path" else [1.0] * len(rollouts)
        outcomes = [sum(turn.reward for turn in rollout) for rollout in rollouts]
        unit = float(np.sqrt(np.cov(outcomes, aweights=weights, ddof=0)))
        assert units[task] == pytest.approx(unit)
        nodes = slow_nodes(rollouts, weights, gamma, unit)
        own = SlowProfile(*(column[task].tolist() for column in (profile.mean_TP, profile.settled_TP, profile.step_TP, profile.hidden_TP)))
        slow = SlowValues(nodes, slow_graph(nodes), own, unit, gamma)
        for rollout in rollouts:
            for turn in rollout:
                at = batch.nodes.of_O[row]
                np.testing.assert_allclose(known.mean_N[at] / unit, slow.advantages[turn.node], atol=1e-9, rtol=0)
                np.testing.assert_allclose(known.variance_N[at] / unit**2, slow.variances[turn.node], atol=1e-9, rtol=0)
                row += 1
    assert row == len(batch.reward_O)


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("forks", [0.0, 0.15, 0.4])
def test_advantages_are_those_of_plain_loops(forks, weighting, gamma, profiles):
    for seed in range(3):
        limits = (5, 4) if seed % 2 else (6, 6)
        tasks = [limited_tree(10 * seed + task, limit, forks=forks, cut=seed != 2) for task, limit in enumerate(limits)]
        for profiles["random"] in (None, np.random.default_rng(seed)):
            compare(tasks, weighting, gamma, profiles, pooled=seed != 1)


def test_a_rollout_that_was_cut_off_before_others_ended_sets_no_limit(profiles):
    for seed in range(6):
        rollouts = limited_tree(seed, limit=6, cut=False)
        early = min(rollouts, key=len)
        early[-1] = replace(early[-1], truncated=True)
        profiles["random"] = np.random.default_rng(seed)
        compare([rollouts], "path", 1.0, profiles)


def test_many_transitions_and_few_visits_are_folded(profiles):
    """A state met at all of 60 turns, with 40 ways on."""
    rng = np.random.default_rng(0)
    rollouts = [[Turn("s0", i % 20, f"s{int(rng.integers(2))}", float(rng.normal())) for i in range(60)] for _ in range(2)]
    rollouts = numbered([[replace(t, state=b.next_state) for b, t in zip([r[0], *r], r, strict=False)] for r in rollouts])
    profiles["random"] = rng
    compare([rollouts], "path", 0.9, profiles)


# --- By hand


def test_a_merged_state_by_hand(monkeypatch):
    """Two roots lead into m by different actions; from m the returns 1 and 0.

    In units of the deviation .5: returns 2 and 0 from both turns, m(t) = 1. With tau^2(1) = .5, phi(1) = .5, alpha^2(1) = .25:
    U(m, 1) = 1 (mean 1, corrections at last turns are 0), so V(m, 1) = m(1) = 1, whatever the shrinkage.
    hidden .25, e^2 = alpha^2(1) = .25, share 1/2: W of the first turns 1 + (2 - 1) / 2 = 1.5 and 1 + (0 - 1) / 2 = .5.
    A(first turns) = W + .5 (Q - V) - V(s, 0) = 1.5 - 1 and .5 - 1: +-.5 units, +-.25.
    Actions x and y at the last turns: r = 2 and 0, Q the same, less W: 2 - 1.5 = .5 and 0 - .5 = -.5: +-.25.
    Variance of the first turns: V(m) is open by b (1 - b / (b + e)), b = .25 and e = var U = (.25 + .25) / 2 = .25: .125; the hidden
    part by .25 (1 - 1/2) = .125; V(s, 0) is known. Together .25 units^2 = .0625; the last turns leave nothing open behind them.
    """
    profile = VarianceProfile(np.ones((1, 2)), np.array([[0.0, 0.5]]), np.array([[0.5, 0.25]]), np.array([[0.3, 0.5]]))
    monkeypatch.setattr(posteriors, "variance_profile", lambda *given: profile)
    rollouts = [[Turn("s", "a", "m", 0.0), Turn("m", "x", "e", 1.0)], [Turn("s", "b", "m", 0.0), Turn("m", "y", "e", 0.0)]]
    np.testing.assert_allclose(flat(estimate(rollouts, "tree_graph")), [0.25, 0.25, -0.25, -0.25], atol=1e-12)
    known = known_advantages(read(rollouts), TreeGraphSettings())
    np.testing.assert_allclose(known.variance_N, [0.0625] * 4, atol=1e-12)
    # d = .25 / 2 turns: certainty .125 / (.125 + .0625) = 2/3.
    np.testing.assert_allclose(flat(estimate(rollouts, "tree_graph", certainty=1.0)), [1 / 6, 1 / 6, -1 / 6, -1 / 6], atol=1e-12)


def test_flat_rollouts_with_nothing_in_common_share_out_their_outcome():
    """Two rollouts of two turns that never meet: without any pair a turn settles half, and W keeps what phi hides."""
    rollouts = [[Turn("s", i, f"m{i}", 0.0), Turn(f"m{i}", "x", "e", outcome)] for i, outcome in enumerate((1.0, 0.0))]
    trusted, hidden = estimate(rollouts, "tree_graph", trust=1.0), estimate(rollouts, "tree_graph", trust=0.0)
    # Prior: tau^2(1) = 1/2 of v, alpha^2(1) = the other half. One visit: V(m) = 1 + .5 / (.5 + .5) (2 - 1) = 1.5 units.
    np.testing.assert_allclose(flat(trusted), [0.25, 0.25, -0.25, -0.25], atol=1e-12)
    # phi = .55 is hidden: V(m) = 1 + .225 / (.225 + .5 + .275) (2 - 1) = 1.225; W = 1.225 + .275 / .775 (2 - 1.225) = 1.5.
    np.testing.assert_allclose(flat(hidden), [0.25, 0.25, -0.25, -0.25], atol=1e-12)


def test_phi_hands_a_first_turn_from_the_merge_to_its_own_outcome():
    rollouts = [[Turn("s", i, "m", 0.0), Turn("m", "x", "e", float(i % 2))] for i in range(4)]
    trusted, hidden = estimate(rollouts, "tree_graph", trust=1.0), estimate(rollouts, "tree_graph", trust=0.0)
    np.testing.assert_allclose([a[0] for a in trusted], 0.0, atol=1e-12)
    assert all(a[0] * (i % 2 - 0.5) > 0.05 for i, a in enumerate(hidden))


# --- A small process with exact numbers


@pytest.mark.parametrize("paid", [0.0, 0.5])
def test_with_many_visits_advantages_are_exact(paid):
    """First turns: what the action does on average; last turns: what the turn itself earned against its room's value."""
    (rollouts,), (exact,) = rooms(1, 3000, 0, paid)
    given = flat(estimate(rollouts, "tree_graph", trust=1.0))
    first, rewards = np.arange(len(given)) % 2 == 0, np.array([turn.reward for rollout in rollouts for turn in rollout])
    np.testing.assert_allclose(given[first], exact[first], atol=0.04)
    # The mean over all who did the same in the room.
    np.testing.assert_allclose(given[~first], exact[~first], atol=0.06)
    assert rewards[~first].std() > 0.4


def test_exact_signatures_are_trusted_and_misleading_ones_are_not():
    """Signatures that merge two states each."""
    tasks, _ = layers(60, 8, 0)
    pairs = [[[replace(t, state=halved(t.state), next_state=halved(t.next_state)) for t in r] for r in task] for task in tasks]
    trusted, merged = (resolve("tree_graph", {}).diagnostics(read(*given))["merge_trust"] for given in (tasks, pairs))
    assert trusted > 0.6 and merged < trusted - 0.3


def halved(state: tuple[int, int]) -> tuple[int, int]:
    return state[0], state[1] // 2


def test_a_merge_that_hides_what_decides_leaves_the_sign_of_own_returns():
    """All go through m; those that entered by a win nine times in ten, those by b lose. Forks of one entry agree, merges do not."""
    tasks, rng = [], np.random.default_rng(0)
    for _ in range(20):
        rollouts = []
        for root in range(8):
            enter = Turn("s", "ab"[root % 2], "m", 0.0, node=root)
            outcomes = rng.random(3) < (0.9, 0.1)[root % 2]
            rollouts += [[enter, Turn("m", "x", "e", float(won), node=8 + 3 * root + i)] for i, won in enumerate(outcomes)]
        tasks.append(rollouts)
    entered = np.array([a[0] for advantages in estimate_batch(tasks, "tree_graph") for a in advantages]).reshape(20, 4, 2, 3)
    assert (entered[:, :, 0] > 0.15).mean() > 0.8 and (entered[:, :, 1] < -0.15).mean() > 0.8
    # All three of a kind won or lost: the sign of the mean return against the group's, .5.
    own = np.array([rollout[1].reward for rollouts in tasks for rollout in rollouts]).reshape(20, 4, 2, 3).mean(axis=3)
    clear = np.abs(own - 0.5) > 0.4
    assert (np.sign(entered[..., 0]) == np.sign(own - 0.5))[clear].all()
    blind = np.array([a[0] for advantages in estimate_batch(tasks, "tree_graph", trust=1.0) for a in advantages])
    np.testing.assert_allclose(blind, 0.0, atol=1e-9)


# --- The time that is left


@pytest.mark.parametrize("known", [True, False])
def test_waiting_costs_time(known):
    """With k turns left at x the value is the chance of 3 - x steps in k turns; waiting takes one turn."""
    group = corridor(6, known)
    waits = [
        (turn.state, t, a) for r, own in zip(group, estimate(group, "tree_graph", trust=1.0), strict=True)
        for t, (turn, a) in enumerate(zip(r, own.tolist(), strict=True)) if turn.action == "wait"
    ]  # fmt: skip
    assert np.mean([a for _, _, a in waits]) < (-0.1 if known else -0.01)
    if known:
        assert max(a for _, _, a in waits) < 1e-3

        def value(x: int, left: int) -> float:
            return 1.0 if x == 3 else 0.0 if left == 0 else (value(x, left - 1) + value(x + 1, left - 1)) / 2

        for x, t, a in waits:
            if t <= 3:
                assert a == pytest.approx(value(x, 5 - t) - value(x, 6 - t), abs=0.08)
    else:
        for x in range(3):
            assert np.mean([a for y, _, a in waits if x == y]) < 0.01


# --- What changes nothing, and what follows


def test_tasks_alone_and_together():
    first, second = limited_tree(1), limited_tree(2, limit=4, forks=0.0)
    apart = flat([*estimate(first, "tree_graph"), *estimate(second, "tree_graph")])
    batch = read(first, second)
    together, pooled = (tree_graph(batch, TreeGraphSettings(pooled=pooled)) for pooled in (False, True))
    np.testing.assert_allclose(together, apart, atol=1e-12)
    assert np.abs(pooled - apart).max() > 1e-3
    np.testing.assert_array_equal(tree_graph(batch, TreeGraphSettings(), np.array([0, 1])), together)
    np.testing.assert_array_equal(tree_graph(batch, TreeGraphSettings(pooled=False), np.array([0, 0])), pooled)


def test_values_never_reach_across_tasks():
    """Another task with the same states and other outcomes moves the variances alone: with those given, nothing."""
    first, second = limited_tree(1), limited_tree(2)
    paid = [[replace(turn, reward=turn.reward + 5 * turn.action) for turn in rollout] for rollout in second]
    for other in (second, paid):
        both = estimate_batch([first, other], "tree_graph", pooled=False)[0]
        np.testing.assert_allclose(flat(both), flat(estimate(first, "tree_graph")), atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"gamma": 0.9}, {"certainty": 0.5}])
def test_order_and_names_of_rollouts_change_nothing(settings):
    rollouts = limited_tree(3)
    given = estimate(rollouts, "tree_graph", **settings)
    order = np.random.default_rng(0).permutation(len(rollouts))
    moved = estimate([rollouts[i] for i in order], "tree_graph", **settings)
    np.testing.assert_allclose(flat(moved), flat([given[i] for i in order]), atol=1e-12)
    names = {"s0": ("x", 1), "s1": "b", "s2": 7}
    named = [
        [replace(t, state=names[t.state], next_state=names[t.next_state], action=-t.action, node=500 - t.node) for t in rollout]
        for rollout in rollouts
    ]
    np.testing.assert_allclose(flat(estimate(named, "tree_graph", **settings)), flat(given), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-140, 1e-12, 3.0, 1e12, 1e98])
@pytest.mark.parametrize("certainty", [0.0, 1.0])
def test_advantages_scale_with_rewards(scale, certainty):
    rollouts = limited_tree(4)
    scaled = [[replace(turn, reward=turn.reward * scale) for turn in rollout] for rollout in rollouts]
    given, large = (flat(estimate(group, "tree_graph", certainty=certainty)) for group in (rollouts, scaled))
    np.testing.assert_allclose(large / scale, given, atol=1e-9)
    (own,), (large_own,) = credible_intervals([rollouts]), credible_intervals([scaled])
    np.testing.assert_allclose(flat(large_own) / scale, flat(own), atol=1e-9)


@pytest.mark.parametrize(("offset", "exact"), [(3.0, 1e-9), (-1e6, 1e-7), (1e12, 0.05)])
def test_a_constant_added_to_all_outcomes_changes_nothing(offset, exact):
    rollouts = limited_tree(5, cut=False)
    more = [[*rollout[:-1], replace(rollout[-1], reward=rollout[-1].reward + offset)] for rollout in rollouts]
    np.testing.assert_allclose(flat(estimate(more, "tree_graph")), flat(estimate(rollouts, "tree_graph")), atol=exact)


@pytest.mark.parametrize("scale", [1e-155, 1.585e-162, 1e-200])
def test_rewards_whose_squares_vanish_stay_finite(scale):
    rollouts = [[replace(turn, reward=turn.reward * scale) for turn in rollout] for rollout in limited_tree(4)]
    assert np.isfinite(flat(estimate(rollouts, "tree_graph", certainty=1.0))).all()
    assert all(0 <= figure <= 1 for figure in resolve("tree_graph", {}).diagnostics(read(rollouts)).values())


def test_unanimous_tasks_get_exactly_zero_and_tell_others_nothing():
    """Also where outcomes differ in the last bit, and returns after the first turn differ a lot."""
    (rollouts,), _ = layers(1, 8, 0)
    paid = ((0.1, 0.2), (0.3, 0.0), (0.2, 0.1), (0.0, 0.3))
    same = [[Turn("s", i % 2, i % 3, early), Turn(i % 3, 0, "e", late)] for i, (early, late) in enumerate(paid)]
    assert len({turns[0].reward + turns[1].reward for turns in same}) == 2
    mixed, zeros = estimate_batch([rollouts, same], "tree_graph")
    assert not flat(zeros).any() and not np.signbit(flat(zeros)).any()
    np.testing.assert_allclose(flat(mixed), flat(estimate(rollouts, "tree_graph")), atol=1e-12)
    assert not flat(credible_intervals([rollouts, same])[1]).any()
    even = [[*turns[:-1], replace(turns[-1], reward=0.3 - turns[0].reward)] for turns in same]
    assert len({turns[0].reward + turns[1].reward for turns in even}) == 1
    rounded, exact = (resolve("tree_graph", {}).diagnostics(read(rollouts, group)) for group in (same, even))
    assert rounded == pytest.approx(exact)


def test_lone_and_empty_rollouts():
    rollouts = limited_tree(7)
    given = estimate([[], *rollouts, []], "tree_graph")
    assert given[0].shape == given[-1].shape == (0,)
    np.testing.assert_array_equal(flat(given[1:-1]), flat(estimate(rollouts, "tree_graph")))
    with pytest.raises(LoneRolloutError):
        estimate(rollouts[:1], "tree_graph")


# --- Settings


@pytest.mark.parametrize(
    "settings", [{"gamma": 0.9}, {"gamma": 0.0}, {"pooled": False}, {"prior_pairs": 50.0}, {"trust": 0.9}, {"certainty": 0.5}]
)
def test_each_setting_bites(settings):
    tasks = [limited_tree(8), limited_tree(9, forks=0.0)]
    given, changed = estimate_batch(tasks, "tree_graph"), estimate_batch(tasks, "tree_graph", **settings)
    assert np.abs(flat([*changed[0], *changed[1]]) - flat([*given[0], *given[1]])).max() > 1e-3


@pytest.mark.parametrize(
    "settings", [{"prior_pairs": 1e-9}, {"prior_pairs": 1e9}, {"gamma": 1e-3}, {"trust": 0.0}, {"gamma": 0}, {"gamma": 1}]
)
def test_extreme_settings_stay_finite(settings):
    for cut in (True, False):
        tasks = [limited_tree(8, cut=cut), limited_tree(9, limit=30, forks=0.05, cut=cut)]
        assert all(np.isfinite(flat(own)).all() for own in estimate_batch(tasks, "tree_graph", **settings))


@pytest.mark.parametrize("wrong", [{"gamma": 1.1}, {"pooled": 1}, {"prior_pairs": 0.0}, {"trust": -0.1}, {"certainty": -1.0}, {"phi": 0}])
def test_wrong_settings_are_named(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        estimate(limited_tree(1), "tree_graph", **wrong)


def test_certainty_scales_down_and_never_flips_a_sign():
    rollouts = limited_tree(10)
    plain, scaled, more = (flat(estimate(rollouts, "tree_graph", certainty=c)) for c in (0.0, 1.0, 2.0))
    moved = np.abs(plain) > 1e-9
    assert moved.sum() > 20
    assert (np.sign(scaled) == np.sign(plain))[moved].all()
    share = scaled[moved] / plain[moved]
    assert (share <= 1).all() and share.min() < 0.9
    np.testing.assert_allclose(more[moved], plain[moved] * share**2, atol=1e-12)


def test_diagnostics_lie_between_0_and_1():
    for seed in range(4):
        for settings in ({}, {"trust": 1.0}, {"trust": 0.0}, {"prior_pairs": 1e6}):
            figures = resolve("tree_graph", settings).diagnostics(read(limited_tree(seed), limited_tree(seed + 50)))
            assert set(figures) == {"merge_trust", "certainty"} and all(0 <= figure <= 1 for figure in figures.values())
            assert "trust" not in settings or (figures["merge_trust"] == 1) == (settings["trust"] == 1)
