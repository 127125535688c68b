"""What a configuration needs is looked for on this machine before anything starts."""

import envs
from trainer.config import Config
from trainer.metric_sinks import check_loggers
from trainer.trained_model import check_lora


def check_needs(config: Config) -> None:
    """Raises where loggers, adapters or the environment need what is not on this machine."""
    check_loggers(config.run.loggers)
    check_lora(config.policy)
    envs.spec(config.env.id).require()
