"""Templates and prompts: the released wording byte for byte, and do(v) as the only difference."""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import replace
from itertools import product

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb import prompts
from fairnb.datasets.dataset import Dataset
from fairnb.errors import DataError, ParameterError
from fairnb.settings import ICLS, SAMPLINGS

TAGS = {"none": "no_info", "gender": "gender", "age": "age-group", "intersectional": "intersectional"}
ICL_TAGS = dict(zip(ICLS, ("zero-shot", "ICL-Few-shot-1", "ICL-Few-shot-2"), strict=True))
SONG = re.compile(r'"(.*)" by (.*)', re.DOTALL)


def songs(pairs, user_ids=(1, 2)):
    """A data set of songs without interactions, for their names."""
    items = pd.DataFrame(
        [(place, track, artist) for place, (track, artist) in enumerate(pairs, start=1)],
        columns=["item_id", "title", "artist"],
    )
    empty = pd.DataFrame({"user_id": [], "item_id": [], "timestamp": []})
    users = pd.DataFrame({"user_id": user_ids})
    return Dataset("own", "own data", "songs", empty, users, items, (), pd.DataFrame())


def profile(users, length=10, context=7, items=20):
    passion = pd.DataFrame(
        [
            (user, sampling, place, (place + 3 * step + user - 2) % items + 1)
            for user in users
            for step, sampling in enumerate(SAMPLINGS)
            for place in range(1, length + 1)
        ],
        columns=["user_id", "sampling", "place", "item_id"],
    )
    recent = pd.DataFrame(
        [(user, back, (back + 5) % items + 1) for user in users for back in range(1, context + 1)],
        columns=["user_id", "back", "item_id"],
    )
    return passion, recent


@pytest.fixture
def two_users():
    return pd.DataFrame({"user_id": [1, 2], "gender": ["Female", "Male"], "age_group": ["Young", "Old"]})


@pytest.fixture
def data():
    return songs([(f"Track {n}", f"Artist {n}") for n in range(1, 21)])


def built(data, users, template="fairnb-1", **options):
    options = {"cutoffs": (24,)} | options
    wording = prompts.load_template(template, data.kind) if isinstance(template, str) else template
    return prompts.build(data, users, *profile(users["user_id"]), wording, **options)


@pytest.mark.shared
def test_the_released_prompts_come_out_byte_for_byte(shared_folder):
    csv.field_size_limit(10**7)
    file = shared_folder / "data/fairevalllm/results/sample_prompts_and_replies_top1_10users.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    equal = 0
    for row in rows:
        data, passion, recent = found_profile(row)
        other = pd.DataFrame(
            {
                "user_id": [0, 1],
                "gender": [row["gender"], "Female" if row["gender"] == "Male" else "Male"],
                "age_group": ["Young", "Old"] if row["age_group"].startswith("Early") else ["Old", "Young"],
            }
        )
        both = [
            pd.concat([part.assign(user_id=user) for user in (0, 1)], ignore_index=True) for part in (passion, recent)
        ]
        template = prompts.load_template("released-lastfm", "songs")
        made = prompts.build(data, other, *both, template, cutoffs=(24,), k=1)
        made = made[made["user_id"] == 0].set_index(["counterfactual", "sampling", "demographics", "icl"])["text"]
        for condition in product(("no", "yes"), SAMPLINGS, TAGS, ICLS):
            equal += made[condition] == row[column(*condition)]
    assert (len(rows), equal) == (10, 720)


def column(counterfactual, sampling, demographics, icl):
    flag = counterfactual == "yes"
    return f"prompt_counterfact-{flag}_sample-{sampling}_userDemo-{TAGS[demographics]}_interact-{ICL_TAGS[icl]}"


def found_profile(row):
    """Read a user's profile out of the prompts: ten songs per sampling, and the latest seven."""
    texts = {sampling: row[column("no", sampling, "none", "ICL-2")] for sampling in SAMPLINGS}
    lists = {sampling: re.findall(r"^- (.*)$", text, re.MULTILINE) for sampling, text in texts.items()}
    end = texts["random"].split("in order:\n", 1)[1]
    latest = re.findall(r"^\d\. (.*)$", end, re.MULTILINE)[::-1]
    examples = [re.search(r"\nYou should recommend:\n(.*)\.\n", end)[1], re.search(r"recommended:\n(.*)\n", end)[1]]
    latest = [*examples[::-1], *latest]
    names = list(dict.fromkeys([*latest, *(name for names in lists.values() for name in names)]))
    number = {name: place for place, name in enumerate(names, start=1)}
    passion = pd.DataFrame(
        [(s, place, number[name]) for s, found in lists.items() for place, name in enumerate(found, start=1)],
        columns=["sampling", "place", "item_id"],
    )
    recent = pd.DataFrame(
        [(back, number[name]) for back, name in enumerate(latest, start=1)], columns=["back", "item_id"]
    )
    return songs([SONG.fullmatch(name).groups() for name in names]), passion, recent


def test_there_are_72_conditions_a_user_and_each_text_is_asked_once(data, two_users):
    frame = built(data, two_users)
    assert frame.groupby("user_id").size().tolist() == [72, 72]
    assert list(frame.columns) == prompts.COLUMNS
    once = prompts.unique(frame)
    assert once["prompt_id"].is_unique
    assert once["text"].is_unique
    # Neutral prompts have nothing to flip: 2 x 9 of them are 9 texts.
    assert once["conditions"].sum() == 144
    assert len(once) == 2 * 63
    joined = frame.merge(once, on="prompt_id", suffixes=("", "_once"))
    assert (joined["text"] == joined["text_once"]).all()


def test_counterfactual_flips_every_attribute_that_is_stated(data, two_users):
    frame = built(data, two_users)
    woman = frame[(frame["user_id"] == 1) & (frame["sampling"] == "frequent") & (frame["icl"] == "0-shot")]
    stated = woman.set_index(["counterfactual", "demographics"])[["ranker", "value"]].apply(tuple, axis=1).to_dict()
    assert stated == {
        ("no", "none"): ("neutral", ""),
        ("no", "gender"): ("sensitive", "Female"),
        ("no", "age"): ("sensitive", "Young"),
        ("no", "intersectional"): ("sensitive", "Female & Young"),
        ("yes", "none"): ("neutral", ""),
        ("yes", "gender"): ("counterfactual", "Male"),
        ("yes", "age"): ("counterfactual", "Old"),
        ("yes", "intersectional"): ("counterfactual", "Male & Old"),
    }


@pytest.mark.parametrize("template", prompts.TEMPLATES)
def test_a_stated_value_changes_the_first_sentence_and_nothing_else(data, two_users, template):
    frame = built(data, two_users, template)
    neutral = frame[frame["ranker"] == "neutral"].drop_duplicates(["user_id", "sampling", "icl"])
    pairs = frame[frame["ranker"] != "neutral"].merge(neutral, on=["user_id", "sampling", "icl"], suffixes=("", "_n"))
    assert len(pairs) == 2 * 9 * 6
    for text, plain in zip(pairs["text"], pairs["text_n"], strict=True):
        assert text.endswith(plain)
        sentence = text.removesuffix(plain)
        assert re.fullmatch(r"The user is [^.]+\. ", sentence)
    # do(v) of one user and the truth of another state it in the same words.
    sentences = {
        (value, text.removesuffix(plain))
        for value, text, plain in zip(pairs["value"], pairs["text"], pairs["text_n"], strict=True)
    }
    assert len(sentences) == len({value for value, _ in sentences}) == 6


def test_two_prompts_of_a_user_differ_in_the_words_of_the_value(data, two_users):
    frame = built(data, two_users)
    rows = frame[(frame["demographics"] == "gender") & (frame["sampling"] == "random") & (frame["user_id"] == 1)]
    for _, pair in rows.groupby("icl"):
        true, flipped = pair.sort_values("counterfactual")["text"].str.split(" ")
        changed = [tag for tag in difflib.SequenceMatcher(None, true, flipped).get_opcodes() if tag[0] != "equal"]
        assert [(true[a:b], flipped[c:d]) for _, a, b, c, d in changed] == [(["female."], ["male."])]


@pytest.mark.parametrize(("k", "words"), [(1, "which song"), (3, "exactly 3 songs"), (10, "exactly 10 songs")])
def test_k_is_asked_for(data, two_users, k, words):
    frame = built(data, two_users, k=k)
    assert frame.loc[frame["icl"] == "0-shot", "text"].str.contains(words, regex=False).all()
    assert not frame["text"].str.contains("{", regex=False).any()


def test_the_context_goes_from_old_to_new_and_ends_before_the_examples(data, two_users):
    frame = built(data, two_users, "released-lastfm")
    one = frame[(frame["user_id"] == 1) & (frame["ranker"] == "neutral") & (frame["sampling"] == "random")]
    text = one.drop_duplicates("icl").set_index("icl")["text"]
    shown = {icl: [int(n) for n in re.findall(r'^\d\. "Track (\d+)"', text[icl], re.MULTILINE)] for icl in ICLS}
    # The most recent of `profile` is track 7, the one before 8, and so on.
    assert shown == {"0-shot": [11, 10, 9, 8, 7], "ICL-1": [12, 11, 10, 9, 8], "ICL-2": [13, 12, 11, 10, 9]}
    assert 'You should recommend:\n"Track 8" by Artist 8.\nAfter "Track 8" by Artist 8, you' in text["ICL-2"]


def test_a_user_who_lacks_an_attribute_has_no_prompt_that_states_it(data):
    users = pd.DataFrame(
        {"user_id": [1, 2, 3], "gender": ["Female", None, "Male"], "age_group": ["Young", "Old", None]}
    )
    users = users.astype({"gender": "str", "age_group": "str"})
    frame = built(data, users)
    counts = frame.groupby(["user_id", "demographics"]).size().unstack(fill_value=0)
    assert counts.loc[1].to_dict() == {"age": 18, "gender": 18, "intersectional": 18, "none": 18}
    assert counts.loc[2].to_dict() == {"age": 18, "gender": 0, "intersectional": 0, "none": 18}
    assert counts.loc[3].to_dict() == {"age": 0, "gender": 18, "intersectional": 0, "none": 18}
    assert not frame["text"].str.contains(r"\bnan\b|None|NaN").any()


def test_any_attribute_of_any_number_of_values(data):
    users = pd.DataFrame({"user_id": [1, 2, 3], "country": ["Japan", "Peru", "NA"]})
    frame = built(data, users, attributes=("country",))
    flipped = frame[(frame["user_id"] == 1) & (frame["counterfactual"] == "yes") & (frame["demographics"] == "country")]
    assert sorted(flipped["value"].unique()) == ["NA", "Peru"]
    assert flipped["text"].str.startswith("The user is a person whose country is ").all()
    assert "intersectional" not in set(frame["demographics"])


def test_ages_that_are_codes_are_told_by_their_ranges():
    codes = {1: "", 18: "", 25: "", 35: "", 45: "", 50: "", 56: ""}
    assert prompts.age_words((32,), codes) == {
        "Young": (32, "34 years old or younger"),
        "Old": (32, "35 years old or older"),
    }
    assert prompts.age_words((24,), {}) == {
        "Young": (24, "24 years old or younger"),
        "Old": (24, "25 years old or older"),
    }
    words = [phrase for _, phrase in prompts.age_words((24, 34), {}).values()]
    assert words == ["24 years old or younger", "25 to 34 years old", "35 years old or older"]


def test_films_have_their_year_or_their_plain_title(two_users):
    items = pd.DataFrame(
        {
            "item_id": range(1, 21),
            "title": ["Matrix, The (1999)", "unknown", *(f"Film {n} (1990)" for n in range(3, 21))],
            "name": ["The Matrix", "unknown", *(f"Film {n}" for n in range(3, 21))],
            "year": pd.array([1999, None, *[1990] * 18], dtype="Int64"),
        }
    )
    data = replace(songs([]), items=items, kind="films")
    text = "\n".join(built(data, two_users)["text"])
    assert "- The Matrix (1999)\n" in text
    assert "- unknown\n" in text
    assert "<NA>" not in text
    assert "nan" not in text


TRAPS = [
    "{k}",
    "{latest}",
    "Two\nlines",
    "Tab\there",
    '"Quoted"',
    "<b>&amp;</b>",
    "}{",
    "{values}",
    "\\n",
    "Sépar\u2028e",
]


def test_titles_are_never_read_as_fields_and_never_break_a_line(two_users):
    data = songs([(trap, "NULL") for trap in TRAPS] + [(f"Track {n}", "nan") for n in range(11, 21)])
    frame = built(data, two_users)
    for text in frame["text"]:
        lines = text.splitlines()
        assert sum(line.startswith("- ") for line in lines) == 10
        assert "\u2028" not in text
        assert "\t" not in text
    assert frame["text"].str.contains('"{k}" by NULL', regex=False).any()


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=20, max_size=20, unique=True))
def test_no_title_gets_lost_or_changes_another_part(titles):
    users = pd.DataFrame({"user_id": [1, 2], "gender": ["Female", "Male"], "age_group": ["Young", "Old"]})
    frame = built(songs([(title, "A") for title in titles]), users)
    plain = built(songs([(f"T{n}", "A") for n in range(20)]), users)
    names = prompts.item_texts(songs([(title, "A") for title in titles]), prompts.load_template("fairnb-1", "songs"))
    for text, other in zip(frame["text"], plain["text"], strict=True):
        assert len(text.split("\n")) == len(other.split("\n"))
        assert text.count("\n- ") == 10 or any("\n- " in name for name in names.values())


def template_text(**changes):
    """The shipped template for songs as a file, with lines changed."""
    from importlib import resources

    text = (resources.files("fairnb") / "templates/fairnb-1-songs.toml").read_text("utf-8")
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{title}", "{titel}", "item: unknown field {titel}; known here: {artist}, {title}"),
        ("- {item}", "- {item", "profile_line: a brace that belongs to no field"),
        ("- {item}", "- item", "profile_line: field {item} is missing; add it"),
        ("{values}", "{value}", "demographics: unknown field {value}; known here: {values}"),
        ("{values}", "female", "demographics: field {values} is missing; add it"),
        ("{question}", "", "zero_shot: field {question} is missing; add it"),
        ("exactly {k} songs", "exactly 3 songs", None),
        ("top {k} suitable", "top suitable", None),
        ("kind = ", "sort = ", "kind: missing; add it"),
        ('name = "fairnb-1"', 'name = "My template"', "name = 'My template'"),
        ('joiner = " and "', "joiner = 3", "joiner = 3: input should be a valid string"),
        ("system = ", "system ", "not valid TOML"),
        ('name = "fairnb-1"', 'name = "fairnb-1"\nextra = "x"', "extra: unknown setting; known are name, kind, system"),
        ("{value}", "{user.__class__}", "values.other.other: a brace that belongs to no field"),
        ('kind = "songs"', 'kind = "films"', "item: unknown field {artist}; known here: {genres}, {name}"),
    ],
)
def test_a_faulty_template_is_told_by_file_key_and_field(tmp_path, old, new, message):
    file = tmp_path / "mine.toml"
    text = template_text()
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    if message is None:
        # Either of the two mentions of K is enough.
        assert prompts.load_template(str(file), "songs").version != prompts.load_template("fairnb-1", "songs").version
        return
    with pytest.raises(ParameterError) as error:
        prompts.load_template(str(file), "songs")
    assert message in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_template_for_other_items_or_no_template_at_all(tmp_path):
    with pytest.raises(ParameterError, match="a template for songs; this data set holds films"):
        prompts.load_template("released-lastfm", "films")
    with pytest.raises(ParameterError, match="no such template; expected fairnb-1, released-lastfm, or a TOML file"):
        prompts.load_template(str(tmp_path / "none.toml"), "songs")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParameterError, match="cannot be read as text in UTF-8"):
        prompts.load_template(str(tmp_path / "binary.toml"), "songs")


def test_the_version_of_a_template_hangs_on_every_text_of_it(tmp_path):
    versions = {prompts.load_template(name, "songs").version for name in prompts.TEMPLATES}
    file = tmp_path / "same.toml"
    file.write_text("# a remark\n" + template_text(), encoding="utf-8")
    assert prompts.load_template(str(file), "songs").version in versions
    file.write_text(template_text(**{"a numbered list": "A numbered list"}), encoding="utf-8")
    versions.add(prompts.load_template(str(file), "songs").version)
    versions.add(prompts.load_template("fairnb-1", "films").version)
    assert len(versions) == 4


def test_what_cannot_be_written_is_an_error_and_not_a_nan(data, two_users):
    lacking = replace(data, items=data.items.assign(artist=data.items["artist"].where(data.items["item_id"] != 3)))
    with pytest.raises(DataError, match="item 3 of own data: no artist, which template fairnb-1 names"):
        built(lacking, two_users)
    passion, recent = profile([1, 2])
    template = prompts.load_template("fairnb-1", "songs")
    with pytest.raises(DataError, match="user 2: no random profile"):
        prompts.build(data, two_users, passion[passion["user_id"] == 1], recent, template, cutoffs=(24,))
    with pytest.raises(DataError, match="user 1: 6 different recent items; expected 7"):
        prompts.build(data, two_users, passion, recent[recent["back"] < 7], template, cutoffs=(24,))
    with pytest.raises(ParameterError, match="gender is Female for all users; expected two values"):
        built(data, two_users.assign(gender="Female"))
    with pytest.raises(ParameterError, match="users have no column job; they have user_id, gender, age_group"):
        built(data, two_users, attributes=("job",))
    with pytest.raises(ParameterError, match="k = 0"):
        built(data, two_users, k=0)


def test_a_value_without_a_wording_is_an_error_and_not_said_badly(data):
    users = pd.DataFrame({"user_id": [1, 2], "country": ["Peru", "Japan"]})
    with pytest.raises(ParameterError, match="template released-lastfm: no wording for country = 'Peru'"):
        built(data, users, "released-lastfm", attributes=("country",))
    three = pd.DataFrame({"user_id": [1, 2], "age_group": ["up to 24", "over 34"]})
    with pytest.raises(ParameterError, match="no wording for age = "):
        built(data, three, "released-lastfm", attributes=("age",), cutoffs=(24, 34))


def test_values_that_are_numbers_are_stated_and_line_breaks_in_them_are_not(data):
    users = pd.DataFrame({"user_id": [1, 2], "level": [1, 2], "country": ["Pe\nru", "Japan"]})
    frame = built(data, users, attributes=("level",))
    assert set(frame["value"]) == {"", "1", "2"}
    stated = built(data, users, attributes=("country",))
    assert stated["text"].str.contains("whose country is Pe ru", regex=False).any()


def test_an_item_of_a_profile_that_the_catalogue_lacks_is_named(data, two_users):
    with pytest.raises(DataError, match="item 3: not among the items of own data"):
        built(replace(data, items=data.items[data.items["item_id"] != 3]), two_users)
    with pytest.raises(ParameterError, match="kind = 'books': expected songs or films"):
        prompts.load_template("fairnb-1", "books")


def test_tokens_are_estimated_from_characters():
    texts = pd.Series(["", "abc", "abcd", "a" * 10, "椎名林檎", "Björk"])
    assert prompts.estimate_tokens(texts).tolist() == [0, 1, 2, 3, 4, 3]
