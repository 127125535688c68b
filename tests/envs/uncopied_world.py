"""A simulator that nothing can copy: its state hides in a suspended generator, a lock and, if asked, the program's random numbers."""

import os
import random
import threading
import time
from collections.abc import Generator
from typing import Any

from envs import TextEnv


def _play(seed: int, shared: bool) -> Generator[str, str, None]:
    """Counts what it is told, and draws."""
    source: Any = random if shared else random.Random()
    source.seed(seed)
    total, said = seed % 7, f"You have {seed % 7}."
    while True:
        word = yield said
        total = total * 3 + len(word) + source.randrange(100)
        said = f"You have {total}, and draw {source.random():.6f}."


class UncopiedEnv(TextEnv):
    """Says `success` for `win`; `hang` never ends, `die` ends the process, `print` talks to the screen, `thread` starts a thread.

    Args:
        drift: makes every reset of an instance differ from the one before, so that replay cannot reach a state again.
        deadline_s: of a step.
        shared: draws from the generator that all of the program shares.
    """

    def __init__(self, max_turns: int = 20, drift: bool = False, deadline_s: float | None = None, shared: bool = False) -> None:
        super().__init__()
        self.max_turns, self.drift, self.shared = max_turns, drift, shared
        self.step_deadline_s = deadline_s
        self.lock = threading.Lock()
        self.resets = self.turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets, self.turns = self.resets + 1, 0
        self.game = _play(int(self.np_random.integers(1000)) + (self.resets if self.drift else 0), self.shared)
        self.seen = next(self.game)
        return self.seen, {"task_type": "counting"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "hang":
            while True:
                time.sleep(0.01)
        if action == "die":
            os._exit(7)
        if action == "raise":
            raise ValueError("no such luck")
        if action == "thread":
            threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        self.turns += 1
        self.seen = self.game.send(action)
        won = action == "win"
        return self.seen, float(won), won, self.turns >= self.max_turns, {"valid": action != "bad", "success": won}

    def state_signature(self) -> str:
        return self.seen

    def admissible_actions(self) -> list[str]:
        return ["a", "bb", "ccc", "win"]

    def expert_action(self) -> str:
        return "win" if self.turns >= 3 else "a"
