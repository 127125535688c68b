"""Tokens with the same prefix are laid out once, and every turn is scored once, with its own advantage and weight.

The layout is a trie over token ids: siblings share their observation, and whatever else they begin with in common, down to the
first differing token; so do trees of one pack (a system prompt). A token's hidden state depends on its prefix alone, so this is
exact whatever the turns behind the tokens are. What is trained is a list of *scored tokens* (axis S), which point into the layout:
two turns that share a laid-out token each have their own entry with their own advantage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from trainer.attention_plan import AttentionPlan
from trainer.prefix_layout import Entry, Flags, Floats, Ints, Layout
from trainer.tree_cut import Cover, Segments, cut
from tree_rollout.tree import TrajectoryTree


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
    ends_R: list[tuple[int, int]]
    """Tree and last turn of each rollout whose last turn is scored here: of a tree that was cut, each is in one pack."""
    flat_tokens: int
    """Tokens of the sequences of these rollouts, each counted in full: what would be computed without sharing."""
    recomputed_tokens: int = 0
    """Laid-out tokens that another pack of the same tree has laid out too, and counted as its own."""

    @property
    def rollouts(self) -> int:
        """Rollouts whose last turn is scored here."""
        return len(self.ends_R)

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
    shares: Sequence[Floats] | None = None,
) -> PrefixTreeBatch:
    """Lay out `trees`, each with its turns' advantages and loss weights, both of shape (N,).

    A turn with weight 0, or below which no rollout counts, is not scored; it is laid out only as context of one that is.
    A turn's weight counts as given: weights of shared turns are the sums over the rollouts below them if the caller made them so
    (`TrajectoryTree.path_weights`, `leaf_weights`). `observation_weight` scores observation tokens too, with this factor.
    The first token of a path has no predecessor and is never scored. Floating tensors have `dtype`.
    `shares`, of shape (N,) and from 0 to 1, says how much of each turn's weights this pack carries (all of it by default); all other
    numbers are those of the whole tree, so that the losses of packs whose shares sum to 1 add up to the loss of the whole.
    """
    pairs = zip(trees, node_advantages, node_weights, strict=True)
    entries = [Entry.of(tree, advantages, weights, observation_weight) for tree, advantages, weights in pairs]
    kept = [np.where(entry.needed_N, 1.0, 0.0) for entry in entries] if shares is None else list(shares)
    laid = [entry.laid_out(kept_N) for entry, kept_N in zip(entries, kept, strict=True)] if shares else [e.needed_N for e in entries]
    layout = Layout([entry.tree for entry in entries], laid)
    if not layout.lengths:
        raise ValueError("no turn of these trees has a loss weight above 0; leave such trees out")
    scored = [_score(entry, layout, index, kept[index], laid[index]) for index, entry in enumerate(entries)]
    first_turn = np.cumsum([0] + [int(laid_N.sum()) for laid_N in laid])
    columns = {name: np.concatenate([getattr(part, name) for part in scored]) for name in _Scored.__slots__}
    columns["turn"] = np.concatenate([part.turn + first for part, first in zip(scored, first_turn, strict=False)])
    first_token = _first_tokens(trees)
    columns["token"] = np.concatenate([part.token + first for part, first in zip(scored, first_token, strict=False)])
    ended = [np.flatnonzero(entry.terminal_N & (kept_N > 0)).tolist() for entry, kept_N in zip(entries, kept, strict=True)]

    def floats(name: str) -> torch.Tensor:
        return torch.from_numpy(columns[name]).to(dtype)

    return PrefixTreeBatch(
        ids_T=torch.from_numpy(np.concatenate(layout.ids).astype(np.int64)),
        positions_T=torch.from_numpy(np.concatenate(layout.positions)),
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
        ends_R=[(index, last) for index, lasts in enumerate(ended) for last in lasts],
        flat_tokens=sum(entry.flat_tokens(terminals) for entry, terminals in zip(entries, ended, strict=True)),
    )


def packs(
    trees: Sequence[TrajectoryTree],
    node_advantages: Sequence[npt.ArrayLike],
    node_weights: Sequence[npt.ArrayLike],
    token_budget: int,
    *,
    whole_rollouts: bool = False,
    by_length: bool = True,
    **options: Any,
) -> Iterator[PrefixTreeBatch]:
    """Packs of at most `token_budget` tokens, whose losses and gradients add up to those of one pack of all `trees`.

    Trees are packed together as `micro_batches` says. One beyond the budget is cut into several packs, each with the whole prefixes
    of what it scores, through which gradients flow as in the whole; `recomputed_tokens` counts the prefixes that this repeats. Every
    turn is scored in one pack, whole. With `whole_rollouts` every rollout is in one pack with all that it scores, for losses with a
    ratio of the rollout; a turn that rollouts of several packs share is scored in each, with the weights of the rollouts there (with
    `by_length` divided by their numbers of scored tokens, as aggregation `sequence` has it).
    A single sequence (a single rollout, with `whole_rollouts`) beyond the budget is a pack by itself. `options` are those of `pack`.
    `tokens_S` and `ends_R` count through all `trees`.
    """
    first_token = _first_tokens(trees)
    for part, tokens in _sized_micro_batches(trees, node_weights, token_budget):
        if tokens <= token_budget:
            chosen = slice(part.start, part.stop)
            whole = pack(trees[chosen], node_advantages[chosen], node_weights[chosen], **options)
            yield _among(whole, part.start, first_token[part.start])
            continue
        # Only trees without a turn to train can stand beside one beyond the budget.
        (index,) = (index for index in part if np.any(Entry.of(trees[index], node_advantages[index], node_weights[index]).needed_N))
        entry = Entry.of(trees[index], node_advantages[index], node_weights[index], options.get("observation_weight", 0.0))
        for shares_N, recomputed in _parts(entry, token_budget, whole_rollouts, by_length):
            piece = pack([entry.tree], [node_advantages[index]], [node_weights[index]], shares=[shares_N], **options)
            yield replace(_among(piece, index, first_token[index]), recomputed_tokens=recomputed)


def _first_tokens(trees: Sequence[TrajectoryTree]) -> Ints:
    """Place of each tree's first token among all tokens of the trees."""
    return np.cumsum([0] + [sum(len(turn.ids_T) for turn in tree.turns) for tree in trees])


def _among(batch: PrefixTreeBatch, tree: int, token: int) -> PrefixTreeBatch:
    """A pack of some trees, the first of which is number `tree` among others and begins with token `token` of all."""
    ends_R = [(tree + index, last) for index, last in batch.ends_R]
    return replace(batch, tokens_S=batch.tokens_S + int(token), ends_R=ends_R)


def _parts(entry: Entry, token_budget: int, whole_rollouts: bool, by_length: bool) -> Iterator[tuple[Floats, int]]:
    """Shares of a tree's turns for each part of it, and how many of the part's tokens earlier parts have."""
    layout = Layout([entry.tree], [entry.needed_N])
    segments = Segments(layout.parents, layout.lengths)
    rollouts = [entry.sequence_ends(terminal) for terminal in np.flatnonzero(entry.terminal_N).tolist()]
    ends = rollouts if whole_rollouts else [[end] for end in sorted({end for rollout in rollouts for end in rollout})]
    units = [[place for end in unit if (place := layout.end(0, end))] for unit in ends]
    scored_N, cover = np.zeros(len(entry.weights_N), np.bool_), Cover()
    for part in cut(segments, units, token_budget):
        if whole_rollouts:
            shares_N = _rollout_shares(entry, [ends[unit][-1] for unit in part], by_length)
        else:
            fresh_N = entry.in_sequences([ends[unit][0] for unit in part]) & (entry.weights_N > 0) & ~scored_N
            scored_N |= fresh_N
            shares_N = fresh_N.astype(np.float64)
        if shares_N.any():
            paths = [place for unit in part for place in units[unit]]
            missing = segments.missing(paths, cover)
            yield shares_N, segments.size([paths]) - segments.added(missing, cover)
            cover |= missing


def _rollout_shares(entry: Entry, terminals: Sequence[int], by_length: bool) -> Floats:
    """Of each turn's weights, the share that these rollouts have."""
    chosen_N = np.zeros(len(entry.weights_N), np.bool_)
    chosen_N[list(terminals)] = True
    own_N, all_N = (entry.rollout_weights(flags_N, by_length=by_length) for flags_N in (chosen_N, entry.terminal_N))
    return np.divide(own_N, all_N, out=np.zeros_like(own_N), where=all_N > 0)


def micro_batches(trees: Sequence[TrajectoryTree], node_weights: Sequence[npt.ArrayLike], token_budget: int) -> list[range]:
    """Cut `trees`, in order, into ranges whose trees have at most `token_budget` unique tokens together.

    Greedy, hence a function of the trees alone. No tree is cut here: one beyond the budget is a range of its own.
    A tree without a turn to train costs nothing; where all are such, there is no range.
    """
    return [part for part, _ in _sized_micro_batches(trees, node_weights, token_budget)]


def _sized_micro_batches(
    trees: Sequence[TrajectoryTree], node_weights: Sequence[npt.ArrayLike], token_budget: int
) -> list[tuple[range, int]]:
    """The ranges of `micro_batches`, each with the unique tokens of its trees."""
    ranges: list[tuple[range, int]] = []
    start, tokens = 0, 0
    for index, (tree, weights) in enumerate(zip(trees, node_weights, strict=True)):
        needed_N = Entry.of(tree, np.zeros(len(tree.turns)), weights).needed_N
        size = sum(Layout([tree], [needed_N]).lengths)
        if tokens and size and tokens + size > token_budget:
            ranges.append((range(start, index), tokens))
            start, tokens = index, 0
        tokens += size
    return [*ranges, (range(start, len(trees)), tokens)] if tokens else ranges


@dataclass(frozen=True, slots=True)
class _Scored:
    """Columns of one tree's scored tokens; see `PrefixTreeBatch`. `turn` and `token` count from 0 in each tree."""

    predictor: Ints
    target: Ints
    turn: Ints
    token: Ints
    sampled: Flags
    behaviour: Floats
    advantage: Floats
    weight: Floats
    rollout_weight: Floats


def _score(entry: Entry, layout: Layout, index: int, shares_N: Floats, laid_N: Flags) -> _Scored:
    numbers = np.flatnonzero(laid_N).tolist()
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
    weight = (entry.weights_N * shares_N)[numbers][turn] * factor
    keep = (weight > 0) & (predictor >= 0)
    rollout_weights_N = entry.rollout_weights(entry.terminal_N) * shares_N
    starts_N = np.cumsum([0] + [len(turn.ids_T) for turn in entry.tree.turns])
    token = column([np.arange(starts_N[number], starts_N[number + 1]) for number in numbers], np.int64)
    return _Scored(
        predictor=predictor[keep],
        target=column([turn.ids_T for turn in turns], np.int64)[keep],
        turn=turn[keep],
        token=token[keep],
        sampled=sampled[keep],
        behaviour=np.where(sampled, column([turn.logprobs_T for turn in turns], np.float64), 0.0)[keep],
        advantage=entry.advantages_N[numbers][turn][keep],
        weight=weight[keep],
        rollout_weight=(rollout_weights_N[numbers][turn] * factor)[keep],
    )
