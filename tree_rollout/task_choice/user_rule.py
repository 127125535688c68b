"""A task choice of one's own is as good as any: what it raises or gives wrongly is one sentence that names it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tree_rollout.errors import TaskChoiceError, TaskChoiceFunctionError, TreeRolloutError
from tree_rollout.task import Task
from tree_rollout.task_choice.rule import TaskChoice, check_count_of
from tree_rollout.task_history import TaskHistory, key_of


@dataclass(frozen=True, slots=True)
class UserTaskChoice:
    """A choice that was registered or imported."""

    name: str
    rule: Any

    @classmethod
    def of(cls, name: str, rule: Any) -> TaskChoice:
        """The choice, checked; one without `choose` is a `TaskChoiceError`."""
        if not callable(getattr(rule, "choose", None)):
            raise TaskChoiceError(f"the task choice {name!r} is a {type(rule).__name__} without `choose`; give it that method")
        return cls(name, rule)

    def choose(self, pool: Sequence[Task], count: int, history: TaskHistory, rng: np.random.Generator) -> list[Task]:
        """What the rule gives: `count` different tasks of the pool."""
        check_count_of(pool, count)
        try:
            given: list[Any] = list(self.rule.choose(pool, count, history, rng))
        except TreeRolloutError:
            raise
        except (Exception, SystemExit) as fault:
            raise TaskChoiceFunctionError(f"task choice {self.name} failed with {type(fault).__name__}: {fault}; correct it") from fault
        for task in given:
            if not isinstance(task, Task):
                raise TaskChoiceFunctionError(f"task choice {self.name} gave {task!r}; give tasks of the pool")
        keys = {key_of(task) for task in given}
        if len(given) != count or len(keys) != count or not keys <= {key_of(task) for task in pool}:
            raise TaskChoiceFunctionError(
                f"task choice {self.name} gave {len(given)} tasks, {len(keys)} of them different, where {count} of the pool's "
                f"{len(pool)} are needed; give just these"
            )
        return given
