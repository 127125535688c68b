"""Names in a configuration that other packages own are checked against those packages' tables before anything starts."""

import credit
import envs
from envs.errors import nearest
from trainer.config import Config
from trainer.errors import ConfigError
from tree_rollout.branching import branching_rule


def check_names(config: Config) -> None:
    """Raise where the environment, a split, the estimator, the branching rule or one of their settings is unknown."""
    spec = envs.spec(config.env.id)
    for setting, split in (("env.train_split", config.env.train_split), ("env.eval_split", config.env.eval_split)):
        if split not in spec.splits:
            raise ConfigError(f"setting {setting}: {spec.id} has no split {split!r}; {nearest(split, spec.splits)}")
    credit.settings_for(config.credit.method, **config.credit.settings)
    branching_rule(config.rollout.branching.rule, config.rollout.branching.options)
