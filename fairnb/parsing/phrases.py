"""What stands on one line of a reply: marks of emphasis, quotes, years, descriptions, refusals, prose."""

from __future__ import annotations

import re

NOT_A_TITLE = re.compile(
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
YEAR_THEN_MORE = re.compile(rf"(?P<title>.+?{_YEAR})[\"”'’]?(?=$|[\s,.;:：–—-])")
YEAR_FIRST = re.compile(r"[(\[]?((?:18|19|20)\d\d)[)\]]?(?=$|[\s,;|])")
SPACED_DASH = re.compile(r"[\"”]?\s+[-–—]\s+")
GENRE_WORD = re.compile(
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
    r"|i(?: can['’]?t| cannot| can not|(?: am|['’]m) unable| am not able|['’]m not able| do not have| don['’]?t have"
    r"|(?: am|['’]m) not comfortable| won['’]?t| will not| must decline| have to decline)\b"
    r".*\b(?:recommend\w*|suggest\w*|provide|assist|help (?:you )?with|generate|access|information|opinions?|request"
    r"|requests|comply|list)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?:(?:however|but|still|that said)\b,?\s*)?", re.IGNORECASE)
# Headlines may be long sentences too; one that speaks of the task is none.
_PROSE_WORDS = 12
_TASK = re.compile(
    r"\b(?:recommend\w*|suggest\w*|users?|preferences?|tastes?|based on|align\w*|(?:listening|viewing) history)\b",
    re.IGNORECASE,
)


def without_markup(text: str) -> str:
    """Take emphasis and links off a text."""
    if not _MARKUP.search(text):
        return text.strip()
    text = _LINK.sub(r"\1", text)
    while (bare := _EMPHASIS.sub(lambda found: found["inside"], text)) != text:
        text = bare
    return text.strip()


def bounded_readings(text: str) -> tuple[str, ...]:
    """Return the readings of a line whose title is bounded by emphasis, quotes or a year."""
    text = _LINK.sub(r"\1", text)
    whole = without_markup(text)
    if emphasis := _EMPHASIS.match(text):
        inside, after = emphasis["inside"].rstrip(":：").strip(), text[emphasis.end() :]
        if not inside:
            return ()
        title = (bounded_readings(inside) or (without_markup(inside),))[0]
        title = _with_year(title, after)
        bounded = not after.strip() or YEAR_THEN_MORE.fullmatch(title)
        return (title,) if bounded or title == whole else (title, whole)
    if quoted := split_quoted(text):
        title, after = without_markup(quoted[0]), quoted[1]
        if re.match(r"\s+[^\W\d_]", after) and not YEAR_THEN_MORE.fullmatch(title):
            # "Weird Al" Yankovic: the quotes are a part of the name, unless the next word says otherwise.
            outer = whole.count('"') > 2 and whole.endswith('"')
            whole = whole[1:-1] if outer else whole
            return (title, whole) if _AFTER_QUOTES.match(after) else (whole, title)
        return (_with_year(title, after),)
    if dated := YEAR_THEN_MORE.match(whole):
        return (dated["title"].strip(),)
    return ()


def split_quoted(text: str) -> tuple[str, str] | None:
    """Return the quoted text at the head of a text, and what follows; None if there is none."""
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


def cut_at_dashes(text: str) -> tuple[list[str], str]:
    """Return the shorter readings of a text up to each of its dashes, and the text without description."""
    dashes = list(SPACED_DASH.finditer(text))
    ends = [dash.start() for dash in dashes]
    full = text
    while ends:
        last = text[dashes[len(ends) - 1].end() : len(full)]
        if year := YEAR_FIRST.match(last):
            # `Heat - 1995` means Heat (1995); `Blade Runner - 2049` then contradicts Blade Runner (1982).
            full = f"{text[: ends.pop()]} ({year[1]})"
            break
        if not _is_description(last):
            break
        full = text[: ends.pop()]
    return [text[:end] for end in reversed(ends)], full


def dash_readings(text: str, *, layout: bool) -> tuple[str, ...]:
    """Return the readings of a line whose title nothing but a dash may bound."""
    cuts, full = cut_at_dashes(text)
    readings = [*(cuts if layout else []), full, text]
    cleaned = (reading.strip().strip('"').strip() for reading in readings)
    return tuple(dict.fromkeys(reading for reading in cleaned if reading)) or (text,)


def unquoted(text: str) -> str:
    """Strip the quotes around a text, and one that has lost its other half."""
    text = text.strip()
    while len(text) > 1 and text[-1] in _CLOSING.get(text[0], ""):
        text = text[1:-1].strip()
    return text.strip('"“” ') if sum(map(text.count, '"“”')) == 1 else text


def _is_description(text: str) -> bool:
    words = text.split()
    if "|" in text or text[:1].islower() or NOT_A_TITLE.match(text):
        return True
    if len(words) > 8 or (len(words) > 5 and words[0] in ("A", "An")) or (len(words) > 4 and text[-1] == "."):
        return True
    kinds = [re.findall(r"[^\W\d_]+(?:'s)?", kind) for kind in re.split(r"[,/&;]| and ", text.lower())]
    known = [kind for kind in kinds if kind and all(map(GENRE_WORD.fullmatch, kind))]
    return 2 * len(known) >= len(kinds)


def is_refusal(text: str) -> bool:
    """Tell whether a line refuses, in English: ``I'm sorry, but I cannot ...``, mostly in lower case."""
    return is_mostly_lower(text) and any(_REFUSAL.match(sentence) for sentence in _SENTENCE.split(text))


def is_prose(text: str) -> bool:
    """Tell whether a line is a long sentence that speaks of the task."""
    long = len(text.split()) >= _PROSE_WORDS and text.rstrip("\"'”)")[-1:] in tuple(".!?…")
    return long and bool(_TASK.search(text)) and is_mostly_lower(text)


def is_mostly_lower(text: str) -> bool:
    """Tell whether most words begin with a small letter, as in sentences and not as in titles."""
    # Titles are written with capitals; "I" is one in sentences too.
    words: list[str] = [word for word in re.findall(r"[^\W\d_]+", text) if word not in ("I", "AI")]
    return sum(1 if word[0].islower() else -1 for word in words) >= 0
