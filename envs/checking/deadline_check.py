"""A step that hangs is ended: within its deadline, for good, and without harm to other instances."""

import threading
import time
from typing import Any

from envs.checking.player import Player, is_deadline
from envs.checking.report import fail
from envs.deadline import DeadlineExceededError, call_within
from envs.forking.forkable_env import ForkableEnv
from envs.forking.forked_env import ForkedEnv
from envs.text_env import TextEnv

_DEADLINE_S = 0.3
"""Of the step that is made to hang."""
_GRACE_S = 5.0
"""What ending it, and closing its instance, may take."""


def deadline(player: Player) -> str:
    """Deadlines are numbers, nothing that was played hangs without one, and a step that is made to hang is ended."""
    env = player.make()
    for name in ("step_deadline_s", "reset_deadline_s"):
        value = getattr(env, name)
        if value is not None and not is_deadline(value):
            fail(f"{name} is {value!r}; it must be None or a number of seconds above 0")
    for fault in player.faults:
        if fault.hung:
            _judge_hang(player, env, fault.seed, fault.actions)
    player.reset(env, player.seeds[0])
    _hang(env)
    # Another instance is none the worse for it.
    other = player.make()
    for episode in player.episodes[:1]:
        player.bring(other, episode, len(episode.turns))
    hung = sum(fault.hung for fault in player.faults)
    return f"a step made to hang{f', and {hung} that hung of themselves' if hung else ''}, ended within {_DEADLINE_S} s"


def _judge_hang(player: Player, env: TextEnv, seed: int, actions: tuple[str, ...]) -> None:
    """A call that outran its limit in play has to have a deadline, and to end when it is told to."""
    kind = "step" if actions else "reset"
    if getattr(env, f"{kind}_deadline_s") is None:
        fail(f"{kind} gives no answer within {player.patience_s:g} s, and no {kind}_deadline_s is declared", seed, actions)
    limit = time.monotonic() + _GRACE_S
    while (stuck := _stuck()) and time.monotonic() < limit:
        time.sleep(0.02)
    if stuck:
        fail(f"{kind} goes on after its deadline: it catches SystemExit, or waits for something that never comes", seed, actions)


def _stuck() -> bool:
    """Whether a call that was given up is still at work."""
    return any(thread.name == "call-with-deadline" for thread in threading.enumerate())


def _hang(env: TextEnv) -> None:
    """Make a step hang, and see that it ends."""
    forked: Any = env.env if isinstance(env, ForkableEnv) else env
    if isinstance(forked, ForkedEnv):
        forked.suspend()
    else:
        forked.step = _spin
    started = time.monotonic()
    try:
        call_within(lambda: env.step("wait"), _DEADLINE_S)
    except DeadlineExceededError:
        pass
    else:
        fail("a step that hangs was answered")
    if time.monotonic() - started > _DEADLINE_S + _GRACE_S:
        fail(f"a step that hangs was given up only after {time.monotonic() - started:.1f} s")
    try:
        call_within(env.close, _GRACE_S)
    except DeadlineExceededError:
        fail(f"close() does not return within {_GRACE_S:g} s after a step was given up")
    except Exception as error:
        fail(f"close() raises after a step was given up: {type(error).__name__}: {error}")


def _spin(action: str) -> Any:
    """What an endless loop in an environment is."""
    while True:
        time.sleep(0.001)
