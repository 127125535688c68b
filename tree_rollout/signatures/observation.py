"""`observation`: the state is the exact text that the environment last said; states that look alike are one (GiGPO's anchor states)."""

from dataclasses import dataclass

from tree_rollout.signatures.signature import Signed, by_observation
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Observation:
    """Merges whatever got the same answer: two refused actions, two empty shelves. `window` makes it stricter."""

    name = "observation"

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """Observations as they are, the empty one included; ends as in `by_observation`."""
        return by_observation(tree, str)
