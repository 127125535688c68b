"""The closest sequence that never rises: pool adjacent violators, exact, in time linear in the values.

Source: Barlow, Bartholomew, Bremner, Brunk, Statistical Inference under Order Restrictions (1972).
"""

import numpy as np

from credit.moments import FloatArray


def falling(values_P: FloatArray, weights_P: FloatArray) -> FloatArray:
    """The sequence without a rise that minimises the weighted squared distance to `values_P`, shape (P,); weights are positive."""
    means: list[float] = []
    weights: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values_P.tolist(), weights_P.tolist(), strict=True):
        mean, total, length = value, weight, 1
        while means and means[-1] < mean:
            before = weights.pop()
            mean = (means.pop() * before + mean * total) / (before + total)
            total += before
            length += lengths.pop()
        means.append(mean)
        weights.append(total)
        lengths.append(length)
    return np.repeat(np.array(means, dtype=np.float64), lengths)
