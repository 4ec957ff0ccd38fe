"""Downloads of published files: announced, over https, resumed where they broke off, checked by SHA-256."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from fairnb import paths
from fairnb.errors import DownloadError, FairnbError, ParameterError

if TYPE_CHECKING:
    import requests

# What is read but not yet a whole chunk is lost when a connection breaks; a small chunk loses little.
_CHUNK = 8192
_HOPS = 5
_LONGEST_WAIT = 60.0
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", re.ASCII)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a source, as it was published.

    Attributes
    ----------
    path : str
        Path below the folder that the source is downloaded to, with ``/``.
    url_path : str
        Path below the base URL of the source, percent-encoded where a URL needs it.
    sha256 : str
        SHA-256 of the content, in lower-case hexadecimal digits.
    size : int
        Size of the content in bytes.
    """

    path: str
    url_path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Source:
    """A set of files that were published together.

    Attributes
    ----------
    name : str
        Key of the source in `SOURCES`.
    title : str
        What the files are, for a reader.
    base_url : str
        https URL that the files' ``url_path`` is appended to.
    files : tuple of RemoteFile
        The files.
    licence : str
        What is known of the terms that the files are under.
    homepage : str
        Page that a reader can download the files from by hand.
    """

    name: str
    title: str
    base_url: str
    files: tuple[RemoteFile, ...]
    licence: str
    homepage: str


def _same(path: str, size: int, sha256: str) -> RemoteFile:
    return RemoteFile(path=path, url_path=path, sha256=sha256, size=size)


SOURCES: dict[str, Source] = {
    "fairevalllm": Source(
        name="fairevalllm",
        title="Released replies of FairEvalLLM (arXiv 2405.02219)",
        # A commit and not a branch: a later push would change the bytes under our checksums.
        base_url=(
            "https://raw.githubusercontent.com/yasdel/Benchmark_RecLLM_Fairness/"
            "5fdc3e1ffa1739a4bf0c743b42da7301eb333733/"
        ),
        files=(
            _same(
                "data/df_item_ml-1m.csv",
                165610,
                "7f1e19503c7774256810b9b0cbf3d957946b80db58896beb9e325ce4c0e4ecd5",
            ),
            _same(
                "data/df_user_ml-1m.csv",
                110245,
                "2d008d18521bd555f0a74267615c84ff4a4719fa831439580faef7522b150ac1",
            ),
            _same(
                "data/test_data_ml1m_fullInteraction_80users.csv",
                111466,
                "59530777f30feb2397f6284d217cb6e9da40932d9ee27ca2b8ea36ae946927f5",
            ),
            _same(
                "data/train_data_ml1m_fullInteraction_80users_part_1.csv",
                87611,
                "e349cdce4a805f8ae568f72892c7221b74b2e612d1c59dbbb2f5aa614e73277c",
            ),
            _same(
                "data/train_data_ml1m_fullInteraction_80users_part_2.csv",
                91159,
                "6960be182f26287cdee556184833ac4a29130c32e5eee304d9deb503a6583fea",
            ),
            _same(
                "data/train_data_ml1m_fullInteraction_80users_part_3.csv",
                91026,
                "d684f100985a1f0079d2b38b446e357e7b66dd55b439d9e888aff1aac494c7c6",
            ),
            _same(
                "data/train_data_ml1m_fullInteraction_80users_part_4.csv",
                91017,
                "5c5a43e626af31d9546a5e935939cae2807b2089b46e41bff177789395517154",
            ),
            _same(
                "results/final_df_foundItemIds_lastFM1k_fullInteraction_80users_nTrack10_lContext5_top3.csv",
                1721677,
                "b22cec54479e1bdff86e51b4bdedace44af60ba49e8529ce842ec072de89369a",
            ),
            _same(
                "results/final_df_foundItemIds_ml100k_fullInteraction_80users_nTrack10_lContext5_top3.csv",
                945356,
                "bea1e2eb8a883723d1c21800e18c4a7ba65baa54db8fef122a8638df16d838d3",
            ),
        ),
        licence=(
            "no licence file in the repository; the MovieLens files are under GroupLens' terms (no redistribution)"
        ),
        homepage="https://github.com/yasdel/Benchmark_RecLLM_Fairness",
    ),
}


@dataclass(frozen=True)
class _Manner:
    """How to download: the options of `get`."""

    announce: Callable[[str], object]
    tries: int
    wait: float
    timeout: float
    progress: bool


class _RetryError(Exception):
    """A failure that may pass; ``after`` is the wait that the server asked for, if it did."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


def get(
    name: str,
    folder: Path,
    *,
    base_url: str | None = None,
    announce: Callable[[str], object] = print,
    tries: int = 4,
    wait: float = 1.0,
    timeout: float = 30.0,
    progress: bool = False,
) -> list[Path]:
    """Download the files of a source that a folder does not hold yet.

    Title, size, licence, homepage and folder are announced before anything is asked of the network.
    A download that breaks off leaves ``<file>.part`` beside its target; the next try or call goes on
    from there if the server can, and starts anew if not. A file gets its own name only once its
    SHA-256 is the published one.

    Parameters
    ----------
    name : str
        Key of `SOURCES`.
    folder : Path
        Folder to download to; made if it is not there.
    base_url : str, optional
        URL of a mirror, instead of the source's own. It must be https, unless its host is this
        machine (a loopback address).
    announce : callable, default print
        Takes each line that the user is told.
    tries : int, default 4
        Tries for each file, the first one included. Lost connections, timeouts, early ends and the
        answers 429 and 5xx are tried again; every other answer fails at once.
    wait : float, default 1.0
        Seconds before the second try, doubled for each one after it. A ``Retry-After`` of the server
        goes first. No wait is longer than 60 seconds.
    timeout : float, default 30.0
        Seconds without a connection or a byte after which a try has failed.
    progress : bool, default False
        Whether to show the bytes as they arrive, on standard error.

    Returns
    -------
    list of Path
        The files below ``folder``, in the order of the source.

    Raises
    ------
    ParameterError
        If the source is unknown, or ``tries``, ``wait`` or ``timeout`` is out of range.
    DownloadError
        If a file cannot be downloaded or written, is not the published one, or if a file of that name
        with other content is there already (which is left as it is).
    """
    source = _source(name)
    for key, value, good, expected in (
        ("tries", tries, tries >= 1, "1 or more"),
        ("wait", wait, wait >= 0, "0 or more seconds"),
        ("timeout", timeout, timeout > 0, "more than 0 seconds"),
    ):
        if not good:
            raise ParameterError(f"{key}={value}: expected {expected}; name such a number")
    folder = Path(folder)
    base = (base_url or source.base_url).rstrip("/") + "/"
    _admit(base)

    count = len(source.files)
    announce(
        f"{source.title}: {count} file{'' if count == 1 else 's'}, {_mb(sum(file.size for file in source.files))} MB"
    )
    announce(f"Licence: {source.licence}")
    announce(f"Homepage: {source.homepage}")
    announce(f"Folder: {_shown(folder)}")

    missing = []
    for file in source.files:
        if _held(file, folder / file.path):
            announce(f"{file.path}: already there with the published checksum, not downloaded again")
        else:
            missing.append(file)
    if missing:
        _download(source, missing, folder, base, _Manner(announce, tries, wait, timeout, progress))
    return [folder / file.path for file in source.files]


def check(name: str, folder: Path) -> list[tuple[str, str]]:
    """Compare the files in a folder with the published ones, without the network.

    Parameters
    ----------
    name : str
        Key of `SOURCES`.
    folder : Path
        Folder that the source was downloaded to.

    Returns
    -------
    list of (str, str)
        Path below ``folder`` and status of each file, in the order of the source. The status is
        ``ok``, ``missing``, ``wrong size`` or ``wrong hash``.

    Raises
    ------
    ParameterError
        If the source is unknown.
    DownloadError
        If a file is there but cannot be read.
    """
    return [(file.path, _status(file, Path(folder) / file.path)[0]) for file in _source(name).files]


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ParameterError(f"source {name!r}: unknown; expected one of {', '.join(sorted(SOURCES))}")
    return SOURCES[name]


def _status(file: RemoteFile, target: Path) -> tuple[str, str]:
    """Return the status of a local file, and its hash if it is there."""
    try:
        if not target.is_file():
            return "missing", ""
        size, found = target.stat().st_size, _sha256(target)
    except OSError as error:
        raise DownloadError(
            f"{_shown(target)}: cannot be read ({_cause(error)}); make it readable or move it away"
        ) from error
    if size != file.size:
        return "wrong size", found
    return ("ok" if found == file.sha256 else "wrong hash"), found


def _held(file: RemoteFile, target: Path) -> bool:
    """Return whether the published file is there; stop if anything else has its place."""
    status, found = _status(file, target)
    if status == "missing" and target.is_dir():
        raise DownloadError(f"{_shown(target)}: a folder has the place of a file; move it away, then download again")
    if status in ("wrong size", "wrong hash"):
        raise DownloadError(
            f"{_shown(target)}: is not the published file (sha256 expected {file.sha256}, "
            f"found {found}); it is left as it is: move it away, then download again"
        )
    return status == "ok"


def _download(source: Source, files: list[RemoteFile], folder: Path, base: str, manner: _Manner) -> None:
    import pooch  # noqa: PLC0415
    import requests  # noqa: PLC0415

    with requests.Session() as session, _quiet(pooch.get_logger()):
        # Without a handler of its own, requests would send the user's .netrc passwords along.
        session.auth = _anonymous
        for file in files:
            # Absolute, since pooch would take a leading ~ for the home.
            target = folder.absolute() / file.path
            loader = _Resuming(session, source, file, target, manner)
            try:
                pooch.retrieve(
                    base + file.url_path,
                    known_hash=f"sha256:{file.sha256}",
                    fname=target.name,
                    path=target.parent,
                    downloader=loader,
                )
            except ValueError as error:
                if loader.found in ("", file.sha256):
                    raise
                raise DownloadError(
                    f"{file.path}: what arrived from {_where(base + file.url_path)} is not the published "
                    f"file (sha256 expected {file.sha256}, found {loader.found}) and was deleted; "
                    f"{_by_hand(source, target)}"
                ) from error
            except OSError as error:
                raise DownloadError(
                    f"{_shown(target.parent)}: cannot hold {target.name} ({_cause(error)}); expected a "
                    f"folder with free space that you may write to; make it so or name another one"
                ) from error
            manner.announce(f"{file.path}: downloaded, checksum as published")


@dataclass
class _Resuming:
    """Downloader for pooch that keeps what has arrived, and continues it.

    Pooch hands every call a new temporary file and deletes it on failure, so the body is collected in
    a file of our own, which takes the place of pooch's when it is complete. Pooch then checks the hash
    and moves it to its name, or deletes it.
    """

    session: requests.Session
    source: Source
    file: RemoteFile
    target: Path
    manner: _Manner
    found: str = ""
    whole: bool = False

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        self._fill(url)
        self.found = _sha256(self.part)
        if self.found != self.file.sha256 and not self.whole:
            # The start may be of another day (a login page, another file): it says nothing of the server.
            self.part.unlink()
            self._fill(url)
            self.found = _sha256(self.part)
        self.part.replace(output_file)

    def _fill(self, url: str) -> None:
        if self._size() > self.file.size:
            self.part.unlink()
        for count in range(1, self.manner.tries + 1):
            if self.file.size and self._size() == self.file.size:
                return
            try:
                self._try(url)
            except _RetryError as error:
                if count == self.manner.tries:
                    start = f"it goes on from byte {self._size()}" if self._size() else "nothing is kept"
                    raise DownloadError(
                        f"{self.file.path}: gave up on {_where(url)} after try {count} ({error}); check the "
                        f"network and run it again ({start}), or {_by_hand(self.source, self.target)}"
                    ) from error
                pause = self.manner.wait * 2 ** (count - 1) if error.after is None else error.after
                pause = min(pause, _LONGEST_WAIT)
                self.manner.announce(
                    f"{self.file.path}: {error}; try {count + 1} of {self.manner.tries} in {pause:g} seconds"
                )
                time.sleep(pause)
            else:
                return

    def _try(self, url: str) -> None:
        held = self._size()
        with self._open(url, held) as response:
            if not held or self._continues(response, held):
                self._receive(url, response, held)
                return
        # Nothing of this answer fits what we hold; a second one in the same try cannot loop.
        self.part.unlink()
        with self._open(url, 0) as response:
            self._receive(url, response, 0)

    def _size(self) -> int:
        try:
            return self.part.stat().st_size
        except FileNotFoundError:
            return 0

    def _open(self, url: str, held: int) -> requests.Response:
        import requests  # noqa: PLC0415

        # A compressed body has other lengths than the file, and its pieces cannot be joined.
        headers = {"Accept-Encoding": "identity"}
        if held:
            headers["Range"] = f"bytes={held}-"
        origin = ""
        # Followed by hand: requests would go from https to http without asking.
        for _ in range(_HOPS + 1):
            try:
                request = self.session.prepare_request(requests.Request("GET", url, headers=headers))
            except ValueError as error:
                raise DownloadError(
                    f"{self.file.path}: {_where(url)} is not a URL; correct base_url, "
                    f"or {_by_hand(self.source, self.target)}"
                ) from error
            # The prepared URL is the one that is connected to; parsers differ on odd ones.
            url = str(request.url)
            _admit(url, origin)
            settings: dict[str, Any] = dict(
                self.session.merge_environment_settings(url, proxies={}, stream=True, verify=None, cert=None)
            )
            if urlsplit(url).scheme == "http":
                # Plain http is for this machine alone, and a proxy is another one.
                settings["proxies"] = {}
            with self._network():
                # Not session.send, which reads the whole body of a redirect and works out the next step.
                adapter = self.session.get_adapter(url)
                response = adapter.send(request, timeout=self.manner.timeout, **settings)
            try:
                step = self.session.get_redirect_target(response)
                if step is None:
                    return response
                origin, url = url, urljoin(url, step)
            except ValueError as error:
                response.close()
                raise DownloadError(
                    f"{self.file.path}: {_where(url)} redirects to what is not a URL; "
                    f"{_by_hand(self.source, self.target)}"
                ) from error
            response.close()
        raise DownloadError(
            f"{self.file.path}: more than {_HOPS} redirects, the last one to {_where(url)}; "
            f"{_by_hand(self.source, self.target)}"
        )

    def _continues(self, response: requests.Response, held: int) -> bool:
        """Return whether an answer to a Range request can be used (an error can, to be reported)."""
        status: int = response.status_code
        if status == 206:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
            plain = response.headers.get("Content-Encoding", "identity") == "identity"
            return match is not None and plain and int(match[1]) == held and match[2] in ("*", str(self.file.size))
        return status != 416

    def _receive(self, url: str, response: requests.Response, held: int) -> None:
        status = response.status_code
        if status == 429 or status >= 500:
            raise _RetryError(f"the server answered {status}", _retry_after(response.headers.get("Retry-After")))
        if status != 200 and not (status == 206 and held):
            raise DownloadError(
                f"{self.file.path}: the server answered {status} for {_where(url)}; the release may have "
                f"moved: {_by_hand(self.source, self.target)}"
            )
        self.whole = status == 200
        done = 0 if self.whole else held
        with self._network(), self.part.open("wb" if self.whole else "ab") as part:
            try:
                for chunk in response.iter_content(_CHUNK):
                    done += len(chunk)
                    if done > self.file.size:
                        break
                    part.write(chunk)
                    self._show(f"\r{self.file.path}: {_mb(done)} of {_mb(self.file.size)} MB")
            finally:
                self._show("\n")
        if done > self.file.size:
            self.part.unlink()
            raise DownloadError(
                f"{self.file.path}: what arrived from {_where(url)} is not the published file (expected "
                f"{self.file.size} bytes with sha256 {self.file.sha256}, found more bytes) and was deleted; "
                f"{_by_hand(self.source, self.target)}"
            )
        if done < self.file.size:
            raise _RetryError(f"the body ended after {done} of {self.file.size} bytes")

    def _show(self, text: str) -> None:
        if self.manner.progress:
            sys.stderr.write(text)
            sys.stderr.flush()

    @contextmanager
    def _network(self) -> Iterator[None]:
        """Tell failures of the network that may pass from those that will not."""
        from requests import exceptions  # noqa: PLC0415

        try:
            yield
        except exceptions.Timeout as error:
            raise _RetryError(f"no answer within {self.manner.timeout:g} seconds") from error
        except exceptions.ChunkedEncodingError as error:
            raise _RetryError(f"the body ended early, with {self._size()} of {self.file.size} bytes kept") from error
        except exceptions.RequestException as error:
            lasting = "CERTIFICATE_VERIFY_FAILED" in str(error)
            passing = isinstance(error, exceptions.ConnectionError | exceptions.ContentDecodingError)
            if passing and not lasting:
                raise _RetryError(f"the connection failed: {_cause(error)}") from error
            raise DownloadError(
                f"{self.file.path}: the request failed ({_cause(error)}); check the proxy and certificate "
                f"settings of this machine, or {_by_hand(self.source, self.target)}"
            ) from error


def _admit(url: str, origin: str = "") -> None:
    """Refuse a URL whose content others could read or change on its way."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname or ""
        before = urlsplit(origin).scheme
    except ValueError as error:
        raise DownloadError(f"{_where(url)}: is not a URL; expected https://host/path") from error
    if scheme == "https" and host:
        return
    if scheme == "http" and before != "https" and _loopback(host):
        return
    by = f" (a redirect of {_where(origin)})" if origin else ""
    raise DownloadError(
        f"{_where(url)}{by}: refused, its scheme is {scheme or 'missing'} and https is expected; name an https base_url"
    )


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _retry_after(text: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, or None if it says nothing."""
    if text is None:
        return None
    try:
        return max(0.0, float(int(text)))
    except (ValueError, OverflowError):
        pass
    try:
        moment = parsedate_to_datetime(text)
        # The header is in GMT by definition, whether or not it says so.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


def _anonymous(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _sha256(path: Path) -> str:
    import pooch  # noqa: PLC0415

    return str(pooch.file_hash(str(path), alg="sha256"))


def _cause(error: BaseException) -> str:
    """Return the system's own words for a failure; requests wraps them in several layers."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, TimeoutError):
            return "timed out"
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return type(error).__name__


def _where(url: str) -> str:
    """Return host and path of a URL: a name and password in it belong in no message."""
    host, slash, path = (url.partition("://")[2] or url).partition("/")
    return host.rpartition("@")[2] + slash + path.partition("?")[0]


def _by_hand(source: Source, target: Path) -> str:
    return f"download it by hand from {source.homepage} into {_shown(target.parent)}"


def _shown(path: Path) -> str:
    try:
        return paths.shown(path)
    except FairnbError:
        # A folder can be named from outside any checkout, too.
        return str(path)


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f}"
