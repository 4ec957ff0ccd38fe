"""Last.fm 1K: the plays of 992 listeners, from the files as Ò. Celma published them.

Source: Ò. Celma, Music Recommendation and Discovery, Springer 2010; 19,150,868 plays, 2.4 GB.

pyarrow reads the plays in blocks and vouches for those in which every line is as it should be; a block with anything
odd is read again line by line, so that each reject has its line number and its reason.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from fairnb import paths
from fairnb.datasets.dataset import AGES, Dataset, FileFacts, Remark
from fairnb.datasets.lines import RawFile, frame_of, present, require_usable
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
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d(:?\d\d)?)", re.ASCII)
_BLOCK = 8 << 20
# Fewer bytes than this are read line by line rather than halved once more.
_SMALL = 16 << 10
_WORKERS = min(2, os.cpu_count() or 1)
# Beyond this many, remarks on kept lines become one.
_MOST_REMARKS = 1_000
# Part of each cache's key: to be raised with any change of what a reader returns.
_VERSION = 2

_COLUMNS = ["user", "time", "artist_id", "artist", "track_id", "track"]
_NAMED = ["user", "time", "artist", "track"]
_SCHEMA = pa.schema(
    {"user": pa.int32(), "time": pa.int64(), "artist": pa.string(), "track": pa.string(), "line": pa.int64()}
)
# What is made of it, and kept in the cache. A user is a row of the profile.
_PLAYS = pa.schema({"user": pa.int32(), "item_id": pa.int64(), "timestamp": pa.int64()})
_ITEMS = pa.schema({"item_id": pa.int64(), "title": pa.string(), "artist": pa.string()})


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
    """Count the valid plays of every listener in the profile.

    Parameters
    ----------
    folder : Path
        As for `read`.
    cache : Path, optional
        As for `read`.

    Returns
    -------
    DataFrame
        ``user_id`` and ``plays`` (0 for users without any), sorted by ``user_id``.

    Raises
    ------
    DataError
        As for `read`.
    """
    users, profile, _ = _profile(folder)
    found = _plays(folder, users, profile, np.zeros(len(users), dtype=bool), complete=False, cache=cache)
    return pd.DataFrame({"user_id": users["user_id"], "plays": found.counts})


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
        User ids; all by default, which at full size takes several GB. The order does not matter.
    complete : bool, default False
        Leave out plays without an artist id or a track id, as the released code does, with one remark for
        all of them. The default keeps them, keyed by name.
    cache : Path, optional
        Folder for a parquet file that makes the next reading of the same users short; made if it is not
        there. It is used only for a file of the same size and time stamp, the same profile and this
        version of the reader; otherwise, and if damaged, it is made anew. The result is the same without.

    Returns
    -------
    Dataset
        With ``interactions`` in the order of the file. Rejected are lines without six fields, with a blank
        user, time, artist or track, with a time that is not ISO 8601 with its zone or lies before 2002, and
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
    found = _plays(folder, profile, profile_facts, chosen, complete=complete, cache=cache)
    name = found.file.name
    remarks += [Remark(name, line, reason, kept=False) for line, reason in found.rejects]
    remarks += [Remark(name, line, reason, kept=True) for line, reason in found.remarks]
    user_ids = pa.DictionaryArray.from_arrays(found.plays["user"].combine_chunks(), profile["user_id"])
    interactions = pa.table(
        [user_ids.cast(pa.large_string()), *found.plays.columns[1:]], ["user_id", *_PLAYS.names[1:]]
    )
    return Dataset(
        name="lastfm1k",
        title="Last.fm 1K",
        kind="songs",
        interactions=_frame(interactions),
        users=profile[chosen].reset_index(drop=True),
        items=_frame(found.items),
        files=(
            profile_facts,
            FileFacts(name, "utf-8", found.lines, int(found.counts.sum()), len(found.rejects), ""),
        ),
        remarks=frame_of(remarks),
    )


def _frame(table: pa.Table) -> pd.DataFrame:
    texts = [field.name for field in table.schema if not pa.types.is_integer(field.type)]
    return table.to_pandas().astype(dict.fromkeys(texts, "str"))


def item_id(artist: str, title: str) -> int:
    """Return the id of a track: 63 bits of a hash of the two names."""
    return _hash(f"{artist}\x1f{title}")


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _profile(folder: Path) -> tuple[pd.DataFrame, FileFacts, list[Remark]]:
    raw = RawFile(present(Path(folder) / PROFILE), _REMEDY)
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


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _fields(number: int) -> str:
    return "1 field" if number == 1 else f"{number} fields"


# --- The plays, block by block


class _Block(NamedTuple):
    """What a block of whole lines holds; lines are counted from 0 within it."""

    # Columns of `_SCHEMA`, of the users read; with `artist_id` and `track_id` if both must be there.
    plays: pa.Table
    counts: np.ndarray
    rejects: list[tuple[int, str]]
    filled: int
    newlines: int


@dataclass(frozen=True)
class _Found:
    """What the file of plays holds: counts of all users, plays of the users read, remarks on what was kept."""

    file: Path
    plays: pa.Table
    items: pa.Table
    counts: np.ndarray
    lines: int
    rejects: list[tuple[int, str]]
    remarks: list[tuple[int, str]]


class _LineError(Exception):
    """A line that makes the whole file unusable; counted from 0 within its block."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _plays(
    folder: Path,
    profile: pd.DataFrame,
    facts: FileFacts,
    chosen: np.ndarray,
    *,
    complete: bool,
    cache: Path | None,
) -> _Found:
    """Read the plays, from the cache where it is good."""
    file = present(Path(folder) / PLAYS)
    known = {user: row for row, user in enumerate(profile["user_id"])}
    with _opened(file) as (stream, state):
        key = {
            **{"version": _VERSION, "file": file.name, "profile": facts.sha256, **state},
            **{"users": hashlib.sha256(chosen.tobytes()).hexdigest(), "complete": complete},
        }
        stored = cache / f"lastfm1k-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.parquet" if cache else None
        found = _load(stored, key, file) if stored else None
        if found is None:
            found = _scan(stream, file, known, chosen, complete=complete)
            if stored:
                _store(stored, key, found)
    first = "line {}: {}".format(*found.rejects[0]) if found.rejects else ""
    require_usable(file, len(found.rejects), found.lines, first, _REMEDY)
    return found


@contextmanager
def _opened(file: Path) -> Iterator[tuple[IO[bytes], dict[str, int]]]:
    if not file.is_file():
        raise DataError(f"{file}: no such file; {_REMEDY}")
    try:
        with file.open("rb") as plain:
            before = os.fstat(plain.fileno())
            state = {"size": before.st_size, "time": before.st_mtime_ns}
            packed = file.name.endswith(".gz")
            with gzip.open(plain) if packed else nullcontext(plain) as stream:
                yield cast("IO[bytes]", stream), state
            after = file.stat()
            if state != {"size": after.st_size, "time": after.st_mtime_ns}:
                raise DataError(f"{file}: was changed while it was read; read it again once it is complete")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{file}: damaged, or not compressed by gzip; {_REMEDY}") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error}); {_REMEDY}") from None


def _blocks(stream: IO[bytes], file: Path) -> Iterator[bytes]:
    """Give whole lines, some megabytes at a time, with Unix line ends."""
    first = True
    while block := stream.read(_BLOCK):
        rest = stream.readline(_BLOCK)
        if len(rest) == _BLOCK:
            raise DataError(f"{file}: a line of more than {_BLOCK:,} bytes; this is another file; {_REMEDY}")
        block += rest
        if first:
            block = _begin(block, file)
            first = False
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        yield block if block.endswith(b"\n") else block.removesuffix(b"\r") + b"\n"


def _begin(head: bytes, file: Path) -> bytes:
    """Take off a byte-order mark, and stop at what is no table at all."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{file}: UTF-16; expected a text in UTF-8; {_REMEDY}")
    head = head.removeprefix(b"\xef\xbb\xbf")
    if head.lstrip()[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise DataError(f"{file}, line 1: a web page; expected plays; {_REMEDY}")
    return head


def _scan(stream: IO[bytes], file: Path, known: Mapping[str, int], chosen: np.ndarray, *, complete: bool) -> _Found:
    counts = np.zeros(len(known), dtype=np.int64)
    tables: list[pa.Table] = []
    rejects: list[tuple[int, str]] = []
    lines = before = 0
    blocks = _blocks(stream, file)
    for block in _in_order(blocks, known, chosen, complete=complete, file=file):
        counts += block.counts
        lines += block.filled
        rejects += [(before + line + 1, reason) for line, reason in block.rejects]
        if len(block.plays):
            number = pc.add(block.plays["line"], before + 1)
            tables.append(block.plays.set_column(block.plays.column_names.index("line"), "line", number))
        before += block.newlines
    plays = pa.concat_tables(tables) if tables else _SCHEMA.empty_table()
    remarks: list[tuple[int, str]] = []
    if complete and tables:
        lacking = pc.or_(pc.is_null(plays["artist_id"]), pc.is_null(plays["track_id"]))
        out = plays.filter(lacking)
        if len(out):
            text = f"{len(out):,} plays without an artist id or a track id left out; the first here"
            remarks.append((out["line"][0].as_py(), text))
        plays = plays.filter(pc.invert(lacking))
    items, item_ids = _items(plays["artist"], plays["track"], file)
    rows = pd.DataFrame({name: plays[name].to_numpy() for name in ("user", "time", "line")})
    remarks += [*_outside(rows), *_repeats(rows.assign(item=item_ids))]
    kept = pa.table([plays["user"], pa.array(item_ids), plays["time"]], schema=_PLAYS)
    return _Found(file, kept, items, counts, lines, rejects, remarks)


def _in_order(
    blocks: Iterable[bytes], known: Mapping[str, int], chosen: np.ndarray, *, complete: bool, file: Path
) -> Iterator[_Block]:
    """Read blocks in threads, which pyarrow lets run side by side, and give them in their order."""
    before = 0

    def result(waiting: deque[Future[_Block]]) -> _Block:
        nonlocal before
        try:
            block = waiting.popleft().result()
        except _LineError as error:
            raise DataError(f"{file}, line {before + error.line + 1}: {error}; {_REMEDY}") from None
        before += block.newlines
        return block

    with ThreadPoolExecutor(_WORKERS) as pool:
        waiting: deque[Future[_Block]] = deque()
        try:
            for block in blocks:
                waiting.append(pool.submit(_read_block, block, known, chosen, complete=complete))
                if len(waiting) > _WORKERS:
                    yield result(waiting)
            while waiting:
                yield result(waiting)
        finally:
            for future in waiting:
                future.cancel()


def _read_block(block: bytes, known: Mapping[str, int], chosen: np.ndarray, *, complete: bool) -> _Block:
    columns = _COLUMNS if complete else _NAMED
    tables: list[pa.Table] = []
    counts = np.zeros(len(known), dtype=np.int64)
    rejects: list[tuple[int, str]] = []
    filled = newlines = 0
    try:
        for part in _parts(block, known, columns):
            counts += np.bincount(part.users, minlength=len(known))
            filled += part.filled
            rejects += [(newlines + line, reason) for line, reason in part.rejects]
            wanted = chosen[part.users]
            if wanted.any():
                table = part.table.set_column(0, "user", pa.array(part.users))
                number = pc.add(part.lines, newlines)
                tables.append(table.append_column("line", number).filter(pa.array(wanted)))
            newlines += part.newlines
    except _LineError as error:
        raise _LineError(newlines + error.line, str(error)) from None
    plays = pa.concat_tables(tables) if tables else _SCHEMA.empty_table()
    return _Block(plays, counts, rejects, filled, newlines)


class _Part(NamedTuple):
    """Some lines of a block: the valid ones as a table, their numbers from 0, and rows of the profile."""

    table: pa.Table
    lines: pa.Array
    users: np.ndarray
    rejects: list[tuple[int, str]]
    filled: int
    newlines: int


def _parts(block: bytes, known: Mapping[str, int], columns: list[str]) -> Iterator[_Part]:
    """Read a block, in halves of halves where something in it is odd, so that few lines are read one by one."""
    part = _fast(block, known, columns)
    if part is None:
        cut = block.rfind(b"\n", 0, len(block) // 2) + 1
        if len(block) > _SMALL and cut:
            yield from _parts(block[:cut], known, columns)
            yield from _parts(block[cut:], known, columns)
            return
        part = _line_by_line(block, known, columns)
    yield part


def _fast(block: bytes, known: Mapping[str, int], columns: list[str]) -> _Part | None:
    """Read a block, if every line of it is as it should be."""
    if b"\r" in block or b"\0" in block:  # pyarrow would end a line at the one, and keep the other
        return None
    types = dict.fromkeys(columns, pa.string())
    types |= {"user": pa.dictionary(pa.int32(), pa.string()), "time": pa.timestamp("s", "UTC")}
    try:
        table = pcsv.read_csv(
            pa.BufferReader(block),
            pcsv.ReadOptions(column_names=_COLUMNS, block_size=len(block) + 1, use_threads=False),
            pcsv.ParseOptions(
                delimiter="\t", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False
            ),
            pcsv.ConvertOptions(
                column_types=types, include_columns=columns, null_values=[""], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid:
        return None
    if any(table[name].null_count for name in _NAMED):
        return None
    if any(pc.any(pc.utf8_is_space(table[name])).as_py() for name in ("artist", "track")):
        return None
    times = table["time"].cast(pa.int64())
    users = table["user"].combine_chunks()
    rows = np.array([known.get(user, -1) for user in users.dictionary.to_pylist()], dtype=np.int32)
    if pc.min(times).as_py() < _EARLIEST or (rows < 0).any():
        return None
    count = len(table)
    lines = pa.array(np.arange(count))
    return _Part(table.set_column(1, "time", times), lines, rows[users.indices.to_numpy()], [], count, count)


def _line_by_line(block: bytes, known: Mapping[str, int], columns: list[str]) -> _Part:
    """Read a block in which something is odd."""
    if b"\0" in block:
        raise _LineError(block.count(b"\n", 0, block.index(b"\0")), "a NUL byte; expected a text in UTF-8")
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _LineError(block.count(b"\n", 0, error.start), "not a text in UTF-8") from None
    rows: list[list[str]] = []
    numbers: list[int] = []
    rejects: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n")):
        if not line.strip():
            continue
        fields = line.split("\t")
        reason = _reason(fields, known)
        if reason:
            rejects.append((number, reason))
        else:
            numbers.append(number)
            rows.append(fields)
    table = pa.table(
        {name: pa.array([row[_COLUMNS.index(name)] or None for row in rows], pa.string()) for name in columns}
    )
    table = table.set_column(1, "time", pa.array([_moment(row[1]) for row in rows], pa.int64()))
    users = np.array([known[row[0]] for row in rows], dtype=np.int32)
    lines = pa.array(numbers, pa.int64())
    return _Part(table, lines, users, rejects, len(rows) + len(rejects), block.count(b"\n"))


def _moment(text: str) -> int:
    """Return the seconds since 1970 of a valid time, or -1."""
    if _TIME.fullmatch(text):
        with suppress(ValueError):
            return int(datetime.fromisoformat(text).astimezone(UTC).timestamp())
    return -1


_EARLIEST = _moment(EARLIEST)


def _reason(fields: list[str], known: Mapping[str, int]) -> str:
    """Return why a line is a reject; empty if it is none."""
    if len(fields) != len(_COLUMNS):
        return f"{_fields(len(fields))}; expected {len(_COLUMNS)}, separated by tabs"
    user, time, _, artist, _, track = fields
    for what, text in (("user", user), ("time", time), ("artist name", artist), ("track name", track)):
        if not text.strip():
            return f"no {what}; expected one"
    moment = _moment(time)
    if moment == -1:
        return f"time {_excerpt(time)} is not of the form {_FORM}"
    if moment < _EARLIEST:
        return f"time {_excerpt(time)} is before Last.fm began; expected {EARLIEST[:10]} or later"
    return "" if user in known else f"user {_excerpt(user)} is not in {PROFILE}"


# --- Items and remarks


def _items(artists: pa.ChunkedArray, tracks: pa.ChunkedArray, file: Path) -> tuple[pa.Table, np.ndarray]:
    """Return the items sorted by id, and the id of each row."""
    # A tab is in neither name, so no two pairs of names share a text.
    pairs = pc.binary_join_element_wise(artists, tracks, "\t").combine_chunks().dictionary_encode()
    codes = pairs.indices.to_numpy()
    ids = np.array([_hash(pair.replace("\t", "\x1f")) for pair in pairs.dictionary.to_pylist()], dtype=np.int64)
    first = np.empty(len(ids), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.argsort(ids)
    rows = pa.array(first[order])
    items = pa.table([pa.array(ids[order]), tracks.take(rows), artists.take(rows)], schema=_ITEMS)
    same = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(same):
        one, other = items.slice(same[0], 2).to_pylist()
        raise DataError(
            f"{file}: {one['artist']!r}, {one['title']!r} and {other['artist']!r}, {other['title']!r} have the same "
            f"id {one['item_id']}; expected one item an id; change the name of one of the two"
        )
    return items, ids[codes]


def _outside(plays: pd.DataFrame) -> list[tuple[int, str]]:
    first, last = map(_moment, WINDOW)
    rows = plays[~plays["time"].between(first, last)]
    window = f"outside {WINDOW[0][:10]} to {WINDOW[1][:10]}, the days of the published plays"
    if len(rows) >= _MOST_REMARKS:
        return [(int(rows["line"].iloc[0]), f"{len(rows):,} plays are {window}; kept; the first is here")]
    times = pd.to_datetime(rows["time"], unit="s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [(line, f"time {time} is {window}; kept") for line, time in zip(rows["line"].tolist(), times, strict=True)]


def _repeats(plays: pd.DataFrame) -> list[tuple[int, str]]:
    # First the few plays that share a user's second; a user's row fits above the 38 bits that seconds need.
    moment = plays["user"].to_numpy(dtype=np.int64) << 38 | plays["time"].to_numpy()
    rows = plays[pd.Series(moment, index=plays.index).duplicated(keep=False)]
    same = ["user", "time", "item"]
    rows = rows[rows.duplicated(same, keep=False)]
    first = rows.groupby(same)["line"].transform("min")
    pairs = [pair for pair in zip(rows["line"].tolist(), first.tolist(), strict=True) if pair[0] != pair[1]]
    if len(pairs) >= _MOST_REMARKS:
        what = f"{len(pairs):,} plays repeat the user, second, artist and track of a line above"
        return [(pairs[0][0], f"{what}; kept; the first is here")]
    return [(line, f"the same play as on line {above}; kept") for line, above in pairs]


# --- The cache


def _load(stored: Path, key: Mapping[str, object], file: Path) -> _Found | None:
    """Return what a cache holds; None if it is absent, damaged or of another state of the files."""
    try:
        plays, note = _read_table(stored, _PLAYS)
        items, _ = _read_table(stored.with_suffix(".items.parquet"), _ITEMS)
        if note["key"] != dict(key) or (len(plays), len(items)) != (note["plays"], note["items"]):
            return None
        rejects, remarks = ([(line, reason) for line, reason in note[name]] for name in ("rejects", "remarks"))
        counts = np.array(note["counts"], dtype=np.int64)
        return _Found(file, plays, items, counts, note["lines"], rejects, remarks)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _read_table(file: Path, schema: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    table = pq.read_table(file, page_checksum_verification=True)
    note = json.loads((table.schema.metadata or {}).get(b"fairnb", b"{}"))
    table = table.replace_schema_metadata(None)
    if not table.schema.equals(schema):
        raise ValueError("another schema")
    table.validate(full=True)
    return table, note


def _store(stored: Path, key: Mapping[str, object], found: _Found) -> None:
    note = {
        **{"key": dict(key), "plays": len(found.plays), "items": len(found.items), "lines": found.lines},
        **{"counts": found.counts.tolist(), "rejects": found.rejects, "remarks": found.remarks},
    }
    plays = found.plays.replace_schema_metadata({b"fairnb": json.dumps(note).encode()})
    try:
        for file, table in ((stored.with_suffix(".items.parquet"), found.items), (stored, plays)):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            paths.write_bytes(file, sink.getvalue().to_pybytes())
    except FairnbError as error:
        raise DataError(f"{stored.parent}: cannot hold the cache ({error}); name another folder") from None
