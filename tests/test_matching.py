"""Titles to catalogue ids: the right item, the reason, and no item where there is doubt."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb.datasets.released import read_items
from fairnb.errors import DataError, ParameterError
from fairnb.matching import REASONS, Catalogue, Match, rank_items
from fairnb.parsing import Item, parse, parse_lines
from fairnb.titles import ARTICLES, names, split_year

UNKNOWN = Match(None, "unknown", 0)
TITLES = {
    1: "Matrix, The (1999)",
    2: "Affair to Remember, An (1957)",
    3: "Boot, Das (1981)",
    4: "Postino, Il (The Postman) (1994)",
    5: "Invitation, The (Zaproszenie) (1986)",
    6: "Toy Story (1995)",
    7: "Toy Story 2 (1999)",
    8: "Alien (1979)",
    9: "Aliens (1986)",
    10: "Heat (1995)",
    11: "Dead Heat (1988)",
    12: "M (1931)",
    13: "It (1990)",
    14: "Mission: Impossible (1996)",
    15: "Titanic (1953)",
    16: "Titanic (1997)",
    17: "Star Wars: Episode IV - A New Hope (1977)",
    18: "Nosferatu",
    19: "Promise, The (Versprechen, Das) (1994)",
    20: "Promise, The (La Promesse) (1996)",
    21: "Кино (1990)",
    22: "椎名林檎 (2000)",
    23: "NA (2001)",
    24: "None (2002)",
    25: "Spider-Man (2002)",
    26: "X-Men (2000)",
    27: "Face/Off (1997)",
    28: "Dr. Strangelove (1963)",
    29: "E.T. (1982)",
    30: "2001: A Space Odyssey (1968)",
    31: "Twin (1990)",
    32: "Twin (1990)",
    33: "Solaris",
    34: "Solaris",
}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(pd.DataFrame({"item_id": list(TITLES), "title": list(TITLES.values())}))


@pytest.mark.parametrize(
    ("title", "item_id", "reason"),
    [
        *((title, item, "title and year") for item, title in TITLES.items() if item not in (18, 31, 32, 33, 34)),
        ("The Matrix", 1, "title"),
        ("the matrix (1999)", 1, "title and year"),
        ("THE MATRIX [1999]", 1, "title and year"),
        ("Matrix, The", 1, "title"),
        ("An Affair to Remember", 2, "title"),
        ("Das Boot (1981)", 3, "title and year"),
        ("Il Postino", 4, "title"),
        ("The Postman (1994)", 4, "title and year"),
        ("Il Postino (The Postman) (1994)", 4, "title and year"),
        ("The Postman (Il Postino) (1994)", 4, "title and year"),
        ("The Invitation (1986)", 5, "title and year"),
        ("Zaproszenie", 5, "alternate title"),
        ("Matrix", None, "unknown"),
        ("The Matrix Reloaded (2003)", None, "unknown"),
        ("The Matrix (2003)", None, "other year"),
        ("Toy Story", 6, "title"),
        ("Toy Story 2", 7, "title"),
        ("Toy Story 3", None, "unknown"),
        ("Toy Story 2 (1995)", None, "other year"),
        ("Alien", 8, "title"),
        ("Aliens", 9, "title"),
        ("Heat", 10, "title"),
        ("Dead Heat", 11, "title"),
        ("M", 12, "title"),
        ("It", 13, "title"),
        ("Memento", None, "unknown"),
        ("Titanic", None, "ambiguous"),
        ("Titanic (1997)", 16, "title and year"),
        ("Titanic (1943)", None, "other year"),
        ("Star Wars: Episode IV – A New Hope", 17, "title"),
        ("Star Wars", None, "unknown"),
        ("Nosferatu", 18, "title"),
        ("Nosferatu (1922)", 18, "title"),
        ("The Promise", None, "ambiguous"),
        ("The Promise (1996)", 20, "title and year"),
        ("The Promise (La Promesse)", 20, "alternate title"),
        ("Das Versprechen", 19, "alternate title"),
        ("кино", 21, "title"),
        ("椎名林檎", 22, "title"),
        ("na", 23, "title"),
        ("none", 24, "title"),
        ("Spider Man", 25, "title"),
        ("X-MEN", 26, "title"),
        ("Face / Off", 27, "title"),
        ("Dr Strangelove", 28, "title"),
        ("ET", 29, "title"),
        ("2001 - A Space Odyssey", 30, "title"),
        ("2001", None, "unknown"),
        ("Twin (1990)", None, "ambiguous"),
        ("Solaris (1972)", None, "ambiguous"),
        ("", None, "unknown"),
        ("   ", None, "unknown"),
        ("(1999)", None, "unknown"),
    ],
)
def test_match(catalogue: Catalogue, title: str, item_id: int | None, reason: str) -> None:
    assert catalogue.match([title]) == (Match(item_id, reason) if reason != "unknown" else UNKNOWN)


def test_longest_known_reading_decides(catalogue: Catalogue) -> None:
    assert catalogue.match(["Heat", "Heat - Crime"]) == Match(10, "title")
    assert catalogue.match(["Star Wars: Episode IV", "Star Wars: Episode IV - A New Hope"]) == Match(17, "title")
    assert catalogue.match(["Alien", "Titanic"]) == Match(None, "ambiguous")
    assert catalogue.match([]) == UNKNOWN


@pytest.mark.parametrize(
    ("line", "item_id"),
    [
        ("1. Mission: Impossible - Fallout", None),
        ("1. Mission: Impossible – Ghost Protocol (2011)", None),
        ("1. Mission: Impossible - Action|Adventure", 14),
        ("1. Mission: Impossible - 1996", 14),
        ("1. Mission: Impossible - 2018", None),
        ("1. **Heat** (1995): a crime film", 10),
        ('1. "Heat" (1996)', None),
        ("1. Star Wars: Episode IV - A New Hope - Sci-Fi", 17),
    ],
)
def test_a_line_of_a_reply_finds_its_film_and_not_the_first_of_a_series(
    catalogue: Catalogue, line: str, item_id: int | None
) -> None:
    (item,) = parse_lines(line).items
    assert catalogue.match(item.readings).item_id == item_id


@pytest.mark.parametrize("article", ARTICLES)
def test_both_orders_of_each_article_match(article: str) -> None:
    catalogue = Catalogue(
        pd.DataFrame({"item_id": [7, 8], "title": [f"Word, {article.capitalize()} (1990)", "Word (1990)"]})
    )
    spoken = f"{article}Word" if article.endswith("'") else f"{article} Word"
    assert catalogue.match([f"{spoken} (1990)"]) == Match(7, "title and year")
    assert catalogue.match([f"Word, {article}"]) == Match(7, "title")
    assert catalogue.match(["Word"]) == Match(8, "title")


def test_a_blank_title_is_never_matched() -> None:
    catalogue = Catalogue(pd.DataFrame({"item_id": [1, 2], "title": ["", "  "]}))
    assert catalogue.match([""]) == catalogue.match([" "]) == UNKNOWN


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ({"item_id": [1, 2, 1], "title": ["A", "B", "C"]}, "item_id 1 stands more than once"),
        ({"id": [1], "title": ["A"]}, "no column item_id"),
        ({"item_id": [1], "name": ["A"]}, "no column title"),
        ({"item_id": [1], "title": [None]}, "the title of item_id 1 is None"),
        ({"item_id": [1, 2], "title": ["A", float("nan")]}, "the title of item_id 2 is nan"),
        ({"item_id": [1.5], "title": ["A"]}, "item_id 1.5 is no whole number"),
        ({"item_id": ["N1"], "title": ["A"]}, "item_id 'N1' is no whole number"),
    ],
)
def test_bad_catalogue_is_an_error_of_one_line(items: dict[str, list[object]], said: str) -> None:
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in items.items()})
    if "item_id" in frame and "title" in frame:
        frame["item_id"] = frame["item_id"].infer_objects()
    with pytest.raises(DataError, match="expected") as caught:
        Catalogue(frame)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.lists(st.text(min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=6, unique=True), st.data())
def test_no_title_raises_and_no_match_contradicts_the_year(several: list[str], data: st.DataObject) -> None:
    years = data.draw(st.lists(st.integers(1900, 1905), min_size=len(several), max_size=len(several)))
    titles = [f"{name} ({year})" for name, year in zip(several, years, strict=True)]
    catalogue = Catalogue(pd.DataFrame({"item_id": range(len(titles)), "title": titles}))
    asked = data.draw(st.sampled_from(several))
    year = data.draw(st.integers(1900, 1905))
    found = catalogue.match([f"{asked} ({year})"])
    assert found.item_id is None or split_year(titles[found.item_id])[1] == year


@pytest.mark.shared
def test_every_film_of_the_real_catalogue_is_found_by_its_spoken_name(shared_folder: Path) -> None:
    items = read_items(shared_folder / "data" / "fairevalllm")
    catalogue = Catalogue(items)
    wrong = []
    for item_id, title in zip(items["item_id"], items["title"], strict=True):
        name, year = split_year(title)
        for spoken in names(name):
            found = catalogue.match([f"{spoken} ({year})"])
            if found != Match(item_id, "title and year"):
                wrong.append((title, spoken, found))
    # Two films stand in the catalogue twice, once by their Spanish or German name: that entry is found by it.
    assert {spoken for _, spoken, _ in wrong} == {"Der Bewegte Mann", "El Callejón de los milagros"}
    titles = dict(zip(items["item_id"], items["title"], strict=True))
    assert {names(split_year(titles[found.item_id])[0])[0] for _, _, found in wrong} == {s for _, s, _ in wrong}
    assert len(wrong) == 2


@pytest.mark.shared
def test_titles_that_other_catalogues_write_otherwise(shared_folder: Path) -> None:
    catalogue = Catalogue(read_items(shared_folder / "data" / "fairevalllm"))
    for title, year in (
        ("Alien 3", 1992),
        ("MASH", 1970),
        ("LA Confidential", 1997),
        ("Se7en", 1995),
        ("Hard Eight", 1996),
        ("Sunset Boulevard", 1950),
        ("L'Assedio", 1998),
        ("$1000000 Duck", 1971),
    ):
        assert catalogue.match([f"{title} ({year})"]).reason == "title and year", title
    for title in (
        "Alien 4",
        "Shawshank Redemption",
        "Heat 2",
        "Blade Runner 2049",
        "Toy Story 3",
        "The Departed (2006)",
    ):
        assert catalogue.match([title]) == UNKNOWN, title


SEVEN = {1: "Seven Samurai (The Magnificent Seven) (Shichinin no samurai) (1954)", 2: "Ikiru (To Live) (1952)"}


def films(*more: str, titles: dict[int, str] | None = None, fuzzy: float = 0) -> Catalogue:
    several = {**(titles or {}), **{100 + number: title for number, title in enumerate(more)}}
    return Catalogue(pd.DataFrame({"item_id": list(several), "title": list(several.values())}), fuzzy)


def test_an_alternate_title_says_so_and_a_main_title_goes_before_it() -> None:
    alone = films(titles=SEVEN)
    assert alone.match(["The Magnificent Seven"]) == Match(1, "alternate title")
    assert alone.match(["The Magnificent Seven (1954)"]) == Match(1, "title and year")
    assert alone.match(["The Magnificent Seven (1960)"]) == Match(None, "other year")
    assert alone.match(["To Live"]) == Match(2, "alternate title")
    assert alone.match(["Living (Ikiru)"]) == Match(2, "alternate title")
    both = films("Magnificent Seven, The (1960)", titles=SEVEN)
    assert both.match(["The Magnificent Seven"]) == Match(100, "title")
    assert both.match(["The Magnificent Seven (1954)"]) == Match(1, "title and year")
    assert both.match(["The Magnificent Seven (1960)"]) == Match(100, "title and year")
    assert films("One (Word) (1990)", "Two (Word) (1990)").match(["Word"]) == Match(None, "ambiguous")


PITFALL = ["Toy Story", "Toy Story 2", "Alien", "Aliens", "Heat", "Dead Heat", "M", "It"]


@pytest.mark.parametrize("fuzzy", [0, 60, 85, 92])
@pytest.mark.parametrize("year", [False, True])
def test_titles_that_are_alike_are_never_confused(fuzzy: float, year: bool) -> None:
    known = [f"{title} ({1980 + number})" if year else title for number, title in enumerate(PITFALL)]
    catalogue = films(*known, fuzzy=fuzzy)
    for number, title in enumerate(PITFALL):
        assert catalogue.match_item(Item((title,))) == Match(100 + number, "title")
    # Each alone in the catalogue, and all others asked for: none is taken for it.
    for title in known:
        alone = films(title, fuzzy=fuzzy)
        others = [other for other in known if other != title]
        assert {alone.match_item(Item((other,))) for other in others} == {UNKNOWN}


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("Goodfellas (1990)", "Goodfelas"),
        ("Goodfellas (1990)", "Goodfelas (1990)"),
        ("Shawshank Redemption, The (1994)", "Shawshank Redemption"),
        ("Shawshank Redemption, The (1994)", "The Shawshenk Redemption (1994)"),
        ("Silence of the Lambs, The (1991)", "Silence of the Lambs"),
        ("Blowup (1966)", "Blow-Up (1966)"),
        ("Star Trek III: The Search for Spock (1984)", "Star Trek 3: The Search for Spok"),
        ("One Flew Over the Cuckoo's Nest (1975)", "One Flew Over the Cuckoos Nests"),
    ],
)
def test_a_misspelt_title_is_found_if_that_is_switched_on(known: str, asked: str) -> None:
    item = Item((asked,))
    found = films(known, "Heat (1995)", fuzzy=80).match_item(item)
    assert (found.item_id, found.reason) == (100, "fuzzy")
    assert 80 <= found.score < 100
    assert films(known, fuzzy=math.floor(found.score)).match_item(item) == found
    assert films(known, fuzzy=math.floor(found.score) + 1).match_item(item) == UNKNOWN
    assert films(known).match_item(item) == UNKNOWN


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("Toy Story 2 (1999)", "Toy Story 3"),
        ("Toy Story (1995)", "Toy Story 2"),
        ("Star Trek III: The Search for Spock", "Star Trek II: The Search for Spock"),
        ("Rocky Horror Picture Show, The (1975)", "Rocky Horror Show"),
        ("Goodfellas (1990)", "Goodfelas (1991)"),
        ("Alien (1979)", "Aliens"),
        ("Three Kings (1999)", "Three King"),
        ("Dead Heat (1988)", "Dead Meat"),
        ("Finding North (1999)", "Finding Nemo"),
        ("Princess Bride, The (1987)", "The Princess Diaries"),
        ("Battle for the Planet of the Apes (1973)", "War for the Planet of the Apes"),
        ("Man Who Knew Too Little, The (1997)", "The Man Who Knew Too Much"),
        ("Heat (1995)", "Heats"),
        ("Blade Runner 2049 (2017)", "Blade Runner 2048"),
        ("Fargoe (1996)", "Fargo"),
        ("Montana (1998)", "Moana"),
    ],
)
def test_another_title_is_never_taken_for_a_misspelling(known: str, asked: str) -> None:
    assert films(known, fuzzy=60).match_item(Item((asked,))).item_id is None


def test_a_misspelling_of_two_titles_is_ambiguous() -> None:
    both = films("Goodfellas (1990)", "Goodfellow (1991)", fuzzy=75)
    found = both.match_item(Item(("Goodfelloa",)))
    assert (found.item_id, found.reason) == (None, "ambiguous")
    assert both.match_item(Item(("Goodfelloa (1991)",))).item_id == 101
    # A title that is in the catalogue is that title, however near another one is.
    assert both.match_item(Item(("Goodfellow",))) == Match(101, "title")


SONGS = pd.DataFrame(
    [
        (1, "Creep", "Radiohead"),
        (2, "Creep", "TLC"),
        (3, "Let It Be", "The Beatles"),
        (4, "Sound of Silence, The", "Simon & Garfunkel"),
        (5, "Titanium (feat. Sia)", "David Guetta"),
        (6, "Stand by Me", "Ben E. King"),
        (7, "Teardrop", "Massive Attack"),
        (8, "One", "U2"),
        (9, "Creep (Acoustic)", "Radiohead"),
        (10, "Кино", "椎名林檎"),
    ],
    columns=["item_id", "title", "artist"],
)


@pytest.mark.parametrize(
    ("line", "item_id", "reason"),
    [
        ('"Creep" by Radiohead', 1, "title and artist"),
        ("Creep by TLC", 2, "title and artist"),
        ("- Creep - Radiohead", 1, "title and artist"),
        ("Radiohead - Creep", 1, "title and artist"),
        ('Radiohead: "Creep"', 1, "title and artist"),
        ("**Creep** (1992) by Radiohead", 1, "title and artist"),
        ("Creep (Acoustic) by Radiohead", 9, "title and artist"),
        ("Creep (Live) by Radiohead", None, "unknown"),
        ("Creep", None, "ambiguous"),
        ("Creep by Stone Temple Pilots", None, "other artist"),
        ("Let It Be by Beatles", 3, "title and artist"),
        ("Let It Be by Beatles, The", 3, "title and artist"),
        ("Let It Be by The Beatles feat. Billy Preston", 3, "title and artist"),
        ('"Let It Be" by The Beatles. This song is a classic.', 3, "title and artist"),
        ("The Sound of Silence by Simon and Garfunkel", 4, "title and artist"),
        ("Titanium by David Guetta ft. Sia", 5, "title and artist"),
        ("Titanium (feat. Sia)", 5, "title"),
        ("Titanium", 5, "title"),
        ("Stand by Me", 6, "title"),
        ("Stand by Me by Ben E. King", 6, "title and artist"),
        ("Stand by Me by Oasis", None, "other artist"),
        ("Teardrop", 7, "title"),
        ("Teardrop - Massive Attack", 7, "title and artist"),
        ("Teardrop - Portishead", None, "other artist"),
        ("Teardrop by Massive Atack", None, "other artist"),
        ('"Teardrop" by Portishead', None, "other artist"),
        ("1. **Teardrop** - Portishead", None, "other artist"),
        ("One by Metallica", None, "other artist"),
        ("Кино by 椎名林檎", 10, "title and artist"),
        ("Кина by 椎名林檎", None, "unknown"),
    ],
)
def test_songs_are_matched_by_title_and_artist(line: str, item_id: int | None, reason: str) -> None:
    item = parse(line, k=1).items[0]
    found = Catalogue(SONGS).match_item(item)
    assert (found.item_id, found.reason) == (item_id, reason)


@pytest.mark.parametrize(
    ("line", "item_id"),
    [
        ("Teardrop by Massive Atack", 7),
        ("Teardropp by Massive Attack", 7),
        ("Teardropp by Massive Atack", 7),
        ("Teardropp", None),
        ("Teardrop by Passive Attack", None),
        ("One by U22", None),
        ("Teardropp by Massive Hysteria", None),
        ("Teardrop by Massive Attack 2", None),
        ("Creep by Radiohaed", None),
        ("Creep by Radiohed", 1),
    ],
)
def test_of_a_misspelt_song_the_artist_must_agree_too(line: str, item_id: int | None) -> None:
    found = Catalogue(SONGS, fuzzy=92).match_item(parse(line, k=1).items[0])
    assert found.item_id == item_id
    assert (found.reason == "fuzzy") == (item_id is not None)


def test_a_short_artist_is_never_spelt_otherwise() -> None:
    songs = Catalogue(pd.DataFrame({"item_id": [1], "title": ["Porcelain"], "artist": ["Moby"]}), fuzzy=85)
    assert songs.match_item(Item(("Porcelain",), (("Porcelain", "Moby"),))) == Match(1, "title and artist")
    assert songs.match_item(Item(("Porcelain",), (("Porcelain", "Mobyy"),))) == Match(None, "other artist")
    assert songs.match_item(Item(("Porcelane",), (("Porcelane", "Moby"),))).reason == "fuzzy"


def test_every_reason_is_listed() -> None:
    assert set(REASONS) >= {match.reason for match in (UNKNOWN, Match(1, "title and year"), Match(1, "fuzzy"))}
    with pytest.raises(ParameterError, match="fuzzy = 120: expected"):
        films("Heat", fuzzy=120)
    with pytest.raises(DataError, match="the artist of item_id 1 is None"):
        Catalogue(pd.DataFrame({"item_id": [1], "title": ["Creep"], "artist": [None]}))


def test_ranks_close_over_repeats_and_keep_what_is_invented(catalogue: Catalogue) -> None:
    parsed = {
        "a": parse(
            "1. Il Postino\n2. Heat\n3. The Postman (1994)\n4. Invented\n5. Heat (1995)\n6. INVENTED\n7. M", k=7
        ),
        "b": parse("", k=7),
        "c": parse("1. Heat\n2. Titanic (1953)\n3. Titanic (1997)", k=3),
    }
    ranked = rank_items(parsed, catalogue, {"a": {10, 12}, "b": set(), "c": set()})
    assert ranked["reply"].tolist() == ["a"] * 7 + ["c"] * 3
    assert ranked["place"].tolist() == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3]
    assert ranked["item_id"].fillna(-1).tolist() == [4, 10, 4, -1, 10, -1, 12, 10, 15, 16]
    assert ranked["repeat"].tolist() == [False, False, True, False, True, True, False, False, False, False]
    assert ranked["rank"].fillna(-1).tolist() == [1, 2, -1, 3, -1, -1, 4, 1, 2, 3]
    assert ranked["in_history"].tolist() == [False, True, False, False, True, False, True, False, False, False]
    assert ranked["match"].tolist()[:4] == ["title", "title", "title and year", "unknown"]
    assert ranked["score"].tolist()[:4] == [100, 100, 100, 0]
    assert ranked["title"].tolist()[2] == "The Postman (1994)"
    assert (str(ranked["item_id"].dtype), str(ranked["rank"].dtype), str(ranked["repeat"].dtype)) == (
        *("Int64", "Int64", "bool"),
    )


def test_ranks_without_items_or_histories(catalogue: Catalogue) -> None:
    refused = {"a": parse("I'm sorry, but I cannot recommend films.", k=3), "b": parse(None, k=3)}
    empty = rank_items(refused, catalogue)
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == rank_items({"a": parse("Heat", k=1)}, catalogue).dtypes.to_dict()
    assert rank_items({"a": parse("Heat", k=1)}, catalogue)["in_history"].tolist() == [False]
    with pytest.raises(DataError, match="history: no entry for reply 'b'"):
        rank_items(refused, catalogue, {"a": set()})


def test_a_repeated_song_is_told_by_its_artist_too() -> None:
    text = "Creep by Radiohead\nCreep by TLC\nRadiohead - Creep\nFoo by Bar\nFoo by Baz\nFoo by The Bar"
    ranked = rank_items({"a": parse(text, k=6)}, Catalogue(SONGS))
    assert ranked["item_id"].fillna(-1).tolist() == [1, 2, 1, -1, -1, -1]
    assert ranked["repeat"].tolist() == [False, False, True, False, False, True]
    assert ranked["title"].tolist()[0] == "Creep by Radiohead"
