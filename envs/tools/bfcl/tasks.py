"""The tasks that the package ships: four categories of the same 200 scenarios, split by the scenario's number."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING

from envs.errors import EnvironmentImportError
from envs.tools.bfcl.apis import Apis, load_apis, named, run
from envs.tools.bfcl.calls import Call, read_call

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
SPLITS = ("train", "test")
_TEST_EVERY = 5


@dataclass(frozen=True, slots=True)
class GoldTurn:
    """What the right calls of one user turn lead to."""

    calls: tuple[Call, ...]
    """() where the user asks for something that cannot be done yet."""
    answers: tuple[str, ...]
    apis: Apis
    """The state after them."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One conversation."""

    id: str
    category: str
    requests: tuple[str, ...]
    """What the user says in each turn."""
    tools: dict[str, dict[str, Any]]
    """Descriptions of all tools by name."""
    withheld: dict[str, int]
    """The turn from which on a tool is listed, for those that are not listed from the start."""
    apis: Apis
    """The state at the start."""
    gold: tuple[GoldTurn, ...]

    def added(self, turn: int) -> dict[str, dict[str, Any]]:
        """Descriptions of the tools that are listed from this turn on."""
        return {name: tool for name, tool in self.tools.items() if self.withheld.get(name, 0) == turn}


def numbers(split: str) -> list[int]:
    """Numbers of the scenarios of a split: every fifth is for testing, in all categories, since they share their scenarios."""
    count = min(len(_rows(f"BFCL_v4_multi_turn_{category}.json")) for category in CATEGORIES)
    return [number for number in range(count) if (number % _TEST_EVERY == _TEST_EVERY - 1) == (split == "test")]


@lru_cache(maxsize=256)
def task(category: str, number: int) -> Task:
    """One task with the outcome of its right calls."""
    row = _rows(f"BFCL_v4_multi_turn_{category}.json")[number]
    gold = _rows(f"possible_answer/BFCL_v4_multi_turn_{category}.json")[number]
    if row["id"] != gold["id"]:
        raise EnvironmentImportError(f"task {number} of {category} in bfcl-eval has the answer of another; reinstall bfcl-eval")
    apis = load_apis(row["involved_classes"], row["initial_config"], category == "long_context")
    tools = {tool["name"]: tool for name in row["involved_classes"] for tool in _rows(f"multi_turn_func_doc/{_docs(name)}")}
    return Task(
        id=row["id"],
        category=category,
        requests=tuple(
            "\n".join(said["content"] for said in turn) or DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC for turn in row["question"]
        ),
        tools=tools,
        withheld={name: int(turn) for turn, names in row.get("missed_function", {}).items() for name in names},
        apis=apis,
        gold=_gold(apis, gold["ground_truth"]),
    )


def _gold(apis: Apis, turns: list[list[str]]) -> tuple[GoldTurn, ...]:
    gold = []
    for turn in turns:
        calls = tuple(named(apis, read_call(text)) for text in turn)
        apis, answers = run(apis, calls)
        gold.append(GoldTurn(calls, answers, apis))
    return tuple(gold)


def _docs(name: str) -> str:
    return MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]


@lru_cache(maxsize=64)
def _rows(name: str) -> list[dict[str, Any]]:
    """The JSON lines of a file of the package."""
    spec = find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentImportError("the package bfcl_eval has no folder; reinstall bfcl-eval")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    try:
        with path.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise EnvironmentImportError(f"{name} of bfcl-eval cannot be read ({error}); install bfcl-eval==2026.3.23") from error
