"""An exported page is one file without anything outside it: it holds the answers to all questions that it can ask."""

from collections.abc import Sequence
from typing import Any

from trainer.errors import UsageError
from trainer.progress import Progress
from trainer.viewer.errors import QuestionError
from trainer.viewer.page import whole_page
from trainer.viewer.source import Source

DEFAULT_TREES = 12
_LARGEST = 200 << 20
"""Characters of a page; a browser hardly opens a larger one."""


def exported_page(source: Source, runs: int, trees: Sequence[int] | None, progress: Progress) -> str:
    """The runs with their curves, and some of their trees: those of `trees`, or the last `DEFAULT_TREES` of each run."""
    answers: dict[str, Any] = {"runs": source.answer("runs", {})}
    for run in range(runs):
        answers[f"run/{run}"] = source.answer(f"run/{run}", {})
        chosen = _chosen(source, run, trees)
        answers[f"run/{run}/trees"] = {"count": len(chosen), "offset": 0, "trees": chosen}
        progress.stage(f"exporting trees of run {run}", total=len(chosen))
        for done, row in enumerate(chosen, 1):
            answers |= _tree(source, run, row["id"])
            progress.update(done)
        for other in range(runs):
            if other != run:
                answers |= _comparison(source, run, other)
    page = whole_page(answers)
    if len(page) > _LARGEST:
        raise UsageError(f"the page would have {len(page) >> 20} MiB, and {_LARGEST >> 20} are allowed; export fewer trees with --trees")
    return page


def _chosen(source: Source, run: int, trees: Sequence[int] | None) -> list[dict[str, Any]]:
    if trees is None:
        found = source.answer(f"run/{run}/trees", {"sort": "tree"})["trees"][:DEFAULT_TREES]
        return sorted(found, key=lambda row: row["id"])
    where = f"tree in [{', '.join(map(str, trees))}]"
    found = source.answer(f"run/{run}/trees", {"where": where})["trees"]
    missing = set(trees) - {row["id"] for row in found}
    if missing:
        raise UsageError(f"run {run} has no tree {min(missing)}; `branchwise trees RUN` lists them")
    return found


def _tree(source: Source, run: int, tree: int) -> dict[str, Any]:
    place = f"run/{run}/tree/{tree}"
    whole = source.answer(place, {})
    answers = {place: whole, f"{place}/graph": source.answer(f"{place}/graph", {})}
    for turn in range(len(whole["parent"])):
        answers[f"{place}/turn/{turn}"] = source.answer(f"{place}/turn/{turn}", {})
    return answers


def _comparison(source: Source, run: int, other: int) -> dict[str, Any]:
    place = f"compare/{run}/{other}"
    try:
        return {place: source.answer(place, {})}
    except QuestionError:
        # They have no task in common; the page then says that there is no comparison.
        return {}
