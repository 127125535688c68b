"""A state has a name of its own, so that two states are never taken for one: the environment's signature, else the way that led there."""

import hashlib

from envs.errors import AbilityError
from envs.forking.forkable_env import ForkableEnv
from envs.text_env import TextEnv


def known_state(env: TextEnv) -> str:
    """The state signature, where the environment has one.

    A state of one that has none, but can be replayed, is named by seed and actions: equal names are the same state, and a state that is
    reached in two ways has two names. `AbilityError` for any other environment.
    """
    try:
        return env.state_signature()
    except AbilityError:
        way = env.way() if isinstance(env, ForkableEnv) else None
        if way is None:
            raise
        return hashlib.sha256(repr(way).encode()).hexdigest()[:32]
