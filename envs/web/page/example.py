"""Three tasks at a small site that comes with the package, and how to solve them: an example, and something to train on."""

import re
from importlib.resources import files

from envs.web.view import PageView

FOLDER = str(files("envs.web.page").joinpath("rooms"))
TASKS = tuple(
    {"name": name, "start": "index.html", "goal": goal, "success": f"judge({{ {wanted} }})"}
    for name, goal, wanted in (
        (
            "cheapest",
            'Reserve the cheapest room for 3 nights, for "Ada", with breakfast.',
            "room: cheapest(rooms).name, nights: 3, guest: 'Ada', breakfast: true",
        ),
        (
            "cheapest-sea",
            'Reserve the cheapest room with a view of the sea for 2 nights, for "Grace", without breakfast.',
            "room: cheapest(rooms.filter((one) => one.view === 'sea')).name, nights: 2, guest: 'Grace', breakfast: false",
        ),
        (
            "named",
            'Reserve the first room of the list for 5 nights, for "Alan", without breakfast.',
            "room: rooms[0].name, nights: 5, guest: 'Alan', breakfast: false",
        ),
    )
)
_PRICE = re.compile(r"(\d+) dollars a night")


def expert_action(goal: str, view: PageView) -> str:
    """Choose the view, open the room, fill in the form, and reserve."""
    return _on_the_form(goal, view) if "/room.html" in view.url else _on_the_list(goal, view)


def _on_the_list(goal: str, view: PageView) -> str:
    box = next(control for control in view.controls if control.role == "combobox")
    if "sea" in goal and box.value != "sea":
        return f"select_option('{box.ref}', 'sea')"
    links = [control for control in view.controls if control.role == "link"]
    prices = [int(price) for price in _PRICE.findall(view.tree)]
    place = prices.index(min(prices)) if "cheapest" in goal else 0
    return f"click('{links[place].ref}')"


def _on_the_form(goal: str, view: PageView) -> str:
    controls = {control.name: control for control in view.controls}
    wanted = {"Guest": goal.split('"')[1], "Nights": goal.split(" nights")[0].split()[-1]}
    for name, value in wanted.items():
        if controls[name].value != value:
            return f"fill('{controls[name].ref}', {value!r})"
    if ("checked" in controls["Breakfast"].props) != ("with breakfast" in goal):
        return f"click('{controls['Breakfast'].ref}')"
    return f"click('{controls['Reserve'].ref}')"
