"""The figures of the guide are those of the committed results."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "which-estimator.md").read_text()
DETAILS = json.loads((ROOT / "benchmarks" / "results" / "credit_truth.json").read_text())["details"]
SEVEN = ("random_w4", "random_w30", "random_w200", "random_long", "first_w4", "first_w200", "middle_w30")
MISLEADING = tuple(name for name in DETAILS["processes"] if "_merge" in name)


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the table that starts with this heading, by their first cell."""
    table = GUIDE[GUIDE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
    return {first.replace("`", ""): others for first, *others in cells}


def shown(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def value(figures: dict[str, Any], name: str, column: str) -> float:
    return figures[name][column][0]


@pytest.mark.parametrize("name", rows("| estimator, rollouts |"))
def test_the_first_table(name: str) -> None:
    table, ratios = DETAILS["tabular"], DETAILS["tabular"]["cos2_ratio"]
    expected = [
        value(ratios, name, "mean of seven"),
        min(value(ratios, name, process) for process in SEVEN),
        value(ratios, name, "mean of misleading"),
        min(value(ratios, name, process) for process in MISLEADING),
        value(ratios, name, "mean of others"),
        value(table["cosine_of_mean_gradient"], name, "mean of seven"),
        value(table["ppo_gain"], name, "mean of seven"),
    ]
    assert rows("| estimator, rollouts |")[name] == [shown(number) for number in expected]


@pytest.mark.parametrize("name", rows("| ratio, trees |"))
def test_the_table_of_effects(name: str) -> None:
    effects = DETAILS["effects"]
    cells = [("turns", "turns 5"), ("turns", "turns 10"), ("turns", "turns 25"), ("width", "width 4"), ("width", "width 30")]
    cells += [("width", "width 300"), ("rollouts", "rollouts 4"), ("rollouts", "rollouts 32"), ("noise", "noise 1.0")]
    assert rows("| ratio, trees |")[name] == [shown(effects[effect][place][f"{name}, trees"][0]) for effect, place in cells]


def test_the_table_of_demands() -> None:
    ratios, effects = DETAILS["tabular"]["cos2_ratio"], DETAILS["effects"]["turns"]["turns 5"]
    entrants = ("tree_graph, trees", "tree_graph, flat", "tree_graph, alone, trees", "tree_graph, alone, flat")

    def row(number) -> list[str]:
        return [shown(number(name)) for name in entrants]

    table = {first: cells[1:] for first, cells in rows("| | asked |").items()}
    least = row(lambda name: min(value(ratios, name, process) for process in SEVEN))
    for place, name in enumerate(entrants[:2]):
        least[place] += f"; {shown(effects[name][0])} at 5 turns"
    assert table["never below, exact signatures"] == least
    assert table["never below, misleading"] == row(lambda name: min(value(ratios, name, process) for process in MISLEADING))
    assert table["merges common"] == row(lambda name: value(ratios, name, "random_w4"))
    assert table["25 turns"] == row(lambda name: value(ratios, name, "random_long"))
    assert table["mean over the seven"] == row(lambda name: value(ratios, name, "mean of seven"))


def test_rules_and_policies() -> None:
    rules, policies = DETAILS["rules"]["cos2_ratio"], DETAILS["policies"]
    text = " ".join(GUIDE.split())
    for figure in ("random", "entropy"):
        for method in ("tree_graph", "dr_grpo"):
            assert shown(rules[method][figure]["mean of seven"][0]).lstrip("0") in text
    for rule in ("topk_entropy", "failed", "least_likely"):
        assert f"`{rule}` {shown(rules['tree_graph'][rule]['mean of seven'][0])}" in text
    for method in ("tree_graph", "mt_grpo", "graft_graph", "gigpo"):
        both = [shown(policies[policy]["cos2_ratio"][f"{method}, trees"]["mean"][0]) for policy in ("shared", "history")]
        assert re.search(rf"`{method}` {re.escape(both[0])} (?:and|on) ?{re.escape(both[1])}|`{method}` {both[0]} and {both[1]}", text)


def test_intervals() -> None:
    coverage = DETAILS["coverage"]
    mean = {layout: sum(value[0] for value in by.values()) / len(by) for layout, by in coverage.items()}
    percent = [
        round(100 * number) for number in (mean["trees"], mean["flat"], coverage["trees"]["stopping"][0], coverage["flat"]["stopping"][0])
    ]
    said = re.search(
        r"of (\d+) % of the turns \((\d+) % flat\); where the policy can stop, of (\d+) % \((\d+) %\)", " ".join(GUIDE.split())
    )
    assert said is not None and list(map(int, said.groups())) == percent
