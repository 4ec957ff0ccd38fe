"""A scriptable server on a real port of this machine, for tests of the client.

A script is a function of (number of the call from 0, decoded body of the request, its headers). It gives the
content of a reply (`answer`), a `Reply`, or one of the ways to fail; it runs in the thread of the connection.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "model-x"


@dataclass(frozen=True)
class Reply:
    """Status, headers and body; ``send`` is how many bytes of the body are sent before the connection drops."""

    status: int = 200
    body: bytes | str | object = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    send: int | None = None


DROP = "drop"  # the connection, before anything is sent
RESET = "reset"  # the same with a TCP reset


def answer(content: Any = "1. Heat (1995)", *, usage: Any = None, **changes: Any) -> dict[str, Any]:
    """Make the body of a completion; ``changes`` go to the choice, and those of its message to ``message``."""
    message = {"role": "assistant", "content": content, **changes.pop("message", {})}
    return {
        "id": changes.pop("id", f"chatcmpl-{time.monotonic_ns()}"),
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **changes}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29} if usage is None else usage,
    }


def error(status: int, message: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    """Make a refusal in the form of OpenAI."""
    return Reply(
        status, {"error": {"message": message, "type": "x", "param": None, "code": None, **fields}}, headers or {}
    )


@dataclass
class Call:
    """One request that came."""

    body: Any
    headers: dict[str, str]
    began: float
    ended: float = 0.0

    @property
    def prompt(self) -> str:
        """Text of the last message."""
        return self.body["messages"][-1]["content"]


class Loopback(ThreadingHTTPServer):
    """The server; ``calls`` are the completions asked for, ``most`` how many were under way at a time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: Callable[[int, Any, Mapping[str, str]], Any], port: int = 0) -> None:
        self.script, self.calls, self.most = script, list[Call](), 0
        self.models: list[str] = [MODEL]
        self.lock = threading.Lock()
        self._now = 0
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def base_url(self) -> str:
        """Address for the client."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def begin(self, body: Any, headers: Mapping[str, str]) -> tuple[int, Call]:
        """Record a request."""
        call = Call(body, {name.lower(): value for name, value in headers.items()}, time.monotonic())
        with self.lock:
            self.calls.append(call)
            self._now += 1
            self.most = max(self.most, self._now)
            return len(self.calls) - 1, call

    def end(self, call: Call) -> None:
        """Record that a request is dealt with."""
        with self.lock:
            self._now -= 1
            call.ended = time.monotonic()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Loopback

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(
            Reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.server.models]})
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number, call = self.server.begin(body, self.headers)
        try:
            said = self.server.script(number, body, call.headers)
        finally:
            self.server.end(call)
        if said in (DROP, RESET):
            self._drop(hard=said == RESET)
        else:
            self._send(said if isinstance(said, Reply) else Reply(200, said))

    def _send(self, reply: Reply) -> None:
        body = reply.body
        if not isinstance(body, bytes):
            body = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
        self.send_response(reply.status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: reply.send])
        self.wfile.flush()
        if reply.send is not None:
            self._drop(hard=True)

    def _drop(self, *, hard: bool) -> None:
        self.close_connection = True
        if not hard:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        time.sleep(0.02)  # what was sent arrives before the reset
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def serving(script: Callable[[int, Any, Mapping[str, str]], Any], port: int = 0) -> Iterator[Loopback]:
    """Run a server until the end of the block; ``ended`` is set then, for scripts that wait."""
    with Loopback(script, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
