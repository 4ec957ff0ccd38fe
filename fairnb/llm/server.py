"""A simulated recommender behind the HTTP interface that OpenAI-compatible servers have, on this machine only."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from fairnb.errors import ParameterError
from fairnb.llm.simulated import Simulated
from fairnb.prompts import prompt_id


def serve(
    model: Simulated, host: str = "127.0.0.1", port: int = 0, *, name: str = "simulated", delay: float = 0.0
) -> Server:
    """Start a server that answers chat completions with a simulated model.

    Parameters
    ----------
    model : Simulated
    host : str, default "127.0.0.1"
        It knows no passwords: leave it on this machine.
    port : int, default 0
        0 takes a free one.
    name : str, default "simulated"
        The model's name in the replies; requests may name any.
    delay : float, default 0.0
        Seconds before each answer.

    Returns
    -------
    Server
        It runs in threads of its own until it is closed.

    Raises
    ------
    ParameterError
        If the port cannot be taken.

    Notes
    -----
    ``GET /v1/models`` and ``POST /v1/chat/completions`` without streaming. The last user message is the prompt.
    How often this server was asked it before is its repeat, so that ``noise`` shows. The fields ``seed``,
    ``temperature`` and the like are accepted and change nothing: a seed does not make a busy server repeatable.
    """
    try:
        server = Server((host, port), model, name, delay)
    except (OSError, OverflowError) as error:
        raise ParameterError(f"{host}:{port}: cannot listen there ({error}); choose another port, or 0") from None
    # Close looks at the flag between two polls.
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


class Server(ThreadingHTTPServer):
    """A running server, made by `serve`. As a context manager it closes itself.

    Attributes
    ----------
    base_url : str
        Such as ``http://127.0.0.1:8000/v1``.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], model: Simulated, name: str, delay: float) -> None:
        self.model, self.name, self.delay = model, name, delay
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self.connections: set[socket.socket] = set()
        super().__init__(address, _Handler)
        self.base_url = f"http://{address[0]}:{self.server_address[1]}/v1"

    @property
    def calls(self) -> int:
        """How many prompts were put to it so far."""
        with self._lock:
            return self._asked.total()

    def server_bind(self) -> None:
        """Take the port, without asking a name service for the name of the host."""
        TCPServer.server_bind(self)

    def close(self) -> None:
        """End the server and its connections; a second time does nothing."""
        self.shutdown()
        self.server_close()
        # A connection that is kept alive would go on to be answered.
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __exit__(self, *error: object) -> None:
        self.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, but not that a client gave up waiting."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def complete(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and content of the reply to a request for a completion."""
        try:
            request = json.loads(body)
        except ValueError as error:
            return _error(400, f"the body is no JSON: {error}")
        messages = request.get("messages") if isinstance(request, dict) else None
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            return _error(400, "messages: expected a list of objects with role and content")
        if request.get("stream"):
            return _error(400, "stream: not supported; leave it out")
        texts = [(message.get("role"), _text(message.get("content"))) for message in messages]
        prompts = [text for role, text in texts if role == "user"]
        if not prompts or prompts[-1] is None:
            return _error(400, "messages: expected one of role user with a text as content")
        system = "\n".join(text for role, text in texts if role in ("system", "developer") and text)
        prompt = prompts[-1]
        with self._lock:
            repeat = self._asked[prompt]
            self._asked[prompt] += 1
        answer = self.model.answer(prompt, system=system, repeat=repeat)
        time.sleep(self.delay)
        message = {"role": "assistant", "content": answer.text}
        return 200, {
            "id": f"chatcmpl-{prompt_id(prompt)}-{repeat}",
            "object": "chat.completion",
            "created": 0,
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
            "usage": {
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
                "total_tokens": answer.prompt_tokens + answer.completion_tokens,
            },
        }


def _text(content: object) -> str | None:
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else None  # type: ignore[arg-type]
    return content if isinstance(content, str) else None


def _error(status: int, message: str) -> tuple[int, dict[str, Any]]:
    kind = "not_found" if status == 404 else "invalid_request"
    return status, {"error": {"message": message, "type": f"{kind}_error", "param": None, "code": kind}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet; in two, the second may wait for the first to be acknowledged.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        model = {"id": self.server.name, "object": "model", "created": 0, "owned_by": "fairnb"}
        if path == "/v1/models":
            self._reply(200, {"object": "list", "data": [model]})
        else:
            self._reply(*_error(404, f"{path}: unknown; expected /v1/models or /v1/chat/completions"))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            return self._reply(*_error(400, "Content-Length: expected the length of the body"))
        # Read in any case: what is left of it would pass for the next request.
        body = self.rfile.read(int(length))
        path = self.path.partition("?")[0].rstrip("/")
        if path == "/v1/chat/completions":
            return self._reply(*self.server.complete(body))
        return self._reply(*_error(404, f"{path}: unknown; expected /v1/chat/completions"))

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content, ensure_ascii=False).encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep silent."""
