"""`actions`: the state is what has been done so far, in whatever order and however often (RTMC, arXiv 2604.11037).

Each action is a set of operations (`Operation`); by default it is one, its own text. The state before a turn is the set of the operations
before it on the path, with the last result of each category that has results, such as tests. The set enters as the sum of its members'
digests modulo 2^256: it does not depend on their order, and one more member costs one addition.
"""

from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

from tree_rollout.errors import SignatureError, SignatureFunctionError
from tree_rollout.replay import was_executed
from tree_rollout.signatures.code_actions import categorise_code
from tree_rollout.signatures.named_function import named_function
from tree_rollout.signatures.operation import Categorise, Operation, categorise_text
from tree_rollout.signatures.signature import Signed
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import walk

CATEGORISERS: dict[str, Categorise] = {"text": categorise_text, "code": categorise_code}

_Done = tuple[int, int, tuple[tuple[str, str], ...]]
"""What has been done: the number of different operations, the sum of their digests, and the last results by category, sorted."""


@dataclass(frozen=True, slots=True)
class Actions:
    """An order-free, de-duplicated digest of the actions so far."""

    name = "actions"
    categorise: str = "text"
    """How actions are read: `text`, `code` (see `code_actions`), or a function of your own as `module:function` (see `Categorise`)."""
    refused: bool = False
    """Count actions that the environment refused as well; they changed nothing."""
    edits: bool = False
    """Tell edits apart by what they wrote; RTMC reports twice as many shared states without. Not for `text`, which does so anyway."""

    def __post_init__(self) -> None:
        for setting in ("refused", "edits"):
            if not isinstance(getattr(self, setting), bool):
                raise SignatureError(f"actions: {setting} is {getattr(self, setting)!r}; give true or false")
        if self.edits and self.categorise == "text":
            raise SignatureError("actions: edits has no effect with categorise text; leave it out or set categorise to code")
        self._categoriser()

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """Texts with the number of different operations, their digest, and the last results."""
        categorise = self._categoriser()
        signed = [Signed("", "")] * len(tree.turns)
        done: dict[int, _Done] = {-1: (0, 0, ())}
        on_path: Counter[str] = Counter()
        marks: dict[int, list[str]] = {}
        read: dict[tuple[str, str | None], list[Operation]] = {}
        for index, entering in walk(tree):
            if not entering:
                on_path.subtract(marks.pop(index))
                del done[index]
                continue
            before = done[tree.turns[index].parent]
            operations = self._operations(tree, index, categorise, read)
            marks[index] = [self._mark(operation) for operation in operations if operation.result is None]
            done[index] = _after(before, marks[index], on_path, operations)
            signed[index] = Signed(_text(before), _text(done[index]))
        return signed

    def _categoriser(self) -> Categorise:
        return named_function(self.categorise, CATEGORISERS, "actions: categorise")

    def _operations(
        self, tree: TrajectoryTree, index: int, categorise: Categorise, read: dict[tuple[str, str | None], list[Operation]]
    ) -> list[Operation]:
        """What the turn's action amounts to; `read` remembers what was read before."""
        turn, children = tree.turns[index], tree.children(index)
        if not was_executed(turn) or not (turn.valid or self.refused):
            return []
        said = turn.action, tree.turns[children[0]].observation if children else None
        if said not in read:
            read[said] = list(categorise(*said)) if categorise in CATEGORISERS.values() else self._read(categorise, *said)
        return read[said]

    def _read(self, categorise: Categorise, action: str, answer: str | None) -> list[Operation]:
        """What a function of the user's makes of an action, checked."""
        try:
            operations = list(categorise(action, answer))
        except (Exception, SystemExit) as fault:
            raise SignatureFunctionError(
                f"categorise {self.categorise} failed on the action {action!r} with {type(fault).__name__}: {fault}; correct it"
            ) from fault
        for operation in operations:
            if not isinstance(operation, Operation):
                raise SignatureFunctionError(
                    f"categorise {self.categorise} gave {operation!r} for the action {action!r}; give Operation objects alone"
                )
        return operations

    def _mark(self, operation: Operation) -> str:
        content = f"#{_digest(operation.content):064x}" if self.edits and operation.content else ""
        return f"{operation.mark}{content}"


def _after(before: _Done, marks: list[str], on_path: Counter[str], operations: list[Operation]) -> _Done:
    """What has been done once `operations` are done as well; `on_path` counts their marks from here on."""
    count, total, results = before
    for mark in marks:
        if not on_path[mark]:
            count, total = count + 1, (total + _digest(mark)) % 2**256
        on_path[mark] += 1
    news = {operation.category: operation.result for operation in operations if operation.result is not None}
    return count, total, tuple(sorted({**dict(results), **news}.items())) if news else results


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest(), "big")


def _text(done: _Done) -> str:
    count, total, results = done
    return f"did {count} {total:064x}{''.join(f' {category}={result}' for category, result in results)}"
