"""The store of replies: what is written stays, damage is told, and an export is the same when it comes back."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb.errors import DataError, FairnbError
from fairnb.llm import store as module
from fairnb.llm.request import KEY_VERSION, Request
from fairnb.llm.store import ANSWERS, FAILURES, STATUSES, Store, export, now, read_lines, reply_to, salvage

REQUEST = Request("0" * 16, "The prompt", "Act.", "http://a/v1", "m1")


def reply(number=0, status="answered", text="1. Heat (1995)", **values):
    request = dataclasses.replace(REQUEST, text=f"prompt {number}", prompt_id=f"{number:016x}")
    values = {"sent": request.sampling, "asked_at": now(), "seconds": 1.5, "prompt_tokens": 9, **values}
    return reply_to(request, status, text=text if status in ANSWERS else "", **values)


def filled(file, number=20, **values):
    replies = [reply(n, **values) for n in range(number)]
    with Store(file) as store:
        assert store.add(replies) == number
    return sorted(replies, key=lambda one: one.key)


def contents(file):
    with Store(file) as store:
        return list(store.read())


def one_line(error):
    return "\n" not in str(error.value)


# --- what is written stays -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "a\u2028b\u2029\x85", "a\x00b", "\r\n \t", "椎名 🎬", "'; DROP TABLE replies; --", "\ufeff"]
)
def test_replies_come_back_as_they_were(tmp_path, text):
    written = [reply(0, text=text, reasoning=text, completion_tokens=None), reply(1, "timeout", error=text)]
    with Store(tmp_path / "new" / "x.sqlite") as store:
        store.add(written)
    assert sorted(contents(tmp_path / "new" / "x.sqlite"), key=str) == sorted(written, key=str)


@given(st.text(), st.text())
def test_any_reply_and_any_prompt_come_back_from_an_export(tmp_path_factory, text, prompt):
    folder = tmp_path_factory.mktemp("x")
    request = dataclasses.replace(REQUEST, text=prompt)
    with Store(folder / "x.sqlite") as store:
        store.add([reply_to(request, "answered", text=text)])
        export(store, folder / "x.jsonl")
        assert read_lines(folder / "x.jsonl") == list(store.read())
    assert read_lines(folder / "x.jsonl")[0].text == text.encode("utf-8", "replace").decode()


def test_half_a_surrogate_pair_is_kept_in_the_request_and_replaced_in_the_text(tmp_path):
    request = dataclasses.replace(REQUEST, text="half \ud83c")
    with Store(tmp_path / "x.sqlite") as store:
        store.add([reply_to(request, "answered", text="a \udc00 b")])
        export(store, tmp_path / "x.jsonl")
        (found,) = store.read([request.key])
    assert found.text == "a ? b"
    assert found.request == request.fields
    assert read_lines(tmp_path / "x.jsonl") == [found]


def test_an_answer_is_never_written_over(tmp_path):
    with Store(tmp_path / "x.sqlite") as store:
        for number, first in enumerate(ANSWERS):
            key = reply(number).key
            assert store.add([reply(number, first, "the first")]) == 1
            for status in STATUSES:
                assert store.add([reply(number, status, "another", error="x", seconds=2.5)]) == 0
            (found,) = store.read([key])
            assert (found.status, found.text, found.error, found.attempts) == (first, "the first", "", 1)


@pytest.mark.parametrize("status", FAILURES)
def test_a_failure_gives_way_and_attempts_add_up(tmp_path, status):
    with Store(tmp_path / "x.sqlite") as store:
        store.add([reply(0, status, error="first", attempts=3)])
        store.add([reply(0, "timeout", error="second", attempts=2, seconds=2.5)])
        assert [(one.error, one.attempts) for one in store.read()] == [("second", 5)]
        store.add([reply(0, attempts=1, seconds=3.5)])
        assert [(one.status, one.error, one.attempts) for one in store.read()] == [("answered", "", 6)]


def test_the_same_failure_again_is_one_failure(tmp_path):
    failed = reply(0, "timeout", attempts=3)
    with Store(tmp_path / "x.sqlite") as store:
        assert [store.add([failed]), store.add([failed])] == [1, 0]
        assert [one.attempts for one in store.read()] == [3]


def test_keys_statuses_and_counts(tmp_path):
    filled(tmp_path / "x.sqlite", 5)
    with Store(tmp_path / "x.sqlite") as store:
        store.add([reply(7, "timeout")])
        keys = [reply(7).key, reply(3).key, "unknown", reply(3).key]
        assert store.statuses(keys) == {reply(7).key: "timeout", reply(3).key: "answered"}
        assert {one.key for one in store.read(keys)} == {reply(7).key, reply(3).key}
        assert list(store.read([])) == []
        assert store.counts() == [("m1", "http://a/v1", "answered", 5), ("m1", "http://a/v1", "timeout", 1)]
        assert all(one.key_version == KEY_VERSION for one in store.read())


CHILD = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from test_store import reply
from fairnb.llm.store import Store
print("ready", flush=True)
sys.stdin.readline()
with Store(Path(sys.argv[1])) as store:
    for n in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[4])):
        store.add([reply(n, text=f"text {n} " * 50)])
        print(n, flush=True)
"""


def writer(file, first, number):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(file), str(first), str(Path(__file__).parent), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_write_at_once(tmp_path):
    file = tmp_path / "x.sqlite"
    # The ranges overlap, and both make the file.
    processes = [writer(file, first, 500) for first in (0, 400)]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    found = contents(file)
    assert {int(one.prompt_id, 16) for one in found} == set(range(900))
    assert all(one.text == f"text {int(one.prompt_id, 16)} " * 50 for one in found)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_what_was_told_as_written_outlives_a_kill(tmp_path):
    file = tmp_path / "x.sqlite"
    process = writer(file, 0, 100_000)
    process.stdout.readline()
    process.stdin.write("\n")
    process.stdin.flush()
    last = [int(process.stdout.readline()) for _ in range(50)][-1]
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    last = max([last, *(int(line) for line in rest.split("\n")[:-1])])
    found = {int(one.prompt_id, 16): one for one in contents(file)}
    assert set(found) in (set(range(last + 1)), set(range(last + 2)))  # one may be written and not yet told
    assert all(one.text == f"text {n} " * 50 for n, one in found.items())


# --- files that are no store -----------------------------------------------------------------------------------------


def test_a_folder_a_text_and_somebody_else_s_tables_are_left_alone(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("not a store\n" * 200)
    with sqlite3.connect(tmp_path / "other") as db:
        db.execute("CREATE TABLE tracks (name TEXT)")
    db.close()
    with sqlite3.connect(tmp_path / "columns") as db:
        db.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, text TEXT)")
    db.close()
    before = {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    for name, said in {
        "folder": "a folder",
        "text": "not a store",
        "other": "not a store",
        "columns": "not a store",
    }.items():
        with pytest.raises(DataError, match=said) as caught:
            Store(tmp_path / name)
        assert one_line(caught)
        assert "salvage" not in str(caught.value)
    assert (tmp_path / "other").read_bytes() == before[tmp_path / "other"]
    assert (tmp_path / "text").read_bytes() == before[tmp_path / "text"]


def test_a_file_where_a_folder_is_wanted(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FairnbError, match="cannot be opened") as caught:
        Store(tmp_path / "file" / "x.sqlite")
    assert one_line(caught)


@contextmanager
def as_somebody_else():
    """The administrator may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions")
@pytest.mark.parametrize("what", ["folder", "file", "no folder"])
def test_what_is_read_only_is_told_with_what_to_do(what):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "new" / "x.sqlite" if what == "no folder" else folder / "x.sqlite"
        if what == "file":
            filled(file, 1)
            file.chmod(0o444)
        folder.chmod(0o777 if what == "file" else 0o555)
        # A file that is only read is no error before something is to be written.
        with as_somebody_else(), pytest.raises(FairnbError, match="writable") as caught, Store(file) as store:
            store.add([reply(9)])
        folder.chmod(0o755)
    assert one_line(caught)


def test_a_full_disk_keeps_what_was_there(tmp_path):
    file = tmp_path / "x.sqlite"
    with Store(file) as store:
        store.add([reply(n) for n in range(50)])
        store._db.execute(f"PRAGMA max_page_count = {store._db.execute('PRAGMA page_count').fetchone()[0] + 2}")
        with pytest.raises(FairnbError, match="full; free some space") as caught:  # noqa: PT012  (some are written)
            for n in range(50, 1000):
                store.add([reply(n)])
        assert one_line(caught)
        written = {int(one.prompt_id, 16) for one in store.read()}
    assert written == set(range(n))
    assert n > 50
    assert {int(one.prompt_id, 16) for one in contents(file)} == written


def test_a_store_that_another_process_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BUSY_MS", 50)
    file = tmp_path / "x.sqlite"
    filled(file, 1)
    other = sqlite3.connect(file)
    other.execute("BEGIN IMMEDIATE")
    with Store(file) as store, pytest.raises(FairnbError, match="another process"):
        store.add([reply(1)])
    other.close()


# --- damage ----------------------------------------------------------------------------------------------------------


def damage(file, *places, content=b"\xa5" * 4096):
    size = file.stat().st_size
    with file.open("r+b") as stream:
        for place in places:
            stream.seek(int(size * place) // 4096 * 4096)
            stream.write(content)


@pytest.mark.parametrize("places", [(0.3,), (0.5,), (0.2, 0.4, 0.6, 0.8), (0.999,)])
def test_a_damaged_store_is_told_and_salvaged(tmp_path, places):
    file = tmp_path / "x.sqlite"
    whole = {one.key: one for one in filled(file, 600, text="1. Heat (1995)\n" * 20)}
    damage(file, *places)
    with pytest.raises(DataError, match=r"damaged .*`fairnb replies salvage`") as caught:
        Store(file)
    assert one_line(caught)
    good, lost = salvage(file, tmp_path / "salvaged.jsonl")
    found = read_lines(tmp_path / "salvaged.jsonl")
    assert len(found) == good > 300
    assert good < 600
    assert good + lost == 600
    assert all(whole[one.key] == one for one in found)
    with Store(tmp_path / "new.sqlite") as store:
        assert store.add(found) == good
    assert contents(tmp_path / "new.sqlite") == sorted(found, key=lambda one: one.key)


def test_every_page_of_a_store_can_be_damaged(tmp_path):
    """Whatever is hit: the store opens and reads, or one line tells of it, and nothing false is salvaged."""
    file = tmp_path / "x.sqlite"
    whole = {one.key: one for one in filled(file, 60, text="1. Heat (1995)\n" * 10)}
    clean, said = file.read_bytes(), []
    for content in (b"\xa5" * 4096, b"\0" * 4096, b"\xff" * 40):
        for start in range(0, len(clean), 4096):
            file.write_bytes(clean[:start] + content + clean[start + len(content) :])
            try:
                with Store(file) as store:
                    store.statuses(whole)
                    store.counts()
                    found = list(store.read())
                assert {one.key for one in found} <= set(whole)
            except DataError as error:
                said.append(str(error))
            try:
                good, _ = salvage(file, tmp_path / "salvaged.jsonl")
            except DataError as error:
                said.append(str(error))
                continue
            found = read_lines(tmp_path / "salvaged.jsonl")
            assert len(found) == good
            assert {one.key for one in found} <= set(whole)
    assert len(said) > 3
    assert not any("\n" in line for line in said)


def test_bytes_changed_inside_a_reply_are_told(tmp_path):
    """The pages are in order, so only reading the row shows it."""
    file = tmp_path / "x.sqlite"
    filled(file, 3, text="1. Heat (1995) HERE")
    clean = file.read_bytes()
    for old, new in {b"95) HERE": b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8", b'"messages"': b'"mess"ges":'[:10]}.items():
        assert old in clean
        file.write_bytes(clean.replace(old, new, 1))
        with Store(file) as store, pytest.raises(DataError, match="salvage") as caught:
            list(store.read())
        assert one_line(caught)
        assert salvage(file, tmp_path / "x.jsonl") == (2, 1)
        assert len(read_lines(tmp_path / "x.jsonl")) == 2


def test_an_empty_or_foreign_file_has_nothing_to_salvage(tmp_path):
    (tmp_path / "text").write_text("not a store\n" * 200)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("text", "empty"):
        with pytest.raises(DataError, match="nothing can be read"):
            salvage(tmp_path / name, tmp_path / "x.jsonl")
        assert not (tmp_path / "x.jsonl").exists()


def test_a_store_whose_writer_was_killed_can_be_salvaged_too(tmp_path):
    file = tmp_path / "x.sqlite"
    with Store(file) as store:  # what was written last is in the file beside it
        store.add([reply(n) for n in range(5)])
        assert salvage(file, tmp_path / "x.jsonl") == (5, 0)


# --- export and import -----------------------------------------------------------------------------------------------


def test_an_export_is_the_same_byte_for_byte_when_it_comes_back(tmp_path):
    filled(tmp_path / "a.sqlite", 30)
    with Store(tmp_path / "a.sqlite") as store:
        store.add([reply(n, status, error="é", attempts=3) for n, status in enumerate(FAILURES, start=30)])
        assert export(store, tmp_path / "a.jsonl") == 30 + len(FAILURES)
    with Store(tmp_path / "b.sqlite") as store:
        for _ in range(2):  # again changes nothing
            store.add(reversed(read_lines(tmp_path / "a.jsonl")))
            export(store, tmp_path / "b.jsonl")
            assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    with Store(tmp_path / "a.jsonl") as store:
        assert store.read_only
        assert list(store.read()) == contents(tmp_path / "b.sqlite")
        with pytest.raises(FairnbError, match="only read"):
            store.add([reply(99)])


def test_the_replies_of_one_model_only(tmp_path):
    other = reply_to(dataclasses.replace(REQUEST, model="m2"), "answered", text="x")
    with Store(tmp_path / "x.sqlite") as store:
        store.add([reply(1), other])
        assert export(store, tmp_path / "x.jsonl", "m2") == 1
    assert read_lines(tmp_path / "x.jsonl") == [other]


@pytest.fixture
def lines(tmp_path):
    filled(tmp_path / "x.sqlite", 3)
    with Store(tmp_path / "x.sqlite") as store:
        export(store, tmp_path / "x.jsonl")
    return (tmp_path / "x.jsonl").read_text("utf-8").splitlines(keepends=True)


def changed(line, **values):
    return json.dumps(json.loads(line) | values) + "\n"


def test_line_ends_marks_and_blank_lines_do_not_matter(tmp_path, lines):
    whole = read_lines(tmp_path / "x.jsonl")
    file = tmp_path / "y.jsonl"
    for content in (
        "\ufeff" + "".join(lines),
        "".join(lines).replace("\n", "\r\n"),
        "".join(lines)[:-1],
        "\n".join(lines),
    ):
        file.write_bytes(content.encode())
        assert read_lines(file) == whole
    file.write_bytes(b"")
    assert read_lines(file) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: line[: len(line) // 2], "line 3: cut off"),
        (lambda line: line[: len(line) // 2] + "\n", "line 3: not a reply"),
        (lambda _: "not JSON\n", "line 3: not a reply"),
        (lambda _: "[]\n", "line 3: not a reply"),
        (lambda _: "7\n", "line 3: not a reply"),
        (lambda _: "[" * 100_000 + "\n", "line 3: not a reply"),
        (lambda _: '{"prompt": "x", "completion": "y"}\n', "line 3: not a reply"),
        (lambda line: changed(line, extra=1), "line 3: not a reply .*extra"),
        (lambda line: changed(line, status="splendid"), "line 3: status 'splendid' is unknown"),
        (lambda line: changed(line, status=None), "line 3: status is None"),
        (lambda line: changed(line, request=json.loads(line)["request"] | {"temperature": 0.7}), "line 3: its key"),
        (lambda line: changed(line, request=json.loads(line)["request"] | {"repeat": 1}), "line 3: its key"),
        (lambda line: changed(line, request=[]), "line 3: request is"),
        (lambda line: changed(line, key="0" * 64), "line 3: its key"),
        (lambda line: changed(line, model="m2"), "line 3: base_url, model or repeat"),
        (lambda line: changed(line, text=None), "line 3: text is None"),
        (lambda line: changed(line, attempts="many"), "line 3: attempts is 'many'"),
        (lambda line: changed(line, prompt_tokens=2.5), "line 3: prompt_tokens is 2.5"),
    ],
)
def test_a_line_that_is_no_reply_is_named_and_nothing_imported(tmp_path, lines, change, said):
    file = tmp_path / "y.jsonl"
    file.write_text(lines[0] + lines[1] + change(lines[2]), "utf-8")
    with pytest.raises(DataError, match=said) as caught:
        read_lines(file)
    assert one_line(caught)
    with pytest.raises(DataError, match=said):
        Store(file)


def test_a_changed_text_is_not_noticed(tmp_path, lines):
    """The key covers the request; what came back has no seal."""
    file = tmp_path / "y.jsonl"
    file.write_text(lines[0] + lines[1] + changed(lines[2], text="another"), "utf-8")
    assert [one.text for one in read_lines(file)].count("another") == 1


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.jsonl").write_bytes('{"text": "é"}\n'.encode("latin-1"))
    with pytest.raises(DataError, match="not text in UTF-8"):
        read_lines(tmp_path / "latin.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_lines(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        Store(tmp_path / "none.jsonl")
