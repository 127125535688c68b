import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from branching_trees import chain, rollouts, select
from sampler_world import grow

from tree_rollout.branching import (
    BRANCHING_RULES,
    Branch,
    Decision,
    branching_rule,
    branching_rules,
    forkable_turns,
    register_branching_rule,
    table,
)
from tree_rollout.errors import BranchingError, BranchingFunctionError, TreeRolloutError
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(table, "_TABLE", replace(table._TABLE, registered={}))


def deepest(grown: TrajectoryTree, budget: int, rng: np.random.Generator, least: int = 0) -> list[tuple[int, float]]:
    depth_N = depths(grown)
    turns = [index for index in forkable_turns(grown) if depth_N[index] >= least]
    return [(index, depth_N[index]) for index in sorted(turns, key=lambda index: -depth_N[index])][:budget]


@pytest.mark.usefixtures("own_table")
def test_a_function_of_ones_own_is_a_rule() -> None:
    register_branching_rule("deepest", deepest)
    grown = rollouts([[1.0] * 3, [1.0] * 2])
    assert select("deepest", grown, 2) == [Branch(2, 2.0), Branch(1, 1.0)]
    assert select("deepest", grown, 9, least=2) == [Branch(2, 2.0)]
    assert branching_rule("deepest").name == "deepest" and branching_rule("deepest").decision is Decision.RETROSPECTIVE
    assert branching_rules() == [*BRANCHING_RULES, "deepest"]
    sampled = grow([0], branching="deepest", branching_options={"least": 1}).trees[0]
    assert {turn.origin.rule for turn in sampled.turns if turn.origin} == {"", "deepest"}
    for wrong, words in (({"laest": 1}, "has no option 'laest'; did you mean least"), ({"budget": 1}, "has no option 'budget'")):
        with pytest.raises(BranchingError, match=words):
            branching_rule("deepest", wrong)
    with pytest.raises(BranchingError, match="'deapest'; did you mean deepest"):
        branching_rule("deapest")
    for name, rule, words in (
        ("deepest", deepest, "registered already"),
        ("arpo", deepest, "registered already"),
        ("a:b", deepest, "cannot be called 'a:b'"),
        ("five", 5, "is a int; give a function"),
    ):
        with pytest.raises(BranchingError, match=words):
            register_branching_rule(name, rule)  # pyright: ignore


@pytest.mark.usefixtures("own_table")
def test_a_function_may_give_numbers_of_numpy_and_take_any_option() -> None:
    def any_option(tree: TrajectoryTree, budget: int, rng: np.random.Generator, **options: float) -> list[tuple[Any, Any]]:
        return [(np.int64(1), np.float32(options["height"]))]

    register_branching_rule("any_option", any_option)
    (branch,) = select("any_option", chain([1.0, 1.0]), 2, height=0.5)
    assert branch == Branch(1, 0.5) and (type(branch.turn), type(branch.score)) == (int, float)


class Fixed:
    decision: ClassVar[Decision] = Decision.PROSPECTIVE

    def __init__(self, place: int) -> None:
        self.place = place

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        return [Branch(self.place, 1.0)] * budget


@pytest.mark.usefixtures("own_table")
def test_a_class_of_ones_own_is_a_rule_and_what_it_gives_is_checked() -> None:
    register_branching_rule("fixed", Fixed)  # pyright: ignore[reportArgumentType]
    assert select("fixed", chain([1.0, 1.0]), 2, place=1) == [Branch(1, 1.0)] * 2
    made = branching_rule("fixed", {"place": 5})
    assert made.decision is Decision.PROSPECTIVE
    with pytest.raises(BranchingFunctionError, match="branching rule fixed forks turn 5; give turns of forkable_turns"):
        made.select(chain([1.0]), 1, np.random.default_rng(0))
    with pytest.raises(BranchingError, match="do not fit: missing a required argument: 'place'"):
        branching_rule("fixed")
    register_branching_rule("empty", type("Empty", (), {}))
    with pytest.raises(BranchingError, match="'empty' is a class without `select` and a `decision`"):
        branching_rule("empty")


def test_a_function_is_found_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rulesoftests.py").write_text(
        "def first(tree, budget, rng, times=1):\n    return [(0, float(rng.random()))] * min(times, budget)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    grown = chain([1.0, 1.0])
    (branch,) = select("rulesoftests:first", grown, 3)
    assert branch == Branch(0, np.random.default_rng(0).random())
    assert len(select("rulesoftests:first", grown, 3, times=2)) == 2
    with pytest.raises(BranchingError, match="rulesoftests has no frist; did you mean first"):
        branching_rule("rulesoftests:frist")
    sampled = grow([0], branching="rulesoftests:first").trees[0]
    assert sum(turn.origin is not None and turn.origin.rule == "rulesoftests:first" for turn in sampled.turns) == 1


def raises(tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
    raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raises, "failed on a tree of 2 turns of test/World-v0, seed 0 with KeyError: 'nothing here'; correct the function"),
        (lambda tree, budget, rng: None, "with TypeError"),
        (lambda tree, budget, rng: [(0, 1.0)] * 3, "gave 3 forks for a budget of 2; give no more"),
        (lambda tree, budget, rng: [(2, 1.0)], "forks turn 2; give turns of forkable_turns(tree)"),
        (lambda tree, budget, rng: [(-1, 1.0)], "forks turn -1"),
        (lambda tree, budget, rng: [0], "gave 0; give (turn, score)"),
        (lambda tree, budget, rng: [(True, 1.0)], "gave (True, 1.0); give (turn, score)"),
        (lambda tree, budget, rng: [(0, float("nan"))], "gave turn 0 the score nan; give a finite number"),
        (lambda tree, budget, rng: [(0, "high")], "gave turn 0 the score 'high'"),
    ],
)
@pytest.mark.usefixtures("own_table")
def test_a_faulty_function_is_one_sentence(function: Any, words: str) -> None:
    register_branching_rule("faulty", function)
    with pytest.raises(BranchingFunctionError) as caught:
        select("faulty", chain([1.0, 1.0]), 2)
    assert words in str(caught.value) and "branching rule faulty" in str(caught.value) and "\n" not in str(caught.value)
    assert isinstance(caught.value, TreeRolloutError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
