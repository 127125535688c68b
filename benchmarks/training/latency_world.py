"""A world whose steps take as long as chance says: what a browser, a sandbox or a network does to a rollout, and nothing else.

The draws are seeded by task and turn, so two runs over the same tasks wait for the same latencies.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from envs.abilities import Abilities
from envs.registry import register_env
from envs.text_env import TextEnv
from trainer.config import Config
from trainer.load_config import load_config
from trainer.metrics import read_metrics
from trainer.run import train
from trainer.run_folder import RunFolder

ENV = "bench/Latency-v0"
_TINY = {
    "policy.layers": "2",
    "policy.hidden": "64",
    "policy.heads": "2",
    "policy.kv_heads": "2",
    "policy.intermediate": "128",
    "policy.vocab_size": "300",
    "policy.max_length": "256",
    "warmstart.steps": "2",
    "warmstart.episodes": "4",
    "evaluation.tasks": "1",
    "evaluation.every": "1000",
    "run.checkpoint_every": "1000",
}


class LatencyEnv(TextEnv):
    """Any text adds its length to a number; a multiple of five solves the task. A step sleeps for a log-normal time.

    Args:
        median_s: half of the steps take longer than this many seconds; 0 for no latency.
        sigma: standard deviation of the logarithm; with 1.5, one step in a hundred takes 33 times the median.
    """

    def __init__(self, split: str = "train", max_turns: int = 4, median_s: float = 0.0, sigma: float = 1.5) -> None:
        super().__init__()
        self.split, self.max_turns, self.median_s, self.sigma = split, max_turns, median_s, sigma
        self.number = self.turns = 0
        self._seed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed, self.turns = seed or 0, 0
        # So that no split has the tasks of another.
        self.number = int(self.np_random.integers(100)) + (self.split != "train")
        return self._say(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.median_s:
            draw = np.random.default_rng([self._seed, self.turns, self.number]).normal()
            time.sleep(self.median_s * float(np.exp(self.sigma * draw)))
        self.number, self.turns = self.number + len(action), self.turns + 1
        solved = self.number % 5 == 0
        return self._say(), float(solved), solved, self.turns >= self.max_turns, {"valid": True, "success": solved}

    def snapshot(self) -> Any:
        return self._seed, self.number, self.turns

    def restore(self, snapshot: Any) -> None:
        self._seed, self.number, self.turns = snapshot

    def state_signature(self) -> str:
        return f"{self.number % 5}/{self.turns}"

    def admissible_actions(self) -> list[str]:
        return ["a", "ab", "abc", "abcd", "abcde"]

    def expert_action(self) -> str:
        return "a" * (5 - self.number % 5)

    def _say(self) -> str:
        return f"number {self.number % 5}"


register_env(
    ENV,
    LatencyEnv,
    description="steps that take their time",
    abilities=Abilities(fork="exact", admissible=True, expert=True),
    splits=("train", "valid"),
    max_turns=4,
)


def config_of(folder: Path, changes: dict[str, Any]) -> Config:
    """A run in this world, on a start policy of its own."""
    world = {"env.id": ENV, "env.eval_split": "valid", "env.max_turns": "4", "run.out": str(folder)}
    return load_config("household", None, {**_TINY, **world, **{name: str(value) for name, value in changes.items()}})


def measured_run(changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of each iteration of a run. Its start policy is made first, in a world without latency."""
    sizes = {name: value for name, value in changes.items() if name.startswith("policy.")}
    with tempfile.TemporaryDirectory() as scratch:
        start = train(config_of(Path(scratch) / "start", {**sizes, "run.iterations": 0}), resume=False, console=Console(quiet=True))
        chosen = {name: value for name, value in changes.items() if name not in sizes}
        given = {"policy.path": RunFolder(start).policy(0), "policy.max_length": 256, "warmstart.steps": 0, **chosen}
        world = {name: value for name, value in _TINY.items() if name.startswith(("evaluation.", "run."))}
        world |= {"env.id": ENV, "env.eval_split": "valid", "env.max_turns": "4", "run.out": str(Path(scratch) / "run")}
        config = load_config("household", None, {**world, **{name: str(value) for name, value in given.items()}})
        return read_metrics(RunFolder(train(config, resume=False, console=Console(quiet=True))).metrics)
