"""MovieLens from its raw files: every line is in a frame or named, and the wrong file is told from the right one."""

from __future__ import annotations

import gzip
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb.datasets import movielens
from fairnb.datasets.lines import RawFile
from fairnb.errors import DataError

GENRES_100K = ["unknown", *movielens.GENRES]
NAMES = {
    "ml1m": ("users.dat", "movies.dat", "ratings.dat"),
    "ml100k": ("u.user", "u.item", "u.data"),
}
WINDOW = {"ml1m": 978_300_000, "ml100k": 880_000_000}
USERS = {
    "ml1m": b"1::F::1::10::48067\n2::M::56::0::98107-2117\n3::M::25::20::55117\n",
    "ml100k": b"1|24|M|technician|85711\n2|53|F|other|T8H1N\n3|23|M|none|32067\n",
}
FLAGS = b"|0" * 18 + b"|1\n"
ITEMS = {
    "ml1m": b"1::Toy Story (1995)::Animation|Comedy\n7::Odd, The (1990)::Drama\n9::NA::Western\n",
    "ml100k": b"1|Toy Story (1995)|01-Jan-1995||" + FLAGS + b"7|Odd, The (1990)|||" + FLAGS + b"9|NA|||" + FLAGS,
}


def rating_lines(name: str, rows: list[tuple[int, int, int, int]]) -> bytes:
    separator = movielens.RELEASES[name].separator
    return "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()


RATINGS = {
    name: rating_lines(name, [(1, 1, 5, start), (1, 7, 3, start + 9), (2, 1, 4, start + 9), (3, 9, 1, start)])
    for name, start in WINDOW.items()
}


def write(folder: Path, name: str, **contents: bytes) -> Path:
    """Write a small release; ``users``, ``items``, ``ratings`` replace a file."""
    folder.mkdir(exist_ok=True)
    files = zip(NAMES[name], ("users", "items", "ratings"), (USERS, ITEMS, RATINGS), strict=True)
    for file, part, usual in files:
        (folder / file).write_bytes(contents.get(part, usual[name]))
    if name == "ml100k":
        genres = "".join(f"{genre}|{place}\n" for place, genre in enumerate(GENRES_100K)) + "\n"
        (folder / "u.genre").write_text(genres, "utf-8")
    return folder


def read(folder: Path, name: str, **contents: bytes):
    return movielens.read(write(folder, name, **contents), name)


def remarks(data) -> list[tuple[str, int, str, bool]]:
    return list(data.remarks.itertuples(index=False, name=None))


# --- the files as published, and lines of them that break naive readers ---------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "folder", "counts"),
    [("ml100k", "ml-100k", (100_000, 943, 1_682, 943)), ("ml1m", "ml-1m", (97_019, 6_040, 3_883, 671))],
)
def test_the_published_files_are_read_without_a_reject(shared_folder, name, folder, counts):
    data = movielens.read(shared_folder / "data" / folder, name)
    active = data.interactions["user_id"].nunique()
    assert (len(data.interactions), len(data.users), len(data.items), active) == counts
    assert data.remarks.empty
    assert [fact.encoding for fact in data.files] == ["utf-8", "latin-1", "utf-8"]
    assert all(fact.lines_in == fact.rows_out for fact in data.files)
    assert set(data.users["gender"]) == {"Male", "Female"}
    assert not data.users.drop(columns="zip_code").isna().any(axis=None)
    assert data.items["name"].str.fullmatch(r".*, (?:The|A|An|La|Le|Les|Il|El|Das|Der|Die)").sum() == 0


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "part", "rows", "encoding"),
    [
        ("ml100k_item_latin1.item", "items", 9, "latin-1"),
        ("ml100k_item_no_year_suffix.item", "items", 5, "utf-8"),
        ("ml100k_user_zip_alnum.user", "users", 18, "utf-8"),
        ("ml100k_genre_trailing_blank.genre", "genres", 19, "utf-8"),
        ("ml1m_movies_alt_title_parens.dat", "items", 40, "latin-1"),
        ("ml1m_movies_multi_comma.dat", "items", 32, "latin-1"),
        ("ml1m_movies_single_colon.dat", "items", 25, "utf-8"),
        ("ml1m_users_under18.dat", "users", 10, "utf-8"),
        ("ml1m_users_zip_not_5digit.dat", "users", 40, "utf-8"),
    ],
)
def test_odd_lines_of_the_published_files(shared_folder, tmp_path, file, part, rows, encoding):
    content = (shared_folder / "data/nasty" / file).read_bytes()
    name = file.split("_")[0]
    if part == "genres":
        write(tmp_path, name)
        (tmp_path / "u.genre").write_bytes(content)
        data = movielens.read(tmp_path, name)
        assert set(data.items["genres"]) == {"Western"}
        assert content.count(b"|") == rows
        return
    first = int(re.match(rb"\d+", content)[0])
    rating = (first, 1, 5, WINDOW[name]) if part == "users" else (1, first, 5, WINDOW[name])
    data = read(tmp_path, name, **{part: content, "ratings": rating_lines(name, [rating])})
    frame = data.users if part == "users" else data.items
    fact = data.files[0 if part == "users" else 1]
    assert (len(frame), fact.lines_in, fact.rows_out, fact.rejected, fact.encoding) == (rows, rows, rows, 0, encoding)
    assert data.remarks.empty
    # Whatever is in a field, it is the text of the line.
    lines = content.decode(encoding).splitlines()
    separator = "::" if name == "ml1m" else "|"
    texts = {int(line.split(separator)[0]): line.split(separator) for line in lines}
    if part == "users":
        assert dict(zip(frame["user_id"], frame["zip_code"], strict=True)) == {
            key: row[4] for key, row in texts.items()
        }
    else:
        assert dict(zip(frame["item_id"], frame["title"], strict=True)) == {
            key: row[1].strip() for key, row in texts.items()
        }
        without = [row[1] for row in texts.values() if not re.search(r"\(\d{4}\)( \(V\)| ?)$", row[1])]
        assert frame["year"].isna().sum() == len(without)


# --- encodings, names, codes ----------------------------------------------------------------------------------------

ACCENTED = "1::Misérables, Les (1995)::Drama\n2::Léon::Drama\n"


def test_titles_are_the_same_in_either_encoding(tmp_path):
    frames = {}
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        data = movielens.read(
            write(tmp_path, "ml1m", items=ACCENTED.encode(encoding), ratings=b"1::1::5::978300000\n"),
            "ml1m",
            published=False,
        )
        frames[encoding] = data.items
        assert data.files[1].encoding == encoding.removesuffix("-sig")
    for frame in frames.values():
        pd.testing.assert_frame_equal(frame, frames["latin-1"])
    assert frames["utf-8"]["name"].tolist() == ["Les Misérables", "Léon"]


@pytest.mark.parametrize(
    "line",
    [
        "Misérables, Les".encode().decode("latin-1").encode(),
        "L’Avventura".encode().decode("cp1252").encode(),
        "Сталкер".encode().decode("latin-1").encode(),
        "Сталкер".encode().decode("cp1252", "replace").encode(),
        "七人の侍".encode().decode("latin-1").encode(),
    ],
    ids=["accent", "apostrophe", "cyrillic", "cyrillic-1252", "japanese"],
)
def test_a_title_that_was_decoded_wrongly_before_is_refused_with_its_line(tmp_path, line):
    items = (
        "1::Toy Story (1995)::Comedy\n2::«cliché»…::Drama\n3::CAFÉ™::Drama\n\n".encode() + b"4::" + line + b"::Drama\n"
    )
    with pytest.raises(DataError, match=r"movies\.dat, line 5: .*decoded\s+wrongly"):
        read(tmp_path, "ml1m", items=items)


@pytest.mark.parametrize("title", ["Léon", "七人の侍"])
def test_two_encodings_in_one_file_are_refused_with_the_line(tmp_path, title):
    items = "1::Misérables, Les (1995)::Drama\n".encode("latin-1") + f"2::{title}::Drama\n".encode()
    with pytest.raises(DataError, match=r"movies\.dat, line 2: in UTF-8, and other lines in Latin-1"):
        read(tmp_path, "ml1m", items=items)


def test_titles_and_names_are_apart(tmp_path):
    titles = {
        "Matrix, The (1999)": ("The Matrix", 1999),
        "Affair to Remember, An (1957)": ("An Affair to Remember", 1957),
        "Boot, Das (1981)": ("Das Boot", 1981),
        "Postino, Il (The Postman) (1994)": ("Il Postino", 1994),
        "Heidi Fleiss: Hollywood Madam (1995) ": ("Heidi Fleiss: Hollywood Madam", 1995),
        "Odd, Odder, Oddest": ("Odd, Odder, Oddest", None),
        **{word: (word, None) for word in ("NA", "None", "nan", "NULL", "n/a", "Null")},
    }
    items = "".join(f"{place}::{title}::Drama\n" for place, title in enumerate(titles, start=10)).encode()
    frame = read(tmp_path, "ml1m", items=items, ratings=b"1::10::5::978300000\n").items
    assert frame["title"].tolist() == [title.strip() for title in titles]
    assert frame["name"].tolist() == [name for name, _ in titles.values()]
    assert [None if pd.isna(year) else year for year in frame["year"]] == [year for _, year in titles.values()]


def test_codes_become_words_and_only_empty_fields_are_missing(tmp_path):
    users = b"1::F::1::10::48067\n2::M::56::0::98107-2117\n3::::::::\n4::F::18::20::NA\n"
    data = read(tmp_path, "ml1m", users=users)
    frame = data.users.set_index("user_id")
    assert frame["age"].tolist()[:2] == [1.0, 56.0]
    assert data.age_codes[1] == "under 18"
    assert frame["occupation"].tolist()[:2] == ["K-12 student", "other or not specified"]
    assert frame.loc[4, "zip_code"] == "NA"
    assert frame.loc[2, "zip_code"] == "98107-2117"
    assert frame.loc[3].isna().all()
    assert frame.drop(index=3).notna().all(axis=None)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("ml1m", b"4::F::26::1::1", "age code '26'; expected one of 1, 18, 25, 35, 45, 50, 56"),
        ("ml1m", b"4::F::25::21::1", "occupation '21'; expected a number from 0 to 20"),
        ("ml1m", b"4::X::25::1::1", "gender 'X'; expected M or F"),
        ("ml100k", b"4|25|male|other|1", "gender 'male'; expected M or F"),
    ],
)
def test_an_unknown_code_is_an_error_with_file_and_line(tmp_path, name, line, message):
    users = USERS[name] + line + b"\n"
    with pytest.raises(DataError, match=re.escape(f"{NAMES[name][0]}, line 4: {message}")):
        read(tmp_path, name, users=users)


# --- which release --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["ratings.dat", "u.item"], "1M and 100K in one folder"),
        (["ratings.csv", "movies.csv"], "later MovieLens release .* neither gender nor age"),
        (["ratings.dat", "movies.dat", "tags.dat"], "MovieLens 10M"),
        (["ml-1m.inter", "ml-1m.user", "ml-1m.item"], "RecBole"),
        (["README"], "no files of MovieLens"),
        ([], "no files of MovieLens"),
    ],
)
def test_other_files_are_told_apart(tmp_path, files, message):
    for file in files:
        (tmp_path / file).write_bytes(b"1\n")
    with pytest.raises(DataError, match=message) as error:
        movielens.read(tmp_path, "ml1m")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["ml1m", "ml100k"])
def test_the_release_is_found_by_its_files_packed_or_not(tmp_path, name):
    folder = write(tmp_path / "plain", name)
    assert movielens.detect(folder) == name
    plain = movielens.read(folder, name)
    for file in NAMES[name]:
        (folder / f"{file}.gz").write_bytes(gzip.compress((folder / file).read_bytes()))
        (folder / file).unlink()
    packed = movielens.read(folder, name)
    assert movielens.detect(folder) == name
    pd.testing.assert_frame_equal(packed.interactions, plain.interactions)
    pd.testing.assert_frame_equal(packed.items, plain.items)
    with pytest.raises(DataError, match=r"MovieLens (1M|100K); expected MovieLens (1M|100K)"):
        movielens.read(folder, "ml1m" if name == "ml100k" else "ml100k")


def test_a_renumbered_copy_is_refused(tmp_path):
    items = b"0::Toy Story (1995)::Comedy\n1::Jumanji (1995)::Comedy\n"
    with pytest.raises(DataError, match=r"film 1 is 'Jumanji \(1995\)'; expected 'Toy Story \(1995\)'.*renumbered"):
        read(tmp_path, "ml1m", items=items)


def test_absent_and_unreadable_files(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        movielens.read(tmp_path / "nowhere", "ml1m")
    folder = write(tmp_path / "a", "ml1m")
    with pytest.raises(DataError, match="no such folder"):
        movielens.read(folder / "ratings.dat", "ml1m")
    (folder / "users.dat").unlink()
    with pytest.raises(DataError, match=r"users\.dat: no such file; `fairnb data get ml1m`"):
        movielens.read(folder, "ml1m")
    (folder / "users.dat").mkdir()
    with pytest.raises(DataError, match=r"users\.dat: a folder; expected a file"):
        movielens.read(folder, "ml1m")
    (folder / "users.dat").rmdir()
    whole = gzip.compress(USERS["ml1m"] * 100)
    for content in (USERS["ml1m"], whole[:-9], whole[:40] + b"\xff" * 20 + whole[60:]):
        (folder / "users.dat.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"users\.dat\.gz: damaged, or not compressed"):
            movielens.read(folder, "ml1m")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html><title>503</title>", "line 1: a web page"),
        ("1::1::5::9783\n".encode("utf-16"), "UTF-16 or binary"),
        (b"\n \n", "no usable line"),
        (b"", "no usable line"),
        (b"1,1,5,978300000\n", "no usable line; line 1: 1 fields between ::; expected 4"),
    ],
)
def test_what_is_no_rating_file_is_refused(tmp_path, content, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read(tmp_path, "ml1m", ratings=content)


# --- an account of every line ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ml1m", "ml100k"])
@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.replace(b"\n", b"\r\r\n"),
        lambda content: content.rstrip(b"\n"),
        lambda content: content + b"\n",
        lambda content: content + b" \r\n\r\n",
        lambda content: content.replace(b"\n", b"\n\n", 1),
        lambda content: b"\xef\xbb\xbf" + content,
    ],
    ids=["crlf", "crcrlf", "no-end", "blank-end", "blanks-end", "blank-middle", "bom"],
)
def test_line_ends_change_nothing(tmp_path, name, change):
    usual = read(tmp_path / "usual", name)
    contents = {"users": USERS[name], "items": ITEMS[name], "ratings": RATINGS[name]}
    other = read(tmp_path / "other", name, **{part: change(content) for part, content in contents.items()})
    for frame in ("interactions", "users", "items"):
        pd.testing.assert_frame_equal(getattr(other, frame), getattr(usual, frame))
    assert other.remarks.empty
    assert [fact.lines_in for fact in other.files] == [3, 3, 4]


def test_each_bad_rating_is_named_by_file_line_and_reason(tmp_path):
    start = WINDOW["ml1m"]
    good = [(user, film, 3, start + user) for user in (1, 2, 3) for film in (1, 7, 9)]
    lines = rating_lines("ml1m", good).decode().splitlines()
    bad = {
        3: (f"1::1::4::{start + 99}", "user 1 rated film 1 on line 1 already"),
        4: (f"1::1::4:{start}", "3 fields between ::; expected 4: user, film, rating, time"),
        5: (f"1::1::4::{start}::", "5 fields between ::; expected 4: user, film, rating, time"),
        7: (f"99::1::4::{start}", "user 99 is not in users.dat"),
        8: (f"1::99::4::{start}", "film 99 is not in movies.dat"),
        9: (f"1::9::6::{start}", "rating 6; expected 1 to 5"),
        10: (f"1::9::4.5::{start}", "'4.5'; expected a whole number"),
        11: (f"1::9::-1::{start}", "'-1'; expected a whole number"),
        12: ("1::9::4::0", "time 0 is the start of 1970; expected seconds since then"),
        13: ("1::9::4::978300000000", "time 978300000000 counts milliseconds or less; expected seconds since 1970"),
        14: (f"1::9::4::{10**20}", f"'{10**20}'; expected a whole number"),
    }
    kept = {
        15: ("1::9::4::1400000000", "time 1400000000 is outside the period of MovieLens 1M (956703932 to 1046454590)"),
    }
    lines = lines[:2] + [text for text, _ in bad.values()] + [text for text, _ in kept.values()] + lines[3:]
    lines.insert(5, "")  # a blank line counts as a line, not as a row
    data = read(tmp_path, "ml1m", ratings="\n".join(lines).encode())
    expected = [("ratings.dat", line, reason, False) for line, (_, reason) in bad.items()]
    expected += [("ratings.dat", line, reason, True) for line, (_, reason) in kept.items()]
    assert remarks(data) == expected
    assert (data.files[2].lines_in, data.files[2].rows_out, data.files[2].rejected) == (20, 9, 11)
    assert len(data.rejects) == 11
    assert (data.interactions["timestamp"] == 1_400_000_000).sum() == 1


def test_bad_lines_are_named_where_all_lines_are_well_formed_too(tmp_path):
    start = WINDOW["ml1m"]
    rows = [(1, 1, 3, start), (1, 7, 9, start), (1, 1, 5, start), (8, 1, 5, 0), (2, 1, 5, start)]
    data = read(tmp_path, "ml1m", ratings=rating_lines("ml1m", rows))
    assert [(line, reason.split(";")[0]) for _, line, reason, _ in remarks(data)] == [
        (2, "rating 9"),
        (3, "user 1 rated film 1 on line 1 already"),
        (4, "time 0 is the start of 1970"),
    ]
    assert data.interactions["rating"].tolist() == [3.0, 5.0]


def test_bad_users_and_films_are_named(tmp_path):
    users = USERS["ml1m"] + b"1::M::25::1::1\nx::M::25::1::1\n4::M::25::1\n"
    items = ITEMS["ml1m"] + b"1::Again (1999)::Drama\n11:: ::Drama\n12::Odd (1990)::Jokes\n13::a::b::Drama\n"
    assert [remark[:3] for remark in remarks(read(tmp_path, "ml1m", users=users, items=items))] == [
        ("movies.dat", 4, "film 1 stands on line 1 already; expected once"),
        ("movies.dat", 5, "no title; expected one"),
        ("movies.dat", 6, "genre 'Jokes' is unknown"),
        ("movies.dat", 7, "4 fields between ::; expected 3: film, title, genres"),
        ("users.dat", 4, "user 1 stands on line 1 already; expected once"),
        ("users.dat", 5, "user 'x'; expected a whole number"),
        ("users.dat", 6, "4 fields between ::; expected 5: user, gender, age, occupation, zip code"),
    ]
    items = ITEMS["ml100k"] + b"11|Odd|||" + FLAGS.replace(b"1", b"2") + b"12|Odd||" + FLAGS
    users = USERS["ml100k"] + b"4|107|M|other|1\n5||M||\n"
    data = read(tmp_path / "old", "ml100k", users=users, items=items)
    assert remarks(data) == [
        ("u.item", 4, "a genre flag is neither 0 nor 1", False),
        ("u.item", 5, "23 fields between |; expected 24: film, title, 2 dates, address, a flag per genre", False),
        ("u.user", 4, "age '107' taken as missing; expected 5 to 99 years", True),
    ]
    assert data.users.set_index("user_id").loc[[4, 5], "age"].isna().all()
    assert data.users.set_index("user_id").loc[5, ["occupation", "zip_code"]].isna().all()


def test_other_data_in_the_format_have_no_published_period(tmp_path):
    folder = write(tmp_path, "ml1m", ratings=b"1::1::5::1400000000\n", items=b"1::Own (2014)::Drama\n")
    assert movielens.read(folder, "ml1m", published=False).remarks.empty


@pytest.mark.parametrize(
    ("good", "bad", "refused"), [(1, 1, False), (5, 20, False), (5, 21, True), (475, 25, False), (474, 25, True)]
)
def test_too_many_rejects_are_another_file(tmp_path, good, bad, refused):
    films = "".join(f"{film}::Film {film}::Drama\n" for film in range(10, 10 + good)).encode()
    rows = [(1, film, 3, WINDOW["ml1m"]) for film in range(10, 10 + good)]
    content = rating_lines("ml1m", rows) + b"1::10::x::1\n" * bad
    if refused:
        with pytest.raises(
            DataError, match=rf"{bad} of {good + bad} lines cannot be used, the first is line {good + 1}: 'x'"
        ):
            read(tmp_path, "ml1m", items=films, ratings=content)
    else:
        data = read(tmp_path, "ml1m", items=films, ratings=content)
        assert (len(data.interactions), len(data.rejects)) == (good, bad)


# --- random damage --------------------------------------------------------------------------------------------------

_ODD = (
    "::",
    ":",
    ":::",
    "::::",
    "\t",
    "\t\t",
    " ",
    "\r",
    "\n",
    "\r\n",
    "\r\r\n",
    "x",
    "+5",
    "-1",
    "5 ",
    "",
    "0",
    "007",
    "é",
    "٣",
    "\x00",
)
_HUGE = ("9" * 18, "1" + "0" * 18, str(2**63 - 1), str(2**63), "9" * 40, "0" * 30 + "7", "1e3", "1_0", "nan", '"1"')


@st.composite
def damaged(draw):
    """Ratings with some pieces replaced, doubled, deleted or inserted."""
    name = draw(st.sampled_from(["ml1m", "ml100k"]))
    separator = movielens.RELEASES[name].separator
    pieces = []
    for _ in range(draw(st.integers(1, 5))):
        row = draw(st.tuples(st.integers(1, 4), st.sampled_from([1, 7, 8]), st.integers(0, 6), st.integers(0, 10**10)))
        for number, end in zip(row, [separator] * 3 + ["\n"], strict=True):
            pieces += [str(number), end]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(pieces) - 1))
        kind = draw(st.sampled_from(["replace", "insert", "delete", "double"]))
        piece = pieces[place] if kind == "double" else draw(st.sampled_from(_ODD + _HUGE))
        pieces[place] = {"delete": "", "replace": piece}.get(kind, pieces[place] + piece)
    return name, "".join(pieces).encode()


@given(damaged())
def test_no_line_is_lost_and_both_parsers_agree(case):
    name, content = case
    if b"\x00" in content:
        content = content.replace(b"\x00", b"\x01")
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder), name, ratings=content) / NAMES[name][2]
        raw = RawFile(file, "mend it")
        fast = movielens.parse_ratings(raw.content, movielens.RELEASES[name].separator)
        slow = movielens._ratings_line_by_line(raw, movielens.RELEASES[name].separator)
        held = sum(1 for line in content.decode().split("\n") if line.strip())
        assert len(slow) + raw.rejected == held
        assert not set(slow.index) & {remark.line for remark in raw.remarks}
        if fast is not None:
            assert raw.rejected == 0
            assert slow.index.tolist() == list(range(1, len(fast) + 1))
            assert np.array_equal(fast.to_numpy(), slow.to_numpy())
            assert (fast.dtypes == "int64").all()
        try:
            data = movielens.read(Path(folder), name)
        except DataError as error:
            problem = str(error)
            assert f"{NAMES[name][2]}: no usable line" in problem
        else:
            assert len(data.interactions) + len(data.rejects) == held == data.files[2].lines_in
            assert not data.rejects["line"].duplicated().any()
            assert not data.interactions.duplicated(["user_id", "item_id"]).any()


def test_undamaged_ratings_take_the_fast_way():
    # The test above would pass if the fast parser refused everything.
    for name, content in RATINGS.items():
        separator = movielens.RELEASES[name].separator
        for form in (content, content.replace(b"\n", b"\r\n"), content + b"\n", content[:-1]):
            frame = movielens.parse_ratings(form, separator)
            assert frame is not None
            assert frame["item_id"].tolist() == [1, 7, 1, 9]
        between = separator.encode()
        numbers = (" 7", "7 ", "+7", "-7", "7.0", "", '"7"', "0x7", "1" + "0" * 18, str(2**63), "\u0667")
        marks = (b":", b":::", b"\t\t", b"::::", b":1:", b",", b" ")
        ends = (b"\r", b"\n\n", b"\r1\r\n", b"")
        odd = [content.replace(between + b"7" + between, between + text.encode() + between) for text in numbers]
        odd += [content.replace(between, mark, 1) for mark in marks]
        odd += [content.replace(b"\n", end, 1) for end in ends]
        odd += [b"\r" + content, b"\n" + content, b"x" + content, b""]
        for form in odd:
            assert movielens.parse_ratings(form, separator) is None
