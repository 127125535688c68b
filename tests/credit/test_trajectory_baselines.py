"""Baselines of whole rollouts: numbers that were worked out by hand, a slow reference, and what they promise on batches and trees."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, fsum, lcm, sqrt
from statistics import median

import numpy as np
import pytest

from credit import Batch, GroupError, LoneRolloutError, SettingError, Turn, estimate, estimate_batch, resolve, settings_for

OWN = ["gapo", "gdpo", "mc_grpo", "pvpo", "reinforce_pp"]
ALONE = ["gapo", "mc_grpo", "pvpo"]
"""Methods that give each task of a batch what it gets alone."""


def one_turn(*outcomes: float) -> list[list[Turn]]:
    return [[turn(outcome, i)] for i, outcome in enumerate(outcomes)]


def turn(reward: float, action: object = "a", node: int | None = None) -> Turn:
    return Turn("s", action, "s", reward, node=node, rewards={"task": reward}, anchor=0.25)


def numbers(rollouts: Iterable[Iterable[Turn]], method: str, **settings) -> list[float]:
    """The advantage of each rollout's last turn."""
    return [float(advantages[-1]) for advantages in estimate(rollouts, method, **settings)]


def named(**columns: tuple[float, ...]) -> list[list[Turn]]:
    """One-turn rollouts with several named rewards, whose `reward` says nothing."""
    rows = zip(*columns.values(), strict=True)
    return [[Turn("s", i, "e", 7.0, rewards=dict(zip(columns, row, strict=True)))] for i, row in enumerate(rows)]


def tree(seed: int, rollouts: int = 6, values=(0.0, 0.25, 0.5, 1.0, -1.0)) -> list[list[Turn]]:
    """Rollouts of one to five turns, most of them forked off another's prefix; rewards are exact in binary."""
    rng = np.random.default_rng(seed)
    grown: list[list[Turn]] = []
    for index in range(rollouts):
        prefix: list[Turn] = []
        if index and rng.random() < 0.7:
            source = grown[rng.integers(index)]
            prefix = source[: rng.integers(len(source))]
        own = [turn(float(rng.choice(values)), index, 10 * index + t) for t in range(rng.integers(1, 4))]
        grown.append([*prefix, *own])
    return grown


# A second way to the same numbers: exact weights, and a rollout of weight w as that many copies.


def weights(rollouts: list[list[Turn]], weighting: str) -> list[Fraction]:
    children: dict[object, set[object]] = {}
    for rollout in rollouts:
        for before, after in pairwise(rollout):
            children.setdefault(before.node, set()).add(after.node)
    shares = []
    for rollout in rollouts:
        share = Fraction(1)
        for step in rollout[:-1]:
            share /= len(children[step.node])
        shares.append(share if weighting == "path" else Fraction(1))
    return shares


def copies(values: list[float], shares: list[Fraction]) -> list[float]:
    common = lcm(*(share.denominator for share in shares))
    return [value for value, share in zip(values, shares, strict=True) for _ in range(int(share * common))]


def mean_of(values: list[float], shares: list[Fraction]) -> float:
    return fsum(float(w) * x for x, w in zip(values, shares, strict=True)) / float(sum(shares))


def std_of(values: list[float], shares: list[Fraction], ddof: int, middle: float | None = None) -> float:
    middle = mean_of(values, shares) if middle is None else middle
    total = sum(shares)
    freedom = total - ddof * sum(w * w for w in shares) / total
    return sqrt(fsum(float(w) * (x - middle) ** 2 for x, w in zip(values, shares, strict=True)) / float(freedom))


def slow_mc_grpo(outcomes, shares, eps=1e-3, drop_pivot=True):
    middle = median(copies(outcomes, shares))
    mad = median(copies([abs(x - middle) for x in outcomes], shares))
    scale = 1 / (mad + eps) if mad else 1.0
    at_middle = [w for x, w in zip(outcomes, shares, strict=True) if x == middle]
    if drop_pivot and at_middle:
        scale *= float(sum(shares) / (sum(shares) - sum(at_middle) / len(at_middle)))
    return [(x - middle) * scale for x in outcomes]


def slow_gapo(outcomes, shares, share=0.5, normalise=True, ddof=1, eps=1e-6):
    points, middle = sorted(copies(outcomes, shares)), mean_of(outcomes, shares)
    size = ceil(len(points) * Fraction(share))
    windows = [(points[i], points[i + size - 1]) for i in range(len(points) - size + 1)]
    low, high = min(windows, key=lambda w: (w[1] - w[0], round(abs((w[0] + w[1]) / 2 - middle), 9), w[0]))
    baseline = median(point for point in points if low <= point <= high)
    scale = 1 / (std_of(outcomes, shares, ddof) + eps) if normalise else 1.0
    return [(x - baseline) * scale for x in outcomes]


def slow_per_node(rollouts: list[list[Turn]], values: list[float], shares: list[Fraction]) -> list[list[float]]:
    def at(node):
        below = [i for i, rollout in enumerate(rollouts) if any(step.node == node for step in rollout)]
        return mean_of([values[i] for i in below], [shares[i] for i in below])

    return [[at(step.node) for step in rollout] for rollout in rollouts]


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize(
    ("method", "slow", "settings"),
    [
        ("mc_grpo", slow_mc_grpo, {}),
        ("mc_grpo", slow_mc_grpo, {"drop_pivot": False, "eps": 0.5}),
        ("gapo", slow_gapo, {}),
        ("gapo", slow_gapo, {"share": 0.25, "ddof": 0}),
        ("gapo", slow_gapo, {"share": 0.75, "normalise": False}),
        ("gapo", slow_gapo, {"share": 1.0, "eps": 0.1}),
    ],
)
def test_medians_equal_a_slow_reference_on_trees(method, slow, settings, weighting):
    tasks = [tree(seed, rollouts=2 + seed % 8) for seed in range(60)]
    for rollouts, given in zip(tasks, estimate_batch(tasks, method, weighting=weighting, **settings), strict=True):
        shares, outcomes = weights(rollouts, weighting), [fsum(step.reward for step in rollout) for rollout in rollouts]
        values = [0.0] * len(outcomes) if len(set(outcomes)) == 1 else slow(outcomes, shares, **settings)
        for row, expected in zip(given, slow_per_node(rollouts, values, shares), strict=True):
            np.testing.assert_allclose(row, expected, atol=1e-9)


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_methods_that_whiten_equal_a_slow_reference_on_trees(ddof, weighting):
    tasks = [tree(seed, rollouts=2 + seed % 5) for seed in range(12)]
    shares = [weights(rollouts, weighting) for rollouts in tasks]
    outcomes = [[fsum(step.reward for step in rollout) for rollout in rollouts] for rollouts in tasks]
    centred = [[x - mean_of(row, w) for x in row] for row, w in zip(outcomes, shares, strict=True)]
    standard = [[x / (std_of(row, w, ddof) + 1e-4) for x in row] for row, w in zip(centred, shares, strict=True)]
    every = [w for row in shares for w in row]
    for method, rows, eps in (("reinforce_pp", centred, 1e-6), ("gdpo", standard, 1e-4)):
        scale = std_of([x for row in rows for x in row], every, ddof, 0.0) + eps
        for rollouts, row, w, given in zip(tasks, rows, shares, estimate_batch(tasks, method, weighting=weighting, ddof=ddof), strict=True):
            for got, expected in zip(given, slow_per_node(rollouts, [x / scale for x in row], w), strict=True):
                np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_whitening_by_turns_equals_a_slow_reference_on_trees(weighting):
    tasks = [tree(seed, rollouts=2 + seed % 5) for seed in range(12)]
    rows, every, values = [], [], []
    for rollouts in tasks:
        shares, outcomes = weights(rollouts, weighting), [fsum(step.reward for step in rollout) for rollout in rollouts]
        centred = [x - mean_of(outcomes, shares) for x in outcomes]
        rows.append((rollouts, centred, shares))
        every += [w for rollout, w in zip(rollouts, shares, strict=True) for _ in rollout]
        values += [x for rollout, x in zip(rollouts, centred, strict=True) for _ in rollout]
    middle, scale = mean_of(values, every), std_of(values, every, 1) + 1e-6
    assert abs(middle) > 0.01
    batch = estimate_batch(tasks, "reinforce_pp", weighting=weighting, count_turns=True)
    for (rollouts, centred, shares), given in zip(rows, batch, strict=True):
        unanimous = not any(abs(x) > 1e-12 for x in centred)
        expected = [0.0 if unanimous else (x - middle) / scale for x in centred]
        for got, row in zip(given, slow_per_node(rollouts, expected, shares), strict=True):
            np.testing.assert_allclose(got, row, atol=1e-9)


def test_mc_grpo_reference_numbers():
    outcomes = one_turn(0.9, 0.1, 0.4, 0.5, 0.7)
    raw = [1.99005, -1.99005, -0.497512, 0, 0.995025]
    np.testing.assert_allclose(numbers(outcomes, "mc_grpo", drop_pivot=False), raw, atol=1e-6)
    # One of five drops out: the others weigh 5 / 4.
    np.testing.assert_allclose(numbers(outcomes, "mc_grpo"), np.multiply(raw, 1.25), atol=1e-6)


@pytest.mark.parametrize(
    ("outcomes", "settings", "expected"),
    [
        # Median .5 between the two middle ones, so nobody is the pivot; every deviation is .5.
        ((1, 0, 1, 0), {}, [0.998004, -0.998004, 0.998004, -0.998004]),
        ((1, 0), {}, [0.998004, -0.998004]),
        # Median .5, deviations .5 0 0 .5 1.5 with median .5; one of the two in the middle is the pivot: 5 / 4.
        ((0, 0.5, 0.5, 1, 2), {}, [-1.247505, 0, 0, 1.247505, 3.742515]),
        ((0, 0.5, 0.5, 1, 2), {"eps": 0.5}, [-0.625, 0, 0, 0.625, 1.875]),
        # A majority: MAD 0, so R - median, times 3 / 2 and 4 / 3 for the pivot.
        ((1, 0, 0), {}, [1.5, 0, 0]),
        ((1, 0, 0), {"drop_pivot": False}, [1, 0, 0]),
        ((1, 1, 0, 1), {}, [0, 0, -4 / 3, 0]),
    ],
)
def test_mc_grpo_by_hand(outcomes, settings, expected):
    np.testing.assert_allclose(numbers(one_turn(*outcomes), "mc_grpo", **settings), expected, atol=1e-6)


def test_mc_grpo_counts_the_groups_without_a_median_deviation():
    method = resolve("mc_grpo", {})
    tasks = [one_turn(1, 0, 0), one_turn(1, 1, 1), one_turn(1, 0), one_turn(0, 0, 0, 0, 5)]
    assert method.diagnostics(Batch.read(tasks)) == {"mad_zero_groups": 2.0}
    assert method.diagnostics(Batch.read([])) == {}


def test_mc_grpo_weighs_leaves_by_their_path():
    fork = turn(0, "f", 0)
    rollouts = [[fork, turn(outcome, i, i + 1)] for i, outcome in enumerate((1, 3, 5))] + [[turn(0, "x", 8)], [turn(2, "y", 9)]]
    # The leaves 1 3 5 weigh 1/3 each, 0 and 2 weigh 1: half of 3 is reached within the 2. Deviations 1 1 3 at 1/3, 2 at 1, 0 at 1:
    # half of the weight lies at or below 1. Without the pivot 2 of 3 remain.
    factor = 1.5 / 1.001
    leaves = [-1 * factor, 1 * factor, 3 * factor]
    np.testing.assert_allclose(numbers(rollouts, "mc_grpo"), [*leaves, -2 * factor, 0], atol=1e-9)
    assert estimate(rollouts, "mc_grpo")[0][0] == pytest.approx(factor)
    # Counted by leaf the median is again 2, the deviations are 1 1 3 2 0, their median is 1, and 4 of 5 remain.
    np.testing.assert_allclose(numbers(rollouts, "mc_grpo", weighting="leaf")[:3], np.array([-1, 1, 3]) * 1.25 / 1.001, atol=1e-9)


def test_a_majority_that_agrees_up_to_rounding_is_exactly_the_median():
    alike = [[turn(0.1, 0), turn(0.2, 1), turn(0.3, 2)], [turn(0.3, 0), turn(0.3, 1)], [turn(0.6, 0)], [turn(0.1, t) for t in range(6)]]
    assert len({sum(step.reward for step in rollout) for rollout in alike}) > 1
    for method in ("mc_grpo", "gapo"):
        assert [a.tolist() for a in estimate([*alike, [turn(9.0)]], method)][:4] == [[0.0] * len(rollout) for rollout in alike]
    assert resolve("mc_grpo", {}).diagnostics(Batch.read([[*alike, [turn(9.0)]]])) == {"mad_zero_groups": 1.0}


@pytest.mark.parametrize(
    ("outcomes", "settings", "baseline"),
    [
        # Three of five: 0 .1 .2 span .2, the others .8.
        ((0.9, 0, 0.1, 1, 0.2), {}, 0.1),
        # Two of four: 0 1 and 4 5 are as long and as far from the mean 2.5: the lower pair.
        ((0, 1, 4, 5), {}, 0.5),
        # Two of five: 0 1 and 5 6 are as long; the mean 4.2 is nearer to 5.5.
        ((0, 1, 5, 6, 9), {"share": 0.4}, 5.5),
        # All of it: the ordinary median.
        ((0, 1, 5, 6, 9), {"share": 1}, 5),
        # The least share is a single point, and among equally short ones the nearest to the mean 4.2.
        ((0, 1, 5, 6, 9), {"share": 0.01}, 5),
        ((1, 1, 1, 0, 0), {}, 1),
        ((1, 0, 1, 0), {}, 0),
        # The interval 0 .. 0 holds half; with its ends it takes in all three.
        ((0, 0, 0, 1, 2, 3), {}, 0),
        # An outlier has no part in it, however it moves the mean.
        ((0, 0.5, 1.25, 2.5, 1e6), {"share": 0.4}, 0.25),
        # As long up to rounding: .1 .. .2 and .2 .. .3, where .3 - .2 is the smaller float; .2 is the mean of all, so the lower.
        ((0.1, 0.2, 0.3), {"share": 2 / 3}, 0.15),
    ],
)
def test_gapo_by_hand(outcomes, settings, baseline):
    expected = np.array(outcomes) - baseline
    np.testing.assert_allclose(numbers(one_turn(*outcomes), "gapo", normalise=False, **settings), expected, atol=1e-12)
    for ddof in (0, 1):
        scaled = expected / (np.std(outcomes, ddof=ddof) + 0.5)
        np.testing.assert_allclose(numbers(one_turn(*outcomes), "gapo", ddof=ddof, eps=0.5, **settings), scaled, atol=1e-12)


def test_gapo_finds_the_densest_half_by_weight():
    fork = turn(0, "f", 0)
    rollouts = [[fork, turn(outcome, i, i + 1)] for i, outcome in enumerate((4, 4, 4, 4))] + [
        [turn(o, i, 9 + i)] for i, o in enumerate((0, 1))
    ]
    # By leaf, the four leaves are the densest half; by path they weigh 1 of 3 together, and 0 with 1 is the shortest that holds 1.5.
    np.testing.assert_allclose(numbers(rollouts, "gapo", normalise=False), [3.5] * 4 + [-0.5, 0.5])
    np.testing.assert_allclose(numbers(rollouts, "gapo", normalise=False, weighting="leaf"), [0] * 4 + [-4, -3])


def test_reinforce_pp_by_hand():
    tasks = [one_turn(1, 0), one_turn(4, 0, 0, 0)]
    # Centred: +-.5, and 3 -1 -1 -1: squares .5 + 12 over six rollouts.
    centred = [0.5, -0.5, 3, -1, -1, -1]
    for ddof, variance in ((1, 12.5 / 5), (0, 12.5 / 6)):
        given = np.concatenate([row for task in estimate_batch(tasks, "reinforce_pp", ddof=ddof) for row in task])
        np.testing.assert_allclose(given, np.array(centred) / (sqrt(variance) + 1e-6), atol=1e-9)
    # A unanimous task stays at 0 and counts as zeros.
    unanimous, *others = estimate_batch([one_turn(3, 3), *tasks], "reinforce_pp", eps=1.0)
    assert [row.tolist() for row in unanimous] == [[0.0], [0.0]]
    np.testing.assert_allclose(np.concatenate(others[0] + others[1]), np.array(centred) / (sqrt(12.5 / 7) + 1), atol=1e-9)


def test_reinforce_pp_counting_turns():
    rollouts = [[turn(1.0, 0), turn(0, 1), turn(0, 2)], [turn(0.0, 3)]]
    # Three turns at .5 and one at -.5: mean .25, sample variance (3 / 16 + 9 / 16) / 3 = 1 / 4.
    np.testing.assert_allclose(np.concatenate(estimate(rollouts, "reinforce_pp", count_turns=True)), [0.5, 0.5, 0.5, -1.5], atol=1e-5)
    np.testing.assert_allclose(np.concatenate(estimate(rollouts, "reinforce_pp")), [sqrt(0.5)] * 3 + [-sqrt(0.5)], atol=1e-5)
    both = estimate_batch([rollouts, one_turn(2, 2)], "reinforce_pp", count_turns=True)
    assert [row.tolist() for row in both[1]] == [[0.0], [0.0]]


CORRECT, FORMAT = (1.0, 1.0, 0.0, 0.0), (1.0, 0.0, 1.0, 0.0)


def test_gdpo_reference_numbers():
    rollouts = named(correct=CORRECT, format=FORMAT)
    np.testing.assert_allclose(numbers(rollouts, "gdpo"), [1.224658, 0, 0, -1.224658], atol=1e-6)
    np.testing.assert_allclose(numbers(rollouts, "gdpo", reward_weights={"correct": 1, "format": 1}), numbers(rollouts, "gdpo"))
    # Before the batch the sums are +-1.731751 and 0: so a batch of two such groups has the deviation of eight such numbers.
    twice = estimate_batch([rollouts, rollouts], "gdpo")
    expected = np.array([1.731751, 0, 0, -1.731751]) / (sqrt(4 * 1.731751**2 / 7) + 1e-4)
    np.testing.assert_allclose(np.concatenate(twice[1]), expected, atol=1e-6)


def test_gdpo_weighs_the_standardised_reward_whatever_its_size():
    # z = +-.866 (ddof 1): sums 1.5 z, .5 z, -.5 z, -1.5 z; squares (2 * 2.25 + 2 * .25) / 3 = 5 / 3 of z^2.
    expected = np.array([1.5, 0.5, -0.5, -1.5]) / sqrt(5 / 3)
    for size in (1.0, 1e3):
        rollouts = named(correct=CORRECT, format=tuple(size * x for x in FORMAT))
        np.testing.assert_allclose(numbers(rollouts, "gdpo", reward_weights={"correct": 1, "format": 0.5}), expected, atol=3e-4)
        np.testing.assert_allclose(
            numbers(rollouts, "gdpo", reward_weights={"correct": 1, "format": -0.5}), expected[[1, 0, 3, 2]], atol=3e-4
        )
        left_out = numbers(rollouts, "gdpo", reward_weights={"correct": 1, "format": 0})
        np.testing.assert_allclose(left_out, numbers(named(correct=CORRECT), "gdpo"), atol=1e-12)


def test_gdpo_settings_bite():
    rollouts = named(correct=CORRECT)
    np.testing.assert_allclose(numbers(rollouts, "gdpo", ddof=0, eps=0.5), [0.5 / (0.5 + 0.5)] * 2 + [-0.5] * 2)
    # ddof 1, eps .5: z = .5 / (.57735 + .5) = .464102, whose own deviation is .535898.
    np.testing.assert_allclose(numbers(rollouts, "gdpo", eps=0.5)[0], 0.464102 / (0.535898 + 0.5), atol=1e-6)


def test_gdpo_judges_each_reward_by_its_own_unanimity():
    # The sums agree, the rewards do not, and the deviations of 1 1 0 and 2 2 3 are the same: they cancel.
    np.testing.assert_allclose(numbers(named(a=(1, 1, 0), b=(2, 2, 3)), "gdpo"), [0, 0, 0], atol=1e-9)
    # The sums agree, but with the second reward left half out, the first decides.
    assert numbers(named(a=(1, 1, 0), b=(2, 2, 3)), "gdpo", reward_weights={"a": 1, "b": 0.5})[0] > 0.5
    # A reward that all have adds exactly nothing, whatever its size and weight.
    only = numbers(named(a=CORRECT), "gdpo")
    assert numbers(named(a=CORRECT, b=(0.1, 0.1, 0.1, 0.1)), "gdpo", reward_weights={"a": 1, "b": 1e9}) == only
    assert numbers(named(a=(0.1, 0.1), b=(3.0, 3.0)), "gdpo") == [0.0, 0.0]
    # The same up to rounding: .1 + .2 and .3.
    split = [
        [Turn("s", 0, "s", 0, rewards={"b": 0.1}), Turn("s", 0, "e", 0, rewards={"b": 0.2})],
        [Turn("s", 1, "e", 0, rewards={"b": 0.3})],
    ]
    assert numbers(split, "gdpo", reward_weights={"b": 1e9}) == [0.0, 0.0]


def test_gdpo_normalises_over_the_batch_but_centres_within_the_task():
    tasks = [named(a=CORRECT, b=FORMAT), named(a=(1, 0), b=(5, 5)), named(a=(1, 1), b=(3, 3))]
    first, second, third = estimate_batch(tasks, "gdpo")
    assert [row.tolist() for row in third] == [[0.0], [0.0]]
    # Sums +-1.731751, 0, 0, then +-.5 / (sqrt(.5) + 1e-4) = +-.707007, then zeros: squares 5.997923 + .999717 over 8 rollouts.
    scale = sqrt((2 * 1.731751**2 + 2 * 0.707007**2) / 7) + 1e-4
    np.testing.assert_allclose(np.concatenate(first), np.array([1.731751, 0, 0, -1.731751]) / scale, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(second), np.array([0.707007, -0.707007]) / scale, atol=1e-6)


def test_gdpo_needs_named_rewards():
    with pytest.raises(GroupError, match="turn 0 of rollout 1 has rewards None"):
        estimate([named(a=(1,))[0], [Turn("s", 1, "e", 1.0)]], "gdpo")


def test_rewards_are_summed_over_the_rollout_and_a_missing_name_is_zero():
    rollouts = [[Turn("s", 0, "s", 0, rewards={"a": 0.5}), Turn("s", 0, "e", 0, rewards={"a": 0.5})], [Turn("s", 1, "e", 0, rewards={})]]
    given = estimate(rollouts, "gdpo", ddof=0, eps=1e-9)
    np.testing.assert_allclose(np.concatenate(given), [1, 1, -1], atol=1e-6)


def test_pvpo_by_hand():
    assert numbers(one_turn(1, 0, 0.25), "pvpo") == [0.75, -0.25, 0.0]
    assert numbers(one_turn(1), "pvpo") == [0.75]
    # All better than the reference: all are worth more of it.
    assert numbers(one_turn(1, 1), "pvpo") == [0.75, 0.75]
    # .1 + .2 is .3 up to rounding.
    assert 0.1 + 0.2 != 0.3
    moved = [[replace(step, anchor=0.3) for step in rollout] for rollout in ([turn(0.1), turn(0.2)], [turn(0.3)])]
    assert [row.tolist() for row in estimate(moved, "pvpo")] == [[0.0, 0.0], [0.0]]


def test_pvpo_has_one_anchor_per_task():
    low, high = one_turn(1, 0), [[replace(step, anchor=0.5) for step in rollout] for rollout in one_turn(1, 0)]
    assert [[float(row[0]) for row in task] for task in estimate_batch([low, high], "pvpo")] == [[0.75, -0.25], [0.5, -0.5]]
    with pytest.raises(GroupError, match=r"one task have anchors 0\.25 and 0\.5"):
        estimate([low[0], high[1]], "pvpo")
    with pytest.raises(GroupError, match=r"anchors 0\.25 and 0\.5"):
        estimate([[turn(0), replace(turn(1), anchor=0.5)]], "pvpo")
    with pytest.raises(GroupError, match="turn 0 of rollout 0 has no anchor"):
        estimate([[Turn("s", "a", "e", 1.0)]], "pvpo")


@pytest.mark.parametrize("method", ["reinforce_pp", "gdpo"])
def test_methods_that_whiten_differ_from_what_a_task_gets_alone(method):
    # Group spreads differ for reinforce_pp, and group sizes (hence zeros in the batch) for gdpo.
    together = estimate_batch([one_turn(1, 0), one_turn(9, 0), one_turn(2, 2, 2)], method)
    assert abs(together[0][0][0] - estimate(one_turn(1, 0), method)[0][0]) > 0.1


@pytest.mark.parametrize("method", [method for method in OWN if method != "pvpo"])
def test_groups_of_one_are_errors_and_unanimous_groups_zero(method):
    with pytest.raises(LoneRolloutError, match=method):
        estimate_batch([one_turn(1, 0), one_turn(1)], method)
    for outcome in (0.0, 1.0, -3.7, 1e12, 1e-12):
        given = estimate_batch([one_turn(*[outcome] * 5), one_turn(1, 0, 3)], method)
        assert [row.tolist() for row in given[0]] == [[0.0]] * 5
        assert np.concatenate(given[1]).any()


@pytest.mark.parametrize("method", OWN)
@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_extreme_rewards_stay_finite(method, weighting):
    sizes = (0.0, 1.0, 1e-12, -1e-12, 1e12, -1e12, 1e12 + 1, 3e5, -0.1)
    tasks = [tree(seed, rollouts=2 + seed % 7, values=sizes) for seed in range(60)]
    for task in (tasks, tasks[:1], tasks[1:2]):
        for given in estimate_batch(task, method, weighting=weighting):
            assert all(np.isfinite(row).all() for row in given)
    huge = numbers(one_turn(1e100, -1e100, 0), method)
    assert np.isfinite(huge).all() and huge[0] > huge[1]


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("mc_grpo", {"eps": 0}, "eps is 0; allowed is a number above 0"),
        ("mc_grpo", {"drop_pivot": 1}, "drop_pivot is 1"),
        ("gapo", {"share": 0}, "share is 0; allowed is a number above 0 and at most 1"),
        ("gapo", {"normalise": False, "ddof": 0}, "ddof is 0, but has no effect with normalise=False"),
        ("gapo", {"normalise": False, "eps": 1.0}, "eps is 1.0, but has no effect"),
        ("reinforce_pp", {"ddof": 2}, "ddof is 2"),
        ("reinforce_pp", {"count_turns": 1}, "count_turns is 1"),
        ("gdpo", {"eps": -1}, "eps is -1"),
        ("pvpo", {"anchor": 1}, "'pvpo' has no setting 'anchor'"),
    ],
)
def test_settings_out_of_range(method, settings, message):
    with pytest.raises(SettingError, match=message):
        settings_for(method, **settings)
