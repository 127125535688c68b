"""The engine that samples from a model of this process for a configuration's agent: the same in training, evaluation and replay.

A run whose engine is vLLM samples with that (`trainer.vllm_host`); single turns, as in a fork of a recorded rollout, come from here.
"""

from transformers import PreTrainedModel

from agents.agent import Agent
from agents.transformers_engine import TransformersEngine
from trainer.config import Config


def configured_engine(config: Config, model: PreTrainedModel, agent: Agent, rows: int) -> TransformersEngine:
    """An engine on the model as it stands, with room for `rows` sequences at first."""
    return TransformersEngine(model, agent.stop_ids, max_length=config.policy.max_length, rows=rows, decode=agent.text)
