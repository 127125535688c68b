"""The backend that a configuration asks for; a package that it lacks is found out before anything is computed."""

from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path

from agents.missing_package import missing_package
from trainer.backend import Backend
from trainer.config import Config
from trainer.errors import ConfigError
from trainer.local_backend import local_backend
from tree_rollout.allocation import allocation_rule


def opened_backend(config: Config, policy: Path, start_policy: Path) -> AbstractContextManager[Backend]:
    """The backend on the weights in the folder `policy`; learning starts from those in `start_policy`, which may come later."""
    if config.run.backend == "local":
        return local_backend(config, policy, start_policy)
    from trainer.ray_backend.backend import ray_backend

    return ray_backend(config, policy)


def check_backend(config: Config) -> None:
    """Raise where the backend needs a package that is not installed, or the mode a rule that looks at one tree at a time."""
    if config.run.backend == "ray" and find_spec("ray") is None:
        raise ConfigError(missing_package("ray", "ray", "run.backend ray"))
    allocation = config.rollout.allocation
    if config.run.mode == "async" and allocation_rule(allocation.rule, allocation.options).across:
        raise ConfigError(
            f"rollout.allocation.rule {allocation.rule} looks at all trees of an iteration, which run.mode async does not know; set fixed"
        )
