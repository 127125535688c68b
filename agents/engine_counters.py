"""What an engine computed and what it was spared, in tokens, since it was made."""

from dataclasses import dataclass


@dataclass(slots=True)
class EngineCounters:
    """Counts only ever grow; a copy (`dataclasses.replace`) taken before and one taken after some work tell what the work cost."""

    prefilled_tokens: int = 0
    """Tokens that were given, or sampled last in a turn, and were computed before sampling."""
    recomputed_tokens: int = 0
    """Those of `prefilled_tokens` that had been computed before, and were evicted."""
    forked_tokens: int = 0
    """Tokens that forks took over from their parents."""
    shared_tokens: int = 0
    """Those of `forked_tokens` that the cache held, so that the fork need not compute them."""
    decoded_tokens: int = 0
    """Tokens that were sampled."""
    forward_passes: int = 0
    """Calls of the model."""
    evictions: int = 0
    """Sequences whose keys and values were dropped to make room."""
