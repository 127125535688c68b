"""Work for an environment is done anywhere, on any thread; what follows from its answer is done by whoever asked, on one thread."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

CallKind = Literal["reset", "restore", "step"]


@dataclass(slots=True)
class EnvCall:
    """One piece of work for one environment, and what to do once it is done."""

    env_id: str
    kind: CallKind
    work: Callable[[], Any]
    """What is done with the environment; touches nothing else."""
    answered: Callable[[Any], None]
    """Takes what `work` returned."""
    failed: Callable[[Exception], None]
    """Takes what `work` raised."""
    seconds: float = 0.0
    """How long the work took."""
    ended: float = 0.0
    """`time.perf_counter()` when it was done."""
    threaded: bool = False
    """Whether a thread did the work, instead of whoever started it."""
    _answer: Any = None
    _fault: BaseException | None = field(default=None, repr=False)

    def run(self) -> None:
        """Do the work; never raises."""
        started = time.perf_counter()
        try:
            self._answer = self.work()
        except BaseException as fault:
            self._fault = fault
        self.ended = time.perf_counter()
        self.seconds = self.ended - started

    def finish(self) -> None:
        """Pass the answer or the fault on; what is no `Exception` (an interrupt, `sys.exit`) is raised here."""
        if self._fault is None:
            self.answered(self._answer)
        elif isinstance(self._fault, Exception):
            self.failed(self._fault)
        else:
            raise self._fault
