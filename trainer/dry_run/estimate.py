"""An estimate is put together from what was built: no number in it stands in a table of models."""

from dataclasses import dataclass

from trainer.config import Config
from trainer.dry_run.architecture import Architecture, architecture_of
from trainer.dry_run.device import Device
from trainer.dry_run.disk import DiskUse, disk_use
from trainer.dry_run.engine_room import EngineRoom, engine_room
from trainer.dry_run.iteration_work import IterationWork, iteration_work
from trainer.dry_run.machine import Machine
from trainer.dry_run.placement import Place, on_ray, on_this_machine
from trainer.dry_run.process import processes
from trainer.dry_run.residence import Holdings, settle
from trainer.dry_run.resident import Resident, resident
from trainer.dry_run.step_memory import StepMemory, step_memory, with_checkpointing
from trainer.dry_run.synthetic_trees import largest_pack
from trainer.dry_run.turn_shape import TurnShape, turn_shape
from trainer.dry_run.vllm_room import VllmRoom, vllm_room


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a configuration's run would take."""

    config: Config
    architecture: Architecture
    shape: TurnShape
    resident: Resident
    pack_tokens: int
    """Of the largest micro-batch."""
    kept: StepMemory
    """Of that micro-batch where layers are kept for the backward pass."""
    recomputed: StepMemory
    """Where they are computed again (`optimizer.gradient_checkpointing`)."""
    room: EngineRoom
    vllm: VllmRoom | None
    """None with another engine."""
    places: list[Place]
    devices: list[Device]
    work: IterationWork
    disk: DiskUse

    @property
    def fits(self) -> bool:
        """Whether everything has room, in the cache of vLLM too."""
        return all(device.fits for device in self.devices) and (self.vllm is None or self.vllm.rollouts >= 1)


def estimate(config: Config, on: Machine) -> Estimate:
    """Build everything but the weights, and add up. Raises what the builders raise where parts do not fit together."""
    architecture = architecture_of(config)
    sizes, vocabulary = architecture.config, architecture.config.get_text_config().vocab_size
    shape = turn_shape(config, architecture)
    held, room = resident(config, sizes), engine_room(config, sizes, shape)
    pack = largest_pack(config, shape, vocabulary)
    kept, recomputed = (step_memory(with_checkpointing(config, again), sizes, pack) for again in (False, True))
    vllm = vllm_room(config, sizes, shape, pack, on) if config.rollout.engine == "vllm" else None
    found = processes(config)
    if config.run.backend == "ray":
        places = on_ray(found, on.gpus, config.ray.strategy)
    else:
        device = config.policy.device if on.means_gpu(config.policy.device) else config.rollout_device
        _, _, index = device.partition(":")
        gpus = max(on.gpus, int(index or 0) + 1) if on.means_gpu(device) else 0
        places = on_this_machine(found, gpus, int(index) if index else None, config.rollout.vllm.tensor_parallel)
    step = recomputed if config.optimizer.gradient_checkpointing else kept
    devices = settle(config, places, Holdings(held, step, room, vllm), on)
    return Estimate(
        config, architecture, shape, held, pack.unique_tokens, kept, recomputed, room, vllm, places, devices,
        iteration_work(config, shape, vocabulary), disk_use(config, held, shape, vocabulary),
    )  # fmt: skip
