"""The simulated recommender as a server: a real client over a real socket gets what the model says in process."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from fairnb.errors import ParameterError
from fairnb.llm.server import serve
from fairnb.llm.simulated import Dials, bundled

PROMPT = """The user is {who}. The user has watched the following films in the past:

- The Matrix (1999)
- Alien (1979)
- Salaam Bombay! (1988)

what would be the top 3 suitable next recommendations?"""


@pytest.fixture(scope="module")
def model():
    return bundled("films", Dials.of(bias="female=0.5", noise=0.5))


@pytest.fixture
def server(model):
    with serve(model, name="model-x") as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as running:
        yield running


def ask(client, prompt, **options):
    messages = [{"role": "system", "content": "Act."}, {"role": "user", "content": prompt}]
    return client.chat.completions.create(model="model-x", messages=messages, **options)


def post(server, body, path="/v1/chat/completions", connection=None):
    """Post raw bytes; the status, the content, and the connection for a next request."""
    if connection is None:
        connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    connection.request("POST", path, body=body)
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read()), connection


def test_answers_are_those_of_the_model_in_process(server, client, model):
    for who in ("female", "male", "Zoë, who likes « Amélie »"):
        prompt = PROMPT.format(who=who)
        for repeat in range(3):
            reply = ask(client, prompt)
            answer = model.answer(prompt, system="Act.", repeat=repeat)
            assert reply.choices[0].message.content == answer.text
            assert reply.choices[0].finish_reason == "stop"
            assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
                answer.prompt_tokens,
                answer.completion_tokens,
            )
            assert reply.usage.total_tokens == answer.prompt_tokens + answer.completion_tokens
            assert (reply.model, reply.created) == ("model-x", 0)
    assert server.calls == 9


def test_repeats_of_a_prompt_differ_by_noise_whatever_the_seed(client):
    prompts = [PROMPT.format(who=f"{age} years old") for age in range(20, 40)]
    first = [ask(client, prompt, seed=7, temperature=0).choices[0].message.content for prompt in prompts]
    second = [ask(client, prompt, seed=7, temperature=0).choices[0].message.content for prompt in prompts]
    assert first != second
    assert len({ask(client, prompts[0]).id for _ in range(5)}) == 5


def test_another_server_begins_with_repeat_0_again(client, model):
    prompt = PROMPT.format(who="male")
    contents = [ask(client, prompt).choices[0].message.content for _ in range(4)]
    with serve(model) as other, openai.OpenAI(base_url=other.base_url, api_key="none") as second:
        assert [ask(second, prompt).choices[0].message.content for _ in range(4)] == contents


def test_the_last_user_message_is_the_prompt(server, client, model):
    parts = [{"type": "text", "text": "top 2"}, {"type": "text", "text": " films?"}]
    messages = [
        {"role": "user", "content": "top 5 films?"},
        {"role": "assistant", "content": "1. Heat (1995)"},
        {"role": "user", "content": parts},
    ]
    reply = client.chat.completions.create(model="any", messages=messages)
    assert reply.choices[0].message.content == model.answer("top 2 films?").text


def test_models_are_listed(client):
    assert [entry.id for entry in client.models.list()] == ["model-x"]


def test_many_at_once(server, client, model):
    prompts = [PROMPT.format(who=f"{age} years old") for age in range(20, 84)]
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda prompt: ask(client, prompt).choices[0].message.content, prompts))
    assert replies == [model.answer(prompt).text for prompt in prompts]
    assert server.calls == 64


def test_each_of_equal_prompts_at_once_is_a_repeat_of_its_own(client, model):
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: ask(client, "top 3?"), range(40)))
    assert len({reply.id for reply in replies}) == 40
    contents = sorted(reply.choices[0].message.content for reply in replies)
    assert contents == sorted(model.answer("top 3?", repeat=repeat).text for repeat in range(40))


def test_unknown_paths_are_openai_errors(server, client):
    with pytest.raises(openai.NotFoundError, match=r"/v1/embeddings: unknown"):
        client.embeddings.create(model="model-x", input="x")
    with pytest.raises(openai.NotFoundError, match="unknown"):
        client.models.retrieve("other")
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    for path in ("/", "/v1/chat/completions", "/v2/models"):
        connection.request("GET", path)
        reply = connection.getresponse()
        assert reply.status == 404
        assert json.loads(reply.read())["error"].keys() == {"message", "type", "param", "code"}
    connection.close()
    assert server.calls == 0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "no JSON"),
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "messages"),
        (b"{}", "messages"),
        (b'{"messages": "hello"}', "messages"),
        (b'{"messages": ["hello"]}', "messages"),
        (b'{"messages": []}', "role user"),
        (b'{"messages": [{"role": "system", "content": "x"}]}', "role user"),
        (b'{"messages": [{"role": "user", "content": null}]}', "role user"),
        (b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "role user"),
        (b'{"stream": true, "messages": [{"role": "user", "content": "x"}]}', "stream"),
    ],
)
def test_a_bad_body_is_refused_and_the_connection_stays_usable(server, body, named):
    status, content, connection = post(server, body)
    assert (status, content["error"]["type"]) == (400, "invalid_request_error")
    assert named in content["error"]["message"]
    assert post(server, body, "/v1/nowhere", connection)[0] == 404
    good = json.dumps({"messages": [{"role": "user", "content": "top 3?"}]}).encode()
    status, content, _ = post(server, good, connection=connection)
    assert (status, content["choices"][0]["finish_reason"]) == (200, "stop")
    assert server.calls == 1
    connection.close()


def test_a_body_without_length_is_refused(server):
    with socket.create_connection(server.server_address[:2], timeout=10) as raw:
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n")
        reply = raw.makefile("rb").read()
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in reply


def test_requests_share_a_connection(server):
    good = json.dumps({"messages": [{"role": "user", "content": "top 3?"}]}).encode()
    _, _, connection = post(server, good)
    taken = connection.sock
    post(server, good, connection=connection)
    assert connection.sock is taken is not None
    connection.close()


def test_after_close_nobody_is_answered(model):
    running = serve(model)
    good = json.dumps({"messages": [{"role": "user", "content": "top 3?"}]}).encode()
    status, _, connection = post(running, good)
    assert status == 200
    running.close()
    running.close()
    # Neither on the connection that was open, nor on a new one, which the same object would make.
    for _ in range(2):
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            post(running, good, connection=connection)
        connection.close()


def test_a_client_that_gives_up_leaves_the_server_running(model, capfd):
    with serve(model, delay=0.3) as running:
        impatient = openai.OpenAI(base_url=running.base_url, api_key="none", max_retries=0, timeout=0.05)
        with impatient, pytest.raises(openai.APITimeoutError):
            ask(impatient, "top 3?")
        with openai.OpenAI(base_url=running.base_url, api_key="none") as patient:
            content = ask(patient, "top 3?").choices[0].message.content
            # On a slow machine the first request may not have arrived at all.
            assert content == model.answer("top 3?", repeat=running.calls - 1).text
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_told_in_one_line(server, model):
    port = server.server_address[1]
    with pytest.raises(ParameterError, match=f"127.0.0.1:{port}: cannot listen there .* choose another port"):
        serve(model, port=port)
    with pytest.raises(ParameterError, match="cannot listen there"):
        serve(model, port=70000)
    assert server.base_url == f"http://127.0.0.1:{port}/v1"
