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
    SuccessCheckError,
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
register_env(
    "branchwise/TextWorldExpress-v0",
    "envs.adapters.textworld_express_env:TextWorldExpressEnv",
    description="The games of TextWorldExpress, with the package's solutions as the expert",
    abilities=Abilities(fork=ForkKind.REPLAY, signature=False, admissible=True, expert=True),
    needs=(
        PackageNeed("textworld_express", install="pip install 'branchwise[textworld-express]'"),
        ProgramNeed("java", install="sudo apt-get install default-jre-headless"),
    ),
    splits=("train", "valid", "test"),
    max_turns=50,
)
register_env(
    "branchwise/ScienceWorld-v0",
    "envs.adapters.scienceworld_env:ScienceWorldEnv",
    description="ScienceWorld's thirty school experiments in words, with the package's solutions as the expert",
    abilities=Abilities(fork=ForkKind.REPLAY, signature=False, admissible=True, expert=True),
    needs=(
        PackageNeed("scienceworld", install="pip install 'branchwise[scienceworld]'"),
        ProgramNeed("java", install="sudo apt-get install default-jre-headless"),
    ),
    splits=("train", "valid", "test"),
    max_turns=100,
)
_MINIGRID = (PackageNeed("minigrid", install="pip install 'branchwise[minigrid]'"),)
register_env(
    "branchwise/BabyAI-v0",
    "envs.adapters.minigrid_env:BabyAIEnv",
    description="BabyAI's missions in grids, in words, with its bot as the expert",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True, expert=True),
    needs=_MINIGRID,
    splits=("train", "test"),
    max_turns=64,
)
register_env(
    "branchwise/MiniGrid-v0",
    "envs.adapters.minigrid_env:MiniGridEnv",
    description="MiniGrid's levels in words",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True),
    needs=_MINIGRID,
    splits=("train", "test"),
    max_turns=64,
)
register_env(
    "branchwise/Bfcl-v0",
    "envs.tools.bfcl.env:BfclEnv",
    description="Multi-turn tool use: the Berkeley Function-Calling Leaderboard's conversations, APIs and checks",
    abilities=Abilities(fork=ForkKind.EXACT, expert=True),
    needs=(
        PackageNeed("bfcl_eval", install="pip install --no-deps bfcl-eval==2026.3.23"),
        PackageNeed("mpmath", install="pip install 'branchwise[bfcl]'"),
    ),
    splits=("train", "test"),
    max_turns=40,
)
register_env(
    "branchwise/Search-v0",
    "envs.search.env:SearchEnv",
    description="Questions of one to four hops about a generated corpus, or your own, that is searched by BM25",
    abilities=Abilities(fork=ForkKind.EXACT, admissible=True, expert=True),
    needs=(PackageNeed("bm25s", install="pip install 'branchwise[search]'"),),
    splits=("train", "test"),
    max_turns=15,
)

_SHOP_NEEDS = tuple(PackageNeed(module, "pip install 'branchwise[shop]'") for module in ("bm25s", "rapidfuzz"))
_BROWSER_NEEDS = (PackageNeed("playwright", "pip install 'branchwise[web]'"), BrowserNeed())

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
        *_BROWSER_NEEDS,
    ),
    splits=("train", "valid", "test"),
    max_turns=20,
)

_ALFWORLD = "pip install 'branchwise[alfworld]', which compiles a planner for some minutes with cmake, make and a C++ compiler"
register_env(
    "branchwise/ALFWorld-v0",
    "envs.alfworld.env:AlfworldEnv",
    description="The real ALFWorld engine, on games generated from what its package ships or on the official ones",
    abilities=Abilities(fork=ForkKind.EXACT, portable=False, admissible=True, expert=True),
    needs=(PackageNeed("fast_downward", _ALFWORLD, ("textworld", "alfworld")),),
    splits=("train", "valid_seen", "valid_unseen"),
    max_turns=50,
)

_MINIWOB_NEEDS = (*_BROWSER_NEEDS, PackageNeed("miniwob", "pip install --no-deps miniwob==1.1.0"))
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

register_env(
    "branchwise/Page-v0",
    "envs.web.page.env:PageEnv",
    description="Your own pages, or any site, with a check of success; three tasks at a small site if you name none",
    abilities=Abilities(fork=ForkKind.REPLAY, admissible=True),
    needs=_BROWSER_NEEDS,
    splits=("train", "test"),
    max_turns=20,
)

register_env(
    "branchwise/PageRooms-v0",
    "envs.web.page.rooms_env:RoomsEnv",
    description="Reservations at a small site of generated rooms: the example of Page-v0, with an expert",
    abilities=Abilities(fork=ForkKind.REPLAY, admissible=True, expert=True),
    needs=_BROWSER_NEEDS,
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
    "SuccessCheckError",
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
