"""Where metrics go beside the run folder's own file: one module for each logger, all behind one object."""

from trainer.metric_sinks.sinks import MetricSinks
from trainer.metric_sinks.table import check_loggers

__all__ = ["MetricSinks", "check_loggers"]
