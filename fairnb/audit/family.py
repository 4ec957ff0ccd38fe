"""What printed differences and p-values say together: arithmetic on print, no data needed."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower

from fairnb import statistics
from fairnb.audit.printed import Printed
from fairnb.audit.reconstruct import half

Array = npt.NDArray[np.float64]


def differences(printed: Printed) -> pd.DataFrame:
    """Compare δ with the difference of the two printed means, row by row.

    Returns
    -------
    DataFrame
        Only rows that print all three: ``difference`` (group1 − group2), ``delta``, ``slack`` (the sum of half a unit
        of the last place of the three cells), ``within`` (δ is no further than that from the difference). Indexed as
        ``printed.numbers``. Empty if there is no δ.
    """
    if not {"group1", "group2", "delta"} <= set(printed.numbers.columns):
        return pd.DataFrame(columns=["difference", "delta", "slack", "within"])
    three = printed.numbers[["group1", "group2", "delta"]].dropna()
    slack = printed.places.loc[three.index, three.columns].map(lambda place: half(int(place))).sum(axis=1).astype(float)
    difference = three["group1"] - three["group2"]
    within = (three["delta"] - difference).abs() <= slack
    return pd.DataFrame({"difference": difference, "delta": three["delta"], "slack": slack, "within": within})


def p_family(p: npt.ArrayLike, alpha: float = 0.05) -> dict[str, float]:
    """Look at all printed p-values together.

    Parameters
    ----------
    p : array_like, shape (m,)
        NaN leaves the family.
    alpha : float
        In (0, 1).

    Returns
    -------
    dict of str to float
        ``count`` (m), ``expected`` (alpha · m) and ``below`` (p < alpha); ``at_least`` and ``at_most`` (binomial
        probability of so many below alpha, or more, or fewer, if no group differs); ``bh_smallest``, ``bh_below``
        (Benjamini & Hochberg 1995); ``holm_smallest``, ``holm_below`` (Holm 1979); ``uniform_p`` (Kolmogorov-Smirnov
        test against the uniform distribution, which p has if no group differs). All NaN but the counts if m is 0.

    Notes
    -----
    The binomial and the Kolmogorov-Smirnov test take rows as independent. Rows of a table that share their users are
    not: so few, or so many, small p-values are then less surprising than these probabilities say.
    """
    numbers = np.asarray(p, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    count, below = len(numbers), int((numbers < alpha).sum())
    found: dict[str, float] = {"count": count, "expected": alpha * count, "below": below}
    if not count:
        rest = ("at_least", "at_most", "bh_smallest", "holm_smallest", "uniform_p")
        return {**found, "bh_below": 0, "holm_below": 0, **dict.fromkeys(rest, math.nan)}
    bh = statistics.benjamini_hochberg(numbers)
    holm = multipletests(numbers, method="holm")[1]
    return {
        **found,
        "at_least": float(stats.binomtest(below, count, alpha, alternative="greater").pvalue),
        "at_most": float(stats.binomtest(below, count, alpha, alternative="less").pvalue),
        "bh_smallest": float(bh.min()),
        "bh_below": int((bh < alpha).sum()),
        "holm_smallest": float(holm.min()),
        "holm_below": int((holm < alpha).sum()),
        "uniform_p": float(stats.kstest(numbers, "uniform").pvalue),
    }


def range_against_sd(
    ranges: npt.ArrayLike, sds: npt.ArrayLike, range_places: npt.ArrayLike, sd_places: npt.ArrayLike
) -> pd.DataFrame:
    """Compare the range and the population standard deviation of the same group means.

    For k numbers of range R, the standard deviation lies between R/√(2k) (two at the ends, the others in the middle)
    and R/2 (half at each end). So k is at least R²/(2·SD²).

    Parameters
    ----------
    ranges, sds : array_like, shape (r,)
        Such as SNSR and SNSV (FaiRLLM; FairEvalLLM, eqs 8 and 9), 0 or more; NaN is no row.
    range_places, sd_places : array_like, shape (r,)
        Their printed decimals.

    Returns
    -------
    DataFrame
        ``fewest`` (the smallest k of at least 2 that the two digits allow, NaN if either is missing or SD may be 0)
        and ``too_large`` (SD > R/2 beyond rounding), per row.
    """
    r, sd = np.asarray(ranges, dtype=float), np.asarray(sds, dtype=float)
    r_half, sd_half = _halves(range_places), _halves(sd_places)
    known = np.isfinite(r) & np.isfinite(sd)
    low, high = np.maximum(r - r_half, 0.0), sd + sd_half
    fewest = np.full(r.shape, math.nan)
    # The 1e-9 keeps a quotient that is whole but for the last binary digit from being rounded up.
    fewest[known] = np.maximum(np.ceil(low[known] ** 2 / (2 * high[known] ** 2) - 1e-9), 2)
    too_large = known & (sd - sd_half > (r + r_half) / 2)
    return pd.DataFrame({"fewest": fewest, "too_large": too_large})


def _halves(places: npt.ArrayLike) -> Array:
    return np.array([half(place) if math.isfinite(place) else math.nan for place in np.asarray(places, dtype=float)])


def detectable(sd: float, n1: float, n2: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest |δ| that a two-sided Student t-test detects with a given power (Cohen 1988).

    Parameters
    ----------
    sd : float
        Standard deviation of users within a group, in the units of δ.
    n1, n2 : float
        Users per group.
    alpha, power : float
        In (0, 1); alpha below power.

    Returns
    -------
    float
        In the units of `sd`. NaN where sd, n1 or n2 is unknown, sd is not above 0, or a group has fewer than 2 users.
    """
    if not all(math.isfinite(number) for number in (sd, n1, n2)) or sd <= 0 or min(n1, n2) < 2:
        return math.nan
    effect = TTestIndPower().solve_power(nobs1=n1, ratio=n2 / n1, alpha=alpha, power=power, alternative="two-sided")
    return float(np.squeeze(effect)) * sd
