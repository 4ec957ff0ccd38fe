"""One way to open each data set: who is in it, who is how active, and the interactions of chosen users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from fairnb import paths
from fairnb.datasets import lastfm, movielens, own, released
from fairnb.datasets.cards import CARDS, Card, folder_of
from fairnb.datasets.dataset import Dataset, FileFacts
from fairnb.errors import DataError


class Raw:
    """An opened data set: who is in it is known at once, interactions are read for chosen users.

    Last.fm 1K is larger than most memories, so one first asks who plays how much, draws users, and then
    reads theirs.

    Attributes
    ----------
    card : Card
    folder : Path
    """

    def __init__(
        self,
        card: Card,
        folder: Path,
        whole: Callable[[], Dataset] | None,
        parts: tuple[Callable[[], pd.Series], Callable[[Sequence[object] | None], Dataset]] | None = None,
    ) -> None:
        self.card = card
        self.folder = folder
        self._whole = whole
        self._parts = parts

    @cached_property
    def _dataset(self) -> Dataset:
        assert self._whole is not None  # noqa: S101  (for the type checker)
        return self._whole()

    @cached_property
    def users(self) -> pd.DataFrame:
        """All users of the data set, as in `Dataset.users`."""
        return self._dataset.users if self._parts is None else lastfm.read_profile(self.folder)[0]

    @cached_property
    def activity(self) -> pd.Series:
        """Interactions per user, by ``user_id``; 0 for users without any."""
        counts = self._dataset.interactions["user_id"].value_counts() if self._parts is None else self._parts[0]()
        return counts.reindex(self.users["user_id"], fill_value=0)

    @cached_property
    def _account(self) -> Dataset:
        # Rejects are those of the whole files, whoever's plays are read.
        return self.read(None if self._parts is None else self.users["user_id"].head(1).tolist())

    @property
    def facts(self) -> tuple[FileFacts, ...]:
        """What became of each raw file."""
        return self._account.files

    @property
    def remarks(self) -> pd.DataFrame:
        """Rejects of the whole files; for Last.fm remarks on kept plays are told once they are read."""
        return self._account.remarks

    def read(self, users: Sequence[object] | None = None) -> Dataset:
        """Read interactions and items of the users named, or of all; `Dataset.users` holds just them."""
        if self._parts is not None:
            return self._parts[1](users)
        if users is None:
            return self._dataset
        data = self._dataset
        chosen = set(users)
        return replace(
            data,
            interactions=data.interactions[data.interactions["user_id"].isin(chosen)].reset_index(drop=True),
            users=data.users[data.users["user_id"].isin(chosen)].reset_index(drop=True),
        )


def open_raw(name: str, folder: Path | None = None, *, cache: Path | None = None) -> Raw:
    """Open a data set.

    Parameters
    ----------
    name : str
        Key of `CARDS`.
    folder : Path, optional
        The files; by default where `fairnb data get` puts them, or what comes with fairnb.
    cache : Path, optional
        Folder for a fast copy of Last.fm 1K.

    Returns
    -------
    Raw

    Raises
    ------
    ParameterError
        If the name is unknown, or own data have no folder.
    DataError
        If the files are not there, or not what they should be; at the latest when they are read.
    """
    target = folder_of(name, folder)
    card = CARDS[name]
    if not target.is_dir():
        remedy = f"`fairnb data get {name}` downloads it" if card.source else "name a folder that is there"
        raise DataError(f"{paths.shown(target)}: no such folder; expected the files of {card.title}; {remedy}")
    if name in ("lastfm1k", "sample-songs"):

        def read_part(users: Sequence[object] | None) -> Dataset:
            chosen = None if users is None else [str(user) for user in users]
            return _labelled(lastfm.read(target, chosen, cache=cache), card)

        def activity() -> pd.Series:
            return lastfm.activity(target, cache=cache).set_index("user_id")["plays"]

        return Raw(card, target, None, (activity, read_part))
    readers: dict[str, Callable[[], Dataset]] = {
        "sample-films": lambda: movielens.read(target, "ml1m", published=False),
        "ml1m": lambda: movielens.read(_inner(target, "ml-1m"), "ml1m"),
        "ml100k": lambda: movielens.read(_inner(target, "ml-100k"), "ml100k"),
        "ml1m-author": lambda: released.read_dataset(target),
        "own": lambda: own.read(target),
    }
    return Raw(card, target, lambda: _labelled(readers[name](), card))


def _inner(folder: Path, name: str) -> Path:
    """Return the folder that the archive holds, where somebody unpacked it by hand."""
    return folder / name if (folder / name).is_dir() else folder


def _labelled(data: Dataset, card: Card) -> Dataset:
    return replace(data, name=card.name, title=card.title, synthetic=card.synthetic)
