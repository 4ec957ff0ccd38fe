"""Lists in a reply that a machine could read: JSON, whole or cut off, and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairnb.parsing.lines import Item, items_of
from fairnb.titles import split_year

# JSON begins a line or follows a colon, so that `[REC]` or a bracket inside a title is none.
_OPENING = re.compile(r"(?:^|\n|[:：]\s)[ \t]*(?=\[\s*(?:[\"'“\[{\]]|$)|\{\s*(?:[\"'“}]|\w+\s*:|$))")
_MOST_OPENINGS = 20
_MOST_NESTED = 20
_CLOSING = {'"': '"', "'": "'", "“": "”"}
_BARE = re.compile(r"[^\s,:\[\]{}]+")
_BARE_VALUES: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None}

_TITLE_KEY = re.compile(
    r"(?P<best>(?:(?:song|track|movie|film|item)[ _-]?)?(?:title|name))|song|track|movie|film|item|recommendation",
    re.IGNORECASE,
)
_ARTIST_KEY = re.compile(r"(?:artist|band|performer|singer|musician)s?(?:[ _-]?names?)?|by", re.IGNORECASE)
_YEAR_KEY = re.compile(r"(?:release[ _-]?)?year|released|release[ _-]?date", re.IGNORECASE)
_NUMBER_KEY = re.compile(r"\D{0,20}\d{1,3}")
_ANSWER_KEY = re.compile(r"recommend|suggest|answer|result|next", re.IGNORECASE)
_HISTORY_KEY = re.compile(r"history|watched|listened|input|profile|previous|liked|context", re.IGNORECASE)

_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*|\s*\|\s*:?-+:?\s*\|\s*")
_TITLE_COLUMN = re.compile(r"title|name|movie|film|song|track|recommendation|suggestion", re.IGNORECASE)
_ARTIST_COLUMN = re.compile(r"artist|band|performer|singer|musician", re.IGNORECASE)
_YEAR_COLUMN = re.compile(r"year|released?\b", re.IGNORECASE)

Entry = tuple[str, str, str]


def read_json(text: str) -> tuple[tuple[Item, ...], bool] | None:
    """Read the first JSON value in a text that holds titles.

    Parameters
    ----------
    text : str
        JSON alone or with prose around it; single quotes, a comma too many and a missing end are taken.

    Returns
    -------
    tuple of (tuple of Item, bool) or None
        The items, and whether the value comes to its end; None if the text holds no JSON. Of a value that
        is cut off, only what is complete counts: no half string, and no object with a title that misses
        its end.
    """
    seen: tuple[tuple[Item, ...], bool] | None = None
    for opening in list(_OPENING.finditer(text))[:_MOST_OPENINGS]:
        try:
            values, whole = _values(text, opening.end())
        except ValueError:
            continue
        entries = list(_entries(values))
        if entries:
            return _items(entries), whole
        seen = seen or ((), whole)
    return seen


def read_table(text: str, *, cut: bool) -> tuple[tuple[Item, ...], bool] | None:
    """Read the first Markdown table in a text.

    Parameters
    ----------
    text : str
        With a row of dashes below the table's head.
    cut : bool
        Whether the text was cut off; a last row without its end is then left out.

    Returns
    -------
    tuple of (tuple of Item, bool) or None
        The items and whether the table is followed by something else than its cut; None if there is no table.
    """
    lines = text.split("\n")
    rule = next((place for place, line in enumerate(lines) if place and _RULE.fullmatch(line)), None)
    if rule is None or "|" not in lines[rule - 1]:
        return None
    head = _cells(lines[rule - 1])
    rows = []
    lost = False
    for place, line in enumerate(lines[rule + 1 :], start=rule + 1):
        if "|" not in line:
            break
        if cut and place == len(lines) - 1 and not line.rstrip().endswith("|"):
            lost = True
            break
        rows.append(_cells(line))
    column = _column(head, _TITLE_COLUMN)
    if column is None:
        # Without a name that is known, the first column that holds more than numbers.
        filled = [place for place in range(len(head)) if any(re.search(r"[^\W\d]", cell) for cell in _at(rows, place))]
        column = filled[0] if filled else 0
    artists = _at(rows, _column(head, _ARTIST_COLUMN))
    years = _at(rows, _column(head, _YEAR_COLUMN))
    found = [entry for entry in zip(_at(rows, column), artists, years, strict=True) if entry[0].strip()]
    return _items(found), not lost


def _column(head: list[str], name: re.Pattern[str]) -> int | None:
    return next((place for place, cell in enumerate(head) if name.search(cell)), None)


def _at(rows: list[list[str]], column: int | None) -> list[str]:
    return ["" if column is None or column >= len(row) else row[column] for row in rows]


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _items(entries: list[Entry]) -> tuple[Item, ...]:
    """Return one item for each title, artist and year."""
    texts = []
    for title, _, year in entries:
        found = re.search(r"(?:18|19|20)\d\d", year)
        texts.append(f"{title} ({found[0]})" if found and split_year(title)[1] is None else title)
    items = items_of(texts)
    return tuple(
        replace(item, pairs=((split_year(item.title)[0], artist), *item.pairs)) if artist else item
        for item, (_, artist, _) in zip(items, entries, strict=True)
    )


def _entries(tree: Any) -> Iterator[Entry]:
    """Yield title, artist and year of each entry of a list, wherever in the value it is."""
    if isinstance(tree, str):
        if tree.strip():
            yield tree, "", ""
    elif isinstance(tree, list):
        for value in tree:
            yield from _entries(value)
    elif isinstance(tree, dict):
        yield from _of_object(tree)


def _of_object(tree: dict[str, Any]) -> Iterator[Entry]:
    if key := _title_key(tree):
        artist, year = (
            next((_text(tree[name]) for name in tree if kind.fullmatch(name)), "") for kind in (_ARTIST_KEY, _YEAR_KEY)
        )
        yield tree[key], artist, year
        return
    if tree and all(_NUMBER_KEY.fullmatch(name) for name in tree):
        for value in tree.values():
            yield from _entries(value)
        return
    several = {name: value for name, value in tree.items() if isinstance(value, list | dict)}
    if len(several) > 1:
        several = {name: value for name, value in several.items() if not _HISTORY_KEY.search(name)} or several
    for name in sorted(several, key=lambda name: not _ANSWER_KEY.search(name)):
        if found := list(_entries(several[name])):
            yield from found
            return


def _title_key(tree: dict[str, Any]) -> str | None:
    found = [(name, match) for name in tree if (match := _TITLE_KEY.fullmatch(name.strip()))]
    found = [(name, match) for name, match in found if isinstance(tree[name], str) and tree[name].strip()]
    return min(found, key=lambda entry: not entry[1]["best"])[0] if found else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " & ".join(_text(part) for part in value)
    if isinstance(value, dict):
        return _text(value.get("name", ""))
    return "" if value is None else str(value).strip()


def _values(text: str, at: int) -> tuple[list[Any], bool]:
    """Read one value or, of objects one after the other, all of them."""
    values: list[Any] = []
    whole = True
    while whole and at < len(text) and text[at] in "[{":
        try:
            value, at = json.JSONDecoder(strict=False).raw_decode(text, at)
        except (ValueError, RecursionError):
            value, at, whole = _loose(text, at, 0)
        if whole or not _is_half(value):
            values.append(value)
        at = _skip(text, at)
    return values, whole


def _is_half(value: Any) -> bool:
    return not isinstance(value, list | dict) or (isinstance(value, dict) and _title_key(value) is not None)


def _skip(text: str, at: int, marks: str = ", \t\r\n") -> int:
    while at < len(text) and text[at] in marks:
        at += 1
    return at


def _loose(text: str, at: int, depth: int) -> tuple[Any, int, bool]:
    """Read a value that may be badly quoted or cut off; return it, its end, and whether it has one."""
    if depth > _MOST_NESTED:
        raise ValueError("nested too deeply for a list of titles")
    if at >= len(text):
        return None, at, False
    if text[at] == "[":
        return _loose_list(text, at, depth)
    if text[at] == "{":
        return _loose_object(text, at, depth)
    if text[at] in _CLOSING:
        return _loose_string(text, at)
    bare = _BARE.match(text, at)
    if not bare:
        raise ValueError(f"no value at {at}")
    return _BARE_VALUES.get(bare[0].lower(), bare[0]), bare.end(), bare.end() < len(text)


def _loose_list(text: str, at: int, depth: int) -> tuple[Any, int, bool]:
    values: list[Any] = []
    at = _skip(text, at + 1)
    while at < len(text) and text[at] != "]":
        value, at, whole = _loose(text, at, depth + 1)
        if whole or not _is_half(value):
            values.append(value)
        if not whole:
            return values, at, False
        at = _skip(text, at)
    return values, at + 1, at < len(text)


def _loose_object(text: str, at: int, depth: int) -> tuple[Any, int, bool]:
    values: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while at < len(text) and text[at] != "}":
        key, at, whole = _loose(text, at, depth + 1)
        at = _skip(text, at, " \t\r\n")
        if not whole or at >= len(text):
            return values, at, False
        if text[at] != ":":
            raise ValueError(f"no value for a key at {at}")
        value, at, whole = _loose(text, _skip(text, at + 1, " \t\r\n"), depth + 1)
        if whole or not _is_half(value):
            values[str(key)] = value
        if not whole:
            return values, at, False
        at = _skip(text, at)
    return values, at + 1, at < len(text)


def _loose_string(text: str, at: int) -> tuple[Any, int, bool]:
    closing = _CLOSING[text[at]]
    end = at + 1
    while end < len(text):
        # A quote inside a string is its end only where the syntax goes on behind it.
        follows = _skip(text, end + 1, " \t\r\n") if text[end] == closing else 0
        if follows and (follows == len(text) or text[follows] in ",]}:"):
            body = text[at + 1 : end]
            try:
                return json.loads(f'"{body}"', strict=False), end + 1, True
            except ValueError:
                return body.replace('\\"', '"').replace("\\'", "'"), end + 1, True
        end += 2 if text[end] == "\\" else 1
    return None, end, False
