"""Stopping rules at work in the sampler."""

from typing import Any

import pytest
from sampler_world import frozen, grow

from tree_rollout.sampler_report import SamplerReport
from tree_rollout.stop_reason import StopReason

RULES: dict[str, tuple[dict[str, Any], StopReason | None]] = {
    "length_limit": ({"tokens": 6, "outcome": "mask"}, StopReason.OVERLONG_MASKED),
    "similar_siblings": ({"window": 1, "distance": 1}, StopReason.PRUNED_SIMILAR),
    "low_confidence": ({"window": 1, "share": 0.95, "least_others": 1}, StopReason.PRUNED_UNSURE),
    "decided": ({"least": 1, "doubt": 0.4}, None),
}
"""Options with which each rule stops something of what the random engine samples."""


def sampled(seeds: list[int], *stopping: tuple[str, dict[str, Any]]) -> SamplerReport:
    return grow(seeds, branching="random", forks=3, stopping=stopping)


@pytest.mark.parametrize("rule", RULES)
def test_trees_do_not_depend_on_what_is_sampled_beside_them_and_record_the_reason(rule: str) -> None:
    options, reason = RULES[rule]
    report = sampled(list(range(6)), (rule, options))
    apart = [tree for seeds in ([4, 1], [0, 2, 5], [3]) for tree in sampled(seeds, (rule, options)).trees]
    assert {tree.seed: frozen(tree) for tree in report.trees} == {tree.seed: frozen(tree) for tree in apart}
    plain = sampled(list(range(6)))
    assert report.sampled_tokens < plain.sampled_tokens and not report.failures
    leaves = [tree.turns[leaf] for tree in report.trees for leaf in tree.leaves()]
    unjudged = {leaf.stop_reason for leaf in leaves if leaf.stop_reason is not None and leaf.stop_reason.unjudged}
    assert unjudged == ({reason} if reason else set())


def test_the_first_rule_that_stops_a_rollout_gives_the_reason() -> None:
    mask, keep = ("length_limit", {"turns": 2, "outcome": "mask"}), ("length_limit", {"turns": 2})
    for rules, reason in (((mask, keep), StopReason.OVERLONG_MASKED), ((keep, mask), StopReason.OVERLONG)):
        report = sampled([0, 1, 2], *rules)
        reasons = {tree.turns[leaf].stop_reason for tree in report.trees for leaf in tree.leaves()}
        assert reason in reasons and reasons <= {reason, StopReason.TERMINATED}


def test_what_ended_by_itself_is_not_recorded_as_stopped() -> None:
    """The world ends all rollouts after six turns, so a limit of six stops none."""
    at, within = (sampled([0, 1, 2], ("length_limit", {"turns": turns})) for turns in (6, 5))
    assert at.stop_reasons[StopReason.OVERLONG] == 0 < at.stop_reasons[StopReason.TRUNCATED]
    assert within.stop_reasons[StopReason.TRUNCATED] == 0 < within.stop_reasons[StopReason.OVERLONG]


def test_a_decided_tree_gets_nothing_more() -> None:
    report = sampled([0, 1, 2, 3], ("decided", {"least": 1, "doubt": 0.4}))
    plain = sampled([0, 1, 2, 3])
    assert report.decided_trees > 0 and report.branches < plain.branches
    roots = [tree for tree in report.trees if all(turn.origin is None or turn.origin.kind == "root" for turn in tree.turns)]
    assert len(roots) >= report.decided_trees
