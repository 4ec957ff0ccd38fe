"""Last.fm 1K: the plays of 992 listeners, from the files as Ò. Celma published them.

Source: Ò. Celma, Music Recommendation and Discovery, Springer 2010; 19,150,868 plays, 2.4 GB.

Read by numpy and pyarrow in blocks: every line checked in 6.5 s of the processor and 0.3 GiB (pandas: 10.5 s, 5.7 GiB).
Polars took 6.4 s to split the lines alone, and DuckDB about as long; threads made this reader no faster on two cores.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fairnb.datasets.dataset import AGES, MAX_REJECTED, Dataset, FileFacts, Remark
from fairnb.datasets.lines import RawFile, frame_of
from fairnb.errors import DataError, FairnbError, ParameterError

PROFILE = "userid-profile.tsv"
PLAYS = "userid-timestamp-artid-artname-traid-traname.tsv"
HEADER = ("#id", "gender", "age", "country", "registered")
# Last.fm began in 2002; a time before it is a player's unset clock.
EARLIEST = "2002-01-01T00:00:00Z"
# The first and the last day of the plays as published.
WINDOW = ("2005-02-14T00:00:00Z", "2009-06-19T23:59:59Z")

_GENDERS = {"m": "Male", "f": "Female"}
_REMEDY = f"expected {PROFILE} and {PLAYS} of Last.fm 1K as published; unpack them again, or name their folder"
_FORM = "2009-05-04T23:08:57Z"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_BLOCK = 1 << 20
# A small excerpt may have some bad lines without being another file.
_FEW = 20
# Beyond this many, remarks on kept lines become one, and rejects an error: both are lists in memory.
_MOST_REMARKS = 1_000
_MOST_REJECTS = 1_000_000
# A file with more changes of user than this is not grouped by user, and byte ranges would not help.
_MOST_RUNS = 100_000
# Rows whose repeats are sought at a time; more would need more memory.
_BATCH = 2_000_000
# Bytes of names of the last blocks before those that are known already are sorted out, which takes a second.
_MOST_NAMES = 48 << 20
# What counts as nothing in a name: a prompt cannot show it.
_SPACES = "".join(map(chr, range(33)))

# Part of each cache's key: to be raised with any change of what a reader returns.
_VERSION = 1
_TEXT = pa.large_string()
_INDEX_SCHEMAS = {
    "users": pa.schema({"plays": pa.int64()}),
    "rejects": pa.schema({"line": pa.int64(), "reason": _TEXT}),
    "runs": pa.schema({"user": pa.int32(), "start": pa.int64(), "line": pa.int64()}),
    "totals": pa.schema({"lines": pa.int64(), "rejected": pa.int64()}),
}
_PLAY_SCHEMAS = {
    "plays": pa.schema({"user": pa.int32(), "item_id": pa.int64(), "timestamp": pa.int64()}),
    "items": pa.schema({"item_id": pa.int64(), "title": _TEXT, "artist": _TEXT}),
    "remarks": pa.schema({"line": pa.int64(), "reason": _TEXT}),
}


def read_profile(folder: Path) -> tuple[pd.DataFrame, FileFacts, pd.DataFrame]:
    """Read who the listeners are.

    Parameters
    ----------
    folder : Path
        Holds ``userid-profile.tsv`` (or the same with ``.gz``).

    Returns
    -------
    users : DataFrame
        One row a user, sorted by ``user_id``: ``user_id``, ``gender`` (Female, Male), ``age`` (float),
        ``country`` and ``registered`` (text as it stands). Only an empty field is missing; ``NA`` is a
        text. An age outside `AGES` or not a whole number, and a gender other than m or f, become missing.
    facts : FileFacts
    remarks : DataFrame
        Rejects (another number of fields than the header's, no or a repeated id) and fields that became
        missing.

    Raises
    ------
    DataError
        If the file is absent, not in UTF-8, has another header or too many bad lines.
    """
    users, facts, remarks = _profile(folder)
    return users, facts, frame_of(remarks)


def activity(folder: Path, cache: Path | None = None) -> pd.DataFrame:
    """Count the valid plays of each user over the whole file.

    Parameters
    ----------
    folder : Path
        Holds both files.
    cache : Path, optional
        As in `read`; a later `read` then finds each user's plays without reading the others'.

    Returns
    -------
    DataFrame
        ``user_id`` and ``plays`` (int64) of every user in the profile, sorted by ``user_id``; 0 where
        there is none. ``read(folder, [])`` gives the rejects behind these counts.

    Raises
    ------
    DataError
        As in `read`.
    """
    users, facts, _ = _profile(folder)
    with _opened(folder, users, facts, cache) as plays:
        index = _index(plays)
    return pd.DataFrame({"user_id": users["user_id"], "plays": index.plays})


def read(
    folder: Path, users: Sequence[str] | None = None, *, complete: bool = False, cache: Path | None = None
) -> Dataset:
    """Read the plays of some listeners, or of all.

    An item is a pair of artist and track name, since ids are often blank. Its ``item_id`` is a hash of
    that pair alone: the same whichever users are read. Every line of the plays is checked whichever users
    are read, so `files` and `rejects` are of the whole file: ``lines_in`` = ``rows_out`` + ``rejected``,
    where ``rows_out`` counts the valid plays of all users, also of those who are not in the frames (and
    those that `complete` leaves out). Remarks on kept lines are only of the users read.

    Parameters
    ----------
    folder : Path
        Holds ``userid-profile.tsv`` and ``userid-timestamp-artid-artname-traid-traname.tsv``, either of
        them plain or with ``.gz``; the plain one goes first.
    users : sequence of str, optional
        User ids; all by default. The order does not matter.
    complete : bool, default False
        Leave out plays without an artist id or a track id, with one remark for each of the two. The
        default keeps them, keyed by name.
    cache : Path, optional
        Folder for parquet files that make the next reading short; made if it is not there. They are
        used only for a file of the same size and time stamp, the same profile and this version of the
        reader; otherwise, and if damaged, they are made anew. The result is the same without them.

    Returns
    -------
    Dataset
        With ``interactions`` in the order of the file. Rejected are lines without six fields, with a blank
        user, time, artist or track, with a time that is not like 2009-05-04T23:08:57Z or before 2002, and
        of users not in the profile. Plays outside 2005-02-14 to 2009-06-19, and plays that repeat another's
        user, second, artist and track, are kept with a remark each; with one for all from 1,000 on.

    Raises
    ------
    ParameterError
        If a user is not in the profile, or `users` is one text.
    DataError
        If a file is absent, unreadable, not in UTF-8, holds a NUL byte or a web page, has no usable line,
        or if more than 5 % of its lines (and more than 20) are rejects; if two items have the same hash;
        if the cache cannot be written.
    """
    profile, profile_facts, remarks = _profile(folder)
    chosen = _chosen(profile, users)
    with _opened(folder, profile, profile_facts, cache) as plays:
        index = _index(plays)
        found = _plays(plays, index, chosen, complete=complete)
        name = plays.file.name
    remarks += [Remark(name, line, reason, kept=False) for line, reason in index.rejects]
    remarks += [Remark(name, line, reason, kept=True) for line, reason in found.remarks]
    listed = profile[chosen].reset_index(drop=True)
    ids = _user_ids(profile, found.user)
    interactions = pd.DataFrame({"user_id": ids, "item_id": found.item_id, "timestamp": found.timestamp}, copy=False)
    return Dataset(
        name="lastfm1k",
        title="Last.fm 1K",
        kind="songs",
        interactions=interactions,
        users=listed,
        items=found.items.to_pandas().astype({"title": "str", "artist": "str"}),
        files=(profile_facts, FileFacts(name, "utf-8", index.lines, int(index.plays.sum()), index.rejected, "")),
        remarks=frame_of(remarks),
    )


def item_id(artist: str, title: str) -> int:
    """Return the id of a track: 63 bits of a hash of the two names."""
    return int.from_bytes(_digest(f"{artist}\x1f{title}".encode()), "big") >> 1


def _digest(names: bytes) -> bytes:
    return hashlib.blake2b(names, digest_size=8).digest()


def _profile(folder: Path) -> tuple[pd.DataFrame, FileFacts, list[Remark]]:
    raw = RawFile(_present(Path(folder), PROFILE), _REMEDY)
    if raw.encoding != "utf-8":
        raise DataError(f"{raw.file}: not a text in UTF-8; {_REMEDY}")
    lines = raw.lines()
    number, header = next(lines, (1, ""))
    if tuple(header.split("\t")) != HEADER:
        raise DataError(
            f"{raw.file}, line {number}: {_excerpt(header)} is not the header; "
            f"expected {', '.join(HEADER)}, separated by tabs; {_REMEDY}"
        )
    seen: dict[str, int] = {}
    rows: list[tuple[object, ...]] = []
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(HEADER):
            raw.reject(number, f"{_fields(len(fields))}; expected {len(HEADER)}, as in the header")
        elif not fields[0].strip():
            raw.reject(number, "no user id; expected one")
        elif fields[0] in seen:
            raw.reject(number, f"user {_excerpt(fields[0])} stands on line {seen[fields[0]]} already")
        else:
            seen[fields[0]] = number
            gender, age = _GENDERS.get(fields[1]), _age(fields[2])
            if fields[1] and gender is None:
                raw.note(number, f"gender {_excerpt(fields[1])} is neither m nor f; taken for missing")
            if fields[2] and age is None:
                low, high = AGES
                raw.note(
                    number, f"age {_excerpt(fields[2])} is no whole number from {low} to {high}; taken for missing"
                )
            rows.append((fields[0], gender, age, fields[3] or None, fields[4] or None))
    facts = raw.close(len(rows))
    users = pd.DataFrame(rows, columns=["user_id", "gender", "age", "country", "registered"], dtype=object)
    users = users.astype(dict.fromkeys(["user_id", "gender", "country", "registered"], "str") | {"age": "float64"})
    return users.sort_values("user_id", ignore_index=True), facts, raw.remarks


def _age(text: str) -> float | None:
    whole = re.fullmatch(r"[0-9]{1,9}", text)
    return float(text) if whole and AGES[0] <= int(text) <= AGES[1] else None


def _chosen(profile: pd.DataFrame, users: Sequence[str] | None) -> np.ndarray:
    """Return which rows of the profile are asked for."""
    if users is None:
        return np.ones(len(profile), dtype=bool)
    if isinstance(users, str):
        raise ParameterError(f"users={users!r}: one text; expected a list of user ids, such as [{users!r}]")
    strange = sorted(set(map(str, users)) - set(profile["user_id"]))
    if strange:
        raise ParameterError(f"users: {strange[0]!r} is not in {PROFILE}; name users by the ids there")
    return np.isin(profile["user_id"].to_numpy(dtype=object), list(map(str, users)))


def _user_ids(profile: pd.DataFrame, rows: np.ndarray) -> pd.Series:
    """Return the ids of rows of the profile; without a second copy, which for all plays is 0.4 GB."""
    ids = pa.array(profile["user_id"], _TEXT)
    places = np.zeros(len(rows) + 1, dtype=np.int64)
    lengths = np.array([len(user.encode()) for user in profile["user_id"]], dtype=np.int64)
    np.take(lengths, rows, out=places[1:], mode="clip")  # in any other mode through a copy
    np.cumsum(places, out=places)
    content = np.empty(places[-1], dtype=np.uint8)
    for start in range(0, len(rows), 100_000):
        part = ids.take(pa.array(rows[start : start + 100_000]))
        stop = start + len(part)
        content[places[start] : places[stop]] = np.frombuffer(part.buffers()[2], np.uint8, places[stop] - places[start])
    buffers = [None, pa.py_buffer(places), pa.py_buffer(content)]
    return pd.Series(pa.Array.from_buffers(_TEXT, len(rows), buffers).to_pandas(), dtype="str")


def _present(folder: Path, name: str) -> Path:
    packed = folder / f"{name}.gz"
    return packed if packed.is_file() and not (folder / name).is_file() else folder / name


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _fields(number: int) -> str:
    return "1 field" if number == 1 else f"{number} fields"


# --- The plays, block by block


@dataclass(frozen=True)
class _Source:
    """The open file of plays."""

    file: Path
    stream: io.BufferedReader
    # Past a byte-order mark, if there is one.
    begin: int
    size: int
    packed: bool
    known: dict[bytes, int]
    cache: _Cache | None


class _Checked(NamedTuple):
    """The lines of a block with six fields. Lines are counted from 0 within the block."""

    start: np.ndarray
    tabs: np.ndarray
    end: np.ndarray
    line: np.ndarray
    # Row of the user in the profile; -1 for a reject.
    user: np.ndarray
    seconds: np.ndarray
    rejects: list[tuple[int, str]]
    filled: int
    newlines: int


class _Summary(NamedTuple):
    """A block in short: its rejects, and its runs of lines of one user."""

    filled: int
    rejects: list[tuple[int, str]]
    user: np.ndarray
    start: np.ndarray
    line: np.ndarray
    plays: np.ndarray
    newlines: int
    size: int


class _Chunk(NamedTuple):
    """The plays in a block of the users read, and the lines of what `complete` leaves out."""

    user: np.ndarray
    seconds: np.ndarray
    line: np.ndarray
    names: pa.DictionaryArray
    left_out: tuple[np.ndarray, ...]
    newlines: int


class _LineError(Exception):
    """A line that makes the whole file unusable; counted from 0 within its block."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@contextmanager
def _opened(folder: Path, users: pd.DataFrame, profile: FileFacts, cache: Path | None) -> Iterator[_Source]:
    file = _present(Path(folder), PLAYS)
    if not file.is_file():
        raise DataError(f"{file}: no such file; {_REMEDY}")
    packed = file.name.endswith(".gz")
    try:
        with file.open("rb") as plain:
            state = os.fstat(plain.fileno())
            stamp = {"size": state.st_size, "time": state.st_mtime_ns}
            key = {"version": _VERSION, "file": file.name, "profile": profile.sha256, **stamp}
            with cast("io.BufferedReader", gzip.open(plain) if packed else plain) as stream:
                yield _Source(
                    file=file,
                    stream=stream,
                    begin=_begin(file, stream),
                    size=state.st_size,
                    packed=packed,
                    known={user.encode(): row for row, user in enumerate(users["user_id"])},
                    cache=None if cache is None else _Cache(Path(cache), key),
                )
            state = file.stat()
            if stamp != {"size": state.st_size, "time": state.st_mtime_ns}:
                raise _changed(file)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{file}: damaged, or not compressed by gzip; {_REMEDY}") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error}); {_REMEDY}") from None


def _changed(file: Path) -> DataError:
    return DataError(f"{file}: was changed while it was read; read it again once it is complete")


def _begin(file: Path, stream: io.BufferedReader) -> int:
    """Return where the first line begins; stop at what is no table at all."""
    head = stream.read(512)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{file}: UTF-16; expected a text in UTF-8; {_REMEDY}")
    mark = b"\xef\xbb\xbf"
    if head.removeprefix(mark).lstrip()[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise DataError(f"{file}, line 1: a web page; expected plays; {_REMEDY}")
    return len(mark) if head.startswith(mark) else 0


def _blocks(plays: _Source, start: int, stop: int | None) -> Iterator[tuple[bytearray, int]]:
    """Give whole lines, a megabyte at a time, each with its line end: a buffer, and how much of it is filled.

    The buffer is the same each time, since new memory for each block takes longer than reading it.
    """
    plays.stream.seek(start)
    left = None if stop is None else stop - start
    block, kept = bytearray(2 * _BLOCK + 1), 0
    view = memoryview(block)
    while size := plays.stream.readinto(view[kept : kept + (_BLOCK if left is None else min(_BLOCK, left))]):
        left = None if left is None else left - size
        end = kept + size
        cut = block.rfind(b"\n", 0, end) + 1
        if cut:
            yield block, cut
        kept = end - cut
        if kept > _BLOCK:
            raise DataError(f"{plays.file}: a line of more than {_BLOCK:,} bytes; this is another file; {_REMEDY}")
        block[:kept] = block[cut:end]
    if kept:
        block[kept] = ord("\n")
        yield block, kept + 1


def _check(block: bytearray, size: int, known: dict[bytes, int]) -> _Checked:
    """Split a block into lines and fields, and judge each line.

    Whatever the vectorised tests are not sure of goes to `_reason`, which alone decides.
    """
    data = np.frombuffer(block, np.uint8, size)
    _require_utf8(block, size)
    marks = np.flatnonzero(data <= 13)
    kinds = data[marks]
    if kinds.tobytes() == b"\t\t\t\t\t\n" * (len(marks) // 6):
        grid = marks.reshape(-1, 6)
        start = np.concatenate(([0], grid[:, 5] + 1))[:-1]
        end = grid[:, 5]
        line = np.arange(len(grid))
        newlines = len(grid)
        odd: list[tuple[int, int, int]] = []
    else:
        if not kinds.all():
            before = int(marks[np.argmin(kinds)])
            raise _LineError(block.count(b"\n", 0, before), "a NUL byte; expected a text in UTF-8")
        marks = marks[(kinds == 9) | (kinds == 10)]
        ends = np.flatnonzero(data[marks] == 10)
        newlines = len(ends)
        starts = np.concatenate(([0], marks[ends] + 1))[:-1]
        six = np.diff(ends, prepend=-1) == 6
        grid = marks[ends[six][:, None] + np.arange(-5, 1)]
        start = starts[six]
        end = grid[:, 5] - (data[grid[:, 5] - 1] == 13)
        line = np.flatnonzero(six)
        odd = [(int(i), int(starts[i]), int(marks[ends[i]])) for i in np.flatnonzero(~six)]
    tabs = grid[:, :5]
    user = _users(block, start, tabs[:, 0], known)
    seconds = _seconds(block, tabs[:, 0] + 1, tabs[:, 1])

    rejects: list[tuple[int, str]] = []
    blank = 0

    def judge(number: int, begin: int, stop: int) -> bool:
        nonlocal blank
        text = block[begin:stop].decode("utf-8").removesuffix("\r")
        if not text.strip():
            blank += 1
            return False
        reason = _reason(text.split("\t"), known)
        if reason:
            rejects.append((number, reason))
        return not reason

    for number, begin, stop in odd:
        judge(number, begin, stop)
    # The byte after the tab is the next separator where the field is empty.
    unsure = (user < 0) | (seconds < 0) | (data[tabs[:, 2] + 1] <= 32) | (data[tabs[:, 4] + 1] <= 32)
    for i in np.flatnonzero(unsure):
        if judge(int(line[i]), int(start[i]), int(grid[i, 5])):
            seconds[i] = _moment(block[tabs[i, 0] + 1 : tabs[i, 1]].decode("utf-8"))
        else:
            user[i] = -1
    return _Checked(start, tabs, end, line, user, seconds, sorted(rejects), newlines - blank, newlines)


def _require_utf8(block: bytearray, size: int) -> None:
    whole = pa.Array.from_buffers(_TEXT, 1, [None, pa.py_buffer(np.array([0, size])), pa.py_buffer(block)])
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        try:
            block[:size].decode("utf-8")
        except UnicodeDecodeError as error:
            raise _LineError(block.count(b"\n", 0, error.start), "not a text in UTF-8") from None


def _texts(block: bytearray | pa.Buffer, start: np.ndarray, end: np.ndarray) -> pa.Array:
    """Return the bytes between two series of places, both ascending and never crossing."""
    if not len(start):
        return pa.array([], pa.binary())
    # Every second element is the gap between two fields; without it the bytes would have to be copied twice.
    places = np.column_stack((start, end)).ravel().astype(np.int32)
    every = pa.Array.from_buffers(pa.binary(), len(places) - 1, [None, pa.py_buffer(places), pa.py_buffer(block)])
    return every.take(pa.array(np.arange(0, len(places) - 1, 2)))


def _users(block: bytearray, start: np.ndarray, end: np.ndarray, known: dict[bytes, int]) -> np.ndarray:
    """Return each line's row in the profile; -1 for a user not in it."""
    size = int(end[0] - start[0]) if len(start) else 0
    if 8 <= size <= 16 and (end - start == size).all():
        # Two words of 8 bytes hold such an id, and most lines have the id of the line above.
        words = np.ndarray((len(block) - 7,), dtype=np.uint64, buffer=block, strides=(1,))
        low, high = words[start], words[start + (size - 8)]
        first = np.flatnonzero(np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])))
        if len(first) * 8 < len(start):
            rows = [known.get(bytes(block[place : place + size]), -1) for place in start[first].tolist()]
            return np.repeat(np.array(rows, dtype=np.int32), np.diff(first, append=len(start)))
    users = _texts(block, start, end).dictionary_encode()
    found = np.array([known.get(user, -1) for user in users.dictionary.to_pylist()], dtype=np.int32)
    return np.asarray(found[users.indices.to_numpy()])


def _moment(text: str) -> int:
    """Return the seconds since 1970 of a valid time, or -1."""
    if _TIME.fullmatch(text):
        with suppress(ValueError):
            return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
    return -1


_EARLIEST = _moment(EARLIEST)
_FIRST, _LAST = map(_moment, WINDOW)
_YEARS = range(2002, 2042)


def _day_table() -> np.ndarray:
    """Return the days since 1970 by year of `_YEARS`, month and day; -1 where there is no such day."""
    table = np.full((len(_YEARS), 100, 100), -1, dtype=np.int32)
    days = np.arange(np.datetime64(f"{_YEARS[0]}-01-01"), np.datetime64(f"{_YEARS[-1] + 1}-01-01"))
    months = days.astype("datetime64[M]")
    year = days.astype("datetime64[Y]").astype(int) + 1970 - _YEARS[0]
    table[year, months.astype(int) % 12 + 1, (days - months).astype(int) + 1] = days.astype(int)
    return table.ravel()


_DAYS = _day_table()
_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_PUNCTUATION = {4: "-", 7: "-", 10: "T", 13: ":", 16: ":", 19: "Z"}


def _seconds(block: bytearray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the seconds since 1970 of times in `_YEARS`, and -1 for whatever else stands there."""
    good = end - start == 20
    if not good.any():
        return np.full(len(start), -1, dtype=np.int64)
    windows = np.ndarray((len(block) - 19,), dtype="V20", buffer=block, strides=(1,))
    cells = np.ascontiguousarray(windows[np.where(good, start, 0)].view(np.uint8).reshape(-1, 20).T)
    digits = cells[_DIGITS] - 48  # wraps around below "0", to more than 9
    good &= digits.max(axis=0) <= 9
    for place, mark in _PUNCTUATION.items():
        good &= cells[place] == ord(mark)
    century, year, month, day, hour, minute, second = digits[::2] * 10 + digits[1::2]
    good &= (hour < 24) & (minute < 60) & (second < 60)
    years = century.astype(np.int32) * 100 + year - _YEARS[0]
    good &= (years >= 0) & (years < len(_YEARS))
    # Day 0 of month 0 is in the table, as no day.
    days = _DAYS[np.where(good, years * 10_000 + month.astype(np.int32) * 100 + day, 0)]
    clock = hour.astype(np.int32) * 3600 + minute.astype(np.int32) * 60 + second
    seconds = days * np.int64(86_400) + clock
    return np.where(days < 0, np.int64(-1), seconds)


def _reason(fields: list[str], known: dict[bytes, int]) -> str:
    """Return why a line is a reject; empty if it is none."""
    if len(fields) != 6:
        return f"{_fields(len(fields))}; expected 6, separated by tabs"
    user, time, _, artist, _, track = fields
    for what, text in (("user", user), ("time", time), ("artist name", artist), ("track name", track)):
        if not text.strip(_SPACES):
            return f"no {what}; expected one"
    moment = _moment(time)
    if moment == -1:
        return f"time {_excerpt(time)} is not of the form {_FORM}"
    if moment < _EARLIEST:
        return f"time {_excerpt(time)} is before Last.fm began; expected {EARLIEST[:10]} or later"
    return "" if user.encode() in known else f"user {_excerpt(user)} is not in {PROFILE}"


# --- First pass: every line is checked, and where each user's lines are


@dataclass(frozen=True)
class _Index:
    """What the whole file holds; runs are empty where the file is not grouped by user."""

    plays: np.ndarray
    lines: int
    rejected: int
    rejects: list[tuple[int, str]]
    run_user: np.ndarray
    run_start: np.ndarray
    run_line: np.ndarray


def _index(plays: _Source) -> _Index:
    tables = plays.cache.load("index", {}, _INDEX_SCHEMAS) if plays.cache else None
    if tables is not None:
        totals = tables["totals"].to_pylist()[0]
        user, start, line = (_numbers(tables["runs"], name) for name in _INDEX_SCHEMAS["runs"].names)
        counts, rejects = _numbers(tables["users"], "plays"), _pairs(tables["rejects"])
        index = _Index(counts, totals["lines"], totals["rejected"], rejects, user, start, line)
    else:
        index = _scan(plays)
        if plays.cache:
            columns: dict[str, list[Any]] = {
                "users": [index.plays],
                "rejects": [[line for line, _ in index.rejects], [reason for _, reason in index.rejects]],
                "runs": [index.run_user, index.run_start, index.run_line],
                "totals": [[index.lines], [index.rejected]],
            }
            tables = {
                name: pa.table([pa.array(c, f.type) for c, f in zip(columns[name], schema, strict=True)], schema=schema)
                for name, schema in _INDEX_SCHEMAS.items()
            }
            plays.cache.store("index", {}, tables)
    _balance(plays.file, index)
    return index


def _summary(block: bytearray, size: int, known: dict[bytes, int]) -> _Summary:
    rows = _check(block, size, known)
    first = np.flatnonzero(np.append(True, rows.user[1:] != rows.user[:-1])[: len(rows.user)])
    plays = np.diff(first, append=len(rows.user))
    return _Summary(
        rows.filled,
        rows.rejects,
        rows.user[first],
        rows.start[first],
        rows.line[first],
        plays,
        rows.newlines,
        size,
    )


def _scan(plays: _Source) -> _Index:
    counts = np.zeros(len(plays.known), dtype=np.int64)
    lines = rejected = line = runs = 0
    rejects: list[tuple[int, str]] = []
    found = [(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))]
    offset = plays.begin
    try:
        for block, size in _blocks(plays, plays.begin, None):
            part = _summary(block, size, plays.known)
            lines += part.filled
            rejected += len(part.rejects)
            if len(rejects) < _MOST_REJECTS:
                rejects += [(line + number + 1, reason) for number, reason in part.rejects]
            valid = part.user >= 0
            np.add.at(counts, part.user[valid], part.plays[valid])
            runs += len(part.user)
            if not plays.packed and runs <= _MOST_RUNS:
                found.append((part.user, offset + part.start, line + part.line))
            line += part.newlines
            offset += part.size
    except _LineError as error:
        raise DataError(f"{plays.file}, line {line + error.line + 1}: {error}; {_REMEDY}") from None
    if runs > _MOST_RUNS:
        del found[1:]
    user, start, number = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _Index(counts, lines, rejected, rejects, user, start, number)


def _balance(file: Path, index: _Index) -> None:
    first = "; line {}: {}".format(*index.rejects[0]) if index.rejects else ""
    if index.rejected == index.lines:
        raise DataError(f"{file}: no usable line{first}; {_REMEDY}")
    if index.rejected > max(_FEW, MAX_REJECTED * index.lines) or index.rejected > len(index.rejects):
        raise DataError(
            f"{file}: {index.rejected:,} of {index.lines:,} lines cannot be used, the first is {first[2:]}; "
            f"this is another file or a damaged one; {_REMEDY}"
        )


# --- Second pass: the plays of the users read


@dataclass(frozen=True)
class _Found:
    """Plays in the order of the file, with rows of the profile as users; items by id; remarks on kept lines."""

    user: np.ndarray
    item_id: np.ndarray
    timestamp: np.ndarray
    items: pa.Table
    remarks: list[tuple[int, str]]


def _plays(plays: _Source, index: _Index, chosen: np.ndarray, *, complete: bool) -> _Found:
    # Rows of the profile say enough, since the profile itself is part of every key.
    detail = {"users": hashlib.sha256(chosen.tobytes()).hexdigest(), "complete": complete}
    tables = plays.cache.load("plays", detail, _PLAY_SCHEMAS) if plays.cache else None
    if tables is None:
        found = _extract(plays, index, chosen, complete=complete)
        if plays.cache:
            remarks = {"line": [line for line, _ in found.remarks], "reason": [text for _, text in found.remarks]}
            columns = {"user": found.user, "item_id": found.item_id, "timestamp": found.timestamp}
            tables = {
                "plays": pa.table(columns, schema=_PLAY_SCHEMAS["plays"]),
                "items": found.items,
                "remarks": pa.table(remarks, schema=_PLAY_SCHEMAS["remarks"]),
            }
            plays.cache.store("plays", detail, tables)
        return found
    user, ids, timestamp = (_numbers(tables["plays"], name) for name in _PLAY_SCHEMAS["plays"].names)
    return _Found(user, ids, timestamp, tables["items"], _pairs(tables["remarks"]))


def _segments(plays: _Source, index: _Index, chosen: np.ndarray) -> list[tuple[int, int | None, int]]:
    """Return byte ranges that hold all lines of the users read: begin, end, number of the first line from 0."""
    if not chosen.any():
        return []
    if chosen.all() or not len(index.run_user):
        return [(plays.begin, None, 0)]
    segments: list[tuple[int, int | None, int]] = []
    wanted = (index.run_user >= 0) & chosen[index.run_user]
    stops = np.append(index.run_start[1:], plays.size)
    for run in np.flatnonzero(wanted):
        start, stop, line = int(index.run_start[run]), int(stops[run]), int(index.run_line[run])
        if segments and segments[-1][1] == start:
            segments[-1] = (segments[-1][0], stop, segments[-1][2])
        else:
            segments.append((start, stop, line))
    return segments


def _chunk(block: bytearray, size: int, known: dict[bytes, int], chosen: np.ndarray, *, complete: bool) -> _Chunk:
    checked = _check(block, size, known)
    tabs = checked.tabs
    keep = (checked.user >= 0) & chosen[checked.user]
    left_out: tuple[np.ndarray, ...] = ()
    if complete:
        no_artist = keep & (tabs[:, 2] - tabs[:, 1] == 1)
        no_track = keep & ~no_artist & (tabs[:, 4] - tabs[:, 3] == 1)
        keep &= ~(no_artist | no_track)
        left_out = (checked.line[no_artist], checked.line[no_track])
    tabs = tabs[keep]
    artists = _texts(block, tabs[:, 2] + 1, tabs[:, 3])
    tracks = _texts(block, tabs[:, 4] + 1, checked.end[keep])
    # A tab is in neither name, so no two pairs of names share a text.
    names = pc.binary_join_element_wise(artists, tracks, pa.scalar(b"\t", pa.binary())).dictionary_encode()
    user, seconds, line = checked.user[keep], checked.seconds[keep], checked.line[keep]
    return _Chunk(user, seconds, line, names, left_out, checked.newlines)


def _extract(plays: _Source, index: _Index, chosen: np.ndarray, *, complete: bool) -> _Found:
    # The first pass counted the plays. Small arrays kept from each block would scatter over the memory instead.
    most = int(index.plays[chosen].sum())
    user, timestamp, number, item = (np.empty(most, kind) for kind in (np.int32, np.int64, np.uint32, np.int32))
    names = pa.array([], pa.binary())
    waiting: list[pa.DictionaryArray] = []
    left_out: dict[str, list[int]] = {}
    end = settled = size = 0

    def settle() -> None:
        nonlocal names, settled, size
        head = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), names)
        unified = pa.chunked_array([head, *waiting]).unify_dictionaries()
        waiting.clear()
        names = unified.chunk(0).dictionary
        for chunk in unified.chunks[1:]:
            item[settled : settled + len(chunk)] = chunk.indices.to_numpy()
            settled += len(chunk)
        size = 0
        pa.default_memory_pool().release_unused()

    for start, stop, before in _segments(plays, index, chosen):
        line = before + 1
        for block, filled in _blocks(plays, start, stop):
            chunk = _chunk(block, filled, plays.known, chosen, complete=complete)
            new = slice(end, end + len(chunk.user))
            if new.stop > most:
                raise _changed(plays.file)
            user[new], timestamp[new], number[new] = chunk.user, chunk.seconds, line + chunk.line
            end = new.stop
            waiting.append(chunk.names)
            size += chunk.names.dictionary.nbytes
            for what, rows in zip(("artist", "track"), chunk.left_out, strict=False):
                if len(rows):
                    first = left_out.setdefault(what, [line + int(rows[0]), 0])
                    first[1] += len(rows)
            line += chunk.newlines
            if size > _MOST_NAMES:
                settle()
    settle()
    user, timestamp, number, item = user[:end], timestamp[:end], number[:end], item[:end]
    remarks = [
        (line, f"{count:,} plays without {'an artist' if what == 'artist' else 'a track'} id left out; the first here")
        for what, (line, count) in left_out.items()
    ]
    remarks += _outside(timestamp, number) + _repeats(user, timestamp, item, number)
    del number
    ids, table = _items(names, plays.file)
    del names
    pa.default_memory_pool().release_unused()
    return _Found(user, ids[item], timestamp, table, sorted(remarks))


def _items(names: pa.Array, file: Path) -> tuple[np.ndarray, pa.Table]:
    """Return the ids of pairs of names, in their order, and the items sorted by id."""
    digests = bytearray()
    for part in range(0, len(names), 100_000):
        for name in names[part : part + 100_000].to_pylist():
            digests += _digest(name.replace(b"\t", b"\x1f"))
    ids = (np.frombuffer(bytes(digests), dtype=">u8") >> 1).astype(np.int64)
    places = np.frombuffer(names.buffers()[1], dtype=np.int32)[: len(names) + 1] if len(names) else np.zeros(1, int)
    tabs = places[:-1] + pc.find_substring(names, b"\t").to_numpy()
    artists = _texts(names.buffers()[2], places[:-1], tabs)
    titles = _texts(names.buffers()[2], tabs + 1, places[1:])
    order = np.argsort(ids)
    table = pa.table([pa.array(ids), titles.cast(_TEXT), artists.cast(_TEXT)], schema=_PLAY_SCHEMAS["items"])
    table = table.take(pa.array(order))
    same = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(same):
        one, other = table.slice(same[0], 2).to_pylist()
        raise DataError(
            f"{file}: {one['artist']!r}, {one['title']!r} and {other['artist']!r}, {other['title']!r} have the same "
            f"id {one['item_id']}; expected one item an id; change the name of one of the two"
        )
    return ids, table


def _outside(timestamp: np.ndarray, number: np.ndarray) -> list[tuple[int, str]]:
    rows = np.flatnonzero((timestamp < _FIRST) | (timestamp > _LAST))
    window = f"outside {WINDOW[0][:10]} to {WINDOW[1][:10]}, the days of the published plays"
    if len(rows) >= _MOST_REMARKS:
        return [(int(number[rows[0]]), f"{len(rows):,} plays are {window}; kept; the first is here")]
    return [(int(number[row]), f"time {np.datetime64(int(timestamp[row]), 's')}Z is {window}; kept") for row in rows]


def _repeats(user: np.ndarray, timestamp: np.ndarray, item: np.ndarray, number: np.ndarray) -> list[tuple[int, str]]:
    found = [np.zeros((0, 2), np.int64)]
    counts = np.bincount(user)
    batch = np.cumsum(counts) // _BATCH
    for part in np.unique(batch):
        rows = np.flatnonzero((batch == part)[user])
        if not len(rows):
            continue
        # A user's row fits above the 38 bits that the seconds of year 9999 need.
        moment = user[rows].astype(np.int64) << 38 | timestamp[rows]
        order = np.argsort(moment, kind="stable")
        equal = np.diff(moment[order]) == 0
        shared = np.append(equal, False) | np.append(False, equal)
        rows, moment = rows[order[shared]], moment[order[shared]]
        order = np.lexsort((rows, item[rows], moment))
        rows, moment = rows[order], moment[order]
        new = np.append(True, (np.diff(moment) != 0) | (np.diff(item[rows]) != 0))[: len(rows)]
        first = rows[np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))]
        found.append(np.column_stack((rows, first))[~new])
    pairs = np.concatenate(found)
    pairs = pairs[np.argsort(pairs[:, 0])]
    if len(pairs) >= _MOST_REMARKS:
        what = f"{len(pairs):,} plays repeat the user, second, artist and track of a line above"
        return [(int(number[pairs[0, 0]]), f"{what}; kept; the first is here")]
    return [(int(number[row]), f"the same play as on line {number[first]}; kept") for row, first in pairs]


# --- The cache


@dataclass(frozen=True)
class _Cache:
    """Tables in parquet files that are good for one state of the raw files only."""

    folder: Path
    key: dict[str, object]

    def load(self, name: str, detail: dict[str, object], schemas: dict[str, pa.Schema]) -> dict[str, pa.Table] | None:
        """Return the tables; None if one is missing, damaged or of another state."""
        tables = {}
        for table, schema in schemas.items():
            try:
                with pq.ParquetFile(self._path(name, detail, table), page_checksum_verification=True) as file:
                    stored = file.schema_arrow
                    note = self._note(detail, file.metadata.num_rows)
                    if not stored.equals(schema) or (stored.metadata or {}).get(b"fairnb") != note:
                        return None
                    tables[table] = file.read().replace_schema_metadata(None)
                    tables[table].validate(full=True)
            except (OSError, ValueError, KeyError, pa.ArrowException):
                return None
        return tables

    def store(self, name: str, detail: dict[str, object], tables: dict[str, pa.Table]) -> None:
        """Write the tables; a reader sees the old file or the new, never half."""
        for table, content in tables.items():
            scratch: Path | None = None
            target = self._path(name, detail, table)
            noted = content.replace_schema_metadata({b"fairnb": self._note(detail, len(content))})
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                handle, path = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=self.folder)
                os.close(handle)
                scratch = Path(path)
                pq.write_table(noted, scratch, write_page_checksum=True)
                scratch.replace(target)
            except OSError as error:
                raise FairnbError(
                    f"{self.folder}: the cache cannot be written ({error.strerror or error}); "
                    f"make the folder writable or name another one"
                ) from error
            finally:
                # Left only if something went wrong, an interruption included.
                if scratch is not None:
                    with suppress(OSError):
                        scratch.unlink()

    def _path(self, name: str, detail: dict[str, object], table: str) -> Path:
        text = json.dumps([self.key["file"], detail], sort_keys=True)
        return self.folder / f"lastfm1k-{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}-{table}.parquet"

    def _note(self, detail: dict[str, object], rows: int) -> bytes:
        return json.dumps([self.key, detail, rows], sort_keys=True).encode()


def _numbers(table: pa.Table, column: str) -> np.ndarray:
    return np.asarray(table[column])


def _pairs(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["line"].to_pylist(), table["reason"].to_pylist(), strict=True))
