"""Every second of a step belongs to one phase, the innermost; watching a run changes nothing and leaves nothing behind."""

import threading
import time
from types import SimpleNamespace

import pytest

from benchmarks.training import phases
from benchmarks.training.household_job import start_policy
from benchmarks.training.stopwatch import Stopwatch
from trainer.iteration import Trainer


def sleeps(seconds, inside=None):
    def sleep():
        time.sleep(seconds)
        return inside() if inside else None

    return sleep


def test_a_second_belongs_to_the_innermost_phase():
    world = SimpleNamespace()
    world.inner = sleeps(0.04)
    world.outer = sleeps(0.02, lambda: world.inner())
    with Stopwatch() as watch:
        watch.watch(world, "outer", "outer")
        watch.watch(world, "inner", "inner")
        world.outer()
        world.inner()
    assert 0.02 <= watch.seconds["outer"] < 0.04
    assert watch.seconds["inner"] >= 0.08


def test_a_whole_phase_has_what_is_called_inside():
    world = SimpleNamespace()
    world.inner = sleeps(0.01)
    world.outer = sleeps(0.0, lambda: world.inner())
    with Stopwatch() as watch:
        watch.watch(world, "outer", "outer", whole=True)
        watch.watch(world, "inner", "inner")
        world.outer()
    assert watch.seconds.keys() == {"outer"} and watch.seconds["outer"] >= 0.01


def test_an_iterator_is_counted_while_it_is_asked():
    world = SimpleNamespace(numbers=lambda: (time.sleep(0.01) or number for number in range(2)))
    with Stopwatch() as watch:
        watch.watch(world, "numbers", "numbers")
        for _ in world.numbers():
            time.sleep(0.05)
    assert 0.02 <= watch.seconds["numbers"] < 0.05


def test_counting_begins_with_the_first_step_on_this_thread_alone():
    world = SimpleNamespace(step=sleeps(0.0), work=sleeps(0.001))
    with Stopwatch() as watch:
        watch.watch(world, "step", "step", first=True)
        watch.watch(world, "work", lambda: "work")
        world.work()
        assert watch.seconds == {} and watch.calls == 0
        world.step()
        other = threading.Thread(target=world.work)
        other.start()
        other.join()
        assert watch.seconds.keys() == {"step"} and watch.calls == 1
        world.work()
    assert watch.seconds.keys() == {"step", "work"}


def test_what_was_watched_is_itself_again_also_after_an_error():
    function = sleeps(0.0)
    world = SimpleNamespace(work=function)
    with pytest.raises(ZeroDivisionError), Stopwatch() as watch:
        watch.watch(world, "work", "work")
        raise ZeroDivisionError
    assert world.work is function


@pytest.mark.slow
def test_each_phase_of_a_household_step_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(phases._QUICK, "run.iterations", 2)
    start = start_policy(tmp_path / "start", quick=True)
    advance = Trainer.advance
    watch = phases._watched(tmp_path / "run", start, phases._QUICK)
    assert Trainer.advance is advance
    assert watch.seconds.keys() == phases.PHASES.keys() and min(watch.seconds.values()) > 0 and watch.calls == 2
    rows = phases.shares("main job", "few", watch)
    assert sum(row.value for row in rows) == pytest.approx(100) and len(rows) == len(phases.PHASES)
