"""What every process of a run is told when it starts: data alone, the same for all."""

import sys
from dataclasses import dataclass
from typing import Self

from ray.cloudpickle import cloudpickle

from envs.registry import EnvSpec, register_env, spec
from trainer.config import Config
from trainer.ray_backend.policy_files import PolicyFiles

_DECLARED = ("description", "abilities", "needs", "splits", "max_turns", "kwargs")


@dataclass(frozen=True)
class Job:
    """One run."""

    config: Config
    policy: PolicyFiles
    """The policy that reinforcement learning starts from."""
    env: bytes
    """The entry of the run's environment, pickled: what the coordinator's program has registered need not be registered elsewhere."""
    paths: tuple[str, ...]
    """Where the coordinator finds modules; a process finds them there too, as far as its machine has these folders."""

    @classmethod
    def of(cls, config: Config, policy: PolicyFiles) -> Self:
        """The job of a run that this process coordinates."""
        return cls(config, policy, cloudpickle.dumps(spec(config.env.id)), tuple(sys.path))

    def enter(self) -> None:
        """Make this process one of the run's: it finds the coordinator's modules, and the environment is registered."""
        sys.path.extend(path for path in self.paths if path not in sys.path)
        env: EnvSpec = cloudpickle.loads(self.env)
        declared = {name: getattr(env, name) for name in _DECLARED}
        register_env(env.id, env.entry_point, **declared)
