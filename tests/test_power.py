"""Power: simulated tests equal the plain ones, rates behave, formulas hold where they should."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairnb import power, statistics
from fairnb.errors import ParameterError
from fairnb.power import Values

# ΔB of HitRate@3 as observed: mostly 0.
SPARSE = Values(np.array([-2, -1, 0, 1, 2]) / 3, np.array([0.02, 0.06, 0.84, 0.06, 0.02]))
BROAD = Values(np.linspace(-1, 1, 7), np.array([0.1, 0.15, 0.15, 0.2, 0.15, 0.15, 0.1]))


def test_a_distribution_is_that_of_its_data():
    values = Values.of([0.1 + 0.2, 0.3, 0, 0])
    assert values.support.tolist() == [0, 0.3]
    assert values.shares.tolist() == [0.5, 0.5]
    assert values.mean == pytest.approx(0.15)
    assert values.sd == pytest.approx(0.15)


@pytest.mark.parametrize("observed", [[], [0.1, math.nan], [math.inf]])
def test_data_that_are_none_are_refused(observed):
    with pytest.raises(ParameterError, match="observed values: expected"):
        Values.of(observed)


@given(st.floats(-0.6, 0.6))
def test_a_tilt_moves_the_mean_by_exactly_so_much(by):
    moved = BROAD.shifted(by)
    assert moved.mean - BROAD.mean == pytest.approx(by, abs=1e-9)
    assert moved.shares.sum() == pytest.approx(1)
    assert (moved.shares > 0).all()
    # An exponential tilt: the log of the ratio of shares is linear in the value.
    slopes = np.diff(np.log(moved.shares / BROAD.shares)) / np.diff(BROAD.support)
    assert slopes == pytest.approx(np.full(6, slopes[0]), abs=1e-6)


def test_no_tilt_is_the_distribution_itself_and_one_too_far_is_refused():
    assert SPARSE.shifted(0) is SPARSE
    for by in (0.7, -0.7, 5):
        with pytest.raises(ParameterError, match=r"cannot be had from values between -0\.666667 and 0\.666667"):
            SPARSE.shifted(by)


def plain(test: str, x: np.ndarray, y: np.ndarray) -> float:
    if test in ("student", "welch"):
        return statistics.t_test(x, y, test)
    if statistics.no_variation(np.concatenate([x, y])):
        return math.nan
    return float(stats.mannwhitneyu(x.round(9), y.round(9), method="asymptotic").pvalue)


@pytest.mark.parametrize("test", ["student", "welch", "mann-whitney"])
@pytest.mark.parametrize(("n1", "n2"), [(45, 35), (30, 3), (2, 2)])
@pytest.mark.parametrize("null", [SPARSE, BROAD], ids=["sparse", "broad"])
def test_p_values_of_counts_are_those_of_users(test, n1, n2, null):
    rng = np.random.default_rng(5)
    counts1, counts2 = (rng.multinomial(n, null.shares, size=120) for n in (n1, n2))
    found = power.p_values(test, null.support, counts1, counts2)
    expected = [
        plain(test, np.repeat(null.support, one), np.repeat(null.support, other))
        for one, other in zip(counts1, counts2, strict=True)
    ]
    assert np.isfinite(found).any()
    assert found.tolist() == pytest.approx(expected, nan_ok=True, abs=1e-12)


def test_the_permutation_test_is_that_of_plain_relabellings():
    rng = np.random.default_rng(6)
    counts1, counts2 = (rng.multinomial(n, BROAD.shares, size=40) for n in (12, 9))
    found = power.p_values("permutation", BROAD.support, counts1, counts2, permutations=4000)
    expected = []
    for one, other in zip(counts1, counts2, strict=True):
        x, y = np.repeat(BROAD.support, one), np.repeat(BROAD.support, other)
        expected.append(statistics.permutation_test(x, y, resamples=4000))
    # Two independent sets of 4,000 relabellings: the difference has a standard error of at most 0.0112.
    assert np.abs(found - expected).max() < 5 * 0.0112
    assert np.abs(found - expected).mean() < 0.01


def test_exactly_equal_means_are_never_significant_and_all_equal_values_have_no_p():
    same = np.array([[2, 5, 2]])
    support = np.array([-1 / 3, 0, 1 / 3])
    assert power.p_values("permutation", support, same, same).tolist() == [1.0]
    nothing = np.array([[0, 9, 0]])
    for test in power.TESTS:
        assert math.isnan(power.p_values(test, support, nothing, nothing)[0])


def test_false_positives_keep_the_level_where_the_test_holds():
    frame = power.rejections(BROAD, [0.0], 60, 50, replicates=4000, permutations=199)
    for row in frame.itertuples():
        # A binomial count of 4,000 with 5 %: five standard errors, and the permutation test is conservative.
        assert abs(row.rate - 0.05) < 5 * math.sqrt(0.05 * 0.95 / 4000) + (0.01 if row.test == "permutation" else 0)
        assert row.low < row.rate < row.high
        assert row.rejected == round(row.rate * row.replicates)


def test_power_grows_with_the_effect_and_formula_and_simulation_agree_with_many_users():
    effects = [0.0, 0.05, 0.1, 0.15]
    frame = power.rejections(SPARSE, effects, 300, 260, replicates=3000, permutations=99, tests=power.FORMULAS)
    for test, part in frame.groupby("test"):
        assert part["rate"].is_monotonic_increasing
        formula = [power.formula_power(SPARSE, effect, 300, 260, str(test)) for effect in effects]
        assert np.abs(part["rate"] - formula).max() < 0.02 + 3 * math.sqrt(0.25 / 3000)


def test_detections_on_a_group_without_variation_are_counted():
    frame = power.rejections(SPARSE, [0.2], 70, 3, replicates=2000, permutations=99, tests=power.FORMULAS)
    flat = frame.set_index("test")
    # Of three users drawn from the null, all are unchanged in 0.84³ of the experiments.
    assert flat["constant"].iloc[0] / 2000 == pytest.approx(0.84**3, abs=5 * math.sqrt(0.24 / 2000))
    assert (flat["rejected_constant"] <= flat["rejected"]).all()
    assert flat.loc["welch", "rejected_constant"] > 0.9 * flat.loc["welch", "rejected"]


def test_one_effect_gives_the_same_rates_whatever_else_is_asked():
    alone = power.rejections(SPARSE, [0.1], 20, 20, replicates=200, permutations=99)
    among = power.rejections(SPARSE, [0.0, 0.1], 20, 20, replicates=200, permutations=99)
    assert among[among["effect"] == 0.1]["rejected"].tolist() == alone["rejected"].tolist()


def test_formula_of_student_is_that_of_equal_variances():
    # At effect 0 power is the level, for both.
    for test in power.FORMULAS:
        assert power.formula_power(BROAD, 0, 40, 30, test) == pytest.approx(0.05)
    balanced = [power.formula_power(BROAD, 0.2, 40, 40, test) for test in power.FORMULAS]
    assert balanced[0] == pytest.approx(balanced[1], abs=0.002)


@pytest.mark.parametrize("test", power.FORMULAS)
def test_the_smallest_detectable_effect_has_just_the_power(test):
    effect = power.smallest_detectable(BROAD, 45, 35, test)
    assert power.formula_power(BROAD, effect, 45, 35, test) == pytest.approx(0.8, abs=1e-6)
    assert power.formula_power(BROAD, effect * 0.9, 45, 35, test) < 0.8


def test_an_effect_out_of_reach_is_undefined():
    narrow = Values(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    assert math.isnan(power.smallest_detectable(narrow, 2, 2, "student"))


@pytest.mark.parametrize("ratio", [1.0, 35 / 45, 7 / 73])
def test_the_needed_number_is_the_smallest(ratio):
    n1 = power.needed_n(SPARSE, 0.1, ratio)
    assert power.formula_power(SPARSE, 0.1, n1, power.second_n(n1, ratio), "welch") >= 0.8
    assert power.formula_power(SPARSE, 0.1, n1 - 1, power.second_n(n1 - 1, ratio), "welch") < 0.8


def test_crossing_is_where_the_line_crosses():
    assert power.crossing([0, 1, 2], [0.05, 0.7, 0.9]) == pytest.approx(1.5)
    assert power.crossing([0, 1, 2, 3], [0.05, 0.7, 0.69, 0.9]) == pytest.approx(2.5)
    assert power.crossing([0, 1], [0.9, 0.95]) == 0
    assert math.isnan(power.crossing([0, 1], [0.1, 0.2]))


@pytest.mark.parametrize("bootstrap_replicates", [50, 400])
def test_a_test_on_bootstrap_means_finds_what_theory_expects_it_to_find_in_nothing(bootstrap_replicates):
    frame = power.bootstrap_means_test_rate(BROAD, 60, 50, replicates=400, bootstrap_replicates=bootstrap_replicates)
    expected = power.bootstrap_means_formula(bootstrap_replicates)
    assert frame["rate"].iloc[0] == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / 400))
    assert expected > 0.7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power.rejections(SPARSE, [0], 1, 9), "n1 = 1, n2 = 9: expected 2 users or more"),
        (lambda: power.rejections(SPARSE, [0], 9, 9, alpha=1.0), "alpha = 1.0: expected a level"),
        (lambda: power.rejections(SPARSE, [0], 9, 9, tests=["z"]), "test = 'z': expected one of student"),
        (lambda: power.rejections(SPARSE, [9], 9, 9), "effect 9: a mean of"),
        (lambda: power.formula_power(SPARSE, 0.1, 9, 9, "permutation"), "test = 'permutation': no formula"),
        (lambda: power.needed_n(SPARSE, 0.0), "effect = 0: expected"),
        (lambda: power.needed_n(SPARSE, 0.1, ratio=0), "ratio = 0"),
        (lambda: power.needed_n(SPARSE, 1e-6), "more than ten million users"),
    ],
)
def test_bad_arguments_are_one_line(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
