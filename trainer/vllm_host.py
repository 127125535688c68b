"""The vLLM of one process serves the weights that are asked for, checked against the learner's, or nothing is sampled.

Weights are handed over as a checkpoint has them, adapters merged, in place, whenever the shared vector has changed since. The check
compares log-probabilities of a sequence that the policy met in its work. The prefix cache is emptied before every use, so that what a
shard samples does not depend on what else its process did before.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedModel

from agents.engines import engine_entry
from agents.vllm_weights import WeightProbe
from trainer.config import Config
from trainer.device import device_of
from trainer.errors import ConfigError
from trainer.trained_model import plain_weights
from tree_rollout.tree import TrajectoryTree

if TYPE_CHECKING:
    from agents.vllm_engine import VLLMEngine

_PROBE_TOKENS = 256
"""Tokens of the sequence that is compared, at most."""


class VllmHost:
    """Starts vLLM on the policy in a folder when something is sampled for the first time; `place` numbers the machine's processes."""

    def __init__(self, config: Config, policy: Path, place: int) -> None:
        self._config = config
        self._policy = policy
        self._place = place
        self._engine: VLLMEngine | None = None
        self._asleep = False
        self._serves: int | None = None
        """State of the shared weights that vLLM has."""
        self._probe_T: npt.NDArray[np.int32] | None = None

    def serving(self, model: PreTrainedModel, state: int, version: int, stop_ids: Sequence[int]) -> "VLLMEngine":
        """The engine with the present weights of `model`, which the shared vector has in this `state`; they are called `version`.

        Raises `StaleWeightsError` where the engine computes anything else than the model.
        """
        if self._engine is None:
            self._engine = self._start(stop_ids)
        if self._asleep:
            self._engine.wake()
            self._asleep = False
        if self._serves != state:
            self._serves = None
            probe = WeightProbe.of_model(model, self._probed(model))
            self._engine.load_weights(plain_weights(model), version, probe)
            self._serves = state
        self._engine.reset_cache()
        self._engine.version = version
        return self._engine

    def done(self, trees: Sequence[TrajectoryTree]) -> None:
        """Nothing is sampled for a while; `trees` are what was. Gives the GPU's memory back, where the configuration says so."""
        if trees:
            tree = trees[0]
            path = max((tree.path(leaf) for leaf in tree.leaves()), key=len)
            self._probe_T = np.concatenate([tree.turns[turn].ids_T for turn in path])
        if self._config.rollout.vllm.sleep and self._engine is not None and not self._asleep:
            self._engine.sleep()
            self._asleep = True

    def close(self) -> None:
        """Give up vLLM, and what it takes."""
        if self._engine is not None:
            self._engine.close()
        self._engine = self._serves = None

    def _probed(self, model: PreTrainedModel) -> npt.NDArray[np.int32]:
        """A rollout that was sampled last; before the first one, tokens from all over the vocabulary."""
        if self._probe_T is None:
            embedding: Any = model.get_input_embeddings()
            vocabulary = int(embedding.weight.shape[0])
            self._probe_T = np.random.default_rng(0).integers(0, vocabulary, 32).astype(np.int32)
        return self._probe_T[: min(_PROBE_TOKENS, self._config.policy.max_length - 1)]

    def _start(self, stop_ids: Sequence[int]) -> "VLLMEngine":
        settings = self._config.rollout.vllm
        options = self._device_options()
        engine: Any = engine_entry("vllm").make(
            self._policy,
            stop_ids,
            max_length=self._config.policy.max_length,
            dtype=settings.dtype,
            top_logprobs=settings.top_logprobs,
            cache_gib=settings.cache_gib,
            **options,
        )
        return engine

    def _device_options(self) -> dict[str, Any]:
        """What vLLM is told of its GPUs; nothing on a CPU."""
        config, settings = self._config, self._config.rollout.vllm
        name = "policy.device" if config.rollout.device is None else "rollout.device"
        device = device_of(name, config.rollout_device, self._place * settings.tensor_parallel)
        _check_build(name, device.type)
        if device.type == "cpu":
            for setting in ("tensor_parallel", "sleep"):
                if getattr(settings, setting) != type(settings).model_fields[setting].default:
                    raise ConfigError(f"rollout.vllm.{setting} is for GPUs, and this machine has none; leave it out")
            return {}
        return {
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            "enforce_eager": settings.enforce_eager,
            "tensor_parallel_size": settings.tensor_parallel,
            "enable_sleep_mode": settings.sleep,
            "device_ids": [(device.index or 0) + part for part in range(settings.tensor_parallel)],
        }


def vllm_host(config: Config, policy: Path, place: int) -> VllmHost | None:
    """The host of a process that samples; None where the configuration has another engine."""
    return VllmHost(config, policy, place) if config.rollout.engine == "vllm" else None


def _check_build(name: str, kind: str) -> None:
    from agents.vllm_engine import computes_on_cpu

    if computes_on_cpu() != (kind == "cpu"):
        other = "cuda" if kind == "cpu" else "cpu"
        raise ConfigError(f"the vLLM that is installed here is for {other}, and {name} is {kind}; set rollout.device to {other}")
