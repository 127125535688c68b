"""All settings together, and what one section says about another."""

from pathlib import Path
from typing import Self

from pydantic import model_validator

from trainer.config.agent_section import AgentConfig
from trainer.config.credit_section import CreditConfig
from trainer.config.critic_section import CriticConfig
from trainer.config.env_section import EnvConfig
from trainer.config.evaluation_section import EvaluationConfig
from trainer.config.loss_section import LossConfig
from trainer.config.optimizer_section import OptimizerConfig
from trainer.config.policy_section import PolicyConfig
from trainer.config.reward_section import RewardConfig
from trainer.config.rollout_section import RolloutConfig
from trainer.config.run_section import RunConfig
from trainer.config.section import Section
from trainer.config.warmstart_section import WarmstartConfig


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
    critic: CriticConfig = CriticConfig()
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
