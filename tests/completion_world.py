"""A completion server on this machine that answers as it is told to, and remembers what it was asked."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """One answer: `body` as it is where it is bytes, else as JSON."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    """Close the connection without an answer."""
    drip_s: float = 0.0
    """Send the body byte by byte, so long apart."""


Script = Callable[[dict[str, Any], int], Reply]
"""From a request's body and its number, from 0, to the answer."""


class World:
    """The server's address, what it was asked, and how many requests were open at once."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self._open = 0
        self._lock = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            number = len(self.bodies)
            self.paths.append(handler.path)
            self.bodies.append(body)
            self.headers.append(dict(handler.headers))
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            reply = self.script(body, number)
            time.sleep(reply.delay_s)
        finally:
            with self._lock:
                self._open -= 1
        send(handler, reply)


def send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    if reply.drop:
        handler.close_connection = True
        return
    data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    handler.send_response(reply.status)
    for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    for start in range(0, len(data), 1 if reply.drip_s else max(len(data), 1)):
        time.sleep(reply.drip_s)
        handler.wfile.write(data[start : start + 1] if reply.drip_s else data)
        handler.wfile.flush()


@contextmanager
def completion_server(script: Script) -> Iterator[World]:
    """Serve on the loopback address until the block is left."""
    world = World(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                world.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client stopped waiting

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    world.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()


def vllm_body(
    ids: list[int], prompt: list[int] | None = None, *, finish: str = "stop", stop_reason: Any = None, **changes: Any
) -> dict[str, Any]:
    """An answer as vLLM gives it: token 7 has log-probability -0.7 and so on; the two most likely tokens have 0.6 and 0.3."""
    tops = [{f"token_id:{100 + place}": -0.5108256, f"token_id:{200 + place}": -1.2039728} for place in range(len(ids))]
    for token, row in zip(ids, tops, strict=True):
        row[f"token_id:{token}"] = -token / 10
    choice = {
        "text": "".join(f"<{token}>" for token in ids),
        "finish_reason": finish,
        "stop_reason": stop_reason,
        "token_ids": ids,
        "prompt_token_ids": prompt,
        "logprobs": {
            "tokens": [f"token_id:{token}" for token in ids],
            "token_logprobs": [-token / 10 for token in ids],
            "top_logprobs": tops,
        },
        **changes,
    }
    usage = {"prompt_tokens": len(prompt or []), "completion_tokens": len(ids), "prompt_tokens_details": {"cached_tokens": 1}}
    return {"choices": [choice], "usage": usage if prompt is not None else None}


def llama_body(ids: list[int], **changes: Any) -> dict[str, Any]:
    """An answer as llama.cpp gives it."""
    content = [
        {"id": token, "token": "x", "logprob": -token / 10, "top_logprobs": [{"id": 1, "logprob": -0.5}, {"id": 2, "logprob": -1.0}]}
        for token in ids
    ]
    return {"choices": [{"text": "x" * len(ids), "finish_reason": "length", "logprobs": {"content": content}, **changes}]}
