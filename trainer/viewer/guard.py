"""Only a page that was opened by the address that was printed gets an answer: the right host, the right origin, and the token.

The server listens on the loopback address alone. A page of another site that a browser has open can still send requests there, and a
name that points to 127.0.0.1 can make them look like its own; so the Host and the Origin must be ours, letter by letter.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import PlainTextResponse

Scope = dict[str, Any]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Middleware around the whole application."""

    def __init__(self, application: Asgi, token: str, port: int) -> None:
        self._application = application
        self._token = token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, or refuse with the reason."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._application(scope, receive, send)
            return
        reason = self._refusal(scope)
        if reason is not None:
            await PlainTextResponse(reason, status_code=403)(scope, receive, send)
            return

        async def guarded(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((name.encode(), value.encode()) for name, value in _HEADERS.items())]
            await send(message)

        await self._application(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> str | None:
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        origins = [value for name, value in headers if name == b"origin"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "this server answers at 127.0.0.1 and localhost only"
        if any(origin not in self._origins for origin in origins):
            return "requests of other pages are not answered"
        if scope["method"] not in ("GET", "HEAD") and not origins:
            return "a change must be asked for by the page itself"
        token = scope["path"].split("/")[1]
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return "open the address that `branchwise view` printed; its token is part of it"
        return None
