"""Measures a policy of a finished or stopped run; the run folder stays as it is."""

import torch
from rich.console import Console
from rich.table import Table

from trainer.config import Config
from trainer.errors import UsageError
from trainer.evaluate import MODES, Measurement, held_out_tasks, measure, task_types
from trainer.local_backend import local_backend
from trainer.opened_backend import check_engine
from trainer.progress import Progress
from trainer.run_folder import RunFolder

MOST_TASKS = 1_000_000
"""As for the setting `evaluation.tasks`."""


def evaluate_run(
    folder: RunFolder, *, split: str | None, tasks: int | None, seed: int | None, iteration: int | None, console: Console
) -> dict[str, Measurement]:
    """Measure a run's policy in every mode, print a table, and return what was measured.

    None takes the run's own evaluation split, number of tasks and seed, and its last policy.
    """
    torch.set_num_threads(1)
    if tasks is not None and tasks > MOST_TASKS:
        raise UsageError(f"--tasks {tasks} is more than {MOST_TASKS:,}, the most that one evaluation takes")
    if tasks == 0:
        raise UsageError("--tasks 0 measures nothing; name at least 1 task, or leave it out for the run's own number")
    config = folder.read_config()
    config = config.model_copy(update={"run": config.run.model_copy(update={"backend": "local"})})
    check_engine(config)
    number, policy = folder.chosen_policy(iteration)
    held_out = held_out_tasks(config, split, tasks, seed)
    kinds = task_types(held_out)
    measured: dict[str, Measurement] = {}
    with Progress(console) as progress:
        progress.stage("starting processes", total=1)
        with local_backend(config, policy, policy) as backend:
            progress.stage("evaluation", total=len(MODES))
            for done, mode in enumerate(MODES, 1):
                measured[mode] = measure(backend.rollout, config, held_out, kinds, mode, number, seed)
                progress.update(done, **{mode: measured[mode].success})
    _print(console, config, number, measured, split)
    return measured


def _print(console: Console, config: Config, iteration: int, measured: dict[str, Measurement], split: str | None) -> None:
    sampled = measured["sampled"]
    title = f"{config.benchmark}, policy of iteration {iteration}: {sampled.success.trials} tasks of {split or config.env.eval_split}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for mode in MODES:
        table.add_column(mode, justify="right")
    table.add_row("tasks solved", *(str(measured[mode].success) for mode in MODES))
    for kind in sampled.by_type:
        table.add_row(f"  {kind}", *(str(measured[mode].by_type[kind]) for mode in MODES))
    table.add_section()
    table.add_row("turns per task", *(f"{measured[mode].mean_turns:.1f}" for mode in MODES))
    table.add_row("invalid actions", *(f"{100 * measured[mode].invalid_share:.1f} %" for mode in MODES))
    table.add_row("failed rollouts", *(str(measured[mode].failures) for mode in MODES))
    console.print(table)
