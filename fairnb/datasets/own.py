"""Your own data: ``interactions.csv``, ``users.csv`` and ``items.csv`` in one folder.

Comma-separated, UTF-8, with a header; only an empty field is missing (``NA`` and ``None`` are texts).

=================  ===============================================================================
interactions.csv   ``user_id``, ``item_id``, ``timestamp`` (whole seconds since 1970, or ISO 8601
                   such as ``2026-05-04`` or ``2026-05-04T12:00:00Z``), and ``rating`` if there is one
users.csv          ``user_id``, and any of ``gender``, ``age`` (years) and further attributes
items.csv          ``item_id``, ``title``; ``artist`` for songs; ``year``, ``genres`` (``A|B``) if known
=================  ===============================================================================

Ids are whole numbers or any text. Without ratings, an interaction is a play, and may be repeated.
"""

from __future__ import annotations

import csv
import io
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from fairnb.datasets.dataset import AGES, Dataset
from fairnb.datasets.lines import RawFile, frame_of
from fairnb.datasets.movielens import with_names
from fairnb.errors import DataError

_REMEDY = "see `help(fairnb.datasets.own)` for the columns"
_GENDERS = {"m": "Male", "male": "Male", "f": "Female", "female": "Female"}
_KNOWN = {"user_id", "item_id", "timestamp", "rating", "gender", "age", "title", "artist", "year", "genres"}
# Names that conditions and age groups go by.
_RESERVED = ("age_group", "none", "intersectional")
_SECONDS = re.compile(r"[0-9]{1,18}")
# Seconds of the year 2100; a larger number counts milliseconds.
_LATEST = 4_102_444_800
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


def read(folder: Path) -> Dataset:
    """Read your own data.

    Parameters
    ----------
    folder : Path
        With the three files.

    Returns
    -------
    Dataset
        ``kind`` is songs if items have an ``artist``, else films. Items get the numbers of the file if
        all of them are whole numbers, else new ones from 1, with the file's in ``source_id``. Rejects
        are: lines with another number of fields than the header, a blank or repeated id, a user or item
        that the other files do not hold, an unreadable time or rating, and a second rating of an item by
        one user. An age outside 5 to 99 is kept as missing, with a remark.

    Raises
    ------
    DataError
        If a file or a column is absent, a file is not UTF-8, or too many lines are rejects.
    """
    raw = {part: RawFile(folder / f"{part}.csv", _REMEDY) for part in ("users", "items", "interactions")}
    for file in raw.values():
        if file.encoding != "utf-8":
            raise DataError(f"{file.file}: not UTF-8; expected a CSV file in UTF-8; save it so")
    users = _users(raw["users"])
    items = _items(raw["items"])
    interactions = _interactions(raw["interactions"], users, items)
    facts = [file.close(len(frame)) for file, frame in zip(raw.values(), (users, items, interactions), strict=True)]
    return Dataset(
        name="own",
        title="own data",
        kind="songs" if "artist" in items.columns else "films",
        interactions=interactions,
        users=users.sort_values("user_id", ignore_index=True),
        items=items.sort_values("item_id", ignore_index=True),
        files=tuple(facts),
        remarks=frame_of([remark for file in raw.values() for remark in file.remarks]),
    )


def _table(raw: RawFile, required: list[str]) -> pd.DataFrame:
    """Read a CSV file as text; the index is the line that a row begins on."""
    # Not by splitlines, to which the rare line ends of Unicode, which titles may hold, are line ends as well.
    reader = csv.reader(io.StringIO(raw.content.decode("utf-8"), newline=""), strict=True)
    rows: list[list[str]] = []
    numbers: list[int] = []
    header: list[str] = []
    first = end = 0
    try:
        for row in reader:
            start, end = end + 1, reader.line_num
            if not any(field.strip() for field in row):
                continue
            fields = [field.strip() for field in row]
            if not header:
                header, first = [name.casefold() if name.casefold() in _KNOWN else name for name in fields], start
                _check_header(raw, header, required)
            elif len(fields) != len(header):
                raw.reject(start, f"{len(fields)} fields; expected {len(header)}, as in the header")
            else:
                rows.append(fields)
                numbers.append(start)
    except csv.Error as error:
        raise DataError(f"{raw.file}, line {end + 1}: not a CSV file ({error}); {_REMEDY}") from None
    if not header:
        raise DataError(f"{raw.file}: empty; expected a header with {', '.join(required)}; {_REMEDY}")
    table = pd.DataFrame(rows, columns=header, index=numbers, dtype=object)
    if "" in header:
        raw.note(first, "a column without a name is left out")
        table = table.drop(columns="")
    return table


def _check_header(raw: RawFile, header: list[str], required: list[str]) -> None:
    for column in required:
        if column not in header:
            hint = "; is it separated by commas?" if len(header) == 1 else ""
            raise DataError(f"{raw.file}, line 1: no column {column}; expected {', '.join(required)}{hint}; {_REMEDY}")
    taken = [name for name in header if name in _RESERVED]
    if taken:
        raise DataError(f"{raw.file}, line 1: column {taken[0]} has a name that fairnb uses itself; call it otherwise")
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise DataError(f"{raw.file}, line 1: column {twice[0]!r} stands twice; expected once")


def _with_ids(raw: RawFile, table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Drop rows with a blank or repeated id."""
    lines: dict[str, int] = {}
    for line, identity in table[column].items():
        if not identity:
            raw.reject(line, f"{column} is empty; expected an id")
        elif identity in lines:
            raw.reject(line, f"{column} {identity} stands on line {lines[identity]} already; expected once")
        else:
            lines[identity] = line
    return table.loc[list(lines.values())]


def _are_numbers(column: pd.Series) -> bool:
    # 007 and 7 would become one id.
    return bool(column.map(lambda text: re.fullmatch(r"0|[1-9][0-9]{0,17}", text) is not None).all())


def _users(raw: RawFile) -> pd.DataFrame:
    table = _with_ids(raw, _table(raw, ["user_id"]), "user_id")
    numbers = _are_numbers(table["user_id"])
    users = pd.DataFrame({"user_id": table["user_id"].astype("int64" if numbers else "str")})
    gender = table.get("gender", pd.Series("", index=table.index, dtype=object))
    # Other genders than two are groups as well, under the words of the file.
    users["gender"] = gender.map(lambda text: _GENDERS.get(text.casefold(), text) or None).astype("str")
    ages: list[float] = []
    for line, text in table.get("age", pd.Series("", index=table.index, dtype=object)).items():
        age = float(text) if re.fullmatch(r"-?\d{1,6}(\.\d{1,6})?", text) else math.nan
        if text and not AGES[0] <= age <= AGES[1]:
            raw.note(line, f"age {text!r} taken as missing; expected {AGES[0]} to {AGES[1]} years")
            age = math.nan
        ages.append(age)
    users["age"] = pd.Series(ages, index=table.index, dtype="float64")
    for column in table.columns.difference(["user_id", "gender", "age"], sort=False):
        users[column] = table[column].map(lambda text: text or None).astype("str")
    return users


def _items(raw: RawFile) -> pd.DataFrame:
    table = _table(raw, ["item_id", "title"])
    blank = table["title"] == ""
    if "artist" in table.columns:
        blank |= table["artist"] == ""
    for line in table.index[blank]:
        raw.reject(line, "title or artist is empty; expected the name that a prompt can give")
    table = _with_ids(raw, table[~blank], "item_id")
    items = pd.DataFrame({"source_id": table["item_id"].astype("str")})
    numbers = table["item_id"].astype("int64") if _are_numbers(table["item_id"]) else range(1, len(table) + 1)
    items.insert(0, "item_id", numbers)
    items["title"] = table["title"].astype("str")
    for column in ("artist", "genres"):
        if column in table.columns:
            items[column] = table[column].map(lambda text: text or None).astype("str")
    named = items if "artist" in items.columns else with_names(items)
    if "year" in table.columns:
        years = [int(text) if re.fullmatch(r"\d{4}", text) else None for text in table["year"]]
        for line, text, year in zip(table.index, table["year"], years, strict=True):
            if text and year is None:
                raw.note(line, f"year {text!r} taken as missing; expected four digits")
        given = pd.Series(pd.array(years, dtype="Int64"), index=named.index)
        named = named.assign(year=given.fillna(named["year"]) if "year" in named.columns else given)
    return named


def _seconds(text: str) -> int | str:
    """Return seconds since 1970, or what is the matter."""
    if _SECONDS.fullmatch(text):
        if int(text) > _LATEST:
            return f"timestamp {text} counts milliseconds or less; expected whole seconds"
        return int(text) if int(text) > 0 else "timestamp 0; expected a time"
    if not _ISO.fullmatch(text):
        return f"timestamp {text!r}; expected whole seconds since 1970, or a date such as 2026-05-04T12:00:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return f"timestamp {text!r} is no date"
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = math.floor(moment.timestamp())
    return seconds if 0 < seconds <= _LATEST else f"timestamp {text!r} is not between 1970 and 2100"


def _interactions(raw: RawFile, users: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    table = _table(raw, ["user_id", "item_id", "timestamp"])
    rated = "rating" in table.columns
    user_ids = {str(identity): identity for identity in users["user_id"]}
    item_ids = dict(zip(items["source_id"], items["item_id"], strict=True))
    first: dict[tuple[object, object], int] = {}
    rows: list[tuple[object, ...]] = []
    ratings = table["rating"] if rated else pd.Series("1", index=table.index, dtype=object)
    for line, user, item, stamp, rating in zip(
        table.index, table["user_id"], table["item_id"], table["timestamp"], ratings, strict=True
    ):
        seconds = _seconds(stamp)
        if user not in user_ids:
            raw.reject(line, f"user_id {user!r} is not in users.csv")
        elif item not in item_ids:
            raw.reject(line, f"item_id {item!r} is not in items.csv")
        elif isinstance(seconds, str):
            raw.reject(line, seconds)
        elif not re.fullmatch(r"-?\d{1,6}(\.\d{1,9})?", rating):
            raw.reject(line, f"rating {rating!r}; expected a number")
        elif rated and (user, item) in first:
            raw.reject(line, f"user {user} rated item {item} on line {first[user, item]} already")
        else:
            first[user, item] = line
            rows.append((user_ids[user], item_ids[item], seconds, float(rating)))
    frame = pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp", "rating"])
    frame = frame.astype({"user_id": users["user_id"].dtype, "item_id": "int64", "timestamp": "int64"})
    return frame if rated else frame.drop(columns="rating")
