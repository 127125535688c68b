"""Whether a task is solved is asked after every action: a JavaScript expression in the page, or a Python function of what is seen.

The answer is true or false, or a number that is the reward; anything but false, 0 and null ends the episode.
"""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envs.errors import EnvironmentArgumentError, SuccessCheckError

if TYPE_CHECKING:
    from playwright.async_api import Page

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_SEE = """
() => ({ url: location.href, title: document.title, text: document.body?.innerText ?? '', html: document.documentElement.outerHTML })
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a Python function is given."""

    url: str
    title: str
    text: str
    """What the page shows."""
    html: str
    """The page as it is now, not as it was loaded."""
    answer: str | None
    """What was said with `send_msg_to_user`, which ends the episode; None: nothing yet."""


@dataclass(frozen=True, slots=True)
class SuccessCheck:
    """Made by `parse`."""

    source: str
    """As it was given."""
    function: Callable[[Seen], Any] | None
    """None: the source is JavaScript."""

    @classmethod
    def parse(cls, source: Any) -> "SuccessCheck":
        """`module:function`, or a JavaScript expression in which `answer` is what was said, or null."""
        if not isinstance(source, str) or not source.strip():
            raise EnvironmentArgumentError(
                f"success is {source!r}; it must be a JavaScript expression such as \"document.title === 'Done'\", or module:function"
            )
        if not _FUNCTION.fullmatch(source.strip()):
            return cls(source, None)
        module, _, name = source.strip().partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise EnvironmentArgumentError(f"success is {source!r}, which cannot be imported ({error}); correct the name") from error
        if not callable(function):
            raise EnvironmentArgumentError(f"success is {source!r}, which is no function; name one that takes what is seen of the page")
        return cls(source, function)

    async def reward(self, page: "Page", answer: str | None) -> float:
        """0 while the task is not solved; `SuccessCheckError` where the check itself fails."""
        from playwright.async_api import Error

        try:
            if self.function is None:
                said = await page.evaluate(f"(answer) => ({self.source}\n)", answer)
            else:
                said = self.function(Seen(**await page.evaluate(_SEE), answer=answer))
        except Error as error:
            raise SuccessCheckError(f"the check {self.source!r} fails in {page.url}: {str(error).strip().splitlines()[0]}") from error
        except Exception as error:
            raise SuccessCheckError(f"the check {self.source!r} fails for {page.url}: {type(error).__name__}: {error}") from error
        if said is None or isinstance(said, bool):
            return float(bool(said))
        if not isinstance(said, int | float) or not -1e9 < said < 1e9:
            raise SuccessCheckError(f"the check {self.source!r} gave {said!r}; it must give true, false, null or a number")
        return float(said)
