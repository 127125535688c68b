"""Tensors travel as numpy arrays, which processes of one machine share without copying; what comes back is equal bit for bit."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch


class Packed(NamedTuple):
    """A tensor as an array; numpy knows no bfloat16, which therefore travels as the integers of its bits."""

    array: npt.NDArray[np.generic]
    dtype: str


def pack(tensors: Mapping[str, torch.Tensor]) -> dict[str, Packed]:
    """Tensors as arrays, by the same names."""
    return {name: _pack(tensor.detach().cpu().contiguous()) for name, tensor in tensors.items()}


def unpack(packed: Mapping[str, Packed]) -> dict[str, torch.Tensor]:
    """What `pack` was given; copies, because arrays that came over the object store cannot be written to."""
    return {name: torch.from_numpy(np.array(array)).view(getattr(torch, dtype)) for name, (array, dtype) in packed.items()}


def _pack(tensor: torch.Tensor) -> Packed:
    bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    return Packed(bits.numpy(), str(tensor.dtype).removeprefix("torch."))
