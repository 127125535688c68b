"""Equal contents have equal digests, whatever objects hold them: nothing that depends on identity, addresses or hash seeds enters.

A snapshot may be any Python value. Plain values are digested as they are, containers by their members (sets and mappings without their
order), anything else by what Python's copy protocol (`__reduce_ex__`) says it is made of. Nothing is stored, and nothing is ever read back.
"""

import copyreg
from collections.abc import Callable
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

from envs.forking.waypoint import Waypoint
from tree_rollout.errors import DigestError

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_UNBOUND = (ModuleType, NoneType)
"""What a built-in function belongs to when it is no method of some object."""


def state_digest(value: Any) -> str:
    """32 hexadecimal digits; `DigestError` for a value whose content cannot be read, such as an open file or a nested function."""
    try:
        return _Digester().of(value).hex()
    except RecursionError as error:
        raise DigestError(f"a {type(value).__name__} is nested too deeply to be compared; leave it out of the snapshot") from error


class _Digester:
    """Remembers what it has met, so that shared parts cost once and a part that contains itself comes to an end."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}
        """Digests by identity; the object is kept, so that its identity is not used again meanwhile."""
        self._open: list[int] = []

    def of(self, value: Any) -> bytes:
        if type(value) in _PLAIN:
            return _hash("plain", repr(value).encode("utf-8", "surrogatepass"))
        if isinstance(value, type | FunctionType) or (isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, _UNBOUND)):
            return _hash("name", _named(value).encode())
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._open:
            return _hash("within", str(len(self._open) - self._open.index(id(value))).encode())
        self._open.append(id(value))
        digest = self._content(value)
        self._open.pop()
        self._known[id(value)] = value, digest
        return digest

    def _content(self, value: Any) -> bytes:
        kind = type(value)
        if kind is Waypoint:
            raise DigestError("a snapshot of an environment that cannot copy itself says how a state was reached, not what it is")
        if kind in (list, tuple):
            return _hash(kind.__name__, *map(self.of, value))
        if kind in (set, frozenset):
            return _hash(kind.__name__, *sorted(map(self.of, value)))
        if kind is dict:
            return _hash("dict", *sorted(self.of(key) + self.of(held) for key, held in value.items()))
        if kind is bytearray:
            return _hash("bytearray", bytes(value))
        return self._object(value)

    def _object(self, value: Any) -> bytes:
        """By the callable that would make it again, its arguments, its state, and its members."""
        try:
            registered = copyreg.dispatch_table.get(type(value))
            made: Any = registered(value) if registered else value.__reduce_ex__(4)
        except Exception as fault:
            raise DigestError(f"a {type(value).__name__} cannot be compared by content ({fault}); leave it out of the snapshot") from fault
        if isinstance(made, str):
            return _hash("global", type(value).__qualname__.encode(), made.encode())
        make, arguments, state, items, pairs = (*made, *[None] * 5)[:5]
        parts: list[Any] = [make, arguments, state, list(items or ()), dict(pairs or ())]
        return _hash("object", *map(self.of, parts))


def _named(value: type | Callable[..., Any]) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name:
        raise DigestError(f"{name} cannot be compared by content; leave it out of the snapshot")
    return name


def _hash(kind: str, *parts: bytes) -> bytes:
    total = blake2b(kind.encode(), digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.digest()
