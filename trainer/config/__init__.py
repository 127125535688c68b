"""A configuration that exists is valid: each field has a type, a range and a sentence; unknown fields are refused, nothing is converted."""

from trainer.config.agent_section import AgentConfig
from trainer.config.config import Config
from trainer.config.config_hash import config_hash
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
from trainer.config.sft_section import SftConfig
from trainer.config.vllm_section import VllmConfig
from trainer.config.warmstart_section import WarmstartConfig

__all__ = [
    "AgentConfig",
    "Config",
    "CreditConfig",
    "CriticConfig",
    "EnvConfig",
    "EvaluationConfig",
    "LossConfig",
    "OptimizerConfig",
    "PolicyConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "Section",
    "SftConfig",
    "VllmConfig",
    "WarmstartConfig",
    "config_hash",
]
