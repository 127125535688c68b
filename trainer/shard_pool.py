"""A pool answers each call with one result per shard, in the order of shards, whichever process did the work.

Every process computes with one thread, so results do not depend on how many processes or cores there are.
"""

import gc
import multiprocessing
import multiprocessing.context
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainer.config import Config
from trainer.errors import WorkerError
from trainer.shard_spec import ShardSpec
from trainer.stop_request import STOP_SIGNALS, signals_held

_LAST_LINES = 5
_PATIENCE_S = 5.0
"""Seconds that idle processes have to end by themselves."""
_IMPATIENCE_S = 0.5
"""The same when the run ends by an error or a second Ctrl-C: they may be busy, and nothing of theirs is wanted any more."""


def workers(config: Config) -> int:
    """How many processes of this machine a run of this configuration takes; of one on Ray, its warm start."""
    if config.run.workers == "auto" or config.run.backend != "local":
        return min(config.run.shards, os.cpu_count() or 1)
    return config.run.workers


class ShardPool:
    """Runs the shards of `spec` in `workers` processes; with one worker, in the calling process."""

    def __init__(self, spec: ShardSpec, workers: int) -> None:
        self._spec = spec
        self._workers: list[_Worker] = []
        self._local: dict[int, Any] = {}
        if workers > 1:
            self._start(workers)
        else:
            self._local = _build(spec, range(spec.shards), 0)

    def _start(self, workers: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["trainer.shard"])
        with signals_held():
            # The server and its children inherit that: Ctrl-C is the coordinator's business, from the first moment on.
            forkserver.ensure_running()
        try:
            for place in range(workers):
                self._workers.append(_Worker(context, self._spec, range(place, self._spec.shards, workers), place))
        except BaseException:
            self.close(_IMPATIENCE_S)
            raise

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard with its arguments; returns their results in the order of shards.

        What a shard raises is raised here, the lowest shard's first. `WorkerError` where a process died.
        """
        if not self._workers:
            return [getattr(self._local[shard], method)(*arguments) for shard, arguments in enumerate(arguments_S)]
        # A process has one message at a time: two that both send something large would wait for each other for ever.
        waiting = {worker.pipe: (worker, iter(worker.shards)) for worker in self._workers}
        for worker, shards in waiting.values():
            worker.send((first := next(shards), method, arguments_S[first]))
        answers: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        while waiting:
            for pipe in wait(list(waiting)):
                worker, shards = waiting[pipe]  # pyright: ignore[reportArgumentType]
                shard, kind, value = worker.receive()
                (failures if kind == "error" else answers)[shard] = value
                following = next(shards, None)
                if following is None:
                    del waiting[pipe]  # pyright: ignore[reportArgumentType]
                else:
                    worker.send((following, method, arguments_S[following]))
        if failures:
            raise failures[min(failures)]
        return [answers[shard] for shard in range(self._spec.shards)]

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """End the processes, by force where they do not end by themselves in time; a signal cannot keep one alive."""
        with signals_held():
            for worker in self._workers:
                worker.pipe.close()
            deadline = time.monotonic() + patience_s
            for worker in self._workers:
                worker.end(max(0.0, deadline - time.monotonic()))
            self._workers = []
            for shard in self._local.values():
                shard.close()
            self._local = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(_PATIENCE_S if error is None else _IMPATIENCE_S)


class _Worker:
    """One process and the shards that it works on."""

    def __init__(self, context: multiprocessing.context.ForkServerContext, spec: ShardSpec, shards: range, place: int) -> None:
        self.shards = shards
        handle, self._log = tempfile.mkstemp(prefix="branchwise-worker-", suffix=".log")
        os.close(handle)
        self.pipe, theirs = context.Pipe()
        try:
            # No daemon, for it may start processes of its own; it ends when the pipe closes, so also when the coordinator is gone.
            self.process = context.Process(target=_serve, args=(theirs, spec, shards, place, self._log), daemon=False)
            self.process.start()
        except BaseException:
            self.pipe.close()
            Path(self._log).unlink(missing_ok=True)
            raise
        finally:
            theirs.close()

    def send(self, message: Any) -> None:
        try:
            self.pipe.send(message)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> tuple[int, str, Any]:
        try:
            return self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error

    def end(self, patience_s: float) -> None:
        """See the process end; its pipe is closed."""
        self.process.join(timeout=patience_s)
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
        hint = " (out of memory, most likely: lower run.workers or optimizer.micro_batch_tokens)" if code == -signal.SIGKILL else ""
        return WorkerError(f"the process of shards {', '.join(map(str, self.shards))} ended with exit code {code}{hint}{said}")


def _build(spec: ShardSpec, shards: Sequence[int], place: int) -> dict[int, Any]:
    """The shards of process number `place`."""
    import torch

    from trainer.device import device_of
    from trainer.shard import Shard
    from trainer.vllm_host import vllm_host

    torch.set_num_threads(1)
    device, vllm = device_of("policy.device", spec.config.policy.device, place), vllm_host(spec.config, spec.policy_folder, place)
    built = {shard: Shard(spec, shard, device=device, vllm=vllm) for shard in shards}
    # Libraries and models stay for ever: a full collection of garbage, .3 s with them, need not look at them again.
    gc.collect()
    gc.freeze()
    return built


def _serve(pipe: Connection, spec: ShardSpec, shards: Sequence[int], place: int, log: str) -> None:
    """Answer calls until the other end closes."""
    for number in STOP_SIGNALS:
        # A handler, because programs that an environment starts would inherit that a signal is ignored or blocked.
        signal.signal(number, _leave_it_to_the_coordinator)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    with open(log, "w", buffering=1) as stream:
        os.dup2(stream.fileno(), sys.stderr.fileno())
    try:
        built: Any = _build(spec, shards, place)
    except Exception as error:
        built = error
    while True:
        try:
            shard, method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            if isinstance(built, Exception):
                raise built
            answer = (shard, "value", getattr(built[shard], method)(*arguments))
        except Exception as error:
            answer = (shard, "error", portable(error))
        try:
            pipe.send(answer)
        except OSError:
            return


def _leave_it_to_the_coordinator(number: int, frame: Any) -> None:
    """Do nothing."""


def portable(error: Exception) -> Exception:
    """The error as it can be raised in another process, with this one's traceback as a note; one that cannot be pickled as its text."""
    note = "".join(traceback.format_exception(error))
    error.__traceback__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        text = f"{type(error).__name__}: {error}"
        error = WorkerError(text) if hasattr(error, "exit_code") else RuntimeError(text)
    error.add_note(note)
    return error
