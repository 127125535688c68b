"""A device that no machine has: its tensors compute as on the CPU, and refuse to meet any that was not brought there."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode

FAR = torch.device("xla", 0)
_CPU = torch.device("cpu")


class FarTensor(torch.Tensor):
    """A tensor on the far device."""

    device = FAR  # pyright: ignore[reportAssignmentType]


class FarDevice(TorchFunctionMode):
    """While it is entered, the far device exists; `met` counts the calls that computed there."""

    def __init__(self) -> None:
        super().__init__()
        self.met = 0
        self._differentiates = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        operands = [tensor for tensor in _tensors((args, kwargs)) if tensor.ndim]
        far = [tensor for tensor in _tensors((args, kwargs)) if isinstance(tensor, FarTensor)]
        if name in ("to", "cpu") and isinstance(args[0], torch.Tensor):
            return _moved(func, args, kwargs)
        if func is torch.Tensor.backward:
            return self._backward(args[0].as_subclass(torch.Tensor))
        if name == "numpy" and far:
            raise TypeError("a tensor on another device has no numpy array")
        if far and not self._differentiates and any(not isinstance(tensor, FarTensor) for tensor in operands) and name not in _BETWEEN:
            raise RuntimeError(f"{name} was given tensors on two devices")
        made_far = kwargs.get("device") == FAR
        if "device" in kwargs and made_far:
            kwargs["device"] = _CPU
        self.met += bool(far)
        result = func(*args, **kwargs)
        return _far(result) if made_far else result

    def _backward(self, loss: torch.Tensor) -> None:
        """The device exists for backward passes that are written in Python, too; PyTorch's own hand them gradients that name no device."""
        self._differentiates = True
        try:
            with self:
                _engine_run_backward((loss,), (torch.ones_like(loss),), False, False, (), allow_unreachable=True, accumulate_grad=True)
        finally:
            self._differentiates = False


_BETWEEN = frozenset({"copy_", "__set__", "__get__", "swap_tensors", "_has_compatible_shallow_copy_type", "_swap_tensor_impl"})
"""What may look at two devices: a copy from one to the other; and attributes."""


def _moved(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.to(...)` and `tensor.cpu()`: done on the CPU, then put where they say."""
    source = args[0]
    was_far = isinstance(source, FarTensor)
    named = [argument for argument in (*args[1:], *kwargs.values()) if isinstance(argument, (torch.device, str))]
    named += [argument.device for argument in args[1:] if isinstance(argument, torch.Tensor)]
    far = torch.device(named[0]) == FAR if named else was_far and func.__name__ == "to"
    args = tuple(_CPU if isinstance(argument, (torch.device, str)) else argument for argument in args[1:])
    kwargs = {name: _CPU if name == "device" else value for name, value in kwargs.items()}
    moved = func(source.as_subclass(torch.Tensor), *args, **kwargs)
    moved = moved if far == was_far else moved.clone()
    return moved.as_subclass(FarTensor) if far else moved


def _far(result: Any) -> Any:
    return result.as_subclass(FarTensor) if isinstance(result, torch.Tensor) else result


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _tensors(item)
    elif isinstance(tree, dict):
        yield from _tensors(list(tree.values()))
