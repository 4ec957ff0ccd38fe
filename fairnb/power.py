"""What a comparison of two groups of users can detect: simulation and formulas of power.

Values of users lie on a grid: ΔB of HitRate@K is a whole multiple of 1/K. So a group of users is a row of counts over a
short support, and a test on thousands of simulated groups is arithmetic on such counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, stats
from statsmodels.stats.power import TTestIndPower
from statsmodels.stats.proportion import proportion_confint

from fairnb import seeds
from fairnb.errors import ParameterError

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

TESTS = ("student", "welch", "mann-whitney", "permutation")
FORMULAS = ("student", "welch")
_CHUNK = 20_000
_TIE = 1e-6


@dataclass(frozen=True)
class Values:
    """The distribution of a user's value.

    Attributes
    ----------
    support : ndarray, shape (s,)
        The values that occur, rising.
    shares : ndarray, shape (s,)
        Their probabilities; sum to 1.
    """

    support: Array
    shares: Array

    @classmethod
    def of(cls, observed: npt.ArrayLike) -> Values:
        """Estimate a distribution by the shares of observed values, equal to nine decimals."""
        numbers = np.asarray(observed, dtype=float)
        if not numbers.size or not np.isfinite(numbers).all():
            raise ParameterError("observed values: expected one number or more, and no missing ones")
        support, counts = np.unique(numbers.round(9), return_counts=True)
        return cls(support, counts / counts.sum())

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.support @ self.shares)

    @property
    def sd(self) -> float:
        """The standard deviation (of the population)."""
        return math.sqrt(max(float((self.support - self.mean) ** 2 @ self.shares), 0.0))

    def shifted(self, by: float) -> Values:
        """Tilt the distribution exponentially so that its mean moves by so much.

        Parameters
        ----------
        by : float
            The difference of the means.

        Returns
        -------
        Values
            On the same support; shares in proportion to share · exp(θ · value), with the θ that gives the mean.

        Raises
        ------
        ParameterError
            If no distribution on the support has that mean.
        """
        wanted = self.mean + by
        possible = self.support[self.shares > 0]
        if by == 0:
            return self
        if not possible.min() < wanted < possible.max():
            raise ParameterError(
                f"effect {by:g}: a mean of {wanted:g} cannot be had from values between {possible.min():g} and "
                f"{possible.max():g}; expected a smaller effect"
            )

        def gap(theta: float) -> float:
            return float(self.support @ self._tilted(theta)) - wanted

        bound = 1.0
        while gap(-bound) > 0 or gap(bound) < 0:
            bound *= 2
        return Values(self.support, self._tilted(optimize.brentq(gap, -bound, bound, xtol=1e-14)))

    def _tilted(self, theta: float) -> Array:
        weights = theta * self.support
        tilted = self.shares * np.exp(weights - weights.max())
        shares: Array = tilted / tilted.sum()
        return shares


def rejections(
    null: Values,
    effects: Sequence[float],
    n1: int,
    n2: int,
    *,
    replicates: int = 10_000,
    permutations: int = 999,
    alpha: float = 0.05,
    tests: Sequence[str] = TESTS,
    root: int = seeds.ROOT_SEED,
) -> pd.DataFrame:
    """Simulate experiments with a planted effect and count how often each test finds it.

    Parameters
    ----------
    null : Values
        Group 2 is drawn from it, group 1 from the same distribution shifted by the effect.
    effects : sequence of float
        Differences of the means; 0 gives false positives.
    n1, n2 : int
        Users per group, at least 2.
    replicates : int
        Simulated experiments per effect.
    permutations : int
        Relabellings of the permutation test, shared by all experiments.
    alpha : float
        Level, in (0, 1).
    tests : sequence of {"student", "welch", "mann-whitney", "permutation"}
    root : int
        Root seed.

    Returns
    -------
    DataFrame
        ``effect``, ``test``, ``n1``, ``n2``, ``replicates``, ``rejected`` (experiments with p < alpha), ``rate``,
        ``low``, ``high`` (95 % Wilson interval of the rate), ``constant`` (experiments in which a group has no
        variation), ``rejected_constant`` (those of them with p < alpha). A p that is undefined does not reject.

    Raises
    ------
    ParameterError
        For a test that is unknown, fewer than 2 users, or an effect that cannot be had.
    """
    _require(n1, n2, alpha)
    for test in tests:
        if test not in TESTS:
            raise ParameterError(f"test = {test!r}: expected one of {', '.join(TESTS)}")
    rows = []
    for effect in effects:
        first = null.shifted(effect)
        rng = seeds.generator("power", f"{effect:.9f}", n1, n2, root=root)
        found, of_constant, constant = dict.fromkeys(tests, 0), dict.fromkeys(tests, 0), 0
        for start in range(0, replicates, _CHUNK):
            size = min(_CHUNK, replicates - start)
            counts1 = rng.multinomial(n1, first.shares, size=size)
            counts2 = rng.multinomial(n2, null.shares, size=size)
            flat = (counts1.max(axis=1) == n1) | (counts2.max(axis=1) == n2)
            constant += int(flat.sum())
            for test in tests:
                p = p_values(test, null.support, counts1, counts2, permutations=permutations, root=root)
                found[test] += int((p < alpha).sum())
                of_constant[test] += int((p[flat] < alpha).sum())
        for test in tests:
            more = {"constant": constant, "rejected_constant": of_constant[test]}
            rows.append({"effect": effect, "test": test, **_rate(found[test], replicates, n1, n2), **more})
    return pd.DataFrame(rows)


def _require(n1: int, n2: int, alpha: float) -> None:
    if min(n1, n2) < 2:
        raise ParameterError(f"n1 = {n1}, n2 = {n2}: expected 2 users or more in each group")
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha = {alpha}: expected a level between 0 and 1")


def _rate(rejected: int, replicates: int, n1: int, n2: int) -> dict[str, float]:
    low, high = proportion_confint(rejected, replicates, method="wilson")
    return {
        "n1": n1,
        "n2": n2,
        "replicates": replicates,
        "rejected": rejected,
        "rate": rejected / replicates,
        "low": max(float(low), 0.0),
        "high": float(high),
    }


def p_values(
    test: str,
    support: Array,
    counts1: Counts,
    counts2: Counts,
    *,
    permutations: int = 999,
    root: int = seeds.ROOT_SEED,
) -> Array:
    """Compute the two-sided p of many experiments at once.

    Parameters
    ----------
    test : {"student", "welch", "mann-whitney", "permutation"}
    support : ndarray, shape (s,)
    counts1, counts2 : ndarray, shape (R, s)
        How many users of each group have which value; rows of one array have equal sums.
    permutations, root : int
        Of the permutation test.

    Returns
    -------
    ndarray, shape (R,)
        NaN where the test is undefined, as in `fairnb.statistics`: nobody's value differs within the groups (t-tests),
        or all values are equal (the others). Mann-Whitney by the normal approximation, with ties and continuity
        corrected.
    """
    if test in ("student", "welch"):
        return _t_test(test, support, counts1, counts2)
    if test == "mann-whitney":
        return _mann_whitney(counts1, counts2)
    return _permutation(support, counts1, counts2, permutations, root)


def _moments(support: Array, counts: Counts) -> tuple[int, Array, Array]:
    n = int(counts[0].sum())
    mean = counts @ support / n
    squares = (counts * (support[None, :] - mean[:, None]) ** 2).sum(axis=1)
    # A group in which one value holds all has no variance at all, and not one made of rounding.
    variance = np.where(counts.max(axis=1) == n, 0.0, squares / (n - 1))
    return n, mean, variance


def _t_test(test: str, support: Array, counts1: Counts, counts2: Counts) -> Array:
    (n1, mean1, var1), (n2, mean2, var2) = (_moments(support, counts) for counts in (counts1, counts2))
    with np.errstate(invalid="ignore", divide="ignore"):
        if test == "student":
            pooled = ((n1 - 1) * var1 + (n2 - 1) * var2) / (n1 + n2 - 2)
            error = np.sqrt(pooled * (1 / n1 + 1 / n2))
            df = np.full(len(error), float(n1 + n2 - 2))
        else:
            parts = var1 / n1, var2 / n2
            error = np.sqrt(parts[0] + parts[1])
            df = (parts[0] + parts[1]) ** 2 / (parts[0] ** 2 / (n1 - 1) + parts[1] ** 2 / (n2 - 1))
        p = 2 * stats.t.sf(np.abs(mean1 - mean2) / error, df)
    return np.where((var1 == 0) & (var2 == 0), math.nan, p)


def _mann_whitney(counts1: Counts, counts2: Counts) -> Array:
    n1, n2 = int(counts1[0].sum()), int(counts2[0].sum())
    n = n1 + n2
    both = counts1 + counts2
    rank = np.cumsum(both, axis=1) - both + (both + 1) / 2
    u = (counts1 * rank).sum(axis=1) - n1 * (n1 + 1) / 2
    ties = (both.astype(float) ** 3 - both).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        sd = np.sqrt(n1 * n2 / 12 * ((n + 1) - ties / (n * (n - 1))))
        larger = np.maximum(u, n1 * n2 - u)
        p = 2 * stats.norm.sf((larger - n1 * n2 / 2 - 0.5) / sd)
    return np.where(both.max(axis=1) == n, math.nan, np.clip(p, 0.0, 1.0))


def _permutation(support: Array, counts1: Counts, counts2: Counts, permutations: int, root: int) -> Array:
    n1, n2 = int(counts1[0].sum()), int(counts2[0].sum())
    n = n1 + n2
    orders = seeds.generator("power", "labels", n1, n2, root=root).random((permutations, n)).argsort(axis=1)
    labels = np.zeros((n, permutations), dtype=np.float32)
    labels[orders[:, :n1].T, np.arange(permutations)] = 1.0
    both = counts1 + counts2
    found = np.empty(len(both))
    size = max(1, 40_000_000 // permutations)
    for start in range(0, len(both), size):
        part = both[start : start + size]
        # Users in the order of their values: which of them a label falls on is random anyway.
        values = np.repeat(np.tile(support, len(part)), part.ravel()).reshape(len(part), n)
        centred = (values - values.mean(axis=1, keepdims=True)).astype(np.float32)
        # Centred, the difference of means is the first group's sum times a constant.
        sums = np.abs(centred @ labels)
        own = np.abs(counts1[start : start + size] @ support - n1 * values.mean(axis=1))
        as_large = (sums >= (own - _TIE * n)[:, None]).sum(axis=1)
        found[start : start + size] = (as_large + 1) / (permutations + 1)
    return np.where(both.max(axis=1) == n, math.nan, found)


def formula_power(null: Values, effect: float, n1: int, n2: int, test: str, alpha: float = 0.05) -> float:
    """Compute the power of a t-test by the noncentral t distribution.

    Parameters
    ----------
    null : Values
        Of group 2; group 1 is this shifted by the effect.
    effect : float
    n1, n2 : int
    test : {"student", "welch"}
    alpha : float

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ParameterError
        For another test, fewer than 2 users, or an effect that cannot be had.

    Notes
    -----
    Cohen 1988. Student: `statsmodels.stats.power.TTestIndPower` with the pooled variance of both distributions; Welch:
    the noncentral t with Satterthwaite's degrees of freedom at the true variances. Both take the statistic for
    t-distributed, which the mean of few users with few different values is not.
    """
    _require(n1, n2, alpha)
    first = null.shifted(effect)
    var1, var2 = first.sd**2, null.sd**2
    if test == "student":
        pooled = math.sqrt(((n1 - 1) * var1 + (n2 - 1) * var2) / (n1 + n2 - 2))
        return float(TTestIndPower().power(effect / pooled, n1, alpha, ratio=n2 / n1, alternative="two-sided"))
    if test != "welch":
        raise ParameterError(f"test = {test!r}: no formula; expected one of {', '.join(FORMULAS)}")
    parts = var1 / n1, var2 / n2
    df = sum(parts) ** 2 / (parts[0] ** 2 / (n1 - 1) + parts[1] ** 2 / (n2 - 1))
    ncp = effect / math.sqrt(sum(parts))
    limit = stats.t.isf(alpha / 2, df)
    return float(stats.nct.sf(limit, df, ncp) + stats.nct.cdf(-limit, df, ncp))


def smallest_detectable(null: Values, n1: int, n2: int, test: str, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Find the smallest effect above 0 that a t-test detects with the wanted power, by formula.

    Returns
    -------
    float
        NaN if no effect that the support allows reaches the power.
    """
    largest = float(null.support[null.shares > 0].max()) - null.mean
    high = largest * (1 - 1e-6)

    def gap(effect: float) -> float:
        return formula_power(null, effect, n1, n2, test, alpha) - power

    # Towards the end of the support the variance vanishes, and with it the noncentral t.
    grid = np.linspace(0, high, 200)[1:]
    reached = next((place for place, effect in enumerate(grid) if gap(float(effect)) >= 0), None)
    if reached is None:
        return math.nan
    low = float(grid[reached - 1]) if reached else 0.0
    return float(optimize.brentq(gap, low, float(grid[reached]), xtol=1e-9))


def crossing(effects: npt.ArrayLike, rates: npt.ArrayLike, power: float = 0.8) -> float:
    """Find where a simulated power curve crosses the wanted power, by linear interpolation.

    Returns
    -------
    float
        NaN if it does not; a dip that is nothing but noise is levelled first.
    """
    x = np.asarray(effects, dtype=float)
    y = np.maximum.accumulate(np.asarray(rates, dtype=float))
    if y[-1] < power:
        return math.nan
    place = int(np.argmax(y >= power))
    if place == 0:
        return float(x[0])
    step = (power - y[place - 1]) / (y[place] - y[place - 1])
    return float(x[place - 1] + step * (x[place] - x[place - 1]))


def needed_n(
    null: Values, effect: float, ratio: float = 1.0, test: str = "welch", *, power: float = 0.8, alpha: float = 0.05
) -> int:
    """Find the smallest first group with which a t-test detects an effect with the wanted power, by formula.

    Parameters
    ----------
    ratio : float
        Size of group 2 over size of group 1; group 2 is rounded up, and never below 2.

    Returns
    -------
    int
        n1.
    """
    if ratio <= 0 or effect == 0:
        raise ParameterError(
            f"ratio = {ratio:g}, effect = {effect:g}: expected a ratio above 0 and an effect other than 0"
        )

    def enough(n1: int) -> bool:
        return formula_power(null, effect, n1, second_n(n1, ratio), test, alpha) >= power

    high = 4
    while not enough(high):
        high *= 2
        if high > 10_000_000:
            raise ParameterError(f"effect {effect:g}: needs more than ten million users; expected a larger effect")
    low = max(high // 2, 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def second_n(n1: int, ratio: float) -> int:
    """Return the size of group 2 for that of group 1."""
    return max(2, math.ceil(n1 * ratio - 1e-9))


def bootstrap_means_test_rate(
    null: Values,
    n1: int,
    n2: int,
    *,
    replicates: int = 2_000,
    bootstrap_replicates: int = 1_000,
    alpha: float = 0.05,
    root: int = seeds.ROOT_SEED,
) -> pd.DataFrame:
    """Count how often Welch's test on two sets of bootstrap means finds a difference where there is none.

    This is the released code's test of intrinsic fairness.

    Returns
    -------
    DataFrame
        One row: ``n1``, ``n2``, ``replicates``, ``rejected``, ``rate``, ``low``, ``high`` (95 % Wilson interval).
    """
    _require(n1, n2, alpha)
    rng = seeds.generator("power", "bootstrap means", n1, n2, root=root)
    rejected = 0
    for _ in range(replicates):
        means = []
        for n in (n1, n2):
            counts = rng.multinomial(n, null.shares)
            drawn = rng.multinomial(n, counts / n, size=bootstrap_replicates)
            means.append(drawn @ null.support / n)
        if means[0].std() == 0 and means[1].std() == 0:
            continue
        rejected += bool(stats.ttest_ind(*means, equal_var=False).pvalue < alpha)
    return pd.DataFrame([_rate(rejected, replicates, n1, n2)])


def bootstrap_means_formula(bootstrap_replicates: int, alpha: float = 0.05) -> float:
    """Compute the false positives of the test on bootstrap means that theory expects.

    The mean of R bootstrap means is the group's mean plus noise of 1/R of its squared standard error. Without a
    difference, the gap of the two is normal with the variance s² (1 + 1/R), where s² is the sum of the groups' squared
    standard errors; the test divides it by s / √R. So its statistic is normal with the variance R + 1, and not 1.

    Returns
    -------
    float
        P(|Z| √(R + 1) > z), in [0, 1].
    """
    limit = stats.norm.isf(alpha / 2)
    return float(2 * stats.norm.sf(limit / math.sqrt(bootstrap_replicates + 1)))
