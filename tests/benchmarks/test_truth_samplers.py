"""Samples are whole trees, cost what the budget says, and their gradient is unbiased exactly where the rule promises it."""

import time
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.truth import tree_sampler
from benchmarks.truth.catalog import problem
from benchmarks.truth.errors import BudgetError, UnknownNameError
from benchmarks.truth.exact import solve
from benchmarks.truth.flat_sampler import sample_flat
from benchmarks.truth.forks_after import FailedForks, LeastLikely, TopKEntropy
from benchmarks.truth.forks_ahead import EntropyForks, NoForks, RandomForks, expected_turns
from benchmarks.truth.growth import Forest, grow, root_frontier
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import Process
from benchmarks.truth.sample import Sample, path_weights, to_sample
from benchmarks.truth.tree_sampler import RULES, find_rule, flat_budget, grow_trees, roots_for, sample_trees
from credit import Batch, Turn

COLUMNS = [name for name in Sample.__dataclass_fields__]
UNBIASED = [name for name, rule in RULES.items() if rule.unbiased]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@cache
def known(name: str, kind: str = "tabular"):
    return problem(name, 0, kind)


def trees(name: str, rule, groups: int, seed: int = 0, kind: str = "tabular", noise: float = 0.0):
    process, policy = known(name, kind)
    return process, policy, sample_trees(process, policy, rule, groups, flat_budget(process, policy, 16), rng(seed), noise)


def returns(sample: Sample) -> np.ndarray:
    """Sum of the rewards from each row to the end of its rollout."""
    summed_O = np.cumsum(sample.reward_O)
    return np.repeat(summed_O[sample.start_R + sample.length_R - 1], sample.length_R) - summed_O + sample.reward_O


def error_of_mean(process, policy, sample: Sample, weight_R: np.ndarray, sampled: bool = False) -> tuple[float, float, float]:
    """Error of the mean gradient, its noise (root of the summed variance of the mean), and the norm of the truth.

    Advantages are exact, or with `sampled` returns less the exact value.
    """
    solution = solve(process, policy)
    q_O = returns(sample) if sampled else solution.q_HXK[sample.time_O, sample.state_O, sample.action_O]
    weighted_O = weight_R[sample.rollout_O] * (q_O - solution.value_HX[sample.time_O, sample.state_O])
    gradient_GD = policy.gradients(sample.state_O, sample.action_O, weighted_O, sample.group_O, sample.groups)
    # One normaliser for all groups: the mean weight of a group, so that no group's own size enters its gradient.
    gradient_GD *= sample.groups / weight_R.sum()
    noise = np.sqrt(gradient_GD.var(axis=0, ddof=1).sum() / sample.groups)
    return float(np.linalg.norm(gradient_GD.mean(axis=0) - solution.gradient_D)), float(noise), float(np.linalg.norm(solution.gradient_D))


PROBLEMS = [(name, "tabular") for name in ("random_w4", "stochastic_w10", "key_door", "stopping", "idle_chain")]
PROBLEMS += [(name, "shared") for name in ("middle_w30", "household")]


@pytest.mark.parametrize(("name", "kind"), PROBLEMS)
@pytest.mark.parametrize("rule", UNBIASED)
def test_path_weights_leave_rules_that_decide_ahead_unbiased(name, rule, kind):
    process, policy, sample = trees(name, rule, 600, kind=kind)
    error, noise, norm = error_of_mean(process, policy, sample, path_weights(sample))
    assert error < 2 * noise and noise < 0.1 * norm
    error, noise, norm = error_of_mean(process, policy, sample, path_weights(sample), sampled=True)
    assert error < 2 * noise and noise < 0.4 * norm


@pytest.mark.parametrize("name", ["random_w4", "household", "key_door"])
def test_flat_samples_have_the_exact_gradient(name):
    process, policy = problem(name, 0)
    sample = sample_flat(process, policy, 600, 16, rng(3))
    error, noise, norm = error_of_mean(process, policy, sample, np.ones(len(sample.length_R)))
    assert error < 2 * noise and noise < 0.1 * norm


@pytest.mark.parametrize(("name", "rule", "least"), [("random_w4", EntropyForks(4, 0.3), 0.15), ("stopping", EntropyForks(4, 0.3), 0.5)])
def test_leaf_weights_are_biased_under_adaptive_forks(name, rule, least):
    process, policy, sample = trees(name, rule, 1500, seed=4)
    error, noise, _ = error_of_mean(process, policy, sample, path_weights(sample))
    assert error < 2 * noise
    error, noise, norm = error_of_mean(process, policy, sample, np.ones(len(sample.length_R)))
    assert error > 8 * noise and error > least * norm


@pytest.mark.parametrize(
    ("name", "rule", "least"), [("key_door", "failed", 0.15), ("idle_chain", "failed", 0.2), ("stopping", "least_likely", 0.08)]
)
def test_rules_that_look_at_the_rollout_first_are_biased_even_with_path_weights(name, rule, least):
    process, policy, sample = trees(name, rule, 2000, seed=5)
    error, noise, norm = error_of_mean(process, policy, sample, path_weights(sample), sampled=True)
    assert error > 3 * noise and error > least * norm


def test_forks_at_the_highest_entropy_are_biased_where_an_action_decides_what_comes_after_it():
    # From 0 all goes to 1; there action 0 pays 1 and leads to 2, the most uncertain state, and action 1 leads to 3, a certain one.
    # So the turn in 1 is forked exactly when action 1 was taken there.
    next_XKM = np.array([[1, 1], [2, 3], [4, 4], [4, 4], [4, 4]])[:, :, None]
    reward_XKM = np.zeros(next_XKM.shape)
    reward_XKM[1, 0] = 1.0
    process = Process(
        name="fork",
        doc="by hand",
        next_XKM=next_XKM,
        prob_XKM=np.ones(next_XKM.shape),
        reward_XKM=reward_XKM,
        terminal_X=np.arange(5) == 4,
        start=0,
        horizon=3,
        signature_X=np.arange(5),
        habit_XK=np.zeros((5, 2)),
        tags=frozenset({"exact"}),
    )
    policy = Policy(np.array([[9.0, 0.0], [0.5, 0.0], [0.0, 0.0], [9.0, 0.0], [0.0, 0.0]]).ravel(), (5, 2))
    forest = grow_trees(process, policy, TopKEntropy(), np.ones(4000, dtype=np.int64), rng(17))
    sample = to_sample(process, policy, forest, 4000, rng(18))
    error, noise, norm = error_of_mean(process, policy, sample, path_weights(sample))
    # With p = pi(0), a share p (1 - p) / 2 of the weight moves from action 1 to action 0, and A times the score is (1 - p)^2 (1, -1) for
    # action 0 and p^2 (1, -1) for action 1.
    p = policy.probs_XK[1, 0]
    bias = p * (1 - p) / 2 * ((1 - p) ** 2 - p**2) * np.array([1, -1])
    assert error == pytest.approx(np.linalg.norm(bias), abs=4 * noise) and error > 4 * noise and norm > 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["random_w30", "stopping", "household"])
def test_trees_cost_what_the_budget_says(name, rule):
    process, policy, sample = trees(name, rule, 250, seed=6)
    budget = flat_budget(process, policy, 16)
    assert abs(sample.turns_G.mean() / budget - 1) < 0.03
    assert sample.turns_G.sum() == len(np.unique(sample.node_O)), "a shared turn is paid once"
    if rule == "none":
        assert (np.bincount(sample.group_R) == 16).all()


@pytest.mark.parametrize("rule", [NoForks(), EntropyForks(3, 0.4), RandomForks(1), RandomForks(4)])
def test_the_expected_turns_of_a_root_are_exact(rule):
    process, policy = known("stopping")
    roots_G = np.ones(8_000, dtype=np.int64)
    turns_G = np.bincount(grow_trees(process, policy, rule, roots_G, rng(7)).group_N)
    assert abs(turns_G.mean() - expected_turns(process, policy, rule.chances(process, policy))) < 4 * turns_G.std() / np.sqrt(8_000)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_seed_gives_the_same_columns(rule):
    (_, _, first), (_, _, again), (_, _, other) = (trees("stopping", rule, 20, seed, noise=0.1) for seed in (8, 8, 9))
    for name in COLUMNS:
        column, same = getattr(first, name), getattr(again, name)
        assert column.dtype == same.dtype and column.tobytes() == same.tobytes(), name
    assert first.action_O.tobytes() != other.action_O.tobytes()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["stochastic_w10", "idle_chain", "random_w30_merge5"])
def test_rows_are_paths_of_the_process(name, rule):
    process, policy, sample = trees(name, rule, 6, seed=10)
    assert len(sample.state_O) == sample.length_R.sum() and (np.diff(sample.group_R) >= 0).all()
    reached_OM = process.next_XKM[sample.state_O, sample.action_O]
    chance_O = (process.prob_XKM[sample.state_O, sample.action_O] * (reached_OM == sample.next_state_O[:, None])).sum(axis=1)
    assert (chance_O > 0).all() and (policy.probs_XK[sample.state_O, sample.action_O] > 0).all()
    np.testing.assert_array_equal(sample.signature_O, process.signature_X[sample.state_O])
    np.testing.assert_array_equal(sample.next_signature_O, process.signature_X[sample.next_state_O])
    np.testing.assert_array_equal(sample.entropy_O, policy.entropy_X[sample.state_O])
    for start, length in zip(sample.start_R.tolist(), sample.length_R.tolist(), strict=True):
        rows = slice(start, start + length)
        assert sample.state_O[start] == process.start and sample.time_O[rows].tolist() == list(range(length))
        np.testing.assert_array_equal(sample.state_O[rows][1:], sample.next_state_O[rows][:-1])
        last = sample.next_state_O[start + length - 1]
        assert process.terminal_X[last] or length == process.horizon, "a rollout ends where the process or the turn limit ends it"
        assert not process.terminal_X[sample.state_O[rows]].any()


@pytest.mark.parametrize("rule", RULES)
def test_weights_and_outcomes_are_those_of_the_estimators(rule):
    _, _, sample = trees("stochastic_w10", rule, 6, seed=11, noise=0.5)
    columns = (sample.signature_O, sample.action_O, sample.next_signature_O, sample.reward_O, sample.node_O)
    turns = [Turn(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    rollouts = [turns[start : start + length] for start, length in zip(sample.start_R, sample.length_R, strict=True)]
    read = Batch.read([[rollouts[r] for r in np.flatnonzero(sample.group_R == group)] for group in range(6)])
    np.testing.assert_allclose(path_weights(sample), read.weight_R)
    np.testing.assert_allclose(sample.outcome_R, read.outcome_R)
    np.testing.assert_array_equal(np.bincount(sample.group_O[np.unique(sample.node_O, return_index=True)[1]]), sample.turns_G)
    assert len(read.nodes.first_N) == sample.turns_G.sum()


def hand_made_roots() -> tuple[Forest, Policy]:
    """Two roots of one group: states 0 1 2 and 0 2 1; entropies rise with the state; the second earns 1."""
    columns = {"group_N": [0] * 6, "root_N": [0, 0, 0, 1, 1, 1], "parent_N": [-1, 0, 1, -1, 3, 4], "time_N": [0, 1, 2, 0, 1, 2]}
    columns |= {"state_N": [0, 1, 2, 0, 2, 1], "action_N": [1, 0, 0, 0, 1, 0], "next_N": [1, 2, 3, 2, 1, 3]}
    logits = np.array([[3.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 0.0]])
    forest = Forest(**{name: np.array(column) for name, column in columns.items()}, reward_N=np.array([0.0, 0, 0, 0, 0, 1]))
    return forest, Policy(logits.ravel(), (4, 2))


def test_what_rules_pick_on_two_rollouts_made_by_hand():
    roots, policy = hand_made_roots()
    # Chances of the actions: .05 .73 .62 and .95 .38 .73.
    assert LeastLikely().pick(roots, policy).tolist() == [0, 4]
    assert FailedForks().pick(roots, policy).tolist() == [2]
    # Entropies: state 0 .19, state 1 .58, state 2 .66.
    assert TopKEntropy().pick(roots, policy).tolist() == [2, 4]
    assert TopKEntropy(forks_per_root=2, sibling_penalty=0.05).pick(roots, policy).tolist() == [2, 4, 2, 4]
    assert TopKEntropy(forks_per_root=3, sibling_penalty=0.5).pick(roots, policy).tolist() == [2, 4, 1, 5, 2, 4]
    assert TopKEntropy(forks_per_root=2, sibling_penalty=0).pick(roots, policy).tolist() == [2] * 4


def test_first_turns_are_siblings_of_each_other():
    roots, _ = hand_made_roots()
    policy = Policy(np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 0.0], [0.0, 0.0]]).ravel(), (4, 2))
    # State 0 has .69, less .3 for its sibling and .3 for each fork; the others have .19.
    assert TopKEntropy(forks_per_root=2, sibling_penalty=0.3).pick(roots, policy).tolist() == [0, 1, 2, 4]


def test_entropy_forks_lie_in_the_most_uncertain_share_of_visits():
    process, policy = known("random_w30")
    rule = EntropyForks(forks=2, share=0.25)
    chance_HXF = rule.chances(process, policy)
    visits_X = solve(process, policy).visitation_HX[1:].sum(axis=0)
    chosen_X = chance_HXF[1, :, 1] == 1
    assert 0.25 <= visits_X[chosen_X].sum() / visits_X.sum() < 0.25 + visits_X.max() / visits_X.sum()
    assert policy.entropy_X[chosen_X].min() >= policy.entropy_X[~chosen_X & (visits_X > 0)].max()
    assert not chance_HXF[0].any() and not chance_HXF[:, :, 0].any() and set(np.unique(chance_HXF)) == {0, 1}
    sample = sample_trees(process, policy, rule, 50, 160, rng(12))
    children = children_of(sample)
    assert {state for state, count in children if count == 2} <= set(np.flatnonzero(chosen_X).tolist())
    assert max(count for _, count in children) == 2
    assert path_weights(sample).min() == 0.25, "no path forks more than twice"


def children_of(sample: Sample) -> list[tuple[int, int]]:
    """For each turn that was followed by another: the state after it, and by how many."""
    followers: dict[int, set[int]] = {}
    after: dict[int, int] = {}
    for row, following in pairwise(range(len(sample.node_O))):
        if sample.time_O[following]:
            followers.setdefault(int(sample.node_O[row]), set()).add(int(sample.node_O[following]))
            after[int(sample.node_O[row])] = int(sample.next_state_O[row])
    return [(after[node], len(nodes)) for node, nodes in followers.items()]


def test_random_forks_are_a_uniform_subset_of_the_later_turns():
    process, policy = known("random_w30")
    rule = RandomForks(forks=3)
    forest = grow(process, policy, root_frontier(process, np.ones(4000, dtype=np.int64), 3), rng(13), rule.chances(process, policy))
    assert (np.bincount(forest.group_N[forest.time_N == 9]) == 8).all(), "every path forks three times"
    # The mean size of a turn doubles with each fork before it; turn 1 forks with chance 3 / 9.
    first_G = np.bincount(forest.group_N[forest.time_N == 1])
    assert abs((first_G == 2).mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / 4000)


def test_noise_is_added_once_per_rollout_to_its_last_turn():
    process, policy = known("random_w30")
    quiet, noisy = (sample_trees(process, policy, "entropy", 200, 160, rng(14), noise) for noise in (0.0, 0.3))
    difference_O = noisy.reward_O - quiet.reward_O
    last_R = quiet.start_R + quiet.length_R - 1
    assert np.array_equal(np.flatnonzero(difference_O), last_R)
    assert abs(difference_O[last_R].std() - 0.3) < 0.02 and abs(difference_O[last_R].mean()) < 0.03


def test_a_rule_that_picks_nothing_leaves_the_roots():
    process, policy = known("random_w30")
    forest = grow_trees(process, policy, TopKEntropy(forks_per_root=0.1), np.array([3, 0, 4]), rng(15))
    assert forest.size == 70 and np.bincount(forest.group_N).tolist() == [30, 0, 40]
    certain = replace(process, reward_XKM=np.ones(process.reward_XKM.shape))
    assert grow_trees(certain, policy, FailedForks(), np.array([2]), rng(15)).size == 20


@pytest.mark.parametrize("rule", RULES)
def test_the_number_of_roots_is_settled_before_sampling(rule, monkeypatch):
    process, policy = known("stopping")
    budget = 9.7 * flat_budget(process, policy, 1)
    roots = roots_for(process, policy, RULES[rule], budget)
    planted: list[np.ndarray] = []
    monkeypatch.setattr(tree_sampler, "roots_for", lambda *_: roots)
    monkeypatch.setattr(
        tree_sampler, "grow_trees", lambda p, pi, r, roots_G, g: planted.append(roots_G) or grow_trees(p, pi, r, roots_G, g)
    )
    for seed in range(16):
        sample_trees(process, policy, rule, 30, budget, rng(seed))
    roots_SG = np.array(planted)
    assert set(roots_SG.ravel()) == {np.floor(roots), np.ceil(roots)}
    assert (np.abs(roots_SG.sum(axis=1) - 30 * roots) < 1).all() and np.ptp(roots_SG, axis=0).max() == 1


def test_rules_and_budgets_that_do_not_exist_are_named():
    process, policy = known("random_w4")
    with pytest.raises(UnknownNameError, match="did you mean 'entropy'"):
        find_rule("entrpy")
    for rule in ("none", "topk_entropy"):
        with pytest.raises(BudgetError, match="raise it, or fork less"):
            sample_trees(process, policy, rule, 1, 9, rng())
    with pytest.raises(BudgetError, match="0 groups"):
        sample_trees(process, policy, "none", 0, 160, rng())
    for broken in (
        lambda: EntropyForks(0),
        lambda: EntropyForks(2, 0.0),
        lambda: RandomForks(13),
        lambda: TopKEntropy(0),
        lambda: TopKEntropy(1, -1),
    ):
        with pytest.raises(BudgetError, match="give"):
            broken()


def test_three_hundred_groups_are_sampled_in_well_under_a_second():
    process, policy = known("random_w30")
    started = time.process_time()
    sample = sample_flat(process, policy, 300, 16, rng())
    sample_trees(process, policy, "entropy", 300, 160, rng())
    assert time.process_time() - started < 1 and len(sample.state_O) == 48_000
