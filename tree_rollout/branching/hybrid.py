"""`hybrid`: a state gets more continuations the less certain the policy is there and the less sure it has been on the way (ECHO).

    raw_t   = entropy_weight (H_t - min H) / (max H - min H) - confidence_weight (C_t / mean C - 1)
    width_t = clip(round(1 + raw_t), 1, max_width)

H is a turn's mean entropy per sampled token. C, the group confidence, is the mean over the last `window` turns of the path, this one
included, of the geometric mean probability of a turn's sampled tokens. Minimum, maximum and mean are over the tree's turns that can be
forked. Source: arXiv 2602.02150. Reconstructed: the paper works on single tokens, with the mass of the top-k tokens for confidence and
fixed thresholds for both; here turns take the place of tokens, and each tree sets its own scale.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tree_rollout.branching.options import check_count, check_number
from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.confidence import confidence
from tree_rollout.tree import TrajectoryTree

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """In rounds, in the order of raw: one fork for each turn whose state has fewer continuations than the turn's width. The score is raw.

    The rounds keep one uncertain stretch from taking all forks. Continuations that are there already count, the roots included.
    Retrospective: the turn's own sampled tokens decide whether it is sampled again.
    """

    name: ClassVar[str] = "hybrid"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    entropy_weight: float = 2.0
    """Continuations that the most uncertain turn gets more than the most certain one."""
    confidence_weight: float = 1.0
    """Continuations that are taken off where confidence is twice the mean."""
    max_width: int = 4
    """Continuations of one state, at most; at least 2."""
    window: int = 4
    """Turns over which confidence is averaged."""

    def __post_init__(self) -> None:
        check_number("entropy_weight", self.entropy_weight, "that is not negative", 2.0, least=0)
        check_number("confidence_weight", self.confidence_weight, "that is not negative", 1.0, least=0)
        check_count("max_width", self.max_width, 2, 4)
        check_count("window", self.window, 1, 4)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """At most `budget` forks, as many as the widths leave room for; of equal scores the lower index wins."""
        candidates = forkable_turns(tree)
        raw_C = self._raw(tree, candidates)
        width_C = np.clip(np.floor(1.5 + raw_C), 1, self.max_width)
        present = {tree.turns[index].parent: len(tree.children(tree.turns[index].parent)) for index in candidates}
        branches: list[Branch] = []
        waiting = np.argsort(-raw_C, kind="stable").tolist()
        while waiting and len(branches) < budget:
            # A state that is full stays full, so its turns leave the queue.
            waiting = [place for place in waiting if width_C[place] > present[tree.turns[candidates[place]].parent]]
            for place in waiting:
                parent = tree.turns[candidates[place]].parent
                if width_C[place] > present[parent]:
                    present[parent] += 1
                    branches.append(Branch(candidates[place], float(raw_C[place])))
        return branches[:budget]

    def _raw(self, tree: TrajectoryTree, candidates: list[int]) -> FloatArray:
        if not candidates:
            return np.zeros(0)
        entropy_C = np.array([tree.turns[index].entropy for index in candidates])
        confidence_C = group_confidences(tree, self.window)[candidates]
        spread = np.ptp(entropy_C)
        local_C = (entropy_C - entropy_C.min()) / spread if spread > 0 else np.zeros(len(candidates))
        return self.entropy_weight * local_C - self.confidence_weight * (confidence_C / confidence_C.mean() - 1)


def group_confidences(tree: TrajectoryTree, window: int) -> FloatArray:
    """Mean confidence over the last `window` turns of each turn's path, shape (N,); turns that nobody sampled are passed over."""
    recent: list[tuple[float, ...]] = []
    for turn in tree.turns:
        before = recent[turn.parent] if turn.parent >= 0 else ()
        own = confidence(turn)
        recent.append((*before, *(() if own is None else (own,)))[-window:])
    return np.array([sum(values) / len(values) if values else 0.0 for values in recent])
