"""Trees of the decision processes are what a rule meets in a run, all rules spend alike, and the figures are of what was grown."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.rollouts.branching_figure import write_branching_figure
from benchmarks.rollouts.branching_rules import ESTIMATORS, NONE, OURS, QUICK, RuleStudy, details, mean_ratio, rows, study
from benchmarks.rollouts.process_tree import TreeMaker
from benchmarks.rollouts.rule_cell import ROLLOUTS, grow_cell
from benchmarks.truth.cell import starts_of
from benchmarks.truth.errors import BudgetError
from benchmarks.truth.findings import SETS
from benchmarks.truth.growth import grow, root_frontier
from benchmarks.truth.process import Process
from benchmarks.truth.resample import Sure
from tree_rollout.branching import BRANCHING_RULES, Branch, branching_rule, forkable_turns
from tree_rollout.stop_reason import StopReason

SMALL = replace(QUICK, draws=2, seven=2, others=2)


@cache
def start(name: str):
    return starts_of(name, "tabular", 1)[0]


def grown(name: str, roots: list[int], process: Process | None = None):
    known = start(name)
    process = process or known.process
    forest = grow(process, known.policy, root_frontier(process, np.array(roots)), np.random.default_rng(0))
    return forest, TreeMaker(process, known.policy).trees(forest, len(roots))


@pytest.mark.parametrize("name", ["random_w4", "key_door", "stopping", "random_w30_merge5"])
def test_a_tree_is_its_group_turn_by_turn(name: str) -> None:
    process, policy = start(name).process, start(name).policy
    forest, trees = grown(name, [3, 0, 2])
    assert [len(tree.children(-1)) for tree, _ in trees] == [3, 0, 2]
    assert sorted(np.concatenate([nodes for _, nodes in trees]).tolist()) == list(range(forest.size))
    for group, (tree, nodes) in enumerate(trees):
        assert (forest.group_N[nodes] == group).all() and forkable_turns(tree) == list(range(len(nodes)))
        for turn, node in zip(tree.turns, nodes.tolist(), strict=True):
            state, action, after = forest.state_N[node], forest.action_N[node], forest.next_N[node]
            assert forest.parent_N[node] == (nodes[turn.parent] if turn.parent >= 0 else -1)
            assert (turn.state, turn.next_state) == (str(process.signature_X[state]), str(process.signature_X[after]))
            assert turn.action == str(action) and turn.ids_T[turn.mask_T].tolist() == [action]
            assert turn.logprobs_T[turn.mask_T] == pytest.approx(np.log(policy.probs_XK[state, action]), rel=1e-5)
            assert turn.entropy == pytest.approx(policy.entropy_X[state], rel=1e-5)
            assert turn.reward == forest.reward_N[node] and turn.terminated == process.terminal_X[after]


@pytest.mark.parametrize("name", ["key_door", "stopping"])
def test_a_rollout_ends_for_a_reason_and_is_solved_where_it_earned_something(name: str) -> None:
    process = start(name).process
    _, ((tree, _),) = grown(name, [40])
    reasons = set()
    for path in tree.rollouts():
        assert [index for index in path if tree.turns[index].stop_reason] == path[-1:]
        last = tree.turns[path[-1]]
        reasons.add(last.stop_reason)
        assert last.stop_reason is (StopReason.TERMINATED if last.terminated else StopReason.TRUNCATED)
        assert last.truncated == (not last.terminated) and (last.terminated or len(path) == process.horizon)
        assert last.success == (sum(tree.turns[index].reward for index in path) > 0)
        assert not any(tree.turns[index].success for index in path[:-1])
        # Root by root, each from its first turn to its last, as the sampler plants them.
        assert path == list(range(path[0], path[0] + len(path)))
    assert name == "stopping" or reasons == {StopReason.TERMINATED, StopReason.TRUNCATED}
    assert len({turn.success for turn in tree.turns if turn.stop_reason}) == 2


@pytest.mark.parametrize("rule", BRANCHING_RULES)
def test_every_rule_spends_what_it_may(rule: str) -> None:
    found = grow_cell("random_w4", starts_of("random_w4", "tabular", 2), branching_rule(rule), 10, 8)
    turns = np.concatenate([sample.turns_G for sample in found.cell.samples])
    assert found.spent == pytest.approx(turns.mean() / (ROLLOUTS * 10)) == pytest.approx(1.0, abs=0.1)
    firsts = [sum(time == 0 for time in sample.time_O[np.unique(sample.node_O, return_index=True)[1]]) for sample in found.cell.samples]
    assert sum(firsts) / found.cell.groups >= found.roots - 0.2
    assert (found.forks == pytest.approx(0, abs=0.1)) == (rule == NONE) and found.forks <= found.roots + 0.5


def test_forks_start_where_the_rule_said() -> None:
    """A rule that forks the last turn of each root: every leaf but the roots' own has a sibling."""

    def select(tree, budget, rng):
        return [Branch(path[-1], 0.0) for path in tree.rollouts()][:budget]

    rule = SimpleNamespace(name="last", select=select)
    found = grow_cell("random_w4", starts_of("random_w4", "tabular", 1), rule, 4, 4)  # pyright: ignore[reportArgumentType]
    (sample,) = found.cell.samples
    assert found.forks == pytest.approx(found.roots, abs=0.3) and found.roots == pytest.approx(160 / 11, abs=0.1)
    node_R2 = sample.node_O.reshape(-1, 10)[:, [8, 9]]
    assert len(np.unique(node_R2[:, 1])) == len(node_R2) == 2 * len(np.unique(node_R2[:, 0]))


def test_a_cell_is_the_same_each_time_and_refuses_what_cannot_be_measured() -> None:
    starts = starts_of("random_w4", "tabular", 2)
    one, other = (grow_cell("random_w4", starts, branching_rule("random"), 2, 1) for _ in range(2))
    assert all((a.action_O == b.action_O).all() for a, b in zip(one.cell.samples, other.cell.samples, strict=True))
    with pytest.raises(BudgetError, match="give at least 2 groups and 1 pilot"):
        grow_cell("random_w4", starts, branching_rule("random"), 1, 1)


def test_a_study_holds_every_rule_against_none() -> None:
    found = study("stopping", SMALL)
    for estimator in ESTIMATORS:
        assert set(found.ratio[estimator]) == set(BRANCHING_RULES) and found.ratio[estimator][NONE].value == 1
        assert len({ratio.value for ratio in found.ratio[estimator].values()}) == len(BRANCHING_RULES)
    assert set(found.spent) == set(found.roots) == set(found.forks) == set(BRANCHING_RULES)


def made_up(worst: str, value: float) -> list[RuleStudy]:
    """Every rule is worth 1, ours 1.5 on all processes but one."""

    def ratio(process: str, rule: str) -> Sure:
        number = (value if process == worst else 1.5) if rule == OURS else 1.0
        return Sure(number, np.full(10, number))

    every = {rule: 1.0 for rule in BRANCHING_RULES}
    return [
        RuleStudy(name, {label: {rule: ratio(name, rule) for rule in BRANCHING_RULES} for label in ESTIMATORS}, every, every, every)
        for names in SETS.values()
        for name in names
    ]


def test_rows_name_the_best_first_and_the_worst_process() -> None:
    studies = made_up("key_door", 0.9)
    found = rows(studies)
    assert [row.name for row in found if OURS in row.name] == [
        *(f"branching {OURS}, {estimator}" for estimator in ESTIMATORS),
        "least of signal_per_token over all 21 processes",
    ]
    assert found[0].value == pytest.approx(1.5) and found[0].ratio == found[0].value and "least 0.90 (key_door)" in found[0].note
    assert found[-1].value == 0.9 and found[-1].ratio == pytest.approx(0.9 / 0.95)
    assert mean_ratio(studies, "dr_grpo", OURS, "others").value == pytest.approx((1.5**5 * 0.9) ** (1 / 6))
    assert details(studies)["cos2_ratio"]["tree_graph"][OURS]["key_door"] == [0.9, 0.9, 0.9]


def test_the_figure_is_written(tmp_path) -> None:
    path = write_branching_figure(made_up("key_door", 0.9), tmp_path / "new" / "rules.png")
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5_000
