"""Inside, a forward pass keeps only what goes into each layer, and the layer is computed again in the backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel


@contextmanager
def recomputed_layers(model: PreTrainedModel, wanted: bool) -> Iterator[None]:
    """Where it is `wanted`: a fraction of the memory, a third more time, the same gradient."""
    if not wanted:
        yield
        return
    training = model.training
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()  # Layers are computed again in this mode only; none of them drops anything out.
    try:
        yield
    finally:
        model.train(training)
        model.gradient_checkpointing_disable()
