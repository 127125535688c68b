"""A token sees exactly the tokens on its own path: key k is seen by query q if and only if k <= q < the end of the subtree below k.

Segments (runs of tokens without a branching) lie in one row, depth first, so a subtree is an interval and this one line says it all.
Queries are computed in blocks of consecutive tokens. Whatever a block holds, the rest of one segment or twenty small ones, its keys are
the path of its first token and the block itself: a segment that begins inside hangs below a token of the block, or of that path.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

_FINEST, _STRIDE, _LONGEST = 8, 32, 256
"""Tokens: blocks begin at least so far apart; where a long segment may be cut; and queries of a block at most."""
_CALL, _GATHER, _MASKED = 4096, 4, 1.1
"""What a block costs beside its (query, key) pairs, in pairs: a call; bringing a key there; and the factor of a mask of its own."""
_KEPT_BYTES = 32 << 20
"""What the masks that a plan keeps may take together."""
Span = tuple[int, int]
"""From (inclusive) and to (exclusive), in tokens of the row."""


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Consecutive queries, and all the keys that they need."""

    queries: Span
    keys: tuple[Span, ...]
    """In order; the last one ends with the queries."""
    key_count: int
    plain: bool
    """True where query i (from 0) sees exactly the first `key_count` - number of queries + 1 + i keys."""

    @property
    def query_count(self) -> int:
        """Queries of the block."""
        return self.queries[1] - self.queries[0]


class AttentionPlan:
    """Which tokens see which: `parents[i]` is the segment before segment i (-1: none), `lengths[i]` its tokens; depth first."""

    def __init__(self, parents: Sequence[int], lengths: Sequence[int]) -> None:
        self.parents, self.lengths = list(parents), list(lengths)
        _check(self.parents, self.lengths)
        starts = np.concatenate([[0], np.cumsum(self.lengths)]).tolist()
        self.tokens: int = starts.pop()
        self._starts: list[int] = starts
        self._depths: list[int] = []
        for parent, length in zip(self.parents, self.lengths, strict=True):
            self._depths.append(length + (self._depths[parent] if parent >= 0 else 0))
        self.longest_path = max(self._depths)
        ends = [start + length for start, length in zip(starts, self.lengths, strict=True)]
        for index in range(len(ends) - 1, -1, -1):
            if self.parents[index] >= 0:
                ends[self.parents[index]] = max(ends[self.parents[index]], ends[index])
        self._ends_T = torch.from_numpy(np.repeat(ends, self.lengths))
        first_T = np.repeat([depth - length for depth, length in zip(self._depths, self.lengths, strict=True)], self.lengths)
        self._positions_T = torch.from_numpy(first_T + np.arange(self.tokens) - np.repeat(starts, self.lengths))
        self._blocks: dict[int | None, list[QueryBlock]] = {}
        self._band: torch.Tensor | None = None
        self._kept: dict[tuple[Span, int | None, torch.dtype, torch.device], torch.Tensor] = {}
        self.kept_bytes = 0
        """Bytes of the masks that are kept so far."""

    def effective_window(self, window: int | None) -> int | None:
        """The window, or None where no path is longer."""
        return None if window is None or window >= self.longest_path else window

    def geometry(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """For each token where the subtree below it ends, in the row, and its place on its path: two tensors of shape (T,), int64."""
        if self._ends_T.device != device:
            self._ends_T, self._positions_T = self._ends_T.to(device), self._positions_T.to(device)
        return self._ends_T, self._positions_T

    def blocks(self, window: int | None = None) -> list[QueryBlock]:
        """Blocks that hold every token once. With a `window`, a token sees itself and at most `window` - 1 tokens before it."""
        window = self.effective_window(window)
        if window not in self._blocks:
            self._blocks[window] = [self._block(start, stop, window) for start, stop in self._spans(window)]
        return self._blocks[window]

    def mask(self, block: QueryBlock, like: torch.Tensor, window: int | None = None) -> torch.Tensor | None:
        """What is added to the scores of a block, (queries, keys), in the dtype of `like`: 0 where it sees, -inf where not; None if causal.

        Masks of plain blocks are cut from one band. Others serve every layer, forward and backward, while there is room to keep them, and
        are made anew where there is not: together they would take as much memory as all pairs.
        """
        if block.plain:
            return None if block.key_count == block.query_count else self._cut_band(block, like)
        window = self.effective_window(window)
        key = (block.queries, window, like.dtype, like.device)
        if (mask := self._kept.get(key)) is None:
            mask = self._made_mask(block, like, window)
            if self.kept_bytes + mask.nbytes <= _KEPT_BYTES:
                self._kept[key] = mask
                self.kept_bytes += mask.nbytes
        return mask

    def _made_mask(self, block: QueryBlock, like: torch.Tensor, window: int | None) -> torch.Tensor:
        ends_T, positions_T = self.geometry(like.device)
        rows = torch.arange(*block.queries, device=like.device)[:, None]
        columns = torch.cat([torch.arange(*span, device=like.device) for span in block.keys])
        hidden = (columns > rows) | (rows >= ends_T[columns])
        if window is not None:
            hidden |= positions_T[rows] - positions_T[columns] >= window
        return torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))

    def _cut_band(self, block: QueryBlock, like: torch.Tensor) -> torch.Tensor:
        if self._band is None or self._band.dtype != like.dtype or self._band.device != like.device:
            column = torch.arange(self.longest_path + _LONGEST, device=like.device)
            hidden = column > torch.arange(_LONGEST, device=like.device)[:, None] + self.longest_path
            self._band = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))
        start = self.longest_path - (block.key_count - block.query_count)
        return self._band[: block.query_count, start : start + block.key_count]

    def _spans(self, window: int | None) -> list[Span]:
        """The cheapest cut of the row into blocks, by dynamic programming over the places where one may begin."""
        points, positions, segments = self._points()
        best: list[tuple[float, int]] = [(0.0, -1)]
        for last in range(1, len(points)):
            found = (float("inf"), -1)
            for first in range(last - 1, -1, -1):
                queries = points[last] - points[first]
                if queries > _LONGEST and first < last - 1:
                    break
                keys = (positions[first] if window is None else min(positions[first], window - 1)) + queries
                alone = window is None and segments[first] == segments[last - 1] and self._ends_segment(segments[first]) >= points[last]
                cost = best[first][0] + _CALL + (queries * (1.0 if alone else _MASKED) + _GATHER) * keys
                found = min(found, (cost, first))
            best.append(found)
        cuts, last = [], len(points) - 1
        while last > 0:
            cuts.append((points[best[last][1]], points[last]))
            last = best[last][1]
        return cuts[::-1]

    def _points(self) -> tuple[list[int], list[int], list[int]]:
        """Where a block may begin, each with its place on its path and its segment; and the end of the row."""
        points: list[int] = []
        segments: list[int] = []
        for segment, (start, length) in enumerate(zip(self._starts, self.lengths, strict=True)):
            for point in range(start, start + length, _STRIDE):
                if not points or point - points[-1] >= _FINEST:
                    points.append(point)
                    segments.append(segment)
        positions = [self._position(segment, point) for segment, point in zip(segments, points, strict=True)]
        return [*points, self.tokens], positions, segments

    def _position(self, segment: int, token: int) -> int:
        return self._depths[segment] - self.lengths[segment] + token - self._starts[segment]

    def _ends_segment(self, segment: int) -> int:
        return self._starts[segment] + self.lengths[segment]

    def _block(self, start: int, stop: int, window: int | None) -> QueryBlock:
        segment = int(np.searchsorted(self._starts, start, side="right")) - 1
        alone = self._ends_segment(segment) >= stop
        # A later segment of the block may begin higher up, and sees what lies before the window of the first token.
        hidden = 0 if window is None else max(0, int(self._positions_T[start:stop].min()) - (window - 1))
        context = list(self._path(segment, start, hidden))[::-1]
        keys = _joined([*context, (start, stop)])
        count = sum(end - begin for begin, end in keys)
        return QueryBlock((start, stop), tuple(keys), count, alone and (window is None or count <= window))

    def _path(self, segment: int, stop: int, hidden: int) -> Iterator[Span]:
        """The spans of the path up to a token, last first, without its first `hidden` tokens."""
        while segment >= 0:
            start = self._starts[segment]
            cut = max(0, hidden - (self._depths[segment] - self.lengths[segment]))
            if start + cut < stop:
                yield start + cut, stop
            segment = self.parents[segment]
            stop = self._ends_segment(segment) if segment >= 0 else 0


def _joined(spans: Sequence[Span]) -> list[Span]:
    """The same spans, with those that touch made one."""
    joined: list[Span] = []
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined


def _check(parents: Sequence[int], lengths: Sequence[int]) -> None:
    if len(parents) != len(lengths) or not lengths or min(lengths) < 1:
        raise ValueError("every segment needs a length of at least 1 and a parent that stands before it, depth first")
    open_path = [-1]
    for index, parent in enumerate(parents):
        if parent not in open_path:
            raise ValueError("every segment needs a length of at least 1 and a parent that stands before it, depth first")
        while open_path[-1] != parent:
            open_path.pop()
        open_path.append(index)
