"""`env`: the state is what the environment itself recorded (`TextEnv.state_signature`), before and after each turn."""

from dataclasses import dataclass

from tree_rollout.signatures.signature import Signed
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class EnvState:
    """The default: as exact as the environment promises to be. How many turns are left is not part of it."""

    name = "env"

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """`Turn.state` and `Turn.next_state` as they are."""
        return [Signed(turn.state, turn.next_state) for turn in tree.turns]
