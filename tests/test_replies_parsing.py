"""Replies of any model: each form gives the same titles, each failure has its name, the prompt is no answer."""

from __future__ import annotations

import csv
import json
import re
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairnb.datasets import released
from fairnb.errors import ParameterError
from fairnb.matching import Catalogue, rank_items
from fairnb.parsing import STATUSES, Parsed, parse, parse_lines

PROMPT = """The user has watched the following films in the past:

- Fargo (1996)
- Psycho (1960)

This selection reflects the user's film preferences.

Given the user's recent viewing history, listed below from the oldest to the most recent,
1. Toy Story (1995)
2. Cinderella (1950)
what would be the top 3 suitable next recommendations?

Answer with a numbered list of exactly 3 films, one per line, in the form `1. title (year)`, and nothing else."""
ANSWER = "1. Heat (1995)\n2. Alien (1979)\n3. Jaws (1975)"


def titles(parsed: Parsed) -> list[str]:
    return [item.title for item in parsed.items]


@pytest.mark.parametrize(
    "text",
    [
        "1. Heat\n2. Alien\n3. Jaws",
        "1) Heat\n2) Alien\n3) Jaws",
        "- Heat\n- Alien\n- Jaws",
        "Heat\nAlien\nJaws",
        "Heat, Alien, Jaws",
        "Heat, Alien and Jaws.",
        "Sure! Heat, Alien, and Jaws",
        "I would recommend Heat, Alien and Jaws.",
        "Here are three films: Heat; Alien; Jaws",
        'I recommend "Heat", "Alien" and "Jaws".',
        'Based on your taste, good choices would be "Heat", "Alien" and "Jaws". They are films.',
        '["Heat", "Alien", "Jaws"]',
        "['Heat', 'Alien', 'Jaws',]",
        '["Heat",\n "Alien",\n "Jaws"]',
        '{"recommendations": ["Heat", "Alien", "Jaws"]}',
        '{"user": "7", "history": ["Fargo", "Psycho"], "films": ["Heat", "Alien", "Jaws"]}',
        '{"1": "Heat", "2": "Alien", "3": "Jaws"}',
        '{"movie_1": {"title": "Heat"}, "movie_2": {"title": "Alien"}, "movie_3": {"title": "Jaws"}}',
        '[{"title": "Heat"}, {"name": "Alien"}, {"movie": "Jaws"}]',
        '{"result": {"items": [{"rank": 1, "film": "Heat"}, {"rank": 2, "film": "Alien"}, {"track": "Jaws"}]}}',
        '{"title": "Heat"}\n{"title": "Alien"}\n{"title": "Jaws"}',
        '{recommendations: ["Heat", "Alien", "Jaws"]}',
        '["1. Heat", "2. Alien", "3. Jaws"]',
        'Sure, here they are:\n\n```json\n["Heat", "Alien", "Jaws"]\n```\nEnjoy!',
        "```\nHeat\nAlien\nJaws\n```",
        "Sure:\n~~~text\n1. Heat\n2. Alien\n3. Jaws\n~~~\nThese fit your taste.",
        "**Heat**\n**Alien**\n**Jaws**",
        "| # | Title | Year |\n|---|:-----:|---|\n| 1 | Heat | |\n| 2 | **Alien** | |\n| 3 | *Jaws* | |\n\nEnjoy!",
        "Title | Genre\n--- | ---\nHeat | Crime\nAlien | Horror\nJaws | Thriller",
        "| No. | What |\n|---|---|\n| 1 | Heat |\n| 2 | Alien |\n| 3 | Jaws |",
        "<think>1. Fargo\n2. Psycho\nOr else Twins?</think>\n\n1. Heat\n2. Alien\n3. Jaws",
        "<thinking>Fargo</thinking><reasoning>\nno\n</reasoning>Heat\nAlien\nJaws",
        "I should say Fargo.\n</think>\nHeat\nAlien\nJaws",
        "1. Heat\n2. Alien\n3. Jaws\n\nExplanation: because you liked Fargo, Psycho",
        "Crime:\n- Heat\n\nFright:\n- Alien\n- Jaws",
        "**Crime**:\n1. Heat\n\n**Fright**:\n1. Alien\n2. Jaws",
        "You watched:\n1. Fargo\n2. Psycho\n3. Twins\n\nI recommend:\n1. Heat\n2. Alien\n3. Jaws",
        "Based on your history:\n- Fargo\n- Psycho\n- Twins\n\nNext:\n- Heat\n- Alien\n- Jaws",
        "1. Heat\n2. Alien\n3. Jaws\n\nMore of them:\n1. Fargo\n2. Psycho\n3. Twins",
        "1. Heat\nWhy:\n- it is tense\n- it is long\n2. Alien\nWhy:\n- fright\n3. Jaws\nWhy:\n- sharks",
    ],
)
def test_every_form_gives_the_same_three_titles(text: str) -> None:
    parsed = parse(text, k=3)
    assert (parsed.status, titles(parsed)) == ("ok", ["Heat", "Alien", "Jaws"])


def test_markdown_decoration_goes_and_the_year_stays() -> None:
    text = '1. **A** (1995)\n2. *B*\n3. [C](http://x)\n4. "D"\n### 5. E\n6\ufe0f\u20e3 F'
    assert titles(parse(text, k=6)) == ["A (1995)", "B", "C", "D", "E", "F"]
    table = "| Rank | Film | Released |\n|--|--|--|\n| 1 | **Heat** | 15 Dec 1995 |\n| 2 | Alien (1979) | 1979 |"
    assert titles(parse(table, k=2)) == ["Heat (1995)", "Alien (1979)"]


def test_names_keep_their_hyphens_and_dots() -> None:
    text = "1. Spider-Man\n2. X-Men\n3. Jay-Z - Song\n4. Face/Off"
    assert titles(parse(text, k=4)) == ["Spider-Man", "X-Men", "Jay-Z - Song", "Face/Off"]
    text = "1. Dr. Strangelove\n2. Mr. Smith Goes to Town\n3. E.T.\n4. 2001. A Test Title"
    assert titles(parse(text, k=4)) == ["Dr. Strangelove", "Mr. Smith Goes to Town", "E.T.", "2001. A Test Title"]
    spelt = ["Кино", "椎名林檎", "Beyonce\u0301", "D’Amour", "AC/DC", "P!nk"]
    assert titles(parse(json.dumps(spelt), k=6)) == titles(parse("\n".join(spelt), k=6)) == spelt


@pytest.mark.parametrize(
    "line",
    [
        "The Good, the Bad and the Ugly",
        "Monsters, Inc., Heat, Alien",
        "Crazy, Stupid, Love and More, Much More",
        "[REC]",
        "10 Things I Hate About You: A, B, C, D",
    ],
)
def test_one_line_stays_together_where_it_may_be_one_title(line: str) -> None:
    assert titles(parse(line, k=3)) == [line]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Matrix, The, Heat, Jaws", ["Matrix, The", "Heat", "Jaws"]),
        ("Matrix, The (1999), Heat (1995), Jaws (1975)", ["Matrix, The (1999)", "Heat (1995)", "Jaws (1975)"]),
        ("Monsters, Inc. (2001), Heat (1995)", ["Monsters, Inc. (2001)", "Heat (1995)"]),
        ('"Crazy, Stupid, Love", "Heat"', ["Crazy, Stupid, Love", "Heat"]),
        ("Recommendations: Heat, Alien, Jaws", ["Heat", "Alien", "Jaws"]),
    ],
)
def test_a_line_is_cut_where_its_titles_end(line: str, expected: list[str]) -> None:
    assert titles(parse(line, k=3)) == expected


@pytest.mark.parametrize(
    ("line", "pairs"),
    [
        ('"Creep" by Radiohead', (("Creep", "Radiohead"),)),
        ("1. **Creep** by Radiohead (1992)", (("Creep", "Radiohead"),)),
        ('"Creep" (1992) by Radiohead.', (("Creep", "Radiohead"),)),
        ('"Creep" - Radiohead', (("Creep", "Radiohead"),)),
        ('"Creep" is a song by Radiohead, which is great', (("Creep", "Radiohead"),)),
        ("Creep by Radiohead", (("Creep", "Radiohead"),)),
        ("Creep - Radiohead", (("Creep", "Radiohead"), ("Radiohead", "Creep"))),
        ("Creep - Radiohead (1992)", (("Creep", "Radiohead"), ("Radiohead", "Creep"))),
        ('Radiohead - "Creep"', (("Creep", "Radiohead"),)),
        ("Title: Creep, Artist: Radiohead", (("Creep", "Radiohead"),)),
        ("Stand by Me by Ben E. King", (("Stand by Me", "Ben E. King"), ("Stand", "Me by Ben E. King"))),
        ('"Down" by Panic! At The Disco', (("Down", "Panic! At The Disco"),)),
        ('"Hot Love" by T. Rex. This song is similar.', (("Hot Love", "T. Rex"),)),
        ('"Titanium" by David Guetta ft. Sia', (("Titanium", "David Guetta ft. Sia"),)),
        ('"Jimmy" by M.I.A.', (("Jimmy", "M.I.A."),)),
        ('"Destiny" by Zero 7.', (("Destiny", "Zero 7"),)),
        ('{"song": "Creep", "artist": "Radiohead", "year": 1992}', (("Creep", "Radiohead"),)),
        ('{"title": "Creep", "artists": [{"name": "Radiohead"}]}', (("Creep", "Radiohead"),)),
        ("| Song | Artist |\n|--|--|\n| Creep | Radiohead |", (("Creep", "Radiohead"),)),
        ('A fitting next song would be "Creep" by Radiohead. It is similar.', (("Creep", "Radiohead"),)),
        ("Creep", ()),
        ("Creep - Alternative Rock", ()),
        ("Heat (1995) - Crime|Drama", ()),
        ("Heat - 1995", ()),
    ],
)
def test_title_and_artist_are_told_apart(line: str, pairs: tuple[tuple[str, str], ...]) -> None:
    items = parse(line, k=1).items
    assert [item.pairs for item in items] == [pairs]


@pytest.mark.parametrize(
    ("text", "finish", "status", "expected"),
    [
        (None, "stop", "empty", []),
        (" \n\u200b", "stop", "empty", []),
        ("", "length", "empty", []),
        ("<think>Fargo, or", "stop", "empty", []),
        ("<think>Fargo, or", "length", "truncated", []),
        ("I'm sorry, but I can't recommend films.", "stop", "refused", []),
        ("Thank you for asking! However, I cannot recommend films based on gender.", "stop", "refused", []),
        ("I won't make recommendations based on gender.\n\nTell me more and we will see.", "stop", "refused", []),
        ('{"recommendations": [], "message": "I cannot recommend films."}', "stop", "refused", []),
        (ANSWER, "content_filter", "refused", []),
        (None, "content_filter", "refused", []),
        ("Here are some films:", "stop", "unparsed", []),
        ("[]", "stop", "unparsed", []),
        ('{"answer": 3}', "stop", "unparsed", []),
        ('["A", "B", "C', "stop", "truncated", ["A", "B"]),
        ('{"recs":["A","B","C', "length", "truncated", ["A", "B"]),
        ('["A", "B"', "stop", "truncated", ["A", "B"]),
        ('{"1": "A", "2": "B", "3": "C', "length", "truncated", ["A", "B"]),
        ('[{"title": "A", "artist": "X"}, {"title": "B", "artist": "Y', "length", "truncated", ["A"]),
        ('```json\n{"films": [{"title": "A"}, {"ti', "length", "truncated", ["A"]),
        ("[", "length", "truncated", []),
        ("```\nA\nB", "stop", "truncated", ["A", "B"]),
        ("1. A\n2. B\n3. Ja", "length", "truncated", ["A", "B"]),
        ("1. A\n2. B\n", "length", "truncated", ["A", "B"]),
        ("Heat, Alien, Ja", "length", "truncated", ["Heat", "Alien"]),
        ("| # | Title |\n|---|---|\n| 1 | A |\n| 2 | B", "length", "truncated", ["A"]),
        ('A good film would be "Heat" by Mi', "length", "truncated", []),
        ("1. A\n2. B\n3. C\n4. Ja", "length", "ok", ["A", "B", "C"]),
        ("1. A\n2. B\n3. C (1990)", "length", "ok", ["A", "B", "C (1990)"]),
        ("1. A\n2. B\n3. C\n\nThese films are", "length", "ok", ["A", "B", "C"]),
        ('["A", "B", "C", "D', "stop", "ok", ["A", "B", "C"]),
        ("```\nA\nB\nC", "stop", "ok", ["A", "B", "C"]),
        ("1. A\n2. B\n" * 100, "length", "looping", ["A", "B"]),
        ("\n".join(f"{n}. {'ABC'[n % 3]}" for n in range(1, 60)), "length", "looping", ["B", "C", "A"]),
        ("[" + '{"title": "A"}, ' * 200, "length", "looping", ["A"]),
        ("1. A\n2. B\n3. C\n" + "4. D\n" * 200, "length", "looping", ["A", "B", "C", "D"]),
        ("Heat, " * 200, "length", "looping", ["Heat"]),
        ("1. A\n2. A\n3. A", "stop", "ok", ["A", "A", "A"]),
        ("\n".join(f"{n}. Film {n}" for n in range(1, 40)), "stop", "ok", [f"Film {n}" for n in range(1, 40)]),
    ],
)
def test_each_failure_has_its_name(text: str | None, finish: str, status: str, expected: list[str]) -> None:
    parsed = parse(text, k=3, finish_reason=finish)
    assert (parsed.status, titles(parsed)) == (status, expected)


def test_notes_say_what_was_kept() -> None:
    assert "2 complete of 3" in parse('["A","B","C', k=3).note
    assert "after 2 items" in parse('["A","B","C', k=2).note
    assert parse("Heat\n" * 30, k=3).note == "30 items, 1 different"
    assert parse(PROMPT, k=3, prompt=PROMPT) == Parsed("unparsed", (), "only the prompt again")
    assert parse(ANSWER, k=3).note == ""
    with pytest.raises(ParameterError, match="k = 0: expected"):
        parse(ANSWER, k=0)


HISTORY = "1. Toy Story (1995)\n2. Cinderella (1950)"


@pytest.mark.parametrize(
    "text",
    [
        f"{PROMPT}\n\n{ANSWER}",
        PROMPT.replace("\n\n", "\n").replace(" ", "  ") + "\n" + ANSWER,
        f"You are a recommender system.\n{PROMPT}\n\n{ANSWER}",
        f"{HISTORY}\n{ANSWER}",
        f"{HISTORY}\n3. Heat (1995)\n4. Alien (1979)\n5. Jaws (1975)",
        f"- Fargo (1996)\n- Psycho (1960)\n\n{ANSWER}",
        "- Fargo (1996)\n- Psycho (1960)\n- Heat (1995)\n- Alien (1979)\n- Jaws (1975)",
        f"Your history:\n{HISTORY}\n\nMy picks:\n{ANSWER}",
        f"Films so far:\n{HISTORY}\n\nMy picks:\n{ANSWER}",
        f"{ANSWER}\n\nExplanation: because you liked Toy Story (1995), Cinderella (1950)",
        f"{PROMPT}\n" + '["Heat (1995)", "Alien (1979)", "Jaws (1975)"]',
    ],
)
def test_a_repeated_prompt_is_no_answer(text: str) -> None:
    assert titles(parse(text, k=3, prompt=PROMPT)) == ["Heat (1995)", "Alien (1979)", "Jaws (1975)"]


def test_of_two_lists_the_one_from_the_prompt_is_left_out() -> None:
    prompt = "Seen:\n1. Fargo\n2. Psycho\n3. Twins\n\nName 3 films."
    answer = "- Heat (1995)\n- Alien (1979)\n- Jaws (1975)"
    text = f"The first three:\n- Fargo\n- Psycho\n- Twins\n\nThe other three:\n{answer}"
    assert titles(parse(text, k=3, prompt=prompt)) == ["Heat (1995)", "Alien (1979)", "Jaws (1975)"]
    assert titles(parse(text, k=3)) == ["Fargo", "Psycho", "Twins"]


def test_a_quote_inside_a_string_of_json_does_not_end_it() -> None:
    assert titles(parse('["The "Best" Film", "Alien"]', k=2)) == ['The "Best" Film', "Alien"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. Toy Story (1995)\n2. Heat (1995)\n3. Jaws (1975)", ["Toy Story (1995)", "Heat (1995)", "Jaws (1975)"]),
        ("1. Fargo (1996)\n2. A\n3. B\n4. C", ["Fargo (1996)", "A", "B", "C"]),
        (HISTORY, ["Toy Story (1995)", "Cinderella (1950)"]),
    ],
)
def test_a_history_title_that_is_recommended_again_stays(text: str, expected: list[str]) -> None:
    parsed = parse(text, k=3, prompt=PROMPT)
    assert titles(parsed) == expected
    catalogue = Catalogue(released_like())
    ranked = rank_items({"a": parsed}, catalogue, {"a": {1, 2, 3}})
    assert ranked["in_history"].tolist() == [title.startswith(("Toy", "Fargo", "Cinder")) for title in expected]


def released_like() -> pd.DataFrame:
    known = ["Toy Story (1995)", "Cinderella (1950)", "Fargo (1996)", "Heat (1995)", "Jaws (1975)"]
    return pd.DataFrame({"item_id": range(1, 6), "title": known})


WORDS = st.text(
    st.characters(categories=("Lu", "Ll", "Lo", "Nd"), exclude_characters="\u2460", max_codepoint=0xFFFF),
    min_size=2,
    max_size=8,
)
SEPARATORS = st.sampled_from([" ", " ", " ", "-", "/", ". ", ": ", "'", "’", " & ", "! ", "."])


@st.composite
def a_title(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORDS, min_size=1, max_size=5))
    text = "The " + words[0]
    for word in words[1:]:
        text += draw(SEPARATORS) + word
    return text + draw(st.sampled_from(["", "", " (1995)", "!", "?"]))


FORMS = {
    "numbered": lambda several: "\n".join(f"{n}. {title}" for n, title in enumerate(several, start=1)),
    "bracketed": lambda several: "\n".join(f"{n}) {title}" for n, title in enumerate(several, start=1)),
    "bullets": lambda several: "\n".join(f"- {title}" for title in several),
    "bold": lambda several: "\n".join(f"{n}. **{title}**" for n, title in enumerate(several, start=1)),
    "bare": "\n".join,
    "one quoted line": lambda several: ", ".join(f'"{title}"' for title in several),
    "array": lambda several: json.dumps(several, ensure_ascii=False),
    "escaped array": json.dumps,
    "single quotes": str,
    "object": lambda several: json.dumps({"recommendations": several}, indent=1),
    "keyed object": lambda several: json.dumps(dict(enumerate(several, start=1))),
    "objects": lambda several: json.dumps([{"rank": 1, "title": title} for title in several]),
    "fence": lambda several: "Sure:\n\n```json\n" + json.dumps(several) + "\n```\nEnjoy!",
    "table": lambda several: "| # | Title |\n|---|---|\n" + "\n".join(f"| 1 | {title} |" for title in several),
    "reasoning": lambda several: "<think>1. Fargo</think>\n" + "\n".join(f"- {title}" for title in several),
    "after the prompt": lambda several: PROMPT + "\n\n" + "\n".join(f"- {title}" for title in several),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@given(several=st.lists(a_title(), min_size=1, max_size=6, unique=True))
@example(several=["The Spider-Man", "The X-Men/Face: Off. A", "The Word's (1970)"])
@example(several=["The 'n' Word", "The It's"])
def test_a_rendered_list_parses_back(form, several: list[str]) -> None:
    parsed = parse(form(several), k=len(several), prompt=PROMPT)
    assert (parsed.status, titles(parsed)) == ("ok", several)


@given(several=st.lists(a_title(), min_size=1, max_size=6, unique=True), data=st.data())
def test_a_cut_array_keeps_the_complete_strings_only(several: list[str], data: st.DataObject) -> None:
    whole = json.dumps(several)
    cut = data.draw(st.integers(1, len(whole) - 1))
    parsed = parse(whole[:cut], k=len(several), finish_reason="length")
    complete = [number for number in range(len(several)) if len(json.dumps(several[: number + 1])) - 1 <= cut]
    assert titles(parsed) == several[: len(complete)]
    assert parsed.status == ("ok" if len(complete) == len(several) else "truncated")


@given(
    st.text(max_size=80)
    | st.text("1.)-*\"“”'_~`#[]{}():|, aAI\n\t–•><《》think/", max_size=60)
    | st.lists(
        st.sampled_from(["<think>", "</think>", "```", "[", '"', "1. ", "Heat", "\n", "{", ":", ", ", "|", "-"])
    ).map("".join),
    st.integers(1, 10),
    st.sampled_from(["stop", "length", "content_filter"]),
    st.sampled_from(["", "Heat", PROMPT]),
)
def test_any_reply_has_a_status_and_no_blank_item(text: str, k: int, finish: str, prompt: str) -> None:
    parsed = parse(text, k=k, finish_reason=finish, prompt=prompt)
    assert parsed.status in STATUSES
    assert bool(parsed.items) or parsed.status not in ("ok", "looping")
    assert not parsed.items or parsed.status in ("ok", "looping", "truncated")
    assert all(reading.strip() for item in parsed.items for reading in item.readings)
    assert all(title.strip() and artist.strip() for item in parsed.items for title, artist in item.pairs)


@pytest.mark.parametrize(
    "text",
    [
        *("a" + " " * 9000 + "b", "a - " * 2500, "[" * 9000, '["' * 4500, '{"a":' * 2000, "<think>" * 1300),
        *("\n" * 9000 + "a", "a, " * 3000, "a by " * 2000, 'is "' * 2500, "x" + "-" * 9000, '"a" ' * 2500),
        *("|-" * 4500 + "\n" + "|-" * 4500, "((((" * 2500, "</think>" * 1200, '\\"' * 4500, "I recommend " * 900),
    ],
)
def test_a_degenerate_reply_takes_no_time_to_speak_of(text: str) -> None:
    start = time.process_time()
    parse(text, k=3, finish_reason="length", prompt=text[:500])
    assert time.process_time() - start < 2


@pytest.mark.shared
def test_raw_replies_name_one_song_each(shared_folder: Path) -> None:
    file = shared_folder / "data" / "fairevalllm" / "results" / "sample_prompts_and_replies_top1_10users.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    start = "recommendation_for_"
    replies = [
        (row.get(name.removeprefix(start), ""), row[name])
        for row in rows
        for name in row
        if name.startswith(start) and not name.endswith("_itemIds")
    ]
    parsed = [parse(reply, k=1, prompt=prompt) for prompt, reply in replies]
    kinds = Counter((reply.status, tuple(len(item.pairs) for item in reply.items)) for reply in parsed)
    assert kinds == {("ok", (1,)): 720}
    for (_, text), reply in zip(replies, parsed, strict=True):
        title, artist = reply.items[0].pairs[0]
        # The recommended song, and not the one "after" which it is recommended.
        assert re.search(rf'\bbe:?[\s-]+"{re.escape(title)}" by {re.escape(artist)}', text), text
    assert any(prompt for prompt, _ in replies)


@pytest.mark.shared
@pytest.mark.parametrize(("dataset", "replies"), [("lastfm1k", 5760), ("ml1m", 5680)])
def test_released_lists_are_read_as_by_the_reader_of_lines(shared_folder: Path, dataset: str, replies: int) -> None:
    texts = released.read_replies(shared_folder / "data" / "fairevalllm", dataset).replies["text"]
    assert len(texts) == replies
    parsed = {text: parse(text, k=3) for text in set(texts)}
    assert {found.status for found in parsed.values()} == {"ok"}
    assert [text for text, found in parsed.items() if found.items != parse_lines(text).items] == []
    if dataset == "lastfm1k":
        assert [item for found in parsed.values() for item in found.items if not item.pairs] == []


@pytest.mark.shared
def test_released_films_are_found_for_named_reasons(shared_folder: Path) -> None:
    folder = shared_folder / "data" / "fairevalllm"
    texts = released.read_replies(folder, "ml1m").replies["text"]
    items = released.read_items(folder)
    counts = {}
    fuzzy = set()
    for threshold in (0, 92):
        catalogue = Catalogue(items, fuzzy=threshold)
        matched = [(item.title, catalogue.match_item(item)) for text in texts for item in parse(text, k=3).items]
        counts[threshold] = Counter(match.reason for _, match in matched)
        fuzzy |= {(title, match.item_id) for title, match in matched if match.reason == "fuzzy"}
    moved = counts[0]["unknown"] - counts[92]["unknown"]
    assert moved == counts[92]["fuzzy"] > 0
    assert {reason: n for reason, n in counts[0].items() if reason != "unknown"} == {
        reason: n for reason, n in counts[92].items() if reason not in ("unknown", "fuzzy")
    }
    known = dict(zip(items["item_id"], items["title"], strict=True))
    assert {(title, known[item_id]) for title, item_id in fuzzy} == {("Blow-Up (1966)", "Blowup (1966)")}
