"""Whole runs: what interrupts one changes nothing in the end, and what a user can mend is one sentence."""

import json
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import words_world
from run_process import Mishap, Started, command
from words_world import assert_same_run, command_of, config_of, contents, copy, metrics, run, trees, weights

from agents.policy_folder import load_policy, save_policy
from envs.needs import PackageNeed
from envs.registry import register_env
from trainer.checkpoint import CheckpointSeries
from trainer.cli import main
from trainer.evaluate import Measurement, measure
from trainer.run_folder import RunFolder
from trainer.statistics import Proportion
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace

pytestmark = pytest.mark.usefixtures("no_curves")
STOPPED = "branchwise: stopped by Ctrl-C; everything so far is on disk, and the same command with --resume goes on\n"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence with which a command line ends."""
    capsys.readouterr()
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("branchwise: ")
    assert err.count("\n") == 1
    return err


# ---------------------------------------------------------------------- the same run, whatever happens


def test_one_seed_is_one_run(finished: RunFolder, tmp_path: Path) -> None:
    assert_same_run(finished, run(tmp_path / "again"))
    assert contents(finished.policy(0)) != contents(finished.policy(2)), "something was learned"
    other = run(tmp_path / "other", {"run.seed": 1})
    assert trees(other) != trees(finished)
    assert weights(other) != weights(finished)


def test_two_processes_do_what_one_does(finished: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    ended = command(command_of(tmp_path / "run", run__workers=2))
    assert (ended.code, ended.err) == (0, "")
    assert_same_run(finished, RunFolder(tmp_path / "run"))


def test_environments_in_processes_change_nothing(finished: RunFolder, tmp_path: Path) -> None:
    """Here the shards are processes themselves, and whoever starts them has registered the environment."""
    words = [sys.executable, words_world.__file__, *command_of(tmp_path / "run", run__workers=2, rollout__env_processes=1)]
    environment = {**os.environ, "BRANCHWISE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    folder = RunFolder(tmp_path / "run")
    assert trees(folder) == trees(finished) and weights(folder) == weights(finished)


@pytest.mark.parametrize(
    "mishap",
    [
        Mishap("trainer.run:measure", 2, "kill"),
        Mishap("trainer.local_backend:save_sealed", 1, "kill"),
        Mishap("trainer.checkpoint:CheckpointSeries.save", 1, "kill"),
        Mishap("trainer.iteration:Trainer._learn", 2, "kill"),
        Mishap("trainer.metrics:MetricsLog.append", 2, "kill"),
        Mishap("trainer.policy_seal:folder_digest", 4, "kill"),
        Mishap("trainer.checkpoint:_move_into_place", 3, "kill"),
        Mishap("trainer.run:write_json", 1, "kill"),
    ],
    ids=lambda mishap: mishap.function.partition(":")[2],
)
def test_kill_and_resume_is_the_same_run(finished: RunFolder, tmp_path: Path, mishap: Mishap) -> None:
    assert command(command_of(tmp_path / "run"), mishap).code == -signal.SIGKILL
    folder = run(tmp_path / "run", resume=True)
    assert_same_run(finished, folder)
    assert {path.name for path in folder.checkpoints.iterdir()} == {"000001", "000002"}, "no draft stays behind"


@pytest.mark.parametrize(
    "mishap",
    [
        Mishap("trainer.policy_seal:folder_digest", 1, "kill"),
        Mishap("trainer.warm_start:_Teacher.update", 2, "kill"),
        Mishap("trainer.warm_start:_Teacher.update", 3, "interrupt"),
        Mishap("trainer.checkpoint:_move_into_place", 2, "kill"),
        Mishap("trainer.policy_seal:folder_digest", 2, "kill"),
        Mishap("trainer.warm_start:WarmStart._write", 1, "kill"),
    ],
    ids=lambda mishap: f"{mishap.what} {mishap.function.partition(':')[2]} {mishap.call}",
)
def test_an_interrupted_warm_start_goes_on(finished: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mishap: Mishap) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    ended = command(command_of(tmp_path / "run", run__iterations=0), mishap)
    assert ended.code == (130 if mishap.what == "interrupt" else -signal.SIGKILL)
    folder = run(tmp_path / "run", {"run.iterations": 0}, resume=True)
    assert contents(folder.policy(0)) == contents(finished.policy(0))


def test_ctrl_c_stops_after_the_iteration(finished: RunFolder, tmp_path: Path) -> None:
    ended = command(command_of(tmp_path / "run", run__checkpoint_every=5), Mishap("trainer.iteration:Trainer.advance", 1, "interrupt"))
    assert (ended.code, ended.err) == (130, STOPPED)
    folder = RunFolder(tmp_path / "run")
    assert CheckpointSeries(folder.checkpoints).numbers() == [0, 1], "also where no checkpoint is due"
    assert metrics(folder) == metrics(finished)[:1]
    run(tmp_path / "run", resume=True)
    assert_same_run(finished, folder)


def test_a_second_ctrl_c_stops_at_once(finished: RunFolder, tmp_path: Path) -> None:
    ended = command(command_of(tmp_path / "run"), Mishap("trainer.iteration:Trainer._learn", 2, "interrupt twice"))
    assert (ended.code, ended.err) == (130, STOPPED)
    folder = RunFolder(tmp_path / "run")
    assert len(metrics(folder)) == 1
    assert CheckpointSeries(folder.checkpoints).numbers()[-1] == 1
    assert_same_run(finished, run(tmp_path / "run", resume=True))


@pytest.mark.parametrize("processes", [0, 1])
def test_ctrl_c_reaches_a_whole_process_group(finished: RunFolder, tmp_path: Path, processes: int) -> None:
    """As a terminal sends it, to a program with processes of its own."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [
            sys.executable, words_world.__file__,
            *command_of(tmp_path / "run", run__workers=2, run__iterations=10_000, rollout__env_processes=processes),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert any(line.startswith("reinforcement learning 1/") for line in process.stdout), process.communicate()
        family = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, STOPPED)
    assert len(family) >= 3, "a server, and two workers"
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive, "no process stays behind"
    folder = RunFolder(tmp_path / "run")
    assert metrics(folder)[0] == metrics(finished)[0]
    assert len(metrics(folder)) == CheckpointSeries(folder.checkpoints).numbers()[-1]


# ---------------------------------------------------------------------- going on


def test_resume_of_a_finished_run_changes_nothing(finished: RunFolder, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path / "run")
    folder.result.unlink()
    run(folder.path, resume=True)
    assert_same_run(finished, folder)
    results = [json.loads(one.result.read_text()) for one in (finished, folder)]
    assert [{**result, "minutes": None} for result in results] == [{**results[0], "minutes": None}] * 2


def test_more_iterations_on_resume(finished: RunFolder, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path / "run")
    run(folder.path, {"run.iterations": 3}, resume=True)
    assert weights(folder) == weights(run(tmp_path / "whole", {"run.iterations": 3}))
    assert trees(folder) == trees(RunFolder(tmp_path / "whole"))
    assert folder.read_config().run.iterations == 3
    run(folder.path, {"run.iterations": 1}, resume=True)
    assert len(metrics(folder)) == 3, "fewer iterations take nothing away"


def test_a_run_goes_on_without_the_cached_start_policy(finished: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    folder = copy(finished, tmp_path / "run")
    run(folder.path, {"run.iterations": 3}, resume=True)
    assert not (tmp_path / "cache").exists()


def test_the_newest_checkpoint_can_be_given_up(finished: RunFolder, tmp_path: Path) -> None:
    folder = copy(finished, tmp_path / "run")
    shutil.rmtree(folder.checkpoints / "000002")
    assert_same_run(finished, run(folder.path, resume=True))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"optimizer__lr": 0.02}, "optimizer.lr = 0.01 (now 0.02)"),
        ({"run__seed": 5}, "run.seed = 0 (now 5)"),
        ({"rollout__branching__rule": "random"}, "rollout.branching.rule = 'topk_entropy' (now 'random')"),
        ({"warmstart__habits__lazy": 0.5}, "warmstart.habits.lazy = None (now 0.5)"),
    ],
)
def test_other_settings_on_resume_are_refused(
    changes: dict[str, Any], name: str, finished: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(finished.path)
    err = refused(command_of(finished.path, "--resume", **changes), capsys)
    assert f"was started with {name}; resume it with the same settings" in err
    assert contents(finished.path) == before


def test_what_a_run_folder_must_be(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds a run already; add --resume" in refused(command_of(finished.path), capsys)
    assert "holds no run to go on with; leave --resume out" in refused(command_of(tmp_path / "none", "--resume"), capsys)
    assert not (tmp_path / "none").exists()
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds other files and no run; choose an empty folder" in refused(command_of(tmp_path), capsys)
    assert "cannot be made a run folder" in refused(command_of(tmp_path / "notes.txt"), capsys)
    model = finished.policy(0)
    assert "holds no configuration of a run" in refused(command_of(model), capsys), "a model's folder has a config.json too"
    with finished.held():
        assert "another process is training in" in refused(command_of(finished.path, "--resume"), capsys)


# ---------------------------------------------------------------------- damage


def flip(path: Path, place: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 0x10
    path.write_bytes(content)


def flip_blob(path: Path) -> None:
    """One bit of a text or an array in the trace."""
    with sqlite3.connect(path) as connection:
        (packed,) = connection.execute("SELECT packed FROM blobs WHERE length(packed) BETWEEN 40 AND 400 LIMIT 1").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[content.index(packed) + 30] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def put_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"weights": [1.0]}))


def state_of_another_version(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))


DAMAGED_CHECKPOINTS: list[tuple[str, Callable[[Path], None], str]] = [
    ("training.safetensors", flip, "training.safetensors was changed; put it back as it was, or remove it"),
    ("training.safetensors", cut, "training.safetensors was changed"),
    ("training.safetensors", put_pickle, "training.safetensors was changed"),
    ("training.safetensors", Path.unlink, "training.safetensors is missing"),
    ("state.json", lambda path: flip(path, 0.98), "damaged"),
    ("state.json", cut, "damaged"),
    ("state.json", put_pickle, "damaged"),
    ("state.json", Path.unlink, "state.json is missing"),
]
DAMAGES: list[tuple[str, Callable[[Path], None], str]] = [
    ("checkpoints/000002/state.json", state_of_another_version, "has format 99, this version reads format 1"),
    ("trace.sqlite", lambda path: flip(path, 0.0), "trace.sqlite"),
    ("trace.sqlite", flip_blob, "trace.sqlite"),
    ("trace.sqlite", cut, "trace.sqlite"),
    ("trace.sqlite", put_pickle, "this is not a trace"),
    ("trace.sqlite", Path.unlink, "trace.sqlite is missing"),
    ("metrics.jsonl", lambda path: flip(path, 0.0), "line 1 of"),
    ("metrics.jsonl", Path.unlink, "metrics.jsonl cannot be read: No such file"),
    ("metrics.jsonl", lambda path: path.write_bytes(path.read_bytes().splitlines(True)[0]), "metrics.jsonl lacks iterations up to 2"),
    ("config.json", cut, "config.json is not valid JSON"),
    ("config.json", put_pickle, "config.json cannot be read"),
    ("config.json", state_of_another_version, "is a run folder of format 99"),
    ("policies/000000/model.safetensors", flip, "its files were changed"),
    ("policies/000000/tokenizer.json", put_pickle, "its files were changed"),
    ("policies/000000/seal.json", Path.unlink, "000000 is missing"),
    ("policies/000000/seal.json", cut, "its seal.json cannot be read"),
]


@pytest.mark.parametrize(("name", "harm", "words"), DAMAGED_CHECKPOINTS, ids=lambda value: value if isinstance(value, str) else None)
def test_a_run_goes_on_from_its_newest_whole_checkpoint(
    name: str, harm: Callable[[Path], None], words: str, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(finished, tmp_path / "run")
    harm(folder.path / "checkpoints" / "000002" / name)
    assert main(command_of(folder.path, "--resume")) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert words in said and "going on from the one before" in said
    assert_same_run(finished, folder)
    for number in folder.checkpoints.iterdir():
        harm(number / name)
    before = contents(folder.path)
    assert words in refused(command_of(folder.path, "--resume", run__iterations=3), capsys)
    assert {**contents(folder.path), "config.json": b""} == {**before, "config.json": b""}


@pytest.mark.parametrize(("name", "harm", "words"), DAMAGES, ids=lambda value: value if isinstance(value, str) else None)
def test_damage_is_one_sentence_and_nothing_is_overwritten(
    name: str, harm: Callable[[Path], None], words: str, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(finished, tmp_path / "run")
    harm(folder.path / name)
    before = contents(folder.path)
    err = refused(command_of(folder.path, "--resume", run__iterations=3), capsys)
    assert words in err
    assert str(folder.path) in err
    after = contents(folder.path)
    # Settings that may change on resume are noted in config.json before the rest is read.
    after["config.json"] = before["config.json"] if "config.json" not in name else after["config.json"]
    assert after == before


def test_no_byte_of_the_trace_changes_unseen(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that SQLite does not use may change; any other one is noticed, or what is read is still the same."""
    noticed = 0
    for place in range(1, 8):
        folder = copy(finished, tmp_path / str(place))
        flip(folder.trace, place / 8)
        code = main(command_of(folder.path, "--resume"))
        noticed += code == 2
        assert code == 2 or trees(folder) == trees(finished)
    assert noticed


def test_trees_without_a_checkpoint_are_not_thrown_away(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy(finished, tmp_path / "run")
    shutil.rmtree(folder.checkpoints)
    assert "holds trees, but there is no checkpoint to go on from" in refused(command_of(folder.path, "--resume"), capsys)
    assert trees(folder) == trees(finished)


def test_trees_that_are_missing_in_the_trace(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy(finished, tmp_path / "run")
    with Trace.open(folder.trace) as trace:
        trace.rewind(2)
    assert "lacks trees of iteration 2" in refused(command_of(folder.path, "--resume"), capsys)


@pytest.mark.parametrize(
    ("function", "call", "words"),
    [
        ("trainer.run_folder:RunFolder._write", 1, "config.json cannot be written"),
        ("trainer.local_backend:save_sealed", 3, "could not be written"),
        ("trainer.policy_seal:folder_digest", 4, "cannot be written"),
        ("trainer.iteration:assign", 2, "trace.sqlite: could not append to iteration 2"),
        ("trainer.metrics:MetricsLog.append", 2, "metrics.jsonl cannot be written"),
        ("trainer.checkpoint:CheckpointSeries.save", 3, "000002 cannot be written"),
        ("trainer.shared_parameters:SharedParameters.__init__", 1, "free some space, or name another folder in TMPDIR"),
        ("trainer.run:write_json", 1, "result.json cannot be written"),
    ],
)
def test_a_full_disk_is_one_sentence_and_loses_nothing(function: str, call: int, words: str, finished: RunFolder, tmp_path: Path) -> None:
    ended = command(command_of(tmp_path / "run"), Mishap(function, call, "full disk"))
    assert ended.code == 2
    assert ended.err.startswith("branchwise: ")
    assert ended.err.count("\n") == 1
    assert words in ended.err
    begun = (tmp_path / "run" / "config.json").exists()
    assert_same_run(finished, run(tmp_path / "run", resume=begun))


# ---------------------------------------------------------------------- the start policy


def test_an_existing_model_trains(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    save_policy(*load_policy(finished.policy(2)), model)
    sizes = {name: None for name in words_world.SETTINGS if name.startswith("policy.") and name != "policy.max_length"}
    changes = {**sizes, "policy.path": model, "warmstart.steps": 0, "run.iterations": 1}
    folder = run(tmp_path / "run", changes)
    assert contents(folder.policy(0))["model.safetensors"] == (model / "model.safetensors").read_bytes()
    assert contents(folder.policy(1))["model.safetensors"] != (model / "model.safetensors").read_bytes()
    shutil.copy(finished.policy(0) / "model.safetensors", model)
    other = run(tmp_path / "other", changes)
    assert contents(other.policy(0))["model.safetensors"] == contents(finished.policy(0))["model.safetensors"], "not the cached one"
    (model / "tokenizer.json").unlink()
    arguments = [word for name, value in changes.items() if value is not None for word in (f"--{name}", str(value))]
    base = command_of(tmp_path / "third", **{name.replace(".", "__"): None for name in changes})
    assert "holds a model without a tokenizer; put the tokenizer.json" in refused([*base, *arguments], capsys)
    assert f"there is no policy folder {tmp_path / 'gone'}" in refused(
        [*base, *("--policy.path", str(tmp_path / "gone"), "--warmstart.steps", "0")], capsys
    )


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("policy/model.safetensors", flip, "its files were changed"),
        ("policy/model.safetensors", Path.unlink, "its files were changed"),
        ("policy", shutil.rmtree, "is missing"),
        ("report.json", cut, "report.json cannot be read"),
        ("report.json", put_pickle, "report.json cannot be read"),
    ],
)
def test_a_damaged_start_policy_says_what_to_remove(
    name: str, harm: Callable[[Path], None], words: str, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    finished: RunFolder, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shutil.copytree(own_cache, tmp_path / "cache")
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    (kept,) = {words_world.start_policy_of(config_of(tmp_path / "run"))}
    harm(kept / name)
    before = contents(kept)
    err = refused(command_of(tmp_path / "run"), capsys)
    assert words in err
    assert f"start policy in {kept} is damaged" in err
    assert "remove that folder, and the next run makes it anew" in err
    assert contents(kept) == before


def test_a_damaged_beginning_of_a_start_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    command(command_of(tmp_path / "run"), Mishap("trainer.warm_start:_Teacher.update", 3, "kill"))
    kept = words_world.start_policy_of(config_of(tmp_path / "run"))
    (draft,) = (kept / "drafts").iterdir()
    flip(draft / "training.safetensors")
    assert f"checkpoint {draft} is damaged" in refused(command_of(tmp_path / "run"), capsys)
    flip(kept / "initial" / "model.safetensors")
    assert "remove that folder" in refused(command_of(tmp_path / "run"), capsys)


def test_two_runs_make_one_start_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: RunFolder) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    config = config_of(tmp_path / "first", {"run.iterations": 0})
    with words_world.held_start_policy(config):
        waiting = Started(command_of(tmp_path / "second", run__iterations=0))
        waiting.read_until("another run is making the same start policy; waiting for it")
    run(tmp_path / "first", {"run.iterations": 0})
    assert waiting.wait().code == 0
    assert contents(RunFolder(tmp_path / "second").policy(0)) == contents(finished.policy(0))
    assert contents(RunFolder(tmp_path / "first").policy(0)) == contents(finished.policy(0))


# ---------------------------------------------------------------------- failures


def test_one_failed_rollout_is_data(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {"env.kwargs.fault": "step", "run.max_failed_share": 0.9, "evaluation.tasks": 12})
    result = json.loads(folder.result.read_text())
    assert 0 < result["failures"]["env_error"] < result["rollouts"]
    assert result["stop_reasons"]["env_error"] == result["failures"]["env_error"]
    with Trace.open(folder.trace, readonly=True) as trace:
        recorded = [turn for summary in trace.trees() for turn in trace.tree(summary.id).turns if turn.stop_reason]
    assert sum(turn.stop_reason is StopReason.ENV_ERROR for turn in recorded) == result["failures"]["env_error"]
    assert result["evaluations"][-1]["sampled"]["tasks"] < 12


@pytest.mark.parametrize(
    ("fault", "words", "iterations"),
    [
        ("train", "of iteration 1 failed, and run.max_failed_share allows 0.1 of them; the first: task seed", [1]),
        ("reset", "2 of 2 rollouts of the evaluation failed", []),
    ],
)
def test_too_many_failures_stop_the_run_with_the_reason(
    fault: str, words: str, iterations: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = refused(command_of(tmp_path / "run", env__kwargs__fault=fault), capsys)
    assert words in err
    assert "env_error: ValueError: " in err
    with Trace.open(tmp_path / "run" / "trace.sqlite", readonly=True) as trace:
        assert sorted({summary.iteration for summary in trace.trees()}) == iterations, "what shows the failures is on the disk"


def test_a_process_that_is_killed_is_one_sentence(tmp_path: Path) -> None:
    ended = command(command_of(tmp_path / "run", run__workers=2), Mishap("trainer.iteration:Trainer._learn", 1, "kill a worker"))
    assert ended.code == 2
    assert ended.err.startswith(
        "branchwise: the process of shards 1 ended with exit code -9 (out of memory, most likely: lower run.workers"
    )
    assert ended.err.count("\n") == 1


def test_the_last_lines_of_a_process_that_ended_are_told(tmp_path: Path) -> None:
    ended = command(command_of(tmp_path / "run", run__workers=2, env__kwargs__fault="exit"))
    assert ended.code == 2
    assert "ended with exit code 7; its last lines: no words left | good bye" in ended.err


@pytest.mark.parametrize(("keep_best", "kept"), [(True, [0, 2, 4]), (False, [0, 4])])
def test_the_best_policy_is_kept(keep_best: bool, kept: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = iter((1, 0, 2, 2, 1))  # of 2 held-out tasks, at the start and after each iteration

    def measured(*arguments: Any) -> Measurement:
        real = measure(*arguments)
        return replace(real, success=Proportion(next(solved), 2)) if "sampled" in arguments else real

    monkeypatch.setattr("trainer.run.measure", measured)
    changes = {"run.iterations": 4, "evaluation.every": 1, "run.checkpoint_every": 4, "run.keep_checkpoints": 1}
    assert run(tmp_path / "run", {**changes, "run.keep_best": str(keep_best).lower()}).policies() == kept


def test_a_finished_run_writes_its_last_policy_again_where_it_is_missing(finished: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(finished.path, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    shutil.rmtree(folder.policy(2))
    run(folder.path, resume=True)
    assert folder.policies()[-1] == 2
    assert weights(folder) == weights(finished)


def test_what_an_environment_needs_is_asked_for_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need = PackageNeed("no_such_package_at_all", "pip install no-such-package")
    register_env("test/Needy-v0", words_world.WordsEnv, abilities=words_world.ABILITIES, needs=(need,), splits=("train", "valid_unseen"))
    err = refused(command_of(tmp_path / "run", env__id="test/Needy-v0"), capsys)
    assert "test/Needy-v0 needs" in err and "pip install no-such-package" in err
    assert not (tmp_path / "run").exists()
