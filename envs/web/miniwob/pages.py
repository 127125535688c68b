"""Which pages there are, and what is known of each: `pages.json` is measured by `scripts/miniwob_pages.py`, page by page."""

import importlib.util
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from envs.errors import EnvironmentArgumentError, MissingNeedError, nearest

_SHEET = re.compile(r"""<link[^>]*href=["']([^"']+\.css)["']""")
_IMAGE = re.compile(r"""(?:url\(\s*["']?|src=["'])([^"')]+\.(?:png|gif|jpe?g|svg))""")
INSTALL = "pip install --no-deps miniwob"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the package."""

    name: str
    stable: bool
    """The same seed gives the same episode, in any tab and after any other episode."""
    reload: bool
    """It is stable only where it is loaded anew for each episode."""


PAGES: dict[str, Page] = {
    name: Page(name, **known) for name, known in json.loads(files("envs.web.miniwob").joinpath("pages.json").read_text("utf-8")).items()
}
"""All pages by name."""
STABLE = tuple(name for name, page in PAGES.items() if page.stable)
"""Names of those that are played if none are named."""


def chosen_pages(tasks: Any) -> tuple[str, ...]:
    """The pages that a user names, in that order, which with the seed decides the task; all stable ones for None."""
    if tasks is None:
        return STABLE
    if isinstance(tasks, str):
        tasks = [tasks]
    if not isinstance(tasks, list | tuple) or not tasks:
        raise EnvironmentArgumentError(f"tasks is {tasks!r}; it must be a list of pages such as [click-test, enter-text]")
    for name in tasks:
        if name not in PAGES:
            raise EnvironmentArgumentError(f"MiniWoB has no page {name!r}; {nearest(str(name), PAGES)}")
        if not PAGES[name].stable:
            raise EnvironmentArgumentError(
                f"the page {name} does not give the same episode for the same seed, so it cannot be forked; choose another"
            )
    if len(set(tasks)) != len(tasks):
        raise EnvironmentArgumentError(f"tasks is {tasks!r}; name each page once")
    return tuple(tasks)


@cache
def folder() -> Path:
    """Where the package `miniwob` has its pages; it is not imported, since its dependencies are not needed."""
    spec = importlib.util.find_spec("miniwob")
    found = spec.submodule_search_locations if spec is not None else None
    if not found:
        raise MissingNeedError(f"MiniWoB++ needs the Python package miniwob; type: {INSTALL}")
    return Path(next(iter(found))) / "html" / "miniwob"


@cache
def images(page: Page) -> tuple[str, ...]:
    """Addresses of the pictures that the page and its style sheets name; some are shown, and change the layout, only after an action."""
    found: dict[str, None] = {}
    html = folder() / f"{page.name}.html"
    sheets = [(html.parent / name).resolve() for name in _SHEET.findall(html.read_text("utf-8"))]
    for file in [html, *filter(Path.is_file, sheets)]:
        for name in _IMAGE.findall(unquote(file.read_text("utf-8"))):
            picture = (file.parent / name).resolve()
            if picture.is_file():
                found[picture.as_uri()] = None
    return tuple(found)


def page_url(page: Page) -> str:
    """Address of a page."""
    return (folder() / f"{page.name}.html").as_uri()
