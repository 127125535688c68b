"""Actions are carried out with real mouse and keyboard events; what the page does not allow is an `ActionError`, and changes nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envs.web.view.actions import LONGEST_WAIT_MS, ActionError, WebAction

if TYPE_CHECKING:
    from playwright.async_api import Page

_DRAG_STEPS = 5
"""Moves of the mouse between the two ends of a drag; pages that follow it see more than one."""
_MODIFIERS = ("Alt", "Control", "ControlOrMeta", "Meta", "Shift")
_KEYS = frozenset(
    (
        *("Backspace", "Delete", "End", "Enter", "Escape", "Home", "Insert", "PageDown", "PageUp", "Space", "Tab", *_MODIFIERS),
        *("ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp", *(f"F{number}" for number in range(1, 13))),
    )
)


@dataclass(slots=True)
class Mouse:
    """Where the mouse of a tab is."""

    x: float = 0.0
    y: float = 0.0


async def carry_out(page: "Page", action: WebAction, mouse: Mouse) -> float | None:
    """Do it; returns the milliseconds that the page shall be given, None for the usual time."""
    return await _HANDS[action.name](page, mouse, *action.arguments)


async def _at(page: "Page", ref: int) -> dict[str, Any]:
    """Where the element is, scrolled into view."""
    point = await page.evaluate("ref => __branchwiseView.point(ref)", ref)
    if point is None:
        raise _gone(ref)
    if point["disabled"]:
        raise ActionError(f"element [{ref}] is disabled")
    return point


def _gone(ref: int) -> ActionError:
    return ActionError(f"there is no element [{ref}]")


async def _move(page: "Page", mouse: Mouse, x: float, y: float, steps: int = 1) -> None:
    await page.mouse.move(x, y, steps=steps)
    mouse.x, mouse.y = x, y


async def _click(page: "Page", mouse: Mouse, ref: int, button: Any, count: int = 1) -> None:
    point = await _at(page, ref)
    if point["tag"] == "OPTION":
        if not await page.evaluate("ref => __branchwiseView.chooseOption(ref)", ref):
            raise ActionError(f"element [{ref}] cannot be chosen")
        return
    await _mouse_click(page, mouse, point["x"], point["y"], button, count)


async def _dblclick(page: "Page", mouse: Mouse, ref: int, button: Any) -> None:
    await _click(page, mouse, ref, button, 2)


async def _mouse_click(page: "Page", mouse: Mouse, x: float, y: float, button: Any, count: int = 1) -> None:
    await page.mouse.click(x, y, button=button, click_count=count)
    mouse.x, mouse.y = x, y


async def _mouse_dblclick(page: "Page", mouse: Mouse, x: float, y: float, button: Any) -> None:
    await _mouse_click(page, mouse, x, y, button, 2)


async def _hover(page: "Page", mouse: Mouse, ref: int) -> None:
    point = await _at(page, ref)
    await _move(page, mouse, point["x"], point["y"])


async def _focus(page: "Page", mouse: Mouse, ref: int) -> None:
    if not await page.evaluate("ref => __branchwiseView.focus(ref)", ref):
        raise _gone(ref)


async def _fill(page: "Page", mouse: Mouse, ref: int, value: str) -> None:
    outcome = await page.evaluate("([ref, value]) => __branchwiseView.fill(ref, value)", [ref, value])
    if outcome == "gone":
        raise _gone(ref)
    if outcome == "refused":
        raise ActionError(f"element [{ref}] cannot be filled with that")
    if outcome == "ready":
        await (page.keyboard.insert_text(value) if value else page.keyboard.press("Delete"))


async def _clear(page: "Page", mouse: Mouse, ref: int) -> None:
    await _fill(page, mouse, ref, "")


async def _press(page: "Page", mouse: Mouse, ref: int, key: str) -> None:
    _check_key(key)
    await _focus(page, mouse, ref)
    await page.keyboard.press(key)


async def _keyboard_press(page: "Page", mouse: Mouse, key: str) -> None:
    _check_key(key)
    await page.keyboard.press(key)


def _check_key(key: str) -> None:
    """A character or a named key, after any number of modifiers, as in `Control+A`."""
    *modifiers, last = key.split("+") if key and not key.endswith("+") else [*filter(None, key[:-1].split("+")), key[-1:]]
    if not all(modifier in _MODIFIERS for modifier in modifiers) or not (last in _KEYS or (len(last) == 1 and last.isprintable())):
        raise ActionError(f"there is no key {key!r}; write one such as Enter, Tab, ArrowDown, a or Control+A")


async def _keyboard_type(page: "Page", mouse: Mouse, text: str) -> None:
    await page.keyboard.type(text)


async def _select_option(page: "Page", mouse: Mouse, ref: int, options: tuple[str, ...]) -> None:
    chosen = await page.evaluate("([ref, wanted]) => __branchwiseView.choose(ref, wanted)", [ref, list(options)])
    if chosen is None:
        raise _gone(ref)
    if not chosen:
        raise ActionError(f"element [{ref}] has no such option")


async def _drag(page: "Page", mouse: Mouse, start: int, end: int) -> None:
    here = await _at(page, start)
    there = await _at(page, end)
    await _mouse_drag(page, mouse, here["x"], here["y"], there["x"], there["y"])


async def _mouse_drag(page: "Page", mouse: Mouse, x: float, y: float, to_x: float, to_y: float) -> None:
    # A text area scrolls of itself for as long as the mouse is held beyond its edge, which is a matter of real time.
    to_x, to_y = await page.evaluate("([x, y, toX, toY]) => __branchwiseView.within(x, y, toX, toY)", [x, y, to_x, to_y])
    await _move(page, mouse, x, y)
    await page.mouse.down()
    await _move(page, mouse, to_x, to_y, _DRAG_STEPS)
    await page.mouse.up()


async def _scroll(page: "Page", mouse: Mouse, dx: float, dy: float) -> None:
    if not await page.evaluate("([x, y, dx, dy]) => __branchwiseView.scroll(x, y, dx, dy)", [mouse.x, mouse.y, dx, dy]):
        raise ActionError("nothing scrolls that way under the mouse; hover over what shall scroll")
    await page.evaluate("__branchwise.frames(2)")  # Pages are told of a scroll with the next frame.


async def _noop(page: "Page", mouse: Mouse, wait_ms: float) -> float:
    if not 0 <= wait_ms <= LONGEST_WAIT_MS:
        raise ActionError(f"wait between 0 and {LONGEST_WAIT_MS} milliseconds")
    return wait_ms


async def _goto(page: "Page", mouse: Mouse, url: str) -> None:
    from playwright.async_api import Error

    try:
        await page.goto(url, wait_until="commit")
    except Error as error:
        raise ActionError(f"{url} cannot be loaded") from error


async def _go_back(page: "Page", mouse: Mouse) -> None:
    await _along_history(page, -1)


async def _go_forward(page: "Page", mouse: Mouse) -> None:
    await _along_history(page, 1)


async def _along_history(page: "Page", by: int) -> None:
    """To the page before or after this one. Playwright's own way waits for pages that are already there as if they were loaded."""
    session = await page.context.new_cdp_session(page)
    try:
        history = await session.send("Page.getNavigationHistory")
        at = history["currentIndex"] + by
        if not 0 <= at < len(history["entries"]):
            raise ActionError(f"there is no page to go {'back' if by < 0 else 'forward'} to")
        await session.send("Page.navigateToHistoryEntry", {"entryId": history["entries"][at]["id"]})
    finally:
        await session.detach()


_HANDS: dict[str, Callable[..., Awaitable[Any]]] = {
    "click": _click,
    "dblclick": _dblclick,
    "hover": _hover,
    "focus": _focus,
    "fill": _fill,
    "clear": _clear,
    "press": _press,
    "select_option": _select_option,
    "drag_and_drop": _drag,
    "scroll": _scroll,
    "noop": _noop,
    "mouse_move": _move,
    "mouse_click": _mouse_click,
    "mouse_dblclick": _mouse_dblclick,
    "mouse_drag_and_drop": _mouse_drag,
    "keyboard_press": _keyboard_press,
    "keyboard_type": _keyboard_type,
    "goto": _goto,
    "go_back": _go_back,
    "go_forward": _go_forward,
}
