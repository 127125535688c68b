"""A configuration that exists is valid: each field has a type, a range and a sentence; unknown fields are refused, nothing is converted."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator


class Section(BaseModel):
    """Base of all sections. Strict: `"5"` is no integer; frozen: a run cannot change its own configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class EnvConfig(Section):
    """The environment, and which of its tasks serve training and evaluation."""

    id: str = "branchwise/Household-v0"
    """Registered environment; `branchwise envs` lists them."""
    kwargs: dict[str, JsonValue] = {}
    """Further arguments of the environment, by name."""
    train_split: str = "train"
    """Split whose tasks the policy learns on."""
    eval_split: str = "valid_unseen"
    """Split whose tasks the policy is measured on."""
    max_turns: int = Field(default=30, ge=1, le=10_000)
    """Turns after which an episode is cut."""

    def arguments(self, split: str) -> dict[str, JsonValue]:
        """What the environment is made with for the tasks of a split."""
        return {"split": split, "max_turns": self.max_turns, **self.kwargs}


class PolicyConfig(Section):
    """The policy's network: built from these sizes, or read from a folder."""

    path: str | None = None
    """Hugging Face folder of an existing model with its tokenizer; null builds a new one from the sizes below."""
    layers: int = Field(default=4, ge=1, le=128)
    """Transformer blocks."""
    hidden: int = Field(default=128, ge=8, le=16_384)
    """Width of the residual stream."""
    heads: int = Field(default=4, ge=1, le=256)
    """Attention heads; they share `hidden` evenly."""
    kv_heads: int = Field(default=4, ge=1, le=256)
    """Key/value heads; a divisor of `heads`."""
    intermediate: int = Field(default=384, ge=8, le=65_536)
    """Width of the feed-forward layer."""
    max_length: int = Field(default=1024, ge=16, le=1_048_576)
    """Tokens that one rollout may hold."""
    rope_theta: float = Field(default=10_000.0, gt=0)
    """Base of the rotary position embedding."""
    vocab_size: int = Field(default=1536, ge=260, le=1_000_000)
    """Largest vocabulary that the tokenizer may learn; bytes and special tokens included."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.path is not None:
            sizes = {name: field for name, field in PolicyConfig.model_fields.items() if name not in ("path", "max_length")}
            changed = [name for name, field in sizes.items() if getattr(self, name) != field.default]
            if changed:
                raise ValueError(f"policy.{changed[0]} has no effect on the model in policy.path; leave one of the two out")
        if self.hidden % self.heads or self.hidden // self.heads % 2:
            raise ValueError(f"policy.hidden must be an even multiple of policy.heads, but is {self.hidden} with {self.heads} heads")
        if self.heads % self.kv_heads:
            raise ValueError(f"policy.kv_heads must divide policy.heads, but {self.kv_heads} does not divide {self.heads}")
        return self


class AgentConfig(Section):
    """How the policy converses."""

    chat_template: str | None = None
    """Built-in chat template: `chatml`, `llama3`, `gemma3` or `plain`; null takes the one that the policy's tokenizer has."""
    system: str | None = None
    """Text of the system message; null leaves it to the template whether there is one."""
    stop_tokens: list[str] = []
    """Special tokens that end a turn besides those of the template and the tokenizer."""
    action_format: str = "text"
    """What of a turn is the action: `text` (its first line), `tagged` (`<action>...</action>`) or `tool_call` (JSON of Hermes and Qwen)."""
    action_settings: dict[str, Annotated[int, Field(ge=1)]] = {}
    """The action format's own settings, by name."""
    memory: str = "whole_history"
    """How much of the past the policy sees: `whole_history` or `sliding_window`."""
    memory_settings: dict[str, JsonValue] = {}
    """The memory's own settings, by name: `turns` or `tokens` of a sliding window, and more."""
    follow_rewrites: bool = True
    """Where the chat template rewrites earlier turns, show the policy what it writes; false lets them stand as they were sampled."""


class WarmstartConfig(Section):
    """Supervised learning on a scripted expert that errs, before reinforcement learning starts."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides the initial weights, the episodes and their order."""
    episodes: int = Field(default=6000, ge=1, le=10_000_000)
    """Expert episodes that are recorded."""
    steps: int = Field(default=3000, ge=0, le=10_000_000)
    """Optimizer steps; 0 leaves the weights as they were built or read."""
    tokens_per_step: int = Field(default=1536, ge=1, le=10_000_000)
    """Tokens in one step's batch, at most; always at least one episode."""
    lr_muon: float = Field(default=0.01, gt=0, le=1)
    """Learning rate of Muon, which trains the matrices."""
    lr_adamw: float = Field(default=0.003, gt=0, le=1)
    """Learning rate of AdamW, which trains embeddings and norms."""
    observation_weight: float = Field(default=0.4, ge=0, le=1)
    """Loss weight of observation tokens; action tokens have 1."""
    habits: dict[str, JsonValue] = {}
    """How often the demonstrator has each of its bad habits, by name."""
    noise: float = Field(default=0.05, ge=0, lt=1)
    """Share of turns that take a random action, which is not imitated, so that the policy learns to go on from anywhere."""


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


class CreditConfig(Section):
    """How outcomes become one advantage per turn."""

    method: str = "rtmc"
    """Estimator of advantages, by name."""
    weighting: Literal["path", "leaf"] = "path"
    """What a rollout counts: `path` shares each turn's weight among its continuations, which forks do not bias; `leaf` is always 1."""
    settings: dict[str, JsonValue] = {}
    """The estimator's own settings, by name."""
    signature: str = "env"
    """How a state is recognised: `env`, `observation`, `normalised`, `actions`, `similar`, `window`, or your own `module:function`."""
    signature_settings: dict[str, JsonValue] = {}
    """The signature's own settings, by name."""


class RewardConfig(Section):
    """What shapes the advantages beside the environment's own reward."""

    invalid_penalty: float = Field(default=0.2, ge=0, le=100)
    """Taken off a turn's advantage when the environment refused its action; the rollout's outcome stays as it is."""
    weights: dict[str, JsonValue] = {}
    """What counts in the outcome beside the environment's reward (`task`, 1): `format` (-1 for a refused action), `length` (-1 a turn);
    a weight, or [iteration, weight] points with straight lines between them."""
    overlong_limit: Annotated[int, Field(ge=1)] | None = None
    """Sampled tokens at which a rollout's outcome is 1 lower, for being too long; null takes nothing off."""
    overlong_buffer: Annotated[int, Field(ge=1)] | None = None
    """Sampled tokens before `overlong_limit` over which the penalty rises from 0 in a straight line."""

    @model_validator(mode="after")
    def _overlong_fits(self) -> Self:
        if (self.overlong_limit is None) != (self.overlong_buffer is None):
            raise ValueError("reward.overlong_limit and reward.overlong_buffer belong together; set both, or leave both out")
        if self.overlong_limit is not None and self.overlong_buffer is not None and self.overlong_buffer > self.overlong_limit:
            raise ValueError(
                f"reward.overlong_buffer must be at most reward.overlong_limit, but is {self.overlong_buffer} with {self.overlong_limit}"
            )
        return self


class LossConfig(Section):
    """The clipped policy-gradient loss."""

    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The probability ratio is clipped below 1 minus this."""
    clip_high: float = Field(default=0.28, gt=0, le=100)
    """The probability ratio is clipped above 1 plus this."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound on the ratio where the advantage is negative; null sets none."""
    aggregation: Literal["token", "sequence", "turn", "constant"] = "token"
    """What the loss is a mean over."""
    constant: Annotated[float, Field(gt=0)] | None = None
    """What the summed loss of a mini-batch is divided by; for aggregation constant, and for that alone."""
    kl_coefficient: float = Field(default=0.0, ge=0, le=100)
    """Weight of the divergence from the start policy; 0 keeps no copy of it."""

    @model_validator(mode="after")
    def _constant_fits(self) -> Self:
        if (self.aggregation == "constant") != (self.constant is not None):
            raise ValueError(f"loss.constant belongs to loss.aggregation constant alone, but it is {self.constant} with {self.aggregation}")
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clip_high:
            raise ValueError(f"loss.dual_clip must be above 1 + loss.clip_high = {1 + self.clip_high:g}, but is {self.dual_clip}")
        return self


class OptimizerConfig(Section):
    """AdamW and the steps of one iteration."""

    lr: float = Field(default=5e-4, gt=0, le=1)
    """Learning rate after warm-up."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(default=(0.9, 0.95), strict=False)
    """Decay of the first and second moments."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """Decoupled weight decay of matrices."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient's norm is clipped to this."""
    warmup_iterations: int = Field(default=3, ge=0)
    """Iterations over which the learning rate rises to `lr`."""
    decay_iterations: Annotated[int, Field(ge=1)] | None = None
    """The learning rate falls linearly to `final_lr_share` of `lr` by this iteration, and stays there; null keeps it constant."""
    final_lr_share: float = Field(default=0.1, ge=0, le=1)
    """Share of `lr` that is left in the end; means something with `decay_iterations` only."""
    mini_batches: int = Field(default=4, ge=1, le=10_000)
    """Optimizer steps in one iteration."""
    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Tokens that are computed at once; more need more memory, and the result stays the same."""

    @model_validator(mode="after")
    def _decay_fits(self) -> Self:
        if self.decay_iterations is None and self.final_lr_share != OptimizerConfig.model_fields["final_lr_share"].default:
            raise ValueError("optimizer.final_lr_share has no effect without optimizer.decay_iterations; set that too, or leave both out")
        return self


class EvaluationConfig(Section):
    """Measuring the policy on fixed held-out tasks, sampled and greedy."""

    tasks: int = Field(default=200, ge=1, le=1_000_000)
    """Held-out tasks, the same at every evaluation."""
    every: int = Field(default=10, ge=1)
    """Iterations between two evaluations; the first and the last iteration are always measured."""
    seed: int = Field(default=1_000_000, ge=0, lt=2**32)
    """Decides the held-out tasks and what is sampled on them."""


class RunConfig(Section):
    """The run itself: its length, its randomness, its folder, its processes."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides tasks, samples and the order of training."""
    out: str | None = None
    """Run folder; null is runs/BENCHMARK-seedN."""
    iterations: int = Field(default=60, ge=0)
    """Iterations of sampling and learning."""
    shards: int = Field(default=2, ge=1, le=1024)
    """Parts that an iteration's work is cut into; results depend on this number, not on `workers`."""
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = "auto"
    """Processes that work on the shards; auto takes one per shard, and no more than there are cores."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Iterations between two checkpoints."""
    max_failed_share: float = Field(default=0.1, ge=0, le=1)
    """Share of failed rollouts in one iteration above which the run stops."""


class Config(Section):
    """Everything that a run depends on."""

    benchmark: str
    """Name of the packaged configuration that this one started from."""
    env: EnvConfig = EnvConfig()
    policy: PolicyConfig = PolicyConfig()
    agent: AgentConfig = AgentConfig()
    warmstart: WarmstartConfig = WarmstartConfig()
    rollout: RolloutConfig = RolloutConfig()
    credit: CreditConfig = CreditConfig()
    reward: RewardConfig = RewardConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        run, rollout = self.run, self.rollout
        if run.shards > rollout.tasks:
            raise ValueError(f"run.shards must be at most rollout.tasks, but is {run.shards} with {rollout.tasks} tasks")
        if run.workers != "auto" and run.workers > run.shards:
            raise ValueError(f"run.workers must be at most run.shards, but is {run.workers} with {run.shards} shards")
        if self.optimizer.mini_batches > rollout.tasks:
            raise ValueError(
                f"optimizer.mini_batches must be at most rollout.tasks, but is {self.optimizer.mini_batches} with {rollout.tasks} tasks"
            )
        if self.policy.path is None and rollout.max_new_tokens >= self.policy.max_length:
            raise ValueError(
                f"rollout.max_new_tokens must be below policy.max_length, but is {rollout.max_new_tokens} with {self.policy.max_length}"
            )
        return self

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.run.out) if self.run.out is not None else Path("runs") / f"{self.benchmark}-seed{self.run.seed}"


def config_hash(*parts: BaseModel | Mapping[str, Any] | str | int) -> str:
    """SHA-256 (hex) of the parts as canonical JSON: equal for equal contents, whatever the order of keys."""
    plain = [part.model_dump(mode="json") if isinstance(part, BaseModel) else part for part in parts]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
