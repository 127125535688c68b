"""A fork that the page asked for, the same as `branchwise fork` makes; one at a time."""

import io
import threading
from typing import Any

from rich.console import Console

from trainer.recorded.forking import chosen_policy, fork_tree
from trainer.recorded.place import Place
from trainer.viewer.errors import QuestionError
from trainer.viewer.source import Source

_POLICIES = ("expert", "random", "checkpoint")
_MOST = 16
_ONE = threading.Lock()


def fork_answer(source: Source, body: Any) -> dict[str, Any]:
    """Fork, record, and say what happened; raises `QuestionError` where the request is not what it must be."""
    if not isinstance(body, dict) or set(body) != {"run", "tree", "turn", "policy", "n"}:
        raise QuestionError("a fork is asked for with run, tree, turn, policy and n")
    numbers = [body[name] for name in ("run", "tree", "turn", "n")]
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers) or not 1 <= body["n"] <= _MOST:
        raise QuestionError(f"run, tree and turn are whole numbers, and n is one from 1 to {_MOST}")
    if body["policy"] not in _POLICIES:
        raise QuestionError(f"policy is one of {', '.join(_POLICIES)}")
    reader = source.reader(str(body["run"]))
    console = Console(file=io.StringIO(), width=10_000, highlight=False)
    with _ONE:
        policy = chosen_policy(body["policy"], reader.folder, console, lambda: ("", ""))
        fork_tree(reader.folder, Place(body["tree"], body["turn"]), policy, console, count=body["n"])
    assert isinstance(console.file, io.StringIO)
    return {"text": console.file.getvalue()}
