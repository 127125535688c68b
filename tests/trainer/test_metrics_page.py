"""The documentation's tables of metrics and of health rules name all there are, and nothing else."""

import re
from pathlib import Path

from trainer.health import RULES
from trainer.metric_sinks.flatten import flatten
from trainer.metrics import read_metrics
from trainer.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
NOT_IN_A_PLAIN_RUN = {
    "drawn_trees", "kept_trees", "dropped_solved", "dropped_unsolved", "dropped_small", "refill_cap_reached",
    "reward_kl", "carried_trees", "dropped_trees", "begun_again_trees", "waited_s", "trees_per_s",
    "tree_seconds_median", "tree_seconds_p95", "tree_seconds_max",
}  # fmt: skip


def told() -> list[str]:
    """Patterns of the names in the table of metrics; a word in capitals stands for any word."""
    table = PAGE[PAGE.index("## What is recorded") : PAGE.index("Branch gain compares")]
    return [name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w/]+)`", row)]


def pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"[A-Z]+", r"\\w+", name))


def test_every_metric_of_a_run_is_told_and_nothing_else(finished: RunFolder) -> None:
    names = {name for record in read_metrics(finished.metrics) for name in flatten(record)}
    patterns = [pattern(name) for name in told()]
    assert [name for name in sorted(names) if not any(known.fullmatch(name) for known in patterns)] == []
    unseen = [name for name in told() if not any(pattern(name).fullmatch(known) for known in names)]
    assert set(unseen) <= NOT_IN_A_PLAIN_RUN | {"predictor_NAME", "credit_NAME", "critic_NAME"}


def test_every_figure_of_a_rule_is_told() -> None:
    patterns = [pattern(name) for name in told()]
    assert all(any(known.fullmatch(name) for known in patterns) for rule in RULES for name in rule.figures)


def test_the_table_of_rules_is_complete_and_in_order() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \|", PAGE[PAGE.index("## Health") :], re.MULTILINE)
    assert rows == [(str(rule.stage), rule.name) for rule in RULES]
