"""Settings that cannot take effect together are an error when they are made, never ignored later."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from envs.errors import nearest
from tree_rollout.allocation import AllocationRule, Budget, TaskState, allocation_rule
from tree_rollout.branching import branching_rule
from tree_rollout.errors import SamplerError
from tree_rollout.stopping import stopping_rule
from tree_rollout.task import Task

Schedule = Literal["lockstep", "continuous"]


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
    """Sampled tokens per call after which no tree gets forks or further roots; what runs is finished. None for no limit."""
    keep_snapshots: bool = False
    """Leave snapshots on the turns of finished trees, also of forked ones (memory), so that they can be forked later."""
    step_budget: int | None = None
    """Environment steps per call after which no tree gets forks or further roots; None for no limit."""
    allocation: str = "fixed"
    """Which rule shares the rollouts of a call, tasks x (roots + forks) of them, among the tasks: a name in `ALLOCATION_RULES`."""
    allocation_options: Mapping[str, Any] = field(default_factory=dict)
    """The allocation rule's own options."""
    stopping: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Rules that end rollouts early, each with its options; of several that would end one, the first gives the reason."""
    schedule: Schedule = "lockstep"
    """`lockstep`: every engine call holds the next turn of all live rollouts, and results do not depend on who finishes first.
    `continuous`: each rollout goes on as soon as its environment has answered; what shares a batch, and so the rounding, then varies."""
    env_threads: int = 16
    """Environments that may work at the same time where their work is worth a thread; 0 has all work done one by one."""
    env_processes: int = 0
    """Processes over which environments are spread, for those that compute in Python or may hang in C; 0 keeps them in this one."""
    max_live: int | None = None
    """No further tree starts as long as its first roots would make more live rollouts than this; what a tree gets after them comes on
    top. None for no limit."""
    rollout_deadline_s: float | None = None
    """Seconds that the environment of one rollout may work altogether; then it ends with `StopReason.ROLLOUT_TIMEOUT`. None for no
    limit. Waiting for the engine or for other rollouts is not counted."""

    def __post_init__(self) -> None:
        optional = ("token_budget", "step_budget", "max_live")
        least = {"roots": 1, "forks": 0, "max_turns": 1, "max_new_tokens": 1, "env_threads": 0, "env_processes": 0}
        least |= dict.fromkeys(optional, 1)
        for name, bound in least.items():
            value = getattr(self, name)
            if name in optional and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < bound:
                raise SamplerError(f"{name} is {value!r}; give an integer of at least {bound}")
        if self.env_processes and not self.env_threads:
            raise SamplerError(f"env_processes is {self.env_processes}, but env_threads 0 lets one of them work at a time; set env_threads")
        self._check_kinds()
        self._check_numbers()
        branching_rule(self.branching, self.branching_options)
        self._check_together(allocation_rule(self.allocation, self.allocation_options))
        for name, options in self.stopping:
            stopping_rule(name, options)

    def _check_kinds(self) -> None:
        for name in ("branching_options", "allocation_options"):
            if not isinstance(getattr(self, name), Mapping):
                raise SamplerError(f"{name} is {getattr(self, name)!r}; give a mapping from options to values")
        pairs = self.stopping if isinstance(self.stopping, list | tuple) else [None]
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[1], Mapping) for pair in pairs):
            raise SamplerError(f"stopping is {self.stopping!r}; give (rule, options) pairs, such as [('decided', {{}})]")
        if len({repr(pair) for pair in pairs}) < len(pairs):
            raise SamplerError("a stopping rule is named twice with the same options; the second has no effect, so leave it out")
        for name in ("temperature", "rollout_deadline_s"):
            if isinstance(getattr(self, name), bool):
                raise SamplerError(f"{name} is {getattr(self, name)!r}; give a number")

    def _check_numbers(self) -> None:
        if not (isinstance(self.temperature, int | float) and math.isfinite(self.temperature) and self.temperature >= 0):
            raise SamplerError(f"temperature is {self.temperature!r}; give a finite number that is not negative")
        deadline_s = self.rollout_deadline_s
        if deadline_s is not None and not (isinstance(deadline_s, int | float) and math.isfinite(deadline_s) and deadline_s > 0):
            raise SamplerError(f"rollout_deadline_s is {deadline_s!r}; give a positive number of seconds, or None for no limit")
        if self.schedule not in get_args(Schedule):
            raise SamplerError(f"schedule is {self.schedule!r}; {nearest(str(self.schedule), get_args(Schedule))}")

    def _check_together(self, allocation: AllocationRule) -> None:
        allocation.check(Budget(self.roots, self.forks))
        if allocation.picks_turns and self.branching != "none":
            raise SamplerError(
                f"the allocation rule {self.allocation!r} picks the turns to fork itself, so the branching rule {self.branching!r} would "
                "have no effect; set branching to 'none', or choose another allocation rule"
            )
        if self.forks and self.branching == "none" and not allocation.picks_turns:
            raise SamplerError(f"forks is {self.forks}, but the branching rule 'none' never forks; set forks to 0 or choose another rule")
        for name in ("token_budget", "step_budget"):
            if getattr(self, name) is not None and not self._more_later(allocation):
                raise SamplerError(f"{name} limits forks and further roots, and there are none; leave {name} out or set forks")
        if self.temperature == 0 and self.roots + self.forks > 1:
            raise SamplerError("at temperature 0 all rollouts of a task are the same; set roots to 1 and forks to 0, or raise temperature")
        if self.max_live is not None and self.max_live < self.roots and not allocation.across:
            raise SamplerError(f"max_live is {self.max_live}, but a tree starts with {self.roots} roots; set max_live to at least that")

    def _more_later(self, allocation: AllocationRule) -> bool:
        """Whether the rule holds anything back when the first roots of unknown tasks start."""
        budget, tasks = Budget(self.roots, self.forks), [TaskState(Task("any", seed)) for seed in range(2)]
        return sum(allocation.first(tasks, budget, np.random.default_rng(0))) < len(tasks) * budget.rollouts

    @classmethod
    def plain(cls, max_turns: int, max_new_tokens: int, temperature: float = 1.0, **others: Any) -> "SamplerSettings":
        """One rollout per task, no forks and no snapshots, as an evaluation wants it; `others` are further settings."""
        return cls(1, 0, "none", max_turns=max_turns, max_new_tokens=max_new_tokens, temperature=temperature, **others)
