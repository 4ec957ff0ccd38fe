"""The artist that a line names, and where its title ends."""

from __future__ import annotations

import re

from fairnb.parsing.phrases import (
    GENRE_WORD,
    NOT_A_TITLE,
    SPACED_DASH,
    YEAR_FIRST,
    cut_at_dashes,
    split_quoted,
    unquoted,
    without_markup,
)
from fairnb.titles import split_year

_MUSIC_WORD = re.compile(
    "acoustic|alternative|ambient|and|blues|classic|classical|country|dance|electro|electronic|electronica|folk|funk"
    "|hard|hip|hop|house|jazz|latin|metal|n|new|pop|post|progressive|punk|r|b|rap|reggae|rock|shoegaze|song|soul|synth"
    "|synthpop|techno|trance|trip|wave|world"
)
_HINT = re.compile(r"\sby[\s:]|\s[-–—]\s|[\"”)\]*]\s*(?:,|by\s)|\w\s?:\s", re.IGNORECASE)
_BY = re.compile(r"\s+by\s+(?=\S)", re.IGNORECASE)
_BY_AFTER = re.compile(
    r"\W*(?:\([^()]*\)\s*)?(?:(?:is|was|a|the|song|track|single|hit|performed|sung|recorded|released|written)\s+)*"
    r"by:?\s+(?P<artist>\S.*)",
    re.IGNORECASE,
)
_DASH_AFTER = re.compile(r"\s*(?:\([^()]*\)\s*)?(?:[-–—]|,)\s+(?P<artist>\S.*)")
_QUOTED_LAST = re.compile(
    r"(?P<artist>[^\"“”]+?)(?:\s+[-–—]|\s?:)\s+[\"“](?P<title>[^\"“”]+)[\"”]\.?(?:\s+[(\[]\d{4}[)\]])?$"
)
# An artist's name ends where a sentence ends (but not behind an initial or `feat.`), or where a remark begins.
_ARTIST_ENDS = (
    re.compile(r"(?<=[^\W\d_]{3})(?<!feat)(?<!Feat)\.\s+(?=[A-Z])|[.!?]\s+(?=(?:This|It|Enjoy|I|The song)\b)"),
    re.compile(r"\s+[-–—]\s+|[\"”]?\s+\((?!feat|ft)", re.IGNORECASE),
    re.compile(r"[,;:]?\s+(?:which|who|because|as it|is an?|has|would|from the|off the|on the album)\b"),
    re.compile(r",\s+(?:an?|it|this|the)\s+[a-z]"),
)
_LABELLED = re.compile(r"[\s,;|–—-](?:artist|band|performer)\s?:\s*", re.IGNORECASE)
_ARTIST_WORDS = 12
_ARTIST_LETTERS = 200
# Of a line with many dashes, only so many are tried.
_MOST_CUTS = 3


def pairs_of(readings: tuple[str, ...], rest: str) -> tuple[tuple[str, str], ...]:
    """Return the readings of a line as (title, artist), the likeliest first."""
    if not _HINT.search(rest):
        return ()
    quoted = split_quoted(rest)
    title, after = quoted or ("", "")
    if not quoted and readings and rest.startswith(readings[0]):
        title, after = readings[0], rest[len(readings[0]) :]
    artist = _artist_after(after)
    if title and artist:
        return ((split_year(without_markup(title))[0], artist),)
    if last := _QUOTED_LAST.match(rest):
        return ((split_year(last["title"])[0], last["artist"].strip()),)
    if label := _LABELLED.search(rest):
        title, artist = split_year(rest[: label.start()].rstrip(" ,;|–—-"))[0], _artist(rest[label.end() :])
        return ((title, artist),) if title and artist else ()
    full = split_year(cut_at_dashes(rest)[1])[0]
    found: list[tuple[str, str]] = []
    for by in list(_BY.finditer(full))[: -_MOST_CUTS - 1 : -1]:
        found.append((full[: by.start()], _artist(full[by.end() :])))
    dashes = list(SPACED_DASH.finditer(full))
    for dash in (*dashes[:1], *dashes[:0:-1])[:_MOST_CUTS]:
        left, right = full[: dash.start()], full[dash.end() :]
        if not (_is_music(right) or len(right.split()) > _ARTIST_WORDS):
            found.extend([(left, _artist(right)), (right, _artist(left))])
    cleaned = ((split_year(unquoted(title))[0], artist) for title, artist in found)
    return tuple(dict.fromkeys(pair for pair in cleaned if all(pair)))


def _artist_after(text: str) -> str:
    """Return the artist named behind a title that quotes, emphasis or a year bound, or nothing."""
    if by := _BY_AFTER.match(text):
        return _artist(by["artist"])
    if (named := _DASH_AFTER.match(text)) and not _is_music(named["artist"]) and not YEAR_FIRST.match(named["artist"]):
        return _artist(named["artist"])
    return ""


def _artist(text: str) -> str:
    """Cut a text that begins with an artist's name behind it; nothing if it is too long for a name."""
    name = without_markup(text[:_ARTIST_LETTERS])
    for end in _ARTIST_ENDS:
        if (found := end.search(name)) and found.start():
            name = name[: found.start()]
    name = split_year(unquoted(name.strip(" \t*,;:")))[0]
    if name.endswith(".") and not re.search(r"(?:^|[\s.])[^\W\d_]\.$|\b(?:Jr|Sr|Inc)\.$", name):
        name = name.rstrip(".") or name
    return name if len(name.split()) <= _ARTIST_WORDS else ""


def _is_music(text: str) -> bool:
    """Tell whether a text behind a dash describes a song or film, rather than naming an artist."""
    if "|" in text or NOT_A_TITLE.match(text) or len(text.split()) > _ARTIST_WORDS:
        return True
    words = re.findall(r"[^\W\d_]+(?:'s)?", text.lower())
    return bool(words) and all(GENRE_WORD.fullmatch(word) or _MUSIC_WORD.fullmatch(word) for word in words)
