"""`normalised`: observations are one state when they differ only in case, spacing, the order of a listing and, if asked, numbers or ids.

The rule is ours (reconstructed), in this order:

1. Unicode form NFKC, case-folded; every run of white space within a line is one space; empty lines are dropped.
2. `mask="ids"` writes `#` for each UUID, each word of `0x` and hexadecimal digits, and each word of at least 7 hexadecimal digits that has
   a digit and a letter in it. `mask="numbers"` does the same, and writes `#` for each remaining run of digits as well.
3. The items of a listing are sorted, each kept as often as it is named. A listing is one of
   - consecutive lines that begin with the same bullet (`-`, `*` or `•`);
   - what follows a colon in a clause and has a comma in it (`exits: north, south`), cut at commas, and its last part at `and`, `or`;
   - otherwise at least two neighbouring parts of a clause (cut at commas, `and`, `or`) that begin with `a`, `an`, `some` or `the`. Of the
     part before the first such part, what stands from its last `a`, `an` or `some` on (else its last `the`) is the first item.
   A clause is a piece of a line up to `.`, `;`, `!` or `?` before a space or the line's end.

So "You see a mug 1, and an apple 2." equals "you see an apple 2, a mug 1."; words outside of listings keep their order.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from tree_rollout.errors import SignatureError
from tree_rollout.signatures.signature import Signed, by_observation
from tree_rollout.tree import TrajectoryTree

Mask = Literal["none", "ids", "numbers"]

_UUID = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
_HEX = r"\b0x[0-9a-f]+\b|\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}\b"
_ID = re.compile(f"{_UUID}|{_HEX}")
_CLAUSE_END = re.compile(r"([.;!?]+)(?= |$)")
_COMMA = re.compile(r" ?, ?(?:and |or )?")
_WORD = re.compile(r" (?:and|or) ")
_JOINT = re.compile(f"{_COMMA.pattern}|{_WORD.pattern}")
_ITEM = re.compile(r"(?:a|an|some|the) ")
_LAST_ITEM = (re.compile(r"(?:.* )?(?=(?:a|an|some) )"), re.compile(r"(?:.* )?(?=the )"))


@dataclass(frozen=True, slots=True)
class Normalised:
    """The observation without what seldom matters; see the module for the exact rule."""

    name = "normalised"
    mask: Mask = "none"
    """What `#` stands for: `none`, `ids`, or `numbers` (ids included). Numbers that tell things apart ("mug 1") are masked too."""

    def __post_init__(self) -> None:
        if self.mask not in get_args(Mask):
            raise SignatureError(f"normalised: mask is {self.mask!r}; give one of {', '.join(get_args(Mask))}")

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """Normalised observations; ends as in `by_observation`."""
        return by_observation(tree, lambda text: normalise(text, self.mask))


def normalise(text: str, mask: Mask = "none") -> str:
    """The text as the module's rule writes it."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    lines = [" ".join(line.split()) for line in folded.splitlines()]
    if mask != "none":
        lines = [_ID.sub("#", line) for line in lines]
    if mask == "numbers":
        lines = [re.sub(r"\d+", "#", line) for line in lines]
    return "\n".join(_sorted_lines([line for line in lines if line]))


def _sorted_lines(lines: list[str]) -> Iterator[str]:
    """The lines, with their listings and each run of bulleted lines sorted."""
    for bullet, run in groupby(lines, key=_bullet):
        ordered = [_sorted_clauses(line) for line in run]
        yield from sorted(ordered) if bullet else ordered


def _bullet(line: str) -> str:
    return line[0] if line[:2] in ("- ", "* ", "• ") else ""


def _sorted_clauses(line: str) -> str:
    parts = _CLAUSE_END.split(line)
    parts[::2] = [_sorted_clause(part.strip()) for part in parts[::2]]
    return " ".join("".join(parts[place : place + 2]) for place in range(0, len(parts), 2)).strip()


def _sorted_clause(clause: str) -> str:
    head, colon, tail = clause.partition(": ")
    if colon and "," in tail:
        *items, last = _COMMA.split(tail)
        return f"{_sorted_clause(head)}: {', '.join(sorted([*items, *_WORD.split(last)]))}"
    done: list[str] = []
    items: list[str] = []
    for part in _JOINT.split(clause):
        if not _ITEM.match(part):
            lead, item = _cut(part)
            done += [*sorted(items), lead] if lead else sorted(items)
            items = [item] if item else []
        else:
            items.append(part)
    return ", ".join([*done, *sorted(items)])


def _cut(part: str) -> tuple[str, str]:
    """A part that does not begin an item: what leads up to the item within it, and that item ("" where it has none)."""
    for last in _LAST_ITEM:
        if match := last.match(part):
            return part[: match.end()].strip(), part[match.end() :]
    return part, ""
