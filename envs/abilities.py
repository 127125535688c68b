"""What an environment can do is declared as data before it is made; `branchwise check` proves what is declared."""

from dataclasses import dataclass, fields
from enum import StrEnum

from envs.errors import EnvironmentArgumentError, nearest


class ForkKind(StrEnum):
    """How an environment is copied in the middle of an episode."""

    EXACT = "exact"
    """`snapshot`/`restore` of the environment copy the whole state."""
    PROCESS = "process"
    """The environment copies nothing itself: it lives in a process that is forked. For simulators in Python without threads."""
    SANDBOX = "sandbox"
    """`snapshot`/`restore` of the environment fork the file layers of its sandbox."""
    REPLAY = "replay"
    """The environment copies nothing itself: the actions so far are executed again, and every answer is compared."""
    NONE = "none"
    """It cannot be forked."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an environment declares about itself; a value that cannot be is an `EnvironmentArgumentError`."""

    fork: ForkKind | str = ForkKind.NONE
    """A `ForkKind`, or its name."""
    deterministic: bool = True
    """The same seed and actions always give the same episode."""
    signature: bool = True
    """`state_signature()` recognises equal states."""
    portable: bool = True
    """Snapshots of an `exact` or `sandbox` fork can be restored in every instance made with the same arguments, in any process; False: only
    in the instance that took them. Means nothing for other kinds."""
    admissible: bool = False
    """`admissible_actions()` lists what can be done."""
    expert: bool = False
    """`expert_action()` knows what to do."""

    def __post_init__(self) -> None:
        if self.fork not in list(ForkKind):
            raise EnvironmentArgumentError(f"fork kind {self.fork!r} is unknown; {nearest(str(self.fork), list(ForkKind))}")
        object.__setattr__(self, "fork", ForkKind(self.fork))
        for field in fields(self)[1:]:
            if not isinstance(getattr(self, field.name), bool):
                raise EnvironmentArgumentError(f"ability {field.name} is {getattr(self, field.name)!r}; it must be True or False")
        if self.fork is ForkKind.REPLAY and not self.deterministic:
            raise EnvironmentArgumentError("what is not deterministic cannot be forked by replay; declare the fork kind process, or none")

    @property
    def copies_itself(self) -> bool:
        """True where the environment has `snapshot` and `restore` of its own."""
        return self.fork in (ForkKind.EXACT, ForkKind.SANDBOX)

    @property
    def words(self) -> tuple[str, ...]:
        """What it can do, a word each, the kind of fork first."""
        flags = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        flags["portable"] = self.portable and self.copies_itself
        return (f"fork:{self.fork}", *(name for name, present in flags.items() if present))
