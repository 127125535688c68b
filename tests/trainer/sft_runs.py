"""Tiny runs of supervised fine-tuning in the world of words."""

from pathlib import Path
from typing import Any

import words_world
from rich.console import Console

from trainer.config import Config
from trainer.run_folder import RunFolder
from trainer.sft.fine_tune import fine_tune
from trainer.sft.sft_config import load_sft_config

SETTINGS = {
    name: words_world.SETTINGS[name]
    for name in ("env.id", "env.max_turns", "rollout.max_new_tokens", "evaluation.tasks", "run.shards", "run.workers")
}
OF_A_TRACE = {"optimizer.lr": "0.01", "optimizer.warmup_iterations": "0", "sft.tokens_per_step": "30", "sft.held_out_share": "0.3"}
OF_THE_EXPERT = {name: value for name, value in words_world.SETTINGS.items() if name.startswith(("policy.", "warmstart."))}


def settings_of(out: Path, trace: Path | None, changes: dict[str, Any] | None = None) -> dict[str, str]:
    """The settings as the command line gives them; None leaves one out."""
    rest = OF_THE_EXPERT if trace is None else {"sft.trace": str(trace), "sft.keep": "top:6", **OF_A_TRACE}
    chosen = {**SETTINGS, **rest, "run.out": str(out), **(changes or {})}
    return {name: str(value) for name, value in chosen.items() if value is not None}


def sft_config(out: Path, trace: Path | None, changes: dict[str, Any] | None = None) -> Config:
    return load_sft_config("household", None, settings_of(out, trace, changes))


def sft(out: Path, trace: Path | None = None, changes: dict[str, Any] | None = None, *, resume: bool = False) -> RunFolder:
    """A tiny run, in this process."""
    return RunFolder(fine_tune(sft_config(out, trace, changes), resume=resume, console=Console(quiet=True)))


def sft_command(out: Path, trace: Path | None, *words: str, **changes: Any) -> list[str]:
    """Its command line; a keyword such as `run__seed` changes the setting `run.seed`."""
    given = settings_of(out, trace, {name.replace("__", "."): value for name, value in changes.items()})
    return ["sft", "household", *words, *(word for name, value in given.items() for word in (f"--{name}", value))]
