"""Everything about a run's progress that a checkpoint must keep beside tensors: plain values that survive JSON unchanged."""

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from trainer.evaluate import Evaluation
from trainer.phase_seconds import timed
from tree_rollout.task_history import TaskHistory


@dataclass(slots=True)
class RunState:
    """Counts since the start of the run; an interrupted run's counts go on."""

    iteration: int = 0
    """Finished iterations."""
    version: int = 0
    """Optimizer steps, which number the weights."""
    generated_tokens: int = 0
    """Tokens sampled for training."""
    env_steps: int = 0
    unique_tokens: int = 0
    """Tokens that training laid out, shared ones once."""
    flattened_tokens: int = 0
    """Tokens that training would have laid out for the same rollouts without sharing."""
    branches: int = 0
    rollouts: int = 0
    stop_reasons: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by phase."""
    evaluations: list[Evaluation] = field(default_factory=list)
    drawn: int = 0
    """In mode async, how many times tasks were drawn, `rollout.tasks` at a time."""
    queue: list[list[int]] = field(default_factory=list)
    """In mode async, the trees that are on their way: number and seed of the task of each, in the order in which they were drawn."""
    history: TaskHistory = field(default_factory=TaskHistory)
    """What became of the tasks of the pool."""
    predictor: dict[str, Any] | None = None
    """State of what the allocation rule has learned; None where it learns nothing."""
    warm_start: dict[str, Any] | None = None
    """What the start policy cost when it was made (fields of `WarmStartReport`); None before it is there."""

    def timing(self, phase: str) -> AbstractContextManager[None]:
        """Add the seconds spent inside to a phase."""
        return timed(self.seconds, phase)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "evaluations"}
        plain |= {"stop_reasons": dict(self.stop_reasons), "seconds": dict(self.seconds), "history": self.history.to_json()}
        return {**plain, "evaluations": [evaluation.as_json() for evaluation in self.evaluations]}

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> "RunState":
        """What `as_json` gave."""
        evaluations = [Evaluation.of_json(entry) for entry in plain["evaluations"]]
        history = TaskHistory.from_json(plain["history"]) if "history" in plain else TaskHistory()
        return cls(**{**plain, "stop_reasons": Counter(plain["stop_reasons"]), "evaluations": evaluations, "history": history})
