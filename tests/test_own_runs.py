"""The fairness notebooks on the replies of a reader's own run: other attributes, groups, ids, K and numbers of askings."""

import json
import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from fairnb import exhibits, fairness, frames, paths
from fairnb.errors import DataError
from fairnb.exhibits import charts, evaluated, tables
from fairnb.prompts import GROUP_COLUMN
from fairnb.settings import ICLS, SAMPLINGS, Experiment, Protocol

NAN = math.nan
NOTEBOOKS = ("03_nsd_ncsd", "04_intrinsic_fairness", "05_figures")
LIGHT = {"replicates": 100, "permutations": 100}
ROW = {"sampling": "random", "icl": "0-shot", "repeat": 0, "n_items": 3, "n_matched": 3, "status": "ok"}


# --- Runs ---


def grid(users: pd.DataFrame, attributes: tuple[str, ...], *, k: int, repeats: int, refused: float = 0) -> pd.DataFrame:
    """The benefits of a made-up run: every condition of every user, hits by lot."""
    rng = np.random.default_rng(7)
    columns = {name: GROUP_COLUMN.get(name, name) for name in attributes}
    values = {name: sorted(users[column].dropna().unique()) for name, column in columns.items()}
    rows = []
    for user, (sampling, icl) in product(users.to_dict("records"), product(SAMPLINGS, ICLS)):
        own = {name: user[column] for name, column in columns.items() if isinstance(user[column], str)}
        stated = [(name, (name,)) for name in own]
        if len(own) == len(attributes) > 1:
            stated.append(("intersectional", attributes))
        prompts = [("no", "none", "", repeat) for repeat in range(repeats)] + [("yes", "none", "", 0)]
        for label, names in stated:
            prompts.append(("no", label, " & ".join(own[name] for name in names), 0))
            others = product(*([value for value in values[name] if value != own[name]] for name in names))
            prompts += [("yes", label, " & ".join(other), 0) for other in others]
        first = None
        for counterfactual, demographics, value, repeat in prompts:
            status = "refused" if rng.random() < refused else "ok"
            hits = int(rng.integers(0, k + 1)) if status == "ok" else 0
            one = {
                "n_items": k if status == "ok" else 0,
                "n_matched": k if status == "ok" else 0,
                "hits": hits,
                "hit_rate": hits / k,
                "average_rank": float(rng.integers(1, k + 1)) if hits else NAN,
                "status": status,
            }
            if (counterfactual, demographics) == ("yes", "none"):
                one = first  # the same text has the same answer
            first = first or one
            head = {"sampling": sampling, "icl": icl, "counterfactual": counterfactual, "demographics": demographics}
            rows.append({**user, **head, "stated": value, "repeat": repeat, **one})
    return pd.DataFrame(rows)


def people(n: int, **groups: tuple[object, ...]) -> pd.DataFrame:
    """Users with text ids; each column's values go round."""
    return pd.DataFrame(
        {"user": [f"listener {number:03}" for number in range(n)]}
        | {name: [values[number % len(values)] for number in range(n)] for name, values in groups.items()}
    )


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Write a run's folder; the result evaluates it."""

    def write(benefits: pd.DataFrame, asked: dict, **settings) -> Experiment:
        folder = tmp_path / "a run"
        monkeypatch.setenv(paths.FIGURES_VARIABLE, str(folder / "figures"))
        interactions = pd.DataFrame(
            [
                (user, item, item, "test" if item > 3 else "train")
                for user in benefits["user"].unique()
                for item in range(5)
            ],
            columns=["user_id", "item_id", "timestamp", "part"],
        )
        asked = {"name": "mine", "dataset": "sample-songs", "protocol": "paper", **asked}
        frames.write(Experiment(**asked), benefits=benefits, interactions=interactions)
        monkeypatch.setenv(paths.FIGURES_VARIABLE, str(tmp_path / "out" / "figures"))
        return Experiment(**{"replies": str(folder), "protocol": "paper", **LIGHT, **settings})

    return write


def rows_of(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame([{**ROW, "stated": "", "average_rank": NAN, **row} for row in rows])


SIMULATED = {"model": "simulated", "sim_bias": "female=0.3", "sim_noise": 0.1}
RUNS = {
    "three ages, K = 5, people without a group, refusals, three askings": (
        people(26, gender=("Male", "Female", None, "Female", "Male"), age_group=("up to 24", "over 34", "25 to 34")),
        {"attributes": "gender,age", "age_split": "24,34", "k": 5, "repeats": 3, **SIMULATED},
        0.05,
    ),
    "one attribute, one asking, K = 1": (
        people(14, gender=("Male", "Female")),
        {"attributes": "gender", "k": 1, "model": "some/model:7b", "temperature": 0.7},
        0.0,
    ),
    "four countries, two askings": (
        people(24, country=("São Tomé", "NA", "Iceland", "a_b & c%")),
        {"attributes": "country", "k": 7, "repeats": 2, "model": "simulated", "fuzzy": 0},
        0.0,
    ),
    "every reply failed": (
        people(12, gender=("Male", "Female"), age_group=("Young", "Young", "Old")),
        {"attributes": "gender,age", "k": 3, **SIMULATED},
        1.0,
    ),
}


def made(name: str) -> tuple[pd.DataFrame, dict]:
    users, asked, refused = RUNS[name]
    stated = tuple(asked["attributes"].split(","))
    return grid(users, stated, k=asked["k"], repeats=asked.get("repeats", 1), refused=refused), asked


def executed(experiment: Experiment, notebook: str, monkeypatch) -> tuple[list, list[str]]:
    """Run a notebook's code cells with an experiment's settings; return exhibits written and texts said."""
    written, said = [], []
    monkeypatch.setattr(exhibits, "show", lambda *_: None)
    monkeypatch.setattr(exhibits, "say", said.append)
    monkeypatch.setattr(exhibits, "write", lambda _, made: written.extend(made))
    names: dict = {}
    for cell in json.loads((paths.notebooks() / f"{notebook}.ipynb").read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
        if "parameters" in cell["metadata"].get("tags", []):
            names |= {key: value for key, value in experiment.model_dump().items() if key in names}
    return written, said


@pytest.mark.parametrize("notebook", NOTEBOOKS)
@pytest.mark.parametrize("name", RUNS)
def test_every_exhibit_of_the_notebooks_comes_out_of_a_run(name, notebook, run, monkeypatch, capsys):
    benefits, asked = made(name)
    experiment = run(benefits, asked, min_usable=0.0)

    def stub(one: Experiment, protocol: Protocol) -> pd.DataFrame:
        assert one.replies == experiment.replies
        rank = benefits["average_rank"]
        return benefits.assign(average_rank=rank.fillna(0) if protocol.rank_without_hit == "zero" else rank)

    monkeypatch.setattr("fairnb.scoring.rescored", stub)
    written, said = executed(experiment, notebook, monkeypatch)
    assert len(written) >= 5
    k = asked["k"]
    for exhibit in written:
        assert len(exhibit.data) or (name == "every reply failed" and exhibit.name == "deviation_distribution")
        assert exhibit.csv.startswith(str(exhibit.data.columns[0])), exhibit.name
        texts = [exhibit.caption]
        if exhibit.figure:
            assert exhibit.png.startswith(b"\x89PNG"), exhibit.name
        else:
            texts += [exhibit.html, exhibit.latex]
        for text in texts:
            assert "gpt-3.5" not in text, exhibit.name
            assert "80 released users" not in text, exhibit.name
            assert "printed" not in text.replace("The paper prints no", ""), exhibit.name
            for metric in ("HitRate@", "AverageRank@", "HR@", "AR@"):
                assert all(part.startswith(str(k)) for part in text.split(metric)[1:]), exhibit.name
        assert "Synthetic sample" in exhibit.caption, exhibit.name
        if exhibit.name not in ("table3_run", "two_protocols"):
            assert f"K = {k}. Protocol: paper; titles exact" in exhibit.caption, exhibit.name
    assert "print" not in " ".join(said)


# --- What is read ---


def test_the_caption_says_data_users_model_and_what_was_planted(run):
    benefits, asked = made("three ages, K = 5, people without a group, refusals, three askings")
    # What a server plants is not known here, and its address may hold a password.
    served = run(benefits, {**asked, "base_url": "http://me:secret@127.0.0.1:1/v1"})
    assert "replies of simulated at temperature 0, K = 5." in evaluated.source(served)
    experiment = run(benefits, asked)
    assert evaluated.source(experiment) == (
        "Synthetic sample in the format of Last.fm 1K (26 users), replies of the simulated recommender "
        "(bias female=0.3, noise 0.1), K = 5. Protocol: paper; titles exact or at least 92 % alike."
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"model": "some/model:7b", "temperature": 0.7}, "replies of some/model:7b at temperature 0.7, K = 3."),
        ({"model": "m", "temperature": -1.0}, "replies of m at the server's own temperature, K = 3."),
        ({"model": "simulated"}, "replies of the simulated recommender (all dials at 0), K = 3."),
        ({"model": "m", "dataset": "own"}, "Own data (2 users), replies of m at temperature 0, K = 3."),
        ({"model": "m", "dataset": "ml100k"}, "MovieLens 100K (2 users), replies of m"),
        ({"model": "m", "fuzzy": 0.0}, "Protocol: paper; titles exact."),
    ],
)
def test_the_caption_of_other_runs(run, asked, said):
    benefits = grid(people(2, gender=("Male", "Female")), ("gender",), k=3, repeats=1)
    assert said in evaluated.source(run(benefits, {"attributes": "gender", **asked}))


def test_the_answer_that_counts_is_read_and_the_repeats_by_themselves(run):
    users = people(4, gender=("Male", "Female"))
    benefits = grid(users, ("gender",), k=3, repeats=3)
    experiment = run(benefits, {"attributes": "gender", "repeats": 3})
    read = evaluated.load(experiment)
    assert len(read) == 4 * 9 * 4
    assert set(read["repeat"]) == {0}
    again = evaluated.load_repeats(experiment)
    assert again.groupby(["user", "sampling", "icl"])["repeat"].agg(list).map(sorted).tolist() == [[0, 1, 2]] * 36


def test_an_answer_that_two_conditions_share_is_counted_once(run):
    benefits = grid(people(4, gender=("Male", "Female")), ("gender",), k=3, repeats=2)
    counts = tables.replies(
        evaluated.load(run(benefits, {"attributes": "gender"})), run(benefits, {"attributes": "gender"})
    )
    assert counts.data["replies"].tolist() == [2 * 9 * 3, 2 * 9 * 3]


def test_another_protocol_scores_the_run_anew(run, monkeypatch):
    benefits = grid(people(4, gender=("Male", "Female")), ("gender",), k=3, repeats=1)
    experiment = run(benefits, {"attributes": "gender"}, protocol="released")
    asked = []
    monkeypatch.setattr("fairnb.scoring.rescored", lambda one, protocol: (asked.append(protocol.name), benefits)[1])
    evaluated.load(experiment)
    evaluated.load(experiment.model_copy(update={"protocol": "paper"}))
    assert asked == ["released"]


def test_the_released_replies_have_two_askings_of_each_neutral_prompt():
    repeats = evaluated.load_repeats(Experiment())
    assert repeats["demographics"].unique().tolist() == ["none"]
    assert repeats.groupby("repeat").size().tolist() == [720, 720]
    assert (repeats["repeat"] == repeats["counterfactual"].map({"no": 0, "yes": 1})).all()


def test_too_few_usable_replies_stop_with_one_line(run):
    benefits = grid(people(4, gender=("Male", "Female")), ("gender",), k=3, repeats=1)
    benefits.loc[benefits["gender"] == "Female", "status"] = "refused"
    benefits.loc[benefits.index[-1], "status"] = "truncated"
    with pytest.raises(DataError) as error:
        evaluated.load(run(benefits, {"attributes": "gender", "name": "mine"}))
    said = str(error.value)
    assert "\n" not in said
    assert (
        "50.0 % of 108 replies hold a list (ok 54, refused 53, truncated 1; users by gender: Male 100.0 %, "
        "Female 0.0 %; prompts that state " in said
    )
    assert "expected at least 90 %; look at what came back (statuses.csv, notebook 02), or lower min_usable" in said
    assert said.endswith("or lower min_usable")
    assert len(evaluated.load(run(benefits, {"attributes": "gender"}, min_usable=0.5)))


def test_too_few_usable_released_replies_stop_too(tmp_path):
    file = paths.released() / "lastfm1k_top3.csv"
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table.loc[table.index[:1000], "status"] = "unparsed"
    table.to_csv(tmp_path / file.name, index=False, lineterminator="\n")
    with pytest.raises(DataError, match=r"82\.6 % of 5,760 replies hold a list .* or lower min_usable$"):
        evaluated.load(Experiment(released_folder=str(tmp_path)))


# --- Attributes and groups ---


def test_attributes_of_the_released_replies_are_the_papers():
    assert fairness.attributes_of(Experiment(), pd.DataFrame()) == [
        fairness.GENDER,
        fairness.AGE,
        fairness.INTERSECTION,
    ]


def test_groups_have_the_order_of_the_tables(run):
    users = people(
        12, gender=("Female", "Male"), age_group=("over 34", "up to 24", "25 to 34"), country=("b", "a", None)
    )
    benefits = grid(users, ("age", "gender", "country"), k=3, repeats=1)
    experiment = run(benefits, {"attributes": "age,gender,country", "age_split": "24,34"})
    age, gender, country, together = fairness.attributes_of(experiment, benefits)
    assert gender == fairness.GENDER
    assert (age.columns, age.values) == (("age_group",), ("up to 24", "25 to 34", "over 34"))
    assert (country.columns, country.values) == (("country",), ("a", "b"))
    assert together.name == "age x gender x country"
    assert together.demographics == "intersectional"
    assert together.values[1] == "up to 24 & Male & b"
    assert set(benefits.loc[benefits["demographics"] == "intersectional", "stated"]) <= set(together.values)


def test_young_stands_before_old_and_other_genders_are_sorted(run):
    users = people(6, gender=("m", "f", "x"), age_group=("Old", "Young"))
    experiment = run(grid(users, ("gender", "age"), k=3, repeats=1), {"attributes": "gender,age"})
    gender, age, _ = fairness.attributes_of(experiment, evaluated.load(experiment))
    assert gender.values == ("f", "m", "x")
    assert age == fairness.AGE


def test_colours_belong_to_names():
    assert charts.group_colours(["Old", "Young"]) == {"Young": "#009E73", "Old": "#CC79A7"}
    assert charts.group_colours(["c", "a", "b"]) == charts.group_colours(["a", "b", "c"])
    mixed = charts.group_colours(["Male", "Female", "other", "diverse"])
    assert mixed["Male"] == charts.GROUP_COLOURS["Male"]
    assert len(set(mixed.values())) == 4


# --- Values by hand ---


def two_countries() -> pd.DataFrame:
    """K = 5. a, b from X; c, d from Y; e of no known country. One scenario."""
    prompts = {
        # user: country, hits of the neutral list (as asked three times), sensitive, counterfactual
        "a": ("X", (1, 1, 3), 3, 0),
        "b": ("X", (2, 2, 2), 2, 2),
        "c": ("Y", (0, 1, 0), 0, 5),
        "d": ("Y", (4, 0, 4), 1, 4),
        "e": (None, (5, 0, 0), None, None),
    }
    rows = []
    for user, (country, neutral, sensitive, flipped) in prompts.items():
        other = {"X": "Y", "Y": "X"}.get(country)
        named = [("none", "no", "", repeat, hits) for repeat, hits in enumerate(neutral)]
        named += [("none", "yes", "", 0, neutral[0])]
        if country:
            named += [("country", "no", country, 0, sensitive), ("country", "yes", other, 0, flipped)]
        rows += [
            {
                "user": user,
                "country": country,
                "demographics": demographics,
                "counterfactual": counterfactual,
                "stated": stated,
                "repeat": repeat,
                "hits": hits,
                "hit_rate": hits / 5,
            }
            for demographics, counterfactual, stated, repeat, hits in named
        ]
    return rows_of(*rows)


@pytest.fixture
def by_hand(run):
    return run(two_countries(), {"attributes": "country", "k": 5, "repeats": 3}, min_group=2)


def scenario(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["sampling"] == "random") & (frame["icl"] == "0-shot")]


def test_nsd_and_ncsd_of_another_attribute(by_hand):
    rows = scenario(fairness.table(evaluated.load(by_hand), by_hand))
    hit = rows[rows["benefit"] == "hit"].set_index("notion")
    # NSD: X gains 2 and 0 of 5, Y gains 0 and loses 3.
    assert hit.at["NSD", "delta"] == pytest.approx((0.4 + 0) / 2 - (0 - 0.6) / 2)
    # NCSD: do(X) holds a, b with their own value and c, d under X; do(Y) the other way round.
    assert hit.at["NCSD", "group1"] == pytest.approx((0.4 + 0 + 1.0 + 0) / 4)
    assert hit.at["NCSD", "group2"] == pytest.approx((-0.2 + 0 + 0 - 0.6) / 4)
    assert hit["without_group"].tolist() == [1, 1]


def test_repeat_noise_by_hand(by_hand):
    noise = scenario(fairness.repeat_noise(evaluated.load_repeats(by_hand), by_hand))
    hit = noise[noise["benefit"] == "hit"].iloc[0]
    # Second asking: a 0, b 0, c +1, d -4; third: a +2, b 0, c 0, d 0 (fifths); e has no group.
    changes = [0, 0, 0.2, -0.8, 0.4, 0, 0, 0]
    assert hit["n"] == 8
    assert hit["sd"] == pytest.approx(np.std(changes, ddof=1))
    assert hit["mean_abs"] == pytest.approx(1.4 / 8)
    assert hit["share_changed"] == pytest.approx(3 / 8)
    # |0 - (-0.3)| in the second asking, |0.2 - 0| in the third.
    assert hit["delta"] == pytest.approx(0.3)
    assert hit["note"] == ""
    rank = noise[noise["benefit"] == "rank"].iloc[0]
    assert (rank["n"], rank["note"]) == (0, "no two answers")
    assert math.isnan(rank["sd"])
    assert math.isnan(rank["delta"])


def test_other_scenarios_were_not_asked_again(by_hand):
    noise = fairness.repeat_noise(evaluated.load_repeats(by_hand), by_hand)
    assert (noise["note"] == "asked once").sum() == 8 * 2
    assert noise.loc[noise["note"] == "asked once", ["sd", "mean_abs", "share_changed", "delta"]].isna().all().all()


def test_a_failed_repeat_is_no_change_of_the_list(run):
    benefits = two_countries()
    benefits.loc[(benefits["user"] == "d") & (benefits["repeat"] == 1), "status"] = "refused"
    experiment = run(benefits, {"attributes": "country", "k": 5, "repeats": 3})
    hit = scenario(fairness.repeat_noise(evaluated.load_repeats(experiment), experiment)).iloc[0]
    assert hit["n"] == 7
    assert hit["delta"] == pytest.approx(0.2)


def test_the_reading_counts_rows_within_the_noise(by_hand):
    benefits = evaluated.load(by_hand)
    rows = fairness.table(benefits, by_hand)
    noise = fairness.repeat_noise(evaluated.load_repeats(by_hand), by_hand)
    table = tables.table2(rows, by_hand)
    # |δ| is 0.5 in NSD and 0.55 in NCSD, both above 0.3; only these two rows have any δ.
    assert "In 0 of 2 rows |δ| is no larger" in tables.reading_of_table2(rows, table, noise, by_hand)
    wider = noise.assign(delta=noise["delta"] + 0.2)
    assert "In 1 of 2 rows |δ| is no larger" in tables.reading_of_table2(rows, table, wider, by_hand)
    never = noise.assign(delta=NAN)
    assert "No neutral prompt has two answers" in tables.reading_of_table2(rows, table, never, by_hand)


def test_noise_stands_beside_delta(by_hand):
    rows = fairness.table(evaluated.load(by_hand), by_hand)
    noise = fairness.repeat_noise(evaluated.load_repeats(by_hand), by_hand)
    table = tables.statistics_of_table2(rows, noise, by_hand)
    first = table.data.index[(table.data["benefit"] == "hit") & table.data["noise_delta"].notna()]
    assert table.data.loc[first, "notion"].tolist() == ["NSD", "NCSD"]
    assert table.data.loc[first, "noise_delta"].tolist() == pytest.approx([0.3, 0.3])
    sd = np.std([0, 0, 0.2, -0.8, 0.4, 0, 0, 0], ddof=1)
    assert table.shown.loc[first, "repeat noise: SD, |δ|"].tolist() == [f"{sd:.3f}, 0.300"] * 2
    assert (table.shown["repeat noise: SD, |δ|"] == "asked once").sum() == 32


def test_released_noise_is_that_of_the_reply_filed_under_yes():
    experiment = Experiment()
    benefits = evaluated.load(experiment)
    noise = fairness.repeat_noise(evaluated.load_repeats(experiment), experiment).set_index(
        ["attribute", "sampling", "icl", "benefit"]
    )
    neutral = benefits[(benefits["demographics"] == "none") & (benefits["sampling"] == "frequent")]
    wide = neutral[neutral["icl"] == "ICL-1"].pivot(index="user", columns="counterfactual", values="hit_rate")
    change = wide["yes"] - wide["no"]
    gender = benefits.drop_duplicates("user").set_index("user")["gender"]
    found = noise.loc[("gender", "frequent", "ICL-1", "hit")]
    assert found["n"] == 80
    assert found["sd"] == pytest.approx(change.std())
    means = change.groupby(gender).mean()
    assert found["delta"] == pytest.approx(abs(means["Male"] - means["Female"]))


def test_a_pair_that_is_not_the_papers_is_named_in_its_row(by_hand):
    benefits = evaluated.load(by_hand)
    table = tables.table2(fairness.table(benefits, by_hand), by_hand)
    assert set(table.shown["pair"]) == {"X − Y"}
    assert {"group1_name", "group2_name"} <= set(table.data.columns)
    assert "δ = group 1 − group 2 (named in each row)." in table.caption
    four = tables.table4(fairness.intrinsic(benefits, by_hand), by_hand)
    assert set(four.shown["", "pair"]) == {"X − Y"}


def test_users_without_a_group_are_counted_where_they_are_left_out(by_hand):
    benefits = evaluated.load(by_hand)
    rows = fairness.table(benefits, by_hand)
    said = "1 user without country is in no comparison by country."
    noise = fairness.repeat_noise(evaluated.load_repeats(by_hand), by_hand)
    for exhibit in (
        tables.replies(benefits, by_hand),
        tables.table2(rows, by_hand),
        tables.statistics_of_table2(rows, noise, by_hand),
        tables.table4(fairness.intrinsic(benefits, by_hand), by_hand),
        tables.targets(fairness.targets(benefits, by_hand), by_hand),
        tables.bootstrap_test(benefits, by_hand),
        tables.omnibus(
            fairness.omnibus(benefits, by_hand, fairness.attributes_of(by_hand, benefits)[-1], "NSD"), by_hand
        ),
        tables.two_protocols(rows, rows, by_hand),
        charts.figure2({"sample-songs": rows}, by_hand),
        charts.forest(rows, by_hand),
        charts.levels(rows, by_hand),
        charts.intrinsic_means(benefits, by_hand),
        charts.deviation_distribution(benefits, by_hand),
    ):
        assert exhibit.caption.endswith(said), exhibit.name


def test_left_out_speaks_of_several_attributes_and_of_nobody():
    rows = pd.DataFrame({"attribute": ["gender", "age", "country"], "without_group": [2, 0, 1200]})
    assert evaluated.left_out(rows) == (
        " 2 users without gender are in no comparison by gender."
        " 1,200 users without country are in no comparison by country."
    )
    assert evaluated.left_out(rows.assign(without_group=0)) == ""


def test_the_example_is_the_first_user_whose_lists_moved(by_hand):
    example = tables.one_user(evaluated.load(by_hand), evaluated.load_repeats(by_hand), by_hand)
    assert example.caption.startswith("User a (X), 0-shot / rand: five replies")
    assert example.data["prompt"].tolist() == [
        *("neutral", "sensitive: X", "counterfactual: Y"),
        *("neutral, asked again", "neutral, asked again"),
    ]
    assert example.data["hits"].tolist() == [1, 3, 0, 1, 3]
    assert example.data["delta_hit_rate"].tolist() == pytest.approx([0, 0.4, -0.2, 0, 0.4])


def test_no_example_where_nothing_moved(run):
    benefits = two_countries()
    still = benefits.assign(hits=1, hit_rate=0.2)
    experiment = run(still, {"attributes": "country", "k": 5})
    example = tables.one_user(evaluated.load(experiment), evaluated.load_repeats(experiment), experiment)
    assert len(example.data) == 1
    assert "no example" in example.data["statement"].iloc[0]


def test_table3_counts_the_runs_own_interactions(by_hand):
    table = tables.table3(by_hand)
    assert table.data[["part", "rows", "users", "rows_per_user"]].to_numpy().tolist() == [
        ["train", 20, 5, 4.0],
        ["test", 5, 5, 1.0],
    ]
    assert not any("print" in column for column in table.data.columns)


def test_ground_truths_of_a_run_are_four_ways_to_score_it(by_hand, monkeypatch):
    benefits = two_countries()

    def scored(_: Experiment, protocol: Protocol) -> pd.DataFrame:
        more = {"held-out": 0, "file": 1}[protocol.ground_truth] + {"once": 0, "each": 2}[protocol.repeated_ids]
        return benefits.assign(hits=benefits["hits"] + more)

    monkeypatch.setattr("fairnb.scoring.rescored", scored)
    data = tables.ground_truths(by_hand).data
    assert data[["ground_truth", "repeated_titles", "hits"]].to_numpy().tolist() == [
        ["held-out items", "once", 12],
        ["held-out items", "each", 12 + 2 * 5],
        ["train items", "once", 12 + 5],
        ["train items", "each", 12 + 3 * 5],
    ]
    assert data["lists"].tolist() == [5] * 4


def test_print_is_compared_with_the_released_replies_only(run, tmp_path):
    """A run of the paper's own data set, with its groups, must not be set against what the paper prints."""
    users = people(14, gender=("Male", "Female"), age_group=("Young", "Young", "Old"))
    asked = {"dataset": "lastfm1k", "attributes": "gender,age", "protocol": "released"}
    experiment = run(grid(users, ("gender", "age"), k=3, repeats=1), asked, protocol="released")
    benefits = evaluated.load(experiment)
    rows = fairness.table(benefits, experiment)
    assert tables.table2(rows, experiment).data["printed_agrees"].isna().all()
    intrinsic = fairness.intrinsic(benefits, experiment)
    assert tables.table4(intrinsic, experiment).data["printed_group1"].isna().all()
    check = tables.table4_check(intrinsic, experiment)
    assert "prints nothing" in check.data["statement"].iloc[0]
    assert "print" not in tables.reading_of_table4(intrinsic, check, experiment)
    assert tables.agreement_with_print(tmp_path, experiment).data["printed"].tolist() == [0]


def test_many_groups_leave_a_chart_readable_and_say_so(run):
    users = people(28, country=tuple("abcdefg"))
    experiment = run(grid(users, ("country",), k=3, repeats=1), {"attributes": "country"}, min_group=2)
    rows = fairness.table(evaluated.load(experiment), experiment)
    for chart in (
        charts.figure2({"sample-songs": rows}, experiment),
        charts.forest(rows, experiment),
        charts.levels(rows, experiment),
    ):
        assert "Of the 21 pairs of country the 10 with the largest |δ| are drawn." in chart.caption
        assert chart.figure.get_size_inches()[1] < 50
        assert chart.data[["group1_name", "group2_name"]].drop_duplicates().shape[0] == 21
