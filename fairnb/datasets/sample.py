"""The bundled sample: real titles, made-up users and interactions, in the original file formats.

Users and interactions are synthetic; no line comes from MovieLens or Last.fm. The files are made to
be as awkward as the original ones are reported to be (`TRAPS`).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate
from math import isqrt
from pathlib import Path
from typing import NamedTuple, TypeVar

from fairnb import paths
from fairnb.errors import DataError
from fairnb.seeds import ROOT_SEED, generator

GENRES = (
    *("Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
SONG_GENRES = (
    *("classical", "country", "electronic", "folk", "hip-hop", "indie", "jazz", "metal", "pop", "punk"),
    *("reggae", "rock", "soul", "world"),
)

USERS_DAT = "ml-1m/users.dat"
MOVIES_DAT = "ml-1m/movies.dat"
RATINGS_DAT = "ml-1m/ratings.dat"
PROFILE_TSV = "lastfm-1k/userid-profile.tsv"
PLAYS_TSV_GZ = "lastfm-1k/userid-timestamp-artid-artname-traid-traname.tsv.gz"


class Film(NamedTuple):
    """One real film of the catalogue.

    Within a year the catalogue lists the better known ones first.

    Attributes
    ----------
    title : str
        Article in front, without year.
    year : int
        Of release.
    genres : tuple of str
        One or more of `GENRES`.
    alternate : str
        Another name it is known by, article in front; empty if none is listed.
    """

    title: str
    year: int
    genres: tuple[str, ...]
    alternate: str


class Song(NamedTuple):
    """One real recording of the catalogue.

    Attributes
    ----------
    track, artist : str
        In the script of the artist's own country.
    genre : str
        One of `SONG_GENRES`.
    year : int
        Of the first release.
    """

    track: str
    artist: str
    genre: str
    year: int


class Trap(NamedTuple):
    """Something in the sample that a careless reader gets wrong.

    Attributes
    ----------
    file : str
        Path below ``data/sample``.
    what : str
        What is odd about the lines. Names that were made up say so.
    lines : int
        How many lines there are, with the default seed.
    fate : {"reject", "kept", "missing", "ignored"}
        What should become of them: in no frame, and told as a reject; in the frame as they stand; in
        the frame with the odd field missing; not counted as a line at all (blank lines).
    """

    file: str
    what: str
    lines: int
    fate: str


TRAPS = (
    Trap(USERS_DAT, "age code 1, which means under 18", 9, "kept"),
    Trap(USERS_DAT, "age code 56, which means 56 and above", 15, "kept"),
    Trap(USERS_DAT, "zip code of nine digits (12345-6789)", 12, "kept"),
    Trap(USERS_DAT, "occupation 0, which means other or not told", 9, "kept"),
    Trap(MOVIES_DAT, "letters beyond ASCII, in Latin-1", 34, "kept"),
    Trap(MOVIES_DAT, "article behind the title (Matrix, The)", 257, "kept"),
    Trap(MOVIES_DAT, "second name in brackets before the year", 107, "kept"),
    Trap(MOVIES_DAT, "colon in a title, beside the double one between fields", 23, "kept"),
    Trap(MOVIES_DAT, "no genres field (Film Without Genres, a made-up title)", 1, "reject"),
    Trap(RATINGS_DAT, "three fields", 1, "reject"),
    Trap(RATINGS_DAT, "five fields", 1, "reject"),
    Trap(RATINGS_DAT, "rating 9", 1, "reject"),
    Trap(RATINGS_DAT, "film that is not in movies.dat", 1, "reject"),
    Trap(RATINGS_DAT, "user who is not in users.dat", 1, "reject"),
    Trap(RATINGS_DAT, "exact repeat of a line", 1, "reject"),
    Trap(RATINGS_DAT, "timestamp 0", 1, "reject"),
    Trap(RATINGS_DAT, "blank line", 1, "ignored"),
    Trap(RATINGS_DAT, "Windows line end", 1, "kept"),
    Trap(PROFILE_TSV, "gender empty", 14, "missing"),
    Trap(PROFILE_TSV, "age empty", 24, "missing"),
    Trap(PROFILE_TSV, "age -1", 1, "missing"),
    Trap(PROFILE_TSV, "age 107", 1, "missing"),
    Trap(PROFILE_TSV, "age 0", 1, "missing"),
    Trap(PROFILE_TSV, "all four attributes empty", 4, "missing"),
    Trap(PROFILE_TSV, "country NA", 1, "kept"),
    Trap(PROFILE_TSV, "country Namibia, whose code is NA", 1, "kept"),
    Trap(PROFILE_TSV, "four fields, the age column left out", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "five fields", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "seven fields", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "empty time", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "time that is a zone only (+0000)", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "time 1970-01-01T00:00:00Z", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "user who is not in the profile", 1, "reject"),
    Trap(PLAYS_TSV_GZ, "time in 2013, after the end of the data", 1, "kept"),
    Trap(PLAYS_TSV_GZ, "artist NULL (made-up name)", 1, "kept"),
    Trap(PLAYS_TSV_GZ, "artist nan (made-up name)", 1, "kept"),
    Trap(PLAYS_TSV_GZ, "track None (made-up name)", 1, "kept"),
    Trap(PLAYS_TSV_GZ, "track NA (made-up name)", 1, "kept"),
    Trap(PLAYS_TSV_GZ, "track n/a (made-up name)", 1, "kept"),
    Trap(PLAYS_TSV_GZ, 'artist with one double quote, in front ("Odd Sample, a made-up name)', 1, "kept"),
    Trap(PLAYS_TSV_GZ, "second of two different tracks in one second", 33, "kept"),
    Trap(PLAYS_TSV_GZ, "artist id empty", 736, "kept"),
    Trap(PLAYS_TSV_GZ, "track id empty", 2319, "kept"),
)

_T = TypeVar("_T")

_DAY = 86_400
_UNUSED_FILM_ID = 20
_STRANGER = 9_999

_AGE_CODES = {1: 9, 18: 44, 25: 83, 35: 47, 45: 22, 50: 20, 56: 15}
_VIEWERS = {"F": 67, "M": 173}
_ZIPS = {"nine digits": 12, "five digits": 228}
_RATING_COUNTS = {"few": 24, "many": 8, "usual": 208}

_LISTENERS = {"": 14, "f": 45, "m": 61}
_AGES = {"": 24, "-1": 1, "107": 1, "0": 1, "years": 93}
_BLANK_PROFILES = 4
_PLAY_COUNTS = {"few": 6, "very many": 2, "usual": 112}
_COUNTRIES = {
    **{"": 10, "NA": 1, "Namibia": 1, "United States": 28, "United Kingdom": 16, "Poland": 7, "Germany": 6},
    **{"Finland": 5, "Norway": 5, "Sweden": 4, "Canada": 4, "Italy": 4, "Turkey": 3, "Brazil": 3, "Australia": 3},
    **{"Japan": 3, "Russian Federation": 3, "Netherlands": 3, "France": 3, "Spain": 2, "Mexico": 2},
    **{"Iceland": 1, "Cote D'Ivoire": 1, "Portugal": 1, "Argentina": 1},
}

# In percent of the usual liking; what is not named is 100. Moderate on purpose: groups overlap widely.
_FILM_TILTS: dict[str, dict[str, int]] = {
    "F": {
        **{"Romance": 145, "Musical": 135, "Children's": 125, "Drama": 115, "Animation": 110},
        **{"Action": 70, "War": 75, "Sci-Fi": 75, "Western": 75, "Film-Noir": 85, "Horror": 80, "Crime": 85},
    },
    "M": {"Action": 115, "War": 110, "Sci-Fi": 115, "Western": 110, "Romance": 85, "Musical": 85},
    "young": {
        **{"Animation": 135, "Horror": 135, "Comedy": 120, "Sci-Fi": 115, "Children's": 120},
        **{"Film-Noir": 60, "Western": 60, "War": 80, "Drama": 85},
    },
    "old": {
        **{"Drama": 120, "War": 135, "Western": 145, "Film-Noir": 145, "Musical": 125, "Mystery": 115},
        **{"Horror": 60, "Animation": 75, "Sci-Fi": 80, "Comedy": 90},
    },
}
_SONG_TILTS: dict[str, dict[str, int]] = {
    "f": {"pop": 145, "indie": 115, "soul": 125, "folk": 120, "metal": 60, "hip-hop": 80, "electronic": 85},
    "m": {"metal": 120, "rock": 110, "hip-hop": 110, "electronic": 110, "pop": 80},
    "young": {"metal": 130, "punk": 140, "indie": 120, "hip-hop": 120, "jazz": 60, "classical": 70, "country": 60},
    "old": {"jazz": 150, "soul": 130, "folk": 130, "classical": 130, "country": 130, "punk": 70, "metal": 70},
}

# Made-up names that readers take for missing values, and one that readers take for an open quotation.
_ODD_SONGS = (
    Song("Sample Song One", "NULL", "", 0),
    Song("Sample Song Two", "nan", "", 0),
    Song("None", "The Made-Up Sample", "", 0),
    Song("NA", "The Made-Up Sample", "", 0),
    Song("n/a", "The Made-Up Sample", "", 0),
    Song("Sample Song Three", '"Odd Sample', "", 0),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# Without "O", "As", "I" and "À", which begin a title as another word more often than as an article.
_MOVED = ("the", "a", "an", "le", "la", "les", "un", "el", "los", "il", "lo", "der", "das", "die", "det")
_NOT_MOVED = ("Die Hard", "El Dorado")


def build(root_seed: int = ROOT_SEED) -> dict[str, bytes]:
    """Make the sample.

    Parameters
    ----------
    root_seed : int, default ROOT_SEED
        Another seed makes other users and interactions of the same films and songs.

    Returns
    -------
    dict of str to bytes
        Content by path below ``data/sample``: ``ml-1m/users.dat``, ``movies.dat`` (Latin-1) and
        ``ratings.dat``; ``lastfm-1k/userid-profile.tsv`` and the plays, gzipped.

    Raises
    ------
    DataError
        If a catalogue inside the package is damaged.

    Notes
    -----
    Only whole numbers are computed with, from the raw bits of a generator of each user's own, so the
    bytes depend neither on the processor nor on the order of work. The bytes of the gzip file alone
    may differ where Python was built with another zlib; its content does not.
    """
    return {**_films_of(root_seed), **_songs_of(root_seed)}


def write(folder: Path) -> list[Path]:
    """Write the sample with the default seed.

    Parameters
    ----------
    folder : Path
        Such as ``data/sample``. Made if absent; other files in it stay.

    Returns
    -------
    list of Path
        The files, in the order of `build`. A file that already holds the content is left as it is,
        also where another zlib packed it into other bytes.

    Raises
    ------
    FairnbError
        If a file cannot be written.
    DataError
        If a catalogue inside the package is damaged.
    """
    written = []
    for name, content in build().items():
        target = folder / name
        if not (name.endswith(".gz") and _unpacks_to(target, gzip.decompress(content))):
            paths.write_bytes(target, content)
        written.append(target)
    return written


@lru_cache(maxsize=1)
def films() -> tuple[Film, ...]:
    """Return the catalogue of films, as ``catalogue/films.tsv`` lists them.

    Raises
    ------
    DataError
        If the file is damaged.
    """
    rows = []
    for line, (title, year, genres, alternate) in _catalogue("films.tsv", ("title", "year", "genres", "alternate")):
        rows.append(Film(title, _year(year, "films.tsv", line), tuple(genres.split("|")), alternate))
        for genre in rows[-1].genres:
            _require_genre(genre, GENRES, "films.tsv", line)
    return tuple(rows)


@lru_cache(maxsize=1)
def songs() -> tuple[Song, ...]:
    """Return the catalogue of songs, as ``catalogue/songs.tsv`` lists them.

    Raises
    ------
    DataError
        If the file is damaged.
    """
    rows = []
    for line, (track, artist, genre, year) in _catalogue("songs.tsv", ("track", "artist", "genre", "year")):
        _require_genre(genre, SONG_GENRES, "songs.tsv", line)
        rows.append(Song(track, artist, genre, _year(year, "songs.tsv", line)))
    return tuple(rows)


def _catalogue(name: str, columns: tuple[str, str, str, str]) -> list[tuple[int, list[str]]]:
    text = (files("fairnb.datasets") / "catalogue" / name).read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    for line, row in enumerate(rows, start=1):
        if len(row) != len(columns) or not row[0] or (line == 1 and tuple(row) != columns):
            raise DataError(
                f"{name}, line {line}: expected {', '.join(columns)} with tabs between; install fairnb again"
            )
    if len(rows) < 2:
        raise DataError(f"{name}: no rows below the header; install fairnb again")
    return list(enumerate(rows[1:], start=2))


def _year(text: str, name: str, line: int) -> int:
    if len(text) != 4 or not text.isdecimal():
        raise DataError(f"{name}, line {line}: year {text!r}; expected four digits; install fairnb again")
    return int(text)


def _require_genre(genre: str, known: Sequence[str], name: str, line: int) -> None:
    if genre not in known:
        raise DataError(
            f"{name}, line {line}: genre {genre!r}; expected one of {', '.join(known)}; install fairnb again"
        )


class _Draws:
    """Whole numbers from a named generator.

    From its raw bits, whose stream numpy never changes; it may change what its distributions make of them.
    """

    def __init__(self, root: int, *name: str | int) -> None:
        self._bits = generator("sample", *name, root=root).bit_generator
        self._buffer: list[int] = []

    def below(self, bound: int) -> int:
        """Return a number from 0 to bound - 1."""
        if not self._buffer:
            self._buffer = self._bits.random_raw(256).tolist()
        return self._buffer.pop() * bound >> 64

    def bell(self, scale: int) -> int:
        """Return a number around 0, at most three times the scale away from it."""
        return sum(self.below(scale + 1) for _ in range(6)) - 3 * scale

    def weighted(self, cumulative: Sequence[int]) -> int:
        """Return an index, by weights that were summed up."""
        return bisect_right(cumulative, self.below(cumulative[-1]))

    def several(self, weights: Sequence[int], count: int) -> list[int]:
        """Return different indices, by weight, in the order they were drawn."""
        cumulative = list(accumulate(weights))
        drawn: dict[int, None] = {}
        while len(drawn) < count:
            drawn.setdefault(self.weighted(cumulative))
        return list(drawn)

    def shuffled(self, values: Sequence[_T]) -> list[_T]:
        """Return the values in another order."""
        keys = [(self.below(1 << 60), place) for place in range(len(values))]
        return [values[place] for _, place in sorted(keys)]


def _quota(root: int, shares: Mapping[_T, int], *name: str) -> list[_T]:
    """Give each user a value so that the shares come out as they are written above, whatever the seed."""
    return _Draws(root, *name).shuffled([value for value, count in shares.items() for _ in range(count)])


def _long_tail(rank: int, head: int) -> int:
    # 1 / (rank + head) ** 1.5 in whole numbers.
    return 10**9 // ((rank + head) * isqrt(100 * (rank + head)))


def _likings(draws: _Draws, genres: Sequence[str], tilts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return how a user likes each genre, 100 being usual: partly their own, partly their groups'."""
    likings = {}
    for genre in genres:
        liking = 100 + draws.bell(22)
        for tilt in tilts:
            liking = liking * tilt.get(genre, 100) // 100
        likings[genre] = liking
    return likings


# MovieLens 1M


def _films_of(root: int) -> dict[str, bytes]:
    catalogue = sorted(films(), key=lambda film: _digest("film", film.title, str(film.year)))
    # The original numbers its films with gaps.
    ids = [place + place // (_UNUSED_FILM_ID - 1) + 1 for place in range(len(catalogue))]
    movies = [
        f"{film_id}::{_catalogue_title(film)}::{'|'.join(film.genres)}"
        for film_id, film in zip(ids, catalogue, strict=True)
    ]
    movies.append(f"{ids[-1] + 1}::Film Without Genres (1999)")

    users: list[str] = []
    blocks: list[list[str]] = []
    appeal = _film_appeal(root, catalogue)
    for viewer in _viewers(root):
        users.append(f"{viewer.user}::{viewer.gender}::{viewer.age}::{viewer.occupation}::{viewer.zip_code}")
        rated = _ratings_of(root, viewer, catalogue, appeal)
        blocks.append([f"{viewer.user}::{ids[film]}::{rating}::{time}" for film, rating, time in rated])
    return {
        USERS_DAT: _lines(users).encode("ascii"),
        MOVIES_DAT: _lines(movies).encode("latin-1"),
        RATINGS_DAT: _with_rating_traps(blocks, ids).encode("ascii"),
    }


@dataclass(frozen=True)
class _Viewer:
    user: int
    gender: str
    age: int
    occupation: int
    zip_code: str
    kind: str


def _viewers(root: int) -> list[_Viewer]:
    genders = _quota(root, _VIEWERS, "ml-1m", "gender")
    ages = _quota(root, _AGE_CODES, "ml-1m", "age")
    kinds = _quota(root, _RATING_COUNTS, "ml-1m", "ratings")
    zips = _quota(root, _ZIPS, "ml-1m", "zip")
    viewers = []
    for user, (gender, age, kind, form) in enumerate(zip(genders, ages, kinds, zips, strict=True), start=1):
        draws = _Draws(root, "ml-1m", "profile", user)
        zip_code = f"{501 + draws.below(99_450):05d}" + (f"-{draws.below(10_000):04d}" * (form == "nine digits"))
        # Codes 10, 4 and 13: pupil, student, retired.
        usual = {1: 10, 18: 4, 56: 13}.get(age)
        occupation = usual if usual is not None and draws.below(100) < 55 else draws.below(21)
        viewers.append(_Viewer(user, gender, age, occupation, zip_code, kind))
    return viewers


def _film_appeal(root: int, catalogue: Sequence[Film]) -> list[tuple[int, int]]:
    """Return each film's popularity (a weight) and quality (hundredths of a star)."""
    draws = _Draws(root, "ml-1m", "films")
    listed: Counter[int] = Counter()
    fame = {}
    for film in films():
        fame[film] = 18 * listed[film.year]
        listed[film.year] += 1
    rarity = [draws.below(450) + 8 * (2000 - film.year) + fame[film] for film in catalogue]
    order = sorted(range(len(catalogue)), key=lambda place: (rarity[place], place))
    rank = {place: number for number, place in enumerate(order)}
    return [
        (_long_tail(rank[place], 45), 342 + draws.bell(28) + 3000 // (60 + rank[place]))
        for place in range(len(catalogue))
    ]


def _ratings_of(
    root: int, viewer: _Viewer, catalogue: Sequence[Film], appeal: Sequence[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """Return a user's place in the catalogue, rating and time, in the order of the file."""
    draws = _Draws(root, "ml-1m", "ratings", viewer.user)
    period = "young" if viewer.age <= 18 else "old" if viewer.age >= 45 else ""
    liking = _likings(draws, GENRES, [_FILM_TILTS[viewer.gender], _FILM_TILTS.get(period, {})])
    likings = [sum(liking[genre] for genre in film.genres) // len(film.genres) for film in catalogue]
    weights = []
    for film, like, (popularity, _) in zip(catalogue, likings, appeal, strict=True):
        known = 100
        if period == "old" and film.year < 1970:
            known = 170
        elif period == "young" and film.year < 1980:
            known = 55
        weights.append(1 + popularity * like * like // 10_000 * known // 100)

    if viewer.kind == "few":
        count = 20 + draws.below(30)
    elif viewer.kind == "many":
        count = 405 + draws.below(80)
    else:
        count = 50 + draws.below(250) * draws.below(250) * draws.below(250) // 250**2
        count += draws.below(45)
    chosen = draws.several(weights, count)
    mood = draws.bell(28)
    ratings = []
    for place in chosen:
        hundredths = appeal[place][1] + mood + (likings[place] - 100) * 7 // 10 + draws.bell(145)
        ratings.append(min(5, max(1, (hundredths + 50) // 100)))
    rows = list(zip(chosen, ratings, _rating_times(draws, count), strict=True))
    # The original is not in order of time within a user.
    return draws.shuffled(rows)


def _rating_times(draws: _Draws, count: int) -> list[int]:
    first, last = _seconds(2000, 4, 26), _seconds(2003, 2, 28)
    start = first + draws.below(250 * _DAY)
    starts = [start]
    if draws.below(100) < 55:
        for _ in range(1 + draws.below(5)):
            # The product of two draws: most come back soon, a few after years.
            starts.append(start + _DAY + draws.below(1000) * draws.below(1000) * ((last - start - 3 * _DAY) // 10**6))
    sessions = [0 if draws.below(100) < 60 else draws.below(len(starts)) for _ in range(count)]
    times = []
    clock = starts
    for session in sessions:
        # A page of films is rated at once, so that many share their second.
        if draws.below(100) >= 30:
            clock[session] += 1 + draws.below(45)
        times.append(clock[session])
    return times


def _with_rating_traps(blocks: list[list[str]], ids: list[int]) -> str:
    time = _seconds(2000, 11, 20)

    def unrated(user: int) -> int:
        seen = {int(line.split("::")[1]) for line in blocks[user - 1]}
        return next(film_id for film_id in ids if film_id not in seen)

    extra = {
        12: [f"12::{unrated(12)}::4"],
        31: [f"31::{unrated(31)}::4::{time}::0"],
        58: [f"58::{unrated(58)}::9::{time}"],
        83: [f"83::{_UNUSED_FILM_ID}::4::{time}"],
        107: [blocks[106][0]],
        139: [f"139::{unrated(139)}::3::0"],
        164: [""],
        240: [f"{_STRANGER}::{ids[0]}::4::{time}"],
    }
    text = ""
    for user, block in enumerate(blocks, start=1):
        # Not at the end of the block, where a reader that watches for a new user might be lucky.
        lines = [*block[: len(block) // 2], *extra.get(user, []), *block[len(block) // 2 :]]
        text += "\n".join(lines) + ("\r\n" if user == 191 else "\n")
    return text


def _catalogue_title(film: Film) -> str:
    name = _article_last(film.title)
    # Catalogues write the second name either way.
    alternate = film.alternate if name != film.title else _article_last(film.alternate)
    return name + (f" ({alternate})" if alternate else "") + f" ({film.year})"


def _article_last(name: str) -> str:
    if name.startswith("L'"):
        return f"{name[2:]}, L'"
    article, _, rest = name.partition(" ")
    if not rest or article.lower() not in _MOVED or name.startswith(_NOT_MOVED):
        return name
    return f"{rest[0].upper()}{rest[1:]}, {article}"


# Last.fm 1K


@dataclass(frozen=True)
class _Listener:
    user: str
    number: int
    gender: str
    age: str
    country: str
    since: int
    kind: str

    def row(self, *, registered: bool) -> str:
        day = datetime.fromtimestamp(self.since, UTC)
        date = f"{_MONTHS[day.month - 1]} {day.day}, {day.year}" if registered else ""
        return "\t".join((self.user, self.gender, self.age, self.country, date))


def song_rarity(root: int = ROOT_SEED) -> dict[Song, int]:
    """Draw how little known each song is in the made-up world of the sample.

    Lower is better known; recent songs are better known. It is one and the same for all listeners, and made up: it
    says nothing about the real songs.
    """
    draws = _Draws(root, "lastfm-1k", "songs")
    catalogue = sorted(songs(), key=lambda song: _digest("song", song.track, song.artist))
    return {song: draws.below(1000) + 8 * (2009 - song.year) for song in catalogue}


def _songs_of(root: int) -> dict[str, bytes]:
    rarity = song_rarity(root)
    catalogue = list(rarity)
    order = sorted(range(len(catalogue)), key=lambda place: (rarity[catalogue[place]], place))
    popularity = {place: _long_tail(rank, 40) for rank, place in enumerate(order)}

    profile = ["#id\tgender\tage\tcountry\tregistered"]
    blocks: dict[str, list[str]] = {}
    for listener in _listeners(root):
        blank = not (listener.gender or listener.age or listener.country)
        registered = not blank and _Draws(root, "lastfm-1k", "registered", listener.number).below(100) >= 4
        profile.append(listener.row(registered=registered))
        plays = _plays_of(root, listener, catalogue, popularity)
        blocks[listener.user] = [_play(listener.user, _stamp(time), song) for time, song in plays]
    # The example in the data set's own description leaves the column out too.
    profile.append("user_000121\tf\tBrazil\tMar 3, 2007")
    return {
        PROFILE_TSV: _lines(profile).encode("utf-8"),
        PLAYS_TSV_GZ: _packed(_lines(_with_play_traps(blocks, catalogue)).encode("utf-8")),
    }


def _listeners(root: int) -> list[_Listener]:
    genders = _quota(root, _LISTENERS, "lastfm-1k", "gender")
    ages = _quota(root, _AGES, "lastfm-1k", "age")
    countries = _quota(root, _COUNTRIES, "lastfm-1k", "country")
    kinds = _quota(root, _PLAY_COUNTS, "lastfm-1k", "plays")
    # Who leaves all fields empty takes the empty ones from others, so that the shares stay.
    for number in range(_BLANK_PROFILES):
        place = 29 * number + 8
        for values in (genders, ages, countries):
            other = next(i for i, value in enumerate(values) if value == "" and i % 29 != 8)
            values[place], values[other] = values[other], values[place]
    listeners = []
    for place in range(len(genders)):
        draws = _Draws(root, "lastfm-1k", "profile", place + 1)
        years = 36 + draws.below(14) if draws.below(100) < 9 else 15 + draws.below(9) + draws.below(9)
        age = str(years) if ages[place] == "years" else ages[place]
        since = _seconds(2004, 6, 1) + draws.below(1500 * _DAY)
        user = f"user_{place + 1:06d}"
        listeners.append(_Listener(user, place + 1, genders[place], age, countries[place], since, kinds[place]))
    return listeners


def _plays_of(
    root: int, listener: _Listener, catalogue: Sequence[Song], popularity: dict[int, int]
) -> list[tuple[int, Song]]:
    """Return a user's plays, the newest first."""
    draws = _Draws(root, "lastfm-1k", "plays", listener.number)
    years = int(listener.age or 0)
    period = "young" if 15 <= years <= 22 else "old" if 26 <= years < 100 else ""
    liking = _likings(draws, SONG_GENRES, [_SONG_TILTS.get(listener.gender, {}), _SONG_TILTS.get(period, {})])
    artists = sorted({song.artist for song in catalogue})
    favourites = {artists[draws.below(len(artists))] for _ in range(6)}
    weights = []
    for place, song in enumerate(catalogue):
        known = 160 if period == "old" and song.year < 1985 else 100
        known *= 8 if song.artist in favourites else 1
        weights.append(1 + popularity[place] * liking[song.genre] ** 2 // 10**4 * known // 100)

    if listener.kind == "few":
        count = 12 + draws.below(38)
    elif listener.kind == "very many":
        count = 10_050 + draws.below(400)
    else:
        count = 100 + draws.below(700) * draws.below(700) // 700
    distinct = 150 if listener.kind == "very many" else min(60 + draws.below(91), count * 6 // 10)
    known_songs = draws.shuffled(draws.several(weights, distinct))
    cumulative = list(accumulate(_long_tail(rank, 4) for rank in draws.shuffled(range(distinct))))

    plays: list[tuple[int, Song]] = []
    met = 0
    for number, begin in enumerate(_play_times(draws, listener.since, count)):
        # Songs come into a history one after another, half of them in its first quarter.
        quick, steady = distinct * 5 * (number + 1) // (2 * count), (distinct + distinct * (number + 1) // count) // 2
        if met < min(distinct, 1 + min(quick, steady)):
            place = met
            met += 1
        else:
            place = draws.weighted(cumulative[:met])
        song = catalogue[known_songs[place]]
        tied = plays and draws.below(1500) == 0 and song != plays[-1][1]
        plays.append((plays[-1][0] if tied else begin, song))
    return plays[::-1]


def _play_times(draws: _Draws, since: int, count: int) -> list[int]:
    first, last = max(since, _seconds(2005, 2, 14)), _seconds(2009, 6, 19)
    # A session of up to 25 songs ends before the next slot begins.
    slot = 3 * 3600
    slots = (last - first) // slot
    sizes: list[int] = []
    while sum(sizes) < count:
        sizes.append(5 + draws.below(21))
    starts = sorted(draws.several([1] * slots, len(sizes)))
    times: list[int] = []
    for start, size in zip(starts, sizes, strict=True):
        clock = first + start * slot + draws.below(1800)
        for _ in range(size):
            times.append(clock)
            clock += 150 + draws.below(180)
    return times[:count]


def _play(user: str, time: str, song: Song) -> str:
    artist, track = _digest("artist", song.artist), _digest("track", song.track, song.artist)
    # About one id in twenty is empty in the sample, by name, so that it is empty wherever the name stands.
    artist_id = "" if int(artist[-8:], 16) % 20 == 0 else _mbid(artist)
    track_id = "" if int(track[-8:], 16) % 20 == 0 else _mbid(track)
    return "\t".join((user, time, artist_id, song.artist, track_id, song.track))


def _with_play_traps(blocks: dict[str, list[str]], catalogue: Sequence[Song]) -> list[str]:
    def name(number: int) -> str:
        return f"user_{number:06d}"

    def place(number: int) -> int:
        return len(blocks[name(number)]) // 2

    def played(number: int) -> str:
        return blocks[name(number)][place(number)].split("\t")[1]

    def insert(number: int, line: str) -> None:
        blocks[name(number)].insert(place(number), line)

    for number, song in zip((23, 37, 41, 62, 74, 96), _ODD_SONGS, strict=True):
        # A second after the play it stands above, so that the newest still comes first.
        time = int(datetime.fromisoformat(played(number)).timestamp()) + 1
        insert(number, _play(name(number), _stamp(time), song))
    song = catalogue[0]
    insert(14, "\t".join(_play(name(14), played(14), song).split("\t")[:5]))
    insert(52, _play(name(52), played(52), song) + "\tLive")
    insert(68, _play(name(68), "", song))
    insert(77, _play(name(77), "+0000", song))
    blocks[name(85)].append(_play(name(85), "1970-01-01T00:00:00Z", song))
    blocks[name(101)].insert(0, _play(name(101), "2013-09-29T18:32:04Z", song))
    lines = [line for block in blocks.values() for line in block]
    return [*lines, _play(name(_STRANGER), "2008-01-05T20:15:00Z", song)]


def _digest(*name: str) -> str:
    return hashlib.sha256("\t".join(name).encode("utf-8")).hexdigest()


def _mbid(digest: str) -> str:
    # Version 8 is free for own use: MusicBrainz gives version 4, so that none of these is one of theirs.
    return (
        f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{'89ab'[int(digest[16], 16) % 4]}{digest[17:20]}-{digest[20:32]}"
    )


# Both


def _seconds(year: int, month: int, day: int) -> int:
    return int((datetime(year, month, day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())


def _stamp(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _packed(content: bytes) -> bytes:
    buffer = io.BytesIO()
    # gzip.compress writes another header from Python 3.13 on.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def _unpacks_to(file: Path, content: bytes) -> bool:
    try:
        return gzip.decompress(file.read_bytes()) == content
    except (OSError, EOFError, ValueError, zlib.error):
        return False
