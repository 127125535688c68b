"""Each step of a chain has one action that goes on, one that goes back and one that does nothing; only the turn limit makes idling cost."""

import numpy as np

from benchmarks.truth.process import Process
from benchmarks.truth.world import enumerate_world

_STEPS, _TURN_LIMIT = 6, 14


def idle_chain(name: str, doc: str, seed: int) -> Process:
    """Six steps within 14 turns; which action does what is drawn for each step."""
    effect_SK = np.random.default_rng(seed).permuted(np.tile([1, 0, -1], (_STEPS, 1)), axis=1)

    def step(place: int, action: int) -> int | None:
        to = place + int(effect_SK[place, action])
        return None if to == _STEPS else max(to, 0)

    return enumerate_world(name, doc, 0, step, 3, _TURN_LIMIT, {"merges", "idle", "cyclic"}, seed)
