"""The shop's web server: this machine alone can reach it, and only who holds the key of a visit sees that visit.

A visit is a session under a key that cannot be guessed; to copy one is to open another with the same session. One server serves all
environments of a process.
"""

import os
import secrets
import threading
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs

from envs.web.shop.catalogue import Catalogue
from envs.web.shop.html_page import html_page
from envs.web.shop.session import Session, click, search

COOKIE = "visit"
"""Name of the cookie that holds the key of a visit."""
_MOST_B = 2**20
"""Bytes that a form may have."""
_STEPS = {"/click": ("label", click), "/search": ("words", search)}
"""By address: the field of the form, and what it does."""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """What the server knows of one visitor."""

    catalogue: Catalogue
    task: str
    """Shown on every page."""
    session: Session


class ShopServer:
    """Listens on 127.0.0.1, on a port that the system chooses, until the process ends or it is closed."""

    def __init__(self) -> None:
        self._visits: dict[str, Visit] = {}
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.shop = self
        self.address = f"127.0.0.1:{self._http.server_port}"
        """Host and port."""
        threading.Thread(target=self._http.serve_forever, args=(0.05,), name="shop server", daemon=True).start()

    @property
    def url(self) -> str:
        """The shop's only page."""
        return f"http://{self.address}/"

    def open(self, visit: Visit) -> str:
        """Begin a visit; the key is the value of its cookie."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._visits[key] = visit
        return key

    def visit(self, key: str) -> Visit | None:
        """How a visit stands; None where there is none."""
        return self._visits.get(key)

    def end(self, key: str) -> None:
        """Forget a visit."""
        with self._lock:
            self._visits.pop(key, None)

    def step(self, key: str, address: str, said: str) -> None:
        """Have a visitor click or search; what the page does not offer changes nothing."""
        _, act = _STEPS[address]
        with self._lock:
            visit = self._visits[key]
            after = act(visit.catalogue, visit.session, said)
            if after is not None:
                self._visits[key] = replace(visit, session=after)

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    shop: ShopServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = 60
    """Seconds that a connection may be silent."""

    def do_GET(self) -> None:
        """The visitor's page."""
        if (key := self._key()) is None:
            return
        visit = self._shop.visit(key)
        if visit is None or self.path != "/":
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        page = html_page(visit.catalogue, visit.session, visit.task).encode()
        self.send_response(HTTPStatus.OK)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def do_POST(self) -> None:
        """A form that was sent; the answer leads back to the page."""
        if (key := self._key()) is None:
            return
        length = self.headers.get("Content-Length", "")
        if self.path not in _STEPS or not length.isdecimal() or int(length) > _MOST_B:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), max_num_fields=4)
        field, _ = _STEPS[self.path]
        for said in form.get(field, [])[:1]:
            self._shop.step(key, self.path, said)
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    @property
    def _shop(self) -> ShopServer:
        return cast(_Http, self.server).shop

    def _key(self) -> str | None:
        """The key of a visit that exists; otherwise the request is refused.

        A page of another host that was made to resolve to this machine is told by the host that it asks for.
        """
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            morsel = None
        if morsel is None or self.headers.get("Host") != self._shop.address or self._shop.visit(morsel.value) is None:
            self._refuse(HTTPStatus.FORBIDDEN)
            return None
        return morsel.value

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self.send_error(status)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of single requests."""


_shared: tuple[int, ShopServer] | None = None


def shared_server() -> ShopServer:
    """The server of this process; a forked child has one of its own."""
    global _shared
    if _shared is None or _shared[0] != os.getpid():
        _shared = (os.getpid(), ShopServer())
    return _shared[1]
