"""What a server's response means: an answer, or a named failure with its cause and what to do about it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from fairnb.llm.request import Request

_EXCERPT = 300
_STOPPING = ("unauthorised", "not_found", "prompt_cut")
_FILTER_WORDS = ("content_filter", "content filter", "content management policy", "responsibleai", "moderation")
# Codes only: messages on a limit per minute name the page for billing too.
_QUOTA_WORDS = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_MOST_TOKENS = 2**31
# Settings that some models refuse, with what to do about it.
_REMEDIES = {
    "temperature": "set temperature = -1 (not sent), for every arm alike",
    "top_p": "set top_p = -1 (not sent)",
    "seed": "set model_seed = -1 (not sent)",
    "stop": "leave stop empty",
    "system": "set system_message = 'user', for every arm alike",
    "context": "the prompt is longer than the model reads; shorten profile_length, or raise the server's context",
}


@dataclass(frozen=True)
class Outcome:
    """One attempt: a status of the store, what came, and what the server asks for."""

    status: str
    values: Mapping[str, Any]
    retry_after: float | None = None
    stop: str = ""

    @property
    def error(self) -> str:
        """Cause of a failure."""
        return str(self.values.get("error", ""))


def failed(status: str, error: str, **values: Any) -> Outcome:
    """Make the outcome of a failure; some are not of one prompt, and stop the run."""
    stop = error if status in _STOPPING else ""
    return Outcome(status, {"error": error, **values}, stop=stop)


def excerpt(text: str) -> str:
    """Return the beginning of a text, in one line."""
    return " ".join(text.split())[:_EXCERPT]


def text_of(response: Any) -> str:
    """Return the body of a response, empty if it cannot be read."""
    with suppress(Exception):  # a body that was cut off, or is in no encoding
        return str(response.text)
    return ""


def cause(error: BaseException) -> str:
    """Return the innermost cause of an error."""
    while True:
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def refused(code: int, headers: Mapping[str, str], body: str) -> Outcome:
    """Name a response whose status is an error."""
    said = excerpt(_message(body)) or "an empty body"
    low = body.lower()
    error = f"HTTP {code}: {said}"
    if code in (400, 403, 422) and any(word in low for word in _FILTER_WORDS):
        return Outcome("filtered", {"error": error, "finish_reason": "content_filter"})
    if code in (401, 403):
        return failed("unauthorised", f"{error}; set the key in the environment (see api_key_variable)")
    if code == 404:
        return failed("not_found", f"{error}; check model and base_url")
    if code in (402, 429):
        quota = code == 402 or any(word in low for word in _QUOTA_WORDS)
        return Outcome("rate_limited", {"error": error}, _retry_after(headers), error if quota else "")
    # Chat templates without a system role fail as a server's error, which asking again does not mend.
    system = "system" in low and "role" in low
    if code in (408, 409, 425) or (code >= 500 and not system):
        return Outcome("server_error", {"error": error}, _retry_after(headers))
    context = "context" in low and ("length" in low or "window" in low or "size" in low)
    names = [name for name in ("temperature", "top_p", "seed", "stop") if name in low]
    names = ["system"] if system else ["context"] if context else names
    remedy = f"; {_REMEDIES[names[0]]}" if names else ""
    return failed("bad_request", f"{error}{remedy}")


def _message(body: str) -> str:
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        for name in ("error", "message", "detail"):
            found = found.get(name, found) if isinstance(found, dict) else found
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return body


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: a number, milliseconds or a date; None if it says nothing usable."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = (headers.get(name) or "").strip()
        with suppress(ValueError):
            seconds = float(text) * unit
            if 0 <= seconds < float("inf"):
                return seconds
            continue
        with suppress(ValueError, TypeError):
            date = parsedate_to_datetime(text)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            return max(0.0, (date - datetime.now(UTC)).total_seconds())
    return None


def read(text: str, request: Request, *, accept_reasoning: bool) -> Outcome:
    """Name what a response with status 200 holds."""
    body = None
    with suppress(ValueError, RecursionError):
        body = json.loads(text)
    if not isinstance(body, dict) or body.get("error"):
        return failed("bad_response", f"HTTP 200 with no answer but: {excerpt(_message(text)) or 'an empty body'}")
    values: dict[str, Any] = {"response_id": str(body.get("id") or "")}
    usage = body.get("usage")
    for name in ("prompt_tokens", "completion_tokens"):
        count = usage.get(name) if isinstance(usage, dict) else None
        values[name] = count if type(count) is int and 0 <= count < _MOST_TOKENS else None
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(message, dict):
        return failed("no_choices", f"an answer without choices: {excerpt(text)}", **values)
    values["finish_reason"] = str(first.get("finish_reason") or "")
    values["text"] = _content(message.get("content")) or _content(message.get("refusal"))
    values["reasoning"] = _content(message.get("reasoning_content")) or _content(message.get("reasoning"))
    if values["finish_reason"] == "content_filter":
        return Outcome("filtered", {**values, "error": "finish_reason content_filter"})
    if cut := _cut(request, values["prompt_tokens"]):
        return failed("prompt_cut", cut, **values)
    if values["text"].strip() or (accept_reasoning and values["reasoning"].strip()):
        return Outcome("answered", values)
    beside = "; there is text in the field for reasoning (see reasoning)" if values["reasoning"].strip() else ""
    spent = "; all of max_tokens was used" if values["finish_reason"] == "length" else ""
    return failed("empty_content", f"an answer without text{beside}{spent}", **values)


def _content(value: object) -> str:
    if isinstance(value, list):  # parts of a message
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _cut(request: Request, read: int | None) -> str:
    """Say so if the server counted far fewer tokens than the prompt has: some cut a long prompt in silence."""
    # Three tokens for ten ASCII characters; half of that is below what any tokenizer in use makes of English.
    sent = 0.3 * sum(len(message["content"].encode("ascii", "ignore")) for message in request.messages)
    if not read or sent < 500 or read >= 0.5 * sent:
        return ""
    return (
        f"the server read {read} of about {sent:.0f} tokens of the prompt; raise its context size "
        f"(Ollama: OLLAMA_CONTEXT_LENGTH), or shorten profile_length"
    )
