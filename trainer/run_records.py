"""What a run recorded and where its checkpoint stands agree before it goes on: nothing later is kept, and nothing earlier is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from trainer.config import Config
from trainer.errors import RunFolderError
from trainer.metrics import MetricsLog, read_metrics
from trainer.progress import Progress
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The two files that grow with every iteration, open for writing."""

    metrics: MetricsLog
    trace: Trace

    @classmethod
    @contextmanager
    def begun(cls, folder: RunFolder, config: Config) -> Iterator[Self]:
        """Empty files for a run that begins; a trace that holds trees is an error."""
        _clear(folder)
        meta = {"config": config.model_dump(mode="json")}
        with Trace.create(folder.trace, meta) as trace, MetricsLog(folder.metrics) as metrics:
            metrics.rewind(0)
            yield cls(metrics, trace)

    @classmethod
    @contextmanager
    def resumed(cls, folder: RunFolder, config: Config, iteration: int, progress: Progress) -> Iterator[Self]:
        """The files as they were after `iteration`. All is read first; a damaged or incomplete file is an error and stays.

        In mode async later trees stay too: they cannot be sampled again, so they are learned from again as they are.
        """
        _check(folder, iteration, config.rollout.tasks, progress)
        with Trace.open(folder.trace) as trace, MetricsLog(folder.metrics) as metrics:
            if config.run.mode == "sync":
                trace.rewind(iteration + 1)
            metrics.rewind(iteration)
            yield cls(metrics, trace)


def _clear(folder: RunFolder) -> None:
    """Make room for a run that begins; what holds records is not removed."""
    if folder.trace.exists() and folder.trace.stat().st_size:
        with Trace.open(folder.trace, readonly=True) as trace:
            if next(trace.trees(), None) is not None:
                raise RunFolderError(
                    f"{folder.trace} holds trees, but there is no checkpoint to go on from; choose another folder with --out DIR"
                )
    for suffix in ("-wal", "-shm", ""):
        folder.trace.with_name(folder.trace.name + suffix).unlink(missing_ok=True)


def _check(folder: RunFolder, iteration: int, tasks: int, progress: Progress) -> None:
    """Raise where a record up to `iteration` is missing or cannot be read."""
    progress.stage("checking what was recorded", total=iteration)
    if not folder.trace.is_file():
        raise RunFolderError(f"{folder.trace} is missing, and {folder.path} cannot go on without it; put it back")
    records = [record for record in read_metrics(folder.metrics) if record["iteration"] <= iteration]
    counts = {record["iteration"]: record.get("trees", tasks) for record in records}
    if [record["iteration"] for record in records] != list(range(1, iteration + 1)):
        raise RunFolderError(f"{folder.metrics} lacks iterations up to {iteration}, and {folder.path} cannot go on without them")
    with Trace.open(folder.trace, readonly=True) as trace:
        for number in range(1, iteration + 1):
            found = [summary.id for summary in trace.trees(number)]
            for tree in found:
                trace.tree(tree)
                trace.advantages(tree)
            if len(found) != counts.get(number, tasks):
                raise RunFolderError(f"{folder.trace} lacks trees of iteration {number}, and {folder.path} cannot go on without them")
            progress.update(number)
