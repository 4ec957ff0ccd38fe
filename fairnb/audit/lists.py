"""What the agreement of a user's lists says of the prompts behind them, and of the noise under every ΔB."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from fairnb import statistics
from fairnb.datasets.released import DEMOGRAPHICS
from fairnb.released_lists import CONDITIONS

# The facts that a prompt states about a user, by its name.
_STATED = {"none": set(), "gender": {"gender"}, "age": {"age"}, "intersectional": {"gender", "age"}}


def facts_apart(first: str, second: str) -> int:
    """Count the facts in which two prompts of a scenario differ, if they are as described.

    Parameters
    ----------
    first, second : str
        Such as ``gender/no``: what is stated, and whether it is flipped.

    Returns
    -------
    int
        0 (the same text) to 2: a fact counts that one states and the other does not, or that they state differently.
    """
    facts = []
    for condition in (first, second):
        demographics, flipped = condition.split("/")
        facts.append({(fact, flipped) for fact in _STATED[demographics]})
    return len({fact for fact, _ in facts[0] ^ facts[1]})


def pairs(agreement: pd.DataFrame) -> pd.DataFrame:
    """Average the agreement of lists over scenarios, per data set and pair of prompts.

    Returns
    -------
    DataFrame
        ``dataset``, ``first``, ``second``, ``facts`` (see `facts_apart`), ``same_flag`` (both filed under the same
        value of counterfactual), ``jaccard`` (mean over scenarios), ``described`` (what it would be if only the
        stated facts mattered: the mean over all pairs with as many facts apart), ``scenarios``.
    """
    found = []
    for (dataset, first, second), part in agreement.groupby(["dataset", "first", "second"], sort=False):
        known = part["jaccard"].dropna()
        found.append(
            {
                "dataset": dataset,
                "first": first,
                "second": second,
                "facts": facts_apart(first, second),
                "same_flag": first.split("/")[1] == second.split("/")[1],
                "jaccard": float(known.mean()),
                "scenarios": len(known),
            }
        )
    frame = pd.DataFrame(found)
    return frame.assign(described=frame.groupby(["dataset", "facts"])["jaccard"].transform("mean"))


def matrix(table: pd.DataFrame, dataset: str, column: str) -> pd.DataFrame:
    """Lay out one column of `pairs` as a square, 1 on the diagonal."""
    part = table[table["dataset"] == dataset]
    square = pd.DataFrame(np.eye(len(CONDITIONS)), index=CONDITIONS, columns=CONDITIONS)
    for row in part.itertuples():
        square.loc[row.first, row.second] = square.loc[row.second, row.first] = getattr(row, column)
    return square


def by_flag(agreement: pd.DataFrame) -> pd.DataFrame:
    """Compare pairs one fact apart that were filed under the same value of counterfactual with pairs that were not.

    A prompt that states one fact is one fact away from either neutral prompt, whose texts are equal. If prompts
    differ in these facts alone, its list is as much like one neutral list as like the other.

    Returns
    -------
    DataFrame
        ``dataset``, ``same`` and ``other`` (mean Jaccard with the neutral list filed under the same, and under the
        other value), ``again`` (of the two neutral lists), ``scenarios``, ``same_higher`` (scenarios in which ``same``
        is higher), ``p`` (two-sided sign test over scenarios).
    """
    found = []
    for dataset, part in agreement.groupby("dataset", sort=False):
        known = part.assign(
            facts=[facts_apart(a, b) for a, b in zip(part["first"], part["second"], strict=True)],
            same=part["first"].str.split("/").str[1] == part["second"].str.split("/").str[1],
            neutral=part["first"].str.startswith("none/") | part["second"].str.startswith("none/"),
        )
        one = known[(known["facts"] == 1) & known["neutral"]]
        wide = one.groupby(["sampling", "icl", "same"])["jaccard"].mean().unstack("same").dropna()
        again = known.loc[known["facts"] == 0, "jaccard"]
        higher = int((wide[True] > wide[False]).sum())
        found.append(
            {
                "dataset": dataset,
                "same": float(wide[True].mean()),
                "other": float(wide[False].mean()),
                "again": float(again.mean()),
                "scenarios": len(wide),
                "same_higher": higher,
                "p": statistics.sign_test(higher, len(wide)),
            }
        )
    return pd.DataFrame(found)


def baseline(agreement: pd.DataFrame) -> dict[str, float]:
    """Compare, for one data set, the neutral list with the lists under flipped prompts and with a second neutral one.

    Returns
    -------
    dict
        ``flipped`` and ``again`` (mean Jaccard with the neutral list filed under counterfactual = no), ``scenarios``,
        ``lower`` (scenarios in which ``flipped`` is lower).
    """
    start = agreement[agreement["first"] == "none/no"]
    again = start[start["second"] == "none/yes"].set_index(["sampling", "icl"])["jaccard"]
    stated = [f"{name}/yes" for name in DEMOGRAPHICS if name != "none"]
    flipped = start[start["second"].isin(stated)].groupby(["sampling", "icl"])["jaccard"].mean()
    both = pd.DataFrame({"again": again, "flipped": flipped}).dropna()
    return {
        "flipped": float(both["flipped"].mean()) if len(both) else math.nan,
        "again": float(both["again"].mean()) if len(both) else math.nan,
        "scenarios": len(both),
        "lower": int((both["flipped"] < both["again"]).sum()),
    }
