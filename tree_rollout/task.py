"""A task is data: the environment's id, its arguments and one seed say everything about the initial state."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_rollout.errors import SamplerError


@dataclass(frozen=True, slots=True)
class Task:
    """One initial state of one environment."""

    env_id: str
    seed: int
    """Not negative; `env.reset(seed=seed)` gives the initial state."""
    env_kwargs: Mapping[str, object] = field(default_factory=dict)
    """Keyword arguments of the environment; JSON values only."""
    instance_key: str = field(init=False, repr=False, compare=False)
    """Equal for tasks that one environment instance can serve, one after the other."""

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise SamplerError(f"task seed of {self.env_id} is {self.seed!r}; give an integer that is not negative")
        try:
            key = json.dumps([self.env_id, dict(self.env_kwargs)], sort_keys=True)
        except (TypeError, ValueError) as error:
            raise SamplerError(f"arguments of {self.env_id} must be JSON values (text, numbers, lists, mappings): {error}") from error

        object.__setattr__(self, "instance_key", key)
