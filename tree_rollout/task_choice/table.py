"""The task choices by name; a name or an option that none has is an error that names the nearest one."""

from collections.abc import Callable, Mapping
from typing import Any

from tree_rollout.errors import TaskChoiceError, UnknownTaskChoiceError
from tree_rollout.rule_table import RuleTable
from tree_rollout.task_choice.fresh import Fresh
from tree_rollout.task_choice.gates import Gates
from tree_rollout.task_choice.rule import TaskChoice
from tree_rollout.task_choice.thompson import Thompson
from tree_rollout.task_choice.user_rule import UserTaskChoice

TASK_CHOICES: dict[str, type[Any]] = {choice.name: choice for choice in (Fresh, Gates, Thompson)}
"""The choices of this package, in the order of its documentation."""
_TABLE: RuleTable[TaskChoice] = RuleTable("task choice", TASK_CHOICES, TaskChoiceError, UnknownTaskChoiceError, UserTaskChoice.of)


def task_choices() -> list[str]:
    """The names of all choices: those of this package, then those that were registered."""
    return _TABLE.names()


def register_task_choice(name: str, choice: Callable[..., Any]) -> None:
    """Add a choice to the table; a name that is taken is an error.

    `choice` is a class with `choose`, see `TaskChoice`, whose constructor takes and checks the options. What its objects give is checked.
    """
    _TABLE.register(name, choice)


def task_choice(name: str, options: Mapping[str, Any] | None = None) -> TaskChoice:
    """The choice called `name` (or `module:Class`) with its options, for example `task_choice("gates", {"target": 0.25})`."""
    return _TABLE.make(name, options)
