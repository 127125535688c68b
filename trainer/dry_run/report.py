"""An estimate as tables for people, or as one JSON object for programs: the same numbers."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from trainer.dry_run.device import GIB, Device
from trainer.dry_run.estimate import Estimate
from trainer.dry_run.machine import CUDA_CONTEXT, Machine
from trainer.dry_run.remedy import Remedy
from trainer.dry_run.requirements import Requirement


def print_estimate(result: Estimate, needed: list[Requirement], console: Console) -> None:
    """Print all but the verdict."""

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    held, shape, work, disk = result.resident, result.shape, result.work, result.disk
    say(f"policy: {result.architecture.source}; {held.parameters:,} parameters, {held.trained:,} of them trained")
    say(f"one rollout: at most {shape.turns} turns and {shape.tokens:,} tokens ({shape.source})")
    console.print()
    console.print(_memory_table(result.devices))
    console.print()
    say(
        f"largest micro-batch: {result.pack_tokens:,} tokens; its activations take {_gib(result.kept.peak)} with all layers kept, "
        f"{_gib(result.recomputed.peak)} with optimizer.gradient_checkpointing"
    )
    say(_cache_line(result))
    say(
        f"an iteration: {work.rollouts:,} rollouts, at most {work.sampled_tokens:,} sampled tokens; {work.unique_tokens:,} tokens trained "
        f"({work.flat_tokens:,} without sharing) in {work.micro_batches:,} micro-batches and {work.optimizer_steps} optimizer steps"
    )
    say(
        f"on the disk: {_gib(disk.checkpoint)} a checkpoint, {_gib(disk.policy)} a policy, {_gib(disk.trace)} of trees an iteration; "
        f"{_gib(disk.run)} for the whole run"
    )
    console.print()
    console.print(_placement_table(result))
    console.print()
    for requirement in needed:
        say(f"{requirement.what}: {'there' if requirement.lacking is None else requirement.lacking}")


def verdict(result: Estimate, change: Remedy | None) -> str:
    """One sentence."""
    if result.fits:
        return "fits: " + ", ".join(map(_filled, fullest(result.devices)))
    over = [device for device in result.devices if not device.fits]
    if over:
        worst = max(over, key=lambda device: device.held - (device.capacity or 0))
        name, size = max(worst.sums().items(), key=lambda item: item[1])
        why = f"{_filled(worst)}, most of it {name} ({_gib(size)})"
    else:
        why = "vLLM's share of the GPU leaves no room for the keys and values of one rollout"
    if change is None:
        return f"does not fit: {why}; no setting that was tried is enough, take larger or more GPUs, or a smaller model"
    settings = " and ".join(f"--{name} {str(value).lower()}" for name, value in change.settings.items())
    return f"does not fit: {why}; it fits with {settings} ({_gib(change.held)})"


def as_json(result: Estimate, needed: list[Requirement], change: Remedy | None, on: Machine) -> dict[str, Any]:
    """All numbers, in bytes and counts."""
    vllm = None if result.vllm is None else {**asdict(result.vllm)}
    return {
        "fits": result.fits,
        "verdict": verdict(result, change),
        "change": None if change is None else change.settings,
        "policy": {"source": result.architecture.source, **asdict(result.resident)},
        "rollout": {**{k: v for k, v in asdict(result.shape).items() if k != "texts"}, "tokens": result.shape.tokens},
        "devices": [
            {"name": device.name, "capacity": device.capacity, "held": device.held, "parts": [asdict(part) for part in device.parts]}
            for device in result.devices
        ],
        "micro_batch": {"tokens": result.pack_tokens, "kept": asdict(result.kept), "recomputed": asdict(result.recomputed)},
        "cache": {"engine": asdict(result.room), "vllm": vllm},
        "iteration": asdict(result.work),
        "disk": asdict(result.disk),
        "placement": [
            {"process": place.process.name, "asks": place.process.asks, "node": place.node, "gpus": list(place.gpus)}
            for place in result.places
        ],
        "requirements": [asdict(requirement) for requirement in needed],
        "assumed": {"cuda_context": CUDA_CONTEXT, "gpu": on.gpu, "gpus_per_node": on.gpus, "gpu_detected": on.detected},
    }


def fullest(devices: list[Device]) -> list[Device]:
    """Of the GPUs the fullest, and of the machines' memories the fullest."""
    kinds: dict[bool, Device] = {}
    for device in devices:
        gpu = "GPU" in device.name
        if gpu not in kinds or device.held > kinds[gpu].held:
            kinds[gpu] = device
    return [kinds[gpu] for gpu in sorted(kinds, reverse=True)]


def _memory_table(devices: list[Device]) -> Table:
    groups: list[list[Device]] = []
    for device in devices:
        like = next((group for group in groups if group[0].sums() == device.sums() and group[0].capacity == device.capacity), None)
        if like is None:
            groups.append([device])
        else:
            like.append(device)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("what is held", no_wrap=True)
    for group in groups:
        table.add_column(group[0].name + (f"\nand {len(group) - 1} like it" if len(group) > 1 else ""), justify="right", no_wrap=True)
    sums = [group[0].sums() for group in groups]
    for name in dict.fromkeys(name for part in sums for name in part):
        table.add_row(name, *(_gib(part[name]) if name in part else "" for part in sums))
    table.add_row("together", *(_gib(group[0].held) for group in groups), style="bold")
    table.add_row("there is", *("" if (room := group[0].capacity) is None else _gib(room) for group in groups))
    return table


def _placement_table(result: Estimate) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("process", "asks Ray for", "node", "GPU"):
        table.add_column(heading)
    for place in result.places:
        asked = " and ".join(f"{amount:g} {name}" for name, amount in place.process.asks.items())
        gpus = ", ".join(map(str, place.gpus))
        table.add_row(place.process.name, asked or "nothing", str(place.node), gpus or "none")
    return table


def _cache_line(result: Estimate) -> str:
    room, vllm = result.room, result.vllm
    if vllm is None:
        return (
            f"keys and values: {room.bytes_per_token:,} bytes a token; {room.rollouts:,} rollouts at a time in each engine, "
            f"{_gib(room.cache)} with room for {room.tokens:,} tokens"
        )
    return (
        f"keys and values: vLLM has {_gib(max(0, vllm.cache))} for {vllm.tokens:,} tokens, {vllm.rollouts:,} of {room.rollouts:,} rollouts "
        f"at their longest; vLLM weights {_gib(vllm.weights)}, computing {_gib(vllm.working)}"
    )


def _filled(device: Device) -> str:
    return f"{device.name} holds {_gib(device.held)}" + ("" if device.capacity is None else f" of {_gib(device.capacity)}")


def _gib(size: int) -> str:
    """GiB, or a smaller unit where that would be nothing."""
    for unit, name in ((GIB, "GiB"), (2**20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 2**10:.1f} KiB"
