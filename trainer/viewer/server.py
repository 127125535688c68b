"""The viewer's server: it reads, on the loopback address alone, and forks recorded trees only where that was allowed."""

import json
import secrets
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from trainer.errors import UsageError
from trainer.viewer.errors import NotThereError
from trainer.viewer.forks import fork_answer
from trainer.viewer.guard import Asgi, Guard
from trainer.viewer.page import script, served_page, style
from trainer.viewer.source import Source, as_json

_LARGEST_BODY = 10_000
"""Bytes of a request that asks for a fork."""


def viewer_app(source: Source, token: str, port: int, allow_fork: bool) -> Asgi:
    """The application for requests to `port`, under the path that is the token."""

    async def page(_: Request) -> Response:
        return HTMLResponse(served_page(allow_fork))

    async def answer(request: Request) -> Response:
        return await _answered(lambda: source.answer(request.path_params["question"], request.query_params))

    async def fork(request: Request) -> Response:
        if not allow_fork:
            return _error(403, "the page is read-only; start it with `branchwise view RUN --allow-fork`")
        body = await _body(request)
        return await _answered(lambda: fork_answer(source, body))

    routes = [
        Route(f"/{token}/", page),
        Route(f"/{token}/static/viewer.js", _text(script, "text/javascript")),
        Route(f"/{token}/static/viewer.css", _text(style, "text/css")),
        Route(f"/{token}/api/{{question:path}}", answer),
        Route(f"/{token}/fork", fork, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), token, port)


def bound_socket(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 is any that is free. Raises `UsageError` where the port is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
    except OSError as error:
        sock.close()
        raise UsageError(f"port {port} cannot be used ({error.strerror}); leave --port out for any that is free") from error
    return sock


def serve(source: Source, sock: socket.socket, allow_fork: bool, started: Callable[[str], None]) -> None:
    """Serve until interrupted; `started` is called with the address once requests are answered."""
    port = sock.getsockname()[1]
    token = secrets.token_urlsafe(16)
    application = viewer_app(source, token, port, allow_fork)
    config = uvicorn.Config(application, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started(f"http://127.0.0.1:{port}/{token}/")

    Server(config).run(sockets=[sock])


async def _answered(question: Callable[[], Any]) -> Response:
    """The answer as JSON; reading the trace does not hold up other requests."""
    try:
        return Response(as_json(await run_in_threadpool(question)), media_type="application/json")
    except NotThereError as error:
        return _error(404, str(error))
    except Exception as error:
        if getattr(error, "exit_code", None) is None:
            raise
        return _error(400, str(error))


async def _body(request: Request) -> Any:
    size = request.headers.get("content-length", "")
    if not size.isdigit() or int(size) > _LARGEST_BODY:
        return None
    try:
        return json.loads(await request.body())
    except ValueError:
        return None


def _text(content: Callable[[], str], kind: str) -> Callable[[Request], Any]:
    async def served(_: Request) -> Response:
        return PlainTextResponse(content(), media_type=kind)

    return served


def _error(status: int, sentence: str) -> Response:
    return Response(as_json({"error": " ".join(sentence.split())}), status_code=status, media_type="application/json")
