"""A tree as columns, one value per turn, which is what a drawing needs; texts and tokens of a turn only when it is opened."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.recorded.lines import origin_of
from trainer.viewer.errors import NotThereError
from trainer.viewer.run_answers import RunReader, numbers
from tree_rollout.state_graph import StateGraph
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import lay_out, outcome_values
from tree_rollout.turn import Turn

_LABEL = 120
"""Characters of an action in the drawing; the turn's panel has all of it."""


def tree_answer(reader: RunReader, tree_id: int) -> dict[str, Any]:
    """A tree's layout and everything that its turns can be coloured by."""
    summary, tree, advantages_N = reader.tree(tree_id)
    layout = lay_out(tree)
    merges = _state_numbers(tree)
    turns = tree.turns
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
        "state": merges,
        "colours": {
            "advantage": numbers(advantages_N),
            "value": numbers(outcome_values(tree)),
            "entropy": numbers([turn.entropy if turn.mask_T.any() else np.nan for turn in turns]),
            "visits": numbers(_visits(merges)),
            "version": numbers([turn.policy_version for turn in turns]),
            "reward": numbers([turn.reward for turn in turns]),
        },
    }


def turn_answer(reader: RunReader, tree_id: int, index: int) -> dict[str, Any]:
    """All that is known of one turn, with the numbers behind its advantage, and its siblings."""
    summary, tree, advantages_N = reader.tree(tree_id)
    turn = _turn(tree, index)
    values_N = outcome_values(tree)
    merges = _state_numbers(tree)
    same = [other for other, state in enumerate(merges) if state == merges[index] and other != index]
    above = numbers([values_N[turn.parent] if turn.parent >= 0 else np.nan])[0]
    return {
        "tree": summary.id,
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
            "advantage": numbers(advantages_N[[index]], 9)[0],
            "reward": numbers([turn.reward])[0],
            "mean return from here (Q)": numbers(values_N[[index]])[0],
            "mean return before (V)": above if turn.parent >= 0 else numbers([_root_value(tree, values_N)])[0],
            "turns in this state": len(same) + 1,
            "rollouts below": _leaves_below(tree, index),
            "entropy, nats a token": numbers([turn.entropy])[0] if turn.mask_T.any() else None,
            "log-probability, nats": numbers([float(turn.logprobs_T[turn.mask_T].sum())])[0] if turn.mask_T.any() else None,
            "policy version": turn.policy_version if turn.mask_T.any() else None,
        },
        "siblings": [_sibling(tree, other, advantages_N, values_N) for other in tree.children(turn.parent) if other != index],
        "tokens": _tokens(reader, [turn]),
    }


def rollout_answer(reader: RunReader, tree_id: int, index: int) -> dict[str, Any]:
    """All tokens from the root to a turn."""
    summary, tree, advantages_N = reader.tree(tree_id)
    _turn(tree, index)
    path = tree.path(index)
    turns = [tree.turns[place] for place in path]
    tokens = _tokens(reader, turns)
    per_turn = numbers(advantages_N[path])
    spread = [advantage for turn, advantage in zip(turns, per_turn, strict=True) for _ in range(len(turn.ids_T))]
    return {"tree": summary.id, "turn": index, "path": path, "tokens": {**tokens, "advantage": spread}}


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
    return [turn.origin.kind, turn.origin.rule, numbers([turn.origin.score], 4)[0]]


def _end(tree: TrajectoryTree, index: int) -> str:
    """How the rollout ended here: "solved", its reason otherwise; empty where it goes on."""
    turn = tree.turns[index]
    if tree.children(index):
        return ""
    return "solved" if turn.success else str(turn.stop_reason or "open")


def _state_numbers(tree: TrajectoryTree) -> list[int]:
    """A number per turn, equal where the state before it is the same as the run recorded it; -1 for turns that do not count."""
    graph = StateGraph.from_trees([tree])
    known: dict[Any, int] = {}
    nodes = [graph.node(0, index) for index in range(len(tree.turns))]
    return [-1 if node is None else known.setdefault(node, len(known)) for node in nodes]


def _visits(merges: list[int]) -> npt.NDArray[np.float64]:
    """Turns that were taken in each turn's state."""
    states_N = np.array(merges, np.int64)
    counts = np.bincount(states_N[states_N >= 0], minlength=1)
    return np.where(states_N >= 0, counts[states_N], np.nan)


def _sibling(tree: TrajectoryTree, index: int, advantages_N: npt.NDArray[np.float64], values_N: npt.NDArray[np.float64]) -> dict[str, Any]:
    turn = tree.turns[index]
    return {
        "turn": index,
        "action": turn.action,
        "origin": origin_of(turn),
        "advantage": numbers(advantages_N[[index]])[0],
        "value": numbers(values_N[[index]])[0],
    }


def _root_value(tree: TrajectoryTree, values_N: npt.NDArray[np.float64]) -> float:
    roots = values_N[tree.children(-1)]
    known = roots[~np.isnan(roots)]
    return float(known.mean()) if len(known) else float("nan")


def _leaves_below(tree: TrajectoryTree, index: int) -> int:
    found, pending = 0, [index]
    while pending:
        children = tree.children(pending.pop())
        found += not children
        pending.extend(children)
    return found
