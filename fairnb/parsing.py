"""Reply text to an ordered list of titles, or a named reason why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "empty", "unparsed"]

_ENUMERATOR = re.compile(r"^\s*(?:[-*•–]\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+)")
_LABEL = re.compile(r"^(?:movie title|movie|film|title|song|recommended movie|recommendation)\s*:\s*", re.IGNORECASE)
_NOT_A_TITLE = re.compile(r"^(?:genres?|genre\(s\)|year|reason|explanation)\s*:", re.IGNORECASE)
_QUOTED = re.compile(r"^[\"“](?P<title>.+?)[\"”](?=\s|[,.;:]|$)")
_SPACED_DASH = re.compile(r"\"?\s+[-–—]\s+")
_YEAR_THEN_MORE = re.compile(r"^(?P<title>.+?\((?:18|19|20)\d\d\))\"?(?:\s|$)")


@dataclass(frozen=True)
class Item:
    """One recommended item: the readings of its line, the likeliest title first.

    A dash may stand inside a title or before a description; without a catalogue both readings
    are possible, so both are kept and matching decides.
    """

    readings: tuple[str, ...]

    @property
    def title(self) -> str:
        """The likeliest title."""
        return self.readings[0]


@dataclass(frozen=True)
class Parsed:
    """The list in a reply: its items in order, and whether there was one.

    Attributes
    ----------
    status : {"ok", "empty", "unparsed"}
        ``ok`` with at least one item; ``empty`` for a blank reply; ``unparsed`` for text without a title.
    items : tuple of Item
        Empty unless the status is ``ok``: a reply that was not understood is not an empty list.
    """

    status: Status
    items: tuple[Item, ...]


def parse_lines(text: str) -> Parsed:
    """Read a list that has one item a line: numbered, bulleted, quoted, bold, or bare.

    Parameters
    ----------
    text : str
        The reply, such as ``- "Fargo (1996)" - Crime|Drama``.

    Returns
    -------
    Parsed
        Headings (a line that ends in a colon) and labelled descriptions (``Genre: ...``) are no items.
    """
    if not text.strip():
        return Parsed("empty", ())
    items = tuple(item for line in text.splitlines() if (item := _item(line)) is not None)
    return Parsed("ok", items) if items else Parsed("unparsed", ())


def _item(line: str) -> Item | None:
    rest = line.strip()
    while found := _ENUMERATOR.match(rest):
        rest = rest[found.end() :].strip()
    rest = re.sub(r"\*\*|__", "", rest).strip()
    rest = re.sub(r"^\*(?=\S)(.*?)(?<=\S)\*(?=\s|$)", r"\1", rest)
    if not rest or rest.endswith(":") or _NOT_A_TITLE.match(rest):
        return None
    rest = _LABEL.sub("", rest)
    if not rest:
        return None
    if quoted := _QUOTED.match(rest):
        return Item((quoted["title"].strip(),))
    readings = []
    if dated := _YEAR_THEN_MORE.match(rest):
        readings.append(dated["title"].strip())
    else:
        ends = [found.start() for found in _SPACED_DASH.finditer(rest)]
        readings.extend(rest[:end].strip().strip('"') for end in reversed(ends))
        readings.append(rest.strip('"'))
    return Item(tuple(dict.fromkeys(reading for reading in readings if reading)))
