import pickle
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from branching_trees import CRASH, END, rollouts, select, tree, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_world import frozen, grow

from tree_rollout.branching import BRANCHING_RULES, Decision, branching_rule, forkable_turns
from tree_rollout.errors import BranchingError, UnknownBranchingRuleError
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

FORKING = [name for name in BRANCHING_RULES if name != "none"]
each = pytest.mark.parametrize("rule", FORKING)


# ---------------------------------------------------------------------- what holds for all


@st.composite
def any_tree(draw: st.DrawFn) -> TrajectoryTree:
    """A tree of any shape, with states that merge, crashes, and turns that cannot be forked."""
    grown = TrajectoryTree("test/World-v0", 0)
    size = draw(st.integers(0, 14))
    parents = [draw(st.integers(-1, index - 1)) for index in range(size)]
    number = st.floats(0, 5, width=32)
    for index, parent in enumerate(parents):
        leaf = index not in parents
        tokens = draw(st.integers(0 if leaf else 1, 3))
        stop = draw(st.sampled_from([END, StopReason.TRUNCATED, CRASH])) if leaf else None
        entropies, logprobs = ([draw(number) for _ in range(tokens)] for _ in range(2))
        state, snapshot = draw(st.sampled_from("abcd")), draw(st.sampled_from(["here", None]))
        grown.add(turn(parent, state, entropies, [-value for value in logprobs], stop, leaf and draw(st.booleans()), snapshot))
    return grown


@each
@settings(max_examples=25, deadline=None)
@given(grown=any_tree(), budget=st.integers(0, 9), seed=st.integers(0, 3))
def test_a_rule_keeps_to_its_budget_and_to_turns_that_can_be_forked_and_depends_on_its_seed_alone(
    rule: str, grown: TrajectoryTree, budget: int, seed: int
) -> None:
    before = frozen(grown)
    picked = select(rule, grown, budget, seed)
    assert len(picked) <= budget
    assert {branch.turn for branch in picked} <= set(forkable_turns(grown))
    assert all(isinstance(branch.turn, int) and isinstance(branch.score, float) and np.isfinite(branch.score) for branch in picked)
    assert select(rule, grown, budget, seed) == picked
    assert frozen(grown) == before, "a rule is pure"


@each
@settings(max_examples=15, deadline=None)
@given(grown=any_tree(), more=st.integers(1, 5))
def test_a_larger_budget_adds_forks_and_takes_none_away(rule: str, grown: TrajectoryTree, more: int) -> None:
    small, large = select(rule, grown, 3), select(rule, grown, 3 + more)
    assert len(small) <= len(large)
    if rule not in ("uniform_depth", "arpo"):  # These spread the whole budget, or end with what is left over.
        assert large[: len(small)] == small


@each
def test_nothing_is_forked_for_nothing_and_where_nothing_can_be(rule: str) -> None:
    crashed = tree(turn(-1), turn(0, stop=CRASH), turn(-1, snapshot=None, stop=END), turn(-1, entropy=[], stop=StopReason.CONTEXT_LENGTH))
    assert forkable_turns(crashed) == []
    assert [select(rule, crashed, 5), select(rule, tree(), 5), select(rule, rollouts([[1.0, 2.0], [3.0, 0.5]]), 0)] == [[], [], []]


@pytest.mark.parametrize("rule", ["random", "uniform_depth", "topk_entropy", "arpo", "signal_per_token"])
def test_these_rules_spend_the_whole_budget(rule: str) -> None:
    assert [len(select(rule, rollouts([[1.0, 2.0], [3.0, 0.5]]), budget)) for budget in (1, 2, 7, 50)] == [1, 2, 7, 50]


@pytest.mark.parametrize("rule", ["first_token", "random", "uniform_depth", "arpo"])
def test_rules_that_draw_differ_between_seeds(rule: str) -> None:
    grown = rollouts([[1.0] * 6] * 4)
    assert len({tuple(select(rule, grown, 6, seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("rule", ["topk_entropy", "appo", "hybrid", "signal_per_token"])
def test_the_other_rules_draw_nothing(rule: str) -> None:
    grown = rollouts([[0.3, 0.9, 0.1], [0.2, 0.8, 0.4]], [[-0.3, -0.8, -0.1], [-0.3, -0.9, -0.4]])
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    assert branching_rule(rule).select(grown, 4, rng)
    assert rng.bit_generator.state == state


@each
def test_sampled_trees_do_not_depend_on_what_is_sampled_beside_them_and_record_the_reason(rule: str) -> None:
    together = {tree.seed: frozen(tree) for tree in grow(range(6), branching=rule, forks=3).trees}
    apart = [tree for seeds in ([4, 1], [0, 2, 5], [3]) for tree in grow(seeds, branching=rule, forks=3).trees]
    assert together == {tree.seed: frozen(tree) for tree in apart}
    forked = [turn.origin for tree in apart for turn in tree.turns if turn.origin and turn.origin.kind == "branch"]
    assert forked and {origin.rule for origin in forked} == {rule}
    assert any(origin.score for origin in forked)


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("topk_entropy", {"sibling_penalty": 5.0}),
        ("first_token", {"chance_per_nat": 0.9}),
        ("arpo", {"base_probability": 0.1}),
        ("arpo", {"entropy_weight": 3.0}),
        ("appo", {"discount": 0.0}),
        ("appo", {"clip": 0.9}),
        ("hybrid", {"entropy_weight": 0.5}),
        ("hybrid", {"confidence_weight": 3.0}),
        ("hybrid", {"max_width": 2}),
        ("hybrid", {"window": 1}),
        ("signal_per_token", {"prior_rollouts": 0.5}),
    ],
)
def test_every_option_bites(rule: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    grown = rollouts(rng.random((3, 7)).tolist(), (-rng.random((3, 7))).tolist())
    for leaf in grown.leaves()[:2]:
        grown.turns[leaf].success = True
    for index, one in enumerate(grown.turns):
        depth = len(grown.path(index)) - 1
        one.state, one.next_state = f"{depth}.{index % 2}", f"{depth + 1}.{(index + 1) % 2}"
    assert select(rule, grown, 15, **options) != select(rule, grown, 15)


def test_no_option_is_left_out() -> None:
    (mark,) = [mark for mark in test_every_option_bites.pytestmark if mark.name == "parametrize"]  # pyright: ignore
    tested = {(rule, option) for rule, options in mark.args[1] for option in options}
    assert tested == {(name, field.name) for name, made in BRANCHING_RULES.items() for field in fields(made)}


@pytest.mark.parametrize("rule", BRANCHING_RULES)
def test_the_documentation_says_of_every_rule_when_it_decides_and_what_it_takes(rule: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "branching.md").read_text()
    row = re.search(rf"^\| `{rule}` \|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|", page, re.MULTILINE)
    assert row is not None
    prospective = branching_rule(rule).decision is Decision.PROSPECTIVE
    assert row[1].strip() == ("before sampling" if prospective else "after the roots")
    assert row[2].strip() == ("no" if prospective else "yes")
    told = {name: float(value) for name, value in re.findall(r"`(\w+)` \(([^)]+)\)", row[3])}
    assert told == {field.name: field.default for field in fields(BRANCHING_RULES[rule])}


@pytest.mark.parametrize(
    ("rule", "options", "words"),
    [
        ("arpo", {"base_probability": 1.1}, "base_probability is 1.1; give a number from 0 to 1, such as 0.5"),
        ("arpo", {"base_probability": True}, "base_probability is True"),
        ("arpo", {"entropy_weight": -1}, "entropy_weight is -1; give a number that is not negative, such as 0.2"),
        ("arpo", {"entropy_weight": float("inf")}, "entropy_weight is inf"),
        ("first_token", {"chance_per_nat": -0.1}, "chance_per_nat is -0.1; give a number that is not negative, such as 0.2"),
        ("appo", {"discount": 1.01}, "discount is 1.01; give a number from 0 to 1, such as 1.0"),
        ("appo", {"clip": 0}, "clip is 0; give a number from 0.001 to 0.999, such as 0.2"),
        ("appo", {"clip": 1}, "clip is 1;"),
        ("hybrid", {"entropy_weight": "2"}, "entropy_weight is '2'"),
        ("hybrid", {"confidence_weight": -0.1}, "confidence_weight is -0.1"),
        ("hybrid", {"max_width": 1}, "max_width is 1; give an integer of at least 2, such as 4"),
        ("hybrid", {"max_width": 2.5}, "max_width is 2.5"),
        ("hybrid", {"window": 0}, "window is 0; give an integer of at least 1, such as 4"),
        ("signal_per_token", {"prior_rollouts": 0}, "prior_rollouts is 0; give a number from 0.001 to 1000, such as 20.0"),
        ("topk_entropy", {"sibling_penalty": None}, "sibling_penalty is None; give a number of nats that is not negative"),
        ("arpo", {"entropy_wait": 1}, "the branching rule 'arpo' has no option 'entropy_wait'; did you mean entropy_weight?"),
        ("uniform_depth", {"depth": 1}, "'uniform_depth' has no option 'depth'; it takes none"),
        ("signal_per_tokens", {}, "no branching rule is called 'signal_per_tokens'; did you mean signal_per_token"),
        (5, {}, "no branching rule is called 5"),
        ("nowhere_at_all:rule", {}, "nowhere_at_all:rule: No module named 'nowhere_at_all'; install it"),
        ("math:pi", {}, "math:pi is a float, not a function"),
        ("a:b:c", {}, "'a:b:c' names no function; write module:function"),
    ],
)
def test_what_does_not_fit_is_one_sentence(rule: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BranchingError) as caught:
        branching_rule(rule, options)
    assert words in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 2
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    assert isinstance(caught.value, LookupError) == ("no branching rule" in words)
    assert isinstance(caught.value, UnknownBranchingRuleError) == ("no branching rule" in words)
