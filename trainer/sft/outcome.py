"""What supervised fine-tuning ends with, as a record and on the screen: losses and success before and after, and what to type next."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from trainer.config import Config, PolicyConfig
from trainer.evaluate import MODES, proportion_json
from trainer.run_folder import RunFolder
from trainer.sft.sft_state import SftState


def sft_record(config: Config, state: SftState, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What goes into result.json; losses are in nats per token, None where none was measured."""
    losses = [record["loss"] for record in metrics if "loss" in record]
    validation = [loss for _, loss in state.validation]
    minutes = {phase: seconds / 60 for phase, seconds in state.seconds.items()}
    return {
        "benchmark": config.benchmark,
        "method": "sft",
        "seed": config.run.seed,
        "steps": state.step,
        "source": {"trace": config.sft.trace, "keep": None if config.sft.trace is None else config.sft.keep, **state.source},
        "loss": {"first": losses[0], "last": losses[-1]} if losses else None,
        "validation_loss": {"before": validation[0], "after": validation[-1], "best": min(validation)} if validation else None,
        "success": {mode: _success(state, mode) for mode in MODES},
        "by_type": {mode: state.evaluations[-1].modes[mode].as_json()["by_type"] for mode in MODES},
        "trained_tokens": {"unique": state.unique_tokens, "flattened": state.flattened_tokens},
        "minutes": minutes | {"total": sum(minutes.values())},
    }


def _success(state: SftState, mode: str) -> dict[str, Any]:
    before, after = state.evaluations[0].modes[mode].success, state.evaluations[-1].modes[mode].success
    return {"before": proportion_json(before), "after": proportion_json(after), "gain_points": 100 * (after.rate - before.rate)}


def print_sft_outcome(console: Console, config: Config, folder: RunFolder, state: SftState) -> None:
    """Print the table and the next commands."""
    first, last = state.evaluations[0], state.evaluations[-1]
    tasks = first.modes["sampled"].success.trials
    title = f"{config.benchmark}, seed {config.run.seed}: {tasks} held-out tasks of {config.env.eval_split}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("", "before", "after", "gain"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for mode in MODES:
        before, after = first.modes[mode].success, last.modes[mode].success
        table.add_row(mode, str(before), str(after), f"[bold]{100 * (after.rate - before.rate):+.1f} points[/bold]")
    console.print(table)
    if state.validation:
        before, after = state.validation[0][1], state.validation[-1][1]
        console.print(f"validation loss {before:.4f} before, {after:.4f} after, in nats per token", soft_wrap=True)
    sharing = state.flattened_tokens / state.unique_tokens if state.unique_tokens else 1.0
    shared = "" if config.sft.trace is None else f"; each shared token once: {sharing:.2f} times fewer than flattened"
    console.print(f"{state.step:,} steps on {state.unique_tokens:,} tokens{shared}", soft_wrap=True)
    console.print(f"run folder: {folder.path}   loss curve: {folder.loss_curve}", soft_wrap=True)
    console.print("next:", style="bold")
    console.print(f"  {_training(config, folder)}      go on with reinforcement learning", soft_wrap=True)
    console.print(f"  branchwise eval {shlex.quote(str(folder.path))} --tasks 500      measure it on more tasks", soft_wrap=True)


def _training(config: Config, folder: RunFolder) -> str:
    """The command that goes on from this policy, with the length of its sequences where that is not the usual one."""
    words = ["branchwise", "train", config.benchmark, "--policy.path", str(folder.path), "--warmstart.steps", "0"]
    if config.policy.max_length != PolicyConfig().max_length:
        words += ["--policy.max_length", str(config.policy.max_length)]
    return shlex.join(words)
