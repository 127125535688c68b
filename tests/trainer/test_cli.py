import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest
from recorded_household import record

import envs
from trainer.cli import main
from trainer.config import Config
from tree_rollout.trace import Trace

VERBS = (
    *("train", "sft", "eval", "health", "view", "runs", "trees", "show", "replay", "fork", "diff", "recredit", "signatures"),
    *("play", "envs", "check", "doctor"),
)


def command(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command line in a process of its own."""
    return subprocess.run([sys.executable, "-m", "trainer", *words], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: branchwise {verb}")
    assert len(text.splitlines()) > 8


def test_overview_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {verb} " in text for verb in VERBS)
    assert "branchwise train household" in text
    assert main([]) == 2
    assert capsys.readouterr().err == text


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = ("torch", "numpy", "pydantic", "rich", "transformers", "gymnasium", "matplotlib", "yaml")
    script = f"import sys; from trainer.cli import main; main(['--help']); sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60).returncode == 0
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        assert command("--help").returncode == 0
        best = min(best, time.perf_counter() - start)
        if best < 0.5:
            break
    assert best < 0.5


def test_version() -> None:
    result = command("--version")
    assert (result.returncode, result.stdout) == (0, "branchwise 0.1.0\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "there is no verb 'trian'; did you mean train?"),
        (["--seed"], "there is no verb '--seed'"),
        (["train"], "train needs a benchmark; choose one of alfworld, babyai, bfcl, household, "),
        (["train", "houshold"], "no benchmark is called 'houshold'; did you mean household"),
        (["train", "household", "extra"], "'extra' is one argument too many"),
        (["train", "household", "--sede", "1"], "train has no option --sede; did you mean --seed?"),
        (["train", "household", "--resum"], "train has no option --resum; did you mean --resume?"),
        (["train", "household", "--seed", "one"], "'one' is no integer of at least 0"),
        (["train", "household", "--seed", "1", "--run.seed", "2"], "--seed 1 and --run.seed 2 contradict each other; leave one out"),
        (["train", "household", "--run.seed"], "setting run.seed has no value; write --run.seed VALUE"),
        (["train", "household", "--rollout.taks", "3"], "did you mean rollout.tasks"),
        (["train", "household", "--credit.method", "gppo"], "grpo"),
        (["train", "household", "--config", "/no/such.yaml"], "configuration /no/such.yaml cannot be read: No such file or directory"),
        (["play", "household", "--run.seed", "1"], "play takes no settings, but got --run.seed"),
        (["play", "houshold"], "did you mean branchwise/Household-v0?"),
        (["play", "household", "--split", "test"], "has no split 'test'; choose one of train, valid_seen, valid_unseen"),
        (["play", "household", "--policy", "exprt"], "invalid choice: 'exprt'"),
        (["play", "household", "--max-turns", "0"], "max_turns"),
        (["eval", "/no/such/run"], "/no/such/run is no run folder"),
        (["replay", "/no/such/run"], "/no/such/run is no run folder"),
        (["replay", "x", "--sample", "3"], "--sample has no effect without --all"),
        (["replay", "x", "3", "--all"], "leave TREE and --node out"),
        (["replay", "x", "3:4", "--node", "3"], "both name a turn"),
        (["replay", "x", "--all", "--sample", "0"], "give at least 1"),
        (["replay", "x", "tree3"], "'tree3' is no place"),
        (["show", "x", "--tokens"], "name it as TREE:TURN"),
        (["fork", "x", "12"], "write 12:TURN"),
        (["fork", "x", "12:"], "'12:' is no place"),
        (["fork", "x", "12:3", "--n", "0"], "give at least 1"),
        (["fork", "x", "12:3", "--policy", "openai", "--url", "http://127.0.0.1:9/v1"], "needs --url and --model"),
        (["fork", "x", "12:3", "--model", "m"], "--model has no effect without --policy openai"),
        (["fork", "x", "12:3", "--max-turns", "3", "--until-end"], "not allowed with argument"),
        (["diff", "x", "12"], "12 is no run folder"),
        (["diff", "x", "12", "y"], "'y' is no place"),
        (["trees", "x", "--where", "depht > 3"], "did you mean depth?"),
        (["trees", "x", "--sort", "depht"], "did you mean depth?"),
        (["runs", "/no/such/folder"], "/no/such/folder is no folder"),
        (["envs", "--verbose"], "envs has no option --verbose"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("branchwise: ")
    assert sentence in shown.err
    assert shown.err.count("\n") == 1


class FakeRun(types.ModuleType):
    """Stands in for `trainer.run`: keeps what it was called with, or raises what it was given."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__("trainer.run")
        self.calls: list[tuple[Config, bool]] = []
        self.error = error

    def train(self, config: Config, *, resume: bool, console: Any) -> None:
        self.calls.append((config, resume))
        if self.error:
            raise self.error


def test_train_gets_the_whole_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeRun()
    monkeypatch.setitem(sys.modules, "trainer.run", fake)
    (tmp_path / "my.yaml").write_text("run: {iterations: 3}")
    words = ["train", "--optimizer.lr", "1e-3", "household", "--seed", "4", "--out", str(tmp_path / "run"), "--resume"]
    assert main([*words, "--config", str(tmp_path / "my.yaml")]) == 0
    ((config, resume),) = fake.calls
    assert resume
    assert (config.run.seed, config.run.iterations, config.optimizer.lr) == (4, 3, 0.001)
    assert config.folder == tmp_path / "run"


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C; everything so far is on disk, and the same command with --resume goes on"),
        (OSError(28, "No space left on device", "runs/x"), 2, "No space left on device: runs/x"),
        (PermissionError(13, "Permission denied", "runs/x"), 2, "Permission denied: runs/x"),
        (envs.UnknownEnvironmentError("one\nsentence"), 2, "one sentence"),
    ],
)
def test_how_a_run_can_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, sentence: str
) -> None:
    monkeypatch.setitem(sys.modules, "trainer.run", FakeRun(error))
    assert main(["train", "household"]) == code
    assert capsys.readouterr().err == f"branchwise: {sentence}\n"


@pytest.mark.parametrize("error", [RuntimeError("a fault of ours"), FileNotFoundError(2, "gone", "x")])
def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setitem(sys.modules, "trainer.run", FakeRun(error))
    with pytest.raises(type(error)):
        main(["train", "household"])


def test_settings_are_listed_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "household", "--settings", "--optimizer.lr", "0.25"]) == 0
    text = capsys.readouterr().out
    assert "optimizer.lr = 0.25  (a number above 0 and of at most 1)" in text
    assert "run.out = null  (text or null)" in text


def test_ctrl_c_at_a_prompt_is_one_sentence() -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "trainer", "play", "household"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "branchwise: stopped by Ctrl-C\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    line = f"{sys.executable} -m trainer train --settings | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] in ("0", "141")


def test_envs_lists_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    text = capsys.readouterr().out
    for spec in envs.specs():
        assert spec.id in text
        assert all(split in text for split in spec.splits)


def test_play_expert_solves_and_random_may_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "household", "--policy", "expert", "--seed", "3", "--split", "valid_unseen"]) == 0
    first = capsys.readouterr().out
    assert "Your task is to:" in first
    assert first.splitlines()[-1].startswith("solved after ")
    assert main(["play", "branchwise/Household-v0", "--policy", "expert", "--seed", "3", "--split", "valid_unseen"]) == 0
    assert capsys.readouterr().out == first
    assert main(["play", "household", "--policy", "random", "--seed", "3", "--max-turns", "2"]) == 0
    assert "after 2 turns" in capsys.readouterr().out
    assert main(["play", "household", "--policy", "expert", "--seed", "3", "--max-turns", "1"]) == 1


def test_play_human_asks_for_actions() -> None:
    result = command("play", "household", "--seed", "3", input="?\n!\ninventory\nfly away\n\nlook\n")
    assert result.returncode == 0
    assert "\n  inventory\n" in result.stdout
    assert "You are not carrying anything." in result.stdout
    assert "Nothing happens." in result.stdout
    assert result.stdout.splitlines()[-1] == "left after 2 turns, return 0"


def test_replay_verifies_every_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    assert main(["replay", str(folder.path)]) == 0
    text = capsys.readouterr().out
    with Trace.open(folder.trace, readonly=True) as trace:
        (summary,) = trace.trees()
        turns = len(trace.tree(summary.id).turns)
    assert text.splitlines()[0] == f"tree {summary.id}, iteration 0, seed 7, 2/2 solved"
    assert text.splitlines()[-1] == f"replayed {turns}/{turns} turns: exact {turns}, diverged 0"
    assert len(text.splitlines()) == turns + 2
    assert main(["replay", str(folder.path), "--all"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"replayed {turns}/{turns} turns of 1 trees: exact {turns}, diverged 0"


def test_replay_finds_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run", reward=0.5)
    assert main(["replay", str(folder.path)]) == 1
    text = capsys.readouterr().out
    assert "turn 0: reward was 0.5 and is now 0.0" in text
    assert text.splitlines()[-1].endswith("diverged 1")
    assert main(["replay", str(folder.path), "--all"]) == 1
    assert "diverged 1" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "sentence"), [(["99"], "no such tree"), ([":999"], "no turn 999")])
def test_replay_of_what_is_not_there(words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    assert main(["replay", str(folder.path), *words]) == 2
    assert sentence in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "runn")]) == 2
    assert f"did you mean {tmp_path / 'run'}?" in capsys.readouterr().err


def test_replay_before_the_first_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path / "run")
    folder.trace.unlink()
    assert main(["replay", str(folder.path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    Trace.create(folder.trace, {}).close()
    assert main(["replay", str(folder.path)]) == 2
    assert "holds no tree yet" in capsys.readouterr().err
