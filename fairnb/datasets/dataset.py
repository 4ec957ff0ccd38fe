"""What every reader of raw files returns: tidy frames, and an account of each line that is not in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

# The ages that can be a listener's or a viewer's; profiles hold -1337 and 107 as well.
AGES = (5, 99)
# A file with more bad lines than this is more likely another file than a damaged one.
MAX_REJECTED = 0.05

REMARK_COLUMNS = ["file", "line", "reason", "kept"]


class Remark(NamedTuple):
    """One line of a raw file that is not in the frames as it stands, and why.

    Attributes
    ----------
    file : str
        File name, without its folder.
    line : int
        Line number, from 1.
    reason : str
        What was found, what was expected.
    kept : bool
        False for a reject. True where the line is in the frames but something was noticed: a field
        that was taken for missing, a date outside the data set's own period.
    """

    file: str
    line: int
    reason: str
    kept: bool


@dataclass(frozen=True)
class FileFacts:
    """What became of one raw file.

    Attributes
    ----------
    file : str
        File name, without its folder.
    encoding : str
        The encoding it was read in.
    lines_in : int
        Lines that hold something; a header and blank lines are not counted.
    rows_out : int
        Rows in the frame. ``lines_in`` = ``rows_out`` + ``rejected``.
    rejected : int
    sha256 : str
        Of the file as it was found; empty where the file is too large to be hashed at each run.
    """

    file: str
    encoding: str
    lines_in: int
    rows_out: int
    rejected: int
    sha256: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as tidy frames.

    Attributes
    ----------
    name : str
        Key of the reader, such as ``ml1m``.
    title : str
        For captions, such as ``MovieLens 1M``; says so where the data are synthetic.
    kind : {"films", "songs"}
        What the items are.
    interactions : DataFrame
        ``user_id`` (int or str), ``item_id`` (int), ``timestamp`` (int, seconds since 1970, UTC) and
        for ratings ``rating`` (float). In the order of the file, which breaks ties in time. The
        author's split has ``part`` (train, test) as well.
    users : DataFrame
        ``user_id``, ``gender`` (Female, Male, or a word of the reader's own data), ``age`` (float) and
        further attributes as text, sorted by ``user_id``. What is missing is NaN.
    items : DataFrame
        ``item_id``, ``title`` (as the data set writes it), for songs ``artist``; films also ``name``
        (article in front, without year and alternates), ``year`` (Int64) and ``genres`` (``A|B``).
        Sorted by ``item_id``.
    files : tuple of FileFacts
    remarks : DataFrame
        One row per `Remark`: ``file``, ``line``, ``reason``, ``kept``.
    synthetic : bool
        Whether users and interactions were made up; every caption says so then.
    age_codes : dict of int to str
        Labels of ages that are codes (MovieLens 1M); empty where ages are years.
    """

    name: str
    title: str
    kind: str
    interactions: pd.DataFrame
    users: pd.DataFrame
    items: pd.DataFrame
    files: tuple[FileFacts, ...]
    remarks: pd.DataFrame
    synthetic: bool = False
    age_codes: dict[int, str] = field(default_factory=dict)

    @property
    def rejects(self) -> pd.DataFrame:
        """The remarks on lines that are in no frame."""
        return self.remarks[~self.remarks["kept"]].reset_index(drop=True)

    def item_texts(self) -> pd.Series:
        """Name each item as a reader knows it: ``"track" by artist``, or the film's title; by ``item_id``."""
        titles = self.items.set_index("item_id")["title"]
        if self.kind == "songs":
            artists = self.items.set_index("item_id")["artist"]
            return '"' + titles + '" by ' + artists
        return titles
