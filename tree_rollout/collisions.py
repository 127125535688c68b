"""A collision is proved, never guessed: two turns in one state by their signature whose exact states are both known and differ."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

Place = tuple[int, int]
"""A turn, as (tree, turn)."""


class Sighting(NamedTuple):
    """A turn whose exact state is known."""

    state: Hashable
    """What the signature makes of it."""
    start: Hashable
    """Equal for turns that start in the state together (`start_of`): comparing those tests the fork, not the signature."""
    digest: str
    """What its exact state is known by."""
    place: Place


@dataclass(frozen=True, slots=True)
class Collisions:
    """What came of comparing exact states within the states of a signature."""

    turns: int
    """Turns whose exact state is known."""
    compared: int
    """States that such turns came to in at least two ways, or that stood for two exact states."""
    collided: int
    """States that stood for more than one exact state."""
    misplaced: int
    """Turns that are not in the exact state in which most turns of their state are."""
    example: tuple[Place, Place] | None
    """Two turns that one state should not have held, the first found."""

    def __add__(self, other: "Collisions") -> "Collisions":
        """The collisions of both; right where they have no task in common."""
        return Collisions(
            self.turns + other.turns,
            self.compared + other.compared,
            self.collided + other.collided,
            self.misplaced + other.misplaced,
            self.example or other.example,
        )

    @property
    def rate(self) -> float:
        """Share of the compared states that collided; 0 where none were compared."""
        return self.collided / self.compared if self.compared else 0.0


def find_collisions(sightings: Iterable[Sighting]) -> Collisions:
    """Compare the exact states of all turns of each state, in time proportional to the turns."""
    found: defaultdict[Hashable, list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        found[sighting.state].append(sighting)
    compared = collided = misplaced = 0
    example: tuple[Place, Place] | None = None
    for members in found.values():
        exact = Counter(member.digest for member in members)
        compared += len(exact) > 1 or len({member.start for member in members}) > 1
        if len(exact) > 1:
            collided += 1
            misplaced += len(members) - max(exact.values())
            odd = next(member for member in members if member.digest != members[0].digest)
            example = example or (members[0].place, odd.place)
    return Collisions(sum(map(len, found.values())), compared, collided, misplaced, example)
