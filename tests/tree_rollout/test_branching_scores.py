from collections import Counter
from typing import Any

import numpy as np
import pytest
from branching_trees import CRASH, END, chain, rollouts, scores_of, select, tree, turn, turns_of

from tree_rollout.branching import Branch, branching_rule
from tree_rollout.branching.appo import future_likelihoods
from tree_rollout.branching.hybrid import group_confidences
from tree_rollout.stop_reason import StopReason
from tree_rollout.turn import Turn

# ---------------------------------------------------------------------- first_token


def test_first_token_reads_the_first_sampled_token_alone() -> None:
    grown = tree(turn(-1, entropy=9.0), turn(0, entropy=[0.5, 9.0]), turn(1, entropy=[9.0, 0.0], stop=END))
    seen = [select("first_token", grown, 2, seed, chance_per_nat=1.0) for seed in range(600)]
    assert {tuple(branches) for branches in seen} == {(Branch(1, 0.5), Branch(2, 1.0)), (Branch(2, 1.0),)}
    assert abs(sum(len(branches) == 2 for branches in seen) / 600 - 0.5) < 4 * np.sqrt(0.25 / 600)


def test_first_token_goes_from_early_to_late_and_starts_no_root() -> None:
    grown = rollouts([[9.0] * 3, [9.0] * 3])
    assert turns_of(select("first_token", grown, 9, chance_per_nat=1.0)) == [1, 4, 2, 5]
    assert turns_of(select("first_token", grown, 3, chance_per_nat=1.0)) == [1, 4, 2]
    assert select("first_token", grown, 9, chance_per_nat=0) == []


def solves(state: str, rng: np.random.Generator) -> Turn:
    """The last turn of a small world: in L it is solved 3 times in 10, in R 8 times in 10, and whoever fails it dithers on the way."""
    solved = bool(rng.random() < {"L": 0.3, "R": 0.8}[state])
    return turn(0, state, [{"L": 1.0, "R": 0.2}[state], 0.0 if solved else 5.0], stop=END, solved=solved)


def mean_estimates(rule: str, trees: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Path-weighted share of solved rollouts, and its covariance with the action in L: means over trees of two roots, standard errors."""
    rng = np.random.default_rng(0)
    found = np.zeros((trees, 2))
    for number in range(trees):
        grown = tree()
        for _ in range(2):
            last = solves("LR"[int(rng.integers(2))], rng)
            last.parent = grown.add(turn(-1, "S", 0.5))
            grown.add(last)
        for branch in branching_rule(rule, options).select(grown, 1, rng):
            if grown.turns[branch.turn].parent < 0:
                continue
            fork = solves(grown.turns[branch.turn].state, rng)
            fork.parent = grown.turns[branch.turn].parent
            grown.add(fork)
        weights = grown.path_weights() / 2
        for leaf in grown.leaves():
            weight, end = weights[leaf], grown.turns[leaf]
            found[number] += [weight * end.success, weight * (end.state == "L") * (end.success - 0.3) * end.success]
    return found.mean(axis=0), found.std(axis=0) / np.sqrt(trees)


def test_first_token_leaves_estimates_unbiased_and_a_rule_that_sees_what_was_sampled_does_not() -> None:
    """The chance to solve is (.3 + .8) / 2, and the score in L of solving times the outcome is .5 * .3 * .7."""
    truth = np.array([0.55, 0.105])
    mean, error = mean_estimates("first_token", 1500, chance_per_nat=0.8)
    assert np.all(np.abs(mean - truth) < 4 * error)
    biased, error = mean_estimates("topk_entropy", 1500)
    assert biased[0] - truth[0] > 4 * error[0]


# ---------------------------------------------------------------------- random


def test_random_gives_each_tree_of_tree_grpo_one_leaf_and_n_l_more() -> None:
    """M 2, N 2, L 1: three leaves for each root."""
    grown = rollouts([[1.0] * 3, [1.0] * 5])
    picked = select("random", grown, 4)
    assert Counter("first" if index < 3 else "second" for index in turns_of(picked)) == {"first": 2, "second": 2}
    assert scores_of(picked) == [1 / 3, 1 / 5, 1 / 3, 1 / 5]


# ---------------------------------------------------------------------- uniform_depth


def test_uniform_depth_spreads_forks_evenly() -> None:
    grown = rollouts([[1.0] * 10])
    assert turns_of(select("uniform_depth", grown, 2)) == [2, 7]  # floor(10/4) and floor(30/4)
    assert scores_of(select("uniform_depth", grown, 5)) == [1.0, 3.0, 5.0, 7.0, 9.0]
    for budget in range(1, 40):
        counts = Counter(scores_of(select("uniform_depth", grown, budget)))
        assert len(counts) == min(budget, 10) and max(counts.values()) - min(counts.values()) <= (1 if budget >= 10 else 0)


def test_uniform_depth_takes_the_turns_of_a_depth_in_turn_and_at_random() -> None:
    grown = rollouts([[1.0, 1.0]] * 3)
    for seed in range(5):
        picked = select("uniform_depth", grown, 6, seed)
        assert scores_of(picked) == [0.0] * 3 + [1.0] * 3
        assert sorted(turns_of(picked)) == list(range(6))
    firsts = Counter(turns_of(select("uniform_depth", grown, 2, seed))[0] for seed in range(300))
    assert set(firsts) == {0, 2, 4} and min(firsts.values()) > 60


def test_uniform_depth_counts_only_depths_that_can_be_forked() -> None:
    grown = tree(turn(-1), turn(0, snapshot=None), turn(1), turn(2, stop=END))
    assert turns_of(select("uniform_depth", grown, 3)) == [0, 2, 3]


# ---------------------------------------------------------------------- arpo


def test_arpo_by_the_published_numbers() -> None:
    """An entropy that rose by 1.005913 gives .701183."""
    grown = chain([0.2, 1.205913])
    seen = {branch for seed in range(40) for branch in select("arpo", grown, 1, seed)}
    assert {branch.turn for branch in seen} == {0, 1}
    (score,) = {branch.score for branch in seen if branch.turn == 1}
    assert score == pytest.approx(0.701183, abs=1e-6)


def test_arpo_forks_as_often_as_it_says() -> None:
    grown = chain([0.5, 1.5])
    forked = sum(select("arpo", grown, 1, seed)[0].turn == 1 for seed in range(1500))
    assert abs(forked / 1500 - 0.7) < 4 * np.sqrt(0.7 * 0.3 / 1500)


def test_arpo_measures_entropy_from_the_rollouts_own_first_turn_and_per_token() -> None:
    grown = tree(
        turn(-1, entropy=[0.5] * 9), turn(0, entropy=[0.2, 0.8], stop=END), turn(-1, entropy=2.0), turn(2, entropy=3.0), turn(3, stop=END)
    )
    scores = {branch.turn: branch.score for seed in range(40) for branch in select("arpo", grown, 3, seed)}
    assert scores == pytest.approx({0: 0.0, 1: 0.5, 3: 0.7, 4: 0.3})


def test_arpo_clips_its_probability_and_goes_from_early_to_late() -> None:
    sure = rollouts([[0.0, 9.0, 9.0], [0.0, 9.0, 9.0]])
    assert select("arpo", sure, 3) == [Branch(1, 1.0), Branch(4, 1.0), Branch(2, 1.0)]
    never = rollouts([[9.0, 0.0, 0.0]])
    assert select("arpo", never, 3) == [Branch(0, 0.0)] * 3
    # What the coins leave over goes to fresh starts.
    assert turns_of(select("arpo", sure, 6)) == [1, 4, 2, 5, 0, 0]


# ---------------------------------------------------------------------- appo


def test_appo_by_the_published_numbers() -> None:
    """Gains .1 -.2 .3 0 and entropies .2 1.5 1 .1 at discount 1, clip .2: Omega 1.2 1.105171 1.2 1, and index 2 alone is picked."""
    gains, entropies = np.array([0.1, -0.2, 0.3, 0.0]), np.array([0.2, 1.5, 1.0, 0.1])
    grown = chain(entropies.tolist(), (gains - entropies).tolist())
    omega = np.array([1.2, 1.105171, 1.2, 1.0])
    likelihood, uncertainty = ((values - values.mean()) / values.std() for values in (omega, entropies))
    picked = select("appo", grown, 3)
    assert turns_of(picked) == [2, 2, 2]
    assert picked[0].score == pytest.approx(likelihood[2] * uncertainty[2], rel=1e-5)


def test_appo_discounts_and_goes_in_rounds() -> None:
    """With discount 0 only a turn's own gain counts: .3, .2, 0, 0 with clip .5; both uncertain turns qualify."""
    gains, entropies = np.array([0.3, 0.2, 0.0, 0.0]), np.array([1.0, 2.0, 0.1, 0.1])
    grown = chain(entropies.tolist(), (gains - entropies).tolist())
    omega = np.exp(gains)
    score = [(o - omega.mean()) / omega.std() * (h - entropies.mean()) / entropies.std() for o, h in zip(omega, entropies, strict=True)]
    assert score[1] > score[0] > 0
    picked = select("appo", grown, 5, discount=0, clip=0.5)
    assert turns_of(picked) == [1, 0, 1, 0, 1]
    assert scores_of(picked)[:2] == pytest.approx([score[1], score[0]], rel=1e-5)


def test_appo_takes_the_mean_over_tokens_and_over_continuations() -> None:
    """Turn 0 has gain .1 (twice .1, not .2) and continuations of gain .3 and -.1; a crash among them does not count."""
    grown = tree(
        turn(-1, entropy=[1.0, 1.0], logprob=[-0.9, -0.9]),
        turn(0, entropy=1.0, logprob=-0.7, stop=END),
        turn(0, entropy=1.0, logprob=-1.1, stop=END),
        turn(0, entropy=1.0, logprob=4.0, stop=CRASH),
    )
    assert np.log(future_likelihoods(grown, 1.0, 0.9)[:3]) == pytest.approx([0.2, 0.3, -0.1], abs=1e-6)
    assert np.log(future_likelihoods(grown, 0.5, 0.9)[0]) == pytest.approx(0.15, abs=1e-6)
    assert future_likelihoods(grown, 1.0, 0.05)[:3] == pytest.approx([1.05, 1.05, 0.95])


def test_appo_forks_nothing_where_all_turns_are_alike() -> None:
    assert select("appo", chain([0.7] * 4, [-0.7] * 4), 3) == []
    assert turns_of(select("appo", chain([0.1, 0.9, 0.5], [-0.1, -0.8, -0.5]), 1)) == [1]
    assert select("appo", chain([0.1, 0.9, 0.1], [0.1, -1.2, -0.1]), 3) == [], "uncertain, but what followed was unlikely"


# ---------------------------------------------------------------------- hybrid


def test_hybrid_by_hand() -> None:
    """Entropies 1 4 2.5 (local 0 1 .5), confidences .5 .25 .75, over a window of two .5 .375 .5, mean 11/24.

    raw = 2 local - (C/mean - 1): -1/11, 2 + 2/11, 1 - 1/11. Widths 1, 3, 2.
    """
    grown = chain([1.0, 4.0, 2.5], np.log([0.5, 0.25, 0.75]).tolist())
    assert group_confidences(grown, 2) == pytest.approx([0.5, 0.375, 0.5])
    picked = select("hybrid", grown, 9, window=2)
    assert turns_of(picked) == [1, 2, 1]
    assert scores_of(picked) == pytest.approx([24 / 11, 10 / 11, 24 / 11])
    assert [turns_of(select("hybrid", grown, budget, window=2)) for budget in (1, 2)] == [[1], [1, 2]]
    assert turns_of(select("hybrid", grown, 9, window=2, max_width=2)) == [1, 2]


def test_hybrid_counts_the_continuations_that_are_there() -> None:
    """The two roots are continuations of one state: of width 3 each, it has room for one more."""
    grown = rollouts([[1.0, 0.0], [1.0, 0.0]])
    assert turns_of(select("hybrid", grown, 9)) == [0]
    assert turns_of(select("hybrid", grown, 9, entropy_weight=3.0)) == [0, 2]


def test_hybrid_confidence_is_a_geometric_mean_of_the_path() -> None:
    grown = tree(
        turn(-1, entropy=[1.0, 1.0], logprob=np.log([0.2, 0.8]).tolist()),
        turn(0, logprob=np.log(0.1)),
        turn(0, entropy=[], stop=StopReason.CONTEXT_LENGTH),
    )
    assert group_confidences(grown, 9) == pytest.approx([0.4, 0.25, 0.4])
    assert group_confidences(grown, 1) == pytest.approx([0.4, 0.1, 0.4])
