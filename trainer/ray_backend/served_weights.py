"""A version of the weights enters the object store once, however many processes ask for it."""

from abc import ABC, abstractmethod

import numpy as np
import ray

from trainer.ray_backend.engine_group import Weights
from trainer.ray_backend.slot import Slot


class ServedWeights(ABC):
    """The weights of a learner, whichever process holds them; `first` can read what the object store has."""

    def __init__(self, first: Slot) -> None:
        self._first = first
        self.version = 0
        """Optimizer steps so far; which weights serve."""
        self._weights = Weights(0, None)

    @abstractmethod
    def _gathered(self) -> ray.ObjectRef:
        """Put the present weights into the object store."""

    def weights(self) -> Weights:
        """The present weights, put into the object store once for each version."""
        if self._weights.version != self.version:
            self._weights = Weights(self.version, self._gathered())
        return self._weights

    def weights_P(self) -> np.ndarray:
        """The present weights, shape (P,), to be read only."""
        reference = self._gathered() if self._weights.reference is None else self.weights().reference
        return self._first.get(reference)
