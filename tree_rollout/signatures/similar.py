"""`similar`: an observation belongs to the first cluster whose founder it resembles; neither rollouts nor their order decide which.

Greedy first fit, as in GiGPO's similarity groups (arXiv 2505.10978): the different observations of the task's rollouts are taken in sorted
order; each joins the first cluster whose founder has at least `threshold` of it in common (`difflib.SequenceMatcher.ratio`), or founds a
cluster of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from tree_rollout.errors import SignatureError
from tree_rollout.signatures.signature import Signed, by_observation
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Similar:
    """The one signature whose cost is not linear: it compares each different observation with each founder. For small runs."""

    name = "similar"
    threshold: float = 0.9
    """Above 0 and at most 1; 1 is `observation`."""

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float) or not 0 < self.threshold <= 1:
            raise SignatureError(f"similar: threshold is {self.threshold!r}; give a number above 0 and at most 1, such as 0.9")

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """The founder's text stands for all of a cluster; ends as in `by_observation`."""
        return by_observation(tree, clusters((turn.observation for turn in tree.turns), self.threshold).__getitem__)


def clusters(texts: Iterable[str], threshold: float) -> dict[str, str]:
    """The founder of each text's cluster."""
    founders: list[str] = []
    founder_of: dict[str, str] = {}
    matcher = SequenceMatcher(autojunk=False)
    for text in sorted(set(texts)):
        # SequenceMatcher keeps its work on the second sequence, so that stays fixed while the founders pass by.
        matcher.set_seq2(text)
        founder = next((founder for founder in founders if _resembles(matcher, founder, threshold)), None)
        if founder is None:
            founders.append(founder := text)
        founder_of[text] = founder
    return founder_of


def _resembles(matcher: SequenceMatcher[str], founder: str, threshold: float) -> bool:
    """Cheap upper bounds of the ratio come first."""
    matcher.set_seq1(founder)
    return all(ratio() >= threshold for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))
