"""The turn-level methods give the numbers that were worked out by hand, and keep the rules that their pages state."""

import math
from dataclasses import replace

import numpy as np
import pytest
from full_turns import filled
from random_trees import random_tree

from credit import Batch, GroupError, LoneRolloutError, SettingError, Turn, estimate, estimate_batch, needs, resolve, settings_for

SHAPING = ["agent_opsd", "empg", "self_credit"]
LOCAL = [(method, {}) for method in ("agent_opsd", "self_credit", "gae", "mt_grpo", "igpo")]
LOCAL += [("mt_grpo", {"per_turn_index": True}), ("igpo", {"mode": "separate"}), ("agent_opsd", {"base": "rtmc"})]


def walk(name: str, outcome: float, *turns: dict) -> list[Turn]:
    """A rollout through states of its own, paid at the end; one turn for each mapping of optional fields."""
    last = len(turns) - 1
    return [Turn((name, t), "a", (name, t + 1), outcome * (t == last), **fields) for t, fields in enumerate(turns)]


def flat(advantages: list[np.ndarray]) -> list[float]:
    return np.concatenate(advantages).tolist()


# --- agent_opsd: the deltas .5, -.2, 1 from V_0 = .5 move the belief to .622459, .574443, .785835.


@pytest.mark.parametrize(("outcome", "expected"), [(2.0, [1.025253, 0.9, 1.1]), (-2.0, [-0.974747, -1.1, -0.9])])
def test_agent_opsd(outcome, expected):
    gaps = [{"teacher_logprob_gap": gap} for gap in (0.5, -0.2, 1.0)]
    rollouts = [walk("x", outcome, *gaps), walk("y", 0.0, {"teacher_logprob_gap": 3.0})]
    advantages = estimate(rollouts, "agent_opsd", base="dr_grpo")
    np.testing.assert_allclose(advantages[0], expected, atol=1e-6, rtol=0)
    # One turn has nothing to be compared with.
    assert advantages[1].tolist() == [-outcome / 2]


def test_agent_opsd_settings_bite():
    """Changes .122459, -.048016, .211392 have z = .253, -1.335, 1.082; from V_0 = .1 the second change is no longer the smallest."""
    gaps = [{"teacher_logprob_gap": gap} for gap in (0.5, -0.2, 1.0)]
    rollouts = [walk("x", 2.0, *gaps), walk("y", 0.0, gaps[0])]
    z = np.array([0.122459, -0.048016, 0.211392])
    z = (z - z.mean()) / z.std()
    np.testing.assert_allclose(
        estimate(rollouts, "agent_opsd", base="dr_grpo", lam=1.0, b=0.9)[0], 1 + np.clip(0.9 * z, -0.9, 0.9), atol=1e-4
    )
    np.testing.assert_allclose(
        estimate(rollouts, "agent_opsd", base="dr_grpo", lam=0.1)[0], 0.9 + 0.1 * np.clip(1 + 0.2 * z, 0.8, 1.2), atol=1e-4
    )
    start, logit = 0.1, math.log(0.1 / 0.9)
    beliefs = [1 / (1 + math.exp(-(logit + total))) for total in (0.5, 0.3, 1.3)]
    changes = np.diff([start, *beliefs])
    z = (changes - changes.mean()) / changes.std()
    np.testing.assert_allclose(
        estimate(rollouts, "agent_opsd", base="dr_grpo", v_0=0.1)[0], 0.5 + 0.5 * np.clip(1 + 0.2 * z, 0.8, 1.2), atol=1e-9
    )


@pytest.mark.parametrize("gaps", [[0.0] * 4, [1e90, -1e90, 1e90, 0.0], [800.0, 0.0, 0.0], [-800.0, 1e-17, 0.0], [50.0, 50.0, 50.0, 50.0]])
def test_agent_opsd_beliefs_that_do_not_move_are_not_blown_up(gaps):
    rollouts = [walk("x", 2.0, *({"teacher_logprob_gap": gap} for gap in gaps)), walk("y", 0.0, {"teacher_logprob_gap": 0.0})]
    with np.errstate(all="raise", under="ignore"):
        advantages = estimate(rollouts, "agent_opsd", base="dr_grpo")[0]
    if len(set(gaps)) == 1 and gaps[0] == 0.0:
        assert advantages.tolist() == [1.0] * len(gaps)
    if gaps[0] in (800.0, 50.0):
        # The first turn makes the teacher certain (.5 more); the others move by rounding at most, and alike.
        assert advantages[0] == pytest.approx(1.1) and set(advantages[1:].tolist()) == {advantages[1]}


def test_agent_opsd_changes_that_are_equal_up_to_rounding_are_equal():
    """From sigmoid(-x) two gaps of x lead over .5 to sigmoid(x): equal steps, whatever their last bits."""
    for x in np.linspace(0.3, 2.0, 30).tolist():
        rollouts = [walk("x", 2.0, {"teacher_logprob_gap": x}, {"teacher_logprob_gap": x}), walk("y", 0.0, {"teacher_logprob_gap": x})]
        assert estimate(rollouts, "agent_opsd", base="dr_grpo", v_0=1 / (1 + math.exp(x)))[0].tolist() == [1.0, 1.0]


# --- empg


def test_empg():
    """A is 1 in every turn of a lone rollout that a critic expected nothing of."""
    rollout = walk("x", 1.0, *({"entropy": entropy, "value": 0.0} for entropy in (0.2, 0.8, 0.5)))
    advantages = estimate([rollout], "empg", base={"method": "gae", "lam": 1.0})
    np.testing.assert_allclose(advantages[0], [0.521595, -0.426942, -0.094653], atol=1e-6, rtol=0)


def test_empg_without_spread_adds_the_bonus_alone():
    # A = .5 .5 -.5 and g = 1; the first turn has a next one: .55 .5 -.5, mean .183333.
    rollouts = [walk("x", 1.0, {"entropy": 0.7}, {"entropy": 0.7}), walk("y", 0.0, {"entropy": 0.7})]
    np.testing.assert_allclose(flat(estimate(rollouts, "empg", base="dr_grpo")), [0.55 / 1.5, 0.95 / 3, -2.05 / 3], atol=1e-9)


def test_empg_settings_bite():
    rollouts = [walk("x", 1.0, {"entropy": 0.0}, {"entropy": 1.0}), walk("y", 0.0, {"entropy": 0.5})]
    # k = 0: g = 1. f of the first turn is exp(-2) with k_future = 2, so A' = .5 + exp(-2), .5, -.5 with zeta = 1.
    raw = np.array([0.5 + math.exp(-2), 0.5, -0.5])
    np.testing.assert_allclose(flat(estimate(rollouts, "empg", base="dr_grpo", k=0, k_future=2, zeta=1)), raw - raw.mean(), atol=1e-12)
    # k = 3, no bonus: g is proportional to 1, exp(-3), exp(-1.5).
    clear = np.exp([0, -3, -1.5])
    raw = np.array([0.5, 0.5, -0.5]) * clear / clear.mean()
    np.testing.assert_allclose(flat(estimate(rollouts, "empg", base="dr_grpo", k=3, zeta=0)), raw - raw.mean(), atol=1e-12)


def test_empg_leaves_tasks_that_say_nothing_out():
    mixed = [walk("x", 1.0, {"entropy": 0.4}, {"entropy": 0.9}), walk("y", 0.0, {"entropy": 0.5})]
    same = [walk("x", 1.0, {"entropy": 0.0}, {"entropy": 5.0}), walk("y", 1.0, {"entropy": 2.0})]
    together = estimate_batch([same, mixed, same], "empg")
    assert flat(together[0]) == flat(together[2]) == [0.0] * 3
    assert flat(together[1]) == flat(estimate(mixed, "empg"))
    assert flat(estimate(same, "empg")) == [0.0] * 3
    # Outcomes differ, but no state is shared, so that this base has nothing to compare with.
    assert flat(estimate(mixed, "empg", base={"method": "rtmc", "n_p": 0})) == [0.0] * 3


def test_empg_normalises_over_the_batch():
    one = [walk("x", 1.0, {"entropy": 0.4}, {"entropy": 0.9}), walk("y", 0.0, {"entropy": 0.5})]
    other = [walk("x", 1.0, {"entropy": 2.0}), walk("y", 0.0, {"entropy": 0.1})]
    together = estimate_batch([one, other], "empg")
    assert sum(flat(together[0]) + flat(together[1])) == pytest.approx(0, abs=1e-12)
    assert abs(sum(flat(together[0]))) > 0.01


# --- gae


def test_gae():
    """V .5 .25, gamma .9, lambda .5: delta is 1 - .25 = .75 at the end and .9 * .25 - .5 = -.275 before; A_0 = -.275 + .45 * .75."""
    rollout = walk("x", 1.0, {"value": 0.5}, {"value": 0.25})
    np.testing.assert_allclose(estimate([rollout], "gae", gamma=0.9, lam=0.5)[0], [0.0625, 0.75], atol=1e-12)
    # Cut off where the critic expects .8: the last delta is 1 + .72 - .25 = 1.47.
    cut = [rollout[0], replace(rollout[1], next_value=0.8, truncated=True)]
    np.testing.assert_allclose(estimate([cut], "gae", gamma=0.9, lam=0.5)[0], [0.3865, 1.47], atol=1e-12)
    # In the middle of a rollout, the next turn's value is what comes after.
    np.testing.assert_allclose(estimate([[replace(rollout[0], next_value=9.0), rollout[1]]], "gae", gamma=0.9, lam=0.5)[0], [0.0625, 0.75])


def test_gae_between_one_surprise_and_the_whole_return():
    rollout = walk("x", 1.0, {"value": 0.5}, {"value": 0.25}, {"value": 0.7})
    np.testing.assert_allclose(estimate([rollout], "gae", lam=1.0)[0], [0.5, 0.75, 0.3], atol=1e-12)
    np.testing.assert_allclose(estimate([rollout], "gae", lam=0.0)[0], [-0.25, 0.45, 0.3], atol=1e-12)
    np.testing.assert_allclose(estimate([rollout], "gae", lam=1.0, gamma=0.5)[0], [0.25 - 0.5, 0.5 - 0.25, 0.3], atol=1e-12)


@pytest.mark.parametrize(("weighting", "won"), [("path", 1 / 2), ("leaf", 1 / 3)])
def test_gae_judges_a_fork_by_all_that_grew_from_it(weighting, won):
    """Root V .5 -> one leaf with outcome 1, or a turn that forks into two leaves with outcome 0; V is .4 everywhere below."""
    root, fork = Turn("s", "go", "m", 0.0, node=0, value=0.5), Turn("m", "r", "n", 0.0, node=1, value=0.4)
    rollouts = [[root, Turn("m", "l", "e", 1.0, value=0.4)], *([root, fork, Turn("n", i, "e", 0.0, value=0.4)] for i in "xy")]
    advantages = estimate(rollouts, "gae", weighting=weighting, lam=1.0)
    assert [a[0] for a in advantages] == pytest.approx([won - 0.5] * 3)
    np.testing.assert_allclose(advantages[1][1:], [-0.4, -0.4], atol=1e-12)


# --- mt_grpo: inner turns have process 1, 0, .5 (mean .5, deviation .5), outcomes 1, 0, 1 (.577350, -1.154701, .577350).


def processed() -> list[list[Turn]]:
    part = [{"rewards": {"process": value}} for value in (1.0, 0.0, 0.5, 7.0)]
    return [walk("x", 1.0, part[0], part[3]), walk("y", 0.0, part[1], part[2], part[3]), walk("z", 1.0, part[3])]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1 + 0.577350, 0.577350, -1 - 1.154701, -1.154701, -1.154701, 0.577350]),
        ({"turn_weight": 2.0, "lam": 0.5}, [2 + 0.288675, 0.577350, -2 - 0.577350, -0.577350, -1.154701, 0.577350]),
        ({"turn_weight": 0.0}, [0.577350, 0.577350, -1.154701, -1.154701, -1.154701, 0.577350]),
        # At the first place 1 and 0 differ by .707107 deviations; at the second, one rollout stands alone.
        ({"per_turn_index": True, "lam": 0.0}, [0.707107, 0.577350, -0.707107, 0, -1.154701, 0.577350]),
        # Population deviations: process .408248, outcomes .471405.
        ({"ddof": 0}, [1.224745 + 0.707107, 0.707107, -1.224745 - 1.414214, -1.414214, -1.414214, 0.707107]),
    ],
)
def test_mt_grpo(settings, expected):
    np.testing.assert_allclose(flat(estimate(processed(), "mt_grpo", **settings)), expected, atol=1e-5, rtol=0)


def test_mt_grpo_reads_the_outcome_from_the_weighted_rewards():
    rollouts = [[replace(t, rewards={**t.rewards, "task": t.reward}) for t in rollout] for rollout in processed()]
    given = estimate(rollouts, "mt_grpo", reward_weights={"task": 1.0, "process": 0.0})
    np.testing.assert_allclose(flat(given), flat(estimate(processed(), "mt_grpo")), atol=1e-12)
    # Outcomes 1 + 8, 0 + 7.5, 1 + 7.
    counted = estimate(rollouts, "mt_grpo", reward_weights={"task": 1.0, "process": 1.0})
    assert counted[0][-1] == pytest.approx((9 - 8.1666667) / np.std([9, 7.5, 8], ddof=1), abs=1e-5)


@pytest.mark.parametrize(("weighting", "mean"), [("path", 1 / 2), ("leaf", 2 / 3)])
def test_mt_grpo_counts_a_shared_turn_once(weighting, mean):
    root = Turn("s", "go", "m", 0.0, node=0, rewards={"process": 1.0})
    rollouts = [[root, Turn("m", i, "e", 1.0, rewards={})] for i in "lr"] + [walk("x", 1.0, {"rewards": {"process": 0.0}}, {"rewards": {}})]
    advantages = estimate(rollouts, "mt_grpo", weighting=weighting, ddof=0)
    spread = math.sqrt(mean * (1 - mean))
    np.testing.assert_allclose([a[0] for a in advantages], np.array([1 - mean, 1 - mean, -mean]) / spread, atol=1e-5)
    assert [a[1] for a in advantages] == [0.0] * 3


def test_mt_grpo_process_rewards_that_differ_by_rounding_are_equal():
    rewards = [(0.1 + 0.2) * 1e12, 0.3 * 1e12, 0.3 * 1e12]
    assert rewards[0] != rewards[1]
    rollouts = [walk(str(i), 1.0, {"rewards": {"process": reward}}, {"rewards": {}}) for i, reward in enumerate(rewards)]
    assert flat(estimate(rollouts, "mt_grpo")) == [0.0] * 6


def test_mt_grpo_needs_process_rewards():
    with pytest.raises(GroupError, match=r"no turn has a reward 'process'.*did you mean 'proces'"):
        estimate([walk(name, 1.0, {"rewards": {"proces": 1.0}}) for name in "xy"], "mt_grpo")
    with pytest.raises(GroupError, match="needs a mapping"):
        estimate([walk(name, 1.0, {}) for name in "xy"], "mt_grpo")


# --- igpo: rewards .2 and 1, then .4, -.1 and 0; together mean .3 and deviation .389872: -.256495 1.795462 .256495 -1.025978 -.769484.


def gained() -> list[list[Turn]]:
    gains = [{"information_gain": gain} for gain in (0.2, 9.0, 0.4, -0.1, 9.0)]
    return [walk("x", 1.0, *gains[:2]), walk("y", 0.0, *gains[2:])]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"gamma": 0.0}, [-0.256495, 1.795462, 0.256495, -1.025978, -0.769484]),
        ({"gamma": 0.5}, [0.641236, 1.795462, -0.448866, -1.410720, -0.769484]),
        ({}, [1.538968, 1.795462, -1.538968, -1.795462, -0.769484]),
        # Gains have mean .166667 and deviation .205480: .162221 1.135550 -1.297771; outcomes 1, -1.
        ({"mode": "separate"}, [1.162221, 1, -1.162221, -2.297771, -1]),
        # Sample deviations are larger by sqrt(3 / 2) for three gains and sqrt(2) for two outcomes.
        ({"mode": "separate", "ddof": 1, "gamma": 0.0}, [0.132453, 0.707107, 0.927173, -1.059626, -0.707107]),
    ],
)
def test_igpo(settings, expected):
    np.testing.assert_allclose(flat(estimate(gained(), "igpo", **settings)), expected, atol=1.5e-5, rtol=0)


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_igpo_of_single_turns_is_grpo(mode):
    rollouts = [walk(str(i), outcome, {"information_gain": float(i)}) for i, outcome in enumerate((1.0, 0.3, 0.0))]
    np.testing.assert_allclose(flat(estimate(rollouts, "igpo", mode=mode)), flat(estimate(rollouts, "grpo", ddof=0)), atol=1e-12)


def test_igpo_judges_a_unanimous_group_by_its_gains():
    rollouts = [walk(str(i), 0.0, {"information_gain": gain}, {"information_gain": 0.0}) for i, gain in enumerate((0.5, 0.0))]
    first, second = estimate(rollouts, "igpo", mode="separate")
    np.testing.assert_allclose([*first, *second], [1, 0, -1, 0], atol=1e-5)
    # Gains and outcomes that differ by rounding are equal.
    sizes = (0.1 + 0.2) * 1e12, 0.3 * 1e12
    noisy = [walk(str(i), size, {"information_gain": size}, {"information_gain": 0.0}) for i, size in enumerate(sizes)]
    assert flat(estimate(noisy, "igpo", mode="separate")) == [0.0] * 4
    flat_gains = [walk(str(i), 0.3, {"information_gain": 0.3}, {"information_gain": 0.0}) for i in range(2)]
    assert flat(estimate(flat_gains, "igpo")) == flat(estimate(flat_gains, "igpo", mode="separate")) == [0.0] * 4


# --- self_credit: two successes (A = .5) and two failures (A = -.5) over (s, a), (s, b) and (m, x).
#     d(s,a) = 2/2 - 0 = 1, d(m,x) = 1/2 - 1/2 = 0, d(s,b) = 0 - 1/2 = -1/2.


def cited(action: str, outcome: float, first: float, second: float) -> list[Turn]:
    return [Turn("s", action, "m", 0.0, cited=first), Turn("m", "x", "e", outcome, cited=second)]


def summaries() -> list[list[Turn]]:
    return [cited("a", 1.0, 1.0, 0.0), cited("a", 1.0, 0.5, 1.0), cited("b", 0.0, 2.0, 2.0), cited("b", 0.0, 0.0, 0.0)]


def test_self_credit():
    advantages = estimate(summaries(), "self_credit", base="dr_grpo")
    # Weights 1.5 and 1; 1.25 and 1; in the failure 1 + .5 * 1 * (-1) * (-.5) = 1.25 and 1; nothing cited.
    expected = [[0.6, 0.4], [0.625 / 1.125, 0.5 / 1.125], [-0.625 / 1.125, -0.5 / 1.125], [-0.5, -0.5]]
    np.testing.assert_allclose(advantages, expected, atol=1e-12)
    np.testing.assert_allclose(estimate(summaries(), "self_credit", base="dr_grpo", strength=1.0)[0], [1 / 1.5, 0.5 / 1.5], atol=1e-12)


def test_self_credit_counts_a_pair_once_for_a_rollout():
    """The success walks (s, a) twice and cites it once: the share of successes that cite it is 1/1, not 1/2 and not 2."""
    around = [Turn("s", "a", "s", 0.0, cited=1.0), Turn("s", "a", "s", 0.0, cited=0.0), Turn("s", "b", "e", 1.0, cited=0.0)]
    advantages = estimate([around, [Turn("s", "b", "e", 0.0, cited=0.0)]], "self_credit", base="dr_grpo")
    np.testing.assert_allclose(advantages[0], np.array([1.5, 1, 1]) / (3.5 / 3) / 2, atol=1e-12)


def test_self_credit_of_a_rollout_whose_weights_all_vanish_is_its_base():
    # A critic expected nothing, so the failure's advantage is positive, and only failures cite its turn: w = 1 + 1 * (1) * (-1) = 0.
    rollouts = [walk("x", 1.0, {"cited": 0.0, "value": 0.0}), walk("y", 0.5, {"cited": 1.0, "value": 0.0})]
    assert flat(estimate(rollouts, "self_credit", base="gae", strength=1.0)) == [1.0, 0.5]


def test_self_credit_refuses_a_negative_citation():
    with pytest.raises(GroupError, match=r"cited is -0\.5 in a turn"):
        estimate([cited("a", 1.0, -0.5, 0.0), cited("b", 0.0, 0.0, 0.0)], "self_credit")


# --- what holds for several of them


@pytest.mark.parametrize("method", ["agent_opsd", "self_credit"])
@pytest.mark.parametrize("base", ["dr_grpo", "rtmc", "gigpo"])
def test_shaping_keeps_signs(method, base):
    for seed in range(5):
        rollouts = [[replace(turn, node=None) for turn in rollout] for rollout in random_tree(seed)]
        shaped, plain = flat(estimate(rollouts, method, base=base)), flat(estimate(rollouts, base))
        assert np.sign(shaped).tolist() == np.sign(plain).tolist()
        assert not np.allclose(shaped, plain, atol=1e-3) or not np.any(plain)


@pytest.mark.parametrize("method", SHAPING)
def test_shaping_inherits_from_its_base(method):
    own = needs(method)
    assert needs(method, base="gae") == own | {"value", "next_value"}
    assert needs(method, base={"method": "agent_opsd", "base": "mt_grpo"}) == own | {"teacher_logprob_gap", "rewards"}
    lone = filled([walk("x", 1.0, {}, {})])
    assert resolve(method, {"base": "gae"}).judges_turns and not resolve(method, {}).judges_turns
    assert len(estimate(lone, method, base="gae")[0]) == 2
    with pytest.raises(LoneRolloutError):
        estimate(lone, method)
    unanimous = filled([walk("x", 1.0, {}, {}), walk("y", 1.0, {})])
    with np.errstate(divide="raise", invalid="raise"):
        assert flat(estimate(unanimous, method)) == [0.0] * 3 and any(flat(estimate(unanimous, method, base="gae")))
    plain, other = flat(estimate(random_tree(1), method)), flat(estimate(random_tree(1), method, base="rloo"))
    assert not np.allclose(plain, other)


def test_shaping_passes_its_base_figures_on():
    method = resolve("agent_opsd", {"base": "mc_grpo"})
    batch = Batch.read([filled([walk("x", 1.0, {}), walk("y", 0.0, {}), walk("z", 0.0, {})])], needs=method.needs)
    assert method.diagnostics(batch) == resolve("mc_grpo", {}).diagnostics(batch) != {}


@pytest.mark.parametrize(
    ("method", "field"),
    [
        ("agent_opsd", "teacher_logprob_gap"),
        ("empg", "entropy"),
        ("gae", "value"),
        ("igpo", "information_gain"),
        ("self_credit", "cited"),
    ],
)
def test_a_missing_field_is_named(method, field):
    rollouts = filled([walk("x", 1.0, {}, {}), walk("y", 0.0, {})])
    rollouts[0][1] = replace(rollouts[0][1], **{field: None})
    with pytest.raises(GroupError, match=f"turn 1 of rollout 0 has no {field}"):
        estimate(rollouts, method)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("gae", {"gamma": 1.1}, "gamma is 1.1"),
        ("gae", {"lam": -0.1}, "lam is -0.1"),
        ("agent_opsd", {"b": 0}, "b is 0; allowed is a number above 0 and at most 1"),
        ("agent_opsd", {"lam": 1.5}, "lam is 1.5"),
        ("agent_opsd", {"v_0": 1.0}, "v_0 is 1.0"),
        ("empg", {"k": -1}, "k is -1"),
        ("empg", {"k_future": -1}, "k_future is -1"),
        ("empg", {"zeta": 0, "k_future": 2.0}, "k_future is 2.0, but has no effect with zeta=0"),
        ("empg", {"base": {"method": "grpo", "ddof": 2}}, "ddof is 2"),
        ("self_credit", {"strength": 0}, "strength is 0"),
        ("mt_grpo", {"turn_weight": 0, "per_turn_index": True}, "per_turn_index is True, but has no effect with turn_weight=0"),
        ("mt_grpo", {"lam": -1}, "lam is -1"),
        ("igpo", {"mode": "both"}, "mode is 'both'; allowed is 'joint' or 'separate'"),
    ],
)
def test_settings_out_of_range(method, settings, message):
    with pytest.raises(SettingError, match=message):
        settings_for(method, **settings)


@pytest.mark.parametrize("size", [1e-12, 1e12])
@pytest.mark.parametrize(("method", "settings"), [*LOCAL, ("empg", {}), ("empg", {"k": 1e9, "k_future": 1e9})])
def test_extreme_numbers_stay_finite(method, settings, size):
    signs = np.random.default_rng(0).choice([-1.0, 1.0, 0.0, 1 / 3], (6, 5, 5)).tolist()
    rollouts = []
    for i, rows in enumerate(signs):
        fields = [
            {"value": a * size, "teacher_logprob_gap": b * size, "information_gain": c * size, "rewards": {"process": d * size}}
            for a, b, c, d, _ in rows
        ]
        fields = [{**row, "entropy": abs(e) * size, "cited": abs(e) * size} for row, (*_, e) in zip(fields, rows, strict=True)]
        rollouts.append([replace(t, reward=size * r[0]) for t, r in zip(walk(str(i), 0.0, *fields), rows, strict=True)][: 1 + i % 5])
    assert np.isfinite(flat(estimate(rollouts, method, **settings))).all()


def test_self_credit_takes_rounding_of_the_base_for_nothing():
    """The shared first turn has three wins and three losses below it: its base is 0 but for rounding, whatever the order."""
    fork = Turn("s", "go", "m", 0.0, node=0, cited=1.0)
    leaves = [Turn("m", f"a{i}", "e", won, node=1 + i, cited=0.5) for i, won in enumerate((0.3, 0.1, 0.2, 0.7, 0.9, 0.8))]
    rollouts = [[fork, leaf] for leaf in leaves]
    straight, turned = estimate(rollouts, "self_credit"), estimate(rollouts[::-1], "self_credit")[::-1]
    np.testing.assert_allclose(np.concatenate(straight), np.concatenate(turned), atol=1e-9)
