"""What the audit's numbers say, each check with its question, method, result and consequence.

The numbers come in as the frames behind the exhibits; no sentence holds a number that is not computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from fairnb.audit.check import Check
from fairnb.audit.claims import NOT_CHECKABLE, NOT_SUPPORTED, SUPPORTED
from fairnb.datasets.released import TITLES


def _count(number: float) -> str:
    return f"{int(number):,}"


def _names(datasets: Sequence[str]) -> str:
    return " and ".join(TITLES[name] for name in datasets)


def sizes(found: pd.DataFrame) -> Check:
    """Say which sizes, units, formulas and tests the printed digits allow."""
    parts, every = [], int(found["fitting"].sum()) == int(found["rows"].sum())
    for (attribute, notion), block in found.groupby(["attribute", "notion"], sort=False):
        pairs = sorted({(row.n1, row.n2) for row in block.itertuples()})
        units = ", ".join(f"{row.benefit} in 1/{row.unit}" for row in block.itertuples())
        parts.append(f"{attribute} {notion}: {' or '.join(f'{n1} and {n2}' for n1, n2 in pairs)} users ({units})")
    swapped = []
    for attribute, block in found.groupby("attribute", sort=False):
        by_notion = {
            str(notion): set(zip(one["n1"], one["n2"], strict=True)) for notion, one in block.groupby("notion")
        }
        if by_notion.get("NCSD") == {(n2, n1) for n1, n2 in by_notion.get("NSD", set())}:
            swapped.append(str(attribute))
    several = int((found["sizes_shared"] > 1).sum())
    return Check(
        "sizes behind Table 2",
        "Of how many users can these means be, and in which steps do users' values come?",
        "GRIM (Brown & Heathers 2017) and a search over whole sums of squares (GRIMMER, Anaya 2016) for sizes, "
        "unit, formula and test that give all printed digits of a block at once.",
        "; ".join(parts)
        + f". {int(found['fitting'].sum())} of {int(found['rows'].sum())} row-halves fit"
        + (f"; in {several} blocks other sizes fit as well." if several else "; no other sizes fit both benefits."),
        (
            f"In NCSD rows by {' and '.join(swapped)} the two columns have changed sizes, as if each held the "
            "users of the other group. "
            if swapped
            else ""
        )
        + ("Every printed digit is one that such users can give." if every else "Look at the rows that do not fit."),
    )


def formulas(counts: pd.DataFrame) -> Check:
    """Say which formula of dispersion and which test give the printed columns."""
    total = int(counts["rows"].iloc[0])
    parts = []
    for column, block in counts.groupby("column", sort=False):
        top = block[block["fitting"] == block["fitting"].max()]
        names = [
            f"{row.formula}"
            + (
                f" ({'population' if row.ddof == 0 else 'sample'} variances, p by {row.test})"
                if row.test == row.test
                else ""
            )
            for row in top.itertuples()
        ]
        means = block[block["formula"].str.contains("group means")]["fitting"].max()
        parts.append(
            f"{str(column).upper()}: {' or '.join(names)} in {int(top['fitting'].iloc[0])} of {total} row-halves; "
            f"from the group means (eqs 8 and 9) in {int(means)}"
        )
    return Check(
        "dispersion and test",
        "Which formula gives the columns of dispersion, and which test gives p?",
        "All combinations of formula, population or sample variance and test, with the sizes and units found.",
        "; ".join(parts) + ".",
        "The columns are read by what they measure and not by their names: a spread over users does not say how far "
        "the groups are apart.",
    )


def family(p: dict[str, float], alpha: float) -> Check:
    """Say what the printed p-values are together."""
    return Check(
        "p-values together",
        "Are there more small p than chance alone would give?",
        "Expected and observed count, Benjamini & Hochberg 1995, Holm 1979, Kolmogorov-Smirnov against an even spread.",
        f"{p['below']:.0f} of {p['count']:.0f} printed p are below {alpha:g}, {p['expected']:.1f} expected without any "
        f"difference (so few or fewer: probability {p['at_most']:.2f} if rows were independent); smallest q "
        f"{p['bh_smallest']:.2f}, smallest Holm p {p['holm_smallest']:.2f}; even spread: p {p['uniform_p']:.3f}.",
        f"Corrected for their number, {p['bh_below']:.0f} differences are detected."
        + (
            " The p lie higher than an even spread would: rows share users, and tests on mostly unchanged values "
            "are slow to reject."
            if p["uniform_p"] < alpha and p["below"] < p["expected"]
            else ""
        ),
    )


def cells_power(cells: pd.DataFrame) -> Check:
    """Say which differences the cells could have shown."""
    known = cells[cells["smallest"].notna()]
    parts = [
        f"{benefit}, n = {n1} and {n2}: |δ| from {part['smallest'].min():.2f} to {part['smallest'].max():.2f}"
        for (benefit, n1, n2), part in known.assign(
            n1=known[["n1", "n2"]].max(axis=1), n2=known[["n1", "n2"]].min(axis=1)
        ).groupby(["benefit", "n1", "n2"], sort=False)
    ]
    above = int((known["delta"].abs() >= known["smallest"]).sum())
    return Check(
        "what each cell could have shown",
        "Which difference would a cell of this size and spread have detected with 80 % power?",
        "Power of Student's t-test with the sizes found and the printed SSNR as the standard deviation (Cohen 1988).",
        "; ".join(parts) + f". {above} of {len(known)} printed |δ| are that large.",
        "A printed difference that is smaller and has a large p was not detected; at this size it could hardly have "
        "been.",
    )


def ground_truth(truths: pd.DataFrame) -> Check:
    """Say what the ground truth of the released files is."""
    known = truths[truths["in_train"].notna()]
    unknown = truths[truths["in_train"].isna()]
    found = [
        f"{TITLES[row.dataset]}: {_count(row.in_train)} of {_count(row.items)} items are train items, "
        f"{_count(row.in_heldout)} are held out; for {_count(row.equal_to_train)} of {_count(row.users)} users the "
        "ground truth is the train part, item for item"
        for row in known.itertuples()
    ]
    if len(unknown):
        found.append(f"{_names(unknown['dataset'])}: the split was not released, so this cannot be checked")
    trained = (known["in_heldout"] == 0).all() and len(known) > 0
    return Check(
        "ground truth",
        "Which items count as hits: those held out for testing, or those the prompts were made from?",
        "Overlap of the ground-truth column with the author's temporal split, user by user.",
        "; ".join(found) + ".",
        "A hit is an item the user already knew before the split, which the prompt's profile may itself name: the "
        "hit rate rewards lists that give the profile back. It is another question than predicting what comes next."
        if trained
        else "Hits are, at least in part, items the prompts could not name.",
    )


def ids_and_titles(matching: pd.DataFrame) -> Check:
    """Say how often the matched id is the recommended item."""
    counts = matching.set_index(["dataset", "check"])
    found = []
    for dataset in matching["dataset"].unique():
        part = counts.loc[dataset]
        name = TITLES[str(dataset)]
        if "the id is that title's" in part.index:
            same, known = part.loc["the id is that title's", ["places", "of"]]
            other = part.loc["an id although the title is not in the catalogue", "places"]
            found.append(
                f"{name}: where the title is in the catalogue the id is that title's in {_count(same)} of "
                f"{_count(known)} places ({100 * same / known:.1f} %); {_count(other)} more places have an id "
                "although their title is not in the catalogue"
            )
        else:
            title, of = part.loc["the id stands more often beside another title", ["places", "of"]]
            artist, with_artist = part.loc["the id stands more often beside another artist", ["places", "of"]]
            found.append(
                f"{name}: no catalogue was released; in {_count(title)} of {_count(of)} places "
                f"({100 * title / of:.1f} %) the id stands more often beside another title, in {_count(artist)} of "
                f"{_count(with_artist)} ({100 * artist / with_artist:.1f} %) beside another artist"
            )
    return Check(
        "matching",
        "Is the matched id the recommended item?",
        "Ids beside titles, place by place; exact titles after normalising where there is a catalogue, else how "
        "many titles one id stands for.",
        "; ".join(found) + ".",
        "Hits under the released ids are not hits of the recommended titles: benefits, and differences of benefits, "
        "are those of the matcher and the model together.",
    )


def columns_of_users(columns: pd.DataFrame) -> Check:
    """Say which users each column of Table 2 covers."""
    smallest = columns.loc[columns["users"].idxmin()]
    found = []
    for (dataset, attribute), part in columns.groupby(["dataset", "attribute"], sort=False):
        sizes = [
            f"{notion} {' and '.join(str(count) for count in one['users'])}"
            for notion, one in part.groupby("notion", sort=False)
        ]
        found.append(f"{TITLES[str(dataset)]}, {attribute}: {', '.join(sizes)}")
    return Check(
        "who is in which column",
        "Of how many users, and of which, are the means?",
        "Users with a defined deviation per column, and their true group.",
        "; ".join(found) + f". Smallest: {smallest['users']} users ({smallest['attribute']}).",
        "In NCSD rows the column headed by a value holds the users of the other group, who were told that value: its "
        "difference mixes what is stated with who is asked. The text's do(value) for everyone would hold all users in "
        "both columns.",
    )


def agreement(by_flag: pd.DataFrame, pairs: pd.DataFrame) -> Check:
    """Say what the agreement of lists tells of the prompts."""
    found, marked = [], []
    for row in by_flag.itertuples():
        name = TITLES[str(row.dataset)]
        more = pairs[(pairs["dataset"] == row.dataset) & (pairs["facts"] > 0)]
        above = int((more["jaccard"] > row.again).sum())
        found.append(
            f"{name}: a list under one stated fact shares {row.same:.3f} with the neutral list filed under the same "
            f"value of counterfactual and {row.other:.3f} with the other (same higher in {row.same_higher} of "
            f"{row.scenarios} scenarios, p {row.p:.3f}); the two answers to the neutral text share {row.again:.3f}, "
            f"less than {above} of {len(more)} pairs of different texts"
        )
        if row.same_higher > row.scenarios / 2 and row.p < 0.05:
            marked.append(name)
    return Check(
        "agreement of lists",
        "Do lists differ by what the prompt states about the user, and by nothing else?",
        "Mean Jaccard of a user's lists for all pairs of the eight prompts of a scenario; sign test over scenarios.",
        "; ".join(found) + ".",
        f"In {' and '.join(marked)} what a list is like depends on which value of counterfactual it was filed under, "
        "also where the text is the same. NCSD compares across that border, so it holds this difference too; what "
        "made it (time, model state, or text that was not released) the files do not say."
        if marked
        else "No trace of anything but the stated facts was detected.",
    )


def noise(table: pd.DataFrame) -> Check:
    """Say how the deviations compare with asking again."""
    hit = table[table["benefit"] == "hit"]
    found = [
        f"{TITLES[str(dataset)]} (hit): SD of ΔB {part['sd'].mean():.3f}, of asking again {part['sd_again'].mean():.3f}"
        for dataset, part in hit.groupby("dataset", sort=False)
    ]
    within, rows = int(table["within"].sum()), int(table["rows"].sum())
    return Check(
        "noise of asking again",
        "How large is a deviation when nothing changes but the asking?",
        "The two answers to the neutral text as two askings; SD over users, and |δ| between the same groups.",
        "; ".join(found) + f"; in {within} of {rows} row-halves |δ| is no larger than between the two askings.",
        "A ΔB of this size says nothing of the stated attribute by itself; at temperature 0, too, answers to one text "
        "differ. Own runs should ask each neutral prompt more than once (setting repeats).",
    )


def cells(table: pd.DataFrame, alpha: float, rows: int) -> Check:
    """Say what is behind the rows below alpha."""
    heads = table[~table.duplicated(["attribute", "notion", "icl", "sampling", "benefit"])]
    found = [
        f"{row.attribute} {row.notion}, {row.icl} / {row.sampling}, {row.benefit}: Welch {row.p_welch:.3f}, Student "
        f"{row.p_student:.3f}, permutation {row.p_permutation:.3f}, Mann-Whitney {row.p_mannwhitney:.3f}"
        f"{f' ({row.note})' if row.note else ''}"
        for row in heads.itertuples()
    ]
    others = heads[["p_student", "p_permutation", "p_mannwhitney"]] < alpha
    alone = int((~others.any(axis=1)).sum())
    return Check(
        "cells below alpha",
        f"What is behind a p below {alpha:g}?",
        "The users' ΔB in both columns, and four tests (Welch, Student, permutation of labels, Mann-Whitney).",
        f"{len(heads)} of {rows} row-halves: " + ("; ".join(found) or "none") + ".",
        f"{alone} of {len(heads)} rest on Welch's test alone; where a group has no variation that test takes its "
        "mean as known exactly, and the p is no evidence of a difference."
        if len(heads)
        else "Nothing to look at.",
    )


def table4(panels: pd.DataFrame) -> Check:
    """Say which groups' means the panels of Table 4 go with."""
    found, crossed = [], []
    for attribute, part in panels.groupby("attribute", sort=False):
        own = int(part["within"].str.split(", ").map(lambda names, name=attribute: name in names).sum())
        other = int((part["gap_other"] <= 3).sum())
        found.append(f"{attribute}: {own} of {len(part)} rows with its own groups', {other} with the other attribute's")
        if own == 0 and other == len(part):
            crossed.append(str(attribute))
    return Check(
        "panels of Table 4",
        "Which groups' means are printed?",
        "Distance of printed means from the group means of either attribute, in Monte Carlo standard errors of a "
        "mean of bootstrap means; compatible within 3.",
        "; ".join(found) + ".",
        f"The {' and '.join(crossed)} panel goes with the other attribute's groups in every row, which suggests that "
        "it was computed with their labels; this is inferred from the numbers alone. What the text reads from it "
        f"about {' and '.join(crossed)} does not carry over."
        if crossed
        else "The panels go with their own groups.",
    )


def claims(verdicts: pd.DataFrame) -> Check:
    """Say how many sentences the numbers support."""
    counts = verdicts["verdict"].value_counts()
    ids = {name: ", ".join(verdicts.loc[verdicts["verdict"] == name, "id"]) for name in (NOT_SUPPORTED, NOT_CHECKABLE)}
    return Check(
        "sentences",
        "Do the paper's sentences follow from its numbers?",
        "One check in code per sentence of the abstract and sections 5 and 6 (data/published/claims.csv).",
        f"Of {len(verdicts)} sentences {counts.get(SUPPORTED, 0)} are supported, {counts.get(NOT_SUPPORTED, 0)} are "
        f"not ({ids[NOT_SUPPORTED]}), {counts.get(NOT_CHECKABLE, 0)} cannot be checked ({ids[NOT_CHECKABLE]}).",
        "The reasons stand in the table. A sentence that these numbers do not carry may still be true, and one that "
        "they carry may be read for more than it says.",
    )


def specification(rows: pd.DataFrame, choices: pd.DataFrame, alpha: float) -> Check:
    """Say how much δ depends on the choices of the protocol."""
    found, strongest = [], []
    for dataset, part in rows.groupby("dataset", sort=False):
        hit = part[part["benefit"] == "hit"]
        crossing = int(((hit["low"] < 0) & (hit["high"] > 0)).sum())
        tested = part[part["tests"] > 0]
        low = float((tested["significant"] * tested["tests"]).sum() / tested["tests"].sum())
        found.append(
            f"{TITLES[str(dataset)]}: in {crossing} of {len(hit)} hit rows the sign of δ depends on the choices; p < "
            f"{alpha:g} in {100 * low:.1f} % of all tests"
        )
        own = choices[(choices["dataset"] == dataset) & (choices["benefit"] == "hit")]
        top = own.drop_duplicates("choice").set_index("choice")["variance_share"]
        if top.notna().any():
            strongest.append(f"{top.idxmax().replace('_', ' ')} in {TITLES[str(dataset)]} ({100 * top.max():.0f} %)")
    return Check(
        "specification curve",
        "Would another sensible protocol have printed another table?",
        "δ and four tests under every combination of the choices (Simonsohn, Simmons & Nelson 2020); main effects "
        "of each choice on δ.",
        "; ".join(found) + f". Largest share of the variance of δ (hit): {' and '.join(strongest)}.",
        f"A sign that a choice can turn carries no direction of unfairness; and {100 * alpha:g} % of tests below "
        f"{alpha:g} is what no difference at all would give.",
    )


def false_positives(rates: pd.DataFrame, alpha: float) -> Check:
    """Say how often each test finds a difference where none is."""
    ordinary = rates[rates["test"] != "bootstrap means"]
    found = [
        f"n = {n1} and {n2}: {100 * part['rate'].min():.1f} to {100 * part['rate'].max():.1f} % by four tests"
        for (n1, n2), part in ordinary.groupby(["n1", "n2"], sort=False)
    ]
    means = rates[rates["test"] == "bootstrap means"]
    found.append(
        f"Welch's test on bootstrap means {100 * means['rate'].min():.1f} to {100 * means['rate'].max():.1f} % "
        f"(theory: {100 * means['expected'].iloc[0]:.1f} %)"
    )
    off = ordinary[(ordinary["low"] > alpha) | (ordinary["high"] < alpha)]
    names = ", ".join(f"{row.test} at {row.n1} and {row.n2}" for row in off.itertuples())
    return Check(
        "false positives",
        "How often does each test find a difference where none was planted?",
        f"Simulated data with the observed shares of values in both groups, α = {alpha:g}; 95 % Wilson intervals.",
        "; ".join(found) + ".",
        "The test on bootstrap means counts replicates for users: its p is no "
        "evidence. "
        f"{f'Further than noise from {100 * alpha:g} %: {names}.' if names else 'The others keep their level.'}",
    )


def power(detectable: pd.DataFrame, needed: pd.DataFrame, flat: pd.DataFrame, observed: float) -> Check:
    """Say what could have been detected, and with how many users.

    Parameters
    ----------
    detectable, needed : DataFrame
        From `fairnb.exhibits.power`.
    flat : DataFrame
        Welch's detections, and those made where a group has no variation.
    observed : float
        The largest |δ| of the table.
    """
    found = []
    for (n1, n2), part in detectable.groupby(["n1", "n2"], sort=False):
        values = part["by_simulation"].dropna()
        text = f"{values.min():.3f} to {values.max():.3f}" if len(values) else "not reached"
        found.append(f"n = {n1} and {n2}: {text}")
    wanted = [
        f"{row.n1 + row.n2:,} users for δ = {row.effect:.2f} ({row.n1:,} and {row.n2:,})"
        for row in needed.itertuples()
        if not math.isnan(row.n1)
    ]
    near = detectable[detectable["holds_to"].notna()]
    held = [
        f"{part['holds_to'].min():.2f} at n = {n1} and {n2}"
        for (n1, n2), part in near.groupby(["n1", "n2"], sort=False)
    ]
    lost = [
        f"{100 * row.rejected_constant / max(row.rejected, 1):.0f} % (δ = {row.effect:.2f}, n = {row.n1} and {row.n2})"
        for row in flat.itertuples()
    ]
    return Check(
        "power",
        "Which difference could have been detected with 80 % power, and how many users would smaller ones need?",
        "Simulation with an exponentially tilted distribution of ΔB, four tests; noncentral t for the n (Cohen 1988).",
        f"Smallest detectable δ (hit) over the tests: {'; '.join(found)}. Needed: {'; '.join(wanted)}. Largest |δ| "
        f"of the hit rows: {observed:.3f}. Formula and simulation are within two points for the t-tests up to δ = "
        f"{'; '.join(held) or 'none'}. Welch's test on a group without variation makes {'; '.join(lost)} of its "
        f"detections.",
        "“Not detected” in these tables says little about differences below these sizes, neither that there are "
        "some nor that there are none. A detection that rests on a group whose users all have one value rests on a "
        "variance taken for 0.",
    )


def table(checks: Sequence[Check]) -> pd.DataFrame:
    """Lay out checks as rows: ``check``, ``question``, ``method``, ``result``, ``consequence``."""
    return pd.DataFrame(
        [(check.name, check.question, check.method, check.result, check.consequence) for check in checks],
        columns=["check", "question", "method", "result", "consequence"],
    )


def markdown(check: Check) -> str:
    """Write a check as four short paragraphs of Markdown."""
    parts = (
        ("Question", check.question),
        ("Method", check.method),
        ("Result", check.result),
        ("What follows", check.consequence),
    )
    return "\n\n".join(f"**{name}.** {text}" for name, text in parts)
