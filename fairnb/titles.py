"""Titles as keys: equal names give equal keys, whatever their spelling, order or script."""

from __future__ import annotations

import html
import re
import string
import unicodedata
from functools import lru_cache

# Articles that catalogues move to the end, by language, as they stand after folding. A word that is
# also a common last word of a title ("an", "I") costs nothing: both sides are turned round alike.
ARTICLES = (
    *("the", "a", "an"),
    *("le", "la", "les", "l'", "un", "une"),
    *("el", "los", "las", "una", "unos", "unas"),
    *("il", "lo", "i", "gli", "uno", "un'"),
    *("der", "die", "das", "ein", "eine"),
    *("o", "os", "as", "um", "uma"),
    *("de", "het", "'t", "een", "den", "det", "en", "ett", "et", "ei"),
    *("els", "az", "egy", "ο", "η", "το", "οι", "τα"),
)
_TRAILING_ARTICLE = re.compile(
    rf"^(?P<rest>.+),\s+(?P<article>{'|'.join(map(re.escape, ARTICLES))})$", re.IGNORECASE | re.DOTALL
)
# After the year, catalogues tell films of one year apart (1995/I), and mark television and video.
_YEAR = re.compile(
    r"[(（\[](?P<year>(?:18|19|20)\d\d)(?:/[IVX]+)?(?:\s?[-–]\s?(?:(?:18|19|20)\d\d)?)?[)）\]]"
    r"(?:\s?\((?:TV|V|VG)\))?$"
)
_ALSO_KNOWN = re.compile(r"(?:^|[,;]\s*)(?:a\.?k\.?a\.?|also known as)\s+", re.IGNORECASE)
# "Creep (Acoustic)" is another recording than "Creep", and "Foo (2)" another part than "Foo".
_VERSION = re.compile(
    r"(?:feat|ft|featuring|with|part|pt|vol|volume|episode)\b.*"
    r"|(?:live|acoustic|demo|unplugged|instrumental)(?:\s(?:at|in|from|on)\b.*)?"
    r"|(?:.*\W)?(?:(?:re)?mix|version|edit|remaster(?:ed)?|cut|edition|reprise|session|demo|cover)(?:\s\d{4})?"
    # "To Live" is a title of its own: a recording is live by itself, or beside other words for recordings.
    r"|(?:.*\W)?(?:\d{4}|acoustic|bonus|demo|electric|recorded|session|single|solo|track|unplugged|version|[,;:–—-])\W*"
    r"live(?:\s\d{4})?|live\s\d{4}"
    r"|[\dIVX]+",
    re.IGNORECASE | re.DOTALL,
)

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("’‘`´ʼʻʽʾʿʹ′‛՚", "'"),
        **dict.fromkeys("“”„‟«»″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        # Signs of ownership, and the bar that only stretches an Arabic word.
        **dict.fromkeys("™®©℠ـ", None),
    }
)
# No accent, so that no decomposition takes them to the letter that keyboards without them write.
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h", "ŧ": "t", "ı": "i"}
)
_LIFTED = re.compile("(?<![⁰¹²³⁴-⁹])(?=[⁰¹²³⁴-⁹¼-¾⅐-⅞])")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8}\d?);", re.IGNORECASE)
_LETTER = r"[^\W\d_]"
_INITIALS = re.compile(
    rf"(?<![^\W_])(?<![^\W_][.*]){_LETTER}[.*](?:(?:\s?{_LETTER}[.*])+{_LETTER}?|{_LETTER})(?![^\W_]|\*)"
)
_ELISION = re.compile(r"\b([ldj]|un|qu|all|dell|nell)'\s+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ASCII_SHAPE = str.maketrans(dict.fromkeys(string.ascii_letters + string.digits, "w"))
_GUESTS = re.compile(r"\s*[(\[]?\b(?:feat|ft|featuring)\b\.?\s.*", re.IGNORECASE | re.DOTALL)
_BRACKETED_GUESTS = re.compile(r"\s*[(\[](?:feat|ft|featuring|with)\b\.?\s[^()\[\]]*[)\]]", re.IGNORECASE)
# On the shape of a text, where w is a letter, digit or mark: P!nk, C++, $5 and 100% keep their symbols.
_WORD = re.compile(r"[#$€£¥+]*w+(?:[!$%+#*@]+w+)*(?:[+#]+|[%$€£¥]+)?")


def split_year(title: str) -> tuple[str, int | None]:
    """Take the year off the end of a title.

    Parameters
    ----------
    title : str
        Such as ``"Matrix, The (1999)"``. A mark of television or video after the year is taken off
        too; of a span of years the first one counts.

    Returns
    -------
    tuple of str and (int or None)
        The title without it, and the year; None if the title ends in no year from 1800 to 2099.
    """
    title = title.strip()
    found = _YEAR.search(title)
    if not found or not title[: found.start()].strip():
        return title, None
    return title[: found.start()].strip(), int(found["year"])


def names(title: str) -> list[str]:
    """List the names that a catalogue title gives to one item, the display name first.

    Articles come to the front, and a bracketed alternate title becomes a name of its own. A bracket
    that tells versions apart (``(Live at Pompeii)``, ``(Radio Edit)``, ``(2)``) stays in its name.

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
    while rest.endswith(")"):
        start = rest.rfind("(")
        inside = rest[start + 1 : -1].strip()
        if not rest[: max(start, 0)].strip() or ")" in inside or _VERSION.fullmatch(inside):
            break
        several = [part.strip() for part in _ALSO_KNOWN.split(inside)]
        alternates = [article_first(part) for part in several if part] + alternates
        rest = rest[:start].strip()
    return list(dict.fromkeys([article_first(rest), *alternates]))


def article_first(name: str) -> str:
    """Move a trailing article to the front: ``"Boot, Das"`` to ``"Das Boot"``.

    Parameters
    ----------
    name : str
        One name, without year and brackets.

    Returns
    -------
    str
        The name as it is spoken; unchanged if it ends in no article of `ARTICLES` after a comma.
    """
    found = _TRAILING_ARTICLE.match(name.replace("’", "'"))
    if not found or not found["rest"].strip():
        return name
    gap = "" if found["article"].endswith("'") else " "
    return f"{found['article']}{gap}{name[: found.end('rest')]}"


@lru_cache(maxsize=65536)
def match_key(name: str) -> str:
    """Fold a name to a key: equal for spellings of one name, different for different names.

    Parameters
    ----------
    name : str
        Any script, without a year, the article in front.

    Returns
    -------
    str
        Words with one space between them. Never empty unless the name is blank; the key of a key is
        the key itself.

    Notes
    -----
    What is folded, because writers do it at will: upper and lower case; composed, full-width and
    ligature forms; accents of Latin and Greek letters (and ø, ł, æ ... to plain letters); Russian ё to
    е; the optional vowel points of Arabic and Hebrew; typographic quotes and dashes; ``&`` and a free
    ``+`` to ``and``; the dots or stars of initials (``E.T.``, ``M*A*S*H``); apostrophes; a comma
    between thousands; invisible characters. A raised digit or a fraction is a word of its own
    (``Alien³``, ``8½``). Other punctuation parts words, so that ``Spider-Man``, ``Face/Off`` and
    ``AC/DC`` keep theirs.

    What is kept, because it tells names apart: marks of other scripts (й is not и, ``の`` not ``ノ``),
    every number, and ``! $ % + # * @`` where they are part of a word (``P!nk``, ``C++``, ``+44``, ``100%``).
    Punctuation is the key only where nothing else is left (``!!!``).
    """
    text = _folded(name)
    text = _ELISION.sub(r"\1'", text).replace("'", "")
    text = _INITIALS.sub(lambda found: re.sub(r"[.*\s]", "", found[0]), text)
    text = re.sub(r"(?<!\S)\+(?!\S)", " and ", text.replace("&", " and "))
    text = _THOUSANDS.sub("", text)
    if text.isascii():
        shape = text.translate(_ASCII_SHAPE)
    else:
        shape = "".join("w" if unicodedata.category(mark)[0] in "LMN" else mark for mark in text)
    shape = shape if "w" in shape else ""
    key = " ".join(text[word.start() : word.end()] for word in _WORD.finditer(shape))
    return key or " ".join(_folded(name).split()) or " ".join(name.split())


@lru_cache(maxsize=65536)
def artist_key(name: str) -> str:
    """Fold an artist's name to a key, as `match_key` does, without guests and without ``The``.

    Parameters
    ----------
    name : str
        Such as ``"Beatles, The"`` or ``"The Beatles feat. Billy Preston"``.

    Returns
    -------
    str
        ``"beatles"``; never blank unless the name is.
    """
    alone = _GUESTS.sub("", name.strip())
    key = match_key(article_first(alone or name))
    return key.removeprefix("the ")


def without_guests(title: str) -> str:
    """Leave the guests out of a song's title: ``"Titanium (feat. Sia)"`` to ``"Titanium"``.

    Parameters
    ----------
    title : str
        A song's title.

    Returns
    -------
    str
        Without ``feat.``, ``ft.`` and what follows, and without a bracket ``(with ...)``; the title
        itself if nothing else would be left.
    """
    return _GUESTS.sub("", _BRACKETED_GUESTS.sub("", title)).strip() or title


def _folded(name: str) -> str:
    text = _ENTITY.sub(lambda found: html.unescape(found[0]), name)
    if text.isascii():
        return text.translate(_PLAIN).lower()
    # Before the compatibility forms, which would turn ´ into a blank with an accent, and ³ into 3.
    text = _LIFTED.sub(" ", text.translate(_PLAIN))
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = "".join(mark for mark in text.translate(_PLAIN) if not _invisible(mark))
    text = _without_accents(text).translate(_LETTERS)
    return text.replace("ё", "е").replace("⁄", "/")


def _invisible(mark: str) -> bool:
    # Format characters (soft hyphen, joiners, direction marks), variation selectors, keycaps.
    return unicodedata.category(mark) == "Cf" or "\ufe00" <= mark <= "\ufe0f" or mark == "\u20e3"


def _without_accents(text: str) -> str:
    # In other scripts a combining mark makes another letter (й is not и), so it stays there.
    kept: list[str] = []
    drop = True
    for mark in unicodedata.normalize("NFD", text):
        if unicodedata.category(mark)[0] == "M":
            if drop or _is_vowel_point(mark):
                continue
        else:
            drop = "a" <= mark <= "ɏ" or "Ͱ" <= mark <= "Ͽ" or not mark.isalnum()
        kept.append(mark)
    return unicodedata.normalize("NFC", "".join(kept))


def _is_vowel_point(mark: str) -> bool:
    # Arabic and Hebrew are written with them in schoolbooks and without them everywhere else.
    return "\u0591" <= mark <= "\u05c7" or "\u064b" <= mark <= "\u0652" or mark == "\u0670"
