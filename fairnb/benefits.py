"""Benefits of a recommendation list: hits and ranks, for one list and for a frame of lists."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Literal

import pandas as pd

from fairnb.errors import DataError
from fairnb.settings import Protocol


def hits(
    ranking: Sequence[Hashable],
    truth: Collection[Hashable],
    k: int,
    *,
    repeated_ids: Literal["once", "each"] = "once",
) -> int:
    """Count the recommended items among the first K that are in the ground truth.

    Parameters
    ----------
    ranking : sequence
        Item ids, best first.
    truth : collection
        Item ids of the ground truth.
    k : int
        Length of the list that counts, at least 1.
    repeated_ids : {"once", "each"}
        An item that stands in the list twice is dropped after its first place, so that those below
        it move up (the lists of the paper are sets), or counts each time (as in the released code).

    Returns
    -------
    int
        From 0 to K. Higher is better. 0 for an empty list or an empty ground truth.

    Raises
    ------
    ValueError
        If K is below 1.

    Notes
    -----
    FairEvalLLM, eq. 6 (numerator). With ``each``, a list of one right item K times has K hits.
    """
    if k < 1:
        raise ValueError(f"k = {k}: expected 1 or more")
    known = set(truth)
    return sum(item in known for item in _listed(ranking, repeated_ids)[:k])


def hit_rate(
    ranking: Sequence[Hashable],
    truth: Collection[Hashable],
    k: int,
    *,
    repeated_ids: Literal["once", "each"] = "once",
) -> float:
    """Compute HitRate@K, the share of the K places that hold an item of the ground truth.

    The parameters are those of `hits`. The denominator is K even if the list is shorter.

    Returns
    -------
    float
        In [0, 1], higher is better; defined for every list.

    Notes
    -----
    FairEvalLLM, eq. 6. Often called precision at K elsewhere.
    """
    return hits(ranking, truth, k, repeated_ids=repeated_ids) / k


def average_rank(
    ranking: Sequence[Hashable],
    truth: Collection[Hashable],
    k: int | None,
    *,
    repeated_ids: Literal["once", "each"] = "once",
    without_hit: Literal["undefined", "zero"] = "undefined",
) -> float:
    """Compute AverageRank@K, the mean rank of the ground-truth items that were recommended.

    Parameters
    ----------
    ranking : sequence
        Item ids, best first; the rank of an item that stands there twice is its first.
    truth : collection
        Item ids of the ground truth.
    k : int or None
        Look at the first K items; None for the whole list.
    repeated_ids : {"once", "each"}
        Whether repeats are dropped before ranks are counted, or keep their places.
    without_hit : {"undefined", "zero"}
        Value of a list without a hit: NaN (eq. 7 divides by zero), or 0 as in the released code.

    Returns
    -------
    float
        In [1, K], LOWER is better; NaN or 0 without a hit. Under ``zero`` the order breaks: a list
        without a hit (0) looks better than a hit on the first place (1).

    Raises
    ------
    ValueError
        If K is below 1.

    Notes
    -----
    FairEvalLLM, eq. 7. Not monotone in quality: a second hit further down raises the mean.
    """
    if k is not None and k < 1:
        raise ValueError(f"k = {k}: expected 1 or more, or None for the whole list")
    known = set(truth)
    first_place: dict[Hashable, int] = {}
    for place, item in enumerate(_listed(ranking, repeated_ids)[:k], start=1):
        if item in known:
            first_place.setdefault(item, place)
    if not first_place:
        return float("nan") if without_hit == "undefined" else 0.0
    return sum(first_place.values()) / len(first_place)


def _listed(ranking: Sequence[Hashable], repeated_ids: str) -> list[Hashable]:
    return list(ranking) if repeated_ids == "each" else list(dict.fromkeys(ranking))


def benefits(
    rankings: pd.DataFrame, truth: pd.DataFrame, replies: pd.DataFrame, k: int, protocol: Protocol
) -> pd.DataFrame:
    """Score many lists at once, with the same definitions as `hits` and `average_rank`.

    Parameters
    ----------
    rankings : DataFrame
        One row per recommended item that was matched: ``reply``, ``rank`` (from 1), ``item_id``.
    truth : DataFrame
        One row per ground-truth item of a user: ``user_id``, ``item_id``.
    replies : DataFrame
        One row per reply: ``reply``, ``user_id``; every reply of it is in the result.
    k : int
        K of the metrics.
    protocol : Protocol
        Fields ``repeated_ids``, ``rank_without_hit`` and ``rank_list`` are used.

    Returns
    -------
    DataFrame
        ``reply`` (in the order of `replies`), ``hits`` (int), ``hit_rate`` (in [0, 1]),
        ``average_rank`` (LOWER is better; NaN where undefined).

    Raises
    ------
    DataError
        If a ranking belongs to no reply, or a reply stands twice.
    ValueError
        If K is below 1.
    """
    if k < 1:
        raise ValueError(f"k = {k}: expected 1 or more")
    if replies["reply"].duplicated().any():
        twice = replies.loc[replies["reply"].duplicated(), "reply"].iloc[0]
        raise DataError(f"replies: reply {twice!r} stands twice; expected one row a reply")
    strangers = set(rankings["reply"]) - set(replies["reply"])
    if strangers:
        raise DataError(f"rankings: reply {min(strangers)!r} is not among the replies; drop it or add it there")
    listed = rankings.sort_values(["reply", "rank"], kind="stable")
    listed = listed.assign(repeat=listed.duplicated(["reply", "item_id"]))
    if protocol.repeated_ids == "once":
        moved_up = listed.groupby("reply")["repeat"].cumsum()
        listed = listed.assign(rank=listed["rank"] - moved_up)[~listed["repeat"]]
    listed = listed.merge(replies[["reply", "user_id"]], on="reply")
    found = listed.merge(truth[["user_id", "item_id"]].drop_duplicates(), on=["user_id", "item_id"])

    count = found[found["rank"] <= k].groupby("reply").size()
    ranked = found[~found["repeat"]]
    if protocol.rank_list == "first-k":
        ranked = ranked[ranked["rank"] <= k]
    mean_rank = ranked.groupby("reply")["rank"].mean()

    result = replies[["reply"]].reset_index(drop=True)
    result["hits"] = result["reply"].map(count).fillna(0).astype(int)
    result["hit_rate"] = result["hits"] / k
    result["average_rank"] = result["reply"].map(mean_rank).astype(float)
    if protocol.rank_without_hit == "zero":
        result["average_rank"] = result["average_rank"].fillna(0.0)
    return result
