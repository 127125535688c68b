"""A need says, without starting anything heavy, whether it is met, and if not, which command meets it."""

import http.client
import importlib.util
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from envs.errors import MissingNeedError
from envs.web import chromium

_DOCKER_SOCKET = "unix:///var/run/docker.sock"
_PATIENCE_S = 3.0
"""Seconds that a Docker engine has to say that it is there."""


class Need(Protocol):
    """Something outside this package that an environment cannot do without."""

    @property
    def what(self) -> str:
        """What is needed, as a noun."""
        ...

    @property
    def install(self) -> str:
        """The command that meets the need."""
        ...

    def is_met(self) -> bool:
        """Whether it is there now; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class PackageNeed:
    """A Python package, or several that one command installs."""

    module: str
    """Name of its top-level module, which is looked for and not imported."""
    install: str
    """For example `pip install 'branchwise[alfworld]'`."""
    others: tuple[str, ...] = ()
    """Top-level modules of the further packages."""

    @property
    def what(self) -> str:
        """The first that is missing; the first of all where none is."""
        return f"the Python package {next(self._missing(), self.module)}"

    def is_met(self) -> bool:
        return next(self._missing(), None) is None

    def _missing(self) -> Iterator[str]:
        for module in (self.module, *self.others):
            try:
                found = importlib.util.find_spec(module)
            except (ImportError, ValueError):
                found = None
            if found is None:
                yield module


@dataclass(frozen=True, slots=True)
class ProgramNeed:
    """A program on the search path, for example `java`."""

    program: str
    install: str

    @property
    def what(self) -> str:
        return f"the program {self.program}"

    def is_met(self) -> bool:
        return shutil.which(self.program) is not None


@dataclass(frozen=True, slots=True)
class BrowserNeed:
    """Chromium: the program that `BRANCHWISE_BROWSER` names, one that Playwright has downloaded, or one on the search path."""

    install: str = chromium.INSTALL
    what: str = "a Chromium browser"

    def is_met(self) -> bool:
        return chromium.find_chromium() is not None


@dataclass(frozen=True, slots=True)
class DockerNeed:
    """A Docker engine that answers, at `DOCKER_HOST` or at the usual socket."""

    install: str = "sudo apt-get install docker.io"
    what: str = "a Docker engine"

    def is_met(self) -> bool:
        try:
            return _docker_answers(os.environ.get("DOCKER_HOST") or _DOCKER_SOCKET)
        except (OSError, ValueError, http.client.HTTPException):
            return False


@dataclass(frozen=True, slots=True)
class DataNeed:
    """A folder of data: the one that an environment variable names, else the usual place."""

    name: str
    """What the data are, for example `the ALFWorld games`."""
    variable: str
    install: str
    default: str = ""
    """The usual place; a leading `~` is the user's home. Empty: there is none."""
    contains: tuple[str, ...] = ()
    """Files and folders in it without which it is of no use."""

    @property
    def what(self) -> str:
        return f"{self.name} ({self.variable})"

    @property
    def folder(self) -> Path | None:
        """Where the data are expected; None where nothing says so."""
        named = os.environ.get(self.variable) or self.default
        return Path(named).expanduser() if named else None

    def is_met(self) -> bool:
        folder = self.folder
        return folder is not None and folder.is_dir() and all((folder / name).exists() for name in self.contains)


def unmet(needs: Iterable[Need]) -> list[Need]:
    """Those that are not met."""
    return [need for need in needs if not need.is_met()]


def require(name: str, needs: Iterable[Need]) -> None:
    """`MissingNeedError` with the command to type, unless all needs of the environment `name` are met."""
    missing = unmet(needs)
    if missing:
        wanted = "; ".join(f"{need.what}, which is missing: type {need.install}" for need in missing)
        raise MissingNeedError(f"{name} needs {wanted}")


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=_PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE_S)
        self.sock.connect(self._path)


def _docker_answers(address: str) -> bool:
    """Whether a Docker engine answers a ping; one behind `ssh://` or TLS is taken for granted where its address is well formed."""
    at = urlsplit(address)
    if at.scheme == "unix":
        connection: http.client.HTTPConnection = _UnixConnection(at.path)
    elif at.scheme in ("tcp", "http") and at.hostname and not os.environ.get("DOCKER_TLS_VERIFY"):
        connection = http.client.HTTPConnection(at.hostname, at.port or 2375, timeout=_PATIENCE_S)
    else:
        return bool(at.scheme and at.hostname)
    try:
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    finally:
        connection.close()
