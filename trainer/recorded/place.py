"""A place in a run is `TREE`, or `TREE:TURN`; a turn without its tree is one of the tree recorded last (`:TURN`)."""

import argparse
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Place:
    """A tree, and perhaps one of its turns."""

    tree: int | None = None
    """None: the tree recorded last."""
    turn: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """For `type=` of a command-line argument."""
        tree, colon, turn = text.partition(":")
        if not text or not all(part.isascii() and part.isdigit() for part in (tree, turn) if part) or (colon and not turn):
            raise argparse.ArgumentTypeError(f"{text!r} is no place; write TREE or TREE:TURN, such as 12 or 12:5")
        return cls(int(tree) if tree else None, int(turn) if turn else None)
