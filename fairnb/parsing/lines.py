"""A list that has one item a line: titles, and the artists that the lines name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from fairnb.parsing.artists import pairs_of
from fairnb.parsing.phrases import (
    NOT_A_TITLE,
    YEAR_THEN_MORE,
    bounded_readings,
    cut_at_dashes,
    dash_readings,
    is_prose,
    is_refusal,
    without_markup,
)

Status = Literal["ok", "empty", "refused", "unparsed", "truncated", "looping"]
STATUSES: tuple[Status, ...] = get_args(Status)
# Not str.splitlines: it also breaks at characters that stand inside titles of badly decoded files.
LINE_END = re.compile("\r\n|[\r\n\u2028\u2029]")
BLANK = " \t\xa0\u3000\ufeff\u200b\u200e\u200f\u2060"
_PICTURE = "[\U0001f300-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u25a0-\u25ff\u2190-\u21ff\ufe0f\u200d]+"
_PICTURES = re.compile(rf"^{_PICTURE}\s+(?=\S)|(?<=\S)\s+{_PICTURE}$")
_NOTHING = re.compile(r"(?:[-*_=~#•]\s*)+|[(\[]?\d{1,3}[.)\]]{1,2}|(?:```|~~~)\w*")
_HEADER = re.compile(r"#{1,6}\s+")
# `-Heat` is a bullet, since no title begins with a dash; `*batteries not included` is a title.
_BULLET = re.compile(r"[-*+–—]\s+|[•·‣▪●◦○■►➤>]\s*|[-–](?=[^\W\d_]|[\"“*])|[A-Za-z]\)\s+")
_NUMBER = re.compile(
    r"(?P<open>[*_]{0,3})(?P<n>\d{1,3})(?:\\?[.)\]]{1,2}(?P<close>[*_]{0,3})\s+|[、．]\s*)"
    r"|(?P<keycap>(?:\d\ufe0f?\u20e3)+|\U0001f51f)\s*|(?P<circled>[\u2460-\u2473])\s*"
)
# These begin titles too (`24: Redemption`, `M. Butterfly`, `(500) Days of Summer`), so they are numbers
# only where they count the lines.
_WEAK_NUMBER = re.compile(
    r"(?:#|№|no\.\s?|[(\[])?(?P<n>\d{1,3})(?:\s*[-–—:.)\]]\s*|\s+)(?=\S)|(?P<letter>[a-z])\.\s+(?=\S)",
    re.IGNORECASE,
)
_AROUND = ("open", "close")
_LABEL = re.compile(
    r"(?:recommended |suggested )?(?:movie|film|song|track|title)(?: title| name)?(?:\s*#?(?P<n>\d{1,3}))?"
    r"\s*[:：]\s*|(?:recommendation|suggestion|option|pick)(?:\s*#?(?P<m>\d{1,3}))?\s*[:：]\s*",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(r"(?:why|reasons?|reasoning|rationale|explanations?|notes?)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Item:
    """One recommended item: the readings of its line, the likeliest title first.

    What follows a dash or a quote may be a description or a part of the title. Where a line leaves room
    for doubt, the whole of it is kept as a further reading, and matching decides.

    Attributes
    ----------
    readings : tuple of str
        Ways to read the title, never none; a year stays in its title.
    pairs : tuple of (str, str)
        Ways to read the line as title and artist, the likeliest first, without year; none if the line
        names no artist. ``A - B`` gives both orders, ``Stand by Me`` the wrong reading (Stand, Me).
    """

    readings: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The likeliest title."""
        return self.readings[0]


@dataclass(frozen=True)
class Parsed:
    """The list in a reply: its items in order, and whether there was one.

    Attributes
    ----------
    status : {"ok", "empty", "refused", "unparsed", "truncated", "looping"}
        ``ok`` with at least one item; ``empty`` for a blank reply; ``refused`` for a polite refusal or an
        answer that the provider held back; ``unparsed`` for text without a title; ``truncated`` if the
        reply ends before its list; ``looping`` if it repeats itself. `parse_lines` gives the first,
        second and fourth only.
    items : tuple of Item
        Complete items. There are some if the status is ``ok`` or ``looping``, there may be some if it is
        ``truncated``, else there are none: a reply that was not understood is not an empty list.
    note : str
        A few words on what was left out; may be blank.
    """

    status: Status
    items: tuple[Item, ...]
    note: str = ""


@dataclass(frozen=True)
class _Line:
    """A line that may be an item.

    Attributes
    ----------
    mark : str
        ``number``, ``bullet``, ``header`` or nothing.
    number : int or None
        The number in front, if there was one.
    readings : tuple of str
        Its readings, if a year, quotes or emphasis bound the title.
    rest : str
        The line without its mark and without emphasis.
    """

    mark: str
    number: int | None
    readings: tuple[str, ...]
    rest: str


@lru_cache(maxsize=32768)
def parse_lines(text: str) -> Parsed:
    """Read a list that has one item a line: numbered, bulleted, quoted, bold, or bare.

    Parameters
    ----------
    text : str
        The reply, such as ``- "Fargo (1996)" - Crime|Drama``.

    Returns
    -------
    Parsed
        The titles without number, bullet, emphasis, link, quotes and description; a year stays in its
        title.

    Notes
    -----
    No items are: headings (a line that ends in a colon), labelled descriptions (``Genre: ...``), rules;
    lines without a number where others are numbered; lines around a block of bullets. A bare line is no
    item if it is a refusal in English (``I'm sorry, but I cannot ...``), or a sentence of twelve words or
    more that speaks of the task (``Based on the user's taste ...``). Both must be mostly in lower case, so
    that titles such as *I'm Sorry* or *I Can't Help Myself* are safe. Nor is any bare line after a refusal
    or after the heading of an explanation, up to the next heading. A sentence that is not told from a
    title stays an item, which no catalogue knows.

    Only a dash with blanks around it parts title and description, and only before genres, a sentence,
    a year or a label, or where every line of the reply has one after another name (``Song - Artist``).
    """
    if not text.strip(BLANK + "\r\n"):
        return Parsed("empty", ())
    items = _items(_listed(list(_candidates(text))))
    return Parsed("ok", items) if items else Parsed("unparsed", ())


def items_of(texts: Sequence[str]) -> tuple[Item, ...]:
    """Read texts of which each is known to be one item, such as the strings of a JSON array.

    Parameters
    ----------
    texts : sequence of str
        Each with something else than blanks in it.

    Returns
    -------
    tuple of Item
        One for each text: numbers are taken off only if all have one, and nothing is taken for prose.
    """
    flat = [" ".join(text.split()) for text in texts]
    found = [_NUMBER.match(text) for text in flat]
    if len(flat) > 1 and all(found):
        flat = [text[match.end() :] or text for text, match in zip(flat, found, strict=True) if match]
    return _items([_Line("", None, bounded_readings(text), without_markup(text) or text) for text in flat])


def _items(lines: Sequence[_Line]) -> tuple[Item, ...]:
    # One line with a dash may be a subtitle; a dash in each of them is the layout of the list.
    bare = [line for line in lines if not line.readings]
    fronts = {cuts[-1] for line in bare if (cuts := cut_at_dashes(line.rest)[0])}
    layout = len(bare) > 1 and len(fronts) == len(bare)
    return tuple(
        Item(line.readings or dash_readings(line.rest, layout=layout), pairs_of(line.readings, line.rest))
        for line in lines
    )


def _candidates(text: str) -> Iterator[_Line]:
    spaced = (re.sub(r"[ \t]{2,}", " ", line) for line in LINE_END.split(text))
    lines = [line for raw in spaced if (line := raw.strip().strip(BLANK))]
    lines = [line for line in lines if not _NOTHING.fullmatch(line)]
    counting = _are_counted(lines)
    prose_follows = False
    for raw in lines:
        mark, number, rest = _unmarked(raw, counting=counting)
        plain = without_markup(rest)
        if not plain or NOT_A_TITLE.match(plain):
            prose_follows = prose_follows or (plain.endswith((":", "：")) and bool(_EXPLANATION.match(plain)))
            continue
        if label := _LABEL.match(plain):
            number = int(label["n"] or label["m"] or 0) or number
            mark = "number" if label["n"] or label["m"] else mark
            rest = plain = plain[label.end() :].strip()
        readings = bounded_readings(rest)
        if not plain or (plain.endswith((":", "：")) and not (readings and mark == "number")):
            dated = YEAR_THEN_MORE.fullmatch(plain[:-1].rstrip())
            if not dated:
                prose_follows = bool(_EXPLANATION.match(plain))
                continue
        if not mark and not readings:
            prose_follows = prose_follows or is_refusal(plain)
            if prose_follows or is_prose(plain):
                continue
        yield _Line(mark, number, readings, plain)


def _listed(lines: list[_Line]) -> list[_Line]:
    """Keep the lines that carry the marks of the list, if it has any."""
    numbered = [line for line in lines if line.mark == "number"]
    if len(numbered) > 1:
        return numbered
    if [line.mark for line in lines].count("header") == 1 and len(lines) > 1 and lines[0].mark == "header":
        lines = lines[1:]
    if [line.number for line in numbered] == [1]:
        return [line for line in lines if line.mark == "number" or (line.readings and not line.mark)]
    places = [place for place, line in enumerate(lines) if line.mark == "bullet"]
    if len(places) > 1 and places[-1] - places[0] == len(places) - 1:
        return lines[places[0] : places[-1] + 1]
    return lines


def _are_counted(lines: list[str]) -> bool:
    found = [_WEAK_NUMBER.match(line) for line in lines if not _NUMBER.match(line)]
    numbers = [_value(match) for match in found if match]
    return len(numbers) > 1 and numbers == list(range(1, len(numbers) + 1))


def _unmarked(line: str, *, counting: bool) -> tuple[str, int | None, str]:
    mark, number, rest = "", None, line
    while True:
        rest = _PICTURES.sub("", rest)
        if number is None and (found := _NUMBER.match(rest)):
            mark, number = "number", _value(found)
            # `**1. Heat**` opens before the number what it closes after the title.
            opened = "" if found["close"] or not found["open"] else found["open"]
            rest = opened + rest[found.end() :]
        elif number is None and counting and (found := _WEAK_NUMBER.match(rest)):
            mark, number, rest = "number", _value(found), rest[found.end() :]
        elif found := _HEADER.match(rest):
            mark, rest = mark or "header", rest[found.end() :]
        elif found := _BULLET.match(rest):
            mark, rest = mark or "bullet", rest[found.end() :]
        else:
            return mark, number, rest.strip().rstrip(",;").rstrip()
        rest = rest.strip()


def _value(found: re.Match[str]) -> int:
    kind, mark = next((kind, mark) for kind, mark in found.groupdict().items() if mark and kind not in _AROUND)
    if kind == "letter":
        return ord(mark.lower()) - ord("a") + 1
    if kind == "circled":
        return ord(mark) - ord("①") + 1
    return int("".join(re.findall(r"\d", mark)) or 10)
