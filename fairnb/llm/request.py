"""What is asked of a model, and the key under which its reply is kept."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fairnb.errors import ParameterError

# Raised when the meaning of a field of the key changes, so that old replies are not taken for new ones.
KEY_VERSION = 1
NOT_SENT = -1
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[\w.-]*\w[\w.-]*|[0-9a-f.]*:[0-9a-f:.]*(%\w+)?")


@dataclass(frozen=True)
class Request:
    """One question to a model.

    Attributes
    ----------
    prompt_id : str
        Identity of the prompt's text; see `fairnb.prompts.prompt_id`.
    text : str
        The prompt.
    system : str
        The system message; empty for none.
    base_url, model : str
        Server and model.
    system_message : {"system", "user"}
        A message of its own, or in front of the prompt.
    temperature, top_p : float
        -1: not sent.
    seed : int
        -1: not sent.
    max_tokens : int
    stop : str
        Empty: not sent.
    repeat : int
        0 for the reply that counts; 1, 2, ... for the same question asked again.
    """

    prompt_id: str
    text: str
    system: str
    base_url: str
    model: str
    system_message: str = "system"
    temperature: float = 0.0
    top_p: float = NOT_SENT
    seed: int = NOT_SENT
    max_tokens: int = 1500
    stop: str = ""
    repeat: int = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages as they are sent."""
        if self.system and self.system_message == "system":
            return [{"role": "system", "content": self.system}, {"role": "user", "content": self.text}]
        text = f"{self.system}\n\n{self.text}" if self.system else self.text
        return [{"role": "user", "content": text}]

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling parameters that are sent, without the limit of tokens, whose name depends on the server."""
        named = {"temperature": float(self.temperature), "top_p": float(self.top_p), "seed": self.seed}
        sent: dict[str, Any] = {name: value for name, value in named.items() if value != NOT_SENT}
        return sent | ({"stop": [self.stop]} if self.stop else {})

    @property
    def fields(self) -> dict[str, Any]:
        """Everything that can change the reply, and nothing else; what is not sent is absent."""
        return {
            "base_url": self.base_url,
            "model": self.model,
            "messages": self.messages,
            **self.sampling,
            "max_tokens": self.max_tokens,
            "repeat": self.repeat,
        }

    @property
    def key(self) -> str:
        """The key of the reply: a hash of `fields`."""
        return key_of(self.fields)


def key_of(fields: dict[str, Any]) -> str:
    """Hash the fields of a request to the key of its reply."""
    text = json.dumps([KEY_VERSION, fields], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def put_right(base_url: str) -> str:
    """Return the address of a server in the form that the client needs: scheme, host, path to ``/v1``.

    A missing scheme becomes ``http`` on this machine and ``https`` elsewhere, a missing path ``/v1``; the path of
    an endpoint (``/chat/completions``, ``/models``), slashes at the end and the scheme's own port are taken off.

    Raises
    ------
    ParameterError
        If it is no address, or holds a key or password, which would end up in files.
    """
    text = base_url.strip()
    if "://" not in text:
        host = re.sub(r":\d*$", "", text.split("/")[0]).lower() if not text.startswith("[") else text.split("]")[0]
        here = host in ("localhost", "[::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104  (compared only)
        text = f"{'http' if here else 'https'}://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname or ""
    # "https:/host" and placeholders such as "<server>" would be taken for hosts.
    named = _HOST.fullmatch(host) is not None and host not in _PORTS
    if parts.scheme not in _PORTS or not named or port == 0 or not text.isprintable() or " " in text:
        raise ParameterError(
            "base_url: not an address; expected one such as http://127.0.0.1:11434/v1 or https://api.openai.com/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ParameterError(
            "base_url: holds a user, password or query, which would end up in files; expected the bare address; "
            "put the key into an environment variable (see api_key_variable)"
        )
    path = parts.path.rstrip("/")
    for endpoint in ("/chat/completions", "/completions", "/models", "/chat"):
        path = path.removesuffix(endpoint).rstrip("/")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port not in (None, _PORTS[parts.scheme]) else ''}{path or '/v1'}"
