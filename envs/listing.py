"""What programs and people are told about the registered environments, from the registry and this machine as they are now."""

from dataclasses import asdict
from typing import Any

from envs.needs import unmet
from envs.registry import EnvSpec


def description(spec: EnvSpec) -> dict[str, Any]:
    """One environment as JSON values; `ready` is true where all of its needs are met."""
    missing = unmet(spec.needs)
    return {
        "id": spec.id,
        "description": spec.description,
        "abilities": {name: value if isinstance(value, bool) else str(value) for name, value in asdict(spec.abilities).items()},
        "splits": list(spec.splits),
        "max_turns": spec.max_turns,
        "needs": [{"what": need.what, "install": need.install, "met": need not in missing} for need in spec.needs],
        "ready": not missing,
    }
