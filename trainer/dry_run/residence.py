"""Each process's holdings are put on the device where it computes, and the sums are what has to fit.

Training and sampling of one process take turns, but caches are kept: so activations come on top of them, unless vLLM sleeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.config import Config
from trainer.dry_run.device import Device
from trainer.dry_run.engine_room import EngineRoom
from trainer.dry_run.machine import CUDA_CONTEXT, Machine
from trainer.dry_run.placement import Place
from trainer.dry_run.resident import Resident
from trainer.dry_run.step_memory import StepMemory
from trainer.dry_run.vllm_room import VllmRoom


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a process may hold."""

    resident: Resident
    step: StepMemory
    room: EngineRoom
    vllm: VllmRoom | None


def settle(config: Config, places: Sequence[Place], holdings: Holdings, on: Machine) -> list[Device]:
    """The devices that hold anything: machines' memories first, then GPUs."""
    devices: dict[tuple[int, int], Device] = {}

    def device(node: int, gpu: int) -> Device:
        where = "this machine" if config.run.backend == "local" else f"node {node}"
        name = f"memory of {where}" if gpu < 0 else f"GPU {gpu} of {where}"
        return devices.setdefault((node, gpu), Device(name, on.memory if gpu < 0 else on.gpu))

    for place in places:
        learning = place.gpus[0] if place.gpus and config.policy.device != "cpu" else -1
        sampling = place.gpus[0] if place.gpus and config.rollout_device != "cpu" else -1
        process = place.process
        if config.run.backend == "ray" and process.engines:
            learning = sampling
        _hold_model(config, device(place.node, learning), place, holdings)
        if process.engines:
            rest = place.gpus if config.rollout.vllm.tensor_parallel > 1 and sampling >= 0 else (sampling,)
            for gpu in rest:
                _hold_engine(config, device(place.node, gpu), place, holdings)
        for gpu in {learning, sampling} - {-1} if process.models else ():
            device(place.node, gpu).hold(process.name, "CUDA context (assumed)", CUDA_CONTEXT)
    return [devices[key] for key in sorted(devices) if devices[key].parts]


def _hold_model(config: Config, device: Device, place: Place, holdings: Holdings) -> None:
    process, held = place.process, holdings.resident
    device.hold(process.name, "frozen weights", process.models * held.fixed)
    if process.vector_rows is not None:
        device.hold(process.name, "trained weights", held.weights)
        device.hold(process.name, "float32 master", held.master)
        device.hold(process.name, "gradients", process.vector_rows * held.gradient)
    elif process.name == "coordinator" and config.run.backend == "ray":
        device.hold(process.name, "trained weights", held.weights)
    if process.steps:
        device.hold(process.name, "optimizer state", held.optimizer)
    if process.learns:
        if config.loss.kl_coefficient and not held.adapters:
            device.hold(process.name, "reference policy", held.policy)
        device.hold(process.name, "activations", holdings.step.peak)


def _hold_engine(config: Config, device: Device, place: Place, holdings: Holdings) -> None:
    process, vllm = place.process, holdings.vllm
    if vllm is None:
        device.hold(process.name, "KV cache", process.engines * holdings.room.cache)
        return
    taken = vllm.taken
    if config.rollout.vllm.sleep and process.learns:
        # While the run learns its room is the learner's, so only the larger of the two counts.
        taken = max(0, taken - holdings.step.peak)
    weights = min(vllm.weights, taken)
    device.hold(process.name, "vLLM weights", weights)
    device.hold(process.name, "KV cache", taken - weights)
