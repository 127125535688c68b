"""Each process's holdings are put on the device where it has them, and the sums are what has to fit.

The vector of what is trained, with its rows of gradients, is in the machine's memory. Models on a GPU have a copy of the weights and a
gradient there; so has the optimizer. Training and sampling of one process take turns, but caches are kept: activations come on top of
them, unless vLLM sleeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.config import Config
from trainer.dry_run.device import Device
from trainer.dry_run.engine_room import EngineRoom
from trainer.dry_run.machine import CUDA_CONTEXT, Machine
from trainer.dry_run.placement import Place
from trainer.dry_run.process import Process
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
    devices: dict[tuple[bool, int, int], Device] = {}

    def device(node: int, gpu: int) -> Device:
        name = "memory" if gpu < 0 else f"GPU {gpu}"
        name = name if config.run.backend == "local" else f"node {node} {name}"
        return devices.setdefault((gpu >= 0, node, gpu), Device(name, memory if gpu < 0 else on.gpu))

    # A machine whose GPUs are not here has another memory too.
    here = config.run.backend == "local" and (on.detected or not any(place.gpus for place in places))
    memory = on.memory if here else None
    for place in places:
        process, host = place.process, device(place.node, -1)
        learns_on, samples_on = _computes_on(config, place, on)
        learner = device(place.node, learns_on)
        if process.ranks > 1:
            _hold_part(config, learner, process, holdings)
            _context(learner, process, learns_on)
            continue
        _hold_vector(host, process, holdings)
        _hold_shards(config, learner, process, holdings, copied=learner is not host)
        if process.steps:
            _hold_optimizer(learner, process, holdings, copied=learner is not host)
        if process.samples:
            vllm_gpus = place.gpus if config.rollout.vllm.tensor_parallel > 1 and samples_on >= 0 else (samples_on,)
            for gpu in vllm_gpus:
                _hold_engine(config, device(place.node, gpu), process, holdings)
        for gpu in {learns_on, samples_on if process.samples else -1} - {-1}:
            _context(device(place.node, gpu), process, gpu)
    return [devices[key] for key in sorted(devices) if devices[key].parts]


def _computes_on(config: Config, place: Place, on: Machine) -> tuple[int, int]:
    """The GPU of a process's models, and of its engine; -1 is the machine's memory."""
    process, gpu = place.process, place.gpus[0] if place.gpus else -1
    learns_on = gpu if on.means_gpu(config.policy.device) else -1
    samples_on = gpu if on.means_gpu(config.rollout_device) else -1
    if process.samples and not process.learns:
        # Beside vLLM, models stay where vLLM's weights are taken from.
        return -1 if config.rollout.engine == "vllm" else samples_on, samples_on
    return learns_on if process.learns or process.steps else -1, samples_on


def _context(device: Device, process: Process, gpu: int) -> None:
    if gpu >= 0:
        device.hold(process.name, "CUDA context (assumed)", CUDA_CONTEXT)


def _hold_part(config: Config, device: Device, process: Process, holdings: Holdings) -> None:
    """A rank's part of the policy; a learner brings the whole of it, with what is trained in float32, before it is parted."""
    held = holdings.resident

    def part(size: int) -> int:
        return -(-size // process.ranks)

    before = device.held
    device.hold(process.name, "frozen weights", part(held.fixed))
    device.hold(process.name, "trained weights", part(held.gradient))
    device.hold(process.name, "gradients", part(held.gradient))
    device.hold(process.name, "optimizer state", part(held.optimizer))
    if config.loss.kl_coefficient and not held.adapters:
        device.hold(process.name, "reference policy", part(held.policy))
    device.hold(process.name, "gathered weights", held.gathered)
    device.hold(process.name, "gathered gradients", held.gathered_gradients)
    device.hold(process.name, "activations", holdings.step.peak)
    device.hold(process.name, "more at the start", max(0, held.fixed + held.gradient - (device.held - before)))


def _hold_vector(host: Device, process: Process, holdings: Holdings) -> None:
    held = holdings.resident
    if process.watches:
        host.hold(process.name, "frozen weights", held.fixed)
        if process.rows is None:
            host.hold(process.name, "trained weights", held.weights)
    if process.rows is not None:
        host.hold(process.name, "trained weights", held.weights)
        host.hold(process.name, "float32 master", held.master)
        host.hold(process.name, "gradients", process.rows * held.gradient)


def _hold_shards(config: Config, device: Device, process: Process, holdings: Holdings, *, copied: bool) -> None:
    held = holdings.resident
    device.hold(process.name, "frozen weights", process.shards * held.fixed)
    if copied:
        device.hold(process.name, "trained weights", process.shards * held.weights)
    if process.learns:
        if copied:
            device.hold(process.name, "gradients", process.shards * held.gradient)
        if config.loss.kl_coefficient and not held.adapters:
            device.hold(process.name, "reference policy", process.shards * held.policy)
        device.hold(process.name, "activations", holdings.step.peak)


def _hold_optimizer(device: Device, process: Process, holdings: Holdings, *, copied: bool) -> None:
    held = holdings.resident
    if copied:
        device.hold(process.name, "float32 master", held.gradient)
    # The sum of all shards' gradients, from one step to the next.
    device.hold(process.name, "summed gradient", held.gradient)
    device.hold(process.name, "optimizer state", held.optimizer)


def _hold_engine(config: Config, device: Device, process: Process, holdings: Holdings) -> None:
    vllm = holdings.vllm
    if vllm is None:
        device.hold(process.name, "KV cache", process.shards * holdings.room.cache)
        return
    taken = vllm.taken
    if config.rollout.vllm.sleep and process.learns:
        # While the run learns its room is the learner's, so only the larger of the two counts.
        taken = max(0, taken - holdings.step.peak)
    weights = min(vllm.weights, taken)
    device.hold(process.name, "vLLM weights", weights)
    device.hold(process.name, "vLLM cache and work", taken - weights)
