"""A game is text alone: what the planner and the grammar need, and what the expert is told. Equal games are the same game."""

from dataclasses import dataclass

from envs.task_type import TaskType


@dataclass(frozen=True, slots=True)
class Parameters:
    """What the goal is about, in ALFRED's spelling; empty where the type has no such thing."""

    object_target: str
    parent_target: str = ""
    toggle_target: str = ""

    def as_dict(self) -> dict[str, str | bool]:
        """The `pddl_params` of ALFRED's `traj_data.json`."""
        return {
            "object_target": self.object_target,
            "parent_target": self.parent_target,
            "toggle_target": self.toggle_target,
            "mrecep_target": "",
            "object_sliced": False,
        }


@dataclass(frozen=True, slots=True)
class Game:
    """One game of ALFWorld."""

    name: str
    """Says where it comes from, for example `pick_and_place_simple-Mug-None-Desk-308`."""
    type: TaskType
    parameters: Parameters
    goal: str
    """The task in words, without a full stop."""
    problem: str
    """PDDL: objects, first state and goal."""
    domain: str
    """PDDL: actions."""
    grammar: str
    """TextWorld's grammar; its task is `UNKNOWN GOAL`, so that all games of one grammar share its parsed form."""
