"""A layout is the furniture of one room; `valid_unseen` draws from compositions that `train` never contains."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from envs.household.catalog import FURNITURE, OPENABLE, Room

TRAIN_LAYOUTS = 48
UNSEEN_LAYOUTS = 16
_LAYOUT_SEED = 20_251


@dataclass(frozen=True, slots=True)
class Layout:
    """Furniture of one room, in the order in which it is listed to the agent."""

    room: Room
    receptacles: tuple[str, ...]
    """Names such as "drawer 2"."""
    kinds: tuple[str, ...]
    """Kind of each receptacle, in the same order."""

    @property
    def openable(self) -> int:
        """Bit mask of the receptacles that have a door or a lid."""
        return sum(1 << index for index, kind in enumerate(self.kinds) if kind in OPENABLE)


@lru_cache(maxsize=4)
def layouts(room: Room) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """All layouts of a kind of room: those of `train` and `valid_seen`, and those of `valid_unseen`; no composition occurs in both."""
    rng = np.random.default_rng([_LAYOUT_SEED, list(Room).index(room)])
    found: dict[tuple[int, ...], Layout] = {}
    while len(found) < TRAIN_LAYOUTS + UNSEEN_LAYOUTS:
        counts = tuple(int(rng.integers(low, high + 1)) for low, high in FURNITURE[room].values())
        order = rng.permutation(len(counts))
        if counts in found:
            continue
        names, kinds = [], []
        for position in order:
            kind = list(FURNITURE[room])[position]
            for number in range(counts[position], 0, -1):
                names.append(f"{kind} {number}")
                kinds.append(kind)
        found[counts] = Layout(room, tuple(names), tuple(kinds))
    every = tuple(found.values())
    return every[:TRAIN_LAYOUTS], every[TRAIN_LAYOUTS:]
