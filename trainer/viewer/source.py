"""Whatever a page shows is the answer to one question about the runs; the server and the exported file answer it from the same code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.run_folder import RunFolder
from trainer.viewer.comparison_answers import comparison_answer
from trainer.viewer.errors import NotThereError, QuestionError
from trainer.viewer.graph_answers import graph_answer
from trainer.viewer.run_answers import RunReader
from trainer.viewer.tree_answers import rollout_answer, tree_answer, turn_answer
from tree_rollout.errors import TraceError, UnknownTreeError

Parameters = Mapping[str, str]


class Source:
    """The runs that a viewer was opened on; they are named by their place in the list, never by a path."""

    def __init__(self, folders: list[RunFolder]) -> None:
        self._readers = [RunReader(folder) for folder in folders]

    def answer(self, path: str, parameters: Parameters) -> Any:
        """JSON values for a question such as `runs`, `run/0`, `run/0/trees`, `run/0/tree/12/turn/5` or `compare/0/1`.

        Raises `NotThereError` for what does not exist, and `QuestionError` where a parameter is not what it must be.
        """
        words = path.split("/")
        try:
            return self._answer(words, parameters)
        except UnknownTreeError as error:
            raise NotThereError(str(error)) from error
        except TraceError as error:
            raise QuestionError(str(error)) from error

    def _answer(self, words: list[str], parameters: Parameters) -> Any:
        match words:
            case ["runs"]:
                return [reader.about() for reader in self._readers]
            case ["compare", first, second]:
                return comparison_answer(self.reader(first).folder, self.reader(second).folder)
            case ["run", run]:
                return self.reader(run).summary(_number(parameters, "after", 0))
            case ["run", run, "trees"]:
                return self.reader(run).trees(
                    parameters.get("where") or None,
                    parameters.get("sort") or None,
                    parameters.get("text") or None,
                    _number(parameters, "offset", 0),
                )
            case ["run", run, "tree", tree]:
                return tree_answer(self.reader(run), _index(tree))
            case ["run", run, "tree", tree, "turn", turn]:
                return turn_answer(self.reader(run), _index(tree), _index(turn))
            case ["run", run, "tree", tree, "rollout", turn]:
                return rollout_answer(self.reader(run), _index(tree), _index(turn))
            case ["run", run, "tree", tree, "graph"]:
                return graph_answer(self.reader(run), _index(tree))
        raise NotThereError(f"there is nothing at {'/'.join(words)!r}")

    def reader(self, run: str) -> RunReader:
        """The run at a place in the list."""
        index = _index(run)
        if index >= len(self._readers):
            raise NotThereError(f"there is no run {index}; there are {len(self._readers)}")
        return self._readers[index]


def as_json(answer: Any) -> str:
    """Strict JSON, without the numbers that JSON does not have (`run_answers` and the others put null for them)."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":"))


def _index(word: str) -> int:
    number = _whole(word)
    if number is None:
        raise NotThereError(f"{word!r} is no number")
    return number


def _number(parameters: Parameters, name: str, default: int) -> int:
    number = default if (text := parameters.get(name)) is None else _whole(text)
    if number is None:
        raise QuestionError(f"{name} is {text!r}; it must be a whole number of at least 0")
    return number


def _whole(word: str) -> int | None:
    """A number that SQLite can hold."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 19 else None


def opened(paths: list[Path]) -> Source:
    """The source for run folders; raises `RunFolderError` for one that is none."""
    return Source([RunFolder.existing(path) for path in paths])
