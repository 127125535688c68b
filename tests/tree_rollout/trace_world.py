"""What the traces of the tests say of their run, and all that a trace holds as text."""

from pathlib import Path

import numpy as np

from tree_rollout.trace import Trace
from tree_rollout.turn import Turn

META = {"benchmark": "counter", "seed": 3, "config": {"rate": 0.5, "names": ["ä", None, True]}}


def read_all(path: Path) -> list[object]:
    """All that a trace holds, in a form that can be compared; reads every row and blob."""
    with Trace.open(path, readonly=True) as trace:
        held: list[object] = [trace.meta, trace.content_digest()]
        for summary in trace.trees():
            advantages_N = trace.advantages(summary.id)
            held += [repr(summary), None if advantages_N is None else advantages_N.tobytes()]
            for turn in trace.tree(summary.id).turns:
                for name in Turn.__dataclass_fields__:
                    value = getattr(turn, name)
                    held.append((value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else repr(value))
    return held
