"""Your own data from CSV files: what is documented is read, and what is not is named by file and line."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb.datasets import own
from fairnb.errors import DataError

USERS = "user_id,gender,age\n1,F,24\n2,male,41.5\n3,,\n"
ITEMS = 'item_id,title\n10,Toy Story (1995)\n11,"Postino, Il (The Postman) (1994)"\n12,NA\n'
INTERACTIONS = "user_id,item_id,timestamp,rating\n1,10,978300760,5\n1,11,978300761,3.5\n2,12,978300760,1\n"


def read(folder: Path, *, users=USERS, items=ITEMS, interactions=INTERACTIONS):
    for name, content in (("users", users), ("items", items), ("interactions", interactions)):
        if content is not None:
            data = content.encode() if isinstance(content, str) else content
            (folder / f"{name}.csv").write_bytes(data)
    return own.read(folder)


def remarks(data) -> list[tuple[str, int, str]]:
    return list(data.remarks[["file", "line", "reason"]].itertuples(index=False, name=None))


def same(left, right) -> bool:
    return all(getattr(left, part).equals(getattr(right, part)) for part in ("users", "items", "interactions"))


def test_the_documented_columns(tmp_path):
    data = read(tmp_path)
    assert data.kind == "films"
    assert data.remarks.empty
    assert data.interactions.to_dict("list") == {
        "user_id": [1, 1, 2],
        "item_id": [10, 11, 12],
        "timestamp": [978300760, 978300761, 978300760],
        "rating": [5.0, 3.5, 1.0],
    }
    assert data.users["gender"].tolist()[:2] == ["Female", "Male"]
    assert data.users["gender"].isna().tolist() == [False, False, True]
    assert data.users["age"].tolist()[:2] == [24.0, 41.5]
    assert math.isnan(data.users["age"].iloc[2])
    assert data.items["name"].tolist() == ["Toy Story", "Il Postino", "NA"]
    assert [(fact.lines_in, fact.rows_out, fact.rejected) for fact in data.files] == [(3, 3, 0)] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n") + "\n,\n",
        lambda text: re.sub(r"^(\d+),", r'"\1",', text, flags=re.MULTILINE),
    ],
    ids=["crlf", "bom", "no-end", "blank", "quoted"],
)
def test_spellings_of_the_same_table(tmp_path, change):
    usual = read(tmp_path)
    other = read(tmp_path, users=change(USERS), items=change(ITEMS), interactions=change(INTERACTIONS))
    assert same(usual, other)
    assert other.remarks.empty


def test_songs_and_further_columns(tmp_path):
    data = read(
        tmp_path,
        users="user_id,country,age,gender\na,NA,30,non-binary\nb,,30,F\nc,n/a,30,woman\n",
        items='item_id,title,artist,year,genres\n007,"Hello, ""World""",None,1999,Pop|Rock\n7,nan,NULL,,\n7b,Null,A,99,\n',
        interactions="timestamp,note,item_id,user_id\n2020-01-01,x,7,a\n2020-01-01,x,7,a\n2020-01-01,x,007,b\n",
    )
    assert data.kind == "songs"
    assert data.users["gender"].tolist() == ["non-binary", "Female", "woman"]
    assert data.users["country"].tolist()[::2] == ["NA", "n/a"]
    assert data.users["country"].isna().tolist() == [False, True, False]
    assert data.items[["item_id", "source_id", "title", "artist"]].values.tolist() == [
        [1, "007", 'Hello, "World"', "None"],
        [2, "7", "nan", "NULL"],
        [3, "7b", "Null", "A"],
    ]
    assert data.items["year"].isna().tolist() == [False, True, True]
    assert data.items["genres"].tolist()[0] == "Pop|Rock"
    # Without ratings an interaction is a play, which may be repeated.
    assert data.interactions[["user_id", "item_id"]].values.tolist() == [["a", 2], ["a", 2], ["b", 1]]
    assert remarks(data) == [("items.csv", 4, "year '99' taken as missing; expected four digits")]


@pytest.mark.parametrize(
    ("ids", "kept"),
    [(["1", "20", "3"], [1, 3, 20]), (["007", "7", "8"], ["007", "7", "8"]), (["x", "1", "é"], ["1", "x", "é"])],
)
def test_ids_are_numbers_only_where_no_two_of_them_would_become_one(tmp_path, ids, kept):
    users = "user_id,gender\n" + "".join(f"{name},F\n" for name in ids)
    interactions = "user_id,item_id,timestamp\n" + "".join(f"{name},10,2020-01-01\n" for name in ids)
    data = read(tmp_path, users=users, interactions=interactions)
    assert data.users["user_id"].tolist() == kept
    assert data.interactions["user_id"].tolist() == [int(name) if isinstance(kept[0], int) else name for name in ids]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("978300760", 978300760),
        ("2000-12-31T22:12:40Z", 978300760),
        ("2000-12-31 22:12:40", 978300760),
        ("2000-12-31T22:12:40.999Z", 978300760),
        ("2000-12-31T22:12:40.123456789Z", 978300760),
        ("2001-01-01T00:12:40+02:00", 978300760),
        ("2000-12-31T16:42:40-0530", 978300760),
        ("2000-12-31T22:12", 978300720),
        ("2000-12-31", 978220800),
    ],
)
def test_times(tmp_path, text, seconds):
    data = read(tmp_path, interactions=f"user_id,item_id,timestamp\n1,10,{text}\n")
    assert data.interactions["timestamp"].tolist() == [seconds]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system cannot change its time zone for a test")
def test_a_time_without_a_zone_is_utc_wherever_one_is(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        data = read(tmp_path, interactions="user_id,item_id,timestamp\n1,10,2000-12-31T22:12:40\n1,11,2000-12-31\n")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert data.interactions["timestamp"].tolist() == [978300760, 978220800]


def test_a_year_of_its_own_goes_before_that_in_the_title(tmp_path):
    data = read(tmp_path, items="item_id,title,year\n10,Toy Story (1995),1996\n11,Heat (1995),\n12,NA,\n")
    assert data.items["year"].tolist()[:2] == [1996, 1995]
    assert data.items["year"].isna().tolist() == [False, False, True]


def test_bad_interactions_are_named_by_file_line_and_reason(tmp_path):
    bad = [
        ("1,10,978300999,4", "user 1 rated item 10 on line 2 already"),
        ("9,10,978300760,4", "user_id '9' is not in users.csv"),
        ("2,99,978300760,4", "item_id '99' is not in items.csv"),
        ("2,10,978300760", "3 fields; expected 4, as in the header"),
        ("2,10,978300760000,4", "timestamp 978300760000 counts milliseconds or less; expected whole seconds"),
        ("2,10,0,4", "timestamp 0; expected a time"),
        ("2,10,1969-12-31,4", "timestamp '1969-12-31' is not between 1970 and 2100"),
        ("2,10,9999-12-31,4", "timestamp '9999-12-31' is not between 1970 and 2100"),
        ("2,10,2020-02-30,4", "timestamp '2020-02-30' is no date"),
        (
            "2,10,31/12/2020,4",
            "timestamp '31/12/2020'; expected whole seconds since 1970, or a date such as 2026-05-04T12:00:00Z",
        ),
        ("2,10,978300760,", "rating ''; expected a number"),
        ("2,10,978300760,nan", "rating 'nan'; expected a number"),
        ("2,10,978300760,1e9", "rating '1e9'; expected a number"),
        (",10,978300760,4", "user_id '' is not in users.csv"),
    ]
    lines = INTERACTIONS.splitlines()
    text = "\n".join(lines[:2] + [line for line, _ in bad] + lines[2:])
    data = read(tmp_path, interactions=text)
    assert remarks(data) == [("interactions.csv", line, reason) for line, (_, reason) in enumerate(bad, start=3)]
    assert not data.remarks["kept"].any()
    assert data.interactions.equals(read(tmp_path, interactions=INTERACTIONS).interactions)
    assert (data.files[2].lines_in, data.files[2].rows_out) == (17, 3)


def test_bad_users_and_items_are_named(tmp_path):
    users = USERS + "4,F,-1\n5,F,107\n6,F,abc\n1,M,30\n,M,30\n7,M\n8,F,4.9\n9,F,99\n"
    items = ITEMS + '13," "\n10,Again\n14,"two\nlines"\n,None\n15,a,b\n'
    data = read(tmp_path, users=users, items=items)
    assert remarks(data) == [
        ("items.csv", 5, "title or artist is empty; expected the name that a prompt can give"),
        ("items.csv", 6, "item_id 10 stands on line 2 already; expected once"),
        ("items.csv", 9, "item_id is empty; expected an id"),
        ("items.csv", 10, "3 fields; expected 2, as in the header"),
        ("users.csv", 5, "age '-1' taken as missing; expected 5 to 99 years"),
        ("users.csv", 6, "age '107' taken as missing; expected 5 to 99 years"),
        ("users.csv", 7, "age 'abc' taken as missing; expected 5 to 99 years"),
        ("users.csv", 8, "user_id 1 stands on line 2 already; expected once"),
        ("users.csv", 9, "user_id is empty; expected an id"),
        ("users.csv", 10, "2 fields; expected 3, as in the header"),
        ("users.csv", 11, "age '4.9' taken as missing; expected 5 to 99 years"),
    ]
    # Users without interactions stay: whoever draws users has to count them.
    assert data.users["user_id"].tolist() == [1, 2, 3, 4, 5, 6, 8, 9]
    assert data.users["age"].notna().sum() == 3
    assert data.items["title"].tolist()[-1] == "two\nlines"


def test_rare_line_ends_of_unicode_stay_in_their_field(tmp_path):
    titles = ["a\u2028b", "a\x85b", "a\x0bb", "a\x1cb"]
    items = "item_id,title\n" + "".join(f"{place},{title}\n" for place, title in enumerate(titles, start=10))
    data = read(tmp_path, items=items)
    assert data.items["title"].tolist() == titles
    assert data.remarks.empty


def test_a_column_of_row_numbers_is_left_out_and_told(tmp_path):
    users = "".join(f"{place},{line}\n" for place, line in zip(["", 0, 1, 2], USERS.splitlines(), strict=True))
    data = read(tmp_path, users=users)
    assert data.users.equals(read(tmp_path).users)
    assert remarks(data) == [("users.csv", 1, "a column without a name is left out")]
    assert data.remarks["kept"].all()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"users": USERS.replace(",", ";")}, "users.csv, line 1: no column user_id; expected user_id; is it separated"),
        ({"items": "item_id,name\n1,A\n"}, "items.csv, line 1: no column title; expected item_id, title"),
        ({"interactions": "user_id,item_id\n1,10\n"}, "interactions.csv, line 1: no column timestamp"),
        ({"users": "user_id,age,age\n1,2,3\n"}, "users.csv, line 1: column 'age' stands twice"),
        ({"items": 'item_id,title\n10,A\n11,"B\n12,C\n'}, "items.csv, line 3: not a CSV file"),
        ({"items": 'item_id,title\n10,A\n11,"odd" name\n12,C\n'}, "items.csv, line 3: not a CSV file"),
        ({"users": ""}, "users.csv: empty; expected a header with user_id"),
        ({"users": "user_id\n"}, "users.csv: no usable line"),
        ({"items": ITEMS.replace("Toy", "Töy").encode("latin-1")}, "items.csv: not UTF-8"),
        ({"items": ITEMS.encode("utf-16")}, "items.csv: UTF-16 or binary"),
        ({"items": ITEMS.replace("Toy", "Töy".encode().decode("cp1252"))}, "items.csv, line 2: 'Ã¶' shows"),
        ({"interactions": None}, "interactions.csv: no such file"),
        (
            {"interactions": "user_id,item_id,timestamp\n" + "9,10,978300760\n" * 50},
            "no usable line; line 2: user_id '9'",
        ),
    ],
)
def test_another_file_is_an_error_of_one_line(tmp_path, files, message):
    with pytest.raises(DataError, match=re.escape(message)) as error:
        read(tmp_path, **files)
    assert "\n" not in str(error.value)


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="ÃÂâ"), max_size=6)


@given(titles=st.lists(_TEXT, min_size=1, max_size=6), quote=st.booleans())
def test_any_title_comes_back_or_its_line_is_named(tmp_path_factory, titles, quote):
    rows = [f'{place},"' + title.replace('"', '""') + '"' for place, title in enumerate(titles)]
    if not quote:
        titles = [title.replace('"', "").replace(",", "") for title in titles]
        rows = [f"{place},{title}" for place, title in enumerate(titles)]
    items = "item_id,title\nlast,known\n" + "".join(f"{row}\n" for row in rows)
    data = read(tmp_path_factory.mktemp("own"), items=items, interactions=INTERACTIONS.replace(",10,", ",last,"))
    texts = [title.strip() for title in titles]
    assert data.items["title"].tolist()[1:] == [text for text in texts if text]
    rejected = [line for file, line, _ in remarks(data) if file == "items.csv"]
    assert rejected == [line for line, text in enumerate(texts, start=3) if not text]


@pytest.mark.parametrize("name", ["age_group", "none", "intersectional"])
def test_names_that_conditions_go_by_are_not_free(tmp_path, name):
    with pytest.raises(DataError, match=rf"users\.csv, line 1: column {name} has a name that fairnb uses itself"):
        read(tmp_path, users=f"user_id,{name}\n1,a\n2,b\n")


def test_documented_columns_may_be_written_in_capitals(tmp_path):
    plain = read(tmp_path)
    data = read(tmp_path, users=USERS.replace("user_id,gender,age", "User_ID,Gender,AGE"))
    assert same(data, plain)
