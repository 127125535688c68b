"""The policy that learning starts from is there when this returns: found where an earlier run left it, or made on this machine."""

from pathlib import Path

from trainer.config import Config, CriticConfig
from trainer.local_backend import local_backend
from trainer.progress import Progress
from trainer.stop_request import StopRequest
from trainer.warm_start import WarmStart, WarmStartReport


def taught_policy(config: Config, progress: Progress, stop: StopRequest) -> tuple[Path, WarmStartReport]:
    """The configuration's start policy after the warm start, and what that cost when it was made."""
    warm_start = WarmStart(config)
    with warm_start.held(progress, stop):
        report = warm_start.report()
        if report is None:
            warm_start.build(progress)
            progress.stage("starting processes", total=1)
            with local_backend(untrained(config), warm_start.initial, warm_start.initial) as backend:
                report = warm_start.teach(backend, progress, stop)
    return warm_start.policy, report


def untrained(config: Config) -> Config:
    """The same without a critic: nobody asks for values before the policy is taught."""
    return config.model_copy(update={"critic": CriticConfig()})
