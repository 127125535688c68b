"""The configuration of `branchwise sft`: what the recorded run says of its policy lies below what the user says, and nothing is ignored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.config import Config
from trainer.errors import UsageError
from trainer.load_config import load_config
from trainer.overrides import lookup
from trainer.sft.recorded_run import RecordedRun
from trainer.yaml_file import read_yaml

_OF_REINFORCEMENT = (
    "credit", "critic", "reward", "loss", "ray", "run.backend", "run.mode", "run.max_staleness", "run.straggler_wait_s", "run.iterations",
    "run.checkpoint_every", "run.keep_checkpoints", "run.keep_best", "evaluation.every", "optimizer.mini_batches",
)  # fmt: skip
_OF_ROLLOUTS = ("rollout.max_new_tokens", "rollout.env_threads", "rollout.env_processes", "rollout.deadline_s")
"""What of the section counts where success is measured."""


def load_sft_config(benchmark: str, file: Path | None, overrides: Mapping[str, str], *, model: str | None = None) -> Config:
    """The configuration of `benchmark`, as `load_config` reads it, with a run folder of its own kind.

    Where rollouts of a run with a policy are imitated and no `model` is named, that policy is the one to start from, and its agent the one
    that speaks, unless `file` or `overrides` say otherwise.
    """
    trace = overrides.get("sft.trace") or (None if file is None else lookup(read_yaml(file), "sft.trace"))
    recorded = RecordedRun.at(Path(trace)) if isinstance(trace, str) and trace != "null" else None
    below = None if recorded is None or model is not None else _policy_of(recorded)
    config = load_config(benchmark, file, overrides, model=model, below=below)
    for name in overrides:
        _refuse_idle(name, config)
    if config.run.out is not None:
        return config
    out = str(Path("runs") / f"{config.benchmark}-sft-seed{config.run.seed}")
    return config.model_copy(update={"run": config.run.model_copy(update={"out": out})})


def _policy_of(recorded: RecordedRun) -> tuple[str, dict[str, Any]] | None:
    """The settings of the policy that the run ended with, and where they stand; None where it keeps no policy."""
    if recorded.folder is None or not recorded.has_policy:
        return None
    config = recorded.folder.read_config()
    lora = config.policy.lora.model_dump(mode="json")
    policy = {"path": str(recorded.folder.path), "max_length": config.policy.max_length, "lora": lora}
    return f"in {recorded.folder.config}", {"policy": policy, "agent": config.agent.model_dump(mode="json")}


def _refuse_idle(name: str, config: Config) -> None:
    """Raise for a setting on the command line that changes nothing here."""
    if any(name == idle or name.startswith(f"{idle}.") for idle in _OF_REINFORCEMENT) or (
        name.startswith("rollout.") and name not in _OF_ROLLOUTS
    ):
        raise UsageError(f"{name} is a setting of reinforcement learning and has no effect on sft; leave it out, or give it to train")
    if config.sft.trace is None and name.startswith("optimizer."):
        raise UsageError(
            f"{name} has no effect on the demonstrator's imitation, which goes by warmstart.lr_muon and warmstart.lr_adamw; leave it out, "
            "or name recorded rollouts with --from RUN"
        )
    if config.sft.trace is not None and config.policy.path is not None and name.startswith("warmstart.") and name != "warmstart.seed":
        raise UsageError(
            f"{name} has no effect on recorded rollouts and a policy that is there, {config.policy.path}; leave it out, and set "
            "optimizer.lr, sft.epochs or sft.tokens_per_step"
        )
