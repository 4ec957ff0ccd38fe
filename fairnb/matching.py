"""Titles to catalogue ids, each with the reason of its match."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from fairnb import titles
from fairnb.errors import DataError, ParameterError
from fairnb.parsing import Item, Parsed

REASONS = (
    *("title and year", "title and artist", "title", "alternate title", "fuzzy"),
    *("ambiguous", "other year", "other artist", "unknown"),
)
# Below this length of a key, one letter more or less makes another title (Alien, Aliens; M, It, Heat).
_SHORTEST = 6
# A plural is a title of its own (Alien, Aliens) unless so many words agree otherwise.
_WORDS_FOR_PLURAL = 4
_ONES = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_ROMAN = {"x" * tens + ones: str(10 * tens + one) for tens in range(4) for one, ones in enumerate(_ONES) if tens or one}
_NUMBER = re.compile(r"\d")
_SMALL_WORDS = frozenset({"the", "a", "an", "and"})


@dataclass(frozen=True)
class Match:
    """What a title was matched to.

    Attributes
    ----------
    item_id : int or None
        The catalogue's id; None where there is no match.
    reason : str
        With an id: ``title and year``; ``title and artist``; ``title`` (the title is unique, and no year
        or artist contradicts); ``alternate title`` (the same of a further name that either side gives,
        without a year to confirm it); ``fuzzy`` (spelt otherwise). Without: ``ambiguous`` (several items
        have the title); ``other year``, ``other artist`` (the title is known, but not from that year or
        by that artist); ``unknown``.
    score : float
        100 where the title is the catalogue's, whether or not it decides; for a fuzzy match the likeness
        of the keys from 0 to 100, of title or artist, whichever is less; 0 for ``unknown``.
    """

    item_id: int | None
    reason: str
    score: float = 100.0


_UNKNOWN = Match(None, "unknown", 0.0)


class _Entry(NamedTuple):
    """An item under one of its names."""

    item_id: int
    year: int | None
    artist: str
    main: bool


class Catalogue:
    """Items by the keys of their names.

    Parameters
    ----------
    items : DataFrame
        ``item_id`` (unique whole numbers) and ``title``, as the data set writes it; a year in brackets
        at the end and alternate titles in brackets are understood. An item whose title is blank is
        never matched. With a column ``artist`` the items are songs, told by title and artist.
    fuzzy : float
        The least likeness, in percent, at which a title that is spelt otherwise is matched; 0 for never.
        It is twice the letters in common by the letters of both keys (`rapidfuzz.fuzz.ratio`).

    Raises
    ------
    DataError
        If a column is missing, an id stands twice or is no whole number, or a title or artist is missing.
    ParameterError
        If ``fuzzy`` is not from 0 to 100.
    """

    def __init__(self, items: pd.DataFrame, fuzzy: float = 0) -> None:
        for column in ("item_id", "title"):
            if column not in items.columns:
                raise DataError(f"items: no column {column}; expected item_id and title; was it renamed?")
        if not 0 <= fuzzy <= 100:
            raise ParameterError(f"fuzzy = {fuzzy}: expected a likeness from 0 (off) to 100, such as 92")
        if items["item_id"].duplicated().any():
            twice = items.loc[items["item_id"].duplicated(), "item_id"].iloc[0]
            raise DataError(f"items: item_id {twice} stands more than once; expected one row per item")
        self.songs = "artist" in items.columns
        self.fuzzy = fuzzy
        self._by_key: dict[str, list[_Entry]] = defaultdict(list)
        artists = items["artist"].tolist() if self.songs else [""] * len(items)
        for item_id, title, artist in zip(items["item_id"].tolist(), items["title"].tolist(), artists, strict=True):
            if type(item_id) is not int:
                raise DataError(f"items: item_id {item_id!r} is no whole number; expected ids such as 1")
            for column, value in (("title", title), ("artist", artist)):
                if not isinstance(value, str):
                    raise DataError(
                        f"items: the {column} of item_id {item_id} is {value!r}; expected a text; "
                        f"read the file with keep_default_na=False, or leave the item out"
                    )
            year, keys = self._keys(title)
            for place, key in enumerate(keys):
                self._by_key[key].append(_Entry(item_id, year, titles.artist_key(artist), place == 0))
        self._by_length: dict[int, list[str]] = defaultdict(list)
        for key in self._by_key:
            if len(key) >= _SHORTEST:
                self._by_length[len(key)].append(key)
        self._found: dict[Item, Match] = {}
        self._alike: dict[str, list[tuple[str, float]]] = {}

    def match(self, readings: Sequence[str]) -> Match:
        """Match a title exactly, after normalising, to one item; an artist is not asked for.

        Parameters
        ----------
        readings : sequence of str
            Ways to read one title; the longest reading that is in the catalogue decides.

        Returns
        -------
        Match
            With a year in the title, only an item of that year (or the only one without a year);
            without one, only if the title is unique. An item with that main title goes before others
            that have it as an alternate.
        """
        for reading in sorted(readings, key=len, reverse=True):
            found = self._match_one(reading)
            if found.reason != "unknown":
                return found
        return _UNKNOWN

    def match_item(self, item: Item) -> Match:
        """Match an item of a reply: exactly if possible, else fuzzily if that is switched on.

        Parameters
        ----------
        item : Item
            From `fairnb.parsing`.

        Returns
        -------
        Match
            Films are matched by `match`. A song is matched if title and artist are the catalogue's
            (``The``, guests after ``feat.`` and ``&`` for ``and`` aside), or, where the item names no
            artist, by a title that no other song has.

        Notes
        -----
        The fuzzy step is for what is ``unknown`` otherwise, and for a known title by an unknown artist. It
        needs: a likeness of at least ``fuzzy``, and of no other item as well; keys of 6 characters or
        more; the same numbers on both sides (``2`` is ``II``); no other year; the same words but for
        misspellings (each with its first letter; no plural for a singular in a title of fewer than four
        words; ``the``, ``a`` and ``and`` may be missing). Of a song the artist must agree in the same way.
        """
        if item not in self._found:
            found = self._match_song(item) if self.songs else self.match(item.readings)
            if self.fuzzy and found.reason in ("unknown", "other artist"):
                found = self._match_fuzzily(item, found)
            self._found[item] = found
        return self._found[item]

    def key_of(self, item: Item) -> tuple[object, ...]:
        """Return what makes two unmatched items the same: the keys of title and artist, and the year."""
        if self.songs and item.pairs:
            title, artist = item.pairs[0]
            return (titles.match_key(titles.without_guests(title)), titles.artist_key(artist))
        name, year = titles.split_year(item.title)
        return (titles.match_key(titles.names(name)[0]), year)

    def _keys(self, title: str) -> tuple[int | None, list[str]]:
        """Return the year of a title and the keys of its names, the main one first."""
        name, year = titles.split_year(titles.without_guests(title) if self.songs else title)
        keys = dict.fromkeys(titles.match_key(alias) for alias in titles.names(name))
        return year, [key for key in keys if key]

    def _match_one(self, title: str) -> Match:
        year, keys = self._keys(title)
        best = _UNKNOWN
        for place, key in enumerate(keys):
            found = _decide(self._by_key.get(key, []), year, main=place == 0)
            if found.item_id is not None:
                return found
            if best.reason == "unknown":
                best = found
        return best

    def _match_song(self, item: Item) -> Match:
        refused = _UNKNOWN
        for title, artist in item.pairs:
            year, keys = self._keys(title)
            for key in keys:
                known = self._by_key.get(key, [])
                same = [entry for entry in known if entry.artist == titles.artist_key(artist)]
                found = _decide(same, year, main=True)
                if found.item_id is None and found.reason == "other year":
                    # A song is issued again and again; its year tells none apart that the artist does not.
                    found = _decide(same, None, main=True)
                if found.item_id is not None:
                    return Match(found.item_id, "title and artist")
                if known and refused.reason == "unknown":
                    refused = Match(None, "ambiguous" if same else "other artist")
        named = {self._keys(title)[1][0] for title, _ in item.pairs if self._keys(title)[1]}
        alone = [reading for reading in item.readings if not named.intersection(self._keys(reading)[1])]
        found = self.match(alone)
        return found if found.reason != "unknown" else refused

    def _match_fuzzily(self, item: Item, exact: Match) -> Match:
        """Return the one item that is written like this one, or the exact result."""
        sought = item.pairs if self.songs else [(reading, "") for reading in item.readings]
        for title, artist in sought:
            year, keys = self._keys(title)
            if not keys:
                continue
            found = self._nearest(keys[0], year, titles.artist_key(artist))
            item_id = max(found, key=lambda near: found[near], default=None)
            if item_id is not None and found[item_id] >= 0:
                # Another item that is as near as that, if only by other words, leaves a doubt.
                alone = len(found) == 1
                return Match(item_id if alone else None, "fuzzy" if alone else "ambiguous", found[item_id])
        return exact

    def _nearest(self, key: str, year: int | None, artist: str) -> dict[int, float]:
        """Return all items at or above the threshold, with their likeness; -1 for one that is another title."""
        if key not in self._alike:
            self._alike[key] = self._search(key)
        near: dict[int, float] = {}
        for other, likeness in self._alike[key]:
            for entry in self._by_key[other]:
                if year is not None and entry.year is not None and year != entry.year and not self.songs:
                    continue
                score, same = likeness, other == key or _is_misspelling(key, other)
                if self.songs and artist != entry.artist:
                    score = min(score, fuzz.ratio(artist, entry.artist))
                    if score < self.fuzzy or _numbers(artist) != _numbers(entry.artist):
                        continue
                    same = same and min(len(artist), len(entry.artist)) >= _SHORTEST
                    same = same and _is_misspelling(artist, entry.artist)
                near[entry.item_id] = max(near.get(entry.item_id, -1), score if same else -1)
        return near

    def _search(self, key: str) -> list[tuple[str, float]]:
        found = [(key, 100.0)] if key in self._by_key else []
        if len(key) < _SHORTEST:
            return found
        # Keys whose lengths differ by more cannot be so much alike.
        least = len(key) * self.fuzzy / (200 - self.fuzzy)
        most = len(key) * (200 - self.fuzzy) / self.fuzzy
        lengths = range(math.floor(least), math.ceil(most) + 1)
        several = [other for length in lengths for other in self._by_length.get(length, ())]
        near = process.extract(key, several, scorer=fuzz.ratio, score_cutoff=self.fuzzy, limit=None)
        marks = _numbers(key)
        return found + [(other, score) for other, score, _ in near if other != key and _numbers(other) == marks]


def _decide(entries: Iterable[_Entry], year: int | None, *, main: bool) -> Match:
    """Choose among the items that have a name; ``main`` says whether it is the main one of the title sought."""
    candidates = {entry.item_id: entry for entry in sorted(entries, key=lambda entry: entry.main)}
    if not candidates:
        return _UNKNOWN
    if year is None:
        best = _foremost(list(candidates.values()))
        if len(best) > 1:
            return Match(None, "ambiguous")
        return Match(best[0].item_id, "title" if main and best[0].main else "alternate title")
    same_year = _foremost([entry for entry in candidates.values() if entry.year == year])
    if len(same_year) == 1:
        return Match(same_year[0].item_id, "title and year")
    undated = _foremost([entry for entry in candidates.values() if entry.year is None])
    if len(undated) == 1 and not same_year:
        return Match(undated[0].item_id, "title" if main and undated[0].main else "alternate title")
    return Match(None, "ambiguous" if same_year or undated else "other year")


def _foremost(entries: list[_Entry]) -> list[_Entry]:
    return [entry for entry in entries if entry.main] or entries


def _numbers(key: str) -> Counter[str]:
    """Return the numbers among the words of a key, Roman ones as digits."""
    return Counter(_ROMAN.get(word, word) for word in key.split() if _NUMBER.search(word) or word in _ROMAN)


def _is_misspelling(key: str, other: str) -> bool:
    """Tell whether two keys that are alike have the same words, some of them misspelt."""
    ours, theirs = (
        [_ROMAN.get(word, word) for word in text.split() if word not in _SMALL_WORDS] for text in (key, other)
    )
    if "".join(ours) == "".join(theirs):
        return True
    if len(ours) != len(theirs):
        return False
    pairs = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
    if len(ours) < _WORDS_FOR_PLURAL and any(one.removesuffix("s") == two.removesuffix("s") for one, two in pairs):
        return False
    return all(
        one[0] == two[0] and OSA.distance(one, two) <= _most_slips(min(len(one), len(two))) for one, two in pairs
    )


def _most_slips(letters: int) -> int:
    # One slip in a word of three letters makes another word (Man, Men); two may happen in a long one.
    return 0 if letters < 4 else 1 if letters < 8 else 2


def rank_items(
    parsed: Mapping[str, Parsed], catalogue: Catalogue, history: Mapping[str, set[int]] | None = None
) -> pd.DataFrame:
    """Match the items of many replies, and mark what a reply repeats and what its user knows already.

    Parameters
    ----------
    parsed : mapping of str to Parsed
        Reply to what was read from it. A reply without items has no rows.
    catalogue : Catalogue
    history : mapping of str to set of int, optional
        Reply to the ids of what its user has interacted with.

    Returns
    -------
    DataFrame
        One row per item of a reply, in the order of ``parsed``: ``reply``; ``place`` in the reply, from
        1; ``title``, the likeliest, for songs with the artist (``Creep by Radiohead``); ``item_id``
        (Int64, missing without a match); ``match`` and ``score`` (see `Match`); ``repeat``, whether an
        item further up in the reply has the same id, or the same keys of title, artist and year;
        ``in_history`` (False where no history is given); ``rank`` (Int64), the place among the rows that
        are no repeats, missing for repeats. Repeats are told after matching, so that two names of one
        film count once; a title that no catalogue knows keeps its rank.

    Raises
    ------
    DataError
        If there are histories, but none for one of the replies.
    """
    rows = []
    for reply, found in parsed.items():
        if history is not None and reply not in history:
            raise DataError(f"history: no entry for reply {reply!r}; expected one for each reply, if only an empty set")
        known = history[reply] if history is not None else set()
        seen: set[object] = set()
        rank = 0
        for place, item in enumerate(found.items, start=1):
            match = catalogue.match_item(item)
            marks: set[object] = {("key", catalogue.key_of(item))}
            if match.item_id is not None:
                marks.add(("id", match.item_id))
            repeat = not seen.isdisjoint(marks)
            seen |= marks
            rank += not repeat
            told = (_shown(item, catalogue), match.item_id, match.reason, match.score)
            rows.append((reply, place, *told, repeat, match.item_id in known, None if repeat else rank))
    columns = ["reply", "place", "title", "item_id", "match", "score", "repeat", "in_history", "rank"]
    kinds = {
        **{"reply": "str", "place": "int64", "title": "str", "item_id": "Int64", "match": "str", "score": "float64"},
        **{"repeat": "bool", "in_history": "bool", "rank": "Int64"},
    }
    # As objects first: beside a missing one, an id would pass through a float, which holds 53 bits of it.
    return pd.DataFrame(rows, columns=columns, dtype=object).astype(kinds)


def _shown(item: Item, catalogue: Catalogue) -> str:
    return f"{item.pairs[0][0]} by {item.pairs[0][1]}" if catalogue.songs and item.pairs else item.title
