"""Every logger gets every iteration once and in order, however often the run is interrupted, and none can stop the run.

What each was given is kept in the run folder. A record that a logger has seen is never given again, although a resumed run computes it
again; what it has not seen, because it was added or had failed, it gets from the metrics file when the run goes on.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from trainer.errors import MetricSinkError, RunFolderError
from trainer.metric_sinks.flatten import flatten
from trainer.metric_sinks.sink import Sink, SinkRun
from trainer.metric_sinks.table import opener
from trainer.whole_file import write_json

_MEMORY = "loggers.json"
"""In the run folder: by logger, the last iteration that it was given (`step`) and its `id` of the run."""


class MetricSinks:
    """The open loggers of a run; `say` shows a sentence to the user."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._path = folder / _MEMORY
        self._say = say
        self._memory = _read(self._path)
        self._open: dict[str, Sink] = {}

    @classmethod
    @contextmanager
    def opened(
        cls,
        names: Sequence[str],
        folder: Path,
        config: Mapping[str, Any],
        records: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> Iterator[Self]:
        """The loggers `names` (twice is once), each given those of `records` that it has not seen; closed at the end.

        Raises `MetricSinkError` where one cannot be opened.
        """
        sinks = cls(folder, say)
        failed = True
        try:
            for name in dict.fromkeys(names):
                sinks._begin(name, folder, config)
            for record in records:
                sinks.append(record)
            yield sinks
            failed = False
        finally:
            sinks._close(failed)

    def append(self, record: Mapping[str, Any]) -> None:
        """Give a record to every logger that has not seen its iteration; one that fails is left out from now on, with one warning."""
        step = record["iteration"]
        figures = flatten({name: value for name, value in record.items() if name != "iteration"})
        for name, sink in list(self._open.items()):
            before = self._memory[name]
            if step <= before["step"]:
                continue
            try:
                # Noted first: a point that is lost when the machine stops just now is a gap, one that is given twice would be wrong.
                self._remember(name, {**before, "step": step})
                sink.log(step, figures)
            except Exception as error:
                with suppress(RunFolderError):
                    self._remember(name, before)
                self._drop(name, error)

    def _begin(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        known = self._memory.get(name, {"step": 0, "id": None})
        try:
            sink = opener(name)(SinkRun(folder.absolute(), folder.absolute().name, config, known["id"]))
        except Exception as error:
            raise MetricSinkError(
                f"the logger {name} cannot be opened: {_words(error)}; mend that, or leave {name} out of run.loggers"
            ) from error
        self._open[name] = sink
        self._remember(name, {**known, "id": sink.id})

    def _remember(self, name: str, known: dict[str, Any]) -> None:
        self._memory[name] = known
        write_json(self._path, self._memory)

    def _drop(self, name: str, error: Exception) -> None:
        del self._open[name]
        self._say(f"the logger {name} failed and gets no more metrics: {_words(error)}; training goes on, and --resume gives it the rest")

    def _close(self, failed: bool) -> None:
        for name, sink in list(self._open.items()):
            try:
                sink.close(failed=failed)
            except Exception as error:
                self._drop(name, error)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """What the loggers of an earlier part of the run were given; empty at its beginning."""
    if not path.is_file():
        return {}
    try:
        memory = json.loads(path.read_text(encoding="utf-8"))
        return {name: {"step": int(known["step"]), "id": known["id"]} for name, known in memory.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunFolderError(f"{path} is damaged; remove it, and the loggers begin anew") from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
