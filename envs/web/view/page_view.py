"""A page as text, with a number for each element that can be named in an action, and as a state that can be compared."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

VIEW_SCRIPT = f"({files('envs.web.view').joinpath('view.js').read_text(encoding='utf-8')})()"
"""JavaScript that offers `__branchwiseView`; to run before any script of the page."""
OBSERVE = "settings => __branchwiseView.observe(settings)"
"""JavaScript that gives what `PageView.of` reads."""
_QUOTED = re.compile(r'"([^"]*)"')
_WORD = re.compile(r"[\w@#.'/:$-]*\w")
_MOST_WORDS = 12
"""Words of a task that are offered for filling in."""
_FILLED = frozenset({"textbox", "searchbox", "spinbutton"})
_PRESSED = frozenset(
    {
        "button",
        "link",
        "checkbox",
        "radio",
        "option",
        "tab",
        "menuitem",
        "menuitemcheckbox",
        "menuitemradio",
        "switch",
        "treeitem",
        "gridcell",
    }
    | {"clickable", "heading", "canvas", "img", "circle", "rect", "ellipse", "polygon", "polyline", "path", "line", "image", "text"}
    | {"listitem", "cell", "label", "slider"}
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What of a page is left out."""

    skip: str = ""
    """CSS selector of elements that are no part of the task."""
    ignored: tuple[str, ...] = ()
    """Global variables that are no part of the state."""

    def json(self) -> dict[str, Any]:
        """As `OBSERVE` takes it."""
        return json.loads(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class Control:
    """One line of the tree."""

    ref: int
    role: str
    props: tuple[str, ...]
    """What follows the name in the tree, such as `checked` or `value="5"`."""
    name: str
    options: tuple[str, ...]
    """Of a `<select>`."""

    @property
    def value(self) -> str:
        """What is written or chosen in it; of a password, as many asterisks."""
        return next((json.loads(prop.removeprefix("value=")) for prop in self.props if prop.startswith("value=")), "")


@dataclass(frozen=True, slots=True)
class PageView:
    """A page at one moment."""

    tree: str
    """One element a line, indented: `[2] button "Submit" focused`."""
    controls: tuple[Control, ...]
    digest: str
    """Equal for pages that look alike, hold the same values, have the same variables and wait for the same timers."""
    url: str
    title: str

    @classmethod
    def of(cls, said: dict[str, Any]) -> "PageView":
        """From what `OBSERVE` gives."""
        controls = tuple(Control(ref, role, tuple(props), name, tuple(options)) for ref, role, props, name, options in said["controls"])
        digest = hashlib.sha256(said["state"].encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return cls(said["tree"], controls, digest, said["url"], said["title"])

    def actions(self, words: tuple[str, ...]) -> list[str]:
        """What can be done with the elements of the tree, fields being filled with `words`; sorted."""
        found = {"noop()"}
        for control in self.controls:
            if "disabled" in control.props:
                continue
            if control.role in _FILLED:
                found.update(f"fill('{control.ref}', {word!r})" for word in words)
                found.add(f"press('{control.ref}', 'Enter')")
            if control.options:
                found.update(f"select_option('{control.ref}', {option!r})" for option in control.options)
            elif control.role in _PRESSED | _FILLED:
                found.add(f"click('{control.ref}')")
        return sorted(found)


def quoted_words(task: str) -> tuple[str, ...]:
    """What of a task is worth writing into a field: what it quotes, else its words."""
    quoted = _QUOTED.findall(task)
    return tuple(dict.fromkeys(quoted or _WORD.findall(task)))[:_MOST_WORDS]
