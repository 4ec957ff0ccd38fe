"""Any model's reply to its list, whatever its form, with the reason where there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fairnb.errors import ParameterError
from fairnb.parsing.lines import BLANK, LINE_END, Item, Parsed, items_of, parse_lines
from fairnb.parsing.phrases import is_mostly_lower, is_refusal
from fairnb.parsing.structured import read_json, read_table
from fairnb.titles import match_key, split_year

_THOUGHT = re.compile(r"<(?P<tag>think|thinking|reasoning)>.*?</(?P=tag)>", re.IGNORECASE | re.DOTALL)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT_START = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*\w*[ \t]*$\n?", re.MULTILINE)
_MARK = re.compile(r"[-*•–]\s|[*_]{0,3}\(?(?P<n>\d{1,3})[.):]{1,2}[*_]{0,3}\s")
_END_OF_ITEM = (")", "]", '"', "”", "|", "**")

# Of a list on one line: where a quoted title, a year or a semicolon leaves no doubt, and plain commas.
_LEAD = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|great)\b[^.!:,\n]{0,30}[.!:,]\s*)?"
    r"(?:(?:i(?:['’]d| would)?|you (?:should|could|might)) (?:recommend|suggest|try|watch|listen to)\s?:?\s+)?"
    r"(?:[^:\"“]{0,80}\b(?:recommend\w*|suggest\w*|films|movies|songs|tracks|titles)[^:\"“]{0,40}:\s+)?",
    re.IGNORECASE,
)
_CERTAIN_CUTS = (
    re.compile(r"\s*[,;]\s*(?:and\s+|&\s+)?(?=[\"“])|\s+(?:and|&)\s+(?=[\"“])"),
    re.compile(r"(?<=[)\]])\s*[,;]\s*(?:and\s+|&\s+)?|(?<=[)\]])\s+(?:and|&)\s+"),
    re.compile(r"\s*;\s*(?:and\s+)?"),
)
_COMMA = re.compile(r"\s*,\s+(?:and\s+|&\s+)?(?!(?:The|An?|Le|La|Les|Der|Die|Das|El|Il)\b(?:\s*\(\d{4}\))?\s*(?:,|$))")
_QUOTED_PART = re.compile(r"[\"“][^\"“”]+[\"”](?:(?![^\W\d_]{3}\.\s+[A-Z])[^\"“”]){0,80}")
_AND = re.compile(r"\s+(?:and|&)\s+")

_NAMED_IN_PROSE = re.compile(
    r"\b(?:be|is|are|recommend|suggest|recommending|suggesting|try|listen to|watch)\b:?[^\"“”.!?:]{0,40}?[:\s]"
    r"(?P<title>[\"“][^\"“”]+[\"”](?:\s+\(\d{4}\))?)(?P<after>[^\n\"“]*)"
)
_NEXT_IN_PROSE = re.compile(r"(?P<title>[\"“][^\"“”]+[\"”](?:\s+\(\d{4}\))?)(?P<after>[^\n\"“]*)")
_PAST = re.compile(
    r"\b(?:watched|listened|played|liked|enjoyed|history|past|previous\w*|profile|based on|because)\b", re.IGNORECASE
)
_ADVICE = re.compile(r"\b(?:recommend\w*|suggest\w*|next)\b", re.IGNORECASE)
_GOES_ON = re.compile(r"(?:,|\band|\bor|&)\s*$")


def parse(text: str | None, *, k: int, finish_reason: str = "stop", prompt: str = "") -> Parsed:
    """Read the list in a reply.

    Parameters
    ----------
    text : str or None
        The reply: numbered, bulleted or bare lines, JSON, a table, a list on one line, or a sentence
        that names a title in quotes; with or without reasoning, code fences and prose around it.
    k : int
        How many items were asked for, 1 or more. A reply may hold more or fewer; all are kept.
    finish_reason : str
        Why the model stopped: ``length`` if it was cut off, ``content_filter`` if it was held back.
    prompt : str
        What was asked. A copy of it at the head of the reply is no part of the answer.

    Returns
    -------
    Parsed
        Its status is the first of these that holds. ``refused``: held back. ``empty``: blank, or
        reasoning that never ends. ``looping``: at least ``max(10, 3 k)`` items of which more than half
        stand further up already; each is kept once. ``truncated``: cut off, or JSON or a code fence that
        never ends, with fewer than ``k`` complete items, which are kept. ``ok``: items. ``refused``: a
        refusal in English and no item. ``unparsed``: all else.

    Raises
    ------
    ParameterError
        If ``k`` is below 1.

    Notes
    -----
    Reasoning (``<think>``) is left out. Lines at the head that are lines of the prompt are left out if
    the rest holds ``k`` items or more, or begins a list of its own (numbered from 1, or under a heading).
    Lists are parted where numbers begin again and, without numbers, by a heading. All count together if
    they hold ``k`` items or fewer. Else those that mostly hold lines of the prompt, or whose heading
    speaks of the past only (``You watched:``), are left out; of the others the first with ``k`` items
    counts, or all together if none has so many. Where it is unclear whether a line holds several titles,
    it is cut at its commas only if that gives ``k`` parts, none with a small first letter.

    When a reply is cut off, its last line is left out, unless a bracket or quote closes it.
    """
    if k < 1:
        raise ParameterError(f"k = {k}: expected how many items were asked for, 1 or more")
    if finish_reason == "content_filter":
        return Parsed("refused", (), "held back by the content filter")
    cut = finish_reason == "length"
    answer, thinking = _without_thoughts(text or "")
    answer = LINE_END.sub("\n", answer).strip(BLANK + "\r\n" if not cut else BLANK)
    if not answer.strip():
        if thinking and cut:
            return Parsed("truncated", (), "cut off while reasoning; 0 items")
        return Parsed("empty", (), "reasoning without an answer" if thinking else "cut off at once" if cut else "")
    rest = _after_prompt(answer, prompt, k)
    if not rest.strip():
        return Parsed("unparsed", (), "only the prompt again")
    items, unfinished = _read(rest, k=k, cut=cut, prompt=prompt)
    found = _status(items, rest, k=k, unfinished=unfinished)
    if rest == answer or found.note:
        return found
    return Parsed(found.status, found.items, "prompt left out")


def _status(items: tuple[Item, ...], text: str, *, k: int, unfinished: bool) -> Parsed:
    if _loops(len(items), 0, k) and _loops(len(items), len(once := _once(items)), k):
        return Parsed("looping", once, f"{len(items)} items, {len(once)} different")
    if unfinished and len(items) < k:
        return Parsed("truncated", items, f"cut off; {len(items)} complete of {k}")
    if items:
        return Parsed("ok", items, f"cut off after {len(items)} items" if unfinished else "")
    # The refusal may be a string in JSON.
    if any(is_refusal(line.strip()) for line in (*text.split("\n"), *re.findall(r'"([^"]+)"', text))):
        return Parsed("refused", ())
    return Parsed("unparsed", ())


def _loops(several: int, different: int, k: int) -> bool:
    return several >= max(10, 3 * k) and 2 * different < several


def _once(items: Iterable[Item]) -> tuple[Item, ...]:
    once: dict[object, Item] = {}
    for item in items:
        once.setdefault((match_key(item.title), item.pairs[:1]), item)
    return tuple(once.values())


def _without_thoughts(text: str) -> tuple[str, bool]:
    """Return a reply without its reasoning, and whether some of that never ends."""
    if "<" not in text:
        return text, False
    # A model whose prompt opened the block only closes it.
    text = _THOUGHT.sub("", text)
    if ends := list(_THOUGHT_END.finditer(text)):
        text = text[ends[-1].end() :]
    start = _THOUGHT_START.search(text)
    return (text[: start.start()], True) if start else (text, False)


def _after_prompt(answer: str, prompt: str, k: int) -> str:
    """Return what follows the prompt, or its lines, at the head of an answer."""
    words = prompt.split()
    if not words:
        return answer
    heads = list(re.finditer(r"\S+", answer[: 2 * len(prompt) + len(words)]))[: len(words)]
    if [head[0] for head in heads] == words and re.match(r"[ \t]*(?:\n|$)", answer[heads[-1].end() :]):
        return answer[heads[-1].end() :].lstrip("\n")
    known = {_bare(line) for line in prompt.split("\n")} - {""}
    several = answer.split("\n")
    end = next((place for place, line in enumerate(several) if _bare(line) and _bare(line) not in known), len(several))
    echoed = [line for line in several[:end] if _bare(line)]
    if not echoed or end == len(several):
        return answer
    rest = "\n".join(several[end:])
    numbers = [int(match["n"]) for line in several[:end] if (match := _MARK.match(line.strip())) and match["n"]]
    following = next((match["n"] for line in several[end:] if (match := _MARK.match(line.strip()))), None)
    goes_on = bool(numbers) and following is not None and int(following) == numbers[-1] + 1
    heading = any(not _MARK.match(line.strip()) for line in (echoed[-1], several[end]))
    own_list = following == "1" or (heading and not goes_on and any(_MARK.match(line.strip()) for line in echoed))
    left = len(_read(rest, k=k, cut=False, prompt="")[0])
    if left and (own_list or (left >= k and not (goes_on and len(echoed) == 1))):
        return rest
    return answer


def _bare(line: str) -> str:
    return " ".join(_MARK.sub("", line.strip(), count=1).replace("*", "").split()).casefold()


def _read(text: str, *, k: int, cut: bool, prompt: str) -> tuple[tuple[Item, ...], bool]:
    """Return the items in an answer, and whether the answer misses its end."""
    body, open_fence = _inside_fence(text)
    for part in dict.fromkeys((body, text)):
        if (found := read_json(part)) and (found[0] or part.lstrip()[:1] in ("[", "{")):
            return found[0], cut or open_fence or not found[1]
        if (table := read_table(part, cut=cut)) and table[0]:
            return table[0], cut or open_fence
        complete = _complete(part) if cut else part
        for read in (_prose, _one_line, _sections):
            if items := read(complete if read is _sections else part, k, cut, prompt):
                return items, cut or open_fence
    return (), cut or open_fence


def _inside_fence(text: str) -> tuple[str, bool]:
    """Return what the first code fence holds, or the whole text, and whether the fence misses its end."""
    first = _FENCE.search(text)
    if not first:
        return text, False
    second = _FENCE.search(text, first.end())
    inside = text[first.end() : second.start() if second else len(text)]
    return (inside if inside.strip() else text), second is None


def _complete(text: str) -> str:
    """Leave out the last line of a text that was cut off, unless its end shows that the title is whole."""
    last = text.rsplit("\n", 1)[-1].rstrip()
    return text if last.endswith(_END_OF_ITEM) else text[: len(text) - len(text.rsplit("\n", 1)[-1])]


def _prose(text: str, k: int, cut: bool, prompt: str) -> tuple[Item, ...]:
    """Read the titles that a sentence names in quotes, as in ``... would be "Black" by Sevendust``."""
    several = [line.strip() for line in text.split("\n") if line.strip()]
    if any(_MARK.match(line) for line in several):
        return ()
    for line in several:
        plain = re.sub(r"\*\*[\"“]?([^*\"“”]+)[\"”]?\*\*", r'"\1"', line)
        found = _NAMED_IN_PROSE.search(plain)
        if plain[0] in '"“':
            # The sentence led up to a title on a line of its own.
            return ()
        if not found or not is_mostly_lower(plain[: found.start("title")]):
            continue
        named: list[str] = []
        while found and (len(named) < k or not named):
            if cut and found.end() == len(plain) and line == several[-1]:
                # The artist may be half a name.
                break
            named.append(found["title"] + _sentence(found["after"]))
            more = _GOES_ON.search(found["after"])
            found = _NEXT_IN_PROSE.match(plain, found.end()) if more else None
        return items_of(named)
    return ()


def _sentence(after: str) -> str:
    return _GOES_ON.sub("", after).rstrip() if re.match(r"\s+by\b", after) else ""


def _one_line(text: str, k: int, cut: bool, prompt: str) -> tuple[Item, ...]:
    """Read a list that stands on one line."""
    several = [line.strip() for line in text.split("\n") if line.strip()]
    several = [line for line in several if not line.endswith((":", "："))] or several
    if len(several) != 1 or _MARK.match(several[0]):
        return ()
    line = " ".join(several[0].split())
    line = line[_lead(line) :]
    ended = line[:-1] if line.endswith(".") and not line.endswith("..") else line

    def fits(parts: list[str]) -> bool:
        # No title begins with a small letter, but `The Good, the Bad and the Ugly` goes on with one.
        several = len(parts) > 1 and not any(part[0].islower() for part in parts[1:])
        return several and (len(parts) == k or (cut and len(parts) <= k) or _loops(len(parts), len(set(parts)), k))

    for number, mark in enumerate(_CERTAIN_CUTS):
        parts = [part for part in mark.split(ended) if part.strip()]
        quoted = number == 0 and len(parts) > 1 and all(_QUOTED_PART.fullmatch(part) for part in parts)
        dated = number == 1 and len(parts) > 1 and all(split_year(part)[1] for part in parts)
        if quoted or dated or fits(parts):
            return items_of(_without_half(parts, line, cut=cut))
    parts = [part for part in _COMMA.split(ended) if part.strip()]
    ends = _AND.split(parts[-1])
    if len(parts) == k - 1 and len(ends) == 2:
        parts = [*parts[:-1], *ends]
    return items_of(_without_half(parts, line, cut=cut)) if fits(parts) else ()


def _lead(line: str) -> int:
    found = _LEAD.match(line)
    return found.end() if found and found.end() < len(line) else 0


def _without_half(parts: list[str], line: str, *, cut: bool) -> list[str]:
    return parts[:-1] if cut and not line.endswith(_END_OF_ITEM) else parts


def _sections(text: str, k: int, cut: bool, prompt: str) -> tuple[Item, ...]:
    """Read a list of one item a line; of several lists, see `parse`."""
    parts = _parted(text)
    if len(parts) == 1:
        return parse_lines(text).items
    lists = [items for part in parts if (items := parse_lines(part).items)]
    if sum(map(len, lists)) <= k or _loops(sum(map(len, lists)), len(_once(sum(lists, ()))), k):
        return sum(lists, ())
    known = {_bare(line) for line in prompt.split("\n")}
    headed = [(part, items) for part in parts if (items := parse_lines(part).items)]
    own = [items for part, items in headed if not _is_past(part) and not _is_echo(items, known)] or lists
    return next((items for items in own if len(items) >= k), sum(own, ()))


def _is_past(part: str) -> bool:
    """Tell whether the heading of a list speaks of the user's history, and of no recommendation."""
    heading = next((line.strip() for line in part.split("\n") if line.strip()), "")
    return not _MARK.match(heading) and bool(_PAST.search(heading)) and not _ADVICE.search(heading)


def _is_echo(items: tuple[Item, ...], known: set[str]) -> bool:
    echoed = [item for item in items if any(_bare(reading) in known for reading in item.readings)]
    return 2 * len(echoed) > len(items)


def _parted(text: str) -> list[str]:
    """Cut a text where its numbers start again, and where a heading stands between two lists."""
    parts: list[list[str]] = [[]]
    last, listed, numbered, heading = 0, False, False, -1
    for line in text.split("\n"):
        inner = line.startswith((" ", "\t"))
        mark = None if inner else _MARK.match(line)
        number = int(mark["n"]) if mark and mark["n"] else 0
        # Below a number, a heading and bullets describe its item.
        again = number == 1 and (last > 1 or heading >= 0) if numbered else heading >= 0
        if mark and listed and again:
            # The heading goes with the list below it.
            start = heading if heading >= 0 else len(parts[-1])
            parts.append(parts[-1][start:])
            del parts[-2][start:]
            last, numbered = 0, False
        if mark:
            last, listed, numbered, heading = number or last, True, numbered or number > 0, -1
        elif not inner and line.rstrip("*_ ").endswith((":", "：")):
            heading = len(parts[-1])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts]
