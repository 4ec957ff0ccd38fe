"""Claims: quotations that the paper has, checks that can come out either way, and no typed verdict."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from fairnb import fairness, paths, released
from fairnb.audit import claims, lists
from fairnb.errors import DataError
from fairnb.exhibits import audit
from fairnb.settings import Experiment

FILE = paths.published() / "claims.csv"


@pytest.fixture(scope="module")
def evidence():
    return audit.evidence(Experiment(replicates=200, permutations=200))


@pytest.fixture(scope="module")
def found(evidence):
    return claims.verdicts(claims.read(FILE), evidence).set_index("id")


def test_there_are_enough_claims_of_all_sections_and_no_verdict_is_typed(found):
    table = claims.read(FILE)
    assert len(table) >= 15
    assert {section[0] for section in table["section"]} == {"A", "5", "6"}
    assert list(table.columns) == ["id", "section", "quote", "rows", "check"]
    assert set(table["check"]) == set(claims.CHECKS)
    assert set(found["verdict"]) == {claims.SUPPORTED, claims.NOT_SUPPORTED, claims.NOT_CHECKABLE}
    assert found["why"].str.len().min() > 20


def test_quotations_are_in_the_paper(shared_folder):
    text = (shared_folder / "papers/fairevalllm.txt").read_text("utf-8")
    for old, new in (
        (r"\$\\delta_\{\\text\{gender\}\}=", "$δ = "),
        (r"\$\\delta_\{\\text\{age-gr.\}\}=", "$δ = "),
        (r"\\Delta\\mathcal\{B\}", "ΔB"),
        (r"\$", ""),
    ):
        text = re.sub(old, new, text)
    for quote in claims.read(FILE)["quote"]:
        assert quote in text


def test_the_printed_numbers_themselves_are_supported(found):
    assert (found.loc[found["check"] == "row_as_printed", "verdict"] == claims.SUPPORTED).all()


def changed(evidence, **columns):
    """Set columns of all rebuilt rows of Last.fm."""
    rows = {name: table.assign(**columns) if name == "lastfm1k" else table for name, table in evidence.rows.items()}
    return replace(evidence, rows=rows)


def verdict(check, rows, evidence):
    return claims.CHECKS[check](evidence, rows)[0]


def test_checks_follow_the_numbers(evidence):
    row = "Table 2: gender NCSD 0-shot rec-freq hit"
    significant = changed(evidence, p=0.001, p_permutation=0.001, note="")
    quiet = changed(evidence, p=0.5, p_permutation=0.5)
    assert verdict("detected", row, significant) == claims.SUPPORTED
    assert verdict("not_detected", row, significant) == claims.NOT_SUPPORTED
    assert verdict("detected", row, quiet) == claims.NOT_SUPPORTED
    assert verdict("some_row_detected", "Table 2: age", significant) == claims.SUPPORTED
    assert verdict("some_row_detected", "Table 2: age", quiet) == claims.NOT_SUPPORTED
    # A p that rests on a group without variation is no detection.
    constant = changed(evidence, p=0.001, p_permutation=0.001, note="no variation in Young")
    assert verdict("some_row_detected", "Table 2: age", constant) == claims.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("check", "rows", "shift"),
    [
        ("no_difference_left_after_correction", "Table 2: all", {"p": 1e-9}),
        ("detected_rows_are_rare", "Table 2: all", {"p": 0.01}),
        ("some_row_not_detected", "Table 2: all", {"p": 0.01}),
        ("row_as_printed", "Table 2: gender NSD 0-shot rand hit", {"delta": 0.5}),
        ("recent_frequent_is_largest", "Table 2: gender NCSD hit", {"delta": 0.0}),
        ("icl_moves_deviations", "Table 2: gender hit", {"group1": 0.0, "group2": 0.0}),
    ],
)
def test_a_check_turns_when_the_printed_table_does(evidence, check, rows, shift):
    assert verdict(check, rows, evidence) == claims.SUPPORTED
    assert verdict(check, rows, replace(evidence, table2=evidence.table2.assign(**shift))) == claims.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("check", "rows"),
    [
        ("second_group_higher", "Table 4: gender random"),
        ("second_group_mostly_higher", "Table 4: gender"),
        ("first_group_higher", "Table 4: gender recent-frequent"),
        ("difference_as_printed", "Table 4: gender ICL-1 random"),
    ],
)
def test_a_check_of_table_4_turns_when_groups_change_places(evidence, check, rows):
    assert verdict(check, rows, evidence) == claims.SUPPORTED
    swapped = evidence.intrinsic.rename(columns={"mean1": "mean2", "mean2": "mean1"})
    assert verdict(check, rows, replace(evidence, intrinsic=swapped)) == claims.NOT_SUPPORTED


def test_intrinsic_difference_is_detected_where_there_is_one(evidence):
    rows = "Table 4: all"
    assert verdict("intrinsic_difference_detected", rows, evidence) == claims.NOT_SUPPORTED
    strong = replace(evidence, intrinsic=evidence.intrinsic.assign(p_permutation=1e-4))
    assert verdict("intrinsic_difference_detected", rows, strong) == claims.SUPPORTED


def test_what_was_not_tested_cannot_be_checked(evidence):
    untested = replace(
        changed(evidence, p=math.nan, note="n < 50 in Old: described, not tested"),
        intrinsic=evidence.intrinsic.assign(p_permutation=math.nan),
    )
    row = "Table 2: gender NSD 0-shot rand hit"
    for check, rows in (
        ("detected", row),
        ("not_detected", row),
        ("some_row_detected", "Table 2: age"),
        ("intrinsic_difference_detected", "Table 4: all"),
    ):
        assert verdict(check, rows, untested) == claims.NOT_CHECKABLE
    # The means are as printed all the same.
    assert verdict("row_as_printed", row, untested) == claims.SUPPORTED


def test_signs_of_age_are_those_of_gender_where_they_are(evidence):
    assert verdict("age_has_the_signs_of_gender", "Table 4: age", evidence) == claims.NOT_SUPPORTED
    intrinsic = evidence.intrinsic.assign(mean1=0.0, mean2=0.1)
    table4 = evidence.table4.assign(delta=-0.1)
    alike = replace(evidence, intrinsic=intrinsic, table4=table4)
    assert verdict("age_has_the_signs_of_gender", "Table 4: age", alike) == claims.SUPPORTED


def test_peaks_counts_and_ranges_turn_too(evidence):
    peak = "Figure 2: lastfm1k NSD ICL-2 frequent"
    assert verdict("peak_of_figure2", peak, evidence) == claims.NOT_SUPPORTED
    table = evidence.rows["lastfm1k"]
    raised = table["delta"].where(~((table["icl"] == "ICL-2") & (table["sampling"] == "frequent")), 0.9)
    assert verdict("peak_of_figure2", peak, changed(evidence, delta=raised)) == claims.SUPPORTED
    assert verdict("lastfm_moves_less", "", evidence) == claims.SUPPORTED
    assert verdict("lastfm_moves_less", "", changed(evidence, delta=table["delta"] * 9)) == claims.NOT_SUPPORTED
    few = replace(evidence, replies={"lastfm1k": (30, 20), "ml1m": (30, 20)})
    for check in ("conditions_per_user", "number_of_replies"):
        assert verdict(check, "", evidence) == claims.SUPPORTED
        assert verdict(check, "", few) == claims.NOT_SUPPORTED


def test_correlation_and_columns_turn_too(evidence):
    table = evidence.table2
    assert verdict("ssnr_goes_with_size", "Table 2: all", evidence) == claims.NOT_SUPPORTED
    strong = replace(evidence, table2=table.assign(ssnr=table["delta"].abs()))
    assert verdict("ssnr_goes_with_size", "Table 2: all", strong) == claims.SUPPORTED
    assert verdict("has_column_ssnv", "", evidence) == claims.NOT_CHECKABLE
    assert verdict("has_column_ssnv", "", replace(evidence, table2=table.assign(ssnv=0.1))) == claims.SUPPORTED


def test_lists_moved_by_flipping_are_found_and_lists_that_are_not_are_not(evidence):
    agreement = evidence.agreement
    alike = agreement.assign(jaccard=0.5)
    assert verdict("flipping_moves_lists", "", replace(evidence, agreement=alike)) == claims.NOT_SUPPORTED
    again = (agreement["first"] == "none/no") & (agreement["second"] == "none/yes")
    moved = agreement.assign(jaccard=again.map({True: 0.9, False: 0.1}))
    assert verdict("flipping_moves_lists", "", replace(evidence, agreement=moved)) == claims.SUPPORTED


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("X,5,some words,Table 2: all,no_such_check", r"line 2, column check: 'no_such_check'; expected one of"),
        ("X,5,a b c d e f g h i j k,Table 2: all,detected", r"line 2, column quote: more than 10 words"),
        ("X,5,a,b,detected\nX,5,a,b,detected", r"column id: 'X' stands twice"),
    ],
)
def test_a_faulty_list_is_told_by_line(tmp_path, line, message):
    file = tmp_path / "claims.csv"
    file.write_text(f"id,section,quote,rows,check\n{line}\n", "utf-8")
    with pytest.raises(DataError, match=message):
        claims.read(file)


def test_a_row_that_is_in_no_table_is_told(evidence):
    with pytest.raises(DataError, match="'height' is in no column"):
        verdict("detected", "Table 2: height NSD", evidence)


# --- What the agreement of lists says ---


def test_facts_apart():
    assert lists.facts_apart("none/no", "none/yes") == 0
    assert lists.facts_apart("none/no", "gender/yes") == 1
    assert lists.facts_apart("gender/no", "gender/yes") == 1
    assert lists.facts_apart("gender/no", "age/no") == 2
    assert lists.facts_apart("intersectional/no", "gender/no") == 1
    assert lists.facts_apart("intersectional/no", "intersectional/yes") == 2


def made(jaccard) -> pd.DataFrame:
    """The agreement table with values of one's own, by scenario and pair."""
    table = released.read_counts(released.AGREEMENT_FILE)
    table = table[table["dataset"] == "lastfm1k"]
    return table.assign(jaccard=[jaccard(a, b) for a, b in zip(table["first"], table["second"], strict=True)])


def test_prompts_as_described_show_no_trace_of_the_flag():
    as_described = made(lambda a, b: 0.9 - 0.2 * lists.facts_apart(a, b))
    by_flag = lists.by_flag(as_described).iloc[0]
    assert by_flag["same"] == pytest.approx(by_flag["other"])
    assert by_flag["same_higher"] == 0
    pairs = lists.pairs(as_described)
    assert pairs["jaccard"].tolist() == pytest.approx(pairs["described"].tolist())


def test_two_batches_show():
    batches = made(lambda a, b: 0.6 if a.split("/")[1] == b.split("/")[1] else 0.4)
    by_flag = lists.by_flag(batches).iloc[0]
    assert (by_flag["same"], by_flag["other"]) == (pytest.approx(0.6), pytest.approx(0.4))
    assert by_flag["same_higher"] == by_flag["scenarios"] == 9
    assert by_flag["p"] == pytest.approx(2 / 2**9)
    assert lists.baseline(batches)["lower"] == 0


def test_a_matrix_is_square_with_ones_on_the_diagonal():
    square = lists.matrix(lists.pairs(made(lambda *_: 0.25)), "lastfm1k", "jaccard")
    assert square.shape == (8, 8)
    assert (square.to_numpy().diagonal() == 1).all()
    assert (square.to_numpy() == square.to_numpy().T).all()


def test_the_evidence_is_that_of_both_data_sets(evidence):
    assert set(evidence.rows) == {"lastfm1k", "ml1m"}
    assert evidence.replies["lastfm1k"] == (5760, 72)
    assert fairness.GENDER.name in set(evidence.intrinsic["attribute"])
