"""A failed check shows what to type to see it fail: the seed, the actions, and what differed."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from envs.answer import Answer


class Verdict(StrEnum):
    """What came of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """What it would prove is not declared, or a hanging step leaves nothing to check."""


@dataclass(frozen=True, slots=True)
class CounterExample:
    """The first case in which something did not hold."""

    what: str
    """A sentence."""
    seed: int | None = None
    actions: tuple[str, ...] = ()
    """From the reset on, to where it shows."""
    expected: str | None = None
    got: str | None = None
    """Two texts that should be equal; None where nothing is compared."""

    def diff(self) -> list[str]:
        """Both texts line by line: `- ` only in what was expected, `+ ` only in what came."""
        if self.expected is None or self.got is None:
            return []
        return [line.rstrip("\n") for line in difflib.ndiff(self.expected.splitlines(), self.got.splitlines()) if line[0] != "?"]

    def __str__(self) -> str:
        lines = [self.what]
        if self.seed is not None:
            lines += [f"seed: {self.seed}", f"actions: {list(self.actions)}"]
        return "\n".join([*lines, *self.diff()])


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    name: str
    verdict: Verdict
    tried: str
    """What was tried, or why nothing was."""
    seconds: float
    counter_example: CounterExample | None = None
    """Where it failed."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all checks of one environment, in the order in which they ran."""

    id: str
    results: list[CheckResult] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """True where nothing failed."""
        return not self.failures

    @property
    def failures(self) -> list[CheckResult]:
        """The checks that failed."""
        return [result for result in self.results if result.verdict is Verdict.FAILED]

    def __str__(self) -> str:
        lines = [f"{result.verdict:<8} {result.name}: {result.tried} ({result.seconds:.2f} s)" for result in self.results]
        for result in self.failures[:1]:
            lines += ["", f"{result.name}: {result.counter_example}"]
        return "\n".join(lines)


class CheckFailedError(Exception):
    """Raised by a check that found a counter-example."""

    def __init__(self, counter_example: CounterExample) -> None:
        super().__init__(counter_example.what)
        self.counter_example = counter_example


class NothingToCheckError(Exception):
    """Raised by a check that has nothing to prove; says why."""


Check = Callable[..., str]
"""Takes the `Player`, returns what was tried."""


def fail(
    what: str, seed: int | None = None, actions: Sequence[str] = (), expected: object | None = None, got: object | None = None
) -> NoReturn:
    """Stop the check with a counter-example; what is compared is shown as text."""
    texts = [None if value is None else shown(value) for value in (expected, got)]
    raise CheckFailedError(CounterExample(what, seed, tuple(actions), *texts))


def shown(value: object) -> str:
    """An answer as text, everything in it on lines of their own."""
    if not isinstance(value, Answer):
        return value if isinstance(value, str) else repr(value)
    flags = [name for name in ("terminated", "truncated", "success") if getattr(value, name)] + ([] if value.valid else ["invalid"])
    return f"{value.observation}\n[reward {value.reward:g}{''.join(f', {flag}' for flag in flags)}]\n[signature {value.signature}]"
