"""What stands on each place of a recommendation list, as a word, and the benefit of that word by any rule.

A word has one letter per place, best place first: ``h`` an item of the ground truth, ``H`` the same item
over again, ``m`` a matched item that is not in the ground truth, ``M`` the same one over again, ``-`` an
item without an id. The word is all that HitRate and AverageRank need, and it names no item.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import lru_cache

import pandas as pd

from fairnb.benefits import average_rank, hits
from fairnb.errors import DataError
from fairnb.settings import Protocol

LETTERS = "hHmM-"


def spell(ranking: Sequence[Hashable | None], truth: Collection[Hashable]) -> str:
    """Write a list as a word.

    Parameters
    ----------
    ranking : sequence
        Item ids, best first; None for an item without an id.
    truth : collection
        Item ids of the ground truth.

    Returns
    -------
    str
        One letter per place; empty for an empty list.
    """
    seen: set[Hashable] = set()
    word = []
    for item in ranking:
        letter = "-" if item is None else "h" if item in truth else "m"
        word.append(letter.upper() if item in seen else letter)
        if item is not None:
            seen.add(item)
    return "".join(word)


def words(rankings: pd.DataFrame, truth: pd.DataFrame, replies: pd.DataFrame) -> pd.Series:
    """Write many lists as words.

    Parameters
    ----------
    rankings : DataFrame
        ``reply``, ``rank`` (place in the list, from 1), ``item_id``; a place without a row holds an item without
        an id.
    truth : DataFrame
        ``user_id``, ``item_id``.
    replies : DataFrame
        ``reply``, ``user_id``.

    Returns
    -------
    Series of str
        On the index of `replies`.
    """
    known = truth.groupby("user_id")["item_id"].agg(set).to_dict()
    lists: dict[object, dict[int, object]] = {}
    for reply, rank, item in zip(rankings["reply"], rankings["rank"], rankings["item_id"], strict=True):
        lists.setdefault(reply, {})[int(rank)] = item
    found = []
    for reply, user in zip(replies["reply"], replies["user_id"], strict=True):
        places = lists.get(reply, {})
        ranking = [places.get(place) for place in range(1, max(places, default=0) + 1)]
        found.append(spell(ranking, known.get(user, set())))
    return pd.Series(found, index=replies.index, dtype=str)


def benefits(spelt: pd.Series, k: int, protocol: Protocol) -> pd.DataFrame:
    """Compute the benefits of lists that are given as words.

    Parameters
    ----------
    spelt : Series of str
    k : int
        K of the metrics.
    protocol : Protocol
        ``repeated_ids``, ``rank_without_hit`` and ``rank_list`` are used.

    Returns
    -------
    DataFrame
        ``hits``, ``hit_rate``, ``average_rank`` on the index of `spelt`, as `fairnb.benefits.benefits` gives them.

    Raises
    ------
    DataError
        If a word has a letter that is none of `LETTERS`.
    """
    strange = ~spelt.str.fullmatch(f"[{LETTERS}]*")
    if strange.any():
        raise DataError(f"places: {spelt[strange].iloc[0]!r} is no word of the letters {LETTERS}")
    table = {word: _benefit(word, k, protocol) for word in spelt.unique()}
    rows = [table[word] for word in spelt]
    return pd.DataFrame(rows, index=spelt.index, columns=["hits", "hit_rate", "average_rank"])


@lru_cache(maxsize=10_000)
def _benefit(word: str, k: int, protocol: Protocol) -> tuple[int, float, float]:
    # Which item stands where does not matter, only whether it is new: numbers will do, and a repeat
    # repeats the last one of its kind.
    items: list[tuple[str, int]] = []
    last = {"h": -1, "m": -1}
    for place, letter in enumerate(word):
        kind = letter.lower()
        if letter in "hm":
            last[kind] = place
        items.append((kind, place if letter == "-" else last[kind]))
    truth = {item for item in items if item[0] == "h"}
    count = hits(items, truth, k, repeated_ids=protocol.repeated_ids)
    rank = average_rank(
        items,
        truth,
        k if protocol.rank_list == "first-k" else None,
        repeated_ids=protocol.repeated_ids,
        without_hit=protocol.rank_without_hit,
    )
    return count, count / k, rank
