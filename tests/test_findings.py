"""The audit in words: what is said follows the numbers, either way, and the print exhibits find what was printed."""

import math

import numpy as np
import pandas as pd
import pytest

from fairnb import paths, released
from fairnb.audit import findings, lists
from fairnb.audit.check import Check
from fairnb.audit.printed import read
from fairnb.audit.report import report
from fairnb.exhibits import audit, power, printed
from fairnb.power import Values
from fairnb.settings import Experiment

FEW = Experiment(name="audit", replicates=200, permutations=200, simulations=200)


@pytest.fixture(scope="module")
def searched():
    return printed.search(printed.table2())


def test_table_2_tells_its_sizes_units_formula_and_test(searched):
    sizes = printed.sizes(searched).data
    assert (sizes["fitting"] == sizes["rows"]).all()
    assert len(sizes) == 8
    of = sizes.set_index(["attribute", "notion", "benefit"])[["n1", "n2", "unit"]]
    for benefit, unit in (("hit", 3), ("rank", 2)):
        assert of.loc[("gender", "NSD", benefit)].tolist() == [45, 35, unit]
        assert of.loc[("gender", "NCSD", benefit)].tolist() == [35, 45, unit]
        assert of.loc[("age", "NSD", benefit)].tolist() == [73, 7, unit]
        assert of.loc[("age", "NCSD", benefit)].tolist() == [7, 73, unit]
    assert set(sizes["formula"]) == {"root of the mean variance"}
    assert set(sizes["ddof"]) == {0}
    assert set(sizes["test"]) == {"welch"}
    said = findings.sizes(sizes)
    assert "In NCSD rows by gender and age the two columns have changed sizes" in said.consequence
    kept = sizes.assign(n1=45, n2=45)
    assert "changed sizes" in findings.sizes(kept).consequence  # equal sizes change places unseen
    nsd = sizes[sizes["notion"] == "NSD"]
    assert "changed sizes" not in findings.sizes(pd.concat([nsd, nsd.assign(notion="NCSD")])).consequence


def test_one_formula_and_one_test_give_all_rows(searched):
    counts = printed.formulas(searched, printed.table2()).data
    ssnr = counts[counts["column"] == "ssnr"].sort_values("fitting", ascending=False)
    assert ssnr.iloc[0][["formula", "ddof", "test", "fitting"]].tolist() == [
        "root of the mean variance",
        0,
        "welch",
        72,
    ]
    assert ssnr["fitting"].iloc[1] < 20
    ssnd = counts[counts["column"] == "ssnd"].set_index("formula")["fitting"]
    assert ssnd["range over users"] == 72
    assert ssnd["range of the group means"] == 0
    said = findings.formulas(counts)
    assert "SSNR: root of the mean variance (population variances, p by welch) in 72 of 72" in said.result


def test_no_printed_difference_was_large_enough_for_its_cell(searched):
    exhibit, cells = printed.detectable(searched, printed.table2(), FEW)
    assert len(cells) == 72
    assert exhibit.data["rows"].sum() == 72
    assert exhibit.data["above"].sum() == (cells["delta"].abs() >= cells["smallest"]).sum()
    louder = cells.assign(delta=9.0)
    assert "72 of 72 printed |δ| are that large" in findings.cells_power(louder).result


def test_another_paper_s_table_gets_what_can_be_said_of_it():
    data = printed.fairllm(FEW).data.set_index("check")
    assert "48 of 48 rows agree" in data.loc["δ and the means", "result"]
    assert data["result"].str.contains("Cannot be made").any()
    assert data.loc["range and SD", "result"].startswith("snsr and snsv, 48 rows")


def test_every_check_has_all_four_parts_and_a_table_row():
    check = Check("name", "Question?", "Method.", "Result.", "Consequence.")
    text = findings.markdown(check)
    for word in ("**Question.**", "**Method.**", "**Result.**", "**What follows.**"):
        assert word in text
    assert findings.table([check]).to_dict("records") == [
        {
            "check": "name",
            "question": "Question?",
            "method": "Method.",
            "result": "Result.",
            "consequence": "Consequence.",
        }
    ]


def test_ground_truth_is_named_after_its_overlap():
    truths = released.read_counts(released.TRUTHS_FILE)
    assert "give the profile back" in findings.ground_truth(truths).consequence
    held_out = truths.assign(in_train=truths["in_train"] * 0, in_heldout=truths["heldout"])
    assert "give the profile back" not in findings.ground_truth(held_out).consequence


def test_ids_are_counted_where_a_catalogue_allows_it():
    said = findings.ids_and_titles(released.read_counts(released.MATCHING_FILE)).result
    assert "MovieLens 1M: where the title is in the catalogue the id is that title's in 433 of 11,901 places" in said
    assert "Last.fm 1K: no catalogue was released" in said


def test_lists_that_follow_the_flag_are_told_and_others_are_not():
    chart, by_flag = audit.agreement(FEW)
    said = findings.agreement(by_flag, chart.data)
    assert said.consequence.startswith("In Last.fm 1K what a list is like depends on which value")
    quiet = findings.agreement(by_flag[by_flag["dataset"] == "ml1m"], chart.data)
    assert quiet.consequence == "No trace of anything but the stated facts was detected."


def test_cells_below_alpha_are_described_or_none():
    benefits = audit.benefits_of(FEW)
    rows = audit.tables_of({"lastfm1k": benefits["lastfm1k"]}, FEW)["lastfm1k"]
    one = audit.cells_below_alpha(benefits["lastfm1k"], rows, FEW)
    assert one.data["n"].tolist() == [7, 73]
    assert one.data["values"].iloc[0] == "0: 7"
    assert "1 of 1 rest on Welch's test alone" in findings.cells(one.data, 0.05, 72).consequence
    none = audit.cells_below_alpha(benefits["lastfm1k"], rows.assign(p=0.5), FEW)
    assert findings.cells(none.data, 0.05, 72).consequence == "Nothing to look at."
    assert none.html


def test_panels_go_with_the_groups_that_they_are_near():
    evidence = audit.evidence(FEW.model_copy(update={"replicates": 1000}))
    panels = audit.table4_panels(evidence.intrinsic, FEW)
    said = findings.table4(panels.data)
    assert "age: 0 of 9 rows with its own groups', 9 with the other attribute's" in said.result
    assert said.consequence.startswith("The age panel goes with the other attribute's groups")
    own = panels.data.assign(within=panels.data["attribute"], gap_other=99.0)
    assert findings.table4(own).consequence == "The panels go with their own groups."


def test_noise_counts_the_rows_within_it():
    benefits = audit.benefits_of(FEW)
    data = audit.noise(benefits, audit.tables_of(benefits, FEW), FEW).data
    assert len(data) == 2 * 2 * 2 * 2
    assert ((data["within"] >= 0) & (data["within"] <= data["rows"])).all()
    assert f"in {data['within'].sum()} of {data['rows'].sum()} row-halves" in findings.noise(data).result


def test_false_positives_and_power_are_said_with_their_numbers():
    null = Values(np.array([-1, 0, 1]) / 3, np.array([0.1, 0.8, 0.1]))
    simulated = power.simulate(null, FEW)
    rates = power.false_positives(simulated, Values(np.array([0, 1 / 3, 1]), np.array([0.6, 0.3, 0.1])), FEW).data
    said = findings.false_positives(rates, 0.05)
    assert "Welch's test on bootstrap means" in said.result
    strict = rates.assign(low=0.2, high=0.3)
    assert "Further than noise from 5 %: student at 45 and 35" in findings.false_positives(strict, 0.05).consequence
    detectable, needed = power.detectable(simulated, null, FEW).data, power.needed(null, FEW).data
    flat = power.on_constant_groups(simulated)
    text = findings.power(detectable, needed, flat, 0.1612).result
    assert "Largest |δ| of the hit rows: 0.161" in text
    assert "0 % (δ = 0.10, n = 45 and 35)" in text
    far = simulated.assign(formula=simulated["formula"] + 0.5)
    assert power.detectable(far, null, FEW).data["holds_to"].isna().all()
    close = simulated.assign(formula=simulated["rate"] + 0.019)
    assert (power.detectable(close, null, FEW).data["holds_to"] >= 0.09).all()
    lost = detectable.assign(by_simulation=math.nan)
    assert "n = 45 and 35: not reached" in findings.power(lost, needed, flat, 0.1).result


def test_a_changed_digit_of_table_2_is_named(tmp_path):
    text = (paths.published() / "fairevalllm_table2.csv").read_text("utf-8")
    old = "gender,NSD,ICL-1,rand,hit,-0.0222,-0.0476,0.0254,0.464,1.0,0.1527"
    assert old in text
    file = tmp_path / "table2.csv"
    file.write_text(text.replace(old, old.replace("-0.0222", "-0.0252")), "utf-8")
    checks = {check.name: check for check in report(read(file), block=["attribute", "notion", "benefit"], total=80)}
    assert "line 4" in checks["cells that do not go together"].result
    assert "group1" in checks["cells that do not go together"].result


def test_pairs_average_what_scenarios_have():
    pairs = lists.pairs(released.read_counts(released.AGREEMENT_FILE))
    assert len(pairs) == 2 * 28
    assert set(pairs["facts"]) == {0, 1, 2}
    missing = pairs[(pairs["dataset"] == "ml1m") & (pairs["first"] == "none/no")]
    assert set(missing["scenarios"]) == {8}
