"""What an engine holds for keys and values is what its own cache holds, grown on the meta device as a round of sampling grows it."""

from dataclasses import dataclass

from transformers import PreTrainedConfig

from agents.cached_model import CachedModel
from agents.engine_counters import EngineCounters
from agents.kv_cache import SHARE_FROM_BYTES, KVCache
from trainer.config import Config
from trainer.dry_run.made_policy import plain_policy
from trainer.dry_run.turn_shape import TurnShape
from trainer.shard import MEASURED_AT_ONCE, ROWS


@dataclass(frozen=True, slots=True)
class EngineRoom:
    """One engine's keys and values."""

    bytes_per_token: int
    """Keys and values of one token over all layers."""
    rollouts: int
    """Rollouts that are sampled at a time."""
    cache: int
    """Bytes when all of them are at their longest."""

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds."""
        return self.cache // self.bytes_per_token


def engine_room(config: Config, architecture: PreTrainedConfig, shape: TurnShape) -> EngineRoom:
    """The cache of one shard's engine: rows for all rollouts of its tasks, or for those of an evaluation where they are more.

    Forks that view a prefix take less than a row each, so this is the most that it grows to.
    """
    shards = config.run.shards
    sampled = -(-config.rollout.tasks // shards) * (config.rollout.roots + config.rollout.forks)
    rollouts = max(sampled, min(MEASURED_AT_ONCE, -(-config.evaluation.tasks // shards)))
    cache = _cache(config, architecture, ROWS)
    for _ in range(rollouts):
        cache.acquire()
    while cache.capacity < min(shape.tokens, config.policy.max_length):
        cache.reserve(cache.capacity + 1)
    return EngineRoom(cache.bytes_per_position, rollouts, cache.bytes_allocated)


def vllm_bytes_per_token(config: Config, architecture: PreTrainedConfig) -> int:
    """The same layout in the numbers that vLLM computes with."""
    cache = _cache(config, architecture, 1)
    numbers = cache.bytes_per_position // cache.trunks.dtype.itemsize
    return numbers * (2 if config.rollout.vllm.dtype == "bfloat16" else 4)


def _cache(config: Config, architecture: PreTrainedConfig, rows: int) -> KVCache:
    model = plain_policy(config, architecture, config.policy.dtype)
    return CachedModel(model, config.policy.max_length, SHARE_FROM_BYTES, EngineCounters()).build_cache(rows)
