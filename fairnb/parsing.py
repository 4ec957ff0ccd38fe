"""Reply text to an ordered list of titles, or a named reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Status = Literal["ok", "empty", "unparsed"]

# Not str.splitlines: it also breaks at characters that stand inside titles of badly decoded files.
_LINE_END = re.compile("\r\n|[\r\n\u2028\u2029]")
_BLANK = " \t\xa0\u3000\ufeff\u200b\u200e\u200f\u2060"
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
_NOT_A_TITLE = re.compile(
    r"(?:genres?|genre\(s\)|year|released|release (?:date|year)|directors?|directed by|cast|stars|starring|artists?"
    r"|album|plot|synopsis|summary|description|overview|rating|runtime|note|why|reasons?|reasoning|rationale"
    r"|explanations?)\s*[:：]",
    re.IGNORECASE,
)

_LINK = re.compile(r"!?\[([^\[\]]+)\]\((?:https?://|www\.|/|#)(?:[^()\s]|\([^()\s]*\))*\)")
_MARKUP = re.compile(r"[*_~`\[]")
_EMPHASIS = re.compile(r"(?<![^\W_])(?P<mark>\*{1,3}|_{1,3}|~~|`)(?=\S)(?P<inside>.+?)(?<=\S)(?P=mark)(?![^\W_]|\*)")
_CLOSING = {
    **{'"': '"”', "“": '”"', "„": '“”"', "«": "»", "»": "«", "‘": "’", "'": "'"},
    **{"「": "」", "『": "』", "《": "》", "〈": "〉"},
}
_AFTER_QUOTES = re.compile(
    r"\s+(?:by|from|feat|ft|featuring|with|performed|sung|written|recorded|directed|starring|is|was|and|or|in|as|for"
    r"|because|which|that)\b",
    re.IGNORECASE,
)
_YEAR = r"[(（\[](?:18|19|20)\d\d[)）\]]"
_YEAR_NEXT = re.compile(rf"\s*({_YEAR})")
_YEAR_THEN_MORE = re.compile(rf"(?P<title>.+?{_YEAR})[\"”'’]?(?=$|[\s,.;:：–—-])")
_YEAR_FIRST = re.compile(r"[(\[]?((?:18|19|20)\d\d)[)\]]?(?=$|[\s,;|])")
_SPACED_DASH = re.compile(r"[\"”]?\s+[-–—]\s+")
_GENRE_WORD = re.compile(
    "action|adventure|animated|animation|arts|biographical|biography|biopic|children's|com|comedies|"
    "comedy|crime|dark|disaster|documentary|drama|dramas|epic|family|fantasy|fi|fiction|film|genre|genres|"
    "historical|history|horror|indie|literary|martial|music|musical|mystery|neo|noir|period|political|"
    "psychological|rom|romance|romantic|satire|sci|science|sport|sports|spy|superhero|supernatural|"
    "surreal|suspense|teen|thriller|war|western"
)
_REFUSAL = re.compile(
    r"(?:i['’]m (?:\w+ )?sorry|i am (?:\w+ )?sorry|sorry|(?:my )?apologies|i apologi[sz]e|unfortunately)\b"
    r".*\b(?:can['’]?t|cannot|can not|unable|not able|won['’]?t|don['’]?t have|do not have|not possible)\b"
    r"|as an? (?:ai|(?:large )?language model)\b"
    r"|i(?: can['’]?t| cannot| can not|(?: am|['’]m) unable| am not able|['’]m not able| do not have| don['’]?t have)\b"
    r".*\b(?:recommend|suggest|provide|assist|help (?:you )?with|generate|access|information|opinions?)\b",
    re.IGNORECASE,
)
# Headlines may be long sentences too; one that speaks of the task is none.
_PROSE_WORDS = 12
_TASK = re.compile(
    r"\b(?:recommend\w*|suggest\w*|users?|preferences?|tastes?|based on|align\w*|(?:listening|viewing) history)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Item:
    """One recommended item: the readings of its line, the likeliest title first.

    What follows a dash or a quote may be a description or a part of the title. Where a line leaves room
    for doubt, the whole of it is kept as a further reading, and matching decides.
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
    if not text.strip(_BLANK + "\r\n"):
        return Parsed("empty", ())
    lines = _listed(list(_candidates(text)))
    # One line with a dash may be a subtitle; a dash in each of them is the layout of the list.
    bare = [line for line in lines if not line.readings]
    fronts = {cuts[-1] for line in bare if (cuts := _cuts(line.rest)[0])}
    layout = len(bare) > 1 and len(fronts) == len(bare)
    items = tuple(Item(line.readings or _dash_readings(line.rest, layout=layout)) for line in lines)
    return Parsed("ok", items) if items else Parsed("unparsed", ())


def _candidates(text: str) -> Iterator[_Line]:
    spaced = (re.sub(r"[ \t]{2,}", " ", line) for line in _LINE_END.split(text))
    lines = [line for raw in spaced if (line := raw.strip().strip(_BLANK))]
    lines = [line for line in lines if not _NOTHING.fullmatch(line)]
    counting = _are_counted(lines)
    prose_follows = False
    for raw in lines:
        mark, number, rest = _unmarked(raw, counting=counting)
        plain = _plain(rest)
        if not plain or _NOT_A_TITLE.match(plain):
            prose_follows = prose_follows or (plain.endswith((":", "：")) and bool(_EXPLANATION.match(plain)))
            continue
        if label := _LABEL.match(plain):
            number = int(label["n"] or label["m"] or 0) or number
            mark = "number" if label["n"] or label["m"] else mark
            rest = plain = plain[label.end() :].strip()
        readings = _bounded(rest)
        if not plain or (plain.endswith((":", "：")) and not (readings and mark == "number")):
            dated = _YEAR_THEN_MORE.fullmatch(plain[:-1].rstrip())
            if not dated:
                prose_follows = bool(_EXPLANATION.match(plain))
                continue
        if not mark and not readings:
            prose_follows = prose_follows or _is_refusal(plain)
            if prose_follows or _is_prose(plain):
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


def _plain(text: str) -> str:
    if not _MARKUP.search(text):
        return text.strip()
    text = _LINK.sub(r"\1", text)
    while (bare := _EMPHASIS.sub(lambda found: found["inside"], text)) != text:
        text = bare
    return text.strip()


def _bounded(text: str) -> tuple[str, ...]:
    """Return the readings of a line whose title is bounded by emphasis, quotes or a year."""
    text = _LINK.sub(r"\1", text)
    whole = _plain(text)
    if emphasis := _EMPHASIS.match(text):
        inside, after = emphasis["inside"].rstrip(":：").strip(), text[emphasis.end() :]
        if not inside:
            return ()
        title = (_bounded(inside) or (_plain(inside),))[0]
        title = _with_year(title, after)
        bounded = not after.strip() or _YEAR_THEN_MORE.fullmatch(title)
        return (title,) if bounded or title == whole else (title, whole)
    if quoted := _quoted(text):
        title, after = _plain(quoted[0]), quoted[1]
        if re.match(r"\s+[^\W\d_]", after) and not _YEAR_THEN_MORE.fullmatch(title):
            # "Weird Al" Yankovic: the quotes are a part of the name, unless the next word says otherwise.
            outer = whole.count('"') > 2 and whole.endswith('"')
            whole = whole[1:-1] if outer else whole
            return (title, whole) if _AFTER_QUOTES.match(after) else (whole, title)
        return (_with_year(title, after),)
    if dated := _YEAR_THEN_MORE.match(whole):
        return (dated["title"].strip(),)
    return ()


def _quoted(text: str) -> tuple[str, str] | None:
    closing = _CLOSING.get(text[:1])
    if not closing:
        return None
    for place in range(2, len(text)):
        if text[place] in closing and text[1:place].strip():
            after = text[place + 1 :]
            # An apostrophe looks like a closing quote, so what follows must leave no doubt.
            ends = r"\s*(?:$|[,;(（\[]|[-–—]\s)" if text[0] in "'‘" else r"$|[\s,.;:：(（\[–—-]"
            if text[0] in "「『《〈" or re.match(ends, after):
                return text[1:place].strip(), after
    return None


def _with_year(title: str, after: str) -> str:
    year = _YEAR_NEXT.match(after)
    return f"{title} {year[1]}" if year else title


def _cuts(text: str) -> tuple[list[str], str]:
    """Return the shorter readings of a text up to each of its dashes, and the text without description."""
    dashes = list(_SPACED_DASH.finditer(text))
    ends = [dash.start() for dash in dashes]
    full = text
    while ends:
        last = text[dashes[len(ends) - 1].end() : len(full)]
        if year := _YEAR_FIRST.match(last):
            # `Heat - 1995` means Heat (1995); `Blade Runner - 2049` then contradicts Blade Runner (1982).
            full = f"{text[: ends.pop()]} ({year[1]})"
            break
        if not _is_description(last):
            break
        full = text[: ends.pop()]
    return [text[:end] for end in reversed(ends)], full


def _dash_readings(text: str, *, layout: bool) -> tuple[str, ...]:
    cuts, full = _cuts(text)
    readings = [*(cuts if layout else []), full, text]
    cleaned = (reading.strip().strip('"').strip() for reading in readings)
    return tuple(dict.fromkeys(reading for reading in cleaned if reading)) or (text,)


def _is_description(text: str) -> bool:
    words = text.split()
    if "|" in text or text[:1].islower() or _NOT_A_TITLE.match(text):
        return True
    if len(words) > 8 or (len(words) > 5 and words[0] in ("A", "An")) or (len(words) > 4 and text[-1] == "."):
        return True
    kinds = [re.findall(r"[^\W\d_]+(?:'s)?", kind) for kind in re.split(r"[,/&;]| and ", text.lower())]
    known = [kind for kind in kinds if kind and all(map(_GENRE_WORD.fullmatch, kind))]
    return 2 * len(known) >= len(kinds)


def _is_refusal(text: str) -> bool:
    return bool(_REFUSAL.match(text)) and _is_mostly_lower(text)


def _is_prose(text: str) -> bool:
    long = len(text.split()) >= _PROSE_WORDS and text.rstrip("\"'”)")[-1:] in tuple(".!?…")
    return long and bool(_TASK.search(text)) and _is_mostly_lower(text)


def _is_mostly_lower(text: str) -> bool:
    # Titles are written with capitals; "I" is one in sentences too.
    words: list[str] = [word for word in re.findall(r"[^\W\d_]+", text) if word not in ("I", "AI")]
    return sum(1 if word[0].islower() else -1 for word in words) >= 0
