import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from words_world import config_of, run

from trainer.cli import main
from trainer.health import RULES, HealthWatch, examine
from trainer.health.flag import Stage
from trainer.health.page import health_page
from trainer.health.report import line, print_health
from trainer.metric_stream import MetricStream
from trainer.metrics import MetricsLog
from trainer.run_folder import RunFolder
from trainer.settings import find

ROOT = Path(__file__).parents[2]
NO_FAILURES = {"env_error": 0, "step_timeout": 0, "rollout_timeout": 0, "engine_error": 0}
SOUND: dict[str, Any] = {
    "entropy": 1.0,
    "train_success": 0.5,
    "turn_tokens_mean": 10.0,
    "invalid_share": 0.1,
    "rollouts": 100,
    "failures": NO_FAILURES,
    "trees": 20,
    "unanimous_trees": 8,
    "merge_rate": 0.4,
    "branch_gain": 0.3,
    "compared_branches": 40,
    "waiting": {"engine_idle_share": 0.3},
    "first_behaviour_kl": 1e-6,
    "first_max_ratio": 1.01,
    "loss_clipped_low": 0.02,
    "loss_clipped_high": 0.03,
    "loss_clipped_dual": 0.0,
    "loss_reference_kl": 0.02,
    "gradient_norm": 1.0,
}
"""An iteration of a run that nothing is wrong with."""
LENGTH = 12


def records(change: dict[str, Any], places: Sequence[int] = range(6, LENGTH)) -> list[dict[str, Any]]:
    """A sound run of twelve iterations, but for some of them, counted from 0."""
    return [{"iteration": place + 1, **SOUND, **(change if place in places else {})} for place in range(LENGTH)]


def flagged(change: dict[str, Any], places: Sequence[int] = range(6, LENGTH)) -> list[str]:
    return [flag.rule.name for flag in examine(records(change, places)).flags]


ALL = range(LENGTH)
ILL: list[tuple[str, dict[str, Any], Sequence[int]]] = [
    ("entropy_collapse", {"entropy": 0.1}, range(6, LENGTH)),
    ("length_growth", {"turn_tokens_mean": 25.0}, range(6, LENGTH)),
    ("invalid_rising", {"invalid_share": 0.3}, range(6, LENGTH)),
    ("failures_rising", {"failures": {**NO_FAILURES, "env_error": 3}}, range(6, LENGTH)),
    ("failures_rising", {"failures": {**NO_FAILURES, "env_error": 4, "engine_error": 2}}, ALL),
    ("unanimous_groups", {"unanimous_trees": 16}, ALL),
    ("unanimous_groups", {"unanimous_trees": 8, "kept_trees": 10}, ALL),
    ("singleton_states", {"merge_rate": 0.05}, ALL),
    ("forks_without_gain", {"branch_gain": 0.01}, ALL),
    ("idle_engines", {"waiting": {"engine_idle_share": 0.6}}, ALL),
    ("logprob_gap", {"first_behaviour_kl": 0.02}, ALL),
    ("logprob_gap", {"first_max_ratio": 12.0}, ALL),
    ("clip_share", {"loss_clipped_low": 0.2, "loss_clipped_dual": 0.15}, ALL),
    ("kl_blow_up", {"loss_reference_kl": 0.2}, [9]),
    ("kl_blow_up", {"loss_reference_kl": 1.5}, ALL),
    ("gradient_spikes", {"gradient_norm": 6.0}, [7]),
]
WELL: list[tuple[str, dict[str, Any], Sequence[int]]] = [
    ("entropy_collapse", {"entropy": 0.3}, range(6, LENGTH)),
    ("entropy_collapse", {"entropy": 0.1, "train_success": 0.95}, range(6, LENGTH)),
    ("entropy_collapse", {"entropy": 0.01}, ALL),
    ("length_growth", {"turn_tokens_mean": 19.0}, range(6, LENGTH)),
    ("length_growth", {"turn_tokens_mean": 25.0, "train_success": 0.7}, range(6, LENGTH)),
    ("invalid_rising", {"invalid_share": 0.19}, range(6, LENGTH)),
    ("invalid_rising", {"invalid_share": 0.6}, ALL),
    ("failures_rising", {"failures": {**NO_FAILURES, "env_error": 4}}, ALL),
    ("unanimous_groups", {"unanimous_trees": 15}, ALL),
    ("singleton_states", {"merge_rate": 0.11}, ALL),
    ("forks_without_gain", {"branch_gain": 0.01, "compared_branches": 3}, ALL),
    ("forks_without_gain", {"branch_gain": 0.06}, ALL),
    ("idle_engines", {"waiting": {"engine_idle_share": 0.45}}, ALL),
    ("logprob_gap", {"first_behaviour_kl": 0.009, "first_max_ratio": 9.0}, ALL),
    ("clip_share", {"loss_clipped_low": 0.2}, ALL),
    ("kl_blow_up", {"loss_reference_kl": 0.09}, [9]),
    ("kl_blow_up", {"loss_reference_kl": 0.9}, ALL),
    ("gradient_spikes", {"gradient_norm": 4.5}, [7]),
    ("gradient_spikes", {"gradient_norm": 60.0}, [2]),
]


@pytest.mark.parametrize(("name", "change", "places"), ILL)
def test_a_rule_flags_what_it_is_for_and_nothing_else_does(name: str, change: dict[str, Any], places: Sequence[int]) -> None:
    assert flagged(change, places) == [name]


@pytest.mark.parametrize(("name", "change", "places"), WELL)
def test_a_rule_leaves_a_sound_run_alone(name: str, change: dict[str, Any], places: Sequence[int]) -> None:
    assert name not in flagged(change, places)


def test_every_rule_is_tried_both_ways() -> None:
    names = {rule.name for rule in RULES}
    assert {name for name, *_ in ILL} == {name for name, *_ in WELL} == names
    assert flagged({}) == []


def test_rules_stand_in_the_order_of_the_stages() -> None:
    order = list(Stage)
    stages = [order.index(rule.stage) for rule in RULES]
    assert stages == sorted(stages) and set(stages) == set(range(4))


def test_a_rule_names_what_exists() -> None:
    for rule in RULES:
        path = ROOT / rule.module
        assert path.is_dir() if rule.module.endswith("/") else path.is_file()
        named = re.findall(r"\b(?:optimizer|loss|rollout|reward|credit|warmstart|env)\.\w+(?:\.\w+)*", rule.advice)
        assert named or "engine" in rule.advice
        for name in named:
            assert find(name) is not None, name


def test_a_run_too_short_or_of_an_older_version_has_no_flags() -> None:
    assert examine(records({"merge_rate": 0.0}, ALL)[:4]).flags == []
    assert examine([{"iteration": number} for number in range(1, 20)]).flags == []
    assert examine([]).flags == []


def test_a_flag_says_when() -> None:
    watch = HealthWatch()
    new = [[flag.rule.name for flag in watch.append(record)] for record in records({"gradient_norm": 6.0}, [6, 8])]
    assert new == [[]] * 6 + [["gradient_spikes"]] + [[]] * 5
    (flag,) = watch.flags
    assert (flag.first, flag.last, flag.count, flag.now, flag.present) == (7, 9, 2, 12, True)
    assert flag.seen == "the gradient's norm is 6, 1 before"
    assert line(flag).startswith("iteration 9: gradient_spikes: the gradient's norm is 6, 1 before; try ")
    for number in range(13, 20):
        watch.append({"iteration": number, **SOUND})
    assert not watch.flags[0].present


def folder_of(path: Path, found: Sequence[dict[str, Any]]) -> RunFolder:
    folder = RunFolder(path)
    folder.prepare(config_of(path), resume=False)
    with MetricsLog(folder.metrics, fsync=False) as log:
        for record in found:
            log.append(record)
    return folder


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        ([], 0, "no iteration is recorded yet"),
        (records({}), 0, "iterations 1 to 12: healthy"),
        (records({"entropy": 0.1}), 1, "1 flag, 1 of them in the last iterations"),
        (records({"gradient_norm": 6.0}, [6]) , 0, "1 flag, 0 of them in the last iterations"),
    ],
)  # fmt: skip
def test_the_verb_prints_and_says_by_its_code(
    found: list[dict[str, Any]], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path / "run", found)
    assert main(["health", str(folder.path)]) == code
    assert words in capsys.readouterr().out


def test_the_table_holds_what_and_when_and_why() -> None:
    text = io.StringIO()
    print_health(examine(records({"entropy": 0.1, "merge_rate": 0.0})), Console(file=text, width=200))
    said = text.getvalue()
    for words in (
        "generate",
        "entropy_collapse",
        "iterations 11 to 12",
        "entropy 0.1 nats a token, 1 at the start",
        "look at trainer/loss.py",
    ):
        assert words in said
    assert said.index("entropy_collapse") < said.index("singleton_states")


def test_the_page_loads_nothing_escapes_all_and_is_well_formed(tmp_path: Path) -> None:
    path = tmp_path / "<b>&run"
    folder = folder_of(path, records({"entropy": 0.1, "waiting": {"engine_idle_share": 0.6}}))
    page = tmp_path / "page.html"
    assert main(["health", str(folder.path), "--html", str(page)]) == 1
    text = page.read_text()
    assert "<b>&run" not in text and "&lt;b&gt;&amp;run" in text
    assert not re.search(r"https?:|<script|<link|@import|url\(|src=", text)
    assert "prefers-color-scheme: dark" in text
    body = ElementTree.fromstring(text[text.index("<body>") : text.index("</html>")])
    assert [heading.text for heading in body.iter("h2")] == ["generate", "control", "all figures"]
    curves = {figure.findtext("figcaption", "").partition(":")[0]: figure for figure in body.iter("figure")}
    assert {"entropy", "waiting/engine_idle_share", "gradient_norm"} <= curves.keys()
    points = curves["entropy"].find("svg/polyline")
    assert points is not None and len(points.attrib["points"].split()) == LENGTH


def test_a_page_of_nothing_is_a_page() -> None:
    assert "no iteration yet" in health_page(examine([]), "x")
    assert "healthy" in health_page(examine(records({})[:1]), "x")


def test_a_flag_is_said_once_while_the_run_trains_and_not_again_when_it_goes_on(tmp_path: Path) -> None:
    config, found = config_of(tmp_path / "run"), records({"gradient_norm": 6.0}, [6, 8, 10])
    folder = RunFolder(tmp_path / "run")
    told = []
    for part in (found[:8], found[8:]):
        said: list[str] = []
        with MetricsLog(folder.metrics) as log, MetricStream.opened(config, folder, log, said.append) as stream:
            for record in part:
                stream.append(record)
        told.append([text.split(";")[0] for text in said])
    assert told == [["iteration 7: gradient_spikes: the gradient's norm is 6, 1 before"], []]


def test_flags_stand_in_the_result(finished: RunFolder) -> None:
    assert json.loads(finished.result.read_text())["health"] == []


@pytest.mark.usefixtures("no_curves")
def test_a_flagged_run_says_so_in_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(series: Any, place: int) -> str:
        return "all is lost"

    rule = RULES[0]
    monkeypatch.setattr("trainer.health.watch.RULES", (type(rule)("lost", rule.stage, always, (), "", rule.module, "hope"),))
    folder = run(tmp_path / "run")
    (flag,) = json.loads(folder.result.read_text())["health"]
    assert flag == {
        "name": "lost", "stage": "generate", "seen": "all is lost", "first": 1, "last": 2, "iterations": 2, "present": True,
        "module": rule.module, "try": "hope",
    }  # fmt: skip
