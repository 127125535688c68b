"""`thompson`: a chance to solve each task is drawn from what is known of it, and the tasks with the most open outcome are taken.

    p_i ~ Beta(prior + solved_i, prior + unsolved_i),   the largest p_i (1 - p_i) first

Solved and unsolved roots of the last visits count `discount` to the power of the iterations since, so that old evidence fades and a task
that was given up comes back. Tasks that were never seen have the prior alone: they are drawn often at first, and tasks known to be open
are preferred to them later. Source: VADE (arXiv 2511.18902: Beta posteriors, Thompson sampling, decay); reconstructed in that its two
scales of decay are one discount here, and its information gain is p (1 - p), which orders tasks as any measure does that is symmetric and
largest at 1/2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.options import check_number
from tree_rollout.errors import TaskChoiceError
from tree_rollout.rule_table import refused_as
from tree_rollout.task import Task
from tree_rollout.task_choice.rule import check_count_of
from tree_rollout.task_history import TaskHistory


@dataclass(frozen=True, slots=True)
class Thompson:
    """Two draws decide nothing for good: each call draws anew."""

    name: ClassVar[str] = "thompson"
    discount: float = 0.95
    """What a visit counts one iteration later; 0 forgets all, 1 nothing."""
    prior: float = 1.0
    """Solved and unsolved rollouts that are imagined before any; a large one makes tasks look open for long."""

    def __post_init__(self) -> None:
        with refused_as(TaskChoiceError):
            check_number("discount", self.discount, "from 0 to 1", 0.95, least=0, most=1)
            check_number("prior", self.prior, "from 0.001 to 1000", 1.0, least=0.001, most=1000)

    def choose(self, pool: Sequence[Task], count: int, history: TaskHistory, rng: np.random.Generator) -> list[Task]:
        """The most open first; of equal ones the one that stands first in the pool."""
        check_count_of(pool, count)
        solved, unsolved = np.zeros(len(pool)), np.zeros(len(pool))
        for place, task in enumerate(pool):
            record = history.record(task)
            if record is not None:
                # The next iteration is the one that is chosen for.
                solved[place], unsolved[place] = record.evidence_at(history.iteration + 1, self.discount)
        chance = rng.beta(self.prior + np.maximum(solved, 0), self.prior + np.maximum(unsolved, 0))
        ranked = np.argsort(-chance * (1 - chance), kind="stable")
        return [pool[place] for place in ranked[:count]]
