"""Users, split and profiles: nothing of the test part is known, and nothing hangs on the order of rows or of work."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairnb.datasets.dataset import Dataset
from fairnb.datasets.loading import CARDS, Raw
from fairnb.errors import DataError, ParameterError
from fairnb.profiles import (
    age_cutoff,
    age_groups,
    age_labels,
    passion,
    recent,
    select,
    split,
    table3,
    ties_at_split,
)
from fairnb.settings import SAMPLINGS

NAN = math.nan


def raw_of(users: pd.DataFrame, interactions: pd.DataFrame) -> Raw:
    items = pd.DataFrame({"item_id": sorted(set(interactions["item_id"]))})
    items["title"] = [f"Film {item}" for item in items["item_id"]]
    data = Dataset("own", "own data", "films", interactions, users, items, (), pd.DataFrame())
    return Raw(CARDS["own"], Path(), whole=lambda: data)


def people(genders: list[str | float], ages: list[float]) -> pd.DataFrame:
    users = pd.DataFrame({"user_id": range(1, len(genders) + 1)})
    users["gender"] = pd.Series(genders, dtype="str")
    return users.assign(age=pd.Series(ages, dtype="float64"))


def plays(counts: dict[int, int], items: int | dict[int, int] = 10**6) -> pd.DataFrame:
    """Interactions of users at distinct times; ``items`` is how many different items they go through."""
    rows = [
        (user, step % (items if isinstance(items, int) else items[user]) + 1, 1_000_000 + 60 * step + user)
        for user, count in counts.items()
        for step in range(count)
    ]
    return pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp"])


def chosen_items(profile: pd.DataFrame, sampling: str, user: object = 1) -> list[int]:
    rows = profile[(profile["sampling"] == sampling) & (profile["user_id"] == user)]
    assert rows["place"].tolist() == list(range(1, len(rows) + 1))
    return rows["item_id"].tolist()


@st.composite
def histories(draw, distinct_times: bool = False, rated: bool = False):
    """Interactions of 1 to 4 users, in any order, many at the same second."""
    rows = []
    for user in range(1, draw(st.integers(1, 4)) + 1):
        n = draw(st.integers(1, 25))
        times = st.lists(st.integers(1, 10**9 if distinct_times else 8), min_size=n, max_size=n, unique=distinct_times)
        items = draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))
        rows += [(user, item, time) for item, time in zip(items, draw(times), strict=True)]
    rows = draw(st.permutations(rows))
    frame = pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp"])
    if rated:
        frame = frame.drop_duplicates(["user_id", "item_id"], ignore_index=True)
        frame["rating"] = draw(st.lists(st.integers(1, 5).map(float), min_size=len(frame), max_size=len(frame)))
    return frame


# --- the split ------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(histories(), st.sampled_from([0.8, 0.5, 0.1, 0.29, 0.99]))
def test_the_future_never_comes_before_the_past(rows, share):
    parts = split(rows, share)
    assert len(parts) == len(rows)
    for user, mine in parts.groupby("user_id"):
        n = int((rows["user_id"] == user).sum())
        train, test = (mine.loc[mine["part"] == part, "timestamp"] for part in ("train", "test"))
        assert (len(train), len(test)) == (int(share * n), n - int(share * n))
        assert train.empty or test.empty or train.max() <= test.min()
        # Of the same second, the order is that of the file.
        stable = sorted(rows[rows["user_id"] == user].itertuples(index=False), key=lambda row: row.timestamp)
        assert mine["item_id"].tolist() == [row.item_id for row in stable]
    tied = ties_at_split(parts)
    expected = [
        user
        for user, mine in parts.groupby("user_id")
        if mine["part"].nunique() == 2
        and mine.loc[mine["part"] == "train", "timestamp"].max() == mine.loc[mine["part"] == "test", "timestamp"].min()
    ]
    assert tied["user_id"].tolist() == expected
    assert (tied[["train", "test"]] >= 1).all(axis=None)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, NAN])
def test_a_share_must_leave_both_parts(share):
    with pytest.raises(ParameterError, match="train_share"):
        split(plays({1: 5}), share)


def test_table_3_counts_rows_users_and_items():
    parts = split(pd.concat([plays({1: 10}, 3), plays({2: 5}, 3)]))
    assert table3(parts).values.tolist() == [["train", 12, 2, 3, 6.0], ["test", 3, 2, 3, 1.5]]


# --- profiles -------------------------------------------------------------------------------------------------------


def toy() -> pd.DataFrame:
    # item: times. A is frequent and old, B is less so, C and D are new; D is heard as often as B.
    times = {1: [0, 10, 20, 30], 2: [40, 50], 3: [100], 4: [5, 90]}
    rows = [(1, item, time) for item, moments in times.items() for time in moments]
    return pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp"])


def test_closed_forms_of_a_user_worked_by_hand():
    # Counts 4, 2, 1, 2 scale to 1, 1/3, 0, 1/3; last plays 30, 50, 100, 90 to 0, 2/7, 1, 6/7.
    profile = passion(toy(), length=4)
    assert chosen_items(profile, "frequent") == [1, 4, 2, 3]
    both = profile[profile["sampling"] == "recent-frequent"].set_index("item_id")
    scores = {4: 0.65 * 6 / 7 + 0.35 / 3, 3: 0.65, 1: 0.35, 2: 0.65 * 2 / 7 + 0.35 / 3}
    assert both.index.tolist() == list(scores)
    assert both["score"].tolist() == pytest.approx(list(scores.values()), abs=1e-11)
    assert both["weight"].to_dict() == {1: 4.0, 2: 2.0, 3: 1.0, 4: 2.0}
    assert both["last"].to_dict() == {1: 30, 2: 50, 3: 100, 4: 90}
    assert profile.loc[profile["sampling"] != "recent-frequent", "score"].isna().all()
    # First plays 0, 40, 100, 5 scale to 0, 0.4, 1, 0.05.
    first = passion(toy(), length=4, recency="first")
    scores = {3: 0.65, 2: 0.65 * 0.4 + 0.35 / 3, 1: 0.35, 4: 0.65 * 0.05 + 0.35 / 3}
    both = first[first["sampling"] == "recent-frequent"]
    assert both["item_id"].tolist() == list(scores)
    assert both["score"].tolist() == pytest.approx(list(scores.values()), abs=1e-11)
    assert chosen_items(first, "frequent") == [1, 2, 4, 3]


def test_ratings_are_the_weight_where_there_are_some():
    train = pd.DataFrame(
        [(1, 1, 10, 3.0), (1, 2, 20, 5.0), (1, 3, 30, 3.0), (1, 4, 5, 5.0), (1, 5, 30, 3.0)],
        columns=["user_id", "item_id", "timestamp", "rating"],
    )
    profile = passion(train, length=5)
    assert chosen_items(profile, "frequent") == [2, 4, 3, 5, 1]  # ties by recency, then by id
    assert profile["weight"].max() == 5.0


def test_equal_scores_are_ties_whatever_the_last_bit():
    # All but the first score 0.65: 26/26 and 0, 19/26 and 1/2, 12/26 and 1. In floats the second is 0.6499999999999999.
    rows = [(1, 1, 0, 3.0), (1, 2, 12, 5.0), (1, 3, 19, 4.0), (1, 4, 26, 3.0)]
    train = pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp", "rating"])
    assert chosen_items(passion(train, length=4), "recent-frequent") == [4, 3, 2, 1]


@settings(max_examples=20)
@given(histories(), st.sampled_from(["last", "first"]))
def test_omega_0_and_1_are_the_orders_by_weight_and_by_recency(train, recency):
    length = int(train.groupby("user_id")["item_id"].nunique().min())
    by_weight = passion(train, length=length, omega=0, recency=recency)
    by_recency = passion(train, length=length, omega=1, recency=recency)
    for user, mine in train.groupby("user_id"):
        assert chosen_items(by_weight, "recent-frequent", user) == chosen_items(by_weight, "frequent", user)
        times = mine.groupby("item_id")["timestamp"].agg("max" if recency == "last" else "min")
        order = sorted(times.index, key=lambda item: (-times[item], item))
        assert chosen_items(by_recency, "recent-frequent", user) == order[:length]


def test_a_constant_scale_is_0_and_never_nan():
    same = pd.DataFrame({"user_id": 1, "item_id": [3, 1, 2], "timestamp": 7})
    profile = passion(same, length=3)
    both = profile[profile["sampling"] == "recent-frequent"]
    assert both["item_id"].tolist() == [1, 2, 3]
    assert both["score"].tolist() == [0.0, 0.0, 0.0]
    counts = pd.DataFrame({"user_id": 1, "item_id": [1, 2, 3], "timestamp": [1, 2, 3]})
    scores = passion(counts, length=3).query("sampling == 'recent-frequent'")["score"]
    assert scores.tolist() == pytest.approx([0.65, 0.325, 0.0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"omega": 1.01}, ParameterError, "omega = 1.01: expected a number from 0 to 1"),
        ({"omega": -0.1}, ParameterError, "omega = -0.1"),
        ({"omega": NAN}, ParameterError, "omega = nan"),
        ({"recency": "latest"}, ParameterError, "recency = 'latest': expected last or first"),
        ({"length": 5}, DataError, "user 1: 4 different train items; expected 5"),
    ],
)
def test_profiles_that_cannot_be_made(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        passion(toy(), **({"length": 4} | options))
    with pytest.raises(DataError, match="no train interactions"):
        passion(toy()[:0])


@settings(max_examples=20)
@given(histories(distinct_times=True, rated=True), st.randoms(use_true_random=False))
def test_profiles_hang_on_no_order_of_rows_and_on_no_other_user(train, random):
    length = int(train.groupby("user_id")["item_id"].nunique().min())
    usual, latest = passion(train, length=length), recent(train)
    order = list(range(len(train)))
    random.shuffle(order)
    shuffled = train.iloc[order]
    pd.testing.assert_frame_equal(passion(shuffled, length=length), usual)
    pd.testing.assert_frame_equal(recent(shuffled), latest)
    alone = shuffled[shuffled["user_id"] == 1]
    pd.testing.assert_frame_equal(
        passion(alone, length=length), usual[usual["user_id"] == 1].reset_index(drop=True), check_dtype=False
    )
    sampled = usual[usual["sampling"] == "random"]
    assert not sampled.duplicated(["user_id", "item_id"]).any()
    assert sampled.merge(train, on=["user_id", "item_id"])["rating"].eq(sampled["weight"].to_numpy()).all()


def test_another_seed_is_another_random_profile_and_users_differ():
    train = plays(dict.fromkeys(range(1, 21), 40), 40)
    draws = {seed: passion(train, seed=seed).query("sampling == 'random'") for seed in (1, 2)}
    assert passion(train, seed=1).query("sampling == 'random'").equals(draws[1])
    lists = {tuple(rows["item_id"]) for draw in draws.values() for _, rows in draw.groupby("user_id")}
    assert len(lists) == 40
    # Uniform: 400 draws of 10 of 40 items; an item is expected 10 times in 40 profiles.
    counts = pd.concat(draws.values())["item_id"].value_counts().reindex(range(1, 41), fill_value=0)
    assert counts.min() >= 2
    assert counts.max() <= 20


@settings(max_examples=30)
@given(histories())
def test_context_is_newest_first_and_distinct(train):
    latest = recent(train, 3)
    for user, mine in train.groupby("user_id"):
        rows = sorted(enumerate(mine.itertuples(index=False)), key=lambda pair: (pair[1].timestamp, pair[0]))
        expected = list(dict.fromkeys(row.item_id for _, row in reversed(rows)))[:3]
        got = latest[latest["user_id"] == user]
        assert got["item_id"].tolist() == expected
        assert got["back"].tolist() == list(range(1, len(expected) + 1))


# --- ages -----------------------------------------------------------------------------------------------------------


def test_the_age_cut_off_weighs_by_rows():
    users = people(["Male"] * 3, [20, 30, NAN])
    assert age_cutoff(plays({1: 5, 2: 5}), users) == 25
    assert age_cutoff(plays({1: 6, 2: 4}), users) == 24
    assert age_cutoff(plays({1: 51, 2: 50}), users) == 24  # 24.95, cut and not rounded
    assert age_cutoff(plays({1: 6, 2: 4, 3: 90}), users) == 24  # a missing age has no weight
    assert age_cutoff(plays({3: 9}), users) is None
    codes = people(["Male"] * 3, [25, 35, 56])
    assert age_cutoff(plays({1: 60, 2: 30, 3: 10}), codes) == 31
    assert age_cutoff(plays({1: 57, 2: 30, 3: 13}), codes) == 32


def test_the_cut_off_of_a_draw_knows_the_train_rows_only():
    # 3 and 4 train rows of 7 and 8: 20 + 70 * 4 / 7 = 60; over all rows it would be 57.
    users = people(["Male", "Female"], [20.0, 90.0])
    drawn = select(raw_of(users, plays({1: 7, 2: 8})), 2, minimum=2, length=3, context=1, share=0.5)
    assert drawn.cutoffs == (60,)
    assert drawn.users["age_group"].tolist() == ["Young", "Old"]


def test_ages_fall_into_any_number_of_groups():
    ages = pd.Series([5, 24, 25, 34, 35, 99, NAN])
    assert age_groups(ages, (24,)).tolist()[:6] == ["Young", "Young", "Old", "Old", "Old", "Old"]
    assert age_groups(ages, (24, 34)).tolist()[:6] == [
        *("up to 24", "up to 24", "25 to 34", "25 to 34", "over 34", "over 34")
    ]
    assert age_labels((24, 34, 50)) == ["up to 24", "25 to 34", "35 to 50", "over 50"]
    for cutoffs in ((), (24,), (24, 34)):
        groups = age_groups(ages, cutoffs)
        assert groups.isna().tolist() == [False] * 6 + [True]
        assert set(groups.dropna()) <= set(age_labels(cutoffs))
    with pytest.raises(ParameterError, match="expected rising ages"):
        age_groups(ages, (34, 24))


# --- the draw -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd() -> tuple[pd.DataFrame, pd.DataFrame]:
    """100 users: 60 men, 30 women, 10 of no known gender; 20 to 119 interactions."""
    users = people(["Male"] * 60 + ["Female"] * 30 + [NAN] * 10, [20.0 + user % 50 for user in range(98)] + [NAN] * 2)
    return users, plays({user: 19 + user for user in range(1, 101)})


@pytest.mark.parametrize("stratify", [(), ("gender",), ("gender", "age")])
def test_the_same_seed_is_the_same_draw_in_any_order(crowd, stratify):
    users, rows = crowd
    usual = select(raw_of(users, rows), 12, minimum=30, stratify=stratify)
    mixed = raw_of(users.sample(frac=1, random_state=3), rows.sample(frac=1, random_state=4))
    other = select(mixed, 12, minimum=30, stratify=stratify)
    pd.testing.assert_frame_equal(usual.users, other.users)
    pd.testing.assert_frame_equal(usual.funnel, other.funnel)
    pd.testing.assert_frame_equal(usual.train, other.train)
    assert usual.cutoffs == other.cutoffs
    # A user who could not be drawn anyhow changes nothing.
    fewer = users[users["user_id"] > 10]
    assert select(raw_of(fewer, rows), 12, minimum=30, stratify=stratify).users.equals(usual.users)
    seeds = [set(select(mixed, 12, minimum=30, stratify=stratify, seed=seed).users["user_id"]) for seed in range(5)]
    assert len({frozenset(drawn) for drawn in seeds}) == 5
    if stratify == ("gender", "age"):
        # One or two users a stratum: all remainders are alike, and no gender may be drawn for its name.
        assert users.set_index("user_id").loc[[user for drawn in seeds for user in drawn], "gender"].nunique() == 2


def test_no_test_interaction_feeds_a_profile(crowd):
    users, rows = crowd
    drawn = select(raw_of(users, rows), 10, minimum=30)
    test_rows = drawn.test[["user_id", "item_id", "timestamp"]]
    changed = rows.merge(test_rows.assign(held_out=True), how="left", on=["user_id", "item_id", "timestamp"])
    held_out = changed["held_out"].notna()
    assert held_out.sum() == len(test_rows)
    changed.loc[held_out, "item_id"] = 5
    other = select(raw_of(users, changed.drop(columns="held_out")), 10, minimum=30)
    assert set(other.test["item_id"]) == {5}
    for profile in (passion, recent):
        pd.testing.assert_frame_equal(profile(other.train), profile(drawn.train))
    pd.testing.assert_frame_equal(other.train, drawn.train)
    assert other.cutoffs == drawn.cutoffs
    seen = pd.concat([passion(drawn.train)[["user_id", "item_id"]], recent(drawn.train)[["user_id", "item_id"]]])
    # Each item is played once here, so an item of the test part can come from nowhere else.
    assert seen.merge(test_rows, on=["user_id", "item_id"]).empty


def test_the_funnel_counts_everyone(crowd):
    users, rows = crowd
    rows = rows[rows["user_id"] > 5]
    drawn = select(raw_of(users, rows), 20, minimum=30, maximum=110)
    assert drawn.funnel.values.tolist() == [
        ["in the data set", 100, 0],
        ["with interactions", 95, 5],
        ["with at least 30 interactions", 90, 5],
        ["with at most 110 interactions", 81, 9],
        ["whose gender and age are known", 80, 1],
        ["with 10 different train items, of those looked at", 80, 0],
        ["drawn", 20, 60],
    ]
    assert len(drawn.users) == drawn.dataset.interactions["user_id"].nunique() == 20
    assert drawn.users["user_id"].is_monotonic_increasing
    assert set(drawn.dataset.users["user_id"]) == set(drawn.users["user_id"])


def test_missing_attributes_are_excluded_kept_or_filled_and_counted(crowd):
    users, rows = crowd
    raw = raw_of(users, rows)
    exclude = select(raw, 0, minimum=2)
    assert len(exclude.users) == 90
    assert exclude.funnel.set_index("step").at["whose gender and age are known", "left_out"] == 10
    assert exclude.filled == {}
    keep = select(raw, 0, minimum=2, missing="keep")
    assert len(keep.users) == 100
    assert keep.users["gender"].isna().sum() == 10
    assert keep.users["age_group"].isna().tolist() == [False] * 98 + [True] * 2
    filled = select(raw, 0, minimum=2, missing="fill")
    assert filled.filled == {"gender": 10, "age": 2}
    assert filled.users["gender"].tolist()[-10:] == ["Male"] * 10
    assert filled.users["age"].tolist()[-2:] == [users["age"].median()] * 2
    assert raw.users["gender"].isna().sum() == 10
    shared = select(raw, 50, minimum=2, missing="keep", stratify=("gender",))
    assert shared.users["gender"].value_counts(dropna=False).tolist() == [30, 15, 5]
    only = select(raw, 0, minimum=2, attributes=("age",))
    assert len(only.users) == 98
    assert "whose age is known" in only.funnel["step"].tolist()
    with pytest.raises(ParameterError, match="missing = 'drop'"):
        select(raw, 5, missing="drop")


@settings(max_examples=30)
@given(n=st.integers(1, 60), sizes=st.lists(st.integers(1, 25), min_size=1, max_size=5))
def test_strata_are_drawn_by_largest_remainders(n, sizes):
    n = min(n, sum(sizes))
    genders = [f"g{stratum}" for stratum, size in enumerate(sizes) for _ in range(size)]
    users = people(genders, [30.0] * len(genders))
    rows = plays(dict.fromkeys(users["user_id"], 14))
    drawn = select(raw_of(users, rows), n, minimum=2, length=3, context=1, stratify=("gender",)).users
    counts = drawn["gender"].value_counts()
    assert len(drawn) == n
    exact = {f"g{stratum}": n * size / sum(sizes) for stratum, size in enumerate(sizes)}
    got = {name: int(counts.get(name, 0)) for name in exact}
    assert all(math.floor(share) <= got[name] <= math.ceil(share) for name, share in exact.items())
    # Who got one more has no smaller remainder than who did not.
    remainder = {name: share - math.floor(share) for name, share in exact.items()}
    lifted = [remainder[name] for name in exact if got[name] > math.floor(exact[name])]
    level = [remainder[name] for name in exact if got[name] == math.floor(exact[name])]
    assert not lifted or not level or min(lifted) >= max(level) - 1e-9


def test_users_with_too_few_different_items_are_replaced_within_their_stratum():
    genders = ["Male"] * 20 + ["Female"] * 20
    users = people(genders, [20.0, 40.0] * 20)
    # Every second user plays three items over and over.
    rows = plays(dict.fromkeys(range(1, 41), 20), {user: 3 if user % 2 else 20 for user in range(1, 41)})
    drawn = select(raw_of(users, rows), 16, minimum=2, stratify=("gender",))
    assert (drawn.users["user_id"] % 2 == 0).all()
    assert drawn.users["gender"].value_counts().to_dict() == {"Male": 8, "Female": 8}
    short = drawn.funnel.set_index("step").at["with 10 different train items, of those looked at", "left_out"]
    assert 5 <= short <= 20
    assert len(passion(drawn.train)) == 16 * 10 * len(SAMPLINGS)
    assert recent(drawn.train).groupby("user_id").size().eq(7).all()
    # The context needs two more than it shows, whatever the profile's length.
    assert len(select(raw_of(users, rows), 0, minimum=2, length=3).users) == 20
    assert len(select(raw_of(users, rows), 0, minimum=2, length=3, context=1).users) == 40
    with pytest.raises(
        ParameterError, match=r"n_users = 21: only 20 of the 40 users .*; 20 with 10 different train items"
    ):
        select(raw_of(users, rows), 21, minimum=2)


def test_fewer_users_than_asked_for_is_an_error_whose_advice_holds(crowd):
    users, rows = crowd
    raw = raw_of(users, rows)
    with pytest.raises(ParameterError) as error:
        select(raw, 80, minimum=50)
    text = str(error.value)
    assert "\n" not in text
    assert "n_users = 80: only 60 of the 100 users" in text
    for part in ("100 in the data set", "70 with at least 50 interactions", "60 whose gender and age are known"):
        assert part in text
    assert len(select(raw, int(re.search(r"n_users to at most (\d+)", text)[1]), minimum=50).users) == 60
    # In shares, one group that runs short limits all of them.
    two = people(["Male"] * 30 + ["Female"] * 30, [30.0, 20.0] * 30)
    poor = plays(dict.fromkeys(range(1, 61), 20), {user: 20 if user <= 40 else 3 for user in range(1, 61)})
    with pytest.raises(ParameterError, match="in the shares of gender; set n_users to at most 20") as error:
        select(raw_of(two, poor), 60, minimum=2, stratify=("gender",))
    assert len(select(raw_of(two, poor), 20, minimum=2, stratify=("gender",)).users) == 20
    with pytest.raises(ParameterError):
        select(raw_of(two, poor), 22, minimum=2, stratify=("gender",))
    for stratify in ((), ("gender",)):
        with pytest.raises(ParameterError, match=r"only 0 of the 100 users .*; relax these"):
            select(raw, 5, minimum=1000, stratify=stratify)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": -1}, "n_users = -1: expected 0 or more"),
        ({"minimum": 1}, "min_interactions = 1: expected 2 or more"),
        ({"minimum": 60, "maximum": 50}, "max_interactions = 50"),
        ({"length": 0}, "profile_length = 0"),
        ({"context": 0}, "context_length = 0"),
        (
            {"attributes": ("gender", "country")},
            "country: users of own data have no such attribute; they have gender, age",
        ),
        ({"stratify": ("job",)}, "job: users of own data have no such attribute"),
        ({"share": 1.0}, "train_share = 1.0"),
        ({"cutoffs": (40, 30)}, "age_split = 40, 30"),
    ],
)
def test_settings_that_cannot_be_used(crowd, options, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        select(raw_of(*crowd), **({"n": 5} | options))


def test_text_ids_are_drawn_and_profiled_as_numbers_are(crowd):
    users, rows = crowd
    named = {number: f"user {number:03}" for number in users["user_id"]}
    raw = raw_of(users.assign(user_id=users["user_id"].map(named)), rows.assign(user_id=rows["user_id"].map(named)))
    drawn = select(raw, 10, minimum=30, cutoffs=(30, 50))
    assert set(drawn.users["user_id"]) <= set(named.values())
    assert set(drawn.users["age_group"]) <= set(age_labels((30, 50)))
    assert len(passion(drawn.train)) == 10 * 10 * len(SAMPLINGS)
    assert np.array_equal(passion(drawn.train)["user_id"].unique(), drawn.users["user_id"])
