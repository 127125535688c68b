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

WEB_NEEDS = (PackageNeed("playwright", 'pip install "branchwise[web]"'), BrowserNeed())
"""What environments in web pages need."""
_MINIWOB_NEEDS = (*WEB_NEEDS, PackageNeed("miniwob", "pip install --no-deps miniwob"))

register_env(
    "branchwise/Household-v0",
    "envs.household.env:HouseholdEnv",
    description="Household tasks in generated rooms, with ALFWorld's six task types, actions and wording",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True, expert=True),
    splits=("train", "valid_seen", "valid_unseen"),
    max_turns=50,
)

register_env(
    "branchwise/MiniWob-v0",
    "envs.web.miniwob.env:MiniWobEnv",
    description="MiniWoB++: small tasks in web pages, in a real browser",
    abilities=Abilities(fork=ForkKind.REPLAY, admissible=True),
    needs=_MINIWOB_NEEDS,
    splits=("train", "test"),
    max_turns=20,
)

register_env(
    "branchwise/MiniWobBasics-v0",
    "envs.web.miniwob.basics:MiniWobBasicsEnv",
    description="MiniWoB++: the pages that a scripted expert solves",
    abilities=Abilities(fork=ForkKind.REPLAY, admissible=True, expert=True),
    needs=_MINIWOB_NEEDS,
    splits=("train", "test"),
    max_turns=12,
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
