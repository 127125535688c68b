"""A pool answers each call with one result per shard, in the order of shards, whichever process did the work.

Every process computes with one thread, so results do not depend on how many processes or cores there are.
"""

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainer.config import Config
from trainer.errors import WorkerError
from trainer.shard_spec import ShardSpec

_LAST_LINES = 5


def workers(config: Config) -> int:
    """How many processes a run of this configuration takes."""
    return min(config.run.shards, os.cpu_count() or 1) if config.run.workers == "auto" else config.run.workers


class ShardPool:
    """Runs the shards of `spec` in `workers` processes; with one worker, in the calling process."""

    def __init__(self, spec: ShardSpec, workers: int) -> None:
        self._spec = spec
        self._workers: list[_Worker] = []
        if workers > 1:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["trainer.shard"])
            self._workers = [_Worker(context, spec, range(first, spec.shards, workers)) for first in range(workers)]
            self._local: dict[int, Any] = {}
        else:
            self._local = _build(spec, range(spec.shards))

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard with its arguments; returns their results in the order of shards.

        What a shard raises is raised here. `WorkerError` where a process died.
        """
        if not self._workers:
            return [getattr(self._local[shard], method)(*arguments) for shard, arguments in enumerate(arguments_S)]
        for worker in self._workers:
            for shard in worker.shards:
                worker.send((shard, method, arguments_S[shard]))
        results: dict[int, Any] = {}
        failure: BaseException | None = None
        for worker in self._workers:
            for shard in worker.shards:
                try:
                    results[shard] = worker.receive()
                except WorkerError:
                    raise
                except Exception as error:
                    failure = failure or error
        if failure is not None:
            raise failure
        return [results[shard] for shard in range(self._spec.shards)]

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Worker:
    """One process and the shards that it works on."""

    def __init__(self, context: multiprocessing.context.ForkServerContext, spec: ShardSpec, shards: range) -> None:
        self.shards = shards
        handle, self._log = tempfile.mkstemp(prefix="branchwise-worker-", suffix=".log")
        os.close(handle)
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, spec, shards, self._log), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> Any:
        try:
            kind, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if kind == "error":
            raise value
        return value

    def close(self) -> None:
        self._pipe.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        Path(self._log).unlink(missing_ok=True)

    def _death(self) -> WorkerError:
        """Why the process ended, with its last lines."""
        self.process.join(timeout=5)
        code = self.process.exitcode
        lines = Path(self._log).read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
        said = f"; its last lines: {' | '.join(lines)}" if lines else ""
        hint = " (out of memory, most likely: lower rollout.tasks or policy.max_length)" if code == -signal.SIGKILL else ""
        return WorkerError(f"the process of shards {', '.join(map(str, self.shards))} ended with exit code {code}{hint}{said}")


def _build(spec: ShardSpec, shards: Sequence[int]) -> dict[int, Any]:
    import torch

    from trainer.shard import Shard

    torch.set_num_threads(1)
    return {shard: Shard(spec, shard) for shard in shards}


def _serve(pipe: Connection, spec: ShardSpec, shards: Sequence[int], log: str) -> None:
    """Answer calls until the other end closes; Ctrl-C is the coordinator's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(log, "w", buffering=1) as stream:
        os.dup2(stream.fileno(), sys.stderr.fileno())
    try:
        built: Any = _build(spec, shards)
    except Exception as error:
        built = error
    while True:
        try:
            shard, method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            if isinstance(built, Exception):
                raise built
            answer = ("value", getattr(built[shard], method)(*arguments))
        except Exception as error:
            error.__traceback__ = None
            answer = ("error", error)
        pipe.send(answer)
