"""A device is a GPU, or the memory of a machine; what processes hold on it adds up, and fits or does not."""

from dataclasses import dataclass, field

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a process holds."""

    process: str
    name: str
    size: int
    """Bytes."""


@dataclass(slots=True)
class Device:
    """One GPU, or the memory of one machine."""

    name: str
    capacity: int | None
    """Bytes; None where it is another machine's, and not known."""
    parts: list[Part] = field(default_factory=list)

    def hold(self, process: str, name: str, size: int) -> None:
        """Add what a process holds; nothing is no part."""
        if size:
            self.parts.append(Part(process, name, size))

    @property
    def held(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def fits(self) -> bool:
        """Whether the parts have room."""
        return self.capacity is None or self.held <= self.capacity

    def sums(self) -> dict[str, int]:
        """Bytes by the names of the parts, in order of appearance."""
        sums: dict[str, int] = {}
        for part in self.parts:
            sums[part.name] = sums.get(part.name, 0) + part.size
        return sums
