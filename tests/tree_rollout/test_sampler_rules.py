"""The sampler does what allocation and stopping rules say: no more rollouts than the budget has, and every reason on record."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sampler_world import Maker, agent, engine, frozen, grow, settings, tasks

from tree_rollout.allocation import Share, register_allocation_rule
from tree_rollout.branching import Decision
from tree_rollout.errors import (
    AllocationError,
    BranchingError,
    SamplerError,
    StoppingError,
    UnknownAllocationError,
    UnknownStoppingRuleError,
)
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import Purpose
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping import RolloutView
from tree_rollout.stopping.length_limit import LengthLimit
from tree_rollout.task_history import TaskHistory
from tree_rollout.tree import TrajectoryTree

RULES = ["pilot_commit", "vigor", "dars"]
WORLD = {"end": 0.3}


def maker() -> Maker:
    return Maker(**WORLD)


def roots(tree: TrajectoryTree) -> int:
    return len([turn for turn in tree.turns if turn.origin is not None and turn.origin.kind == "root"])


# ---------------------------------------------------------------- how much


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_a_budget_is_shared_unevenly_and_never_exceeded(rule: str, schedule: str):
    by, known = engine(), TaskHistory()
    known.observe(grow(range(6), engine(), maker()).trees, 1)
    report = grow(range(12), by, maker(), history=known, allocation=rule, roots=4, forks=2, schedule=schedule)
    assert report.rollouts <= 12 * 6 and not by.sequences
    assert len({len(tree.leaves()) for tree in report.trees}) > 1
    further = [turn for tree in report.trees for turn in tree.turns if turn.origin and turn.origin.kind == "root" and turn.origin.rule]
    assert len(further) == report.spent[Purpose.FURTHER_ROOTS].rollouts
    assert all(turn.origin is not None and turn.origin.rule == rule for turn in further)
    again = grow(range(12), engine(), maker(), history=known, allocation=rule, roots=4, forks=2)
    assert [frozen(tree) for tree in again.trees] == [frozen(tree) for tree in report.trees]


def test_trace_places_its_forks_itself():
    report = grow(range(12), engine(), maker(), allocation="trace", branching="none", roots=3, forks=3)
    forks = [turn.origin for tree in report.trees for turn in tree.turns if turn.origin and turn.origin.kind == "branch"]
    assert len(forks) == report.branches > 0 and {origin.rule for origin in forks} == {"trace"}
    assert all(0 < origin.score < 1 for origin in forks)
    assert report.rollouts <= 12 * 6


def test_further_roots_start_in_the_first_state_and_stand_behind_the_first_ones():
    report = grow(range(12), engine(), maker(), allocation="pilot_commit", roots=6, forks=0, branching="none")
    assert report.spent[Purpose.FURTHER_ROOTS].rollouts > 0
    for tree in report.trees:
        first = tree.turns[0]
        starts = [tree.turns[index] for index in tree.children(-1)]
        assert {(turn.observation, turn.state) for turn in starts} == {(first.observation, first.state)}
        assert [bool(turn.origin and turn.origin.rule) for turn in starts] == sorted(
            bool(turn.origin and turn.origin.rule) for turn in starts
        )


def test_a_rule_of_ones_own_sees_the_finished_roots_and_the_records():
    seen: list[Any] = []

    class Generous:
        """Two more roots for the task that was solved most often before, nothing for the others."""

        decision = Decision.PROSPECTIVE

        def first(self, tasks: Any, budget: Any, rng: Any) -> list[int]:
            return [budget.roots] * len(tasks)

        def further(self, tasks: Any, budget: Any, left: int, rng: Any) -> list[Share]:
            seen.extend((state.task.seed, state.record is not None, len(state.tree.leaves())) for state in tasks)
            best = max(range(len(tasks)), key=lambda place: -1 if tasks[place].record is None else tasks[place].record.attempts)
            return [Share(2 if place == best else 0, 0) for place in range(len(tasks))]

    register_allocation_rule("generous", Generous)
    history = TaskHistory()
    history.observe([tree for tree in grow(range(3), engine(), maker()).trees if tree.seed == 1], 1)
    with Sampler(engine(), maker(), agent(), settings(roots=2, forks=2, allocation="generous")) as sampler:
        report = sampler.sample(tasks(range(3)), run_seed=0, history=history)
    assert seen == [(0, False, 2), (1, True, 2), (2, False, 2)]
    assert [roots(tree) for tree in report.trees] == [2, 4, 2]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"allocation": "vigour"}, UnknownAllocationError, "vigor"),
        ({"allocation": "trace"}, SamplerError, "picks the turns to fork itself"),
        ({"allocation_options": {"x": 1}}, AllocationError, "x"),
        ({"allocation": "pilot_commit", "roots": 1, "forks": 0, "branching": "none"}, AllocationError, "nothing left after 1 pilots"),
        ({"stopping": [("decide", {})]}, UnknownStoppingRuleError, "decided"),
        ({"stopping": [("decided", {"x": 1})]}, StoppingError, "x"),
        ({"schedule": "lock"}, SamplerError, "lockstep"),
        ({"env_processes": 1, "env_threads": 0}, SamplerError, "env_threads"),
        ({"max_live": 2}, SamplerError, "max_live is 2"),
        ({"rollout_deadline_s": 0.0}, SamplerError, "positive number of seconds"),
        ({"step_budget": 0}, SamplerError, "step_budget is 0"),
    ],
)
def test_what_cannot_take_effect_is_refused(changes: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        settings(**changes)


def test_trees_of_one_budget_cannot_be_paused():
    with Sampler(engine(), maker(), agent(), settings(allocation="vigor")) as sampler, pytest.raises(SamplerError, match="paused"):
        sampler.sample(tasks(range(4)), run_seed=0, finish=2)


# ---------------------------------------------------------------- ending early


@pytest.mark.parametrize(("outcome", "reason"), [("keep", StopReason.OVERLONG), ("mask", StopReason.OVERLONG_MASKED)])
def test_a_length_limit_ends_rollouts_that_would_go_on(outcome: str, reason: StopReason):
    report = grow(range(8), stopping=[("length_limit", {"turns": 2, "outcome": outcome})])
    free = grow(range(8))
    assert report.stop_reasons[reason] > 0 and not report.failures
    for tree in report.trees:
        for leaf in tree.leaves():
            turn = tree.turns[leaf]
            assert len(tree.path(leaf)) <= 2 and (turn.stop_reason is reason) == (not turn.terminated and not turn.truncated)
    assert report.env_steps < free.env_steps
    assert sum(report.stop_reasons.values()) == report.rollouts


def test_of_several_rules_the_first_gives_the_reason():
    both = [("length_limit", {"turns": 2}), ("length_limit", {"turns": 2, "outcome": "mask"})]
    assert grow(range(4), stopping=both).stop_reasons[StopReason.OVERLONG_MASKED] == 0
    assert grow(range(4), stopping=both[::-1]).stop_reasons[StopReason.OVERLONG] == 0


def test_a_decided_task_gets_no_forks():
    report = grow(range(12), engine(), Maker(end=0.05), roots=6, forks=3, stopping=[("decided", {"least": 4})])
    assert 0 < report.decided_trees <= 12
    unforked = [tree for tree in report.trees if all(turn.origin is None or turn.origin.kind == "root" for turn in tree.turns)]
    assert len(unforked) == report.decided_trees and report.unforked_trees == 0


def test_a_rule_is_asked_about_the_whole_path_and_all_others(monkeypatch: pytest.MonkeyPatch):
    """Also where a fork goes on from turns of its tree."""
    asked: list[tuple[RolloutView, list[RolloutView]]] = []
    real = LengthLimit.should_stop

    def listen(self: LengthLimit, path: RolloutView, others: list[RolloutView]) -> bool:
        asked.append((RolloutView(path.number, list(path.turns), path.over), list(others)))
        return real(self, path, others)

    monkeypatch.setattr(LengthLimit, "should_stop", listen)
    report = grow([3], engine(), Maker(end=0.0), roots=3, forks=4, stopping=[("length_limit", {"turns": 5})])
    numbers = {path.number for path, _ in asked}
    assert numbers >= {0, 1, 2, 3, 4, 5, 6}
    depths = [len(path.turns) for path, _ in asked if path.number == 0]
    assert depths == [1, 2, 3, 4, 5]
    fork = next(path for path, _ in asked if path.number >= 3 and path.start > 0)
    tree = report.trees[0]
    paths = [[id(tree.turns[index]) for index in tree.path(leaf)] for leaf in tree.leaves()]
    assert any([id(turn) for turn in fork.turns] == path[: len(fork.turns)] for path in paths)
    assert all(path.number not in [other.number for other in others] for path, others in asked)


def test_similar_siblings_are_pruned_and_leave_the_statistics():
    by = engine(stop_chance=1.0)  # Every turn says nothing, so all siblings are alike.
    report = grow(range(4), by, Maker(end=0.0), roots=3, forks=0, branching="none", stopping=[("similar_siblings", {})])
    pruned = report.stop_reasons[StopReason.PRUNED_SIMILAR]
    assert pruned > 0 and not report.failures
    assert all(any(tree.turns[leaf].stop_reason is not StopReason.PRUNED_SIMILAR for leaf in tree.leaves()) for tree in report.trees)


@pytest.mark.parametrize("rule", ["vigor", "trace"])
def test_a_budget_that_nothing_is_left_for_is_refused(rule: str):
    with pytest.raises(SamplerError, match="token_budget limits forks and further roots"):
        settings(token_budget=5, forks=0, branching="none", allocation=rule, roots=4)
    settings(token_budget=5, forks=0, branching="none", allocation="pilot_commit", roots=4)


@pytest.mark.parametrize("rule", ["topk_entropy", "arpo", "appo", "hybrid", "first_token"])
def test_a_rule_that_compares_entropies_refuses_an_engine_without_them(rule: str):
    by = engine()
    generate = by.generate
    by.generate = lambda requests: [
        replace(sample, entropies_T=np.full(len(sample.ids_T), np.nan, np.float32)) for sample in generate(requests)
    ]
    with pytest.raises(BranchingError, match="choose random, uniform_depth or signal_per_token"):
        grow(range(2), by, branching=rule)
    assert grow(range(2), by, branching="random").branches > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stopping": ["decided"]}, "give .rule, options. pairs"),
        ({"stopping": None}, "give .rule, options. pairs"),
        ({"stopping": [("decided", 3)]}, "give .rule, options. pairs"),
        ({"stopping": [("decided", {}), ("decided", {})]}, "named twice"),
        ({"allocation_options": [1]}, "give a mapping"),
        ({"branching_options": None}, "give a mapping"),
        ({"temperature": True}, "give a number"),
        ({"rollout_deadline_s": True}, "give a number"),
    ],
)
def test_values_of_another_kind_are_one_sentence(changes: dict[str, Any], message: str):
    with pytest.raises(SamplerError, match=message):
        settings(**changes)


@pytest.mark.parametrize(
    ("further", "message"),
    [
        (lambda tasks: [Share(0, 1, None) for _ in tasks], "give the turns as a tuple"),  # pyright: ignore
        (lambda tasks: tasks.clear() or [], "AttributeError"),
    ],
)
def test_a_rule_that_misbehaves_is_named(further: Any, message: str):
    class Misbehaves:
        decision = Decision.PROSPECTIVE

        def first(self, tasks: Any, budget: Any, rng: Any) -> list[int]:
            return [budget.roots] * len(tasks)

        def further(self, tasks: Any, budget: Any, left: int, rng: Any) -> Any:
            return further(tasks)

    name = f"misbehaves_{message[:4]}"
    register_allocation_rule(name, Misbehaves)
    with pytest.raises(AllocationError, match=f"{name}.*{message}"):
        grow(range(2), allocation=name)
