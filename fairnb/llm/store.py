"""The store of replies: an SQLite file with one row per question, written as each reply arrives.

An answer is never written over. A failure is kept with its cause and gives way to the answer of a later try.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairnb import paths
from fairnb.errors import DataError, FairnbError
from fairnb.llm.request import KEY_VERSION, Request, key_of

# A reply that came: data, whatever it says. Everything else is a failure that may be asked again.
ANSWERS = ("answered", "filtered")
FAILURES = (
    *("no_choices", "empty_content", "bad_response", "unauthorised", "not_found", "bad_request", "prompt_cut"),
    *("rate_limited", "server_error", "timeout", "connection"),
)
STATUSES = (*ANSWERS, *FAILURES)
_BUSY_MS = 60_000


@dataclass(frozen=True)
class Reply:
    """What came back, or why nothing did.

    Attributes
    ----------
    key, prompt_id, repeat, base_url, model : str or int
        Of the request.
    request : dict
        `fairnb.llm.request.Request.fields`: all that is in the key.
    status : str
        One of `STATUSES`.
    text, reasoning : str
        The answer, and what the server puts beside it as reasoning; empty if there is none.
    finish_reason : str
    prompt_tokens, completion_tokens : int or None
        As the server reports them.
    error : str
        Cause of a failure, with an excerpt of what came.
    sent : dict
        The parameters as they were sent, by the names that the server took.
    response_id : str
    attempts : int
        Requests sent for this reply.
    seconds : float
        From the first attempt to the end, waiting included.
    asked_at : str
        UTC, ISO 8601.
    """

    key: str
    prompt_id: str
    repeat: int
    base_url: str
    model: str
    request: dict[str, Any]
    status: str
    text: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str = ""
    sent: dict[str, Any] | None = None
    response_id: str = ""
    attempts: int = 1
    seconds: float = 0.0
    asked_at: str = ""
    key_version: int = KEY_VERSION


COLUMNS = tuple(field.name for field in fields(Reply))
_JSON = ("request", "sent")
_TYPES = {
    **dict.fromkeys(COLUMNS, "TEXT"),
    **dict.fromkeys(("repeat", "prompt_tokens", "completion_tokens", "attempts", "key_version"), "INTEGER"),
    "seconds": "REAL",
    "key": "TEXT PRIMARY KEY",
}
_KINDS: dict[str, Any] = {"TEXT": str, "TEXT PRIMARY KEY": str, "INTEGER": int, "REAL": (int, float)}
_OPTIONAL = ("prompt_tokens", "completion_tokens", "sent")
_NAMES, _MARKS = ", ".join(COLUMNS), ", ".join("?" * len(COLUMNS))
_CREATE = f"CREATE TABLE IF NOT EXISTS replies ({', '.join(f'{name} {kind}' for name, kind in _TYPES.items())}) STRICT"
_INSERT = (
    f"INSERT INTO replies ({_NAMES}) VALUES ({_MARKS}) ON CONFLICT (key) DO UPDATE SET "  # noqa: S608  (constants)
    f"{', '.join(f'{name} = excluded.{name}' for name in COLUMNS if name not in ('key', 'attempts'))}, "
    f"attempts = replies.attempts + excluded.attempts WHERE replies.status NOT IN {ANSWERS} "
    # The same failure imported twice is one failure.
    "AND (replies.asked_at, replies.seconds) IS NOT (excluded.asked_at, excluded.seconds)"
)


class Store:
    """Replies in a file.

    Parameters
    ----------
    file : Path
        An SQLite file, made if it is not there; or an exported file (``.jsonl``), which is read into memory
        and to which nothing is added.

    Raises
    ------
    DataError
        If the file is no store, or damaged.
    FairnbError
        If it cannot be opened or written.
    """

    def __init__(self, file: Path) -> None:
        self.file = Path(file)
        self.read_only = self.file.suffix == ".jsonl"
        if self.read_only and not self.file.is_file():
            raise DataError(f"{paths.shown(self.file)}: no such file; expected replies written by `fairnb replies`")
        if self.file.is_dir():
            raise DataError(f"{paths.shown(self.file)}: a folder; expected a file of replies such as replies.sqlite")
        try:
            if not self.read_only:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(":memory:" if self.read_only else self.file, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._trouble(error) from None
        except OSError as error:
            raise FairnbError(
                f"{paths.shown(self.file)}: cannot be opened ({error.strerror}); make the folder writable, or name "
                f"another file with store"
            ) from None
        try:
            self._prepare_when_free()
            if self.read_only:
                self._insert(read_lines(self.file))
        except sqlite3.Error as error:
            self._db.close()
            raise self._trouble(error) from None
        except FairnbError:
            self._db.close()
            raise

    def _prepare_when_free(self) -> None:
        # Whoever else makes the same file holds it whole for a moment, for which SQLite's own patience does not count.
        end = time.monotonic() + _BUSY_MS / 1000
        while True:
            try:
                return self._prepare()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def _prepare(self) -> None:
        self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        tables = [row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if tables and "replies" not in tables:  # nothing is to be written into somebody else's file
            raise self._not_ours()
        # Two processes may write; a reply is on the disk before it counts, so that neither kill -9 nor a power
        # cut takes it away.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(_CREATE)
        found = [row[1] for row in self._db.execute("PRAGMA table_info(replies)")]
        if sorted(found) != sorted(COLUMNS):
            raise self._not_ours()
        state = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise self._damaged(state)

    def _not_ours(self) -> DataError:
        return DataError(f"{paths.shown(self.file)}: not a store of replies; name another file with store")

    def _damaged(self, why: object) -> DataError:
        return DataError(
            f"{paths.shown(self.file)}: damaged ({' '.join(str(why).split())[:100]}); "
            f"`fairnb replies salvage` writes what can be read of it; then move it away, and import that"
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _trouble(self, error: sqlite3.Error) -> FairnbError:
        where = paths.shown(self.file)
        text = str(error)
        if "full" in text or "I/O" in text:
            return FairnbError(f"{where}: {text}; free some space there; all earlier replies are kept")
        if "readonly" in text or "unable to open" in text:
            return FairnbError(f"{where}: {text}; make the folder writable, or name another file with store")
        if "locked" in text or "busy" in text:
            return FairnbError(f"{where}: another process has kept it for {_BUSY_MS // 1000} s; wait for its end")
        return self._not_ours() if "not a database" in text else self._damaged(text)

    def _insert(self, replies: Iterable[Reply]) -> int:
        try:
            with self._db:
                before = self._db.total_changes
                self._db.executemany(_INSERT, (_row(reply) for reply in replies))
                return self._db.total_changes - before
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _query(self, query: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(query)
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _require_own(self) -> None:
        if self.read_only:
            raise FairnbError(f"{paths.shown(self.file)}: an exported file, which is only read; name a .sqlite file")

    def require_writable(self) -> None:
        """See that replies can be written, before one is paid for.

        Raises
        ------
        FairnbError
            If the file is an exported one, may not be written, or another process holds it too long.
        """
        self._require_own()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.rollback()
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def add(self, replies: Iterable[Reply]) -> int:
        """Write replies; an answer that is there stays. Returns how many rows changed.

        Raises
        ------
        FairnbError
            If the file is an exported one, the disk is full, or another process holds it too long.
        """
        self._require_own()
        return self._insert(replies)

    def read(self, keys: Collection[str] | None = None) -> Iterator[Reply]:
        """Return the replies of some keys, or all of them, in the order of their keys."""
        try:
            if keys is None:
                yield from map(self._reply, self._db.execute(f"SELECT {_NAMES} FROM replies ORDER BY key"))  # noqa: S608
                return
            self._db.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key TEXT PRIMARY KEY)")
            self._db.execute("DELETE FROM wanted")
            self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((key,) for key in keys))
            self._db.commit()
            rows = self._db.execute(f"SELECT {_NAMES} FROM replies JOIN wanted USING (key) ORDER BY key")  # noqa: S608
            yield from map(self._reply, rows)
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _reply(self, row: tuple[Any, ...]) -> Reply:
        try:
            return _reply(row)
        except ValueError as error:
            raise self._damaged(f"key {row[0]}: {error}") from None

    def statuses(self, keys: Collection[str]) -> dict[str, str]:
        """Return the status of each key that is there."""
        known = dict(self._query("SELECT key, status FROM replies"))
        return {key: known[key] for key in keys if key in known}

    def counts(self) -> list[tuple[str, str, str, int]]:
        """Count replies: (model, base_url, status, rows)."""
        query = (
            "SELECT model, base_url, status, count(*) FROM replies GROUP BY model, base_url, status ORDER BY 1, 2, 3"
        )
        return list(self._query(query))


class Writer:
    """Writes replies from a thread of its own; what has waited together is committed together.

    Parameters
    ----------
    store : Store
    written : callable
        Called, in the writer's thread, with each list of replies once it is on the disk.
    broken : callable
        Called once, in the writer's thread, with the exception that keeps it from writing.
    """

    def __init__(self, store: Store, written: Any, broken: Any) -> None:
        self._store, self._written, self._broken = store, written, broken
        self._queue: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="fairnb-store", daemon=True)
        self._thread.start()

    def put(self, reply: Reply) -> None:
        """Hand over a reply."""
        self._queue.put(reply)

    def close(self) -> None:
        """Wait until everything handed over is written."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            batch = [self._queue.get()]
            with suppress(queue.Empty):
                while True:
                    batch.append(self._queue.get_nowait())
            last = None in batch
            replies = [reply for reply in batch if reply is not None]
            try:
                self._store.add(replies)
                self._written(replies)
            except BaseException as error:  # noqa: BLE001  (a thread that dies in silence would lose replies)
                self._broken(error)
                return


def now() -> str:
    """Return the time for `Reply.asked_at`."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def reply_to(request: Request, status: str, **values: Any) -> Reply:
    """Make the reply to a request."""
    head = {name: getattr(request, name) for name in ("prompt_id", "repeat", "base_url", "model")}
    return Reply(key=request.key, request=request.fields, status=status, **head, **values)


def export(store: Store, file: Path, model: str = "") -> int:
    """Write replies as JSON lines, one a reply, for sharing. Returns how many.

    Raises
    ------
    FairnbError
        If the file cannot be written.
    """
    lines = [_line(reply) for reply in store.read() if not model or reply.model == model]
    paths.write_text(file, "".join(lines))
    return len(lines)


def read_lines(file: Path) -> list[Reply]:
    """Read replies that `export` wrote.

    Raises
    ------
    DataError
        If a line is no reply, or its key is not that of its request; a last line that was cut off is told as such.
        The key covers the request and not what came back, so a changed text is not noticed.
    """
    replies = []
    where = paths.shown(file)
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise DataError(f"{where}: not text in UTF-8; expected replies written by `fairnb replies export`") from None
    except OSError as error:
        raise DataError(f"{where}: cannot be read ({error.strerror})") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reply = Reply(**json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            cut = number == len(lines)
            raise DataError(
                f"{where}, line {number}: {'cut off' if cut else 'not a reply'} ({error}); expected one that "
                f"`fairnb replies export` wrote; {'copy the file again' if cut else 'take the line out'}"
            ) from None
        if wrong := _wrong(reply):
            raise DataError(f"{where}, line {number}: {wrong}; a changed reply is no reply; take the line out")
        replies.append(reply)
    return replies


def _wrong(reply: Reply) -> str:
    """Say what keeps a reply that was read from being one; empty if nothing does."""
    for name, kind in _TYPES.items():
        value = getattr(reply, name)
        if not isinstance(value, dict if name in _JSON else _KINDS[kind]) and not (value is None and name in _OPTIONAL):
            return f"{name} is {value!r:.60}, which is of the wrong type"
    if reply.status not in STATUSES:
        return f"status {reply.status!r:.60} is unknown"
    if reply.key != key_of(reply.request):
        return "its key is not that of its request"
    if any(reply.request.get(name) != getattr(reply, name) for name in ("base_url", "model", "repeat")):
        return "base_url, model or repeat are not those of its request"
    return ""


def _line(reply: Reply) -> str:
    return json.dumps(asdict(reply), ensure_ascii=True, sort_keys=True) + "\n"


def _row(reply: Reply) -> tuple[Any, ...]:
    values = asdict(reply)
    for name in _JSON:
        # In ASCII: half a surrogate pair in a prompt is part of the key, and must come back as it was.
        values[name] = json.dumps(values[name], sort_keys=True)
    return tuple(_storable(values[name]) for name in COLUMNS)


def _storable(value: Any) -> Any:
    # A server can send half a surrogate pair, which no UTF-8 file can hold.
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _reply(row: tuple[Any, ...]) -> Reply:
    values = dict(zip(COLUMNS, row, strict=True))
    for name in _JSON:
        values[name] = json.loads(values[name])
    return Reply(**values)


def salvage(file: Path, to: Path) -> tuple[int, int]:
    """Write what can still be read of a damaged store as JSON lines. Returns (readable, lost) rows.

    A reply whose text was changed by the damage and is still text cannot be told from a sound one.

    Raises
    ------
    DataError
        If nothing can be read.
    FairnbError
        If the file cannot be written.
    """
    readable: list[str] = []
    lost = 0
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as db:
        try:
            db.execute("SELECT 1 FROM replies WHERE rowid = -1")
        except sqlite3.DatabaseError as error:
            raise DataError(f"{paths.shown(file)}: nothing can be read of it ({error})") from None
        for number in range(1, 1 + _highest(db, file)):
            try:
                found = db.execute(f"SELECT {_NAMES} FROM replies WHERE rowid = ?", (number,)).fetchone()  # noqa: S608
                if found and not _wrong(reply := _reply(found)):
                    readable.append(_line(reply))
                else:
                    lost += bool(found)
            except (sqlite3.DatabaseError, ValueError, TypeError):
                lost += 1
    paths.write_text(to, "".join(readable))
    return len(readable), lost


def _highest(db: sqlite3.Connection, file: Path) -> int:
    """Return the highest number of a row: by the table, or by the index of keys where the table's end is damaged."""
    for by in ("", "INDEXED BY sqlite_autoindex_replies_1 WHERE key >= ''"):
        with suppress(sqlite3.DatabaseError):
            return int(db.execute(f"SELECT max(rowid) FROM replies {by}").fetchone()[0] or 0)  # noqa: S608
    return file.stat().st_size // 512  # no row is shorter
