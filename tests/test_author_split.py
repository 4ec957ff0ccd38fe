"""The author's split of 80 users of MovieLens 1M, and ours of the same ratings: equal but for ties in time.

The last tests need no released file: they build a small folder in the released format.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from fairnb.datasets import movielens, released
from fairnb.datasets.loading import CARDS, Raw
from fairnb.errors import DataError
from fairnb.profiles import select, split, table3, ties_at_split

shared = pytest.mark.shared


@pytest.fixture(scope="module")
def author(shared_folder):
    return released.read_dataset(shared_folder / "data/fairevalllm")


@shared
def test_the_split_as_released(author):
    assert author.interactions["part"].value_counts().to_dict() == {"train": 16_757, "test": 4_230}
    assert (len(author.users), len(author.items)) == (80, 3_883)
    assert author.remarks.empty
    assert sum(fact.lines_in for fact in author.files[:5]) == 20_987
    assert not author.items[["title", "name", "genres"]].isna().any(axis=None)


@shared
def test_table_3(author):
    ours, printed = table3(author.interactions).set_index("part"), {"train": 209.46, "test": 52.88}
    assert {part: f"{ours.at[part, 'per_user']:.2f}" for part in printed} == {k: f"{v:.2f}" for k, v in printed.items()}
    assert ours["interactions"].to_dict() == {"train": 16_757, "test": 4_230}
    assert ours["users"].to_dict() == {"train": 80, "test": 80}


@shared
def test_splitting_the_union_again_gives_the_same_parts(author):
    again = split(author.interactions.drop(columns="part"), 0.8)
    both = author.interactions.merge(again, on=["user_id", "item_id"], suffixes=("", "_again"), validate="1:1")
    assert len(both) == 20_987
    assert (both["part"] == both["part_again"]).all()
    ties = ties_at_split(again)
    assert len(ties) == 45
    assert (ties[["train", "test"]] > 0).all(axis=None)
    pd.testing.assert_frame_equal(ties, ties_at_split(split(author.interactions)))


@shared
def test_in_the_order_of_the_original_file_only_tied_ratings_change_sides(author, shared_folder):
    original = movielens.read(shared_folder / "data/ml-1m", "ml1m").interactions
    ours = split(original[original["user_id"].isin(author.users["user_id"])], 0.8)
    both = author.interactions.merge(ours, on=["user_id", "item_id"], suffixes=("", "_ours"), validate="1:1")
    # The excerpt holds 9 of the 80 users, with all of their ratings.
    assert both["user_id"].nunique() == ours["user_id"].nunique() == 9
    assert len(both) == len(ours) == 1_938
    assert (both["timestamp"] == both["timestamp_ours"]).all()
    moved = both[both["part"] != both["part_ours"]]
    assert len(moved) == 10
    tied = set(ties_at_split(ours)[["user_id", "timestamp"]].itertuples(index=False, name=None))
    assert {(row.user_id, row.timestamp) for row in moved.itertuples()} <= tied
    assert moved["part"].value_counts().nunique() == 1  # as many to the one side as to the other


@shared
def test_the_author_s_users_are_eligible_as_they_are(author):
    raw = Raw(CARDS["ml1m-author"], Path(), whole=lambda: author)
    chosen = select(raw, 80)
    assert len(chosen.train) == 16_757
    assert len(chosen.test) == 4_230
    # The released labels say up to 32 and over 32.
    assert chosen.cutoffs == (32,)


# --- the same format, made up ---------------------------------------------------------------------------------------


def write(folder: Path, **changes: str) -> Path:
    header = "userId,itemId,rating,timestamp\n"
    files = {
        **{f"train_{part}": f"{header}{part},1,5,100\n{part},2,4,200\n" for part in (1, 2, 3, 4)},
        "test": ",userId,itemId,rating,timestamp\n0,1,3,5,300\n",
        "items": 'itemId,title,genres\n1,Toy Story (1995),Comedy\n2,"Matrix, The (1999)",Action|Sci-Fi\n3,NA,Drama\n',
        "users": "userId,gender,age,occupation,zipCode\n"
        + "".join(f"{user},{'FM'[user % 2]},{age},10,048\n" for user, age in enumerate((1, 18, 56, 35, 45), start=1)),
    } | changes
    names = {
        **{f"train_{part}": f"train_data_ml1m_fullInteraction_80users_part_{part}.csv" for part in (1, 2, 3, 4)},
        "test": "test_data_ml1m_fullInteraction_80users.csv",
        "items": "df_item_ml-1m.csv",
        "users": "df_user_ml-1m.csv",
    }
    (folder / "data").mkdir(exist_ok=True)
    for part, content in files.items():
        (folder / "data" / names[part]).write_text(content, "utf-8")
    return folder


def test_a_small_folder_in_the_released_format(tmp_path):
    data = released.read_dataset(write(tmp_path))
    assert data.interactions["part"].tolist() == ["train"] * 8 + ["test"]
    assert data.users["user_id"].tolist() == [1, 2, 3, 4]  # user 5 has no interaction
    assert data.users["age"].tolist() == [1.0, 18.0, 56.0, 35.0]
    assert data.users["zip_code"].tolist() == ["048"] * 4
    assert data.items["name"].tolist() == ["Toy Story", "The Matrix", "NA"]
    assert data.items["genres"].tolist() == ["Comedy", "Action|Sci-Fi", "Drama"]
    assert [fact.rows_out for fact in data.files] == [2, 2, 2, 2, 1, 3, 5]
    # A part that is there is kept.
    assert split(data.interactions)["part"].value_counts().to_dict() == {"train": 8, "test": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"items": "itemId,title,genres\n1,A,B\n"}, "item_id 2 of the split is not in the catalogue"),
        ({"items": "itemId,title,genres\n1,A,B\n2,A,B\n2,C,D\n"}, "df_item_ml-1m.csv: item_id 2 stands twice"),
        ({"items": "itemId,title\n1,A\n2,B\n"}, "df_item_ml-1m.csv: no column genres"),
        ({"users": "userId,gender,age,occupation,zipCode\n1,F,2,10,1\n"}, "line 2, column age: unknown code '2'"),
        ({"users": "userId,gender,age,occupation,zipCode\n1,F,1,10,1\n1,M,1,1,1\n"}, "user_id 1 stands twice"),
        ({"users": "userId,gender,age,occupation,zipCode\n1,F,1,10,1\n"}, "user_id 2 of the split is not"),
        ({"train_2": "userId,itemId,rating,timestamp\n2,1,4.5,100\n"}, "column rating: '4.5' is not a whole number"),
    ],
)
def test_what_is_not_as_released_is_an_error(tmp_path, changes, message):
    with pytest.raises(DataError, match=re.escape(message)):
        released.read_dataset(write(tmp_path, **changes))
    (write(tmp_path) / "data/test_data_ml1m_fullInteraction_80users.csv").unlink()
    with pytest.raises(DataError, match="no such file"):
        released.read_dataset(tmp_path)
