"""The closest sequence that never rises: pool adjacent violators, exact, in time linear in the values.

Source: Barlow, Bartholomew, Bremner, Brunk, Statistical Inference under Order Restrictions (1972). With a ratio r, what never rises is
r^t x[t]; it is written relative to the last place of each block, so that no power overflows.
Axis: _P places.
"""

import numpy as np

from credit.moments import FloatArray


def falling(values_P: FloatArray, weights_P: FloatArray, ratio: float = 1.0) -> FloatArray:
    """The sequence x with x[t] >= ratio x[t + 1] that minimises the weighted squared distance to `values_P`, shape (P,).

    Weights are positive. `ratio` is from 0 to 1; below 1 values are not negative.
    """
    # In a block the rule holds with equality: the k-th value before its last is ratio^k times the last.
    lasts: list[float] = []
    weights: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values_P.tolist(), weights_P.tolist(), strict=True):
        last, total, length = value, weight, 1
        while lasts and lasts[-1] < (power := ratio**length) * last:
            before = weights.pop()
            last = (power * lasts.pop() * before + last * total) / (power**2 * before + total)
            total += power**2 * before
            length += lengths.pop()
        lasts.append(last)
        weights.append(total)
        lengths.append(length)
    to_last_P = np.repeat(np.cumsum(lengths, dtype=np.int64), lengths) - 1 - np.arange(len(values_P))
    return np.repeat(np.array(lasts, dtype=np.float64), lengths) * ratio**to_last_P
