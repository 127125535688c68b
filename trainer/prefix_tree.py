"""Tokens with the same prefix are laid out once, and every turn is scored once, with its own advantage and weight.

The layout is a trie over token ids: siblings share their observation, and whatever else they begin with in common, down to the
first differing token; so do trees of one pack (a system prompt). A token's hidden state depends on its prefix alone, so this is
exact whatever the turns behind the tokens are. What is trained is a list of *scored tokens* (axis S), which point into the layout:
two turns that share a laid-out token each have their own entry with their own advantage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import torch

from trainer.tree_attention import AttentionPlan
from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_Cursor = tuple[int, int, int]
"""Tree, turn, and how many of the turn's tokens are laid out; never at the end of a turn."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTreeBatch:
    """One pack of trees as tensors. Axes: T laid-out tokens, S scored tokens (loss weight above 0)."""

    ids_T: torch.Tensor
    """Token ids, int64."""
    positions_T: torch.Tensor
    """Place of each token on its path from the root, from 0, int64."""
    plan: AttentionPlan
    """Which tokens see which."""
    predictors_S: torch.Tensor
    """Index into T of the token whose logits predict the scored token: the one before it on its path, int64."""
    targets_S: torch.Tensor
    """Id of the scored token, int64."""
    turn_S: torch.Tensor
    """Number of the scored token's turn; numbers count through the pack's laid-out turns, int64."""
    tokens_S: torch.Tensor
    """Place of the scored token among all tokens of the pack's trees, tree after tree and turn after turn, laid out or not, int64."""
    sampled_S: torch.Tensor
    """True where the policy sampled the token, False for observations (which are scored only with an observation weight)."""
    behaviour_S: torch.Tensor
    """Log-probability (nats) under the behaviour policy; 0 where not sampled."""
    advantages_S: torch.Tensor
    """Advantage of the token's turn."""
    weights_S: torch.Tensor
    """Weight of the token's turn, times the observation weight where not sampled."""
    rollout_weights_S: torch.Tensor
    """Sum over the rollouts through the token of (weight of the rollout's last turn / its number of scored tokens), times the observation
    weight where not sampled."""
    turns: int
    """Turns that are laid out."""
    rollouts: int
    """Paths that are laid out."""
    flat_tokens: int
    """Tokens of the sequences of these paths, each counted in full: what would be computed without sharing."""

    @property
    def unique_tokens(self) -> int:
        """Tokens that are laid out, hence computed."""
        return len(self.ids_T)

    def to(self, device: torch.device | str) -> "PrefixTreeBatch":
        """The same pack on another device."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in tensors.items() if isinstance(value, torch.Tensor)})


def pack(
    trees: Sequence[TrajectoryTree],
    node_advantages: Sequence[npt.ArrayLike],
    node_weights: Sequence[npt.ArrayLike],
    *,
    observation_weight: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> PrefixTreeBatch:
    """Lay out `trees`, each with its turns' advantages and loss weights, both of shape (N,).

    A turn with weight 0, or below which no rollout counts, is not scored; it is laid out only as context of one that is.
    A turn's weight counts as given: weights of shared turns are the sums over the rollouts below them if the caller made them so
    (`TrajectoryTree.path_weights`, `leaf_weights`). `observation_weight` scores observation tokens too, with this factor.
    The first token of a path has no predecessor and is never scored. Floating tensors have `dtype`.
    """
    pairs = zip(trees, node_advantages, node_weights, strict=True)
    entries = [_Entry.of(tree, advantages, weights, observation_weight) for tree, advantages, weights in pairs]
    layout = _Layout([entry.tree for entry in entries], [entry.needed_N for entry in entries])
    if not layout.lengths:
        raise ValueError("no turn of these trees has a loss weight above 0; leave such trees out")
    scored = [_score(entry, layout, index) for index, entry in enumerate(entries)]
    first_turn = np.cumsum([0] + [int(entry.needed_N.sum()) for entry in entries])
    columns = {name: np.concatenate([getattr(part, name) for part in scored]) for name in _Scored.__slots__}
    columns["turn"] = np.concatenate([part.turn + first for part, first in zip(scored, first_turn, strict=False)])
    first_token = np.cumsum([0] + [sum(len(turn.ids_T) for turn in entry.tree.turns) for entry in entries])
    columns["token"] = np.concatenate([part.token + first for part, first in zip(scored, first_token, strict=False)])
    positions_T = np.concatenate(layout.positions)
    ends = [end for index, entry in enumerate(entries) for end in layout.ends(index, entry.terminal_N)]

    def floats(name: str) -> torch.Tensor:
        return torch.from_numpy(columns[name]).to(dtype)

    return PrefixTreeBatch(
        ids_T=torch.from_numpy(np.concatenate(layout.ids).astype(np.int64)),
        positions_T=torch.from_numpy(positions_T),
        plan=AttentionPlan(layout.parents, layout.lengths),
        predictors_S=torch.from_numpy(columns["predictor"]),
        targets_S=torch.from_numpy(columns["target"]),
        turn_S=torch.from_numpy(columns["turn"]),
        tokens_S=torch.from_numpy(columns["token"]),
        sampled_S=torch.from_numpy(columns["sampled"]),
        behaviour_S=floats("behaviour"),
        advantages_S=floats("advantage"),
        weights_S=floats("weight"),
        rollout_weights_S=floats("rollout_weight"),
        turns=int(first_turn[-1]),
        rollouts=sum(int(entry.terminal_N.sum()) for entry in entries),
        flat_tokens=sum(int(positions_T[end]) + 1 for end in ends if end >= 0),
    )


def micro_batches(trees: Sequence[TrajectoryTree], node_weights: Sequence[npt.ArrayLike], token_budget: int) -> list[range]:
    """Cut `trees`, in order, into ranges whose trees have at most `token_budget` unique tokens together.

    Greedy, hence a function of the trees alone. A tree is never cut: one beyond the budget is a range of its own.
    A tree without a turn to train costs nothing; where all are such, there is no range.
    """
    ranges: list[range] = []
    start, tokens = 0, 0
    for index, (tree, weights) in enumerate(zip(trees, node_weights, strict=True)):
        needed_N = _Entry.of(tree, np.zeros(len(tree.turns)), weights, 0.0).needed_N
        size = sum(_Layout([tree], [needed_N]).lengths)
        if tokens and size and tokens + size > token_budget:
            ranges.append(range(start, index))
            start, tokens = index, 0
        tokens += size
    return [*ranges, range(start, len(trees))] if tokens else ranges


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tree and what of it counts; axis N is its turns."""

    tree: TrajectoryTree
    advantages_N: Floats
    weights_N: Floats
    """0 for turns that are not scored."""
    observation_weight: float
    needed_N: npt.NDArray[np.bool_]
    """True for turns that are laid out: scored, or above one that is."""
    terminal_N: npt.NDArray[np.bool_]
    """True for laid-out turns that no laid-out turn continues; one rollout each."""

    @classmethod
    def of(cls, tree: TrajectoryTree, advantages: npt.ArrayLike, weights: npt.ArrayLike, observation_weight: float) -> "_Entry":
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


class _Layout:
    """The trie of all needed turns, laid out depth first: each segment stands behind its parent, a turn in one or more runs."""

    def __init__(self, trees: Sequence[TrajectoryTree], needed: Sequence[npt.NDArray[np.bool_]]) -> None:
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

    def ends(self, tree: int, chosen_N: npt.NDArray[np.bool_]) -> Iterator[int]:
        """Index into T of the last token of each sequence on the path to each chosen turn; -1 for one without tokens."""
        turns = self._trees[tree].turns
        for chosen in np.flatnonzero(chosen_N).tolist():
            begun = [turn for turn in self._trees[tree].path(chosen) if turns[turn].new_segment]
            for turn in (*(turns[turn].parent for turn in begun), chosen):
                runs = self.runs[tree].get(turn)
                yield runs[-1][0] + runs[-1][1] - 1 if runs else self.before[tree][turn]

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


@dataclass(frozen=True, slots=True)
class _Scored:
    """Columns of one tree's scored tokens; see `PrefixTreeBatch`. `turn` and `token` count from 0 in each tree."""

    predictor: Ints
    target: Ints
    turn: Ints
    token: Ints
    sampled: npt.NDArray[np.bool_]
    behaviour: Floats
    advantage: Floats
    weight: Floats
    rollout_weight: Floats


def _score(entry: _Entry, layout: _Layout, index: int) -> _Scored:
    numbers = np.flatnonzero(entry.needed_N).tolist()
    turns = [entry.tree.turns[number] for number in numbers]
    places = [layout.places(index, number) for number in numbers]
    turn = np.repeat(np.arange(len(numbers)), [len(place_T) for place_T in places])
    firsts = [layout.before[index][number] for number in numbers]
    before = [np.append(first, place_T[:-1])[: len(place_T)] for first, place_T in zip(firsts, places, strict=True)]

    def column(parts: list[npt.NDArray], kind: npt.DTypeLike) -> npt.NDArray:
        return np.concatenate([np.empty(0, kind), *parts]).astype(kind)

    predictor = column(before, np.int64)
    sampled = column([turn.mask_T for turn in turns], np.bool_)
    factor = np.where(sampled, 1.0, entry.observation_weight)
    weight = entry.weights_N[numbers][turn] * factor
    keep = (weight > 0) & (predictor >= 0)
    starts_N = np.cumsum([0] + [len(turn.ids_T) for turn in entry.tree.turns])
    token = column([np.arange(starts_N[number], starts_N[number + 1]) for number in numbers], np.int64)
    scored_N = np.zeros(len(entry.needed_N))
    scored_N[numbers] = np.bincount(turn[keep], minlength=len(numbers))
    return _Scored(
        predictor=predictor[keep],
        target=column([turn.ids_T for turn in turns], np.int64)[keep],
        turn=turn[keep],
        token=token[keep],
        sampled=sampled[keep],
        behaviour=np.where(sampled, column([turn.logprobs_T for turn in turns], np.float64), 0.0)[keep],
        advantage=entry.advantages_N[numbers][turn][keep],
        weight=weight[keep],
        rollout_weight=(_rollout_weights(entry, scored_N)[numbers][turn] * factor)[keep],
    )


def _rollout_weights(entry: _Entry, scored_N: Floats) -> Floats:
    """Per turn, the sum over the rollouts below it of their weight / their number of scored tokens."""
    parents = [turn.parent for turn in entry.tree.turns]
    lengths_N, sums_N = scored_N.copy(), np.zeros(len(parents))
    for index, parent in enumerate(parents):
        if parent >= 0:
            lengths_N[index] += lengths_N[parent]
    for index in range(len(parents) - 1, -1, -1):
        if entry.terminal_N[index] and lengths_N[index]:
            sums_N[index] += entry.weights_N[index] / lengths_N[index]
        if parents[index] >= 0:
            sums_N[parents[index]] += sums_N[index]
    return sums_N
