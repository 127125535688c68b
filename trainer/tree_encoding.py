"""A recorded rollout is learned from in the very tokens that the agent would hold: as they were sampled where it is the same conversation,
else encoded anew through the agent's context.

Whether it is the same is seen turn by turn, from the tokens alone: what the agent would be shown is what was shown, and it reads the
same action in what was sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from agents.action_parser import ParsedAction
from agents.agent import Agent
from agents.context import Context, ContextDelta
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


@dataclass(frozen=True, slots=True)
class KeptTree:
    """The kept rollouts of one tree as a prefix tree; axis N is its turns."""

    tree: TrajectoryTree
    """In the agent's tokens; log-probabilities are 0, since nothing here asks for them."""
    weights_N: npt.NDArray[np.float64]
    """How many kept rollouts go through each turn: so much does the turn weigh in the loss."""
    rollouts: int
    re_encoded: int
    """Turns whose tokens are not those that were recorded."""


class UnwritableError(ValueError):
    """A recorded rollout that the agent could not have had, and why."""


class TreeEncoder:
    """Encodes recorded trees for `agent`."""

    def __init__(self, agent: Agent, vocabulary: int, max_length: int, recorder: Agent | None = None) -> None:
        """
        Args:
            agent: whose tokens are wanted.
            vocabulary: ids that its tokenizer has.
            max_length: tokens that its sequence may have.
            recorder: the agent that recorded, which knows the texts of its tokens; None where nobody does.
        """
        self._agent = agent
        self._vocabulary = vocabulary
        self._max_length = max_length
        self._recorder = recorder

    def own_tokens(self, turn: Turn) -> int:
        """How many tokens a policy wrote in this turn; for one without a model, those that the agent would write."""
        return int(turn.mask_T.sum()) or len(self._written(turn.action))

    def encode(self, tree: TrajectoryTree, leaves: Sequence[int]) -> tuple[KeptTree | None, list[str]]:
        """The rollouts that end with `leaves`, and why any of them had to be left out; None where all had to be."""
        turns: dict[int, _Encoded] = {}
        paths: list[list[int]] = []
        reasons: list[str] = []
        for leaf in leaves:
            path = [index for index in tree.path(leaf) if _acted(tree.turns[index])]
            try:
                for before, index in zip([-1, *path], path, strict=False):
                    if index not in turns:
                        turns[index] = self._turn(tree.turns[index], turns.get(before))
            except UnwritableError as error:
                reasons.append(str(error))
                continue
            if path:
                paths.append(path)
        return (_prefix_tree(tree, turns, paths) if paths else None), reasons

    def _turn(self, turn: Turn, before: "_Encoded | None") -> "_Encoded":
        """The turn as it follows the one before."""
        if before is None:
            context, observation = self._agent.context(), turn.observation
        else:
            context, observation = before.context.copy(), self._agent.action_format.reply(turn.observation, before.parsed)
        delta = context.extend(observation)
        recorded = self._as_sampled(turn, delta)
        sample_T, stopped = recorded or (self._again(turn), True)
        context.record(sample_T, stopped=stopped)
        if context.length > self._max_length:
            raise UnwritableError(f"it has more than the {self._max_length:,} tokens of policy.max_length")
        return _Encoded(delta, sample_T, self._agent.parse(sample_T, stopped=stopped), context, recorded is not None)

    def _as_sampled(self, turn: Turn, delta: ContextDelta) -> tuple[npt.NDArray[np.int32], bool] | None:
        """What was sampled and whether it was ended, where this is the conversation that it was sampled in."""
        sample_T = turn.ids_T[turn.mask_T]
        same = turn.new_segment == delta.new_segment and np.array_equal(turn.ids_T[~turn.mask_T], delta.ids_T)
        if not same or not len(sample_T) or int(sample_T.max()) >= self._vocabulary:
            return None
        stopped = int(sample_T[-1]) in self._agent.stop_ids
        return (sample_T, stopped) if self._agent.parse(sample_T, stopped=stopped).action == turn.action else None

    def _again(self, turn: Turn) -> npt.NDArray[np.int32]:
        """The turn's text in the agent's tokens, ended as it ends a turn."""
        sample_T = turn.ids_T[turn.mask_T]
        if len(sample_T) and self._recorder is not None:
            stopped = int(sample_T[-1]) in self._recorder.stop_ids
            text = self._recorder.text(sample_T[:-1].tolist() if stopped else sample_T.tolist())
            ids_T = self._ended(text)
            if self._agent.parse(ids_T, stopped=True).action == turn.action:
                return ids_T
        ids_T = self._written(turn.action)
        read = self._agent.parse(ids_T, stopped=True)
        if not read.ok or read.action != turn.action:
            raise UnwritableError(f"the agent cannot write the action {turn.action[:60]!r} in a way that it reads itself")
        return ids_T

    def _written(self, action: str) -> npt.NDArray[np.int32]:
        return self._ended(self._agent.action_format.write(action))

    def _ended(self, text: str) -> npt.NDArray[np.int32]:
        template = self._agent.template
        return np.append(template.encode_text(text), np.int32(template.stop_id))


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A turn in the agent's tokens, and the conversation after it."""

    delta: ContextDelta
    sample_T: npt.NDArray[np.int32]
    parsed: ParsedAction
    context: Context
    as_recorded: bool


def _acted(turn: Turn) -> bool:
    """False for a turn that a rollout ended before, which no policy answered."""
    return bool(turn.mask_T.any()) or turn.action != ""


def _prefix_tree(tree: TrajectoryTree, turns: dict[int, _Encoded], paths: Sequence[Sequence[int]]) -> KeptTree:
    counts: dict[int, int] = {}
    parents: dict[int, int] = {}
    for path in paths:
        for before, index in zip([-1, *path], path, strict=False):
            counts[index] = counts.get(index, 0) + 1
            parents[index] = before
    kept = sorted(counts)  # Parents stand before their children, as they do in the tree.
    places = {index: place for place, index in enumerate(kept)}
    made = [_turn_of(tree.turns[index], turns[index], places.get(parents[index], -1)) for index in kept]
    return KeptTree(
        TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs, made),
        np.array([counts[index] for index in kept], dtype=np.float64),
        len(paths),
        sum(not turns[index].as_recorded for index in kept),
    )


def _turn_of(turn: Turn, encoded: _Encoded, parent: int) -> Turn:
    observed, sampled = len(encoded.delta.ids_T), len(encoded.sample_T)
    nothing_T = np.zeros(observed + sampled, dtype=np.float32)
    return replace(
        turn,
        parent=parent,
        ids_T=np.concatenate([encoded.delta.ids_T, encoded.sample_T]).astype(np.int32),
        mask_T=np.arange(observed + sampled) >= observed,
        logprobs_T=nothing_T,
        entropies_T=nothing_T,
        new_segment=encoded.delta.new_segment,
        snapshot=None,
    )
