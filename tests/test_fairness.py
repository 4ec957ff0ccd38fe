"""Deviations, comparisons, levels, intrinsic fairness and targets: by hand, against print, at their edges."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from scipy import stats
from scipy.spatial import distance

from fairnb import paths, seeds, statistics
from fairnb.errors import DataError, FairnbError, ParameterError, ProtocolError
from fairnb.fairness import (
    AGE,
    GENDER,
    INTERSECTION,
    LEVELS,
    Attribute,
    compare,
    deviations,
    intrinsic,
    intrinsic_means,
    level,
    omnibus,
    table,
    targets,
)
from fairnb.released import read_benefits
from fairnb.settings import BENEFITS, ICLS, NOTIONS, PAPER, RELEASED, SAMPLINGS, Experiment, Protocol

SETTINGS = settings(max_examples=20, deadline=None, database=None, derandomize=True)
NAN = math.nan
KEY = ["attribute", "notion", "icl", "sampling", "benefit"]
TESTS = ["p", "p_student", "p_welch", "p_permutation", "p_mannwhitney"]
EFFECT = ["hedges_g", "g_low", "g_high", "low", "high"]
MOMENTS = ["group1", "group2", "delta", "ssnd", "ssnr", "snsr", "snsv"]
OCCUPATION = Attribute("occupation", ("occupation",), "occupation")


def light(**values: Any) -> Experiment:
    """An experiment with few resamples, for tests that do not look at their number."""
    return Experiment(**{"permutations": 200, "replicates": 200, **values})


# --- builders ------------------------------------------------------------------------------------------


def reply(user: int, prompt: str, hit: float, rank: float = NAN, **columns: Any) -> dict[str, Any]:
    """One row of a benefit frame; `prompt` is what it states, with an asterisk for the counterfactual."""
    return {
        "user": user,
        "gender": "Male",
        "age_group": "Young",
        "sampling": "random",
        "icl": "0-shot",
        "counterfactual": "yes" if prompt.endswith("*") else "no",
        "demographics": prompt.removesuffix("*"),
        "status": "ok",
        "hit_rate": hit,
        "average_rank": rank,
        **columns,
    }


def four_users(without_hit: float) -> pd.DataFrame:
    """Two men, two women; nobody flipped twice; the neutral reply of user 4 exists only as its twin."""
    none = without_hit
    male, female = {"gender": "Male"}, {"gender": "Female"}
    return pd.DataFrame(
        [
            reply(1, "none*", 1.0, 2.0, **male),  # a decoy: the factual neutral reply of user 1 is the next
            reply(1, "none", 1 / 3, 2.0, **male),
            reply(1, "gender", 2 / 3, 1.5, **male),
            reply(1, "gender*", 0.0, none, **male),
            reply(2, "none", 0.0, none, **male),
            reply(2, "none*", 0.0, none, **male),
            reply(2, "gender", 1 / 3, 1.0, **male),
            reply(2, "gender*", 1 / 3, 3.0, **male),
            reply(3, "none", 1.0, 2.0, **female),
            reply(3, "none*", 1.0, 2.0, **female),
            reply(3, "gender", 1 / 3, 1.0, **female),
            reply(3, "gender*", 1.0, 2.0, **female),
            reply(4, "none*", 1 / 3, 1.0, **female),
            reply(4, "gender", 1 / 3, 3.0, **female),
            reply(4, "gender*", 2 / 3, 2.5, **female),
        ]
    )


def found(frame: pd.DataFrame, benefit: str, column: str = "value") -> dict[tuple[str, int], Any]:
    """What `deviations` says of each user, by column of the table and user."""
    part = frame[frame["benefit"] == benefit]
    assert not part.duplicated(["group", "user", "sampling", "icl"]).any()
    return {(row["group"], row["user"]): row[column] for row in part.to_dict("records")}


def nearly(expected: dict[tuple[str, int], float]) -> Any:
    return pytest.approx(expected, abs=1e-12, nan_ok=True)


def values(users: Iterable[int] | None = None, **groups: Iterable[float]) -> pd.DataFrame:
    """What `compare` takes: values by group; users are counted through unless their numbers are given."""
    rows = [(name, value) for name, numbers in groups.items() for value in numbers]
    frame = pd.DataFrame(rows, columns=["group", "value"]).astype({"group": "string", "value": float})
    return frame.assign(user=range(len(frame)) if users is None else list(users), excluded="")


def neutral(hits: dict[str, list[float]], column: str = "gender", **columns: Any) -> pd.DataFrame:
    """A frame of neutral replies, one user a value."""
    pairs = [(group, hit) for group, numbers in hits.items() for hit in numbers]
    return pd.DataFrame(
        [reply(user, "none", hit, 1.0, **{**columns, column: group}) for user, (group, hit) in enumerate(pairs)]
    )


def occupations(users: int = 9) -> pd.DataFrame:
    """Users of three occupations; every prompt but the neutral one states one, by turns their own or another."""
    names = ("clerk", "farmer", "lawyer")
    draw = seeds.generator("test", "occupations")
    rows = []
    for user in range(users):
        own = names[user % 3]
        for prompt, stated in (
            ("none", None),
            ("occupation", own),
            *(("occupation*", other) for other in names if other != own),
        ):
            rows.append(reply(user, prompt, draw.integers(0, 4) / 3, 2.0, occupation=own, stated=stated))
    return pd.DataFrame(rows)


def shuffled(frame: pd.DataFrame, name: str = "rows") -> pd.DataFrame:
    return frame.iloc[seeds.generator("test", name).permutation(len(frame))]


def numbers(row: dict[str, Any], names: Iterable[str]) -> list[float]:
    return [row[name] for name in names]


def one_scenario(frame: pd.DataFrame, sampling: str = "random", icl: str = "0-shot") -> pd.DataFrame:
    return frame[(frame["sampling"] == sampling) & (frame["icl"] == icl)]


@pytest.fixture(scope="module")
def lastfm() -> pd.DataFrame:
    return read_benefits("lastfm1k", "released")


@pytest.fixture(scope="module")
def rebuilt(lastfm: pd.DataFrame) -> pd.DataFrame:
    return table(lastfm, light())


# --- deviations, by hand -------------------------------------------------------------------------------


def test_nsd_of_the_paper() -> None:
    delta = deviations(four_users(NAN), "NSD", GENDER, PAPER)
    assert found(delta, "hit") == nearly(
        {("Male", 1): 1 / 3, ("Male", 2): 1 / 3, ("Female", 3): -2 / 3, ("Female", 4): 0.0}
    )
    # Users 1, 3, 4: 1.5 - 2, 1 - 2, 3 - 1. The neutral list of user 2 has no hit, so no rank.
    assert found(delta, "rank") == nearly(
        {("Male", 1): -0.5, ("Male", 2): NAN, ("Female", 3): -1.0, ("Female", 4): 2.0}
    )
    reasons = found(delta, "rank", "excluded")
    assert reasons.pop(("Male", 2)) == "no hit in one of the lists"
    assert set(reasons.values()) == {""}
    assert set(found(delta, "hit", "excluded").values()) == {""}


def test_nsd_of_the_released_code() -> None:
    delta = deviations(four_users(0.0), "NSD", GENDER, RELEASED)
    assert found(delta, "hit") == nearly(
        {("Male", 1): 1 / 3, ("Male", 2): 1 / 3, ("Female", 3): -2 / 3, ("Female", 4): NAN}
    )
    assert found(delta, "rank") == nearly(
        {("Male", 1): -0.5, ("Male", 2): 1.0, ("Female", 3): -1.0, ("Female", 4): NAN}
    )
    for benefit in BENEFITS:
        reasons = found(delta, benefit, "excluded")
        assert reasons.pop(("Female", 4)) == "no neutral reply"
        assert set(reasons.values()) == {""}


def test_ncsd_of_the_paper_has_every_user_in_every_column() -> None:
    """Who is a man anyway answers do(Male) with the sensitive reply, who is a woman with the flipped one."""
    delta = deviations(four_users(NAN), "NCSD", GENDER, PAPER)
    assert found(delta, "hit") == nearly(
        {
            ("Male", 1): 1 / 3,
            ("Male", 2): 1 / 3,
            ("Male", 3): 0.0,
            ("Male", 4): 1 / 3,
            ("Female", 1): -1 / 3,
            ("Female", 2): 1 / 3,
            ("Female", 3): -2 / 3,
            ("Female", 4): 0.0,
        }
    )
    assert found(delta, "rank") == nearly(
        {
            ("Male", 1): -0.5,
            ("Male", 2): NAN,
            ("Male", 3): 0.0,
            ("Male", 4): 1.5,
            ("Female", 1): NAN,
            ("Female", 2): NAN,
            ("Female", 3): -1.0,
            ("Female", 4): 2.0,
        }
    )


def test_ncsd_of_the_released_code_files_users_under_the_value_they_were_flipped_to() -> None:
    delta = deviations(four_users(0.0), "NCSD", GENDER, RELEASED)
    assert found(delta, "hit") == nearly(
        {("Female", 1): -1 / 3, ("Female", 2): 1 / 3, ("Male", 3): 0.0, ("Male", 4): NAN}
    )
    assert found(delta, "rank") == nearly({("Female", 1): -2.0, ("Female", 2): 3.0, ("Male", 3): 0.0, ("Male", 4): NAN})


@pytest.mark.parametrize(
    ("reference", "expected"), [("neutral", {("Male", 3), ("Male", 4)}), ("factual-neutral", {("Male", 3)})]
)
def test_each_field_of_a_protocol_decides_for_itself(reference: Any, expected: set[tuple[str, int]]) -> None:
    for protocol in (PAPER, RELEASED):
        mixed = protocol.model_copy(update={"neutral_reference": reference, "ncsd_population": "flipped"})
        delta = found(deviations(four_users(NAN), "NCSD", GENDER, mixed), "hit")
        assert {user for user in delta if user[0] == "Male" and not math.isnan(delta[user])} == expected
        assert set(delta) == {("Female", 1), ("Female", 2), ("Male", 3), ("Male", 4)}


@pytest.mark.parametrize("protocol", [PAPER, RELEASED], ids=["paper", "released"])
@pytest.mark.parametrize("notion", NOTIONS)
def test_deviations_do_not_depend_on_the_order_of_rows(notion: str, protocol: Protocol) -> None:
    frame = four_users(NAN)
    expected = deviations(frame, notion, GENDER, protocol)
    for name in ("one", "two", "three"):
        again = deviations(shuffled(frame, name), notion, GENDER, protocol)
        for benefit in BENEFITS:
            assert found(again, benefit) == nearly(found(expected, benefit))


@pytest.mark.parametrize("status", ["empty", "unparsed"])
@pytest.mark.parametrize(
    ("failed", "lost"),
    [
        ("gender", {"NSD": {("Male", 1)}, "NCSD": set()}),
        ("gender*", {"NSD": set(), "NCSD": {("Female", 1)}}),
        ("none", {"NSD": {("Male", 1)}, "NCSD": {("Female", 1)}}),
    ],
)
def test_a_failed_reply_is_excluded_or_a_miss(failed: str, lost: dict[str, set[Any]], status: str) -> None:
    frame = four_users(NAN)
    row = (frame["user"] == 1) & (frame["demographics"] + frame["counterfactual"].map({"no": "", "yes": "*"})).eq(
        failed
    )
    assert row.sum() == 1
    frame.loc[row, ["status", "hit_rate", "average_rank"]] = [status, 0.0, NAN]
    for notion, without in lost.items():
        exclude = PAPER.model_copy(update={"ncsd_population": "flipped"})
        delta = deviations(frame, notion, GENDER, exclude)
        for benefit in BENEFITS:
            reasons = found(delta, benefit, "excluded")
            assert {user for user, reason in reasons.items() if reason == "failed reply"} == without
            assert all(math.isnan(found(delta, benefit)[user]) for user in without)
        # Counted as a miss: ΔB of hit is that of a list without a hit, rank stays undefined.
        miss = exclude.model_copy(update={"failed_reply": "miss"})
        delta = deviations(frame, notion, GENDER, miss)
        assert set(found(delta, "hit", "excluded").values()) == {""}
        for user in without:
            values_of_1 = {"none": 1 / 3, "gender": 2 / 3, "gender*": 0.0, failed: 0.0}
            stated = values_of_1["gender" if notion == "NSD" else "gender*"]
            assert found(delta, "hit")[user] == pytest.approx(stated - values_of_1["none"])
            assert found(delta, "rank", "excluded")[user] == "no hit in one of the lists"


def test_two_refusals_differ_by_nothing_and_have_no_rank() -> None:
    frame = pd.DataFrame([reply(1, "none", 0.0), reply(1, "gender", 0.0)])
    delta = deviations(frame, "NSD", GENDER, PAPER)
    assert found(delta, "hit") == {("Male", 1): 0.0}
    assert found(delta, "rank", "excluded") == {("Male", 1): "no hit in one of the lists"}
    delta = deviations(frame.fillna({"average_rank": 0.0}), "NSD", GENDER, RELEASED)
    assert found(delta, "rank") == {("Male", 1): 0.0}


def test_scenarios_are_compared_with_their_own_neutral_reply() -> None:
    frame = pd.concat(
        [
            pd.DataFrame([reply(1, "none", low, 1.0, **at), reply(1, "gender", 1.0, 1.0, **at)])
            for low, at in (
                (0.0, {"sampling": "random", "icl": "0-shot"}),
                (1 / 3, {"sampling": "random", "icl": "ICL-1"}),
                (2 / 3, {"sampling": "frequent", "icl": "0-shot"}),
            )
        ]
    )
    for protocol in (PAPER, RELEASED):
        delta = deviations(frame, "NSD", GENDER, protocol).query("benefit == 'hit'")
        assert delta.set_index(["sampling", "icl"])["value"].to_dict() == nearly(
            {("random", "0-shot"): 1.0, ("random", "ICL-1"): 2 / 3, ("frequent", "0-shot"): 1 / 3}
        )


def test_a_user_without_a_group_is_left_out() -> None:
    frame = four_users(NAN)
    frame.loc[frame["user"] == 2, "gender"] = None
    for notion in NOTIONS:
        delta = deviations(frame, notion, GENDER, PAPER)
        assert {user for _, user in found(delta, "hit")} == {1, 3, 4}


def test_prompts_about_another_attribute_do_not_count() -> None:
    frame = four_users(NAN)
    others = pd.DataFrame(
        [reply(1, prompt, 1.0, 3.0) for prompt in ("age", "age*", "intersectional", "intersectional*")]
    )
    for notion in NOTIONS:
        alone, among = (deviations(rows, notion, GENDER, PAPER) for rows in (frame, pd.concat([frame, others])))
        assert found(among, "hit") == nearly(found(alone, "hit"))


# --- more than two values, more than one attribute -----------------------------------------------------


def test_an_intersection_flips_both_values() -> None:
    frame = pd.DataFrame(
        [
            reply(1, "none", 0.0),
            reply(1, "intersectional", 1 / 3, 1.0),
            reply(1, "intersectional*", 1.0, 2.0),
            reply(2, "none", 0.0, gender="Female"),
            reply(2, "intersectional", 2 / 3, 1.0, gender="Female"),
            reply(2, "intersectional*", 1 / 3, 2.0, gender="Female"),
        ]
    )
    assert found(deviations(frame, "NSD", INTERSECTION, RELEASED), "hit") == nearly(
        {("Male & Young", 1): 1 / 3, ("Female & Young", 2): 2 / 3}
    )
    assert found(deviations(frame, "NCSD", INTERSECTION, RELEASED), "hit") == nearly(
        {("Female & Old", 1): 1.0, ("Male & Old", 2): 1 / 3}
    )
    assert found(deviations(frame, "NCSD", INTERSECTION, PAPER), "hit") == nearly(
        {
            ("Female & Old", 1): 1.0,
            ("Male & Old", 2): 1 / 3,
            ("Male & Young", 1): 1 / 3,
            ("Female & Young", 2): 2 / 3,
        }
    )


def test_another_attribute_of_two_values_is_flipped_as_well() -> None:
    country = Attribute("country", ("country",), "country")
    frame = pd.DataFrame(
        [
            reply(user, prompt, hit, 1.0, country=land)
            for user, land in ((1, "FR"), (2, "US"))
            for prompt, hit in (("none", 0.0), ("country", 1 / 3), ("country*", 1.0))
        ]
    )
    delta = found(deviations(frame, "NCSD", country, RELEASED), "hit")
    assert delta == nearly({("US", 1): 1.0, ("FR", 2): 1.0})


def test_three_values_with_the_stated_one_named() -> None:
    frame = occupations()
    stated = frame[frame["demographics"] == "occupation"].set_index(["stated", "user"])["hit_rate"]
    base = frame[frame["demographics"] == "none"].set_index("user")["hit_rate"]
    expected = {(name, user): hit - base[user] for (name, user), hit in stated.items()}

    everyone = found(deviations(frame, "NCSD", OCCUPATION, PAPER), "hit")
    assert len(everyone) == 3 * 9  # do(v) of every user for every v
    assert everyone == nearly(expected)
    own = {(name, user) for name, user in expected if ("clerk", "farmer", "lawyer")[user % 3] == name}
    flipped = found(deviations(frame, "NCSD", OCCUPATION, RELEASED), "hit")
    assert flipped == nearly({place: value for place, value in expected.items() if place not in own})
    nsd = found(deviations(frame, "NSD", OCCUPATION, PAPER), "hit")
    assert nsd == nearly({place: value for place, value in expected.items() if place in own})


def test_three_values_without_the_stated_one_are_an_error() -> None:
    frame = occupations().drop(columns="stated")
    with pytest.raises(ProtocolError, match=r"column occupation has 3 values.*add a column stated"):
        deviations(frame, "NCSD", OCCUPATION, PAPER)
    assert len(found(deviations(frame, "NSD", OCCUPATION, PAPER), "hit")) == 9


@pytest.mark.parametrize("protocol", [PAPER, RELEASED], ids=["paper", "released"])
def test_a_counterfactual_prompt_that_states_the_truth_does_not_count_twice(protocol: Protocol) -> None:
    """A design may ask do(v) of every user; for who is v that is not a flip, and the user is still one."""
    frame = occupations()
    own = frame[(frame["demographics"] == "occupation") & (frame["counterfactual"] == "no")]
    expected = found(deviations(frame, "NCSD", OCCUPATION, protocol), "hit")
    among = deviations(pd.concat([frame, own.assign(counterfactual="yes")]), "NCSD", OCCUPATION, protocol)
    assert found(among, "hit") == nearly(expected)


def test_a_stated_value_that_is_no_group_is_an_error() -> None:
    """Dropped without a word, its replies would make the other columns look complete."""
    known = Attribute("occupation", ("occupation",), "occupation", ("clerk", "farmer", "lawyer"))
    frame = occupations()
    with pytest.raises(DataError, match="Lawyer") as caught:
        deviations(frame.assign(stated=frame["stated"].replace("lawyer", "Lawyer")), "NCSD", known, PAPER)
    assert "\n" not in str(caught.value)


def test_three_groups_give_a_row_per_pair_and_one_omnibus_test() -> None:
    frame = occupations(users=30)
    experiment = light(protocol="paper")
    pairs = one_scenario(table(frame, experiment, [OCCUPATION], ["NSD"]))
    expected = list(combinations(["clerk", "farmer", "lawyer"], 2))
    for benefit in BENEFITS:
        part = pairs[pairs["benefit"] == benefit]
        assert list(zip(part["group1_name"], part["group2_name"], strict=True)) == expected
        assert part[["n1", "n2"]].to_numpy().tolist() == [[10, 10]] * 3

    delta = deviations(frame, "NSD", OCCUPATION, PAPER).query("benefit == 'hit'")
    groups = [part["value"].round(9) for _, part in delta.groupby("group")]  # thirds, so that ties are ties
    tested = one_scenario(omnibus(frame, experiment, OCCUPATION, "NSD")).iloc[0]
    assert tested["groups"] == 3
    assert tested["left_out"] == ""
    assert tested["p_anova"] == pytest.approx(stats.f_oneway(*groups).pvalue)
    assert tested["p_kruskal"] == pytest.approx(stats.kruskal(*groups).pvalue)


def test_the_intersection_of_the_released_users(lastfm: pd.DataFrame) -> None:
    """39 young men, 6 old men, 34 young women, and one old woman, who is shown and not tested."""
    frame = one_scenario(lastfm)
    pairs = one_scenario(table(frame, light(), [INTERSECTION], ["NSD"])).query("benefit == 'hit'")
    assert list(zip(pairs["group1_name"], pairs["group2_name"], strict=True)) == list(
        combinations(["Male & Young", "Male & Old", "Female & Young", "Female & Old"], 2)
    )
    assert pairs["n1"].tolist() == [39, 39, 39, 6, 6, 34]
    assert pairs["n2"].tolist() == [6, 34, 1, 34, 1, 1]
    alone = pairs["group2_name"] == "Female & Old"
    assert pairs.loc[alone, "p"].isna().all()
    assert pairs.loc[alone, "level"].isna().all()
    assert pairs.loc[alone, "note"].str.startswith("n < 5 in Female & Old: described, not tested").all()
    assert pairs.loc[~alone, "level"].notna().all()
    assert pairs["delta"].notna().all()

    tested = one_scenario(omnibus(frame, light(), INTERSECTION, "NSD")).query("benefit == 'hit'").iloc[0]
    assert (tested["groups"], tested["left_out"]) == (3, "Female & Old (n = 1)")
    delta = deviations(frame, "NSD", INTERSECTION, RELEASED).query("benefit == 'hit'")
    groups = [part["value"].round(9) for name, part in delta.groupby("group") if name != "Female & Old"]
    assert tested["p_kruskal"] == pytest.approx(stats.kruskal(*groups).pvalue)


def test_omnibus_corrects_over_its_rows(lastfm: pd.DataFrame) -> None:
    frame = omnibus(lastfm, light(), INTERSECTION, "NCSD")
    assert len(frame) == len(SAMPLINGS) * len(ICLS) * len(BENEFITS)
    np.testing.assert_allclose(frame["q_kruskal"], stats.false_discovery_control(frame["p_kruskal"]))


# --- the printed table ---------------------------------------------------------------------------------

DIGITS = {"group1": 4, "group2": 4, "delta": 4, "ssnd": 4, "ssnr": 4, "p": 3}


def printed() -> pd.DataFrame:
    labels = {"rand": "random", "freq": "frequent", "rec-freq": "recent-frequent"}
    frame = pd.read_csv(paths.published() / "fairevalllm_table2.csv")
    return frame.assign(sampling=frame["sampling"].replace(labels))


def disagreeing(rows: pd.DataFrame) -> set[tuple[str, ...]]:
    """Row-halves of which a printed digit is not that of the computed number."""
    both = printed().merge(rows, on=KEY, suffixes=("_printed", ""), validate="one_to_one")
    assert len(both) == 72
    wrong = np.zeros(72, dtype=bool)
    for name, digits in DIGITS.items():
        wrong |= (both[name].round(digits) - both[f"{name}_printed"]).abs() > 10.0 ** -(digits + 2)
    return set(both.loc[wrong, KEY].itertuples(index=False, name=None))


def changed(frame: pd.DataFrame, prompt: str, sampling: str, icl: str, column: str = "hit_rate") -> pd.DataFrame:
    """Give one user one hit more (or ranks one place lower) in the reply to one prompt."""
    rows = (
        one_scenario(frame, sampling, icl)
        .query("hit_rate < 1")
        .loc[lambda part: part["demographics"].eq(prompt.removesuffix("*"))]
    )
    rows = rows[rows["counterfactual"] == ("yes" if prompt.endswith("*") else "no")]
    result = frame.copy()
    result.loc[rows.index[0], column] += 1 / 3 if column == "hit_rate" else 1.0
    return result


def test_the_printed_table_comes_out_of_the_released_replies(rebuilt: pd.DataFrame) -> None:
    assert disagreeing(rebuilt) == set()
    assert rebuilt[["attribute", "notion"]].value_counts().tolist() == [18] * 4
    first = rebuilt.iloc[0]
    assert [f"{first[name]:.4f}" for name in MOMENTS[:5]] == ["-0.0074", "-0.0190", "0.0116", "0.6667", "0.1454"]
    assert f"{first['p']:.3f}" == "0.730"


def test_one_changed_hit_breaks_one_row(lastfm: pd.DataFrame) -> None:
    rows = table(changed(lastfm, "gender", "frequent", "ICL-1"), light())
    assert disagreeing(rows) == {("gender", "NSD", "ICL-1", "frequent", "hit")}


def test_each_reply_enters_the_rows_it_belongs_to(lastfm: pd.DataFrame) -> None:
    """Nine scenarios, in each a change of another kind of reply; the ninth stays as it was."""
    frame = lastfm
    expected: set[tuple[str, ...]] = set()
    for prompt, column, (sampling, icl), rows in (
        ("gender*", "hit_rate", ("random", "0-shot"), [("gender", "NCSD")]),
        ("age", "hit_rate", ("random", "ICL-1"), [("age", "NSD")]),
        ("age*", "hit_rate", ("random", "ICL-2"), [("age", "NCSD")]),
        ("none", "hit_rate", ("frequent", "0-shot"), list(product(("gender", "age"), NOTIONS))),
        ("none*", "hit_rate", ("frequent", "ICL-1"), []),
        ("intersectional", "hit_rate", ("frequent", "ICL-2"), []),
        ("gender", "average_rank", ("recent-frequent", "0-shot"), [("gender", "NSD")]),
        ("none", "average_rank", ("recent-frequent", "ICL-1"), list(product(("gender", "age"), NOTIONS))),
    ):
        frame = changed(frame, prompt, sampling, icl, column)
        benefit = "hit" if column == "hit_rate" else "rank"
        expected |= {(attribute, notion, icl, sampling, benefit) for attribute, notion in rows}
    assert disagreeing(table(frame, light())) == expected


def test_every_p_of_the_table_is_that_of_scipy(lastfm: pd.DataFrame, rebuilt: pd.DataFrame) -> None:
    for notion in NOTIONS:
        delta = deviations(lastfm, notion, GENDER, RELEASED)
        rows = rebuilt[(rebuilt["attribute"] == "gender") & (rebuilt["notion"] == notion)].set_index(KEY[2:])
        assert len(rows) == 18
        for (icl, sampling, benefit), part in delta.groupby(["icl", "sampling", "benefit"]):
            x, y = (part.loc[part["group"] == name, "value"].to_numpy() for name in ("Male", "Female"))
            row = rows.loc[(icl, sampling, benefit)]
            assert row["p_student"] == pytest.approx(stats.ttest_ind(x, y).pvalue)
            assert row["p_welch"] == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)
            tied = stats.mannwhitneyu(x.round(9), y.round(9)).pvalue
            assert row["p_mannwhitney"] == pytest.approx(tied)
            assert row["p"] == row["p_welch"]


def test_q_is_over_all_rows_that_have_a_p(rebuilt: pd.DataFrame) -> None:
    np.testing.assert_allclose(rebuilt["q"], stats.false_discovery_control(rebuilt["p"]))
    # 18 rows of an attribute and notion alone are another family, with the same p.
    assert rebuilt["p"].notna().sum() == 72


def test_rows_without_a_p_leave_the_family(lastfm: pd.DataFrame) -> None:
    rows = table(lastfm[lastfm["icl"] == "ICL-2"], light(), [GENDER], ["NSD"])
    tested = rows["p"].notna()
    assert tested.tolist() == (rows["icl"] == "ICL-2").tolist()
    assert rows.loc[~tested, "q"].isna().all()
    np.testing.assert_allclose(rows.loc[tested, "q"], stats.false_discovery_control(rows.loc[tested, "p"]))


def test_a_constant_group_is_never_a_significant_issue(rebuilt: pd.DataFrame) -> None:
    """Old users, ICL-2, frequent: nobody's hits changed; print has p = 0.022, on a variance of 0."""
    row = rebuilt.set_index(KEY).loc[("age", "NCSD", "ICL-2", "frequent", "hit")]
    assert f"{row['p']:.3f}" == "0.022"
    assert row["note"] == "no variation in Young"
    assert row["level"] == 2  # δ = 0.0548
    tested = rebuilt[rebuilt["note"] == ""]
    assert ((tested["p"] < 0.05) == (tested["level"] == 4)).all()


# --- released and held-out MovieLens -------------------------------------------------------------------


def test_the_missing_condition_of_the_movielens_file() -> None:
    """It lacks the factual neutral reply of random, 0-shot: `neutral` takes the twin, `factual-neutral` none."""
    first = {"sampling": "random", "icl": "0-shot"}
    held_out = one_scenario(read_benefits("ml1m", "paper"), **first)
    fallback = one_scenario(table(held_out, light(protocol="paper"), [GENDER]), **first)
    hit = fallback[fallback["benefit"] == "hit"].set_index("notion")
    assert hit.loc["NSD", ["n1", "n2"]].sum() == 80
    assert hit.loc["NCSD", ["n1", "n2"]].tolist() == [80, 80]
    # A rank needs a hit in both lists; who lacks one is counted, and nobody is lost.
    rank = fallback[fallback["benefit"] == "rank"].set_index("notion")
    assert rank.loc["NSD", ["n1", "n2", "excluded1", "excluded2"]].sum() == 80
    lost = rank.loc["NSD", ["excluded1", "excluded2"]].sum()
    assert 0 < lost < 80
    assert rank.loc["NSD", "excluded"] == f"no hit in one of the lists: {lost}"

    released = one_scenario(read_benefits("ml1m", "released"), **first)
    rows = one_scenario(table(released, light(), [GENDER]), **first)
    assert rows["n1"].tolist() == rows["n2"].tolist() == [0] * 4
    assert rows["excluded"].tolist() == ["no neutral reply: 80"] * 4
    assert rows[[*TESTS, *MOMENTS, *EFFECT, "q"]].isna().all(axis=None)
    assert rows["level"].isna().all()


# --- comparing two groups ------------------------------------------------------------------------------

X, Y = [0.0, 0.0, 1.0, 1.0, 0.5], [0.0, 0.0, 0.0, 0.0, 1.0]


def test_compare_by_hand() -> None:
    # x: mean 0.5, population variance 4·0.25/5 = 0.2; y: mean 0.2, (4·0.04 + 0.64)/5 = 0.16.
    row = compare(values(a=X, b=Y), ("a", "b"), light(), "hit")
    assert numbers(row, MOMENTS) == pytest.approx([0.5, 0.2, 0.3, 1.0, math.sqrt(0.18), 0.3, 0.15])
    assert (row["group1_name"], row["group2_name"], row["n1"], row["n2"]) == ("a", "b", 5, 5)
    assert (row["excluded1"], row["excluded2"], row["excluded"], row["note"]) == (0, 0, "", "")
    assert row["p_student"] == pytest.approx(stats.ttest_ind(X, Y).pvalue)
    assert row["p_welch"] == pytest.approx(stats.ttest_ind(X, Y, equal_var=False).pvalue)
    assert row["p_mannwhitney"] == pytest.approx(stats.mannwhitneyu(X, Y).pvalue)
    assert row["level"] == 3  # |δ| = 0.3, not significant, above the cut-off 0.10 of hit
    assert compare(values(a=X, b=Y), ("a", "b"), light(), "rank")["level"] == 2  # 0.25 ≤ 0.3 < 0.50


def test_ssnd_spans_the_users_of_both_groups_and_snsr_the_group_means() -> None:
    row = compare(values(a=[-1, -1, -0.5, 0, 0], b=[0, 0, 0, 0.5, 1]), ("a", "b"), light(), "hit")
    assert row["ssnd"] == 2.0
    assert row["snsr"] == pytest.approx(0.5 + 0.3)


def test_permutation_p_is_exact_for_small_groups() -> None:
    experiment = light(permutations=252)  # C(10, 5)
    expected = stats.permutation_test(
        (X, Y),
        lambda x, y, axis: np.abs(x.mean(axis=axis) - y.mean(axis=axis)),
        vectorized=True,
        n_resamples=np.inf,
        alternative="greater",
    ).pvalue
    row = compare(values(a=X, b=Y), ("a", "b"), experiment, "hit")
    assert row["p_permutation"] == pytest.approx(expected)


@pytest.mark.parametrize(("protocol", "test"), [("paper", "p_student"), ("released", "p_welch")])
def test_p_is_that_of_the_protocols_test(protocol: str, test: str) -> None:
    row = compare(values(a=X, b=[*Y, 0.25]), ("a", "b"), light(protocol=protocol), "hit")
    assert row["p"] == row[test]
    assert row["p_student"] != row["p_welch"]


def test_the_interval_is_around_delta() -> None:
    draw = seeds.generator("test", "interval")
    frame = values(a=draw.normal(0.4, 1, 60), b=draw.normal(0, 1, 40))
    row = compare(frame, ("a", "b"), light(replicates=4000), "hit")
    error = math.sqrt(np.var(frame["value"][:60]) / 60 + np.var(frame["value"][60:]) / 40)
    assert row["low"] < row["delta"] < row["high"]
    # A normal interval in all but Monte Carlo error.
    assert (row["high"] - row["low"]) / 2 == pytest.approx(1.96 * error, rel=0.06)


THIRDS = st.lists(st.integers(-3, 3).map(lambda third: third / 3), min_size=5, max_size=9)


@SETTINGS
@given(THIRDS, THIRDS)
def test_swapped_groups_negate_delta_and_keep_p(x: list[float], y: list[float]) -> None:
    experiment = light(permutations=50_000)  # all of C(18, 9) = 48,620
    frame = values(a=x, b=y)
    row, swapped = (compare(frame, pair, experiment, "hit") for pair in (("a", "b"), ("b", "a")))
    assert swapped["delta"] == -row["delta"]
    same = [*TESTS, "ssnd", "ssnr", "snsr", "snsv"]
    assert numbers(swapped, same) == pytest.approx(numbers(row, same), nan_ok=True)
    mirrored = [-number for number in numbers(row, ["high", "low", "g_high", "g_low", "hedges_g"])]
    assert numbers(swapped, ["low", "high", "g_low", "g_high", "hedges_g"]) == pytest.approx(
        mirrored, nan_ok=True, abs=1e-12
    )
    assert (swapped["group1"], swapped["n1"]) == (row["group2"], row["n2"])
    assert swapped["level"] == row["level"]


@SETTINGS
@given(THIRDS, THIRDS, st.randoms(use_true_random=True))
def test_names_of_groups_and_order_of_users_do_not_matter(x: list[float], y: list[float], order: random.Random) -> None:
    experiment = light(permutations=50_000)
    row = compare(values(a=x, b=y), ("a", "b"), experiment, "hit")
    x, y = order.sample(x, len(x)), order.sample(y, len(y))
    other = compare(values(zebra=y, **{"Old & Wise": x}), ("Old & Wise", "zebra"), experiment, "hit")
    same = [*MOMENTS, *TESTS, "hedges_g", "g_low", "g_high"]
    assert numbers(other, same) == pytest.approx(numbers(row, same), nan_ok=True, abs=1e-12)
    assert other["level"] == row["level"]


@SETTINGS
@given(THIRDS, THIRDS)
def test_bounds_of_a_comparison(x: list[float], y: list[float]) -> None:
    row = compare(values(a=x, b=y), ("a", "b"), light(), "hit")
    assert all(math.isnan(p) or 0 <= p <= 1 for p in numbers(row, TESTS))
    assert abs(row["delta"]) <= row["ssnd"] + 1e-12
    assert row["snsr"] == pytest.approx(abs(row["delta"]))
    assert row["snsv"] == pytest.approx(abs(row["delta"]) / 2)  # population SD of two numbers
    assert row["low"] <= row["high"]
    assert row["level"] in LEVELS


def test_a_sampled_permutation_p_of_swapped_groups_is_near() -> None:
    draw = seeds.generator("test", "swap")
    frame = values(a=draw.normal(0.3, 1, 45), b=draw.normal(0, 1, 35))
    experiment = light(permutations=10_000)
    p, q = (compare(frame, pair, experiment, "hit")["p_permutation"] for pair in (("a", "b"), ("b", "a")))
    assert 0.01 < p < 0.9
    assert abs(p - q) < 5 * math.sqrt(2 * p * (1 - p) / 10_000)


@pytest.mark.parametrize(
    ("x", "y", "constant"),
    [
        ([0.04] * 10, [0.04] * 30, "ab"),  # P023: scipy finds p = 5e-6
        ([0.1] * 10, [0.1] * 30, "ab"),
        ([0.0] * 7, [0.0] * 7, "ab"),
        ([0.0] * 7, [1.0] * 7, "ab"),  # as different as can be, on a variance of 0
        ([0.1 + 0.2, 0.3, 0.3, 0.3, 0.3], [0.3] * 5, "ab"),
        ([0.0] * 40, [0.9, 1.0] * 20, "a"),
        ([0.9, 1.0] * 20, [0.0] * 40, "b"),
    ],
)
@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_a_group_without_variation_is_never_level_4(
    x: list[float], y: list[float], constant: str, protocol: str
) -> None:
    row = compare(values(a=x, b=y), ("a", "b"), light(protocol=protocol), "hit")
    assert row["note"] == "; ".join(f"no variation in {name}" for name in constant)
    assert row["level"] == (1 if abs(row["delta"]) < 0.05 else 3)
    if constant == "ab":
        assert math.isnan(row["p"])
        assert math.isnan(row["hedges_g"])
    else:
        assert row["p"] < 1e-6


@pytest.mark.parametrize(("n1", "n2"), list(product((0, 1, 2, 7), repeat=2)))
@pytest.mark.parametrize("outlier", [0.0, 100.0])
def test_tiny_groups_are_described_and_not_tested(n1: int, n2: int, outlier: float) -> None:
    x, y = ([outlier, *(i / 3 for i in range(1, n))][:n] for n in (n1, n2))
    row = compare(values(a=x, b=y), ("a", "b"), light(), "hit")
    assert (row["n1"], row["n2"]) == (n1, n2)
    assert row["group1"] == pytest.approx(np.mean(x) if x else NAN, nan_ok=True)
    small = [name for name, n in (("a", n1), ("b", n2)) if n < 5]
    assert row["note"] == "; ".join(f"n < 5 in {name}: described, not tested" for name in small)
    assert (row["level"] is None) == bool(small)
    assert [math.isnan(number) for number in numbers(row, [*TESTS, *EFFECT])] == [bool(small)] * 10
    for name in ("delta", "snsr", "snsv", "ssnr"):
        assert math.isnan(row[name]) == (min(n1, n2) == 0)
    assert math.isnan(row["ssnd"]) == (n1 + n2 == 0)


def test_the_smallest_group_is_a_setting() -> None:
    frame = values(a=[0.0, 1 / 3, 1.0], b=[0.0, 0.0, 1.0, 1.0])
    assert math.isnan(compare(frame, ("a", "b"), light(min_group=4), "hit")["p"])
    assert compare(frame, ("a", "b"), light(min_group=4), "hit")["note"].startswith("n < 4 in a")
    assert math.isfinite(compare(frame, ("a", "b"), light(min_group=3), "hit")["p"])


def test_excluded_users_are_counted_with_their_reasons() -> None:
    frame = values(a=[0.0, 1.0, NAN, NAN, 1.0], b=[NAN, 1.0, 0.0])
    frame["excluded"] = ["", "", "no hit in one of the lists", "failed reply", "", "failed reply", "", ""]
    row = compare(frame, ("a", "b"), light(min_group=2), "hit")
    assert (row["n1"], row["n2"], row["excluded1"], row["excluded2"]) == (3, 2, 2, 1)
    assert row["excluded"] == "failed reply: 2; no hit in one of the lists: 1"
    assert row["delta"] == pytest.approx(2 / 3 - 1 / 2)


# --- users who stand in both groups (NCSD of the paper) ------------------------------------------------


def test_users_in_both_groups_are_permuted_within() -> None:
    """Users 1-6 stand in both columns in another order, 0 only in the first, 9 only in the second."""
    x = dict(zip([1, 2, 3, 0, 4, 5, 6], [1.0, 2 / 3, 1 / 3, 1.0, 0.0, 1.0, 1 / 3], strict=True))
    y = dict(zip([6, 4, 2, 1, 3, 5, 9], [0.0, 1 / 3, 1 / 3, 2 / 3, 0.0, 2 / 3, 1 / 3], strict=True))
    as_large, total = 0, 0
    observed = abs(sum(x.values()) / 7 - sum(y.values()) / 7)
    for swaps in product([False, True], repeat=6):
        first, second = dict(x), dict(y)
        for user, swap in enumerate(swaps, start=1):
            if swap:
                first[user], second[user] = second[user], first[user]
        total += 1
        as_large += abs(sum(first.values()) / 7 - sum(second.values()) / 7) >= observed - 1e-9
    frame = values(users=[*x, *y], a=x.values(), b=y.values())
    row = compare(frame, ("a", "b"), light(), "hit")
    assert row["p_permutation"] == as_large / total
    strangers = compare(values(a=x.values(), b=y.values()), ("a", "b"), light(permutations=4000), "hit")
    assert strangers["p_permutation"] != as_large / total
    assert row["p_welch"] == strangers["p_welch"]


def test_users_in_both_groups_are_drawn_as_one() -> None:
    """A constant gap per user is certain, however much the users differ from each other."""
    level_of_user = seeds.generator("test", "levels").normal(0, 5, 20)
    twice = values(users=[*range(20), *range(20)], a=level_of_user + 0.5, b=level_of_user)
    row = compare(twice, ("a", "b"), light(), "hit")
    assert (row["low"], row["high"]) == pytest.approx((0.5, 0.5))
    assert row["p_permutation"] == 1 / 201  # never the same sign for all 20 users in 200 draws
    strangers = compare(values(a=level_of_user + 0.5, b=level_of_user), ("a", "b"), light(), "hit")
    assert strangers["low"] < -1
    assert strangers["high"] > 1
    assert strangers["p_permutation"] > 0.1


# --- levels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "p", "expected"),
    [
        (0.0, 0.5, 1),
        (0.0499, 0.5, 1),
        (0.05, 0.5, 2),
        (-0.05, 0.5, 2),
        (0.0999, 0.5, 2),
        (0.10, 0.5, 3),
        (-0.10, 0.5, 3),
        (-0.9, 0.05, 3),  # at α is not below it
        (0.9, 0.0499, 4),
        (0.001, 0.0499, 4),  # significant counts, whatever the size
        (0.0, NAN, 1),
        (0.07, NAN, 2),
        (-0.9, NAN, 3),
        (NAN, 0.001, None),
        (NAN, NAN, None),
    ],
)
def test_levels_at_their_cut_offs(delta: float, p: float, expected: int | None) -> None:
    assert level(delta, p, (0.05, 0.10)) == expected


def test_cut_offs_and_alpha_are_settings() -> None:
    assert level(0.3, 0.03, (0.25, 0.5), alpha=0.05) == 4
    assert level(0.3, 0.03, (0.25, 0.5), alpha=0.01) == 2
    assert level(0.3, 0.03, (0.1, 0.2), alpha=0.01) == 3
    frame = values(a=X, b=Y)
    assert compare(frame, ("a", "b"), light(small_hit=0.31, large_hit=0.5), "hit")["level"] == 1
    assert compare(frame, ("a", "b"), light(small_hit=0.29, large_hit=0.31), "hit")["level"] == 2
    assert compare(frame, ("a", "b"), light(alpha=0.9), "hit")["level"] == 4
    assert sorted(LEVELS) == [1, 2, 3, 4]


# --- intrinsic fairness --------------------------------------------------------------------------------

MEN, WOMEN = [0.0, 1 / 3, 1 / 3, 1.0, 1.0], [0.0, 0.0, 0.0, 1 / 3, 0.0, 1.0]


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_intrinsic_by_hand(protocol: str) -> None:
    experiment = light(protocol=protocol, replicates=2000, permutations=500)  # more than C(11, 5) = 462
    frame = neutral({"Male": MEN, "Female": WOMEN})
    rows = intrinsic(frame, experiment, [GENDER])
    assert len(rows) == len(SAMPLINGS) * len(ICLS)
    row = one_scenario(rows).iloc[0]
    assert (row["group1_name"], row["group2_name"], row["n1"], row["n2"]) == ("Male", "Female", 5, 6)
    assert (row["mean1"], row["mean2"]) == pytest.approx((8 / 15, 2 / 9))
    # Bootstrap means vary by the population SD over √n: Σ(B - mean)² is 34/45 of five, 22/27 of six.
    assert row["error1"] == pytest.approx(math.sqrt(34 / 45 / 5 / 5 / 2000), rel=0.08)
    assert row["error2"] == pytest.approx(math.sqrt(22 / 27 / 6 / 6 / 2000), rel=0.08)
    if protocol == "paper":
        assert (row["group1"], row["group2"]) == (row["mean1"], row["mean2"])
    else:
        assert 0 < abs(row["group1"] - row["mean1"]) < 4 * row["error1"]
        assert 0 < abs(row["group2"] - row["mean2"]) < 4 * row["error2"]
    assert row["difference"] == row["group1"] - row["group2"]
    assert row["ci_low"] < 8 / 15 - 2 / 9 < row["ci_high"]
    assert row["p_permutation"] == statistics.permutation_test(MEN, WOMEN)
    assert row["hedges_g"] == statistics.hedges_g(MEN, WOMEN).value
    assert row["note"] == ""
    others = rows[(rows["sampling"] != "random") | (rows["icl"] != "0-shot")]
    assert others[["mean1", "difference", "ci_low", "p_permutation", "q"]].isna().all(axis=None)
    assert (others["n1"] == 0).all()


def test_welch_on_bootstrap_means_tests_the_number_of_replicates() -> None:
    frame = neutral({"Male": MEN, "Female": WOMEN})
    p = []
    for replicates in (100, 400, 1600):
        row = one_scenario(intrinsic(frame, light(replicates=replicates), [GENDER])).iloc[0]
        (spread1, spread2) = (row[name] * math.sqrt(replicates) for name in ("error1", "error2"))
        welch = stats.ttest_ind_from_stats(
            row["group1"], spread1, replicates, row["group2"], spread2, replicates, equal_var=False
        )
        assert row["p_bootstrap_means"] == pytest.approx(welch.pvalue, rel=1e-6)
        p.append(row["p_bootstrap_means"])
    assert p[0] > 1e10 * p[1] > 0
    assert p[2] < p[1] * 1e-10
    assert row["p_permutation"] > 0.1  # of the users themselves


def test_table_4_of_the_paper_is_within_monte_carlo_error(lastfm: pd.DataFrame) -> None:
    """Print has means of 1,000 unseeded bootstrap means: the plain means, but for an error that is known.

    Its age rows are those means for men and women again, not for young and old.
    """
    rows = intrinsic(lastfm, light(replicates=1000))
    frame = pd.read_csv(paths.published() / "fairevalllm_table4.csv")

    def errors_off(printed_as: str, computed_as: str) -> np.ndarray:
        both = frame[frame["attribute"] == printed_as].merge(
            rows[rows["attribute"] == computed_as], on=["sampling", "icl"], suffixes=("_printed", "")
        )
        assert len(both) == 9
        off = [(both[f"group{i}_printed"] - both[f"mean{i}"]) / both[f"error{i}"] for i in (1, 2)]
        return np.abs(np.concatenate(off))

    assert errors_off("gender", "gender").max() < 4
    assert errors_off("age", "gender").max() < 4
    assert np.median(errors_off("age", "age")) > 10
    for i in (1, 2):
        assert ((rows[f"group{i}"] - rows[f"mean{i}"]).abs() < 4 * rows[f"error{i}"]).all()


def test_intrinsic_excludes_failed_replies_or_counts_them_as_misses() -> None:
    frame = neutral({"Male": [*MEN, 0.0], "Female": WOMEN})
    frame.loc[5, "status"] = "empty"
    exclude, miss = (
        one_scenario(intrinsic(frame, light(protocol=protocol), [GENDER])).iloc[0] for protocol in ("paper", "released")
    )
    assert (exclude["n1"], miss["n1"]) == (5, 6)
    assert exclude["mean1"] == pytest.approx(8 / 15)
    assert miss["mean1"] == pytest.approx(8 / 18)


def test_intrinsic_rank_leaves_undefined_ranks_out() -> None:
    frame = neutral({"Male": MEN, "Female": WOMEN})
    frame["average_rank"] = [NAN, 1, 2, 3, 2, NAN, NAN, NAN, 1, NAN, 1.5]
    row = one_scenario(intrinsic(frame, light(protocol="paper", min_group=2), [GENDER], "rank")).iloc[0]
    assert (row["n1"], row["n2"]) == (4, 2)
    assert (row["mean1"], row["mean2"]) == pytest.approx((2.0, 1.25))


def test_intrinsic_uses_the_neutral_reply_of_the_protocol() -> None:
    frame = four_users(0.0)
    experiment = light(min_group=2)
    released = one_scenario(intrinsic(frame, experiment, [GENDER])).iloc[0]
    paper = one_scenario(intrinsic(frame, light(min_group=2, protocol="paper"), [GENDER])).iloc[0]
    assert (released["n1"], released["n2"]) == (2, 1)  # user 4 has only the twin
    assert (paper["n1"], paper["n2"]) == (2, 2)
    assert (paper["mean1"], paper["mean2"]) == pytest.approx((1 / 6, 2 / 3))
    assert released["mean2"] == 1.0


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_intrinsic_of_tiny_and_constant_groups(protocol: str) -> None:
    experiment = light(protocol=protocol)
    tested = ["p_permutation", "p_bootstrap_means", "hedges_g", "ci_low", "ci_high", "q"]
    few = one_scenario(intrinsic(neutral({"Male": MEN, "Female": [1.0]}), experiment, [GENDER])).iloc[0]
    assert few["note"] == "n < 5 in Female: described, not tested"
    assert few[tested].isna().all()
    assert few["mean2"] == 1.0
    equal = neutral({"Male": [1.0] * 7, "Female": [1.0] * 6})
    same = one_scenario(intrinsic(equal, experiment, [GENDER])).iloc[0]
    assert same["note"] == "no variation in Male; no variation in Female"
    assert (same["difference"], same["ci_low"], same["ci_high"]) == pytest.approx((0, 0, 0), abs=1e-12)
    assert same[["p_permutation", "p_bootstrap_means", "hedges_g", "q"]].isna().all()


def test_intrinsic_of_three_groups_has_a_row_per_pair_and_one_family(lastfm: pd.DataFrame) -> None:
    rows = intrinsic(lastfm, light(), [GENDER, INTERSECTION])
    assert rows["attribute"].value_counts().to_dict() == {"gender": 9, "gender x age": 9 * 6}
    tested = rows["p_permutation"].notna()
    assert not tested.all()
    np.testing.assert_allclose(rows.loc[tested, "q"], stats.false_discovery_control(rows.loc[tested, "p_permutation"]))
    assert rows.loc[~tested, "q"].isna().all()


def test_intrinsic_means_by_hand() -> None:
    frame = neutral({"Male": MEN, "Female": [*WOMEN[:4], 1.0], "Other": [1.0, 0.0]})
    attribute = Attribute("gender", ("gender",), "gender")
    experiment = light(protocol="paper", replicates=4000)
    rows = one_scenario(intrinsic_means(frame, experiment, attribute)).set_index("group")
    assert rows.index.tolist() == ["Female", "Male", "Other"]
    assert rows["n"].tolist() == [5, 5, 2]
    assert rows["mean"].tolist() == pytest.approx([4 / 15, 8 / 15, 1 / 2])
    # A sum of five draws from {0, 1/3, 1/3, 1, 1}: the 2.5 % and 97.5 % points of 3,125 equally likely ones.
    sums = sorted(sum(draws) for draws in product(MEN, repeat=5))
    low, high = (sums[round(3125 * tail)] / 5 for tail in (0.025, 0.975))
    assert rows.loc["Male", ["low", "high"]].tolist() == pytest.approx([low, high])
    assert rows.loc["Other", ["low", "high"]].isna().all()
    elsewhere = intrinsic_means(frame, experiment, attribute).query("icl != '0-shot'")
    assert len(elsewhere) == 3 * 6
    assert (elsewhere["n"] == 0).all()
    assert elsewhere[["mean", "low", "high"]].isna().all(axis=None)


def test_intrinsic_means_are_the_plain_means_of_the_pairs(lastfm: pd.DataFrame) -> None:
    for benefit in BENEFITS:
        pairs = intrinsic(lastfm, light(), [GENDER], benefit).set_index(["sampling", "icl"])
        single = intrinsic_means(lastfm, light(), GENDER, benefit).set_index(["group", "sampling", "icl"])
        for i, name in ((1, "Male"), (2, "Female")):
            part = single.loc[name].loc[pairs.index]
            assert part["mean"].tolist() == pairs[f"mean{i}"].tolist()
            assert part["n"].tolist() == pairs[f"n{i}"].tolist()
            assert ((part["low"] < part["mean"]) & (part["mean"] < part["high"])).all()


# --- target distributions ------------------------------------------------------------------------------

DISTANCES = ["total_variation", "jensen_shannon"]


def target_rows(hits: dict[str, list[float]], **settings: Any) -> pd.DataFrame:
    return one_scenario(targets(neutral(hits), light(**settings), [GENDER])).set_index("target")


def test_targets_by_hand() -> None:
    rows = target_rows({"Male": [1 / 3, 1 / 3], "Female": [1 / 3, 0.0, 1.0]}, min_group=2)
    # All benefit 2: men have 2/3 of it, women 4/3; of the users 2 and 3 of 5.
    proportional = rows.loc["proportional"]
    assert proportional["shares"] == "Male: 0.3333; Female: 0.6667"
    assert proportional["target_shares"] == "Male: 0.4000; Female: 0.6000"
    assert proportional["total_variation"] == pytest.approx(2 / 5 - 1 / 3)
    # Means 1/3 and 4/9, so 3/7 and 4/7 of their sum.
    uniform = rows.loc["uniform"]
    assert uniform["shares"] == "Male: 0.4286; Female: 0.5714"
    assert uniform["target_shares"] == "Male: 0.5000; Female: 0.5000"
    assert uniform["total_variation"] == pytest.approx(1 / 2 - 3 / 7)
    for row, shares, goal in ((proportional, [1 / 3, 2 / 3], [0.4, 0.6]), (uniform, [3 / 7, 4 / 7], [0.5, 0.5])):
        assert row["jensen_shannon"] == pytest.approx(distance.jensenshannon(shares, goal, base=2))


def test_p_of_a_target_is_that_of_counting_labellings() -> None:
    men, women = [1.0, 1.0, 2 / 3, 1.0, 2 / 3], [0.0, 1 / 3, 0.0, 1 / 3, 1.0, 0.0]
    everyone = [*men, *women]

    def distances(chosen: tuple[int, ...]) -> dict[str, float]:
        first = sum(everyone[place] for place in chosen)
        second = sum(everyone) - first
        mean1, mean2 = first / 5, second / 6
        return {
            "proportional": abs(first / (first + second) - 5 / 11),
            "uniform": abs(mean1 / (mean1 + mean2) - 1 / 2),
        }

    observed = distances((0, 1, 2, 3, 4))
    labellings = [distances(chosen) for chosen in combinations(range(11), 5)]
    rows = target_rows({"Male": men, "Female": women}, permutations=10_000)
    for target, value in observed.items():
        assert rows.loc[target, "total_variation"] == pytest.approx(value)
        exact = sum(other[target] >= value - 1e-9 for other in labellings) / len(labellings)
        assert 0.005 < exact < 0.2
        assert abs(rows.loc[target, "tv_p"] - exact) < 4 * math.sqrt(exact * (1 - exact) / 10_000) + 1 / 10_000


def test_on_target_the_distance_is_zero_and_every_labelling_is_as_far() -> None:
    same = [0.0, 1 / 3, 1 / 3, 1.0, 0.0]
    rows = target_rows({"Male": same, "Female": same})
    for target in ("proportional", "uniform"):
        row = rows.loc[target]
        assert row["shares"] == row["target_shares"] == "Male: 0.5000; Female: 0.5000"
        np.testing.assert_allclose(row[DISTANCES].astype(float), 0.0, atol=1e-7)
        assert (row["tv_p"], row["js_p"]) == (1.0, 1.0)
        # A distance is never negative, so its interval lies above 0 even here.
        assert 0 <= row["tv_low"] < row["tv_high"] <= 1
        assert 0 <= row["js_low"] < row["js_high"] <= 1


def test_unequal_groups_with_equal_means_are_on_both_targets() -> None:
    rows = target_rows({"Male": [0.0, 1.0] * 3, "Female": [0.0, 1.0] * 9})
    assert rows.loc["proportional", "shares"] == "Male: 0.2500; Female: 0.7500"
    assert rows.loc["uniform", "shares"] == "Male: 0.5000; Female: 0.5000"
    np.testing.assert_allclose(rows[DISTANCES].to_numpy(dtype=float), 0.0, atol=1e-7)


def test_all_benefit_in_one_group() -> None:
    rows = target_rows({"Male": [1.0] * 5, "Female": [0.0] * 15}, permutations=1000)
    assert rows["shares"].tolist() == ["Male: 1.0000; Female: 0.0000"] * 2
    assert rows["total_variation"].tolist() == pytest.approx([0.75, 0.5])
    # No resample of users within groups changes it.
    assert rows["tv_low"].tolist() == rows["tv_high"].tolist() == pytest.approx([0.75, 0.5])
    # Of the C(20, 5) labellings one is as far from proportional; as far from uniform is also each in which
    # the women have it all.
    assert rows.loc["proportional", "tv_p"] < 4 / 1000
    uniform = (1 + math.comb(15, 5)) / math.comb(20, 5)
    assert abs(rows.loc["uniform", "tv_p"] - uniform) < 4 * math.sqrt(uniform * (1 - uniform) / 1000)


def test_groups_without_variation_have_an_interval_without_width() -> None:
    """Whoever of 5 men with 1/3 and 10 women with 2/3 is drawn: 1/5 of all benefit, 1/3 of the means."""
    rows = target_rows({"Male": [1 / 3] * 5, "Female": [2 / 3] * 10})
    assert rows["shares"].tolist() == ["Male: 0.2000; Female: 0.8000", "Male: 0.3333; Female: 0.6667"]
    expected = pytest.approx([1 / 3 - 1 / 5, 1 / 2 - 1 / 3])
    for name in ("total_variation", "tv_low", "tv_high"):
        assert rows[name].tolist() == expected
    np.testing.assert_allclose(rows[["js_low", "js_high"]].T, [rows["jensen_shannon"]] * 2)


def test_p_of_a_target_is_never_zero() -> None:
    # No random labelling gives the ten men all of it again; the observed one counts.
    rows = target_rows({"Male": [1.0] * 10, "Female": [0.0] * 30})
    assert rows.loc["proportional", ["tv_p", "js_p"]].tolist() == [1 / 201] * 2


def test_nobody_has_any_benefit() -> None:
    rows = target_rows({"Male": [0.0] * 7, "Female": [0.0] * 6})
    measured = [*DISTANCES, "tv_low", "tv_high", "js_low", "js_high", "tv_p", "js_p"]
    assert rows[measured].isna().all(axis=None)
    assert rows["shares"].tolist() == ["Male: nan; Female: nan"] * 2


def test_a_small_group_is_measured_and_not_tested() -> None:
    rows = target_rows({"Male": MEN, "Female": [1.0, 0.0]})
    assert rows[DISTANCES].notna().all(axis=None)
    assert rows[["tv_low", "tv_high", "js_low", "js_high", "tv_p", "js_p"]].isna().all(axis=None)


def test_targets_of_three_groups() -> None:
    frame = neutral({"clerk": [1.0] * 5, "farmer": [1.0, 0.0] * 5, "lawyer": [1.0] * 5}, "occupation")
    rows = one_scenario(targets(frame, light(), [OCCUPATION])).set_index("target")
    # Each a third of the benefit; 5, 10 and 5 of 20 users. Means 1, 1/2, 1: shares 2/5, 1/5, 2/5.
    assert rows.loc["proportional", "shares"] == "clerk: 0.3333; farmer: 0.3333; lawyer: 0.3333"
    assert rows.loc["proportional", "total_variation"] == pytest.approx(1 / 2 - 1 / 3)
    assert rows.loc["uniform", "shares"] == "clerk: 0.4000; farmer: 0.2000; lawyer: 0.4000"
    assert rows.loc["uniform", "total_variation"] == pytest.approx(1 / 3 - 1 / 5)
    assert rows["tv_p"].notna().all()


# --- nothing depends on the order of work --------------------------------------------------------------


TABLES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "table, released": lambda frame: table(frame, light(), [GENDER]),
    "table, paper": lambda frame: table(frame, light(protocol="paper"), [GENDER]),
    "omnibus": lambda frame: omnibus(frame, light(), INTERSECTION, "NSD"),
    "intrinsic, released": lambda frame: intrinsic(frame, light()),
    "intrinsic, paper": lambda frame: intrinsic(frame, light(protocol="paper")),
    "intrinsic means": lambda frame: intrinsic_means(frame, light(), GENDER),
    "targets": lambda frame: targets(frame, light()),
}


@pytest.mark.parametrize("compute", TABLES.values(), ids=TABLES.keys())
def test_results_do_not_depend_on_the_order_of_rows(
    compute: Callable[[pd.DataFrame], pd.DataFrame], lastfm: pd.DataFrame
) -> None:
    frame = one_scenario(lastfm)
    before = frame.copy(deep=True)
    # Sums may differ in the last bits; a resample with other users would differ in the third digit.
    assert_frame_equal(compute(shuffled(frame)), compute(frame), rtol=1e-9, atol=1e-12)
    assert_frame_equal(frame, before)


def test_results_do_not_depend_on_what_was_computed_before(lastfm: pd.DataFrame) -> None:
    frame = one_scenario(lastfm, "frequent", "ICL-2")
    forward = {name: compute(frame) for name, compute in TABLES.items()}
    statistics.shuffles.cache_clear()
    for name in reversed(TABLES):
        assert_frame_equal(TABLES[name](frame), forward[name], check_exact=True)


SEVENTY_USERS = seeds.generator("test", "seventy users").binomial(10, 0.4, (2, 35)) / 10


def compared(users: Iterable[int] | None, experiment: Experiment) -> dict[str, Any]:
    frame = values(users=users, a=SEVENTY_USERS[0], b=SEVENTY_USERS[1])
    return compare(frame, ("a", "b"), experiment, "hit")


def of_neutral(call: Callable[..., pd.DataFrame], experiment: Experiment) -> dict[str, Any]:
    frame = neutral({"Male": SEVENTY_USERS[0].tolist(), "Female": SEVENTY_USERS[1, :30].tolist()})
    return one_scenario(call(frame, experiment, [GENDER])).iloc[0].to_dict()


@pytest.mark.parametrize(
    ("compute", "fixed", "bounds", "counted"),
    [
        (lambda e: compared(None, e), [*MOMENTS, "p", "hedges_g"], ["low", "high"], ["p_permutation"]),
        (lambda e: compared([*range(35)] * 2, e), [*MOMENTS, "p"], ["low", "high"], ["p_permutation"]),
        (lambda e: of_neutral(intrinsic, e), ["mean1", "mean2"], ["ci_low", "ci_high"], ["p_permutation"]),
        (
            lambda e: of_neutral(lambda frame, e, attributes: intrinsic_means(frame, e, *attributes), e),
            ["mean"],
            ["low", "high"],
            [],
        ),
        (
            lambda e: of_neutral(targets, e),
            DISTANCES,
            ["tv_low", "tv_high", "js_low", "js_high"],
            ["tv_p", "js_p"],
        ),
    ],
    ids=["groups", "the same users twice", "intrinsic", "intrinsic means", "targets"],
)
def test_settings_of_resampling_enter_what_is_drawn_and_nothing_else(
    compute: Callable[[Experiment], dict[str, Any]], fixed: list[str], bounds: list[str], counted: list[str]
) -> None:
    base: dict[str, Any] = {"replicates": 997, "permutations": 1999}
    row = compute(light(**base))
    assert compute(light(**base)) == row
    for setting, differ in (
        ({"seed": 1}, {*bounds, *counted}),
        ({"replicates": 499}, {*bounds}),
        ({"permutations": 1499}, {*counted}),
    ):
        other = compute(light(**(base | setting)))
        names = [*fixed, *bounds, *counted]
        assert {name for name in names if other[name] != row[name]} == differ


def test_a_part_of_the_table_is_that_part_but_for_q(lastfm: pd.DataFrame, rebuilt: pd.DataFrame) -> None:
    part = table(one_scenario(lastfm, "frequent", "ICL-2"), light(), [AGE], ["NCSD"])
    expected = one_scenario(rebuilt, "frequent", "ICL-2").query("attribute == 'age' and notion == 'NCSD'")
    assert len(expected) == len(BENEFITS)
    assert_frame_equal(
        one_scenario(part, "frequent", "ICL-2").drop(columns="q").reset_index(drop=True),
        expected.drop(columns="q").reset_index(drop=True),
        check_exact=True,
    )


# --- errors --------------------------------------------------------------------------------------------


def one_line(kind: type[FairnbError], match: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_an_unknown_group_is_named_with_the_known_ones() -> None:
    frame = four_users(NAN).replace({"gender": {"Female": "female"}})
    for call in (
        lambda: deviations(frame, "NSD", GENDER, PAPER),
        lambda: table(frame, light()),
        lambda: intrinsic(frame, light()),
        lambda: targets(frame, light()),
    ):
        one_line(DataError, "unknown group 'female' of gender; expected Male, Female", call)


@pytest.mark.parametrize("notion", ["nsd", "IF", ""])
def test_an_unknown_notion(notion: str) -> None:
    one_line(
        ParameterError,
        f"notion = '{notion}': expected one of NSD, NCSD",
        lambda: deviations(four_users(NAN), notion, GENDER, PAPER),
    )


def test_a_missing_column_of_an_attribute() -> None:
    frame = four_users(NAN).drop(columns="age_group")
    for attribute in (AGE, INTERSECTION):
        one_line(
            DataError,
            f"no column age_group; attribute {attribute.name} needs it",
            lambda attribute=attribute: deviations(frame, "NSD", attribute, PAPER),
        )
    one_line(DataError, "no column occupation", lambda: targets(frame, light(), [OCCUPATION]))


@pytest.mark.parametrize(
    "column",
    ["user", "sampling", "icl", "counterfactual", "demographics", "status", "hit_rate", "average_rank"],
)
def test_a_missing_column_of_the_frame(column: str) -> None:
    frame = four_users(NAN).drop(columns=column)
    # A column of one benefit is not needed for the other.
    for call in (table,) if column == "average_rank" else (table, intrinsic, targets):
        one_line(DataError, column, lambda call=call: call(frame, light(protocol="paper"), [GENDER]))


@pytest.mark.parametrize("call", [intrinsic, targets], ids=["intrinsic", "targets"])
def test_an_unknown_benefit(call: Callable[..., object]) -> None:
    one_line(ParameterError, "ndcg", lambda: call(four_users(NAN), light(), [GENDER], "ndcg"))


@pytest.mark.parametrize("call", [table, intrinsic], ids=["table", "intrinsic"])
def test_users_of_one_group_only_give_nothing_to_test(call: Callable[..., pd.DataFrame]) -> None:
    frame = four_users(0.0).query("gender == 'Male'")
    with pytest.raises(DataError, match=r"nothing to compare.*at least two groups"):
        call(frame, light(), [GENDER])
