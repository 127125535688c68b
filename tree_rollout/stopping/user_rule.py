"""A function of one's own is a stopping rule as good as any: what it raises or answers wrongly is one sentence that names it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tree_rollout.branching.rule import Decision
from tree_rollout.errors import StoppingFunctionError
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping.rule import RolloutView, standing
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class UserRule:
    """A function from a rollout and the tree's others (and settings) to yes or no, or both methods of a `StoppingRule`.

    It is taken to be retrospective, for it sees what was sampled, and to stop rollouts without an outcome. A class says so itself.
    """

    name: str
    function: Callable[..., Any] | None = None
    """Asked about each rollout that could go on; None to stop none. It gets the others that are live or have an outcome, by number."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the function."""
    decision: Decision = Decision.RETROSPECTIVE
    reason: StopReason | None = StopReason.PRUNED
    tree_function: Callable[[TrajectoryTree], Any] | None = None
    """Asked whether a tree has enough rollouts; None for never."""

    def should_stop(self, path: RolloutView, others: Sequence[RolloutView]) -> bool:
        """What the function answers."""
        if self.function is None:
            return False
        function, rivals = self.function, standing(others)
        where = f"rollout {path.number} after {len(path.turns)} turns"
        return self._answer(lambda: function(path, rivals, **self.settings), where)

    def enough(self, tree: TrajectoryTree) -> bool:
        """What the class answers."""
        if self.tree_function is None:
            return False
        function = self.tree_function
        return self._answer(lambda: function(tree), f"a tree of {len(tree.turns)} turns of {tree.env_id}, seed {tree.seed}")

    def _answer(self, ask: Callable[[], Any], where: str) -> bool:
        try:
            answer = ask()
        except (Exception, SystemExit) as fault:
            raise StoppingFunctionError(
                f"stopping rule {self.name} failed on {where} with {type(fault).__name__}: {fault}; correct the function"
            ) from fault
        if not isinstance(answer, bool | np.bool_):
            raise StoppingFunctionError(f"stopping rule {self.name} answered {answer!r} on {where}; give True to stop or False to go on")
        return bool(answer)
