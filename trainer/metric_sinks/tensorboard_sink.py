"""TensorBoard: an event file for each part of a run in `tensorboard/` of its folder; together they hold each step once."""

import time
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from trainer.metric_sinks.sink import SinkRun


class TensorBoardSink:
    """TensorBoard's own writer: `torch.utils.tensorboard` would write the same events and loads several times as much."""

    id = None

    def __init__(self, folder: str) -> None:
        self._writer = EventFileWriter(folder)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """One event; it is on the disk when this returns."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._writer.flush()

    def close(self, *, failed: bool) -> None:
        """TensorBoard knows no failed runs."""
        self._writer.close()


def open_sink(run: SinkRun) -> TensorBoardSink:
    """A further event file of the run."""
    return TensorBoardSink(str(run.folder / "tensorboard"))
