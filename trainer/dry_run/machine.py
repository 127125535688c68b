"""What this machine has, and what stands in for it where it has nothing: a GPU of 80 GiB, eight of them in a node."""

import os
from dataclasses import dataclass

import torch

from trainer.dry_run.device import GIB

_GPU, _GPUS_PER_NODE = 80 * GIB, 8
CUDA_CONTEXT = 1 * GIB
"""What CUDA, its libraries and their workspaces take in each process that computes on a GPU: assumed, since it is no tensor."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a run may use."""

    gpu: int
    """Bytes of each GPU."""
    gpus: int
    """GPUs of a node."""
    memory: int
    """Bytes of this machine's own memory."""
    detected: bool
    """Whether the GPUs are this machine's."""
    named: bool
    """Whether there are GPUs: this machine's, or such as were named."""

    def means_gpu(self, setting: str) -> bool:
        """Whether a setting of a device, such as cuda or auto, means a GPU."""
        return setting.startswith("cuda") or (setting == "auto" and self.named)


def machine(gpu_gib: float | None = None, gpus: int | None = None) -> Machine:
    """This machine, or one with GPUs of `gpu_gib` GiB each and `gpus` of them in a node."""
    there = torch.cuda.is_available()
    gpu = torch.cuda.get_device_properties(0).total_memory if there else _GPU
    count = torch.cuda.device_count() if there else _GPUS_PER_NODE
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        gpu=gpu if gpu_gib is None else round(gpu_gib * GIB),
        gpus=count if gpus is None else gpus,
        memory=memory,
        detected=there and gpu_gib is None,
        named=there or gpu_gib is not None,
    )
