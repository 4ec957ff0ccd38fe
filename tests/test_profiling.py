"""Exhibits from raw data to prompts, on the bundled sample."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb import profiles, prompts
from fairnb.errors import DataError, ParameterError
from fairnb.exhibits import profiling
from fairnb.exhibits.side_by_side import SideBySide, differences, table_of
from fairnb.settings import Experiment


class Steps:
    """Everything that notebook 01 computes, for one data set."""

    def __init__(self, dataset, **settings):
        self.experiment = Experiment(name="sample", dataset=dataset, **settings)
        self.raw = profiles.open_data(self.experiment)
        self.selection = profiles.select_for(self.experiment, self.raw)
        self.data = self.selection.dataset
        self.user = profiles.example_user(self.selection, self.experiment)
        self.passion = profiles.passion_for(self.experiment, self.selection.train)
        self.recent = profiles.recent(self.selection.train)
        template = prompts.load_template(self.experiment.template, self.data.kind)
        self.grid = prompts.build_for(self.experiment, self.selection, self.passion, self.recent, template)

    def exhibits(self):
        return [
            profiling.files(self.data),
            profiling.remarks(self.data),
            profiling.missing(self.raw, self.experiment),
            profiling.funnel(self.selection, self.experiment),
            profiling.activity(self.raw, self.selection, self.experiment),
            profiling.demographics(self.selection, self.experiment),
            profiling.history(self.selection, self.user, self.experiment),
            profiling.table3(profiles.select_companions(self.experiment, self.selection)),
            profiling.one_profile(self.selection, self.passion, self.user, self.experiment),
            profiling.user_conditions(self.grid, self.user, self.data),
            profiling.stated_side_by_side(self.grid, self.user, self.data),
            profiling.icl_side_by_side(self.grid, self.user, self.data),
            profiling.grid_size(self.grid, self.data, self.experiment),
            profiling.prompt_lengths(self.grid, self.data),
        ]


@pytest.fixture(scope="module", params=["sample-songs", "sample-films"])
def steps(request):
    return Steps(request.param)


def test_every_caption_says_that_the_sample_is_made_up(steps):
    made = steps.exhibits()
    assert len({exhibit.name for exhibit in made}) == 14
    for exhibit in made:
        assert "made up" in exhibit.caption, exhibit.name
        assert "synthetic" in exhibit.caption.casefold(), exhibit.name
        files = exhibit.files()
        assert {name.rsplit(".", 1)[1] for name in files} in ({"csv", "html", "tex"}, {"csv", "png", "svg"})
        for name, content in files.items():
            if not name.endswith(".png"):
                assert not re.search(r"\bnan\b|NaN|<NA>|NaT", content.decode("utf-8")), name


def test_rows_in_are_rows_out_and_rejects(steps):
    data = profiling.files(steps.data).data
    assert (data["lines_in"] == data["rows_out"] + data["rejected"]).all()
    assert data["rejected"].sum() == len(steps.data.rejects) > 0
    listed = profiling.remarks(steps.data)
    assert set(listed.data["fate"]) <= {"rejected", "kept"}
    assert len(listed.data) == len(steps.data.remarks)


def test_the_funnel_ends_with_the_users_drawn_and_loses_none_unseen(steps):
    funnel = profiling.funnel(steps.selection, steps.experiment).data
    assert funnel["users"].iloc[0] == len(steps.raw.users)
    assert funnel["users"].iloc[-1] == len(steps.selection.users) == 80
    assert funnel["users"].iloc[0] - funnel["left_out"].sum() == funnel["users"].iloc[-1]


def test_groups_add_up(steps):
    table = profiling.demographics(steps.selection, steps.experiment).data
    assert table.groupby("attribute")["users"].sum().tolist() == [80, 80, 80]
    assert table.groupby("attribute")["share"].sum().round(9).tolist() == [1.0, 1.0, 1.0]


def test_chart_data_count_every_user_and_interaction(steps):
    activity = profiling.activity(steps.raw, steps.selection, steps.experiment).data
    assert activity["users"].sum() == (steps.raw.activity > 0).sum()
    assert activity["drawn"].sum() == 80
    history = profiling.history(steps.selection, steps.user, steps.experiment).data
    mine = steps.data.interactions[steps.data.interactions["user_id"] == steps.user]
    assert history["part"].value_counts().to_dict() == mine["part"].value_counts().to_dict()
    assert history.loc[history["shown"], "part"].tolist() == ["train"] * 7


def test_table3_has_both_samples(steps):
    table = profiling.table3(profiles.select_companions(steps.experiment, steps.selection)).data
    assert table["dataset"].iloc[0] == steps.experiment.dataset
    assert set(table["dataset"]) == {"sample-songs", "sample-films"}
    assert (table["users"] == 80).all()
    assert (table["per_user"] == table["interactions"] / table["users"]).all()


def test_a_profile_shows_train_items_only_and_marks_what_is_shared(steps):
    exhibit = profiling.one_profile(steps.selection, steps.passion, steps.user, steps.experiment)
    train = steps.selection.train
    assert set(exhibit.data["item_id"]) <= set(train.loc[train["user_id"] == steps.user, "item_id"])
    stars = exhibit.shown.xs("item", axis=1, level=1).map(lambda text: text.endswith(" *")).to_numpy().sum()
    assert stars == (exhibit.data["samplings"] > 1).sum()


def test_the_conditions_of_a_user_name_equal_texts(steps):
    table = profiling.user_conditions(steps.grid, steps.user, steps.data).data
    assert len(table) == 8
    neutral = table[table["ranker"] == "neutral"]
    assert len(neutral) == 2
    assert neutral["prompt_id"].nunique() == 1
    assert table["prompt_id"].nunique() == 7


def test_the_size_of_the_grid_counts_each_text_once(steps):
    table = profiling.grid_size(steps.grid, steps.data, steps.experiment).data.set_index("demographics")
    assert table.loc["all", "conditions"] == len(steps.grid) == 80 * 72
    assert table.loc["all", "prompts"] == steps.grid["prompt_id"].nunique()
    once = steps.grid.drop_duplicates("prompt_id")
    assert table.loc["all", "tokens"] == prompts.estimate_tokens(once["text"]).sum()
    lengths = profiling.prompt_lengths(steps.grid, steps.data).data
    scenarios = steps.grid.groupby(["sampling", "icl"])["prompt_id"].nunique()
    assert lengths.set_index(["sampling", "icl"])["prompts"].to_dict() == scenarios.to_dict()


def test_what_is_marked_is_the_sentence_that_states_the_values(steps):
    exhibit = profiling.stated_side_by_side(steps.grid, steps.user, steps.data)
    headings = list(exhibit.texts)
    assert [heading.split(":")[0] for heading in headings] == ["neutral", "sensitive", "counterfactual"]
    marked = [[text for text, changed in pieces if changed] for _, pieces in exhibit.pieces]
    assert marked[0] == []
    for pieces in marked[1:]:
        assert len(pieces) == 1
        assert re.fullmatch(r"(The user )?is .* (younger|older)\. (The user )?", pieces[0])


def test_an_example_user_who_was_not_drawn_is_an_error(steps):
    last = str(steps.selection.users["user_id"].iloc[-1])
    named = steps.experiment.model_copy(update={"example_user": last})
    assert str(profiles.example_user(steps.selection, named)) == last
    absent = steps.experiment.model_copy(update={"example_user": "nobody"})
    with pytest.raises(ParameterError, match="example_user = 'nobody': not among the users drawn; expected one of"):
        profiles.example_user(steps.selection, absent)


def test_samplings_that_give_the_same_profile_are_all_shown():
    steps = Steps("sample-films", omega=0.0, n_users=40)
    assert steps.grid["prompt_id"].nunique() < 40 * 60
    for exhibit in steps.exhibits():
        assert exhibit.files()
    assert profiling.prompt_lengths(steps.grid, steps.data).data["prompts"].tolist() == [40 * 7] * 9


def test_the_other_sample_stands_beside_the_default_settings_only():
    changed = Steps("sample-films", n_users=100)
    table = profiling.table3(profiles.select_companions(changed.experiment, changed.selection)).data
    assert set(table["dataset"]) == {"sample-films"}


def test_captions_say_what_was_done():
    steps = Steps("sample-songs", missing="fill", n_users=0)
    caption = profiling.funnel(steps.selection, steps.experiment).caption
    assert "All that are eligible are taken." in caption
    lacking = steps.raw.users[steps.raw.users["user_id"].isin(steps.selection.users["user_id"])]
    counts = {name: int(lacking[name].isna().sum()) for name in ("gender", "age")}
    assert min(counts.values()) > 0
    assert f"filled in: gender of {counts['gender']}, age of {counts['age']}." in caption
    only_gender = Steps("sample-songs", attributes="gender")
    assert "Age groups" not in profiling.demographics(only_gender.selection, only_gender.experiment).caption


def test_no_bar_stands_on_both_sides_of_a_bound(steps):
    data = profiling.activity(steps.raw, steps.selection, steps.experiment).data
    for bound in (50, 10_001):
        assert not ((data["from"] < bound) & (bound < data["below"])).any()


def test_one_attribute_missing_values_kept_and_several_ages():
    steps = Steps("sample-songs", attributes="gender", missing="keep", age_split="20,25,30", n_users=60)
    assert "intersectional" not in set(steps.grid["demographics"])
    table = profiling.demographics(steps.selection, steps.experiment).data
    assert "missing" in set(table["group"])
    assert steps.selection.users["age_group"].dropna().isin(profiles.age_labels((20, 25, 30))).all()
    for exhibit in steps.exhibits():
        assert exhibit.files()
    counts = profiling.grid_size(steps.grid, steps.data, steps.experiment).data.set_index("demographics")
    lacking = int(steps.selection.users["gender"].isna().sum())
    assert lacking > 0
    assert counts.loc["gender", "users"] == 60 - lacking
    assert counts.loc["none", "users"] == 60


words = st.lists(st.sampled_from(["a", "b", "c", "<b>", "&", "\n", " "]), max_size=30).map(" ".join)


@given(words, words)
def test_pieces_put_together_are_the_text(first, text):
    pieces = differences(first, text)
    assert "".join(piece for piece, _ in pieces) == text
    assert not any(changed for _, changed in differences(text, text))
    unchanged = "".join(piece for piece, changed in pieces if not changed)
    assert len(unchanged) <= min(len(first), len(text))


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.marked, self.all, self.tags, self._in = [], [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._in = self._in or tag == "mark"

    def handle_endtag(self, tag):
        self._in = self._in and tag != "mark"

    def handle_data(self, data):
        self.all.append(data)
        if self._in:
            self.marked.append(data)


def test_texts_are_escaped_and_differences_stand_out_without_colour():
    texts = {"one": "same words here", "two": "same <script>alert(1)</script> words & here"}
    exhibit = SideBySide("x", "Title", "Caption.", table_of(texts), texts=texts)
    reader = _Reader()
    reader.feed(exhibit.html)
    assert "script" not in reader.tags
    assert " ".join(reader.marked).split() == ["<script>alert(1)</script>", "&"]
    assert "text-decoration:underline" in exhibit.html
    assert r"\underline{" in exhibit.latex
    assert html.unescape(exhibit.html).count("<script>") == 1
    assert exhibit.csv == "heading,text\none,same words here\ntwo,same <script>alert(1)</script> words & here\n"


def test_data_that_are_not_there_are_told_with_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"data/external/ml-100k: no such folder; .* `fairnb data get ml100k`"):
        profiles.open_data(Experiment(dataset="ml100k"))
    with pytest.raises(ParameterError, match="dataset = 'own': expected data_folder"):
        profiles.open_data(Experiment(dataset="own"))
    empty = Experiment(dataset="sample-films", data_folder=str(tmp_path))
    with pytest.raises(DataError, match="no files of MovieLens 1M"):
        _ = profiles.open_data(empty).users
