"""Which tasks the next iteration samples, from what earlier ones saw of them; and how groups without contrast are replaced."""

from tree_rollout.task_choice.dynamic_sampling import Refill, refill
from tree_rollout.task_choice.rule import TaskChoice
from tree_rollout.task_choice.table import TASK_CHOICES, register_task_choice, task_choice, task_choices

__all__ = ["TASK_CHOICES", "Refill", "TaskChoice", "refill", "register_task_choice", "task_choice", "task_choices"]
