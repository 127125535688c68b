"""A tree as columns, one value per turn, which is what a drawing needs; texts and tokens of a turn only when it is opened."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.recorded.lines import origin_of
from trainer.viewer.errors import NotThereError
from trainer.viewer.run_answers import ReadTree, RunReader, number, numbers
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import lay_out, mean_known
from tree_rollout.turn import Turn

_LABEL = 120
"""Characters of an action in the drawing; the turn's panel has all of it."""


def tree_answer(reader: RunReader, tree_id: int) -> dict[str, Any]:
    """A tree's layout and everything that its turns can be coloured by."""
    read = reader.tree(tree_id)
    summary, tree, turns, layout = read.summary, read.tree, read.tree.turns, lay_out(read.tree)
    return {
        "id": summary.id,
        "iteration": summary.iteration,
        "seed": summary.seed,
        "env": summary.env_id,
        "recorded_turns": summary.turns,
        "rollouts": len(tree.leaves()),
        "solved": sum(turns[leaf].success for leaf in tree.leaves()),
        "rows": layout.rows,
        "columns": layout.columns,
        "parent": [turn.parent for turn in turns],
        "column": layout.column_N.tolist(),
        "row": layout.row_N.tolist(),
        "order": layout.order_N.tolist(),
        "level": layout.level_N.tolist(),
        "action": [turn.action[:_LABEL] for turn in turns],
        "valid": [int(turn.valid) for turn in turns],
        "origin": [_origin(turn) for turn in turns],
        "end": [_end(tree, index) for index in range(len(turns))],
        "state": read.states,
        "colours": {
            "advantage": numbers(read.advantages_N),
            "value": numbers(read.values_N),
            "entropy": numbers([turn.entropy if turn.mask_T.any() else np.nan for turn in turns]),
            "visits": numbers(_visits(read.states)),
            "version": numbers([turn.policy_version for turn in turns]),
            "reward": numbers([turn.reward for turn in turns]),
        },
    }


def turn_answer(reader: RunReader, tree_id: int, index: int) -> dict[str, Any]:
    """All that is known of one turn, with the numbers behind its advantage, and its siblings."""
    read = reader.tree(tree_id)
    tree, values_N = read.tree, read.values_N
    turn = _turn(tree, index)
    same = [other for other, state in enumerate(read.states) if state == read.states[index] and other != index]
    before = values_N[turn.parent] if turn.parent >= 0 else mean_known(values_N[tree.children(-1)])
    sampled = bool(turn.mask_T.any())
    return {
        "tree": read.summary.id,
        "turn": index,
        "parent": turn.parent,
        "children": tree.children(index),
        "depth": len(tree.path(index)),
        "observation": turn.observation,
        "action": turn.action,
        "origin": origin_of(turn),
        "end": str(turn.stop_reason or ""),
        "success": turn.success,
        "valid": turn.valid,
        "state": turn.state,
        "next_state": turn.next_state,
        "same_state": same[:50],
        "same_state_count": len(same),
        "numbers": {
            "advantage": number(read.advantages_N[index], 9),
            "reward": number(turn.reward),
            "mean return from here (Q)": number(values_N[index]),
            "mean return before (V)": number(before),
            "turns in this state": len(same) + 1,
            "rollouts below": int(read.leaves_below_N[index]),
            "entropy, nats a token": number(turn.entropy) if sampled else None,
            "log-probability, nats": number(turn.logprobs_T[turn.mask_T].sum()) if sampled else None,
            "policy version": turn.policy_version if sampled else None,
        },
        "siblings": [_sibling(read, other) for other in tree.children(turn.parent) if other != index],
        "tokens": _tokens(reader, [turn]),
    }


def rollout_answer(reader: RunReader, tree_id: int, index: int) -> dict[str, Any]:
    """All tokens from the root to a turn."""
    read = reader.tree(tree_id)
    _turn(read.tree, index)
    path = read.tree.path(index)
    turns = [read.tree.turns[place] for place in path]
    per_turn = numbers(read.advantages_N[path])
    spread = [advantage for turn, advantage in zip(turns, per_turn, strict=True) for _ in range(len(turn.ids_T))]
    return {"tree": read.summary.id, "turn": index, "path": path, "tokens": {**_tokens(reader, turns), "advantage": spread}}


def _tokens(reader: RunReader, turns: list[Turn]) -> dict[str, Any]:
    ids_T, mask_T, logprobs_T, entropies_T = (
        np.concatenate([getattr(turn, name) for turn in turns]) for name in ("ids_T", "mask_T", "logprobs_T", "entropies_T")
    )
    return {
        "reader": reader.tokens.name,
        "text": reader.tokens.read(ids_T),
        "sampled": mask_T.astype(int).tolist(),
        "logprob": numbers(logprobs_T, 5),
        "entropy": numbers(entropies_T, 5),
    }


def _turn(tree: TrajectoryTree, index: int) -> Turn:
    if index >= len(tree.turns):
        raise NotThereError(f"the tree has no turn {index}; there are {len(tree.turns)}")
    return tree.turns[index]


def _origin(turn: Turn) -> list[Any] | None:
    """Kind, rule and score of what parted a turn from its siblings."""
    if turn.origin is None:
        return None
    return [turn.origin.kind, turn.origin.rule, number(turn.origin.score, 4)]


def _end(tree: TrajectoryTree, index: int) -> str:
    """How the rollout ended here: "solved", its reason otherwise; empty where it goes on."""
    turn = tree.turns[index]
    if tree.children(index):
        return ""
    return "solved" if turn.success else str(turn.stop_reason or "open")


def _visits(states: list[int]) -> npt.NDArray[np.float64]:
    """Turns that were taken in each turn's state."""
    states_N = np.array(states, np.int64)
    counts = np.bincount(states_N[states_N >= 0], minlength=1)
    return np.where(states_N >= 0, counts[states_N], np.nan)


def _sibling(read: ReadTree, index: int) -> dict[str, Any]:
    turn = read.tree.turns[index]
    return {
        "turn": index,
        "action": turn.action,
        "origin": origin_of(turn),
        "advantage": number(read.advantages_N[index]),
        "value": number(read.values_N[index]),
    }
