"""Downloads against a small server on this machine, and users' own copies: what arrives, what is refused."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import logging
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from fairnb.datasets import fetch
from fairnb.errors import DownloadError, FairnbWarning, ParameterError

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "fairevalllm"
BODY = b"".join(b"%d,made up,%d\n" % (i, i * i % 97) for i in range(2500))
OTHER = BODY.replace(b"made up", b"changed")
SMALL = b"user,item\n1,2\n"


@dataclass
class Reply:
    """One answer: `cut` ends the body after that many bytes, with the headers of the whole one."""

    status: int = 200
    body: bytes = BODY
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    ranges: bool = True
    length: bool = True


class Site:
    """A server whose answers are queued by path; the last one of a path is repeated."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked.append((self.path, dict(self.headers)))
                queue = site.replies[self.path]
                self._answer(queue.pop(0) if len(queue) > 1 else queue[0])

            def _answer(self, reply: Reply) -> None:
                status, body, extra = reply.status, reply.body, {}
                match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                if status == 200 and match and reply.ranges:
                    start, total = int(match[1]), len(body)
                    if start >= total:
                        status, body, extra = 416, b"", {"Content-Range": f"bytes */{total}"}
                    else:
                        status, body = 206, body[start:]
                        extra = {"Content-Range": f"bytes {start}-{total - 1}/{total}"}
                self.send_response(status)
                for key, value in {**extra, **reply.headers}.items():
                    self.send_header(key, value)
                if reply.length:
                    self.send_header("Content-Length", str(len(body)))
                if reply.cut is not None or not reply.length:
                    self.send_header("Connection", "close")
                    self.close_connection = True
                self.end_headers()
                self.wfile.write(body if reply.cut is None else body[: reply.cut])

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                # A client that hangs up is part of the tests; anything else is a fault of this server.
                if not isinstance(sys.exc_info()[1], ConnectionError):
                    super().handle_error(request, client_address)  # type: ignore[arg-type]

        self.server = Server(("127.0.0.1", 0), Handler)
        self.scheme = "http" if context is None else "https"
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}/release/"

    def on(self, path: str, *replies: Reply) -> None:
        self.replies[f"/release/{path}"] = list(replies)

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.asked]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def remote(path: str, content: bytes) -> fetch.RemoteFile:
    return fetch.RemoteFile(path=path, url_path=path, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def source(*files: fetch.RemoteFile) -> fetch.Source:
    return fetch.Source(
        name="toy",
        title="A made-up release",
        base_url="https://files.invalid/release/",
        files=files,
        licence="none, it is made up",
        homepage="https://home.invalid/toy",
    )


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetch.SOURCES, "toy", source(remote("data/big.csv", BODY)))
    # The machine's own proxy has no part in these tests.
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits between tries in place of waiting."""
    made: list[float] = []
    monkeypatch.setattr(fetch, "time", SimpleNamespace(sleep=made.append))
    return made


def get(site: Site | str, folder: Path, **options: Any) -> list[Path]:
    base = site if isinstance(site, str) else site.url
    settings: dict[str, Any] = {"announce": lambda line: None, "wait": 0.01, "timeout": 5.0}
    return fetch.get("toy", folder, base_url=base, **{**settings, **options})


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def failure(site: Site | str, folder: Path, **options: Any) -> str:
    """Return the message of a download that must fail; every message is one line."""
    with pytest.raises(DownloadError) as caught:
        get(site, folder, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_downloads_all_files(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = remote("data/big.csv", BODY), remote("results/small.csv", SMALL), remote("empty.csv", b"")
    monkeypatch.setitem(fetch.SOURCES, "toy", source(*files))
    site.on("data/big.csv", Reply())
    site.on("results/small.csv", Reply(body=SMALL))
    site.on("empty.csv", Reply(body=b""))
    got = get(site, tmp_path / "new")
    assert got == [tmp_path / "new" / file.path for file in files]
    assert [path.read_bytes() for path in got] == [BODY, SMALL, b""]
    assert {headers["Accept-Encoding"] for _, headers in site.asked} == {"identity"}
    assert names(tmp_path) == ["new/data/big.csv", "new/empty.csv", "new/results/small.csv"]
    assert [status for _, status in fetch.check("toy", tmp_path / "new")] == ["ok", "ok", "ok"]


def test_downloaded_file_has_ordinary_rights(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply())
    (plain := tmp_path / "plain").write_bytes(b"")
    assert get(site, tmp_path)[0].stat().st_mode == plain.stat().st_mode


def test_second_call_asks_nothing(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply())
    get(site, tmp_path)
    assert len(site.asked) == 1
    lines: list[str] = []
    got = get(site, tmp_path, announce=lines.append)
    assert len(site.asked) == 1
    assert got[0].read_bytes() == BODY
    assert [line for line in lines if "not downloaded again" in line] == [
        "data/big.csv: already there with the published checksum, not downloaded again"
    ]


def test_only_the_missing_file_is_asked_for(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetch.SOURCES, "toy", source(remote("data/big.csv", BODY), remote("small.csv", SMALL)))
    (tmp_path / "small.csv").write_bytes(SMALL)
    site.on("data/big.csv", Reply())
    get(site, tmp_path)
    assert [path for path, _ in site.asked] == ["/release/data/big.csv"]


def test_announced_before_the_first_request(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply())
    told: list[tuple[int, str]] = []
    get(site, tmp_path / "here", announce=lambda line: told.append((len(site.asked), line)))
    before = "\n".join(line for asked, line in told if asked == 0)
    for part in (
        "A made-up release: 1 file, 0.04 MB",
        "none, it is made up",
        "https://home.invalid/toy",
        str(tmp_path / "here"),
    ):
        assert part in before
    assert len(site.asked) == 1
    assert told[-1] == (1, "data/big.csv: downloaded, checksum as published")


def test_prints_by_default_and_pooch_is_quiet(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pooch

    site.on("data/big.csv", Reply())
    logger, level, log = pooch.get_logger(), pooch.get_logger().level, io.StringIO()
    logger.addHandler(handler := logging.StreamHandler(log))
    try:
        fetch.get("toy", tmp_path, base_url=site.url)
    finally:
        logger.removeHandler(handler)
    out, err = capsys.readouterr()
    assert "A made-up release" in out
    assert (err, log.getvalue()) == ("", "")
    assert logger.level == level


def test_progress_goes_to_standard_error(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.on("data/big.csv", Reply())
    get(site, tmp_path, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\rdata/big.csv: 0.04 of 0.04 MB\n")


def test_wrong_content_is_refused_and_deleted(site: Site, tmp_path: Path) -> None:
    wrong = OTHER[: len(BODY)]
    assert len(wrong) == len(BODY)
    site.on("data/big.csv", Reply(body=wrong))
    text = failure(site, tmp_path)
    assert "data/big.csv" in text
    assert f"expected {hashlib.sha256(BODY).hexdigest()}" in text
    assert f"found {hashlib.sha256(wrong).hexdigest()}" in text
    assert "https://home.invalid/toy" in text
    assert names(tmp_path) == []
    assert len(site.asked) == 1


def test_longer_content_is_refused_and_deleted(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.on("data/big.csv", Reply(body=BODY + bytes(1_000_000)))
    whole, read = requests.Response.iter_content, []

    def counted(self: requests.Response, *args: Any) -> Iterator[Any]:
        for chunk in whole(self, *args):
            read.append(len(chunk))
            yield chunk

    monkeypatch.setattr(requests.Response, "iter_content", counted)
    assert "found more bytes" in failure(site, tmp_path)
    assert sum(read) <= len(BODY) + 8192
    assert names(tmp_path) == []
    assert len(site.asked) == 1


@pytest.mark.parametrize("cut", [20_000, 100])
def test_truncated_body_is_resumed(site: Site, tmp_path: Path, cut: int) -> None:
    site.on("data/big.csv", Reply(cut=cut), Reply())
    kept: list[int] = []

    def announce(line: str) -> None:
        if "try 2 of 4" in line:
            kept.append((tmp_path / "data" / "big.csv.part").stat().st_size)

    assert get(site, tmp_path, announce=announce)[0].read_bytes() == BODY
    assert len(kept) == 1
    # The rest of a chunk that broke off may be fetched again.
    assert cut - 8192 < kept[0] <= cut
    assert site.ranges() == [None, f"bytes={kept[0]}-" if kept[0] else None]
    assert names(tmp_path) == ["data/big.csv"]


def test_shorter_body_with_its_own_length_is_resumed(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(body=BODY[:10_000]), Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=10000-"]


def test_body_without_a_length_is_resumed(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(cut=10_000, length=False), Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=10000-"]


def test_each_try_goes_on_from_the_last(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(cut=16_384), Reply(cut=8192), Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-", "bytes=24576-"]


def test_truncated_for_ever_gives_up_and_keeps_the_part(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(cut=20_000, ranges=False))
    text = failure(site, tmp_path, tries=3)
    assert len(site.asked) == 3
    assert "data/big.csv" in text
    assert "after try 3" in text
    assert f"with 16384 of {len(BODY)} bytes kept" in text
    assert names(tmp_path) == ["data/big.csv.part"]
    site.on("data/big.csv", Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges()[-1] == "bytes=16384-"


def test_server_without_ranges_starts_anew(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(cut=20_000, ranges=False), Reply(ranges=False))
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-"]


@pytest.mark.parametrize(
    "answer",
    [f"bytes 0-{len(BODY) - 1}/{len(BODY)}", f"bytes 16384-{len(BODY)}/{len(BODY) + 1}", "rubbish", ""],
    ids=["another start", "another size", "unreadable", "missing"],
)
def test_another_piece_than_asked_for_starts_anew(site: Site, tmp_path: Path, answer: str) -> None:
    headers = {"Content-Range": answer} if answer else {}
    site.on("data/big.csv", Reply(cut=20_000), Reply(status=206, headers=headers), Reply())
    assert get(site, tmp_path, tries=2)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-", None]


def test_range_that_cannot_be_served_starts_anew(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(cut=20_000), Reply(status=416, body=b""), Reply())
    assert get(site, tmp_path, tries=2)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-", None]


@pytest.mark.parametrize(
    ("size", "ranges"),
    [(5000, ["bytes=5000-", None]), (len(BODY), [None]), (len(BODY) + 1, [None])],
    ids=["shorter", "as long", "longer"],
)
def test_part_of_another_file_starts_anew(site: Site, tmp_path: Path, size: int, ranges: list[str | None]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big.csv.part").write_bytes(b"x" * size)
    site.on("data/big.csv", Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == ranges
    assert names(tmp_path) == ["data/big.csv"]


def test_complete_part_needs_no_request(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big.csv.part").write_bytes(BODY)
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.asked == []
    assert names(tmp_path) == ["data/big.csv"]


def test_interrupted_then_resumed_by_a_new_call(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.on("data/big.csv", Reply())
    whole = requests.Response.iter_content

    def interrupted(self: requests.Response, *args: Any, **options: Any) -> Iterator[Any]:
        chunks = whole(self, *args, **options)
        yield next(chunks)
        yield next(chunks)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(requests.Response, "iter_content", interrupted)
        with pytest.raises(KeyboardInterrupt):
            get(site, tmp_path)
    assert names(tmp_path) == ["data/big.csv.part"]
    assert (tmp_path / "data" / "big.csv.part").read_bytes() == BODY[:16_384]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-"]
    assert names(tmp_path) == ["data/big.csv"]


def test_404_is_asked_once(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(status=404, body=b"no such file"))
    text = failure(site, tmp_path)
    assert len(site.asked) == 1
    assert "404" in text
    assert "/release/data/big.csv" in text
    assert "may have moved" in text
    assert "https://home.invalid/toy" in text
    assert str(tmp_path / "data") in text
    assert names(tmp_path) == []


@pytest.mark.parametrize("status", [204, 206, 304, 403, 410, 416])
def test_other_answers_are_not_tried_again(site: Site, tmp_path: Path, status: int) -> None:
    site.on("data/big.csv", Reply(status=status, body=b""))
    assert f"answered {status}" in failure(site, tmp_path)
    assert len(site.asked) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_server_error_is_tried_again(site: Site, tmp_path: Path, status: int) -> None:
    site.on("data/big.csv", Reply(status=status, body=b"sorry"), Reply())
    lines: list[str] = []
    assert get(site, tmp_path, announce=lines.append)[0].read_bytes() == BODY
    assert len(site.asked) == 2
    assert f"data/big.csv: the server answered {status}; try 2 of 4 in 0.01 seconds" in lines


def test_server_error_keeps_the_part(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(cut=20_000), Reply(status=500), Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-", "bytes=16384-"]


def test_waits_double_up_to_a_minute(site: Site, tmp_path: Path, pauses: list[float]) -> None:
    site.on("data/big.csv", Reply(status=500, body=b""))
    failure(site, tmp_path, tries=6, wait=5.0)
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0]
    assert len(site.asked) == 6


@pytest.mark.parametrize(
    ("asked", "waited"),
    [("0", 0.0), ("7", 7.0), ("100000", 60.0), ("-3", 0.0), ("abc", 0.5), ("", 0.5), ("9" * 5000, 0.5)],
    ids=["0", "7", "100000", "-3", "abc", "empty", "5000 digits"],
)
def test_429_waits_as_asked(site: Site, tmp_path: Path, pauses: list[float], asked: str, waited: float) -> None:
    site.on("data/big.csv", Reply(status=429, body=b"", headers={"Retry-After": asked}), Reply())
    assert get(site, tmp_path, wait=0.5)[0].read_bytes() == BODY
    assert pauses == [waited]


@pytest.mark.parametrize(("ahead", "low", "high"), [(30, 20, 30), (3600, 60, 60), (-3600, 0, 0)])
def test_429_waits_until_a_date(
    site: Site, tmp_path: Path, pauses: list[float], ahead: int, low: float, high: float
) -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    site.on("data/big.csv", Reply(status=429, body=b"", headers={"Retry-After": when}), Reply())
    get(site, tmp_path)
    assert len(pauses) == 1
    assert low <= pauses[0] <= high


def test_no_network(tmp_path: Path) -> None:
    # Bound but not listening: the port refuses, and nobody else can take it.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        lines: list[str] = []
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        text = failure(url, tmp_path, tries=3, announce=lines.append)
    assert "data/big.csv" in text
    assert os.strerror(errno.ECONNREFUSED) in text
    assert "check the network" in text
    assert len([line for line in lines if " of 3 in " in line]) == 2
    assert names(tmp_path) == []


def test_silent_server_times_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/"
        assert "no answer within 0.1 seconds" in failure(url, tmp_path, tries=2, timeout=0.1)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every attempt to look a host up or to connect."""
    made: list[str] = []

    def refuse(*args: object, **options: object) -> None:
        made.append(repr(args))
        raise OSError("the test allows no connection")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return made


@pytest.mark.parametrize(
    "url",
    [
        "http://files.invalid/release/",
        "HTTP://files.invalid/release/",
        "http://127.0.0.1.files.invalid/",
        "http://127.0.0.1@files.invalid/",
        "http://192.168.0.1/",
        "http:///release/",
        "ftp://127.0.0.1/release/",
        "file:///release/",
        "https:///release/",
        "http://[::1/",
        "release/",
    ],
)
def test_plain_http_is_refused_without_a_connection(tmp_path: Path, offline: list[str], url: str) -> None:
    text = failure(url, tmp_path, tries=1)
    assert "https" in text
    assert offline == []
    assert list(tmp_path.iterdir()) == []


def test_url_that_parsers_read_differently_is_refused(tmp_path: Path, offline: list[str]) -> None:
    # urllib sees the host after the @, and requests would connect to the one before it.
    assert "https" in failure("http://files.invalid\\@127.0.0.1/", tmp_path, tries=1)
    assert offline == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_loopback_may_be_plain_http(tmp_path: Path, offline: list[str], host: str) -> None:
    assert "the connection failed" in failure(f"http://{host}:1/", tmp_path, tries=1)
    assert len(offline) >= 1


def test_redirect_within_the_machine_is_followed(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(status=302, body=b"", headers={"Location": "/release/moved%20here.csv"}))
    site.on("moved%20here.csv", Reply(cut=20_000), Reply())
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert [path for path, _ in site.asked] == ["/release/data/big.csv", "/release/moved%20here.csv"] * 2
    assert site.ranges() == [None, None, "bytes=16384-", "bytes=16384-"]


@pytest.mark.parametrize("to", ["http://files.invalid/x.csv", "//files.invalid/x.csv", "ftp://127.0.0.1/x"])
def test_redirect_to_plain_http_is_refused(site: Site, tmp_path: Path, to: str) -> None:
    site.on("data/big.csv", Reply(status=301, body=b"", headers={"Location": to}))
    text = failure(site, tmp_path)
    assert "refused" in text
    assert "/release/data/big.csv" in text
    assert len(site.asked) == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize("to", ["http://[::1/x", "http://127.0.0.1:port/x"])
def test_redirect_to_no_url_is_refused(site: Site, tmp_path: Path, to: str) -> None:
    site.on("data/big.csv", Reply(status=302, body=b"", headers={"Location": to}))
    assert "not a URL" in failure(site, tmp_path)
    assert len(site.asked) == 1


def test_redirects_come_to_an_end(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(status=302, body=b"", headers={"Location": "big.csv"}))
    assert "more than 5 redirects" in failure(site, tmp_path)
    assert len(site.asked) == 6


Answer = Callable[[requests.PreparedRequest, dict[str, Any]], requests.Response]


def over_https(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Answer https requests in place of the network; plain ones go through."""
    plain = requests.adapters.HTTPAdapter.send

    def send(self: Any, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        if str(request.url).startswith("https:"):
            return answer(request, options)
        return plain(self, request, **options)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)


def canned(request: requests.PreparedRequest, status: int, body: bytes, **headers: str) -> requests.Response:
    response = requests.Response()
    response.status_code, response.url, response.request = status, str(request.url), request
    response.raw = io.BytesIO(body)
    response.headers.update(headers)
    return response


def test_redirect_from_https_to_this_machine_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.on("data/big.csv", Reply())
    over_https(monkeypatch, lambda request, options: canned(request, 302, b"", Location=f"{site.url}data/big.csv"))
    text = failure("https://files.invalid/release", tmp_path)
    assert "files.invalid/release/data/big.csv" in text
    assert "refused" in text
    assert site.asked == []


def test_https_is_verified_and_carries_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, dict[str, str], Any]] = []

    def answer(request: requests.PreparedRequest, options: dict[str, Any]) -> requests.Response:
        seen.append((str(request.url), dict(request.headers), options["verify"]))
        if len(seen) == 1:
            return canned(request, 302, b"", Location="https://other.invalid/x.csv")
        return canned(request, 200, BODY)

    over_https(monkeypatch, answer)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    (netrc := tmp_path / "netrc").write_text("default login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    got = fetch.get("toy", tmp_path / "new", announce=lambda line: None, wait=0.01)
    assert got[0].read_bytes() == BODY
    assert [url for url, _, _ in seen] == [
        "https://files.invalid/release/data/big.csv",
        "https://other.invalid/x.csv",
    ]
    assert all("Authorization" not in headers for _, headers, _ in seen)
    assert [verify for _, _, verify in seen] == [True, True]


def test_untrusted_certificate_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def answer(request: requests.PreparedRequest, options: dict[str, Any]) -> requests.Response:
        tried.append(str(request.url))
        raise requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    over_https(monkeypatch, answer)
    text = failure("https://files.invalid/release", tmp_path)
    assert "data/big.csv" in text
    assert "certificate" in text
    assert len(tried) == 1


def test_proxy_is_not_used_for_this_machine(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1/")
    site.on("data/big.csv", Reply())
    assert get(site, tmp_path, tries=1)[0].read_bytes() == BODY


def test_password_in_a_url_is_not_shown(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply(status=404, body=b""))
    text = failure(site.url.replace("http://", "http://me:secret@"), tmp_path)
    assert "secret" not in text
    assert "secret" not in failure("http://me:secret@files.invalid/", tmp_path)


@pytest.mark.parametrize("content", [OTHER[: len(BODY)], b"short"], ids=["same size", "other size"])
def test_present_file_with_other_content_is_left_alone(site: Site, tmp_path: Path, content: bytes) -> None:
    site.on("data/big.csv", Reply())
    (target := tmp_path / "data" / "big.csv").parent.mkdir()
    target.write_bytes(content)
    text = failure(site, tmp_path)
    assert str(target) in text
    assert f"expected {hashlib.sha256(BODY).hexdigest()}" in text
    assert f"found {hashlib.sha256(content).hexdigest()}" in text
    assert "move it away" in text
    assert target.read_bytes() == content
    assert site.asked == []


def test_folder_in_place_of_the_file(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data" / "big.csv").mkdir(parents=True)
    text = failure(site, tmp_path)
    assert str(tmp_path / "data" / "big.csv") in text
    assert "move it away" in text
    assert site.asked == []


@pytest.mark.parametrize("depth", [0, 1])
def test_file_in_place_of_the_folder(site: Site, tmp_path: Path, depth: int) -> None:
    site.on("data/big.csv", Reply())
    folder = tmp_path / "new"
    blocked = [folder, folder / "data"][depth]
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_bytes(b"in the way")
    text = failure(site, folder)
    assert str(folder / "data") in text
    assert "big.csv" in text
    assert blocked.read_bytes() == b"in the way"
    assert site.asked == []


def test_read_only_folder(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply())
    (folder := tmp_path / "data").mkdir()
    folder.chmod(0o555)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("no folder is read-only for root (nor on Windows), and this runs as such")
        text = failure(site, tmp_path)
    finally:
        folder.chmod(0o755)
    assert str(folder) in text
    assert os.strerror(errno.EACCES) in text
    assert site.asked == []


def test_full_disk_keeps_what_fitted(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.on("data/big.csv", Reply())
    plain = Path.open

    def full(self: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        file = plain(self, mode, *args, **options)
        if self.name == "big.csv.part":
            write = file.write

            def limited(data: bytes) -> int:
                if file.tell() + len(data) > 20_000:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return int(write(data))

            return SimpleFile(file, limited)
        return file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        text = failure(site, tmp_path)
    assert os.strerror(errno.ENOSPC) in text
    assert str(tmp_path / "data") in text
    assert len(site.asked) == 1
    assert names(tmp_path) == ["data/big.csv.part"]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges() == [None, "bytes=16384-"]


@dataclass
class SimpleFile:
    """An open file with a write method of its own."""

    file: Any
    write: Callable[[bytes], int]

    def __enter__(self) -> SimpleFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


def test_unknown_source_lists_the_known_ones(tmp_path: Path) -> None:
    for call in (fetch.get, fetch.check):
        with pytest.raises(ParameterError, match=r"'movies'.*fairevalllm, lastfm-1k, ml-100k, ml-1m, toy"):
            call("movies", tmp_path)


@pytest.mark.parametrize("bad", [{"tries": 0}, {"wait": -1.0}, {"timeout": 0.0}, {"timeout": float("nan")}])
def test_options_out_of_range(site: Site, tmp_path: Path, bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=f"^{next(iter(bad))}="):
        get(site, tmp_path, **bad)
    assert site.asked == []


def test_check_tells_each_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [remote(name, SMALL) for name in ("good", "absent", "long", "changed")]
    monkeypatch.setitem(fetch.SOURCES, "toy", source(*files))
    (tmp_path / "good").write_bytes(SMALL)
    (tmp_path / "long").write_bytes(SMALL + b"\n")
    (tmp_path / "changed").write_bytes(SMALL.upper())
    assert fetch.check("toy", tmp_path) == [
        ("good", "ok"),
        ("absent", "missing"),
        ("long", "wrong size"),
        ("changed", "wrong hash"),
    ]
    assert fetch.check("toy", tmp_path / "nowhere") == [(file.path, "missing") for file in files]


def test_sources_are_well_formed() -> None:
    for name, made in fetch.SOURCES.items():
        assert made.name == name
        assert made.base_url.startswith("https://")
        assert made.base_url.endswith("/")
        inside = [member for file in made.files for member in file.members]
        kept = [file.path for file in made.files] + [member.path for member in inside]
        assert len({*kept, "TERMS.txt"}) == len(kept) + 1 > 1
        for file in made.files:
            assert file.sha256 or file.md5
            assert (file.size is None) == (file.about > 0)
            assert not file.members or file.path.endswith((".zip", ".tar.gz"))
        for item in (*made.files, *inside):
            assert re.fullmatch(r"([0-9a-f]{64})?", item.sha256)
            assert re.fullmatch(r"([0-9a-f]{32})?", item.md5)
            assert item.path
            assert not Path(item.path).is_absolute()
            assert ".." not in Path(item.path).parts
        assert all("/" not in member.path for member in inside)


def test_import_is_light() -> None:
    code = "import sys, fairnb.datasets.fetch; print(*{'requests', 'pooch', 'pandas'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.shared
@pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the released files in ../shared/data/fairevalllm beside the checkout"
)
def test_released_files_have_the_published_checksums() -> None:
    states = fetch.check("fairevalllm", SHARED)
    assert len(states) == 9
    assert [status for _, status in states] == ["ok"] * 9


MEMBERS = {
    "toy/README": b"made up, too\n",
    "toy/users.dat": b"1::F::1\n2::M::56\n",
    "toy/ratings.dat": b"".join(b"%d::%d::%d\n" % (i % 90, i, i % 5 + 1) for i in range(4000)),
}
PATHS = ["README", "users.dat", "ratings.dat"]
UNPACKED = {name.rpartition("/")[2]: content for name, content in MEMBERS.items()}


def zipped(members: dict[str, bytes] | None = None, *more: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (MEMBERS if members is None else members).items():
            archive.writestr(zipfile.ZipInfo(name, (2003, 2, 28, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
        for info, content in more:
            archive.writestr(info, content)
    return made.getvalue()


def tarred(members: dict[str, bytes] | None = None, *more: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in (MEMBERS if members is None else members).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return gzip.compress(made.getvalue(), mtime=0)


ZIP, TAR = zipped(), tarred()


def packed(content: bytes, path: str = "toy.zip", **changes: Any) -> fetch.Source:
    """A source of one archive; README has no checksum of its own, as is so for MovieLens 1M."""
    sums = {
        "toy/users.dat": {"sha256": hashlib.sha256(MEMBERS["toy/users.dat"]).hexdigest()},
        "toy/ratings.dat": {"md5": hashlib.md5(MEMBERS["toy/ratings.dat"]).hexdigest()},
    }
    settings: dict[str, Any] = {
        "path": path,
        "url_path": path,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "members": tuple(fetch.Member(name, **sums.get(name, {})) for name in MEMBERS),
    }
    return fetch.Source(
        name="toy",
        title="A made-up archive",
        base_url="https://files.invalid/release/",
        files=(fetch.RemoteFile(**{**settings, **changes}),),
        licence="none",
        homepage="https://home.invalid/toy",
        terms=("Not to be sold.", "To be cited."),
    )


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """Make the toy source an archive with this content."""

    def use(content: bytes = ZIP, path: str = "toy.zip", **changes: Any) -> bytes:
        monkeypatch.setitem(fetch.SOURCES, "toy", packed(content, path, **changes))
        return content

    return use


def own(folder: Path, content: dict[str, bytes]) -> Path:
    for name, body in content.items():
        (target := folder / name).parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
    return folder


def take(local: Path, folder: Path, **options: Any) -> list[Path]:
    return fetch.get("toy", folder, local=local, **{"announce": lambda line: None, **options})


def refusal(local: Path, folder: Path, **options: Any) -> str:
    with pytest.raises(DownloadError) as caught:
        take(local, folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("content", "path"), [(ZIP, "toy.zip"), (TAR, "toy.tar.gz")], ids=["zip", "tar"])
def test_archive_is_unpacked_flat_beside_itself(
    site: Site, tmp_path: Path, archive: Callable[..., bytes], content: bytes, path: str
) -> None:
    archive(content, path)
    site.on(path, Reply(body=content))
    lines: list[str] = []
    got = get(site, tmp_path, announce=lines.append)
    assert got == [tmp_path / name for name in PATHS]
    assert {item.name: item.read_bytes() for item in got} == UNPACKED
    assert names(tmp_path) == sorted([*PATHS, path, "TERMS.txt"])
    assert f"{path}: unpacked README, users.dat, ratings.dat" in lines
    assert got[0].stat().st_mode == (tmp_path / "TERMS.txt").stat().st_mode
    readme = "ok" if path == "toy.zip" else "ok (not checksummed)"
    assert fetch.check("toy", tmp_path) == list(zip([path, *PATHS], ["ok", readme, "ok", "ok"], strict=True))


@pytest.mark.parametrize(("content", "path"), [(ZIP, "toy.zip"), (TAR, "toy.tar.gz")], ids=["zip", "tar"])
def test_second_call_downloads_and_unpacks_nothing(
    site: Site,
    tmp_path: Path,
    archive: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    path: str,
) -> None:
    archive(content, path)
    site.on(path, Reply(body=content))
    got = get(site, tmp_path)
    before = [item.stat().st_mtime_ns for item in got]
    with monkeypatch.context() as patch:
        patch.setattr(fetch, "_contents", None)
        lines: list[str] = []
        assert get(site, tmp_path, announce=lines.append) == got
    assert [item.stat().st_mtime_ns for item in got] == before
    assert len(site.asked) == 1
    assert not [line for line in lines if "unpacked" in line]
    (tmp_path / "users.dat").unlink()
    get(site, tmp_path)
    assert len(site.asked) == 1
    assert (tmp_path / "users.dat").read_bytes() == UNPACKED["users.dat"]


def test_terms_are_shown_once(site: Site, tmp_path: Path, archive: Callable[..., bytes]) -> None:
    site.on("toy.zip", Reply(body=archive()))
    first: list[tuple[int, str]] = []
    get(site, tmp_path, announce=lambda line: first.append((len(site.asked), line)))
    for line in ("  Not to be sold.", "  To be cited."):
        assert (0, line) in first
    text = (tmp_path / "TERMS.txt").read_text(encoding="utf-8")
    for part in (
        "A made-up archive",
        "https://files.invalid/release/toy.zip",
        "https://home.invalid/toy",
        "To be cited.",
    ):
        assert part in text
    assert "127.0.0.1" not in text
    second: list[str] = []
    get(site, tmp_path, announce=second.append)
    assert "Terms: see TERMS.txt" in second
    assert not [line for line in second if "cited" in line]


def test_source_without_terms_leaves_no_note(site: Site, tmp_path: Path) -> None:
    site.on("data/big.csv", Reply())
    lines: list[str] = []
    get(site, tmp_path, announce=lines.append)
    assert "Licence: none, it is made up" in lines
    assert names(tmp_path) == ["data/big.csv"]


def test_archive_known_by_md5_and_about_its_size(site: Site, tmp_path: Path, archive: Callable[..., bytes]) -> None:
    md5 = hashlib.md5(TAR).hexdigest()
    archive(TAR, "toy.tar.gz", sha256="", md5=md5, size=None, about=len(TAR))
    site.on("toy.tar.gz", Reply(body=TAR, cut=len(TAR) - 100), Reply(body=TAR))
    lines: list[str] = []
    get(site, tmp_path, announce=lines.append)
    assert lines[0] == f"A made-up archive: 1 file, about {len(TAR) / 1e6:.2f} MB"
    assert len(site.asked) == 2
    assert fetch.check("toy", tmp_path)[0] == ("toy.tar.gz", "ok")
    (tmp_path / "toy.tar.gz").write_bytes(ZIP)
    assert fetch.check("toy", tmp_path)[0] == ("toy.tar.gz", "wrong hash")
    assert f"md5 expected {md5}, found {hashlib.md5(ZIP).hexdigest()}" in failure(site, tmp_path)


def test_interrupted_download_of_unpublished_size_is_resumed(
    site: Site, tmp_path: Path, archive: Callable[..., bytes]
) -> None:
    archive(ZIP, size=None)
    (tmp_path / "toy.zip.part").write_bytes(ZIP[:5000])
    site.on("toy.zip", Reply(body=ZIP))
    get(site, tmp_path)
    assert site.ranges() == ["bytes=5000-"]
    assert (tmp_path / "toy.zip").read_bytes() == ZIP


def test_more_than_about_the_published_size_is_refused(
    site: Site, tmp_path: Path, archive: Callable[..., bytes]
) -> None:
    archive(ZIP, size=None, about=len(ZIP))
    site.on("toy.zip", Reply(body=ZIP + bytes(9000), length=False))
    text = failure(site, tmp_path)
    assert "found more bytes" in text
    assert names(tmp_path) == []


def test_truncated_zip_is_not_unpacked(site: Site, tmp_path: Path, archive: Callable[..., bytes]) -> None:
    archive()
    site.on("toy.zip", Reply(body=ZIP[:-3000]))
    text = failure(site, tmp_path, tries=2)
    assert "toy.zip" in text
    assert names(tmp_path) == ["toy.zip.part"]


def test_wrong_zip_is_deleted_and_not_unpacked(site: Site, tmp_path: Path, archive: Callable[..., bytes]) -> None:
    archive()
    wrong = ZIP[:2000] + bytes([ZIP[2000] ^ 1]) + ZIP[2001:]
    site.on("toy.zip", Reply(body=wrong))
    text = failure(site, tmp_path, unchecked=True)
    assert f"sha256 expected {hashlib.sha256(ZIP).hexdigest()}, found {hashlib.sha256(wrong).hexdigest()}" in text
    assert names(tmp_path) == []


def test_download_without_a_checksum_is_refused_unless_allowed(
    site: Site, tmp_path: Path, archive: Callable[..., bytes]
) -> None:
    archive(ZIP, sha256="", size=None)
    site.on("toy.zip", Reply(body=ZIP))
    assert "--unchecked" in failure(site, tmp_path)
    assert site.asked == []
    (tmp_path / "toy.zip.part").write_bytes(b"of another day")
    with pytest.warns(FairnbWarning, match=r"toy\.zip: downloaded, but not checked"):
        get(site, tmp_path, unchecked=True)
    assert (tmp_path / "toy.zip").read_bytes() == ZIP
    assert site.ranges() == [None]
    assert get(site, tmp_path)[1].read_bytes() == UNPACKED["users.dat"]
    assert len(site.asked) == 1
    assert [status for _, status in fetch.check("toy", tmp_path)] == ["ok (not checksummed)", "ok", "ok", "ok"]


def test_unchecked_download_that_is_no_archive(site: Site, tmp_path: Path, archive: Callable[..., bytes]) -> None:
    archive(ZIP, sha256="", size=None)
    site.on("toy.zip", Reply(body=b"<html>\nplease log in\n</html>\n"))
    with pytest.warns(FairnbWarning):
        text = failure(site, tmp_path, unchecked=True)
    assert str(tmp_path / "toy.zip") in text
    assert "cannot be unpacked" in text
    assert names(tmp_path) == ["toy.zip"]


def link(name: str, to: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info, to.encode()


def special(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


LACKING = {name: content for name, content in MEMBERS.items() if name != "toy/users.dat"}
HOSTILE = {
    "zip lacks a member": ("toy.zip", zipped(LACKING), "lacks toy/users.dat"),
    "zip has a link": ("toy.zip", zipped(LACKING, link("toy/users.dat", "/etc/passwd")), "link"),
    "zip has a folder": ("toy.zip", zipped({**LACKING, "toy/users.dat/": b""}), "lacks toy/users.dat"),
    "zip has a member twice": (
        "toy.zip",
        zipped(None, (zipfile.ZipInfo("./toy/users.dat"), b"other")),
        "toy/users.dat is in it twice",
    ),
    "tar lacks a member": ("toy.tar.gz", tarred(LACKING), "lacks toy/users.dat"),
    "tar has a symbolic link": (
        "toy.tar.gz",
        tarred(LACKING, special("toy/users.dat", tarfile.SYMTYPE, "/etc/passwd")),
        "link",
    ),
    "tar has a hard link": (
        "toy.tar.gz",
        tarred(LACKING, special("toy/users.dat", tarfile.LNKTYPE, "toy/README")),
        "link",
    ),
    "tar has a device": ("toy.tar.gz", tarred(LACKING, special("toy/users.dat", tarfile.CHRTYPE)), "device"),
    "tar has a pipe": ("toy.tar.gz", tarred(LACKING, special("toy/users.dat", tarfile.FIFOTYPE)), "device"),
    "tar has a folder": ("toy.tar.gz", tarred(LACKING, special("toy/users.dat", tarfile.DIRTYPE)), "folder"),
    "tar has a member twice": (
        "toy.tar.gz",
        tarred(None, special("./toy/users.dat", tarfile.REGTYPE)),
        "toy/users.dat is in it twice",
    ),
    "member is another file": (
        "toy.zip",
        zipped({**MEMBERS, "toy/users.dat": b"other"}),
        "toy/users.dat in it is not the published file",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_archive_without_the_expected_files_is_refused(
    site: Site, tmp_path: Path, archive: Callable[..., bytes], case: str
) -> None:
    path, content, reason = HOSTILE[case]
    archive(content, path)
    site.on(path, Reply(body=content))
    text = failure(site, tmp_path)
    assert reason in text
    assert str(tmp_path / path) in text
    assert names(tmp_path) == [path]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_nothing_is_written_outside_the_folder(
    site: Site, tmp_path: Path, archive: Callable[..., bytes], kind: str
) -> None:
    outside = tmp_path / "outside.dat"
    evil = dict.fromkeys(["../outside.dat", str(outside), "toy/../../outside.dat", "..\\outside.dat"], b"evil")
    path = f"toy.{'zip' if kind == 'zip' else 'tar.gz'}"
    content = archive((zipped if kind == "zip" else tarred)({**evil, **MEMBERS}), path)
    site.on(path, Reply(body=content))
    get(site, tmp_path / "in")
    assert names(tmp_path) == sorted(f"in/{name}" for name in (*PATHS, path, "TERMS.txt"))


@pytest.mark.parametrize(("content", "path"), [(ZIP, "toy.zip"), (TAR, "toy.tar.gz")], ids=["zip", "tar"])
def test_full_disk_leaves_no_half_member(
    site: Site,
    tmp_path: Path,
    archive: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    path: str,
) -> None:
    site.on(path, Reply(body=archive(content, path)))
    plain = Path.open

    def full(self: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        file = plain(self, mode, *args, **options)
        if "ratings.dat" in self.name and "w" in mode:

            def limited(data: bytes) -> int:
                file.write(data[:100])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            return SimpleFile(file, limited)
        return file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        text = failure(site, tmp_path)
    assert os.strerror(errno.ENOSPC) in text
    assert "ratings.dat" in text
    assert names(tmp_path) == [path]
    assert get(site, tmp_path)[2].read_bytes() == UNPACKED["ratings.dat"]
    assert len(site.asked) == 1


def test_interrupted_unpacking_leaves_no_half_member(
    site: Site, tmp_path: Path, archive: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.on("toy.zip", Reply(body=archive()))
    whole, seen = zipfile.ZipExtFile.read, []

    def interrupted(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        seen.append(names(tmp_path))
        if len(seen) == 4:
            raise KeyboardInterrupt
        return whole(self, n)

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipExtFile, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            get(site, tmp_path)
    assert all(name.endswith(".part") for name in seen[-1] if name != "toy.zip")
    assert len(seen[-1]) > 1
    assert names(tmp_path) == ["toy.zip"]
    get(site, tmp_path)
    assert fetch.check("toy", tmp_path)[3] == ("ratings.dat", "ok")


@pytest.mark.parametrize("name", PATHS)
def test_member_with_other_content_is_left_alone(
    site: Site, tmp_path: Path, archive: Callable[..., bytes], name: str
) -> None:
    site.on("toy.zip", Reply(body=archive()))
    (tmp_path / name).write_bytes(UNPACKED[name][::-1])
    text = failure(site, tmp_path)
    assert str(tmp_path / name) in text
    assert "move it away" in text
    assert (tmp_path / name).read_bytes() == UNPACKED[name][::-1]
    assert dict(fetch.check("toy", tmp_path))[name] == "wrong hash"
    with pytest.warns(FairnbWarning, match=re.escape(name)):
        get(site, tmp_path, unchecked=True)
    assert (tmp_path / name).read_bytes() == UNPACKED[name][::-1]


def test_check_compares_members_with_the_zip(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    own(tmp_path, {"toy.zip": archive(), **UNPACKED})
    (tmp_path / "README").write_bytes(UNPACKED["README"].upper())
    assert dict(fetch.check("toy", tmp_path))["README"] == "wrong hash"
    (tmp_path / "README").write_bytes(UNPACKED["README"] + b"\n")
    assert dict(fetch.check("toy", tmp_path))["README"] == "wrong size"
    (tmp_path / "README").unlink()
    assert dict(fetch.check("toy", tmp_path))["README"] == "missing"


def test_own_copy_without_the_archive(tmp_path: Path, archive: Callable[..., bytes], offline: list[str]) -> None:
    archive()
    own(tmp_path, UNPACKED)
    assert fetch.check("toy", tmp_path) == [
        ("toy.zip", "ok (not needed)"),
        ("README", "ok (not checksummed)"),
        ("users.dat", "ok"),
        ("ratings.dat", "ok"),
    ]
    lines: list[str] = []
    assert fetch.get("toy", tmp_path, announce=lines.append) == [tmp_path / name for name in PATHS]
    assert "toy.zip: its files are already there, not downloaded again" in lines
    assert offline == []
    (tmp_path / "ratings.dat").write_bytes(UNPACKED["ratings.dat"][:1000])
    assert [status for _, status in fetch.check("toy", tmp_path)] == [
        "missing",
        "ok (not checksummed)",
        "ok",
        "wrong hash",
    ]
    (tmp_path / "ratings.dat").unlink()
    assert [status for _, status in fetch.check("toy", tmp_path)][::3] == ["missing", "missing"]


def test_large_archive_is_kept_and_its_size_told(
    site: Site, tmp_path: Path, archive: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.on("toy.zip", Reply(body=archive()))
    monkeypatch.setattr(fetch, "_LARGE", len(ZIP) - 1)
    lines: list[str] = []
    get(site, tmp_path, announce=lines.append)
    assert [line for line in lines if "kept for" in line] == [
        f"toy.zip: kept for later checks ({len(ZIP) / 1e6:.2f} MB); delete it if you need the room"
    ]
    (tmp_path / "toy.zip").unlink()
    get(site, tmp_path)
    assert len(site.asked) == 1


@pytest.mark.parametrize(("content", "path"), [(ZIP, "toy.zip"), (TAR, "toy.tar.gz")], ids=["zip", "tar"])
@pytest.mark.parametrize("where", ["file", "folder"])
def test_local_archive(
    tmp_path: Path, archive: Callable[..., bytes], offline: list[str], content: bytes, path: str, where: str
) -> None:
    archive(content, path)
    local = own(tmp_path / "mine", {"toy copy (1)" if where == "file" else path: content})
    lines: list[str] = []
    got = take(local / "toy copy (1)" if where == "file" else local, tmp_path / "to", announce=lines.append)
    assert {item.name: item.read_bytes() for item in got} == UNPACKED
    assert names(tmp_path / "to") == sorted([*PATHS, path, "TERMS.txt"])
    assert len(names(local)) == 1
    assert offline == []
    assert [line for line in lines if line.endswith("checksum as published") and "copied from" in line]


@pytest.mark.parametrize("inner", ["", "toy/"])
def test_local_folder_of_unpacked_files(
    tmp_path: Path, archive: Callable[..., bytes], offline: list[str], inner: str
) -> None:
    archive()
    local = own(tmp_path / "mine", {inner + name: content for name, content in UNPACKED.items()})
    lines: list[str] = []
    got = take(local, tmp_path / "to", announce=lines.append)
    assert {item.name: item.read_bytes() for item in got} == UNPACKED
    assert names(tmp_path / "to") == sorted([*PATHS, "TERMS.txt"])
    assert offline == []
    told = [line.rpartition(", ")[2] for line in lines if "copied from" in line]
    assert told == ["not checksummed (no checksum is published)", "checksum as published", "checksum as published"]
    assert take(local, tmp_path / "to") == got


def test_local_folder_of_plain_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: list[str]) -> None:
    monkeypatch.setitem(fetch.SOURCES, "toy", source(remote("data/big.csv", BODY), remote("small.csv", SMALL)))
    local = own(tmp_path / "mine", {"big.csv": BODY, "small.csv": SMALL})
    assert [item.read_bytes() for item in take(local, tmp_path / "to")] == [BODY, SMALL]
    assert names(tmp_path / "to") == ["data/big.csv", "small.csv"]
    (local / "small.csv").unlink()
    assert "lacks small.csv" in refusal(local, tmp_path / "other", unchecked=True)
    assert "name the folder" in refusal(local / "big.csv", tmp_path / "other")
    assert "is not there" in refusal(local / "small.csv", tmp_path / "other")
    assert names(tmp_path / "mine") == ["big.csv"]
    assert not (tmp_path / "other").exists()
    assert offline == []


def test_local_archive_that_is_not_the_published_one(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    archive()
    other = zipped({**MEMBERS, "toy/users.dat": b"1::F::18\n"})
    local = own(tmp_path, {"mine.zip": other}) / "mine.zip"
    text = refusal(local, tmp_path / "to")
    assert str(local) in text
    assert f"sha256 expected {hashlib.sha256(ZIP).hexdigest()}, found {hashlib.sha256(other).hexdigest()}" in text
    assert "--unchecked" in text
    assert not (tmp_path / "to").exists()
    with pytest.warns(FairnbWarning, match="not the published toy.zip") as warned:
        got = take(local, tmp_path / "to", unchecked=True)
    assert len(warned) == 1
    assert got[1].read_bytes() == b"1::F::18\n"
    assert "is left as it is" in refusal(local, tmp_path / "to")
    assert [status for _, status in fetch.check("toy", tmp_path / "to")] == [
        "wrong size",
        "ok (not checksummed)",
        "wrong hash",
        "ok",
    ]


def test_local_members_that_are_not_the_published_ones(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    archive()
    local = own(tmp_path / "mine", {**UNPACKED, "users.dat": b"1::F::18\n"})
    text = refusal(local, tmp_path / "to")
    assert str(local / "users.dat") in text
    assert hashlib.sha256(b"1::F::18\n").hexdigest() in text
    assert not (tmp_path / "to").exists()
    with pytest.warns(FairnbWarning, match=r"not the published users\.dat"):
        assert take(local, tmp_path / "to", unchecked=True)[1].read_bytes() == b"1::F::18\n"


def test_local_folder_that_lacks_members(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    archive()
    local = own(tmp_path / "mine", {"ratings.dat": UNPACKED["ratings.dat"]})
    assert "lacks README, users.dat; expected toy.zip or its unpacked files" in refusal(local, tmp_path / "to")
    assert not (tmp_path / "to").exists()
    with pytest.warns(FairnbWarning, match=r"lacks README, users\.dat"):
        take(local, tmp_path / "to", unchecked=True)
    assert names(tmp_path / "to") == ["TERMS.txt", "ratings.dat"]
    (tmp_path / "empty").mkdir()
    assert "lacks README, users.dat, ratings.dat" in refusal(tmp_path / "empty", tmp_path / "to2", unchecked=True)


@pytest.mark.parametrize(("content", "path"), [(ZIP, "toy.zip"), (TAR, "toy.tar.gz")], ids=["zip", "tar"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "other kind"])
def test_damaged_local_archive_leaves_nothing(
    tmp_path: Path, archive: Callable[..., bytes], content: bytes, path: str, damage: str
) -> None:
    archive(content, path)
    bad = {"truncated": content[: len(content) // 2], "empty": b"", "other kind": ZIP if content is TAR else TAR}
    local = own(tmp_path, {"mine": bad[damage]}) / "mine"
    with pytest.warns(FairnbWarning):
        text = refusal(local, tmp_path / "to", unchecked=True)
    assert str(local) in text
    assert "cannot be unpacked" in text
    assert names(tmp_path) == ["mine"]


def test_gzip_checksum_at_the_end_is_compared(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    # The last 8 bytes are CRC and length of the whole; the tar itself ends before them.
    bad = TAR[:-8] + bytes([TAR[-8] ^ 1]) + TAR[-7:]
    archive(bad, "toy.tar.gz")
    local = own(tmp_path, {"mine": bad}) / "mine"
    assert "CRC check failed" in refusal(local, tmp_path / "to")
    assert names(tmp_path) == ["mine"]


@given(data=st.data(), kind=st.sampled_from(["toy.zip", "toy.tar.gz"]))
def test_any_damage_is_told_in_one_line_or_harmless(
    data: st.DataObject, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(ZIP if kind == "toy.zip" else TAR)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("damaged")
    (folder / kind).write_bytes(content)
    made = packed(ZIP if kind == "toy.zip" else TAR, kind)
    (folder / "to").mkdir()
    told = ""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnbWarning)
        patch.setitem(fetch.SOURCES, "toy", made)
        try:
            take(folder / kind, folder / "to", unchecked=True)
        except DownloadError as error:
            told = str(error)
    assert "\n" not in told
    assert names(folder / "to") == ([] if told else sorted([*PATHS, kind, "TERMS.txt"]))
    # CRCs stand over the members of a zip, and one over all of a gzip file.
    assert told or (folder / "to" / "ratings.dat").read_bytes() == UNPACKED["ratings.dat"]


def test_encrypted_zip_is_told(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    content = bytearray(ZIP)
    # Bit 0 of the flags, in the local header and in the directory of the first member.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive(bytes(content))
    local = own(tmp_path, {"mine": bytes(content)}) / "mine"
    assert "encrypted" in refusal(local, tmp_path / "to")


def test_local_and_mirror_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="leave one out"):
        fetch.get("toy", tmp_path, base_url="https://mirror.invalid/", local=tmp_path)


def certificate(folder: Path, start: str, end: str, names: str) -> ssl.SSLContext:
    """Make a certificate that signs itself, with the openssl of this machine."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the program `openssl` to make a certificate")
    (folder / "db").write_text("")
    (folder / "serial").write_text("01\n")
    (folder / "names").write_text(f"subjectAltName={names}\nbasicConstraints=critical,CA:TRUE\n")
    (folder / "config").write_text(
        "[req]\ndistinguished_name=dn\n[dn]\n[ca]\ndefault_ca=own\n[own]\nnew_certs_dir=.\ndatabase=db\n"
        "serial=serial\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n"
    )
    new = "req -new -newkey rsa:2048 -nodes -subj /CN=toy -config config -keyout key.pem -out request.pem"
    sign = (
        f"ca -batch -selfsign -config config -keyfile key.pem -in request.pem -notext -extfile names "
        f"-startdate {start} -enddate {end} -out cert.pem"
    )
    for command in (new, sign):
        done = subprocess.run([openssl, *command.split()], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize(
    ("start", "end", "host", "trusted", "reason"),
    [
        ("20200101000000Z", "20991231000000Z", "IP:127.0.0.1", True, ""),
        ("20190101000000Z", "20200101000000Z", "IP:127.0.0.1", True, "certificate has expired"),
        ("20200101000000Z", "20991231000000Z", "DNS:other.invalid", True, "not valid for '127.0.0.1'"),
        ("20200101000000Z", "20991231000000Z", "IP:127.0.0.1", False, "self"),
    ],
    ids=["good", "expired", "of another host", "of nobody known"],
)
def test_certificate_over_real_https(
    tmp_path: Path,
    archive: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    start: str,
    end: str,
    host: str,
    trusted: bool,
    reason: str,
) -> None:
    (made := tmp_path / "made").mkdir()
    context = certificate(made, start, end, host)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    if trusted:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made / "cert.pem"))
    secure = Site(context)
    try:
        secure.on("toy.zip", Reply(body=archive()))
        if not reason:
            assert get(secure, tmp_path / "to")[1].read_bytes() == UNPACKED["users.dat"]
            assert len(secure.asked) == 1
            return
        lines: list[str] = []
        text = failure(secure, tmp_path / "to", announce=lines.append)
    finally:
        secure.close()
    for part in ("toy.zip", "127.0.0.1", reason, "--mirror", "--local", "https://home.invalid/toy"):
        assert part in text
    assert secure.asked == []
    assert not [line for line in lines if "try 2" in line]
    assert names(tmp_path / "to") == []


@pytest.mark.shared
def test_released_copies_of_the_data_sets(shared_folder: Path) -> None:
    data = shared_folder / "data"
    states = dict(fetch.check("ml-100k", data / "ml-100k"))
    assert states.pop("ml-100k.zip") == "ok (not needed)"
    assert {name for name, status in states.items() if status == "ok"} == {"README", "u.data", "u.user", "u.item"}
    assert {*states.values()} == {"ok", "ok (not checksummed)"}
    states = dict(fetch.check("ml-1m", data / "ml-1m"))
    # The ratings there are a part of the published ones.
    assert (states["users.dat"], states["movies.dat"], states["ratings.dat"]) == ("ok", "ok", "wrong hash")
    states = dict(fetch.check("lastfm-1k", data / "lastfm-1k"))
    assert states["userid-profile.tsv"] == "ok"
