"""Titles as keys: equal names give equal keys, whatever their spelling, order or script."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Articles that catalogues move to the end, by language; lower case, as they stand after folding.
ARTICLES = (
    *("the", "a", "an"),
    *("le", "la", "les", "l'", "un", "une"),
    *("el", "los", "las", "una"),
    *("il", "lo", "i", "gli", "uno"),
    *("der", "die", "das", "ein", "eine"),
    *("o", "os", "as", "um", "uma"),
    *("de", "het", "een", "den", "det", "en", "ett"),
)
_TRAILING_ARTICLE = re.compile(rf"^(?P<rest>.+),\s+(?P<article>{'|'.join(map(re.escape, ARTICLES))})$", re.IGNORECASE)
_YEAR = re.compile(r"\s*\((?P<year>(?:18|19|20)\d\d)\)\s*$")
_BRACKET = re.compile(r"\s*\((?P<inside>[^()]*)\)\s*$")
_ALSO_KNOWN = re.compile(r"^a\.?k\.?a\.?\s+", re.IGNORECASE)
_SAME_MARK = str.maketrans("’‘`´ʼ“”–—‐", "'''''\"\"---")


def split_year(title: str) -> tuple[str, int | None]:
    """Take the year off the end of a title.

    Parameters
    ----------
    title : str
        Such as ``"Matrix, The (1999)"``.

    Returns
    -------
    tuple of str and (int or None)
        The title without it, and the year; None if the title ends in no year from 1800 to 2099.
    """
    found = _YEAR.search(title)
    if not found or not title[: found.start()].strip():
        return title.strip(), None
    return title[: found.start()].strip(), int(found["year"])


def names(title: str) -> list[str]:
    """List the names that a catalogue title gives to one item, the display name first.

    Articles come to the front, and a bracketed alternate title becomes a name of its own.

    Parameters
    ----------
    title : str
        Without its year, such as ``"Postino, Il (The Postman)"``.

    Returns
    -------
    list of str
        ``["Il Postino", "The Postman"]``; at least one name, the title itself if nothing else.
    """
    alternates: list[str] = []
    rest = title.strip()
    while found := _BRACKET.search(rest):
        if not rest[: found.start()].strip():
            break
        inside = _ALSO_KNOWN.sub("", found["inside"]).strip()
        if inside:
            alternates.insert(0, article_first(inside))
        rest = rest[: found.start()].strip()
    return list(dict.fromkeys([article_first(rest), *alternates]))


def article_first(name: str) -> str:
    """Move a trailing article to the front: ``"Boot, Das"`` to ``"Das Boot"``."""
    found = _TRAILING_ARTICLE.match(name)
    if not found:
        return name
    gap = "" if found["article"].endswith("'") else " "
    return f"{found['article']}{gap}{found['rest']}"


@lru_cache(maxsize=65536)
def match_key(name: str) -> str:
    """Fold a name to a key: equal for spellings of one name, different for different names.

    Unicode is composed and case-folded, accents are dropped from Latin letters, typographic
    quotes and dashes become plain, ``&`` is read as ``and``, and punctuation is dropped except inside
    a word (``P!nk``) or where nothing else would be left.

    Parameters
    ----------
    name : str
        Any script, without a year, the article in front.

    Returns
    -------
    str
        Never empty unless the name is blank.
    """
    text = unicodedata.normalize("NFKC", name).translate(_SAME_MARK).casefold()
    text = _without_latin_accents(text)
    text = re.sub(r"(?<=[^\W\d_])\.|'", "", text.replace("&", " and "))
    words = re.findall(r"[^\W_]+(?:[!$%+#*]+[^\W_]+)*", text)
    return " ".join(words) if words else " ".join(text.split())


def _without_latin_accents(text: str) -> str:
    # In other scripts a combining mark makes another letter (й is not и), so it stays there.
    kept: list[str] = []
    latin = False
    for mark in unicodedata.normalize("NFD", text):
        if unicodedata.combining(mark):
            if latin:
                continue
        else:
            latin = "a" <= mark <= "ɏ"
        kept.append(mark)
    return unicodedata.normalize("NFC", "".join(kept))
