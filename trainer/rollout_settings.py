"""What a configuration says of sampling, as the sampler takes it."""

from trainer.config import Config
from tree_rollout.sampler_settings import SamplerSettings


def rollout_settings(config: Config, shards: int | None = None) -> SamplerSettings:
    """The settings of one shard's sampler; budgets are shared evenly among the shards (default: those of the configuration)."""
    rollout, shards = config.rollout, config.run.shards if shards is None else shards

    def part(budget: int | None) -> int | None:
        return None if budget is None else max(1, budget // shards)

    return SamplerSettings(
        roots=rollout.roots,
        forks=rollout.forks,
        branching=rollout.branching.rule,
        branching_options=rollout.branching.options,
        max_turns=config.env.max_turns,
        max_new_tokens=rollout.max_new_tokens,
        temperature=rollout.temperature,
        token_budget=part(rollout.token_budget),
        step_budget=part(rollout.step_budget),
        allocation=rollout.allocation.rule,
        allocation_options=rollout.allocation.options,
        stopping=[(stopping.rule, stopping.options) for stopping in rollout.stopping],
        schedule=rollout.schedule,
        env_threads=rollout.env_threads,
        env_processes=rollout.env_processes,
        rollout_deadline_s=rollout.deadline_s,
    )
