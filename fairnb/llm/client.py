"""Asks an OpenAI-compatible server: many prompts at a time, patiently, each reply stored as it arrives.

The client sees prompts and nothing else: whether to ask again is decided by how a reply failed, never by
what a good answer would have been.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fairnb.errors import ParameterError
from fairnb.llm import responses
from fairnb.llm.request import Request
from fairnb.llm.responses import Outcome
from fairnb.llm.store import ANSWERS, Reply, Store, Writer, now, reply_to

_TOKEN_NAMES = ("max_tokens", "max_completion_tokens")
# Which name of the limit of tokens a server took, per server and model.
_known_names: dict[tuple[str, str], str] = {}
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_STARTING = 60.0
# A response without an answer is asked for again so often; at temperature 0 more would only cost.
_FEW_TRIES = 3
_RETRIED = ("rate_limited", "server_error", "timeout", "connection", "bad_response", "no_choices", "empty_content")
_FEW = ("no_choices", "empty_content", "bad_response")
# What the first question fails with when the server as a whole cannot answer.
_NOBODY_THERE = ("rate_limited", "server_error", "timeout", "connection", "bad_response")


@dataclass(frozen=True)
class Limits:
    """How hard to ask.

    Attributes
    ----------
    concurrency : int
        Requests under way at a time.
    requests_per_minute, tokens_per_minute : int
        0 for no limit. Tokens are those of prompts as estimated, and of replies up to now.
    timeout : float
        Seconds to wait for one answer.
    retry_seconds : float
        Seconds that one prompt may take with all its retries.
    """

    concurrency: int = 8
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    timeout: float = 120.0
    retry_seconds: float = 300.0


@dataclass
class Tally:
    """What became of the requests of one call.

    Attributes
    ----------
    wanted : int
        Requests given.
    statuses : Counter
        Replies stored, by status.
    prompt_tokens, completion_tokens : int
        As the server reported them.
    seconds : float
    stopped : str
        Why not all were asked; empty if all were.
    warnings : Counter
        What a reader should know of, with how often.
    """

    wanted: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    stopped: str = ""
    warnings: Counter[str] = field(default_factory=Counter)

    @property
    def answers(self) -> int:
        """Replies that are answers."""
        return sum(self.statuses[status] for status in ANSWERS)


def ask(
    requests: Sequence[Request],
    store: Store,
    *,
    key: str = "",
    limits: Limits | None = None,
    accept_reasoning: bool = False,
    progress: bool = True,
    announce: Callable[[str], None] = print,
) -> Tally:
    """Ask, and store each reply as it arrives; the same call in a script, in a notebook and under papermill.

    Parameters
    ----------
    requests : sequence of Request
        All to one server. What the store holds already is asked again; leave it out before.
    store : Store
    key : str
        The API key; local servers need none.
    limits : Limits, optional
    accept_reasoning : bool
        Whether an empty answer with reasoning beside it is an answer.
    progress : bool
        Whether to draw a progress bar on standard error.
    announce : callable
        Gets single lines of news.

    Returns
    -------
    Tally

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C (or the kernel's stop button), once the answers under way have come and are stored; a second
        Ctrl-C drops those under way.
    ParameterError
        If the key cannot be sent as a header.
    FairnbError
        If the store cannot be written; nothing more is asked then.
    """
    session = _Session(requests, store, key, limits or Limits(), accept_reasoning, progress, announce)
    # A notebook has a running loop already, and a loop may run once in a thread: so ours has its own.
    ended = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(session.run())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            failed.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name="fairnb-client", daemon=True)
    try:
        thread.start()
    except KeyboardInterrupt:  # nothing is asked yet, and nobody would wait for it
        session.interrupt(drop=True)
        raise
    interrupts = heard = 0
    while not ended.is_set():
        try:
            # Inside, so that a second Ctrl-C during the announcement of the first is caught too.
            if interrupts > heard:
                heard = interrupts
                session.interrupt(drop=interrupts > 1)
                if interrupts == 1:
                    announce(f"stopping: {session.under_way} answers are under way; Ctrl-C again drops them")
            ended.wait(0.5)
        except KeyboardInterrupt:
            interrupts += 1
    thread.join()
    if failed:
        raise failed[0]
    if interrupts:
        raise KeyboardInterrupt
    return session.tally


async def ask_async(requests: Sequence[Request], store: Store, **options: Any) -> Tally:
    """Do what `ask` does, for code that runs in a loop of its own."""
    return await asyncio.to_thread(ask, requests, store, **options)


def models(base_url: str, key: str = "", timeout: float = 10.0) -> list[str] | None:
    """Return the names of the models that a server lists; None if it lists none or cannot be reached."""
    import openai  # noqa: PLC0415  (loads slowly)

    try:
        with openai.OpenAI(base_url=base_url, api_key=key or "none", max_retries=0, timeout=timeout) as client:
            return sorted(model.id for model in client.models.list().data)
    except (openai.OpenAIError, AttributeError, TypeError, ValueError):
        return None


class _Session:
    def __init__(
        self,
        requests: Sequence[Request],
        store: Store,
        key: str,
        limits: Limits,
        accept_reasoning: bool,
        progress: bool,
        announce: Callable[[str], None],
    ) -> None:
        if len({request.base_url for request in requests}) > 1:
            raise ValueError("requests: to several servers; expected one")
        key = key.strip()  # a line end from a file of variables
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ParameterError(
                "the API key: holds blanks, line ends or letters outside ASCII; set the variable to the key alone"
            )
        self.tally = Tally(wanted=len(requests))
        self.under_way = 0
        self._waiting = list(reversed(requests))
        self._store, self._key, self._limits = store, key, limits
        self._accept_reasoning, self._progress, self._announce = accept_reasoning, progress, announce
        self._paused_until = self._next_start = 0.0
        self._in_a_row = self._answered = 0
        self._broken: list[BaseException] = []
        self._interrupted = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._client: Any = None
        self._bar: Any = None

    async def run(self) -> None:
        import openai  # noqa: PLC0415  (loads slowly)

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._interrupted:  # before there was a loop to tell
            self._end("interrupted")
        start = time.monotonic()
        writer = Writer(self._store, self._written, self._write_failed)
        try:
            with self._drawn():
                try:
                    if self._waiting:
                        self._client = openai.AsyncOpenAI(
                            base_url=self._waiting[0].base_url,
                            api_key=self._key or "none",
                            max_retries=0,
                            timeout=self._limits.timeout,
                        )
                        async with self._client:
                            # The first question goes alone: a server that is loading, a wrong key or a wrong model
                            # shows on one request and not on sixty-four.
                            await self._run_all([self._work(writer, most=1)])
                            workers = min(self._limits.concurrency, len(self._waiting))
                            await self._run_all([self._work(writer) for _ in range(workers)])
                finally:
                    await asyncio.to_thread(writer.close)
        finally:
            self.tally.seconds = time.monotonic() - start
        if self._broken:
            raise self._broken[0]

    async def _run_all(self, works: Sequence[Coroutine[Any, Any, None]]) -> None:
        self._tasks = [asyncio.create_task(work) for work in works]
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def interrupt(self, *, drop: bool) -> None:
        """Ask for no more; called from another thread."""
        self._interrupted = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has just ended by itself
                self._loop.call_soon_threadsafe(self._end, "interrupted")
                if drop:
                    for task in self._tasks:
                        self._loop.call_soon_threadsafe(task.cancel)

    def _end(self, why: str) -> None:
        if not self.tally.stopped:
            self.tally.stopped = why
        self._stop.set()

    def _write_failed(self, error: BaseException) -> None:
        self._broken.append(error)
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end, str(error))

    def _written(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            self.tally.statuses[reply.status] += 1
            self.tally.prompt_tokens += reply.prompt_tokens or 0
            self.tally.completion_tokens += reply.completion_tokens or 0
        if self._bar is not None:
            failed = sum(self.tally.statuses.values()) - self.tally.answers
            if failed:
                self._bar.set_postfix_str(f"failed {failed}", refresh=False)
            self._bar.update(len(replies))

    @contextmanager
    def _drawn(self) -> Iterator[None]:
        if not self._progress:
            yield
            return
        from tqdm import tqdm  # noqa: PLC0415

        with tqdm(
            total=self.tally.wanted, unit="reply", desc="asking", file=sys.stderr, mininterval=0.5, dynamic_ncols=True
        ) as self._bar:
            yield

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.set_description_str(text)

    async def _work(self, writer: Writer, most: int | None = None) -> None:
        done = 0
        while self._waiting and not self._stop.is_set() and (most is None or done < most):
            request = self._waiting.pop()
            done += 1
            reply, stop = await self._answer(request)
            if reply is not None:
                writer.put(reply)
            if stop:
                self._end(stop)

    async def _answer(self, request: Request) -> tuple[Reply | None, str]:
        """Ask until there is an answer or no more sense in asking; None if stopped while waiting."""
        start = time.monotonic()
        attempts, tries, odd, ids = 0, 0, 0, set[str]()
        asked_at = now()
        while True:
            if not await self._turn(request):
                return None, ""
            outcome, sent = await self._attempt(request)
            tries, attempts = tries + 1, attempts + sent
            spent = time.monotonic() - start
            identity = outcome.values.get("response_id")
            if identity and identity in ids:
                self.tally.warnings["the same response came twice: a cache may stand before the server"] += 1
            ids.add(identity or "")
            odd += outcome.status in _FEW
            final = outcome.stop or outcome.status not in _RETRIED or odd >= _FEW_TRIES
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries - 1, 20)) * random.uniform(0.75, 1.25)  # noqa: S311
            asked = outcome.retry_after
            if asked is not None:
                # A server that says "at once" each time would be asked without a pause for all of retry_seconds.
                wait = asked if asked >= 1 else max(asked, wait)
            why = ""
            patience = self._limits.retry_seconds
            if outcome.status == "connection" and not self._answered:
                # A server that is starting needs a while; one that is not there, or another address, needs a word.
                patience = min(patience, _STARTING)
                if tries == 1 and not final:
                    self._announce(f"{outcome.error}; trying for {patience:.0f} s more")
            if not final and spent + wait > patience:
                longer = f"; the server asks to wait {asked:.0f} s more" if asked else ""
                final, why = True, f" (after {attempts} tries in {spent:.0f} s{longer}; see retry_seconds)"
            if final:
                return self._finished(request, outcome, why, attempts=attempts, seconds=round(spent, 3), at=asked_at)
            if outcome.status == "rate_limited":
                self._paused_until = max(self._paused_until, time.monotonic() + wait)
            if not await self._sleep(wait, outcome.status.replace("_", " ")):
                return None, ""

    def _finished(
        self, request: Request, outcome: Outcome, why: str, *, attempts: int, seconds: float, at: str
    ) -> tuple[Reply, str]:
        values = dict(outcome.values)
        if why:
            values["error"] = f"{outcome.error}{why}"
        reply = reply_to(request, outcome.status, attempts=attempts, seconds=seconds, asked_at=at, **values)
        if outcome.status in ANSWERS:
            self._in_a_row = 0
            self._answered += 1
            return reply, ""
        self._in_a_row += 1
        patience = max(5, self._limits.concurrency)
        nothing_yet = not self._answered and outcome.status in (*_NOBODY_THERE, "bad_request")
        stop = outcome.stop or (str(reply.error) if nothing_yet else "")
        if not stop and self._in_a_row >= patience:
            stop = f"{self._in_a_row} failures in a row, the last one {outcome.status.replace('_', ' ')}: {reply.error}"
        return reply, stop

    async def _turn(self, request: Request) -> bool:
        """Wait until the limits allow a request; False if stopped meanwhile."""
        while (pause := self._paused_until - time.monotonic()) > 0:
            if not await self._sleep(pause, "rate limit"):
                return False
        minute = 0.0
        if self._limits.requests_per_minute:
            minute = 60 / self._limits.requests_per_minute
        if self._limits.tokens_per_minute:
            known = sum(self.tally.statuses.values())
            reply_tokens = self.tally.completion_tokens / known if known else 50
            minute = max(minute, (len(request.text) / 3.5 + reply_tokens) * 60 / self._limits.tokens_per_minute)
        if minute:
            begin = max(time.monotonic(), self._next_start)
            self._next_start = begin + minute
            if begin > time.monotonic():
                return await self._sleep(begin - time.monotonic(), "")
        return not self._stop.is_set()

    async def _sleep(self, seconds: float, why: str) -> bool:
        """Wait, with a word on why; False if stopped meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if why and seconds > 1:
                self._say(f"waiting {left:.0f} s ({why})")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), min(left, 1.0))
            if self._stop.is_set():
                return False
        self._say("asking")
        return not self._stop.is_set()

    async def _attempt(self, request: Request) -> tuple[Outcome, int]:
        """Ask, and once more if the limit of tokens has another name here. Returns how many requests that took."""
        name = _known_names.get((request.base_url, request.model), _TOKEN_NAMES[0])
        first, refused = await self._send(request, name)
        if not refused:
            return first, 1
        other = next(word for word in _TOKEN_NAMES if word != name)
        second, refused = await self._send(request, other)
        if refused:  # too large a limit is refused under either name, and either message may be the telling one
            error = f"{first.error}; with {other} instead: {second.error}"
            second = Outcome(second.status, {**second.values, "error": error}, second.retry_after, second.stop)
        return second, 2

    async def _send(self, request: Request, name: str) -> tuple[Outcome, bool]:
        """Send one request; also say whether the name of the limit of tokens was refused."""
        import openai  # noqa: PLC0415  (loaded already)

        sent = {**request.sampling, name: request.max_tokens}
        refused = False
        self.under_way += 1
        try:
            # The client's own timeout starts again with each byte that comes.
            async with asyncio.timeout(self._limits.timeout):
                raw = await self._client.chat.completions.with_raw_response.create(
                    # The messages are plain already; as an extra they are not taken apart and put together again,
                    # which costs the library a seventh of its time.
                    model=request.model,
                    messages=[],
                    extra_body={"messages": request.messages, **sent},
                )
            _known_names[request.base_url, request.model] = name
            outcome = responses.read(raw.text, request, accept_reasoning=self._accept_reasoning)
            if outcome.status not in ANSWERS:
                text = self._hide(raw.text)
                outcome = responses.read(text, request, accept_reasoning=self._accept_reasoning)
        except (openai.APITimeoutError, TimeoutError):
            outcome = responses.failed("timeout", f"no answer within {self._limits.timeout:g} s (see timeout)")
        except openai.APIStatusError as error:
            body = self._hide(responses.text_of(error.response))
            refused = error.status_code in (400, 422) and name in body
            outcome = responses.refused(error.status_code, error.response.headers, body)
            refused = refused and outcome.status == "bad_request"
        except openai.APIConnectionError as error:
            why = responses.excerpt(self._hide(responses.cause(error)))
            said = f"no connection to {request.base_url} ({why}); see that the server runs, and base_url"
            outcome = responses.failed("connection", said)
        except openai.OpenAIError as error:
            why = responses.excerpt(self._hide(f"{type(error).__name__}: {error}"))
            outcome = responses.failed("bad_response", why)
        except UnicodeEncodeError:
            outcome = responses.failed("bad_request", "the prompt holds half a surrogate pair, which cannot be sent")
        finally:
            self.under_way -= 1
        return Outcome(outcome.status, {**outcome.values, "sent": sent}, outcome.retry_after, outcome.stop), refused

    def _hide(self, text: str) -> str:
        """Servers repeat a wrong key in their message; it must not get into a file, nor a part of it."""
        if len(self._key) > 3:
            for form in (self._key, self._key.replace("/", "\\/")):  # as some write it in JSON
                text = text.replace(form, "(key)")
        return text
