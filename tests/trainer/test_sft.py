"""Whole runs of supervised fine-tuning: what interrupts one changes nothing in the end, and what a user can mend is one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_process import Mishap, command
from sft_runs import sft, sft_command
from words_world import ENV, command_of, contents, copy, draw_no_losses, run

from trainer.cli import main
from trainer.metrics import read_metrics
from trainer.played_episode import PlayedEpisode, open_record
from trainer.run_folder import RunFolder
from trainer.sft.sft_config import load_sft_config
from tree_rollout.trace import Trace

pytestmark = pytest.mark.usefixtures("no_curves")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence with which a command line ends."""
    capsys.readouterr()
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("branchwise: ") and err.count("\n") == 1
    return err


def result(folder: RunFolder) -> dict[str, Any]:
    return {name: value for name, value in json.loads(folder.result.read_text()).items() if name != "minutes"}


def assert_same(one: RunFolder, other: RunFolder) -> None:
    assert contents(one.path / "policies") == contents(other.path / "policies")
    assert one.metrics.read_bytes() == other.metrics.read_bytes()
    assert result(one) == result(other)


@pytest.fixture(scope="module")
def taught(finished: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Fine-tuned on the tiny run's best rollouts; not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.sft.fine_tune.loss_curve", draw_no_losses)
        return sft(tmp_path_factory.mktemp("taught") / "run", finished.path)


def test_a_run_says_what_it_did(taught: RunFolder, finished: RunFolder) -> None:
    said, records = result(taught), read_metrics(taught.metrics)
    assert [record["iteration"] for record in records] == list(range(said["steps"] + 1))
    assert said["source"]["kept"] == 6 and said["source"]["held_out"] >= 1 and said["source"]["re_encoded_turns"] == 0
    assert said["validation_loss"] == {
        "before": records[0]["validation_loss"],
        "after": records[-1]["validation_loss"],
        "best": min(record["validation_loss"] for record in records if "validation_loss" in record),
    }
    assert said["loss"] == {"first": records[1]["loss"], "last": records[-1]["loss"]}
    assert said["trained_tokens"]["unique"] < said["trained_tokens"]["flattened"]
    assert taught.policies() == [0, said["steps"]]
    last = max(finished.policies())
    assert contents(taught.policy(0)) == contents(finished.policy(last)), "it goes on from the run's last policy"


def test_one_seed_is_one_run(taught: RunFolder, finished: RunFolder, tmp_path: Path) -> None:
    assert_same(taught, sft(tmp_path / "again", finished.path))
    other = sft(tmp_path / "other", finished.path, {"run.seed": 1})
    assert contents(other.path / "policies") != contents(taught.path / "policies")


@pytest.mark.parametrize(
    "mishap",
    [
        Mishap("trainer.sft.trace:_Course._step", 2, "interrupt"),
        Mishap("trainer.sft.trace:_Course._step", 3, "kill"),
        Mishap("trainer.sft.sft_run:measure", 3, "kill"),
    ],
    ids=lambda mishap: f"{mishap.function}-{mishap.call}",
)
def test_interrupt_and_resume_is_the_same_run(taught: RunFolder, finished: RunFolder, tmp_path: Path, mishap: Mishap) -> None:
    ended = command(sft_command(tmp_path / "run", finished.path), mishap)
    assert ended.code == (130 if mishap.what == "interrupt" else -9), ended.err
    if mishap.what == "interrupt":
        assert ended.err == "branchwise: stopped by Ctrl-C; everything so far is on disk, and the same command with --resume goes on\n"
    assert_same(taught, sft(tmp_path / "run", finished.path, resume=True))


def test_resume_of_a_finished_run_changes_nothing(taught: RunFolder, finished: RunFolder, tmp_path: Path) -> None:
    copied = copy(taught, tmp_path / "run")
    sft(copied.path, finished.path, resume=True)
    assert_same(taught, copied)


def test_another_trace_on_resume_is_refused(
    taught: RunFolder, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, begun = copy(finished, tmp_path / "source"), tmp_path / "run"
    sft(begun, source.path)
    source.trace.write_bytes(run(tmp_path / "other", {"run.seed": 1}).trace.read_bytes())
    before = contents(begun)
    assert "is not what it was when" in refused(sft_command(begun, source.path, "--resume"), capsys)
    assert contents(begun) == before
    assert "holds a run already; add --resume" in refused(sft_command(begun, source.path), capsys)
    assert "was started with sft.epochs = 2" in refused(sft_command(begun, source.path, "--resume", sft__epochs=3), capsys)


# ---------------------------------------------------------------------- what comes before and after it


def test_the_demonstrators_imitation_is_the_warm_start_of_train(finished: RunFolder, tmp_path: Path) -> None:
    folder = sft(tmp_path / "run")
    assert folder.policies() == [0, 3]
    assert (folder.policy(3) / "model.safetensors").read_bytes() == (finished.policy(0) / "model.safetensors").read_bytes()
    records, said = read_metrics(folder.metrics), result(folder)
    assert [record["iteration"] for record in records] == [0, 1, 2, 3] and all(record["loss"] > 0 for record in records[1:])
    assert said["validation_loss"]["after"] < said["validation_loss"]["before"]
    assert said["source"] == {"trace": None, "keep": None, "episodes": 6, "held_out": 1}


def test_an_interrupted_imitation_of_the_demonstrator_goes_on(finished: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sft(tmp_path / "whole")
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    ended = command(sft_command(tmp_path / "run", None), Mishap("trainer.warm_start:_Teacher.update", 2, "interrupt"))
    assert ended.code == 130
    assert_same(whole, sft(tmp_path / "run", resume=True))


def test_reinforcement_learning_and_evaluation_go_on_from_it(taught: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {f"policy.{name}": None for name in ("layers", "hidden", "heads", "kv_heads", "intermediate", "vocab_size")}
    trained = run(tmp_path / "run", {**sizes, "policy.path": taught.path, "warmstart.steps": 0, "run.iterations": 0})
    last = taught.policy(taught.policies()[-1])
    assert (trained.policy(0) / "model.safetensors").read_bytes() == (last / "model.safetensors").read_bytes()
    assert main(["eval", str(taught.path), "--tasks", "3"]) == 0
    assert f"policy of iteration {taught.policies()[-1]}: 3 tasks" in capsys.readouterr().out
    assert main(["health", str(taught.path)]) == 0


def test_it_says_what_to_type_next(taught: RunFolder, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy(taught, tmp_path / "run")
    assert main(sft_command(folder.path, finished.path, "--resume")) == 0
    said = capsys.readouterr().out
    assert f"branchwise train household --policy.path {folder.path} --warmstart.steps 0 --policy.max_length 128" in said
    assert f"branchwise eval {folder.path}" in said
    assert "6 of 18 recorded rollouts kept" in said


def test_what_was_played_can_be_learned_from(finished: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "played.sqlite"
    for seed in range(3):
        words = ["play", ENV, "--seed", str(seed), "--record", str(file)]
        assert main([*words, "--policy", "expert"]) == 0
    typed = iter(["go", "", "wait here", "wait here", "go"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    main(["play", ENV, "--seed", "9", "--record", str(file)])  # Left after one turn, unless that solved it.
    with Trace.open(file, readonly=True) as trace:
        trees = [trace.tree(summary.id) for summary in trace.trees()]
    assert all(tree.turns[-1].stop_reason is not None and tree.env_kwargs == {"split": "train"} for tree in trees)
    folder = sft(tmp_path / "run", file, {"sft.keep": "successful", "policy.path": finished.path, "policy.max_length": 128})
    said = result(folder)["source"]
    assert said["kept"] == len(trees) >= 3 and said["re_encoded_turns"] == sum(len(tree.turns) for tree in trees)


@pytest.mark.slow
def test_successful_rollouts_of_a_weak_policy_make_a_better_one(tmp_path: Path) -> None:
    """Its teacher was lazy in most episodes; what it got right by itself is enough to do it more often."""
    weak = {
        "env.max_turns": 1, "policy.hidden": 32, "policy.intermediate": 64, "rollout.tasks": 60, "rollout.roots": 4, "rollout.forks": 0,
        "rollout.branching.rule": "none", "rollout.max_new_tokens": 8, "credit.method": "grpo", "optimizer.lr": 1e-9,
        "warmstart.episodes": 300, "warmstart.steps": 120, "warmstart.tokens_per_step": 300, "warmstart.noise": 0.0,
        "warmstart.habits.lazy": 0.7, "run.iterations": 1, "evaluation.tasks": 1,
    }  # fmt: skip
    recorded = run(tmp_path / "weak", weak)
    changes = {
        "env.max_turns": 1, "rollout.max_new_tokens": 8, "sft.keep": "successful", "sft.epochs": 6, "sft.tokens_per_step": 400,
        "optimizer.lr": 0.003, "evaluation.tasks": 200,
    }  # fmt: skip
    said = result(sft(tmp_path / "run", recorded.path, changes))
    before, after = (said["success"]["sampled"][when] for when in ("before", "after"))
    assert after["low"] > before["high"], "more than chance"
    assert said["validation_loss"]["after"] < said["validation_loss"]["before"]


# ---------------------------------------------------------------------- what can be mended


def failed_trace(path: Path, action: str = "go") -> Path:
    """A trace of one played episode that solved nothing."""
    played = PlayedEpisode(ENV, 3, {"split": "train"}, "human")
    played.add(("You have box 1.", "1"), action, (0.0, False, True, {}), "3")
    with open_record(path) as trace:
        assert played.append_to(trace) == 1
    return path


def test_what_is_no_source_of_rollouts(taught: RunFolder, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, text, damaged = tmp_path / "run", tmp_path / "notes.txt", copy(finished, tmp_path / "damaged")
    text.write_text("no trace at all, but a text of some length\n" * 100)
    content = bytearray(damaged.trace.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = bytes(4096)
    damaged.trace.write_bytes(content)
    empty = tmp_path / "empty.sqlite"
    Trace.create(empty, {}).close()
    policy = {"policy__path": finished.path}
    for source, given, words in (
        (tmp_path / "nowhere", {}, "is no run folder"),
        (taught.path, {}, "has no trace.sqlite, so nothing is recorded there"),
        (text, policy, "notes.txt"),
        (damaged.path, {}, "trace.sqlite"),
        (empty, policy, "holds no rollout"),
        (finished.path, {"env__id": "branchwise/Household-v0"}, f"holds rollouts of {ENV}, and this is about branchwise/Household-v0"),
        (failed_trace(tmp_path / "failed.sqlite"), {**policy, "sft__keep": "successful"}, "none of the 1 rollouts in"),
        (tmp_path / "failed.sqlite", {**policy, "evaluation__seed": 3, "env__eval_split": "train"}, "are on tasks that held-out success"),
        (failed_trace(tmp_path / "two.sqlite", "one\ntwo"), policy, "cannot write the action 'one\\ntwo'"),
    ):
        assert words in refused(sft_command(out, source, **given), capsys), words
        assert not list(out.rglob("*.safetensors")) and not (out / "policies").exists()


@pytest.mark.parametrize(
    ("source", "changes", "words"),
    [
        (True, {"credit__method": "grpo"}, "credit.method is a setting of reinforcement learning and has no effect on sft"),
        (True, {"rollout__roots": 3}, "rollout.roots is a setting of reinforcement learning"),
        (True, {"run__iterations": 3}, "run.iterations is a setting of reinforcement learning"),
        (True, {"warmstart__steps": 3}, "warmstart.steps has no effect on recorded rollouts and a policy that is there"),
        (False, {"optimizer__lr": 0.1}, "optimizer.lr has no effect on the demonstrator's imitation"),
        (False, {"sft__epochs": 3}, "sft.epochs has no effect without recorded rollouts"),
        (False, {"warmstart__steps": 0}, "warmstart.steps 0 leaves no step"),
        (False, {"env__kwargs__split": "train"}, "env.kwargs.split would overrule other settings"),
    ],
)
def test_settings_without_effect_are_refused(
    source: bool, changes: dict[str, Any], words: str, finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(sft_command(tmp_path / "run", finished.path if source else None, **changes), capsys)
    assert not (tmp_path / "run").exists()


def test_options_are_short_for_settings(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--keep top:1 and --sft.keep top:6 contradict" in refused(
        sft_command(tmp_path / "run", finished.path, "--keep", "top:1"), capsys
    )
    assert "sft needs a benchmark" in refused(["sft"], capsys)
    assert "sft.trace has no effect on train" in refused(command_of(tmp_path / "run", sft__trace="x", sft__epochs=3), capsys)
    config = load_sft_config("household", None, {"sft.trace": str(finished.path), "env.id": ENV, "run.seed": "3"})
    assert config.folder == Path("runs/household-sft-seed3")
    assert config.policy.path == str(finished.path) and config.policy.max_length == 128, "the policy of the recorded run"
