import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from words_world import contents

import envs
from trainer.cli import main
from trainer.load_config import load_config
from trainer.run_folder import RunFolder
from trainer.signature_choice import chosen_signature
from tree_rollout.signatures import Window
from tree_rollout.stepping import step
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

Chooser = Callable[[envs.TextEnv, int], str]


def expert(env: envs.TextEnv, turn: int) -> str:
    return env.expert_action()


def idle(env: envs.TextEnv, turn: int) -> str:
    return "inventory"


def detour(env: envs.TextEnv, turn: int) -> str:
    return "inventory" if turn == 0 else "look" if turn == 1 else env.expert_action()


def chain(env: envs.TextEnv, seed: int, parent: int, past: Sequence[Turn], choose: Chooser, origin: Origin) -> list[Turn]:
    """The turns of one rollout that goes on after `past`."""
    observation, _ = env.reset(seed=seed)
    for turn in past:
        observation = env.step(turn.action)[0]
    turns: list[Turn] = []
    while not turns or turns[-1].stop_reason is None:
        state, action = env.state_signature(), choose(env, len(past) + len(turns))
        answer = step(env, action)
        reason = StopReason.TERMINATED if answer.terminated else StopReason.TRUNCATED if answer.truncated else None
        nothing = np.zeros(0)
        turns.append(
            Turn(
                parent + len(turns) if turns else parent, observation, action, nothing.astype(np.int32), nothing.astype(bool),
                nothing.astype(np.float32), nothing.astype(np.float32), 0, answer.reward, answer.terminated, answer.truncated, answer.valid,
                state, answer.state, answer.success, reason, None if turns else origin,
            )
        )  # fmt: skip
        observation = answer.observation
    return turns


def household_tree(seed: int, *choosers: Chooser) -> TrajectoryTree:
    tree = TrajectoryTree("branchwise/Household-v0", seed, {"split": "train", "max_turns": 12})
    env = envs.make(tree.env_id, **tree.env_kwargs)
    for choose in choosers:
        parent = -1
        for turn in chain(env, seed, -1, [], choose, Origin("root")):
            turn.parent = parent
            parent = tree.add(turn)
    return tree


def recorded(path: Path, trees: Sequence[TrajectoryTree], **settings: str) -> RunFolder:
    folder = RunFolder(path)
    path.mkdir(parents=True)
    folder.config.write_text(
        load_config("household", None, {f"credit.{name}": value for name, value in settings.items()}).model_dump_json()
    )
    with Trace.create(folder.trace, {}) as trace:
        trace.append(trees, 1)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Two tasks; in each the expert solves it, another idles, and a third idles for two turns and then follows the expert."""
    return recorded(tmp_path / "run", [household_tree(seed, expert, idle, detour) for seed in (7, 8)])


def report_of(folder: RunFolder | Path, *words: str) -> dict[str, Any]:
    path = folder.path if isinstance(folder, RunFolder) else folder
    out = path.parent / "report.json"
    assert main(["signatures", str(path), "--out", str(out), *words]) == 0
    return json.loads(out.read_text())


def test_the_report_of_a_run(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(folder.path)
    assert main(["signatures", str(folder.path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 trees of 2 tasks, 6 rollouts\nsignature env: ")
    assert "0 of " in text and "states stood for more than one exact state" in text
    table = text.partition("signatures on the same trees")[2].partition("\nmerged: ")[0]
    rows = [line.split()[0] for line in table.splitlines() if " % " in line]
    assert rows == ["env", "observation", "normalised", "actions"]
    assert contents(folder.path) == before, "the run stays as it is"


def test_the_figures_in_json_are_right(folder: RunFolder) -> None:
    """What the idler sees differs from the start; the detour meets both of them at its third turn, the idler meets itself."""
    report = report_of(folder, "--tree", "1")
    assert (report["trees"], report["tasks"], report["rollouts"], report["tree"]) == (1, 1, 3, 1)
    env, observation, _, actions = report["signatures"]
    assert [entry["label"] for entry in report["signatures"]] == ["env", "observation", "normalised", "actions"]
    with Trace.open(folder.trace, readonly=True) as trace:
        tree = trace.tree(1)
    assert env["merges"]["turns"] == len(tree.turns)
    assert env["merges"]["states"] == len({turn.state for turn in tree.turns})
    assert env["merges"]["self_merges"] == 11 + 2, "the idler in the first state, and the detour"
    assert env["largest"][0]["turns"] == 1 + 12 + 3 and env["largest"][0]["observation"].startswith("-= Welcome")
    assert env["depths"][0] == {"depth": 0, "turns": 3, "merged": 3, "convergent": 3}
    assert env["recorded"] is None and env["replayed"]["collided"] == 0 < env["replayed"]["compared"]
    assert report["replayed"] == {"tasks": 1, "turns": len(tree.turns), "known": len(tree.turns), "trouble": None}
    assert observation["depths"][0]["convergent"] == 0, "nobody sees the first text again"
    assert observation["recorded"]["collided"] == 0, "the recorded states of the idler are one"
    assert actions["merges"]["states"] > env["merges"]["states"]
    assert (env["largest"][0]["tree"], env["largest"][0]["turn"]) == (1, 0)
    assert report_of(folder, "--tree", "2")["signatures"][0]["largest"][0]["tree"] == 2


def test_own_signature_comes_first_and_others_are_named(tmp_path: Path) -> None:
    trees = [household_tree(7, expert, idle)]
    folder = recorded(tmp_path / "run", trees, signature="window", **{"signature_settings.of": "observation"})
    report = report_of(folder, "--signature", "similar,threshold=0.7", "normalised,mask=numbers", "--signature", "env")
    labels = [entry["label"] for entry in report["signatures"]]
    assert labels == ["window,of=observation", "similar,threshold=0.7", "normalised,mask=numbers", "env"]
    assert report["signatures"][0]["merges"]["states"] > report["signatures"][1]["merges"]["states"]


def test_a_history_makes_every_signature_stricter(folder: RunFolder) -> None:
    plain, strict = report_of(folder), report_of(folder, "--history", "2")
    assert [entry["label"] for entry in strict["signatures"]] == [f"{entry['label']}, 2 before" for entry in plain["signatures"]]
    for one, other in zip(plain["signatures"], strict["signatures"], strict=True):
        assert one["merges"]["states"] <= other["merges"]["states"]
    assert plain["signatures"][0]["merges"]["states"] < strict["signatures"][0]["merges"]["states"]


def test_a_trace_file_will_do(folder: RunFolder) -> None:
    assert report_of(folder.trace)["signatures"] == report_of(folder)["signatures"]


def test_added_forks_are_left_out(folder: RunFolder) -> None:
    before = report_of(folder)
    assert main(["fork", str(folder.path), "1:2"]) == 0
    assert report_of(folder)["signatures"] == before["signatures"]


def test_samples_limit_what_is_executed(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert report_of(folder, "--samples", "1")["replayed"]["tasks"] == 1
    capsys.readouterr()
    none = report_of(folder, "--samples", "0")
    assert none["replayed"]["tasks"] == 0 and none["signatures"][0]["replayed"] is None
    assert "snapshots of replayed turns are not compared: --samples is 0" in capsys.readouterr().out


def test_an_environment_that_is_gone_is_said_and_the_rest_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = household_tree(7, expert, idle)
    gone = TrajectoryTree("tests/Gone-v0", 7, {}, tree.turns)
    folder = recorded(tmp_path / "run", [gone])
    assert main(["signatures", str(folder.path)]) == 0
    text = capsys.readouterr().out
    assert "snapshots of replayed turns are not compared: UnknownEnvironmentError: no environment is called 'tests/Gone-v0'" in text
    assert f"{len(tree.turns)} turns" in text


def test_depths_are_shown_for_every_signature(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["signatures", str(folder.path)]) == 0
    assert "by depth" not in capsys.readouterr().out
    assert main(["signatures", str(folder.path), "--depths"]) == 0
    text = capsys.readouterr().out.partition("by depth")[2]
    assert text.count("\n    0      6  ") == 2, "two tables, of three signatures and of one"
    assert "██████████  100.0 %" in text or "██████████ 100.0 %" in text
    assert "░░░░░░░░░░ 100.0 %" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_picture_is_drawn(folder: RunFolder, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "merges.png"
    assert main(["signatures", str(folder.path), "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "no draft is left"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--signature", "obsrvation"], "no signature is called 'obsrvation'; did you mean observation"),
        (["--signature", "similar,threshold"], "'threshold' in --signature similar,threshold is no setting; write NAME,setting=value"),
        (["--signature", "similar,treshold=0.5"], "did you mean threshold?"),
        (["--signature", "similar,threshold=[1"], "the value '[1' of threshold in --signature"),
        (["--signature", "nowhere:sign"], "No module named 'nowhere'"),
        (["--signature", "json:loads"], "signature json:loads failed on a tree"),
        (["--signature"], "expected at least one argument"),
        (["--tree", "9"], "no such tree; there are 2, from 1 to 2"),
        (["--history", "-1"], "'-1' is no integer of at least 0"),
        (["--out", "."], "--out . is a folder or a device; give the name of a file"),
        (["--plot", "/proc/none/x.png"], "/proc/none/x.png cannot be written"),
        (["--depth"], "signatures has no option --depth; did you mean --depths"),
        (["--credit.signature", "env"], "signatures takes no settings"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(
    words: list[str], sentence: str, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["signatures", str(folder.path), *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert sentence in said[-1] and said[-1].startswith("branchwise: ")


def test_runs_that_are_not_there(folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["signatures", str(tmp_path / "runn")]) == 2
    assert f"did you mean {tmp_path / 'run'}?" in capsys.readouterr().err
    folder.trace.unlink()
    Trace.create(folder.trace, {}).close()
    assert main(["signatures", str(folder.path)]) == 2
    assert "holds no tree yet" in capsys.readouterr().err
    assert main(["signatures", str(folder.config)]) == 2
    assert "config.json: this is not a trace" in capsys.readouterr().err


def test_settings_on_the_command_line_are_typed() -> None:
    window = chosen_signature("window, of=similar, history=3, settings={threshold: .5}")
    assert isinstance(window, Window) and window.history == 3 and window.of.name == "similar"
    assert window.of == chosen_signature("similar,threshold=0.5")
    assert chosen_signature("actions,categorise=code,edits=true") != chosen_signature("actions,categorise=code")


def test_nothing_that_samples_or_trains_is_loaded(folder: RunFolder) -> None:
    script = (
        f"import sys; from trainer.cli import main; main(['signatures', {str(folder.path)!r}]); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("option", ["--out", "--plot"])
@pytest.mark.parametrize("name", ["trace.sqlite", "config.json"])
def test_no_file_of_the_run_is_replaced(option: str, name: str, folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder.path / name
    before = target.read_bytes()
    assert main(["signatures", str(folder.path), option, str(target)]) == 2
    assert "is a file of the run" in capsys.readouterr().err
    assert target.read_bytes() == before


def test_a_device_and_one_file_for_both_are_refused(folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, both = str(folder.path), str(tmp_path / "both.x")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert main(["signatures", run, "--out", str(fifo)]) == 2
    assert "is a folder or a device" in capsys.readouterr().err and fifo.is_fifo()
    assert main(["signatures", run, "--out", both, "--plot", both]) == 2
    assert "give two files" in capsys.readouterr().err


def test_files_below_a_file_and_endless_names_are_one_sentence(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    for path in (plain / "x.json", tmp_path / ("x" * 300)):
        assert main(["signatures", str(folder.path), "--out", str(path)]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_a_path_with_brackets_is_a_path(folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["signatures", str(folder.path), "--out", str(tmp_path / "a[b].json")]) == 0
    assert "a[b].json" in capsys.readouterr().out
