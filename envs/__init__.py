"""Text environments that can be forked in the middle of an episode: the contract, the registry, and the environments that ship."""

from envs.abilities import Abilities, ForkKind
from envs.checking.check_env import check_env
from envs.checking.report import CheckReport, CheckResult, CounterExample
from envs.errors import (
    AbilityError,
    EnvironmentArgumentError,
    EnvironmentImportError,
    EnvsError,
    ForkLimitError,
    MissingNeedError,
    NoEpisodeError,
    UnknownEnvironmentError,
)
from envs.needs import BrowserNeed, DataNeed, DockerNeed, Need, PackageNeed, ProgramNeed
from envs.policies import ExpertPolicy, RandomPolicy, ScriptedPolicy
from envs.registry import EnvSpec, full_id, make, make_bare, register_env, spec, specs
from envs.text_env import TextEnv
from envs.text_space import TextSpace

register_env(
    "branchwise/Household-v0",
    "envs.household.env:HouseholdEnv",
    description="Household tasks in generated rooms, with ALFWorld's six task types, actions and wording",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True, expert=True),
    splits=("train", "valid_seen", "valid_unseen"),
    max_turns=50,
)

_ALFWORLD = "pip install 'branchwise[alfworld]' (its planner is compiled: cmake, make and a C++ compiler are needed)"
register_env(
    "branchwise/ALFWorld-v0",
    "envs.alfworld.env:AlfworldEnv",
    description="The real ALFWorld engine, on games generated from what its package ships or on the official ones",
    abilities=Abilities(fork=ForkKind.EXACT, portable=False, admissible=True, expert=True),
    needs=tuple(PackageNeed(module, _ALFWORLD) for module in ("alfworld", "textworld", "fast_downward")),
    splits=("train", "valid_seen", "valid_unseen"),
    max_turns=50,
)

__all__ = [
    "Abilities",
    "AbilityError",
    "BrowserNeed",
    "CheckReport",
    "CheckResult",
    "CounterExample",
    "DataNeed",
    "DockerNeed",
    "EnvSpec",
    "EnvironmentArgumentError",
    "EnvironmentImportError",
    "EnvsError",
    "ExpertPolicy",
    "ForkKind",
    "ForkLimitError",
    "MissingNeedError",
    "Need",
    "NoEpisodeError",
    "PackageNeed",
    "ProgramNeed",
    "RandomPolicy",
    "ScriptedPolicy",
    "TextEnv",
    "TextSpace",
    "UnknownEnvironmentError",
    "check_env",
    "full_id",
    "make",
    "make_bare",
    "register_env",
    "spec",
    "specs",
]
