"""`window`: two states are one only if another signature says so of them and of the `history` states before them on the path.

It makes the same states as `StateGraph` with the same `history`, as texts that an estimator of credit can take.
"""

from dataclasses import dataclass
from hashlib import blake2b

from tree_rollout.errors import SignatureError
from tree_rollout.signatures.signature import Signature, Signed
from tree_rollout.signatures.signing import sign_tree
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Window:
    """Another signature, together with what it said of the states before."""

    of: Signature
    history: int = 1
    """How many earlier states must agree, at least 1; near the root there are fewer, and as many must agree as there are."""

    def __post_init__(self) -> None:
        if isinstance(self.history, bool) or not isinstance(self.history, int) or self.history < 1:
            raise SignatureError(f"window: history is {self.history!r}; give a whole number of at least 1, or leave the window out")

    @property
    def name(self) -> str:
        """The name of what it looks through, and how far it looks back."""
        return f"{self.of.name} with {self.history} before"

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """A digest of each window, so that long texts are not repeated `history` times."""
        signed: list[Signed] = []
        windows: list[tuple[str, ...]] = []
        """For each turn, the states that end with the one *after* it."""
        for turn, (before, after) in zip(tree.turns, sign_tree(self.of, tree), strict=True):
            window = (*windows[turn.parent][:-1], before) if turn.parent >= 0 else (before,)
            windows.append((*window[-self.history :], after))
            signed.append(Signed(_digest(window), _digest(windows[-1])))
        return signed


def _digest(window: tuple[str, ...]) -> str:
    total = blake2b(digest_size=16)
    for state in window:
        text = state.encode("utf-8", "surrogatepass")
        total.update(len(text).to_bytes(8, "big") + text)
    return f"window {total.hexdigest()}"
