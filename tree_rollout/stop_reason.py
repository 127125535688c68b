"""Every rollout ends for exactly one reason; when several hold at once, the first in this order is recorded."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a rollout ended, in order of priority.

    Causes outside the policy come first, so that none passes as a normal end; the sampler's own stopping rules come last, for they are
    asked about rollouts that could go on. Where several rules would stop one rollout, the first that the run names gives the reason.
    """

    ENV_ERROR = "env_error"
    """The environment raised; the rollout leaves the statistics."""
    STEP_TIMEOUT = "step_timeout"
    """One step outran its deadline; the rollout leaves the statistics."""
    ROLLOUT_TIMEOUT = "rollout_timeout"
    """The environment worked longer for the rollout than it may; the rollout leaves the statistics."""
    ENGINE_ERROR = "engine_error"
    """The engine gave up a turn of it (a server did not answer, say); the rollout leaves the statistics."""
    CONTEXT_LENGTH = "context_length"
    """The next observation does not fit into the policy's context."""
    TERMINATED = "terminated"
    """The environment reached a terminal state (solved, or lost for good)."""
    TRUNCATED = "truncated"
    """The environment's turn limit."""
    OVERLONG = "overlong"
    """A length limit of the run; the rollout counts with the rewards that it has."""
    OVERLONG_MASKED = "overlong_masked"
    """A length limit of the run that takes what is too long out of the statistics."""
    PRUNED_SIMILAR = "pruned_similar"
    """A sibling was going the same way; the rollout leaves the statistics."""
    PRUNED_UNSURE = "pruned_unsure"
    """The policy was much less sure than in the tree's other rollouts; the rollout leaves the statistics."""
    PRUNED = "pruned"
    """A stopping rule of one's own ended it; the rollout leaves the statistics."""

    @property
    def failed(self) -> bool:
        """True where the environment or the engine was at fault; such rollouts count against the share that a run may lose."""
        return self in (StopReason.ENV_ERROR, StopReason.STEP_TIMEOUT, StopReason.ROLLOUT_TIMEOUT, StopReason.ENGINE_ERROR)

    @property
    def unjudged(self) -> bool:
        """True where the sampler ended the rollout before it had an outcome; that is no failure."""
        return self in (StopReason.OVERLONG_MASKED, StopReason.PRUNED_SIMILAR, StopReason.PRUNED_UNSURE, StopReason.PRUNED)

    @property
    def counts(self) -> bool:
        """True where the rollout has an outcome that speaks of the policy; all others leave the group's statistics."""
        return not (self.failed or self.unjudged)
