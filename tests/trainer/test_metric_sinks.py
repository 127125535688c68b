import io
import json
import shutil
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from words_world import command_of, config_of, run

from trainer.checkpoint import CheckpointSeries
from trainer.cli import main
from trainer.errors import MetricSinkError, RunFolderError
from trainer.metric_sinks import MetricSinks, table
from trainer.metric_sinks.flatten import flatten
from trainer.metrics import read_metrics
from trainer.run import train
from trainer.run_folder import RunFolder
from trainer.settings import settings

RECORDS = [{"iteration": step, "loss": 0.5 * step, "spent": {"roots": {"tokens": step}}, "kind": "text"} for step in (1, 2, 3)]


class Recorder:
    """A logger that keeps what it was given, and fails where it is told to."""

    def __init__(self, broken: Sequence[int] = (), stuck: bool = False) -> None:
        self.broken, self.stuck = broken, stuck
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.runs: list[Any] = []
        self.closed: list[bool] = []
        self.id = "seven"

    def open_sink(self, run: Any) -> "Recorder":
        self.runs.append(run)
        return self

    def log(self, step: int, figures: dict[str, float]) -> None:
        if step in self.broken:
            raise OSError(f"no line to the\nserver at {step}")
        self.rows.append((step, figures))

    def close(self, *, failed: bool) -> None:
        self.closed.append(failed)
        if self.stuck:
            raise OSError("stuck")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Stands in for TensorBoard."""
    sink = Recorder()
    monkeypatch.setattr("trainer.metric_sinks.sinks.opener", lambda name: sink.open_sink)
    return sink


def give(folder: Path, records: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]] = ()) -> list[str]:
    """Open the loggers with earlier records, and append others; what the user was told."""
    said: list[str] = []
    with MetricSinks.opened(["tensorboard"], folder, {}, before, said.append) as sinks:
        for record in records:
            sinks.append(record)
    return said


def test_nested_figures_get_one_level_of_names() -> None:
    record = {"a": 1, "b": {"c": 2.5, "d": {"e": np.float32(0.5)}}, "f": True, "text": "x", "list": [1], "none": None, "inf": float("inf")}
    assert flatten(record) == {"a": 1.0, "b/c": 2.5, "b/d/e": 0.5, "f": 1.0}


def test_each_iteration_is_a_step_given_once(recorder: Recorder, tmp_path: Path) -> None:
    assert give(tmp_path, RECORDS[:2]) == []
    assert recorder.rows == [(1, {"loss": 0.5, "spent/roots/tokens": 1.0}), (2, {"loss": 1.0, "spent/roots/tokens": 2.0})]
    # The run goes on from a checkpoint after iteration 1: iteration 2 is computed once more.
    give(tmp_path, RECORDS[1:], before=RECORDS[:1])
    assert [step for step, _ in recorder.rows] == [1, 2, 3]
    assert [run.id for run in recorder.runs] == [None, "seven"]
    assert recorder.closed == [False, False]


def test_what_a_logger_has_not_seen_it_gets_when_the_run_goes_on(recorder: Recorder, tmp_path: Path) -> None:
    give(tmp_path, RECORDS[2:], before=RECORDS[:2])
    assert [step for step, _ in recorder.rows] == [1, 2, 3]


def test_a_failing_logger_warns_once_and_gets_the_rest_later(recorder: Recorder, tmp_path: Path) -> None:
    recorder.broken = [2]
    said = give(tmp_path, RECORDS)
    assert len(said) == 1
    assert said[0].startswith("the logger tensorboard failed and gets no more metrics: no line to the server at 2; training goes on")
    assert [step for step, _ in recorder.rows] == [1]
    recorder.broken = []
    assert give(tmp_path, [], before=RECORDS) == []
    assert [step for step, _ in recorder.rows] == [1, 2, 3]


def test_a_logger_that_cannot_be_closed_warns(recorder: Recorder, tmp_path: Path) -> None:
    recorder.stuck = True
    assert len(give(tmp_path, RECORDS)) == 1


def test_a_logger_hears_of_a_run_that_failed(recorder: Recorder, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), MetricSinks.opened(["wandb"], tmp_path, {}, [], print):
        raise ZeroDivisionError
    assert recorder.closed == [True]


def test_a_logger_that_cannot_be_opened_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(run: Any) -> Any:
        raise ValueError("no key\nfor the server")

    monkeypatch.setattr("trainer.metric_sinks.sinks.opener", lambda name: refuse)
    opened = MetricSinks.opened(["wandb"], tmp_path, {}, [], print)
    with pytest.raises(MetricSinkError, match=r"the logger wandb cannot be opened: no key for the server; .*run\.loggers"), opened:
        pass


@pytest.mark.parametrize("text", ["{", "[]", '{"wandb": 3}', '{"wandb": {"step": "x", "id": null}}', '{"wandb": {"step": 1}}'])
def test_a_damaged_memory_is_one_sentence(recorder: Recorder, tmp_path: Path, text: str) -> None:
    (tmp_path / "loggers.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"loggers\.json is damaged; remove it"):
        give(tmp_path, RECORDS)


@pytest.mark.parametrize("name", table.LOGGERS)
def test_a_missing_package_is_one_sentence_before_anything_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    folder = tmp_path / "run"
    assert main(command_of(folder, run__loggers=f"[{name}]")) == 2
    said = capsys.readouterr()
    assert said.err == (
        f"branchwise: the logger '{name}' (setting run.loggers) needs the package {name}; type: pip install \"branchwise[{name}]\"\n"
    )
    assert not folder.exists()


def test_the_table_and_the_setting_name_the_same_loggers() -> None:
    assert settings()["run.loggers"].allowed == f"a list, each one of {', '.join(table.LOGGERS)}"


# ---------------------------------------------------------------------- the loggers themselves


def tensorboard_points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard's own reader finds."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


@pytest.mark.usefixtures("no_curves")
def test_tensorboard_shows_a_run_that_was_interrupted_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    changes = {"run.loggers": "[tensorboard]", "run.iterations": 2, "run.checkpoint_every": 1}
    folder = run(tmp_path / "run", changes)
    # As if it had been killed before the second iteration's checkpoint.
    newest = CheckpointSeries(folder.checkpoints).numbers()[-1]
    assert newest == 2
    for entry in folder.checkpoints.glob("*2*"):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    run(folder.path, {**changes, "run.iterations": 3}, resume=True)
    records, points = read_metrics(folder.metrics), tensorboard_points(folder.path)
    assert [step for step, _ in points["train_success"]] == [1, 2, 3]
    assert len(list((folder.path / "tensorboard").iterdir())) == 2
    for name in ("entropy", "spent/roots/tokens", "loss_objective"):
        wanted = [flatten(record)[name] for record in records]
        assert [value for _, value in points[name]] == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    assert "iteration" not in points


@pytest.mark.usefixtures("no_curves")
def test_loggers_are_free_to_change_on_resume_and_get_what_was_before(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    folder = run(tmp_path / "run")
    assert not (folder.path / "tensorboard").exists()
    assert not (folder.path / "loggers.json").exists()
    run(folder.path, {"run.loggers": "[tensorboard]"}, resume=True)
    assert [step for step, _ in tensorboard_points(folder.path)["entropy"]] == [1, 2]


def wandb_records(file: Path) -> Iterator[bytes]:
    """The records of a file that W&B keeps offline: LevelDB's log format after 7 bytes, blocks of 32 KiB with records cut at their ends."""
    content, place, record = file.read_bytes(), 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        if place + 7 + length > len(content):
            return  # It is still being written.
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the end of one
            yield record
            record = b""


def written_records(file: Path) -> list[Any]:
    """The records of a file that is whole: W&B's own process ends it with an exit record, on a busy machine after the run was finished."""
    from wandb.proto.wandb_internal_pb2 import Record

    until = time.monotonic() + 60
    while True:
        records = [Record.FromString(data) for data in wandb_records(file)]
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            return records
        assert time.monotonic() < until, f"{file} has not been ended"
        time.sleep(0.1)


def wandb_rows(folder: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """For each part of the run that W&B kept offline, its id and the rows of its history."""
    parts = []
    for file in sorted((folder / "wandb").glob("offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime):
        rows, name = [], ""
        for record in written_records(file):
            if record.WhichOneof("record_type") == "history":
                items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
                rows.append(items)
            elif record.WhichOneof("record_type") == "run":
                name = record.run.run_id
        parts.append((name, rows))
    return parts


@pytest.mark.slow
def test_wandb_keeps_one_run_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    said: list[str] = []
    plain = config_of(tmp_path / "run").model_dump(mode="json")
    for before, new in (([], RECORDS[:2]), (RECORDS[:1], RECORDS[1:])):
        with MetricSinks.opened(["wandb"], tmp_path, plain, before, said.append) as sinks:
            for record in new:
                sinks.append(record)
    assert said == []
    known = json.loads((tmp_path / "loggers.json").read_text())["wandb"]
    parts = wandb_rows(tmp_path)
    assert [name for name, _ in parts] == [known["id"]] * 2
    rows = [row for _, part in parts for row in part]
    assert [(row["_step"], row["loss"], row["spent/roots/tokens"]) for row in rows] == [(1, 0.5, 1.0), (2, 1.0, 2.0), (3, 1.5, 3.0)]


def test_trackio_is_called_through_its_three_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Any]] = []
    fake = ModuleType("trackio")
    fake.init = lambda **given: calls.append(("init", (given["project"], given["name"], given["resume"])))  # type: ignore[attr-defined]
    fake.log = lambda figures, step: calls.append(("log", (step, figures["loss"])))  # type: ignore[attr-defined]
    fake.finish = lambda: calls.append(("finish", None))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.delitem(sys.modules, "trainer.metric_sinks.trackio_sink", raising=False)
    with MetricSinks.opened(["trackio"], tmp_path, {}, RECORDS[:1], print):
        pass
    monkeypatch.delitem(sys.modules, "trainer.metric_sinks.trackio_sink")
    assert calls == [("init", ("branchwise", tmp_path.name, "allow")), ("log", (1, 0.5)), ("finish", None)]


@pytest.mark.usefixtures("no_curves")
def test_a_run_goes_on_when_its_logger_fails(tmp_path: Path, recorder: Recorder) -> None:
    recorder.broken = [1]
    said = io.StringIO()
    folder = RunFolder(train(config_of(tmp_path / "run", {"run.loggers": "[tensorboard]"}), resume=False, console=Console(file=said)))
    assert len(read_metrics(folder.metrics)) == 2
    assert said.getvalue().count("the logger tensorboard failed") == 1
