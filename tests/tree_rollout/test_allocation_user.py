from dataclasses import replace

import numpy as np
import pytest
from allocation_world import state, tree_of
from branching_trees import END, turn

from tree_rollout.allocation import Budget, Share, TaskState, allocation_rule, allocation_rules, register_allocation_rule, table
from tree_rollout.branching import Branch, Decision
from tree_rollout.errors import AllocationError, AllocationFunctionError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(table, "_TABLE", replace(table._TABLE, registered={}))


class HardestFirst:
    """All that is left goes to the task with the fewest solved rollouts."""

    decision = Decision.RETROSPECTIVE

    def __init__(self, pilots: int = 1) -> None:
        self.pilots = pilots

    def first(self, tasks, budget, rng):
        return [self.pilots for _ in tasks]

    def further(self, tasks, budget, left, rng):
        hardest = min(tasks, key=lambda known: known.solved)
        return [Share(left * (known is hardest), 0) for known in tasks]


def test_a_class_of_ones_own_is_a_rule() -> None:
    register_allocation_rule("hardest_first", HardestFirst)
    assert allocation_rules()[-1] == "hardest_first"
    rule = allocation_rule("hardest_first", {"pilots": 2})
    assert (rule.name, rule.decision, rule.across, rule.picks_turns) == ("hardest_first", Decision.RETROSPECTIVE, True, False)
    rule.check(Budget(1, 0))
    tasks = [state(0, [True, True]), state(1, [False, True])]
    assert rule.first(tasks, Budget(2, 2), RNG) == [2, 2]
    assert rule.further(tasks, Budget(2, 2), 4, RNG) == [Share(0, 0), Share(4, 0)]
    imported = allocation_rule("tree_rollout.allocation.dars:Dars", {"schedule": "hardness"})
    assert imported.name == "tree_rollout.allocation.dars:Dars" and not imported.picks_turns
    with pytest.raises(AllocationError, match="nothing left after 1 pilots"):
        imported.check(Budget(1, 0))
    with pytest.raises(AllocationError, match="has no option 'pilot'; did you mean pilots"):
        allocation_rule("hardest_first", {"pilot": 2})


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("dars", HardestFirst, "'dars' is registered already"),
        ("", HardestFirst, "can be called ''; give a word"),
        ("a:b", HardestFirst, "can be called 'a:b'"),
        ("five", 5, "'five' is of type int; give a class"),
    ],
)
def test_what_cannot_be_registered_is_refused(name: str, rule: type, words: str) -> None:
    with pytest.raises(AllocationError, match=words):
        register_allocation_rule(name, rule)


def test_a_class_that_lacks_something_is_refused_when_it_is_made() -> None:
    for lacking in ({}, {"first": HardestFirst.first, "further": HardestFirst.further}, {"decision": Decision.PROSPECTIVE}):
        name = f"lacking{len(lacking)}{'decision' in lacking}"
        register_allocation_rule(name, type("Lacking", (), lacking))
        with pytest.raises(AllocationError, match=f"'{name}' is a Lacking without `first`, `further` and a `decision`"):
            allocation_rule(name)


def asked(first: object = (1, 1), further: object = (Share(), Share()), picks: bool = False) -> None:
    """Ask a rule that gives these answers, or raises what is an exception, about two tasks with a budget of 2 + 2 and 3 left."""

    def give(answer: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    answers = {"first": lambda *_: give(first), "further": lambda *_: give(further), "decision": Decision.PROSPECTIVE, "picks_turns": picks}
    table._TABLE.registered.pop("given", None)
    register_allocation_rule("given", type("Given", (), answers))
    rule = allocation_rule("given")
    tree = tree_of(0, [True])
    tree.add(turn(-1, stop=END, snapshot=None))
    tasks = [TaskState(state(0).task, None, tree), state(1, [False])]
    rule.first(tasks, Budget(2, 2), RNG)
    rule.further(tasks, Budget(2, 2), 3, RNG)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"first": ValueError("no")}, "allocation rule given failed in `first` with ValueError: no"),
        ({"first": None}, "failed in `first` with TypeError"),
        ({"first": [1]}, "gave 1 answers of `first` for 2 tasks"),
        ({"first": [0, 1]}, "gave 0 first roots to .*; give an integer of at least 1"),
        ({"first": [1.0, 1]}, "gave 1.0 first roots"),
        ({"first": [True, 1]}, "gave True first roots"),
        ({"first": [3, 2]}, "gave 5 first roots where there are 4"),
        ({"further": [Share(2, 0), Share(2, 0)]}, "gave 4 further rollouts where 3 are left"),
        ({"further": [Share(-1, 0), Share()]}, r"gave Share\(roots=-1.* give a Share of roots and forks that are not negative"),
        ({"further": [1, 2]}, "gave 1 to .*; give a Share"),
        ({"further": [Share(0, 1, (Branch(0, 1.0),)), Share()]}, "gave 1 forks with 1 turns to .*; give no turns, or set `picks_turns`"),
        ({"further": [Share(0, 1), Share()], "picks": True}, "gave 1 forks with 0 turns to .*; give one turn for each fork"),
        (
            {"further": [Share(0, 1, (Branch(1, 1.0),)), Share()], "picks": True},
            "forks Branch.turn=1.* give a Branch of one of forkable_turns",
        ),
        ({"further": [Share(0, 1, (Branch(0, float("nan")),)), Share()], "picks": True}, "its score finite"),
    ],
)
def test_wrong_answers_are_errors_that_name_the_rule(wrong: dict, words: str) -> None:
    with pytest.raises(AllocationFunctionError, match=words):
        asked(**wrong)


def test_right_answers_pass() -> None:
    asked()
    asked(np.array([2, 2]), [Share(1, 1, (Branch(0, 0.5),)), (1, 0)], picks=True)
