"""Ranks are processes that share one model: each holds a part of every parameter, and all make the same calls in the same order.

A layer's parameters are brought together for the time that it computes, and its gradients are summed over the ranks and parted again
behind it (PyTorch's FSDP2). Gradients are sums, not means: what they are divided by is for the learner to say.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from trainer.trained_model import trained_parameters
from trainer.tree_attention import tree_attention


@dataclass(frozen=True)
class Ranks:
    """All ranks of the process group, seen from one of them; `number` counts from 0."""

    number: int
    count: int
    mesh: DeviceMesh

    @classmethod
    def joined(cls, number: int, count: int, store: Store, device: str) -> "Ranks":
        """Wait for the others, who meet in `store`: over gloo on `cpu`, over NCCL on `cuda`."""
        if device == "cuda":
            torch.cuda.set_device(0)  # Each rank sees its own device alone.
        dist.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=number, world_size=count)
        return cls(number, count, init_device_mesh(device, (count,)))

    @property
    def device(self) -> str:
        """Where this rank computes."""
        return self.mesh.device_type

    def most(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        return int(self._over_all(torch.tensor(number), dist.ReduceOp.MAX))

    def total(self, number: torch.Tensor) -> float:
        """The sum of the ranks' numbers, float64."""
        return float(self._over_all(number.double(), dist.ReduceOp.SUM))

    def sharded(self, model: PreTrainedModel) -> PreTrainedModel:
        """The model, of which this rank keeps its part alone, in float32 where it is trained; it computes in the dtype that it comes in.

        Every rank brings the same model. Raises `ConfigError` for one that cannot be trained on packed trees.
        """
        with tree_attention(model):
            pass  # transformers reads in a class whether attention can be replaced, and remembers it; FSDP2 puts another class before it.
        rounded = [parameter for parameter in trained_parameters(model) if parameter.dtype == torch.bfloat16]
        precision = MixedPrecisionPolicy(cast_forward_inputs=False)
        if rounded:
            precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
        for parameter in rounded:
            parameter.data = parameter.data.float()
        model.to(self.device)  # pyright: ignore[reportArgumentType]
        decoder: Any = model.get_decoder()
        for part in (*decoder.layers, model):
            self._shard(part, precision)
        return model

    def _shard(self, part: nn.Module, precision: MixedPrecisionPolicy) -> None:
        wrapped: FSDPModule = fully_shard(part, mesh=self.mesh, mp_policy=precision)
        wrapped.set_gradient_divide_factor(1.0)
        wrapped.set_force_sum_reduction_for_comms(True)  # gloo knows sums alone.

    def _over_all(self, number: torch.Tensor, operation: Any) -> torch.Tensor:
        shared = number.to(self.device)
        dist.all_reduce(shared, operation)
        return shared


def met(host: str, port: int, *, first: bool) -> Store:
    """Where ranks meet: the first opens it at a port of `host` (0: any that is free), the others go there."""
    return TCPStore(host, port, is_master=first, wait_for_workers=False)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, on the CPU; of one that ranks share, each asks at the same time."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().cpu()


def part_like(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This rank's part of a whole tensor that every rank has, parted as `like` is."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
