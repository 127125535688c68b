"""The agent that a configuration describes: the same in training, evaluation and replay. Checking one loads no model."""

from typing import TYPE_CHECKING

from agents.action_formats import ActionFormat, action_format
from agents.agent import Agent
from agents.memory import Memory, make_memory
from trainer.config import AgentConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def configured_agent(config: AgentConfig, tokenizer: "PreTrainedTokenizerFast") -> Agent:
    """The agent with the policy's tokenizer; raises `AgentError` where the two do not fit."""
    return Agent.of(
        tokenizer,
        chat_template=config.chat_template,
        system=config.system,
        stop_tokens=config.stop_tokens,
        memory=configured_memory(config),
        action_format=configured_format(config),
        follow_rewrites=config.follow_rewrites,
    )


def configured_memory(config: AgentConfig) -> Memory:
    """Raises `SettingError` for a memory or a setting that does not exist."""
    return make_memory(config.memory, **config.memory_settings)


def configured_format(config: AgentConfig) -> ActionFormat:
    """Raises `SettingError` for an action format or a setting that does not exist."""
    return action_format(config.action_format, **config.action_settings)
