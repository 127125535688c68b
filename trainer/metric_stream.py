"""A record that is finished goes to the metrics file first, then to those who only watch: what they are told is on the disk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from trainer.config import Config
from trainer.metric_sinks import MetricSinks
from trainer.metrics import MetricsLog
from trainer.run_folder import RunFolder


class MetricStream:
    """Takes each record where it is finished."""

    def __init__(self, log: MetricsLog, sinks: MetricSinks) -> None:
        self._log = log
        self._sinks = sinks

    @classmethod
    @contextmanager
    def opened(cls, config: Config, folder: RunFolder, log: MetricsLog, say: Callable[[str], None]) -> Iterator[Self]:
        """With the loggers of the configuration open; `say` shows a sentence to the user."""
        settings = config.model_dump(mode="json")
        with MetricSinks.opened(config.run.loggers, folder.path, settings, log.records, say) as sinks:
            yield cls(log, sinks)

    def append(self, record: Mapping[str, Any]) -> None:
        """Hand on the record of one iteration; raises what `MetricsLog.append` raises."""
        self._log.append(record)
        self._sinks.append(record)
