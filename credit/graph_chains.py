"""In x = b + M x an unknown that depends on one other only is not solved for, but written as constant + factor times the end of its chain.

Axes: _K unknowns, _E entries of M (edges), of which several may add up to one.
"""

from dataclasses import dataclass

import numpy as np

from credit.moments import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Chains:
    """x[k] = constant[k] + factor[k] x[end[k]] for the unknowns that are not `kept_K`; an end is always kept."""

    kept_K: np.ndarray
    end_K: IntArray
    factor_K: FloatArray
    constant_K: FloatArray

    @classmethod
    def of(cls, source_E: IntArray, target_E: IntArray, factor_E: FloatArray, constant_K: FloatArray) -> "Chains":
        """Follow every chain to its end in rounds that double the distance covered; unknowns whose chain runs in a circle are kept."""
        single_K = np.bincount(source_E, minlength=len(constant_K)) == 1
        end_K, factor_K, constant_K = np.arange(len(constant_K)), np.ones(len(constant_K)), constant_K.copy()
        only = np.flatnonzero(single_K[source_E])
        end_K[source_E[only]], factor_K[source_E[only]] = target_E[only], factor_E[only]
        for _ in range(len(constant_K).bit_length()):
            going = np.flatnonzero(single_K & single_K[end_K])
            if not len(going):
                break
            ends = end_K[going]
            constant_K[going] += factor_K[going] * constant_K[ends]
            factor_K[going] *= factor_K[ends]
            end_K[going] = end_K[ends]
        return cls(~single_K | single_K[end_K], end_K, factor_K, constant_K)

    def shortened(
        self, source_E: IntArray, target_E: IntArray, factor_E: FloatArray, constant_K: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """The same equations, given as to `of`, in the kept unknowns alone, numbered anew in their order."""
        edges = np.flatnonzero(self.kept_K[source_E])
        source_E, target_E, factor_E = source_E[edges], target_E[edges], factor_E[edges]
        skips_E = ~self.kept_K[target_E]
        skipped_E = target_E[skips_E]
        constant_K = constant_K + np.bincount(source_E[skips_E], factor_E[skips_E] * self.constant_K[skipped_E], len(constant_K))
        target_E[skips_E] = self.end_K[skipped_E]
        factor_E[skips_E] *= self.factor_K[skipped_E]
        number_K = np.cumsum(self.kept_K) - 1
        return number_K[source_E], number_K[target_E], factor_E, constant_K[self.kept_K]

    def completed(self, kept_values: FloatArray) -> FloatArray:
        """All x, shape (K,), from those of the kept unknowns."""
        value_K = np.zeros(len(self.kept_K))
        value_K[self.kept_K] = kept_values
        return np.where(self.kept_K, value_K, self.constant_K + self.factor_K * value_K[self.end_K])
