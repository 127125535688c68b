"""The trie of all prefixes of some trees: every distinct prefix has one place, and stands behind the prefix that it continues."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_Cursor = tuple[int, int, int]
"""Tree, turn, and how many of the turn's tokens are laid out; never at the end of a turn."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tree and what of it counts; axis N is its turns."""

    tree: TrajectoryTree
    advantages_N: Floats
    weights_N: Floats
    """0 for turns that are not scored."""
    observation_weight: float
    needed_N: Flags
    """True for turns that are scored, or above one that is."""
    terminal_N: Flags
    """True for needed turns that no needed turn continues; one rollout each."""

    @classmethod
    def of(cls, tree: TrajectoryTree, advantages: npt.ArrayLike, weights: npt.ArrayLike, observation_weight: float = 0.0) -> "Entry":
        """Raises `ValueError` for numbers that cannot be trained on."""
        advantages_N, weights_N = np.asarray(advantages, dtype=np.float64), np.array(weights, dtype=np.float64)
        count = len(tree.turns)
        if advantages_N.shape != (count,) or weights_N.shape != (count,):
            raise ValueError(f"a tree of {count} turns got {advantages_N.shape} advantages and {weights_N.shape} weights")
        if not (weights_N >= 0).all() or not np.isfinite(weights_N).all():
            raise ValueError("loss weights must be finite and at least 0")
        sound_N, needed_N, terminal_N = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for index in range(count - 1, -1, -1):
            children, reason = tree.children(index), tree.turns[index].stop_reason
            sound_N[index] = sound_N[children].any() if children else reason is None or reason.counts
            above = needed_N[children].any()
            needed_N[index] = above or (sound_N[index] and weights_N[index] > 0)
            terminal_N[index] = needed_N[index] and not above
        weights_N[~sound_N] = 0.0
        unknown = [index for index in np.flatnonzero(weights_N) if np.isnan(tree.turns[index].logprobs_T).any()]
        if unknown:
            raise ValueError(f"turn {unknown[0]} has no log-probabilities, as its engine gave none; it cannot be learned from")
        if not np.isfinite(advantages_N[weights_N > 0]).all():
            raise ValueError("a turn with a loss weight above 0 has an advantage that is not finite")
        return cls(tree, advantages_N, weights_N, observation_weight, needed_N, terminal_N)

    def laid_out(self, shares_N: Floats) -> Flags:
        """The turns that a part of the tree needs which scores the turns with a share above 0: those, and the sequences up to them."""
        laid_N = shares_N > 0
        for index in range(len(laid_N) - 1, 0, -1):
            turn = self.tree.turns[index]
            if laid_N[index] and turn.parent >= 0 and not turn.new_segment:
                laid_N[turn.parent] = True
        return laid_N

    def sequence_lengths(self) -> Ints:
        """Tokens of each turn's sequence up to its own end, shape (N,)."""
        lengths_N = np.array([len(turn.ids_T) for turn in self.tree.turns], dtype=np.int64)
        for index, turn in enumerate(self.tree.turns):
            if turn.parent >= 0 and not turn.new_segment:
                lengths_N[index] += lengths_N[turn.parent]
        return lengths_N

    def sequence_ends(self, terminal: int) -> list[int]:
        """The last turn of each sequence on the path to a turn, which is the last of them."""
        begun = [turn for turn in self.tree.path(terminal) if self.tree.turns[turn].new_segment]
        return [*(parent for turn in begun if (parent := self.tree.turns[turn].parent) >= 0), terminal]

    def in_sequences(self, ends: Sequence[int]) -> Flags:
        """True for the turns of the sequences that end with these turns, shape (N,)."""
        chosen_N = np.zeros(len(self.weights_N))
        chosen_N[list(ends)] = 1.0
        return self.laid_out(chosen_N)

    def flat_tokens(self, terminals: Sequence[int]) -> int:
        """Tokens of all sequences of the rollouts that end with these turns."""
        lengths_N = self.sequence_lengths()
        return sum(int(lengths_N[self.sequence_ends(terminal)].sum()) for terminal in terminals)

    def scored_counts(self) -> Floats:
        """Scored tokens of each turn: those with a weight, but never the first token of a sequence, which nothing predicts. Shape (N,)."""
        lengths_N, counts_N = self.sequence_lengths(), np.zeros(len(self.weights_N))
        for index in np.flatnonzero(self.weights_N):
            turn = self.tree.turns[index]
            scored_T = turn.mask_T | (self.observation_weight > 0)
            counts_N[index] = scored_T.sum() - (lengths_N[index] == len(scored_T) and scored_T[:1].any())
        return counts_N

    def rollout_weights(self, chosen_N: Flags, *, by_length: bool = True) -> Floats:
        """Per turn, the sum over the chosen rollouts below it of their weight, shape (N,); by default / their number of scored tokens."""
        parents = [turn.parent for turn in self.tree.turns]
        lengths_N, sums_N = self.scored_counts(), np.zeros(len(parents))
        for index, parent in enumerate(parents):
            if parent >= 0:
                lengths_N[index] += lengths_N[parent]
        for index in range(len(parents) - 1, -1, -1):
            if chosen_N[index] and lengths_N[index]:
                sums_N[index] += self.weights_N[index] / (lengths_N[index] if by_length else 1.0)
            if parents[index] >= 0:
                sums_N[parents[index]] += sums_N[index]
        return sums_N


class Layout:
    """The trie of all needed turns, laid out depth first: each segment stands behind its parent, a turn in one or more runs."""

    def __init__(self, trees: Sequence[TrajectoryTree], needed: Sequence[Flags]) -> None:
        self._trees = trees
        self._needed = needed
        self.ids: list[npt.NDArray[np.int32]] = []
        self.positions: list[Ints] = []
        self.parents: list[int] = []
        self.lengths: list[int] = []
        self.runs: list[dict[int, list[tuple[int, int]]]] = [{} for _ in trees]
        """Per tree and turn, (first index into T, count) of the runs that hold its tokens, in order."""
        self.before: list[dict[int, int]] = [{} for _ in trees]
        """Per tree and turn, the index into T of the token before its first one; -1 where there is none."""
        self._size = 0
        roots = [cursor for index in range(len(trees)) for cursor in (*self._enter(index, -1, -1), *self._segments(index))]
        pending = [(-1, 0, group) for group in reversed(self._by_next_token(roots))]
        while pending:
            parent, depth, group = pending.pop()
            index, depth, groups = self._grow_segment(parent, depth, group)
            pending.extend((index, depth, group) for group in reversed(groups))

    def end(self, tree: int, turn: int) -> tuple[int, int] | None:
        """The segment in which a turn's sequence ends, and how many of its tokens it takes; None for one without tokens."""
        runs = self.runs[tree].get(turn)
        last = runs[-1][0] + runs[-1][1] - 1 if runs else self.before[tree][turn]
        if last < 0:
            return None
        starts = np.cumsum([0, *self.lengths])
        segment = int(np.searchsorted(starts, last, side="right")) - 1
        return segment, last + 1 - int(starts[segment])

    def places(self, tree: int, turn: int) -> Ints:
        """Index into T of each token of a turn."""
        return np.concatenate([np.arange(0), *(np.arange(start, start + count) for start, count in self.runs[tree].get(turn, []))])

    def _segments(self, tree: int) -> Iterator[_Cursor]:
        """Cursors at the needed turns that begin a new sequence; they see nothing of the turns above them."""
        for index, turn in enumerate(self._trees[tree].turns):
            if turn.new_segment and self._needed[tree][index]:
                self.before[tree][index] = -1
                yield tree, index, 0

    def _enter(self, tree: int, turn: int, before: int) -> Iterator[_Cursor]:
        """Cursors at the needed continuations of a turn (-1: at the roots); turns without tokens are passed through."""
        turns = self._trees[tree].turns
        waiting = self._trees[tree].children(turn)[::-1]
        while waiting:
            child = waiting.pop()
            if not self._needed[tree][child] or turns[child].new_segment:
                continue
            self.before[tree][child] = before
            if len(turns[child].ids_T):
                yield tree, child, 0
            else:
                waiting.extend(self._trees[tree].children(child)[::-1])

    def _grow_segment(self, parent: int, depth: int, group: list[_Cursor]) -> tuple[int, int, list[list[_Cursor]]]:
        """Lay out tokens for as long as all cursors agree; returns the segment, the depth reached, and the groups that part here."""
        index, start = len(self.parents), self._size
        groups = [group]
        while len(groups) == 1:
            groups = self._by_next_token(self._lay_out_common(groups[0]))
        length = self._size - start
        self.parents.append(parent)
        self.lengths.append(length)
        self.positions.append(np.arange(depth, depth + length))
        return index, depth + length, groups

    def _lay_out_common(self, cursors: list[_Cursor]) -> list[_Cursor]:
        """Lay out the longest run of tokens that all cursors agree on, within the present turns; returns the cursors behind it."""
        rest = [self._trees[tree].turns[turn].ids_T[offset:] for tree, turn, offset in cursors]
        count = min(len(ids) for ids in rest)
        run = rest[0][:count]
        for ids in rest[1:]:
            same = run == ids[: len(run)]
            if not same.all():
                run = run[: int(same.argmin())]
        count, start = len(run), self._size
        self.ids.append(run)
        self._size += count
        moved: list[_Cursor] = []
        for (tree, turn, offset), ids in zip(cursors, rest, strict=True):
            self.runs[tree].setdefault(turn, []).append((start, count))
            if len(ids) > count:
                moved.append((tree, turn, offset + count))
            else:
                moved.extend(self._enter(tree, turn, self._size - 1))
        return moved

    def _by_next_token(self, cursors: list[_Cursor]) -> list[list[_Cursor]]:
        """Cursors grouped by the token they stand before, in order of first appearance."""
        groups: dict[int, list[_Cursor]] = {}
        for tree, turn, offset in cursors:
            groups.setdefault(int(self._trees[tree].turns[turn].ids_T[offset]), []).append((tree, turn, offset))
        return list(groups.values())
