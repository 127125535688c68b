"""A page reaches no host but those that are listed; everything else goes to a port of this machine where nobody ever answers."""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from envs.errors import EnvironmentArgumentError

_HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?(:[0-9]{1,5})?|\[[0-9a-f:]+\](:[0-9]{1,5})?")
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
LOCAL_SCHEMES = ("about", "blob", "data", "file")
"""Addresses that are no request over a network."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Which hosts the pages of a tab may ask; the empty list is none."""

    hosts: tuple[str, ...] = ()
    """`name`, `*.name` (all that end so) or `name:port`; without a port, every port of the host."""

    @classmethod
    def parse(cls, hosts: Iterable[str]) -> "AllowedHosts":
        """From a user's list; an entry that is no host is an `EnvironmentArgumentError`."""
        if isinstance(hosts, str) or not isinstance(hosts, Iterable):
            raise EnvironmentArgumentError(f"allow_hosts is {hosts!r}; it must be a list of hosts such as [example.org, 127.0.0.1:8000]")
        entries = []
        for host in hosts:
            if not isinstance(host, str) or not _HOST.fullmatch(host.lower()):
                raise EnvironmentArgumentError(
                    f"allow_hosts names {host!r}, which is no host; write a name such as example.org, *.example.org or 127.0.0.1:8000, "
                    "without http://"
                )
            entries.append(host.lower())
        return cls(tuple(dict.fromkeys(entries)))

    def allows(self, url: str) -> bool:
        """Whether a page may ask for this address."""
        at = urlsplit(url)
        if at.scheme in LOCAL_SCHEMES:
            return True
        name = f"[{at.hostname}]" if at.hostname and ":" in at.hostname else at.hostname or ""
        port = at.port or _PORTS.get(at.scheme, 0)
        return any(_matches(entry, name, port) for entry in self.hosts)

    @property
    def proxy(self) -> dict[str, str]:
        """Playwright's proxy setting: the listed hosts are asked directly, all others at a port where nobody answers.

        Chromium then refuses whatever a page tries, be it a picture, a socket or a prefetch, and none of it waits for this process.
        """
        return {"server": f"http://127.0.0.1:{_nobody()}", "bypass": ",".join(("<-loopback>", *self.hosts))}


def _matches(entry: str, name: str, port: int) -> bool:
    wanted, _, number = entry.rpartition(":") if re.search(r":[0-9]+$", entry) and not entry.endswith("]") else (entry, "", "")
    if number and int(number) != port:
        return False
    return name.endswith(wanted[1:]) if wanted.startswith("*.") else name == wanted


_held: socket.socket | None = None


def _nobody() -> int:
    """A port that is taken for as long as this process lives, and on which nobody listens."""
    global _held
    if _held is None:
        _held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        _held.bind(("127.0.0.1", 0))
    return _held.getsockname()[1]
