"""Names in a configuration that other packages own are checked against those packages' tables before anything starts."""

import numpy as np

import credit
import envs
from envs.errors import nearest
from trainer.config import Config
from trainer.configured_agent import configured_format, configured_memory
from trainer.errors import ConfigError
from trainer.reward_parts import REWARD_PARTS, weights_at
from trainer.rollout_settings import rollout_settings
from trainer.tree_credit import RECORDED, VALUED, credit_turn
from tree_rollout.allocation import allocation_rule
from tree_rollout.branching import branching_rule
from tree_rollout.errors import SamplerError
from tree_rollout.signatures import make_signature
from tree_rollout.task_choice import task_choice
from tree_rollout.turn import Turn

_NO_TOKENS = (np.zeros(0, np.int32), np.zeros(0, np.bool_), np.zeros(0, np.float32), np.zeros(0, np.float32))


def check_names(config: Config) -> None:
    """Raise where the environment, a split, the estimator, the signature, a rule of the rollouts or one of their settings is unknown."""
    spec = envs.spec(config.env.id)
    for setting, split in (("env.train_split", config.env.train_split), ("env.eval_split", config.env.eval_split)):
        if split not in spec.splits:
            raise ConfigError(f"setting {setting}: {spec.id} has no split {split!r}; {nearest(split, spec.splits)}")
    configured_memory(config.agent)
    configured_format(config.agent)
    _check_credit(config)
    _check_signature(config)
    branching_rule(config.rollout.branching.rule, config.rollout.branching.options)
    task_choice(config.rollout.task_choice.rule, config.rollout.task_choice.options)
    try:
        rollout_settings(config)
    except SamplerError as error:
        raise ConfigError(f"setting rollout: {error}") from error
    rule = config.rollout.allocation
    if allocation_rule(rule.rule, rule.options).across and config.rollout.tasks < 2 * config.run.shards:
        raise ConfigError(
            f"rollout.allocation.rule {rule.rule} compares the tasks that a shard samples together, and {config.rollout.tasks} tasks in "
            f"{config.run.shards} shards leave some shard a single one; set rollout.tasks to {2 * config.run.shards} or more"
        )


def _check_credit(config: Config) -> None:
    """Refuse an estimator, a setting of it or a part of the reward that does not exist, and what training has no fields for."""
    method, reward = config.credit, config.reward
    for name in reward.weights:
        if name not in REWARD_PARTS:
            raise ConfigError(f"setting reward.weights: there is no part {name!r} of the reward; {nearest(name, REWARD_PARTS)}")
    estimator = credit.resolve(method.method, method.settings)
    lacking = sorted(estimator.needs - RECORDED - (VALUED if config.critic.kind != "none" else set()))
    if lacking and set(lacking) <= VALUED:
        raise ConfigError(f"credit.method {method.method} needs a critic's values; set critic.kind to head or model")
    if lacking:
        raise ConfigError(
            f"credit.method {method.method} needs {' and '.join(lacking)} of every turn, which training does not record; "
            "choose another method, or call credit.estimate on turns that have it"
        )
    _check_critic(config, estimator)
    # Two rollouts of one turn tell what no name does, such as a part of the reward that a method asks for.
    turns = [Turn(-1, "", "", *_NO_TOKENS, 0, float(won), True, False, True, "", "") for won in range(2)]
    rollouts = [[credit_turn(turn, "", str(node), node, estimator.needs, reward)] for node, turn in enumerate(turns)]
    batch = credit.Batch.read([rollouts], needs=estimator.needs, reward_weights=weights_at(reward.weights, 1))
    try:
        credit.advantages(batch, estimator)
    except credit.GroupError as error:
        raise ConfigError(f"credit.method {method.method} does not fit what training records: {error}") from error


def _check_critic(config: Config, estimator: credit.Method) -> None:
    """Refuse a critic that nobody asks, and steps that the estimator does not know."""
    kind, method = config.critic.kind, config.credit.method
    if kind != "none" and not estimator.needs & VALUED:
        raise ConfigError(
            f"critic.kind {kind} has no effect with credit.method {method}, which asks no critic; choose gae, or critic.kind none"
        )
    if config.critic.level == "token" and method != "gae":
        raise ConfigError(
            f"critic.level token gives advantages by credit.method gae alone, which is {method}; choose gae, or critic.level turn"
        )


def _check_signature(config: Config) -> None:
    """Refuse a signature that does not exist, or that the estimator would never look at."""
    name, method = config.credit.signature, config.credit.method
    make_signature(name, config.credit.signature_settings)
    if name != "env" and not credit.resolve(method, config.credit.settings).by_state:
        raise ConfigError(
            f"credit.signature {name} has no effect with credit.method {method}, which compares no states; leave it out, or choose a "
            "method that merges them, such as gigpo, rtmc or salt"
        )
