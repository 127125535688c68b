"""Settings of credit assignment."""

from typing import Literal

from pydantic import JsonValue

from trainer.config.section import Section


class CreditConfig(Section):
    """How outcomes become one advantage per turn."""

    method: str = "rtmc"
    """Estimator of advantages, by name."""
    weighting: Literal["path", "leaf"] = "path"
    """What a rollout counts: `path` shares each turn's weight among its continuations, which forks do not bias; `leaf` is always 1."""
    settings: dict[str, JsonValue] = {}
    """The estimator's own settings, by name."""
    signature: str = "env"
    """How a state is recognised: `env`, `observation`, `normalised`, `actions`, `similar`, `window`, or your own `module:function`."""
    signature_settings: dict[str, JsonValue] = {}
    """The signature's own settings, by name."""
