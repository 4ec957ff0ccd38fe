"""The bundled sample: made from the catalogues and the seed alone, awkward where it says so, and as distributed as it says."""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import pytest

from fairnb.datasets import sample
from fairnb.datasets.loading import open_raw
from fairnb.datasets.sample import MOVIES_DAT, PLAYS_TSV_GZ, PROFILE_TSV, RATINGS_DAT, TRAPS, USERS_DAT
from fairnb.errors import DataError
from fairnb.titles import match_key, names, split_year

FOLDER = Path(__file__).resolve().parents[1] / "data" / "sample"
AGE_CODES = {"1", "18", "25", "35", "45", "50", "56"}
FIRST_PLAY, LAST_PLAY = "2005-02-14T00:00:00Z", "2009-06-19T23:59:59Z"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MBID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
ARTICLE = re.compile(r", (?:The|A|An|Le|La|Les|Un|El|Los|Il|Lo|Der|Das|Die|Det|L')$")
MADE_UP = {"NULL", "nan", "The Made-Up Sample", '"Odd Sample'}
HEAVY = 5_000


@pytest.fixture(scope="module")
def built() -> dict[str, bytes]:
    return sample.build()


@pytest.fixture(scope="module")
def other() -> dict[str, bytes]:
    return sample.build(7)


def unpacked(content: dict[str, bytes]) -> dict[str, bytes]:
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in content.items()}


def rows(content: dict[str, bytes], name: str, separator: str, encoding: str = "utf-8") -> list[list[str]]:
    # Not splitlines: a carriage return is for the tests to find.
    data = content[name]
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode(encoding)
    assert text.endswith("\n")
    return [line.split(separator) for line in text.removesuffix("\n").split("\n")]


def users(content: dict[str, bytes]) -> dict[str, list[str]]:
    return {row[0]: row for row in rows(content, USERS_DAT, "::", "ascii")}


def movies(content: dict[str, bytes]) -> dict[str, list[str]]:
    return {row[0]: row for row in rows(content, MOVIES_DAT, "::", "latin-1")}


def ratings(content: dict[str, bytes]) -> list[list[str]]:
    """The ratings that a reader should keep."""
    known, films = users(content), movies(content)
    lines = [
        [*row[:3], row[3].removesuffix("\r")]
        for row in rows(content, RATINGS_DAT, "::", "ascii")
        if len(row) == 4 and row[0] in known and row[1] in films and row[2] in set("12345") and row[3] != "0"
    ]
    return [list(row) for row in dict.fromkeys(map(tuple, lines))]


def profile(content: dict[str, bytes]) -> dict[str, list[str]]:
    return {row[0]: row for row in rows(content, PROFILE_TSV, "\t")[1:] if len(row) == 5}


def plays(content: dict[str, bytes]) -> list[list[str]]:
    """The plays that a reader should keep."""
    known = profile(content)
    return [
        row
        for row in rows(content, PLAYS_TSV_GZ, "\t")
        if len(row) == 6 and row[0] in known and STAMP.fullmatch(row[1]) and row[1] >= "1971"
    ]


# The files


def test_the_bundled_files_are_what_the_catalogues_and_the_seed_make(built):
    bundled = {
        file.relative_to(FOLDER).as_posix(): file.read_bytes()
        for file in FOLDER.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }
    assert set(bundled) == set(built) == {USERS_DAT, MOVIES_DAT, RATINGS_DAT, PROFILE_TSV, PLAYS_TSV_GZ}
    assert {n: d for n, d in unpacked(bundled).items() if d != unpacked(built)[n]} == {}


def test_the_bundled_files_take_at_most_three_megabytes():
    size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    assert 1_000_000 < size <= 3_000_000


def test_the_packed_file_holds_no_time_and_no_name(built):
    # Flags and time of the header, RFC 1952.
    assert built[PLAYS_TSV_GZ][:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"


def test_another_seed_gives_other_people_and_interactions_of_the_same_films_and_songs(built, other):
    assert built[MOVIES_DAT] == other[MOVIES_DAT]
    for name in (USERS_DAT, RATINGS_DAT, PROFILE_TSV, PLAYS_TSV_GZ):
        one, two = unpacked(built)[name].split(b"\n"), unpacked(other)[name].split(b"\n")
        assert len(set(one) & set(two)) < 0.1 * len(one), name


def test_a_user_depends_on_no_other_user(built):
    # The last user alone is the last user among all.
    catalogue = sorted(sample.films(), key=lambda film: sample._digest("film", film.title, str(film.year)))
    root = sample.ROOT_SEED
    viewer = sample._viewers(root)[-1]
    alone = sample._ratings_of(root, viewer, catalogue, sample._film_appeal(root, catalogue))
    among = [row for row in ratings(built) if row[0] == "240"]
    assert [(str(rating), str(time)) for _, rating, time in alone] == [(row[2], row[3]) for row in among]


def test_write_makes_the_files_and_names_them(tmp_path, built, monkeypatch):
    monkeypatch.setattr(sample, "build", lambda: built)
    written = sample.write(tmp_path / "new")
    assert [file.relative_to(tmp_path / "new").as_posix() for file in written] == list(built)
    assert {name: (tmp_path / "new" / name).read_bytes() for name in built} == built


def test_write_leaves_a_file_that_another_zlib_packed_and_mends_a_damaged_one(tmp_path, built, monkeypatch):
    monkeypatch.setattr(sample, "build", lambda: built)
    sample.write(tmp_path)
    packed = tmp_path / PLAYS_TSV_GZ
    elsewhere = gzip.compress(gzip.decompress(built[PLAYS_TSV_GZ]), compresslevel=1, mtime=5)
    packed.write_bytes(elsewhere)
    sample.write(tmp_path)
    assert packed.read_bytes() == elsewhere
    wrong = gzip.compress(b"user_000001\n")
    damaged = bytearray(elsewhere)
    damaged[len(damaged) // 2 : len(damaged) // 2 + 50] = bytes(50)
    for content in (elsewhere[:-100], bytes(damaged), b"", b"text", wrong):
        packed.write_bytes(content)
        sample.write(tmp_path)
        assert packed.read_bytes() == built[PLAYS_TSV_GZ]


# The catalogues


def test_films_are_many_and_each_stands_once():
    films = sample.films()
    assert len(films) >= 520
    assert [film for film, n in Counter((film.title.casefold(), film.year) for film in films).items() if n > 1] == []
    assert {genre for film in films for genre in film.genres} == set(sample.GENRES)
    assert all(len(set(film.genres)) == len(film.genres) for film in films)
    assert min(film.year for film in films) == 1925
    assert max(film.year for film in films) == 2000
    assert sum(film.alternate != "" for film in films) >= 25
    decades = Counter(film.year // 10 for film in films)
    assert all(decades[decade] >= 40 for decade in range(193, 200))


def test_films_hold_what_matching_stumbles_over():
    films = sample.films()
    years = defaultdict(set)
    for film in films:
        years[film.title].add(film.year)
    assert years["Psycho"] == {1960, 1998}
    assert years["The Mummy"] == {1932, 1999}
    assert sum(len(found) > 1 for found in years.values()) >= 10
    titles = set(years)
    assert {"Toy Story", "Toy Story 2", "Alien", "Aliens", "M", "It", "Z", "Heat", "Dead Heat"} <= titles
    assert {"Les Misérables", "Léon", "À bout de souffle", "2001: A Space Odyssey", "12 Angry Men"} <= titles
    for mark in (":", ", ", " & ", "/", "!", "?", ".", "'", "-", "½", "³", "+", "*", "..."):
        assert any(mark in title for title in titles), mark
    assert any(title.startswith("Dr.") for title in titles)
    assert any(title.startswith("E.T.") for title in titles)


def test_songs_are_many_and_each_stands_once():
    songs = sample.songs()
    assert len(songs) >= 420
    keys = Counter((song.track.casefold(), song.artist.casefold()) for song in songs)
    assert [song for song, n in keys.items() if n > 1] == []
    assert len({song.artist for song in songs}) >= 180
    assert {song.genre for song in songs} == set(sample.SONG_GENRES)
    assert min(song.year for song in songs) >= 1955
    assert max(song.year for song in songs) <= 2009


def test_songs_hold_what_matching_stumbles_over():
    artists = defaultdict(set)
    for song in sample.songs():
        artists[song.track].add(song.artist)
    assert {"Johnny Cash", "Nine Inch Nails"} == artists["Hurt"]
    assert {"Radiohead", "TLC", "Stone Temple Pilots"} == artists["Creep"]
    assert artists["Creep (Acoustic)"] == {"Radiohead"}
    everyone = set().union(*artists.values())
    assert {"Кино", "椎名林檎", "坂本龍一", "Sigur Rós", "Björk", "Beyoncé", "!!!", "AC/DC", "P!nk"} <= everyone
    assert {'Johnny "Hammond" Smith', '"Weird Al" Yankovic'} <= everyone


@pytest.mark.parametrize("name", ["films.tsv", "songs.tsv"])
def test_catalogues_are_plain_utf8(name):
    content = (Path(sample.__file__).parent / "catalogue" / name).read_bytes()
    assert b"\r" not in content
    assert not content.startswith(b"\xef\xbb\xbf")
    assert content.endswith(b"\n")
    assert not content.endswith(b"\n\n")
    text = content.decode("utf-8")
    cells = [cell for line in text.split("\n") for cell in line.split("\t")]
    assert [cell for cell in cells if cell != cell.strip() or "  " in cell or "::" in cell or "\ufffd" in cell] == []


HEADS = {"films": "title\tyear\tgenres\talternate\n", "songs": "track\tartist\tgenre\tyear\n"}


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("films", "title\tyear\tgenre\talternate\nM\t1931\tCrime\t\n", r"films.tsv, line 1: expected title, year"),
        ("films", HEADS["films"] + "M\t1931\tCrime\n", r"films.tsv, line 2: expected title, year"),
        ("films", HEADS["films"] + "M\t1931\tCrime\t\n\t1931\tCrime\t\n", r"films.tsv, line 3"),
        ("films", HEADS["films"] + "M\t31\tCrime\t\n", r"films.tsv, line 2: year '31'"),
        ("films", HEADS["films"] + "M\t1931\tCrime|Noir\t\n", r"films.tsv, line 2: genre 'Noir'"),
        ("films", HEADS["films"], r"films.tsv: no rows"),
        ("films", "", r"films.tsv: no rows"),
        ("songs", HEADS["songs"] + "One\tU2\tdubstep\t1991\n", r"songs.tsv, line 2: genre 'dubstep'"),
        ("songs", HEADS["songs"] + "One\tU2\trock\tnineteen\n", r"songs.tsv, line 2: year 'nineteen'"),
    ],
)
def test_a_damaged_catalogue_is_told_in_one_line(tmp_path, monkeypatch, kind, text, message):
    (tmp_path / "catalogue").mkdir()
    (tmp_path / "catalogue" / f"{kind}.tsv").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sample, "files", lambda package: tmp_path)
    with pytest.raises(DataError, match=message) as error:
        getattr(sample, kind).__wrapped__()
    assert "\n" not in str(error.value)
    assert "install" in str(error.value)


# MovieLens 1M, field by field


def test_users_parse(built):
    table = rows(built, USERS_DAT, "::", "ascii")
    assert [row[0] for row in table] == [str(number) for number in range(1, 241)]
    for _, gender, age, occupation, zip_code in table:
        assert gender in {"F", "M"}
        assert age in AGE_CODES
        assert occupation in {str(code) for code in range(21)}
        assert re.fullmatch(r"\d{5}(-\d{4})?", zip_code)


def test_movies_parse_and_their_names_come_back(built):
    table = rows(built, MOVIES_DAT, "::", "latin-1")
    numbers = [int(row[0]) for row in table]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    assert 1.02 * len(numbers) < numbers[-1] < 1.2 * len(numbers)
    films = {(film.title.casefold(), film.year): film for film in sample.films()}
    for row in table[:-1]:
        _, title, genres = row
        name, year = split_year(title)
        first, *rest = names(name)
        film = films.pop((first.casefold(), year))
        assert "|".join(film.genres) == genres
        assert [alternate.casefold() for alternate in rest] == [film.alternate.casefold()] * bool(film.alternate)
        assert match_key(first) == match_key(film.title)
    assert films == {}


def test_titles_are_written_as_catalogues_write_them(built):
    titles = {row[1] for row in movies(built).values()}
    assert {
        "Matrix, The (1999)",
        "Boot, Das (1981)",
        "Affair to Remember, An (1957)",
        "Postino, Il (The Postman) (1994)",
        "Invitation, The (Zaproszenie) (1986)",
        "Life Is Beautiful (Vita è bella, La) (1997)",
        "Wings of Desire (Himmel über Berlin, Der) (1987)",
        "Avventura, L' (1960)",
        "Straniero, Lo (The Stranger) (1967)",
        "Chien andalou, Un (An Andalusian Dog) (1929)",
        "Misérables, Les (1998)",
        "À bout de souffle (Breathless) (1960)",
        "Die Hard (1988)",
        "El Dorado (1966)",
        "O Brother, Where Art Thou? (2000)",
        "As Good as It Gets (1997)",
        "1900 (Novecento) (1976)",
        "8½ (Otto e mezzo) (1963)",
        "Face/Off (1997)",
    } <= titles


def test_ratings_parse(built):
    kept = ratings(built)
    first, last = datetime(2000, 4, 26, tzinfo=UTC).timestamp(), datetime(2003, 3, 1, tzinfo=UTC).timestamp()
    assert all(first <= int(row[3]) < last for row in kept)
    assert max(int(row[3]) for row in kept) > datetime(2002, 1, 1, tzinfo=UTC).timestamp()
    pairs = Counter((row[0], row[1]) for row in kept)
    assert set(pairs.values()) == {1}
    order = [int(row[0]) for row in kept]
    assert order == sorted(order)


@pytest.mark.parametrize("seed", ["built", "other"])
def test_ratings_of_a_user_are_in_sessions_and_not_in_order_of_time(seed, request):
    times = defaultdict(list)
    for row in ratings(request.getfixturevalue(seed)):
        times[row[0]].append(int(row[3]))
    assert all(moments != sorted(moments) for moments in times.values())
    gaps = [b - a for moments in times.values() for a, b in pairwise(sorted(moments))]
    assert 0.2 < gaps.count(0) / len(gaps) < 0.4
    assert 0.95 < sum(gap <= 60 for gap in gaps) / len(gaps) < 0.995
    returned = [max(moments) - min(moments) > 86_400 for moments in times.values()]
    assert 0.35 < mean(returned) < 0.75


# MovieLens 1M, as distributed as the description says


@pytest.mark.parametrize("seed", ["built", "other"])
def test_viewers_are_distributed_as_described(seed, request):
    table = users(request.getfixturevalue(seed)).values()
    assert len(table) == 240
    assert 0.26 < mean(row[1] == "F" for row in table) < 0.30
    shares = {code: mean(row[2] == code for row in table) for code in AGE_CODES}
    assert 0.02 < shares["1"] < 0.06
    assert 0.3 < shares["25"] < 0.4
    assert shares["18"] > shares["45"] > shares["56"] > shares["1"]
    assert len({row[3] for row in table}) == 21
    # Both attributes at once, or an intersectional table would have empty cells.
    groups = Counter((row[1], int(row[2]) > 25) for row in table)
    assert min(groups.values()) >= 20


@pytest.mark.parametrize("seed", ["built", "other"])
def test_ratings_are_distributed_as_described(seed, request):
    kept = ratings(request.getfixturevalue(seed))
    assert 23_000 < len(kept) < 28_000
    counts = sorted(Counter(row[0] for row in kept).values())
    assert len(counts) == 240
    assert counts[0] >= 20
    assert counts[-8] > 400
    assert counts[-1] < 500
    assert sum(count < 50 for count in counts) == 24
    assert sum(50 <= count <= 300 for count in counts) >= 200
    assert 1.1 * median(counts) < mean(counts) < 1.6 * median(counts)
    stars = [int(row[2]) for row in kept]
    assert 3.45 < mean(stars) < 3.75
    shares = [stars.count(star) / len(stars) for star in range(1, 6)]
    assert all(share > 0.015 for share in shares)
    assert shares[3] == max(shares)
    assert shares[0] == min(shares)


@pytest.mark.parametrize("seed", ["built", "other"])
def test_few_films_hold_much_of_the_ratings_and_most_films_hold_some(seed, request):
    counts = sorted(Counter(row[1] for row in ratings(request.getfixturevalue(seed))).values(), reverse=True)
    catalogue = len(sample.films())
    assert 0.9 * catalogue < len(counts) <= catalogue
    tenth = sum(counts[: catalogue // 10]) / sum(counts)
    assert 0.35 < tenth < 0.55
    assert 120 < counts[0] < 230
    assert 4 < median(counts) < 25


@pytest.mark.parametrize("seed", ["built", "other"])
def test_films_seen_differ_moderately_between_groups(seed, request):
    content = request.getfixturevalue(seed)
    people, films = users(content), movies(content)
    seen = [(people[row[0]], films[row[1]][2].split("|")) for row in ratings(content)]

    def ratio(genre: str, *groups: Callable[[list[str]], bool]) -> float:
        one, two = (mean(genre in genres for user, genres in seen if group(user)) for group in groups)
        return one / two

    def female(row: list[str]) -> bool:
        return row[1] == "F"

    def male(row: list[str]) -> bool:
        return row[1] == "M"

    def young(row: list[str]) -> bool:
        return int(row[2]) <= 18

    def old(row: list[str]) -> bool:
        return int(row[2]) >= 45

    assert 1.15 < ratio("Romance", female, male) < 1.8
    assert 1.15 < ratio("Musical", female, male) < 2.4
    assert 1.15 < ratio("Action", male, female) < 1.9
    assert 1.15 < ratio("Sci-Fi", male, female) < 2.2
    assert 1.3 < ratio("Horror", young, old) < 4
    assert 1.3 < ratio("Western", old, young) < 6
    assert 0.85 < ratio("Comedy", female, male) < 1.15


@pytest.mark.parametrize("seed", ["built", "other"])
def test_a_rating_depends_on_the_film_and_on_the_group_s_taste(seed, request):
    content = request.getfixturevalue(seed)
    people, films, kept = users(content), movies(content), ratings(content)

    men_s, women_s = {"Action", "War", "Sci-Fi", "Western"}, {"Romance", "Musical", "Drama"}

    def stars(who: str, genres: set[str]) -> float:
        return mean(
            int(row[2])
            for row in kept
            if people[row[0]][1] == who and not genres.isdisjoint(films[row[1]][2].split("|"))
        )

    # Each beside the same users' other films, since some users are milder judges than others.
    assert 0.1 < stars("M", men_s) - stars("M", women_s) - stars("F", men_s) + stars("F", women_s) < 0.8
    by_film = defaultdict(list)
    for row in kept:
        by_film[row[1]].append(int(row[2]))
    means = [mean(stars) for stars in by_film.values() if len(stars) >= 60]
    assert len(means) > 50
    assert 0.3 < max(means) - min(means) < 2


# Last.fm 1K, field by field


def test_the_profile_parses(built):
    table = rows(built, PROFILE_TSV, "\t")
    assert table[0] == ["#id", "gender", "age", "country", "registered"]
    assert [row[0] for row in table[1:]] == [f"user_{number:06d}" for number in range(1, 122)]
    for _, gender, age, country, registered in profile(built).values():
        assert gender in {"m", "f", ""}
        assert re.fullmatch(r"|-1|\d{1,3}", age)
        assert country == country.strip()
        assert not registered or 2004 <= datetime.strptime(registered, "%b %d, %Y").replace(tzinfo=UTC).year <= 2009


def test_plays_parse(built):
    known = {(song.artist, song.track) for song in sample.songs()}
    ids: dict[tuple[str, ...], set[str]] = defaultdict(set)
    late = 0
    for user, time, artist_id, artist, track_id, track in plays(built):
        assert re.fullmatch(r"user_000\d\d\d", user)
        late += time > LAST_PLAY
        assert time >= FIRST_PLAY
        assert not artist_id or MBID.fullmatch(artist_id)
        assert not track_id or MBID.fullmatch(track_id)
        assert (artist, track) in known or artist in MADE_UP
        ids["artist", artist].add(artist_id)
        ids["track", artist, track].add(track_id)
    assert late == 1
    # One id a name, so that a reader may key by either; no id for two names.
    assert {key: found for key, found in ids.items() if len(found) > 1} == {}
    given = Counter(found for (found,) in ids.values() if found)
    assert set(given.values()) == {1}


def test_the_newest_play_of_a_user_stands_first(built):
    times = defaultdict(list)
    for row in plays(built):
        times[row[0]].append(row[1])
    assert all(moments == sorted(moments, reverse=True) for moments in times.values())
    assert list(times) == sorted(times)


# Last.fm 1K, as distributed as the description says


@pytest.mark.parametrize("seed", ["built", "other"])
def test_listeners_are_distributed_as_described(seed, request):
    table = list(profile(request.getfixturevalue(seed)).values())
    assert len(table) == 120
    genders = Counter(row[1] for row in table)
    assert 0.09 < genders[""] / 120 < 0.15
    assert 0.55 < genders["m"] / (genders["m"] + genders["f"]) < 0.61
    ages = [int(row[2]) for row in table if row[2] and 5 <= int(row[2]) <= 99]
    assert len(ages) == 93
    assert 23 < mean(ages) < 27
    assert min(ages) >= 14
    assert 40 < max(ages) < 60
    groups = Counter((row[1], int(row[2]) > 24) for row in table if row[1] and row[2] and 5 <= int(row[2]) <= 99)
    assert len(groups) == 4
    assert min(groups.values()) >= 8
    countries = Counter(row[3] for row in table)
    assert 18 <= len(countries) <= 40
    assert countries["United States"] == max(countries.values())


@pytest.mark.parametrize("seed", ["built", "other"])
def test_plays_are_distributed_as_described(seed, request):
    kept = plays(request.getfixturevalue(seed))
    counts = sorted(Counter(row[0] for row in kept).values())
    assert len(counts) == 120
    assert 45_000 < len(kept) < 60_000
    assert sum(count < 50 for count in counts) == 6
    assert sum(count > 10_000 for count in counts) == 2
    assert sum(100 <= count <= 802 for count in counts) == 112
    songs = defaultdict(set)
    for row in kept:
        songs[row[0]].add((row[3], row[5]))
    distinct = sorted(len(found) for found in songs.values())
    # The odd songs come on top of what a user knows.
    assert all(60 <= number <= 152 for number in distinct[6:])
    assert 75 < median(distinct) < 115
    listeners = sorted(Counter(song for found in songs.values() for song in found).values(), reverse=True)
    assert 0.28 < sum(listeners[: len(listeners) // 10]) / sum(listeners) < 0.5
    blank = {(row[3], row[5]) for row in kept if not row[2] or not row[4]}
    everything = set().union(*songs.values())
    assert 0.03 < len(blank) / len(everything) < 0.15


@pytest.mark.parametrize("seed", ["built", "other"])
def test_users_hear_favourites_again_and_listen_in_sessions(seed, request):
    by_user = defaultdict(list)
    for row in plays(request.getfixturevalue(seed)):
        by_user[row[0]].append(row)
    usual = [table for table in by_user.values() if 100 <= len(table) < HEAVY]
    top = [Counter((row[3], row[5]) for row in table).most_common(10) for table in usual]
    shares = [sum(n for _, n in songs) / len(table) for songs, table in zip(top, usual, strict=True)]
    assert 0.25 < mean(shares) < 0.7
    moments = [[datetime.fromisoformat(row[1]).timestamp() for row in reversed(table)] for table in usual]
    gaps = [b - a for times in moments for a, b in pairwise(times)]
    assert 0.85 < sum(gap < 400 for gap in gaps) / len(gaps) < 0.98
    spans = [(times[-1] - times[0]) / 86_400 for times in moments]
    assert median(spans) > 180


@pytest.mark.parametrize("seed", ["built", "other"])
def test_songs_heard_differ_moderately_between_groups(seed, request):
    content = request.getfixturevalue(seed)
    people = profile(content)
    genres = {(song.artist, song.track): song.genre for song in sample.songs()}
    by_user: dict[str, list[str]] = defaultdict(list)
    for row in plays(content):
        by_user[row[0]].append(genres.get((row[3], row[5]), ""))

    def share(gender: str, kinds: set[str]) -> float:
        return mean(mean(g in kinds for g in heard) for u, heard in by_user.items() if people[u][1] == gender)

    assert 1.2 < share("f", {"pop", "soul"}) / share("m", {"pop", "soul"}) < 3
    assert 1.2 < share("m", {"metal", "hip-hop"}) / share("f", {"metal", "hip-hop"}) < 4


# The traps


def single(found: list[list[str]]) -> list[str]:
    assert len(found) == 1
    return found[0]


def same_second(table: list[list[str]]) -> int:
    return sum(a[:2] == b[:2] and len(a) == len(b) == 6 and a[3:6:2] != b[3:6:2] for a, b in pairwise(table))


def counted(content: dict[str, bytes]) -> dict[tuple[str, str], int]:
    """How many lines there are of each trap, found by what they hold."""
    found: dict[tuple[str, str], int] = {}
    viewers = rows(content, USERS_DAT, "::", "ascii")
    films = rows(content, MOVIES_DAT, "::", "latin-1")
    titles = [row[1] for row in films]
    rated = rows(content, RATINGS_DAT, "::", "ascii")
    people = rows(content, PROFILE_TSV, "\t")[1:]
    full = [row for row in people if len(row) == 5]
    heard = rows(content, PLAYS_TSV_GZ, "\t")
    six = [row for row in heard if len(row) == 6]
    known_users, known_films = {row[0] for row in viewers}, {row[0] for row in films}
    checks = {
        USERS_DAT: [
            ("age code 1,", sum(row[2] == "1" for row in viewers)),
            ("age code 56", sum(row[2] == "56" for row in viewers)),
            ("zip code", sum("-" in row[4] for row in viewers)),
            ("occupation 0", sum(row[3] == "0" for row in viewers)),
        ],
        MOVIES_DAT: [
            ("letters beyond ASCII", sum(not title.isascii() for title in titles)),
            ("article behind", sum(bool(ARTICLE.search(title.split(" (")[0])) for title in titles)),
            ("second name", sum(title.count("(") == 2 for title in titles)),
            ("colon in a title", sum(":" in title for title in titles)),
            ("no genres field", sum(len(row) == 2 for row in films)),
        ],
        RATINGS_DAT: [
            ("three fields", sum(len(row) == 3 for row in rated)),
            ("five fields", sum(len(row) == 5 for row in rated)),
            ("rating 9", sum(row[2:3] == ["9"] for row in rated)),
            ("film that", sum(len(row) == 4 and row[1] not in known_films for row in rated)),
            ("user who", sum(len(row) == 4 and row[0] not in known_users for row in rated)),
            ("exact repeat", sum(n - 1 for n in Counter(map(tuple, rated)).values())),
            ("timestamp 0", sum(row[3:] == ["0"] for row in rated)),
            ("blank line", sum(row == [""] for row in rated)),
            ("Windows", sum(row[-1].endswith("\r") for row in rated)),
        ],
        PROFILE_TSV: [
            ("gender empty", sum(row[1] == "" for row in full)),
            ("age empty", sum(row[2] == "" for row in full)),
            *[(f"age {age}", sum(row[2] == age for row in full)) for age in ("-1", "107", "0")],
            ("all four", sum(row[1:] == [""] * 4 for row in full)),
            ("country NA", sum(row[3] == "NA" for row in full)),
            ("country Namibia", sum(row[3] == "Namibia" for row in full)),
            ("four fields", sum(len(row) == 4 for row in people)),
        ],
        PLAYS_TSV_GZ: [
            ("five fields", sum(len(row) == 5 for row in heard)),
            ("seven fields", sum(len(row) == 7 for row in heard)),
            ("empty time", sum(row[1] == "" for row in six)),
            ("time that is a zone", sum(row[1] == "+0000" for row in six)),
            ("time 1970", sum(row[1] == "1970-01-01T00:00:00Z" for row in six)),
            ("user who", sum(row[0] not in {person[0] for person in people} for row in six)),
            ("time in 2013", sum(row[1].startswith("2013") for row in six)),
            *[(f"artist {name} ", sum(row[3] == name for row in six)) for name in ("NULL", "nan")],
            *[(f"track {name} ", sum(row[5] == name for row in six)) for name in ("None", "NA", "n/a")],
            ("artist with one", sum(row[3].startswith('"') and row[3].count('"') == 1 for row in six)),
            ("second of two", same_second(heard)),
            ("artist id", sum(row[2] == "" for row in six)),
            ("track id", sum(row[4] == "" for row in six)),
        ],
    }
    for file, pairs in checks.items():
        for start, number in pairs:
            trap = next(trap for trap in TRAPS if trap.file == file and trap.what.startswith(start))
            found[file, trap.what] = number
    return found


def test_every_trap_is_there_as_often_as_it_says(built):
    told = {(trap.file, trap.what): trap.lines for trap in TRAPS}
    assert len(told) == len(TRAPS)
    assert counted(built) == told


def test_no_trap_depends_on_the_seed_to_be_there(other):
    found = counted(other)
    assert [key for key, number in found.items() if number == 0] == []
    rejected = [trap for trap in TRAPS if trap.fate == "reject"]
    assert {found[trap.file, trap.what] for trap in rejected} == {1}


def test_rejects_account_for_every_line_that_is_not_kept(built):
    for file, kept, all_lines in (
        (RATINGS_DAT, ratings(built), rows(built, RATINGS_DAT, "::", "ascii")),
        (PLAYS_TSV_GZ, plays(built), rows(built, PLAYS_TSV_GZ, "\t")),
        (PROFILE_TSV, list(profile(built)), rows(built, PROFILE_TSV, "\t")[1:]),
        (MOVIES_DAT, sample.films(), rows(built, MOVIES_DAT, "::", "latin-1")),
    ):
        lost = sum(trap.lines for trap in TRAPS if trap.file == file and trap.fate in {"reject", "ignored"})
        assert len(all_lines) - len(kept) == lost > 0, file
        assert lost < 0.05 * len(all_lines)


def test_traps_name_their_files_and_fates(built):
    assert {trap.file for trap in TRAPS} == set(built)
    assert {trap.fate for trap in TRAPS} == {"reject", "kept", "missing", "ignored"}


def test_only_files_meant_to_be_latin_1_or_unicode_hold_more_than_ascii(built):
    texts = unpacked(built)
    assert [name for name, data in texts.items() if not data.isascii()] == [MOVIES_DAT, PLAYS_TSV_GZ]
    with pytest.raises(UnicodeDecodeError):
        texts[MOVIES_DAT].decode("utf-8")
    assert "椎名林檎" in texts[PLAYS_TSV_GZ].decode("utf-8")


def test_broken_lines_stand_inside_a_user_and_would_be_good_ones_otherwise(built):
    table = rows(built, RATINGS_DAT, "::", "ascii")
    known, films = users(built), movies(built)
    for row in ([r for r in table if len(r) in {3, 5}], [r for r in table if r[2:3] == ["9"]]):
        assert all(r[0] in known and r[1] in films for r in row)
    for bad in [r for r in table if len(r) in {3, 5}]:
        place = table.index(bad)
        assert table[place - 1][0] == table[place + 1][0] == bad[0]
    unknown = single([r for r in table if len(r) == 4 and r[0] not in known])
    assert unknown[1] in films
    assert unknown[2] in set("12345")


@pytest.mark.parametrize("name", ["sample-films", "sample-songs"])
def test_readers_give_each_trap_its_fate(name):
    raw = open_raw(name)
    rejected = raw.remarks[~raw.remarks["kept"]].groupby("file").size().to_dict()
    folder = raw.folder.name
    told = {}
    for trap in TRAPS:
        if trap.file.startswith(f"{folder}/") and trap.fate == "reject":
            file = trap.file.rsplit("/", 1)[1]
            told[file] = told.get(file, 0) + trap.lines
    assert rejected == told
    for facts in raw.facts:
        assert facts.rejected == told.get(facts.file, 0)
    missing = sum(trap.lines for trap in TRAPS if trap.file.startswith(f"{folder}/") and trap.fate == "missing")
    assert (raw.users[["gender", "age"]].isna().any(axis=None)) == (missing > 0)


def test_made_up_names_and_the_odd_date_are_read_as_they_stand():
    data = open_raw("sample-songs").read()
    assert {"NULL", "nan", '"Odd Sample'} <= set(data.items["artist"])
    assert {"None", "NA", "n/a"} <= set(data.items["title"])
    assert {"NA", "Namibia"} <= set(data.users["country"].dropna())
    assert data.remarks["reason"].str.contains("2013-").sum() == 1
