"""The backend that a configuration asks for; a package that it lacks is found out before anything is computed."""

from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path

import torch

from agents.engines import engine_entry
from agents.missing_package import missing_package
from trainer.backend import Backend
from trainer.config import Config
from trainer.device import device_of
from trainer.errors import ConfigError
from trainer.local_backend import local_backend
from trainer.shard_pool import workers
from tree_rollout.allocation import allocation_rule


def opened_backend(config: Config, policy: Path, start_policy: Path) -> AbstractContextManager[Backend]:
    """The backend on the weights in the folder `policy`; learning starts from those in `start_policy`, which may come later."""
    if config.run.backend == "local":
        return local_backend(config, policy, start_policy)
    from trainer.ray_backend.backend import ray_backend

    return ray_backend(config, policy)


def check_backend(config: Config) -> None:
    """Raise where backend or engine need what is not there, or the mode a rule that looks at one tree at a time."""
    check_engine(config)
    if config.run.backend == "ray" and find_spec("ray") is None:
        raise ConfigError(missing_package("ray", "ray", "run.backend ray"))
    allocation = config.rollout.allocation
    if config.run.mode == "async" and allocation_rule(allocation.rule, allocation.options).across:
        raise ConfigError(
            f"rollout.allocation.rule {allocation.rule} looks at all trees of an iteration, which run.mode async does not know; set fixed"
        )


def check_engine(config: Config) -> None:
    """Raise where this machine lacks what the engine or a device needs; on Ray each process looks for itself."""
    if config.run.backend == "ray":
        return
    learner = device_of("policy.device", config.policy.device)
    if config.rollout.engine != "vllm":
        return
    if (entry := engine_entry("vllm")).is_missing:
        raise ConfigError(missing_package(str(entry.package), str(entry.extra), "rollout.engine vllm"))
    device = learner if config.rollout.device is None else device_of("rollout.device", config.rollout.device)
    if device.type != "cuda":
        return
    processes, share = workers(config), config.rollout.vllm.gpu_memory_utilization
    gpus = 1 if ":" in config.rollout_device else torch.cuda.device_count()
    crowd = -(-processes * config.rollout.vllm.tensor_parallel // gpus)
    if crowd * share > 1:
        raise ConfigError(
            f"{crowd} of {processes} processes would share a GPU, and each vLLM takes {share:g} of its memory; set run.workers (and "
            "run.shards) to the number of GPUs, or lower rollout.vllm.gpu_memory_utilization"
        )
