"""The tables of FairEvalLLM, each rebuilt number beside the printed one."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from fairnb import fairness, frames, paths, profiles, released, statistics
from fairnb.errors import DataError
from fairnb.exhibits.evaluated import (
    DATASET_LABELS,
    answers,
    benefits_folder,
    dataset_label,
    k_of,
    left_out,
    left_out_of,
    rescored_as,
    run_words,
    source,
    users_of,
)
from fairnb.exhibits.exhibit import Exhibit, decimals, p_text
from fairnb.settings import BENEFIT_FILES, BENEFITS, PAPER, RELEASED, Experiment, Protocol

# The paper's Table 2 abbreviates the samplings; its CSV has the same labels.
SAMPLING_LABELS = {"random": "rand", "frequent": "freq", "recent-frequent": "rec-freq"}
PRINTED_DATASET = "lastfm1k"
_SIX = {"group1": 4, "group2": 4, "delta": 4, "p": 3, "ssnd": 4, "ssnr": 4}
_STANDARD_ERRORS = 3
_PAPERS_PAIRS = (("gender", "Male", "Female"), ("age", "Young", "Old"))
_PAIR = ["attribute", "group1_name", "group2_name"]
# The worked example of the released replies, chosen because everything in it moves.
_RELEASED_EXAMPLE = (3, fairness.GENDER, "frequent", "0-shot")


def _names_pairs(rows: pd.DataFrame) -> bool:
    """Tell whether each row must name its pair of groups, because it is not the paper's."""
    return not set(rows[_PAIR].itertuples(index=False, name=None)) <= set(_PAPERS_PAIRS)


def pair_texts(rows: pd.DataFrame) -> list[str]:
    """Name the pair of groups of each row as a difference."""
    return [f"{first} − {second}" for first, second in zip(rows["group1_name"], rows["group2_name"], strict=True)]


def _pair_of(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the column that names each row's pair, where one is needed."""
    return {"pair": pair_texts(rows)} if _names_pairs(rows) else {}


def _pair_columns(rows: pd.DataFrame) -> list[str]:
    return _PAIR[1:] if _names_pairs(rows) else []


def _groups_of(rows: pd.DataFrame, between: str) -> str:
    """Say in a caption which groups stand first and second."""
    if _names_pairs(rows):
        return " (named in each row)"
    return f" ({'; '.join(between.join(pair[1:]) for pair in _PAPERS_PAIRS if pair[0] in set(rows['attribute']))})"


def _nothing(name: str, title: str, statement: str, experiment: Experiment) -> Exhibit:
    """Say in one line that there is nothing to show."""
    data = pd.DataFrame({"statement": [statement]})
    return Exhibit(name, title, source(experiment), data, data.copy(), width=60)


def replies(benefits: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Count what became of the replies, per group: how many were read, matched and hit."""
    lines = []
    once = answers(benefits)
    counted = experiment.rules.failed_reply == "miss"
    for attribute in fairness.single_attributes(experiment, benefits):
        groups = attribute.groups(once)
        for group in attribute.order(groups):
            part = once[groups == group]
            failed = part.loc[part["status"] != "ok", "status"].value_counts()
            lines.append(
                {
                    "attribute": attribute.name,
                    "group": group,
                    "users": part["user"].nunique(),
                    "replies": len(part),
                    "failed": int((part["status"] != "ok").sum()),
                    "items": int(part["n_items"].sum()),
                    "matched": int(part["n_matched"].sum()),
                    "hits": int(part["hits"].sum()),
                    "hit_rate": statistics.mean(part.loc[(part["status"] == "ok") | counted, "hit_rate"]),
                    "statuses": "; ".join(f"{status}: {count:,}" for status, count in failed.items()),
                }
            )
    data = pd.DataFrame(lines)
    if experiment.replies == "released":
        data = data.drop(columns="statuses")
    counts = ["users", "replies", "failed", "items", "matched", "hits"]
    shown = data.astype(dict.fromkeys(counts, object))
    shown[counts] = shown[counts].map("{:,}".format)
    shown["hit_rate"] = [decimals(value, 4) for value in data["hit_rate"]]
    shown = shown.rename(columns={"hit_rate": "hit rate", "statuses": "of the failed"})
    policy = "leaves the sample and is counted" if experiment.rules.failed_reply == "exclude" else "counts as no hit"
    over = "all replies" if counted else "the others"
    caption = (
        f"From replies to hits, per group. failed: no list could be read; such a reply {policy}. matched: items with a "
        f"catalogue id. hit rate: over {over}, K = {k_of(experiment)}. {source(experiment)}"
        f"{left_out_of(benefits, experiment)}"
    )
    return Exhibit("replies", "Replies", caption, data, shown, labels=1)


def one_user(benefits: pd.DataFrame, repeats: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Follow one user through the prompts of a scenario: the worked example of notebook 03.

    Parameters
    ----------
    benefits, repeats : DataFrame
        From `load` and `load_repeats`.
    experiment : Experiment

    Returns
    -------
    Exhibit
        Of the released replies always the same user; of a run the first whose neutral, sensitive and
        counterfactual lists could all be read and differ in hits or rank. One line if there is none.
    """
    example = _RELEASED_EXAMPLE if experiment.replies == "released" else _example(benefits, experiment)
    if example is None:
        statement = "No user's neutral, sensitive and counterfactual lists could all be read and differ: no example."
        return _nothing("one_user", "One user", statement, experiment)
    user, attribute, sampling, icl = example
    chosen = (benefits["user"] == user) & (benefits["sampling"] == sampling) & (benefits["icl"] == icl)
    mine = benefits[chosen & benefits["demographics"].isin(["none", attribute.demographics])]
    own = attribute.groups(mine).iloc[0]
    neutral = mine[(mine["demographics"] == "none") & (mine["counterfactual"] == "no")]
    stated = mine[mine["demographics"] == attribute.demographics]
    sensitive = stated[stated["counterfactual"] == "no"]
    flipped = stated[stated["counterfactual"] == "yes"]
    others = (
        flipped["stated"]
        if "stated" in flipped.columns
        else [value for value in attribute.values if value != own][: len(flipped)]
    )
    asked = repeats[(repeats["user"] == user) & (repeats["sampling"] == sampling) & (repeats["icl"] == icl)]
    again = asked[asked["repeat"] > 0].sort_values("repeat")
    parts = [
        (neutral, ["neutral"]),
        (sensitive, [f"sensitive: {own}"]),
        (flipped, [f"counterfactual: {other}" for other in others]),
        (again, ["neutral, asked again"] * len(again)),
    ]
    found = pd.concat([part for part, _ in parts], ignore_index=True)
    data = pd.DataFrame(
        {
            "prompt": [name for _, names in parts for name in names],
            "items": found["n_items"],
            "hits": found["hits"],
            "hit_rate": found["hit_rate"],
            "average_rank": found["average_rank"],
        }
    )
    for benefit in ("hit_rate", "average_rank"):
        data[f"delta_{benefit}"] = data[benefit] - data[benefit].iloc[0]
    k = k_of(experiment)
    shown = pd.DataFrame(
        {
            "prompt": data["prompt"],
            "items": data["items"].astype(str),
            "hits": data["hits"].astype(str),
            f"HR@{k}": [decimals(value, 4) for value in data["hit_rate"]],
            f"AR@{k}": [decimals(value, 4) for value in data["average_rank"]],
            "ΔB hit": ["" if not row else decimals(value, 4) for row, value in enumerate(data["delta_hit_rate"])],
            "ΔB rank": ["" if not row else decimals(value, 4) for row, value in enumerate(data["delta_average_rank"])],
        }
    )
    number = {3: "three", 4: "four", 5: "five", 6: "six"}.get(len(data), str(len(data)))
    if experiment.replies == "released":
        repeated = (
            " The last row answers the neutral prompt a second time (filed under counterfactual = yes): what differs "
            "there is the model's own variation."
        )
    else:
        repeated = (
            " Rows asked again answer the neutral prompt anew: what differs there is the model's own variation."
            if len(again)
            else " The neutral prompt was asked once."
        )
    caption = (
        f"User {user} ({own}), {icl} / {SAMPLING_LABELS[sampling]}: {number} replies, and their deviation from the "
        f"first.{repeated} {source(experiment)}"
    )
    return Exhibit("one_user", "One user", caption, data, shown)


def _example(benefits: pd.DataFrame, experiment: Experiment) -> tuple[object, fairness.Attribute, str, str] | None:
    """Find a run's first user, attribute and scenario in which naming the attribute changed something."""
    key = ["user", "sampling", "icl"]
    read = benefits[benefits["status"] == "ok"]
    neutral = read[(read["demographics"] == "none") & (read["counterfactual"] == "no")]
    for attribute in fairness.single_attributes(experiment, benefits):
        stated = read[read["demographics"] == attribute.demographics]
        joined = neutral[[*key, "hits", "average_rank"]]
        for counterfactual in ("no", "yes"):
            one = stated.loc[stated["counterfactual"] == counterfactual, [*key, "hits", "average_rank"]]
            joined = joined.merge(one, on=key, suffixes=("", f"_{counterfactual}"))
        moved = [
            joined[name].ne(joined[f"{name}_{other}"]) & joined[[name, f"{name}_{other}"]].notna().any(axis=1)
            for name in ("hits", "average_rank")
            for other in ("no", "yes")
        ]
        joined = joined[np.logical_or.reduce(moved)]
        if len(joined):
            first = joined.iloc[0]
            return first["user"], attribute, str(first["sampling"]), str(first["icl"])
    return None


def protocols() -> Exhibit:
    """Set the choices of the two protocols side by side, from the values that the code uses."""
    rows = [(name, getattr(RELEASED, name), getattr(PAPER, name)) for name in Protocol.model_fields if name != "name"]
    data = pd.DataFrame(rows, columns=["choice", "released", "paper"])
    caption = (
        "The two protocols: what the released code does behind Table 2, and what the paper's text says. "
        "fairnb.Protocol explains each choice."
    )
    return Exhibit("protocols", "Two protocols", caption, data)


def bootstrap_test(benefits: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Repeat the released code's test of intrinsic fairness with other numbers of replicates."""
    sizes = sorted({100, 10_000, experiment.replicates})
    head = ["attribute", "sampling", "icl"]
    data, pair, absent = pd.DataFrame(), {}, ""
    for size in sizes:
        rows = fairness.intrinsic(benefits, experiment.model_copy(update={"replicates": size}))
        if data.empty:
            data = rows[[*head, *_pair_columns(rows), "n1", "n2", "difference", "p_permutation"]].copy()
            pair, absent = _pair_of(rows), left_out(rows)
        data[f"p_{size}_replicates"] = rows["p_bootstrap_means"]
    shown = pd.DataFrame(
        {
            "attribute": data["attribute"],
            "scenario": data["icl"] + " / " + data["sampling"],
            **pair,
            "n1, n2": data["n1"].astype(str) + ", " + data["n2"].astype(str),
            "permutation p": [p_text(value) for value in data["p_permutation"]],
        }
        | {f"{size:,} replicates": [p_text(value) for value in data[f"p_{size}_replicates"]] for size in sizes}
    )
    caption = (
        f"p of Welch's test on two sets of bootstrap means, for three numbers of replicates, beside the permutation p "
        f"on the users. The users are the same in every column. {source(experiment)}{absent}"
    )
    return Exhibit("bootstrap_test", "A test on bootstrap means", caption, data, shown, labels=1)


def table1(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Table 1: the levels, their cut-offs, and how many rows of Table 2 have each.

    Parameters
    ----------
    rows : DataFrame
        From `fairnb.fairness.table`.
    experiment : Experiment
        Its cut-offs and level.
    """
    (hit_small, hit_large), (rank_small, rank_large) = experiment.cutoffs["hit"], experiment.cutoffs["rank"]
    rules = {
        1: ("small, p ≥ α", f"|δ| < {hit_small:g}", f"|δ| < {rank_small:g}"),
        2: ("fairly large, p ≥ α", f"|δ| < {hit_large:g}", f"|δ| < {rank_large:g}"),
        3: ("large, p ≥ α", f"|δ| ≥ {hit_large:g}", f"|δ| ≥ {rank_large:g}"),
        4: ("any, p < α", "p < α", "p < α"),
    }
    lines = []
    for number, word in fairness.LEVELS.items():
        counts = [int(((rows["benefit"] == benefit) & rows["level"].eq(number)).sum()) for benefit in BENEFITS]
        lines.append((number, word, *rules[number], *counts))
    none = [int(((rows["benefit"] == benefit) & rows["level"].isna()).sum()) for benefit in BENEFITS]
    lines.append((pd.NA, "no level", "not tested: too few users, or undefined", "", "", *none))
    data = pd.DataFrame(lines, columns=["level", "status", "paper", "hit_rule", "rank_rule", "hit_rows", "rank_rows"])
    shown = data.astype(object).map(lambda cell: "" if cell is pd.NA else str(cell))
    shown.columns = pd.Index(["level", "status", "in the paper", "hit", "rank", "rows (hit)", "rows (rank)"])
    marks = pd.DataFrame("", index=shown.index, columns=shown.columns)
    marks.iloc[:4, 1] = [f"level {number}" for number in fairness.LEVELS]
    caption = (
        f"Levels of concern and the number of rows of Table 2 at each. α = {experiment.alpha:g}. The paper prints "
        f"no cut-offs: those for |δ| are this project's defaults and parameters of the notebook. A group in which "
        f"no user's ΔB differs is never level 4. {source(experiment)}"
    )
    return Exhibit("table1", "Table 1", caption, data, shown, marks)


def table2(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Table 2: NSD and NCSD for hit and rank, with the printed numbers where there are any.

    Parameters
    ----------
    rows : DataFrame
        From `fairnb.fairness.table`.
    experiment : Experiment

    Returns
    -------
    Exhibit
        Its data has the columns of the printed table (``group1``, ``group2``, ``delta``, ``p``, ``ssnd``,
        ``ssnr``; under the paper's protocol ``snsr``, ``snsv`` in place of the last two), then ``n1``,
        ``n2``, the p-values of four tests, ``hedges_g``, ``q``, ``level`` and ``printed_agrees`` (empty
        where nothing is printed for these settings). Other groups than the paper's are named:
        ``group1_name``, ``group2_name``.
    """
    spread = ["ssnd", "ssnr"] if experiment.rules.dispersion == "users" else ["snsr", "snsv"]
    head = ["attribute", "notion", "icl", "sampling", "benefit"]
    columns = [*head, *_pair_columns(rows), "group1", "group2", "delta", "p", *spread, "n1", "n2"]
    columns += ["p_student", "p_welch"]
    columns += ["p_permutation", "p_mannwhitney", "hedges_g", "q", "level"]
    data = rows[columns].assign(sampling=rows["sampling"].map(SAMPLING_LABELS))
    printed = _printed(data, experiment)
    agrees = agreement(data, printed) if printed is not None else pd.Series(pd.NA, data.index, dtype="boolean")
    data = data.assign(printed_agrees=agrees)

    shown, marks = _table2_cells(rows, data, printed, spread)
    measures = (
        "SSND: range of the users' ΔB over both columns; SSNR: root of the mean of the two groups' population variances"
        if experiment.rules.dispersion == "users"
        else "SNSR: range, SNSV: population standard deviation of the two group means"
    )
    population = (
        "users whose value was flipped, under the value they were flipped to"
        if experiment.rules.ncsd_population == "flipped"
        else "all users under do(value), the same users in both, which the t-tests treat as independent"
    )
    compared = "" if printed is None else " Printed values from the paper, to 4 decimals (p: 3)."
    caption = (
        f"Mean deviation ΔB from the neutral list per group, δ = group 1 − group 2{_groups_of(rows, ' − ')}. "
        f"{source(experiment)} p: {_test_name(experiment)}, two-sided. {measures}. NCSD columns: {population}. "
        f"Levels by Table 1, {cut_offs(experiment)}.{compared}{left_out(rows)}"
    )
    return Exhibit("table2", "Table 2", caption, data, shown, marks, labels=3)


def cut_offs(experiment: Experiment) -> str:
    """Say in a caption what the levels are decided by."""
    return (
        f"α = {experiment.alpha:g}, cut-offs of |δ| (this project's): hit {experiment.small_hit:g} and "
        f"{experiment.large_hit:g}, rank {experiment.small_rank:g} and {experiment.large_rank:g}"
    )


def _test_name(experiment: Experiment) -> str:
    return "Welch's t-test" if experiment.rules.test == "welch" else "Student's t-test"


def _is_printed(experiment: Experiment) -> bool:
    """Tell whether the paper prints numbers for these settings."""
    printed = ("released", PRINTED_DATASET, "released")
    return (experiment.replies, experiment.dataset, experiment.protocol) == printed


def _printed(data: pd.DataFrame, experiment: Experiment) -> pd.DataFrame | None:
    if not _is_printed(experiment):
        return None
    printed = pd.read_csv(paths.published() / "fairevalllm_table2.csv")
    head = ["attribute", "notion", "icl", "sampling", "benefit"]
    merged = data[head].merge(printed, on=head, how="left", validate="one_to_one")
    merged.index = data.index
    return merged


def agreement(data: pd.DataFrame, printed: pd.DataFrame) -> pd.Series:
    """Tell per row whether all six rebuilt numbers equal the printed ones to every printed digit.

    Parameters
    ----------
    data, printed : DataFrame
        Columns ``group1``, ``group2``, ``delta``, ``p``, ``ssnd``, ``ssnr``, on the same index.

    Returns
    -------
    Series of bool
    """
    equal = pd.Series(data=True, index=data.index)
    for column, places in _SIX.items():
        # Printed decimals are exact; half a unit of the twelfth digit only covers their binary form.
        equal &= (data[column].astype(float).round(places) - printed[column]).abs() < 1e-9
    return equal.astype("boolean")


def _table2_cells(
    rows: pd.DataFrame, data: pd.DataFrame, printed: pd.DataFrame | None, spread: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = {"group1": "mean ΔB 1", "group2": "mean ΔB 2", "delta": "δ", "p": "p"}
    names |= {column: column.upper() for column in spread}
    cells: dict[tuple[str, str], list[str]] = {
        ("", "attribute"): data["attribute"].tolist(),
        ("", "notion"): data["notion"].tolist(),
        ("", "scenario"): [f"{icl} / {sampling}" for icl, sampling in zip(data["icl"], data["sampling"], strict=True)],
        ("", "benefit"): data["benefit"].tolist(),
        **{("", name): texts for name, texts in _pair_of(rows).items()},
        ("", "n1, n2"): [f"{n1}, {n2}" for n1, n2 in zip(data["n1"], data["n2"], strict=True)],
    }
    # Level and agreement stand before the numbers: that much of a wide table is always in sight.
    cells["", "level"] = [level_text(level, note) for level, note in zip(data["level"], rows["note"], strict=True)]
    if printed is not None:
        cells["", "agrees"] = ["yes" if agrees else "no" for agrees in data["printed_agrees"]]
    differs: dict[tuple[str, str], pd.Series] = {}
    for column, name in names.items():
        places = _SIX.get(column, 4)
        write = p_text if column == "p" else lambda value: decimals(value, 4)
        if printed is None:
            cells["", name] = [write(value) for value in data[column]]
            continue
        cells[name, "rebuilt"] = [write(value) for value in data[column]]
        cells[name, "printed"] = [write(value) for value in printed[column]]
        gap = (data[column].astype(float).round(places) - printed[column]).abs()
        differs[name, "printed"] = ~(gap < 1e-9)
    shown = pd.DataFrame(cells, index=data.index)
    marks = pd.DataFrame("", index=shown.index, columns=shown.columns)
    marks["", "level"] = [f"level {level}" if pd.notna(level) else "quiet" for level in data["level"]]
    for place, wrong in differs.items():
        marks[place] = marks[place].mask(wrong, "differs")
    if printed is None:
        shown.columns = pd.Index([name for _, name in shown.columns])
        marks.columns = shown.columns
    return shown, marks


def level_text(level: object, note: str) -> str:
    """Write a level as number and word, with the note that goes with it."""
    if pd.isna(level):
        return note or "undefined"
    text = f"{level} {fairness.LEVELS[int(str(level))]}"
    return f"{text}; {note}" if note else text


def reading_of_table2(rows: pd.DataFrame, table: Exhibit, noise: pd.DataFrame, experiment: Experiment) -> str:
    """Say in Markdown what Table 2 holds: agreement with print, rows below alpha, what chance and asking again give.

    Parameters
    ----------
    rows : DataFrame
        From `fairnb.fairness.table`.
    table : Exhibit
        From `table2`.
    noise : DataFrame
        From `fairnb.fairness.repeat_noise`.
    experiment : Experiment
    """
    known = rows[rows["p"].notna()]
    low = known[known["p"] < experiment.alpha]
    lines = []
    compared = table.data["printed_agrees"].dropna()
    if len(compared):
        lines.append(f"{int(compared.sum())} of {len(compared)} row-halves agree with print in all six numbers.")
    lines.append(
        f"{len(low)} of {len(known)} rows have p < {experiment.alpha:g}; {experiment.alpha * len(known):.1f} would be "
        f"expected if no row had a difference and the test's assumptions held. The smallest q is "
        f"{p_text(known['q'].min())}: at this n, no difference is detected once the "
        f"number of rows is taken into account."
        if len(known) and (known["q"] >= experiment.alpha).all()
        else f"{len(low)} of {len(known)} rows have p < {experiment.alpha:g}, and "
        f"{int((known['q'] < experiment.alpha).sum())} have q below it once the number of rows is taken into account."
        if len(known)
        else "No row could be tested: too few users with lists in each group."
    )
    lines.append(_against_noise(_with_noise(rows, noise)))
    pairs = [f" ({pair})" if _names_pairs(rows) else "" for pair in pair_texts(low)]
    for row, pair in zip(low.itertuples(), pairs, strict=True):
        lines.append(
            f"*{row.attribute}{pair}, {row.notion}, {row.icl} / {SAMPLING_LABELS[row.sampling]}, {row.benefit}*: "
            f"δ = {decimals(row.delta, 4)}, n = {row.n1} and {row.n2}; {_test_name(experiment)} p = {p_text(row.p)}, "
            f"Student {p_text(row.p_student)}, Welch {p_text(row.p_welch)}, permutation {p_text(row.p_permutation)}, "
            f"Mann-Whitney {p_text(row.p_mannwhitney)}, q = {p_text(row.q)}."
            + (f" **{row.note[0].upper()}{row.note[1:]}.**" if row.note else "")
        )
    flat = int(rows["note"].str.contains("no variation").sum())
    if flat:
        lines.append(
            f"In {flat} rows some group has no variation: all its users have the same ΔB. Welch's test then takes that "
            f"group's variance to be 0, as if its mean were known exactly; such rows are marked and never level 4."
        )
    return "\n".join(f"- {line}" for line in lines)


def _with_noise(rows: pd.DataFrame, noise: pd.DataFrame) -> pd.DataFrame:
    """Put the repeat noise of its scenario beside each row."""
    head = ["sampling", "icl", "benefit", *_PAIR]
    noise = noise[[*head, "sd", "delta", "note"]].rename(
        columns={"sd": "noise_sd", "delta": "noise_delta", "note": "noise_note"}
    )
    return rows.merge(noise, on=head, how="left", validate="many_to_one")


def _against_noise(rows: pd.DataFrame) -> str:
    known = rows[rows["delta"].notna() & rows["noise_delta"].notna()]
    if known.empty:
        return "No neutral prompt has two answers: how much of each δ comes from asking again is not known."
    within = int((known["delta"].abs() <= known["noise_delta"] + 1e-9).sum())
    return (
        f"In {within} of {len(known)} rows |δ| is no larger than the largest |δ| between the same groups when the "
        f"neutral prompt is asked again in the same scenario: not distinguishable from asking again."
    )


def reading_of_table4(rows: pd.DataFrame, check: Exhibit, experiment: Experiment) -> str:
    """Say in Markdown how Table 4 compares with print and what the differences can bear."""
    lines, crossed = [], []
    if experiment.replies == "released":
        by_name = dict(list(check.data.groupby("attribute", sort=False)))
        lines = [_agreement_of_table4(part, str(name))[3] for name, part in by_name.items()]
        crossed = sorted({str(name) for name, part in by_name.items() if _is_crossed(part, str(name))})
    lines += [
        f"That the printed {name} half is compatible with another attribute's groups, row by row, and not with its own "
        f"suggests that it was computed with the other labels. This is inferred from the numbers alone. What the text "
        f"says of {name} groups from this table does not carry over to the rebuilt rows, whose differences have "
        f"another size and partly another sign."
        for name in crossed
    ]
    tested = rows[rows["p_permutation"].notna()]
    around = int(((rows["ci_low"] <= 0) & (rows["ci_high"] >= 0)).sum())
    lines.append(
        f"{around} of {len(tested)} intervals of the difference include 0; the smallest permutation p is "
        f"{p_text(tested['p_permutation'].min())}, the smallest q {p_text(tested['q'].min())}."
        if len(tested)
        else "No row could be tested: too few users with lists in each group."
    )
    smallest = int(rows[["n1", "n2"]].min().min())
    lines.append(
        f"The smallest group has {smallest} users: {100 / (k_of(experiment) * smallest):.1f} % is one hit of one of "
        f"them."
        if smallest
        else "In some scenario a group has no user with a neutral list."
    )
    return "\n".join(f"- {line}" for line in lines)


def _is_crossed(rows: pd.DataFrame, name: str) -> bool:
    sets = [set(within.split(", ")) - {"none", ""} for within in rows["within"]]
    return all(sets) and not any(name in found for found in sets)


def statistics_of_table2(rows: pd.DataFrame, noise: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Everything that stands beside the differences of Table 2: intervals, repeat noise, four tests, effect sizes.

    Parameters
    ----------
    rows : DataFrame
        From `fairnb.fairness.table`.
    noise : DataFrame
        From `fairnb.fairness.repeat_noise`.
    experiment : Experiment
    """
    columns = ["attribute", "notion", "icl", "sampling", "benefit", "group1_name", "group2_name", "n1", "n2"]
    columns += ["excluded1", "excluded2", "excluded", "delta", "low", "high", "noise_sd", "noise_delta"]
    columns += ["p_student", "p_welch", "p_permutation", "p_mannwhitney", "q", "hedges_g", "g_low", "g_high"]
    columns += ["snsr", "snsv", "note"]
    both = _with_noise(rows, noise)
    data = both[columns].assign(sampling=both["sampling"].map(SAMPLING_LABELS))
    shown = pd.DataFrame(
        {
            "attribute": data["attribute"],
            "notion": data["notion"],
            "scenario": data["icl"] + " / " + data["sampling"],
            "benefit": data["benefit"],
            **_pair_of(rows),
            "n1, n2": data["n1"].astype(str) + ", " + data["n2"].astype(str),
            "excluded": data["excluded"],
            "δ [95 %]": [
                _with_limits(*values) for values in zip(data["delta"], data["low"], data["high"], strict=True)
            ],
            "repeat noise: SD, |δ|": [
                note or ", ".join(decimals(value, 3) for value in values if not math.isnan(value))
                for note, *values in zip(
                    both["noise_note"].fillna("asked once"), data["noise_sd"], data["noise_delta"], strict=True
                )
            ],
            "Hedges g [95 %]": [
                _with_limits(*values) for values in zip(data["hedges_g"], data["g_low"], data["g_high"], strict=True)
            ],
            "Student": data["p_student"].map(p_text),
            "Welch": data["p_welch"].map(p_text),
            "permutation": data["p_permutation"].map(p_text),
            "Mann-Whitney": data["p_mannwhitney"].map(p_text),
            "q": data["q"].map(p_text),
            "note": data["note"],
        }
    )
    left = int(rows["p"].isna().sum())
    leaving = f"; the {left} rows without a p (empty here, with the reason as a note) leave the family" if left else ""
    paired = rows["notion"].eq("NCSD").any() and experiment.rules.ncsd_population == "everyone"
    exchange = ", exchanging values within users in NCSD rows, whose columns hold the same users" if paired else ""
    caption = (
        f"What stands beside each δ. Interval of δ: percentile bootstrap of users, {experiment.replicates:,} "
        f"replicates; repeat noise: the neutral prompt asked again{_two_askings(experiment)}, standard deviation over "
        f"users of the change of B, and the largest |δ| of such changes; permutation: exact where small, else "
        f"{experiment.permutations:,} seeded{exchange}; "
        f"q: Benjamini-Hochberg over the family of all {len(rows) - left} rows with a p from "
        f"{_test_name(experiment)}{leaving}. {source(experiment)}{left_out(rows)}"
    )
    return Exhibit("table2_statistics", "Statistics of Table 2", caption, data, shown, labels=3)


def _two_askings(experiment: Experiment) -> str:
    if experiment.replies != "released":
        return ""
    return " (the released files hold two answers to its text, filed under counterfactual = no and yes)"


def _with_limits(value: float, low: float, high: float, places: int = 3) -> str:
    if math.isnan(value):
        return ""
    if math.isnan(low):
        return decimals(value, places)
    return f"{decimals(value, places)} [{decimals(low, places)}, {decimals(high, places)}]"


def table3(experiment: Experiment | None = None) -> Exhibit:
    """Table 3: interactions in the train and test parts, computed where the split was released; of a run, its own."""
    if experiment is not None and experiment.replies != "released":
        return _table3_of_run(experiment)
    printed = pd.read_csv(paths.published() / "fairevalllm_table3.csv")
    counted = pd.read_csv(paths.released() / released.SPLIT_FILE)
    data = printed.rename(columns={"rows": "printed_rows", "rows_per_user": "printed_rows_per_user"})
    data = data.merge(counted, on=["dataset", "part"], how="left")
    data = data.astype({"rows": "Int64", "users": "Int64"})
    data["rows_per_user"] = (data["rows"] / data["users"]).astype(float)
    data["source"] = np.where(data["rows"].notna(), "author's split", "print only")
    data = data[
        [
            "dataset",
            "part",
            "rows",
            "users",
            "rows_per_user",
            "printed_rows",
            "printed_rows_per_user",
            "source",
        ]
    ]
    shown = pd.DataFrame(
        {
            "data set": data["dataset"].map(DATASET_LABELS),
            "part": data["part"],
            "rows": ["" if pd.isna(count) else f"{count:,}" for count in data["rows"]],
            "printed rows": [f"{count:,}" for count in data["printed_rows"]],
            "rows per user": [decimals(value, 2) for value in data["rows_per_user"]],
            "printed per user": [decimals(value, 2) for value in data["printed_rows_per_user"]],
            "source": data["source"],
        }
    )
    caption = (
        "Interactions of the 80 users before (train) and after (test) the temporal split at 80 %. MovieLens: "
        "counted in the split that the author released. Last.fm: the plays were not released with the replies, "
        "so only the printed numbers stand here. No protocol enters."
    )
    return Exhibit("table3", "Table 3", caption, data, shown, labels=1)


def _table3_of_run(experiment: Experiment) -> Exhibit:
    run = frames.run_settings(experiment)
    counted = profiles.table3(frames.read(experiment, "interactions", frames.evaluated(experiment)))
    data = pd.DataFrame(
        {
            "dataset": run.dataset,
            "part": counted["part"],
            "rows": counted["interactions"],
            "users": counted["users"],
            "rows_per_user": counted["per_user"],
        }
    )
    shown = pd.DataFrame(
        {
            "data set": data["dataset"].map(dataset_label),
            "part": data["part"],
            "rows": data["rows"].map("{:,}".format),
            "users": data["users"].map("{:,}".format),
            "rows per user": [decimals(value, 2) for value in data["rows_per_user"]],
        }
    )
    caption = (
        f"{run_words(run, users_of(experiment))} Their interactions before (train) and after (test) the "
        f"temporal split at {100 * run.train_share:g} %. No protocol enters."
    )
    # Of the same run, notebook 01 writes a table of this name with more in it.
    return Exhibit("table3_run", "Table 3", caption, data, shown, labels=1)


def table4(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Table 4: intrinsic fairness (hit), beside the printed numbers where there are any.

    Parameters
    ----------
    rows : DataFrame
        From `fairnb.fairness.intrinsic` with ``benefit="hit"``.
    experiment : Experiment

    Returns
    -------
    Exhibit
        Columns ``attribute, sampling, icl, group1, group2, difference, ci_low, ci_high, p_permutation,
        printed_group1, printed_group2, printed_difference``; with ``group1_name, group2_name`` where the
        groups are not the paper's.
    """
    head = ["attribute", "sampling", "icl"]
    data = rows[[*head, *_pair_columns(rows), "group1", "group2", "difference", "ci_low", "ci_high", "p_permutation"]]
    data = _beside_print(data, experiment)
    verdicts = compare_table4(rows, experiment)
    shown = pd.DataFrame(
        {
            ("", "attribute"): data["attribute"],
            ("", "scenario"): data["icl"] + " / " + data["sampling"],
            **{("", name): texts for name, texts in _pair_of(rows).items()},
            ("", "n1, n2"): rows["n1"].astype(str) + ", " + rows["n2"].astype(str),
            ("group 1", "rebuilt"): [decimals(value, 4) for value in data["group1"]],
            ("group 1", "printed"): [decimals(value, 4) for value in data["printed_group1"]],
            ("group 2", "rebuilt"): [decimals(value, 4) for value in data["group2"]],
            ("group 2", "printed"): [decimals(value, 4) for value in data["printed_group2"]],
            ("difference", "rebuilt [95 %]"): [
                _with_limits(*values, places=4)
                for values in zip(data["difference"], data["ci_low"], data["ci_high"], strict=True)
            ],
            ("difference", "printed"): [decimals(value, 4) for value in data["printed_difference"]],
            ("", "p (permutation)"): [p_text(value) for value in data["p_permutation"]],
            ("", "print is within 3 SE of"): verdicts["within"],
        }
    )
    marks = pd.DataFrame("", index=shown.index, columns=shown.columns)
    marks["", "print is within 3 SE of"] = np.where(
        verdicts["within"].eq(data["attribute"]) | verdicts["within"].eq(""), "", "differs"
    )
    if data["printed_group1"].isna().all():
        keep = [column for column in shown.columns if "print" not in column[1]]
        shown, marks = shown[keep], marks[keep]
    if experiment.rules.intrinsic != "bootstrap-means":
        drawn = "Group columns: means over users. "
    elif experiment.replies != "released":
        drawn = f"Group columns: mean of {experiment.replicates:,} bootstrap means, as in the released code. "
    else:
        drawn = (
            f"Group columns: mean of {experiment.replicates:,} bootstrap means, as in the released code; the paper's "
            f"draw is unseeded, so print is compared within 3 standard errors (SE) of that mean; the last column names "
            f"the attribute whose two group means the printed pair is compatible with. "
        )
    caption = (
        f"Mean HitRate@{k_of(experiment)} of the neutral ranker per group{_groups_of(rows, ', ')} and difference with "
        f"its 95 % bootstrap interval over users. {drawn}p: permutation of group labels, "
        f"{experiment.permutations:,} seeded. {source(experiment)}{left_out(rows)}"
    )
    return Exhibit("table4", "Table 4", caption, data, shown, marks, labels=1)


def _beside_print(rows: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Add the printed columns of Table 4, NaN where nothing is printed for these settings."""
    columns = ["printed_group1", "printed_group2", "printed_difference"]
    if not _is_printed(experiment):
        return rows.reset_index(drop=True).assign(**dict.fromkeys(columns, math.nan))
    printed = pd.read_csv(paths.published() / "fairevalllm_table4.csv")
    printed = printed[["attribute", "sampling", "icl", "group1", "group2", "delta"]]
    head = ["attribute", "sampling", "icl"]
    printed.columns = pd.Index([*head, *columns])
    return rows.merge(printed, on=head, how="left", validate="one_to_one")


def compare_table4(rows: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Find, for each printed row of Table 4, the attribute whose group means it is compatible with.

    A printed pair is compatible with an attribute if both numbers lie within three Monte Carlo standard
    errors (of a mean of 1,000 bootstrap means) of that attribute's group means in the same scenario.

    Returns
    -------
    DataFrame
        ``attribute``, ``sampling``, ``icl``, ``within`` (names of compatible attributes joined by ``, ``;
        ``none``; or empty where nothing is printed), indexed as `rows`.
    """
    known = _beside_print(rows, experiment)
    found = []
    for row in known.itertuples():
        if math.isnan(row.printed_group1):
            found.append("")
            continue
        names = []
        for other in known[(known["sampling"] == row.sampling) & (known["icl"] == row.icl)].itertuples():
            gaps = (
                abs(row.printed_group1 - other.mean1) / other.error1,
                abs(row.printed_group2 - other.mean2) / other.error2,
            )
            if max(gaps) <= _STANDARD_ERRORS:
                names.append(str(other.attribute))
        found.append(", ".join(names) or "none")
    return known[["attribute", "sampling", "icl"]].assign(within=found)


def table4_check(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """How each printed row of Table 4 compares with the group means of both attributes."""
    if experiment.replies != "released":
        statement = "The paper prints nothing for these replies: there is no Table 4 to check."
        return _nothing("table4_check", "Check of Table 4", statement, experiment)
    data = compare_table4(rows, experiment)
    shown = data.rename(columns={"within": "print is within 3 SE of"})
    caption = (
        f"For each printed pair of Table 4, the attributes whose two group means lie within 3 standard errors of a "
        f"mean of {experiment.replicates:,} bootstrap means. {source(experiment)}"
    )
    return Exhibit("table4_check", "Check of Table 4", caption, data, shown, labels=1)


def agreement_with_print(folder: Path, experiment: Experiment) -> Exhibit:
    """How the rebuilt tables compare with the printed ones, from the tables' own files.

    Parameters
    ----------
    folder : Path
        Holds ``table2.csv``, ``table3.csv`` and ``table4_check.csv`` of notebooks 03 and 04.
    experiment : Experiment

    Returns
    -------
    Exhibit
        ``table``, ``printed`` (rows), ``agree`` (rows), ``statement`` (a sentence a runner can print).

    Raises
    ------
    DataError
        If one of the files is missing.
    """
    if experiment.replies != "released":
        nothing = "The paper prints nothing for these replies: there is no print to agree with."
        line = pd.DataFrame([("none", 0, 0, nothing)], columns=["table", "printed", "agree", "statement"])
        return Exhibit("agreement", "Agreement with print", source(experiment), line, line.astype(str), width=60)
    two, three, four = (_table_file(folder, name) for name in ("table2", "table3", "table4_check"))
    lines = [_agreement_of_table2(two), _agreement_of_table3(three)]
    lines += [_agreement_of_table4(four[four["attribute"] == name], name) for name in four["attribute"].unique()]
    data = pd.DataFrame(lines, columns=["table", "printed", "agree", "statement"])
    caption = f"Rebuilt beside printed. {source(experiment)}"
    return Exhibit("agreement", "Agreement with print", caption, data, data.astype(str), width=60)


def _table_file(folder: Path, name: str) -> pd.DataFrame:
    file = folder / f"{name}.csv"
    if not file.is_file():
        raise DataError(
            f"{paths.shown(file)}: no such file; run notebooks 03 and 04 with the same settings "
            f"first, or all with `fairnb`"
        )
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def _agreement_of_table2(two: pd.DataFrame) -> tuple[str, int, int, str]:
    compared = two[two["printed_agrees"] != ""]
    if compared.empty:
        return "Table 2", 0, 0, "Table 2: the paper prints nothing for these settings."
    differ = compared[compared["printed_agrees"] != "True"]
    names = "; ".join(" ".join(row) for row in differ[["attribute", "notion", "icl", "sampling", "benefit"]].to_numpy())
    good = len(compared) - len(differ)
    text = (
        f"Table 2: {good} of {len(compared)} row-halves agree with print in all six numbers "
        f"(means, δ, SSND, SSNR to 4 decimals, p to 3)."
    )
    return "Table 2", len(compared), good, f"{text} These differ: {names}." if names else text


def _agreement_of_table3(three: pd.DataFrame) -> tuple[str, int, int, str]:
    counted = three[three["rows"] != ""]
    good = int(
        (
            (counted["rows"].astype(int) == counted["printed_rows"].astype(int))
            & (
                (counted["rows_per_user"].astype(float) - counted["printed_rows_per_user"].astype(float)).abs()
                <= 0.005 + 1e-9
            )
        ).sum()
    )
    text = (
        f"Table 3: {good} of {len(counted)} MovieLens rows agree with print; the {len(three) - len(counted)} Last.fm "
        f"rows need plays that were not released and show print only."
    )
    return "Table 3", len(counted), good, text


def _agreement_of_table4(four: pd.DataFrame, attribute: str) -> tuple[str, int, int, str]:
    name = f"Table 4, {attribute}"
    compared = four[four["within"] != ""]
    if compared.empty:
        return name, 0, 0, f"{name}: the paper prints nothing for these settings."
    sets = compared["within"].str.split(", ")
    good = int(sets.map(lambda names: attribute in names).sum())
    text = f"{name}: {good} of {len(compared)} rows agree with the {attribute} groups' means within 3 standard errors"
    others = sorted({other for names in sets for other in names} - {attribute, "none"})
    found = [f"{sum(other in names for names in sets)} with the {other} groups' means" for other in others]
    return name, len(compared), good, f"{text}; {', '.join(found)}." if found else f"{text}."


def statistics_of_table4(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Put four tests, an effect size and a corrected p beside the differences of Table 4."""
    columns = ["attribute", "sampling", "icl", "group1_name", "group2_name", "n1", "n2", "mean1", "mean2"]
    columns += ["ci_low", "ci_high", "p_student", "p_welch", "p_permutation", "p_mannwhitney", "q"]
    data = rows[[*columns, "hedges_g", "g_low", "g_high", "note"]]
    shown = pd.DataFrame(
        {
            "attribute": data["attribute"],
            "scenario": data["icl"] + " / " + data["sampling"],
            **_pair_of(rows),
            "n1, n2": data["n1"].astype(str) + ", " + data["n2"].astype(str),
            "difference [95 %]": [
                _with_limits(first - second, low, high)
                for first, second, low, high in zip(
                    data["mean1"], data["mean2"], data["ci_low"], data["ci_high"], strict=True
                )
            ],
            "Hedges g [95 %]": [
                _with_limits(*values) for values in zip(data["hedges_g"], data["g_low"], data["g_high"], strict=True)
            ],
            "Student": data["p_student"].map(p_text),
            "Welch": data["p_welch"].map(p_text),
            "permutation": data["p_permutation"].map(p_text),
            "Mann-Whitney": data["p_mannwhitney"].map(p_text),
            "q": data["q"].map(p_text),
            "note": data["note"],
        }
    )
    caption = (
        f"What stands beside each difference of the neutral ranker's mean HitRate@{k_of(experiment)} between groups. "
        f"q: Benjamini-Hochberg over the permutation p of the {len(rows)} rows. {source(experiment)}{left_out(rows)}"
    )
    return Exhibit("table4_statistics", "Statistics of Table 4", caption, data, shown, labels=1)


def intrinsic_rank(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Intrinsic fairness on AverageRank, which the paper does not print."""
    columns = ["attribute", "sampling", "icl", *_pair_columns(rows), "n1", "n2", "group1", "group2"]
    columns += ["difference", "ci_low", "ci_high"]
    data = rows[[*columns, "p_permutation", "hedges_g", "q", "note"]]
    shown = pd.DataFrame(
        {
            "attribute": data["attribute"],
            "scenario": data["icl"] + " / " + data["sampling"],
            **_pair_of(rows),
            "n1, n2": data["n1"].astype(str) + ", " + data["n2"].astype(str),
            "group 1": [decimals(value, 4) for value in data["group1"]],
            "group 2": [decimals(value, 4) for value in data["group2"]],
            "difference [95 %]": [
                _with_limits(*values, places=4)
                for values in zip(data["difference"], data["ci_low"], data["ci_high"], strict=True)
            ],
            "p (permutation)": [p_text(value) for value in data["p_permutation"]],
            "q": [p_text(value) for value in data["q"]],
            "note": data["note"],
        }
    )
    zero = (
        "A list without a hit counts as rank 0, as in the released code, so that a low mean can stand for few hits."
        if experiment.rules.rank_without_hit == "zero"
        else "Only lists with a hit have a rank; n says how many."
    )
    caption = (
        f"Mean AverageRank@{k_of(experiment)} of the neutral ranker per group (lower is better). {zero} Interval, p "
        f"and q as in Table 4; family of q: the {len(data)} rows. {source(experiment)}{left_out(rows)}"
    )
    return Exhibit("table4_rank", "Intrinsic fairness, average rank", caption, data, shown, labels=1)


def targets(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Distance of the neutral ranker's benefit from two target distributions."""
    shown = pd.DataFrame(
        {
            "attribute": rows["attribute"],
            "target": rows["target"],
            "scenario": rows["icl"] + " / " + rows["sampling"],
            "shares": rows["shares"],
            "target shares": rows["target_shares"],
            "total variation [95 %]": [
                _with_limits(*values)
                for values in zip(rows["total_variation"], rows["tv_low"], rows["tv_high"], strict=True)
            ],
            "p (TV)": [p_text(value) for value in rows["tv_p"]],
            "Jensen-Shannon [95 %]": [
                _with_limits(*values)
                for values in zip(rows["jensen_shannon"], rows["js_low"], rows["js_high"], strict=True)
            ],
            "p (JS)": [p_text(value) for value in rows["js_p"]],
            "note": rows["note"],
        }
    )
    caption = (
        f"Hits of the neutral ranker against a target distribution over groups. proportional: a group's share of "
        f"all hits against its share of users; uniform: the share of its MEAN against 1 / number of groups. Distances "
        f"in [0, 1], 0 on target; they cannot be negative, so an interval above 0 is no evidence by itself: read p "
        f"(permutation of group labels, {experiment.permutations:,} seeded). {source(experiment)}{left_out(rows)}"
    )
    data = rows.drop(columns="without_group")
    return Exhibit("targets", "Intrinsic fairness against a target", caption, data, shown, labels=2)


def omnibus(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """All groups of an attribute (or an intersection) tested at once."""
    shown = pd.DataFrame(
        {
            "attribute": rows["attribute"],
            "notion": rows["notion"],
            "scenario": rows["icl"] + " / " + rows["sampling"].map(SAMPLING_LABELS),
            "benefit": rows["benefit"],
            "groups tested": rows["groups"].astype(str),
            "left out": rows["left_out"],
            "SNSR": [decimals(value, 4) for value in rows["snsr"]],
            "SNSV": [decimals(value, 4) for value in rows["snsv"]],
            "ANOVA p": rows["p_anova"].map(p_text),
            "Kruskal-Wallis p": rows["p_kruskal"].map(p_text),
            "q": rows["q_kruskal"].map(p_text),
        }
    )
    caption = (
        f"Do any of the groups differ? One-way ANOVA and Kruskal-Wallis on ΔB. Groups under {experiment.min_group} "
        f"users are named and left out. SNSR, SNSV: range and standard deviation of the group means. "
        f"q: Benjamini-Hochberg over the {len(rows)} Kruskal-Wallis tests shown. "
        f"{source(experiment)}{left_out(rows)}"
    )
    names = " and ".join(str(rows["attribute"].iloc[0]).split(" x "))
    title = f"Intersections of {names}" if " x " in str(rows["attribute"].iloc[0]) else f"All groups of {names}"
    return Exhibit("intersections", title, caption, rows.drop(columns="without_group"), shown, labels=3)


def ground_truths(experiment: Experiment) -> Exhibit:
    """Score one set of replies in several ways: what "hit" means decides how many there are.

    Of the released replies these are MovieLens 1M's, in three ways. A run's are scored against the items held
    out and against those the prompts were made from, and repeated titles are counted once and each time.
    """
    if experiment.replies != "released":
        return _ground_truths_of_run(experiment)
    base = benefits_folder(experiment)
    ways = (
        (
            "file's ids",
            "file's ground truth (the train items)",
            BENEFIT_FILES["ml1m", "released"],
            "released",
        ),
        ("exact titles", "train items", released.TRAIN_FILE, ""),
        ("exact titles", "held-out items", BENEFIT_FILES["ml1m", "paper"], "paper"),
    )
    lines = []
    for matching, truth, name, protocol in ways:
        table = released.read_benefit_file(base / name)
        neutral = table[(table["demographics"] == "none") & (table["counterfactual"] == "no")]
        lines.append({"matching": matching, "ground_truth": truth, "protocol": protocol, **_totals(neutral)})
    data = pd.DataFrame(lines)
    shown = _totals_shown(data, {"matching": "matching", "ground_truth": "ground truth", "protocol": "protocol"}, 3)
    caption = (
        "MovieLens 1M, neutral lists (counterfactual = no; 8 of 9 scenarios are in the released file), the same "
        "replies scored three ways. K = 3."
    )
    return Exhibit("ground_truths", "One set of replies, three ground truths", caption, data, shown)


def _ground_truths_of_run(experiment: Experiment) -> Exhibit:
    lines = []
    for (truth, items), repeated in product(
        (("held-out", "held-out items"), ("file", "train items")), ("once", "each")
    ):
        change = {
            "name": f"{experiment.protocol}, {items}, {repeated}",
            "ground_truth": truth,
            "repeated_ids": repeated,
        }
        scored = rescored_as(experiment, experiment.rules.model_copy(update=change))
        neutral = answers(scored[(scored["demographics"] == "none") & (scored["repeat"] == 0)])
        lines.append({"ground_truth": items, "repeated_titles": repeated, **_totals(neutral)})
    data = pd.DataFrame(lines)
    names = {"ground_truth": "ground truth", "repeated_titles": "repeated titles count"}
    shown = _totals_shown(data, names, k_of(experiment))
    caption = (
        f"Neutral lists, the same replies scored four ways; everything else as the protocol says. {source(experiment)}"
    )
    return Exhibit("ground_truths", "One set of replies, two ground truths", caption, data, shown)


def _totals(neutral: pd.DataFrame) -> dict[str, object]:
    with_hit = neutral["hits"] > 0
    return {
        "lists": len(neutral),
        "items": int(neutral["n_items"].sum()),
        "matched": int(neutral["n_matched"].sum()),
        "hits": int(neutral["hits"].sum()),
        "hit_rate": statistics.mean(neutral["hit_rate"]),
        "lists_with_hit": int(with_hit.sum()),
        "average_rank_with_hit": statistics.mean(neutral.loc[with_hit, "average_rank"]),
    }


def _totals_shown(data: pd.DataFrame, names: dict[str, str], k: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **{shown: data[column] for column, shown in names.items()},
            "lists": data["lists"].astype(str),
            "items": data["items"].map("{:,}".format),
            "matched": data["matched"].map("{:,}".format),
            "hits": data["hits"].map("{:,}".format),
            f"mean HR@{k}": [decimals(value, 4) for value in data["hit_rate"]],
            "lists with a hit": data["lists_with_hit"].astype(str),
            f"mean AR@{k} of those": [decimals(value, 3) for value in data["average_rank_with_hit"]],
        }
    )


def under_both(experiment: Experiment) -> list[Experiment]:
    """Return the experiment under the released and the paper's protocol; of the released replies, MovieLens'."""
    other = {"dataset": "ml1m"} if experiment.replies == "released" else {}
    return [experiment.model_copy(update={**other, "protocol": name}) for name in ("released", "paper")]


def two_protocols(released_rows: pd.DataFrame, paper_rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """δ of every hit row under both protocols: of MovieLens 1M, or of a run."""
    head = ["attribute", "notion", "icl", "sampling"]
    columns = [*head, "n1", "n2", "delta", "p", "note"]
    pair = _pair_columns(released_rows)
    parts = [rows.loc[rows["benefit"] == "hit", [*head, *pair, *columns[4:]]] for rows in (released_rows, paper_rows)]
    data = parts[0].merge(parts[1], on=[*head, *pair], suffixes=("_released", "_paper"), validate="one_to_one")
    cells: dict[tuple[str, str], object] = {
        ("", "attribute"): data["attribute"],
        ("", "notion"): data["notion"],
        ("", "scenario"): data["icl"] + " / " + data["sampling"].map(SAMPLING_LABELS),
    }
    if pair:
        cells["", "pair"] = pair_texts(data)
    for name in ("released", "paper"):
        cells[name, "n1, n2"] = data[f"n1_{name}"].astype(str) + ", " + data[f"n2_{name}"].astype(str)
        cells[name, "δ"] = [decimals(value, 4) for value in data[f"delta_{name}"]]
        cells[name, "p"] = [p_text(value) for value in data[f"p_{name}"]]
    users = "In paper's NCSD rows both columns hold the same users, and Student's test treats them as independent."
    if experiment.replies == "released":
        caption = (
            "MovieLens 1M, hit, δ = group 1 − group 2 under the protocol of the released code (file's ids and ground "
            "truth, Welch) and that of the paper's text (exact titles, held-out items, do(value) for everyone, "
            "Student). released needs the neutral reply filed under counterfactual = no, which the file lacks for "
            f"0-shot / rand; paper takes the other reply to the same text there. {users}"
        )
    else:
        caption = (
            f"Hit, δ = group 1 − group 2 under the protocol of the released code (ground truth: the train items; "
            f"Welch) and that of the paper's text (held-out items, do(value) for everyone, Student). {users} "
            f"{run_words(frames.run_settings(experiment), users_of(experiment))}{left_out(released_rows)}"
        )
    return Exhibit("two_protocols", "Two protocols, one set of replies", caption, data, pd.DataFrame(cells), labels=2)
