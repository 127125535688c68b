"""A mini-batch's trees are dealt to ranks by their tokens, so that all have about as much to compute; results find back to their shard."""

from collections.abc import Sequence
from typing import TypeVar

from trainer.mini_batch import Share

Result = TypeVar("Result")


class DealtShares:
    """The trees of all shards' shares, dealt to `ranks`: the largest first, each to the rank that has least (Graham, 1969, "LPT")."""

    def __init__(self, shares: Sequence[Share], ranks: int) -> None:
        self._counts = [len(share.trees) for share in shares]
        together = Share(**{name: [row for share in shares for row in getattr(share, name)] for name in Share.__slots__})
        sizes = [sum(len(turn.ids_T) for turn in tree.turns) for tree in together.trees]
        loads = [0] * ranks
        self._dealt: list[list[int]] = [[] for _ in range(ranks)]
        for tree in sorted(range(len(sizes)), key=lambda tree: (-sizes[tree], tree)):
            rank = loads.index(min(loads))
            loads[rank] += sizes[tree]
            self._dealt[rank].append(tree)
        for dealt in self._dealt:
            dealt.sort()
        self.parts = [together.chosen(dealt) for dealt in self._dealt]
        """One for each rank."""

    def collected(self, results: Sequence[Sequence[Result]]) -> list[list[Result]]:
        """For each shard its trees' results, from each rank's."""
        by_tree: dict[int, Result] = {}
        for dealt, parts in zip(self._dealt, results, strict=True):
            by_tree.update(zip(dealt, parts, strict=True))
        ordered = iter([by_tree[tree] for tree in range(sum(self._counts))])
        return [[next(ordered) for _ in range(count)] for count in self._counts]
