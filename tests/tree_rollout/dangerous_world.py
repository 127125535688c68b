"""Worlds for processes of their own, and what makes them there."""

import os
import time
from pathlib import Path
from typing import Any

from random_world import ENV_ID, RandomWorld

from envs.errors import AbilityError


class Dangerous(RandomWorld):
    """Does what its arguments say, in the third step of task 1."""

    def __init__(self, deed: str = "", step_deadline_s: float | None = None) -> None:
        super().__init__()
        self.deed, self.step_deadline_s = deed, step_deadline_s

    def step(self, action: str) -> Any:
        if self.task == 1 and self.turn == 2:
            if self.deed == "leave":
                os._exit(3)
            if self.deed == "hang":
                time.sleep(1000)
            if self.deed == "quit":
                raise SystemExit(5)
            if self.deed == "raise":
                raise ZeroDivisionError("the oven is cold")
            if self.deed == "lie":
                return None
        return super().step(action)


class Unforkable(RandomWorld):
    def snapshot(self) -> Any:
        raise AbilityError("this world takes no snapshots")


def make(env_id: str, **kwargs: Any) -> RandomWorld:
    assert env_id == ENV_ID
    return Dangerous(**kwargs)


def make_unforkable(env_id: str) -> RandomWorld:
    return Unforkable()


class SlowToClose(RandomWorld):
    def __init__(self, marker: str) -> None:
        super().__init__()
        self.marker = marker

    def close(self) -> None:
        time.sleep(0.3)
        Path(self.marker).touch()


def make_slow_to_close(env_id: str, marker: str) -> RandomWorld:
    return SlowToClose(marker)
