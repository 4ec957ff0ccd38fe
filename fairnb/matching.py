"""Titles to catalogue ids, each with the reason of its match."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from fairnb import titles
from fairnb.errors import DataError


@dataclass(frozen=True)
class Match:
    """What a title was matched to.

    Attributes
    ----------
    item_id : int or None
        The catalogue's id; None where there is no match.
    reason : str
        ``title and year``; ``title`` (none of the two has a year that contradicts, and the title is
        unique); ``ambiguous`` (several items have the title); ``other year`` (the title is known,
        but from another year); ``unknown``.
    """

    item_id: int | None
    reason: str


class Catalogue:
    """Items by the keys of their names.

    Parameters
    ----------
    items : DataFrame
        ``item_id`` (unique whole numbers) and ``title``, as the data set writes it; a year in brackets
        at the end and alternate titles in brackets are understood. An item whose title is blank is
        never matched.

    Raises
    ------
    DataError
        If a column is missing, an id stands twice or is no whole number, or a title is missing.
    """

    def __init__(self, items: pd.DataFrame) -> None:
        for column in ("item_id", "title"):
            if column not in items.columns:
                raise DataError(f"items: no column {column}; expected item_id and title; was it renamed?")
        if items["item_id"].duplicated().any():
            twice = items.loc[items["item_id"].duplicated(), "item_id"].iloc[0]
            raise DataError(f"items: item_id {twice} stands more than once; expected one row per item")
        self._by_key: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
        for item_id, title in zip(items["item_id"].tolist(), items["title"].tolist(), strict=True):
            if type(item_id) is not int:
                raise DataError(f"items: item_id {item_id!r} is no whole number; expected ids such as 1")
            if not isinstance(title, str):
                raise DataError(
                    f"items: the title of item_id {item_id} is {title!r}; expected a text; "
                    f"read the file with keep_default_na=False, or leave the item out"
                )
            name, year = titles.split_year(title)
            for key in {titles.match_key(alias) for alias in titles.names(name)} - {""}:
                self._by_key[key].append((item_id, year))

    def match(self, readings: Sequence[str]) -> Match:
        """Match a title exactly, after normalising, to one item.

        Parameters
        ----------
        readings : sequence of str
            Ways to read one title; the longest reading that is in the catalogue decides.

        Returns
        -------
        Match
            With a year in the title, only an item of that year (or the only one without a year);
            without one, only if the title is unique.
        """
        for reading in sorted(readings, key=len, reverse=True):
            found = self._match_one(reading)
            if found.reason != "unknown":
                return found
        return Match(None, "unknown")

    def _match_one(self, title: str) -> Match:
        name, year = titles.split_year(title)
        best = Match(None, "unknown")
        for alias in titles.names(name):
            found = self._match_name(alias, year)
            if found.item_id is not None:
                return found
            if best.reason == "unknown":
                best = found
        return best

    def _match_name(self, name: str, year: int | None) -> Match:
        candidates = dict(self._by_key.get(titles.match_key(name), []))
        if not candidates:
            return Match(None, "unknown")
        if year is None:
            if len(candidates) == 1:
                return Match(next(iter(candidates)), "title")
            return Match(None, "ambiguous")
        same_year = [item for item, item_year in candidates.items() if item_year == year]
        if len(same_year) == 1:
            return Match(same_year[0], "title and year")
        undated = [item for item, item_year in candidates.items() if item_year is None]
        if len(undated) == 1 and not same_year:
            return Match(undated[0], "title")
        return Match(None, "ambiguous" if same_year or undated else "other year")
