"""Tests, intervals, corrections and effect sizes for differences between groups of users.

Every function takes any real values, returns NaN where its result is undefined, and raises only for
arguments that make no sense. The unit of resampling is always the user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import rel_entr
from statsmodels.stats.meta_analysis import effectsize_smd

from fairnb import seeds

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
# Sums of thirds differ in the last bits with the order of adding; equal statistics must count as equal.
_TIE = 1e-9
_ROUNDING = 1e-13


class Interval(NamedTuple):
    """An estimate between its limits."""

    value: float
    low: float
    high: float


def mean(values: npt.ArrayLike) -> float:
    """Compute the mean, correctly rounded, so that values that cancel give exactly 0.

    Returns
    -------
    float
        NaN for no values.
    """
    numbers = np.asarray(values, dtype=float)
    return math.fsum(numbers) / numbers.size if numbers.size else math.nan


def settled(difference: float) -> float:
    """Return 0 for a difference that is nothing but rounding, so that its sign means something."""
    return 0.0 if abs(difference) < _ROUNDING else difference


def variance(values: npt.ArrayLike, ddof: int) -> float:
    """Compute the variance with the divisor n - ddof; exactly 0 for equal values.

    Parameters
    ----------
    values : array_like, shape (n,)
    ddof : {0, 1}
        0 for the population variance, 1 for the sample variance.

    Returns
    -------
    float
        At least 0; NaN if n <= ddof.
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.size <= ddof:
        return math.nan
    if no_variation(numbers):
        return 0.0
    return math.fsum((numbers - mean(numbers)) ** 2) / (numbers.size - ddof)


def no_variation(values: npt.ArrayLike) -> bool:
    """Tell whether all values are equal (also for one value; False for none).

    A group without variation makes a t-test meaningless even where it can be computed: for
    ten and thirty copies of 0.04, rounding alone gives p = 5e-6.
    """
    numbers = np.asarray(values, dtype=float)
    return bool(numbers.size and numbers.max() - numbers.min() <= _TIE * max(1.0, abs(float(numbers[0]))))


def t_test(first: npt.ArrayLike, second: npt.ArrayLike, kind: Literal["student", "welch"]) -> float:
    """Test whether two groups have equal means, by Student's or Welch's t-test, two-sided.

    Parameters
    ----------
    first, second : array_like, shape (n1,), (n2,)
        Values per user.
    kind : {"student", "welch"}
        Equal variances assumed, or not.

    Returns
    -------
    float
        p in [0, 1], small speaks against equal means. NaN with fewer than two values in a group or
        with no variation in both. With no variation in one of them p is what the formula gives;
        see `no_variation`.

    Notes
    -----
    `scipy.stats.ttest_ind_from_stats`, on correctly rounded moments.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if min(x.size, y.size) < 2 or (no_variation(x) and no_variation(y)):
        return math.nan
    moments = [moment for v in (x, y) for moment in (mean(v), math.sqrt(variance(v, 1)), v.size)]
    return float(stats.ttest_ind_from_stats(*moments, equal_var=kind == "student").pvalue)


def mann_whitney(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Test whether values of one group tend to be larger, by the Mann-Whitney U test, two-sided.

    Returns
    -------
    float
        p in [0, 1]. NaN for an empty group or if all values of both are equal. Exact for small groups
        without ties, else by the normal approximation with ties and continuity corrected.

    Notes
    -----
    `scipy.stats.mannwhitneyu`.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not x.size or not y.size or no_variation(np.concatenate([x, y])):
        return math.nan
    # Thirds that differ in the last bit are ties.
    return float(stats.mannwhitneyu(x.round(9), y.round(9)).pvalue)


def permutation_test(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    resamples: int = 10_000,
    root: int = seeds.ROOT_SEED,
    pairs: Sequence[tuple[int, int]] = (),
) -> float:
    """Test whether group labels are exchangeable, by permuting them; two-sided, on |difference of means|.

    Parameters
    ----------
    first, second : array_like, shape (n1,), (n2,)
        Values per user.
    resamples : int
        All permutations are used if there are no more than this, else so many seeded ones.
    root : int
        Root seed.
    pairs : sequence of (int, int)
        Positions in `first` and `second` that belong to the same user. If there are any, labels are
        exchanged within users only.

    Returns
    -------
    float
        p in (0, 1]: the share of permutations with a difference at least as large, the observed
        labelling counted among them. NaN for an empty group or if all values are equal.

    Notes
    -----
    Equal to `scipy.stats.permutation_test` where exact; one set of permutations serves all rows of a
    table with the same group sizes, which is what makes 10,000 of them affordable.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not x.size or not y.size or no_variation(np.concatenate([x, y])):
        return math.nan
    if pairs:
        left, right = np.array(pairs).T
        signs, exact = _signs(len(pairs), resamples, root)
        change = (x[left] - y[right]) * (1 / x.size + 1 / y.size)
        # Swapping one user's two values moves the difference of means by this much.
        statistic = (mean(x) - mean(y)) - (~signs).astype(float) @ change
    else:
        labels, exact = _labels(x.size, y.size, resamples, root)
        values = np.concatenate([x, y])
        in_first = labels @ values
        statistic = in_first / x.size - (math.fsum(values) - in_first) / y.size
    as_large = int((np.abs(statistic) >= abs(mean(x) - mean(y)) - _TIE).sum())
    return as_large / len(statistic) if exact else (as_large + 1) / (len(statistic) + 1)


@lru_cache(maxsize=8)
def shuffles(n: int, resamples: int, root: int = seeds.ROOT_SEED) -> npt.NDArray[np.int64]:
    """Draw seeded random orders of n users, to deal group labels anew.

    Returns
    -------
    ndarray, shape (resamples, n)
        Each row a permutation of 0 .. n-1; the same array for equal arguments, so do not write to it.
    """
    return seeds.generator("shuffles", n, root=root).random((resamples, n)).argsort(axis=1)


@lru_cache(maxsize=16)
def _labels(n1: int, n2: int, resamples: int, root: int) -> tuple[Array, bool]:
    n = n1 + n2
    if math.comb(n, n1) <= resamples:
        chosen = np.array(list(combinations(range(n), n1)), dtype=int)
        exact = True
    else:
        chosen = shuffles(n, resamples, root)[:, :n1]
        exact = False
    labels = np.zeros((len(chosen), n))
    np.put_along_axis(labels, chosen, values=1.0, axis=1)
    return labels, exact


@lru_cache(maxsize=16)
def _signs(n: int, resamples: int, root: int) -> tuple[Mask, bool]:
    if 2**n <= resamples:
        return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1, True
    return seeds.generator("exchange within users", n, root=root).random((resamples, n)) < 0.5, False


def hedges_g(first: npt.ArrayLike, second: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Compute Hedges' g, the difference of means in pooled standard deviations, with its interval.

    Returns
    -------
    Interval
        Any real number, positive if the first group is higher; 0.2, 0.5 and 0.8 are often called small,
        medium and large. NaN with fewer than two values in a group or with no variation in both.

    Notes
    -----
    `statsmodels.stats.meta_analysis.effectsize_smd` (Borenstein 2009), normal interval. It treats the
    groups as independent.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if min(x.size, y.size) < 2 or (no_variation(x) and no_variation(y)):
        return Interval(math.nan, math.nan, math.nan)
    g, var = effectsize_smd(mean(x), math.sqrt(variance(x, 1)), x.size, mean(y), math.sqrt(variance(y, 1)), y.size)
    half = float(stats.norm.isf((1 - confidence) / 2)) * math.sqrt(var)
    return Interval(float(g), float(g) - half, float(g) + half)


def bootstrap_means(values: npt.ArrayLike, replicates: int, rng: np.random.Generator) -> Array:
    """Draw bootstrap replicates of the mean over users, of many columns at once.

    Parameters
    ----------
    values : array_like, shape (n,) or (n, m)
        One row a user; columns (such as the nine scenarios) share the resampled users, so that their
        replicates keep the users' correlation.
    replicates : int
        Number of replicates R.
    rng : numpy.random.Generator
        From `seeds.generator`.

    Returns
    -------
    ndarray, shape (R,) or (R, m)
        Means of n users drawn with replacement; NaN if n is 0.

    Notes
    -----
    FairEvalLLM, section 4, "Intrinsic Fairness".
    """
    matrix = np.asarray(values, dtype=float)
    n = len(matrix)
    if n == 0:
        return np.full((replicates, *matrix.shape[1:]), math.nan)
    means: Array = resample_counts(n, replicates, rng) @ matrix / n
    return means


def resample_counts(n: int, replicates: int, rng: np.random.Generator) -> Array:
    """Draw how often each of n users stands in each bootstrap sample.

    Returns
    -------
    ndarray, shape (replicates, n)
        Whole numbers; every row sums to n.
    """
    drawn = rng.integers(0, n, size=(replicates, n))
    drawn += np.arange(replicates)[:, None] * n
    counts = np.bincount(drawn.ravel(), minlength=replicates * n)
    return counts.reshape(replicates, n).astype(float)


def percentile_interval(replicates: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the percentile interval of bootstrap replicates.

    Returns
    -------
    tuple of float
        Low and high limit; NaN if no replicate is finite. Replicates that are NaN (a resample in which
        the quantity is undefined) are left out.

    Notes
    -----
    The percentile method and not BCa, whose limits are NaN as soon as a group has no variation, which
    hit rates of few users often have.
    """
    numbers = np.asarray(replicates, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return math.nan, math.nan
    tail = (1 - confidence) / 2
    low, high = np.quantile(numbers, [tail, 1 - tail])
    return settled(float(low)), settled(float(high))


def benjamini_hochberg(p: npt.ArrayLike) -> Array:
    """Correct a family of p-values for its size, controlling the false discovery rate.

    Parameters
    ----------
    p : array_like, shape (m,)
        NaN leaves the family.

    Returns
    -------
    ndarray, shape (m,)
        q in [0, 1], at least p; NaN where p is.

    Notes
    -----
    `scipy.stats.false_discovery_control`; Benjamini & Hochberg 1995.
    """
    numbers = np.asarray(p, dtype=float)
    q = np.full(numbers.shape, math.nan)
    tested = np.isfinite(numbers)
    if tested.any():
        q[tested] = stats.false_discovery_control(numbers[tested], method="bh")
    return q


def sign_test(above: int, of: int) -> float:
    """Test whether a difference is as often positive as negative, two-sided.

    Parameters
    ----------
    above : int
        Positive differences.
    of : int
        All differences that are not 0.

    Returns
    -------
    float
        p in (0, 1], exact; NaN for none.

    Notes
    -----
    `scipy.stats.binomtest` with a probability of one half.
    """
    return float(stats.binomtest(above, of).pvalue) if of else math.nan


class Omnibus(NamedTuple):
    """p-values of tests of any number of groups at once."""

    p_anova: float
    p_kruskal: float


def omnibus(groups: Sequence[npt.ArrayLike]) -> Omnibus:
    """Test whether any of two or more groups differs: one-way ANOVA and Kruskal-Wallis.

    Parameters
    ----------
    groups : sequence of array_like
        Values per user, one entry a group.

    Returns
    -------
    Omnibus
        p in [0, 1]. NaN with fewer than two groups, with a group of fewer than two values (ANOVA), with
        an empty group, or where no group varies.

    Notes
    -----
    `scipy.stats.f_oneway` and `scipy.stats.kruskal`. With two groups ANOVA is Student's t-test.
    """
    arrays = [np.asarray(group, dtype=float) for group in groups]
    if len(arrays) < 2 or any(not array.size for array in arrays):
        return Omnibus(math.nan, math.nan)
    together = np.concatenate(arrays)
    p_kruskal = math.nan
    if not no_variation(together):
        p_kruskal = float(stats.kruskal(*(array.round(9) for array in arrays)).pvalue)
    if any(array.size < 2 for array in arrays) or all(no_variation(array) for array in arrays):
        return Omnibus(math.nan, p_kruskal)
    result = stats.f_oneway(*arrays)
    # Rounding can make F of equal means a little negative, and its p then undefined.
    return Omnibus(float(result.pvalue) if result.statistic > 0 else 1.0, p_kruskal)


def spread(values: npt.ArrayLike) -> tuple[float, float]:
    """Compute range and population standard deviation.

    Returns
    -------
    tuple of float
        Both at least 0; NaN for no values.
    """
    numbers = np.asarray(values, dtype=float)
    if not numbers.size:
        return math.nan, math.nan
    return float(numbers.max() - numbers.min()), math.sqrt(variance(numbers, 0))


def total_variation(shares: npt.ArrayLike, target: npt.ArrayLike) -> Array | np.float64:
    """Compute the total variation distance of two distributions over groups.

    Parameters
    ----------
    shares, target : array_like, shape (groups,) or (R, groups)
        Each sums to 1 along the last axis.

    Returns
    -------
    float or ndarray
        In [0, 1]; 0 if equal. NaN if a share is.

    Notes
    -----
    Half the sum of absolute differences: the share of benefit that would have to change hands.
    """
    gap = np.abs(np.asarray(shares, dtype=float) - np.asarray(target, dtype=float))
    distance: Array | np.float64 = gap.sum(axis=-1) / 2
    return distance


def jensen_shannon(shares: npt.ArrayLike, target: npt.ArrayLike) -> Array | np.float64:
    """Compute the Jensen-Shannon distance (base 2) of two distributions over groups.

    Parameters
    ----------
    shares, target : array_like, shape (groups,) or (R, groups)
        Each sums to 1 along the last axis.

    Returns
    -------
    float or ndarray
        In [0, 1]; 0 if equal, 1 if no group has a share in both. NaN if a share is.

    Notes
    -----
    The square root of the divergence, which is a metric (Lin 1991; Endres & Schindelin 2003). As
    `scipy.spatial.distance.jensenshannon`, but 0 and not NaN where rounding makes the divergence of equal
    distributions a little negative.
    """
    p, q = np.broadcast_arrays(np.asarray(shares, dtype=float), np.asarray(target, dtype=float))
    middle = (p + q) / 2
    divergence = (rel_entr(p, middle).sum(axis=-1) + rel_entr(q, middle).sum(axis=-1)) / (2 * math.log(2))
    distance: Array | np.float64 = np.sqrt(np.clip(divergence, 0.0, 1.0))
    return distance
