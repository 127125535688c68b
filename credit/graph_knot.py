"""The cyclic part of a graph is one system x = b + M x for each task, with a unique solution; no task's numbers touch another's.

Small systems are solved directly. Larger ones are iterated together (BiCGSTAB, with step lengths of each task's own), and directly
again where the iteration stalls. Axes: _K nodes, _E edges, _P parts (tasks), _I the nodes of one part.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from credit.errors import GroupError
from credit.moments import FloatArray, IntArray

SMALL = 48
"""A part of at most this many nodes is solved directly: it is faster there."""
LARGEST = 5000
"""A part of more nodes is not solved directly: its matrix would take over 200 MB."""
STEPS = 400
"""Iterations between two looks at the true residual."""
ROUNDS = 5
"""Looks after which a part counts as stalled."""
TOLERANCE = 1e-8
"""Residual that ends the iteration, relative to a part's largest entry of b and over its number of edges.

The error of x is at most the residual times the number of turns that are expected to follow, and with the weights of rollouts those are
about as many as the part has turns in all.
"""


@dataclass(frozen=True, slots=True)
class Knot:
    """x = b + M x; nodes and edges stand in the order of their parts, and every part has a node and an edge."""

    source_E: IntArray
    target_E: IntArray
    factor_E: FloatArray
    """Entries of M, several of which may add up to one."""
    constant_K: FloatArray
    """b."""
    nodes_P: IntArray
    """Number of nodes of each part."""
    edges_P: IntArray
    """Number of edges of each part."""
    first_P: IntArray
    """First node of each part."""

    @classmethod
    def of(cls, source_E: IntArray, target_E: IntArray, factor_E: FloatArray, constant_K: FloatArray, part_K: IntArray) -> "Knot":
        """Put the edges into the order of the parts; `part_K` may be any integers, equal ones side by side."""
        new_K = np.diff(part_K, prepend=part_K[:1] - 1) != 0
        part_E = (np.cumsum(new_K) - 1)[source_E]
        order_E = np.argsort(part_E, kind="stable")
        first_P = np.flatnonzero(new_K)
        nodes_P, edges_P = np.diff(first_P, append=len(part_K)), np.bincount(part_E, minlength=len(first_P))
        return cls(source_E[order_E], target_E[order_E], factor_E[order_E], constant_K, nodes_P, edges_P, first_P)

    def values(self, name: Callable[[int], object]) -> FloatArray:
        """x, shape (K,); raises `GroupError`, with the name of a node, for a part that stalls and is too large to be solved directly."""
        value_K, settled_P = np.zeros(len(self.constant_K)), self.nodes_P < 0
        if (self.nodes_P > SMALL).any():
            value_K, settled_P = self._iterated()
        for part in np.flatnonzero(~settled_P | (self.nodes_P <= SMALL)).tolist():
            start, size = int(self.first_P[part]), int(self.nodes_P[part])
            if size > LARGEST:
                raise GroupError(
                    f"the values of the {size} states that form cycles with {name(start)!r} do not converge; "
                    "lower gamma, or tell more states apart"
                )
            value_K[start : start + size] = self._direct(part)
        return value_K

    def _direct(self, part: int) -> FloatArray:
        """x of the nodes of one part, shape (I,)."""
        start, size, end = self.first_P[part], self.nodes_P[part], self.edges_P[: part + 1].sum()
        edges = slice(end - self.edges_P[part], end)
        entry_E = (self.source_E[edges] - start) * size + self.target_E[edges] - start
        matrix_II = np.bincount(entry_E, self.factor_E[edges], size * size).reshape(size, size)
        return np.linalg.solve(np.eye(size) - matrix_II, self.constant_K[start : start + size]).astype(np.float64, copy=False)

    def _iterated(self) -> tuple[FloatArray, np.ndarray]:
        """x, and for which parts it may be trusted, shapes (K,) and (P,)."""
        # Rewards may be of any size; squares of residuals must neither overflow nor vanish.
        scale_P = self._size(self.constant_K)
        scale_K = self._spread(np.where(scale_P > 0.0, scale_P, 1.0))
        constant_K, value_K = self.constant_K / scale_K, np.zeros(len(scale_K))
        settled_P = np.zeros(len(scale_P), dtype=bool)
        for _ in range(ROUNDS):
            residual_K = constant_K - self._applied(value_K)
            # What rounding leaves of a residual grows with the values themselves.
            limit_P = np.maximum(TOLERANCE / self.edges_P, 8 * np.finfo(np.float64).eps * self._size(value_K))
            settled_P = self._size(residual_K) <= limit_P
            if settled_P.all():
                break
            value_K += self._correction(residual_K, limit_P)
        return value_K * scale_K, settled_P

    def _correction(self, residual_K: FloatArray, limit_P: FloatArray) -> FloatArray:
        """What to add to x, shape (K,): BiCGSTAB from a residual down to a limit for each part, or as far as it gets."""
        change_K, direction_K, shadow_K = np.zeros(len(residual_K)), residual_K, residual_K
        product_P = self._dot(shadow_K, residual_K)
        for _ in range(STEPS):
            going_P = self._size(residual_K) > limit_P
            if not going_P.any():
                break
            along_K = self._applied(direction_K)
            alpha_P = _ratio(product_P, self._dot(shadow_K, along_K), going_P)
            alpha_K = self._spread(alpha_P)
            half_K = residual_K - alpha_K * along_K
            across_K = self._applied(half_K)
            omega_P = _ratio(self._dot(across_K, half_K), self._dot(across_K, across_K), going_P)
            omega_K = self._spread(omega_P)
            change_K += alpha_K * direction_K + omega_K * half_K
            residual_K = half_K - omega_K * across_K
            before_P, product_P = product_P, self._dot(shadow_K, residual_K)
            beta_P = _ratio(product_P, before_P, going_P) * _ratio(alpha_P, omega_P, going_P)
            direction_K = residual_K + self._spread(beta_P) * (direction_K - omega_K * along_K)
        return change_K

    def _applied(self, values_K: FloatArray) -> FloatArray:
        """(I - M) x, shape (K,)."""
        return values_K - np.bincount(self.source_E, self.factor_E * np.take(values_K, self.target_E), len(values_K))

    def _spread(self, values_P: FloatArray) -> FloatArray:
        """The number of each node's part, shape (K,)."""
        return np.repeat(values_P, self.nodes_P)

    def _dot(self, left_K: FloatArray, right_K: FloatArray) -> FloatArray:
        """Inner product of each part, shape (P,)."""
        return np.add.reduceat(left_K * right_K, self.first_P)

    def _size(self, values_K: FloatArray) -> FloatArray:
        """Largest absolute value of each part, shape (P,)."""
        return np.maximum.reduceat(np.abs(values_K), self.first_P)


def _ratio(numerator_P: FloatArray, denominator_P: FloatArray, where_P: np.ndarray) -> FloatArray:
    """A step length: 0 for the parts that are done, and where the iteration breaks down."""
    return np.divide(numerator_P, denominator_P, out=np.zeros(len(numerator_P)), where=where_P & (denominator_P != 0.0))
