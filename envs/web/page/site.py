"""A folder of pages is a host of its own, `https://pages.test`, that nothing outside the folder can be read from, and no server runs.

Requests are answered in this process, before they reach a network. Other hosts are asked only where they are listed.
"""

import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from envs.errors import EnvironmentArgumentError
from envs.web.browser import AllowedHosts, Tab

if TYPE_CHECKING:
    from playwright.async_api import Route

HOST = "pages.test"
"""Under which a folder's pages are; the ending `.test` belongs to nobody (RFC 6761)."""
ROOT = f"https://{HOST}/"
_INDEX = "index.html"
_LARGEST_BYTES = 64 * 2**20
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages of a task may reach."""

    folder: Path | None
    """Its files are under `ROOT`; None: there is no folder."""
    hosts: AllowedHosts

    @classmethod
    def parse(cls, folder: str | None, hosts: tuple[str, ...] | list[str]) -> "Site":
        """From a user's arguments; a folder that is none is an `EnvironmentArgumentError`."""
        if folder is not None and (not isinstance(folder, str) or not Path(folder).expanduser().is_dir()):
            raise EnvironmentArgumentError(f"folder is {folder!r}, which is no folder; name one that holds pages, such as site/")
        return cls(None if folder is None else Path(folder).expanduser().resolve(), AllowedHosts.parse(hosts))

    def address(self, start: str) -> str:
        """Where a task starts: a page of the folder, or an address; one that cannot be reached is an `EnvironmentArgumentError`."""
        url = start if urlsplit(start).scheme else urljoin(ROOT, start)
        if urlsplit(url).scheme not in _SCHEMES:
            raise EnvironmentArgumentError(f"start is {start!r}; it must be a page of the folder, or begin with http:// or https://")
        if not self.reaches(url):
            host = urlsplit(url).netloc
            raise EnvironmentArgumentError(
                f"start is {start!r}, but there is no folder; pass folder=..."
                if host == HOST
                else f"start is {start!r}, and pages may not ask {host}; add it to allow_hosts"
            )
        if self.folder is not None and urlsplit(url).hostname == HOST and self.file(url) is None:
            raise EnvironmentArgumentError(f"start is {start!r}, which is no file in {self.folder}")
        return url

    def reaches(self, url: str) -> bool:
        """Whether a page may go to an address."""
        at = urlsplit(url)
        return at.scheme in _SCHEMES and ((at.netloc == HOST and self.folder is not None) or self.hosts.allows(url))

    def file(self, url: str) -> Path | None:
        """The file of an address under `ROOT`; None where there is none, or it is not in the folder, whatever links lead to it."""
        if self.folder is None:
            return None
        try:
            path = (self.folder / unquote(urlsplit(url).path).lstrip("/")).resolve()
            path = path / _INDEX if path.is_dir() else path
            inside = path.resolve().is_relative_to(self.folder)
            return path if inside and path.is_file() and path.stat().st_size <= _LARGEST_BYTES else None
        except (OSError, ValueError):
            return None

    async def attach(self, tab: Tab) -> None:
        """Answer the requests of a tab, on the browser's thread."""

        async def answer(route: "Route") -> None:
            request = route.request
            at = urlsplit(request.url)
            if at.netloc == HOST and self.folder is not None:
                await self._answer(route)
            elif self.hosts.allows(request.url):
                await route.continue_()
            else:
                tab.refused[at.netloc] += 1
                # An aborted navigation leaves the page as it is.
                await route.abort("aborted" if request.is_navigation_request() else "blockedbyclient")

        await tab.context.route("**/*", answer)
        if self.hosts.hosts:  # Chromium itself would ask a user before a page may speak with this machine.
            await tab.context.grant_permissions(["local-network-access"])

    async def _answer(self, route: "Route") -> None:
        file = self.file(route.request.url)
        if file is None or route.request.method not in ("GET", "HEAD"):
            await route.fulfill(status=404 if file is None else 405, content_type="text/plain", body="There is no such page.")
            return
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        text = kind.startswith("text/") or kind.endswith(("javascript", "json", "+xml"))
        await route.fulfill(status=200, content_type=f"{kind}; charset=utf-8" if text else kind, body=file.read_bytes())
