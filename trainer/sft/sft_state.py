"""What supervised fine-tuning must remember beside tensors: plain values that survive JSON unchanged."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from trainer.evaluate import Evaluation
from trainer.phase_seconds import timed


@dataclass(slots=True)
class SftState:
    """Counts since the start; an interrupted run's counts go on."""

    step: int = 0
    """Finished optimizer steps."""
    unique_tokens: int = 0
    """Tokens that were computed in training, shared ones once."""
    flattened_tokens: int = 0
    """Tokens that the same rollouts would have taken one by one."""
    lessons: str = ""
    """Digest of what is learned from; empty for the demonstrator's imitation, which the configuration determines."""
    source: dict[str, Any] = field(default_factory=dict)
    """Counts of what is imitated."""
    validation: list[tuple[int, float]] = field(default_factory=list)
    """After how many steps the validation loss was measured, and what it was, in nats per token."""
    evaluations: list[Evaluation] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by phase."""

    def timing(self, phase: str) -> AbstractContextManager[None]:
        """Add the seconds spent inside to a phase."""
        return timed(self.seconds, phase)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {
            "evaluations": [entry.as_json() for entry in self.evaluations],
            "validation": list(map(list, self.validation)),
        }

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> "SftState":
        """What `as_json` gave."""
        evaluations = [Evaluation.of_json(entry) for entry in plain["evaluations"]]
        validation = [(int(step), float(loss)) for step, loss in plain["validation"]]
        return cls(**{**plain, "evaluations": evaluations, "validation": validation})
