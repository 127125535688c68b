"""What a kept state costs: memory of this process where it lives here, bytes on the way to another one where it does not."""

import gc
import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import envs
from benchmarks.environments.episode import Episode, halfway
from benchmarks.environments.scale import Scale

_ATOMS = (ModuleType, type, FunctionType, BuiltinFunctionType, str, bytes, int, float, bool, type(None))


def kept_bytes(env: envs.TextEnv, episodes: Sequence[Episode], keep: Callable[[], Any]) -> float:
    """Bytes of memory that each kept state costs when one is kept at every turn of the episodes."""
    kept: list[Any] = []
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for episode in episodes:
        env.reset(seed=episode.seed)
        for action in episode.actions:
            kept.append(keep())
            env.step(action)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(kept)


def pickled_bytes(env: envs.TextEnv, episodes: Sequence[Episode], scale: Scale) -> list[float]:
    """Bytes of a snapshot as it travels to another process, in the middle of each episode."""
    sizes = []
    for number in scale.up_to(len(episodes)):
        halfway(env, episodes[number])
        sizes.append(float(len(pickle.dumps(env.snapshot()))))
    return sizes


def in_both(one: envs.TextEnv, other: envs.TextEnv) -> dict[int, Any]:
    """By id what two instances share, such as a corpus: the memo of a deep copy that leaves it where it is."""
    reached = []
    for env in (one, other):
        seen, waiting = {}, [env]
        while waiting:
            thing: Any = waiting.pop()
            if id(thing) not in seen and not isinstance(thing, _ATOMS):
                seen[id(thing)] = thing
                waiting += gc.get_referents(thing)
        reached.append(seen)
    return {key: thing for key, thing in reached[0].items() if key in reached[1]}
