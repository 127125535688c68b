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

_SHOP_NEEDS = tuple(PackageNeed(module, "pip install 'branchwise[shop]'") for module in ("bm25s", "rapidfuzz"))

register_env(
    "branchwise/Shop-v0",
    "envs.web.shop.env:ShopEnv",
    description="Buy what an instruction asks for in a WebShop-like shop with a generated catalogue; pages as text",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True, expert=True),
    needs=_SHOP_NEEDS,
    splits=("train", "valid", "test"),
    max_turns=20,
)

register_env(
    "branchwise/ShopBrowser-v0",
    "envs.web.shop.browser_env:ShopBrowserEnv",
    description="The same shop in headless Chromium: actions are typed and clicked in pages of a local web server",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True, expert=True),
    needs=(
        *_SHOP_NEEDS,
        PackageNeed("jinja2", "pip install 'branchwise[shop]'"),
        PackageNeed("playwright", "pip install 'branchwise[web]'"),
        BrowserNeed(),
    ),
    splits=("train", "valid", "test"),
    max_turns=20,
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
