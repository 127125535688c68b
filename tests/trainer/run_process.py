"""Command lines in processes of their own, which can be made to meet their end at a chosen place."""

import functools
import importlib
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from words_world import draw_no_losses, draw_nothing

import trainer.run
import trainer.sft.fine_tune
import trainer.sft.sft_run
import trainer.shard_pool
import trainer.warm_start
from trainer.cli import main


class Ended(NamedTuple):
    """How a command line ended."""

    code: int | None
    err: str
    out: str


class Mishap(NamedTuple):
    """What happens right before the `call`-th call of a function."""

    function: str
    """As `module:name` or `module:Class.name`."""
    call: int
    what: str
    """`kill`, `interrupt`, `interrupt twice`, `terminate`, `kill a worker`, `kill the learner` or `kill an engine worker` of a run on Ray,
    `kill processes`, with their numbers, or `full disk`: no file may grow beyond some bytes from then on."""


class Started:
    """A command line that runs."""

    def __init__(self, arguments: Sequence[str], mishap: Mishap | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["trainer.run"])
        self._out, out = context.Pipe(duplex=False)
        self._err, err = context.Pipe(duplex=False)
        passed = {name: os.environ[name] for name in ("BRANCHWISE_CACHE", "RAY_AUTH_MODE") if name in os.environ}
        self.process = context.Process(target=_serve, args=(list(arguments), passed, mishap, out, err))
        self.process.start()
        out.close()
        err.close()

    def read_until(self, words: str) -> None:
        """Wait until the output holds these words."""
        said = b""
        while words.encode() not in said:
            chunk = os.read(self._out.fileno(), 65_536)
            assert chunk, f"the process ended without saying {words!r}: {said!r}"
            said += chunk

    def wait(self, patience_s: float = 120) -> Ended:
        """Its end; a process that hangs is killed, and the test fails."""
        self.process.join(patience_s)
        hangs = self.process.is_alive()
        if hangs:
            self.process.kill()
            self.process.join()
        err, out = _rest(self._err), _rest(self._out)
        assert not hangs, f"the process hung: {err} {out}"
        return Ended(self.process.exitcode, err, out)


def command(arguments: Sequence[str], mishap: Mishap | None = None, patience_s: float = 120) -> Ended:
    """Run a command line to its end."""
    return Started(arguments, mishap).wait(patience_s)


def _rest(pipe: Connection) -> str:
    parts = []
    while part := os.read(pipe.fileno(), 65_536):
        parts.append(part)
    pipe.close()
    return b"".join(parts).decode()


def _serve(arguments: list[str], environment: dict[str, str], mishap: Mishap | None, out: Connection, err: Connection) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.update(environment)
    trainer.shard_pool._serve = serve_words
    # The server that this process comes from serves its own processes too: it has imported all that takes time.
    forkserver._forkserver.ensure_running = forkserver.ensure_running = lambda: None
    trainer.warm_start._SAVE_EVERY_S = 0.0
    trainer.run.learning_curve = draw_nothing
    trainer.sft.sft_run._SAVE_EVERY_S = 0.0
    trainer.sft.fine_tune.loss_curve = draw_no_losses
    if mishap:
        _arrange(mishap)
    sys.exit(main(arguments))


_serve_shards = trainer.shard_pool._serve


def serve_words(*arguments: Any) -> None:
    """What a worker does; to find it here, it imports the world of words."""
    _serve_shards(*arguments)


def _arrange(mishap: Mishap) -> None:
    module, _, name = mishap.function.partition(":")
    *owners, attribute = name.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    original, calls = getattr(owner, attribute), [0]

    @functools.wraps(original)
    def changed(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == mishap.call:
            _happen(mishap.what, *arguments)
        return original(*arguments, **options)

    setattr(owner, attribute, changed)


def _happen(what: str, *arguments: Any) -> None:
    if what == "full disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
    elif what == "kill a worker":
        os.kill(arguments[0]._backend.rollout._workers[1].process.pid, signal.SIGKILL)
    elif what == "kill the learner":
        os.kill(arguments[0]._backend.learning.slots[0].facts.pid, signal.SIGKILL)
    elif what == "kill an engine worker":
        os.kill(arguments[0]._backend.crew.engines[0].facts.pid, signal.SIGKILL)
    elif what.startswith("kill processes "):
        for number in what.split()[2:]:
            os.kill(int(number), signal.SIGKILL)
    elif what == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        for _ in range(2 if what.endswith("twice") else 1):
            os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGINT)
