"""The client against a real server on this machine that answers, refuses, dawdles and breaks as told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import DROP, MODEL, RESET, Reply, answer, error, free_port, serving

from fairnb.errors import FairnbError, ParameterError
from fairnb.llm import client, responses
from fairnb.llm.client import Limits, ask, ask_async
from fairnb.llm.request import Request
from fairnb.llm.store import ANSWERS, Store, export

# Reading the certificates takes longer than all else here, and no test needs them.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.01)
    client._known_names.clear()
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: TLS)


def requests_to(base_url, prompts=1, **fields):
    texts = [f"prompt {number}" for number in range(prompts)] if isinstance(prompts, int) else prompts
    return [
        Request(
            f"{number:016x}",
            text,
            fields.get("system", ""),
            base_url,
            MODEL,
            **{k: v for k, v in fields.items() if k != "system"},
        )
        for number, text in enumerate(texts)
    ]


@pytest.fixture
def run(tmp_path):
    """Ask a scripted server; gives the tally, the replies in the order of prompts, the calls, and the news."""

    def asking(script, prompts=1, *, fields=None, key="", progress=False, accept_reasoning=False, **limits):
        limits = {"concurrency": 4, "timeout": 5, "retry_seconds": 1.0, **limits}
        news = []
        file = tmp_path / f"replies{len(list(tmp_path.iterdir()))}.sqlite"
        with serving(script) as server, Store(file) as store:
            requests = requests_to(server.base_url, prompts, **(fields or {}))
            tally = ask(
                requests,
                store,
                key=key,
                limits=Limits(**limits),
                accept_reasoning=accept_reasoning,
                progress=progress,
                announce=news.append,
            )
            found = {reply.key: reply for reply in store.read()}
            replies = [found.get(request.key) for request in requests]
            assert sum(tally.statuses.values()) == len(found)  # what is counted is stored
        return SimpleNamespace(
            tally=tally, replies=replies, first=replies[0], calls=server.calls, news=news, server=server
        )

    return asking


def statuses(result):
    return [reply.status if reply else None for reply in result.replies]


def one_line(text):
    return text and "\n" not in text and "Traceback" not in text


# --- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_is_stored_with_what_was_sent(run):
    result = run(lambda *_: answer("1. Heat (1995)", id="chatcmpl-7", finish_reason="length"))
    reply = result.first
    assert (reply.status, reply.text, reply.finish_reason) == ("answered", "1. Heat (1995)", "length")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.response_id) == (9, 20, "chatcmpl-7")
    assert (reply.attempts, reply.error, reply.model) == (1, "", MODEL)
    assert reply.sent == {"temperature": 0.0, "max_tokens": 1500}
    assert datetime.fromisoformat(reply.asked_at).tzinfo
    assert (result.tally.answers, result.tally.stopped) == (1, "")
    assert (result.tally.prompt_tokens, result.tally.completion_tokens) == (9, 20)


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({}, [("user", "prompt 0")]),
        ({"system": "Act."}, [("system", "Act."), ("user", "prompt 0")]),
        ({"system": "Act.", "system_message": "user"}, [("user", "Act.\n\nprompt 0")]),
        ({"system_message": "user"}, [("user", "prompt 0")]),
    ],
)
def test_the_system_message_goes_where_it_is_wanted(run, fields, messages):
    body = run(lambda *_: answer(), fields=fields).calls[0].body
    assert [(message["role"], message["content"]) for message in body["messages"]] == messages


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"temperature": 0.0, "max_tokens": 1500}),
        ({"temperature": -1}, {"max_tokens": 1500}),
        (
            {"temperature": 0.7, "top_p": 0.5, "seed": 0, "stop": "\n\n", "max_tokens": 16},
            {"temperature": 0.7, "top_p": 0.5, "seed": 0, "stop": ["\n\n"], "max_tokens": 16},
        ),
        ({"top_p": -1.0, "seed": -1, "stop": ""}, {"temperature": 0.0, "max_tokens": 1500}),
    ],
)
def test_sampling_parameters_are_sent_or_left_out(run, fields, sent):
    result = run(lambda *_: answer(), fields=fields)
    body = dict(result.calls[0].body)
    assert body.pop("model") == MODEL
    body.pop("messages")
    assert body == sent == result.first.sent


@pytest.mark.parametrize(
    "text", ["Amélie 椎名 ≤ 🎬", "a\u2028b\u2029c\x85d", "a\x00b\r\nc\td", "\ufeffx", " 1. Heat \n"]
)
def test_any_text_comes_back_as_it_is(run, text):
    assert run(lambda *_: answer(text)).first.text == text


def test_half_a_surrogate_pair_in_an_answer_is_replaced_and_the_rest_kept(run):
    body = json.dumps(answer("1. Heat \ud83c and more"))
    assert r"\ud83c" in body
    assert run(lambda *_: Reply(200, body)).first.text == "1. Heat ? and more"


def test_half_a_surrogate_pair_in_a_prompt_is_a_failure_of_that_prompt(run):
    result = run(lambda *_: answer(), ["good", "bad \ud83c", "good too"])
    assert statuses(result) == ["answered", "bad_request", "answered"]
    assert "surrogate" in result.replies[1].error
    assert not result.tally.stopped


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (answer("I cannot help with that."), "I cannot help with that."),
        (answer(None, message={"refusal": "I will not."}), "I will not."),
        (answer([{"type": "text", "text": "1. He"}, {"type": "text", "text": "at"}, 7, {"type": "image"}]), "1. Heat"),
    ],
)
def test_refusals_and_parts_are_answers(run, body, text):
    result = run(lambda *_: body)
    assert (result.first.status, result.first.text, len(result.calls)) == ("answered", text, 1)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_apart_and_an_answer_only_if_wanted(run, name):
    body = answer("", message={name: "1. Heat"})
    result = run(lambda *_: body)
    assert (result.first.status, result.first.text, result.first.reasoning) == ("empty_content", "", "1. Heat")
    assert "reasoning" in result.first.error
    result = run(lambda *_: body, accept_reasoning=True)
    assert (result.first.status, result.first.text, result.first.reasoning) == ("answered", "", "1. Heat")


@pytest.mark.parametrize(
    "usage",
    [{}, "none", [1], {"prompt_tokens": "9"}, {"prompt_tokens": -1, "completion_tokens": 2.5}, {"prompt_tokens": True},
     {"prompt_tokens": 10**30, "completion_tokens": 2**63}],
)  # fmt: skip
def test_nonsense_about_tokens_is_no_number(run, usage):
    result = run(lambda *_: answer(usage=usage), 3)
    assert statuses(result) == ["answered"] * 3
    assert {(reply.prompt_tokens, reply.completion_tokens) for reply in result.replies} == {(None, None)}
    body = answer()
    del body["usage"], body["id"]
    assert run(lambda *_: body).first.status == "answered"


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "status", "remedy"),
    [
        (error(401, "Incorrect API key"), "unauthorised", "api_key_variable"),
        (error(403, "Forbidden"), "unauthorised", "api_key_variable"),
        (error(404, "model not found"), "not_found", "check model"),
        (Reply(404, "404 page not found"), "not_found", "base_url"),
        (error(400, "something is wrong"), "bad_request", "something is wrong"),
        (error(402, "Insufficient balance"), "rate_limited", "Insufficient balance"),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), "rate_limited", "quota"),
        (error(400, "This model's maximum context length is 2048 tokens"), "bad_request", "profile_length"),
        (error(400, "Unsupported value: temperature 0"), "bad_request", "temperature = -1"),
        (error(400, "unknown parameter: top_p"), "bad_request", "top_p = -1"),
        (error(422, "no such field: seed"), "bad_request", "model_seed = -1"),
        (error(400, "System role not supported"), "bad_request", "system_message = 'user'"),
        (
            error(500, "Jinja: roles must alternate; the system role is unknown"),
            "bad_request",
            "system_message = 'user'",
        ),
    ],
)
def test_what_is_not_of_one_prompt_stops_the_run_with_what_to_do(run, reply, status, remedy):
    result = run(lambda *_: reply, 20, fields={"system": "Act."})
    assert result.first.status == status
    assert len(result.calls) == 1
    assert statuses(result)[1:] == [None] * 19
    assert one_line(result.tally.stopped)
    assert remedy in result.tally.stopped
    assert remedy in result.first.error


def test_a_key_that_is_withdrawn_stops_a_run_under_way_and_loses_nothing(run):
    result = run(lambda number, *_: answer() if number < 10 else error(401, "key withdrawn"), 40)
    assert "key withdrawn" in result.tally.stopped
    assert result.tally.statuses["answered"] == 10
    assert len(result.calls) <= 10 + 4
    assert sum(result.tally.statuses.values()) == len(result.calls)


def test_one_refused_prompt_does_not_end_the_run(run):
    def script(_, body, __):
        return error(400, "maximum context length is 99") if "prompt 3" in str(body) else answer()

    result = run(script, 8)
    assert statuses(result) == ["answered"] * 3 + ["bad_request"] + ["answered"] * 4
    assert not result.tally.stopped
    assert len(result.calls) == 8


@pytest.mark.parametrize(
    "filtered",
    [
        error(400, "The response was filtered", code="content_filter"),
        error(403, "requires moderation; your input was flagged"),
        Reply(400, {"error": {"message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        answer("", finish_reason="content_filter"),
        answer("1. He", finish_reason="content_filter"),
    ],
)
def test_a_filtered_prompt_is_an_outcome_and_asked_once(run, filtered):
    prompts = [f"{'Religion-X' if number % 2 else 'neutral'} {number}" for number in range(24)]
    result = run(lambda _, body, __: filtered if "Religion-X" in str(body) else answer(), prompts)
    assert statuses(result) == ["answered", "filtered"] * 12
    assert (len(result.calls), result.tally.stopped) == (24, "")
    assert {reply.finish_reason for reply in result.replies[1::2]} == {"content_filter"}


def test_only_filtered_prompts_do_not_look_like_a_dead_server(run):
    result = run(lambda *_: error(400, "x", code="content_filter"), 30)
    assert (result.tally.statuses, result.tally.stopped) == ({"filtered": 30}, "")


def test_a_prompt_that_was_cut_stops_the_run(run):
    usage = {"prompt_tokens": 2048, "completion_tokens": 3}
    result = run(lambda *_: answer(usage=usage), ["The user has watched. " * 1000] * 1 + ["b", "c"])
    assert (result.first.status, result.first.text) == ("prompt_cut", "1. Heat (1995)")
    assert "2048 of about 6" in result.tally.stopped
    assert "OLLAMA_CONTEXT_LENGTH" in result.tally.stopped
    assert len(result.calls) == 1


@pytest.mark.parametrize(
    ("text", "read"), [("x " * 400, 1), ("椎名" * 3000, 500), ("The user has watched. " * 1000, 3500)]
)
def test_short_or_foreign_prompts_are_not_taken_for_cut(run, text, read):
    assert run(lambda *_: answer(usage={"prompt_tokens": read}), [text]).first.status == "answered"


# --- the name of the limit of tokens ---------------------------------------------------------------------------------

REFUSED = error(400, "Unsupported parameter: 'max_tokens' is not supported with this model.", param="max_tokens")


def test_the_other_name_of_the_limit_is_found_and_remembered(run):
    result = run(lambda _, body, __: REFUSED if "max_tokens" in body else answer(), 6)
    assert statuses(result) == ["answered"] * 6
    assert ["max_tokens" in call.body for call in result.calls] == [True] + [False] * 6
    assert all(reply.sent == {"temperature": 0.0, "max_completion_tokens": 1500} for reply in result.replies)
    assert [reply.attempts for reply in result.replies] == [2] + [1] * 5


def test_a_filtered_first_prompt_does_not_settle_the_name(run):
    def script(number, body, _):
        if number == 0:
            return error(400, "x", code="content_filter")
        return REFUSED if "max_tokens" in body else answer()

    assert statuses(run(script, 12)) == ["filtered"] + ["answered"] * 11


def test_too_large_a_limit_is_told_as_such_and_the_name_not_changed(run):
    def script(_, body, __):
        if "max_completion_tokens" in body:
            return error(400, "unknown field max_completion_tokens")
        return error(400, "max_tokens is too large: 1500") if "prompt 1" in str(body) else answer()

    result = run(script, 3, concurrency=1)
    assert statuses(result) == ["answered", "bad_request", "answered"]
    assert "too large: 1500" in result.replies[1].error
    assert result.calls[-1].body["max_tokens"] == 1500


def test_temperature_refused_under_the_other_name_tells_its_remedy(run):
    script = lambda _, body, __: REFUSED if "max_tokens" in body else error(400, "temperature: only 1 is supported")  # noqa: E731
    result = run(script, 3)
    assert "set temperature = -1" in result.tally.stopped
    assert len(result.calls) == 2


# --- asking again ----------------------------------------------------------------------------------------------------


def test_retry_after_is_waited_for(run):
    replies = [error(429, "slow down", {"retry-after": "1"}), error(429, "slow", {"retry-after-ms": "300"}), answer()]
    result = run(lambda number, *_: replies[number], retry_seconds=10)
    began = [call.began for call in result.calls]
    assert began[1] - began[0] >= 1
    assert began[2] - began[1] >= 0.3
    assert (result.first.status, result.first.attempts, result.first.error) == ("answered", 3, "")


def test_a_limit_for_one_holds_all_back(run):
    def script(number, *_):
        if number == 4:
            return error(429, "slow", {"retry-after": "1"})
        time.sleep(0.05)
        return answer()

    result = run(script, 30, retry_seconds=10)
    assert statuses(result) == ["answered"] * 30
    limited = result.calls[4].ended
    # Those on their way are at most the others of four.
    assert sum(limited + 0.1 < call.began < limited + 0.95 for call in result.calls) == 0


@pytest.mark.parametrize("value", ["61", "130", "2", "1e3"])
def test_too_long_a_wait_is_told_with_its_seconds(run, value):
    result = run(lambda *_: error(429, "slow", {"retry-after": value}), 3)
    assert result.first.status == "rate_limited"
    assert f"asks to wait {float(value):.0f} s" in result.first.error
    assert "retry_seconds" in result.tally.stopped
    assert len(result.calls) == 1


@pytest.mark.parametrize("value", ["abc", "-5", "nan", "inf", "", "0", "Wed, 21 Oct 2015 07:28:00 GMT", "soon, please"])
def test_a_wait_that_says_nothing_gives_way_to_the_client_s_own(run, value):
    headers = {"retry-after": value}
    result = run(lambda number, *_: error(429, "slow", headers) if number < 3 else answer())
    assert (result.first.status, result.first.attempts) == ("answered", 4)


def test_at_once_again_and_again_is_not_a_flood(run, monkeypatch):
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.1)
    result = run(lambda *_: error(429, "slow", {"retry-after": "0"}))
    assert result.first.status == "rate_limited"
    assert 2 <= len(result.calls) <= 6


@given(st.text() | st.datetimes().map(format_datetime) | st.floats().map(str))
def test_no_header_breaks_the_reading_of_it(text):
    seconds = responses._retry_after({"retry-after": text})
    assert seconds is None or 0 <= seconds < float("inf")


def test_a_date_is_seconds_from_now():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < responses._retry_after({"retry-after": date}) <= 100
    assert responses._retry_after({"retry-after": "7", "retry-after-ms": "nonsense"}) == 7


def test_a_limit_per_minute_that_names_the_page_for_billing_is_waited_for(run):
    text = "Rate limit reached; add a payment method at https://platform.openai.com/account/billing"
    result = run(lambda number, *_: answer() if number else error(429, text))
    assert result.first.status == "answered"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (error(500, "oops"), "server_error"),
        (error(503, "loading model"), "server_error"),
        (error(408, "request timeout"), "server_error"),
        (error(409, "conflict"), "server_error"),
        (Reply(502, "<html><body>Bad Gateway</body></html>", {"content-type": "text/html"}), "server_error"),
        (Reply(500, b"\xff\xfe\x00"), "server_error"),
        (error(429, "slow down"), "rate_limited"),
        (DROP, "connection"),
        (RESET, "connection"),
        (Reply(200, answer(), send=0), "connection"),
        (Reply(200, answer(), send=30), "connection"),
        (Reply(200, b"not gzip", {"content-encoding": "gzip"}), "connection"),
    ],
)
def test_a_server_in_trouble_is_asked_again_until_it_answers_or_time_is_up(run, failure, status):
    result = run(lambda number, *_: answer() if number > 3 else failure, 3)
    assert statuses(result) == ["answered"] * 3
    assert (result.first.attempts, len(result.calls)) == (5, 7)
    result = run(lambda *_: failure, 3, retry_seconds=0.1)
    assert result.first.status == status
    assert one_line(result.first.error)
    assert "retry_seconds" in result.first.error
    assert result.tally.stopped == result.first.error
    assert statuses(result)[1:] == [None] * 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("<html>Log in to the Wi-Fi</html>", "bad_response"),
        ("", "bad_response"),
        ("[" * 100_000, "bad_response"),
        ("[]", "bad_response"),
        ("null", "bad_response"),
        (b"\x80\x81", "bad_response"),
        ({"error": {"message": "out of memory"}}, "bad_response"),
        ({}, "no_choices"),
        ({"choices": []}, "no_choices"),
        ({"choices": None}, "no_choices"),
        ({"choices": "x"}, "no_choices"),
        ({"choices": [None]}, "no_choices"),
        ({"choices": [{"message": None}]}, "no_choices"),
        (answer(None), "empty_content"),
        (answer(""), "empty_content"),
        (answer(" \n"), "empty_content"),
        (answer([]), "empty_content"),
        (answer(7), "empty_content"),
    ],
)
def test_a_response_without_an_answer_is_named_and_asked_for_a_few_times(run, body, status):
    result = run(lambda *_: Reply(200, body), retry_seconds=60)
    assert (result.first.status, result.first.attempts, len(result.calls)) == (status, 3, 3)
    assert one_line(result.first.error)
    result = run(lambda number, *_: answer() if number == 2 else Reply(200, body), retry_seconds=60)
    assert (result.first.status, result.first.attempts) == ("answered", 3)


def test_all_tokens_spent_without_a_word_is_said(run):
    result = run(lambda *_: answer("", finish_reason="length"))
    assert "max_tokens" in result.first.error


def test_the_same_response_again_is_a_warning(run):
    assert not run(lambda number, *_: answer("" if number < 2 else "x")).tally.warnings
    result = run(lambda *_: answer("", id="chatcmpl-1"))
    assert list(result.tally.warnings.values()) == [2]


def test_a_slow_answer_is_a_timeout(run):
    def script(number, *_):
        time.sleep(0.6 if number == 0 else 0)
        return answer()

    result = run(script, timeout=0.2)
    assert (result.first.status, result.first.attempts) == ("answered", 2)
    result = run(lambda *_: time.sleep(0.4) or answer(), timeout=0.2, retry_seconds=0.2)
    assert result.first.status == "timeout"
    assert "see timeout" in result.tally.stopped


def test_an_answer_that_trickles_is_a_timeout_too(tmp_path):
    """Each byte starts the transport's own timeout again."""
    ended = threading.Event()

    def trickle(listener):
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
            while not ended.wait(0.05):
                try:
                    peer.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener, Store(tmp_path / "x.sqlite") as store:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        requests = requests_to(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        tally = ask(requests, store, limits=Limits(timeout=0.4, retry_seconds=0.1), progress=False)
        ended.set()
        thread.join()
    assert tally.statuses == {"timeout": 1}


def test_a_server_that_starts_late_is_waited_for(tmp_path):
    port = free_port()
    late = []

    def start():
        time.sleep(0.5)
        late.append(context := serving(lambda *_: answer(), port))
        context.__enter__()

    thread = threading.Thread(target=start)
    with Store(tmp_path / "replies.sqlite") as store:
        requests = requests_to(f"http://127.0.0.1:{port}/v1", 5)
        thread.start()
        tally = ask(requests, store, limits=Limits(retry_seconds=20), progress=False)
        thread.join()
        late[0].__exit__(None, None, None)
        assert tally.statuses == {"answered": 5}
        assert max(reply.attempts for reply in store.read()) > 1


def test_nobody_there_is_one_line(tmp_path):
    with Store(tmp_path / "replies.sqlite") as store:
        requests = requests_to(f"http://127.0.0.1:{free_port()}/v1", 5)
        tally = ask(requests, store, limits=Limits(retry_seconds=0.1), progress=False)
    assert tally.statuses == {"connection": 1}
    assert one_line(tally.stopped)
    assert "refused" in tally.stopped
    assert "base_url" in tally.stopped


def test_a_server_that_dies_ends_the_run_and_what_came_is_kept(run):
    result = run(lambda number, *_: answer() if number < 10 else DROP, 200, retry_seconds=0.05)
    assert result.tally.statuses["answered"] == 10
    assert result.tally.statuses["connection"] <= 2 * 5
    assert "failures in a row" in result.tally.stopped
    assert one_line(result.tally.stopped)
    assert [reply.text for reply in result.replies if reply and reply.status == "answered"] == ["1. Heat (1995)"] * 10


def test_scattered_failures_do_not_end_the_run(run):
    def script(_, body, __):
        return answer("") if int(body["messages"][-1]["content"].split()[1]) % 3 == 1 else answer()

    result = run(script, 60)
    assert (result.tally.statuses, result.tally.stopped) == ({"answered": 40, "empty_content": 20}, "")


# --- pace ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "prompts", "apart"),
    [
        ({"requests_per_minute": 600}, 8, 0.1),
        # 70 characters are 20 tokens, and the reply has 20 as the server says.
        ({"tokens_per_minute": 24_000}, ["x" * 70 + str(number) for number in range(8)], 0.1),
    ],
)
def test_limits_per_minute_keep_requests_apart(run, limits, prompts, apart):
    result = run(lambda *_: answer(), prompts, **limits)
    assert result.tally.answers == 8
    began = sorted(call.began for call in result.calls)
    assert began[-1] - began[0] >= 7 * apart * 0.9  # when they arrive, not when they are sent


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_no_more_than_so_many_are_under_way(run, concurrency):
    result = run(lambda *_: time.sleep(0.03) or answer(), 25, concurrency=concurrency)
    assert result.tally.answers == 25
    assert result.server.most == concurrency


def test_the_first_question_goes_alone(run):
    result = run(lambda *_: time.sleep(0.05) or answer(), 9, concurrency=8)
    assert min(call.began for call in result.calls[1:]) >= result.calls[0].ended


# --- where it is called from -----------------------------------------------------------------------------------------


def test_three_times_in_a_row_in_a_loop_in_a_thread_and_awaited(tmp_path):
    with serving(lambda *_: answer()) as server, Store(tmp_path / "replies.sqlite") as store:
        requests = requests_to(server.base_url, 21)
        done = []

        def some():
            done.append(ask(requests[len(done) * 3 : len(done) * 3 + 3], store, progress=False).answers)

        async def notebook():
            some()
            some()
            rest = await asyncio.gather(
                ask_async(requests[18:20], store, progress=False), ask_async(requests[20:], store, progress=False)
            )
            done.append(sum(tally.answers for tally in rest))

        for _ in range(3):
            some()
        asyncio.run(notebook())
        del done[-1]
        thread = threading.Thread(target=some)
        thread.start()
        thread.join()
        assert done == [3] * 6
        assert len(list(store.read())) == 21


def test_nothing_to_ask_needs_no_server(tmp_path):
    with Store(tmp_path / "replies.sqlite") as store:
        assert ask([], store).wanted == 0


def test_requests_to_two_servers_are_an_error(tmp_path):
    with Store(tmp_path / "x.sqlite") as store, pytest.raises(ValueError, match="several servers"):
        ask(requests_to("http://a/v1") + requests_to("http://b/v1"), store)


CHILD = """
import asyncio, signal, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from fairnb.llm.client import Limits, ask
from fairnb.llm.request import Request
from fairnb.llm.store import Store
if sys.argv[4] != "late":  # before the client has its loop
    run = asyncio.run
    def late(work):
        asyncio.run = run
        time.sleep(float(sys.argv[4]))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.5)
        return run(work)
    asyncio.run = late
requests = [Request(f"{n:016x}", f"prompt {n}", "", sys.argv[1], "model-x") for n in range(200)]
with Store(Path(sys.argv[2])) as store:
    def lacking():
        known = store.statuses([request.key for request in requests])
        return [request for request in requests if request.key not in known]
    try:
        ask(requests, store, limits=Limits(concurrency=4), progress=False, announce=lambda text: print(text, flush=True))
        print("ended", flush=True)
    except KeyboardInterrupt:
        print("interrupted", len(lacking()), flush=True)
    sys.stdin.readline()
    tally = ask(lacking()[:3], store, limits=Limits(concurrency=4), progress=False)
    print("again", tally.answers, len(lacking()), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_answers_under_way_and_twice_drops_them(tmp_path, times):
    held, free = threading.Event(), threading.Event()

    def script(number, *_):
        if number == 5:  # three others are under way, and held too
            held.set()
        if 2 <= number < 6:
            free.wait(20)
        return answer()

    with serving(script) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, server.base_url, str(tmp_path / "x.sqlite"), "", "late"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert held.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping: 4 answers are under way; Ctrl-C again drops them\n"
        if times == 2:
            process.send_signal(signal.SIGINT)
            said = process.stdout.readline()  # comes although no answer does
            free.set()
        else:
            free.set()
            said = process.stdout.readline()
        # Two came before the four that were held.
        assert said == f"interrupted {200 - 2 - (4 if times == 1 else 0)}\n"
        out, err = process.communicate("\n", timeout=20)
        assert out == f"again 3 {200 - 5 - (4 if times == 1 else 0)}\n"
        assert (err, process.returncode) == ("", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.parametrize("after", ["0", "0.2"])  # seconds; at 0 the thread is just being started
def test_ctrl_c_before_the_first_question_is_heard(tmp_path, after):
    with serving(lambda *_: time.sleep(0.05) or answer()) as server:
        process = subprocess.run(
            [sys.executable, "-c", CHILD, server.base_url, str(tmp_path / "x.sqlite"), "", after],
            input="\n", capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert len(server.calls) == 3  # those of the second call, which works
    assert process.stdout.splitlines()[-2:] == ["interrupted 200", "again 3 197"]


# --- what must not get out, and what is shown ------------------------------------------------------------------------

KEY = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize("status", [200, 400, 401, 500])
# So many letters before it that the key lies across the end of the excerpt, too.
@pytest.mark.parametrize(("before", "form"), [(0, "json"), (260, "json"), (260, "slashes"), (270, "text")])
def test_the_key_is_nowhere(run, tmp_path, capsys, status, before, form):
    def script(_, __, headers):
        assert headers["authorization"] == f"Bearer {KEY}"
        text = f"{'x' * before} wrong: {headers['authorization']}"
        if form == "text":
            return Reply(status, text)
        body = json.dumps({"error": {"message": text}, "key": headers["authorization"]})
        return Reply(status, body.replace("/", "\\/") if form == "slashes" else body)

    result = run(script, 2, key=KEY, progress=True, retry_seconds=0.05)
    assert result.tally.stopped
    with Store(tmp_path / "replies0.sqlite") as store:
        export(store, tmp_path / "replies.jsonl")
    shown = capsys.readouterr()
    places = [file.read_bytes().decode("utf-8", "replace") for file in tmp_path.iterdir()]
    places += [repr(result.tally), repr(result.replies), repr(result.news), shown.out, shown.err]
    # No part of it either.
    assert not any(part in place for place in places for part in ("0123456789", KEY[:12], KEY[-12:]))


@pytest.mark.parametrize("key", ["sk-é", "sk-a\nb", "two words"])
def test_a_key_that_cannot_be_sent_is_one_line_without_it(run, key):
    with pytest.raises(ParameterError) as caught:
        run(lambda *_: answer(), key=key)
    assert key not in str(caught.value)


def test_a_line_end_behind_the_key_is_not_sent(run):
    assert run(lambda *_: answer(), key="sk-test\r\n").calls[0].headers["authorization"] == "Bearer sk-test"


def test_the_bar_is_on_standard_error_and_shows_failures(run, capsys):
    run(lambda _, body, __: answer("" if "prompt 3" in str(body) else "x"), 6, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "6/6" in shown.err
    assert "failed 1" in shown.err
    run(lambda *_: answer(), 2, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_wait_is_shown(run, capsys):
    run(
        lambda number, *_: answer() if number else error(429, "x", {"retry-after": "1.1"}),
        progress=True,
        retry_seconds=9,
    )
    assert "waiting 1 s (rate limited)" in capsys.readouterr().err


def test_the_bar_can_be_turned_off_from_outside(tmp_path):
    code = CHILD.split("if sys.argv", maxsplit=1)[0] + (
        "with Store(Path(sys.argv[2])) as store:\n"
        "    print(ask([Request('0', 'x', '', sys.argv[1], 'model-x')], store).answers)\n"
    )
    with serving(lambda *_: answer()) as server:
        process = subprocess.run(
            [sys.executable, "-c", code, server.base_url, str(tmp_path / "x.sqlite"), ""],
            env={**os.environ, "TQDM_DISABLE": "1"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert (process.stdout, process.stderr) == ("1\n", "")


# --- a store that cannot be written ----------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written_ends_the_run(tmp_path, monkeypatch):
    with serving(lambda *_: answer()) as server, Store(tmp_path / "x.sqlite") as store:
        requests = requests_to(server.base_url, 50)
        add = store.add
        written = []

        def full(replies):
            replies = list(replies)
            if len(written) + len(replies) > 10:
                raise FairnbError("x.sqlite: database or disk is full; free some space there")
            written.extend(replies)
            return add(replies)

        monkeypatch.setattr(store, "add", full)
        with pytest.raises(FairnbError, match="free some space"):
            ask(requests, store, limits=Limits(concurrency=2), progress=False)
        assert len(server.calls) < 50
        assert len(list(store.read())) == len(written) > 0


def test_a_fault_in_the_writer_is_not_silent(tmp_path, monkeypatch):
    with serving(lambda *_: answer()) as server, Store(tmp_path / "x.sqlite") as store:
        monkeypatch.setattr(store, "add", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(requests_to(server.base_url, 5), store, progress=False)


def test_the_models_of_a_server():
    with serving(lambda *_: answer()) as server:
        server.models = ["b", "a"]
        assert client.models(server.base_url) == ["a", "b"]
        address = server.base_url
    assert client.models(address, timeout=1) is None
    assert client.models("http://127.0.0.1:9/v1", "sk-é") is None


def test_every_status_that_is_not_an_answer_is_a_failure_with_a_cause(run):
    for body in (answer(""), {"choices": []}, "x"):
        reply = run(lambda *_, body=body: Reply(200, body), retry_seconds=0).first
        assert reply.status not in ANSWERS
        assert reply.error
