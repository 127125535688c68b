"""The engine that speaks for a configuration's agent: the same in training, evaluation and replay."""

from transformers import PreTrainedModel

from agents.agent import Agent
from agents.transformers_engine import TransformersEngine
from trainer.config import Config


def configured_engine(config: Config, model: PreTrainedModel, agent: Agent, rows: int) -> TransformersEngine:
    """An engine on the model as it stands, with room for `rows` sequences at first."""
    return TransformersEngine(model, agent.stop_ids, max_length=config.policy.max_length, rows=rows, decode=agent.text)
