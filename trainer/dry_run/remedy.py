"""Where a run does not fit, the change is named that was tried and fits: alone where one is enough, else all of them together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainer.config import Config
from trainer.dry_run.estimate import Estimate, estimate
from trainer.dry_run.machine import Machine
from trainer.overrides import lay_over, nest


@dataclass(frozen=True, slots=True)
class Remedy:
    """Settings with which the run fits."""

    settings: dict[str, Any]
    held: int
    """Bytes of the fullest device then."""


def remedy(refused: Estimate, on: Machine) -> Remedy | None:
    """The first change that makes it fit; None where no change of settings does."""
    together: dict[str, Any] = {}
    for settings in _changes(refused):
        together |= settings
        if (found := _tried(refused.config, settings, on)) is not None:
            return found
    return _tried(refused.config, together, on) if len(together) > 1 else None


def _tried(config: Config, settings: dict[str, Any], on: Machine) -> Remedy | None:
    values = lay_over(config.model_dump(mode="json"), nest(settings))
    try:
        changed = Config.model_validate(values)
    except ValidationError:
        return None
    result = estimate(changed, on)
    return Remedy(settings, max(device.held for device in result.devices)) if result.fits else None


def _changes(refused: Estimate) -> Iterator[dict[str, Any]]:
    """What may help, from what costs least to what changes most."""
    config, policy = refused.config, refused.config.policy
    if refused.vllm is not None and refused.vllm.rollouts < 1:
        yield from (
            {"rollout.vllm.gpu_memory_utilization": share}
            for share in (0.6, 0.8, 0.9)
            if share > config.rollout.vllm.gpu_memory_utilization
        )
    if not config.optimizer.gradient_checkpointing:
        yield {"optimizer.gradient_checkpointing": True}
    if config.optimizer.micro_batch_tokens > refused.shape.tokens:
        yield {"optimizer.micro_batch_tokens": refused.shape.tokens}
    if config.rollout.engine == "vllm" and not config.rollout.vllm.sleep:
        yield {"rollout.vllm.sleep": True}
    if policy.dtype == "float32":
        yield {"policy.dtype": "bfloat16"}
    if config.run.shards > 1:
        yield {"run.shards": 1, "run.workers": "auto"}
    if policy.path is not None and policy.lora.rank is None:
        yield {"policy.lora.rank": 16}
