"""5,760 replies of all forms, parsed and matched: a search through all titles for every line against `matching`, in one run.

The baseline is `rapidfuzz.process.extractOne` for every item, which takes the nearest title whatever it is. The
titles are those of the bundled catalogue, and made-up ones up to the number of MovieLens 1M. Of the items in the
replies, one in ten is misspelt and one in ten invented.
"""

import json
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from rapidfuzz import fuzz, process

from fairnb import seeds
from fairnb.datasets import sample
from fairnb.matching import Catalogue, rank_items
from fairnb.parsing import Parsed, parse, parse_lines
from fairnb.titles import artist_key, match_key, split_year

REPLIES, FILMS, K, THRESHOLD, AIM = 5_760, 3_883, 3, 92, 5.0
FORMS: list[Callable[[list[str]], str]] = [
    lambda several: "\n".join(f"{number}. {title}" for number, title in enumerate(several, start=1)),
    lambda several: "Here you are:\n\n" + "\n".join(f"{number}) **{title}**" for number, title in enumerate(several)),
    lambda several: "\n".join(f'- "{title}" - Crime|Drama' for title in several),
    "\n".join,
    lambda several: ", ".join(f'"{title}"' for title in several),
    json.dumps,
    lambda several: "```json\n" + json.dumps({"recommendations": [{"title": title} for title in several]}) + "\n```",
    lambda several: "| # | Title |\n|---|---|\n" + "\n".join(f"| 1 | {title} |" for title in several),
    lambda several: "<think>Something by Mann?</think>\n" + "\n".join(f"- {title}" for title in several),
]


def films(rng: np.random.Generator) -> pd.DataFrame:
    """Return the bundled titles and as many made-up ones as MovieLens 1M has more."""
    bundled = sample.films()
    known = [f"{film.title} ({film.year})" for film in bundled]
    words = sorted({word for film in bundled for word in film.title.split() if len(word) > 3})
    names = dict.fromkeys(known)
    while len(names) < FILMS:
        several = rng.choice(words, size=rng.integers(2, 5), replace=False)
        names[f"{' '.join(several)} ({rng.integers(1920, 2001)})"] = None
    return pd.DataFrame({"item_id": range(1, FILMS + 1), "title": list(names)})


def spoken(title: str, rng: np.random.Generator) -> str:
    """Return a title as a model may give it: as it is, without its year, misspelt, or another one."""
    kind = rng.random()
    if kind < 0.1:
        return f"{title.split(maxsplit=1)[0]} of {rng.choice(['Silver', 'Marble', 'Amber'])} {rng.integers(10_000)}"
    if kind < 0.2:
        place = int(rng.integers(1, max(2, len(title) - 7)))
        return title[:place] + title[place + 1 :]
    return split_year(title)[0] if kind < 0.5 else title


def replies(titles: list[str], rng: np.random.Generator) -> list[str]:
    """Return replies of K items each, in all forms by turns."""
    drawn = rng.integers(len(titles), size=(REPLIES, K))
    return [
        FORMS[number % len(FORMS)]([spoken(titles[place], rng) for place in places])
        for number, places in enumerate(drawn)
    ]


def best(function: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest of several runs with empty caches, in seconds."""
    times = []
    for _ in range(rounds):
        for cached in (parse_lines, match_key, artist_key):
            cached.cache_clear()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the times, their ratio, and how many items the fuzzy step saw."""
    rng = seeds.generator("benchmark", "parsing")
    items = films(rng)
    texts = replies(items["title"].tolist(), rng)
    parsed: dict[str, Parsed] = {}

    def read() -> None:
        parsed.update({str(number): parse(text, k=K) for number, text in enumerate(texts)})

    reading = best(read)
    counts = {}
    times = {}
    for threshold in (0, THRESHOLD):

        def match(fuzzy: float = threshold) -> None:
            counts[fuzzy] = rank_items(parsed, Catalogue(items, fuzzy))["match"].value_counts(normalize=True)

        times[threshold] = best(match)
    keys = [match_key(split_year(title)[0]) for title in items["title"]]

    def nearest() -> None:
        for found in parsed.values():
            for item in found.items:
                process.extractOne(match_key(split_year(item.title)[0]), keys, scorer=fuzz.ratio)

    baseline = best(nearest, 1)
    total = reading + times[THRESHOLD]
    print(f"parse {REPLIES} replies: {reading:.2f} s, {sum(len(found.items) for found in parsed.values())} items")
    print(f"rank_items, exact only: {times[0]:.2f} s; fuzzy = {THRESHOLD}: {times[THRESHOLD]:.2f} s")
    print(f"items that reached the fuzzy step: {counts[0].get('unknown', 0):.1%}; matched by it: ", end="")
    print(f"{counts[THRESHOLD].get('fuzzy', 0):.1%}; statuses: ", end="")
    print(", ".join(f"{name} {n}" for name, n in pd.Series([p.status for p in parsed.values()]).value_counts().items()))
    print(f"extractOne for every item: {baseline:.2f} s, {baseline / times[THRESHOLD]:.1f} times rank_items with fuzzy")
    print(f"in all: {total:.2f} s (aim: {AIM:.0f} s at most)")


if __name__ == "__main__":
    main()
