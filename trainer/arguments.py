"""A wrong command line is one sentence, not a page of usage: the parser raises, and whoever called it decides what to print."""

import argparse
import difflib
from typing import NoReturn

from trainer.errors import UsageError


class Parser(argparse.ArgumentParser):
    """`argparse.ArgumentParser` that takes no abbreviations, keeps the line breaks of its texts, and raises `UsageError`."""

    def __init__(self, **options: object) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter, **options})  # pyright: ignore

    def error(self, message: str) -> NoReturn:
        """Called by argparse for every fault that it finds."""
        raise UsageError(f"{message}; type `{self.prog} --help`")

    def parse_known(self, arguments: list[str]) -> argparse.Namespace:
        """Parse; an option that does not exist is an error that names the nearest ones."""
        parsed, unknown = self.parse_known_args(arguments)
        if not unknown:
            return parsed
        if not unknown[0].startswith("-"):
            raise UsageError(f"{unknown[0]!r} is one argument too many; type `{self.prog} --help`")
        option = unknown[0].partition("=")[0]
        # Compared without their dashes, which all have alike.
        names = [name.removeprefix("--") for action in self._actions for name in action.option_strings if name.startswith("--")]
        close = [f"--{name}" for name in difflib.get_close_matches(option.lstrip("-"), names, n=2, cutoff=0.6)]
        hint = f"did you mean {' or '.join(close)}?" if close else f"type `{self.prog} --help`"
        raise UsageError(f"{self.prog.split()[-1]} has no option {option}; {hint}")


def count(text: str) -> int:
    """A non-negative integer, for `type=`."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no integer of at least 0")
    return int(text)
