"""MovieLens 1M and 100K, from the files as GroupLens published them.

Source: F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.csv

from fairnb import titles
from fairnb.datasets.dataset import AGES, Dataset
from fairnb.datasets.lines import RawFile, frame_of, present
from fairnb.errors import DataError

# MovieLens 1M gives a range of ages by its lower end, so its ages cannot be averaged into years.
AGE_CODES = {
    1: "under 18",
    18: "18 to 24",
    25: "25 to 34",
    35: "35 to 44",
    45: "45 to 49",
    50: "50 to 55",
    56: "56 or older",
}
OCCUPATIONS = (
    *("other or not specified", "academic or educator", "artist", "clerical or admin", "college or grad student"),
    *("customer service", "doctor or health care", "executive or managerial", "farmer", "homemaker"),
    *("K-12 student", "lawyer", "programmer", "retired", "sales or marketing", "scientist", "self-employed"),
    *("technician or engineer", "tradesman or craftsman", "unemployed", "writer"),
)
GENRES = (
    *("Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
_GENDERS = {"M": "Male", "F": "Female"}
_RATING_COLUMNS = ["user_id", "item_id", "rating", "timestamp"]
# Beyond 18 digits a number may not fit in 64 bits.
_WHOLE = re.compile(r"0*[0-9]{1,18}")
_BEYOND = 10**18
# Seconds of the year 2100; a larger number counts milliseconds.
_LATEST = 4_102_444_800


@dataclass(frozen=True)
class _Release:
    """What tells one release from another."""

    title: str
    ratings: str
    items: str
    users: str
    separator: str
    # Seconds since 1970 of the first and the last rating that were published.
    window: tuple[int, int]
    # Ids and titles that a renumbered copy does not have.
    known: dict[int, str]


RELEASES = {
    "ml1m": _Release(
        "MovieLens 1M",
        "ratings.dat",
        "movies.dat",
        "users.dat",
        "::",
        (956_703_932, 1_046_454_590),
        {1: "Toy Story (1995)", 2571: "Matrix, The (1999)", 3952: "Contender, The (2000)"},
    ),
    "ml100k": _Release(
        "MovieLens 100K",
        "u.data",
        "u.item",
        "u.user",
        "\t",
        (874_724_710, 893_286_638),
        {1: "Toy Story (1995)", 50: "Star Wars (1977)", 1682: "Scream of Stone (Schrei aus Stein) (1991)"},
    ),
}


def detect(folder: Path) -> str:
    """Tell which release a folder holds, by its file names.

    Returns
    -------
    str
        ``ml1m`` or ``ml100k``.

    Raises
    ------
    DataError
        If the folder holds none, files of several, or a release without gender and age.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one with the files of MovieLens 1M or 100K")
    here = {file.name.removesuffix(".gz") for file in folder.iterdir()}
    found = [name for name, release in RELEASES.items() if here & {release.ratings, release.items, release.users}]
    if len(found) > 1:
        raise DataError(f"{folder}: files of MovieLens 1M and 100K in one folder; expected one release in a folder")
    other = {
        "ratings.csv": "a later MovieLens release (CSV), which holds neither gender nor age",
        "tags.dat": "MovieLens 10M, which holds neither gender nor age",
    }
    for name, what in other.items():
        if name in here:
            raise DataError(f"{folder}: {what}; expected MovieLens 1M or 100K, see `fairnb data list`")
    if any(name.endswith((".inter", ".item", ".user")) and not name.startswith("u.") for name in here):
        raise DataError(
            f"{folder}: atomic files of RecBole, whose ids are renumbered; expected the files of GroupLens, "
            f"see `fairnb data list`"
        )
    if not found:
        raise DataError(
            f"{folder}: no files of MovieLens 1M (ratings.dat, movies.dat, users.dat) or 100K (u.data, u.item, "
            f"u.user); `fairnb data get ml1m` downloads them"
        )
    return found[0]


def read(folder: Path, name: str, *, published: bool = True) -> Dataset:
    """Read a release.

    Parameters
    ----------
    folder : Path
        With the files as unpacked. Each may be compressed (``ratings.dat.gz``).
    name : {"ml1m", "ml100k"}
    published : bool, default True
        Whether ids must be the published ones, and a time outside the release's period is worth a remark.
        False for other data in the same format.

    Returns
    -------
    Dataset
        A rating of a user or film that the other files do not hold, a second rating of the same film, a
        time that counts no seconds, and a line that is not in the format are rejects.

    Raises
    ------
    DataError
        If a file is absent or another than it should be, an age code or gender is unknown, or too many
        lines are rejects.
    """
    release = RELEASES[name]
    if detect(folder) != name:
        raise DataError(f"{folder}: MovieLens {detect(folder)[2:].upper()}; expected {release.title}")
    remedy = f"`fairnb data get {name}` downloads the files of {release.title}"
    files = [RawFile(present(folder / part), remedy) for part in (release.users, release.items, release.ratings)]
    users = _users_1m(files[0]) if name == "ml1m" else _users_100k(files[0])
    items = _items_1m(files[1]) if name == "ml1m" else _items_100k(files[1], _genre_names(folder, remedy))
    if published:
        _spot_check(items, release, files[1])
    interactions = _ratings(files[2], release, users, items, published=published)
    facts = [raw.close(len(frame)) for raw, frame in zip(files, (users, items, interactions), strict=True)]
    return Dataset(
        name=name,
        title=release.title,
        kind="films",
        interactions=interactions,
        users=users.sort_values("user_id", ignore_index=True),
        items=items.sort_values("item_id", ignore_index=True),
        files=tuple(facts),
        remarks=frame_of([remark for raw in files for remark in raw.remarks]),
        age_codes=dict(AGE_CODES) if name == "ml1m" else {},
    )


def parse_ratings(content: bytes, separator: str) -> pd.DataFrame | None:
    r"""Parse ratings at the speed of a compiled parser, if every line is as it should be.

    Parameters
    ----------
    content : bytes
        Lines of four whole numbers.
    separator : {"::", "\t"}

    Returns
    -------
    DataFrame or None
        ``user_id``, ``item_id``, ``rating``, ``timestamp``, all int64, one row a line. None if any line
        is not of this form, or a line is blank (but for the last): then a slower reader has to tell which.
    """
    content = content.rstrip(b"\r\n")
    # By one mark of two, so that between two numbers there is an empty field.
    columns = [str(place) for place in range(3 * len(separator) + 1)]
    numbers = columns[:: len(separator)]
    if not content or content.translate(None, b"0123456789\r\n" + separator[:1].encode()):
        return None
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.py_buffer(content),
            read_options=pyarrow.csv.ReadOptions(column_names=columns),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator[0], quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pyarrow.int64() if name in numbers else pyarrow.null() for name in columns},
                null_values=[""],
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    if (
        any(table[name].null_count for name in numbers)
        # A blank line is no row, and a carriage return ends a line by itself.
        or len(table) != np.count_nonzero(np.frombuffer(content, dtype="uint8") == ord("\n")) + 1
        or (b"\r" in content and content.count(b"\r") != content.count(b"\r\n"))
    ):
        return None
    frame = pd.DataFrame(
        {column: table[name].to_numpy() for column, name in zip(_RATING_COLUMNS, numbers, strict=True)}, copy=False
    )
    return frame if all(frame[column].max() < _BEYOND for column in frame.columns) else None


def _spot_check(items: pd.DataFrame, release: _Release, raw: RawFile) -> None:
    names = dict(zip(items["item_id"].tolist(), items["title"].tolist(), strict=True))
    for item_id, title in release.known.items():
        if item_id in names and names[item_id] != title:
            raise DataError(
                f"{raw.file}: film {item_id} is {names[item_id]!r}; expected {title!r} in {release.title}; "
                f"this is a renumbered or repackaged copy; {raw.remedy}"
            )


def _fields(raw: RawFile, separator: str, count: int, what: str) -> list[tuple[int, list[str]]]:
    rows = []
    for number, text in raw.lines():
        fields = text.split(separator)
        if len(fields) == count:
            rows.append((number, fields))
        else:
            raw.reject(number, f"{len(fields)} fields between {separator}; expected {count}: {what}")
    return rows


def _seen(raw: RawFile, seen: dict[int, int], number: int, text: str, what: str) -> int | None:
    """Return a new id, or None where it is no number or stands on a line above."""
    if not _WHOLE.fullmatch(text):
        raw.reject(number, f"{what} {text!r}; expected a whole number")
        return None
    identity = int(text)
    if identity in seen:
        raw.reject(number, f"{what} {identity} stands on line {seen[identity]} already; expected once")
        return None
    seen[identity] = number
    return identity


def _gender(raw: RawFile, number: int, text: str) -> str | None:
    if text and text not in _GENDERS:
        raise DataError(f"{raw.file}, line {number}: gender {text!r}; expected M or F, or nothing; {raw.remedy}")
    return _GENDERS.get(text)


def _users_1m(raw: RawFile) -> pd.DataFrame:
    seen: dict[int, int] = {}
    rows: list[tuple[object, ...]] = []
    for number, fields in _fields(raw, "::", 5, "user, gender, age, occupation, zip code"):
        user_id = _seen(raw, seen, number, fields[0], "user")
        if user_id is None:
            continue
        _, gender, age, occupation, zip_code = fields
        if age and (not _WHOLE.fullmatch(age) or int(age) not in AGE_CODES):
            raise DataError(
                f"{raw.file}, line {number}: age code {age!r}; expected one of "
                f"{', '.join(map(str, AGE_CODES))}, or nothing; {raw.remedy}"
            )
        if occupation and (not _WHOLE.fullmatch(occupation) or int(occupation) >= len(OCCUPATIONS)):
            raise DataError(
                f"{raw.file}, line {number}: occupation {occupation!r}; expected a number from 0 to 20, or nothing; "
                f"{raw.remedy}"
            )
        job = OCCUPATIONS[int(occupation)] if occupation else None
        rows.append((user_id, _gender(raw, number, gender), age or None, job, zip_code.strip() or None))
    return _user_frame(rows)


def _users_100k(raw: RawFile) -> pd.DataFrame:
    seen: dict[int, int] = {}
    rows: list[tuple[object, ...]] = []
    for number, fields in _fields(raw, "|", 5, "user, age, gender, occupation, zip code"):
        user_id = _seen(raw, seen, number, fields[0], "user")
        if user_id is None:
            continue
        _, age, gender, occupation, zip_code = fields
        if age and not (_WHOLE.fullmatch(age) and AGES[0] <= int(age) <= AGES[1]):
            raw.note(number, f"age {age!r} taken as missing; expected {AGES[0]} to {AGES[1]} years")
            age = ""
        rows.append((user_id, _gender(raw, number, gender), age or None, occupation or None, zip_code.strip() or None))
    return _user_frame(rows)


def _user_frame(rows: list[tuple[object, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["user_id", "gender", "age", "occupation", "zip_code"], dtype=object)
    return frame.astype({"user_id": "int64", "age": "float64"}).astype(
        dict.fromkeys(["gender", "occupation", "zip_code"], "str")
    )


def _items_1m(raw: RawFile) -> pd.DataFrame:
    seen: dict[int, int] = {}
    rows: list[tuple[int, str, str]] = []
    for number, fields in _fields(raw, "::", 3, "film, title, genres"):
        title, genres = fields[1].strip(), fields[2].strip()
        strange = sorted(set(genres.split("|")) - set(GENRES))
        if not title or strange:
            raw.reject(number, f"genre {strange[0]!r} is unknown" if title else "no title; expected one")
            continue
        item_id = _seen(raw, seen, number, fields[0], "film")
        if item_id is not None:
            rows.append((item_id, title, genres))
    return _item_frame(rows)


def _genre_names(folder: Path, remedy: str) -> list[str]:
    raw = RawFile(present(folder / "u.genre"), remedy)
    pairs = [fields for _, fields in _fields(raw, "|", 2, "genre, number")]
    if [number for _, number in pairs] != [str(place) for place in range(len(pairs))]:
        raise DataError(f"{raw.file}: genres are not numbered from 0; {remedy}")
    return [name for name, _ in pairs]


def _items_100k(raw: RawFile, genre_names: list[str]) -> pd.DataFrame:
    seen: dict[int, int] = {}
    rows: list[tuple[int, str, str]] = []
    for number, fields in _fields(raw, "|", 5 + len(genre_names), "film, title, 2 dates, address, a flag per genre"):
        title, flags = fields[1].strip(), fields[5:]
        if not title or set(flags) - {"0", "1"}:
            raw.reject(number, "a genre flag is neither 0 nor 1" if title else "no title; expected one")
            continue
        item_id = _seen(raw, seen, number, fields[0], "film")
        if item_id is not None:
            genres = [name for name, flag in zip(genre_names, flags, strict=True) if flag == "1"]
            rows.append((item_id, title, "|".join(genres)))
    return _item_frame(rows)


def _item_frame(rows: list[tuple[int, str, str]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["item_id", "title", "genres"], dtype=object)
    frame = frame.astype({"item_id": "int64", "title": "str", "genres": "str"})
    return with_names(frame)


def with_names(items: pd.DataFrame) -> pd.DataFrame:
    """Add ``name`` (article in front, no year, no alternates) and ``year`` (Int64) to films.

    Parameters
    ----------
    items : DataFrame
        With ``title`` as a catalogue writes it.
    """
    split = [titles.split_year(title) for title in items["title"]]
    names = pd.Series([titles.names(rest)[0] for rest, _ in split], index=items.index, dtype="str")
    years = pd.array([year for _, year in split], dtype="Int64")
    return items.assign(name=names, year=years)


def _ratings(
    raw: RawFile, release: _Release, users: pd.DataFrame, items: pd.DataFrame, *, published: bool
) -> pd.DataFrame:
    frame = parse_ratings(raw.content, release.separator)
    if frame is None:
        frame = _ratings_line_by_line(raw, release.separator)
    else:
        frame.index = pd.RangeIndex(1, len(frame) + 1)
    first, last = release.window
    checks = [
        (~frame["rating"].between(1, 5), "rating {rating}; expected 1 to 5"),
        (frame["timestamp"] < 86_400 * 2, "time {timestamp} is the start of 1970; expected seconds since then"),
        (frame["timestamp"] > _LATEST, "time {timestamp} counts milliseconds or less; expected seconds since 1970"),
        (~frame["user_id"].isin(users["user_id"]), f"user {{user_id}} is not in {release.users}"),
        (~frame["item_id"].isin(items["item_id"]), f"film {{item_id}} is not in {release.items}"),
    ]
    bad = pd.Series(data=False, index=frame.index)
    for wrong, reason in checks:
        if wrong.any():
            rows = frame[wrong & ~bad]
            for line, row in zip(rows.index.tolist(), rows.to_dict("records"), strict=True):
                raw.reject(line, reason.format(**row))
            bad |= wrong
    if bad.any():
        frame = frame[~bad]
    frame = _once(raw, frame)
    outside = ~frame["timestamp"].between(first, last)
    if published and outside.any():
        for line, stamp in frame.loc[outside, "timestamp"].items():
            raw.note(line, f"time {stamp} is outside the period of {release.title} ({first} to {last})")
    return frame.astype({"rating": "float64"}).reset_index(drop=True)


def _once(raw: RawFile, frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the first rating that a user gave a film."""
    # One number per pair: pandas compares one column much faster than two.
    span = int(frame["item_id"].max()) + 1 if len(frame) else 1
    if len(frame) and int(frame["user_id"].max()) < 2**62 // span:
        pair = frame["user_id"] * span + frame["item_id"]
        again = pair.duplicated()
    else:
        again = frame.duplicated(["user_id", "item_id"])
    if not again.any():
        return frame
    first = dict(
        zip(
            zip(frame.loc[~again, "user_id"], frame.loc[~again, "item_id"], strict=True),
            frame.index[~again],
            strict=True,
        )
    )
    for line, user, film in frame.loc[again, ["user_id", "item_id"]].itertuples():
        raw.reject(line, f"user {user} rated film {film} on line {first[user, film]} already")
    return frame[~again]


def _ratings_line_by_line(raw: RawFile, separator: str) -> pd.DataFrame:
    numbers: list[int] = []
    rows: list[list[int]] = []
    for number, fields in _fields(raw, separator, 4, "user, film, rating, time"):
        odd = [field for field in fields if not _WHOLE.fullmatch(field)]
        if odd:
            raw.reject(number, f"{odd[0]!r}; expected a whole number")
            continue
        numbers.append(number)
        rows.append([int(field) for field in fields])
    values = np.array(rows, dtype="int64").reshape(-1, 4)
    return pd.DataFrame(values, columns=_RATING_COLUMNS, index=pd.Index(numbers))
