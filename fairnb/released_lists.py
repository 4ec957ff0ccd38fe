"""What the released lists hold beside their benefits: places, likeness, and how ids and titles go together.

All of it is counts and shares; no title and no id leaves this module.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, product

import pandas as pd

from fairnb.datasets.released import DEMOGRAPHICS, Replies
from fairnb.matching import Catalogue
from fairnb.parsing import Item, parse_lines
from fairnb.settings import ICLS, SAMPLINGS
from fairnb.similarity import jaccard_of
from fairnb.titles import artist_key, match_key

# The eight prompts of a scenario: what is stated, and whether it is flipped.
CONDITIONS = tuple(f"{demographics}/{flipped}" for flipped in ("no", "yes") for demographics in DEMOGRAPHICS)


def items_of(source: Replies) -> dict[int, tuple[Item, ...]]:
    """Read the items of each reply that could be read."""
    readable = source.replies[source.replies["status"] == "ok"]
    return {
        int(reply): parse_lines(text).items for reply, text in zip(readable["reply"], readable["text"], strict=True)
    }


def agreement(source: Replies, items: dict[int, tuple[Item, ...]]) -> pd.DataFrame:
    """Compare the lists that a user got within a scenario, for every pair of the eight prompts.

    Parameters
    ----------
    source : Replies
    items : dict
        From `items_of`.

    Returns
    -------
    DataFrame
        ``dataset``, ``sampling``, ``icl``, ``first``, ``second`` (demographics/counterfactual), ``users``,
        ``jaccard`` (mean over users, in [0, 1]), ``sd`` (over users, divisor n - 1), ``equal`` (share of users with
        equal sets). A title counts as the same after normalising; artists are not compared.
    """
    rows = [(reply, match_key(item.title)) for reply, entries in items.items() for item in entries]
    rankings = pd.DataFrame(rows, columns=["reply", "item"])
    own = ["sampling", "icl", "user_id"]
    table = source.replies[["reply", *own]].assign(
        condition=source.replies["demographics"] + "/" + source.replies["counterfactual"]
    )
    pairs = table.merge(table, on=own, suffixes=("", "_second")).rename(columns={"reply": "first"})
    pairs["jaccard"] = jaccard_of(rankings, pairs.rename(columns={"reply_second": "second"}))
    known = pairs[pairs["jaccard"].notna()]
    known = known.assign(equal=known["jaccard"] > 1 - 1e-9)
    found = known.groupby(["sampling", "icl", "condition", "condition_second"]).agg(
        users=("jaccard", "size"), jaccard=("jaccard", "mean"), sd=("jaccard", "std"), equal=("equal", "mean")
    )
    wanted = [
        (sampling, icl, *two) for sampling, icl in product(SAMPLINGS, ICLS) for two in combinations(CONDITIONS, 2)
    ]
    index = pd.MultiIndex.from_tuples(wanted, names=["sampling", "icl", "first", "second"])
    # Pairs that nobody has stand all the same, with 0 users.
    whole = found.reindex(index).fillna({"users": 0}).astype({"users": "int64"}).reset_index()
    return whole.assign(dataset=source.dataset)[["dataset", *whole.columns]]


def matching(source: Replies, items: dict[int, tuple[Item, ...]], catalogue: Catalogue | None) -> pd.DataFrame:
    """Count how the ids of the lists go together with their titles.

    Parameters
    ----------
    source : Replies
    items : dict
        From `items_of`.
    catalogue : Catalogue or None
        Titles to ids; None where no catalogue was released.

    Returns
    -------
    DataFrame
        ``dataset``, ``check``, ``places``, ``of``: how many of so many places of lists. Only lists with as many ids
        as titles count, for only there an id has its title. With a catalogue: places whose title is in it, and
        among these those whose id is that title's. Without: places whose id stands more often beside another
        title (an id is one item, so at most one of its titles can be exact), and beside another artist.
    """
    ids = source.rankings.sort_values(["reply", "rank"]).groupby("reply")["item_id"].agg(list).to_dict()
    pairs = [
        (item, found)
        for reply, entries in items.items()
        if len(entries) == len(ids.get(reply, []))
        for item, found in zip(entries, ids.get(reply, []), strict=True)
    ]
    rows = [("places with an id beside a title", len(pairs), sum(len(entries) for entries in items.values()))]
    if catalogue is not None:
        exact = [catalogue.match(item.readings).item_id for item, _ in pairs]
        known = [one for one in exact if one is not None]
        same = sum(one == found for one, (_, found) in zip(exact, pairs, strict=True) if one is not None)
        rows += [
            ("title is in the catalogue", len(known), len(pairs)),
            ("the id is that title's", same, len(known)),
            ("an id although the title is not in the catalogue", len(pairs) - len(known), len(pairs)),
        ]
    rows.append(_minority("the id stands more often beside another title", [(match_key(i.title), f) for i, f in pairs]))
    artists = [(artist_key(item.pairs[0][1]), found) for item, found in pairs if item.pairs]
    if catalogue is None:
        rows.append(_minority("the id stands more often beside another artist", artists))
    return pd.DataFrame(rows, columns=["check", "places", "of"]).assign(dataset=source.dataset)[
        ["dataset", "check", "places", "of"]
    ]


def _minority(name: str, pairs: list[tuple[str, int]]) -> tuple[str, int, int]:
    beside: dict[int, Counter[str]] = defaultdict(Counter)
    for text, found in pairs:
        beside[found][text] += 1
    return name, sum(sum(counts.values()) - max(counts.values()) for counts in beside.values()), len(pairs)


def truths(source: Replies, train: pd.DataFrame | None = None, test: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count the items of the file's ground truth, and how many of them the parts of the split hold.

    Returns
    -------
    DataFrame
        One row: ``dataset``, ``users``, ``items`` (distinct, over all users), ``in_train``, ``in_heldout``, ``train``
        and ``heldout`` (distinct items of these parts), ``equal_to_train`` (users whose ground truth is their train
        part, item for item). The last five are missing where the split was not released.
    """
    own = source.truth.drop_duplicates()
    row: dict[str, object] = {
        "dataset": source.dataset,
        "users": own["user_id"].nunique(),
        "items": len(own),
    }
    for name, part in (("train", train), ("heldout", test)):
        pairs = None if part is None else part[["user_id", "item_id"]].drop_duplicates()
        row[name] = pd.NA if pairs is None else len(pairs)
        row[f"in_{name}"] = pd.NA if pairs is None else len(pairs.merge(own, on=["user_id", "item_id"]))
    row["equal_to_train"] = pd.NA
    if train is not None:
        sets = [part.groupby("user_id")["item_id"].agg(set) for part in (own, train)]
        row["equal_to_train"] = sum(sets[1].get(user) == found for user, found in sets[0].items())
    return pd.DataFrame([row])
