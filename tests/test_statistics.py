"""Tests, intervals, corrections, effect sizes and distances: by hand, against scipy, and at their edges."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial import distance
from statsmodels.stats.meta_analysis import effectsize_smd
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.oneway import anova_oneway

from fairnb import seeds
from fairnb import statistics as s

SETTINGS = settings(max_examples=25, deadline=None, database=None, derandomize=True)
NAN = math.nan

# Hit rates at K = 3 differ by thirds; many ties, and sums that depend on the order of adding.
THIRDS = st.integers(-3, 3).map(lambda third: third / 3)
THOUSANDTHS = st.integers(-2000, 2000).map(lambda number: number / 1000)


def sample(values: st.SearchStrategy[float], smallest: int = 2, largest: int = 12) -> st.SearchStrategy[Any]:
    return st.lists(values, min_size=smallest, max_size=largest)


def normal(name: str, n: int, shift: float = 0.0) -> np.ndarray:
    return seeds.generator("test", name).normal(shift, 1.0, n)


def hits(name: str, n: int, share: float) -> np.ndarray:
    """Hit rates at K = 3 of n made-up users."""
    return seeds.generator("test", name).binomial(3, share, n) / 3


def size_of_difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return np.abs(x.mean(axis=axis) - y.mean(axis=axis))


def varies(values: list[float]) -> bool:
    return len(set(values)) > 1


TWO_SAMPLE: dict[str, Callable[[Any, Any], float]] = {
    "student": lambda x, y: s.t_test(x, y, "student"),
    "welch": lambda x, y: s.t_test(x, y, "welch"),
    "mann_whitney": s.mann_whitney,
    "permutation": s.permutation_test,
    "anova": lambda x, y: s.omnibus([x, y]).p_anova,
    "kruskal": lambda x, y: s.omnibus([x, y]).p_kruskal,
}
two_sample = pytest.mark.parametrize("test", TWO_SAMPLE.values(), ids=TWO_SAMPLE.keys())


# --- moments -------------------------------------------------------------------------------------------


def test_mean_and_variance_by_hand() -> None:
    # 1, 2, 3, 4: mean 10/4; squares of the distances 2.25 + 0.25 + 0.25 + 2.25 = 5.
    assert s.mean([1, 2, 3, 4]) == 2.5
    assert s.variance([1, 2, 3, 4], ddof=0) == 5 / 4
    assert s.variance([1, 2, 3, 4], ddof=1) == 5 / 3
    assert s.spread([1, 2, 3, 4]) == (3.0, math.sqrt(5 / 4))


def test_values_that_cancel_have_mean_exactly_zero() -> None:
    values = [0.1, 0.2, 0.3, -0.3, -0.2, -0.1]
    assert sum(values) != 0  # which is why a plain sum would not do
    assert s.mean(values) == 0.0
    assert s.mean([1e16, 3.0, -1e16]) == 1.0


def test_moments_without_enough_values_are_nan() -> None:
    assert math.isnan(s.mean([]))
    assert math.isnan(s.variance([], ddof=0))
    assert math.isnan(s.variance([0.5], ddof=1))
    assert s.variance([0.5], ddof=0) == 0.0
    assert all(math.isnan(number) for number in s.spread([]))
    assert s.spread([0.5]) == (0.0, 0.0)


@pytest.mark.parametrize("n", [2, 3, 10, 30, 80])
@pytest.mark.parametrize("value", [0.0, 0.04, 0.1, 1 / 3, 1.0, -2 / 3])
def test_equal_values_have_variance_exactly_zero(value: float, n: int) -> None:
    assert s.variance([value] * n, ddof=1) == 0.0
    assert s.spread([value] * n) == (0.0, 0.0)


@SETTINGS
@given(sample(THOUSANDTHS, 2, 30), st.sampled_from([0, 1]))
def test_moments_equal_numpy(values: list[float], ddof: int) -> None:
    assert s.mean(values) == pytest.approx(np.mean(values), abs=1e-12)
    assert s.variance(values, ddof) == pytest.approx(np.var(values, ddof=ddof), abs=1e-12)
    assert s.spread(values) == pytest.approx((np.ptp(values), np.std(values)), abs=1e-7)


@SETTINGS
@given(sample(THIRDS, 1, 40), st.randoms(use_true_random=True))
def test_mean_and_variance_do_not_depend_on_the_order_of_users(values: list[float], order: random.Random) -> None:
    shuffled = order.sample(values, len(values))
    assert s.mean(shuffled) == s.mean(values)
    assert s.variance(shuffled, 0) == s.variance(values, 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], False),
        ([0.2], True),
        ([0.2] * 9, True),
        ([0.1 + 0.2, 0.3, 0.3], True),  # equal but for the last bit
        ([0.0] * 9 + [1 / 3], False),
        ([0.3, 0.3001], False),
        ([-1.0, 1.0], False),
    ],
)
def test_no_variation(values: list[float], expected: bool) -> None:
    assert s.no_variation(values) is expected


# --- t-tests -------------------------------------------------------------------------------------------


def test_t_test_by_hand_where_p_has_a_closed_form() -> None:
    # {0, 2} and {3, 5}: means 1 and 4, both variances 2, so the squared standard error is 2/2 + 2/2 = 2,
    # t = (1 - 4)/√2 and, by either formula, 2 degrees of freedom, for which p = 1 - |t|/√(2 + t²).
    t = 3 / math.sqrt(2)
    expected = 1 - t / math.sqrt(2 + t**2)
    assert expected == pytest.approx(1 - 3 / math.sqrt(13))
    for kind in ("student", "welch"):
        assert s.t_test([0, 2], [3, 5], kind) == pytest.approx(expected, rel=1e-12)


def test_student_and_welch_by_hand_where_they_differ() -> None:
    # x: mean 2, variance 1, n 3; y: mean 5, squares 9 + 1 + 1 + 9 = 20, variance 20/3, n 4.
    x, y = [1, 2, 3], [2, 4, 6, 8]
    # Student: pooled variance (2·1 + 3·20/3)/5 = 22/5, squared error 22/5·(1/3 + 1/4), 5 degrees of freedom.
    student = 2 * stats.t.sf(3 / math.sqrt(22 / 5 * 7 / 12), df=5)
    # Welch: squared error 1/3 + 5/3 = 2, degrees of freedom 2²/((1/3)²/2 + (5/3)²/3).
    welch = 2 * stats.t.sf(3 / math.sqrt(2), df=4 / (1 / 18 + 25 / 27))
    assert s.t_test(x, y, "student") == pytest.approx(student, rel=1e-12)
    assert s.t_test(x, y, "welch") == pytest.approx(welch, rel=1e-12)
    assert abs(student - welch) > 0.005


def test_t_test_with_one_constant_group_is_what_the_formula_gives() -> None:
    # {0, 0, 0} and {0, 1/2, 1}: variances 0 and 1/4, squared Welch error (1/4)/3 = 1/12, so t² = (1/4)·12 = 3
    # with the 2 degrees of freedom of the second group alone: p = 1 - √3/√(2 + 3).
    assert s.t_test([0, 0, 0], [0, 0.5, 1], "welch") == pytest.approx(1 - math.sqrt(3 / 5), rel=1e-12)
    # Student: pooled 1/8, squared error 1/8·2/3 = 1/12 as well, but 4 degrees of freedom.
    assert s.t_test([0, 0, 0], [0, 0.5, 1], "student") == pytest.approx(2 * stats.t.sf(math.sqrt(3), df=4), rel=1e-12)


@SETTINGS
@given(sample(THOUSANDTHS), sample(THOUSANDTHS))
def test_t_tests_equal_scipy(x: list[float], y: list[float]) -> None:
    assume(varies(x) and varies(y))
    student = stats.ttest_ind(x, y, equal_var=True).pvalue
    welch = stats.ttest_ind(x, y, equal_var=False).pvalue
    assert s.t_test(x, y, "student") == pytest.approx(student, rel=1e-6, abs=1e-12)
    assert s.t_test(x, y, "welch") == pytest.approx(welch, rel=1e-6, abs=1e-12)


# --- Mann-Whitney --------------------------------------------------------------------------------------


def test_mann_whitney_by_hand() -> None:
    # No tie, {1, 2} all below {3, 4, 5}: one of C(5, 2) = 10 rankings, and its mirror image.
    assert s.mann_whitney([1, 2], [3, 4, 5]) == pytest.approx(2 / 10, rel=1e-12)
    # {1, 3} and {2, 4}: U = 1 of 4; 1 and 0 are reached by 2 of the 6 rankings, mirrored again.
    assert s.mann_whitney([1, 3], [2, 4]) == pytest.approx(4 / 6, rel=1e-12)


@SETTINGS
@given(sample(st.one_of(THIRDS, THOUSANDTHS), 1), sample(st.one_of(THIRDS, THOUSANDTHS), 1))
def test_mann_whitney_equals_scipy(x: list[float], y: list[float]) -> None:
    assume(varies(x + y))
    assert s.mann_whitney(x, y) == pytest.approx(stats.mannwhitneyu(x, y).pvalue, rel=1e-9)


def test_values_that_differ_in_the_last_bit_are_ties() -> None:
    almost, exact = [0.1 + 0.2, 0.5, 0.7, 0.9], [0.3, 0.5, 0.7, 0.9]
    other = [0.3, 0.3, 0.5, 0.2, 0.1]
    assert almost != exact
    assert stats.mannwhitneyu(almost, other).pvalue != stats.mannwhitneyu(exact, other).pvalue
    assert s.mann_whitney(almost, other) == s.mann_whitney(exact, other)
    assert s.omnibus([almost, other]).p_kruskal == s.omnibus([exact, other]).p_kruskal


# --- permutation tests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        # Of the 6 ways to choose two of 1, 2, 3, 4, {1, 2} and {3, 4} have a difference of 2.
        ([1, 2], [3, 4], 2 / 6),
        # Any of the four alone against the others: 0 - 8/3, 1 - 7/3, 2 - 2, 5 - 1; only the last has size 4.
        ([5], [0, 1, 2], 1 / 4),
        # {0, 2} against {1, 1}: no difference, which every labelling reaches.
        ([0, 2], [1, 1], 1.0),
        # The largest difference of C(6, 3) = 20 labellings, and its mirror image.
        ([0, 0, 0], [1, 1, 1], 2 / 20),
    ],
)
def test_exact_permutation_test_by_hand(x: list[float], y: list[float], expected: float) -> None:
    assert s.permutation_test(x, y) == expected


@SETTINGS
@given(sample(st.integers(-3, 3), 1, 4), sample(st.integers(-3, 3), 1, 5))
def test_exact_permutation_test_equals_counting_in_fractions(x: list[int], y: list[int]) -> None:
    """Thirds added in floats are equal only nearly; the count must be that of exact arithmetic."""
    assume(varies([*x, *y]))
    values = [Fraction(third, 3) for third in (*x, *y)]

    def size(first: tuple[int, ...]) -> Fraction:
        inside = sum(values[place] for place in first)
        return abs(inside / len(x) - (sum(values) - inside) / len(y))

    observed = size(tuple(range(len(x))))
    labellings = list(combinations(range(len(values)), len(x)))
    expected = sum(size(first) >= observed for first in labellings) / len(labellings)
    assert s.permutation_test([third / 3 for third in x], [third / 3 for third in y]) == expected


@pytest.mark.parametrize(("n1", "n2"), [(2, 3), (4, 4), (3, 7), (7, 5)])
def test_exact_permutation_test_equals_scipy(n1: int, n2: int) -> None:
    x, y = normal(f"first {n1}", n1), normal(f"second {n2}", n2, shift=0.8)
    expected = stats.permutation_test(
        (x, y), size_of_difference, vectorized=True, n_resamples=np.inf, alternative="greater"
    )
    assert s.permutation_test(x, y) == pytest.approx(expected.pvalue, rel=1e-12)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (normal("large first", 45), normal("large second", 35, shift=0.35)),
        (hits("large first", 45, 0.25), hits("large second", 35, 0.25)),
    ],
    ids=["normal", "hit rates"],
)
def test_large_permutation_test_equals_scipy_within_monte_carlo_error(x: np.ndarray, y: np.ndarray) -> None:
    expected = stats.permutation_test(
        (x, y),
        size_of_difference,
        vectorized=True,
        n_resamples=20_000,
        alternative="greater",
        rng=seeds.generator("test", "scipy"),
    ).pvalue
    assert 0.01 < expected < 0.5
    four_errors = 4 * math.sqrt(expected * (1 - expected) * (1 / 10_000 + 1 / 20_000))
    assert abs(s.permutation_test(x, y) - expected) < four_errors


def test_exact_up_to_the_number_of_resamples_and_sampled_above_it() -> None:
    x, y = normal("six", 6), normal("five", 5, shift=1.0)
    labellings = math.comb(11, 5)
    exact = s.permutation_test(x, y, resamples=labellings)
    assert exact == s.permutation_test(x, y, resamples=50 * labellings)
    assert exact * labellings == pytest.approx(round(exact * labellings), abs=1e-9)
    # One resample fewer, and it is sampled: the observed labelling is one of 462 and other seeds differ.
    sampled = [s.permutation_test(x, y, resamples=labellings - 1, root=root) for root in range(5)]
    assert len(set(sampled)) > 1
    assert np.mean(sampled) == pytest.approx(exact, abs=4 * math.sqrt(exact / (5 * labellings)))


def test_a_sampled_p_is_never_zero() -> None:
    # No random labelling of 80 separates zeros from ones, so only the observed one counts.
    assert s.permutation_test([0.0] * 40, [1.0] * 40, resamples=999) == 1 / 1000


def test_sampled_permutation_test_depends_on_the_root_alone() -> None:
    x, y = normal("a", 30), normal("b", 20, shift=0.3)
    first = s.permutation_test(x, y, root=1)
    s.permutation_test(y, x, root=2)
    assert s.permutation_test(x, y, root=1) == first
    assert s.permutation_test(x, y, root=2) != first


# --- permutation within users --------------------------------------------------------------------------


def paired_p(x: list[float], y: list[float], pairs: list[tuple[int, int]]) -> float:
    """Exchange the two values of each user, in every combination, and count."""
    statistics = []
    for swaps in product([False, True], repeat=len(pairs)):
        first, second = list(x), list(y)
        for swap, (left, right) in zip(swaps, pairs, strict=True):
            if swap:
                first[left], second[right] = second[right], first[left]
        statistics.append(abs(math.fsum(first) / len(x) - math.fsum(second) / len(y)))
    return sum(value >= statistics[0] - 1e-9 for value in statistics) / len(statistics)


def test_paired_permutation_test_by_hand() -> None:
    # Three users, differences 1, 1 and -0.5: the sums of ±1 ±1 ±0.5 are 2.5, 1.5 (the observed one), 0.5 twice,
    # and the same negative: 4 of 8 have at least the size 1.5. Labels exchanged between users would give more.
    x, y = [1.0, 2.0, 0.0], [0.0, 1.0, 0.5]
    assert s.permutation_test(x, y, pairs=[(0, 0), (1, 1), (2, 2)]) == 4 / 8
    assert s.permutation_test(x, y) != 4 / 8


@st.composite
def paired_groups(draw: st.DrawFn) -> tuple[list[float], list[float], list[tuple[int, int]]]:
    """Two groups of which some users, in any order, stand in both."""
    x, y = draw(sample(THIRDS, 1, 6)), draw(sample(THIRDS, 1, 6))
    left = draw(st.permutations(range(len(x))))
    right = draw(st.permutations(range(len(y))))
    shared = draw(st.integers(1, min(len(x), len(y))))
    return x, y, list(zip(left[:shared], right[:shared], strict=True))


@SETTINGS
@given(paired_groups())
def test_paired_permutation_test_equals_brute_force(groups: tuple[Any, Any, list[tuple[int, int]]]) -> None:
    x, y, pairs = groups
    assume(varies(x + y))
    expected = paired_p(x, y, pairs)
    assert s.permutation_test(x, y, pairs=pairs) == expected
    mirrored = [(right, left) for left, right in pairs]
    assert s.permutation_test(y, x, pairs=mirrored) == expected


def test_paired_permutation_test_equals_scipy() -> None:
    x, y = normal("before", 9), normal("after", 9, shift=0.6)
    expected = stats.permutation_test(
        (x, y),
        size_of_difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
        alternative="greater",
    ).pvalue
    assert s.permutation_test(x, y, pairs=[(i, i) for i in range(9)]) == pytest.approx(expected, rel=1e-12)


def test_many_pairs_are_sampled() -> None:
    x, y = normal("before", 12), normal("after", 12, shift=0.5)
    pairs = [(i, i) for i in range(12)]
    exact = paired_p(x.tolist(), y.tolist(), pairs)
    assert s.permutation_test(x, y, pairs=pairs, resamples=2**12) == exact
    sampled = s.permutation_test(x, y, pairs=pairs, resamples=2**12 - 1)
    assert sampled != exact
    assert abs(sampled - exact) < 4 * math.sqrt(exact * (1 - exact) / 2**12)
    # All 80 differences have the same sign: no sampled exchange comes near, the observed one counts.
    apart = s.permutation_test([0.0] * 80, [1.0] * 80, pairs=[(i, i) for i in range(80)], resamples=999)
    assert apart == 1 / 1000


# --- what every two-sample test has in common ----------------------------------------------------------


@two_sample
@SETTINGS
@given(sample(THIRDS, 2, 5), sample(THIRDS, 2, 6))
def test_p_is_a_probability_and_keeps_when_groups_are_swapped(
    test: Callable[[Any, Any], float], x: list[float], y: list[float]
) -> None:
    assume(varies(x) or varies(y))
    p = test(x, y)
    assert 0 <= p <= 1
    assert test(y, x) == pytest.approx(p, rel=1e-9)
    # Shifted and mirrored values are as far apart as before.
    assert test([1 - value for value in x], [1 - value for value in y]) == pytest.approx(p, rel=1e-9)


@two_sample
@SETTINGS
@given(sample(THIRDS, 2, 5), sample(THIRDS, 2, 6), st.randoms(use_true_random=True))
def test_p_does_not_depend_on_the_order_of_users(
    test: Callable[[Any, Any], float], x: list[float], y: list[float], order: random.Random
) -> None:
    assume(varies(x) or varies(y))
    again = test(order.sample(x, len(x)), order.sample(y, len(y)))
    assert again == pytest.approx(test(x, y), rel=1e-9)


@two_sample
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0.04] * 10, [0.04] * 30),  # scipy on its own: p = 5e-6
        ([0.1] * 10, [0.1] * 30),
        ([0.0] * 7, [0.0] * 7),
        ([0.1 + 0.2] * 5, [0.3] * 5),
        ([], [0.0, 1.0]),
        ([0.0, 1.0], []),
        ([], []),
        ([0.5], [0.5]),
    ],
)
def test_nothing_to_test_gives_nan(test: Callable[[Any, Any], float], x: list[float], y: list[float]) -> None:
    assert math.isnan(test(x, y))


@pytest.mark.parametrize("kind", ["student", "welch"])
@pytest.mark.parametrize(("x", "y"), [([0.0] * 7, [1.0] * 7), ([0.5], [0.0, 1.0]), ([0.0, 1.0], [0.5]), ([0.0], [1.0])])
def test_no_variance_within_groups_or_one_user_gives_no_t_test(kind: Any, x: list[float], y: list[float]) -> None:
    assert math.isnan(s.t_test(x, y, kind))
    assert math.isnan(s.omnibus([x, y]).p_anova)
    assert all(math.isnan(number) for number in s.hedges_g(x, y))


def test_constant_but_different_groups_can_still_be_ranked_and_permuted() -> None:
    x, y = [0.0] * 3, [1.0] * 3
    assert s.permutation_test(x, y) == 2 / 20
    assert s.mann_whitney(x, y) == pytest.approx(stats.mannwhitneyu(x, y).pvalue)
    assert s.omnibus([x, y]).p_kruskal == pytest.approx(stats.kruskal(x, y).pvalue)


# --- effect size ---------------------------------------------------------------------------------------


def test_hedges_g_by_hand() -> None:
    # As above: means 2 and 5, pooled variance 22/5, n 3 and 4; small-sample factor 1 - 3/(4·7 - 9) = 16/19.
    g = -3 / math.sqrt(22 / 5) * 16 / 19
    half = 1.959963984540054 * math.sqrt(7 / 12 + g**2 / 2 / (7 - 3.94))
    assert s.hedges_g([1, 2, 3], [2, 4, 6, 8]) == pytest.approx((g, g - half, g + half), rel=1e-12)


@SETTINGS
@given(sample(THOUSANDTHS), sample(THOUSANDTHS), st.sampled_from([0.8, 0.95, 0.99]))
def test_hedges_g_equals_statsmodels(x: list[float], y: list[float], confidence: float) -> None:
    assume(varies(x) and varies(y))
    g, variance = effectsize_smd(np.mean(x), np.std(x, ddof=1), len(x), np.mean(y), np.std(y, ddof=1), len(y))
    low, high = stats.norm.interval(confidence, loc=g, scale=math.sqrt(variance))
    result = s.hedges_g(x, y, confidence=confidence)
    assert result == pytest.approx((g, low, high), rel=1e-7, abs=1e-9)
    assert s.hedges_g(y, x, confidence=confidence) == pytest.approx((-g, -high, -low), rel=1e-7, abs=1e-9)


# --- bootstrap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[0.0] * 7, [1.0] * 80, [1 / 3] * 5, [0.4], [1.0]])
def test_bootstrap_of_equal_values_is_that_value_without_width(values: list[float]) -> None:
    replicates = s.bootstrap_means(values, 300, seeds.generator("test", "constant"))
    assert replicates.shape == (300,)
    np.testing.assert_allclose(replicates, values[0], rtol=1e-12)
    low, high = s.percentile_interval(replicates)
    assert (low, high) == pytest.approx((values[0], values[0]), rel=1e-12)


def test_bootstrap_of_one_hit_in_seven() -> None:
    replicates = s.bootstrap_means([0.0] * 6 + [1.0], 2000, seeds.generator("test", "one of seven"))
    # The hit is drawn Binomial(7, 1/7) times, zero times with probability (6/7)^7 = 0.34.
    np.testing.assert_allclose(replicates * 7, np.round(replicates * 7), atol=1e-9)
    never = (6 / 7) ** 7
    assert abs(np.mean(replicates == 0) - never) < 4 * math.sqrt(never * (1 - never) / 2000)
    # P(more than 2) = 0.065 and P(more than 3) = 0.011, so the upper limit of 95 % is 3/7.
    assert s.percentile_interval(replicates) == pytest.approx((0.0, 3 / 7), rel=1e-12)


def test_bootstrap_of_nobody_is_nan() -> None:
    for values, shape in (([], (50,)), (np.empty((0, 9)), (50, 9))):
        replicates = s.bootstrap_means(values, 50, seeds.generator("test", "nobody"))
        assert replicates.shape == shape
        assert np.isnan(replicates).all()
        assert all(math.isnan(limit) for limit in s.percentile_interval(replicates))


def test_bootstrap_means_have_the_mean_and_error_of_the_sample() -> None:
    values = hits("bootstrap", 40, 0.3)
    replicates = s.bootstrap_means(values, 4000, seeds.generator("test", "moments"))
    error = np.std(values) / math.sqrt(40)
    assert abs(replicates.mean() - values.mean()) < 4 * error / math.sqrt(4000)
    assert replicates.std() == pytest.approx(error, rel=4 / math.sqrt(2 * 4000))


def test_columns_of_a_bootstrap_share_the_users() -> None:
    values = hits("columns", 12, 0.4)
    columns = np.stack([values, 1 - values, values[::-1]], axis=1)
    replicates = s.bootstrap_means(columns, 200, seeds.generator("test", "columns"))
    assert replicates.shape == (200, 3)
    np.testing.assert_allclose(replicates[:, 0] + replicates[:, 1], 1.0, rtol=1e-12)
    assert not np.allclose(replicates[:, 0], replicates[:, 2])
    alone = s.bootstrap_means(values, 200, seeds.generator("test", "columns"))
    np.testing.assert_allclose(replicates[:, 0], alone, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 80])
def test_resample_counts_draw_n_of_n_users_evenly(n: int) -> None:
    counts = s.resample_counts(n, 2000, seeds.generator("test", "counts", n))
    assert counts.shape == (2000, n)
    np.testing.assert_array_equal(counts.sum(axis=1), np.full(2000, n))
    np.testing.assert_array_equal(counts, np.floor(np.abs(counts)))
    # Each user Binomial(n, 1/n) times, so once on average; five errors, for the largest of 80.
    np.testing.assert_allclose(counts.mean(axis=0), 1.0, atol=5 / math.sqrt(2000))
    if n > 1:
        assert counts.var(axis=0).mean() == pytest.approx(1 - 1 / n, rel=0.1)


def test_percentile_interval_by_hand() -> None:
    # 0, 1, ..., 100: the 5 % and 95 % quantiles stand at places 5 and 95.
    replicates = list(range(101))
    assert s.percentile_interval(replicates, confidence=0.90) == pytest.approx((5, 95))
    assert s.percentile_interval(replicates) == pytest.approx((2.5, 97.5))
    assert s.percentile_interval(replicates[::-1]) == s.percentile_interval(replicates)


def test_undefined_replicates_are_left_out() -> None:
    assert s.percentile_interval([NAN, 1.0, NAN, 3.0, math.inf], confidence=0.5) == pytest.approx((1.5, 2.5))
    assert all(math.isnan(limit) for limit in s.percentile_interval([NAN, NAN]))


def test_percentile_interval_equals_scipy_within_monte_carlo_error() -> None:
    values = normal("interval", 60)
    low, high = s.percentile_interval(s.bootstrap_means(values, 10_000, seeds.generator("test", "ours")))
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=seeds.generator("test", "theirs")
    ).confidence_interval
    # The error of a 2.5 % quantile of 10,000 normal replicates is 2.67 SD/√10,000; two are compared.
    five_errors = 5 * 2.67 * np.std(values) / math.sqrt(60) / 100 * math.sqrt(2)
    assert abs(low - theirs.low) < five_errors
    assert abs(high - theirs.high) < five_errors


# --- correction for the family -------------------------------------------------------------------------


def test_benjamini_hochberg_by_hand() -> None:
    # Sorted 0.005, 0.04, 0.5 times 3/1, 3/2, 3/3.
    np.testing.assert_allclose(s.benjamini_hochberg([0.5, 0.005, 0.04]), [0.5, 0.015, 0.06], rtol=1e-12)
    # 0.01·4/1, 0.02·4/2, 0.03·4/3, 0.04·4/4: all 0.04.
    np.testing.assert_allclose(s.benjamini_hochberg([0.04, 0.01, 0.03, 0.02]), [0.04] * 4, rtol=1e-12)
    # 0.03·3/2 = 0.045 is above 0.04·3/3 and must not overtake it.
    np.testing.assert_allclose(s.benjamini_hochberg([0.001, 0.03, 0.04]), [0.003, 0.04, 0.04], rtol=1e-12)


PROBABILITIES = st.lists(st.integers(0, 1000).map(lambda p: p / 1000), min_size=1, max_size=40)


@SETTINGS
@given(PROBABILITIES)
def test_benjamini_hochberg_equals_scipy_and_statsmodels(p: list[float]) -> None:
    q = s.benjamini_hochberg(p)
    np.testing.assert_allclose(q, stats.false_discovery_control(p), rtol=1e-12)
    np.testing.assert_allclose(q, multipletests(p, method="fdr_bh")[1], rtol=1e-12)
    assert (q >= np.array(p) - 1e-12).all()
    assert (q <= 1).all()


@SETTINGS
@given(PROBABILITIES, st.lists(st.integers(0, 40), max_size=8))
def test_a_nan_leaves_the_family(p: list[float], places: list[int]) -> None:
    with_gaps = list(p)
    for place in places:
        with_gaps.insert(min(place, len(with_gaps)), NAN)
    q = s.benjamini_hochberg(with_gaps)
    np.testing.assert_array_equal(np.isnan(q), np.isnan(with_gaps))
    np.testing.assert_array_equal(q[~np.isnan(q)], s.benjamini_hochberg(p))


def test_a_family_of_none() -> None:
    assert np.isnan(s.benjamini_hochberg([NAN, NAN])).all()
    assert s.benjamini_hochberg([]).shape == (0,)
    assert s.benjamini_hochberg([NAN, 0.03])[1] == pytest.approx(0.03)


# --- omnibus tests -------------------------------------------------------------------------------------


def test_omnibus_by_hand_where_p_has_a_closed_form() -> None:
    # {1, 2}, {3, 4}, {5, 6}: between groups 2·(2² + 0 + 2²) = 16, within 3·(1/4 + 1/4) = 3/2;
    # F = (16/2)/(3/2/3) = 16 with 2 and 3 degrees of freedom, for which p = (1 + 2F/3)^(-3/2).
    p_anova = (1 + 2 * 16 / 3) ** -1.5
    # Rank sums 3, 7, 11: H = 12/(6·7)·(9/2 + 49/2 + 121/2) - 3·7 = 32/7; with 2 degrees p = exp(-H/2).
    p_kruskal = math.exp(-16 / 7)
    assert s.omnibus([[1, 2], [3, 4], [5, 6]]) == pytest.approx((p_anova, p_kruskal), rel=1e-12)


@SETTINGS
@given(st.lists(sample(THOUSANDTHS, 2, 8), min_size=2, max_size=5))
def test_omnibus_equals_scipy_and_statsmodels(groups: list[list[float]]) -> None:
    assume(all(varies(group) for group in groups))
    direct = stats.f_oneway(*groups)
    assume(direct.statistic > 1e-9)  # equal means have a test of their own
    result = s.omnibus(groups)
    assert result.p_anova == pytest.approx(direct.pvalue, rel=1e-9, abs=1e-15)
    assert result.p_anova == pytest.approx(anova_oneway(groups, use_var="equal").pvalue, rel=1e-6, abs=1e-12)
    assert result.p_kruskal == pytest.approx(stats.kruskal(*groups).pvalue, rel=1e-9)
    assert s.omnibus(groups[::-1]) == pytest.approx(result, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    "values", [[0, 0, 0, 1 / 3], [0, 0, 2 / 3, -1 / 3], [0, 1 / 3, 2 / 3, 1], [0, 0, 0, 0.003], [0, 1]]
)
@pytest.mark.parametrize("groups", [2, 3, 5])
def test_groups_with_equal_means_have_an_anova_p_of_one(values: list[float], groups: int) -> None:
    """Rounding makes the sum of squares between groups a little negative, and scipy's p NaN."""
    assert s.omnibus([values] * groups).p_anova == pytest.approx(1.0, rel=1e-9)


@SETTINGS
@given(sample(THOUSANDTHS), sample(THOUSANDTHS))
def test_anova_of_two_groups_is_student(x: list[float], y: list[float]) -> None:
    assume(varies(x) and varies(y))
    assert s.omnibus([x, y]).p_anova == pytest.approx(s.t_test(x, y, "student"), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("groups", "anova", "kruskal"),
    [
        ([], False, False),
        ([[0.0, 1.0]], False, False),
        ([[0.0, 1.0], [0.5, 0.2], []], False, False),
        ([[0.0, 1.0], [0.5, 0.2], [0.3]], False, True),  # one user: ranks, but no variance
        ([[0.04] * 10, [0.04] * 30, [0.04] * 5], False, False),
        ([[0.0] * 4, [1.0] * 4, [0.5] * 4], False, True),  # no variance within any group
        ([[0.0] * 4, [1.0] * 4, [0.5, 0.6, 0.5, 0.6]], True, True),
    ],
)
def test_omnibus_is_nan_exactly_where_it_is_undefined(groups: Any, anova: bool, kruskal: bool) -> None:
    result = s.omnibus(groups)
    assert math.isfinite(result.p_anova) is anova
    assert math.isfinite(result.p_kruskal) is kruskal


# --- distances -----------------------------------------------------------------------------------------


def test_distances_by_hand() -> None:
    assert s.total_variation([0.75, 0.25], [0.5, 0.5]) == 0.25
    assert s.total_variation([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]) == pytest.approx(0.3)
    # (1, 0) and (1/2, 1/2), middle (3/4, 1/4): log2(1/(3/4)) and (log2((1/2)/(3/4)) + log2((1/2)/(1/4)))/2.
    divergence = (math.log2(4 / 3) + (math.log2(2 / 3) + 1) / 2) / 2
    assert s.jensen_shannon([1, 0], [0.5, 0.5]) == pytest.approx(math.sqrt(divergence), rel=1e-12)


@pytest.mark.parametrize("measure", [s.total_variation, s.jensen_shannon])
def test_distances_at_their_ends(measure: Any) -> None:
    assert measure([1, 0, 0], [0, 0.5, 0.5]) == pytest.approx(1.0, rel=1e-12)
    assert measure([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]) == pytest.approx(0.0, abs=1e-7)
    assert math.isnan(measure([NAN, NAN], [0.5, 0.5]))


@st.composite
def distributions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    groups = draw(st.integers(2, 6))
    weights = st.lists(st.integers(0, 50), min_size=groups, max_size=groups).filter(any)
    first, second = np.array(draw(weights)), np.array(draw(weights))
    return first / first.sum(), second / second.sum()


@SETTINGS
@given(distributions())
def test_distances_against_scipy_with_bounds_and_symmetry(pair: tuple[np.ndarray, np.ndarray]) -> None:
    p, q = pair
    tv, js = s.total_variation(p, q), s.jensen_shannon(p, q)
    assert tv == pytest.approx(distance.cityblock(p, q) / 2, abs=1e-12)
    assume(not np.allclose(p, q))  # there rounding may make scipy's divergence negative
    assert js == pytest.approx(distance.jensenshannon(p, q, base=2), rel=1e-9)
    assert 0 <= tv <= 1
    assert 0 <= js <= 1
    assert s.total_variation(q, p) == pytest.approx(tv, abs=1e-12)
    assert s.jensen_shannon(q, p) == pytest.approx(js, rel=1e-9)
    # A group that both leave empty, or another order of the groups, changes nothing.
    assert s.jensen_shannon([*p, 0], [*q, 0]) == pytest.approx(js, rel=1e-9)
    assert s.jensen_shannon(p[::-1], q[::-1]) == pytest.approx(js, rel=1e-9)
    assert js**2 <= tv + 1e-12  # the divergence is at most the total variation


def test_jensen_shannon_of_equal_distributions_is_never_nan() -> None:
    shares = seeds.generator("test", "dirichlet").dirichlet([1.0, 1.0, 1.0], size=2000)
    # The same shares by another way of rounding, as shares computed from sums are.
    again = (shares * 3) / (shares * 3).sum(axis=1, keepdims=True)
    result = s.jensen_shannon(shares, again)
    assert np.isfinite(result).all()
    assert result.max() < 1e-7


def test_distances_of_many_rows_are_those_of_each_row() -> None:
    shares = seeds.generator("test", "rows").dirichlet([1.0, 2.0, 3.0], size=50)
    goal = np.array([0.2, 0.3, 0.5])
    for measure in (s.total_variation, s.jensen_shannon):
        np.testing.assert_allclose(measure(shares, goal), [measure(row, goal) for row in shares], rtol=1e-12)


# --- seeds ---------------------------------------------------------------------------------------------


def stream(*name: str | int, **root: int) -> list[float]:
    return seeds.generator(*name, **root).random(5).tolist()


def test_the_same_name_is_the_same_stream_in_any_order_of_work() -> None:
    first, second = stream("bootstrap", "gender"), stream("bootstrap", "age")
    assert stream("bootstrap", "age") == second
    assert stream("bootstrap", "gender") == first
    assert first != second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ("b", "a")),
        (("a",), ("a", "")),
        ((1,), ("1",)),
        ((1, 2), (12,)),
        (("a', 'b",), ("a", "b")),
    ],
)
def test_other_names_are_other_streams(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert stream(*one) != stream(*other)


def test_another_root_is_another_stream() -> None:
    assert stream("a", root=1) != stream("a", root=2)
    assert stream("a") == stream("a", root=seeds.ROOT_SEED)


def test_a_stream_is_the_same_on_every_machine_and_in_every_version() -> None:
    """Published exhibits rest on this stream; Python's own hash would give another in each process."""
    assert seeds.generator("bootstrap", "gender", "Male").integers(0, 1000, 5).tolist() == [856, 710, 821, 318, 41]


def test_a_generator_needs_a_name() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        seeds.generator()


def test_shuffles_are_permutations_from_their_own_seed() -> None:
    orders = s.shuffles(9, 500)
    assert orders.shape == (500, 9)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(9), (500, 1)))
    np.testing.assert_array_equal(s.shuffles(9, 500), orders)
    assert (s.shuffles(9, 500, 1) != orders).any()
    # Every user comes first about equally often.
    first = np.bincount(orders[:, 0], minlength=9) / 500
    assert np.abs(first - 1 / 9).max() < 5 * math.sqrt(1 / 9 * 8 / 9 / 500)
