"""A world of words in which any text does something, so that a policy that knows nothing has something to learn; and tiny runs in it."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from envs.abilities import Abilities
from envs.registry import register_env
from envs.text_env import TextEnv
from trainer.checkpoint import CheckpointSeries
from trainer.cli import main
from trainer.config import Config
from trainer.load_config import load_config
from trainer.metrics import read_metrics
from trainer.progress import Progress
from trainer.run import train
from trainer.run_folder import RunFolder
from trainer.stop_request import StopRequest
from trainer.warm_start import WarmStart
from tree_rollout.trace import Trace

ENV = "test/Words-v0"
SETTINGS = {
    "env.id": ENV,
    "env.max_turns": "3",
    "policy.layers": "1",
    "policy.hidden": "16",
    "policy.heads": "2",
    "policy.kv_heads": "2",
    "policy.intermediate": "16",
    "policy.max_length": "128",
    "policy.vocab_size": "300",
    "warmstart.steps": "3",
    "warmstart.episodes": "6",
    "warmstart.tokens_per_step": "64",
    "warmstart.noise": "0.2",
    "rollout.tasks": "3",
    "rollout.roots": "2",
    "rollout.forks": "1",
    "rollout.max_new_tokens": "3",
    "optimizer.mini_batches": "2",
    "optimizer.lr": "0.01",
    "evaluation.tasks": "2",
    "evaluation.every": "2",
    "run.shards": "2",
    "run.workers": "1",
    "run.iterations": "2",
    "run.checkpoint_every": "1",
}
"""The smallest run in which everything happens: two shards of unequal size, forks, two optimizer steps an iteration."""


EXPERT = ("wait", "box", "go", "a")
"""What solves the task at once, by the number modulo 4."""


class WordsEnv(TextEnv):
    """Every action adds its length to a number; the task is solved when four divides it. Three divides the length of an invalid action.

    Args:
        start: added to the first number.
        fault: what goes wrong, with actions of a policy only: `step` raises where the length leaves 1 when divided by 4, `train` at
            every step of training, `exit` ends the process, `hang` never answers; `reset` raises at every reset of an evaluation.
    """

    def __init__(self, split: str = "train", max_turns: int = 3, start: int = 0, fault: str = "") -> None:
        super().__init__()
        self.split, self.max_turns, self.start, self.fault = split, max_turns, start, fault
        self.number = self.turns = 0
        self.step_deadline_s = 0.5 if fault == "hang" else self.step_deadline_s

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if self.fault == "reset" and self.split != "train":
            raise ValueError("no words today")
        self.number, self.turns = self.start + int(self.np_random.integers(100)) + (self.split == "train"), 0
        return self.see(), {"task_type": "odd" if self.number % 2 else "even"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.fault and action not in (*EXPERT, *self.admissible_actions()):
            self.fail(action)
        self.number, self.turns = self.number + len(action), self.turns + 1
        solved = self.number % 4 == 0
        return self.see(), float(solved), solved, self.turns >= self.max_turns, {"valid": len(action) % 3 != 0, "success": solved}

    def fail(self, action: str) -> None:
        if self.fault == "hang":
            time.sleep(1000)
        if self.fault == "exit":
            os.write(2, b"no words left\ngood bye\n")
            os._exit(7)
        if (self.fault == "train" and self.split == "train") or (self.fault == "step" and len(action) % 4 == 1):
            raise ValueError("out of words")

    def see(self) -> str:
        return f"You have box {self.number % 4}."

    def snapshot(self) -> Any:
        return self.number, self.turns

    def restore(self, snapshot: Any) -> None:
        self.number, self.turns = snapshot

    def state_signature(self) -> str:
        return str(self.number % 4)

    def admissible_actions(self) -> list[str]:
        return ["go", "take", "wait here"]

    def expert_action(self) -> str:
        return EXPERT[self.number % 4]

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        return (lambda: "wait here") if rng.random() < habits.get("lazy", 0.0) else self.expert_action


ABILITIES = Abilities(fork="exact", admissible=True, expert=True)
register_env(ENV, WordsEnv, description="words", abilities=ABILITIES, splits=("train", "valid_unseen"), max_turns=3)


def overrides(out: Path, changes: dict[str, Any] | None = None) -> dict[str, str]:
    """The tiny run's settings, some changed, as the command line gives them; None leaves one out."""
    chosen = {**SETTINGS, "run.out": str(out), **(changes or {})}
    return {name: str(value) for name, value in chosen.items() if value is not None}


def config_of(out: Path, changes: dict[str, Any] | None = None) -> Config:
    return load_config("household", None, overrides(out, changes))


def command_of(out: Path, *words: str, **changes: Any) -> list[str]:
    """The command line of a tiny run; a keyword such as `run__seed` changes the setting `run.seed`."""
    given = overrides(out, {name.replace("__", "."): value for name, value in changes.items()})
    return ["train", "household", *words, *(word for name, value in given.items() for word in (f"--{name}", value))]


def draw_nothing(points: Any, path: Path, **options: Any) -> None:
    """Stands in for `learning_curve`."""
    path.write_bytes(b"a curve")


def draw_no_losses(metrics: Any, evaluations: Any, path: Path, **options: Any) -> None:
    """Stands in for `loss_curve`."""
    path.write_bytes(b"a curve")


def run(out: Path, changes: dict[str, Any] | None = None, *, resume: bool = False) -> RunFolder:
    """A tiny run, in this process."""
    return RunFolder(train(config_of(out, changes), resume=resume, console=Console(quiet=True)))


def start_policy_of(config: Config) -> Path:
    """Where the start policy of a run is kept."""
    return WarmStart(config).folder


def held_start_policy(config: Config) -> AbstractContextManager[Any]:
    """Keeps other runs from making this start policy."""
    return WarmStart(config).held(Progress(Console(quiet=True)), StopRequest())


def copy(folder: RunFolder, to: Path) -> RunFolder:
    shutil.copytree(folder.path, to)
    return RunFolder(to)


def weights(folder: RunFolder) -> bytes:
    """The newest checkpoint's weights."""
    checkpoint = CheckpointSeries(folder.checkpoints).newest()
    assert checkpoint is not None
    return checkpoint.tensors["weights"].numpy().tobytes()


def trees(folder: RunFolder) -> str:
    """The digest of all that was recorded."""
    with Trace.open(folder.trace, readonly=True) as trace:
        return trace.content_digest()


def metrics(folder: RunFolder) -> list[dict[str, Any]]:
    """The metrics without times."""
    timed = {"seconds", "waiting", "phase_seconds", "tokens_per_second"}
    return [{name: value for name, value in record.items() if name not in timed} for record in read_metrics(folder.metrics)]


def contents(path: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def assert_same_run(one: RunFolder, other: RunFolder) -> None:
    """Weights, trees, metrics, policies and figures are equal; only times may differ."""
    assert weights(one) == weights(other)
    assert trees(one) == trees(other)
    assert metrics(one) == metrics(other)
    first, second = CheckpointSeries(one.checkpoints).newest(), CheckpointSeries(other.checkpoints).newest()
    assert first is not None and second is not None
    timed = {"seconds", "warm_start"}
    assert {k: v for k, v in first.state.items() if k not in timed} == {k: v for k, v in second.state.items() if k not in timed}
    assert contents(one.path / "policies") == contents(other.path / "policies")


if __name__ == "__main__":
    # A program of its own, whose processes know this world because they import it as their main module.
    sys.exit(main())
