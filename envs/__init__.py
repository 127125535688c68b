"""Text environments that can be forked in the middle of an episode: the contract, the registry, and the environments that ship."""

from envs.errors import (
    AbilityError,
    EnvironmentArgumentError,
    EnvironmentImportError,
    EnvsError,
    NoEpisodeError,
    UnknownEnvironmentError,
)
from envs.policies import ExpertPolicy, RandomPolicy, ScriptedPolicy
from envs.registry import EnvSpec, ForkKind, make, register_env, spec, specs
from envs.text_env import TextEnv
from envs.text_space import TextSpace

register_env(
    "branchwise/Household-v0",
    "envs.household.env:HouseholdEnv",
    description="Household tasks in generated rooms, with ALFWorld's six task types, actions and wording",
    fork=ForkKind.EXACT,
    admissible=True,
    expert=True,
    splits=("train", "valid_seen", "valid_unseen"),
    max_turns=50,
)

__all__ = [
    "AbilityError",
    "EnvSpec",
    "EnvironmentArgumentError",
    "EnvironmentImportError",
    "EnvsError",
    "ExpertPolicy",
    "ForkKind",
    "NoEpisodeError",
    "RandomPolicy",
    "ScriptedPolicy",
    "TextEnv",
    "TextSpace",
    "UnknownEnvironmentError",
    "make",
    "register_env",
    "spec",
    "specs",
]
