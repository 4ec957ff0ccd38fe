"""The simulated recommender: what it answers depends on what it should, and each dial does what it says."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairnb
from fairnb import profiles, prompts, titles
from fairnb.datasets import sample
from fairnb.errors import DataError, ParameterError
from fairnb.llm.simulated import FORMATS, Dials, Simulated, bundled
from fairnb.parsing import parse_lines

KINDS = ("songs", "films")
LINE_FORMATS = tuple(name for name in FORMATS if name not in ("comma", "json", "json-objects", "fenced", "mixed"))
SONG_PROMPT = """The user is {who}. The user has listened to the following songs in the past:

- "Time" by Pink Floyd
- "Paranoid Android" by Radiohead
- "Banquet" by Bloc Party

what would be the top {k} suitable next recommendations?"""


@cache
def sampled(kind: str) -> tuple[pd.DataFrame, dict[str, int], dict[object, set[int]]]:
    """The prompts of the bundled sample, its items by what an answer calls them, and what each user turned to."""
    experiment = fairnb.Experiment(name="sample", dataset=f"sample-{kind}")
    selection = profiles.select_for(experiment, profiles.open_data(experiment))
    template = prompts.load_template("fairnb-1", kind)
    passion, recent = profiles.passion_for(experiment, selection.train), profiles.recent(selection.train, 7)
    grid = prompts.build_for(experiment, selection, passion, recent, template)
    items = selection.dataset.items
    by = items["artist"] if kind == "songs" else items["year"].astype(str)
    names = items["title"] if kind == "songs" else items["name"]
    keys = [titles.match_key(f"{name} {other}") for name, other in zip(names, by, strict=True)]
    held_out = {user: set(rows["item_id"]) for user, rows in selection.test.groupby("user_id")}
    return grid, dict(zip(keys, items["item_id"], strict=True)), held_out


@cache
def texts(kind: str, stated: str = "") -> list[str]:
    unique = sampled(kind)[0]["text"].drop_duplicates()
    return unique[unique.str.contains(rf"\b{stated}\b")].tolist()


def listed(text: str, kind: str = "songs") -> list[str]:
    """Read a numbered list without the project's parser; items as keys of title and artist or year."""
    form = r'\d+\. "(.+)" by (.+)' if kind == "songs" else r"\d+\. (.+) \((\d{4})\)"
    found = [re.fullmatch(form, line) for line in text.split("\n")]
    assert all(found), text
    return [titles.match_key(f"{match[1]} {match[2]}") for match in found if match]


def answers(model: Simulated, asked: list[str], repeat: int = 0) -> list[list[str]]:
    return [listed(model.answer(text, repeat=repeat).text, model.kind) for text in asked]


def changed(one: list[list[str]], other: list[list[str]]) -> float:
    """The share of items of one list that are not in the other."""
    return float(np.mean([len(set(a) - set(b)) / len(a) for a, b in zip(one, other, strict=True)]))


def hit_rate(model: Simulated, rows: pd.DataFrame) -> float:
    _, ids, held_out = sampled(model.kind)
    lists = answers(model, rows["text"].tolist())
    hits = [
        len({ids.get(key) for key in keys} & held_out[user]) for keys, user in zip(lists, rows["user_id"], strict=True)
    ]
    return sum(hits) / (3 * len(rows))


@cache
def catalogue(kind: str) -> dict[str, set[str]]:
    """Genres by the key of title and artist or year."""
    if kind == "songs":
        return {titles.match_key(f"{song.track} {song.artist}"): {song.genre} for song in sample.songs()}
    return {titles.match_key(f"{film.title} {film.year}"): set(film.genres) for film in sample.films()}


def titles_of(prompt: str, kind: str) -> set[str]:
    form = r'"(.+)" by (.+)' if kind == "songs" else r"(.+) \((\d{4})\)"
    lines = [re.sub(r"^(- |\d+\. )", "", line) for line in prompt.split("\n")]
    found = [re.fullmatch(form, line) for line in lines]
    return {titles.match_key(f"{match[1]} {match[2]}") for match in found if match}


# What an answer depends on


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_prompt_gets_the_same_answer_whatever_was_asked_before(kind):
    dials = Dials.of("female=0.3", "Drama=0.2" if kind == "films" else "rock=0.2", 0.2, 0.1, 0.1, "any=0.1", "mixed")
    asked = texts(kind)[:200]
    first, second = bundled(kind, dials), bundled(kind, dials)
    forth = [first.answer(text, repeat=1) for text in asked]
    back = [second.answer(text, repeat=1) for text in reversed(asked)]
    assert forth == back[::-1]
    other = bundled(kind, dials, seed=1)
    assert [other.answer(text, repeat=1) for text in asked] != forth


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dials", [Dials(), Dials(echo=0.3, invented=0.3)], ids=["none", "echo, invented"])
def test_the_list_does_not_depend_on_what_is_said_of_the_user(kind, dials):
    grid = sampled(kind)[0]
    if dials.echo:
        grid = grid[grid["icl"] == "ICL-1"]
    model = bundled(kind, dials)
    answered = grid.assign(answer=[model.answer(text).text for text in grid["text"]])
    arms = answered.groupby(["user_id", "sampling", "icl"])
    assert (arms["text"].nunique() > 4).all()
    assert (arms["answer"].nunique() == 1).all()
    # Else a constant answer would do.
    assert answered["answer"].nunique() > 100


@given(st.text("abcdefgh ,.'()0123456789é", max_size=60), st.integers(0, 500))
def test_no_sentence_about_the_user_changes_the_list(sentence, number):
    model = _model("films")
    neutral = sampled("films")[0]
    text = neutral[neutral["demographics"] == "none"]["text"].iloc[number]
    assert model.answer(f"The user is {sentence}. {text}").text == model.answer(text).text


@cache
def _model(kind: str) -> Simulated:
    return bundled(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_titles_decide(kind):
    neutral = sampled(kind)[0]
    lists = answers(_model(kind), neutral[neutral["demographics"] == "none"]["text"].drop_duplicates().tolist())
    counts = Counter(key for keys in lists for key in keys)
    assert len(counts) > 30
    assert counts.most_common(1)[0][1] < 0.6 * len(lists)


def test_genre_and_artist_of_the_titles_show_in_the_list():
    def prompt(songs):
        lines = "\n".join(f'- "{song.track}" by {song.artist}' for song in songs)
        return f"Songs:\n{lines}\nWhat are the top 10 next ones?"

    by_genre: dict[str, list[sample.Song]] = {}
    for song in sample.songs():
        by_genre.setdefault(song.genre, []).append(song)
    model = _model("songs")
    for genre in ("metal", "jazz", "electronic"):
        share = np.mean([genre in catalogue("songs")[key] for key in answers(model, [prompt(by_genre[genre][:8])])[0]])
        other = np.mean([genre in catalogue("songs")[key] for key in answers(model, [prompt(by_genre["folk"][:8])])[0]])
        assert share > other
    beatles = [song for song in sample.songs() if song.artist == "The Beatles"]
    asked = answers(model, [prompt(beatles[:2]).replace("top 10", "top 30")])[0]
    plain = answers(model, ["What are the top 30 songs?"])[0]
    assert sum("the beatles" in key for key in asked) > sum("the beatles" in key for key in plain)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_prompt_is_recommended_and_nothing_twice(kind):
    asked = texts(kind)[::4]
    for text, keys in zip(asked, answers(_model(kind), asked), strict=True):
        assert len(titles_of(text, kind)) > 5
        assert not titles_of(text, kind) & set(keys)
        assert len(set(keys)) == 3
        assert set(keys) <= catalogue(kind).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_neutral_lists_hit_far_more_often_than_random_items(kind):
    grid, ids, held_out = sampled(kind)
    neutral = grid[(grid["demographics"] == "none") & (grid["counterfactual"] == "no")]
    at_random = np.mean([len(items) for items in held_out.values()]) / len(ids)
    assert 3 * at_random < hit_rate(_model(kind), neutral) < 0.35


# Dials


@pytest.mark.parametrize("kind", KINDS)
def test_bias_halves_the_hits_of_prompts_that_state_the_phrase_and_of_no_others(kind):
    grid = sampled(kind)[0].drop_duplicates("text")
    female, male = (grid[grid["text"].str.contains(rf"\b{word}\b")] for word in ("female", "male"))
    plain, biased = _model(kind), bundled(kind, Dials(bias={"FEMALE": 0.5}))
    assert answers(biased, male["text"].tolist()) == answers(plain, male["text"].tolist())
    share = changed(answers(biased, female["text"].tolist()), answers(plain, female["text"].tolist()))
    assert 0.46 < share < 0.54
    assert 0.35 < hit_rate(biased, female) / hit_rate(plain, female) < 0.75


def test_a_poor_item_is_far_from_the_titles():
    asked = texts("films", "female")[:300]
    poor = answers(bundled("films", Dials(bias={"female": 1.0})), asked)

    def shared(lists):
        genres = catalogue("films")
        return np.mean(
            [
                len(genres[key] & genres.get(title, set())) > 0
                for text, keys in zip(asked, lists, strict=True)
                for key in keys
                for title in titles_of(text, "films")
            ]
        )

    assert shared(poor) < 0.5 * shared(answers(_model("films"), asked))


def test_more_bias_spoils_the_same_places_and_more():
    asked = texts("songs", "female")[:300]
    plain, some, more = (
        answers(bundled("songs", Dials(bias={"female": share} if share else {})), asked) for share in (0, 0.2, 0.6)
    )
    spoiled = [np.array(plain) != np.array(lists) for lists in (some, more)]
    assert not (spoiled[0] & ~spoiled[1]).any()
    assert spoiled[0].mean() < spoiled[1].mean()


def test_phrases_are_whole_words_outside_titles():
    model = Simulated(
        pd.DataFrame({"title": ["Female Trouble (1974)", "Heat (1995)", "Fargo (1996)", "Alien (1979)"]}),
        "films",
        Dials(refusals={"female": 1.0, "trouble": 1.0, "25 years old": 1.0}),
    )
    titled = "- Female Trouble (1974)\nYou should recommend:\nFemale Trouble (1974)\nWhich after Female Trouble (1974)?"
    assert "sorry" not in model.answer(titled).text.lower()
    assert listed(model.answer(titled).text, "films")
    assert (
        parse_lines(model.answer("The user is female and likes something such as Heat (1995)").text).status
        == "unparsed"
    )
    for words in ("males, femaleness and old", "125 years old", "non-males"):
        assert listed(model.answer(f"The user is {words}. {titled}").text, "films")
    for words in ("Female", "a (female) person", "FEMALE, and 3", "25 years old or older"):
        assert parse_lines(model.answer(f"The user is {words}.\n{titled}").text).status == "unparsed"


def test_a_gap_takes_that_share_of_a_genre_out():
    asked = [SONG_PROMPT.format(who="young", k=703)]
    everything = set(answers(_model("songs"), asked)[0])
    known = set(answers(bundled("songs", Dials(gap={"Rock": 0.5})), asked)[0])
    rock = {key for key in everything if catalogue("songs")[key] == {"rock"}}
    assert everything - rock == known - rock
    assert 0.3 < len(rock & known) / len(rock) < 0.7
    none = set(answers(bundled("songs", Dials(gap={"rock": 1.0})), asked)[0])
    assert none == everything - rock


def test_an_unknown_genre_is_not_recommended_to_those_who_like_it():
    lines = [f'- "{song.track}" by {song.artist}' for song in sample.songs() if song.genre == "metal"][:8]
    prompt = "\n".join([*lines, "top 10?"])

    def metal(model):
        return sum("metal" in catalogue("songs")[key] for key in listed(model.answer(prompt).text))

    assert metal(_model("songs")) > metal(bundled("songs", Dials(gap={"metal": 1.0}))) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_the_share_of_items_that_changes_between_repeats(kind):
    asked = texts(kind)[::3]
    for noise in (0.1, 0.5):
        model = bundled(kind, Dials(noise=noise))
        first, second = answers(model, asked), answers(model, asked, repeat=1)
        # 1624 prompts or more, of three items each: a standard deviation of 0.008 at most.
        assert abs(changed(first, second) - noise) < 0.03
        assert first == answers(model, asked)
        assert all(len(set(keys)) == 3 for keys in first)


def test_noise_parts_the_arms_as_it_parts_repeats():
    grid = sampled("songs")[0]
    arms = grid[grid["counterfactual"] == "no"].pivot_table(
        index=["user_id", "sampling", "icl"], columns="demographics", values="text", aggfunc="first"
    )
    model = bundled("songs", Dials(noise=0.3))
    share = changed(answers(model, arms["none"].tolist()), answers(model, arms["gender"].tolist()))
    assert abs(share - 0.3) < 0.06


def test_without_noise_repeats_agree_whatever_else_is_set():
    model = bundled("films", Dials.of("female=0.5", "", 0.0, 0.2, 0.2, "any=0.2", "mixed"))
    asked = texts("films")[:300]
    assert [model.answer(text, repeat=0) for text in asked] == [model.answer(text, repeat=7) for text in asked]


@pytest.mark.parametrize("kind", KINDS)
def test_echo_copies_from_the_prompt_and_invented_is_in_no_catalogue(kind):
    # Prompts of one user, sampling and number of examples share their titles, hence their draws.
    asked = sampled(kind)[0].drop_duplicates(["user_id", "sampling", "icl"])["text"].tolist()
    lists = answers(bundled(kind, Dials(echo=0.2, invented=0.3)), asked)
    pairs = [(text, key) for text, keys in zip(asked, lists, strict=True) for key in keys]
    echoed = np.mean([key in titles_of(text, kind) for text, key in pairs])
    known = catalogue(kind).keys() | sampled(kind)[1].keys()
    assert abs(echoed - 0.2) < 0.06
    assert abs(np.mean([key not in known for _, key in pairs]) - 0.3) < 0.06
    assert all(len(set(keys)) == 3 for keys in lists)


def test_refusals_take_their_share_and_are_not_read_as_titles():
    asked = texts("songs")
    model = bundled("songs", Dials(refusals={"female": 0.3}))
    replies = {text: model.answer(text) for text in asked}
    refused = {text for text, reply in replies.items() if not reply.text.startswith("1.")}
    assert refused < set(texts("songs", "female"))
    assert abs(len(refused) / len(texts("songs", "female")) - 0.3) < 0.05
    assert {parse_lines(replies[text].text).status for text in refused} == {"unparsed"}
    assert len({replies[text].text for text in refused}) == 3
    assert {reply.finish_reason for reply in replies.values()} == {"stop"}
    for word in ("any", ""):
        assert parse_lines(bundled("songs", Dials(refusals={word: 1.0})).answer("").text).status == "unparsed"


# Formats


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", LINE_FORMATS)
def test_a_list_of_lines_is_read_back(kind, style):
    asked = texts(kind)[::40] + [re.sub(r"\b3\b", "12", text) for text in texts(kind)[::200]]
    model = bundled(kind, Dials(format=style))
    for text, keys in zip(asked, answers(_model(kind), asked), strict=True):
        items = parse_lines(model.answer(text).text).items
        assert len(items) == len(keys)
        for item, key in zip(items, keys, strict=True):
            readings = [
                titles.match_key(reading.replace('" by ', " ").replace("” by ", " ")) for reading in item.readings
            ]
            assert any(reading and key.startswith(reading) for reading in readings)


@pytest.mark.parametrize("kind", KINDS)
def test_other_formats_hold_the_same_items(kind):
    text = texts(kind)[0]
    plain = [line.split(". ", 1)[1] for line in _model(kind).answer(text).text.split("\n")]
    reply = {style: bundled(kind, Dials(format=style)).answer(text).text for style in FORMATS}
    assert json.loads(reply["json"]) == plain
    assert reply["comma"] == ", ".join(plain)
    assert reply["fenced"].startswith("```json\n")
    assert json.loads(reply["fenced"].removeprefix("```json\n").removesuffix("\n```")) == plain
    by = "artist" if kind == "songs" else "year"
    form = '"{title}" by {artist}' if kind == "songs" else "{title} ({year})"
    objects = json.loads(reply["json-objects"])
    assert {tuple(entry) for entry in objects} == {("title", by)}
    assert [form.format(**entry) for entry in objects] == plain


def test_mixed_draws_every_format():
    asked = texts("films")[:150]
    fixed = [bundled("films", Dials(format=style)) for style in FORMATS if style != "mixed"]
    mixed = bundled("films", Dials(format="mixed"))
    used = {next(m.dials.format for m in fixed if m.answer(text).text == mixed.answer(text).text) for text in asked}
    assert used == {*FORMATS} - {"mixed"}


def test_films_are_named_as_they_are_spoken():
    items = pd.DataFrame(
        {"title": ["Matrix, The (1999)", "City of Lost Children, The (Cité des enfants perdus) (1995)"]}
    )
    model = Simulated(items, "films")
    assert listed(model.answer("top 2?").text, "films") == ["the matrix 1999", "the city of lost children 1995"]
    for said in ("- The Matrix (1999)", "- Matrix, The (1999)", "- The Matrix"):
        assert listed(model.answer(f"{said}\ntop 2?").text, "films") == ["the city of lost children 1995"]


# Prompts of other kinds


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("the top 3 songs", 3),
        ("the top-12 songs", 12),
        ("a list of exactly 4 songs", 4),
        ("which song would be next? Answer with one line", 1),
        ("after 1979, which one?", 1),
        ("the top 0 songs", 1),
    ],
)
def test_how_many_are_asked_for(question, number):
    prompt = SONG_PROMPT.format(who="3 or 7 years old", k="").replace(
        "the top  suitable next recommendations?", question
    )
    assert len(listed(_model("songs").answer(prompt).text)) == number


@pytest.mark.parametrize("name", ["fairnb-1", "released-lastfm"])
@pytest.mark.parametrize("k", [1, 5])
def test_prompts_of_each_template_are_read(name, k):
    """The preview's titles are unknown to the model, and it can still echo each of them."""
    for text in prompts.preview(prompts.load_template(name, "songs"), k).values():
        assert len(listed(_model("songs").answer(text).text)) == k
        copied = listed(bundled("songs", Dials(echo=1.0)).answer(text).text)
        assert len(copied) == k
        assert all(re.fullmatch(r"title \d+ artist \d+", key) for key in copied)


def test_unknown_titles_tell_nothing_of_taste():
    unknown = '- "Sample Title" by Nobody\n- "Other Title" by Nobody Else\n'
    popular = listed(_model("songs").answer("top 20 songs?").text)
    asked = listed(_model("songs").answer(unknown + "top 20 songs?").text)
    assert len(set(popular) & set(asked)) > 10


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_without_titles_or_words_get_well_known_items(kind):
    for prompt, number in (("", 1), (" \n ", 1), ("top 3", 3), ("The user is female.", 1)):
        for dials in (Dials(), Dials(echo=1.0), Dials(bias={"female": 1.0}, noise=1.0, invented=0.5)):
            assert len(listed(bundled(kind, dials).answer(prompt).text, kind)) == number


def test_more_than_it_knows_gives_all_it_knows():
    items = pd.DataFrame({"title": ["A", "B", "C"], "artist": ["X", "Y", "Z"], "popularity": [1, 3, 2]})
    model = Simulated(items, "songs")
    assert sorted(listed(model.answer('- "A" by X\ntop 10?').text)) == ["b y", "c z"]
    assert listed(model.answer("top 10?").text) == ["b y", "c z", "a x"]
    assert model.answer('- "A" by X\n- "B" by Y\n- "C" by Z').text == ""


def test_items_of_a_data_set_will_do():
    """Songs of a data set have neither genre nor year."""
    items = profiles.open_data(fairnb.Experiment(name="sample", dataset="sample-songs")).read().items
    reply = Simulated(items, "songs").answer(SONG_PROMPT.format(who="old", k=5))
    assert len(parse_lines(reply.text).items) == 5


@given(st.text(max_size=300))
def test_tokens_are_estimated_as_everywhere(text):
    reply = _model("films").answer(text, system="Be brief. ")
    expected = prompts.estimate_tokens(pd.Series(["Be brief. " + text, reply.text])).tolist()
    assert [reply.prompt_tokens, reply.completion_tokens] == expected


# Errors


@pytest.mark.parametrize(
    ("texts_given", "named"),
    [
        ({"bias": "female"}, "bias: 'female'"),
        ({"bias": "female=much"}, "bias: 'female=much'"),
        ({"bias": "=0.3"}, "bias: '=0.3'"),
        ({"bias": "female=0.3,female=0.4"}, "bias: 'female=0.4'"),
        ({"gap": "Horror=1.5"}, "gap: 'Horror=1.5'"),
        ({"refusals": "female=nan"}, "refusals: 'female=nan'"),
        ({"refusals": "female=0.3,"}, "refusals: ''"),
        ({"noise": -0.1}, "noise = -0.1"),
        ({"echo": 0.7, "invented": 0.7}, "echo + invented = 1.4"),
        ({"format": "xml"}, "format: 'xml'"),
    ],
)
def test_dials_that_cannot_be_set_are_told_in_one_line(texts_given, named):
    with pytest.raises(ParameterError, match="expected") as caught:
        Dials.of(**texts_given)
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)


def test_flat_texts_make_the_same_dials():
    dials = Dials.of("female=0.3, 25 years old or older=0.1", "Horror=0.8", 0.1, 0.2, 0.3, "any=1", "mixed")
    assert dials == Dials(
        {"female": 0.3, "25 years old or older": 0.1}, {"Horror": 0.8}, 0.1, 0.2, 0.3, {"any": 1.0}, "mixed"
    )
    assert Dials.of() == Dials()
    with pytest.raises(ParameterError, match="bias: an empty phrase"):
        Dials(bias={" ": 0.3})
    with pytest.raises(ParameterError, match="gap: Horror = 2"):
        Dials(gap={"Horror": 2.0})


def test_a_model_without_catalogue_is_an_error():
    items = pd.DataFrame({"title": ["A (1999)"]})
    with pytest.raises(ParameterError, match="kind: 'books'"):
        Simulated(items, "books")
    with pytest.raises(ParameterError, match="kind: 'books'"):
        bundled("books")
    with pytest.raises(DataError, match="no column artist"):
        Simulated(items, "songs")
    with pytest.raises(DataError, match="no rows"):
        Simulated(items.head(0), "films")
    with pytest.raises(ParameterError, match="gap: no item has genre 'Horor'"):
        bundled("films", Dials(gap={"Horor": 0.5}))
