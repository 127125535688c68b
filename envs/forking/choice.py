"""Every fork is exact, and is made in the cheapest way that is; an environment that copies itself anywhere is left as it is."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from envs.abilities import Abilities, ForkKind
from envs.errors import AbilityError
from envs.text_env import TextEnv


def forkable(abilities: Abilities, factory: Callable[..., TextEnv], arguments: Mapping[str, Any]) -> TextEnv:
    """The environment, so that it can be forked as its abilities promise.

    - `exact`, `sandbox`: it copies itself. Where its snapshots are not portable, they are used in the instance that took them, and verified
      replay elsewhere.
    - `process`: forked processes on this machine, verified replay where a snapshot has travelled to another process.
    - `replay`: verified replay.
    """
    from envs.forking.forkable_env import ForkableEnv
    from envs.forking.forked_env import ForkedEnv

    if abilities.fork is ForkKind.NONE or (abilities.copies_itself and abilities.portable):
        return factory(**arguments)
    replay = abilities.deterministic
    if abilities.fork is ForkKind.REPLAY:
        return ForkableEnv(factory(**arguments), native=None, replay=True)
    if abilities.copies_itself:
        return ForkableEnv(factory(**arguments), native="instance", replay=replay)
    if hasattr(os, "fork"):
        return ForkableEnv(ForkedEnv(factory, arguments), native="program", replay=replay)
    if not replay:
        raise AbilityError("this operating system forks no processes, and what is not deterministic cannot be replayed; use Linux or macOS")
    return ForkableEnv(factory(**arguments), native=None, replay=True)
