"""Household training from one start policy: what the main job starts from, or with `quick` a policy of its sizes that nobody taught."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from agents import build_policy, save_policy
from benchmarks.training.trees import SIZES, talk
from trainer.config import Config
from trainer.load_config import load_config
from trainer.run import train
from trainer.run_folder import RunFolder

_MAX_LENGTH = 1024


def start_policy(folder: Path, quick: bool) -> Path:
    """The policy folder; the main job's takes minutes, unless it was made before and is found in the cache."""
    if quick:
        tokenizer, _ = talk()
        save_policy(build_policy(tokenizer, **SIZES, max_length=_MAX_LENGTH, seed=0), tokenizer, folder)
        return folder
    nothing = {"run.out": folder, "run.iterations": 0, "evaluation.tasks": 1}
    return RunFolder(train(_config(nothing), resume=False, console=Console(quiet=True))).policy(0)


def job(folder: Path, start: Path, changes: Mapping[str, Any]) -> Config:
    """The main job from a start policy, with other settings where `changes` has them; its run folder is `folder`."""
    return _config({"policy.path": start, "policy.max_length": _MAX_LENGTH, "warmstart.steps": 0, "run.out": folder, **changes})


def _config(settings: Mapping[str, Any]) -> Config:
    return load_config("household", None, {name: str(value) for name, value in settings.items()})
