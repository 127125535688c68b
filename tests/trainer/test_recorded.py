import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from completion_world import Reply, completion_server
from recorded_household import record

from trainer.cli import main
from trainer.config import CreditConfig
from trainer.errors import UsageError
from trainer.load_config import load_config
from trainer.recorded.comparing import align
from trainer.recorded.recrediting import check_method, recredited
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.turn import Turn

# ---------------------------------------------------------------- trees, show, runs


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_trees_are_found_by_a_condition_and_a_text(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(finished.path)
    with Trace.open(finished.trace, readonly=True) as trace:
        summaries = list(trace.trees())
    assert main(["trees", run, "--limit", "3"]) == 0
    text = lines(capsys)
    assert len(text) == 5 and text[-1] == f"3 of {len(summaries)} shown; --limit {len(summaries)} shows all"
    assert [int(line.split()[0]) for line in text[1:4]] == [summary.id for summary in summaries[:3]]
    solved = [summary.id for summary in summaries if summary.successes]
    assert main(["trees", run, "--where", "success", "--sort", "+tree", "--limit", "99"]) == (0 if solved else 1)
    assert [int(line.split()[0]) for line in lines(capsys)[1:-1]] == solved
    assert main(["trees", run, "--text", "no such words anywhere"]) == 1
    assert lines(capsys) == [f"0 found, of {len(summaries)} recorded"]


def test_a_turn_is_shown_with_its_tokens(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with Trace.open(finished.trace, readonly=True) as trace:
        tree, advantages_N = trace.tree(1), trace.advantages(1)
    assert advantages_N is not None
    turn = tree.turns[0]
    assert main(["show", str(finished.path), "1:0", "--tokens"]) == 0
    text = capsys.readouterr().out
    assert turn.observation in text and f"advantage       {advantages_N[0]:+.6f}" in text
    assert len(re.findall(r"^ +\d+ '.*log-probability", text, re.M)) == turn.mask_T.sum()
    assert f"log-probability {turn.logprobs_T[turn.mask_T][0]:8.4f}" in text
    assert main(["show", str(finished.path), "1"]) == 0
    assert len(lines(capsys)) == len(tree.turns) + 2


def test_runs_are_listed_with_their_state(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(finished.path.parent)]) == 0
    (row,) = lines(capsys)[1:]
    assert row.split()[0] == "run" and " finished " in row
    folder = record(tmp_path / "runs" / "mine")
    for held, state in ((True, "running"), (False, "stopped")):
        with folder.held() if held else contextlib.nullcontext():
            assert main(["runs", str(tmp_path / "runs")]) == 0
        assert f" {state} " in lines(capsys)[1]
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "config.json").write_text("{}")
    assert main(["runs", str(tmp_path / "runs")]) == 0
    assert len(lines(capsys)) == 2, "a model's folder is no run"
    (tmp_path / "none").mkdir()
    assert main(["runs", str(tmp_path / "none")]) == 1


# ---------------------------------------------------------------- replay and fork


def test_replay_of_the_way_to_a_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run", reward=0.5)
    with Trace.open(folder.trace, readonly=True) as trace:
        tree = trace.tree(1)
    last = len(tree.turns) - 1
    for words in ([f"1:{last}"], ["1", "--node", str(last)]):
        assert main(["replay", str(folder.path), *words]) == 1
        text = lines(capsys)
        way = len(tree.path(last))
        assert text[-1] == f"replayed {way}/{way} turns: exact {way - 1}, diverged 1"
        assert [int(line.split()[0]) for line in text[1:-2] if line[:5].strip().isdigit()] == tree.path(last)


@pytest.mark.slow
def test_workers_do_not_change_what_a_replay_says(finished: RunFolder, household_run: RunFolder, capsys) -> None:
    said = []
    for workers in ("1", "2"):
        assert main(["replay", str(household_run.path), "--all", "--sample", "3", "--seed", "1", "--workers", workers]) == 0
        said.append(lines(capsys))
    assert said[0] == said[1] and len(said[0]) == 4


@pytest.fixture
def household_run(tmp_path: Path) -> RunFolder:
    """One household tree, recorded five times."""
    folder = record(tmp_path / "household")
    with Trace.open(folder.trace) as trace:
        for iteration in range(1, 5):
            trace.append([trace.tree(1)], iteration)
    return folder


def test_forks_are_added_and_replay_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    run = str(folder.path)
    assert main(["fork", run, "1:2"]) == 0
    assert "solved, return 1" in lines(capsys)[-1]
    assert main(["fork", run, ":1", "--policy", "random", "--max-turns", "4", "--n", "2"]) == 0
    text = lines(capsys)
    assert text[-1] == "2 forks recorded in tree 1, 0 of them solved"
    drawn = [line.split(None, 1)[1] for line in text if line[:5].strip().isdigit()]
    assert len(drawn) == 8 and drawn[:4] != drawn[4:], "a second fork at random draws anew"
    assert main(["replay", run]) == 0
    assert lines(capsys)[-1].endswith("diverged 0")
    with Trace.open(folder.trace, readonly=True) as trace:
        (summary,) = trace.trees()
        assert summary.forks == 3
        assert summary.fork_turns == len(trace.tree(summary.id).turns) - summary.turns


def test_a_fork_until_the_end_goes_beyond_the_runs_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    config = json.loads(folder.config.read_text())
    config["env"]["max_turns"] = 2
    folder.config.write_text(json.dumps(config))
    assert main(["fork", str(folder.path), "1:0"]) == 0
    assert "recorded 2 turns" in lines(capsys)[-1]
    assert main(["fork", str(folder.path), "1:0", "--until-end"]) == 0
    assert "solved, return 1" in lines(capsys)[-1]


def test_a_person_goes_on_and_one_who_leaves_leaves_nothing(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = record(tmp_path / "run")
    with Trace.open(folder.trace, readonly=True) as trace:
        before, tree = trace.content_digest(), trace.tree(1)
    monkeypatch.setattr("builtins.input", lambda _="": "")
    assert main(["fork", str(folder.path), "1:2", "--policy", "human"]) == 0
    assert "is not recorded" in capsys.readouterr().out
    with Trace.open(folder.trace, readonly=True) as trace:
        assert trace.content_digest() == before
    expert = iter([tree.turns[index].action for index in next(tree.rollouts())[2:]])
    monkeypatch.setattr("builtins.input", lambda _="": next(expert))
    assert main(["fork", str(folder.path), "1:2", "--policy", "human"]) == 0
    assert "solved, return 1" in capsys.readouterr().out
    with Trace.open(folder.trace, readonly=True) as trace:
        origin = trace.tree(1).turns[len(tree.turns)].origin
    assert origin is not None and (origin.kind, origin.rule) == ("fork", "human")


def test_a_model_behind_a_server_goes_on(finished: RunFolder, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(finished.path, tmp_path / "copy"))
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with Trace.open(finished.trace, readonly=True) as trace:
        observation = trace.tree(1).turns[0].observation

    def script(body: dict[str, Any], number: int) -> Reply:
        if number:
            return Reply({"error": {"message": "no such model"}}, status=404)
        return Reply({"choices": [{"message": {"role": "assistant", "content": "go"}, "finish_reason": "stop"}]})

    with completion_server(script) as world:
        words = ["fork", str(copy), "1:0", "--policy", "openai", "--url", world.url, "--model", "m"]
        assert main([*words, "--max-turns", "1"]) == 0
        assert world.bodies[0]["messages"][-1] == {"role": "user", "content": observation}
        assert world.headers[0]["Authorization"] == "Bearer secret"
        with Trace.open(copy / "trace.sqlite", readonly=True) as trace:
            added = trace.tree(1).turns[-1]
        assert added.action == "go" and added.origin is not None and added.origin.rule == "openai m"
        assert main(words) == 2
        assert "no such model" in capsys.readouterr().err


# ---------------------------------------------------------------- diff


def turn(state: str, action: str) -> Turn:
    nothing = np.zeros(0, np.float32)
    return Turn(-1, f"saw {state}", action, nothing.astype(np.int32), nothing > 0, nothing, nothing, 0, 0, False, False, True, state, "")


def rollout(states: str) -> list[Turn]:
    return [turn(state, after) for state, after in zip(states, [*states[1:], "end"], strict=True)]


@pytest.mark.parametrize(
    ("first", "second", "shared", "meetings"),
    [
        ("abcd", "abcd", 4, ()),
        ("abcd", "abxd", 1, ((3, 3),)),
        ("abcd", "xbcd", 0, ((1, 1), (2, 2), (3, 3))),
        ("abccd", "abxyzd", 1, ((4, 5),)),
        ("abcd", "abdcb", 1, ((2, 3),)),
        ("ab", "abcd", 1, ()),
    ],
)
def test_rollouts_are_aligned_at_their_last_common_state(first, second, shared, meetings) -> None:
    alignment = align(rollout(first), rollout(second))
    assert (alignment.shared, alignment.meetings) == (shared, meetings)


def test_two_rollouts_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    with Trace.open(folder.trace, readonly=True) as trace:
        tree = trace.tree(1)
    one, other = (path[-1] for path in tree.rollouts())
    assert main(["diff", str(folder.path), f"1:{one}", f"1:{other}"]) == 1
    text = capsys.readouterr().out
    assert "1 turns are the same" in text and tree.turns[1].observation in text
    assert f"B: solved after {len(tree.path(other))} turns, return 1" in text
    assert " = " in text, "the expert's way is met again after some looking around"
    assert main(["diff", str(folder.path), f"1:{one}", f"1:{one}"]) == 0


def test_rollouts_of_two_tasks_share_no_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    with Trace.open(folder.trace) as trace:
        tree = trace.tree(1)
        tree.seed = 8
        trace.append([tree], 1)
    assert main(["diff", str(folder.path), "1", "2"]) == 2
    assert "different tasks (seeds 7 and 8)" in capsys.readouterr().err


def test_two_runs_are_paired_by_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = record(tmp_path / "a"), record(tmp_path / "b")
    with Trace.open(second.trace) as trace:
        tree = trace.tree(1)
        for leaf in tree.leaves():
            tree.turns[leaf].success = False
        trace.append([tree], 1)
        tree.seed = 99
        trace.append([tree], 2)
    assert main(["diff", str(first.path), str(second.path)]) == 0
    assert lines(capsys)[-1].startswith("1 tasks in common: A solves 100.0 %, B 50.0 %, difference -50.0 [")


# ---------------------------------------------------------------- recredit


def test_the_runs_own_method_gives_the_recorded_advantages_again(finished: RunFolder) -> None:
    config = finished.read_config()
    with Trace.open(finished.trace, readonly=True) as trace:
        found = list(recredited(trace, config, config.credit))
    assert len(found) == config.run.iterations * config.rollout.tasks
    for one in found:
        assert one.before_N.tobytes() == one.after_N.tobytes()
    assert any(one.before_N.any() for one in found)


def test_another_method_and_other_states_change_them(finished: RunFolder, tmp_path: Path, capsys) -> None:
    out = tmp_path / "advantages.jsonl"
    run = str(finished.path)
    assert main(["recredit", run, "--method", "grpo", "--out", str(out)]) == 0
    assert "now: grpo with states by env and path weights" in capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert any(row["recorded"] != row["now"] for row in rows)
    assert main(["recredit", run, "--tree", "1", "--signature", "observation"]) == 0
    text = lines(capsys)
    assert text[1].startswith("tree 1, iteration") and re.match(r" *[+-]\d\.\d{3} +[+-]\d\.\d{3} +0 ", text[3])


def test_forks_added_later_do_not_enter_the_credit(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    config = load_config("household")
    with Trace.open(folder.trace) as trace:
        trace.append([trace.tree(1)], 1, [np.zeros(len(trace.tree(1).turns))])
        before = [one.after_N.tolist() for one in recredited(trace, config, config.credit)]
    assert main(["fork", str(folder.path), "2:1", "--policy", "random", "--max-turns", "3"]) == 0
    with Trace.open(folder.trace, readonly=True) as trace:
        assert [one.after_N.tolist() for one in recredited(trace, config, config.credit)] == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "slat"], "did you mean"),
        (["--method", "salt,x"], "write NAME,setting=value"),
        (["--method", "gae"], "needs a critic's values"),
        (["--signature", "observatoin"], "did you mean"),
        (["--tree", "999"], "no such tree"),
    ],
)
def test_what_cannot_be_credited_is_one_sentence(words, sentence, finished: RunFolder, capsys) -> None:
    assert main(["recredit", str(finished.path), *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error


def test_nothing_is_written_into_the_run(finished: RunFolder, capsys) -> None:
    assert main(["recredit", str(finished.path), "--out", str(finished.path / "x.jsonl")]) == 2
    assert "stays as it is" in capsys.readouterr().err


def test_methods_that_need_values_are_refused() -> None:
    with pytest.raises(UsageError, match="critic's values"):
        check_method(CreditConfig(method="gae"))
