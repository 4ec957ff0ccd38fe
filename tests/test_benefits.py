"""Hits and ranks: by hand, at their edges, and the frame version against the list versions."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from fairnb.benefits import average_rank, benefits, hit_rate, hits
from fairnb.errors import DataError
from fairnb.settings import PAPER, RELEASED, Protocol

SETTINGS = settings(max_examples=40, deadline=None, database=None, derandomize=True)
# Frames take longer and hold many lists at once; shrinking a failure would take minutes.
FEW = settings(SETTINGS, max_examples=15, phases=(Phase.explicit, Phase.generate))
NAN = math.nan
FIELDS = ("repeated_ids", "rank_without_hit", "rank_list")
EMPTY = {"reply": "int64", "rank": "int64", "item_id": "int64"}

# Both protocols, and the other mixtures of the three fields that say how a list is scored.
SCORINGS = [PAPER, RELEASED] + [
    PAPER.model_copy(
        update={"name": f"{repeats}, {without}, {part}"} | dict(zip(FIELDS, (repeats, without, part), strict=True))
    )
    for repeats, without, part in product(("once", "each"), ("undefined", "zero"), ("first-k", "whole"))
    if (repeats, without, part) not in (("once", "undefined", "first-k"), ("each", "zero", "whole"))
]
scorings = pytest.mark.parametrize("protocol", SCORINGS, ids=lambda protocol: protocol.name)


# --- one list, by hand ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranking", "truth", "k", "once", "each"),
    [
        ("ABC", "ABC", 3, 3, 3),
        ("ABC", "B", 3, 1, 1),
        ("ABC", "XYZ", 3, 0, 0),
        ("XYZA", "A", 3, 0, 0),  # a hit behind K
        ("A", "A", 3, 1, 1),  # a short list
        ("", "A", 3, 0, 0),  # a refusal
        ("ABC", "", 3, 0, 0),  # nobody's truth
        ("AAAB", "AB", 3, 2, 3),  # P031: the repeat either counts again, or makes room for B
        ("XXAB", "AB", 3, 2, 1),  # a repeat above that is no hit makes room as well
        ("AABXC", "BC", 3, 1, 1),
        ("ABABA", "A", 5, 1, 3),
        ("AB", "AB", 1, 1, 1),
        ("ABC", "CCC", 3, 1, 1),  # the ground truth is a set
    ],
)
def test_hits_by_hand(ranking: str, truth: str, k: int, once: int, each: int) -> None:
    assert hits(ranking, truth, k) == once
    assert hits(ranking, truth, k, repeated_ids="once") == once
    assert hits(ranking, truth, k, repeated_ids="each") == each
    assert hit_rate(ranking, truth, k) == pytest.approx(once / k)
    assert hit_rate(ranking, truth, k, repeated_ids="each") == pytest.approx(each / k)


@pytest.mark.parametrize(
    ("ranking", "truth", "k", "once", "each"),
    [
        ("ABC", "ABC", 3, 2.0, 2.0),  # (1 + 2 + 3) / 3
        ("ABC", "AC", 3, 2.0, 2.0),  # (1 + 3) / 2
        ("ABC", "C", 3, 3.0, 3.0),
        ("XYZA", "A", None, 4.0, 4.0),  # the whole list
        ("XYAZB", "AB", 3, 3.0, 3.0),  # B stands behind K
        ("XYAZB", "AB", None, 4.0, 4.0),  # (3 + 5) / 2
        ("AAAB", "AB", 3, 1.5, 1.0),  # A is first; B moves up to 2, or stays at 4, behind K
        ("AAAB", "AB", None, 1.5, 2.5),
        ("XXAB", "AB", None, 2.5, 3.5),  # 2 and 3, or 3 and 4
    ],
)
def test_average_rank_by_hand(ranking: str, truth: str, k: int | None, once: float, each: float) -> None:
    assert average_rank(ranking, truth, k) == once
    assert average_rank(ranking, truth, k, repeated_ids="once", without_hit="zero") == once
    assert average_rank(ranking, truth, k, repeated_ids="each") == each


@pytest.mark.parametrize(("ranking", "truth", "k"), [("ABC", "X", 3), ("", "A", 3), ("", "", None), ("XYZA", "A", 3)])
def test_rank_of_a_list_without_a_hit_is_undefined_or_zero(ranking: str, truth: str, k: int | None) -> None:
    assert math.isnan(average_rank(ranking, truth, k))
    assert math.isnan(average_rank(ranking, truth, k, without_hit="undefined"))
    assert average_rank(ranking, truth, k, without_hit="zero") == 0.0


@pytest.mark.parametrize("k", [0, -1])
def test_k_is_at_least_one(k: int) -> None:
    for metric in (hits, hit_rate, average_rank):
        with pytest.raises(ValueError, match=f"k = {k}: expected 1 or more"):
            metric("ABC", "A", k)


# --- one list, properties ------------------------------------------------------------------------------

ITEMS = st.integers(0, 7)
RANKINGS = st.lists(ITEMS, max_size=7)
TRUTHS = st.lists(ITEMS, max_size=5)
KS = st.integers(1, 6)


@SETTINGS
@given(RANKINGS, TRUTHS, KS, st.sampled_from(["once", "each"]))
def test_bounds(ranking: list[int], truth: list[int], k: int, repeats: Any) -> None:
    assert 0 <= hit_rate(ranking, truth, k, repeated_ids=repeats) <= 1
    count = hits(ranking, truth, k, repeated_ids=repeats)
    assert count == pytest.approx(k * hit_rate(ranking, truth, k, repeated_ids=repeats))
    if repeats == "once":
        assert count <= len(set(ranking) & set(truth))
    rank = average_rank(ranking, truth, k, repeated_ids=repeats)
    assert math.isnan(rank) == (count == 0)
    if count:
        assert 1 <= rank <= min(k, len(ranking))
        whole = average_rank(ranking, truth, None, repeated_ids=repeats)
        assert whole >= rank  # more hits can only follow further down


@SETTINGS
@given(RANKINGS, TRUTHS, KS)
def test_without_repeats_both_readings_agree(ranking: list[int], truth: list[int], k: int) -> None:
    distinct = list(dict.fromkeys(ranking))
    assert hits(ranking, truth, k) == hits(distinct, truth, k, repeated_ids="each")
    for part in (k, None):
        once = average_rank(ranking, truth, part, without_hit="zero")
        assert once == average_rank(distinct, truth, part, repeated_ids="each", without_hit="zero")


@SETTINGS
@given(RANKINGS, TRUTHS, KS, st.permutations(range(8)))
def test_only_identity_of_items_matters(ranking: list[int], truth: list[int], k: int, names: list[int]) -> None:
    renamed, known = [f"item {names[item]}" for item in ranking], {f"item {names[item]}" for item in truth}
    for repeats in ("once", "each"):
        assert hits(renamed, known, k, repeated_ids=repeats) == hits(ranking, truth, k, repeated_ids=repeats)
        assert average_rank(renamed, known, k, repeated_ids=repeats, without_hit="zero") == average_rank(
            ranking, truth, k, repeated_ids=repeats, without_hit="zero"
        )


# --- many lists ----------------------------------------------------------------------------------------


class Lists(NamedTuple):
    """Rankings by reply (None: an item that matched nothing), truth by user, and who got which reply."""

    rankings: dict[int, list[int | None]]
    truth: dict[int, list[int]]
    users: dict[int, int]

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        ranked = [
            (reply, rank, item)
            for reply, ranking in self.rankings.items()
            for rank, item in enumerate(ranking, start=1)
            if item is not None
        ]
        true = [(user, item) for user, items in self.truth.items() for item in items]
        return (
            pd.DataFrame(ranked, columns=list(EMPTY)).astype(EMPTY),
            pd.DataFrame(true, columns=["user_id", "item_id"]).astype("int64"),
            pd.DataFrame(self.users.items(), columns=["reply", "user_id"]).astype("int64"),
        )

    def one_by_one(self, k: int, protocol: Protocol) -> pd.DataFrame:
        """Score each list with the list functions."""
        rows = []
        for reply, user in self.users.items():
            # Two items that matched nothing are not the same item.
            ranking = [("?", place) if item is None else item for place, item in enumerate(self.rankings[reply])]
            truth, repeats = self.truth.get(user, []), protocol.repeated_ids
            part = k if protocol.rank_list == "first-k" else None
            rank = average_rank(ranking, truth, part, repeated_ids=repeats, without_hit=protocol.rank_without_hit)
            count = hits(ranking, truth, k, repeated_ids=repeats)
            rows.append((reply, count, hit_rate(ranking, truth, k, repeated_ids=repeats), rank))
        return pd.DataFrame(rows, columns=["reply", "hits", "hit_rate", "average_rank"])


@st.composite
def lists(draw: st.DrawFn) -> Lists:
    replies = draw(st.lists(st.integers(0, 99), min_size=4, max_size=12, unique=True))
    users = {reply: draw(st.integers(1, 3)) for reply in replies}
    matched_or_not = st.one_of(st.none(), ITEMS)
    rankings = {reply: draw(st.lists(matched_or_not, max_size=7)) for reply in replies}
    return Lists(rankings, draw(st.dictionaries(st.integers(1, 3), TRUTHS)), users)


@scorings
@FEW
@given(lists(), KS)
def test_frames_are_scored_as_lists_are(protocol: Protocol, made: Lists, k: int) -> None:
    assert_frame_equal(benefits(*made.frames(), k, protocol), made.one_by_one(k, protocol))


@FEW
@given(st.sampled_from(SCORINGS), lists(), st.randoms(use_true_random=True))
def test_scores_do_not_depend_on_the_order_of_rows(protocol: Protocol, made: Lists, order: random.Random) -> None:
    def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.iloc[order.sample(range(len(frame)), len(frame))]

    rankings, truth, replies = made.frames()
    expected = benefits(rankings, truth, replies, 3, protocol)
    again = benefits(shuffled(rankings), shuffled(truth), replies, 3, protocol)
    assert_frame_equal(again, expected)
    in_other_order = benefits(rankings, truth, shuffled(replies), 3, protocol)
    assert_frame_equal(in_other_order.set_index("reply").loc[expected["reply"]].reset_index(), expected)


def test_the_two_protocols_on_one_list_by_hand() -> None:
    """[A, A, A, B] with A and B right, K = 3, and a refusal."""
    made = Lists({1: [10, 10, 10, 11], 2: []}, {7: [10, 11]}, {1: 7, 2: 7})
    paper, released = (benefits(*made.frames(), 3, protocol) for protocol in (PAPER, RELEASED))
    np.testing.assert_array_equal(paper["hits"], [2, 0])  # B moves up to place 2
    np.testing.assert_array_equal(released["hits"], [3, 0])  # A three times
    np.testing.assert_array_equal(paper["average_rank"], [1.5, NAN])  # (1 + 2) / 2
    np.testing.assert_array_equal(released["average_rank"], [2.5, 0.0])  # (1 + 4) / 2, the whole list
    np.testing.assert_allclose(paper["hit_rate"], [2 / 3, 0.0])
    np.testing.assert_allclose(released["hit_rate"], [1.0, 0.0])


@scorings
def test_a_ranking_is_read_by_its_ranks(protocol: Protocol) -> None:
    """The same rows from the last to the first: which of the three A is the first is said by the rank."""
    rankings, truth, replies = Lists({1: [10, 10, 10, 11], 2: [11]}, {7: [10, 11]}, {1: 7, 2: 7}).frames()
    assert_frame_equal(
        benefits(rankings.iloc[::-1], truth, replies, 3, protocol), benefits(rankings, truth, replies, 3, protocol)
    )


def test_replies_keep_their_order_and_the_result_a_plain_index() -> None:
    made = Lists({5: [1], 2: [2], 9: [1]}, {1: [1]}, {5: 1, 2: 1, 9: 1})
    rankings, truth, replies = made.frames()
    result = benefits(rankings, truth, replies.set_index(pd.Index([30, 10, 20])), 3, PAPER)
    assert result.columns.tolist() == ["reply", "hits", "hit_rate", "average_rank"]
    assert result.index.tolist() == [0, 1, 2]
    assert result["reply"].tolist() == [5, 2, 9]
    assert result["hits"].tolist() == [1, 0, 1]


def test_an_item_of_the_truth_that_stands_there_twice_is_one_hit() -> None:
    made = Lists({1: [1, 2, 3]}, {1: [1, 1, 1, 3, 3]}, {1: 1})
    result = benefits(*made.frames(), 3, RELEASED)
    assert result["hits"].tolist() == [2]
    assert result["average_rank"].tolist() == [2.0]


def test_the_truth_is_each_users_own() -> None:
    made = Lists({1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3]}, {1: [1, 2], 2: [9]}, {1: 1, 2: 2, 3: 3})
    assert benefits(*made.frames(), 3, PAPER)["hits"].tolist() == [2, 0, 0]


@scorings
@pytest.mark.parametrize("typed", [True, False], ids=["typed", "untyped"])
def test_nothing_but_refusals(protocol: Protocol, typed: bool) -> None:
    """Frames built from no row at all have columns without a number type."""
    _, truth, replies = Lists({}, {7: [10]}, {1: 7, 2: 8}).frames()
    rankings = pd.DataFrame([], columns=list(EMPTY))
    result = benefits(rankings.astype(EMPTY) if typed else rankings, truth, replies, 3, protocol)
    assert result["hits"].tolist() == [0, 0]
    assert result["hit_rate"].tolist() == [0.0, 0.0]
    rank = 0.0 if protocol.rank_without_hit == "zero" else NAN
    np.testing.assert_array_equal(result["average_rank"], [rank, rank])
    assert result["hits"].dtype.kind == "i"
    assert result["average_rank"].dtype.kind == "f"


def test_a_ranking_of_no_reply_is_an_error_in_one_line() -> None:
    rankings, truth, replies = Lists({1: [1], 4: [2], 6: [1]}, {1: [1]}, {1: 1}).frames()
    with pytest.raises(DataError, match="rankings: reply 4 is not among the replies") as caught:
        benefits(rankings, truth, replies, 3, PAPER)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("k", [0, -1])
def test_k_of_a_frame_is_at_least_one(k: int) -> None:
    made = Lists({1: [1]}, {1: [1]}, {1: 1})
    with pytest.raises(ValueError, match=f"k = {k}: expected 1 or more"):
        benefits(*made.frames(), k, PAPER)
