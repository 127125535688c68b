"""vLLM takes the share of the GPU that it is given, and what its weights and its own computation leave of that is cache."""

from dataclasses import dataclass

from transformers import PreTrainedConfig

from trainer.config import Config
from trainer.dry_run.device import GIB
from trainer.dry_run.engine_room import vllm_bytes_per_token
from trainer.dry_run.live_bytes import bytes_of
from trainer.dry_run.machine import Machine
from trainer.dry_run.made_policy import plain_policy
from trainer.dry_run.step_memory import forward_peak
from trainer.dry_run.turn_shape import TurnShape
from trainer.prefix_tree import PrefixTreeBatch

_BATCHED = 8192
"""Tokens of one of vLLM's steps at most: its default on large GPUs (`max_num_batched_tokens`)."""


@dataclass(frozen=True, slots=True)
class VllmRoom:
    """Bytes on each GPU of one vLLM."""

    weights: int
    working: int
    """What computing a step takes; vLLM finds it out by trying, and sets it aside."""
    cache: int
    """Keys and values; at most 0 where the share that vLLM is given is too small."""
    tokens: int
    """That the cache holds."""
    rollouts: int
    """At their longest, sharing nothing, that the cache holds at a time."""

    @property
    def taken(self) -> int:
        """All of it."""
        return self.weights + self.working + max(0, self.cache)


def vllm_room(config: Config, architecture: PreTrainedConfig, shape: TurnShape, pack: PrefixTreeBatch, on: Machine) -> VllmRoom:
    """The room of one vLLM of the configuration."""
    vllm = config.rollout.vllm
    per_token = -(-vllm_bytes_per_token(config, architecture) // vllm.tensor_parallel)
    weights = -(-bytes_of(plain_policy(config, architecture, vllm.dtype).parameters()) // vllm.tensor_parallel)
    working = round(forward_peak(config, architecture, pack, vllm.dtype) * _BATCHED / pack.unique_tokens)
    if vllm.cache_gib is not None or config.rollout_device == "cpu":
        cache = (vllm.cache_gib or 1) * GIB
    else:
        cache = round(vllm.gpu_memory_utilization * on.gpu) - weights - working
    tokens = max(0, cache // per_token)
    return VllmRoom(weights, working, cache, tokens, tokens // min(shape.tokens, config.policy.max_length))
