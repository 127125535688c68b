"""A task is where to begin, what to do, and how to tell that it is done; the same in a configuration and in Python."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from envs.errors import EnvironmentArgumentError, nearest
from envs.web.page.site import Site
from envs.web.page.success import SuccessCheck

_REQUIRED = ("start", "goal", "success")
_OPTIONAL = ("name",)


@dataclass(frozen=True, slots=True)
class PageTask:
    """One task."""

    name: str
    """The kind of task, for statistics."""
    url: str
    goal: str
    """In words, as the agent is told."""
    success: SuccessCheck


def parse_tasks(tasks: Any, site: Site) -> tuple[PageTask, ...]:
    """From a user's list of tables; what is missing, unknown or out of reach is an `EnvironmentArgumentError`."""
    if not isinstance(tasks, list | tuple) or not tasks:
        raise EnvironmentArgumentError(f"tasks is {tasks!r}; it must be a list of tables with start, goal and success")
    return tuple(_task(f"task {number}", table, site) for number, table in enumerate(tasks, 1))


def _task(which: str, table: Any, site: Site) -> PageTask:
    if not isinstance(table, dict):
        raise EnvironmentArgumentError(f"{which} is {table!r}; it must be a table with start, goal and success")
    for key in table:
        if key not in (*_REQUIRED, *_OPTIONAL):
            raise EnvironmentArgumentError(f"{which} has {key!r}, which means nothing; {nearest(str(key), (*_REQUIRED, *_OPTIONAL))}")
    for key in _REQUIRED:
        if key not in table:
            raise EnvironmentArgumentError(f"{which} has no {key}; give it start (a page), goal (text) and success (a check)")
    _texts(which, ((key, table[key]) for key in ("start", "goal")))
    name = table.get("name", which.replace(" ", "-"))
    _texts(which, [("name", name)])
    try:
        return PageTask(name, site.address(table["start"]), table["goal"], SuccessCheck.parse(table["success"]))
    except EnvironmentArgumentError as error:
        raise EnvironmentArgumentError(f"{which}: {error}") from error


def _texts(which: str, entries: Iterable[tuple[str, Any]]) -> None:
    for key, value in entries:
        if not isinstance(value, str) or not value.strip():
            raise EnvironmentArgumentError(f"{key} of {which} is {value!r}; it must be text")
