"""The released files and the tables made from them, on made-up files in the released format.

What needs the real files skips where the folder `shared` is not beside the checkout.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from fairnb import paths
from fairnb.datasets.released import K, read_items, read_replies, read_split, read_text_table
from fairnb.errors import DataError, FairnbError, ParameterError, ProtocolError
from fairnb.places import LETTERS
from fairnb.released import (
    AGREEMENT_FILE,
    COLUMNS,
    MATCHING_FILE,
    PLACES_FILES,
    PLACES_KEY,
    SPLIT_FILE,
    TRAIN_FILE,
    TRUTHS_FILE,
    import_released,
    read_benefit_file,
    read_benefits,
    read_counts,
    read_places,
)
from fairnb.released_lists import CONDITIONS
from fairnb.settings import BENEFIT_FILES, ICLS, SAMPLINGS

LASTFM = "results/final_df_foundItemIds_lastFM1k_fullInteraction_80users_nTrack10_lContext5_top3.csv"
ML1M = "results/final_df_foundItemIds_ml100k_fullInteraction_80users_nTrack10_lContext5_top3.csv"
ITEMS = "data/df_item_ml-1m.csv"
TRAIN = [f"data/train_data_ml1m_fullInteraction_80users_part_{part}.csv" for part in (1, 2, 3, 4)]
TEST = "data/test_data_ml1m_fullInteraction_80users.csv"
COUNTS = {AGREEMENT_FILE, MATCHING_FILE, TRUTHS_FILE}
TABLES = {*BENEFIT_FILES.values(), TRAIN_FILE, SPLIT_FILE, *PLACES_FILES.values(), *COUNTS}

NEUTRAL = "recommendation_for_prompt_counterfact-False_sample-random_userDemo-no_info_interact-zero-shot"
FLIPPED = "recommendation_for_prompt_counterfact-True_sample-recent-frequent_userDemo-age-group_interact-ICL-Few-shot-2"

Rows = list[dict[str, str]]


@dataclass
class Release:
    """A small released folder: change its tables, then write it."""

    tables: dict[str, Rows] = field(default_factory=dict)

    def write(self, folder: Path, *, line_end: str = "\n", encoding: str = "utf-8") -> Path:
        for name, rows in self.tables.items():
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.getvalue().replace("\n", line_end).encode(encoding))
        return folder

    def rename(self, name: str, old: str, new: str) -> None:
        self.tables[name] = [
            {new if key == old else key: cell for key, cell in row.items()} for row in self.tables[name]
        ]

    def drop(self, name: str, column: str) -> None:
        self.tables[name] = [{key: cell for key, cell in row.items() if key != column} for row in self.tables[name]]


def release() -> Release:
    young, old = "Early Adult (≤{} yrs)", "Mid Adult (>{} yrs)"
    people = [("11", "Male", young), ("7", "Female", old), ("23", "Female", young)]
    songs = [('[[\'"Aa" by X\\n"Bb" by Y\']]', "[[1], [2], [1]]"), ("[['1. \"Cc\"']]", "[[9]]"), ("[['  ']]", "[]")]
    films = [
        ('1. "Aaa Film (1990)" - Drama\n2. Bbb, The (1991)\n3. aaa film', "[101, 101, 102]"),
        ("- The Ccc\n- Aaa Film (1990)\n- Unknown (2020)", "[103]"),
        ("I'm sorry, but I can't recommend films.", "[]"),
    ]
    lastfm: Rows = []
    ml1m: Rows = []
    for (user, gender, age), song, film in zip(people, songs, films, strict=True):
        head = {"userId": user, "gender": gender}
        lastfm.append({**head, "age_group": age.format(24), "itemIds": "[1, 2, 3]"})
        ml1m.append({**head, "age_group": age.format(32), "movieIds": "[101, 102]"})
        for name in (NEUTRAL, FLIPPED):
            lastfm[-1] |= {name: song[0], f"{name}_itemIds": song[1]}
            ml1m[-1] |= {name: film[0], f"{name}_itemIds": film[1]}
    titles = ["Aaa Film (1990)", "Bbb, The (1991)", "Ccc, The (1992)", "NA", "None (1993)"]
    plays = [
        {"userId": user, "itemId": "101", "rating": "4", "timestamp": f"{978146700 + n}"}
        for n, (user, *_) in enumerate(people)
    ]
    return Release(
        {
            LASTFM: lastfm,
            ML1M: ml1m,
            ITEMS: [{"itemId": str(101 + n), "title": title, "genres": "Drama|War"} for n, title in enumerate(titles)],
            **{name: [dict(play)] for name, play in zip(TRAIN, [*plays, plays[0] | {"itemId": "102"}], strict=True)},
            TEST: [{"": str(n), **play, "itemId": "103"} for n, play in enumerate(plays)],
        }
    )


def refusal(of: Callable[[], object], kind: type[FairnbError] = DataError) -> str:
    """The message of the error that a call must end in: one line."""
    with pytest.raises(kind) as caught:
        of()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) > 20
    return message


# ---------------------------------------------------------------- reading the result files


def test_replies_are_read_as_they_stand(tmp_path: Path) -> None:
    folder = release().write(tmp_path)
    lastfm = read_replies(folder, "lastfm1k")
    assert lastfm.dataset == "lastfm1k"
    assert lastfm.users.to_dict("list") == {
        "user_id": [11, 7, 23],
        "user": [1, 2, 3],
        "gender": ["Male", "Female", "Female"],
        "age_group": ["Young", "Old", "Young"],
    }
    assert lastfm.truth.to_dict("list") == {"user_id": [11] * 3 + [7] * 3 + [23] * 3, "item_id": [1, 2, 3] * 3}
    assert lastfm.replies["reply"].tolist() == list(range(6))
    assert lastfm.replies["user_id"].tolist() == [11, 7, 23] * 2
    assert lastfm.replies["text"].tolist() == ['"Aa" by X\n"Bb" by Y', '1. "Cc"', "  "] * 2
    assert set(lastfm.replies["status"]) == {"ok"}
    where = ["counterfactual", "sampling", "demographics", "icl"]
    assert lastfm.replies[where].iloc[0].tolist() == ["no", "random", "none", "0-shot"]
    assert lastfm.replies[where].iloc[5].tolist() == ["yes", "recent-frequent", "age", "ICL-2"]
    assert lastfm.rankings.values.tolist() == [
        *([0, 1, 1], [0, 2, 2], [0, 3, 1], [1, 1, 9]),
        *([3, 1, 1], [3, 2, 2], [3, 3, 1], [4, 1, 9]),
    ]
    assert lastfm.unread == []

    ml1m = read_replies(folder, "ml1m")
    assert ml1m.users["age_group"].tolist() == ["Young", "Old", "Young"]
    assert ml1m.replies["text"].tolist()[1] == "- The Ccc\n- Aaa Film (1990)\n- Unknown (2020)"
    assert ml1m.rankings.values.tolist()[:4] == [[0, 1, 101], [0, 2, 101], [0, 3, 102], [1, 1, 103]]


def test_conditions_without_a_column_are_listed(tmp_path: Path) -> None:
    absent = read_replies(release().write(tmp_path), "ml1m").absent
    assert len(absent) == len(set(absent)) == 72 - 2
    assert "counterfactual no, sampling random, demographics gender, 0-shot" in absent
    assert "counterfactual no, sampling random, demographics none, 0-shot" not in absent
    assert "counterfactual yes, sampling recent-frequent, demographics age, ICL-2" not in absent


def test_items_and_split(tmp_path: Path) -> None:
    folder = release().write(tmp_path)
    items = read_items(folder)
    assert items.to_dict("list") == {
        "item_id": [101, 102, 103, 104, 105],
        "title": ["Aaa Film (1990)", "Bbb, The (1991)", "Ccc, The (1992)", "NA", "None (1993)"],
    }
    train, test = read_split(folder)
    assert train.columns.tolist() == test.columns.tolist() == ["user_id", "item_id", "rating", "timestamp"]
    assert train.values.tolist()[-1] == [11, 102, 4, 978146700]
    assert (len(train), len(test)) == (4, 3)


@pytest.mark.parametrize("text", ["NA", "None", "nan", "NULL", "n/a", "null", "N/A", "", "#N/A", "1e5", "007", "True"])
def test_texts_that_look_like_something_else_stay_texts(tmp_path: Path, text: str) -> None:
    made = release()
    made.tables[ITEMS][0]["title"] = text
    made.tables[ML1M][0][NEUTRAL] = text
    folder = made.write(tmp_path)
    assert read_items(folder)["title"].tolist()[0] == text
    assert read_replies(folder, "ml1m").replies["text"].tolist()[0] == text


def test_crlf_files_and_files_with_a_mark_of_order_read_alike(tmp_path: Path) -> None:
    plain = release().write(tmp_path / "plain")
    windows = release().write(tmp_path / "windows", line_end="\r\n", encoding="utf-8-sig")
    for dataset in ("lastfm1k", "ml1m"):
        one, other = read_replies(plain, dataset), read_replies(windows, dataset)
        pd.testing.assert_frame_equal(one.users, other.users)
        pd.testing.assert_frame_equal(one.truth, other.truth)
        pd.testing.assert_frame_equal(one.rankings, other.rankings)
        pd.testing.assert_frame_equal(one.replies.drop(columns="text"), other.replies.drop(columns="text"))
        assert one.replies["text"].tolist() == [text.replace("\r\n", "\n") for text in other.replies["text"]]
    import_released(plain, tmp_path / "one")
    import_released(windows, tmp_path / "other")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


BAD_IDS = {
    "text": "three",
    "cut off": "[[1], [2",
    "float": "[[1], [2.0]]",
    "true": "[[1], [True]]",
    "text of a number": "[['1']]",
    "none": "[[None]]",
    "negative": "[[-1]]",
    "beyond 64 bits": "[[9223372036854775808]]",
    "beyond what int() takes": f"[[{'9' * 5000}]]",
    "dict": "{1: 2}",
    "unhashable": "{[]: 1}",
    "tuple": "(1, 2)",
    "two in a list": "[[1, 2], [3]]",
    "nested too deep": "[" * 3000 + "]" * 3000,
    "nothing": "",
    "nan": "nan",
    "null byte": "[\x00]",
}
BAD_TEXTS = {
    "plain text": "1. Song",
    "cut off": "[['Song",
    "two texts": "[['Song', 'Other']]",
    "number": "[[1]]",
    "empty list": "[]",
    "empty": "",
    "NA": "NA",
}


@pytest.mark.parametrize("cell", BAD_IDS.values(), ids=BAD_IDS.keys())
def test_an_id_list_that_does_not_parse_is_counted_and_is_no_empty_list(tmp_path: Path, cell: str) -> None:
    made = release()
    made.tables[LASTFM][1][f"{FLIPPED}_itemIds"] = cell
    found = read_replies(made.write(tmp_path), "lastfm1k")
    (said,) = found.unread
    assert said.startswith(f"line 3, column {FLIPPED}_itemIds: ")
    assert len(said) < 300
    assert found.replies["status"].tolist() == ["ok", "ok", "ok", "ok", "unparsed", "ok"]
    assert 4 not in found.rankings["reply"].tolist()
    assert len(found.rankings) == 7


@pytest.mark.parametrize("cell", BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_a_reply_that_does_not_parse_is_counted_and_is_no_empty_list(tmp_path: Path, cell: str) -> None:
    made = release()
    made.tables[LASTFM][0][NEUTRAL] = cell
    found = read_replies(made.write(tmp_path), "lastfm1k")
    (said,) = found.unread
    assert said.startswith(f"line 2, column {NEUTRAL}: ")
    assert found.replies["status"].tolist() == ["unparsed", *["ok"] * 5]
    assert found.replies["text"].tolist()[0] == ""
    assert 0 not in found.rankings["reply"].tolist()


def test_both_cells_of_a_reply_are_listed_and_the_reply_counts_once(tmp_path: Path) -> None:
    made = release()
    made.tables[LASTFM][0] |= {NEUTRAL: "?", f"{NEUTRAL}_itemIds": "?"}
    found = read_replies(made.write(tmp_path), "lastfm1k")
    assert [said.split(":")[0] for said in found.unread] == [
        f"line 2, column {NEUTRAL}",
        f"line 2, column {NEUTRAL}_itemIds",
    ]
    assert (found.replies["status"] == "unparsed").sum() == 1


def test_the_line_is_the_one_an_editor_shows(tmp_path: Path) -> None:
    made = release()
    made.tables[ML1M][1][f"{NEUTRAL}_itemIds"] = "?"
    folder = made.write(tmp_path)
    (said,) = read_replies(folder, "ml1m").unread
    line = int(said.split(",")[0].removeprefix("line "))
    # Below the header stands a row with two replies of three lines each.
    assert line == 2 + 5
    assert (folder / ML1M).read_text("utf-8").split("\n")[line - 1].startswith("7,Female,")


def test_an_odd_backslash_reads_the_same_under_any_warning_filter(tmp_path: Path) -> None:
    made = release()
    made.tables[LASTFM][0][NEUTRAL] = r"[['1. A\d Song']]"
    folder = made.write(tmp_path)
    for action in ("error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert read_replies(folder, "lastfm1k").replies["text"].tolist()[0] == r"1. A\d Song"


@pytest.mark.parametrize("column", ["itemIds", NEUTRAL, f"{NEUTRAL}_itemIds"])
def test_code_in_a_cell_is_never_run(tmp_path: Path, column: str) -> None:
    marker = tmp_path / "marker"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    eval(code)  # It would work if anything evaluated it.
    assert marker.exists()
    marker.unlink()
    made = release()
    made.tables[LASTFM][0][column] = code
    folder = made.write(tmp_path / "files")
    if column == "itemIds":
        assert "line 2, column itemIds" in refusal(lambda: read_replies(folder, "lastfm1k"))
    else:
        assert len(read_replies(folder, "lastfm1k").unread) == 1
    assert not marker.exists()


# ---------------------------------------------------------------- files that are not what they should be

Damage = Callable[[Release], None]


def edit(name: str, row: int, column: str, cell: str) -> Damage:
    def change(made: Release) -> None:
        made.tables[name][row][column] = cell

    return change


def repeat(name: str, row: int) -> Damage:
    return lambda made: made.tables[name].append(dict(made.tables[name][row]))


def rename(name: str, old: str, new: str) -> Damage:
    return lambda made: made.rename(name, old, new)


def drop(name: str, column: str) -> Damage:
    return lambda made: made.drop(name, column)


def without_conditions(made: Release) -> None:
    for column in (NEUTRAL, FLIPPED):
        made.drop(ML1M, column)
        made.drop(ML1M, f"{column}_itemIds")


def without_user(made: Release) -> None:
    made.tables[TEST] = made.tables[TEST][1:]


DAMAGES: dict[str, tuple[Damage, list[str]]] = {
    "renamed user column": (rename(LASTFM, "userId", "user"), [LASTFM, "no column userId"]),
    "renamed truth column": (rename(LASTFM, "itemIds", "movieIds"), [LASTFM, "no column itemIds"]),
    "missing gender": (drop(ML1M, "gender"), [ML1M, "no column gender"]),
    "missing age group": (drop(ML1M, "age_group"), [ML1M, "no column age_group"]),
    "reply without ids": (drop(ML1M, f"{NEUTRAL}_itemIds"), [ML1M, f"no column {NEUTRAL}_itemIds"]),
    "ids without reply": (drop(ML1M, FLIPPED), [ML1M, f"no column {FLIPPED};"]),
    "no condition at all": (without_conditions, [ML1M, "no column recommendation_for_prompt"]),
    "renamed condition": (
        rename(ML1M, NEUTRAL, NEUTRAL.replace("zero-shot", "0-shot")),
        [ML1M, "interact-0-shot", "no condition of the design"],
    ),
    "unknown sampling": (rename(ML1M, NEUTRAL, NEUTRAL.replace("random", "newest")), [ML1M, "sample-newest"]),
    "unknown gender": (edit(LASTFM, 1, "gender", "female"), [LASTFM, "line 3, column gender", "'female'", "Female"]),
    "missing gender cell": (edit(LASTFM, 0, "gender", ""), [LASTFM, "line 2, column gender", "''"]),
    "age of the other data set": (
        edit(LASTFM, 2, "age_group", "Early Adult (≤32 yrs)"),
        [LASTFM, "line 4, column age_group", "≤32", "≤24"],
    ),
    "user twice": (repeat(LASTFM, 0), [LASTFM, "line 5, column userId", "user 11 stands twice"]),
    "user without number": (edit(LASTFM, 0, "userId", "user_11"), [LASTFM, "line 2, column userId", "'user_11'"]),
    "user beyond 64 bits": (edit(LASTFM, 0, "userId", "9" * 30), [LASTFM, "line 2, column userId"]),
    "truth that does not parse": (edit(LASTFM, 1, "itemIds", "[1, 2"), [LASTFM, "line 3, column itemIds", "'[1, 2'"]),
    "truth of texts": (edit(ML1M, 0, "movieIds", "['1']"), [ML1M, "line 2, column movieIds"]),
    "truth with True": (edit(LASTFM, 0, "itemIds", "[1, True]"), [LASTFM, "line 2, column itemIds"]),
    "item without number": (edit(ITEMS, 1, "itemId", "1.5"), [ITEMS, "line 3, column itemId", "'1.5'"]),
    "items without titles": (rename(ITEMS, "title", "name"), [ITEMS, "no column title"]),
    "item twice": (edit(ITEMS, 1, "itemId", "101"), ["item_id 101", "one row per item"]),
    "train without items": (rename(TRAIN[2], "itemId", "movieId"), [TRAIN[2], "no column itemId"]),
    "letters in a timestamp": (edit(TEST, 2, "timestamp", "20O1"), [TEST, "line 4, column timestamp"]),
    "test without a user": (without_user, ["test data of ml1m", "user 11", "1 of 3"]),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_named_in_one_line_and_nothing_is_written(tmp_path: Path, damage: Damage, said: list[str]) -> None:
    made = release()
    damage(made)
    folder = made.write(tmp_path / "files")
    message = refusal(lambda: import_released(folder, tmp_path / "to"))
    for part in said:
        assert part in message.replace("\\", "/")
    assert not (tmp_path / "to").exists()


def doubled(text: str) -> str:
    header, _, body = text.partition("\n")
    columns = header.split(",")
    return ",".join([*columns[:-1], columns[-2]]) + "\n" + body


SPOILT: dict[str, tuple[Callable[[str], bytes] | None, str]] = {
    "absent": (None, "no such file"),
    "empty": (lambda text: b"", "empty"),
    "header only": (lambda text: text.partition("\n")[0].encode(), "no rows below the header"),
    "latin-1": (lambda text: (text.replace("≤", "<") + "é\n").encode("latin-1"), "not a text in UTF-8"),
    "cut off": (lambda text: (text + '"11,').encode(), "not a CSV file"),
    "short row": (lambda text: (text + "11\n").encode(), "1 fields; expected"),
    "long row": (lambda text: (text + "1," * 200 + "\n").encode(), "201 fields; expected"),
    "column twice": (lambda text: doubled(text).encode(), "stands twice"),
}


@pytest.mark.parametrize("name", [LASTFM, ML1M, ITEMS, TRAIN[0], TRAIN[3], TEST])
@pytest.mark.parametrize(("spoil", "said"), SPOILT.values(), ids=SPOILT.keys())
def test_file_that_is_no_table_is_named_and_nothing_is_written(
    tmp_path: Path, name: str, spoil: Callable[[str], bytes] | None, said: str
) -> None:
    folder = release().write(tmp_path / "files")
    file = folder / name
    text = file.read_text("utf-8")
    file.unlink()
    if spoil:
        file.write_bytes(spoil(text))
    message = refusal(lambda: import_released(folder, tmp_path / "to"))
    assert str(file) in message
    assert said in message
    assert "fairnb data get fairevalllm" in message
    assert not (tmp_path / "to").exists()


def test_folder_in_place_of_a_file_is_no_file(tmp_path: Path) -> None:
    folder = release().write(tmp_path)
    (folder / ITEMS).unlink()
    (folder / ITEMS).mkdir()
    assert "df_item_ml-1m.csv: no such file" in refusal(lambda: read_items(folder))


def test_lines_are_counted_through_cells_of_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(b'a,b\r\n"1\r\n2",x\r\n\r\n3,"y\nz"\r\n4,w\r\n')
    table = read_text_table(file, "do something")
    assert table.index.tolist() == [2, 5, 7]
    assert table.to_dict("list") == {"a": ["1\r\n2", "3", "4"], "b": ["x", "y\nz", "w"]}
    file.write_bytes(b'a,b\r\n"1\r\n2",x\r\n3,4,5\r\n')
    assert "line 4: 3 fields; expected 2" in refusal(lambda: read_text_table(file, "do something"))
    file.write_bytes(b"a,b\n1,2\n3,\xe9\n")
    message = refusal(lambda: read_text_table(file, "do something"))
    assert "line 3: not a text in UTF-8" in message
    assert message.endswith("; do something")


def test_unreadable_file_is_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.csv"
    file.write_text("a\n1\n", encoding="utf-8")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    # The administrator may read everything, so the refusal is played.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot be read (Permission denied)" in refusal(lambda: read_text_table(file, "do something"))


def test_unknown_data_set(tmp_path: Path) -> None:
    message = refusal(lambda: read_replies(tmp_path, "ml100k"), ParameterError)
    assert "dataset = 'ml100k'" in message
    assert "lastfm1k, ml1m" in message


# ---------------------------------------------------------------- the import


def test_what_stands_on_each_place_is_written_as_words(tmp_path: Path) -> None:
    import_released(release().write(tmp_path / "files"), tmp_path / "to")
    lastfm = read_places("lastfm1k", tmp_path / "to")
    assert lastfm.columns.tolist() == [*PLACES_KEY, "ids_file"]
    # Ids [1, 2, 1] against [1, 2, 3]; [9]; none.
    assert lastfm["ids_file"].tolist() == ["hhH", "m", ""] * 2
    ml1m = read_places("ml1m", tmp_path / "to")
    assert ml1m["ids_file"].tolist()[:3] == ["hHh", "m", ""]  # 101, 101, 102 and 103 against 101, 102
    assert ml1m["ids_heldout"].tolist()[:3] == ["mMm", "h", ""]  # against 103
    assert ml1m["titles_file"].tolist()[:3] == ["hhH", "mh", ""]  # 101, 102, 101 and 103, 101; Unknown is behind them
    assert ml1m["titles_heldout"].tolist()[:3] == ["mmM", "hm", ""]


def test_lists_are_compared_within_a_user_and_scenario(tmp_path: Path) -> None:
    made = release()
    other = NEUTRAL.replace("no_info", "gender")
    for row, text in zip(made.tables[ML1M], ("Aaa Film (1990)\nBbb, The", "The Ccc\nDdd", ""), strict=True):
        row |= {other: text, f"{other}_itemIds": "[]"}
    import_released(made.write(tmp_path / "files"), tmp_path / "to")
    table = read_counts(AGREEMENT_FILE, tmp_path / "to")
    assert len(table) == 2 * 9 * math.comb(8, 2)
    one = table[(table["dataset"] == "ml1m") & (table["users"] > 0)]
    assert one[["sampling", "icl", "first", "second"]].values.tolist() == [["random", "0-shot", "none/no", "gender/no"]]
    # {aaa 1990, bbb 1991, aaa} and {aaa 1990, bbb}: 1 of 4; {ccc, aaa, unknown} and {ccc, ddd}: 1 of 4; nothing at all.
    assert one["users"].tolist() == [2]
    assert one["jaccard"].tolist() == [pytest.approx(0.25)]
    assert one["equal"].tolist() == [0]
    assert table.loc[table["users"] == 0, ["jaccard", "sd", "equal"]].isna().all(axis=None)


def test_ids_and_titles_are_counted_where_they_stand_side_by_side(tmp_path: Path) -> None:
    import_released(release().write(tmp_path / "files"), tmp_path / "to")
    table = read_counts(MATCHING_FILE, tmp_path / "to").set_index(["dataset", "check"])[["places", "of"]]
    # Films: one list of three has three ids (101, 101, 102 beside 101, 102, 101), asked twice.
    assert table.loc[("ml1m", "places with an id beside a title")].tolist() == [6, 12]
    assert table.loc[("ml1m", "title is in the catalogue")].tolist() == [6, 6]
    assert table.loc[("ml1m", "the id is that title's")].tolist() == [2, 6]
    # Songs: the list with one id has one title; two titles have three ids.
    assert table.loc[("lastfm1k", "places with an id beside a title")].tolist() == [2, 6]
    assert table.loc[("lastfm1k", "the id stands more often beside another title")].tolist() == [0, 2]


def test_the_ground_truth_is_compared_with_the_split(tmp_path: Path) -> None:
    import_released(release().write(tmp_path / "files"), tmp_path / "to")
    table = read_counts(TRUTHS_FILE, tmp_path / "to").set_index("dataset")
    assert table.loc["ml1m"].tolist() == [3, 6, 4, 4, 3, 0, 1]
    assert table.loc["lastfm1k", ["users", "items"]].tolist() == [3, 9]
    assert table.loc["lastfm1k"].iloc[2:].isna().all()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ml1m_places.csv", ",hHh,", ",hXh,", "line 2, column ids_file: 'hXh'; expected a word of places"),
        ("ml1m_places.csv", "1,Male", "1,Mann", "line 2, column gender: 'Mann'; expected one of Male, Female"),
        ("lastfm1k_places.csv", "ids_file", "ids", "expected the columns user, gender"),
    ],
)
def test_a_damaged_table_of_places_is_told(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    import_released(release().write(tmp_path / "files"), tmp_path)
    file = tmp_path / name
    file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")
    assert message in refusal(lambda: read_places(name.partition("_")[0], tmp_path))


def test_a_count_that_is_no_number_is_told(tmp_path: Path) -> None:
    import_released(release().write(tmp_path / "files"), tmp_path)
    file = tmp_path / TRUTHS_FILE
    file.write_text(file.read_text("utf-8").replace("lastfm1k,3", "lastfm1k,three"), "utf-8")
    assert "line 2, column users: 'three'; expected a number or nothing" in refusal(
        lambda: read_counts(TRUTHS_FILE, tmp_path)
    )
    with pytest.raises(ParameterError, match="dataset = 'ml100k': unknown"):
        read_places("ml100k", tmp_path)


def test_import_scores_by_each_protocol(tmp_path: Path) -> None:
    imported = import_released(release().write(tmp_path / "files"), tmp_path / "to")
    six = [*BENEFIT_FILES.values(), TRAIN_FILE, *PLACES_FILES.values()]
    pairs = 2 * 9 * math.comb(8, 2)
    counted = {AGREEMENT_FILE: pairs, MATCHING_FILE: 8, TRUTHS_FILE: 2}
    assert imported.written == dict.fromkeys(six, 6) | {SPLIT_FILE: 2} | counted
    assert imported.unread == {"lastfm1k": [], "ml1m": []}
    assert {name: len(several) for name, several in imported.absent.items()} == {"lastfm1k": 70, "ml1m": 70}
    assert set(contents(tmp_path / "to")) == TABLES

    scores = ["n_items", "n_matched", "hits", "average_rank", "status"]

    def scored(name: str) -> list[list[object]]:
        table = read_benefit_file(tmp_path / "to" / name)
        assert table.columns.tolist() == COLUMNS
        assert table["user"].tolist() == [1, 2, 3] * 2
        return table[scores].astype(object).where(table[scores].notna(), None).values.tolist()[:3]

    # The ids count each time; without a hit the rank is 0; a blank text is an empty reply.
    assert scored("lastfm1k_top3.csv") == [[2, 3, 3, 1.5, "ok"], [1, 1, 0, 0.0, "ok"], [0, 0, 0, 0.0, "empty"]]
    assert scored("ml1m_top3.csv") == [[3, 3, 3, 2.0, "ok"], [3, 1, 0, 0.0, "ok"], [0, 0, 0, 0.0, "unparsed"]]
    # By title and against the test films (103 for everyone); without a hit there is no rank.
    assert scored("ml1m_top3_heldout.csv") == [[3, 3, 0, None, "ok"], [3, 2, 1, 1.0, "ok"], [0, 0, 0, None, "unparsed"]]
    # Against the train films (101 for everyone, 102 for the first user too): the repeated film counts once.
    assert scored(TRAIN_FILE) == [[3, 3, 2, 1.5, "ok"], [3, 2, 1, 2.0, "ok"], [0, 0, 0, None, "unparsed"]]
    assert (tmp_path / "to" / SPLIT_FILE).read_bytes() == b"dataset,part,rows,users\nml1m,train,4,3\nml1m,test,3,3\n"


def test_import_counts_a_damaged_reply_and_gives_it_no_hits(tmp_path: Path) -> None:
    made = release()
    made.tables[LASTFM][0][NEUTRAL] = "[['cut"
    made.tables[ML1M][1][f"{NEUTRAL}_itemIds"] = "[103"
    imported = import_released(made.write(tmp_path / "files"), tmp_path / "to")
    assert [len(several) for several in imported.unread.values()] == [1, 1]
    for name, row in (("lastfm1k_top3.csv", 0), ("ml1m_top3.csv", 1), ("ml1m_top3_heldout.csv", 1), (TRAIN_FILE, 1)):
        table = read_benefit_file(tmp_path / "to" / name)
        bad = table.iloc[row]
        assert [bad[column] for column in ("n_items", "n_matched", "hits", "status")] == [0, 0, 0, "unparsed"], name
        # The same reply under the other condition is whole.
        assert table.iloc[row + 3]["status"] == "ok"


def test_import_again_changes_no_byte_and_no_time_stamp(tmp_path: Path) -> None:
    folder = release().write(tmp_path / "files")
    import_released(folder, tmp_path / "to")
    first = contents(tmp_path / "to")
    stamps = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "to").iterdir()}
    import_released(folder, tmp_path / "to")
    assert contents(tmp_path / "to") == first
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "to").iterdir()} == stamps
    import_released(folder, tmp_path / "elsewhere" / "deep")
    assert contents(tmp_path / "elsewhere" / "deep") == first
    assert all(b"\r" not in content for content in first.values())


@pytest.mark.parametrize("below", ["", "tables", "deep/tables"])
def test_target_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path, below: str) -> None:
    # A file in place of the folder stops even the administrator, whom no permission stops.
    folder = release().write(tmp_path / "files")
    target = tmp_path / "taken"
    target.write_text("something", encoding="utf-8")
    message = refusal(lambda: import_released(folder, target / below), FairnbError)
    assert str(target) in message
    assert target.read_text("utf-8") == "something"


def test_table_that_a_folder_stands_in_for(tmp_path: Path) -> None:
    folder = release().write(tmp_path / "files")
    (tmp_path / "to" / "lastfm1k_top3.csv").mkdir(parents=True)
    message = refusal(lambda: import_released(folder, tmp_path / "to"), FairnbError)
    assert "lastfm1k_top3.csv: cannot be written" in message
    assert not list((tmp_path / "to").glob("*.part"))


# ---------------------------------------------------------------- reading the tables


@pytest.fixture(scope="module")
def imported_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    import_released(release().write(folder / "files"), folder / "to")
    return folder / "to"


@pytest.fixture
def tables(imported_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(imported_once, tmp_path / "tables"))


def changed(file: Path, row: int, column: str, cell: str) -> Path:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    rows[row][rows[0].index(column)] = cell
    file.write_text("".join(",".join(cells) + "\n" for cells in rows), encoding="utf-8", newline="")
    return file


def test_read_benefits_gives_each_table_with_its_types(tables: Path) -> None:
    table = read_benefits("ml1m", "paper", tables)
    assert table.columns.tolist() == COLUMNS
    assert {table[name].dtype.name for name in ("user", "n_items", "n_matched", "hits")} == {"int64"}
    assert {table[name].dtype.name for name in ("hit_rate", "average_rank")} == {"float64"}
    assert table["hit_rate"].tolist() == [0, 1 / K, 0] * 2
    # A blank is no rank, and not the rank of the row above.
    assert [math.isnan(rank) for rank in table["average_rank"]] == [True, False, True] * 2
    assert table.index.tolist() == list(range(6))
    assert read_benefits("lastfm1k", "released", tables)["average_rank"].tolist() == [1.5, 0, 0] * 2


BAD_CELLS = {
    "user with letters": ("user", "u1", "'u1'; expected a whole number"),
    "user with a fraction": ("user", "1.0", "'1.0'; expected a whole number"),
    "endless number": ("hits", "9" * 30, "expected a whole number"),
    "negative hits": ("hits", "-1", "'-1'; expected a whole number"),
    "digits of another script": ("hits", "١", "expected a whole number"),
    "unknown gender": ("gender", "male", "'male'; expected one of Male, Female"),
    "unknown age group": ("age_group", "NA", "'NA'; expected one of Young, Old"),
    "unknown sampling": ("sampling", "newest", "expected one of random, frequent, recent-frequent"),
    "unknown icl": ("icl", "ICL-3", "expected one of 0-shot, ICL-1, ICL-2"),
    "unknown side": ("counterfactual", "maybe", "expected one of no, yes"),
    "unknown demographics": ("demographics", "", "''; expected one of none, gender, age, intersectional"),
    "unknown status": ("status", "refused", "expected one of ok, empty, unparsed"),
    "letters in a rate": ("hit_rate", "O.3", "'O.3'; expected a number"),
    "no rate": ("hit_rate", "", "''; expected a number"),
    "nan as rate": ("hit_rate", "nan", "'nan'; expected a number"),
    "rate above 1": ("hit_rate", "1.5", "'1.5'; expected a share from 0 to 1"),
    "rate below 0": ("hit_rate", "-0.5", "'-0.5'; expected a number"),
    "rate of other hits": ("hit_rate", "0.5", "'0.5'; expected hits / 3"),
    "letters in a rank": ("average_rank", "first", "'first'; expected a number or nothing"),
    "infinite rank": ("average_rank", "inf", "'inf'; expected a number or nothing"),
    "hits without a rank": ("average_rank", "", "''; expected 1 or more, since there are hits"),
    "rank above the first": ("average_rank", "0.5", "'0.5'; expected 1 or more"),
    "user in another group": ("gender", "Male", "expected one gender per user"),
    "user in another age group": ("age_group", "Young", "expected one age_group per user"),
    "two rows of a user": ("user", "1", "expected one row per user and condition"),
}


@pytest.mark.parametrize(("column", "cell", "said"), BAD_CELLS.values(), ids=BAD_CELLS.keys())
def test_read_benefits_names_line_column_and_what_was_expected(tables: Path, column: str, cell: str, said: str) -> None:
    # The second user: Female, Old, one hit on rank 1; the fifth row is hers under the other condition.
    line = 6 if said.endswith("per user") else 3
    file = changed(tables / "ml1m_top3_heldout.csv", line - 1, column, cell)
    message = refusal(lambda: read_benefits("ml1m", "paper", tables))
    assert f"{file}, line {line}, column {column}: " in message
    assert said in message
    assert "git checkout data/released" in message


@pytest.mark.parametrize("column", COLUMNS)
def test_read_benefits_needs_every_column(tables: Path, column: str) -> None:
    file = tables / "lastfm1k_top3.csv"
    text = file.read_text("utf-8")
    head, _, body = text.partition("\n")
    renamed = ",".join("other" if name == column else name for name in head.split(","))
    file.write_text(renamed + "\n" + body, encoding="utf-8", newline="")
    message = refusal(lambda: read_benefits("lastfm1k", "released", tables))
    assert f"{file}: no column {column}; expected user, gender" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"user,gender\n", "no rows below the header"),
        (b"user\n\xe9\n", "line 2: not a text in UTF-8"),
        (b"user,gender\n1\n", "line 2: 1 fields; expected 2"),
    ],
)
def test_read_benefits_needs_a_table(tables: Path, content: bytes, said: str) -> None:
    (tables / "lastfm1k_top3.csv").write_bytes(content)
    message = refusal(lambda: read_benefits("lastfm1k", "released", tables))
    assert said in message
    assert "git checkout data/released" in message


def test_absent_table_says_how_to_get_it(tmp_path: Path) -> None:
    message = refusal(lambda: read_benefits("lastfm1k", "released", tmp_path))
    assert "lastfm1k_top3.csv: no such file" in message
    assert "fairnb data import-released FOLDER" in message


def test_protocol_that_the_data_set_cannot_serve(tables: Path) -> None:
    message = refusal(lambda: read_benefits("lastfm1k", "paper", tables), ProtocolError)
    assert "protocol = 'paper'" in message
    assert "expected dataset = ml1m" in message


@pytest.mark.parametrize(
    ("dataset", "protocol", "said"),
    [("ml100k", "released", "dataset = 'ml100k'"), ("ml1m", "Paper", "protocol = 'Paper'")],
)
def test_unknown_setting(tables: Path, dataset: str, protocol: str, said: str) -> None:
    assert said in refusal(lambda: read_benefits(dataset, protocol, tables), ParameterError)


# ---------------------------------------------------------------- the tables that come with the project


@pytest.mark.parametrize(("dataset", "protocol"), BENEFIT_FILES)
def test_committed_tables_are_complete(dataset: str, protocol: str) -> None:
    table = read_benefits(dataset, protocol)
    conditions = table.groupby(["sampling", "icl", "counterfactual", "demographics"]).size()
    assert len(conditions) == {"lastfm1k": 72, "ml1m": 71}[dataset]
    assert set(conditions) == {80}
    assert sorted(table["user"].unique()) == list(range(1, 81))
    if dataset == "ml1m":
        assert ("random", "0-shot", "no", "none") not in conditions.index
    for sampling, icl, side in itertools.product(SAMPLINGS, ICLS, ("no", "yes")):
        assert conditions.loc[sampling, icl, side].size >= 3


@pytest.mark.parametrize("name", sorted(TABLES))
def test_committed_tables_hold_numbers_and_labels_only(name: str) -> None:
    content = (paths.released() / name).read_bytes()
    assert b"\r" not in content
    rows = list(csv.reader(io.StringIO(content.decode("ascii"))))
    words = {cell for row in rows[1:] for cell in row if not re.fullmatch(r"[0-9.]*", cell)}
    allowed = {"Male", "Female", "Young", "Old", "random", "frequent", "recent-frequent", *ICLS, "no", "yes"}
    allowed |= {"none", "gender", "age", "intersectional", "ok", "lastfm1k", "ml1m", "train", "test", *CONDITIONS}
    if name == MATCHING_FILE:
        allowed |= {row[rows[0].index("check")] for row in rows[1:]}
        assert len(allowed) < 40
    spelt = {word for word in words if re.fullmatch(f"[{LETTERS}]+", word)} if "places" in name else set()
    assert words - spelt <= allowed
    # Numbers of users, lists and hits: an original id of an item would be larger.
    for place, column in enumerate(rows[0]):
        if name not in {SPLIT_FILE, *COUNTS} and column in (
            "user",
            "n_items",
            "n_matched",
            "hits",
            "hit_rate",
            "average_rank",
        ):
            largest = max(float(row[place] or 0) for row in rows[1:])
            assert largest <= (80 if column == "user" else 10)


@pytest.fixture(scope="module")
def originals(shared_folder: Path) -> Path:
    return shared_folder / "data" / "fairevalllm"


@pytest.mark.shared
def test_committed_tables_come_from_the_released_files_byte_for_byte(originals: Path, tmp_path: Path) -> None:
    imported = import_released(originals, tmp_path)
    assert imported.unread == {"lastfm1k": [], "ml1m": []}
    assert imported.absent == {
        "lastfm1k": [],
        "ml1m": ["counterfactual no, sampling random, demographics none, 0-shot"],
    }
    assert set(contents(tmp_path)) == TABLES
    for name, content in contents(tmp_path).items():
        assert content == (paths.released() / name).read_bytes(), name


@pytest.mark.shared
def test_released_files_hold_what_the_project_says_of_them(originals: Path) -> None:
    lastfm, ml1m = read_replies(originals, "lastfm1k"), read_replies(originals, "ml1m")
    train, test = read_split(originals)
    for source, conditions in ((lastfm, 72), (ml1m, 71)):
        assert len(source.replies) == 80 * conditions
        assert source.users["user"].tolist() == list(range(1, 81))
        assert (
            source.rankings.groupby("reply").size().value_counts().to_dict()
            == {
                72: {3: 4870, 2: 754, 1: 136},
                71: {3: 4520, 2: 1108, 1: 45},
            }[conditions]
        )
    # The ground truth of the ML-1M file is what the model was shown, and nothing of what was held out.
    assert set(ml1m.users["user_id"]) == set(train["user_id"]) == set(test["user_id"])
    for user in ml1m.users["user_id"]:
        truth = set(ml1m.truth.loc[ml1m.truth["user_id"] == user, "item_id"])
        assert truth == set(train.loc[train["user_id"] == user, "item_id"])
        assert not truth & set(test.loc[test["user_id"] == user, "item_id"])
    assert (len(train), len(test), len(lastfm.truth)) == (16757, 4230, 105642)
    # The numbers that users have in the tables are not their numbers in the released files.
    for source in (lastfm, ml1m):
        assert not (source.users["user"] == source.users["user_id"]).any()
    assert lastfm.users["gender"].value_counts().to_dict() == {"Male": 45, "Female": 35}
    assert lastfm.users["age_group"].value_counts().to_dict() == {"Young": 73, "Old": 7}
    assert ml1m.users["gender"].value_counts().to_dict() == {"Male": 59, "Female": 21}
    assert ml1m.users["age_group"].value_counts().to_dict() == {"Young": 44, "Old": 36}
