"""What a run ends with on the screen: success before and after with intervals, by type of task, costs, and what to type next."""

from rich import box
from rich.console import Console
from rich.table import Table

from trainer.config import Config
from trainer.evaluate import MODES
from trainer.result import AVERAGED, last_mean
from trainer.run_folder import RunFolder
from trainer.run_state import RunState


def print_outcome(console: Console, config: Config, folder: RunFolder, state: RunState) -> None:
    """Print the tables and the next commands."""
    first = state.evaluations[0]
    tasks = first.modes["sampled"].success.trials
    title = f"{config.benchmark}, seed {config.run.seed}: {tasks} held-out tasks of {config.env.eval_split}"
    console.print(_by_mode(state, title))
    if first.modes["sampled"].by_type:
        console.print(_by_type(state))
    sharing = state.flattened_tokens / state.unique_tokens if state.unique_tokens else 1.0
    console.print(
        f"{state.generated_tokens:,} tokens generated in {state.rollouts:,} rollouts ({state.branches:,} of them forks), "
        f"{state.env_steps:,} environment steps; each shared token trained once: {sharing:.2f} times fewer tokens than flattened"
    )
    console.print(f"run folder: {folder.path}   learning curve: {folder.curve}", soft_wrap=True)
    console.print("next:", style="bold")
    console.print(f"  branchwise replay {folder.path}      execute a recorded tree again and verify every turn", soft_wrap=True)
    console.print(f"  branchwise eval {folder.path} --tasks 500      measure the trained policy on more tasks", soft_wrap=True)


def _by_mode(state: RunState, title: str) -> Table:
    """Success of each way to act."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for heading in ("before", "after", f"mean of last {AVERAGED}", "gain"):
        table.add_column(heading, justify="right", no_wrap=heading in ("before", "after", "gain"))
    first, last = state.evaluations[0], state.evaluations[-1]
    for mode in MODES:
        before, after, mean = first.modes[mode].success, last.modes[mode].success, last_mean(state.evaluations, mode)
        table.add_row(mode, str(before), str(after), f"{100 * mean:.1f} %", f"[bold]{100 * (mean - before.rate):+.1f} points[/bold]")
    return table


def _by_type(state: RunState) -> Table:
    """Success of sampled actions by type of task; there are too few tasks of one type for more than a first impression."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("sampled, by type of task", no_wrap=True)
    for heading in ("tasks", "before", "after", "gain"):
        table.add_column(heading, justify="right", no_wrap=True)
    first, last = state.evaluations[0].modes["sampled"].by_type, state.evaluations[-1].modes["sampled"].by_type
    for kind, before in first.items():
        after = last[kind]
        shares = [f"{100 * share.rate:.1f} %" if share.trials else "none tried" for share in (before, after)]
        gained = f"{100 * (after.rate - before.rate):+.1f} points" if before.trials and after.trials else ""
        table.add_row(kind, str(after.trials), *shares, gained)
    return table
