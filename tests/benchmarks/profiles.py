"""Profiles and the prompts of all 72 conditions: seconds for 80 users, and whether they grow with the users only.

On MovieLens 1M where the folder `shared` is beside the checkout: the author's split, and draws of 80, 400 and all
671 users of the excerpt. Else on made-up data of the same size.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd

from fairnb import profiles, prompts, seeds
from fairnb.datasets import movielens, released
from fairnb.datasets.dataset import Dataset
from fairnb.datasets.loading import CARDS, Raw

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SIZES = (80, 400, 671)
ROUNDS = 3
# Ratings per user: those of the excerpt.
RATINGS = 145


def made_up() -> Dataset:
    """Make 671 users of two genders and seven ages, with ratings."""
    rng = seeds.generator("benchmark", "profiles")
    user_ids, films = np.arange(1, SIZES[-1] + 1), np.arange(1, 3_884)
    seen = np.concatenate([rng.choice(films, size=RATINGS, replace=False) for _ in user_ids])
    interactions = pd.DataFrame(
        {
            "user_id": np.repeat(user_ids, RATINGS),
            "item_id": seen,
            "rating": rng.integers(1, 6, size=len(seen)).astype("float64"),
            "timestamp": rng.integers(956_703_932, 1_046_454_590, size=len(seen)),
        }
    )
    users = pd.DataFrame({"user_id": user_ids, "gender": np.where(rng.random(len(user_ids)) < 0.7, "Male", "Female")})
    users["age"] = rng.choice(list(movielens.AGE_CODES), size=len(users)).astype("float64")
    items = pd.DataFrame({"item_id": films, "title": [f"Film {film}, The (1999)" for film in films]})
    return Dataset(
        *("ml1m", "made-up ratings", "films", interactions, users, movielens.with_names(items), (), pd.DataFrame()),
        synthetic=True,
        age_codes=dict(movielens.AGE_CODES),
    )


def measure(label: str, raw: Raw, n: int, minimum: int) -> None:
    """Print the seconds of the shortest of several runs, in all and per user."""
    template = prompts.load_template("fairnb-1", "films")
    selection = profiles.select(raw, n, minimum=minimum)
    times, frame = [], pd.DataFrame()
    for _ in range(ROUNDS):
        start = time.perf_counter()
        passion = profiles.passion(selection.train)
        recent = profiles.recent(selection.train)
        profiled = time.perf_counter()
        frame = prompts.build(selection.dataset, selection.users, passion, recent, template, cutoffs=selection.cutoffs)
        end = time.perf_counter()
        times.append((end - start, profiled - start, end - profiled))
    total, profile, prompt = min(times)
    users = len(selection.users)
    print(
        f"{label}, {users} users: {total:.2f} s (profiles {profile:.2f}, {len(frame):,} prompts {prompt:.2f}), "
        f"{total / users * 1e3:.2f} ms a user" + (" (aim: 2 s)" if users == SIZES[0] else "")
    )


def main() -> None:
    """Measure the sizes one after the other."""
    if SHARED.is_dir():
        author = released.read_dataset(SHARED / "fairevalllm")
        measure("the author's split", Raw(CARDS["ml1m-author"], SHARED, whole=lambda: author), 0, 50)
        label, data = "MovieLens 1M", movielens.read(SHARED / "ml-1m", "ml1m")
    else:
        label, data = "made-up ratings", made_up()
    raw = Raw(CARDS["ml1m"], SHARED, whole=lambda: data)
    for n in SIZES:
        measure(label, raw, n, 20)


if __name__ == "__main__":
    main()
