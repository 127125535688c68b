"""What a run's metrics say about its health: rules in one table, flags ordered by the stages of a rollout's life."""

from trainer.health.flag import Flag
from trainer.health.rules import RULES
from trainer.health.watch import HealthWatch, examine

__all__ = ["RULES", "Flag", "HealthWatch", "examine"]
