"""ALFWorld's task types and splits, which the real engine and the household have in common."""

from collections.abc import Sequence
from enum import StrEnum

from envs.errors import EnvironmentArgumentError, nearest

SPLITS = ("train", "valid_seen", "valid_unseen")


class TaskType(StrEnum):
    """ALFWorld's six types."""

    PLACE = "pick_and_place_simple"
    LOOK = "look_at_obj_in_light"
    CLEAN = "pick_clean_then_place_in_recep"
    HEAT = "pick_heat_then_place_in_recep"
    COOL = "pick_cool_then_place_in_recep"
    TWO = "pick_two_obj_and_place"

    @property
    def transform(self) -> str | None:
        """What must be done to the object: clean, heat, cool or nothing."""
        return _TRANSFORMS.get(self)


_TRANSFORMS = {TaskType.CLEAN: "clean", TaskType.HEAT: "heat", TaskType.COOL: "cool"}


def named_types(names: Sequence[str]) -> tuple[TaskType, ...]:
    """The named types in the order given, which with the seed decides the task; one that is unknown or named twice is an error."""
    for index, name in enumerate(names):
        if name not in list(TaskType):
            raise EnvironmentArgumentError(f"task type {name!r} is unknown; {nearest(str(name), list(TaskType))}")
        if name in names[:index]:
            raise EnvironmentArgumentError(f"task type {str(name)!r} is named twice in task_types; name it once")
    return tuple(TaskType(name) for name in names)
