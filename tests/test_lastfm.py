"""The reader of Last.fm 1K: every line is in a frame or in the account, with and without a cache."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import random
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb.datasets import lastfm
from fairnb.datasets.dataset import AGES, Dataset
from fairnb.errors import DataError, FairnbError, ParameterError

HEADER = "#id\tgender\tage\tcountry\tregistered"
USERS = [f"user_{number:06d}" for number in range(1, 7)]
ARTIST_ID, TRACK_ID = "f1b1cf71-bd35-4e99-8624-24a6e15f133a", "9383afaa-4f15-4871-8a33-553ba8dd5560"


def play(
    user: str = USERS[0],
    time: str = "2008-05-04T23:08:57Z",
    artist: str = "Deep Dish",
    track: str = "Flashdance",
    ids: tuple[str, str] = (ARTIST_ID, TRACK_ID),
) -> str:
    return "\t".join([user, time, ids[0], artist, ids[1], track])


def many(count: int = 20) -> list[str]:
    return [
        play(USERS[n * 3 // count], f"2008-05-04T23:{59 - n // 60:02d}:{59 - n % 60:02d}Z", f"Artist {n % 3}", f"T {n}")
        for n in range(count)
    ]


def write(folder: Path, lines: list[str] | bytes, profile: list[str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    people = profile if profile is not None else [f"{user}\tm\t22\tJapan\tAug 13, 2006" for user in USERS]
    (folder / lastfm.PROFILE).write_bytes("".join(f"{line}\n" for line in [HEADER, *people]).encode())
    content = lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode()
    (folder / lastfm.PLAYS).write_bytes(content)
    return folder


def seconds(time: str) -> int:
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(UTC).timestamp())


def rows_of(data: Dataset) -> list[tuple[str, int, str, str]]:
    names = data.items.set_index("item_id")
    return [
        (user, time, names.at[item, "artist"], names.at[item, "title"])
        for user, item, time in data.interactions.itertuples(index=False)
    ]


def expected(lines: list[str]) -> list[tuple[str, int, str, str]]:
    cells = [line.split("\t") for line in lines]
    return [(cell[0], seconds(cell[1]), cell[3], cell[5]) for cell in cells]


def rejected(data: Dataset) -> list[tuple[int, str]]:
    return list(data.rejects[["line", "reason"]].itertuples(index=False, name=None))


def assert_same(one: Dataset, other: Dataset) -> None:
    for name in ("interactions", "users", "items", "remarks"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    assert one.files == other.files


# --- The profile


def test_only_an_empty_field_of_the_profile_is_missing(tmp_path: Path) -> None:
    texts = ["NA", "None", "nan", "NULL", "n/a", "Null"]
    folder = write(tmp_path, [play()], [f"{u}\tf\t30\t{text}\t{text}" for u, text in zip(USERS, texts, strict=True)])
    users, facts, remarks = lastfm.read_profile(folder)
    assert users["country"].tolist() == users["registered"].tolist() == texts
    assert (facts.lines_in, facts.rows_out, facts.rejected, len(remarks)) == (6, 6, 0, 0)


def test_missing_strange_and_short_profile_rows(tmp_path: Path) -> None:
    people = ["a\tm\t22\tX\tY", "b\t\t\tY\t", "c\tf\t\tZ\t", "d\tm\t-1\tX\t", "e\tf\t107\tY\t", "f\tm\tX\tMay 1, 2006"]
    people += ["g\tn\t22.5\tX\t", "a\tf\t40\tX\t", "\tm\t20\tX\t", "h\tF\t5\tX\t", "i\tm\t99\tX\t", "j\tm\t4\tX\t"]
    users, facts, remarks = lastfm.read_profile(write(tmp_path, [play()], people))
    rows = users.astype(object).where(users.notna(), None).set_index("user_id")
    assert rows["gender"].to_dict() == {
        **{"a": "Male", "b": None, "c": "Female", "d": "Male", "e": "Female", "g": None, "h": None, "i": "Male"},
        "j": "Male",
    }
    assert rows["age"].to_dict() == dict(zip("abcdeghij", [22, None, None, None, None, None, 5, 99, None], strict=True))
    assert remarks.loc[~remarks["kept"], "line"].tolist() == [7, 9, 10]
    assert remarks.loc[remarks["kept"], "line"].tolist() == [5, 6, 8, 8, 11, 13]
    assert "4 fields; expected 5" in remarks.loc[remarks["line"] == 7, "reason"].item()
    assert "line 2 already" in remarks.loc[remarks["line"] == 9, "reason"].item()
    assert (facts.lines_in, facts.rows_out, facts.rejected) == (12, 9, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"user_000001\tm\t\tJapan\tAug 13, 2006\n", "line 1: .*is not the header"),
        (HEADER.replace("\t", ",").encode() + b"\nuser_000001,m,,Japan,x\n", "line 1: .*separated by tabs"),
        (HEADER.encode() + b"\n", "no usable line"),
        (b"", "line 1: '' is not the header"),
        (HEADER.encode() + b"\nuser_000001\tm\t\tCura\xe7ao\t\n", "not a text in UTF-8"),
        (f"{HEADER}\n".encode("utf-16"), "UTF-16"),
        (b"<!DOCTYPE html><html>", "web page"),
    ],
)
def test_another_file_in_the_place_of_the_profile(tmp_path: Path, content: bytes, message: str) -> None:
    (write(tmp_path, [play()]) / lastfm.PROFILE).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        lastfm.read_profile(tmp_path)
    assert lastfm.PROFILE in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.shared
def test_the_published_profile(shared_folder: Path) -> None:
    folder = shared_folder / "data" / "lastfm-1k"
    users, facts, _ = lastfm.read_profile(folder)
    with (folder / lastfm.PROFILE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    assert len(users) == len(rows) == facts.rows_out == 992
    for place, column in enumerate(["gender", "age", "country", "registered"], start=1):
        blank = sum(not row[place] for row in rows)
        strange = sum(bool(row[2]) and not AGES[0] <= int(row[2]) <= AGES[1] for row in rows) * (column == "age")
        assert blank > 0
        assert users[column].isna().sum() == blank + strange
    assert Counter(users["gender"].dropna()) == {
        "Male": sum(row[1] == "m" for row in rows),
        "Female": sum(row[1] == "f" for row in rows),
    }


@pytest.mark.shared
def test_ages_of_the_360k_profile(shared_folder: Path, tmp_path: Path) -> None:
    lines = (shared_folder / "data/nasty/lastfm360k_profile_age_outlier.tsv").read_text("utf-8").splitlines()
    users, _, remarks = lastfm.read_profile(write(tmp_path, [play()], lines))
    good = {line.split("\t")[0]: float(line.split("\t")[2]) for line in lines if line.split("\t")[2] in ("8", "11")}
    assert users.dropna(subset="age").set_index("user_id")["age"].to_dict() == good
    assert len(good) > 0
    assert len(remarks) == len(lines) - len(good)
    assert remarks["kept"].all()


@pytest.mark.shared
def test_profiles_without_anything(shared_folder: Path, tmp_path: Path) -> None:
    for name, count in (("all_missing", None), ("header_hash", 2)):
        source = shared_folder / f"data/nasty/lastfm1k_profile_{name}.tsv"
        folder = write(tmp_path / name, [play()])
        shutil.copyfile(source, folder / lastfm.PROFILE)
        users, facts, remarks = lastfm.read_profile(folder)
        assert len(users) == facts.lines_in == (count or len(source.read_text("utf-8").splitlines()) - 1)
        assert users["age"].isna().all()
        assert users["gender"].isna().all() == (name == "all_missing")
        assert remarks.empty


# --- The plays


@pytest.mark.shared
@pytest.mark.parametrize("name", ["double_quote", "no_track_id", "same_timestamp"])
def test_nasty_plays(shared_folder: Path, tmp_path: Path, name: str) -> None:
    content = (shared_folder / f"data/nasty/lastfm1k_plays_{name}.tsv").read_bytes()
    data = lastfm.read(write(tmp_path, content))
    lines = content.decode("utf-8").splitlines()
    assert rows_of(data) == expected(lines)
    assert data.remarks.empty
    complete = lastfm.read(tmp_path, complete=True)
    full = [line for line in lines if all(line.split("\t"))]
    assert rows_of(complete) == expected(full)
    assert complete.files == data.files


@pytest.mark.shared
@pytest.mark.parametrize("name", ["quotes", "missing_url"])
def test_odd_names_of_artists(shared_folder: Path, tmp_path: Path, name: str) -> None:
    lines = (shared_folder / f"data/nasty/hetrec_artists_{name}.dat").read_text("utf-8").splitlines()[1:]
    artists = [line.split("\t")[1] for line in lines]
    data = lastfm.read(write(tmp_path, [play(artist=artist, ids=("", "")) for artist in artists]))
    assert [row[2] for row in rows_of(data)] == artists
    assert any(artist.startswith('"') for artist in artists) == (name == "quotes")
    assert data.remarks.empty


@pytest.mark.shared
def test_the_published_plays(shared_folder: Path, tmp_path: Path) -> None:
    folder = shared_folder / "data" / "lastfm-1k"
    lines = (folder / lastfm.PLAYS).read_text("utf-8").split("\n")[:-1]
    data = lastfm.read(folder)
    assert len(lines) == data.files[1].lines_in == 5000
    assert rows_of(data) == expected(lines)
    assert data.rejects.empty
    counts = lastfm.activity(folder, tmp_path).set_index("user_id")["plays"]
    assert counts[counts > 0].to_dict() == Counter(line.split("\t")[0] for line in lines)
    assert len(counts) == 992
    assert len(data.items) == len({(row[2], row[3]) for row in rows_of(data)})


BAD = {
    "only\tfive\tfields\tin\tit": "5 fields; expected 6",
    play() + "\tx": "7 fields; expected 6",
    play(user=""): "no user",
    play(time=""): "no time",
    play(artist=""): "no artist name",
    play(track="  "): "no track name",
    play(time="1970-01-01T00:00:00Z"): "before Last.fm began",
    play(time="2001-12-31T23:59:59Z"): "before Last.fm began",
    play(time="+0000"): "not of the form",
    play(time="2008-02-30T10:00:00Z"): "not of the form",
    play(time="2007-02-29T10:00:00Z"): "not of the form",
    play(time="2008-01-01T24:00:00Z"): "not of the form",
    play(time="2008-01-01T10:00:00"): "not of the form",
    play(time="２００８-01-01T10:00:00Z"): "not of the form",
    play(user="user_009999"): "is not in userid-profile.tsv",
    "userid\ttimestamp\tartid\tartname\ttraid\ttraname": "not of the form",
    play().replace("\t", ","): "1 field; expected 6",
}


@pytest.mark.parametrize(("line", "reason"), BAD.items())
def test_a_bad_line_is_rejected_with_its_number_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    good = many(6)
    data = lastfm.read(write(tmp_path, [*good[:3], "", line, *good[3:]]))
    assert rows_of(data) == expected(good)
    (reject,) = data.rejects.itertuples()
    assert (reject.file, reject.line) == (lastfm.PLAYS, 5)
    assert reason in reject.reason
    facts = data.files[1]
    assert (facts.lines_in, facts.rows_out, facts.rejected) == (7, 6, 1)


def test_rejects_by_content_and_not_by_line_number(tmp_path: Path) -> None:
    lines = [*many(18), "only\tfive\tfields\tin\tit", play() + "\tx"]
    reasons = []
    for seed in range(5):
        random.Random(seed).shuffle(lines)
        data = lastfm.read(write(tmp_path, lines))
        assert {lines[line - 1] for line in data.rejects["line"]} == {"only\tfive\tfields\tin\tit", play() + "\tx"}
        assert rows_of(data) == expected([line for line in lines if line.count("\t") == 5])
        reasons.append(sorted(data.rejects["reason"]))
    assert reasons == [reasons[0]] * 5


def test_texts_that_look_missing_survive(tmp_path: Path) -> None:
    texts = ["NA", "None", "nan", "NULL", "n/a", "Null", '"', '"odd name" x', "'", "#", "\\N", "Кино", "椎名林檎"]
    data = lastfm.read(write(tmp_path, [play(artist=text, track=text, ids=("", "")) for text in texts]))
    assert [row[2:] for row in rows_of(data)] == [(text, text) for text in texts]


def test_times_outside_the_window_and_repeats_are_kept_with_a_remark(tmp_path: Path) -> None:
    lines = [
        play(time="2005-02-13T23:59:59Z"),
        play(time="2005-02-14T00:00:00Z"),
        play(time="2009-06-19T23:59:59Z"),
        play(time="2009-06-20T00:00:00Z"),
        play(time="2013-09-29T18:32:04Z"),
        play(time="2077-01-01T00:00:00Z"),
        play(),
        play(track="Another at the same second"),
        play(ids=("", "")),
        play(user=USERS[1]),
        play(),
        play(user=USERS[1]),
    ]
    data = lastfm.read(write(tmp_path, lines))
    assert rows_of(data) == expected(lines)
    assert data.remarks["kept"].all()
    assert dict(zip(data.remarks["line"], data.remarks["reason"].str[:24], strict=True)) == {
        **{1: "time 2005-02-13T23:59:59", 4: "time 2009-06-20T00:00:00", 5: "time 2013-09-29T18:32:04"},
        **{6: "time 2077-01-01T00:00:00", 9: "the same play as on line", 11: "the same play as on line"},
        12: "the same play as on line",
    }
    earlier = data.remarks["reason"].str.extract(r"the same play as on line (\d+);")[0].dropna().tolist()
    assert earlier == ["7", "7", "10"]
    assert lastfm.read(tmp_path, [USERS[1]]).remarks["line"].tolist() == [12]


def test_a_thousand_repeats_are_one_remark(tmp_path: Path) -> None:
    late = [play(time="2013-09-29T18:32:04Z", track=f"T {n}") for n in range(1000)]
    assert len(lastfm.read(write(tmp_path, [play()] * 1000)).remarks) == 999
    data = lastfm.read(write(tmp_path, late + [play()] * 1001))
    assert data.remarks["line"].tolist() == [1, 1002]
    assert data.remarks["reason"].str[:11].tolist() == ["1,000 plays", "1,000 plays"]


def test_complete_leaves_out_plays_without_an_id(tmp_path: Path) -> None:
    lines = [play(), play(ids=("", TRACK_ID)), play(ids=(ARTIST_ID, "")), play(ids=("", "")), play(track="B")]
    data = lastfm.read(write(tmp_path, lines), complete=True)
    assert rows_of(data) == expected([lines[0], lines[4]])
    assert data.remarks["line"].tolist() == [2]
    assert data.remarks["reason"].tolist() == ["3 plays without an artist id or a track id left out; the first here"]
    assert data.rejects.empty
    assert data.files == lastfm.read(tmp_path).files


def test_an_item_has_one_id_whichever_users_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path, many(60))
    everything = lastfm.read(folder)
    assert everything.items["item_id"].is_monotonic_increasing
    assert everything.items["item_id"].between(0, 2**63 - 1).all()
    for user in USERS[:3]:
        part = lastfm.read(folder, [user])
        rows = everything.interactions[everything.interactions["user_id"] == user].reset_index(drop=True)
        pd.testing.assert_frame_equal(part.interactions, rows)
        assert set(part.items["item_id"]) == set(rows["item_id"])
        assert part.users["user_id"].tolist() == [user]
        assert part.files == everything.files
    digest = hashlib.blake2b(b"Artist 0\x1fT 0", digest_size=8).digest()
    assert everything.interactions["item_id"].iloc[0] == int.from_bytes(digest, "big") >> 1
    assert lastfm.item_id("Artist 0", "T 0") == everything.interactions["item_id"].iloc[0]


def test_two_items_with_one_id_are_an_error(tmp_path: Path) -> None:
    lines = [play(artist="a\x1fb", track="c"), play(artist="a", track="b\x1fc")]
    with pytest.raises(DataError, match="the same id"):
        lastfm.read(write(tmp_path, lines))


def test_users_named(tmp_path: Path) -> None:
    folder = write(tmp_path, many())
    assert rows_of(lastfm.read(folder, [USERS[1], USERS[0], USERS[1]])) == rows_of(lastfm.read(folder, USERS[:2]))
    nobody = lastfm.read(folder, [])
    assert (len(nobody.interactions), len(nobody.items), len(nobody.users)) == (0, 0, 0)
    assert nobody.interactions.dtypes.equals(lastfm.read(folder).interactions.dtypes)
    assert len(lastfm.read(folder, [USERS[5]]).users) == 1
    with pytest.raises(ParameterError, match="'nobody' is not in"):
        lastfm.read(folder, ["nobody"])
    with pytest.raises(ParameterError, match="one text"):
        lastfm.read(folder, USERS[0])


def test_line_ends_marks_and_packing_change_nothing(tmp_path: Path) -> None:
    lines = [*many(10), "short\tline", "", *many(12)[10:]]
    plain = lastfm.read(write(tmp_path / "plain", lines), USERS[1:3])
    text = "\n".join(lines)
    variants = {
        "crlf": (text + "\n").replace("\n", "\r\n").encode(),
        "no last line end": text.encode(),
        "crlf, no last line end": text.replace("\n", "\r\n").encode(),
        "byte-order mark": b"\xef\xbb\xbf" + text.encode(),
        "blank lines at the end": (text + "\n\n  \n").encode(),
    }
    for name, content in variants.items():
        assert_same(lastfm.read(write(tmp_path / name, content), USERS[1:3]), plain)
    folder = write(tmp_path / "packed", lines)
    (folder / f"{lastfm.PLAYS}.gz").write_bytes(gzip.compress((folder / lastfm.PLAYS).read_bytes()))
    (folder / lastfm.PLAYS).unlink()
    for _ in range(2):
        packed = lastfm.read(folder, USERS[1:3], cache=tmp_path / "cache")
        pd.testing.assert_frame_equal(packed.interactions, plain.interactions)
        assert rejected(packed) == rejected(plain) == [(11, "2 fields; expected 6, separated by tabs")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no usable line"),
        (b"\n\n", "no usable line"),
        (play(artist="Bj\xf6rk").encode("latin-1") + b"\n", "line 1: not a text in UTF-8"),
        ("\n".join([*many(), play(), play(artist="Björk")]).encode("latin-1"), "line 22: not a text in UTF-8"),
        ("\n".join(many()).encode("utf-16"), "UTF-16"),
        ("\n".join([*many(), play(artist="a\x00b")]).encode(), "line 21: a NUL byte"),
        (b"\n<!DOCTYPE html>\n<html><body>Not found</body></html>", "line 1: a web page"),
        ("\n".join(many()).replace("\t", ",").encode(), "no usable line; line 1: 1 field; expected 6"),
        ("\n".join([*many(400), *["short\tline"] * 22]).encode(), "22 of 422 lines .* first is line 401: 2 fields"),
    ],
)
def test_another_file_in_the_place_of_the_plays(tmp_path: Path, content: bytes, message: str) -> None:
    folder = write(tmp_path, content)
    for call in (lastfm.read, lastfm.activity):
        with pytest.raises(DataError, match=message) as caught:
            call(folder)
        assert lastfm.PLAYS in str(caught.value)
        assert "\n" not in str(caught.value)


def test_up_to_a_twentieth_of_the_lines_may_be_rejects(tmp_path: Path) -> None:
    data = lastfm.read(write(tmp_path, [*many(418), *["short\tline"] * 22]))
    assert (data.files[1].rejected, data.files[1].rows_out) == (22, 418)


def test_absent_and_damaged_files(tmp_path: Path) -> None:
    folder = write(tmp_path, many())
    packed = folder / f"{lastfm.PLAYS}.gz"
    packed.write_bytes(gzip.compress((folder / lastfm.PLAYS).read_bytes())[:-20])
    assert len(lastfm.read(folder).interactions) == 20  # the plain one goes first
    (folder / lastfm.PLAYS).unlink()
    with pytest.raises(DataError, match="damaged"):
        lastfm.read(folder)
    packed.unlink()
    with pytest.raises(DataError, match="no such file"):
        lastfm.read(folder)
    (folder / lastfm.PROFILE).unlink()
    with pytest.raises(DataError, match="no such file"):
        lastfm.activity(folder)


def test_a_file_without_line_ends_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lastfm, "_BLOCK", 1000)
    with pytest.raises(DataError, match="a line of more than 1,000 bytes"):
        lastfm.read(write(tmp_path, b"x" * 5000))


# --- The account, whatever the damage

DAMAGE = st.sampled_from(
    [
        "",
        "  ",
        "\t",
        "\t\t\t\t\t",
        "\r",
        "x",
        "\x0b",
        "<html>",
        *BAD,
        play(time="2013-01-01T00:00:00Z"),
        play(ids=("", "")),
    ]
)
LINES = st.lists(
    st.one_of(
        st.builds(
            play,
            st.sampled_from([*USERS, "x"]),
            st.sampled_from(["2008-05-04T23:08:57Z", "2008-02-29T00:00:00Z", "2099-01-01T00:00:00Z", "1970"]),
            st.text("aéЖ\"' ,\x1c\x85\xa0", max_size=4),
            st.text("bß\\\r\u2028", max_size=3),
        ),
        DAMAGE,
    ),
    max_size=20,
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def plain_reading(text: str) -> tuple[list[tuple[str, int, str, str]], list[int]]:
    """Read the slow way: the rows, and the numbers of the rejected lines."""
    rows, bad = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        cells = line.removesuffix("\r").split("\t")
        if not line.strip():
            continue
        good = len(cells) == 6 and cells[0] in USERS and TIME.fullmatch(cells[1]) and cells[1][:4] >= "2002"
        try:
            moment = seconds(cells[1]) if good else 0
        except ValueError:
            good = False
        if good and cells[3].strip() and cells[5].strip():
            rows.append((cells[0], moment, cells[3], cells[5]))
        else:
            bad.append(number)
    return rows, bad


@given(lines=LINES, line_end=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), block=st.sampled_from([400, 1 << 20]))
def test_no_line_is_lost(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], line_end: str, last: bool, block: int
) -> None:
    lines = [line for line in lines if not line.startswith("<")] + [play(USERS[5])]
    text = line_end.join(lines) + line_end * last
    folder = write(tmp_path_factory.mktemp("plays"), text.encode())
    rows, bad = plain_reading(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lastfm, "_BLOCK", block)
        data = lastfm.read(folder)
        part = lastfm.read(folder, USERS[:2])
        counts = lastfm.activity(folder).set_index("user_id")["plays"]
    assert rows_of(data) == rows
    assert data.rejects["line"].tolist() == part.rejects["line"].tolist() == bad
    assert rows_of(part) == [row for row in rows if row[0] in USERS[:2]]
    facts = data.files[1]
    assert facts == part.files[1]
    assert facts.lines_in == facts.rows_out + facts.rejected == sum(bool(line.strip()) for line in text.split("\n"))
    assert counts[counts > 0].to_dict() == Counter(row[0] for row in rows)


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = many(300)
    lines[100:100] = ["short", "", play(user="x")]
    random.Random(1).shuffle(lines)
    folder = write(tmp_path, lines)
    parts = [None, USERS[1:2], USERS[:2]]
    once = [lastfm.read(folder, users) for users in parts]
    for block in (200, 500, 5000):
        monkeypatch.setattr(lastfm, "_BLOCK", block)
        for users, data in zip(parts, once, strict=True):
            assert_same(lastfm.read(folder, users), data)


def test_a_block_with_nothing_odd_gives_what_line_by_line_reading_gives(tmp_path, monkeypatch):
    lines = [*many(60), play(time="2008-01-01T10:00:00+02:00"), play(time="2008-01-01 10:00:00Z"), play(ids=("", ""))]
    folder = write(tmp_path, lines)
    for complete in (False, True):
        fast = lastfm.read(folder, USERS[:3], complete=complete)
        with monkeypatch.context() as patch:
            patch.setattr(lastfm, "_line_by_line", lambda *_: pytest.fail("the block was taken for odd"))
            assert_same(lastfm.read(folder, USERS[:3], complete=complete), fast)
        with monkeypatch.context() as patch:
            patch.setattr(lastfm, "_fast", lambda *_: None)
            assert_same(lastfm.read(folder, USERS[:3], complete=complete), fast)


@pytest.mark.parametrize("block", [300, 1 << 20])
@pytest.mark.parametrize("bad", [play(track="\xe9").encode("latin-1"), play(track="a\0b").encode()])
def test_the_line_of_what_no_text_may_hold_is_told_wherever_it_stands(tmp_path, monkeypatch, block, bad):
    lines = [line.encode() for line in many(2000)]
    lines.insert(1500, bad)
    folder = write(tmp_path, b"\n".join(lines))
    monkeypatch.setattr(lastfm, "_BLOCK", block)
    monkeypatch.setattr(lastfm, "_SMALL", 200)
    with pytest.raises(DataError, match=r"line 1501: (not a text in UTF-8|a NUL byte)"):
        lastfm.activity(folder)


# --- The cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [*many(40), "short\tline", play(time="2013-09-29T18:32:04Z"), play(ids=("", "")), play()]
    return write(tmp_path / "raw", lines)


@pytest.mark.parametrize("users", [None, USERS[:2], []])
@pytest.mark.parametrize("complete", [False, True])
def test_the_same_with_and_without_cache(
    folder: Path, tmp_path: Path, users: list[str] | None, complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    plain = lastfm.read(folder, users, complete=complete)
    counts = lastfm.activity(folder)
    assert_same(lastfm.read(folder, users, complete=complete, cache=cache), plain)
    assert not list(cache.glob("*.part"))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the file of plays was read again")

    pd.testing.assert_frame_equal(lastfm.activity(folder, cache), counts)
    monkeypatch.setattr(lastfm, "_scan", never)
    assert_same(lastfm.read(folder, users, complete=complete, cache=cache), plain)
    pd.testing.assert_frame_equal(lastfm.activity(folder, cache), counts)


def test_a_stale_cache_is_made_anew(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    lastfm.read(folder, USERS[:2], cache=cache)
    names = sorted(cache.iterdir())
    file = folder / lastfm.PLAYS
    changed = file.read_text("utf-8").replace("T 1\n", "T X\n")
    assert len(changed.encode()) == file.stat().st_size
    file.write_text(changed, encoding="utf-8", newline="")
    os.utime(file, ns=(1, 1))
    data = lastfm.read(folder, USERS[:2], cache=cache)
    assert "T X" in set(data.items["title"])
    assert_same(data, lastfm.read(folder, USERS[:2]))
    profile = folder / lastfm.PROFILE
    profile.write_text(profile.read_text("utf-8").replace(f"{USERS[0]}\tm", f"{USERS[0]}0\tm"), encoding="utf-8")
    data = lastfm.read(folder, USERS[1:2], cache=cache)
    assert data.files[1].rejected > 1
    assert_same(data, lastfm.read(folder, USERS[1:2]))
    assert set(names) < set(cache.iterdir())


def test_another_version_of_the_reader_makes_the_cache_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lastfm.activity(folder, tmp_path / "cache")
    monkeypatch.setattr(lastfm, "_VERSION", -1)
    monkeypatch.setattr(lastfm, "_scan", lambda *_, **__: pytest.fail("made anew"))
    with pytest.raises(pytest.fail.Exception, match="made anew"):
        lastfm.activity(folder, tmp_path / "cache")


def test_a_damaged_cache_is_made_anew(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    plain, counts = lastfm.read(folder, USERS[:2]), lastfm.activity(folder)
    lastfm.read(folder, USERS[:2], cache=cache)
    lastfm.activity(folder, cache)
    files = sorted(cache.iterdir())
    assert len(files) == 4
    good = {file: file.read_bytes() for file in files}
    for file in files:
        content = good[file]
        flipped = bytearray(content)
        flipped[len(content) // 3] ^= 0x55
        for damaged in (b"", content[: len(content) // 2], b"PAR1 nothing PAR1", bytes(flipped), good[files[0]]):
            file.write_bytes(damaged)
            assert_same(lastfm.read(folder, USERS[:2], cache=cache), plain)
            pd.testing.assert_frame_equal(lastfm.activity(folder, cache), counts)
        file.unlink()
        assert_same(lastfm.read(folder, USERS[:2], cache=cache), plain)
        pd.testing.assert_frame_equal(lastfm.activity(folder, cache), counts)
        assert file.is_file()


def test_a_cache_that_cannot_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(FairnbError, match="cannot hold the cache") as caught:
        lastfm.read(folder, cache=tmp_path / "taken")
    assert "\n" not in str(caught.value)


def test_a_file_that_changes_while_it_is_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract = lastfm._scan

    def meddle(*args: object, **options: object) -> object:
        os.utime(folder / lastfm.PLAYS, ns=(1, 1))
        return extract(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(lastfm, "_scan", meddle)
    with pytest.raises(DataError, match="changed while it was read"):
        lastfm.read(folder)
