"""`appo`: forks start where the policy was uncertain and what followed was likelier than the policy expects (APPO).

    Omega_t = clip(exp(sum_{k >= t} discount^(k - t) g_k), 1 - clip, 1 + clip)
    score_t = Z(H_t) Z(Omega_t)   where both Z are positive; no other turn is forked

H is a turn's mean entropy per sampled token, g its likelihood gain, Z the standard score (population deviation) over the tree's turns
that can be forked. Source: arXiv 2606.12384. Its gain is log pi(token) - log pi_old(token) between two policies. A tree knows the one
that sampled it, and between a policy and itself that is 0 everywhere. So the gain is reconstructed as that over the policy's own
expectation: log pi(token) + H(token), of mean 0 under the policy, averaged over the turn's sampled tokens.
"""

from dataclasses import dataclass
from itertools import cycle, islice
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tree_rollout.branching.options import check_number
from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.state_graph import sound_turns
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Appo:
    """The turns with both standard scores positive, the highest product first; once all have a fork, the first gets its second.

    Retrospective: the turn's own tokens and all that came after it decide whether it is sampled again.
    """

    name: ClassVar[str] = "appo"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    discount: float = 1.0
    """What the gain of the next turn counts; 0 to 1."""
    clip: float = 0.2
    """Omega stays within this of 1; between 0 and 1."""

    def __post_init__(self) -> None:
        check_number("discount", self.discount, "from 0 to 1", 1.0, least=0, most=1)
        check_number("clip", self.clip, "from 0.001 to 0.999", 0.2, least=0.001, most=0.999)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` forks; none where no turn is above average in both. Of equal scores the lower index wins."""
        candidates = forkable_turns(tree)
        uncertainty_C = _standard(np.array([tree.turns[index].entropy for index in candidates]))
        likelihood_C = _standard(future_likelihoods(tree, self.discount, self.clip)[candidates])
        chosen = np.flatnonzero((uncertainty_C > 0) & (likelihood_C > 0))
        score_C = uncertainty_C * likelihood_C
        ordered = chosen[np.argsort(-score_C[chosen], kind="stable")]
        return [Branch(candidates[place], float(score_C[place])) for place in islice(cycle(ordered.tolist()), budget)]


def future_likelihoods(tree: TrajectoryTree, discount: float, clip: float) -> FloatArray:
    """Omega of each turn, shape (N,); where a turn has several continuations, the future is the mean of those that count."""
    sound_N = sound_turns(tree)
    future_N = np.zeros(len(tree.turns))
    for index in range(len(tree.turns) - 1, -1, -1):
        below = [future_N[child] for child in tree.children(index) if sound_N[child]]
        future_N[index] = _gain(tree.turns[index]) + discount * (sum(below) / len(below) if below else 0.0)
    # Beyond the clip the exponential says nothing more, and it could overflow.
    return np.exp(np.clip(future_N, np.log(1 - clip), np.log(1 + clip)))


def _gain(turn: Turn) -> float:
    """Mean over the sampled tokens of log-probability plus entropy, in nats; 0 without sampled tokens."""
    gains_T = (turn.logprobs_T.astype(np.float64) + turn.entropies_T)[turn.mask_T]
    return float(gains_T.mean()) if len(gains_T) else 0.0


def _standard(values_C: FloatArray) -> FloatArray:
    """Standard scores; 0 where the values differ by rounding alone."""
    if not len(values_C) or np.ptp(values_C) <= 1e-9 * np.abs(values_C).max():
        return np.zeros(len(values_C))
    return (values_C - values_C.mean()) / values_C.std()
