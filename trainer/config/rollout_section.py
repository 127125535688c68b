"""Settings of an iteration's trees."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from trainer.config.section import Device, Section
from trainer.config.vllm_section import VllmConfig


class BranchingConfig(Section):
    """Where a tree forks."""

    rule: str = "topk_entropy"
    """Branching rule: `none`, `first_token`, `random`, `uniform_depth`, `topk_entropy`, `arpo`, `appo`, `hybrid`, `signal_per_token`, or
    your own `module:function`."""
    options: dict[str, JsonValue] = {}
    """The rule's own options, by name."""


class AllocationConfig(Section):
    """How rollouts, tasks x (roots + forks) of them, are shared among the tasks that a shard samples together."""

    rule: str = "fixed"
    """Allocation rule: `fixed`, `trace`, `pilot_commit`, `vigor`, `dars`, or your own `module:function`."""
    options: dict[str, JsonValue] = {}
    """The rule's own options, by name."""


class StoppingConfig(Section):
    """One rule that ends rollouts early."""

    rule: str
    """Stopping rule: `similar_siblings`, `low_confidence`, `decided`, `length_limit`, or your own `module:function`."""
    options: dict[str, JsonValue] = {}
    """The rule's own options, by name."""


class TaskChoiceConfig(Section):
    """Which tasks of the pool an iteration takes."""

    rule: str = "fresh"
    """Task choice: `fresh`, `gates`, `thompson`, or your own `module:Class`."""
    options: dict[str, JsonValue] = {}
    """The rule's own options, by name."""


class DynamicSamplingConfig(Section):
    """Replacing trees whose rollouts all ended alike, from which nothing is to be learned."""

    most: Annotated[float, Field(ge=1, le=1000)] | None = None
    """Tasks that an iteration draws at most, as a multiple of `rollout.tasks`; null replaces none. What is alike, the environment's own
    reward decides."""
    fill_up: bool = False
    """Whether trees that ended alike are learned from after all where too few others came up."""

    @model_validator(mode="after")
    def _fill_up_fits(self) -> Self:
        if self.fill_up and self.most is None:
            raise ValueError("rollout.dynamic_sampling.fill_up has no effect without rollout.dynamic_sampling.most; set that too")
        return self


class RolloutConfig(Section):
    """One iteration's trees."""

    engine: Literal["transformers", "vllm"] = "transformers"
    """What samples: `transformers` on the learner's own model, or `vllm`, with its prefix cache and weights of its own (package `vllm`)."""
    device: Device | None = None
    """Where the engine computes: cpu, cuda, cuda:N or auto; null is `policy.device`. Another one is for vLLM, and for runs on Ray."""
    vllm: VllmConfig = VllmConfig()
    """What vLLM may take."""
    tasks: int = Field(default=16, ge=1, le=1_000_000)
    """Tasks, hence trees, in one iteration."""
    task_pool: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Tasks that training draws from, again and again; null draws new ones in every iteration."""
    task_choice: TaskChoiceConfig = TaskChoiceConfig()
    """Which tasks of the pool an iteration takes."""
    dynamic_sampling: DynamicSamplingConfig = DynamicSamplingConfig()
    """Replacing trees whose rollouts all ended alike."""
    roots: int = Field(default=4, ge=1, le=10_000)
    """Rollouts of each task that start afresh."""
    forks: int = Field(default=4, ge=0, le=10_000)
    """Further rollouts of each task that fork off earlier ones."""
    allocation: AllocationConfig = AllocationConfig()
    """How the rollouts are shared among the tasks."""
    branching: BranchingConfig = BranchingConfig()
    """Where a tree forks."""
    stopping: list[StoppingConfig] = []
    """Rules that end rollouts early, in the order in which they are asked."""
    max_new_tokens: int = Field(default=16, ge=1, le=1_000_000)
    """Tokens that one action may have."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Sampling temperature."""
    token_budget: Annotated[int, Field(ge=1)] | None = None
    """Sampled tokens of one round of sampling after which no tree gets forks or further roots; null sets no limit."""
    step_budget: Annotated[int, Field(ge=1)] | None = None
    """Environment steps of one round of sampling after which no tree gets forks or further roots; null sets no limit."""
    schedule: Literal["lockstep", "continuous"] = "lockstep"
    """`lockstep`: one turn of every rollout at a time; reproducible. `continuous`: nobody waits, and rounding depends on who is first."""
    env_threads: int = Field(default=16, ge=0, le=10_000)
    """Environments of a shard that may work at the same time, where their work is worth a thread; 0 has them work one by one."""
    env_processes: int = Field(default=0, ge=0, le=1024)
    """Processes over which a shard's environments are spread; 0 keeps them in its own. What hangs for good takes its process along."""
    deadline_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds that the environment of one rollout may work altogether; null sets no limit."""

    @model_validator(mode="after")
    def _forks_have_a_rule(self) -> Self:
        if self.forks and self.branching.rule == "none" and self.allocation.rule == "fixed":
            raise ValueError(f"rollout.forks must be 0 with rollout.branching.rule none, but is {self.forks}")
        if not self.forks and self.branching.rule != "none":
            raise ValueError(f"rollout.branching.rule {self.branching.rule} has no effect with rollout.forks 0; set the rule to none")
        for name in ("token_budget", "step_budget"):
            if getattr(self, name) is not None and not self.forks and self.allocation.rule == "fixed":
                raise ValueError(f"rollout.{name} has no effect with rollout.forks 0; leave it out")
        return self

    @model_validator(mode="after")
    def _pool_fits(self) -> Self:
        most = self.most_tasks
        if self.task_pool is None and self.task_choice.rule != "fresh":
            raise ValueError(f"rollout.task_choice.rule {self.task_choice.rule} has no effect without rollout.task_pool; set that too")
        if self.task_pool is not None and self.task_pool < most:
            raise ValueError(f"rollout.task_pool must hold the {most} tasks that an iteration may draw, but is {self.task_pool}")
        return self

    @property
    def most_tasks(self) -> int:
        """Tasks that one iteration draws at most."""
        return int(self.tasks * (self.dynamic_sampling.most or 1))
