import threading
import time

import pytest

from envs.deadline import DeadlineExceededError, call_within


def spin() -> None:
    """Burn a processor without end, in Python code."""
    while True:
        time.perf_counter()


def test_a_step_that_burns_a_processor_is_ended_and_not_left_running():
    before = set(threading.enumerate())
    with pytest.raises(DeadlineExceededError):
        call_within(spin, 0.05)
    limit = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < limit:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_within_the_deadline_results_and_exceptions_pass_through():
    assert call_within(lambda: 3, 5.0) == 3 == call_within(lambda: 3, None)
    with pytest.raises(KeyError, match="lost"):
        call_within(lambda: {}["lost"], 5.0)
