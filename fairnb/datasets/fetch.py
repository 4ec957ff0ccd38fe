"""Published files: downloaded over https or taken from a user's own copy, checked by checksum, unpacked."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import re
import stat
import struct
import sys
import tarfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from fairnb import paths
from fairnb.errors import DownloadError, FairnbError, FairnbWarning, ParameterError

if TYPE_CHECKING:
    import requests

# What is read but not yet a whole chunk is lost when a connection breaks; a small chunk loses little.
_CHUNK = 8192
_HOPS = 5
_LONGEST_WAIT = 60.0
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_TERMS = "TERMS.txt"
_UNSUMMED = "ok (not checksummed)"
_UNNEEDED = "ok (not needed)"
# An archive of this size is worth a word about the room that it takes.
_LARGE = 200_000_000
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Member:
    """One file inside a published archive.

    Attributes
    ----------
    name : str
        Name in the archive, with its folder.
    sha256, md5 : str
        Checksums of the content where somebody published them, in lower-case hexadecimal digits;
        otherwise empty. They tell whether a copy without its archive is the published one.
    """

    name: str
    sha256: str = ""
    md5: str = ""

    @property
    def path(self) -> str:
        """The file's name below the folder of the source: the archive's own folders are dropped."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True)
class RemoteFile:
    """One file of a source, as it was published.

    Attributes
    ----------
    path : str
        Path below the folder that the source is downloaded to, with ``/``.
    url_path : str
        Path below the base URL of the source, percent-encoded where a URL needs it.
    sha256, md5 : str
        Checksums of the content, in lower-case hexadecimal digits; empty where none is published. A
        file without any is downloaded only on demand (``unchecked`` of `get`).
    size : int, optional
        Size of the content in bytes; None where only about what size it is was published.
    about : int, default 0
        Where ``size`` is None: the rounded size in bytes, for a reader.
    members : tuple of Member
        For an archive (``.zip`` or ``.tar.gz``): the files to unpack from it, beside it.
    """

    path: str
    url_path: str
    sha256: str = ""
    size: int | None = None
    md5: str = ""
    about: int = 0
    members: tuple[Member, ...] = ()


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
    terms : tuple of str
        The terms of use in a few lines, which the first `get` shows and leaves as ``TERMS.txt``;
        empty where ``licence`` says it all.
    """

    name: str
    title: str
    base_url: str
    files: tuple[RemoteFile, ...]
    licence: str
    homepage: str
    terms: tuple[str, ...] = ()


def _same(path: str, size: int, sha256: str) -> RemoteFile:
    return RemoteFile(path=path, url_path=path, sha256=sha256, size=size)


def _movielens(name: str, title: str, size: int, sha256: str, md5: str, members: tuple[Member, ...]) -> Source:
    archive = f"{name}.zip"
    return Source(
        name=name,
        title=title,
        base_url="https://files.grouplens.org/datasets/movielens/",
        files=(RemoteFile(path=archive, url_path=archive, sha256=sha256, size=size, md5=md5, members=members),),
        licence="GroupLens' terms: research only, no redistribution",
        homepage=f"https://grouplens.org/datasets/movielens/{name.removeprefix('ml-')}/",
        terms=(
            "For research. Not to be redistributed without GroupLens' separate permission.",
            "No commercial or revenue-bearing use without GroupLens' prior permission; no endorsement may be implied.",
            "Publications must acknowledge it: F. M. Harper and J. A. Konstan (2015), The MovieLens Datasets: History "
            "and Context, ACM TiiS 5(4), article 19, doi:10.1145/2827872.",
            "The archive's README has the full text.",
        ),
    )


# The MD5s of the MovieLens archives are GroupLens' own (<archive>.md5 beside each), their SHA-256s and sizes those
# that TensorFlow Datasets records. The SHA-256s of members are others' records, compared with copies of the files
# where such were at hand; files whose checksum nobody was found to have published have none here.
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
    "ml-1m": _movielens(
        "ml-1m",
        "MovieLens 1M (GroupLens)",
        5917549,
        "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        "c4d9eecfca2ab87c1945afe126590906",
        (
            Member("ml-1m/README"),
            Member("ml-1m/users.dat", sha256="1dc3a95300cb19f7c10e027daf29b8cdf1d908dab65b5edfb45950aa389a10a3"),
            Member("ml-1m/movies.dat", sha256="0140fc2356357c1a851d0f52e893a1e4d3696df632c4141cea8d5bc3d621f0b9"),
            Member("ml-1m/ratings.dat", sha256="506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f"),
        ),
    ),
    "ml-100k": _movielens(
        "ml-100k",
        "MovieLens 100K (GroupLens)",
        4924029,
        "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        "0e33842e24a9c977be4e0107933c0723",
        (
            Member("ml-100k/README", sha256="4883b8cf340ed0059971b33f56ad3adc88a40792108ebca3d24aafc4c82e8b52"),
            Member("ml-100k/u.data", sha256="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"),
            Member("ml-100k/u.user", sha256="f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c"),
            Member("ml-100k/u.item", sha256="553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701"),
            Member("ml-100k/u.genre"),
            Member("ml-100k/u.info"),
            Member("ml-100k/u.occupation"),
        ),
    ),
    "lastfm-1k": Source(
        name="lastfm-1k",
        title="Last.fm 1K users (O. Celma, 2010)",
        base_url="https://zenodo.org/records/6090214/files/",
        files=(
            RemoteFile(
                path="lastfm-dataset-1K.tar.gz",
                url_path="lastfm-dataset-1K.tar.gz",
                # Zenodo publishes MD5s only, and shows sizes rounded.
                md5="a79a6808f54f73354789a9fb02cb1e41",
                about=672_700_000,
                members=(
                    Member("lastfm-dataset-1K/README.txt"),
                    # These two MD5s stand in the README itself.
                    Member("lastfm-dataset-1K/userid-profile.tsv", md5="c53608b6b445db201098c1489ea497df"),
                    Member(
                        "lastfm-dataset-1K/userid-timestamp-artid-artname-traid-traname.tsv",
                        md5="64747b21563e3d2aa95751e0ddc46b68",
                    ),
                ),
            ),
        ),
        licence="Last.fm's terms: non-commercial use only (checked by MD5, no SHA-256 is published)",
        homepage="https://zenodo.org/records/6090214",
        terms=(
            "© Last.fm; distributed with Last.fm's permission for non-commercial use only.",
            "For commercial use ask Last.fm (partners at last.fm).",
            "Publications should cite O. Celma (2010), Music Recommendation and Discovery in the Long Tail, Springer, "
            "and name last.fm; described at http://ocelma.net/MusicRecommendationDataset/lastfm-1K.html.",
        ),
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


class _ArchiveError(Exception):
    """What is wrong with an archive, for a message that names it."""


# What the standard library raises on damaged archives, beside its own errors.
_UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


def get(
    name: str,
    folder: Path,
    *,
    base_url: str | None = None,
    local: Path | None = None,
    unchecked: bool = False,
    announce: Callable[[str], object] = print,
    tries: int = 4,
    wait: float = 1.0,
    timeout: float = 30.0,
    progress: bool = False,
) -> list[Path]:
    """Bring the files of a source into a folder that does not hold them yet.

    Title, size, terms, homepage and folder are announced before anything is asked of the network. Terms
    of several lines are shown in full once and left as ``TERMS.txt``; later calls point there.

    A download that breaks off leaves ``<file>.part`` beside its target; the next try or call goes on
    from there if the server can, and starts anew if not. A file gets its own name only once its
    checksum is the published one. The named members of an archive are then unpacked beside it, each
    under its bare name; all are complete before the first gets its name, and what is there is never
    overwritten. An archive is not asked for where all its members are there already.

    Parameters
    ----------
    name : str
        Key of `SOURCES`.
    folder : Path
        Folder to download to; made if it is not there.
    base_url : str, optional
        URL of a mirror, instead of the source's own. It must be https, unless its host is this
        machine (a loopback address).
    local : Path, optional
        The user's own copy, instead of the network: the file, if the source is a single one (an
        archive, under any name), or a folder with the files, with the archive, or with its members
        (at the top or in the archive's folder). The same checksums are asked of it; members without
        a published checksum are taken as they are.
    unchecked : bool, default False
        Go on with a `FairnbWarning` where a file that is there or ``local`` is not the published one,
        where ``local`` lacks members, and where a download has no published checksum. A download
        that differs from its published checksum is refused all the same.
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
        The files below ``folder``, in the order of the source; of an archive, its members. All are
        there, save members that ``local`` lacks with ``unchecked``.

    Raises
    ------
    ParameterError
        If the source is unknown, ``tries``, ``wait`` or ``timeout`` is out of range, or ``local`` and
        ``base_url`` are both given.
    DownloadError
        If a file cannot be downloaded, read or written, is not the published one, or if a file of that
        name with other content is there already (which is left as it is); if an archive is damaged,
        lacks a member, or holds a link, folder or device under a member's name.
    """
    source = _source(name)
    for key, value, good, expected in (
        ("tries", tries, tries >= 1, "1 or more"),
        ("wait", wait, wait >= 0, "0 or more seconds"),
        ("timeout", timeout, timeout > 0, "more than 0 seconds"),
    ):
        if not good:
            raise ParameterError(f"{key}={value}: expected {expected}; name such a number")
    if local is not None and base_url:
        raise ParameterError(f"base_url={_where(base_url)} and local={local}: expected one of them; leave one out")
    folder = Path(folder)
    base = (base_url or source.base_url).rstrip("/") + "/"
    if local is None:
        _admit(base)

    _introduce(source, folder, announce)
    missing = [file for file in source.files if not _there(file, folder, announce, unchecked)]
    if missing and local is not None:
        _take(source, missing, folder, Path(local), announce, unchecked)
    elif missing:
        unknown = [file.path for file in missing if not _published(file)]
        if unknown and not unchecked:
            raise DownloadError(
                f"{', '.join(unknown)}: no checksum is published, so a download cannot be checked; "
                f"allow that with --unchecked, or name your own copy with --local"
            )
        _download(source, missing, folder, base, _Manner(announce, tries, wait, timeout, progress))
    for file in source.files:
        archive = folder / file.path
        # A copy taken from elsewhere was unpacked before it was copied.
        if file.members and _is_file(archive) and (local is None or file not in missing):
            _complete(source, file, archive, folder, announce, unchecked)
    _leave_terms(source, folder, announce)
    return [
        folder / path
        for file in source.files
        for path in ([member.path for member in file.members] if file.members else [file.path])
    ]


def check(name: str, folder: Path) -> list[tuple[str, str]]:
    """Compare the files in a folder with the published ones, without the network.

    Parameters
    ----------
    name : str
        Key of `SOURCES`.
    folder : Path
        Folder that the source was downloaded to, or that holds a user's own copy.

    Returns
    -------
    list of (str, str)
        Path below ``folder`` and status of each file, in the order of the source; an archive is
        followed by its members. What is well starts with ``ok``:

        - ``ok``: as published, or (a member without a published checksum) as in the zip archive there;
        - ``ok (not checksummed)``: there, and nothing to compare it with;
        - ``ok (not needed)``: an archive that is not there, whose members all are.

        Otherwise the status is ``missing``, ``wrong size`` or ``wrong hash``.

    Raises
    ------
    ParameterError
        If the source is unknown.
    DownloadError
        If a file is there but cannot be read.
    """
    source, folder = _source(name), Path(folder)
    states: list[tuple[str, str]] = []
    for file in source.files:
        archive = folder / file.path
        status = _compare(file, archive)[0]
        # A zip has sizes and CRCs in a directory; a tar would have to be decompressed from end to end.
        beside = archive if status.startswith("ok") and _zipped(file) else None
        members = [(member.path, _judge(member, folder / member.path, beside)[0]) for member in file.members]
        if status == "missing" and members and all(state.startswith("ok") for _, state in members):
            status = _UNNEEDED
        states += [(file.path, status), *members]
    return states


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ParameterError(f"source {name!r}: unknown; expected one of {', '.join(sorted(SOURCES))}")
    return SOURCES[name]


def _introduce(source: Source, folder: Path, announce: Callable[[str], object]) -> None:
    count = len(source.files)
    rough = "about " if any(file.size is None for file in source.files) else ""
    size = sum(file.about if file.size is None else file.size for file in source.files)
    announce(f"{source.title}: {count} file{'' if count == 1 else 's'}, {rough}{_mb(size)} MB")
    if not source.terms:
        announce(f"Licence: {source.licence}")
    elif _is_file(folder / _TERMS):
        announce(f"Terms: see {_TERMS}")
    else:
        announce("Terms of use:")
        for line in source.terms:
            announce(f"  {line}")
    announce(f"Homepage: {source.homepage}")
    announce(f"Folder: {_shown(folder)}")


def _leave_terms(source: Source, folder: Path, announce: Callable[[str], object]) -> None:
    if not source.terms or _is_file(folder / _TERMS):
        return
    names = ", ".join(source.base_url + file.url_path for file in source.files)
    lines = (source.title, f"Published at: {names}", f"Homepage: {source.homepage}", "", "Terms of use:", *source.terms)
    note = "This note was written by fairnb; it is no part of the published files."
    try:
        paths.write_text(folder / _TERMS, "\n".join([*lines, "", note, ""]))
    except FairnbError as error:
        # The files are there, and a folder that may only be read is no reason to refuse them.
        announce(f"{_TERMS}: not written ({error})")


def _published(item: RemoteFile | Member) -> dict[str, str]:
    """Return the published checksums of a file by algorithm, the strongest first."""
    return {kind: sum_ for kind, sum_ in (("sha256", item.sha256), ("md5", item.md5)) if sum_}


def _compare(item: RemoteFile | Member, target: Path) -> tuple[str, str]:
    """Return the status of a local file, and in which checksum it differs."""
    expected = _published(item)
    try:
        if not target.is_file():
            return "missing", ""
        size = target.stat().st_size
        found = {kind: _digest(target, kind) for kind in expected}
    except OSError as error:
        raise _no_access(target, error) from error
    differing = [
        f"{kind} expected {expected[kind]}, found {found[kind]}" for kind in expected if found[kind] != expected[kind]
    ]
    if isinstance(item, RemoteFile) and item.size is not None and size != item.size:
        return "wrong size", (differing or [f"{item.size} bytes expected, found {size}"])[0]
    if differing:
        return "wrong hash", differing[0]
    return ("ok" if expected else _UNSUMMED), ""


def _judge(item: RemoteFile | Member, target: Path, archive: Path | None) -> tuple[str, str]:
    """Return what `_compare` does; a member without a checksum is compared with the zip archive, if given."""
    status, words = _compare(item, target)
    if status != _UNSUMMED or not isinstance(item, Member) or archive is None:
        return status, words
    try:
        with zipfile.ZipFile(archive) as opened:
            entry = next((info for info in opened.infolist() if _bare(info.filename) == item.name), None)
    except _UNREADABLE as error:
        raise DownloadError(
            f"{_shown(archive)}: cannot be read as a zip archive ({_line(error)}); move it away, then get it again"
        ) from error
    if entry is None:
        return status, words
    try:
        size, crc = target.stat().st_size, _crc(target)
    except OSError as error:
        raise _no_access(target, error) from error
    if size != entry.file_size:
        return "wrong size", f"{entry.file_size} bytes in {archive.name}, found {size}"
    if crc != entry.CRC:
        return "wrong hash", f"crc32 in {archive.name} {entry.CRC:08x}, found {crc:08x}"
    return "ok", ""


def _held(item: RemoteFile | Member, target: Path, unchecked: bool, archive: Path | None = None) -> str:
    """Return the status of what has a file's place; stop if that is anything but the published file."""
    status, words = _judge(item, target, archive)
    if status == "missing" and target.is_dir():
        raise DownloadError(f"{_shown(target)}: a folder has the place of a file; move it away, then download again")
    if status.startswith("wrong"):
        text = f"{_shown(target)}: is not the published file ({words})"
        if not unchecked:
            raise DownloadError(f"{text}; it is left as it is: move it away, then download again")
        _warn(f"{text}; it is used unchecked")
    return status


def _there(file: RemoteFile, folder: Path, announce: Callable[[str], object], unchecked: bool) -> bool:
    """Return whether a file, or every member of an archive, is there already."""
    status = _held(file, folder / file.path, unchecked)
    if status != "missing":
        how = " with the published checksum" if status == "ok" else ", unchecked"
        announce(f"{file.path}: already there{how}, not downloaded again")
        return True
    if not file.members or not all(_is_file(folder / member.path) for member in file.members):
        return False
    for member in file.members:
        _held(member, folder / member.path, unchecked)
    announce(f"{file.path}: its files are already there, not downloaded again")
    return True


def _take(
    source: Source,
    files: list[RemoteFile],
    folder: Path,
    local: Path,
    announce: Callable[[str], object],
    unchecked: bool,
) -> None:
    """Copy files from a user's own copy, with the checksums asked of a download."""
    single = _is_single(source, local)
    copies: list[tuple[RemoteFile | Member, Path]] = []
    absent: list[RemoteFile | Member] = []
    for file in files:
        found = local if single else _first(local / file.path, local / Path(file.path).name)
        if found is not None:
            copies.append((file, found))
        elif not file.members:
            absent.append(file)
        else:
            for member in file.members:
                if _held(member, folder / member.path, unchecked) == "missing":
                    found = _first(local / member.path, local / member.name)
                    if found is None:
                        absent.append(member)
                    else:
                        copies.append((member, found))
    if absent:
        text = f"{_shown(local)}: lacks {', '.join(item.path for item in absent)}"
        if not unchecked or not copies or any(isinstance(item, RemoteFile) for item in absent):
            expected = ", ".join(f"{file.path}{' or its unpacked files' if file.members else ''}" for file in files)
            raise DownloadError(f"{text}; expected {expected} there; complete it or name another folder")
        _warn(f"{text}; the others are taken")
    # Everything is checked before the first file is copied.
    states = [_accept(source, item, found, unchecked) for item, found in copies]
    for (item, found), state in zip(copies, states, strict=True):
        if isinstance(item, RemoteFile) and item.members:
            # Before it is copied, so that an archive which cannot be unpacked is not left in the folder.
            _complete(source, item, found, folder, announce, unchecked)
        _copy(found, folder / item.path)
        announce(f"{item.path}: copied from {_shown(found)}, {state}")


def _is_single(source: Source, local: Path) -> bool:
    """Return whether a user's own copy is a file, and not a folder; stop if it is of no use."""
    try:
        single, there = local.is_file(), local.exists()
    except OSError as error:
        raise _no_access(local, error) from error
    if not there:
        raise DownloadError(f"{_shown(local)}: is not there; name the file or folder that holds your own copy")
    if single and len(source.files) > 1:
        raise DownloadError(
            f"{_shown(local)}: is one file, and {source.name} has {len(source.files)}; name the folder that holds them"
        )
    return single


def _accept(source: Source, item: RemoteFile | Member, found: Path, unchecked: bool) -> str:
    """Return how far a user's own file is known to be the published one; stop if it is another."""
    status, words = _compare(item, found)
    if status.startswith("wrong"):
        text = f"{_shown(found)}: is not the published {item.path} ({words})"
        if not unchecked:
            raise DownloadError(
                f"{text}; get the published one from {source.homepage}, or use yours all the same with --unchecked"
            )
        _warn(f"{text}; it is used unchecked")
        return "unchecked"
    return "checksum as published" if status == "ok" else "not checksummed (no checksum is published)"


def _complete(
    source: Source,
    file: RemoteFile,
    archive: Path,
    folder: Path,
    announce: Callable[[str], object],
    unchecked: bool,
) -> None:
    """Unpack the members of an archive that a folder does not hold yet."""
    beside = archive if _zipped(file) else None
    wanted = [m for m in file.members if _held(m, folder / m.path, unchecked, beside) == "missing"]
    if not wanted:
        return
    _unpack(source, file, archive, wanted, folder, unchecked)
    announce(f"{file.path}: unpacked {', '.join(member.path for member in wanted)}")
    size = archive.stat().st_size
    if size > _LARGE:
        announce(f"{file.path}: kept for later checks ({_mb(size)} MB); delete it if you need the room")


def _unpack(
    source: Source, file: RemoteFile, archive: Path, members: list[Member], folder: Path, unchecked: bool
) -> None:
    by_name = {member.name: member for member in members}
    parts: dict[str, Path] = {}
    try:
        with closing(_contents(archive, _zipped(file), set(by_name))) as contents:
            for name, stream in contents:
                # The place to write to comes from the source, never from the archive.
                target = folder / by_name[name].path
                parts[name] = _scratch(target)
                kind, expected = next(iter(_published(by_name[name]).items()), ("sha256", ""))
                found = _pour(stream, parts[name], target, kind)
                if expected and found != expected and not unchecked:
                    raise _ArchiveError(f"{name} in it is not the published file ({kind} {expected}, found {found})")
        lacking = [name for name in by_name if name not in parts]
        if lacking:
            raise _ArchiveError(f"it lacks {', '.join(lacking)}")
        for name, member in by_name.items():
            target = folder / member.path
            try:
                parts[name].replace(target)
            except OSError as error:
                raise _no_room(target, error) from error
    except _ArchiveError as error:
        raise DownloadError(
            f"{_shown(archive)}: cannot be unpacked: {error}; replace it by the published archive from "
            f"{source.homepage}, or name a folder that holds the files unpacked with --local"
        ) from error
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def _contents(archive: Path, zipped: bool, names: set[str]) -> Generator[tuple[str, IO[bytes]], None, None]:
    """Yield the named members of an archive, each with its content; nothing else in it is opened."""
    seen: set[str] = set()

    def wanted(name: str, regular: bool) -> bool:
        if name not in names:
            return False
        if name in seen:
            raise _ArchiveError(f"{name} is in it twice")
        if not regular:
            raise _ArchiveError(f"{name} in it is a link, folder or device, and a file is expected")
        seen.add(name)
        return True

    try:
        if zipped:
            with zipfile.ZipFile(archive) as opened:
                for entry in opened.infolist():
                    kind = stat.S_IFMT(entry.external_attr >> 16)
                    if wanted(_bare(entry.filename), not entry.is_dir() and kind in (0, stat.S_IFREG)):
                        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                            raise _ArchiveError(f"{entry.filename} in it is compressed in an unusual way")
                        with opened.open(entry) as stream:
                            yield _bare(entry.filename), stream
        else:
            with gzip.open(archive) as raw, tarfile.open(fileobj=raw, mode="r|") as tape:
                for piece in tape:
                    if wanted(_bare(piece.name), piece.isreg()) and (body := tape.extractfile(piece)) is not None:
                        yield _bare(piece.name), body
                # The checksum of the whole stands at the end.
                while raw.read(_BLOCK):
                    pass
    except _UNREADABLE as error:
        usual = "zip" if zipped else "tar.gz"
        raise _ArchiveError(f"it is damaged, or no {usual} archive ({_line(error)})") from error


def _bare(name: str) -> str:
    return name.removeprefix("./")


def _zipped(file: RemoteFile) -> bool:
    return file.path.endswith(".zip")


def _copy(found: Path, target: Path) -> None:
    part = _scratch(target)
    try:
        try:
            stream = found.open("rb")
        except OSError as error:
            raise _no_access(found, error) from error
        with stream:
            _pour(stream, part, target, "sha256")
        part.replace(target)
    except _ArchiveError as error:
        raise DownloadError(f"{_shown(found)}: cannot be read ({error}); make it readable or name another") from error
    except OSError as error:
        raise _no_room(target, error) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _pour(stream: IO[bytes], part: Path, target: Path, kind: str) -> str:
    """Write a stream to a file; return its checksum. Errors of reading are `_ArchiveError`."""
    digest = hashlib.new(kind, usedforsecurity=False)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            while True:
                try:
                    block = stream.read(_BLOCK)
                except _UNREADABLE as error:
                    raise _ArchiveError(f"it is damaged ({_line(error)})") from error
                if not block:
                    return digest.hexdigest()
                digest.update(block)
                file.write(block)
    except OSError as error:
        raise _no_room(target, error) from error


def _scratch(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")


def _first(*candidates: Path) -> Path | None:
    return next((path for path in candidates if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def _no_access(path: Path, error: OSError) -> DownloadError:
    return DownloadError(f"{_shown(path)}: cannot be read ({_cause(error)}); make it readable or move it away")


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
                    known_hash=f"{loader.kind}:{loader.expected}" if loader.expected else None,
                    fname=target.name,
                    path=target.parent,
                    downloader=loader,
                )
            except ValueError as error:
                if loader.found in ("", loader.expected):
                    raise
                raise DownloadError(
                    f"{file.path}: what arrived from {_where(base + file.url_path)} is not the published "
                    f"file ({loader.kind} expected {loader.expected}, found {loader.found}) and was deleted; "
                    f"{_by_hand(source, target)}"
                ) from error
            except OSError as error:
                raise _no_room(target, error) from error
            if loader.expected:
                manner.announce(f"{file.path}: downloaded, checksum as published")
            else:
                _warn(f"{file.path}: downloaded, but not checked, for no checksum of it is published")


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
    # Of the whole file; learned from the server where it was not published.
    size: int | None = None
    kind: str = ""
    expected: str = ""

    def __post_init__(self) -> None:
        self.size = self.file.size
        self.kind, self.expected = next(iter(_published(self.file).items()), ("sha256", ""))

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        if not self.expected and self._held():
            # Nothing would tell whether the start of another day fits what the server has now.
            self.part.unlink()
        self._fill(url)
        self.found = _digest(self.part, self.kind)
        if self.expected and self.found != self.expected and not self.whole:
            # The start may be of another day (a login page, another file): it says nothing of the server.
            self.part.unlink()
            self._fill(url)
            self.found = _digest(self.part, self.kind)
        self.part.replace(output_file)

    def _fill(self, url: str) -> None:
        if self.size is not None and self._held() > self.size:
            self.part.unlink()
        for count in range(1, self.manner.tries + 1):
            if self.size and self._held() == self.size:
                return
            try:
                self._try(url)
            except _RetryError as error:
                if count == self.manner.tries:
                    start = f"it goes on from byte {self._held()}" if self._held() else "nothing is kept"
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
        held = self._held()
        with self._open(url, held) as response:
            if not held or self._continues(response, held):
                self._receive(url, response, held)
                return
        # Nothing of this answer fits what we hold; a second one in the same try cannot loop.
        self.part.unlink()
        with self._open(url, 0) as response:
            self._receive(url, response, 0)

    def _held(self) -> int:
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
            with self._network(url):
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
            if match is None or not plain or int(match[1]) != held:
                return False
            if self.size is None and match[2] != "*":
                self.size = int(match[2])
            return match[2] in ("*", str(self.size))
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
        if self.whole and self.file.size is None:
            length = response.headers.get("Content-Length", "").strip()
            plain = response.headers.get("Content-Encoding", "identity") == "identity"
            self.size = int(length) if plain and _LENGTH.fullmatch(length) else None
        done = 0 if self.whole else held
        total = f"of {_mb(self.size)} MB" if self.size is not None else "MB"
        with self._network(url), self.part.open("wb" if self.whole else "ab") as part:
            try:
                for chunk in response.iter_content(_CHUNK):
                    done += len(chunk)
                    if self._over(done):
                        break
                    part.write(chunk)
                    self._show(f"\r{self.file.path}: {_mb(done)} {total}")
            finally:
                self._show("\n")
        if self._over(done):
            self.part.unlink()
            known = f"{self.size} bytes" if self.size is not None else f"about {_mb(self.file.about)} MB"
            raise DownloadError(
                f"{self.file.path}: what arrived from {_where(url)} is not the published file (expected "
                f"{known} with {self.kind} {self.expected or 'unknown'}, found more bytes) and was deleted; "
                f"{_by_hand(self.source, self.target)}"
            )
        if self.size is not None and done < self.size:
            raise _RetryError(f"the body ended after {done} of {self.size} bytes")

    def _over(self, done: int) -> bool:
        """Return whether more arrived than the file can have; a rounded size is allowed 1 % more."""
        if self.size is not None and done > self.size:
            return True
        return bool(self.file.size is None and self.file.about and done > 1.01 * self.file.about)

    def _show(self, text: str) -> None:
        if self.manner.progress:
            sys.stderr.write(text)
            sys.stderr.flush()

    @contextmanager
    def _network(self, url: str) -> Iterator[None]:
        """Tell failures of the network that may pass from those that will not."""
        from requests import exceptions  # noqa: PLC0415

        host = _where(url).partition("/")[0]
        try:
            yield
        except exceptions.Timeout as error:
            raise _RetryError(f"no answer within {self.manner.timeout:g} seconds") from error
        except exceptions.ChunkedEncodingError as error:
            whole = f" of {self.size}" if self.size is not None else ""
            raise _RetryError(f"the body ended early, with {self._held()}{whole} bytes kept") from error
        except exceptions.RequestException as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise DownloadError(
                    f"{self.file.path}: the certificate of {host} cannot be trusted ({_certificate(error)}), and "
                    f"nothing is downloaded unverified; check this machine's date, name a mirror (--mirror), or "
                    f"download {self.target.name} by hand from {self.source.homepage} and name your copy with --local"
                ) from error
            if isinstance(error, exceptions.ConnectionError | exceptions.ContentDecodingError):
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


def _certificate(error: BaseException) -> str:
    """Return what is wrong with a certificate, in the words of the library that verified it."""
    inner: BaseException | None = error
    while inner is not None:
        words = getattr(inner, "verify_message", "")
        if words:
            return str(words)
        inner = inner.__cause__ or inner.__context__
    return "it cannot be verified"


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


def _no_room(target: Path, error: OSError) -> DownloadError:
    return DownloadError(
        f"{_shown(target.parent)}: cannot hold {target.name} ({_cause(error)}); expected a "
        f"folder with free space that you may write to; make it so or name another one"
    )


def _warn(text: str) -> None:
    warnings.warn(text, FairnbWarning, stacklevel=2)


def _line(error: BaseException) -> str:
    """Return a library's words on one line; they may quote what stands in a damaged file."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _shown(path: Path) -> str:
    try:
        return paths.shown(path)
    except FairnbError:
        # A folder can be named from outside any checkout, too.
        return str(path)


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f}"
