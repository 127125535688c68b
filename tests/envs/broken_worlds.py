"""A sound world, and for each check a world with one fault that this check finds and no other does."""

import functools
import math
import os
import threading
import time
from typing import Any, ClassVar

from envs import Abilities, TextEnv
from envs.checking.player import IMPOSSIBLE

SOUND = Abilities(fork="exact", admissible=True, expert=True)


class Lamps(TextEnv):
    """A row of lamps; those of the task are to be lit, and no others."""

    def __init__(self, max_turns: int = 25) -> None:
        super().__init__()
        self.max_turns = max_turns
        self.wanted: tuple[bool, ...] = ()
        self.lit: list[bool] = []
        self.turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        count = int(self.np_random.integers(4, 7))
        self.wanted = tuple(index == count - 1 or bool(self.np_random.integers(2)) for index in range(count))
        self.lit, self.turns = [False] * count, 0
        return f"There are {count} lamps. Light {[index for index, wanted in enumerate(self.wanted, 1) if wanted]}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        valid = action in self.admissible_actions()
        observation = self.act(action) if valid else "Nothing happens."
        solved = tuple(self.lit) == self.wanted
        return observation, float(solved), solved, not solved and self.turns >= self.max_turns, {"valid": valid, "success": solved}

    def act(self, action: str) -> str:
        if action == "look":
            return f"Lit: {[index for index, lit in enumerate(self.lit, 1) if lit]}."
        number = int(action.removeprefix("switch "))
        self.lit[number - 1] = not self.lit[number - 1]
        return f"Lamp {number} goes {'on' if self.lit[number - 1] else 'off'}."

    def snapshot(self) -> Any:
        return self.wanted, tuple(self.lit), self.turns

    def restore(self, snapshot: Any) -> None:
        self.wanted, lit, self.turns = snapshot
        self.lit = list(lit)

    def state_signature(self) -> str:
        return "".join(".x"[lit] for lit in self.lit)

    def admissible_actions(self) -> list[str]:
        return ["look", *(f"switch {number}" for number in range(1, len(self.lit) + 1))]

    def expert_action(self) -> str:
        return f"switch {next(index for index, pair in enumerate(zip(self.lit, self.wanted, strict=True), 1) if pair[0] != pair[1])}"


class BareLamps(Lamps):
    """Cannot copy itself."""

    snapshot, restore = TextEnv.snapshot, TextEnv.restore


class Unseeded(Lamps):
    """Gymnasium: does not seed the generator that Gymnasium knows."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        self._np_random = None
        return observation, info


class Raising(Lamps):
    """Plays: an action that makes no sense is an exception."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == IMPOSSIBLE:
            raise LookupError("no such action")
        return super().step(action)


class Boundless(Lamps):
    """Plays: a reward that is no number."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, math.nan if action == IMPOSSIBLE else reward, *rest


class Overlisting(Lamps):
    """Abilities: lists what cannot be done."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"valid": info["valid"] and action != "look"}


class Unsorted(Lamps):
    """Abilities: lists what can be done in disorder."""

    def admissible_actions(self) -> list[str]:
        return super().admissible_actions()[::-1]


class Remembering(Lamps):
    """Same seed: greets those who come back."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.resets += 1
        observation, info = super().reset(seed=seed)
        return ("Welcome back! " if self.resets > 5 else "") + observation, info


class Unordered(Lamps):
    """Same seed: the order of words depends on the hash seed of the process."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        return observation + " Colours: " + " ".join({"red", "green", "blue", "yellow", "black", "white", "grey", "brown"}), info


class Forgetful(Lamps):
    """Restore: coming back to its own snapshot, it switches the first lamp."""

    def snapshot(self) -> Any:
        return *super().snapshot(), id(self)

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot[:3])
        if snapshot[3] == id(self):
            self.lit[0] = not self.lit[0]


class Aliasing(Lamps):
    """Restore often: goes on in the snapshot itself."""

    def snapshot(self) -> Any:
        return self.wanted, list(self.lit), self.turns

    def restore(self, snapshot: Any) -> None:
        self.wanted, self.lit, self.turns = snapshot


class Unpackable(Lamps):
    """Travel: its snapshots hold a function."""

    def snapshot(self) -> Any:
        state = super().snapshot()
        return lambda: state

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot())


class Shared(Lamps):
    """Children: all instances have one row of lamps."""

    row: ClassVar[list[bool]] = []

    @property
    def lit(self) -> list[bool]:
        return Shared.row

    @lit.setter
    def lit(self, row: list[bool]) -> None:
        Shared.row = row


class Hoarding(Lamps):
    """Memory: keeps every snapshot."""

    kept: ClassVar[list[Any]] = []

    def snapshot(self) -> Any:
        self.kept.append(super().snapshot())
        return self.kept[-1]


class OpeningFiles(Lamps):
    """Memory: every snapshot opens a file, which stays open."""

    files: ClassVar[list[int]] = []

    def snapshot(self) -> Any:
        self.files.append(os.open(__file__, os.O_RDONLY))
        return super().snapshot()


class Counting(Lamps):
    """Equal states: the signature counts turns."""

    def state_signature(self) -> str:
        return f"{super().state_signature()} {self.turns}"


class Hashing(Lamps):
    """Equal states: the signature depends on the hash seed of the process."""

    def state_signature(self) -> str:
        return str(hash(super().state_signature()))


class Fickle(Lamps):
    """Equal states: the signature depends on how often it was asked for."""

    def __init__(self, max_turns: int = 25) -> None:
        super().__init__(max_turns)
        self.asked = 0

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.asked = 0
        return super().step(action)

    def restore(self, snapshot: Any) -> None:
        self.asked = 0
        super().restore(snapshot)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.asked = 0
        return super().reset(seed=seed)

    def state_signature(self) -> str:
        self.asked += 1
        return super().state_signature() + "!" * (self.asked > 1 and self.asked % 3 == 0)


class Overlooking(Lamps):
    """Different states: the signature leaves the first lamp out."""

    def state_signature(self) -> str:
        return super().state_signature()[1:]


class Hanging(Lamps):
    """Deadline: an action that makes no sense is thought about without end, and nothing says how long that may take."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        while action == IMPOSSIBLE:
            time.sleep(0.001)
        return super().step(action)


class GivenUp(Hanging):
    """Sound: what hangs has a deadline, and ends."""

    step_deadline_s = 0.2


class Stubborn(Lamps):
    """Deadline: does not end when it is told to; not before `released` is set, for the sake of the tests."""

    step_deadline_s = 0.2
    released: ClassVar[threading.Event] = threading.Event()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        while action == IMPOSSIBLE and not self.released.is_set():
            try:
                time.sleep(0.01)
            except BaseException:
                continue
        return super().step(action)


class Soon(Lamps):
    """Deadline: what it declares is no number of seconds."""

    step_deadline_s = math.inf


class Clinging(Lamps):
    """Deadline: cannot be closed once a step was given up."""

    def close(self) -> None:
        if "step" in vars(self):
            raise RuntimeError("still at work")


class Dicey(TextEnv):
    """Nothing but chance; not even the seed decides it."""

    def __init__(self, max_turns: int = 10) -> None:
        super().__init__()
        self.max_turns, self.turns, self.total = max_turns, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turns, self.total = 0, 0
        return "Roll.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns, self.total = self.turns + 1, self.total + time.perf_counter_ns() % 6
        return f"You have {self.total}.", 0.0, False, self.turns >= self.max_turns, {}

    def snapshot(self) -> Any:
        return self.turns, self.total

    def restore(self, snapshot: Any) -> None:
        self.turns, self.total = snapshot

    def state_signature(self) -> str:
        return str(self.total)


unpicklable = functools.partial(lambda: Lamps())
"""What makes the sound world, and cannot be sent to another process."""
