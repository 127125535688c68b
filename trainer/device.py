"""A device that is asked for is there, or is one sentence before any model is loaded; nothing moves to another one by itself."""

import torch

from trainer.errors import ConfigError

CPU = torch.device("cpu")


def device_of(name: str, setting: str, place: int = 0) -> torch.device:
    """The device that the setting called `name` means in process number `place` of a machine's.

    `cuda` deals the processes over the GPUs that they see. Raises `ConfigError` where PyTorch finds none, or not the one that is named.
    """
    if setting == "cpu" or (setting == "auto" and not torch.cuda.is_available()):
        return CPU
    if not torch.cuda.is_available():
        why = "is built without CUDA" if torch.version.cuda is None else "finds no GPU on this machine"
        raise ConfigError(f"{name} {setting} needs a GPU, and PyTorch {torch.__version__} {why}; set {name} to cpu, or to auto")
    count = torch.cuda.device_count()
    _, _, index = setting.partition(":")
    if index and int(index) >= count:
        raise ConfigError(f"{name} {setting} is not there: this machine's GPUs are cuda:0 to cuda:{count - 1}; name one of them, or cuda")
    return torch.device("cuda", int(index) if index else place % count)
