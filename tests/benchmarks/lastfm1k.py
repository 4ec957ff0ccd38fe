"""Last.fm 1K at full size, on made-up plays: pandas reading the file whole against `fairnb.datasets.lastfm`.

Each reading has a process of its own: wall time, processor time and peak memory are the child's. The first reading
checks every line and gives the plays of 80 users, with an empty cache; the second does so again.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fairnb import seeds
from fairnb.datasets import lastfm

ROWS = 19_150_868
USERS = 992
CHOSEN = [f"user_{number:06d}" for number in range(1, 961, 12)]
FIRST_DAY, DAYS = np.datetime64("2005-02-14"), 1586
TRAPS = (
    b"user_000001\t2009-05-04T23:08:57Z\tonly\tfive\tfields\n",
    b"one\tfield\tmore\tthan\tthere\tshould\tbe\n",
    b"user_000003\t1970-01-01T00:00:00Z\t\tArtist\t\tTrack\n",
    b"user_000003\t2008-01-01T00:00:00Z\t\tArtist\t\t\n",
    b"user_009999\t2008-01-01T00:00:00Z\t\tArtist\t\tTrack\n",
    b'user_000013\t2013-09-29T18:32:04Z\t\t"odd" name\t\tTrack "\n',
)
REJECTED = 5


def hexadecimal(count: int, rng: np.random.Generator) -> pa.Array:
    """Make ids like those of MusicBrainz."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[rng.integers(0, 16, (count, 36))]
    digits[:, [8, 13, 18, 23]] = ord("-")
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), count, [None, pa.py_buffer(digits)]).cast(pa.binary())


def names(count: int, longest: int, rng: np.random.Generator) -> pa.Array:
    """Make names of 4 bytes or more, an eighth of them with a letter of two bytes."""
    places = np.concatenate(([0], np.cumsum(rng.integers(4, longest, count)))).astype(np.int32)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ABCDE'\"-e a", np.uint8)
    text = letters[rng.integers(0, len(letters), places[-1])]
    text[places[:-1]] = rng.integers(ord("A"), ord("Z"), count)
    accented = rng.choice(count, count // 8, replace=False)
    text[places[accented]], text[places[accented] + 1] = 0xC3, 0xA9
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(places), pa.py_buffer(text)])


def joined(*parts: pa.Array | pa.Scalar, mark: bytes = b"\t") -> pa.Array:
    """Join texts row by row."""
    return pc.binary_join_element_wise(*parts, pa.scalar(mark, pa.binary()))


def without(share: float, ids: pa.Array, rng: np.random.Generator) -> pa.Array:
    """Blank a share of the ids."""
    return pc.if_else(pa.array(rng.random(len(ids)) < share), pa.scalar(b"", pa.binary()), ids)


def make(folder: Path, rows: int) -> None:
    """Write a profile and plays: grouped by user, newest first, favourites often, traps among them."""
    rng = seeds.generator("benchmark", "lastfm1k")
    folder.mkdir(parents=True, exist_ok=True)
    ids = [f"user_{number:06d}" for number in range(1, USERS + 1)]
    people = [f"{user}\t{'mf'[n % 2]}\t{22 + n % 40}\tJapan\tAug 13, 2006\n" for n, user in enumerate(ids)]
    header = "#id\tgender\tage\tcountry\tregistered\n"
    (folder / lastfm.PROFILE).write_text(header + "".join(people), encoding="utf-8", newline="")

    artists, tracks = max(50, min(170_000, rows // 100)), max(200, min(1_500_000, rows // 12))
    of = pa.array((artists * rng.random(tracks) ** 2).astype(np.int64))
    artist, artist_id = names(artists, 22, rng), without(0.03, hexadecimal(artists, rng), rng)
    track, track_id = names(tracks, 31, rng), without(0.11, hexadecimal(tracks, rng), rng)
    line_end = pa.scalar(b"\n", pa.binary())
    tail = joined(artist_id.take(of), artist.take(of), track_id, joined(track, line_end, mark=b""))
    day = pa.array([str(FIRST_DAY + number).encode() for number in range(DAYS)])
    clock = pa.array([b"T%02d:%02d:%02dZ" % (s // 3600, s // 60 % 60, s % 60) for s in range(86_400)])

    activity = rng.pareto(1.3, USERS) + 0.05
    counts = rng.multinomial(rows - len(TRAPS), np.minimum(activity, 40) / np.minimum(activity, 40).sum())
    with (folder / lastfm.PLAYS).open("wb") as file:
        for number, count in enumerate(counts.tolist()):
            own = rng.integers(0, tracks, max(20, count // 3))
            picked = pa.array(own[(len(own) * rng.random(count) ** 2).astype(int)])
            moments = np.sort(rng.integers(0, DAYS * 86_400, count))[::-1]
            times = joined(day.take(pa.array(moments // 86_400)), clock.take(pa.array(moments % 86_400)), mark=b"")
            lines = joined(pa.scalar(ids[number].encode()), times, tail.take(picked))
            if count:
                file.write(lines.buffers()[2])
            if number % 100 == 50 and number // 100 < len(TRAPS):
                file.write(TRAPS[number // 100])


def with_pandas(folder: Path) -> dict[str, int]:
    """Read the whole file as one would without thinking of it."""
    frame = pd.read_csv(folder / lastfm.PLAYS, sep="\t", header=None, quoting=3, on_bad_lines="skip")
    return {"rows": len(frame)}


def with_fairnb(folder: Path) -> dict[str, int]:
    """Read the plays of 80 users, and from them how often and when last each user played each song."""
    data = lastfm.read(folder, CHOSEN, cache=folder / "cache")
    plays = data.interactions.groupby(["user_id", "item_id"])["timestamp"].agg(["size", "max"])
    facts = data.files[1]
    if facts.rejected != REJECTED or plays["size"].sum() != len(data.interactions):
        raise SystemExit(f"{facts}: expected {REJECTED} rejects and {len(data.interactions):,} plays")
    return {"rows": len(data.interactions), "items": len(data.items), "rejected": facts.rejected}


READINGS: dict[str, Callable[[Path], dict[str, int]]] = {
    "pandas": with_pandas,
    "first": with_fairnb,
    "second": with_fairnb,
}


def measure(name: str, folder: Path) -> dict[str, float]:
    """Run one reading in a process of its own."""
    command = [sys.executable, __file__, "--child", name, "--keep", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    print(
        f"{name:>7}: {figures['wall']:6.2f} s ({figures['processor']:.2f} s of the processor), "
        f"peak {figures['peak']:.2f} GiB, {figures['rows']:,.0f} rows",
        flush=True,
    )
    return figures


def child(name: str, folder: Path) -> None:
    """Run one reading here, and print what it took."""
    start = time.perf_counter()
    figures: dict[str, float] = {**READINGS[name](folder)}
    figures["wall"] = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    figures["processor"] = usage.ru_utime + usage.ru_stime
    # In kilobytes, but on macOS in bytes.
    figures["peak"] = usage.ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    print(json.dumps(figures))


def run(folder: Path, rows: int, rounds: int) -> None:
    """Make the file unless it is there, and compare the readings."""
    if not (folder / lastfm.PLAYS).is_file():
        # In a process of its own as well: a child's peak memory is never below what its parent has used.
        command = [sys.executable, __file__, "--child", "make", "--keep", str(folder), "--rows", str(rows)]
        subprocess.run(command, check=True)
    print(f"{(folder / lastfm.PLAYS).stat().st_size / 1e9:.2f} GB of plays; the best of {rounds} rounds counts")
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for file in (folder / "cache").glob("*.parquet"):
            file.unlink()
        for name in ("pandas", "first", "second"):
            figures = measure(name, folder)
            best[name] = min(best.get(name, figures), figures, key=lambda each: each["wall"])
    pandas, first, second = best["pandas"], best["first"], best["second"]
    print(f"first reading: {first['wall'] / pandas['wall']:.2f} of pandas' time (aim: at most 0.50)")
    print(f"first reading: {first['peak'] / pandas['peak']:.2f} of pandas' peak memory (aim: at most 0.25)")
    print(f"second reading: {second['wall'] / first['wall']:.3f} of the first's time (aim: at most 0.100)")
    print(f"peak memory: {max(first['peak'], second['peak']):.2f} GiB (aim: at most 1.00)")


def main() -> None:
    """Make the file, in a temporary folder if no other is named, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="lines of the file that is made")
    parser.add_argument("--keep", type=Path, help="folder for the file; it is used again if it is there")
    parser.add_argument("--rounds", type=int, default=2, help="readings of each kind")
    parser.add_argument("--child", choices=["make", *READINGS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "make":
        make(options.keep, options.rows)
    elif options.child:
        child(options.child, options.keep)
    elif options.keep:
        run(options.keep, options.rows, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), options.rows, options.rounds)


if __name__ == "__main__":
    main()
