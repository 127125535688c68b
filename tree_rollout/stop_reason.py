"""Every rollout ends for exactly one reason; when several hold at once, the first in this order is recorded."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a rollout ended, in order of priority: causes outside the policy come first, so that none passes as a normal end."""

    ENV_ERROR = "env_error"
    """The environment raised; the rollout leaves the statistics."""
    STEP_TIMEOUT = "step_timeout"
    """One step outran its deadline; the rollout leaves the statistics."""
    CONTEXT_LENGTH = "context_length"
    """The next observation does not fit into the policy's context."""
    TERMINATED = "terminated"
    """The environment reached a terminal state (solved, or lost for good)."""
    TRUNCATED = "truncated"
    """The environment's turn limit."""

    @property
    def failed(self) -> bool:
        """True where the rollout says nothing about the policy and must leave the group's statistics."""
        return self in (StopReason.ENV_ERROR, StopReason.STEP_TIMEOUT)
