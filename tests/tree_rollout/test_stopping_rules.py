import pickle
import re
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from branching_trees import END, tree, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from stopping_views import random_views, says, sure, view

from tree_rollout.branching import Decision
from tree_rollout.errors import StoppingError, StoppingFunctionError, TreeRolloutError, UnknownStoppingRuleError
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping import (
    STOPPING_RULES,
    RolloutView,
    StopsRollouts,
    register_stopping_rule,
    standing,
    stopping_rule,
    stopping_rules,
    table,
)
from tree_rollout.tree import TrajectoryTree

STRICT: dict[str, dict[str, Any]] = {
    "similar_siblings": {"window": 2, "distance": 0.6},
    "low_confidence": {"window": 1, "share": 0.9, "least_others": 1},
    "decided": {},
    "length_limit": {"tokens": 5},
}
"""Options with which random rollouts are stopped now and then."""


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(table, "_TABLE", replace(table._TABLE, registered={}))


# ---------------------------------------------------------------------- what holds for all


@pytest.mark.parametrize("rule", STOPPING_RULES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_an_answer_depends_on_the_rollouts_and_not_on_their_order(rule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    views = random_views(rng)
    made = stopping_rule(rule, STRICT[rule])
    for path in (one for one in views if not one.over):
        others = [other for other in views if other is not path]
        answer = made.should_stop(path, others)
        assert answer is made.should_stop(path, [others[place] for place in rng.permutation(len(others))])
        assert answer is made.should_stop(path, standing(others)), "those that do not count change nothing"


@pytest.mark.parametrize("rule", [name for name in STOPPING_RULES if name != "decided"])
def test_random_rollouts_are_stopped_now_and_then(rule: str) -> None:
    """Otherwise the test above would tell nothing."""
    made = stopping_rule(rule, STRICT[rule])
    answers = []
    for seed in range(150):
        views = random_views(np.random.default_rng(seed))
        answers += [made.should_stop(path, [other for other in views if other is not path]) for path in views if not path.over]
    assert 10 < sum(answers) < len(answers) - 10


@pytest.mark.parametrize("rule", STOPPING_RULES)
def test_a_rule_stops_rollouts_or_trees_and_has_a_reason_exactly_if_it_stops_rollouts(rule: str) -> None:
    made = stopping_rule(rule, STRICT[rule])
    solved = tree(*[turn(-1, stop=END, solved=True) for _ in range(9)])
    assert (made.reason is None) == made.enough(solved) == (rule == "decided")
    assert made.reason is None or made.reason.unjudged or made.reason is StopReason.OVERLONG
    assert not made.enough(TrajectoryTree("test/World-v0", 0))


def test_what_stands_is_live_or_has_an_outcome_and_comes_by_number() -> None:
    views = [sure(number, [0.5], reason) for number, reason in enumerate([None, *StopReason])]
    kept = standing(views[::-1])
    assert [one.number for one in kept] == [0, *(number for number, reason in enumerate(StopReason, start=1) if reason.counts)]


# ---------------------------------------------------------------------- reasons


def test_every_reason_counts_failed_or_is_unjudged() -> None:
    """The environment's faults come first, the rules' reasons last; each rollout is one of three things."""
    assert [reason.value for reason in StopReason if reason.failed] == ["env_error", "step_timeout", "rollout_timeout", "engine_error"]
    assert [reason.value for reason in StopReason if reason.unjudged] == ["overlong_masked", "pruned_similar", "pruned_unsure", "pruned"]
    assert [reason.value for reason in StopReason if reason.counts] == ["context_length", "terminated", "truncated", "overlong"]
    assert all(reason.failed + reason.unjudged + reason.counts == 1 for reason in StopReason)


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("rule", "options", "words"),
    [
        ("similar_siblings", {"window": 0}, "window is 0; give an integer of at least 1, such as 3"),
        ("similar_siblings", {"distance": 0}, "distance is 0; give a number from 0.001 to 1, such as 0.2"),
        ("similar_siblings", {"distance": 1.1}, "distance is 1.1"),
        ("similar_siblings", {"by": "words"}, "by is 'words'; give tokens or actions"),
        ("low_confidence", {"window": True}, "window is True; give an integer of at least 1, such as 4"),
        ("low_confidence", {"share": 1}, "share is 1; give a number from 0.001 to 0.999, such as 0.5"),
        ("low_confidence", {"least_others": 0}, "least_others is 0"),
        ("decided", {"doubt": 0}, "doubt is 0; give a number from 0.000001 to 0.499, such as 0.05"),
        ("decided", {"doubt": 0.5}, "doubt is 0.5"),
        ("decided", {"least": 1.5}, "least is 1.5; give an integer of at least 1, such as 4"),
        ("length_limit", {}, "has no limit; give turns, tokens or context, for example tokens: 20480"),
        ("length_limit", {"outcome": "mask"}, "has no limit"),
        ("length_limit", {"turns": 0}, "turns is 0; give an integer of at least 1, such as 30"),
        ("length_limit", {"tokens": 2.0}, "tokens is 2.0; give an integer of at least 1, such as 20480"),
        ("length_limit", {"context": "all"}, "context is 'all'; give an integer of at least 1, such as 32768"),
        ("length_limit", {"turns": 3, "outcome": "drop"}, "outcome is 'drop'; give keep or mask"),
        ("length_limit", {"turn": 3}, "the stopping rule 'length_limit' has no option 'turn'; did you mean turns"),
        ("decided", {"share": 3}, "the stopping rule 'decided' has no option 'share'"),
        ("similar_sibling", {}, "no stopping rule is called 'similar_sibling'; did you mean similar_siblings"),
        (5, {}, "no stopping rule is called 5"),
        ("nowhere_at_all:rule", {}, "nowhere_at_all:rule: No module named 'nowhere_at_all'; install it"),
        ("math:pi", {}, "math:pi is a float, not a function"),
    ],
)
def test_what_does_not_fit_is_one_sentence(rule: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(StoppingError) as caught:
        stopping_rule(rule, options)
    assert words in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 2
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    assert isinstance(caught.value, UnknownStoppingRuleError) == isinstance(caught.value, LookupError) == ("no stopping rule" in words)


@pytest.mark.parametrize("rule", STOPPING_RULES)
def test_the_documentation_says_of_every_rule_what_it_takes(rule: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "stopping.md").read_text()
    row = re.search(rf"^\| `{rule}` \|[^|]*\|[^|]*\|([^|]*)\|([^|]*)\|", page, re.MULTILINE)
    assert row is not None
    retrospective = stopping_rule(rule, STRICT[rule]).decision is Decision.RETROSPECTIVE
    assert row[1].strip().startswith("yes" if retrospective else "no")
    told = dict(re.findall(r"`(\w+)` \(([^)]+)\)", row[2]))
    known = {field.name: "none" if field.default is None else str(field.default) for field in fields(STOPPING_RULES[rule])}
    assert told == known and MISSING not in [field.default for field in fields(STOPPING_RULES[rule])]


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason.unjudged or reason is StopReason.OVERLONG])
def test_the_documentation_names_every_reason(reason: StopReason) -> None:
    page = (Path(__file__).parents[2] / "docs" / "stopping.md").read_text()
    row = re.search(rf"^\| `{reason}` \|[^|]*\|([^|]*)\|", page, re.MULTILINE)
    assert row is not None and row[1].strip().startswith("yes" if reason.counts else "no")


# ---------------------------------------------------------------------- rules of one's own


def says_stop(path: RolloutView, others: list[RolloutView], word: str = "stop") -> bool:
    return path.turns[-1].action == word


@pytest.mark.usefixtures("own_table")
def test_a_function_of_ones_own_is_a_rule() -> None:
    register_stopping_rule("says_stop", says_stop)
    made = stopping_rule("says_stop", {"word": "end"})
    assert [made.should_stop(view(0, says(word)), []) for word in ("stop", "end")] == [False, True]
    assert (made.name, made.decision, made.reason) == ("says_stop", Decision.RETROSPECTIVE, StopReason.PRUNED)
    assert not made.enough(tree())
    assert stopping_rules() == [*STOPPING_RULES, "says_stop"]
    for wrong, words in (({"wrod": "end"}, "has no option 'wrod'; did you mean word"), ({"others": 1}, "has no option 'others'")):
        with pytest.raises(StoppingError, match=words):
            stopping_rule("says_stop", wrong)
    with pytest.raises(StoppingError, match="'say_stop'; did you mean says_stop"):
        stopping_rule("say_stop")
    register_stopping_rule("narrow", lambda path: True)
    with pytest.raises(StoppingError, match="the options of the stopping rule 'narrow' do not fit: too many positional arguments"):
        stopping_rule("narrow")
    for name, rule, words in (
        ("says_stop", says_stop, "registered already"),
        ("decided", says_stop, "registered already"),
        ("a:b", says_stop, "cannot be called 'a:b'"),
        ("five", 5, "is a int; give a function"),
    ):
        with pytest.raises(StoppingError, match=words):
            register_stopping_rule(name, rule)  # pyright: ignore


@pytest.mark.usefixtures("own_table")
def test_a_function_sees_the_others_that_stand_by_number() -> None:
    seen: list[list[int]] = []
    register_stopping_rule("look", lambda path, others: bool(seen.append([other.number for other in others])))
    others = [sure(3, [0.5]), sure(2, [0.5], StopReason.PRUNED), sure(1, [0.5], END), sure(4, [0.5], StopReason.ENV_ERROR)]
    assert stopping_rule("look").should_stop(sure(0, [0.5]), others) is False
    assert seen == [[1, 3]]


def test_a_function_is_found_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stopsoftests.py").write_text("def long(path, others, turns=3):\n    return len(path.turns) >= turns\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = sure(0, [0.5] * 3)
    assert stopping_rule("stopsoftests:long").should_stop(path, [])
    assert not stopping_rule("stopsoftests:long", {"turns": 4}).should_stop(path, [])
    with pytest.raises(StoppingError, match="stopsoftests has no lnog; did you mean long"):
        stopping_rule("stopsoftests:lnog")


class Small(StopsRollouts):
    """At most so many turns in a tree."""

    decision: ClassVar[Decision] = Decision.PROSPECTIVE

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def enough(self, tree: TrajectoryTree) -> bool:
        return len(tree.turns) >= self.turns


class Silent(StopsRollouts):
    decision: ClassVar[Decision] = Decision.PROSPECTIVE
    reason: ClassVar[StopReason] = StopReason.OVERLONG

    def should_stop(self, path: RolloutView, others: list[RolloutView]) -> bool:
        return not path.turns[-1].action


@pytest.mark.usefixtures("own_table")
def test_a_class_of_ones_own_is_a_rule() -> None:
    register_stopping_rule("small", Small)
    made = stopping_rule("small", {"turns": 2})
    assert [made.enough(tree(*[turn(-1, stop=END)] * count)) for count in (1, 2)] == [False, True]
    assert (made.decision, made.reason, made.should_stop(sure(0, [0.5]), [])) == (Decision.PROSPECTIVE, None, False)
    register_stopping_rule("silent", Silent)
    made = stopping_rule("silent")
    assert [made.should_stop(view(0, says(word, [1])), []) for word in ("", "a")] == [True, False]
    assert (made.reason, made.enough(tree())) == (StopReason.OVERLONG, False)
    with pytest.raises(StoppingError, match="do not fit: missing a required argument: 'turns'"):
        stopping_rule("small")
    for number, members in enumerate(({}, {"decision": Decision.PROSPECTIVE}, {"should_stop": says_stop, "decision": "prospective"})):
        register_stopping_rule(f"empty{number}", type("Empty", (), members))
        with pytest.raises(StoppingError, match="is a class without a `decision`"):
            stopping_rule(f"empty{number}")
    for number, reason in enumerate((StopReason.TERMINATED, StopReason.ENV_ERROR, None, "pruned")):
        register_stopping_rule(f"wrong{number}", type("Wrong", (Silent,), {"reason": reason}))
        with pytest.raises(StoppingError, match="give one of StopReason: overlong, overlong_masked, pruned_similar, pruned_unsure, pruned"):
            stopping_rule(f"wrong{number}")


def raises(path: RolloutView, others: list[RolloutView]) -> bool:
    raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raises, "failed on rollout 7 after 2 turns with KeyError: 'nothing here'; correct the function"),
        (lambda path, others: len(path), "with TypeError"),
        (lambda path, others: None, "answered None on rollout 7 after 2 turns; give True to stop or False to go on"),
        (lambda path, others: 1, "answered 1 on rollout 7"),
        (lambda path, others: exit(3), "with SystemExit: 3"),
    ],
)
@pytest.mark.usefixtures("own_table")
def test_a_faulty_function_is_one_sentence(function: Any, words: str) -> None:
    register_stopping_rule("faulty", function)
    with pytest.raises(StoppingFunctionError) as caught:
        stopping_rule("faulty").should_stop(sure(7, [0.5, 0.5]), [])
    assert words in str(caught.value) and "stopping rule faulty" in str(caught.value) and "\n" not in str(caught.value)
    assert isinstance(caught.value, TreeRolloutError) and caught.value.exit_code == 2
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.usefixtures("own_table")
def test_a_faulty_class_names_the_tree() -> None:
    class Broken(Small):
        def enough(self, tree: TrajectoryTree) -> bool:
            return bool(1 / 0)

    register_stopping_rule("broken", Broken)
    with pytest.raises(StoppingFunctionError, match=r"broken failed on a tree of 1 turns of test/World-v0, seed 0 with ZeroDivisionError"):
        stopping_rule("broken", {"turns": 1}).enough(tree(turn(-1, stop=END)))


@pytest.mark.usefixtures("own_table")
def test_numpys_truth_is_truth() -> None:
    register_stopping_rule("numpy", lambda path, others: np.bool_(True))
    assert stopping_rule("numpy").should_stop(sure(0, [0.5]), []) is True
