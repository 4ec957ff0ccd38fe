"""What printed means, dispersions and p-values allow: numbers of users, units, formulas and tests.

A user's value is a whole number of units 1/u (HitRate@3: u = 3), so a group's sum is a whole number, its sum of
squares is one too, and both leave traces in printed decimals. A printed number with d places stands for every number
within half a unit of its last place, either end included.

Sources: Brown & Heathers 2017 (GRIM); Anaya 2016 and Allard 2018 (GRIMMER).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from fairnb.errors import DataError

Array = npt.NDArray[np.float64]

FORMULAS = ("pooled SD", "SD over all users", "mean of the two SDs", "root of the mean variance")
TESTS = ("welch", "student")
CELLS = ("group1", "group2", "delta", "p")
_EPS = 1e-9
# So many rows of a block may not fit before a set of sizes is given up.
_MOST_ODD = 2


@dataclass(frozen=True)
class Hypothesis:
    """How a block of a table may have been made.

    Attributes
    ----------
    n1, n2 : int
        Users per column.
    unit : int
        Values are whole multiples of 1/unit.
    formula : str
        One of `FORMULAS`.
    ddof : {0, 1}
        0 for population, 1 for sample variances.
    test : {"welch", "student"}
    """

    n1: int
    n2: int
    unit: int
    formula: str
    ddof: int
    test: str


def half(places: float) -> float:
    """Return half a unit of the last printed place."""
    return float(0.5 * 10.0 ** -float(places)) + 1e-12


def attainable(value: float, places: int, n: int, unit: int) -> range:
    """List the whole sums whose mean prints as a value.

    Parameters
    ----------
    value : float
        A printed mean.
    places : int
        Its printed decimals.
    n, unit : int
        Users, and parts of a whole that a user's value counts in.

    Returns
    -------
    range
        Sums m with m / (n · unit) within half a unit of the last place; empty if there is none.
    """
    whole = n * unit
    low = math.ceil((value - half(places)) * whole - _EPS)
    high = math.floor((value + half(places)) * whole + _EPS)
    return range(low, high + 1)


def sizes(
    values: npt.ArrayLike, places: npt.ArrayLike, unit: int, largest: int, *, odd: int = 0
) -> npt.NDArray[np.int64]:
    """Search the numbers of users that make printed means possible (GRIM).

    Parameters
    ----------
    values, places : array_like, shape (r,)
        Printed means and their decimals; NaN is no condition.
    unit, largest : int
        See `attainable`; sizes from 2 to `largest` are tried.
    odd : int
        How many values may be impossible all the same.

    Returns
    -------
    ndarray
        Rising; empty if there is none.
    """
    numbers, digits = np.asarray(values, dtype=float), np.asarray(places, dtype=float)
    known = np.isfinite(numbers)
    numbers, halves = numbers[known], np.array([half(place) for place in digits[known]])
    n = np.arange(2, largest + 1)
    whole = (n * unit)[:, None]
    low = np.ceil((numbers - halves) * whole - _EPS)
    high = np.floor((numbers + halves) * whole + _EPS)
    chosen: npt.NDArray[np.int64] = n[(low > high).sum(axis=1) <= odd]
    return chosen


def fits(rows: pd.DataFrame, hypothesis: Hypothesis, *, spread: str, bound: float = 1.0) -> pd.Series:
    """Tell which rows a hypothesis can have made: whole numbers exist that give all printed cells.

    Parameters
    ----------
    rows : DataFrame
        ``group1``, ``group2``, ``delta``, ``p``, the column of dispersions, and each name with ``_places``. A missing
        cell is no condition; without a dispersion p is none either.
    hypothesis : Hypothesis
    spread : str
        The column of dispersions.
    bound : float
        Largest size of a user's value.

    Returns
    -------
    Series of bool
    """
    _require(rows, spread)
    found = [_fits(row, hypothesis, spread, bound) for row in rows.to_dict("records")]
    return pd.Series(found, index=rows.index, dtype=bool)


def _require(rows: pd.DataFrame, spread: str) -> None:
    for name in (*CELLS, spread):
        for column in (name, f"{name}_places"):
            if column not in rows.columns:
                raise DataError(f"rows: no column {column}; expected {', '.join((*CELLS, spread))}, each with _places")


def _fits(row: dict[str, float], hypothesis: Hypothesis, spread: str, bound: float) -> bool:
    for sums in _sums(row, hypothesis, bound):
        if math.isnan(row[spread]) or _dispersion_and_p(row, hypothesis, spread, bound, sums):
            return True
    return False


def _sums(row: dict[str, float], hypothesis: Hypothesis, bound: float) -> Iterator[tuple[int, int]]:
    """Yield the pairs of whole sums that give the printed means and δ."""
    known = [not math.isnan(row[name]) for name in ("group1", "group2", "delta")]
    ns, unit = (hypothesis.n1, hypothesis.n2), hypothesis.unit
    ranges: list[range] = []
    for side, n in enumerate(ns):
        most = math.floor(n * unit * bound + _EPS)
        name, other = f"group{side + 1}", f"group{2 - side}"
        if known[side]:
            found = attainable(row[name], int(row[f"{name}_places"]), n, unit)
        elif known[1 - side] and known[2]:
            # The missing mean follows from the other one and δ.
            value = row[other] + (row["delta"] if side == 0 else -row["delta"])
            slack = half(row[f"{other}_places"]) + half(row["delta_places"])
            found = range(math.ceil((value - slack) * n * unit), math.floor((value + slack) * n * unit) + 1)
        else:
            found = range(-most, most + 1)
        ranges.append(range(max(found.start, -most), min(found.stop, most + 1)))
    for m1, m2 in product(*ranges):
        if known[2]:
            gap = m1 / (ns[0] * unit) - m2 / (ns[1] * unit)
            if abs(gap - row["delta"]) > half(row["delta_places"]) + _EPS:
                continue
        yield m1, m2


def _squares(m: int, n: int, unit: int, bound: float) -> Array:
    """List the whole sums of squares that n values of a sum m can have: even or odd as the sum is."""
    low = max(abs(m), math.ceil(m * m / n - _EPS))
    low += (low - m) % 2
    return np.arange(low, math.floor(n * (unit * bound) ** 2 + _EPS) + 1, 2, dtype=float)


def _dispersion_and_p(
    row: dict[str, float], hypothesis: Hypothesis, spread: str, bound: float, sums: tuple[int, int]
) -> bool:
    """Tell whether sums of squares exist that give the printed dispersion, and with it the printed p."""
    n1, n2, unit = hypothesis.n1, hypothesis.n2, hypothesis.unit
    m1, m2 = sums
    q1 = _squares(m1, n1, unit, bound)
    ss1 = (q1 - m1 * m1 / n1) / unit**2
    slack = half(row[f"{spread}_places"])
    low, high = _second_squares(max(row[spread] - slack, 0.0), row[spread] + slack, ss1, hypothesis, sums)
    low, high = low * unit**2 + m2 * m2 / n2, high * unit**2 + m2 * m2 / n2
    possible = _squares(m2, n2, unit, bound)
    if not possible.size:
        return False
    # Places of the first and last possible whole number in each interval.
    first = np.searchsorted(possible, low - _EPS, side="left")
    last = np.searchsorted(possible, high + _EPS, side="right")
    counts = np.maximum(last - first, 0)
    if not counts.any():
        return False
    if math.isnan(row["p"]):
        return True
    which = np.repeat(np.arange(len(q1)), counts)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    ss2 = (possible[first[which] + offset] - m2 * m2 / n2) / unit**2
    p = _p(m1 / (n1 * unit) - m2 / (n2 * unit), ss1[which], ss2, hypothesis)
    return bool((np.abs(p - row["p"]) <= half(row["p_places"]) + _EPS).any())


def _second_squares(
    low: float, high: float, ss1: Array, hypothesis: Hypothesis, sums: tuple[int, int]
) -> tuple[Array, Array]:
    """Return, for each sum of squared deviations of group 1, the interval of that of group 2."""
    n1, n2, ddof = hypothesis.n1, hypothesis.n2, hypothesis.ddof
    divisor1, divisor2 = n1 - ddof, n2 - ddof
    if hypothesis.formula == "mean of the two SDs":
        sd1 = np.sqrt(np.maximum(ss1, 0.0) / divisor1)
        ends = 2 * low - sd1, 2 * high - sd1
        return np.maximum(ends[0], 0.0) ** 2 * divisor2, np.where(ends[1] < 0, -1.0, ends[1] ** 2 * divisor2)
    if hypothesis.formula == "root of the mean variance":
        v1 = ss1 / divisor1
        return (2 * low**2 - v1) * divisor2, (2 * high**2 - v1) * divisor2
    if hypothesis.formula == "pooled SD":
        divisor, between = n1 + n2 - 2 * ddof, 0.0
    elif hypothesis.formula == "SD over all users":
        gap = sums[0] / (n1 * hypothesis.unit) - sums[1] / (n2 * hypothesis.unit)
        divisor, between = n1 + n2 - ddof, n1 * n2 / (n1 + n2) * gap**2
    else:
        raise DataError(f"formula {hypothesis.formula!r}: expected one of {', '.join(FORMULAS)}")
    return low**2 * divisor - ss1 - between, high**2 * divisor - ss1 - between


def _p(gap: float, ss1: Array, ss2: Array, hypothesis: Hypothesis) -> Array:
    n1, n2 = hypothesis.n1, hypothesis.n2
    ss1, ss2 = np.maximum(ss1, 0.0), np.maximum(ss2, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if hypothesis.test == "student":
            error = np.sqrt((ss1 + ss2) / (n1 + n2 - 2) * (1 / n1 + 1 / n2))
            df: Array | float = float(n1 + n2 - 2)
        else:
            parts = ss1 / (n1 - 1) / n1, ss2 / (n2 - 1) / n2
            error = np.sqrt(parts[0] + parts[1])
            df = (parts[0] + parts[1]) ** 2 / (parts[0] ** 2 / (n1 - 1) + parts[1] ** 2 / (n2 - 1))
            # Without any variance every df gives p = 0 to different means, and none to equal ones.
            df = np.where(error > 0, df, 1.0)
        p: Array = 2 * stats.t.sf(np.abs(gap) / error, df)
    return p


def search(
    rows: pd.DataFrame,
    *,
    spread: str,
    units: Iterable[int] = range(1, 11),
    largest: int = 200,
    total: int | None = None,
    bound: float = 1.0,
) -> pd.DataFrame:
    """Search all hypotheses that can have made a block of rows.

    Parameters
    ----------
    rows : DataFrame
        See `fits`. The rows of a block share their users.
    spread : str
        The column of dispersions.
    units : iterable of int
        Units to try.
    largest : int
        Largest number of users of a group.
    total : int, optional
        n1 + n2, where it is known.
    bound : float
        Largest size of a user's value.

    Returns
    -------
    DataFrame
        The fields of `Hypothesis`, ``fitting`` (rows) and ``rows``, smallest sizes first. Only hypotheses with the
        fewest rows that do not fit, at most two: one altered digit does not lose the answer. Multiples of a unit that
        fits are left out, since they always fit. Empty if there is none.

    Notes
    -----
    Sizes are pruned by GRIM first. A multiple of the true size makes the same means possible; what tells the two apart
    are dispersion and p.
    """
    _require(rows, spread)
    telling = rows.sort_values("p", kind="stable").to_dict("records")
    columns = [*Hypothesis.__dataclass_fields__, "fitting", "rows"]
    for odd in range(min(_MOST_ODD, len(rows) // 4) + 1):
        found = []
        for unit in units:
            n1, n2 = (sizes(rows[name], rows[f"{name}_places"], unit, largest, odd=odd) for name in CELLS[:2])
            for pair in product(n1.tolist(), n2.tolist()):
                if total is None or sum(pair) == total:
                    found += _of_sizes(telling, (*pair, unit), spread, bound, odd)
        if found:
            frame = _coarsest(pd.DataFrame(found, columns=columns))
            return frame.sort_values(["n1", "n2", "unit", "formula", "ddof", "test"], ignore_index=True)
    return pd.DataFrame([], columns=columns)


def _coarsest(found: pd.DataFrame) -> pd.DataFrame:
    """Drop multiples of a unit that fits as well: whatever is whole in thirds is whole in sixths."""
    rest = ["n1", "n2", "formula", "ddof", "test"]
    keep = []
    for row in found.itertuples():
        same = (found[rest] == [getattr(row, name) for name in rest]).all(axis=1)
        units = found.loc[same, "unit"]
        keep.append(not ((units < row.unit) & (row.unit % units == 0)).any())
    return found[keep]


def _of_sizes(
    rows: Sequence[dict[str, float]], sizes_: tuple[int, int, int], spread: str, bound: float, odd: int
) -> list[tuple[object, ...]]:
    found = []
    for formula, ddof, test in product(FORMULAS, (0, 1), TESTS):
        hypothesis = Hypothesis(*sizes_, formula, ddof, test)
        missed = 0
        for row in rows:
            missed += not _fits(row, hypothesis, spread, bound)
            if missed > odd:
                break
        if missed == odd:
            found.append((*asdict(hypothesis).values(), len(rows) - missed, len(rows)))
    return found


def misfits(rows: pd.DataFrame, hypothesis: Hypothesis, *, spread: str, bound: float = 1.0) -> pd.DataFrame:
    """Name the cells that do not go together, in rows that a hypothesis cannot have made.

    Returns
    -------
    DataFrame
        ``row`` (the index of `rows`), ``cells`` (each of which, left out, makes the row fit, joined by ``, ``; all
        printed ones if no single one does), ``why``.
    """
    good = fits(rows, hypothesis, spread=spread, bound=bound)
    found = []
    for label in rows.index[~good]:
        row = rows.loc[label].to_dict()
        printed = [name for name in (*CELLS, spread) if not math.isnan(row[name])]
        means = [
            name
            for name, n in (("group1", hypothesis.n1), ("group2", hypothesis.n2))
            if name in printed and not attainable(row[name], int(row[f"{name}_places"]), n, hypothesis.unit)
        ]
        alone = [name for name in printed if _fits({**row, name: math.nan}, hypothesis, spread, bound)]
        if means:
            cells = means
            why = f"no mean of {hypothesis.n1} or {hypothesis.n2} users in units of 1/{hypothesis.unit} prints so"
        elif alone:
            cells, why = alone, "does not go together with the rest of the row"
        else:
            cells, why = printed, "do not go together"
        found.append((label, ", ".join(cells), why))
    return pd.DataFrame(found, columns=["row", "cells", "why"])


def group_mean_formulas(rows: pd.DataFrame, spread: str) -> pd.DataFrame:
    """Count the rows whose dispersion follows from the two group means alone.

    Returns
    -------
    DataFrame
        ``formula``, ``reproduced``, ``rows``: the range of the group means (SNSR, FairEvalLLM eq. 8), their population
        standard deviation (SNSV, eq. 9) and their sample standard deviation.
    """
    known = rows[rows[[spread, "delta"]].notna().all(axis=1)]
    found = []
    for name, factor in (
        ("range of the group means", 1.0),
        ("population SD of the group means", 0.5),
        ("sample SD of the group means", math.sqrt(0.5)),
    ):
        slack = known[f"{spread}_places"].map(half) + factor * known["delta_places"].map(half)
        same = (known[spread] - factor * known["delta"].abs()).abs() <= slack
        found.append((name, int(same.sum()), len(known)))
    return pd.DataFrame(found, columns=["formula", "reproduced", "rows"])


def multiples(rows: pd.DataFrame, spread: str, unit: int, bound: float = 1.0) -> int:
    """Count the rows whose dispersion is a whole multiple of 1/unit from 0 to twice the bound: a range over users."""
    known = rows[rows[spread].notna()]
    whole = (known[spread] * unit).round() / unit
    good = ((known[spread] - whole).abs() <= known[f"{spread}_places"].map(half)) & whole.between(0, 2 * bound)
    return int(good.sum())
