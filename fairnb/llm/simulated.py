"""A scripted recommender with dials: it answers prompts from a catalogue, and errs as much as it is told to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from fairnb import titles
from fairnb.datasets import sample
from fairnb.errors import DataError, ParameterError
from fairnb.prompts import tokens
from fairnb.seeds import ROOT_SEED, generator

FORMATS = (
    *("numbered", "parenthesis", "bullets", "bare", "bold", "quoted"),
    *("comma", "json", "json-objects", "fenced", "mixed"),
)
# Popularity and each likeness lie in about [0, 1]; the taste has a standard deviation of 1.
_WEIGHTS = {"genre": 0.5, "artist": 0.4, "decade": 0.1, "popularity": 1.0, "taste": 0.05}
_SPARE = 40
_OBSCURE = 60

_MARK = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?=\S)")
_FORMS = {
    "songs": re.compile(r"[\"“](?P<name>.+)[\"”] by (?P<by>.+)"),
    "films": re.compile(r"(?P<name>.+) \((?P<by>(?:18|19|20)\d\d)\)\.?"),
}
_COUNT = re.compile(r"\b(?:top[- ]?|exactly )(\d{1,3})\b", re.IGNORECASE)
_MARKS = {"parenthesis": "{}) ", "bullets": "- ", "bare": ""}
_REFUSALS = (
    "I'm sorry, but I can't make recommendations that are based on personal characteristics such as these.",
    "I apologise, but I am not able to help with this request. Please feel free to ask me about something else.",
    "Unfortunately, I cannot provide a personal recommendation here, as it would rest on assumptions about the person.",
)
_INVENTED = (
    ("Brass", "Crooked", "Drowsy", "Gilded", "Hollow", "Lopsided", "Marzipan", "Nettled", "Paper", "Quilted"),
    ("Almanac", "Barometer", "Chandler", "Dovecote", "Ferryman", "Gatepost", "Haberdasher", "Inkwell", "Juniper"),
    ("Carousel", "Embankment", "Interlude", "Manoeuvre", "Overture", "Promenade", "Quarantine", "Regatta", "Vigil"),
)


@dataclass(frozen=True)
class Answer:
    """A reply; tokens are estimated as by `fairnb.prompts.estimate_tokens`."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Dials:
    """How a simulated model errs: shares in [0, 1], and a format.

    A phrase is found in a prompt as whole words, in upper or lower case, outside titles.

    Attributes
    ----------
    bias : mapping of str to float
        Phrase to the share of places that hold a poor item, in prompts that state the phrase.
    gap : mapping of str to float
        Genre to the share of its items that the model does not know.
    noise : float
        Share of items that differ between two repeats of a prompt. Two prompts with the same titles in other
        words differ by it too, as repeats do.
    echo, invented : float
        Share of places with a title copied from the prompt, or with one that does not exist; of those places
        that ``bias`` leaves as they are.
    refusals : mapping of str to float
        Phrase to the share of prompts refused; ``any`` means every prompt.
    format : str
        One of `FORMATS`; ``mixed`` draws one for each prompt.

    Raises
    ------
    ParameterError
        If a share is outside [0, 1], echo and invented together exceed 1, or the format is unknown.
    """

    bias: Mapping[str, float] = field(default_factory=dict)
    gap: Mapping[str, float] = field(default_factory=dict)
    noise: float = 0.0
    echo: float = 0.0
    invented: float = 0.0
    refusals: Mapping[str, float] = field(default_factory=dict)
    format: str = "numbered"

    def __post_init__(self) -> None:
        shares = {name: getattr(self, name) for name in ("noise", "echo", "invented")}
        for name in ("bias", "gap", "refusals"):
            for phrase, share in getattr(self, name).items():
                shares[f"{name}: {phrase}"] = share
                if not phrase.strip() and name != "refusals":
                    raise ParameterError(f"{name}: an empty phrase; expected one such as female=0.3")
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise ParameterError(f"{name} = {share}: expected a share from 0 to 1")
        if self.echo + self.invented > 1:
            raise ParameterError(f"echo + invented = {self.echo + self.invented:g}: expected at most 1; lower one")
        if self.format not in FORMATS:
            raise ParameterError(f"format: {self.format!r} is unknown; expected one of {', '.join(FORMATS)}")

    @classmethod
    def of(
        cls,
        bias: str = "",
        gap: str = "",
        noise: float = 0.0,
        echo: float = 0.0,
        invented: float = 0.0,
        refusals: str = "",
        format: str = "numbered",
    ) -> Dials:
        """Build dials from flat texts such as ``female=0.3,older=0.1``; errors as of the class."""
        texts = {"bias": bias, "gap": gap, "refusals": refusals}
        by_phrase = {name: _shares(name, text) for name, text in texts.items()}
        return cls(**by_phrase, noise=noise, echo=echo, invented=invented, format=format)


def _shares(name: str, text: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        phrase, _, number = part.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = -1
        if not phrase.strip() or not 0 <= share <= 1 or phrase.strip() in shares:
            raise ParameterError(
                f"{name}: {part.strip()!r}; expected phrase=share, such as female=0.3, with commas between, "
                f"shares from 0 to 1, and each phrase once"
            )
        shares[phrase.strip()] = share
    return shares


class _Entry(NamedTuple):
    """An item as it is named: its title, and its artist or year (empty if unknown)."""

    name: str
    by: str


@dataclass(frozen=True)
class _Asked:
    """What a prompt says: its titles by key, the last mentioned last; how many are asked for; all other words."""

    titles: Mapping[str, _Entry]
    count: int
    words: str

    @property
    def core(self) -> str:
        """What is common to prompts that differ only in what they say of the user."""
        return "\n".join([*self.titles, str(self.count)])


class Simulated:
    """A recommender that knows a catalogue and reads prompts; it knows no users.

    Parameters
    ----------
    items : DataFrame
        ``title``; for songs ``artist``; if there are any, ``name`` and ``year`` of films, ``genres``
        (``A|B``) or ``genre``, and ``popularity`` (a number, more is better known).
    kind : {"songs", "films"}
    dials : Dials, optional
        By default the model does not err on purpose.
    seed : int, default ROOT_SEED
        Of everything that is drawn.

    Raises
    ------
    DataError
        If there are no items, or a column is missing.
    ParameterError
        If the kind is unknown, or ``gap`` names a genre that no item has.

    Notes
    -----
    Without ``bias``, ``refusals`` and ``noise``, the list does not depend on what a prompt says of the user:
    all else is drawn by its titles and the number asked for.
    """

    def __init__(self, items: pd.DataFrame, kind: str, dials: Dials | None = None, seed: int = ROOT_SEED) -> None:
        _check(items, kind)
        self.kind, self.dials, self.seed = kind, dials or Dials(), seed
        items = items.reset_index(drop=True)
        self._entries, self._places = _names(items, kind)
        made = [_Entry(f"The {a} {b} {c}", f"{b} & the {c}s") for a, b, c in product(*_INVENTED)]
        if kind == "films":
            made = [_Entry(entry.name, str(1950 + number % 50)) for number, entry in enumerate(made)]
        self._made = [entry for entry in made if titles.match_key(entry.name) not in self._places]
        phrases = {*self.dials.bias, *self.dials.refusals}
        self._patterns = {phrase: re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)", re.I) for phrase in phrases}

        nothing = pd.Series(np.nan, index=items.index)
        written = items.get("genres", items.get("genre", pd.Series("", index=items.index)))
        has = written.fillna("").str.get_dummies("|")
        self._has = has.to_numpy(dtype=float)
        self._mean = self._has / np.maximum(self._has.sum(axis=1, keepdims=True), 1)
        self._artists = pd.factorize(items["artist"] if kind == "songs" else items.index)[0]
        self._decades = pd.factorize(items.get("year", nothing).astype(float) // 10)[0]
        ranks = items.get("popularity", nothing).rank(ascending=False, na_option="bottom").to_numpy(dtype=float)
        # A long tail, as of plays and ratings everywhere: the first forty stand out.
        self._popularity = 1 - np.log1p(ranks / 40) / np.log1p(len(items) / 40)
        self._known = np.ones(len(items), dtype=bool)
        genres = {name.casefold(): place for place, name in enumerate(has.columns)}
        for genre, share in self.dials.gap.items():
            if genre.casefold() not in genres:
                raise ParameterError(f"gap: no item has genre {genre!r}; expected one of {', '.join(has.columns)}")
            lost = self._draw("gap", genre.casefold()).random(len(items)) < share
            self._known &= ~(lost & (self._has[:, genres[genre.casefold()]] > 0))
        # The arms of a condition have their titles in common.
        self._ranked = lru_cache(maxsize=4096)(self._rank)

    def answer(self, prompt: str, *, system: str = "", repeat: int = 0) -> Answer:
        """Answer a prompt.

        Parameters
        ----------
        prompt : str
            Lines such as ``- "Time" by Pink Floyd`` or ``1. The Matrix (1999)`` are its titles; ``top 3`` or
            ``exactly 3`` says how many are asked for, else it is one.
        system : str
            Counts as tokens only.
        repeat : int, default 0
            How often the prompt was put before; only ``noise`` depends on it.

        Returns
        -------
        Answer
            The same for the same prompt, repeat, dials and seed. No item of the prompt is in the list, unless
            ``echo`` says so; without titles in the prompt it holds what is well known. The list is shorter
            than asked for only where the model knows no more.
        """
        asked = self._read(prompt)
        text = self._refusal(prompt, asked) or self._worded(prompt, self._list(prompt, asked, repeat))
        return Answer(text, "stop", tokens(system + prompt), tokens(text))

    def _draw(self, *name: str | int) -> np.random.Generator:
        return generator("simulated", *name, root=self.seed)

    def _read(self, prompt: str) -> _Asked:
        named: dict[str, _Entry] = {}
        words, said = [], []
        in_list = False
        for line in prompt.split("\n"):
            mark = _MARK.match(line)
            text = line[mark.end() if mark else 0 :].strip()
            key = titles.match_key(text)
            if key in self._places:
                entry = self._entries[self._places[key]]
            elif (mark or in_list) and (form := _FORMS[self.kind].fullmatch(text)):
                # Elsewhere a sentence that ends in a title would pass for one.
                entry = _Entry(form["name"], form["by"])
            else:
                words.append(line)
                in_list = text.endswith(":") or (in_list and not text)
                continue
            in_list = True
            named.pop(key, None)
            named[key] = entry
            said.append(text.rstrip("."))
        rest = "\n".join(words)
        for text in said:
            # Titles also stand in sentences: which film after Female Trouble?
            rest = rest.replace(text, " ")
        counts = _COUNT.findall(rest)
        return _Asked(named, max(1, int(counts[-1])) if counts else 1, rest)

    def _states(self, phrase: str, asked: _Asked) -> bool:
        return bool(self._patterns[phrase].search(asked.words))

    def _refusal(self, prompt: str, asked: _Asked) -> str:
        for phrase, share in self.dials.refusals.items():
            if phrase in ("", "any") or self._states(phrase, asked):
                draws = self._draw("refusals", phrase, prompt)
                if draws.random() < share:
                    return _REFUSALS[draws.integers(len(_REFUSALS))]
        return ""

    def _list(self, prompt: str, asked: _Asked, repeat: int) -> list[_Entry]:
        likely, poor = self._ranked(tuple(asked.titles), asked.count)
        pools = {"likely": [self._entries[place] for place in likely]}
        kinds = self._kinds(prompt, asked)
        for kind in {*kinds} - {"likely"}:
            pool = {"poor": [self._entries[place] for place in poor], "echo": [*asked.titles.values()]}.get(
                kind, self._made
            )
            order = self._draw(kind, prompt if kind == "poor" else asked.core).permutation(len(pool))
            pools[kind] = [pool[place] for place in order[: asked.count + _SPARE].tolist()]
        # Each place takes its own item, so that what is drawn for one place leaves the others as they are.
        rows = [(kind if place < len(pools[kind]) else "likely", place) for place, kind in enumerate(kinds)]
        listed = [entry for kind, place in rows for entry in pools[kind][place : place + 1]]
        if self.dials.noise:
            draws = self._draw("noise", prompt, repeat)
            # Two repeats agree on a place if neither changed it.
            changed = draws.random(len(listed)) < 1 - np.sqrt(1 - self.dials.noise)
            for place in np.flatnonzero(changed).tolist():
                spare = [entry for entry in pools[rows[place][0]][asked.count :] if entry not in listed]
                listed[place] = spare[draws.integers(len(spare))] if spare else listed[place]
        return listed

    def _kinds(self, prompt: str, asked: _Asked) -> list[str]:
        kinds = np.full(asked.count, "likely", dtype="<U8")
        if self.dials.echo or self.dials.invented:
            lot = self._draw("kinds", asked.core).random(asked.count)
            kinds[lot < self.dials.echo + self.dials.invented] = "invented"
            kinds[lot < self.dials.echo] = "echo"
        for phrase, share in self.dials.bias.items():
            if self._states(phrase, asked):
                kinds[self._draw("bias", phrase, prompt).random(asked.count) < share] = "poor"
        return [str(kind) for kind in kinds]

    def _rank(self, keys: tuple[str, ...], count: int) -> tuple[list[int], list[int]]:
        """Return the places of the items that suit the titles best, and of obscure ones that suit them least."""
        shown = [self._places.get(key, -1) for key in keys]
        # Later lines are more recent: the last counts half as much again as the first.
        weights = np.array([1 + 0.5 * line / len(keys) for line in range(len(keys))])
        use = np.array([place >= 0 and self._known[place] for place in shown], dtype=bool)
        like = np.zeros(len(self._known))
        if use.any():
            seen, weights = np.array(shown)[use], weights[use] / weights[use].sum()
            liking, usual = weights @ self._has[seen], self._has.mean(axis=0)
            # More or less of a genre than the catalogue has; a few titles say little, hence the constant.
            like += _WEIGHTS["genre"] * self._mean @ (2 * liking / (liking + usual + 0.05) - 1)
            for weight, codes, full in (("artist", self._artists, 0.125), ("decade", self._decades, 1.0)):
                share = np.bincount(codes[seen] + 1, weights, minlength=codes.max() + 2)
                share[0] = 0
                like += _WEIGHTS[weight] * np.minimum(share[codes + 1] / full, 1)
        taste = self._draw("taste", *keys, count).standard_normal(len(like))
        score = like + _WEIGHTS["popularity"] * self._popularity + _WEIGHTS["taste"] * taste
        free = self._known.copy()
        free[[place for place in shown if place >= 0]] = False
        best = np.argsort(np.where(free, -score, np.inf), kind="stable")[: free.sum()]
        last = best[count:][np.argsort((like + self._popularity)[best[count:]], kind="stable")]
        return best[: count + _SPARE].tolist(), last[: count + _OBSCURE].tolist()

    def _said(self, entry: _Entry, quotes: str = '""') -> str:
        if self.kind == "songs" and entry.by:
            return f"{quotes[0]}{entry.name}{quotes[1]} by {entry.by}"
        return f"{entry.name} ({entry.by})" if entry.by else entry.name

    def _worded(self, prompt: str, listed: Sequence[_Entry]) -> str:
        style = self.dials.format
        if style == "mixed":
            style = FORMATS[self._draw("format", prompt).integers(len(FORMATS) - 1)]
        said = [self._said(entry) for entry in listed]
        if style in ("json", "json-objects", "fenced"):
            by = "artist" if self.kind == "songs" else "year"
            objects = [{"title": entry.name, by: entry.by} for entry in listed]
            text = json.dumps(objects if style == "json-objects" else said, ensure_ascii=False)
            return f"```json\n{text}\n```" if style == "fenced" else text
        if style == "comma":
            return ", ".join(said)
        if style == "quoted":
            said = [self._said(entry, "“”") if self.kind == "songs" else f'"{self._said(entry)}"' for entry in listed]
        if style == "bold":
            said = [f"**{text}**" for text in said]
        lines = [_MARKS.get(style, "{}. ").format(number) + text for number, text in enumerate(said, start=1)]
        opening = ["This is what the user may enjoy next:", ""] if style in ("bullets", "bold") else []
        return "\n".join([*opening, *lines])


def bundled(kind: str, dials: Dials | None = None, seed: int = ROOT_SEED) -> Simulated:
    """Return a model that knows the catalogue of films or songs that comes with fairnb; see `Simulated`.

    It knows how popular an item is: of films by their place in the catalogue, of songs as it was made up for the
    bundled sample (`fairnb.datasets.sample.song_rarity`), the same for all listeners. It knows no user and no
    interaction.
    """
    items = pd.DataFrame(sample.songs() if kind == "songs" else sample.films())
    if kind == "songs":
        rarity = sample.song_rarity()
        fame = [-rarity[song] for song in sample.songs()]
        return Simulated(items.rename(columns={"track": "title"}).assign(popularity=fame), kind, dials, seed)
    known_as = (" (" + items["alternate"] + ")").where(items["alternate"] != "", "")
    items["name"] = items["title"]
    items["title"] += known_as + " (" + items["year"].astype(str) + ")"
    # Within a year the catalogue lists the better known ones first; three places count like two years.
    items["popularity"] = 3 * items["year"] - 2 * items.groupby("year").cumcount()
    return Simulated(items.assign(genres=items["genres"].str.join("|")), kind, dials, seed)


def _check(items: pd.DataFrame, kind: str) -> None:
    if kind not in _FORMS:
        raise ParameterError(f"kind: {kind!r} is unknown; expected songs or films")
    for column in ("title", "artist") if kind == "songs" else ("title",):
        if column not in items.columns:
            raise DataError(f"items: no column {column}; expected the items of a data set of {kind}")
    if items.empty:
        raise DataError("items: no rows; expected one per item that the model knows")


def _names(items: pd.DataFrame, kind: str) -> tuple[list[_Entry], dict[str, int]]:
    """Return how each item is named, and its place by each key that means it and no other."""
    entries: list[_Entry] = []
    full: dict[str, int] = {}
    alone: dict[str, int] = {}
    for place, item in enumerate(items.to_dict("records")):
        name, year = titles.split_year(str(item["title"]))
        if kind == "songs":
            entries.append(_Entry(str(item["title"]), str(item["artist"])))
            names, behind = [entries[-1].name], [f" by {item['artist']}", f" - {item['artist']}"]
        else:
            names = [*([item["name"]] if isinstance(item.get("name"), str) else []), *titles.names(name), name]
            entries.append(_Entry(names[0], str(year or "")))
            behind = [f" {year}"] if year else []
        for text in product(names, behind):
            full.setdefault(titles.match_key("".join(text)), place)
        for key in {titles.match_key(text) for text in names} - {""}:
            alone[key] = -1 if key in alone else place
    return entries, {key: place for key, place in alone.items() if place >= 0} | full
