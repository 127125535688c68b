"""A share of successes never stands alone: it comes with the number of tries and the interval that they allow."""

import math
from dataclasses import dataclass

_Z95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Proportion:
    """`successes` out of `trials`; `low` and `high` bound the true share with 95 % confidence."""

    successes: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials:
            raise ValueError(f"{self.successes} successes out of {self.trials} trials is no proportion")

    @property
    def rate(self) -> float:
        """Share of successes; NaN where nothing was tried."""
        return self.successes / self.trials if self.trials else math.nan

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return wilson(self.successes, self.trials)[0]

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return wilson(self.successes, self.trials)[1]

    def __str__(self) -> str:
        if not self.trials:
            return "none tried"
        return f"{100 * self.rate:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def wilson(successes: int, trials: int, z: float = _Z95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927), 95 % by default; (0, 1) where nothing was tried.

    Unlike the normal approximation it stays inside [0, 1] and keeps a width at 0 and at all successes.
    """
    if not trials:
        return 0.0, 1.0
    share, spread = successes / trials, z * z / trials
    centre = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    return (0.0 if successes == 0 else max(0.0, low)), (1.0 if successes == trials else min(1.0, high))
