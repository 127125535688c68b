"""Supervised fine-tuning is a run like any other: a folder with its settings, metrics and policies, which every other verb takes."""

from pathlib import Path

import torch
from rich.console import Console

from trainer.check_needs import check_needs
from trainer.check_settings import check_env_arguments
from trainer.config import Config
from trainer.errors import ConfigError
from trainer.metrics import read_metrics
from trainer.progress import Progress
from trainer.run_folder import RunFolder
from trainer.sft.demonstrator import imitate_demonstrator
from trainer.sft.loss_plot import loss_curve
from trainer.sft.outcome import print_sft_outcome, sft_record
from trainer.sft.recorded_run import RecordedRun
from trainer.sft.sft_run import SftRun
from trainer.sft.sft_state import SftState
from trainer.sft.trace import imitate_trace
from trainer.stop_request import StopRequest
from trainer.whole_file import write_json


def fine_tune(config: Config, *, resume: bool, console: Console) -> Path:
    """Fine-tune as the configuration's `sft` says and return the run folder; with `resume`, go on from the folder's newest checkpoint."""
    _check(config)
    recorded = RecordedRun.at(Path(config.sft.trace)) if config.sft.trace is not None else None
    torch.set_num_threads(1)
    folder = RunFolder(config.folder)
    with Progress(console) as progress, StopRequest(progress.say_stopping, config.run.grace_s) as stop, folder.held():
        folder.prepare(config, resume)
        run = SftRun(config, folder, progress, stop)
        if recorded is None:
            imitate_demonstrator(run, resume)
        else:
            imitate_trace(run, recorded, resume)
        progress.stage("writing the results", total=1)
        _write_results(config, folder, run.state)
    print_sft_outcome(console, config, folder, run.state)
    return folder.path


def _check(config: Config) -> None:
    """Refuse what leaves nothing to learn, or what this machine has nothing for."""
    check_needs(config)
    if config.run.backend != "local":
        raise ConfigError(f"sft computes in processes of this machine, and run.backend is {config.run.backend}; set it to local")
    check_env_arguments(config)
    if config.sft.trace is None and config.warmstart.steps == 0:
        raise ConfigError("warmstart.steps 0 leaves no step to imitate the demonstrator in; set it to 1 or more, or name a run: --from RUN")


def _write_results(config: Config, folder: RunFolder, state: SftState) -> None:
    metrics = read_metrics(folder.metrics)
    source = "the demonstrator" if config.sft.trace is None else f"{config.sft.keep} of {Path(config.sft.trace).name}"
    loss_curve(metrics, state.evaluations, folder.loss_curve, title=f"{config.benchmark}: imitation of {source}, seed {config.run.seed}")
    write_json(folder.result, sft_record(config, state, metrics))
