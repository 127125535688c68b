"""A function of one's own is a signature as good as any: what it raises or gives wrongly is one sentence that names it and the turn."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tree_rollout.errors import SignatureFunctionError
from tree_rollout.signatures.signature import Signed
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function from a tree (and settings) to one (before, after) for each turn; see `Signature.sign`."""

    name: str
    function: Callable[..., Iterable[tuple[str, str]]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the function."""

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """What the function gives; `sign_tree` checks it."""
        try:
            return list(self.function(tree, **self.settings))  # pyright: ignore[reportReturnType]
        except (Exception, SystemExit) as fault:
            where = f"a tree of {len(tree.turns)} turns of {tree.env_id}, seed {tree.seed}"
            raise SignatureFunctionError(
                f"signature {self.name} failed on {where} with {type(fault).__name__}: {fault}; correct the function"
            ) from fault
