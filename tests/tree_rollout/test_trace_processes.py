import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from counter_world import CounterEnv, advantages_of, assert_same_tree, fork_of, grow, grown, tree_of
from trace_world import read_all

from tree_rollout import trace_codec
from tree_rollout.errors import TraceError
from tree_rollout.trace import Trace

# ---------------------------------------------------------------- a full disk, other programs, kill -9


def test_a_full_disk_is_said_and_leaves_nothing_half_written(trace, trace_path):
    trace.append(grown(0), 0)
    before = trace.content_digest()
    connection = trace._file._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(TraceError, match="append to iteration 1: database or disk is full; nothing of it was written"):
        trace.append(grown(1, 40), 1)
    assert trace.content_digest() == before
    connection.execute("PRAGMA max_page_count = 1000000")
    trace.append(grown(1, 40), 1)
    assert len(list(trace.trees(1))) == 40


def test_a_trace_opened_for_reading_is_not_written(written):
    before = written.read_bytes()
    with Trace.open(written, readonly=True) as trace:
        for attempt in (lambda: trace.append([], 0), lambda: trace.rewind(0), lambda: trace.add_fork(1, fork_of(0, *"12"))):
            with pytest.raises(TraceError, match="reading only"):
                attempt()
    assert written.read_bytes() == before


def test_a_closed_trace_is_one_file_that_can_be_copied(written, tmp_path):
    assert sorted(file.name for file in written.parent.iterdir()) == [written.name]
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(written.read_bytes())
    assert read_all(copy) == read_all(written)
    assert sorted(file.name for file in written.parent.iterdir()) == [written.name]


def test_readers_see_whole_iterations_while_a_writer_writes(trace, trace_path):
    faults: list[Exception] = []
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        try:
            with Trace.open(trace_path, readonly=True) as reader:
                while not done.is_set() or seen[-1] < 60:
                    summaries = list(reader.trees())
                    seen.append(len(summaries))
                    for summary in summaries[-2:]:
                        assert len(reader.tree(summary.id).turns) == summary.turns
        except Exception as fault:
            faults.append(fault)

    watcher = threading.Thread(target=watch)
    watcher.start()
    while not seen and watcher.is_alive():
        time.sleep(0.001)
    for iteration in range(30):
        trace.append(grown(iteration), iteration)
    done.set()
    watcher.join()
    assert not faults
    assert seen == sorted(seen) and all(count % 2 == 0 for count in seen) and (seen[0], seen[-1]) == (0, 60)


def test_a_reader_that_stays_does_not_lose_what_the_writer_leaves(trace, trace_path):
    with Trace.open(trace_path, readonly=True) as reader:
        trace.append(grown(0), 0)
        trace.close()
        assert len(list(reader.trees())) == 2
    with Trace.open(trace_path) as again:
        assert len(list(again.trees())) == 2


def test_two_writers_take_turns_and_one_that_waits_too_long_is_told(trace, trace_path, monkeypatch):
    trace.append([tree_of("0123")], 0)
    with Trace.open(trace_path) as other:
        assert other.add_fork(1, fork_of(0, *"14")) == [3]
        assert trace.add_fork(1, fork_of(0, *"15")) == [4]
        other._file._connection.execute("PRAGMA busy_timeout = 50")
        with trace._file.writing("hold the file"), pytest.raises(TraceError, match="another program has been writing"):
            other.rewind(0)


WRITER = """
    import sys
    sys.path[:0] = [{root!r}, {tests!r}]
    import numpy as np
    from counter_world import CounterEnv, grow
    from tree_rollout.trace import Trace

    with Trace.create({path!r}, {{}}) as trace:
        for iteration in range(10_000):
            rng = np.random.default_rng(iteration)
            trees = [grow(CounterEnv(), number, rng) for number in range(3)]
            trace.append(trees, iteration, [rng.normal(size=len(tree.turns)) for tree in trees])
            print(trace.content_digest() if iteration < 3 else iteration, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05])
def test_kill_9_loses_only_what_was_not_acknowledged(tmp_path, delay):
    path = tmp_path / "trace.sqlite"
    root = Path(__file__).parents[2]
    program = textwrap.dedent(WRITER.format(root=str(root), tests=str(Path(__file__).parent), path=str(path)))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = [child.stdout.readline() for _ in range(5)]
    time.sleep(delay)
    os.kill(child.pid, signal.SIGKILL)
    acknowledged += child.stdout.read().splitlines()
    child.wait()
    child.stdout.close()
    complete = len([line for line in acknowledged if line.strip()])
    assert complete >= 5
    with Trace.open(path) as trace:
        iterations = [summary.iteration for summary in trace.trees()]
        assert iterations == sorted([*range(len(iterations) // 3)] * 3), "every iteration is there whole"
        assert complete <= len(iterations) // 3 <= complete + 1
        for summary in trace.trees():
            rng = np.random.default_rng(summary.iteration)
            trees = [grow(CounterEnv(), number, rng) for number in range(3)]
            assert_same_tree(trace.tree(summary.id), trees[summary.position])
        trace.rewind(2)
        for iteration in (2,):
            rng = np.random.default_rng(iteration)
            trees = [grow(CounterEnv(), number, rng) for number in range(3)]
            trace.append(trees, iteration, [rng.normal(size=len(tree.turns)) for tree in trees])
        assert trace.content_digest() == acknowledged[2].strip(), "going on gives what an uninterrupted run gave"


def test_appending_is_fast(trace):
    trees = [tree for seed in range(40) for tree in grown(seed, 5)]
    turns = sum(len(tree.turns) for tree in trees)
    assert turns > 3000
    started = time.process_time()
    trace.append(trees, 0, advantages_of(trees))
    assert turns / (time.process_time() - started) > 4000, "the goal is 20,000; this catches a fault, not a slow machine"


def test_nothing_is_pickled():
    folder = Path(trace_codec.__file__).parent
    for file in folder.glob("trace*.py"):
        assert "import pickle" not in file.read_text(), file
    assert json.loads(trace_codec.encode_json({"b": 1, "a": [None]}, "it")) == {"a": [None], "b": 1}
