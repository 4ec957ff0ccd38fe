"""What printed digits say by themselves: Table 2 of FairEvalLLM, and another paper's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fairnb import paths
from fairnb.audit import family, reconstruct
from fairnb.audit.check import Check
from fairnb.audit.printed import Printed, read
from fairnb.audit.reconstruct import FORMULAS, TESTS, Hypothesis
from fairnb.audit.report import report
from fairnb.exhibits.charts import style
from fairnb.exhibits.exhibit import Exhibit, decimals
from fairnb.settings import Experiment

BLOCK = ["attribute", "notion", "benefit"]
UNITS, LARGEST = range(1, 7), 100
# Users' hit rates lie between 0 and 1, their average ranks between 0 and K.
BOUNDS = {"hit": 1.0, "rank": 3.0}
DISPERSION, RANGE = "ssnr", "ssnd"
_PRINT = "From the printed digits of Table 2 of FairEvalLLM (arXiv 2405.02219v1) alone; no reply enters."


def table2() -> pd.DataFrame:
    """Read the printed Table 2: its labels, its numbers, and their printed places (columns ending in _places)."""
    return rows_of(read(paths.published() / "fairevalllm_table2.csv"))


def rows_of(printed: Printed) -> pd.DataFrame:
    """Lay out labels, numbers and places of a printed table side by side."""
    places = printed.places.add_suffix("_places")
    return pd.concat([printed.labels, printed.numbers, places], axis=1)


def search(table: pd.DataFrame) -> pd.DataFrame:
    """Search how each block of Table 2 can have been made; neither sizes nor K are assumed.

    Returns
    -------
    DataFrame
        `BLOCK`, what `fairnb.audit.reconstruct.search` returns, and ``shared``: sizes that hit and rank, which are of
        the same users, both allow.
    """
    parts = []
    for key, rows in table.groupby(BLOCK, sort=False):
        block = dict(zip(BLOCK, key, strict=True))
        bound = BOUNDS[block["benefit"]]
        found = reconstruct.search(rows, spread=DISPERSION, units=UNITS, largest=LARGEST, bound=bound)
        parts.append(found.assign(**block))
    data = pd.concat(parts, ignore_index=True)[[*BLOCK, *parts[0].columns.drop(BLOCK)]]
    benefits = data.groupby(["attribute", "notion", "n1", "n2"])["benefit"].transform("nunique")
    return data.assign(shared=benefits == data.groupby(["attribute", "notion"])["benefit"].transform("nunique"))


def best(searched: pd.DataFrame) -> dict[tuple[str, ...], Hypothesis]:
    """Choose per block the hypothesis with the coarsest unit among those whose sizes hit and rank share."""
    chosen = {}
    for key, part in searched[searched["shared"]].groupby(BLOCK, sort=False):
        first = part.sort_values(["unit", "n1", "n2"], kind="stable").iloc[0]
        chosen[key] = Hypothesis(**{name: first[name] for name in Hypothesis.__dataclass_fields__})
    return chosen


def sizes(searched: pd.DataFrame) -> Exhibit:
    """Tabulate the sizes, unit, formula and test that each block of Table 2 allows."""
    lines = []
    for key, hypothesis in best(searched).items():
        block = dict(zip(BLOCK, key, strict=True))
        part = searched[(searched[BLOCK] == list(key)).all(axis=1)]
        own = part[part["shared"]]
        lines.append(
            {
                **block,
                **asdict(hypothesis),
                "fitting": int(part["fitting"].max()),
                "rows": int(part["rows"].max()),
                "left": len(part),
                "left_shared": len(own),
                "sizes_shared": len(own[["n1", "n2"]].drop_duplicates()),
            }
        )
    data = pd.DataFrame(lines)
    shown = pd.DataFrame(
        {
            "attribute": data["attribute"],
            "notion": data["notion"],
            "benefit": data["benefit"],
            "users": data["n1"].astype(str) + " and " + data["n2"].astype(str),
            "unit": "1/" + data["unit"].astype(str),
            "dispersion": data["formula"] + ", " + data["ddof"].map({0: "population", 1: "sample"}),
            "test": data["test"],
            "rows that fit": [f"{fit} of {of}" for fit, of in zip(data["fitting"], data["rows"], strict=True)],
            "fitting": data["left"].astype(str),
            "of shared sizes": data["left_shared"].astype(str),
        }
    )
    caption = (
        f"Groups of 2 to {LARGEST} users, units of 1/{min(UNITS)} to 1/{max(UNITS)}, {len(FORMULAS)} formulas of "
        f"dispersion with population and sample variances, and {len(TESTS)} t-tests, searched for whole sums and "
        "sums of squares that give all printed digits of the block's nine rows. Shown: the coarsest unit; multiples "
        "of a unit that fits always fit and are not counted. fitting: combinations of all these that fit; of shared "
        f"sizes: those with sizes that hit and rank, which are of the same users, both allow. {_PRINT}"
    )
    return Exhibit("sizes", "How Table 2 can have been made", caption, data, shown, labels=2)


def formulas(searched: pd.DataFrame, table: pd.DataFrame) -> Exhibit:
    """Count for each formula in how many rows it can give the printed dispersion, and with each test also p."""
    chosen = best(searched)
    blocks = dict(list(table.groupby(BLOCK, sort=False)))
    lines: list[dict[str, object]] = []
    for column in (RANGE, DISPERSION):
        parts = [reconstruct.group_mean_formulas(rows, column) for rows in blocks.values()]
        for formula, part in pd.concat(parts).groupby("formula", sort=False):
            lines.append({"column": column, "formula": formula, "fitting": int(part["reproduced"].sum())})
        whole = sum(
            reconstruct.multiples(rows, column, chosen[key].unit, BOUNDS[key[2]]) for key, rows in blocks.items()
        )
        lines.append({"column": column, "formula": "range over users", "fitting": whole})
        for formula in FORMULAS:
            for ddof in (0, 1):
                for test in TESTS:
                    fitting = 0
                    for key, rows in blocks.items():
                        one = chosen[key]
                        hypothesis = Hypothesis(one.n1, one.n2, one.unit, formula, ddof, test)
                        fitting += int(reconstruct.fits(rows, hypothesis, spread=column, bound=BOUNDS[key[2]]).sum())
                    head = {"column": column, "formula": formula, "ddof": ddof, "test": test}
                    lines.append({**head, "fitting": fitting})
    data = pd.DataFrame(lines).assign(rows=len(table))
    data = data[(data["fitting"] > 0) | data["test"].isna()]
    data = data.sort_values(["column", "fitting"], ascending=[True, False], kind="stable", ignore_index=True)
    data["ddof"] = data["ddof"].astype("Int64")
    shown = pd.DataFrame(
        {
            "printed column": data["column"].str.upper(),
            "formula": data["formula"],
            "variances": data["ddof"].map({0: "population", 1: "sample"}),
            "and p by": data["test"],
            "rows it can give": [f"{fit} of {of}" for fit, of in zip(data["fitting"], data["rows"], strict=True)],
        }
    )
    caption = (
        "Which formula can give the printed dispersions, with the sizes and units found above. The first three need "
        "the group means only (FairEvalLLM, eqs 8 and 9); range over users: a whole multiple of the unit no larger "
        "than two values can be apart; the others: whole sums of squares exist that give the dispersion and, with "
        f"the test, the printed p. {_PRINT}"
    )
    return Exhibit("formulas", "Which formula, which test", caption, data, shown, labels=1)


def together(table: pd.DataFrame, experiment: Experiment) -> dict[str, float]:
    """Look at the printed p-values as a family."""
    return family.p_family(table["p"], experiment.alpha)


def p_values(table: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Draw the printed p-values in order, against those that no difference anywhere would give."""
    p = table["p"].dropna().sort_values().to_numpy()
    data = table[["attribute", "notion", "icl", "sampling", "benefit", "p"]].sort_values("p", kind="stable")
    data = data.assign(expected=(np.arange(len(data)) + 0.5) / len(data))
    with style():
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        panels = figure.subplots(1, 2)
        panels[0].hist(p, bins=np.linspace(0, 1, 21), color="#0072B2", edgecolor="white")
        panels[0].axhline(len(p) / 20, color="black", ls="--", lw=1, label="spread evenly")
        panels[0].axvspan(0, experiment.alpha, color="#D55E00", alpha=0.25, lw=0, label=f"p < {experiment.alpha:g}")
        panels[0].set(xlabel="printed p", ylabel="row-halves of Table 2", xlim=(0, 1))
        panels[0].yaxis.get_major_locator().set_params(integer=True)
        panels[0].legend()
        panels[1].plot(data["expected"], data["p"], "o", ms=4, color="#0072B2", label="printed p, in order")
        panels[1].plot([0, 1], [0, 1], color="black", ls="--", lw=1, label="spread evenly")
        panels[1].set(xlabel="expected, if no row had a difference", ylabel="printed p", xlim=(0, 1), ylim=(0, 1))
        panels[1].legend(loc="upper left")
    caption = (
        f"The {len(p)} printed p of Table 2: how many in each twentieth (left), and in order against an even spread "
        f"(right). Rows share users and replies, so they are not independent. {_PRINT}"
    )
    return Exhibit("p_values", "The p-values together", caption, data, figure=figure)


def detectable(searched: pd.DataFrame, table: pd.DataFrame, experiment: Experiment) -> tuple[Exhibit, pd.DataFrame]:
    """Set each printed δ against the smallest difference that its cell could have detected with 80 % power.

    Returns
    -------
    tuple of Exhibit and DataFrame
        A row per attribute, notion and benefit; and one per row of Table 2.
    """
    chosen = best(searched)
    cells = table[[*BLOCK, "icl", "sampling", "delta", DISPERSION]].copy()
    keys = list(cells[BLOCK].itertuples(index=False, name=None))
    cells["n1"], cells["n2"] = [chosen[key].n1 for key in keys], [chosen[key].n2 for key in keys]
    cells["smallest"] = [
        family.detectable(sd, n1, n2, alpha=experiment.alpha)
        for sd, n1, n2 in zip(cells[DISPERSION], cells["n1"], cells["n2"], strict=True)
    ]
    grouped = cells.assign(size=cells["delta"].abs()).groupby([*BLOCK, "n1", "n2"], sort=False)
    data = grouped.agg(
        low=("smallest", "min"), high=("smallest", "max"), largest=("size", "max"), rows=("size", "size")
    ).reset_index()
    above = cells["delta"].abs() >= cells["smallest"]
    data["above"] = [int(above[(cells[BLOCK] == list(key)).all(axis=1)].sum()) for key in data[BLOCK].to_numpy()]
    shown = pd.DataFrame(
        {
            "attribute": data["attribute"],
            "notion": data["notion"],
            "benefit": data["benefit"],
            "users": data["n1"].astype(str) + " and " + data["n2"].astype(str),
            "smallest detectable |δ|": [
                f"{decimals(low, 3)} to {decimals(high, 3)}"
                for low, high in zip(data["low"], data["high"], strict=True)
            ],
            "largest printed |δ|": [decimals(value, 4) for value in data["largest"]],
            "rows at or above": [f"{count} of {of}" for count, of in zip(data["above"], data["rows"], strict=True)],
        }
    )
    caption = (
        f"The smallest |δ| that Student's t-test detects with 80 % power at α = {experiment.alpha:g}, from the sizes "
        f"found and each row's printed {DISPERSION.upper()} as the standard deviation within groups (Cohen 1988); "
        f"over the nine rows of a block. {_PRINT}"
    )
    return Exhibit("cells_power", "What each cell could have shown", caption, data, shown, labels=2), cells


def fairllm(experiment: Experiment) -> Exhibit:
    """Check Table 1 of FaiRLLM from print, as `fairnb audit` does with anyone's table."""
    roles = {"group1": "max", "group2": "min", "delta": "snsr"}
    checks = report(read(paths.published() / "fairllm_table1.csv", roles), alpha=experiment.alpha)
    source = (
        "From the printed digits of Table 1 of FaiRLLM (arXiv 2305.07609) alone: the largest and smallest mean "
        "similarity of a group to the neutral lists (read as group 1 and 2), their range SNSR and standard "
        "deviation SNSV, for two data sets, three similarities and eight attributes."
    )
    return checks_table(checks, "fairllm", "Another paper's table", source)


def checks_table(checks: Sequence[Check], name: str, title: str, source: str) -> Exhibit:
    """Tabulate checks of another paper's printed table."""
    data = pd.DataFrame(
        [(check.name, check.question, check.method, check.result, check.consequence) for check in checks],
        columns=["check", "question", "method", "result", "consequence"],
    )
    shown = data[["check", "result", "consequence"]].rename(columns={"consequence": "what follows"})
    return Exhibit(
        name, title, f"{source} The question and method of each check are in the CSV.", data, shown, width=40
    )
