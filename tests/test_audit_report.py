"""The checks of a printed table: closed forms of the family, each check's words, what cannot be checked, the command."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from fairnb import cli
from fairnb.audit import family
from fairnb.audit.printed import read
from fairnb.audit.report import report
from fairnb.errors import DataError, ParameterError

PUBLISHED = Path(__file__).resolve().parents[1] / "data" / "published"
NAMES = [
    "what was read",
    "granularity",
    "δ and the means",
    "dispersion and test",
    "cells that do not go together",
    "range and SD",
    "p-values as a family",
    "users and detectable differences",
]


@pytest.fixture
def typed(tmp_path):
    def run(text, roles=None):
        file = tmp_path / "table.csv"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(file, roles)

    return run


def checks(printed, **options):
    found = report(printed, **options)
    assert [check.name for check in found] == NAMES
    for check in found:
        assert all((check.question, check.method, check.result, check.consequence))
        assert "wrong" not in check.result + check.consequence
        assert "nan" not in check.result
        assert "\n" not in check.result
    return {check.name: check.result for check in found}


def rows_of(n1=21, n2=14, unit=3, rows=8, seed=5):
    """A table made from users: values are whole multiples of 1/unit, Welch's test, root of the mean variance."""
    rng = np.random.default_rng(seed)
    found = []
    for row in range(rows):
        a, b = rng.integers(-unit, unit + 1, n1) / unit, rng.integers(-unit, unit + 1, n2) / unit
        p = stats.ttest_ind(a, b, equal_var=False).pvalue
        sd = math.sqrt((a.var() + b.var()) / 2)
        found.append(
            [f"row {row}", f"{a.mean():.4f}", f"{b.mean():.4f}", f"{a.mean() - b.mean():.4f}", f"{p:.3f}", f"{sd:.4f}"]
        )
    return found


def table(rows, header="label,group1,group2,delta,p,spread"):
    return "\n".join([header, *(",".join(row) for row in rows)]) + "\n"


# --- The family, by closed form ---


def test_differences_within_the_rounding_of_three_cells(typed):
    printed = typed("group1,group2,delta\n0.30,0.10,0.20\n0.30,0.10,0.21\n0.30,0.10,0.22\n0.30,,0.2\n")
    found = family.differences(printed)
    assert found.index.tolist() == [0, 1, 2]
    assert found["slack"].to_numpy() == pytest.approx(0.015, abs=1e-9)
    assert found["within"].tolist() == [True, True, False]
    assert family.differences(typed("group1,group2\n1,2\n")).empty


def test_a_family_of_p_values():
    p = [0.01, 0.02, 0.9, math.nan, 0.5]
    found = family.p_family(p, 0.05)
    assert (found["count"], found["below"]) == (4, 2)
    assert found["expected"] == pytest.approx(0.2)
    none, one = 0.95**4, 4 * 0.05 * 0.95**3
    assert found["at_least"] == pytest.approx(1 - none - one)
    assert found["at_most"] == pytest.approx(none + one + 6 * 0.05**2 * 0.95**2)
    # BH: min(4·0.01/1, 4·0.02/2) = 0.04, twice; Holm: 4·0.01 and 3·0.02.
    assert found["bh_smallest"] == pytest.approx(0.04)
    assert found["bh_below"] == 2
    assert found["holm_smallest"] == pytest.approx(0.04)
    assert found["holm_below"] == 1
    assert family.p_family(np.arange(0.5, 100) / 100)["uniform_p"] > 0.99
    assert family.p_family([0.5] * 50)["uniform_p"] < 1e-6


def test_an_empty_family_has_counts_and_no_probabilities():
    found = family.p_family([math.nan])
    assert (found["count"], found["below"], found["bh_below"]) == (0, 0, 0)
    assert math.isnan(found["at_least"])


@pytest.mark.parametrize("k", [2, 3, 4, 7, 12])
def test_range_and_sd_reach_their_two_ends(k):
    middle = np.array([0.0, *[0.5] * (k - 2), 1.0])
    ends = np.array([0.0, 1.0] * k)
    found = family.range_against_sd([1.0, 1.0], [middle.std(), ends.std()], [9, 9], [9, 9])
    assert found["fewest"].tolist() == [k, 2]
    assert not found["too_large"].any()


def test_an_sd_above_half_the_range_is_found_beyond_rounding():
    found = family.range_against_sd([0.10, 0.10, 0.10, math.nan], [0.05, 0.0525, 0.06, 0.1], [2, 2, 2, 2], [4, 4, 4, 4])
    assert found["too_large"].tolist() == [False, False, True, False]
    assert math.isnan(found["fewest"][3])
    # Rounded, 0.0525 may be half of 0.1049; with four decimals of the range it is not.
    assert family.range_against_sd([0.1], [0.0525], [4], [4])["too_large"].tolist() == [True]


def test_the_detectable_difference_is_detected_with_that_power():
    n1, n2, sd = 45, 35, 0.16
    delta = family.detectable(sd, n1, n2)
    shift = delta / (sd * math.sqrt(1 / n1 + 1 / n2))
    limit = stats.t.isf(0.025, n1 + n2 - 2)
    power = stats.nct.sf(limit, n1 + n2 - 2, shift) + stats.nct.cdf(-limit, n1 + n2 - 2, shift)
    assert power == pytest.approx(0.8, abs=1e-4)
    assert family.detectable(2 * sd, n1, n2) == pytest.approx(2 * delta)
    for unknown in ((math.nan, 45, 35), (0.16, math.nan, 35), (0.16, 45, 1), (0.0, 45, 35)):
        assert math.isnan(family.detectable(*unknown))


# --- The report ---


def test_a_table_made_from_users_gives_them_back(typed):
    found = checks(typed(table(rows_of())), total=35)
    assert "8 of 8 rows agree" in found["δ and the means"]
    assert "spread: n = 21 and 14, unit 3" in found["dispersion and test"]
    assert "root of the mean variance (population)" in found["dispersion and test"]
    assert "Welch's test: 8 of 8 rows" in found["dispersion and test"]
    assert found["cells that do not go together"] == "Every row goes together; blocks that could be checked: 1 of 1."
    assert "21 and 14 (unit 3)" in found["granularity"]
    assert "n = 21 and 14 (found with unit 3); with the median spread of" in found["users and detectable differences"]


@pytest.mark.parametrize(("column", "digit"), [(4, "p"), (1, "group1")])
def test_one_altered_digit_is_named_by_line_and_column(typed, column, digit):
    rows = rows_of()
    cell = rows[5][column]
    rows[5][column] = cell[:-2] + ("7" if cell[-2] != "7" else "2") + cell[-1]
    found = checks(typed(table(rows)), total=35)
    assert re.search(rf"^line 7, column [^:]*\b{digit}\b", found["cells that do not go together"])
    assert found["cells that do not go together"].count("line ") == 1
    assert "n = 21 and 14, unit 3" in found["dispersion and test"]
    if digit == "group1":
        assert "7 of 8 rows agree. The others: line 7, column delta." in found["δ and the means"]


def test_blocks_are_searched_apart(typed):
    rows = [["a", *row[1:]] for row in rows_of()] + [["b", *row[1:]] for row in rows_of(14, 21, seed=6)]
    found = checks(typed(table(rows)), total=35, block=["Label"])
    assert "a: spread: n = 21 and 14" in found["dispersion and test"]
    assert "b: spread: n = 14 and 21" in found["dispersion and test"]


def test_n_that_is_printed_is_used(typed):
    rows = [[*row, "21", "14"] for row in rows_of()]
    header = "label,group1,group2,delta,p,spread,n1,n2"
    found = checks(typed(table(rows, header)))
    assert "group1: all 8 means are attainable with the printed n and unit 3, 6, 9" in found["granularity"]
    assert "spread: n = 21 and 14, unit 3" in found["dispersion and test"]
    assert "n = 21 and 14 (printed)" in found["users and detectable differences"]
    rows[2][1] = "0.0100"
    found = checks(typed(table(rows, header)), unit=3)
    assert "line 4, column group1 (0.0100 is not attainable with n = 21 and unit 3)" in found["granularity"]


def test_printed_n_beyond_what_is_tried_is_said(typed):
    rows = [[*row, "21", "1400"] for row in rows_of()]
    found = checks(typed(table(rows, "label,group1,group2,delta,p,spread,n1,n2")))
    assert "n = 21 and 1400 are printed; sizes from 2 to 200 are tried" in found["dispersion and test"]
    assert "Cannot be made: n = 21 and 1400 are printed" in found["cells that do not go together"]


def test_grim_that_says_nothing_says_so(typed):
    found = checks(typed("group1,group2\n0.3,0.5\n0.1,0.2\n"), unit=10)
    assert "group1: GRIM says nothing, every size is possible (2 means with 1 decimals)" in found["granularity"]


def test_too_many_pairs_of_sizes_are_not_searched(typed):
    found = checks(typed("group1,group2,delta,p,sd\n0.3,0.5,-0.2,0.5,0.1\n"))
    assert re.search(
        r"the means alone allow [0-9,]+ pairs of sizes, too much to search; narrow with --total",
        found["dispersion and test"],
    )
    assert "no n printed and none found: the means alone" in found["users and detectable differences"]


def test_missing_p_leaves_the_other_checks(typed):
    rows = [[*row[:4], "n.s.", row[5]] for row in rows_of()]
    found = checks(typed(table(rows)), total=35)
    assert found["p-values as a family"] == "Cannot be made: no p is printed as a number."
    assert "no p is printed that would tell the test" in found["dispersion and test"]
    assert "n = 21 and 14, unit 3" in found["dispersion and test"]
    assert "8 of 8 rows agree" in found["δ and the means"]


def test_percent_is_taken_as_shares(typed):
    rows = rows_of(places := 21, 14)
    assert places == 21
    shares = [[row[0], *(f"{100 * float(cell):.2f}%" for cell in row[1:4]), row[4], row[5]] for row in rows]
    found = checks(typed(table(shares)), total=35)
    assert "percent sign; kept in percent" in found["what was read"]
    assert "spread: n = 21 and 14, unit 3" in found["dispersion and test"]


def test_semicolons_decimal_commas_and_latin_1(typed):
    text = table(rows_of()).replace(",", ";").replace(".", ",").replace("label", "größe")
    found = checks(typed(text.encode("latin-1")), total=35)
    assert "Latin-1" in found["what was read"]
    assert "with a decimal comma" in found["what was read"]
    assert "spread: n = 21 and 14, unit 3" in found["dispersion and test"]


def test_thousands_separators_are_remarked_on(typed):
    found = checks(typed('group1,group2,delta\n"1,234.5",1000.0,234.5\n'), largest=10)
    assert "with thousands separators" in found["what was read"]
    assert "1 of 1 rows agree" in found["δ and the means"]


def test_three_groups(typed):
    found = checks(typed("group1,group2,group3,delta,p,sd\n0.10,0.20,0.30,0.10,0.010,0.2\n"))
    assert found["δ and the means"] == "3 groups are printed: δ does not tell which pair it is of."
    assert "more than two groups are printed" in found["dispersion and test"]
    assert "group3: n·u" in found["granularity"] or "group3: GRIM" in found["granularity"]
    assert "1 p-values; below 0.05: 1" in found["p-values as a family"]


def test_a_table_of_range_and_sd_runs_with_roles(typed):
    text = "metric,attribute,Max,Min,SNSR,SNSV\nx,gender,0.70,0.60,0.1000,0.0500\nx,race,0.72,0.52,0.2000,0.0600\ny,age,0.5,0.4,0.1,0.0700\n"
    found = checks(typed(text, {"group1": "Max", "group2": "Min"}))
    assert found["range and SD"] == (
        "SNSR and SNSV, 3 rows. The fewest groups that a row needs (rows with so many): 2 in 2, 6 in 1. "
        "SD above half the range: line 4, column SNSV."
    )
    assert "no δ is printed" in found["δ and the means"]
    assert "no p is printed" in found["p-values as a family"]
    assert "no n printed and none found" in found["users and detectable differences"]
    as_delta = checks(typed(text, {"group1": "Max", "group2": "Min", "delta": "SNSR"}))
    assert as_delta["range and SD"] == found["range and SD"]
    assert "3 of 3 rows agree" in as_delta["δ and the means"]


def test_a_dispersion_of_the_two_means_is_told(typed):
    text = "group1,group2,delta,SNSR,SNSV\n" + "".join(
        f"{a:.3f},{b:.3f},{a - b:.3f},{abs(a - b):.3f},{abs(a - b) / 2:.4f}\n" for a, b in ((0.1, 0.35), (0.2, 0.11))
    )
    result = checks(typed(text), unit=7, largest=20)["dispersion and test"]
    assert "snsr: range of the group means in all 2 rows" in result
    assert "snsv: population SD of the group means in all 2 rows" in result


def test_several_sizes_that_fit_are_not_called_found(typed):
    rows = [row[1:4] + row[5:] for row in rows_of(rows=1)]
    found = checks(typed(table(rows, "group1,group2,delta,spread")), unit=3, largest=40)
    assert re.search(r"\([0-9]+ pairs of sizes with unit 3, so n is not told\)", found["dispersion and test"])
    assert "none found: several sizes fit" in found["users and detectable differences"]
    assert "Cannot be made: several sizes fit" in found["cells that do not go together"]


def test_delta_the_other_way_round_is_told(typed):
    found = checks(typed("group1,group2,delta\n0.30,0.10,-0.20\n0.30,0.10,0.20\n"))
    assert found["δ and the means"] == (
        "1 of 2 rows agree. The others: line 2, column delta. In 1 of them δ is group2 − group1."
    )


def test_the_bound_is_what_print_needs(typed):
    rng = np.random.default_rng(8)
    lines = []
    for _ in range(8):
        a, b = rng.integers(-6, 7, 21) / 2, rng.integers(-6, 7, 14) / 2
        p, sd = stats.ttest_ind(a, b, equal_var=False).pvalue, math.sqrt((a.var() + b.var()) / 2)
        gap = max(a.max(), b.max()) - min(a.min(), b.min())
        lines.append(f"{a.mean():.4f},{b.mean():.4f},{a.mean() - b.mean():.4f},{p:.3f},{sd:.4f},{gap:.1f}")
    result = checks(typed("\n".join(["group1,group2,delta,p,rms,gap all", *lines])), total=35)["dispersion and test"]
    assert "rms: n = 21 and 14, unit 2" in result
    assert "gap all: whole multiples of 1/2 in all 8 rows" in result
    assert "values of users up to 3 in size" in result


def test_p_outside_its_range_is_named(typed):
    found = checks(typed("group1,group2,p\n0.1,0.2,0.5\n0.1,0.2,1.5\n"))
    assert "1 p-values" in found["p-values as a family"]
    assert "No probability: line 3, column p." in found["p-values as a family"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha = 0.0"),
        ({"largest": 1}, "largest = 1"),
        ({"total": 3}, "total = 3"),
        ({"unit": 0}, "unit = 0"),
        ({"bound": math.nan}, "bound = nan"),
    ],
)
def test_numbers_out_of_range(typed, options, words):
    with pytest.raises(ParameterError, match=words):
        report(typed("group1,group2\n1,2\n"), **options)


def test_columns_that_are_not_there(typed):
    printed = typed("label,group1,group2\na,1,2\n")
    with pytest.raises(DataError, match="no column lable to split by; expected one of label, group1, group2"):
        report(printed, block=["lable"])
    with pytest.raises(DataError, match="no column sd of numbers"):
        report(printed, spread="sd")


def test_the_papers_printed_tables_run():
    found = checks(read(PUBLISHED / "fairevalllm_table2.csv"), total=80, block=["attribute", "notion", "benefit"])
    for sizes in ("gender NSD hit: n = 45 and 35", "gender NCSD rank: n = 35 and 45", "age NSD hit: n = 73 and 7"):
        assert sizes in found["users and detectable differences"]
    assert "72 p-values" in found["p-values as a family"]
    found = checks(read(PUBLISHED / "fairllm_table1.csv", {"group1": "Max", "group2": "Min", "delta": "SNSR"}))
    assert "48 of 48 rows agree" in found["δ and the means"]
    assert "snsr and snsv, 48 rows" in found["range and SD"]


# --- The command ---


def test_the_command_prints_each_check_and_writes_them(tmp_path):
    file, out = tmp_path / "typed.csv", tmp_path / "out.csv"
    file.write_text(table(rows_of(), "label,Max,Min,delta,p,spread"), encoding="utf-8")
    arguments = ["audit", str(file), "--role", "group1=Max", "--role", "group2=Min", "--total", "35", "--csv", str(out)]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    for name in NAMES:
        assert re.search(f"^{name}: .*\\?$", done.output, re.MULTILINE)
    assert "n = 21 and 14, unit 3" in done.output
    assert max(len(line) for line in done.output.splitlines() if line.startswith("  ")) <= 110
    with out.open(encoding="utf-8", newline="") as opened:
        written = list(csv.DictReader(opened))
    assert [row["name"] for row in written] == NAMES
    assert list(written[0]) == ["name", "question", "method", "result", "consequence"]


def test_the_help_fits_a_terminal():
    lines = CliRunner().invoke(cli.app, ["audit", "--help"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("ROLE=COLUMN" in line for line in lines)


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        (b"a,b\n1,2\n", [], "no column reads as a group's mean"),
        (b"", [], "empty"),
        (b"\x00\x01", [], "not a text"),
        (b"group1,group2\n1,2\n", ["--role", "group1"], "--role group1: expected a role and a column"),
        (b"group1,group2\n1,2\n", ["--role", "p=group1", "--role", "p=group2"], "a role is given twice"),
        (b"group1,group2\n1,2\n", ["--role", "p=q"], "role p names column q, which is not there"),
        (b"group1,group2\n1,2\n", ["--block", "x"], "no column x to split by"),
        (b"group1,group2\n1,2\n", ["--bound", "0"], "bound = 0.0: expected a number above 0"),
    ],
)
def test_an_expected_error_is_one_line(tmp_path, monkeypatch, capsys, content, arguments, words):
    file = tmp_path / "typed.csv"
    file.write_bytes(content)
    monkeypatch.setattr("sys.argv", ["fairnb", "audit", str(file), *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
