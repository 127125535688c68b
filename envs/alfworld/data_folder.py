"""ALFWorld's data folder: `json_2.1.1/SPLIT/TASK/TRIAL/` with `game.tw-pddl` and `traj_data.json`; read, and written in the same form."""

import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from envs.alfworld.engine_package import VARIABLE
from envs.alfworld.game import Game, Parameters
from envs.errors import EnvironmentArgumentError, MissingNeedError
from envs.needs import DataNeed
from envs.task_type import SPLITS, TaskType

GAMES = "json_2.1.1"
NEED = DataNeed("ALFWorld's games", VARIABLE, install=f"alfworld-download (and set {VARIABLE} to its folder)", contains=(GAMES,))
_TASK = re.compile(r"Your task is to: ((?:[^\"\\]|\\.)*?)\.?(?=\")")


def folder() -> Path:
    """The user's data folder; `MissingNeedError` where there is none."""
    found = NEED.folder
    if found is None or not NEED.is_met():
        raise MissingNeedError(f"games='official' needs {NEED.what}, which is missing: type {NEED.install}; or choose games='generated'")
    return found


def draw(rng: np.random.Generator, split: str, types: tuple[TaskType, ...]) -> Game:
    """Draw a game of the split; as ALFWorld does, what is not solvable, or needs slicing or a movable receptacle, is passed over."""
    root = folder()
    found = _trials(root, split, types)
    for index in rng.permutation(len(found)):
        game = read(found[int(index)])
        if game is not None:
            return game
    raise EnvironmentArgumentError(
        f"{root / GAMES / split} has no solvable game of the types {', '.join(types)}; choose other task_types, or games='generated'"
    )


@lru_cache(maxsize=16)
def _trials(root: Path, split: str, types: tuple[TaskType, ...]) -> tuple[Path, ...]:
    """Folders of the games of a split, sorted."""
    wanted = tuple(f"{type}-" for type in types)
    tasks = sorted(entry.name for entry in os.scandir(root / GAMES / split)) if (root / GAMES / split).is_dir() else []
    tasks = [name for name in tasks if name.startswith(wanted) and "movable" not in name and "Sliced" not in name]
    return tuple(file.parent for name in tasks for file in sorted((root / GAMES / split / name).glob("*/game.tw-pddl")))


def read(trial: Path) -> Game | None:
    """The game in a trial's folder; None where it is known not to be solvable, or was never tried."""
    data: dict[str, Any] = json.loads((trial / "game.tw-pddl").read_text())
    if not data.get("solvable"):
        return None
    task = json.loads((trial / "traj_data.json").read_text())
    wanted = task["pddl_params"]
    grammar: str = data["grammar"]
    said = _TASK.search(grammar)
    goal = json.loads(f'"{said[1]}"') if said else "UNKNOWN GOAL"
    if said:
        # Games differ in the task alone: with that taken out, their grammar is parsed once.
        grammar = grammar[: said.start(1)] + "UNKNOWN GOAL" + grammar[said.end(1) :]
    parameters = Parameters(wanted["object_target"], wanted["parent_target"], wanted["toggle_target"])
    return Game(
        f"{trial.parent.name}/{trial.name}",
        TaskType(task["task_type"]),
        parameters,
        goal,
        data["pddl_problem"],
        data["pddl_domain"],
        grammar,
    )


def write(game: Game, root: Path, split: str, trial: str, walkthrough: list[str] | None) -> Path:
    """Write a game, so that ALFWorld and `read` find it; the folder of the trial. `walkthrough`: commands that solve it, where known."""
    if split not in SPLITS:
        raise EnvironmentArgumentError(f"split is {split!r}; choose one of {', '.join(SPLITS)}")
    at = root / GAMES / split / game.name / trial
    at.mkdir(parents=True)
    content = {
        "pddl_domain": game.domain,
        "grammar": game.grammar.replace("UNKNOWN GOAL", game.goal),
        "pddl_problem": game.problem,
        "solvable": walkthrough is not None,
        "walkthrough": walkthrough,
    }
    (at / "game.tw-pddl").write_text(json.dumps(content))
    (at / "initial_state.pddl").write_text(game.problem)
    task = {"task_type": str(game.type), "task_id": trial, "pddl_params": game.parameters.as_dict(), "turk_annotations": {"anns": []}}
    (at / "traj_data.json").write_text(json.dumps(task))
    return at
