"""Signatures see the trees of one task as one tree of the rollouts that count, so that neither failures nor other tasks can matter."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tree_rollout.errors import SignatureFunctionError
from tree_rollout.signatures.signature import Signature, Signed
from tree_rollout.state_graph import sound_turns, task_key
from tree_rollout.tree import TrajectoryTree


def sign_trees(signature: Signature, trees: Sequence[TrajectoryTree]) -> list[list[Signed | None]]:
    """For each tree and turn the states around the turn; None for turns that no rollout that counts contains.

    Texts of different tasks say nothing about each other, however equal: compare them together with `task_key`, as `StateGraph` does.
    """
    signed: list[list[Signed | None]] = [[None] * len(tree.turns) for tree in trees]
    tasks: dict[str, list[int]] = {}
    for number, tree in enumerate(trees):
        tasks.setdefault(task_key(tree), []).append(number)
    for numbers in tasks.values():
        joined, places = _joined([trees[number] for number in numbers])
        for (member, turn), ends in zip(places, sign_tree(signature, joined), strict=True):
            signed[numbers[member]][turn] = ends
    return signed


def sign_tree(signature: Signature, tree: TrajectoryTree) -> list[Signed]:
    """`signature.sign(tree)`, checked; the tree is taken as it is, so leave out its rollouts that do not count."""
    signed: Any = signature.sign(tree)
    if not isinstance(signed, list) or len(signed) != len(tree.turns):
        given = f"{len(signed)} pairs" if isinstance(signed, list) else f"a {type(signed).__name__}"
        raise SignatureFunctionError(
            f"signature {signature.name} gave {given} for {len(tree.turns)} turns; give a list with one (before, after) for each"
        )
    for index, ends in enumerate(signed):
        if not isinstance(ends, tuple) or len(ends) != 2 or not all(isinstance(state, str) for state in ends):
            raise SignatureFunctionError(f"signature {signature.name} gave {ends!r} for turn {index}; give two texts, (before, after)")
    return [ends if isinstance(ends, Signed) else Signed(*ends) for ends in signed]


def _joined(trees: Sequence[TrajectoryTree]) -> tuple[TrajectoryTree, list[tuple[int, int]]]:
    """One tree of all rollouts that count, and for each of its turns the tree and the turn that it was."""
    if len(trees) == 1 and all(sound_turns(trees[0])):
        return trees[0], [(0, index) for index in range(len(trees[0].turns))]
    joined = TrajectoryTree(trees[0].env_id, trees[0].seed, trees[0].env_kwargs)
    places: list[tuple[int, int]] = []
    for member, tree in enumerate(trees):
        place = {-1: -1}
        for index, sound in enumerate(sound_turns(tree)):
            if sound:
                turn = tree.turns[index]
                place[index] = joined.add(replace(turn, parent=place[turn.parent]))
                places.append((member, index))
    return joined, places
