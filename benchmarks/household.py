"""The main job, whole: household training for several seeds, with success before and after on the held-out rooms, and what it took.

    python -m benchmarks.household --out benchmarks/results/household.json

Every seed is a run of its own through the command line, as a user would start it. The start policy is made by the first run and found
in the cache by the others; its minutes are counted in every total. A run folder that is finished already is read, not run again.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Row, report

_QUICK = [
    *("--warmstart.steps", "20", "--warmstart.episodes", "60", "--run.iterations", "2", "--evaluation.every", "1"),
    *("--rollout.tasks", "4", "--rollout.roots", "2", "--rollout.forks", "2", "--evaluation.tasks", "10"),
]
"""The same job on less: nothing is learned in so short a time, but every part of it runs."""


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing, then print and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds to train (default: 0 1 2)")
    parser.add_argument("--runs", type=Path, default=Path("runs/benchmark"), help="folder for the runs (default: runs/benchmark)")
    parser.add_argument("--quick", action="store_true", help="one seed of a job cut down to under a minute")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the rows and a description of the machine there")
    options = parser.parse_args(given)
    seeds = options.seeds[:1] if options.quick else options.seeds
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) if options.quick else options.runs
        results = [_run(runs / f"seed{seed}", seed, options.quick) for seed in seeds]
    report("household", rows(results), quick=options.quick, out=options.out)


def _run(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    """The result of one seed's run, which is started, or gone on with, where it is not finished."""
    if not (folder / "result.json").is_file():
        begun = ["--resume"] if (folder / "config.json").is_file() else []
        command = [sys.executable, "-m", "trainer", "train", "household", "--seed", str(seed), "--out", str(folder), *begun]
        subprocess.run([*command, *(_QUICK if quick else [])], check=True)
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def rows(results: Sequence[dict[str, Any]]) -> list[Row]:
    """One row per mode and seed, then the means over seeds, then what the runs took."""
    found: list[Row] = []
    for mode in ("sampled", "greedy"):
        shares = [result["success"][mode] for result in results]
        for result, share in zip(results, shares, strict=True):
            before, after = share["before"], share["after"]
            note = (
                f"before {_share(before)}, after the last iteration {_share(after)}, {before['tasks']} tasks, "
                f"{result['generated_tokens']:,} tokens generated"
            )
            found.append(_success(f"{mode} success, seed {result['seed']}", share["mean_of_last_3"], before["rate"], note))
        after, before = (np.array([share[name] for share in shares]) for name in ("mean_of_last_3", "before"))
        starts = np.array([start["rate"] for start in before])
        note = f"gain {100 * (after - starts).mean():+.1f} points; each seed is the mean of its last 3 evaluations"
        found.append(_success(f"{mode} success, mean of {len(shares)} seeds", float(after.mean()), float(starts.mean()), note))
    for result in results:
        spent = ", ".join(f"{phase} {minutes:.1f}" for phase, minutes in sorted(result["minutes"].items()) if phase != "total")
        made = result["warm_start"]["minutes"]
        total = result["minutes"]["total"] + made
        note = f"of it warm start {made:.1f} (made once, shared by the seeds), {spent}"
        found.append(Row(f"minutes, seed {result['seed']}", total, "min", note=note))
    flattened, unique = (sum(result["trained_tokens"][name] for result in results) for name in ("flattened", "unique"))
    if unique:
        note = "tokens that training computes, against the same rollouts without sharing prefixes"
        found.append(Row("trained tokens", unique, "tokens", flattened, flattened / unique, note))
    return found


def _success(name: str, after: float, before: float, note: str) -> Row:
    return Row(name, after, "of tasks", before, after / before if before else None, note)


def _share(share: dict[str, Any]) -> str:
    return f"{100 * share['rate']:.1f} % [{100 * share['low']:.1f}, {100 * share['high']:.1f}]"


if __name__ == "__main__":
    main()
