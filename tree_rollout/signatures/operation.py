"""An operation is what an action amounts to for the state: category[:scope]@target, and a result where the last one counts.

The form is RTMC's (arXiv 2604.11037) for code tasks; a function that reads actions in this way is a categoriser.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that an action did."""

    category: str
    """What was done: `view`, `modify`, `test`, ..."""
    target: str = ""
    """What it was done to: a file, a folder, a command."""
    scope: str = ""
    """Which part of the target; empty for all of it or where it has no parts."""
    result: str | None = None
    """Not None: the operation leaves no mark of its own, but the last result of its category is part of the state."""
    content: str = ""
    """What was written, where `edits` shall tell edits of one file apart."""

    @property
    def mark(self) -> str:
        """category[:scope]@target."""
        return f"{self.category}{f':{self.scope}' if self.scope else ''}@{self.target}"


Categorise = Callable[[str, str | None], Iterable[Operation]]
"""What an action amounts to, from the action and the environment's answer to it (None after the last turn of a rollout, where no answer is
recorded). An action without operations leaves the state as it was."""


def categorise_text(action: str, answer: str | None) -> list[Operation]:
    """Any action is one operation, told apart by its exact text."""
    return [Operation("do", action)]
