"""A fresh trace, and one that is written and closed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from counter_world import advantages_of, grown
from trace_world import META

from tree_rollout.trace import Trace


@pytest.fixture
def trace_path(tmp_path: Path) -> Path:
    return tmp_path / "a run?#%20ü" / "trace.sqlite"


@pytest.fixture
def trace(trace_path: Path) -> Iterator[Trace]:
    trace_path.parent.mkdir()
    with Trace.create(trace_path, META) as trace:
        yield trace


@pytest.fixture
def written(trace: Trace) -> Path:
    """A closed trace of four trees in two iterations, with advantages."""
    for iteration in range(2):
        trees = grown(iteration)
        trace.append(trees, iteration, advantages_of(trees))
    trace.close()
    return trace.path
