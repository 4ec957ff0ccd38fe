"""Sentences of FairEvalLLM set against the numbers that they speak of, each by a check in code.

``data/published/claims.csv`` names the sentence, the rows it speaks of and the check; verdict and reason are
computed here. A check sees printed tables, rebuilt ones, and the agreement of the released lists. "Supported" is
said of the sentence, not of what it may be taken to mean.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from fairnb import statistics
from fairnb.audit import lists
from fairnb.datasets.released import TITLES
from fairnb.errors import DataError
from fairnb.settings import ICLS, SAMPLINGS

SUPPORTED, NOT_SUPPORTED, NOT_CHECKABLE = "supported", "not supported", "not checkable"
COLUMNS = ["id", "section", "quote", "rows", "check"]
_QUOTED_WORDS = 10
# Numbers are quoted as printed; half a unit of the fourth decimal is rounding.
_FOURTH = 5e-5 + 1e-12


@dataclass(frozen=True)
class Evidence:
    """What the checks look at.

    Attributes
    ----------
    table2, table4 : DataFrame
        The printed tables, as in ``data/published``; samplings by their full names.
    rows : dict of str to DataFrame
        Data set to `fairnb.fairness.table` of its released replies, protocol ``released``.
    intrinsic : DataFrame
        `fairnb.fairness.intrinsic` of Last.fm, hit.
    replies : dict of str to (int, int)
        Data set to its number of replies and of conditions per user.
    agreement : DataFrame
        See `fairnb.released_lists.agreement`.
    alpha : float
    """

    table2: pd.DataFrame
    table4: pd.DataFrame
    rows: dict[str, pd.DataFrame]
    intrinsic: pd.DataFrame
    replies: dict[str, tuple[int, int]]
    agreement: pd.DataFrame
    alpha: float


Verdict = tuple[str, str]
Check = Callable[[Evidence, str], Verdict]
CHECKS: dict[str, Check] = {}


def _check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def read(file: Path) -> pd.DataFrame:
    """Read the list of claims.

    Returns
    -------
    DataFrame
        The columns of `COLUMNS`, as text.

    Raises
    ------
    DataError
        If a column is missing, an id stands twice, a quotation is longer than ten words, or a check is unknown.
    """
    with file.open(encoding="utf-8", newline="") as handle:
        table = pd.DataFrame(list(csv.DictReader(handle)), dtype=str)
    if list(table.columns) != COLUMNS:
        raise DataError(f"{file}: expected the columns {', '.join(COLUMNS)}")
    for line, row in enumerate(table.itertuples(), start=2):
        if row.check not in CHECKS:
            raise DataError(f"{file}, line {line}, column check: {row.check!r}; expected one of {', '.join(CHECKS)}")
        if len(row.quote.split()) > _QUOTED_WORDS:
            raise DataError(f"{file}, line {line}, column quote: more than {_QUOTED_WORDS} words; shorten it")
    if table["id"].duplicated().any():
        raise DataError(f"{file}, column id: {table.loc[table['id'].duplicated(), 'id'].iloc[0]!r} stands twice")
    return table


def verdicts(claims: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Run the check of each claim.

    Returns
    -------
    DataFrame
        `claims` with ``verdict`` (supported, not supported, not checkable) and ``why`` (the numbers behind it).
    """
    found = [CHECKS[check](evidence, rows) for check, rows in zip(claims["check"], claims["rows"], strict=True)]
    return claims.assign(verdict=[verdict for verdict, _ in found], why=[why for _, why in found])


_SHORT = {"rand": "random", "freq": "frequent", "rec-freq": "recent-frequent"}


def _part(table: pd.DataFrame, rows: str) -> pd.DataFrame:
    """Keep the rows of a table that a claim speaks of: the words after the colon are values of its columns."""
    words = [_SHORT.get(word, word) for word in rows.partition(":")[2].split() if word != "all"]
    columns = [name for name in ("attribute", "notion", "icl", "sampling", "benefit") if name in table.columns]
    for word in words:
        column = next((name for name in columns if (table[name] == word).any()), None)
        if column is None:
            raise DataError(f"claims, rows {rows!r}: {word!r} is in no column of the table")
        table = table[table[column] == word]
    return table


def _verdict(*, holds: bool, why: str) -> Verdict:
    return SUPPORTED if holds else NOT_SUPPORTED, why


def _signed(value: float) -> str:
    return f"{value:.4f}"


@_check
def conditions_per_user(evidence: Evidence, _: str) -> Verdict:
    """Check that more than 50 conditions were asked per user."""
    counts = {name: conditions for name, (_, conditions) in evidence.replies.items()}
    text = ", ".join(f"{count} on {TITLES[name]}" for name, count in counts.items())
    return _verdict(holds=min(counts.values()) > 50, why=f"Conditions per user in the released files: {text}.")


@_check
def number_of_replies(evidence: Evidence, _: str) -> Verdict:
    """Check that more than 4,000 replies were released."""
    counts = {name: replies for name, (replies, _) in evidence.replies.items()}
    text = ", ".join(f"{count:,} for {TITLES[name]}" for name, count in counts.items())
    return _verdict(holds=sum(counts.values()) > 4000, why=f"Replies in the released files: {text}.")


@_check
def no_difference_left_after_correction(evidence: Evidence, rows: str) -> Verdict:
    """Check that no row of the family is below alpha after Benjamini-Hochberg."""
    p = _part(evidence.table2, rows)["p"]
    q = statistics.benjamini_hochberg(p)
    return _verdict(
        holds=bool((q >= evidence.alpha).all()),
        why=f"{int((p < evidence.alpha).sum())} of {len(p)} printed p are below {evidence.alpha:g} "
        f"({evidence.alpha * len(p):.1f} expected if there were no difference anywhere); smallest q {q.min():.3f}. Not "
        f"detected at this number of users, which is not the same as absent.",
    )


@_check
def detected_rows_are_rare(evidence: Evidence, rows: str) -> Verdict:
    """Check that no more rows are below alpha than alpha times their number."""
    p = _part(evidence.table2, rows)["p"]
    few = int((p < evidence.alpha).sum())
    return _verdict(
        holds=few <= evidence.alpha * len(p),
        why=f"{few} of {len(p)} printed p are below {evidence.alpha:g}; {evidence.alpha * len(p):.1f} are expected by "
        f"chance alone.",
    )


@_check
def some_row_not_detected(evidence: Evidence, rows: str) -> Verdict:
    """Check that some row is not below alpha."""
    p = _part(evidence.table2, rows)["p"]
    high = int((p >= evidence.alpha).sum())
    return _verdict(holds=high > 0, why=f"{high} of {len(p)} printed p are {evidence.alpha:g} or more.")


@_check
def some_row_detected(evidence: Evidence, rows: str) -> Verdict:
    """Check that some row is below alpha by the printed test and by a permutation of group labels."""
    rebuilt = _part(evidence.rows["lastfm1k"], rows)
    if rebuilt["p"].isna().all():
        return NOT_CHECKABLE, "No row was tested: a group has too few users for min_group."
    low = rebuilt[rebuilt["p"] < evidence.alpha]
    kept = low[(low["p_permutation"] < evidence.alpha) & (low["note"] == "")]
    named = "; ".join(
        f"{row.notion} {row.icl} / {row.sampling} {row.benefit}: p {row.p:.3f}, permutation {row.p_permutation:.3f}"
        f"{f', {row.note}' if row.note else ''}"
        for row in low.itertuples()
    )
    text = f"{len(low)} of {len(rebuilt)} rows have p < {evidence.alpha:g}" + (f" ({named})" if named else "")
    return _verdict(
        holds=len(kept) > 0, why=f"{text}; {len(kept)} of them by both tests with variation in both groups."
    )


@_check
def detected(evidence: Evidence, rows: str) -> Verdict:
    """Check that the row named is below alpha."""
    row = _part(evidence.rows["lastfm1k"], rows).iloc[0]
    if math.isnan(row["p"]):
        return NOT_CHECKABLE, f"δ = {_signed(row['delta'])}, n = {row['n1']} and {row['n2']}: {row['note'] or 'no p'}."
    return _verdict(
        holds=bool(row["p"] < evidence.alpha and not row["note"]),
        why=f"δ = {_signed(row['delta'])}, n = {row['n1']} and {row['n2']}: p {row['p']:.3f}, permutation "
        f"{row['p_permutation']:.3f}, q {row['q']:.3f}; a difference counts as significant in the paper's Table 1 "
        f"where p is below the level of the test, here {evidence.alpha:g}.",
    )


@_check
def not_detected(evidence: Evidence, rows: str) -> Verdict:
    """Check that the row named is not below alpha."""
    verdict, why = detected(evidence, rows)
    if verdict == NOT_CHECKABLE:
        return verdict, why
    return _verdict(holds=verdict == NOT_SUPPORTED, why=why.partition("; a difference")[0] + ".")


@_check
def row_as_printed(evidence: Evidence, rows: str) -> Verdict:
    """Check that the numbers in the sentence are those of Table 2, and come out of the released replies."""
    printed, rebuilt = (_part(table, rows).iloc[0] for table in (evidence.table2, evidence.rows["lastfm1k"]))
    numbers = [(name, printed[name], rebuilt[name]) for name in ("group1", "group2", "delta", "p")]
    same = all(
        abs(was - now) < (5e-4 + 1e-12 if name == "p" else _FOURTH)
        for name, was, now in numbers
        if name != "p" or not math.isnan(now)
    )
    p = "not tested" if math.isnan(rebuilt["p"]) else f"{rebuilt['p']:.3f}"
    return _verdict(
        holds=same,
        why=f"Table 2: {_signed(printed['group1'])} − ({_signed(printed['group2'])}) = {_signed(printed['delta'])}, "
        f"p {printed['p']:.3f}; rebuilt from the replies: {_signed(rebuilt['delta'])}, p {p}.",
    )


@_check
def recent_frequent_is_largest(evidence: Evidence, rows: str) -> Verdict:
    """Check that the mean |δ| over the ICL styles is largest with recent-frequent sampling."""
    size = _part(evidence.table2, rows).assign(size=lambda table: table["delta"].abs()).groupby("sampling")["size"]
    means = size.mean().reindex(list(SAMPLINGS))
    low = _part(evidence.table2, rows)["p"].min()
    return _verdict(
        holds=means.idxmax() == "recent-frequent",
        why="Mean |δ| of three rows each: "
        + ", ".join(f"{name} {value:.4f}" for name, value in means.items())
        + f". None of the nine rows has p < {evidence.alpha:g} (smallest {low:.3f}), so the order itself is uncertain.",
    )


@_check
def icl_moves_deviations(evidence: Evidence, rows: str) -> Verdict:
    """Check that δB of the groups differs between the ICL styles."""
    part = _part(evidence.table2, rows)
    spans = part.groupby(["notion", "sampling"])[["group1", "group2"]].agg(lambda values: values.max() - values.min())
    widest, usual = float(spans.to_numpy().max()), float(spans.to_numpy().mean())
    return _verdict(
        holds=widest > 0,
        why=f"Within a notion and sampling the group means differ between ICL styles by up to "
        f"{widest:.4f} ({usual:.4f} on average). Fluctuation alone says nothing of fairness: means move as well "
        f"when the same text is asked again.",
    )


@_check
def has_column_ssnv(evidence: Evidence, _: str) -> Verdict:
    """Check that the sentence names a column that the table has."""
    names = [name.upper() for name in evidence.table2.columns if name.startswith("s") and name != "sampling"]
    if "SSNV" in names:
        return SUPPORTED, "Table 2 has a column SSNV."
    return (
        NOT_CHECKABLE,
        f"Table 2 prints {' and '.join(names)}; it has no SSNV, and no measure of consistency is named.",
    )


@_check
def ssnr_goes_with_size(evidence: Evidence, rows: str) -> Verdict:
    """Check that Spearman's correlation of SSNR and |δ| is above 0 with p < alpha in each attribute and benefit."""
    part = _part(evidence.table2, rows)
    found = []
    for (attribute, benefit), group in part.groupby(["attribute", "benefit"], sort=False):
        result = stats.spearmanr(group["ssnr"], group["delta"].abs())
        found.append((f"{attribute} {benefit}", float(result.statistic), float(result.pvalue)))
    strong = [name for name, rho, p in found if rho > 0 and p < evidence.alpha]
    return _verdict(
        holds=len(strong) == len(found),
        why="Spearman's ρ of SSNR and |δ| over 18 rows each: "
        + ", ".join(f"{name} {rho:.2f} (p {p:.3f})" for name, rho, p in found)
        + f". Positive and detected in {len(strong)} of {len(found)}.",
    )


@_check
def intrinsic_difference_detected(evidence: Evidence, rows: str) -> Verdict:
    """Check that some row of Table 4 is below alpha by a permutation of the users' group labels, after correction."""
    part = _part(evidence.intrinsic, rows)
    part = part[part["p_permutation"].notna()]
    if part.empty:
        return NOT_CHECKABLE, "No row was tested: a group has too few users for min_group."
    q = statistics.benjamini_hochberg(part["p_permutation"])
    around = int(((part["ci_low"] <= 0) & (part["ci_high"] >= 0)).sum())
    means = int((part["p_bootstrap_means"] < evidence.alpha).sum())
    return _verdict(
        holds=bool((q < evidence.alpha).any()),
        why=f"{around} of {len(part)} intervals of the difference include 0; smallest permutation p "
        f"{part['p_permutation'].min():.3f}, smallest q {q.min():.3f}. The released code's test gives "
        f"p < {evidence.alpha:g} in {means} of {len(part)} rows; its n counts bootstrap replicates, not users.",
    )


def _signs(evidence: Evidence, rows: str) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    printed, rebuilt = _part(evidence.table4, rows), _part(evidence.intrinsic, rows)
    gaps = rebuilt["mean1"] - rebuilt["mean2"]
    text = (
        f"Second group higher in {int((printed['delta'] < 0).sum())} of {len(printed)} printed rows and in "
        f"{int((gaps < 0).sum())} of {len(rebuilt)} rebuilt from the replies; smallest permutation p "
        f"{rebuilt['p_permutation'].min():.3f}."
    )
    return printed, rebuilt.assign(gap=gaps), text


@_check
def second_group_higher(evidence: Evidence, rows: str) -> Verdict:
    """Check that the second group's mean is higher in all rows, as printed and as rebuilt."""
    printed, rebuilt, text = _signs(evidence, rows)
    return _verdict(holds=bool((printed["delta"] < 0).all() and (rebuilt["gap"] < 0).all()), why=text)


@_check
def second_group_mostly_higher(evidence: Evidence, rows: str) -> Verdict:
    """Check that the second group's mean is higher in more than half of the rows, as printed and as rebuilt."""
    printed, rebuilt, text = _signs(evidence, rows)
    return _verdict(holds=bool((printed["delta"] < 0).mean() > 0.5 and (rebuilt["gap"] < 0).mean() > 0.5), why=text)


@_check
def first_group_higher(evidence: Evidence, rows: str) -> Verdict:
    """Check that the first group's mean is higher in all rows, as printed and as rebuilt."""
    printed, rebuilt, text = _signs(evidence, rows)
    return _verdict(
        holds=bool((printed["delta"] > 0).all() and (rebuilt["gap"] > 0).all()),
        why=text,
    )


@_check
def difference_as_printed(evidence: Evidence, rows: str) -> Verdict:
    """Check that the printed difference lies within three standard errors of the rebuilt one."""
    printed, rebuilt = _part(evidence.table4, rows).iloc[0], _part(evidence.intrinsic, rows).iloc[0]
    error = math.hypot(rebuilt["error1"], rebuilt["error2"])
    gap = rebuilt["mean1"] - rebuilt["mean2"]
    return _verdict(
        holds=abs(printed["delta"] - gap) <= 3 * error,
        why=f"Printed {_signed(printed['delta'])}; from the released replies {_signed(gap)}, Monte Carlo standard "
        f"error of the paper's bootstrap {error:.4f}; permutation p {rebuilt['p_permutation']:.3f}.",
    )


@_check
def age_has_the_signs_of_gender(evidence: Evidence, _: str) -> Verdict:
    """Check that differences by age have the signs of those by gender, as printed and as rebuilt."""
    agree = []
    for table, values in (
        (evidence.table4, evidence.table4["delta"]),
        (evidence.intrinsic, evidence.intrinsic["mean1"] - evidence.intrinsic["mean2"]),
    ):
        wide = table.assign(sign=np.sign(values)).pivot(index=["sampling", "icl"], columns="attribute", values="sign")
        agree.append(int((wide["age"] == wide["gender"]).sum()))
    scenarios = len(SAMPLINGS) * len(ICLS)
    return _verdict(
        holds=agree == [scenarios, scenarios],
        why=f"Equal signs in {agree[0]} of {scenarios} scenarios as printed, in {agree[1]} as rebuilt with the age "
        f"groups. The printed age half is compatible with the gender groups' means (notebook 04).",
    )


@_check
def peak_of_figure2(evidence: Evidence, rows: str) -> Verdict:
    """Check that the largest δ (gender, hit, NSD) of the data set stands in the scenario named."""
    dataset, _, icl, sampling = rows.partition(":")[2].split()
    table = evidence.rows[dataset]
    part = table[(table["attribute"] == "gender") & (table["notion"] == "NSD") & (table["benefit"] == "hit")]
    part = part[part["delta"].notna()]
    top, size = part.loc[part["delta"].idxmax()], part.loc[part["delta"].abs().idxmax()]
    own = part[(part["icl"] == icl) & (part["sampling"] == sampling)].iloc[0]
    return _verdict(
        holds=(top["icl"], top["sampling"]) == (icl, sampling),
        why=f"Rebuilt, {TITLES[dataset]}: δ = {_signed(own['delta'])} (p {own['p']:.3f}) at {icl} / {sampling}; "
        f"largest δ {_signed(top['delta'])} at {top['icl']} / {top['sampling']}; largest |δ| {_signed(size['delta'])} "
        f"at {size['icl']} / {size['sampling']}.",
    )


@_check
def lastfm_moves_less(evidence: Evidence, _: str) -> Verdict:
    """Check that the range of δ (gender, hit, NSD) over the scenarios is smaller on Last.fm than on MovieLens."""
    spans = {}
    for dataset, table in evidence.rows.items():
        part = table[(table["attribute"] == "gender") & (table["notion"] == "NSD") & (table["benefit"] == "hit")]
        spans[dataset] = float(part["delta"].max() - part["delta"].min())
    return _verdict(
        holds=spans["lastfm1k"] < spans["ml1m"],
        why="Range of δ over the scenarios: "
        + ", ".join(f"{TITLES[name]} {span:.4f}" for name, span in spans.items())
        + ".",
    )


@_check
def flipping_moves_lists(evidence: Evidence, _: str) -> Verdict:
    """Check that in some data set flipping changes a list more than asking the neutral prompt again does."""
    parts, holds = [], []
    for dataset, table in evidence.agreement.groupby("dataset", sort=False):
        by = lists.baseline(table)
        parts.append(
            f"{TITLES[str(dataset)]}: {by['flipped']:.3f} against {by['again']:.3f} (lower in {by['lower']} of "
            f"{by['scenarios']} scenarios)"
        )
        holds.append(by["flipped"] < by["again"] and by["lower"] > by["scenarios"] / 2)
    return _verdict(
        holds=any(holds),
        why="Mean Jaccard of the neutral list with the list under a flipped attribute, against that with a second "
        f"answer to the neutral text: {'; '.join(parts)}.",
    )


@_check
def needs_other_data(_: Evidence, __: str) -> Verdict:
    """Say that the sentence speaks of a cause, which nothing in the design varies."""
    return (
        NOT_CHECKABLE,
        "It speaks of a cause. No condition varies the model's training data, the groups' shares or the content on "
        "offer, so the released replies cannot tell.",
    )
