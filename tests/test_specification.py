"""The specification curve against the functions that Table 2 itself is made with, and by hand."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from fairnb import fairness, released, specification
from fairnb.errors import ParameterError
from fairnb.settings import PAPER, Experiment

FEW = Experiment(permutations=200)


@pytest.fixture(scope="module")
def curves():
    return {name: specification.curve(released.read_places(name), FEW) for name in ("lastfm1k", "ml1m")}


@pytest.mark.parametrize("dataset", ["lastfm1k", "ml1m"])
def test_the_released_code_s_choices_give_table_2(curves, dataset):
    frame = curves[dataset]
    own = frame[specification.as_released(frame) & (frame["test"] == "welch")]
    rows = fairness.table(released.read_benefits(dataset, "released"), Experiment(dataset=dataset))
    both = rows.merge(own, on=specification.ROW, how="left", suffixes=("", "_curve"), validate="one_to_one")
    assert both["delta_curve"].tolist() == pytest.approx(both["delta"].tolist(), nan_ok=True, abs=1e-12)
    assert both["p_curve"].tolist() == pytest.approx(both["p"].tolist(), nan_ok=True)
    known = both[both["delta"].notna()]
    assert (known["n1_curve"] == known["n1"]).all()
    assert (known["n2_curve"] == known["n2"]).all()


def test_the_paper_s_choices_give_what_its_protocol_gives(curves):
    levels = {
        "ground_truth": "held-out",
        "matching": "exact-title",
        "lists": "all",
        "repeated_ids": "once",
        "rank_without_hit": "undefined",
        "reference": "filed under no",
        "population": "everyone",
        "test": "student",
    }
    frame = curves["ml1m"]
    for choice, level in levels.items():
        frame = frame[frame[choice].isin(["", level])]
    benefits = released.read_benefits("ml1m", "paper")
    # Where the reply filed under no is missing the protocol takes the other; here that is another specification.
    rules = PAPER.model_copy(update={"neutral_reference": "factual-neutral"})
    for (attribute, notion), part in frame.groupby(["attribute", "notion"]):
        found = fairness.deviations(benefits, notion, fairness.ATTRIBUTES[attribute], rules)
        for row in part.itertuples():
            here = (found["sampling"] == row.sampling) & (found["icl"] == row.icl) & (found["benefit"] == row.benefit)
            values = found[here & found["value"].notna()].groupby("group")["value"].agg(["mean", "size"])
            first, second = fairness.ATTRIBUTES[attribute].values
            assert row.delta == pytest.approx(values.loc[first, "mean"] - values.loc[second, "mean"], abs=1e-12)
            assert (row.n1, row.n2) == (values.loc[first, "size"], values.loc[second, "size"])


def words(lists: dict[tuple[int, str, str], str]) -> pd.DataFrame:
    """Four users (two men, two women), one scenario, all lists 'mmm' but those given by user, flag and demographics."""
    rows = [
        (user, gender, "Young", "random", "0-shot", flag, demographics, lists.get((user, flag, demographics), "mmm"))
        for user, gender in ((1, "Male"), (2, "Male"), (3, "Female"), (4, "Female"))
        for flag in ("no", "yes")
        for demographics in ("none", "gender", "age", "intersectional")
    ]
    return pd.DataFrame(rows, columns=[*released.PLACES_KEY, "ids_file"])


def test_populations_and_references_by_hand():
    table = words({(1, "no", "gender"): "hmm", (3, "yes", "gender"): "hhm", (4, "yes", "none"): "hhh"})
    frame = specification.curve(table, FEW.model_copy(update={"min_group": 2}), [fairness.GENDER])
    one = frame[(frame["benefit"] == "hit") & (frame["test"] == "welch")].set_index(
        ["notion", "reference", "population"]
    )["delta"]
    # NSD: men gain 1/3 on average of 1/2 user; women nothing, or lose user 4's three neutral hits.
    assert one["NSD", "filed under no", ""] == pytest.approx(1 / 6)
    assert one["NSD", "filed under yes", ""] == pytest.approx(1 / 6 + 1 / 2)
    assert one["NSD", "mean of both", ""] == pytest.approx(1 / 6 + 1 / 4)
    # NCSD, flipped: told "male" are the women (user 3 gains 2/3), told "female" the men (nothing).
    assert one["NCSD", "filed under no", "flipped"] == pytest.approx(1 / 3)
    # everyone under do(male): 1/3, 0, 2/3, 0; under do(female): nothing changes for anybody.
    assert one["NCSD", "filed under no", "everyone"] == pytest.approx(1 / 4)


def test_choices_that_change_no_benefit_are_not_counted(curves):
    assert set(curves["lastfm1k"]["lists"]) == {"all"}
    assert set(curves["lastfm1k"]["rank_list"]) == {"", "whole"}
    assert set(curves["ml1m"]["lists"]) == {"all", "with a match"}


def test_a_group_under_the_minimum_is_described_and_not_tested():
    frame = specification.curve(words({(1, "no", "gender"): "hmm"}), FEW, [fairness.GENDER])
    assert frame["p"].isna().all()
    assert frame["delta"].notna().all()


def test_summary_counts_what_it_says(curves):
    frame = curves["ml1m"]
    summary = specification.summary(frame, 0.05).set_index(specification.ROW)
    assert len(summary) == 72
    row = ("gender", "NCSD", "0-shot", "recent-frequent", "hit")
    part = frame[(frame[specification.ROW] == list(row)).all(axis=1)]
    once = part[part["test"] == "student"]["delta"]
    assert summary.loc[row, "specifications"] == len(once) == 96
    assert summary.loc[row, "median"] == once.median()
    assert summary.loc[row, "positive"] == (once > 0).mean()
    tested = part[part["p"].notna() & ~part["constant"]]
    assert summary.loc[row, "significant"] == (tested["p"] < 0.05).mean()
    assert summary.loc[row, "tests"] == len(tested)


def test_influence_is_the_main_effect_of_an_analysis_of_variance(curves):
    row = ["gender", "NCSD", "0-shot", "recent-frequent", "hit"]
    frame = curves["ml1m"]
    part = frame[(frame[specification.ROW] == row).all(axis=1) & (frame["test"] == "welch")]
    names = ["ground_truth", "matching", "lists", "repeated_ids", "reference", "population"]
    table = anova_lm(ols(f"delta ~ {' + '.join(f'C({name})' for name in names)}", data=part).fit())
    found = specification.influence(part).set_index("choice")["share"]
    assert list(found.index) == names
    total = ((part["delta"] - part["delta"].mean()) ** 2).sum()
    for name in names:
        assert found[name] == pytest.approx(table.loc[f"C({name})", "sum_sq"] / total)


def test_levels_cover_every_specification_once_per_choice(curves):
    frame = curves["lastfm1k"]
    found = specification.levels(frame, 0.05)
    counts = found.groupby(["benefit", "choice"])["specifications"].sum()
    assert counts["hit", "reference"] == (frame["benefit"] == "hit").sum()
    assert np.isfinite(found["median_size"]).all()


def test_three_groups_are_refused_by_name():
    with pytest.raises(ParameterError, match="gender x age: 4 groups; expected two"):
        specification.curve(released.read_places("lastfm1k"), FEW, [fairness.INTERSECTION])


@pytest.mark.parametrize("text", ["", "gender", "gender NSD 0-shot random hat", "gender NSD 0-shot random hit extra"])
def test_a_row_that_is_none_is_named(text):
    with pytest.raises(ParameterError, match=r"^curve = .*no row of Table 2; expected"):
        Experiment(curve=text)
