"""The data sets that fairnb knows, by name: what is known of each before it is read."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from fairnb import paths
from fairnb.errors import ParameterError


@dataclass(frozen=True)
class Card:
    """What is known of a data set before it is read; the cards of ``data/README.md`` say more.

    Attributes
    ----------
    name, title, kind : str
        As in `Dataset`; the kind of own data is known once they are read, and empty here.
    folder : str
        Where the files are if nothing else is said, relative to the project's root; empty for own data.
    source : str
        Key of `fairnb.datasets.fetch.SOURCES`; empty where there is nothing to download.
    size : str
        Users, items and interactions as published.
    terms : str
    synthetic : bool
    """

    name: str
    title: str
    kind: str
    folder: str
    source: str
    size: str
    terms: str
    synthetic: bool = False


CARDS = {
    card.name: card
    for card in (
        Card(
            "sample-films",
            "synthetic sample in the format of MovieLens 1M",
            "films",
            "data/sample/ml-1m",
            "",
            "240 users, 1,012 films, 25,613 ratings",
            "comes with fairnb, MIT",
            synthetic=True,
        ),
        Card(
            "sample-songs",
            "synthetic sample in the format of Last.fm 1K",
            "songs",
            "data/sample/lastfm-1k",
            "",
            "120 users, 707 songs (4 of them with made-up names), 51,461 plays",
            "comes with fairnb, MIT",
            synthetic=True,
        ),
        Card(
            "ml1m",
            "MovieLens 1M",
            "films",
            "data/external/ml-1m",
            "ml-1m",
            "6,040 users, 3,883 films, 1,000,209 ratings",
            "GroupLens: research, no redistribution",
        ),
        Card(
            "ml100k",
            "MovieLens 100K",
            "films",
            "data/external/ml-100k",
            "ml-100k",
            "943 users, 1,682 films, 100,000 ratings",
            "GroupLens: research, no redistribution",
        ),
        Card(
            "ml1m-author",
            "MovieLens 1M, the author's split",
            "films",
            "data/external/fairevalllm",
            "fairevalllm",
            "80 users, 3,883 films, 20,987 ratings in two parts",
            "no licence file; GroupLens: no redistribution",
        ),
        Card(
            "lastfm1k",
            "Last.fm 1K",
            "songs",
            "data/external/lastfm-1k",
            "lastfm-1k",
            "992 users, 19,150,868 plays",
            "Last.fm: non-commercial use",
        ),
        Card("own", "own data", "", "", "", "any", "yours"),
    )
}


def folder_of(name: str, folder: Path | None = None) -> Path:
    """Return where the files of a data set are looked for.

    Raises
    ------
    ParameterError
        If the name is unknown, or own data have no folder.
    """
    if name not in CARDS:
        close = difflib.get_close_matches(name, CARDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ParameterError(f"dataset = {name!r}: unknown{hint} (known: {', '.join(CARDS)})")
    if folder is not None:
        return folder
    if name == "own":
        raise ParameterError("dataset = 'own': expected data_folder, the folder with your three CSV files")
    return paths.root() / CARDS[name].folder
