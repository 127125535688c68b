import os
import signal
import subprocess
import sys
import threading

import pytest

from trainer.stop_request import StopRequest, signals_held


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_asks_and_the_second_stops(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        stop.check()
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_in_another_thread_it_leaves_signals_alone() -> None:
    seen = []

    def use() -> None:
        with StopRequest() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


@pytest.mark.parametrize("threads", [0, 1])
def test_held_signals_come_later(threads: int) -> None:
    """Also where another thread could take them."""
    done = threading.Event()
    others = [threading.Thread(target=done.wait) for _ in range(threads)]
    for thread in others:
        thread.start()
    with StopRequest() as stop:
        with signals_held():
            os.kill(os.getpid(), signal.SIGINT)
            done.wait(0.05)
            assert not stop.requested
        assert stop.requested
        with pytest.raises(KeyboardInterrupt), signals_held():
            os.kill(os.getpid(), signal.SIGTERM)
    done.set()
    for thread in others:
        thread.join()


def test_a_program_started_while_they_are_held_never_gets_any() -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGTERM); print('alive')"
    with signals_held():
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "alive\n")
