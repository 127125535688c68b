"""The console of every verb: texts are printed as they are, and a reader that leaves early ends the program like any other broken pipe."""

from typing import Any, NoReturn

import rich.console


class Console(rich.console.Console):
    """`rich.console.Console` that highlights nothing by itself, and raises `BrokenPipeError` where rich would exit with 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, **options})

    def on_broken_pipe(self) -> NoReturn:
        """Called by rich while it handles the `BrokenPipeError`."""
        raise BrokenPipeError
