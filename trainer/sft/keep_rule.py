"""Which recorded rollouts are learned from is a function of their outcomes alone; equals are told apart by length, then by order."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recorded rollout with an outcome."""

    tree: int
    """Id of its tree in the trace."""
    leaf: int
    """Its last turn."""
    task: str
    """Equal for rollouts of one task, whichever tree they are in."""
    score: float
    """Sum of its rewards."""
    success: bool
    tokens: int
    """Tokens that its policy wrote, or would have written."""


def choose(candidates: Sequence[Candidate], keep: str) -> list[Candidate]:
    """Those that `keep` names, in the order in which they are given.

    Args:
        candidates: in the order of the trace, which decides between equals.
        keep: `successful`; `best_of_task`, the highest score of each task; `top:K`, the K highest scores of all. Of equal scores the one
            with fewer tokens comes first.
    """
    if keep == "successful":
        return [candidate for candidate in candidates if candidate.success]
    ranked = sorted(range(len(candidates)), key=lambda place: (-candidates[place].score, candidates[place].tokens, place))
    if keep == "best_of_task":
        best: dict[str, int] = {}
        for place in ranked:
            best.setdefault(candidates[place].task, place)
        return [candidates[place] for place in sorted(best.values())]
    return [candidates[place] for place in sorted(ranked[: int(keep.removeprefix("top:"))])]
