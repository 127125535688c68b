"""The packages behind ALFWorld, imported on first use; importing them changes neither the environment variables nor the user's folders."""

import importlib
import importlib.util
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

VARIABLE = "ALFWORLD_DATA"


@lru_cache(maxsize=1)
def package_folder() -> Path:
    """Where the `alfworld` package lies, found without importing it."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the package alfworld is not installed; type: pip install --no-deps alfworld")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=32)
def module(name: str) -> Any:
    """A module of `alfworld` or of the packages that it stands on.

    The first import of `alfworld` makes a folder at `ALFWORLD_DATA` and sets that variable where it is not set; here it finds one that is
    there, and the variable is put back.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(package_folder())
    try:
        return importlib.import_module(name)
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


@lru_cache(maxsize=1)
def domain() -> str:
    """The planning domain that the package ships."""
    return (package_folder() / "data" / "alfred.pddl").read_text()


@lru_cache(maxsize=1)
def grammar() -> str:
    """The text grammar that the package ships; its goal is unknown."""
    return (package_folder() / "data" / "alfred.twl2").read_text()


def constants() -> Any:
    """ALFRED's kinds of objects, and what can contain and be done to which."""
    return module("alfworld.gen.constants")


def goals() -> dict[str, dict[str, Any]]:
    """ALFRED's goals by task type: `pddl`, and the `templates` of the text."""
    return module("alfworld.gen.goal_library").gdict


def layout_file(number: int, what: str) -> Path:
    """One of the files of a floor plan: `objects.json`, `openable.json` or `layout.npy`."""
    return package_folder() / "gen" / "layouts" / f"FloorPlan{number}-{what}"


def layout_data(number: int, what: str) -> Any:
    """The content of a JSON file of a floor plan."""
    return json.loads(layout_file(number, f"{what}.json").read_text())
