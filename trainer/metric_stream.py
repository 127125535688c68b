"""A record that is finished goes to the metrics file first, then to those who only watch: what they are told is on the disk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from trainer.config import Config
from trainer.health import examine
from trainer.health.report import line
from trainer.metric_sinks import MetricSinks
from trainer.metrics import MetricsLog
from trainer.run_folder import RunFolder


class MetricStream:
    """Takes each record where it is finished; where it is `watched`, the health of the run is looked after."""

    def __init__(self, log: MetricsLog, sinks: MetricSinks, say: Callable[[str], None], watched: bool = True) -> None:
        self._log = log
        self._sinks = sinks
        self._watch = examine(log.records) if watched else None
        self._say = say

    @classmethod
    @contextmanager
    def opened(
        cls, config: Config, folder: RunFolder, log: MetricsLog, say: Callable[[str], None], *, watched: bool = True
    ) -> Iterator[Self]:
        """With the loggers of the configuration open; `say` shows a sentence to the user."""
        settings = config.model_dump(mode="json")
        with MetricSinks.opened(config.run.loggers, folder.path, settings, log.records, say) as sinks:
            yield cls(log, sinks, say, watched)

    def append(self, record: Mapping[str, Any]) -> None:
        """Hand on the record of one iteration, and say what it shows to be wrong; raises what `MetricsLog.append` raises."""
        self._log.append(record)
        self._sinks.append(record)
        for flag in self._watch.append(record) if self._watch is not None else ():
            self._say(line(flag))
