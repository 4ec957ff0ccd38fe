"""A printed table of group means, checked from print alone: each check with question, method, result, consequence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product

import pandas as pd

from fairnb.audit import family, reconstruct
from fairnb.audit.check import Check
from fairnb.audit.printed import Printed
from fairnb.audit.reconstruct import Hypothesis
from fairnb.errors import DataError, ParameterError

__all__ = ["Check", "report"]

_UNITS = range(1, 11)
_SHOWN = 6
# A search of so much (see `_effort`) ends within about two minutes.
_MOST_EFFORT = 4000
_MOST_WIDER = 10
_OWN_ROLES = re.compile(r"group[0-9]+|n[0-9]*|delta|p")
_DDOF = {0: "population", 1: "sample"}


@dataclass(frozen=True)
class _Block:
    """Rows that share their users, and what a search of their dispersions found."""

    name: str
    rows: pd.DataFrame
    n: tuple[float, float]
    bound: float
    found: dict[str, pd.DataFrame]
    skipped: str

    def best(self) -> tuple[str, Hypothesis] | None:
        """Return the column and hypothesis that fit most rows, of the smallest unit; None if several sizes fit then."""
        told = {spread: table for spread, table in self.found.items() if len(_sizes_of(table)) == 1}
        if not told:
            return None
        spread = max(told, key=lambda name: int(told[name]["fitting"].iloc[0]))
        row = told[spread].sort_values("unit", kind="stable").iloc[0]
        return spread, Hypothesis(**{field.name: row[field.name] for field in fields(Hypothesis)})

    def why_not(self) -> str:
        """Say why there is no best hypothesis."""
        if self.skipped or all(table.empty for table in self.found.values()):
            return self.skipped or "no hypothesis fits (see dispersion and test)"
        return "several sizes fit (see dispersion and test)"


def _sizes_of(table: pd.DataFrame) -> set[tuple[int, int]]:
    """Return the pairs of sizes that fit with the smallest unit; a larger unit fits more easily."""
    smallest = table[table["unit"] == table["unit"].min()]
    return set(zip(smallest["n1"], smallest["n2"], strict=True))


def report(
    printed: Printed,
    *,
    alpha: float = 0.05,
    largest: int = 200,
    total: int | None = None,
    unit: int | None = None,
    bound: float = 1.0,
    spread: str | None = None,
    block: Sequence[str] = (),
) -> list[Check]:
    """Check a printed table.

    Parameters
    ----------
    printed : Printed
        See `fairnb.audit.printed.read`.
    alpha : float
        Level of the tests, in (0, 1).
    largest : int
        Largest number of users of a group that is tried, at least 2.
    total : int, optional
        Users of both groups together, where known.
    unit : int, optional
        A user's value is a whole multiple of 1/unit (HitRate@3: 3); 1 to 10 are tried if not given.
    bound : float
        Largest size of a user's value, above 0. A block that prints a larger mean, or a dispersion above twice the
        bound, contradicts it; there the bound is what print needs, and the result says so.
    spread : str, optional
        The column of dispersions; any column of numbers without a role if not given.
    block : sequence of str
        Columns whose values split the table into blocks that may differ in their users.

    Returns
    -------
    list of Check
        What was read; granularity; δ and the means; dispersion and test; cells that do not go together; range and SD;
        p-values together; users and detectable differences. A check that cannot be made says why in its result.

    Raises
    ------
    DataError
        If `block` or `spread` names no column.
    ParameterError
        If a number is out of range.
    """
    for name, value, good, expected in (
        ("alpha", alpha, 0 < alpha < 1, "above 0 and below 1"),
        ("largest", largest, largest >= 2, "of 2 or more"),
        ("total", total, total is None or total >= 4, "of 4 or more"),
        ("unit", unit, unit is None or unit >= 1, "of 1 or more"),
        ("bound", bound, 0 < bound < math.inf, "above 0"),
    ):
        if not good:
            raise ParameterError(f"{name} = {value}: expected a number {expected}")
    spreads = _spreads(printed, spread)
    units = _UNITS if unit is None else range(unit, unit + 1)
    blocks = [
        _searched(name, rows, printed, spreads, units, largest, total, bound)
        for name, rows in _split(printed, _frame(printed), block).items()
    ]
    return [
        _reading(printed),
        _granularity(printed, blocks, units, largest, total),
        _differences(printed),
        _dispersion(blocks, spreads, units, bound),
        _together(printed, blocks),
        _ranges(printed),
        _family(printed, alpha),
        _detectable(blocks, alpha),
    ]


# --- The table in blocks, and the search ---


def _groups(printed: Printed) -> list[str]:
    return sorted(
        (name for name in printed.numbers if re.fullmatch("group[0-9]+", name)), key=lambda name: int(name[5:])
    )


def _spreads(printed: Printed, spread: str | None) -> list[str]:
    if spread is None:
        free = [name for name in printed.numbers if not _OWN_ROLES.fullmatch(name)]
        return [name for name in free if (printed.places[name].fillna(0) > 0).any()]
    if spread.lower() in printed.numbers.columns:
        return [spread.lower()]
    named = [column for column, name in printed.names.items() if name.lower() == spread.lower()]
    if not named:
        known = ", ".join(printed.names.values())
        raise DataError(f"{printed.file}: no column {spread} of numbers; expected one of {known}")
    return named


def _frame(printed: Printed) -> pd.DataFrame:
    """Lay numbers and places side by side, percentages as shares; δ and p are there, if only as missing."""
    numbers = printed.numbers.reindex(columns=list(dict.fromkeys([*printed.numbers, "delta", "p"])))
    places = printed.places.reindex(columns=numbers.columns).astype(float)
    for name in printed.percent:
        if not re.fullmatch("p|n[0-9]*", name):
            numbers[name] /= 100
            places[name] += 2
    return pd.concat([numbers, places.add_suffix("_places")], axis=1)


def _split(printed: Printed, rows: pd.DataFrame, block: Sequence[str]) -> dict[str, pd.DataFrame]:
    if not block:
        return {"all rows": rows}
    known = {name.lower(): printed.labels[name] for name in printed.labels}
    known |= {name.lower(): printed.numbers[column] for column, name in printed.names.items()}
    for name in block:
        if name.lower() not in known:
            expected = ", ".join([*printed.labels, *printed.names.values()])
            raise DataError(f"{printed.file}: no column {name} to split by; expected one of {expected}")
    keys = [" ".join(str(known[name.lower()].loc[row]) for name in block) for row in rows.index]
    return {str(name): part for name, part in rows.groupby(keys, sort=False)}


def _searched(
    name: str,
    rows: pd.DataFrame,
    printed: Printed,
    spreads: list[str],
    units: range,
    largest: int,
    total: int | None,
    bound: float,
) -> _Block:
    n1, n2 = (_constant(rows, side) for side in ("n1", "n2"))
    known = math.isfinite(n1) and math.isfinite(n2)
    bound = _bound(rows, spreads, bound)
    skipped = ""
    if len(_groups(printed)) > 2:
        skipped = "more than two groups are printed, and δ, p and dispersion do not tell which pair they are of"
    elif not spreads:
        skipped = "no column of dispersions is printed"
    elif known and not (min(n1, n2) >= 2 and max(n1, n2) <= largest):
        skipped = f"n = {n1:g} and {n2:g} are printed; sizes from 2 to {largest} are tried; see --largest"
    elif not known:
        pairs, effort = _effort(rows, units, largest, total, bound)
        if effort > _MOST_EFFORT:
            narrow = "narrow with --total, --unit or --largest"
            skipped = f"the means alone allow {pairs:,} pairs of sizes, too much to search; {narrow}"
    found = {}
    for spread in spreads:
        if skipped or not rows[spread].notna().any():
            continue
        if known:
            table = _of_printed_sizes(rows, int(n1), int(n2), units, spread, bound)
        else:
            table = reconstruct.search(rows, spread=spread, units=units, largest=largest, total=total, bound=bound)
        found[spread] = table
    return _Block(name, rows, (n1, n2), bound, found, skipped)


def _of_printed_sizes(rows: pd.DataFrame, n1: int, n2: int, units: range, spread: str, bound: float) -> pd.DataFrame:
    """Return the hypotheses with these sizes that fit most rows, and at least half of them."""
    found = []
    for unit, formula, ddof, test in product(units, reconstruct.FORMULAS, (0, 1), reconstruct.TESTS):
        hypothesis = Hypothesis(n1, n2, unit, formula, ddof, test)
        fitting = int(reconstruct.fits(rows, hypothesis, spread=spread, bound=bound).sum())
        found.append({**asdict(hypothesis), "fitting": fitting, "rows": len(rows)})
    table = pd.DataFrame(found)
    return table[(table["fitting"] == table["fitting"].max()) & (2 * table["fitting"] >= len(rows))]


def _bound(rows: pd.DataFrame, spreads: list[str], bound: float) -> float:
    """Return the bound, or the next whole number that the printed means, SDs and ranges over users need."""
    needed = pd.concat([rows[["group1", "group2"]].abs().max(), rows[spreads].max() / 2]).dropna()
    # A column that needs much more is no dispersion of these means.
    needed = needed[(needed > bound + 1e-3) & (needed <= _MOST_WIDER * bound)]
    return float(math.ceil(needed.max() - 1e-3)) if len(needed) else bound


def _constant(rows: pd.DataFrame, name: str) -> float:
    """Return the one number that a column prints; NaN if it is absent, empty or has several."""
    values = rows[name].dropna().unique() if name in rows.columns else []
    return float(values[0]) if len(values) == 1 else math.nan


def _effort(rows: pd.DataFrame, units: range, largest: int, total: int | None, bound: float) -> tuple[int, float]:
    """Count the pairs of sizes that the means allow, and weigh each by the sums and sums of squares to go through."""
    pairs, effort = 0, 0.0
    grain1, grain2 = (10.0 ** -rows[f"{name}_places"].max() for name in ("group1", "group2"))
    for unit in units:
        second = set(_sizes(rows, "group2", unit, largest))
        for n1 in _sizes(rows, "group1", unit, largest):
            partners = second if total is None else second & {total - n1}
            pairs += len(partners)
            squares = 1 + n1 * (unit * bound) ** 2 / 3000
            sums = sum(max(1.0, n2 * unit * grain2) for n2 in partners)
            effort += squares * max(1.0, n1 * unit * grain1) * sums
    return pairs, effort


def _sizes(rows: pd.DataFrame, name: str, unit: int, largest: int) -> list[int]:
    return [int(n) for n in reconstruct.sizes(rows[name], rows[f"{name}_places"], unit, largest)]


# --- The checks ---


def _reading(printed: Printed) -> Check:
    columns = ", ".join(printed.numbers)
    result = f"{len(printed.numbers)} rows; columns of numbers: {columns}."
    return Check(
        "what was read",
        "What does the file hold, and what was read differently or left out?",
        "Each cell as typed; a printed number with d decimals stands for all within half a unit of the last one.",
        result + "".join(f" {remark}." for remark in printed.remarks),
        "The checks below see these numbers and no others."
        if printed.remarks
        else "Nothing was left out or read differently.",
    )


def _granularity(printed: Printed, blocks: Iterable[_Block], units: range, largest: int, total: int | None) -> Check:
    found = []
    for block in blocks:
        parts = [_grains(printed, block, name, units, largest) for name in _groups(printed)]
        if total is not None and len(parts) == 2:
            pairs = [
                f"{n} and {total - n} (unit {unit})"
                for unit in units
                for n in _sizes(block.rows, "group1", unit, largest)
                if total - n in _sizes(block.rows, "group2", unit, largest)
            ]
            parts.append(f"with n1 + n2 = {total}: {_some(pairs) if pairs else 'no pair of sizes'}")
        found.append((block.name, "; ".join(parts)))
    tried = f"{units[0]} to {units[-1]}" if len(units) > 1 else str(units[0])
    texts = [part for _, text in found for part in text.split("; ") if ": " in part]
    if texts and all("nothing tried" in text for text in texts):
        consequence = (
            "Print names no size here: the groups are larger than what was tried, or users' values come in no common "
            "steps, as those of a Jaccard similarity do."
        )
    elif any("n·u = " in text for text in texts):
        consequence = (
            "A size that is not listed cannot have made all the means, if users' values are whole multiples of 1/u. A "
            "multiple of a size that is listed always can, so the list alone names no size."
        )
    else:
        consequence = "The printed n were taken as they are." if texts else "Nothing follows."
    return Check(
        "granularity",
        "Which numbers of users make the printed means possible?",
        f"GRIM (Brown & Heathers 2017): a sum over users is a whole number of units 1/u, so a mean is a whole number "
        f"divided by n·u; u = {tried}, n from 2 to {largest}.",
        _by_block(found),
        consequence,
    )


def _grains(printed: Printed, block: _Block, name: str, units: range, largest: int) -> str:
    """Say, for one column of means, which products n·u are attainable, or which means are not with the n printed."""
    rows, column = block.rows, f"n{name[5:]}"
    means = rows[rows[name].notna()]
    if means.empty:
        return f"{name}: no mean printed"
    if column in rows.columns and rows[column].notna().any():
        return _with_n(printed, means, name, column, units)
    tried = {n * unit for unit in units for n in range(2, largest + 1)}
    good = sorted({n * unit for unit in units for n in _sizes(rows, name, unit, largest)})
    if not good:
        return f"{name}: nothing tried makes all {len(means)} means possible (n is larger, or values are no multiples)"
    if len(good) == len(tried):
        most = int(means[f"{name}_places"].max())
        return f"{name}: GRIM says nothing, every size is possible ({len(means)} means with {most} decimals)"
    share = f"{len(good):,} of {len(tried):,} possible"
    if len(good) > len(tried) / 2:
        most = int(means[f"{name}_places"].max())
        share += f"; means with {most} decimals say nothing where n·u is {10**most:,} or more"
    return f"{name}: n·u = {_some(good)} ({share})"


def _with_n(printed: Printed, means: pd.DataFrame, name: str, column: str, units: range) -> str:
    known = means[means[column] >= 1]
    odd = {
        unit: [
            index
            for index, row in known.iterrows()
            if not reconstruct.attainable(row[name], int(row[f"{name}_places"]), int(row[column]), unit)
        ]
        for unit in units
    }
    good = [str(unit) for unit, rows in odd.items() if not rows]
    if good:
        return f"{name}: all {len(known)} means are attainable with the printed n and unit {_some(good)}"
    unit = min(odd, key=lambda one: (len(odd[one]), one))
    cells = [
        f"{_where(printed, row, name)} ({means.at[row, name]:.{int(means.at[row, f'{name}_places'])}f} is not "
        f"attainable with n = {int(means.at[row, column])} and unit {unit})"
        for row in odd[unit]
    ]
    return f"{name}: {len(cells)} of {len(known)} means do not go with the printed n, at best: {_some(cells)}"


def _differences(printed: Printed) -> Check:
    compared = family.differences(printed)
    consequence = "δ adds nothing to the means, and nothing speaks against it."
    if len(_groups(printed)) > 2:
        result = f"{len(_groups(printed))} groups are printed: δ does not tell which pair it is of."
        consequence = "Name the two groups of δ with --role, one pair at a time."
    elif compared.empty:
        why = "no δ is printed" if "delta" not in printed.numbers else "no row prints both means and δ"
        result, consequence = f"Cannot be made: {why}.", "Nothing follows."
    else:
        odd = compared[~compared["within"].astype(bool)]
        result = f"{len(compared) - len(odd)} of {len(compared)} rows agree."
        if len(odd):
            turned = int(((odd["delta"] + odd["difference"]).abs() <= odd["slack"]).sum())
            result += f" The others: {_some([_where(printed, row, 'delta') for row in odd.index])}."
            result += f" In {turned} of them δ is group2 − group1." if turned else ""
            consequence = "In these rows one of the three cells stands for something else than its heading says."
    return Check(
        "δ and the means",
        "Is δ the difference of the two means?",
        "|δ − (group1 − group2)| against the rounding of the three cells: half a unit of the last place of each.",
        result,
        consequence,
    )


def _dispersion(blocks: Sequence[_Block], spreads: Sequence[str], units: range, bound: float) -> Check:
    found = []
    for block in blocks:
        parts = [f"cannot be made: {block.skipped}"] if block.skipped else []
        best = block.best()
        unit = best[1].unit if best else units[0] if len(units) == 1 else 0
        for spread in spreads:
            known = int(block.rows[spread].notna().sum())
            told = [] if block.found.get(spread, pd.DataFrame()).empty else [_told(block, spread)]
            over_means = reconstruct.group_mean_formulas(block.rows, spread)
            same = over_means[(over_means["reproduced"] == over_means["rows"]) & (over_means["rows"] > 0)]
            told += [f"{row.formula} in all {row.rows} rows" for row in same.itertuples()]
            if known and unit and not told and reconstruct.multiples(block.rows, spread, unit, block.bound) == known:
                told = [f"whole multiples of 1/{unit} in all {known} rows, as a range over users is"]
            nothing = "no formula that was tried fits" if known else "nothing printed"
            if told or not block.skipped:
                parts.append(f"{spread}: {'; '.join(told) or nothing}")
        if block.bound != bound and block.found:
            parts.append(f"values of users up to {block.bound:g} in size are taken, as the printed cells need")
        found.append((block.name, "; ".join(parts)))
    result = _by_block(found)
    if any(block.found and all(table.empty for table in block.found.values()) for block in blocks):
        result += f" Where nothing fits: --bound (now {bound:g}) and --largest widen what is tried."
    single = any(
        len(table[["formula", "ddof"]].drop_duplicates()) == 1 for block in blocks for table in block.found.values()
    )
    return Check(
        "dispersion and test",
        "Which numbers of users, units, formula of dispersion and test give the printed cells?",
        "All whole sums and sums of squares that print as the cells of a row (GRIMMER, Anaya 2016), for each of "
        f"{', '.join(reconstruct.FORMULAS)}, of population or sample, with Student's or Welch's t-test; and range and "
        "SD of the two group means (FaiRLLM; FairEvalLLM, eqs 8 and 9).",
        result,
        "Where one formula is left, the column is that formula, whatever its heading says."
        if single
        else "Print alone does not tell what the dispersion is.",
    )


def _told(block: _Block, spread: str) -> str:
    """Say what the hypotheses with the smallest unit and sizes are, and how many others fit as well."""
    table = block.found[spread].sort_values(["unit", "n1", "n2"], kind="stable")
    first = table.iloc[0]
    same = table[(table[["unit", "n1", "n2"]] == first[["unit", "n1", "n2"]]).all(axis=1)]
    formulas = dict.fromkeys(f"{row.formula} ({_DDOF[row.ddof]})" for row in same.itertuples())
    tests = " or ".join(f"{test.title()}'s" for test in sorted(set(same["test"]))) + " test"
    sizes = len(_sizes_of(table))
    more = (
        f"; {len(table) - len(same)} more with larger units or other sizes fit as well"
        if len(table) > len(same)
        else ""
    )
    more += f" ({sizes:,} pairs of sizes with unit {first['unit']}, so n is not told)" if sizes > 1 else ""
    return (
        f"n = {first['n1']} and {first['n2']}, unit {first['unit']}, {' or '.join(formulas)}, "
        f"{'no p is printed that would tell the test' if block.rows['p'].isna().all() else tests}: "
        f"{first['fitting']} of {first['rows']} rows{more}"
    )


def _together(printed: Printed, blocks: Sequence[_Block]) -> Check:
    found, made = [], 0
    for block in blocks:
        best = block.best()
        if best is None:
            continue
        made += 1
        odd = reconstruct.misfits(block.rows, best[1], spread=best[0], bound=block.bound)
        for row in odd.itertuples():
            columns = ", ".join(_name(printed, cell) for cell in row.cells.split(", "))
            found.append(f"line {printed.lines[row.row]}, column {columns}: {row.why}")
    result = (
        "; ".join(found) + "."
        if found
        else f"Every row goes together; blocks that could be checked: {made} of {len(blocks)}."
    )
    if not made:
        result = f"Cannot be made: {'; '.join(dict.fromkeys(block.why_not() for block in blocks))}."
    return Check(
        "cells that do not go together",
        "Are there rows whose cells cannot have come from the same users?",
        "The hypothesis that fits most rows of the block, the smallest unit first; a cell is named if the rest of the "
        "row fits without it (GRIM, Brown & Heathers 2017; GRIMMER, Anaya 2016).",
        result,
        "A digit may have been altered in typing, or these rows rest on other users; the authors can tell."
        if found
        else "Nothing follows.",
    )


def _ranges(printed: Printed) -> Check:
    pairs = [("range", "sd"), ("snsr", "snsv"), ("delta", "snsv")]
    pair = next((pair for pair in pairs if set(pair) <= set(printed.numbers.columns)), None)
    consequence = "Nothing follows."
    if pair is None:
        result = "Cannot be made: no columns snsr and snsv, or range and sd (--role range=COLUMN names one)."
    else:
        numbers, places = printed.numbers, printed.places.astype(float)
        table = family.range_against_sd(numbers[pair[0]].abs(), numbers[pair[1]], places[pair[0]], places[pair[1]])
        known = table["fewest"].dropna()
        odd = table.index[table["too_large"]]
        result = f"{_name(printed, pair[0])} and {_name(printed, pair[1])}, {len(known)} rows."
        if len(known):
            counts = known.astype(int).value_counts().sort_index()
            least = ", ".join(f"{size} in {rows}" for size, rows in counts.items())
            result += f" The fewest groups that a row needs (rows with so many): {least}."
            consequence = "Rows need at least so many groups; compare with the number of values of the attribute."
        if len(odd):
            result += f" SD above half the range: {_some([_where(printed, row, pair[1]) for row in odd])}."
            consequence = "An SD above half the range is not the population SD of the same numbers."
    return Check(
        "range and SD",
        "Can range and SD be those of the same group means?",
        "The population SD of k numbers of range R lies between R/√(2k) and R/2, so k is at least R²/(2·SD²).",
        result,
        consequence,
    )


def _family(printed: Printed, alpha: float) -> Check:
    values = printed.numbers["p"].dropna() if "p" in printed.numbers else pd.Series(dtype=float)
    outside = values[(values < 0) | (values > 1)]
    values = values.drop(outside.index)
    found = family.p_family(values, alpha)
    consequence = "Nothing follows."
    if not len(values):
        result = "Cannot be made: no p is printed as a number."
    else:
        result = (
            f"{len(values)} p-values; below {alpha:g}: {found['below']}, where {found['expected']:.1f} are expected "
            f"if no group differed (so many or more: probability {found['at_least']:.3f}; so many or fewer: "
            f"{found['at_most']:.3f}). Smallest corrected p: {found['bh_smallest']:.3f} (Benjamini-Hochberg; "
            f"{found['bh_below']} below {alpha:g}), {found['holm_smallest']:.3f} (Holm; {found['holm_below']}). "
            f"Uniform: p = {found['uniform_p']:.3f} (Kolmogorov-Smirnov)."
        )
        consequence = (
            "No difference is left after correction for the number of tests; at these sizes none was detected."
            if not found["bh_below"]
            else f"After correction {found['bh_below']} differences are left."
        )
    if len(outside):
        result += f" No probability: {_some([_where(printed, row, 'p') for row in outside.index])}."
    return Check(
        "p-values as a family",
        "Are there more small p-values than chance gives, and which are left after correction?",
        "Binomial test of the count below alpha; Benjamini & Hochberg 1995; Holm 1979; Kolmogorov-Smirnov against the "
        "uniform distribution. Rows that share users are not independent, which the binomial and the "
        "Kolmogorov-Smirnov test take them to be.",
        result,
        consequence,
    )


def _detectable(blocks: Iterable[_Block], alpha: float) -> Check:
    found: list[tuple[str, str]] = []
    made = 0
    for block in blocks:
        best = block.best()
        n1, n2 = block.n
        source = "printed"
        if not (math.isfinite(n1) and math.isfinite(n2)) and best:
            n1, n2, source = best[1].n1, best[1].n2, f"found with unit {best[1].unit}"
        column = "sd" if "sd" in block.rows.columns else best[0] if best else ""
        if not (math.isfinite(n1) and math.isfinite(n2)):
            found.append((block.name, f"no n printed and none found: {block.why_not()}"))
            continue
        sds = block.rows[column].dropna() if column else pd.Series(dtype=float)
        users = f"n = {n1:g} and {n2:g} ({source})"
        delta = family.detectable(float(sds.median()) if len(sds) else math.nan, n1, n2, alpha)
        if math.isnan(delta):
            found.append((block.name, f"{users}; no dispersion over users is printed or found"))
            continue
        made += 1
        text = f"{users}; with the median {column} of {sds.median():.4g}, |δ| = {delta:.4g}"
        printed_deltas = block.rows["delta"].abs().dropna()
        if len(printed_deltas):
            above = int((printed_deltas >= delta).sum())
            text += f"; printed: up to {printed_deltas.max():.4g}, {above} of {len(printed_deltas)} as large"
        found.append((block.name, text))
    return Check(
        "users and detectable differences",
        "How many users stand behind a cell, and how large must a difference be to be detected?",
        f"Smallest |δ| that a two-sided Student t-test at {alpha:g} detects with probability 0.8 (Cohen 1988), the "
        "printed dispersion taken as the SD of users within a group.",
        _by_block(found),
        "A smaller difference that was not detected may be there all the same." if made else "Nothing follows.",
    )


# --- Words ---


def _name(printed: Printed, column: str) -> str:
    return printed.names.get(column, column)


def _where(printed: Printed, row: int, column: str) -> str:
    return f"line {printed.lines[row]}, column {_name(printed, column)}"


def _by_block(found: Iterable[tuple[str, str]]) -> str:
    """Join what was found per block; blocks of which the same is said share a sentence."""
    names: dict[str, list[str]] = {}
    for name, text in found:
        names.setdefault(text, []).append(name)
    return " ".join(f"{', '.join(blocks)}: {text}." for text, blocks in names.items())


def _some(items: Sequence[object]) -> str:
    more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
    separator = "; " if any("," in str(item) for item in items[:_SHOWN]) else ", "
    return separator.join(str(item) for item in items[:_SHOWN]) + more
