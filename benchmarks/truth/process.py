"""A process is Markov in (state, time): what follows depends on nothing else, and everything about it can be computed exactly.

Axes: _X true states, _K actions, _M outcomes of one action. All arrays are read-only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.truth.errors import ProcessError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

TAGS = {
    "exact": "equal signatures are equal states",
    "misleading": "a signature merges states that differ",
    "merges": "different rollouts meet often",
    "long": "25 turns or more",
    "decisive": "the outcome hangs on one turn",
    "stochastic": "an action can have several outcomes",
    "stopping": "the policy can end the episode",
    "idle": "an action can leave the state as it is, and the turn limit makes that cost",
    "cyclic": "a state can come back",
}
"""What a process can be said to be."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """A finite decision process with one start state; raises `ProcessError` where the arrays do not form one."""

    name: str
    doc: str
    """One line: what it shows."""
    next_XKM: IntArray
    """State that outcome m of action k leads to."""
    prob_XKM: FloatArray
    """Probability of each outcome; sums to 1 over m."""
    reward_XKM: FloatArray
    """What each outcome pays."""
    terminal_X: BoolArray
    """States in which an episode ends as soon as they are entered."""
    start: int
    """The state before the first turn; never terminal."""
    horizon: int
    """Turn limit: an episode is cut off after so many turns, and earns nothing more."""
    signature_X: IntArray
    """What an estimator sees of each state."""
    habit_XK: FloatArray
    """Logits that every start policy has in common; zero where the start policy prefers nothing."""
    tags: frozenset[str]
    """Some of `TAGS`."""

    def __post_init__(self) -> None:
        types = {"next_XKM": np.int64, "prob_XKM": np.float64, "reward_XKM": np.float64}
        types |= {"terminal_X": np.bool_, "signature_X": np.int64, "habit_XK": np.float64}
        for field, dtype in types.items():
            given = np.asarray(getattr(self, field))
            if not np.can_cast(given.dtype, dtype, "same_kind"):
                raise ProcessError(f"{self.name}: {field} is of type {given.dtype}; give {np.dtype(dtype).name}")
            array = given.astype(dtype)
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        self._check_shapes()
        self._check_values()

    def _check_shapes(self) -> None:
        if self.next_XKM.ndim != 3 or 0 in self.next_XKM.shape:
            raise ProcessError(f"{self.name}: next_XKM has shape {self.next_XKM.shape}; give states x actions x outcomes, none of them 0")
        shape = self.next_XKM.shape
        for field in ("prob_XKM", "reward_XKM", "terminal_X", "signature_X", "habit_XK"):
            axes = len(field.rpartition("_")[2])
            if getattr(self, field).shape != shape[:axes]:
                raise ProcessError(f"{self.name}: {field} has shape {getattr(self, field).shape}; next_XKM asks for {shape[:axes]}")

    def _check_values(self) -> None:
        wrong = None
        if self.next_XKM.min() < 0 or self.next_XKM.max() >= self.states:
            wrong = f"next_XKM leaves the states 0 to {self.states - 1}; give indices of states"
        elif not (self.prob_XKM >= 0).all() or not np.allclose(self.prob_XKM.sum(axis=2), 1.0, rtol=0, atol=_ROUNDING):
            wrong = "prob_XKM is no distribution over outcomes; give probabilities that sum to 1 over the last axis"
        elif not (np.isfinite(self.reward_XKM).all() and np.isfinite(self.habit_XK).all()):
            wrong = "a reward or a habit is not finite; give finite numbers"
        elif not 0 <= self.start < self.states or self.terminal_X[self.start]:
            wrong = f"start is {self.start}; give a state from 0 to {self.states - 1} that is not terminal"
        elif self.horizon < 1:
            wrong = f"horizon is {self.horizon}; give a turn limit of at least 1"
        elif self.tags - TAGS.keys():
            wrong = f"{min(self.tags - TAGS.keys())!r} is no tag; choose from {', '.join(TAGS)}"
        if wrong:
            raise ProcessError(f"{self.name}: {wrong}")

    @property
    def states(self) -> int:
        """Number of true states."""
        return self.next_XKM.shape[0]

    @property
    def actions(self) -> int:
        """Number of actions, the same in every state."""
        return self.next_XKM.shape[1]
