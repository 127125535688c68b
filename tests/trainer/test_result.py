import errno
import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from trainer.config import Config
from trainer.errors import RunFolderError
from trainer.evaluate import Evaluation, Measurement
from trainer.outcome import print_outcome
from trainer.result import last_mean, result_record
from trainer.run_folder import RunFolder
from trainer.run_state import RunState
from trainer.statistics import Proportion, wilson
from trainer.warm_start import WarmStartReport
from trainer.whole_file import write_json


def measured(won: int, of: int = 10, *, failed: bool = False) -> Measurement:
    kinds = {"heat": Proportion(won // 2, of // 2), "cool": Proportion(0, 0) if failed else Proportion(won - won // 2, of - of // 2)}
    return Measurement(Proportion(won, of), kinds, 4.0, 0.25, 0)


def state_of(*won: int) -> RunState:
    evaluations = [Evaluation(10 * n, 1000 * n, {"sampled": measured(w), "greedy": measured(w + 1)}) for n, w in enumerate(won)]
    state = RunState(iteration=30, version=60, generated_tokens=3000, env_steps=900, unique_tokens=500, flattened_tokens=800)
    state.evaluations, state.seconds, state.branches, state.rollouts = evaluations, {"rollout": 60.0, "training": 30.0}, 5, 50
    state.stop_reasons.update({"terminated": 40, "env_error": 2})
    return state


def test_the_record_holds_what_the_design_asks_for() -> None:
    config = Config(benchmark="household")
    record = result_record(config, state_of(2, 4, 6, 8, 7), WarmStartReport(1.5, 100, 5000, 0.5))
    assert (record["benchmark"], record["method"], record["seed"], record["iterations"]) == ("household", config.credit.method, 0, 40)
    sampled = record["success"]["sampled"]
    low, high = wilson(2, 10)
    assert sampled["before"] == {"rate": 0.2, "low": low, "high": high, "successes": 2, "tasks": 10}
    assert sampled["after"]["rate"] == 0.7
    assert sampled["mean_of_last_3"] == pytest.approx(0.7)
    assert sampled["gain_points"] == pytest.approx(50)
    assert record["success"]["greedy"]["before"]["rate"] == 0.3
    assert (record["generated_tokens"], record["env_steps"]) == (3000, 900)
    assert record["trained_tokens"] == {"unique": 500, "flattened": 800}
    assert record["minutes"] == {"rollout": 1.0, "training": 0.5, "total": 1.5}
    assert record["failures"] == {"env_error": 2, "step_timeout": 0, "rollout_timeout": 0, "engine_error": 0}
    assert record["stop_reasons"] == {"terminated": 40, "env_error": 2}
    assert record["warm_start"] == {"minutes": 1.5, "steps": 100, "tokens": 5000, "final_loss": 0.5}
    assert [entry["iteration"] for entry in record["evaluations"]] == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(("won", "mean"), [((3,), 0.3), ((3, 5), 0.5), ((3, 5, 7), 0.6), ((3, 1, 5, 6, 7), 0.6)])
def test_the_start_is_no_part_of_the_mean_of_the_last(won: tuple[int, ...], mean: float) -> None:
    assert last_mean(state_of(*won).evaluations, "sampled") == pytest.approx(mean)


def test_the_outcome_is_told_with_what_to_type_next(tmp_path: Path) -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    state = state_of(2, 8)
    state.evaluations[-1].modes["sampled"].by_type["cool"] = Proportion(0, 0)
    print_outcome(console, Config(benchmark="household"), RunFolder(tmp_path), state)
    text = console.export_text()
    assert "20.0 %" in text
    assert "+60.0 points" in text
    assert "none tried" in text
    assert "nan" not in text
    assert f"branchwise replay {tmp_path}" in text
    assert f"branchwise eval {tmp_path}" in text
    assert "1.60 times fewer tokens than flattened" in text


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(RunFolderError, match=r"result\.json cannot be written: No space left on device"):
        write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]
