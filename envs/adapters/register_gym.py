"""One line makes a Gymnasium environment an environment here; what it declares is proven by `check`, as everywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from envs.abilities import Abilities, ForkKind
from envs.adapters.gym_env import SPLITS, Reader
from envs.needs import Need
from envs.registry import EnvSpec, register_env


def register_gym(
    id: str,
    env_id: str,
    *,
    fork: ForkKind | str = ForkKind.EXACT,
    deterministic: bool = True,
    portable: bool = True,
    actions: Sequence[str] | None = None,
    task: str = "",
    observe: Reader = None,
    signature: Reader = None,
    success: Reader = None,
    env_kwargs: Mapping[str, Any] | None = None,
    needs: tuple[Need, ...] = (),
    max_turns: int = 50,
    description: str = "",
) -> EnvSpec:
    """Register the Gymnasium environment `env_id` under an id of ours.

    `fork` says how it is copied: `exact` by `copy.deepcopy`, `process` by forking the process that it is given, `replay` by executing its
    actions again, or `none`. `portable`: a deep copy can be pickled. The other arguments are those of `Abilities`, `GymEnv` and
    `register_env`.
    """
    kind = Abilities(fork=fork, deterministic=deterministic).fork
    declared = Abilities(
        fork=kind, deterministic=deterministic, signature=signature is not None, portable=portable, admissible=actions is not None
    )
    given = {"actions": actions, "task": task, "observe": observe, "signature": signature, "success": success, "env_kwargs": env_kwargs}
    return register_env(
        id,
        "envs.adapters.gym_env:GymEnv",
        abilities=declared,
        needs=needs,
        splits=SPLITS,
        max_turns=max_turns,
        description=description or f"{env_id} of Gymnasium",
        kwargs={
            "env_id": env_id,
            "copies": kind is ForkKind.EXACT,
            **{name: value for name, value in given.items() if value not in (None, "")},
        },
    )
