"""Settings that cannot take effect together are an error when they are made, never ignored later."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tree_rollout.branching import branching_rule
from tree_rollout.errors import SamplerError


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """How one tree per task is grown; an unknown rule, a value out of range or a contradiction is an error."""

    roots: int = 4
    """Rollouts per tree that start from the task's initial state; at least 1."""
    forks: int = 2
    """Rollouts added to a tree once its roots are finished, each a fork of one turn, at most; 0 for none."""
    branching: str = "topk_entropy"
    """Which rule chooses the turns to fork: a name in `BRANCHING_RULES`, one that was registered, or `module:function`."""
    branching_options: Mapping[str, Any] = field(default_factory=dict)
    """The rule's own options, such as `sibling_penalty` of `topk_entropy`."""
    max_turns: int = 30
    """Turns per rollout, counted from the root; the environment's own limit holds as well."""
    max_new_tokens: int = 32
    """Sampled tokens per turn."""
    temperature: float = 1.0
    """0 takes the most likely token."""
    token_budget: int | None = None
    """Sampled tokens per call after which no tree is forked any more; what runs is finished. None for no limit."""
    keep_snapshots: bool = False
    """Leave snapshots on the turns of finished trees, also of forked ones (memory), so that they can be forked later."""

    def __post_init__(self) -> None:
        for name, least in (("roots", 1), ("forks", 0), ("max_turns", 1), ("max_new_tokens", 1), ("token_budget", 1)):
            value = getattr(self, name)
            if name == "token_budget" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SamplerError(f"{name} is {value!r}; give an integer of at least {least}")
        if not (isinstance(self.temperature, int | float) and math.isfinite(self.temperature) and self.temperature >= 0):
            raise SamplerError(f"temperature is {self.temperature!r}; give a finite number that is not negative")
        branching_rule(self.branching, self.branching_options)
        if self.forks and self.branching == "none":
            raise SamplerError(f"forks is {self.forks}, but the branching rule 'none' never forks; set forks to 0 or choose another rule")
        if self.token_budget is not None and not self.forks:
            raise SamplerError("token_budget limits forks, and forks is 0; leave token_budget out or set forks")
        if self.temperature == 0 and self.roots + self.forks > 1:
            raise SamplerError("at temperature 0 all rollouts of a task are the same; set roots to 1 and forks to 0, or raise temperature")

    @classmethod
    def plain(cls, max_turns: int, max_new_tokens: int, temperature: float = 1.0) -> "SamplerSettings":
        """One rollout per task, no forks and no snapshots, as an evaluation wants it."""
        return cls(1, 0, "none", max_turns=max_turns, max_new_tokens=max_new_tokens, temperature=temperature)
