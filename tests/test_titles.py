"""Titles as keys: spellings of one name meet, different names never do."""

from __future__ import annotations

import unicodedata
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairnb.titles import ARTICLES, article_first, match_key, names, split_year

SAME = [
    ("Beyonc\u00e9", "Beyonce\u0301"),
    ("Beyonc\u00e9", "BEYONCE"),
    ("D\u2019Amour", "D'Amour"),
    ("D\u00b4Amour", "D'Amour"),
    ("L' Assedio", "L'Assedio"),
    ("\u201cHeroes\u201d", '"Heroes"'),
    ("Spider-Man", "Spider\u2011Man"),
    ("Spider-Man", "Spider\u2013Man"),
    ("Spider\u00adMan", "SpiderMan"),
    ("Face/Off", "FACE/OFF"),
    ("Dumb & Dumber", "Dumb and Dumber"),
    ("Romeo + Juliet", "Romeo and Juliet"),
    ("Et Dieu&#8230;Cr\u00e9a la Femme", "Et Dieu\u2026 cr\u00e9a la femme"),
    ("Lock, Stock &amp; Barrel", "Lock, Stock and Barrel"),
    ("Die Hard: With a Vengeance", "Die Hard with a Vengeance"),
    ("When Harry Met Sally...", "When Harry Met Sally"),
    ("L.A. Confidential", "LA Confidential"),
    ("E.T. the Extra-Terrestrial", "ET the Extra Terrestrial"),
    ("J. R. R. Tolkien", "J.R.R. Tolkien"),
    ("U.S.A", "USA"),
    ("M*A*S*H", "MASH"),
    ("Vol.1", "Vol. 1"),
    ("Mr.Smith", "Mr. Smith"),
    ("$1,000,000 Duck", "$1000000 Duck"),
    ("Alien\u00b3", "Alien 3"),
    ("8\u00bd", "8 1/2"),
    ("\ufb01lm", "film"),
    ("\uff21\uff22", "ab"),
    ("Stra\u00dfe", "STRASSE"),
    ("Smilla's S\u00f8ster", "Smillas Soster"),
    ("\u0141\u00f3d\u017a", "Lodz"),
    ("\u00c6on Flux", "Aeon Flux"),
    ("\u0130stanbul", "istanbul"),
    ("Hawai\u02bbi", "Hawaii"),
    ("\u0391\u03b8\u03ae\u03bd\u03b1", "\u0391\u0398\u0397\u039d\u0391"),
    ("\u0401\u043b\u043a\u0438", "\u0415\u043b\u043a\u0438"),
    ("\uff76\uff9e", "\u30ac"),
    ("\u1112\u1161\u11ab", "\ud55c"),
    (
        "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u0629",
        "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    ),
    ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    ("Batman\u2122", "Batman"),
    ("\u2764\ufe0f", "\u2764"),
    ("  Heat\u00a0 ", "Heat"),
]
DIFFERENT = [
    ["Toy Story", "Toy Story 2", "Alien", "Aliens", "Heat", "Dead Heat", "M", "It", "Rocky", "Rocky Horror"],
    ["Spider-Man", "Spider", "X-Men", "X", "Jay-Z", "Jay", "AC/DC", "AC", "Face/Off", "Face"],
    [
        "P!nk",
        "Pink",
        "P nk",
        "Ke$ha",
        "Kesha",
        "Ke ha",
        "A$AP",
        "AAP",
        "C",
        "C++",
        "C#",
        "+44",
        "44",
        "100%",
        "100",
        "5",
        "$5",
    ],
    ["1984", "1985", "12 Monkeys", "2001: A Space Odyssey", "2010", "1.5", "15", "2.0", "20"],
    ["NA", "None", "nan", "NULL", "n/a", "n", "a"],
    ["will.i.am", "William", "I am Will"],
    ["!!!", "???", "...", "'", "-", "&", "$", "\u2764", "\U0001f600", "\U0001f601"],
    [
        "\u041a\u0438\u043d\u043e",
        "\u041a\u0438\u043d\u0430",
        "\u6728\u7384",
        "\u690e\u540d\u6797\u6a8e",
        "\u5b87\u591a\u7530\u30d2\u30ab\u30eb",
    ],
    ["\u0439", "\u0438", "\u0457", "\u0456", "\u045e", "\u0443"],
    ["\u304b", "\u304c", "\u30ab", "\u30ac", "\u306e", "\u30ce"],
    [
        "\u0915\u093f",
        "\u0915\u093e",
        "\u0915",
        "\u0915\u094d\u0937",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
        "\u0939\u0928\u0926",
    ],
    ["\u0e44\u0e01\u0e48", "\u0e44\u0e01", "\u0e01\u0e34\u0e19", "\u0e01\u0e34", "\u0e01\u0e4d"],
    ["\u0ba4\u0bae\u0bbf\u0bb4\u0bcd", "\u0ba4\u0bae\u0bb4"],
    ["\ud55c", "\ud558", "\u1112"],
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_name_have_one_key(one: str, other: str) -> None:
    assert match_key(one) == match_key(other) != ""


@pytest.mark.parametrize("several", DIFFERENT, ids=lambda several: several[0])
def test_different_names_have_different_keys(several: list[str]) -> None:
    keys = {name: match_key(name) for name in several}
    assert all(keys.values())
    assert [pair for pair in combinations(several, 2) if keys[pair[0]] == keys[pair[1]]] == []


def test_key_is_legible() -> None:
    assert match_key("Dr. Strangelove or: How I Learned\tto Stop") == "dr strangelove or how i learned to stop"
    assert match_key("Spider-Man") == "spider man"
    assert match_key("P!nk & the C++ Band") == "p!nk and the c++ band"
    assert match_key("") == match_key(" \t\u00a0") == ""


@given(st.text(max_size=30))
@example("'")
@example("&")
@example("_A*A")
@example("\u00b4")
@example("\u200b")
@example("a'\u0e48")
def test_key_of_a_key_is_itself_and_only_blank_names_have_none(name: str) -> None:
    key = match_key(name)
    assert match_key(key) == key
    assert bool(key) == bool(name.strip())


@given(st.text(max_size=30))
@example("a\u0301\u00bc")
@example("\u0130\u00b2")
def test_key_ignores_composition_case_and_outer_blanks(name: str) -> None:
    key = match_key(name)
    assert match_key(unicodedata.normalize("NFD", name)) == match_key(unicodedata.normalize("NFC", name)) == key
    assert match_key(name.casefold()) == key
    assert match_key(f"\t {name} ") == key


# Letters without a second form, in scripts that an ASCII filter would empty.
ALPHABETS = [
    "0123456789",
    "bcfghjkmpqrsvwxz",
    "бвгджзйиклмнопр",
    "かきくけこがぎぐげご",
    "一二三四五六七八",
    "אבגדהוז",
    "ابتجحد",
    "가나다라마",
    "कखगघङच",
    "กขคงจ",
]


@given(
    st.sampled_from(ALPHABETS).flatmap(lambda letters: st.sets(st.text(letters, min_size=1), min_size=2, max_size=4))
)
def test_names_that_differ_in_a_letter_differ_in_their_key(several: set[str]) -> None:
    assert len({match_key(name) for name in several}) == len(several)


@pytest.mark.parametrize(
    ("title", "name", "year"),
    [
        ("Matrix, The (1999)", "Matrix, The", 1999),
        ("Heidi Fleiss: Hollywood Madam (1995) ", "Heidi Fleiss: Hollywood Madam", 1995),
        ("Land Before Time III (1995) (V)", "Land Before Time III", 1995),
        ("Marlene Dietrich (1996) (TV)", "Marlene Dietrich", 1996),
        ("Heat (1995/II)", "Heat", 1995),
        ("Fawlty Towers (1975–1979)", "Fawlty Towers", 1975),
        ("Series (2019- )", "Series", 2019),
        ("Heat [1995]", "Heat", 1995),
        ("肖申克的救赎（1994）", "肖申克的救赎", 1994),
        ("Seven (Se7en) (1995)", "Seven (Se7en)", 1995),
        ("1984 (1956)", "1984", 1956),
        ("1984", "1984", None),
        ("2001: A Space Odyssey", "2001: A Space Odyssey", None),
        ("Blade Runner 2049", "Blade Runner 2049", None),
        ("(500) Days of Summer", "(500) Days of Summer", None),
        ("Area (51)", "Area (51)", None),
        ("Foo (2150)", "Foo (2150)", None),
        ("(1995)", "(1995)", None),
        ("unknown", "unknown", None),
        ("", "", None),
    ],
)
def test_split_year(title: str, name: str, year: int | None) -> None:
    assert split_year(title) == (name, year)


@given(st.text(max_size=20), st.integers(1800, 2099))
def test_a_year_in_brackets_is_found_behind_any_name(name: str, year: int) -> None:
    expected = (name.strip(), year) if name.strip() else (f"({year})", None)
    assert split_year(f"{name} ({year})") == expected


@pytest.mark.parametrize("article", ARTICLES)
def test_each_article_comes_to_the_front(article: str) -> None:
    for written in (article, article.capitalize(), article.upper()):
        spoken = f"{written}Word" if written.endswith("'") else f"{written} Word"
        assert names(f"Word, {written}") == [spoken] == names(spoken)
        assert match_key(names(f"Word, {written}")[0]) == match_key(spoken)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Matrix, The", ["The Matrix"]),
        ("Affair to Remember, An", ["An Affair to Remember"]),
        ("Boot, Das", ["Das Boot"]),
        ("Postino, Il (The Postman)", ["Il Postino", "The Postman"]),
        ("Invitation, The (Zaproszenie)", ["The Invitation", "Zaproszenie"]),
        ("Star Maker, The (Uomo delle stelle, L')", ["The Star Maker", "L'Uomo delle stelle"]),
        ("Eye of Vichy, The (Oeil de Vichy, L’)", ["The Eye of Vichy", "L'Oeil de Vichy"]),
        ("Adventures of Priscilla, Queen of the Desert, The", ["The Adventures of Priscilla, Queen of the Desert"]),
        ("Seven (Se7en)", ["Seven", "Se7en"]),
        ("Seven Samurai (The Magnificent Seven) (Shichinin)", ["Seven Samurai", "The Magnificent Seven", "Shichinin"]),
        ("Hard 8 (a.k.a. Sydney, a.k.a. Hard Eight)", ["Hard 8", "Sydney", "Hard Eight"]),
        ("Mad Max 2 (aka The Road Warrior)", ["Mad Max 2", "The Road Warrior"]),
        ("Besieged (also known as Assedio, L')", ["Besieged", "L'Assedio"]),
        ("Creep (Acoustic)", ["Creep (Acoustic)"]),
        ("Creep (Live at Home)", ["Creep (Live at Home)"]),
        ("Creep (Bronx Remix)", ["Creep (Bronx Remix)"]),
        ("Creep (Live)", ["Creep (Live)"]),
        ("Creep (Acoustic, Live)", ["Creep (Acoustic, Live)"]),
        ("Creep (2003 Live)", ["Creep (2003 Live)"]),
        ("Creep (Live 1994)", ["Creep (Live 1994)"]),
        ("Ikiru (To Live)", ["Ikiru", "To Live"]),
        ("Daremo (Nobody Lives, We Live)", ["Daremo", "Nobody Lives, We Live"]),
        ("Lollipop (Feat. Somebody)", ["Lollipop (Feat. Somebody)"]),
        ("Spiders (2)", ["Spiders (2)"]),
        ("Citizen's Band (Handle with Care)", ["Citizen's Band", "Handle with Care"]),
        ("(500) Days", ["(500) Days"]),
        ("(What's the Story)", ["(What's the Story)"]),
        ("Foo ()", ["Foo"]),
        ("Foo (Bar (Baz))", ["Foo (Bar (Baz))"]),
        ("Foo)", ["Foo)"]),
        ("Heat (Heat)", ["Heat"]),
        ("Paris, Texas", ["Paris, Texas"]),
        ("The Matrix", ["The Matrix"]),
        (", The", [", The"]),
        ("", [""]),
    ],
)
def test_names(title: str, expected: list[str]) -> None:
    assert names(title) == expected


@given(st.text(max_size=30) | st.text("aA, the()'’[]", max_size=20))
def test_names_are_never_none_and_never_blank(title: str) -> None:
    several = names(title)
    assert several
    assert all(name.strip() for name in several) == bool(title.strip())
    assert len(set(several)) == len(several)


def test_article_is_only_moved_from_behind_a_comma() -> None:
    assert article_first("Boot, Das") == "Das Boot"
    assert article_first("Do the Right Thing") == "Do the Right Thing"
    assert article_first("Matrix The") == "Matrix The"


@pytest.mark.shared
def test_names_of_the_whole_catalogue_are_apart(shared_folder: Path) -> None:
    lines = (shared_folder / "data" / "ml-1m" / "movies.dat").read_text("latin-1").splitlines()
    assert len(lines) == 3883
    seen: dict[tuple[str, int], str] = {}
    for line in lines:
        title = line.split("::")[1]
        name, year = split_year(title)
        assert year is not None, title
        key = match_key(names(name)[0])
        assert key
        assert (key, year) not in seen, (title, seen.get((key, year)))
        seen[key, year] = title
