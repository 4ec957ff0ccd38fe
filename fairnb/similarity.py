"""How alike two recommendation lists are."""

from __future__ import annotations

from collections.abc import Collection, Hashable

import pandas as pd


def jaccard(first: Collection[Hashable], second: Collection[Hashable]) -> float:
    """Compute the Jaccard similarity of two lists, taken as sets.

    Parameters
    ----------
    first, second : collection
        Items; order and repeats do not matter.

    Returns
    -------
    float
        Common items / items in either, in [0, 1]; 1 for equal sets. NaN if both are empty: two refusals are
        not two equal lists.

    Notes
    -----
    Source: Can Fairness Be Prompted?, section 3 (Jaccard@K).
    """
    one, other = set(first), set(second)
    return len(one & other) / len(one | other) if one or other else float("nan")


def jaccard_of(rankings: pd.DataFrame, pairs: pd.DataFrame) -> pd.Series:
    """Compute `jaccard` for many pairs of lists at once.

    Parameters
    ----------
    rankings : DataFrame
        ``reply`` and ``item`` (anything that is equal for equal items); repeats do not matter.
    pairs : DataFrame
        ``first`` and ``second``: replies.

    Returns
    -------
    Series of float
        On the index of `pairs`; NaN where neither reply is in `rankings`.
    """
    sets = rankings[["reply", "item"]].drop_duplicates()
    sizes = sets.groupby("reply").size()
    numbered = pairs[["first", "second"]].reset_index(drop=True).rename_axis("pair").reset_index()
    left = numbered.merge(sets, left_on="first", right_on="reply")[["pair", "second", "item"]]
    both = left.merge(sets, left_on=["second", "item"], right_on=["reply", "item"]).groupby("pair").size()
    common = both.reindex(numbered["pair"], fill_value=0).to_numpy(dtype=float)
    size = [numbered[side].map(sizes).fillna(0).to_numpy(dtype=float) for side in ("first", "second")]
    either = size[0] + size[1] - common
    return pd.Series(common, pairs.index).div(pd.Series(either, pairs.index).replace(0.0, float("nan")))
