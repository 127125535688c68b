"""Weight decay pulls at matrices that mix features, and leaves alone what has a scale of its own: norms, biases, and token embeddings.

An embedding's row is learned from where its token occurs, but would decay at every step; and one that is also the output layer sets how
sure the policy is, which is for the loss to say.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from trainer.config import OptimizerConfig
from trainer.errors import ConfigError
from trainer.trained_model import named_trained


def decay_groups(parameters: Mapping[str, nn.Parameter], model: PreTrainedModel, settings: OptimizerConfig) -> list[dict[str, Any]]:
    """Groups for an optimizer: those with the weight decay of the settings, and those without; a group without members is left out.

    `parameters` are what the optimizer sees of the model's trained parameters, by their names in the model. Raises `ConfigError` for a
    pattern of `optimizer.no_decay` that no name matches.
    """
    spared = _spared(model) if settings.no_decay is None else _matching(settings.no_decay, list(parameters))
    decayed = [(name, parameter) for name, parameter in parameters.items() if name not in spared]
    others = [(name, parameter) for name, parameter in parameters.items() if name in spared]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def _spared(model: PreTrainedModel) -> set[str]:
    embedding: Any = model.get_input_embeddings()
    return {name for name, parameter in named_trained(model).items() if parameter.ndim < 2 or parameter is embedding.weight}


def _matching(patterns: list[str], names: list[str]) -> set[str]:
    chosen: set[str] = set()
    for pattern in patterns:
        matched = {name for name in names if fnmatchcase(name, pattern)}
        if not matched:
            few = ", ".join(names[:3])
            raise ConfigError(
                f"optimizer.no_decay {pattern!r} matches no trained parameter; their names are {few}, ... ({len(names)} in all)"
            )
        chosen |= matched
    return chosen
