"""From print alone: what is searched is found, over random tables made with known sizes, units, formulas and tests."""

import math
from dataclasses import asdict
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fairnb import paths, statistics
from fairnb.audit import reconstruct
from fairnb.audit.reconstruct import FORMULAS, TESTS, Hypothesis
from fairnb.errors import DataError

PLACES = {"group1": 4, "group2": 4, "delta": 4, "p": 3, "sd": 4}
SETTINGS = 220


def dispersion(x: np.ndarray, y: np.ndarray, formula: str, ddof: int) -> float:
    """The dispersion of two groups by one of the formulas, from the users' values."""
    v1, v2 = (statistics.variance(values, ddof) for values in (x, y))
    if formula == "pooled SD":
        squares = v1 * (x.size - ddof) + v2 * (y.size - ddof)
        return math.sqrt(squares / (x.size + y.size - 2 * ddof))
    if formula == "SD over all users":
        return math.sqrt(statistics.variance(np.concatenate([x, y]), ddof))
    if formula == "mean of the two SDs":
        return (math.sqrt(v1) + math.sqrt(v2)) / 2
    return math.sqrt((v1 + v2) / 2)


def printed_row(x: np.ndarray, y: np.ndarray, hypothesis: Hypothesis) -> dict[str, float]:
    numbers = {
        "group1": statistics.mean(x),
        "group2": statistics.mean(y),
        "delta": statistics.mean(x) - statistics.mean(y),
        "p": statistics.t_test(x, y, hypothesis.test),
        "sd": dispersion(x, y, hypothesis.formula, hypothesis.ddof),
    }
    row = {name: round(value, PLACES[name]) for name, value in numbers.items()}
    return row | {f"{name}_places": places for name, places in PLACES.items()}


def drawn(number: int) -> tuple[Hypothesis, list[tuple[np.ndarray, np.ndarray]]]:
    """A random setting, and the users' values behind each row of a table."""
    rng = np.random.default_rng([20240502, number])
    hypothesis = Hypothesis(
        int(rng.integers(5, 61)),
        int(rng.integers(5, 61)),
        int(rng.integers(1, 6)),
        str(rng.choice(FORMULAS)),
        int(rng.integers(0, 2)),
        str(rng.choice(TESTS)),
    )
    rows = []
    for _ in range(int(rng.integers(8, 15))):
        # Mostly unchanged users, as in deviations of hit rates; never a row in which nobody changed.
        shares = rng.dirichlet(np.ones(2 * hypothesis.unit + 1))
        shares[hypothesis.unit] += rng.uniform(0, 2)
        values = np.arange(-hypothesis.unit, hypothesis.unit + 1) / hypothesis.unit
        x, y = (rng.choice(values, n, p=shares / shares.sum()) for n in (hypothesis.n1, hypothesis.n2))
        x[0], x[1] = values[0], values[-1]
        rows.append((x, y))
    return hypothesis, rows


@lru_cache
def searched() -> list[tuple[Hypothesis, list[tuple[np.ndarray, np.ndarray]], pd.DataFrame]]:
    """The search over every random setting, which is told neither sizes nor unit but their largest."""
    found = []
    for number in range(SETTINGS):
        truth, users = drawn(number)
        rows = pd.DataFrame([printed_row(x, y, truth) for x, y in users])
        found.append(
            (
                truth,
                users,
                reconstruct.search(rows, spread="sd", units=range(1, 6), largest=60, total=truth.n1 + truth.n2),
            )
        )
    return found


def hypotheses(frame: pd.DataFrame) -> list[Hypothesis]:
    return [Hypothesis(**row) for row in frame[list(Hypothesis.__dataclass_fields__)].to_dict("records")]


def test_the_setting_that_made_a_table_is_always_found():
    for truth, users, frame in searched():
        assert coarse(truth, users) in hypotheses(frame), truth
        assert (frame["fitting"] == frame["rows"]).all()


def coarse(truth: Hypothesis, users: list[tuple[np.ndarray, np.ndarray]]) -> Hypothesis:
    """The setting with the coarsest unit in which all users' values are whole: print cannot tell it from the true one."""
    values = np.concatenate([value for pair in users for value in pair])
    unit = next(unit for unit in range(1, 6) if np.allclose(values * unit, (values * unit).round()))
    return Hypothesis(truth.n1, truth.n2, unit, truth.formula, truth.ddof, truth.test)


def test_in_most_settings_nothing_else_is_found_and_hardly_ever_other_sizes():
    """Where groups are nearly equal in size, formulas and tests give nearly the same digits, and some remain."""
    only, alike, elsewhere = 0, 0, 0
    for truth, users, frame in searched():
        others = [one for one in hypotheses(frame) if one != coarse(truth, users)]
        only += not others
        for other in others:
            if (other.n1, other.n2) != (truth.n1, truth.n2):
                # Other sizes only where a finer unit makes up for them: 45 halves are as many as 18 fifths.
                assert other.unit > coarse(truth, users).unit
                elsewhere += 1
            same_print = all(printed_row(x, y, other) == printed_row(x, y, truth) for x, y in users)
            alike += same_print
        if others:
            finer = all(other.unit > truth.unit for other in others)
            assert finer or abs(truth.n1 - truth.n2) < 0.4 * max(truth.n1, truth.n2)
    print(
        f"{SETTINGS} settings: {only} with one hypothesis left; others: {alike} print alike, {elsewhere} with other sizes"
    )
    assert only > 0.85 * SETTINGS
    assert elsewhere <= 0.01 * SETTINGS


def found_by_trying_all(row: dict[str, float], one: Hypothesis) -> bool:
    """Whether any whole sums and sums of squares give a printed row: all of them are tried, none is derived."""
    half = {name: 0.5 * 10.0**-places + 1e-9 for name, places in PLACES.items()}
    ns, total, unit = (one.n1, one.n2), one.n1 + one.n2, one.unit
    sums = [
        [m for m in range(-n * unit, n * unit + 1) if abs(m / (n * unit) - row[name]) <= half[name]]
        for n, name in zip(ns, ("group1", "group2"), strict=True)
    ]
    for pair in product(*sums):
        gap = pair[0] / (one.n1 * unit) - pair[1] / (one.n2 * unit)
        if abs(gap - row["delta"]) > half["delta"]:
            continue
        deviations = []
        for m, n in zip(pair, ns, strict=True):
            q = np.arange(n * unit**2 + 1)
            q = q[(q % 2 == m % 2) & (q * n >= m * m) & (q >= abs(m))]
            deviations.append(np.maximum((q - m * m / n) / unit**2, 0.0))
        ss1, ss2 = deviations[0][:, None], deviations[1]
        v1, v2 = ss1 / (one.n1 - one.ddof), ss2 / (one.n2 - one.ddof)
        sd = {
            "pooled SD": np.sqrt((ss1 + ss2) / (total - 2 * one.ddof)),
            "SD over all users": np.sqrt((ss1 + ss2 + one.n1 * one.n2 / total * gap**2) / (total - one.ddof)),
            "mean of the two SDs": (np.sqrt(v1) + np.sqrt(v2)) / 2,
            "root of the mean variance": np.sqrt((v1 + v2) / 2),
        }[one.formula]
        first, second = np.nonzero(np.abs(sd - row["sd"]) <= half["sd"])
        sds = np.sqrt(ss1[first, 0] / (one.n1 - 1)), np.sqrt(ss2[second] / (one.n2 - 1))
        with np.errstate(all="ignore"):
            p = stats.ttest_ind_from_stats(
                gap, sds[0], one.n1, 0.0, sds[1], one.n2, equal_var=one.test == "student"
            ).pvalue
        if (np.abs(p - row["p"]) <= half["p"]).any():
            return True
    return False


def test_whatever_is_found_beside_the_true_setting_can_have_made_every_row():
    rows = 0
    for truth, users, frame in searched():
        for other in hypotheses(frame):
            if other != coarse(truth, users):
                rows += len(users)
                assert all(found_by_trying_all(printed_row(x, y, truth), other) for x, y in users), (truth, other)
    assert rows


def test_fits_says_what_trying_all_whole_numbers_says():
    rng = np.random.default_rng(5)
    said = []
    for truth, users, _ in searched()[:80]:
        names = str(rng.choice(FORMULAS)), int(rng.integers(2)), str(rng.choice(TESTS))
        one = Hypothesis(truth.n1, truth.n2, coarse(truth, users).unit, *names)
        rows = pd.DataFrame([printed_row(x, y, truth) for x, y in users[:5]])
        fitting = reconstruct.fits(rows, one, spread="sd").tolist()
        assert fitting == [found_by_trying_all(row, one) for row in rows.to_dict("records")], (truth, one)
        said += fitting
    assert said.count(True) >= 20
    assert said.count(False) >= 20


def test_sizes_are_found_without_their_total_too():
    exact = 0
    for truth, users, _ in searched()[:40]:
        rows = pd.DataFrame([printed_row(x, y, truth) for x, y in users])
        found = reconstruct.search(rows, spread="sd", units=[coarse(truth, users).unit], largest=60)
        assert coarse(truth, users) in hypotheses(found)
        exact += set(map(tuple, found[["n1", "n2"]].to_numpy())) == {(truth.n1, truth.n2)}
    print(f"sizes without their total: exactly the true ones in {exact} of 40")
    assert exact > 0.9 * 40


def test_one_digit_that_was_changed_is_named():
    rng = np.random.default_rng(7)
    caught = {name: [0, 0] for name in PLACES}
    for truth, users, _ in searched()[:120]:
        rows = pd.DataFrame([printed_row(x, y, truth) for x, y in users])
        row, name = int(rng.integers(len(rows))), str(rng.choice(list(PLACES)))
        step = int(rng.integers(1, 9)) * 10.0 ** -int(rng.integers(PLACES[name] - 1, PLACES[name] + 1))
        rows.loc[row, name] = round(
            rows.loc[row, name] + (step if name != "p" or rows.loc[row, name] < 0.9 else -step), 4
        )
        found = reconstruct.misfits(rows, truth, spread="sd")
        caught[name][1] += 1
        assert set(found["row"]) <= {row}
        if len(found):
            caught[name][0] += 1
            assert name in found["cells"].iloc[0].split(", ")
    print("changed digits found:", {name: f"{seen} of {of}" for name, (seen, of) in caught.items()})
    for name in ("group1", "group2", "delta"):
        seen, of = caught[name]
        assert of >= 10
        assert seen >= 0.9 * of


def test_a_table_with_one_changed_digit_still_has_its_setting():
    truth, users, _ = searched()[0]
    rows = pd.DataFrame([printed_row(x, y, truth) for x, y in users])
    rows.loc[2, "group1"] = round(rows.loc[2, "group1"] + 0.0003, 4)
    found = reconstruct.search(rows, spread="sd", units=range(1, 6), largest=60, total=truth.n1 + truth.n2)
    assert coarse(truth, users) in hypotheses(found)
    assert (found["fitting"] == len(rows) - 1).all()
    (named,) = reconstruct.misfits(rows, truth, spread="sd").to_dict("records")
    assert (named["row"], named["cells"]) == (2, "group1")


def test_attainable_by_hand():
    # 0.3333 is one of three, and no half of anything.
    assert list(reconstruct.attainable(0.3333, 4, 3, 1)) == [1]
    assert list(reconstruct.attainable(0.3333, 4, 2, 1)) == []
    assert list(reconstruct.attainable(-0.0074, 4, 45, 3)) == [-1]
    # Two decimals of a thousand users say nothing.
    assert len(reconstruct.attainable(0.12, 2, 1000, 1)) == 11
    # Both ends of the rounding interval count: 0.125 may be printed as 0.12 or as 0.13.
    assert list(reconstruct.attainable(0.12, 2, 8, 1)) == [1] == list(reconstruct.attainable(0.13, 2, 8, 1))


def test_sizes_by_hand():
    assert reconstruct.sizes([0.3333, 0.6667], [4, 4], 1, 12).tolist() == [3, 6, 9, 12]
    assert reconstruct.sizes([0.3333, 0.5], [4, 4], 1, 12).tolist() == [6, 12]
    assert reconstruct.sizes([0.3333, 0.5], [4, 4], 1, 5, odd=1).tolist() == [2, 3, 4]
    assert reconstruct.sizes([math.nan, 0.5], [4, 4], 1, 4).tolist() == [2, 4]
    assert reconstruct.sizes([0.1234], [4], 1, 20).tolist() == []


@pytest.mark.parametrize(("notion", "sizes"), [("NSD", (45, 35)), ("NCSD", (35, 45))])
def test_the_printed_table_2_says_by_itself_how_it_was_made(notion, sizes):
    table = pd.read_csv(paths.published() / "fairevalllm_table2.csv")
    rows = table[(table["attribute"] == "gender") & (table["notion"] == notion) & (table["benefit"] == "hit")]
    rows = rows.assign(
        **{f"{name}_places": 3 if name == "p" else 4 for name in ("group1", "group2", "delta", "p", "ssnr")}
    )
    found = reconstruct.search(rows, spread="ssnr", units=range(1, 6), largest=100)
    assert hypotheses(found) == [Hypothesis(*sizes, 3, "root of the mean variance", 0, "welch")]


def table(**columns) -> pd.DataFrame:
    rows = pd.DataFrame({"group1": [0.0], "group2": [0.0], "delta": [0.0], "p": [math.nan], "sd": [math.nan]} | columns)
    return rows.assign(**{f"{name}_places": places for name, places in PLACES.items()})


def test_what_is_not_printed_is_no_condition():
    one = Hypothesis(10, 10, 1, "pooled SD", 1, "student")
    assert reconstruct.fits(table(), one, spread="sd").tolist() == [True]
    assert reconstruct.fits(table(group1=[0.05]), one, spread="sd").tolist() == [False]
    missing = table(group1=[math.nan], group2=[0.2], delta=[0.1])
    assert reconstruct.fits(missing, one, spread="sd").tolist() == [True]
    assert reconstruct.fits(missing.assign(delta=0.15), one, spread="sd").tolist() == [False]


def test_a_constant_group_fits_welch_and_two_constant_groups_have_no_p():
    x, y = np.zeros(7), np.repeat([0, 1.0], [20, 3])
    one = Hypothesis(7, 23, 1, "root of the mean variance", 0, "welch")
    row = pd.DataFrame([printed_row(x, y, one)])
    assert reconstruct.fits(row, one, spread="sd").tolist() == [True]
    both = table(p=[0.5], sd=[0.0])
    assert reconstruct.fits(both, Hypothesis(7, 7, 1, *FORMULAS[:1], 1, "welch"), spread="sd").tolist() == [False]


@pytest.mark.parametrize("test", TESTS)
def test_two_constant_groups_with_different_means_print_a_p_of_zero(test):
    """SciPy divides by a standard error of 0 there, and returns 0."""
    one = Hypothesis(7, 9, 1, "pooled SD", 1, test)
    rows = table(group1=[1.0, 1.0], group2=[0.0, 0.0], delta=[1.0, 1.0], p=[0.0, 0.5], sd=[0.0, 0.0])
    assert reconstruct.fits(rows, one, spread="sd").tolist() == [True, False]


def test_formulas_over_group_means_are_told():
    rows = table(group1=[0.3, 0.1], group2=[0.1, 0.2], delta=[0.2, -0.1], p=[0.5, 0.5], sd=[0.2, 0.1])
    found = reconstruct.group_mean_formulas(rows, "sd").set_index("formula")["reproduced"]
    assert found.to_dict() == {
        "range of the group means": 2,
        "population SD of the group means": 0,
        "sample SD of the group means": 0,
    }
    halves = reconstruct.group_mean_formulas(rows.assign(sd=[0.1, 0.05]), "sd").set_index("formula")["reproduced"]
    assert halves["population SD of the group means"] == 2


def test_a_range_over_users_is_a_whole_multiple():
    rows = table(group1=[0.0] * 3, group2=[0.0] * 3, delta=[0.0] * 3, p=[0.5] * 3, sd=[0.6667, 1.0, 0.5])
    assert reconstruct.multiples(rows, "sd", 3) == 2
    assert reconstruct.multiples(rows, "sd", 6) == 3
    assert reconstruct.multiples(rows, "sd", 3, bound=0.4) == 1


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match="rows: no column sd_places; expected group1, group2, delta, p, sd"):
        reconstruct.search(table().drop(columns="sd_places"), spread="sd")


def test_hypotheses_are_plain_values():
    one = Hypothesis(3, 4, 5, FORMULAS[0], 0, TESTS[0])
    assert Hypothesis(**asdict(one)) == one
