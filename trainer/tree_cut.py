"""A tree beyond the budget is cut into parts: every rollout is in one of them, and each lays out all the prefixes of its own again.

What is computed more than once is what parts have in common, so parts should part as near to the root as the budget allows. Two cuts are
made and the cheaper is taken: one fills part after part in depth-first order; the other packs what hangs below each branching, deepest
first, into as few parts as hold it (first fit, the largest first).
"""

from collections.abc import Iterable, Sequence

Place = tuple[int, int]
"""A segment, and how many of its tokens a path takes."""
Cover = dict[int, int]
"""For each segment, how many of its tokens are laid out."""


class Segments:
    """A trie: segment i stands behind `parents[i]` (-1: none), which comes before it, and has `lengths[i]` tokens; depth first."""

    def __init__(self, parents: Sequence[int], lengths: Sequence[int]) -> None:
        self.parents, self.lengths = list(parents), list(lengths)
        self.depths: list[int] = []
        for parent, length in zip(parents, lengths, strict=True):
            self.depths.append(length + (self.depths[parent] if parent >= 0 else 0))

    def missing(self, paths: Iterable[Place], cover: Cover) -> Cover:
        """What of the paths a cover lacks: the segments to change, with their new numbers of tokens."""
        found: Cover = {}
        for segment, count in paths:
            while segment >= 0 and found.get(segment, cover.get(segment, 0)) < count:
                found[segment] = count
                segment = self.parents[segment]
                count = self.lengths[segment] if segment >= 0 else 0
        return found

    def added(self, missing: Cover, cover: Cover) -> int:
        """Tokens that `missing` adds to a cover."""
        return sum(count - cover.get(segment, 0) for segment, count in missing.items())

    def size(self, units: Iterable[Sequence[Place]]) -> int:
        """Tokens of all prefixes of some units together."""
        return sum(self.missing([path for unit in units for path in unit], {}).values())


def cut(segments: Segments, units: Sequence[Sequence[Place]], budget: int) -> list[list[int]]:
    """Part the units, each a set of paths given by their ends, so that each part has at most `budget` tokens; returns numbers of units.

    A unit beyond the budget is a part of its own. Of several cuts with as few tokens the first is taken; a function of its arguments.
    """
    cuts = [_in_order(segments, units, budget)]
    if all(len(unit) == 1 for unit in units):
        cuts.append(_bottom_up(segments, [unit[0][0] for unit in units], budget))
    return min(cuts, key=lambda parts: sum(segments.size([units[unit] for unit in part]) for part in parts))


def _in_order(segments: Segments, units: Sequence[Sequence[Place]], budget: int) -> list[list[int]]:
    parts: list[list[int]] = []
    cover: Cover = {}
    size = 0
    for unit in sorted(range(len(units)), key=lambda unit: tuple(units[unit])):
        missing = segments.missing(units[unit], cover)
        size += segments.added(missing, cover)
        if not parts or size > budget:
            parts.append([])
            cover, missing = {}, segments.missing(units[unit], {})
            size = sum(missing.values())
        cover |= missing
        parts[-1].append(unit)
    return parts


def _bottom_up(segments: Segments, ends: Sequence[int], budget: int) -> list[list[int]]:
    """`ends` names the segment in which each unit's path ends."""
    count = len(segments.parents)
    below: list[list[tuple[int, list[int]]]] = [[] for _ in range(count + 1)]
    here: list[list[int]] = [[] for _ in range(count)]
    for unit, end in enumerate(ends):
        here[end].append(unit)
    for segment in range(count - 1, -1, -1):
        bins = _first_fit(below[segment], budget - segments.depths[segment]) or [(0, [])]
        # What ends here is laid out in every bin; one of them scores it.
        bins[0][1].extend(here[segment])
        below[segments.parents[segment]] += [(size + segments.lengths[segment], units) for size, units in bins]
    return sorted(sorted(units) for _, units in _first_fit(below[-1], budget))


def _first_fit(items: Sequence[tuple[int, list[int]]], capacity: int) -> list[tuple[int, list[int]]]:
    """Put items (tokens, units) together as long as they fit, the largest first."""
    bins: list[tuple[int, list[int]]] = []
    for size, units in sorted(items, key=lambda item: (-item[0], item[1])):
        fitting = next((index for index, (held, _) in enumerate(bins) if held + size <= capacity), None)
        if fitting is None:
            bins.append((size, list(units)))
        else:
            bins[fitting] = (bins[fitting][0] + size, bins[fitting][1] + units)
    return bins
