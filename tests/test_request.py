"""The key of a reply covers what can change it, and addresses of servers have one form."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb.errors import ParameterError
from fairnb.llm.request import Request, key_of, put_right

BASE = Request("0" * 16, "The prompt", "Act.", "http://a/v1", "m1", max_tokens=400)
CHANGES = [
    {"model": "m2"},
    {"base_url": "http://b/v1"},
    {"text": "The prompt "},
    {"system": ""},
    {"system": "Act!"},
    {"system_message": "user"},
    {"temperature": 0.7},
    {"temperature": 1},
    {"temperature": -1},
    {"top_p": 0},
    {"top_p": 1.0},
    {"seed": 0},
    {"seed": 1},
    {"seed": 2},
    {"max_tokens": 16},
    {"stop": "\n"},
    {"stop": "\n\n"},
    {"repeat": 1},
    {"repeat": 2},
]


def test_every_field_changes_the_key():
    keys = [dataclasses.replace(BASE, **change).key for change in [{}, *CHANGES]]
    assert len(set(keys)) == len(keys)
    changed = {name for change in CHANGES for name in change}
    assert changed == {field.name for field in dataclasses.fields(Request)} - {"prompt_id"}


def test_the_key_is_that_of_the_fields_and_of_nothing_else():
    assert BASE.key == key_of(BASE.fields)
    assert set(BASE.fields) == {"base_url", "model", "messages", "temperature", "max_tokens", "repeat"}
    assert dataclasses.replace(BASE, prompt_id="f" * 16).key == BASE.key
    # A message is what is sent, however it was put together.
    joined = dataclasses.replace(BASE, system="", text="Act.\n\nThe prompt")
    assert dataclasses.replace(BASE, system_message="user").key == joined.key


def test_whole_numbers_are_the_numbers_they_are():
    assert dataclasses.replace(BASE, temperature=0, top_p=-1.0, seed=-1).key == BASE.key
    assert dataclasses.replace(BASE, temperature=1).key == dataclasses.replace(BASE, temperature=1.0).key


def test_the_key_does_not_change_between_versions():
    """A stored reply is found again; raise KEY_VERSION and this value when the meaning of a field changes."""
    assert BASE.key == key_of(
        {
            "repeat": 0,
            "max_tokens": 400,
            "temperature": 0.0,
            "model": "m1",
            "base_url": "http://a/v1",
            "messages": [{"content": "Act.", "role": "system"}, {"content": "The prompt", "role": "user"}],
        }
    )
    assert BASE.key.startswith("22a896366762daf6")


def test_half_a_surrogate_pair_has_a_key():
    assert dataclasses.replace(BASE, text="\ud83c").key != dataclasses.replace(BASE, text="\ud83d").key


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1"),
        ("localhost:11434", "http://localhost:11434/v1"),
        ("LOCALHOST", "http://localhost/v1"),
        ("127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("0.0.0.0:8000", "http://0.0.0.0:8000/v1"),
        ("[::1]:8080", "http://[::1]:8080/v1"),
        ("[::1]", "http://[::1]/v1"),
        ("http://[fe80::1%eth0]:80/v1", "http://[fe80::1%eth0]/v1"),
        ("192.168.0.7:8000", "https://192.168.0.7:8000/v1"),
        ("localhost.example.org", "https://localhost.example.org/v1"),
        ("http://x/v1/chat/completions/", "http://x/v1"),
        ("http://x/chat/completions", "http://x/v1"),
        ("https://x/v1/models", "https://x/v1"),
        ("https://x/openai/v1//", "https://x/openai/v1"),
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("api.openai.com", "https://api.openai.com/v1"),
        (" https://openrouter.ai/api/v1 \n", "https://openrouter.ai/api/v1"),
        ("HTTP://X:80/", "http://x/v1"),
        ("https://x:443/v1", "https://x/v1"),
        ("https://x:80/v1", "https://x:80/v1"),
        ("http://x:443", "http://x:443/v1"),
        ("http://x:/v1", "http://x/v1"),
        ("http://my_host:1/V1", "http://my_host:1/V1"),
        ("http://bücher.example/v1", "http://bücher.example/v1"),
    ],
)
def test_addresses_are_put_right(given, right):
    assert put_right(given) == right
    assert put_right(right) == right


@pytest.mark.parametrize(
    "address",
    ["", " ", "not a url", "ftp://x", "http://", "http:///v1", "http://x:99999", "http://x:0", "http://x:port",
     "http://x:-1", "https:/x/v1", "http:x", "https//x/v1 y", "://x", "http://<server>/v1", "http://x\x00y", "http://a\tb",
     "http://a b/v1", "http://[::1", "http://..", "/v1", "?", "http://[zz]/v1", "http://x\n/v1", "http://$HOST/v1"],
)  # fmt: skip
def test_what_is_no_address_is_told_in_one_line(address):
    with pytest.raises(ParameterError, match=r"base_url: not an address; expected one such as http://127\.0") as caught:
        put_right(address)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["user:pw-secret@host", "https://pw-secret@host/v1", "host?key=pw-secret", "http://h/v1#pw-secret"]
)
def test_what_holds_a_secret_is_refused_and_not_repeated(address):
    with pytest.raises(ParameterError, match="api_key_variable") as caught:
        put_right(address)
    assert "pw-secret" not in str(caught.value)


@given(st.text(alphabet="htps:/.[]@?#%1aA8 \n<é", max_size=20) | st.text())
def test_any_text_has_one_form_or_is_refused(text):
    try:
        right = put_right(text)
    except ParameterError:
        return
    assert right.startswith(("http://", "https://"))
    assert put_right(right) == right
