"""Settings that are each valid, and together leave nothing to learn from or overrule each other, are refused before anything starts."""

from trainer.config import Config
from trainer.errors import ConfigError


def check_settings(config: Config) -> None:
    """Raises `ConfigError` that names what to set instead."""
    if config.rollout.roots + config.rollout.forks < 2 and config.critic.kind == "none":
        raise ConfigError(
            "rollout.roots 1 with rollout.forks 0 leaves a rollout nothing to be compared with; set rollout.roots to 2 or more"
        )
    check_env_arguments(config)


def check_env_arguments(config: Config) -> None:
    """Raises `ConfigError` for an argument of the environment that a setting of its own decides."""
    for name, settings in (("split", "env.train_split and env.eval_split"), ("max_turns", "env.max_turns")):
        if name in config.env.kwargs:
            raise ConfigError(f"env.kwargs.{name} would overrule other settings; leave it out and set {settings}")
