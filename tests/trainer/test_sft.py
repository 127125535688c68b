"""Whole runs of supervised fine-tuning: what interrupts one changes nothing in the end, and what a user can mend is one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_process import Mishap, command
from sft_runs import sft, sft_command
from words_world import contents, copy, draw_no_losses

from trainer.cli import main
from trainer.metrics import read_metrics
from trainer.run_folder import RunFolder

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
        Mishap("trainer.sft.sft_run:measure", 1, "interrupt"),
        Mishap("trainer.sft.trace:_Course._step", 2, "interrupt"),
        Mishap("trainer.sft.trace:_Course._step", 3, "kill"),
        Mishap("trainer.sft.sft_run:measure", 3, "kill"),
        Mishap("trainer.local_backend:save_sealed", 2, "kill"),
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
