"""Two runs side by side, by the tasks that both met."""

from typing import Any

from trainer.errors import UsageError
from trainer.recorded.comparing import shared_tasks
from trainer.run_folder import RunFolder
from trainer.viewer.errors import QuestionError

_SHOWN = 1000


def comparison_answer(first: RunFolder, second: RunFolder) -> dict[str, Any]:
    """The tasks, those that differ most first, and the mean difference with its interval."""
    try:
        found = shared_tasks(first, second)
    except UsageError as error:
        raise QuestionError(str(error)) from error
    return {
        "count": len(found.tasks),
        "means": found.means,
        "interval": found.interval,
        "tasks": [{"seed": task.seed, "shares": task.shares, "trees": task.trees} for task in found.tasks[:_SHOWN]],
    }
