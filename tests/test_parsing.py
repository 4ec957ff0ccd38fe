"""Replies to titles: what is a title, what is around it, and what is none."""

from __future__ import annotations

import csv
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairnb.parsing import Item, Parsed, parse_lines
from fairnb.titles import match_key

KEYCAP = "\ufe0f\u20e3"


def titles(text: str) -> list[str]:
    return [item.title for item in parse_lines(text).items]


@pytest.mark.parametrize(
    "text",
    [
        "1. Heat\n2. Alien\n3. Jaws",
        "1) Heat\n2) Alien\n3) Jaws",
        "(1) Heat\n(2) Alien\n(3) Jaws",
        "[1] Heat\n[2] Alien\n[3] Jaws",
        "1.) Heat\n2.) Alien\n3.) Jaws",
        "1\\. Heat\n2\\. Alien\n3\\. Jaws",
        "1: Heat\n2: Alien\n3: Jaws",
        "1 - Heat\n2 - Alien\n3 - Jaws",
        "1 Heat\n2 Alien\n3 Jaws",
        "1.Heat\n2.Alien\n3.Jaws",
        "#1 Heat\n#2 Alien\n#3 Jaws",
        "No. 1: Heat\nNo. 2: Alien\nNo. 3: Jaws",
        "a) Heat\nb) Alien\nc) Jaws",
        "A. Heat\nB. Alien\nC. Jaws",
        f"1{KEYCAP} Heat\n2{KEYCAP} Alien\n3{KEYCAP} Jaws",
        "① Heat\n② Alien\n③ Jaws",
        "1、Heat\n2、Alien\n3、Jaws",
        "1. Heat\n1. Alien\n1. Jaws",
        "- Heat\n- Alien\n- Jaws",
        "-Heat\n-Alien\n-Jaws",
        "* Heat\n* Alien\n* Jaws",
        "+ Heat\n+ Alien\n+ Jaws",
        "• Heat\n• Alien\n• Jaws",
        "•Heat\n•Alien\n•Jaws",
        "– Heat\n– Alien\n– Jaws",
        "> Heat\n> Alien\n> Jaws",
        "🎬 Heat\n🎬 Alien 🎬\n🎬 Jaws",
        "### 1. Heat\n### 2. Alien\n### 3. Jaws",
        "### Heat\n### Alien\n### Jaws",
        "- 1. Heat\n- 2. Alien\n- 3. Jaws",
        "Heat\nAlien\nJaws",
        "\n\nHeat\n\n\nAlien\n\nJaws\n",
        "Heat\r\nAlien\r\nJaws\r\n",
        "Heat\rAlien\rJaws",
        "Heat\u2028Alien\u2028Jaws",
        "\ufeff1. Heat\n\u200f2. Alien\n\u00a03. Jaws",
        "  Heat  \n\tAlien\n   Jaws",
        "Heat,\nAlien,\nJaws",
        '"Heat"\n"Alien"\n"Jaws"',
        "“Heat”\n“Alien”\n“Jaws”",
        "«Heat»\n«Alien»\n«Jaws»",
        "'Heat'\n'Alien'\n'Jaws'",
        "《Heat》\n《Alien》\n「Jaws」",
        '1. "Heat"\n2. "Alien"\n3. "Jaws"',
        "**Heat**\n*Alien*\n__Jaws__",
        "***Heat***\n_Alien_\n`Jaws`",
        '**"Heat"**\n"**Alien**"\n- **Jaws**',
        "1. **Heat**\n2. **Alien**\n3. **Jaws**",
        "**1. Heat**\n**2. Alien**\n**3. Jaws**",
        "**1.** Heat\n**2.** Alien\n**3.** Jaws",
        "1. [Heat](https://films.example/heat_(film))\n2. [Alien](/alien)\n3. **[Jaws](www.example.org)**",
        "Title: Heat\nTitle: Alien\nTitle: Jaws",
        "Movie 1: Heat\nMovie 2: Alien\nMovie 3: Jaws",
        "**Recommendation #1:** Heat\n**Recommendation #2:** Alien\n**Recommendation #3:** Jaws",
        "Here are my recommendations:\n1. Heat\n2. Alien\n3. Jaws",
        "**Movie Recommendations:**\n- Heat\n- Alien\n- Jaws",
        "## Recommendations\nHeat\nAlien\nJaws",
        "## Recommendations\n- Heat\n- Alien\n- Jaws",
        "Sure, have fun with these\n\n1. Heat\n2. Alien\n3. Jaws\n\nEnjoy!",
        "Sure, have fun with these\n- Heat\n- Alien\n- Jaws\nEnjoy!",
        "---\n```text\nHeat\nAlien\nJaws\n```\n***",
        "1.\nHeat\n2.\nAlien\n3.\nJaws",
        "1. Heat\n   - Genre: Crime\n   - It is great\n   A classic.\n2. Alien\n3. Jaws",
        "Heat\nGenre: Crime\nAlien\nReason: scary\nJaws\nWhy: sharks",
        "1. Heat\n2. Alien\n3. Jaws\nExplanation: because you liked Fargo, Psycho",
        "Heat\nAlien\nJaws\nExplanation:\nBecause you liked Fargo",
        "1. Heat - Crime|Drama\n2. Alien - Horror, Sci-Fi\n3. Jaws - Thriller",
        "Heat – a film about a heist\nAlien — directed by Ridley Scott\nJaws - Genre: Horror",
        '- "Heat" - Crime\n- "Alien": space\n- "Jaws", the shark one',
        '- Heat" - Crime\n- "Alien - Horror\n- Jaws - Psychological Thriller',
        "Heat - Michael Mann\nAlien - Ridley Scott\nJaws - Steven Spielberg",
        '"Heat" by Michael Mann\n"Alien" by Ridley Scott\n"Jaws" is a film',
        "1. **Heat**: a crime film\n2. **Alien** - space\n3. **Jaws:** sharks",
        "1. **Heat**:\n   a crime film\n2. **Alien**:\n   space\n3. **Jaws**:\n   sharks",
        "I'm sorry, but I cannot know your taste.\nHere are popular films:\nHeat\nAlien\nJaws",
    ],
)
def test_every_layout_gives_the_same_three_titles(text: str) -> None:
    assert parse_lines(text).status == "ok"
    assert titles(text) == ["Heat", "Alien", "Jaws"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. Spider-Man\n2. X-Men\n3. Jay-Z - Song\n4. Face/Off", ["Spider-Man", "X-Men", "Jay-Z - Song", "Face/Off"]),
        (
            "1. Dr. Strangelove\n2. Mr. Smith Goes to Town\n3. E.T.\n4. 2001. A Test Title",
            ["Dr. Strangelove", "Mr. Smith Goes to Town", "E.T.", "2001. A Test Title"],
        ),
        ("12 Monkeys\n10 Things I Hate About You\n8 1/2", ["12 Monkeys", "10 Things I Hate About You", "8 1/2"]),
        (
            "24: Redemption\n300: Rise of an Empire\n3:10 to Yuma",
            ["24: Redemption", "300: Rise of an Empire", "3:10 to Yuma"],
        ),
        ("M. Butterfly\nA. I.\n1984", ["M. Butterfly", "A. I.", "1984"]),
        ("1. 1984\n2. 300\n3. 12 Angry Men", ["1984", "300", "12 Angry Men"]),
        ("- 1984\n- 300", ["1984", "300"]),
        ("1. 21. A Title\n2. (500) Days", ["21. A Title", "(500) Days"]),
        ("(500) Days of Summer\nHeat", ["(500) Days of Summer", "Heat"]),
        ("*batteries not included\nM*A*S*H\nN*E*R*D", ["*batteries not included", "M*A*S*H", "N*E*R*D"]),
        ("1. *batteries not included\n2. F**k", ["*batteries not included", "F**k"]),
        ("NA\nNone\nnan\nNULL\nn/a", ["NA", "None", "nan", "NULL", "n/a"]),
        ("!!!\n???\n...", ["!!!", "???", "..."]),
        ('"Weird Al" Yankovic\n"Heroes" Symphony', ['"Weird Al" Yankovic', '"Heroes" Symphony']),
        (
            "'Til There Was You\n'night, Mother\nRock 'n' Roll",
            ["'Til There Was You", "'night, Mother", "Rock 'n' Roll"],
        ),
        ("[REC]\n[REC] 2", ["[REC]", "[REC] 2"]),
        (
            "Alien: Resurrection\nMission: Impossible - Fallout\nJaws",
            ["Alien: Resurrection", "Mission: Impossible - Fallout", "Jaws"],
        ),
        (
            "Star Wars: Episode V - The Empire Strikes Back - Action|Sci-Fi",
            ["Star Wars: Episode V - The Empire Strikes Back"],
        ),
        (
            "Star Wars - A New Hope\nStar Wars - The Empire Strikes Back",
            ["Star Wars - A New Hope", "Star Wars - The Empire Strikes Back"],
        ),
        (
            "Crazy, Stupid, Love.\nMonsters, Inc.\nAdaptation.",
            ["Crazy, Stupid, Love.", "Monsters, Inc.", "Adaptation."],
        ),
        ("Кино\n椎名林檎\nΩ", ["Кино", "椎名林檎", "Ω"]),
        ("Wait\x85 What\nB\x0cC", ["Wait\x85 What", "B\x0cC"]),
        (
            "I'm Sorry\nI Can't Help Myself\nSorry, Wrong Number",
            ["I'm Sorry", "I Can't Help Myself", "Sorry, Wrong Number"],
        ),
        (
            "Sorry, I Can't Dance\nI can't help falling in love",
            ["Sorry, I Can't Dance", "I can't help falling in love"],
        ),
        ("1. I'm sorry, but I can't stay", ["I'm sorry, but I can't stay"]),
        (
            "Dr. Strangelove or: How I Learned to Stop Worrying and Love the Bomb\n"
            "Did chief act quickly enough to address the allegations against his own assistant coach?",
            [
                "Dr. Strangelove or: How I Learned to Stop Worrying and Love the Bomb",
                "Did chief act quickly enough to address the allegations against his own assistant coach?",
            ],
        ),
    ],
)
def test_marks_inside_a_title_survive(text: str, expected: list[str]) -> None:
    assert titles(text) == expected


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("Heat (1995)", "Heat (1995)"),
        ("1. **Heat** (1995)", "Heat (1995)"),
        ("**Heat (1995)** - Crime", "Heat (1995)"),
        ("**Heat (1995):** Crime", "Heat (1995)"),
        ("Heat (1995):", "Heat (1995)"),
        ("Heat (1995): a crime film", "Heat (1995)"),
        ("Heat (1995), by Mann", "Heat (1995)"),
        ("Heat (1995) is a film.", "Heat (1995)"),
        ('"Heat" (1995) - Crime', "Heat (1995)"),
        ('"Heat (1995)" - Crime', "Heat (1995)"),
        ('- "Heat (1995)" in Crime|Drama', "Heat (1995)"),
        ("Heat - 1995 - Crime", "Heat (1995)"),
        ("Heat [1995] - Crime", "Heat [1995]"),
        ("《霸王别姬》（1993）", "霸王别姬 （1993）"),
        ("Star Wars: Episode IV - A New Hope (1977) - Action", "Star Wars: Episode IV - A New Hope (1977)"),
        ("Seven (Se7en) (1995) - Crime", "Seven (Se7en) (1995)"),
        ("(500) Days of Summer (2009) - Romance", "(500) Days of Summer (2009)"),
        ("Blade Runner 2049 (2017)", "Blade Runner 2049 (2017)"),
    ],
)
def test_year_stays_with_its_title_and_the_rest_goes(line: str, title: str) -> None:
    assert titles(line) == [title]


def test_readings_of_a_dash_keep_the_whole_line() -> None:
    assert parse_lines("Heat - Crime").items == (Item(("Heat", "Heat - Crime")),)
    assert parse_lines("Heat - Mann\nJaws - Spielberg").items[0] == Item(
        ("Heat", "Heat - Mann"), (("Heat", "Mann"), ("Mann", "Heat"))
    )
    assert parse_lines("Star Wars: V - Empire - Sci-Fi").items == (
        Item(
            ("Star Wars: V - Empire", "Star Wars: V - Empire - Sci-Fi"),
            (("Star Wars: V", "Empire"), ("Empire", "Star Wars: V")),
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't recommend movies.",
        "I’m sorry, but I cannot help with that request.",
        "I am sorry, I am not able to assist.",
        "Sorry, but I don't have access to that list.",
        "I apologize, but as a text model I am unable to do that.",
        "Unfortunately, it is not possible to say.",
        "As an AI language model, I have no taste.",
        "I cannot provide recommendations for this user.",
        "I'm unable to generate a list.",
        "I'm sorry, but I can't do that.\n\nPlease tell me more first.",
        "Based on the user's taste in music, a suitable next recommendation could be Teardrop by Massive Attack.",
        "Here are some movies:",
        "**Recommendations:**\n\nGenre: Crime\n",
        "Explanation:\nBecause you liked Heat.",
        "---",
        "```\n```",
        "-\n*\n1.",
        "**",
    ],
)
def test_text_without_a_title_is_unparsed_and_never_an_empty_list(text: str) -> None:
    assert parse_lines(text) == Parsed("unparsed", ())


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\r\n", "\ufeff", "\u3000\n\u200b"])
def test_blank_reply_is_empty(text: str) -> None:
    assert parse_lines(text) == Parsed("empty", ())


def test_prose_around_a_quoted_title_is_no_title() -> None:
    text = (
        "Based on the user's listening history, a suitable next recommendation could be:\n\n"
        '"Teardrop" by Massive Attack.\n\n'
        "This recommendation is based on the user's preference for electronic music and similar artists."
    )
    assert titles(text) == ["Teardrop"]


WORDS = st.text(
    st.characters(categories=("Lu", "Ll", "Lo", "Nd"), exclude_characters="\u2460", max_codepoint=0xFFFF),
    min_size=2,
    max_size=8,
)
SEPARATORS = st.sampled_from([" ", " ", " ", "-", "/", ". ", ": ", ", ", "'", "’", " & ", "! ", "*", "."])
FORMS = {
    "numbered": "{n}. {title}",
    "number and bracket": "{n}) {title}",
    "bullets": "- {title}",
    "stars": "* {title}",
    "dots": "• {title}",
    "quotes": '"{title}"',
    "curly quotes": "“{title}”",
    "numbered quotes": '{n}. "{title}"',
    "bold": "**{title}**",
    "italic": "*{title}*",
    "numbered bold": "{n}. **{title}**",
    "bold with number": "**{n}. {title}**",
    "bulleted bold quotes": '- **"{title}"**',
    "keycaps": "{n}" + KEYCAP + " {title}",
    "genres": '{n}. "{title}" - Crime|Drama',
    "bare genres": "{n}. {title} - Crime, Drama",
}


@st.composite
def a_title(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORDS, min_size=1, max_size=5))
    text = "The " + words[0]
    for word in words[1:]:
        text += draw(SEPARATORS) + word
    return text + draw(st.sampled_from(["", "", " (1995)", "!", "?", "."]))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@settings(max_examples=25)
@given(several=st.lists(a_title(), min_size=1, max_size=5), intro=st.sampled_from(["", "Here they are:\n\n"]))
@example(several=["The Spider-Man", "The X-Men/Face: Off. A", "The M*A*S*H (1970)"], intro="")
def test_a_rendered_list_parses_back(form: str, several: list[str], intro: str) -> None:
    text = intro + "\n".join(form.format(n=n, title=title) for n, title in enumerate(several, start=1))
    assert titles(text) == several


@given(several=st.lists(a_title(), min_size=1, max_size=5))
def test_a_bare_list_parses_back(several: list[str]) -> None:
    assert titles("\n".join(several)) == several


@given(st.text(max_size=60) | st.text("1.)-*\"“”'_~`#[]():|, aAI\n\t–•>《》：（）😀", max_size=40))
@example("**1.")
@example('"')
@example("[](")
@example("1. \u200b")
def test_any_text_has_one_of_three_outcomes(text: str) -> None:
    parsed = parse_lines(text)
    assert parsed.status in ("ok", "empty", "unparsed")
    assert (parsed.status == "ok") == bool(parsed.items)
    assert all(reading.strip() for item in parsed.items for reading in item.readings)
    assert all(item.title == item.readings[0] for item in parsed.items)


@pytest.mark.parametrize("text", ["*a " * 1000, '"' * 5000, "a" + " " * 9000 + "b", "a - " * 1500, "1\n" * 2000])
def test_a_degenerate_reply_takes_no_time_to_speak_of(text: str) -> None:
    # Repetition is how models fail; each of these is the longest that a usual limit of tokens lets through.
    start = time.process_time()
    parse_lines(text)
    assert time.process_time() - start < 2


@pytest.mark.shared
@pytest.mark.parametrize("form", ["{n}. {title}", "- {title}", '"{title}"', "**{title}**", "{title}"])
def test_real_names_parse_back(shared_folder: Path, form: str) -> None:
    films = (shared_folder / "data" / "ml-1m" / "movies.dat").read_text("latin-1").splitlines()
    plays = (shared_folder / "data" / "lastfm-1k" / "userid-timestamp-artid-artname-traid-traname.tsv").read_text(
        "utf-8"
    )
    artists = [
        line.split("\t")[1]
        for line in (shared_folder / "data" / "nasty" / "hetrec_artists_quotes.dat").read_text("utf-8").splitlines()[1:]
    ]
    several = sorted(
        {line.split("::")[1] for line in films}
        | {line.split("\t")[5].strip() for line in plays.split("\n") if line}
        | set(artists)
    )
    assert len(several) > 4000
    random.Random(1).shuffle(several)
    wrong = []
    for start in range(0, len(several), 3):
        group = several[start : start + 3]
        found = titles("\n".join(form.format(n=n, title=title) for n, title in enumerate(group, start=1)))
        if [match_key(title) for title in found] != [match_key(title) for title in group]:
            wrong.append((group, found))
    assert wrong == []


@pytest.mark.shared
def test_raw_replies_give_one_title_or_none(shared_folder: Path) -> None:
    file = shared_folder / "data" / "fairevalllm" / "results" / "sample_prompts_and_replies_top1_10users.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    replies = [
        row[name]
        for row in rows
        for name in row
        if name.startswith("recommendation_") and not name.endswith("_itemIds")
    ]
    assert len(replies) == 720
    parsed = [parse_lines(reply) for reply in replies]
    assert {(reply.status, len(reply.items)) for reply in parsed} == {("ok", 1), ("unparsed", 0)}
    found = [reply.items[0].title for reply in parsed if reply.items]
    assert len(found) > 300
    # A title that was asked for stands in quotes in its reply; prose taken for one would not.
    quoted = [set(re.findall(r'"([^"]+)"', text)) for text, reply in zip(replies, parsed, strict=True) if reply.items]
    assert [title for title, marks in zip(found, quoted, strict=True) if title not in marks] == []
