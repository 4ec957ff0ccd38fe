"""1,000,209 ratings in the format of MovieLens 1M: pandas' slow parser against `movielens.parse_ratings`, in one run.

pandas reads a separator of two characters with its Python engine only. The whole of `movielens.read`, with users,
films and every check, is measured beside it.
"""

import io
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow

from fairnb import seeds
from fairnb.datasets import movielens

RATINGS, USERS, FILMS = 1_000_209, 6_040, 3_883
COLUMNS = ["user_id", "item_id", "rating", "timestamp"]


def ratings() -> bytes:
    """Make as many ratings as MovieLens 1M holds, each pair of user and film once."""
    rng = seeds.generator("benchmark", "movielens")
    pairs = np.sort(rng.choice(USERS * FILMS, size=RATINGS, replace=False))
    users, films = pairs // FILMS + 1, pairs % FILMS + 1
    stars = rng.integers(1, 6, size=RATINGS)
    first, last = movielens.RELEASES["ml1m"].window
    times = rng.integers(first, last, size=RATINGS)
    rows = zip(users.tolist(), films.tolist(), stars.tolist(), times.tolist(), strict=True)
    return "".join(f"{user}::{film}::{star}::{moment}\n" for user, film, star, moment in rows).encode()


def write(folder: Path, content: bytes) -> None:
    """Write a folder that `movielens.read` takes."""
    folder.joinpath("ratings.dat").write_bytes(content)
    users = "".join(f"{user}::{'FM'[user % 2]}::25::0::12345\n" for user in range(1, USERS + 1))
    folder.joinpath("users.dat").write_text(users, "utf-8")
    films = "".join(f"{film}::Film {film}, The (1999)::Drama\n" for film in range(1, FILMS + 1))
    folder.joinpath("movies.dat").write_text(films, "utf-8")


def slow(content: bytes) -> pd.DataFrame:
    """Read with the Python engine."""
    return pd.read_csv(io.BytesIO(content), sep="::", engine="python", header=None, names=COLUMNS)


def best(function: Callable[[], object], rounds: int) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(function: Callable[[], object]) -> float:
    """Return the most memory that a call adds, in MiB: that of Python and numpy, and that of Arrow."""
    # Arrow's own memory is not seen by Python, and its highest mark counts for the whole process.
    pool = pyarrow.system_memory_pool()
    pyarrow.set_memory_pool(pool)
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most + pool.max_memory()) / 2**20


def main() -> None:
    """Print the times, their ratio and the memory, and that both give the same frame."""
    content = ratings()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, content)

        def fast() -> pd.DataFrame | None:
            return movielens.parse_ratings(content, "::")

        def whole() -> pd.DataFrame:
            return movielens.read(folder, "ml1m", published=False).interactions

        python, parse, read = best(lambda: slow(content), 1), best(fast, 5), best(whole, 3)
        expected = slow(content)
        same = expected.equals(fast()) and expected.astype({"rating": "float64"}).equals(whole())
        print(f"pandas, engine python: {python:.2f} s")
        print(f"parse_ratings: {parse:.3f} s, {python / parse:.0f} times faster (aim: 20)")
        print(f"the whole of movielens.read: {read:.3f} s, {python / read:.0f} times faster")
        print(f"peak memory: parse_ratings {peak(fast):.0f} MiB, read {peak(whole):.0f} MiB, of a file of ", end="")
        print(f"{len(content) / 2**20:.0f} MiB; the frames are equal: {same}")


if __name__ == "__main__":
    main()
