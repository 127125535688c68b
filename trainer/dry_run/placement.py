"""Where Ray would put each process: whole GPUs to one process alone, parts of a GPU together on the first that has room.

Ray decides itself when the run starts, by what is free then; this is what it can do at best with nodes that are empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.dry_run.process import Process
from trainer.errors import ConfigError

_NONE = 1e-9


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process is."""

    process: Process
    node: int
    gpus: tuple[int, ...]
    """Numbers of the node's GPUs that it has, or has a part of."""


@dataclass(slots=True)
class _Node:
    free: list[float]
    """Of each GPU, the share that nobody has."""
    processes: list[Process] = field(default_factory=list)

    def room(self, asked: float) -> tuple[int, ...] | None:
        """The GPUs for a process that asks for so many; None where there are none."""
        if asked < 1:
            fitting = [index for index, share in enumerate(self.free) if share >= asked - _NONE]
            return tuple(fitting[:1]) if asked and fitting else None if asked else ()
        whole = [index for index, share in enumerate(self.free) if share >= 1 - _NONE]
        return tuple(whole[: int(asked)]) if len(whole) >= asked else None

    def take(self, process: Process, gpus: tuple[int, ...]) -> None:
        self.processes.append(process)
        for index in gpus:
            self.free[index] -= min(1.0, process.gpus)


def on_ray(processes: Sequence[Process], gpus_per_node: int, strategy: str) -> list[Place]:
    """The place of each process; nodes are added until all have room. Raises `ConfigError` where one node is not enough for a process."""
    nodes = [_Node([1.0] * gpus_per_node) for _ in range(_nodes_at_least(processes, gpus_per_node) if strategy == "SPREAD" else 1)]
    places: list[Place] = []
    for process in processes:
        if process.gpus > gpus_per_node:
            raise ConfigError(
                f"{process.name} asks for {process.gpus:g} GPUs, and a node has {gpus_per_node}; ask for fewer, or give --gpus-per-node"
            )
        order = list(range(len(nodes)))
        if strategy == "SPREAD":
            order.sort(key=lambda index: len(nodes[index].processes))
        elif strategy == "STRICT_SPREAD":
            order = [index for index in order if not nodes[index].processes]
        number, gpus = next(((index, room) for index in order if (room := nodes[index].room(process.gpus)) is not None), (-1, ()))
        if number < 0:
            if strategy == "STRICT_PACK":
                raise ConfigError(
                    f"ray.strategy STRICT_PACK keeps all processes on one node, whose {gpus_per_node} GPUs have no room for "
                    f"{process.name}; ask for fewer GPUs, set ray.strategy to PACK, or give --gpus-per-node"
                )
            nodes.append(_Node([1.0] * gpus_per_node))
            number, gpus = len(nodes) - 1, nodes[-1].room(process.gpus) or ()
        nodes[number].take(process, gpus)
        places.append(Place(process, number, gpus))
    return places


def on_this_machine(processes: Sequence[Process], gpus: int, index: int | None = None, width: int = 1) -> list[Place]:
    """Processes of the local backend: those that host shards are dealt over the GPUs, `width` to each, or all have number `index`.

    The optimizer is on the first GPU. Without GPUs (0) all are in the machine's memory.
    """
    places: list[Place] = []
    number = 0
    for process in processes:
        first = index if index is not None else number * width
        places.append(Place(process, 0, tuple(dict.fromkeys((first + part) % gpus for part in range(width))) if gpus else ()))
        number += bool(process.shards)
    return places


def _nodes_at_least(processes: Sequence[Process], gpus_per_node: int) -> int:
    return max(1, -(-int(sum(process.gpus for process in processes)) // gpus_per_node)) if gpus_per_node else 1
