"""`branchwise train --dry-run`: a run is built without its weights, and what it would take is added up. Nothing is written."""

import json
from contextlib import nullcontext

from rich.console import Console

from trainer.config import Config
from trainer.dry_run.estimate import estimate
from trainer.dry_run.machine import machine
from trainer.dry_run.remedy import remedy
from trainer.dry_run.report import as_json, print_estimate, verdict
from trainer.dry_run.requirements import requirements


def dry_run(
    config: Config, console: Console, *, gpu_gib: float | None = None, gpus_per_node: int | None = None, to_json: bool = False
) -> int:
    """Print the estimate and the verdict; returns 0 where the run fits, else 1."""
    on = machine(gpu_gib, gpus_per_node)
    with nullcontext() if to_json else console.status("building everything but the weights"):
        result = estimate(config, on)
        needed = requirements(config, result.architecture)
        change = None if result.fits else remedy(result, on)
    if to_json:
        console.print(json.dumps(as_json(result, needed, change, on), indent=1), markup=False, soft_wrap=True)
    else:
        print_estimate(result, needed, console)
        style = "bold green" if result.fits else "bold red"
        console.print(verdict(result, change), style=style, markup=False, soft_wrap=True)
    return 0 if result.fits else 1
