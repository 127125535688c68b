"""An environment that cannot copy itself is copied with the process that it lives in; a process that a snapshot stands for never moves on.

Whoever acts in a state that a snapshot stands for gets a copy of the process first. So a snapshot costs nothing, the first action after
it a fork, and returning to it nothing again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from envs.errors import AbilityError
from envs.forking.fork_server import ForkServer, shared_server
from envs.forking.state_process import StateProcess
from envs.text_env import TextEnv

CLOSE_S = 2.0
"""Seconds that an environment has to close itself before its process is ended."""


class ForkedEnv(TextEnv):
    """An environment in a process of its own; its snapshots are valid in every `ForkedEnv` of this program made from the same arguments."""

    def __init__(self, factory: Callable[..., TextEnv], arguments: Mapping[str, Any], server: ForkServer | None = None) -> None:
        """`factory` is called with `arguments` in the process, so it must be importable there; the default server is the program's."""
        super().__init__()
        self._factory, self._arguments, self._server = factory, arguments, server
        self._process, (self.step_deadline_s, self.reset_deadline_s) = self._new_process()
        self._kept = False
        """True where a snapshot stands for the present process."""
        self._signature: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if not self._process.alive:
            self._process, self._kept = self._new_process()[0], False
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        observation, info, self._signature = self._own().ask("reset", chosen, options, within_s=self.reset_deadline_s)
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        *said, self._signature = self._own().ask("step", action, within_s=self.step_deadline_s)
        observation, reward, terminated, truncated, info = said
        return observation, reward, terminated, truncated, info

    def snapshot(self) -> tuple[StateProcess, str | None]:
        self._kept = True
        return self._process, self._signature

    def restore(self, snapshot: tuple[StateProcess, str | None]) -> None:
        snapshot[0].check()
        if snapshot[0] is not self._process and not self._kept:
            self._process.end()
        (self._process, self._signature), self._kept = snapshot, True

    def state_signature(self) -> str:
        """The signature that came with the last reset or step."""
        if self._signature is None:
            raise AbilityError(f"{self._name} has no state signature, or no episode yet; it cannot recognise a state")
        return self._signature

    def admissible_actions(self) -> list[str]:
        return self._process.ask("admissible_actions", within_s=self.step_deadline_s)

    def expert_action(self) -> str:
        return self._process.ask("expert_action", within_s=self.step_deadline_s)

    def close(self) -> None:
        """End the process, unless a snapshot stands for it, which outlives the environment."""
        if self._kept or not self._process.alive:
            return
        try:
            self._process.ask("close", within_s=CLOSE_S)
        except (RuntimeError, OSError):
            pass  # It is ended in any case.
        finally:
            self._process.end()

    def suspend(self) -> None:
        """Stop the process in its tracks, as an endless computation would; for tests of deadlines."""
        self._own().suspend()

    def _new_process(self) -> tuple[StateProcess, list[float | None]]:
        return (self._server or shared_server()).make(self._factory, self._arguments)

    @property
    def _name(self) -> str:
        return getattr(self._factory, "__name__", "the environment")

    def _own(self) -> StateProcess:
        """The present process, or a copy of it where a snapshot stands for it."""
        if self._kept:
            self._process, self._kept = self._process.fork(), False
        return self._process
