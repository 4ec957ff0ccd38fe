"""From the released files to the benefit tables that come with the project.

The tables hold numbers and labels only: no title, no original id. `import_released` writes them,
`read_benefits` reads them, and the notebooks start from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairnb import paths
from fairnb.benefits import benefits
from fairnb.datasets import released as files
from fairnb.errors import DataError, FairnbError, ParameterError, ProtocolError
from fairnb.matching import Catalogue
from fairnb.parsing import parse_lines
from fairnb.settings import BENEFIT_FILES, DATASETS, ICLS, PAPER, PROTOCOLS, RELEASED, SAMPLINGS, Protocol

TRAIN_FILE = "ml1m_top3_train.csv"
SPLIT_FILE = "ml1m_split.csv"
TRAIN_TITLES = PAPER.model_copy(update={"name": "paper, scored against train"})

COLUMNS = [
    *("user", "gender", "age_group", "sampling", "icl", "counterfactual", "demographics"),
    *("n_items", "n_matched", "hits", "hit_rate", "average_rank", "status"),
]
_REMEDY = (
    "`git checkout data/released` restores the project's own, "
    "`fairnb data import-released FOLDER --to THERE` computes it from the released files"
)
_LABELS = {
    "gender": files.GENDERS,
    "age_group": files.AGE_GROUPS,
    "sampling": SAMPLINGS,
    "icl": ICLS,
    "counterfactual": ("no", "yes"),
    "demographics": files.DEMOGRAPHICS,
    "status": ("ok", "empty", "unparsed"),
}


@dataclass(frozen=True)
class Imported:
    """What `import_released` wrote, and what it could not read.

    Attributes
    ----------
    written : dict of str to int
        File name to number of rows.
    unread : dict of str to list of str
        Data set to its cells that did not parse, each with line and column.
    absent : dict of str to list of str
        Data set to the conditions of the design that its file lacks.
    """

    written: dict[str, int]
    unread: dict[str, list[str]]
    absent: dict[str, list[str]]


def import_released(folder: Path, to: Path) -> Imported:
    """Compute the benefit tables from the released files and write them.

    Parameters
    ----------
    folder : Path
        The released files (with ``data/`` and ``results/`` in it).
    to : Path
        Where the tables go. Nothing is written unless every input could be read.

    Returns
    -------
    Imported

    Raises
    ------
    DataError
        See `fairnb.datasets.released`.
    FairnbError
        If the target cannot be written to.
    """
    folder, to = Path(folder), Path(to)
    lastfm = files.read_replies(folder, "lastfm1k")
    ml1m = files.read_replies(folder, "ml1m")
    catalogue = Catalogue(files.read_items(folder))
    train, test = files.read_split(folder)
    _require_same_users(ml1m, train, "train")
    _require_same_users(ml1m, test, "test")
    titles = _ranked_titles(ml1m, catalogue)
    tables = {
        BENEFIT_FILES["lastfm1k", "released"]: _table(lastfm, lastfm.rankings, lastfm.truth, RELEASED),
        BENEFIT_FILES["ml1m", "released"]: _table(ml1m, ml1m.rankings, ml1m.truth, RELEASED),
        BENEFIT_FILES["ml1m", "paper"]: _table(ml1m, titles, test, PAPER),
        TRAIN_FILE: _table(ml1m, titles, train, TRAIN_TITLES),
        SPLIT_FILE: _split_counts(train, test),
    }
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FairnbError(
            f"{to}: cannot hold the tables ({error.strerror}); expected a folder that you may write to; "
            f"name another one"
        ) from error
    for name, table in tables.items():
        paths.write_text(to / name, table.to_csv(index=False, lineterminator="\n"))
    return Imported(
        {name: len(table) for name, table in tables.items()},
        {replies.dataset: replies.unread for replies in (lastfm, ml1m)},
        {replies.dataset: replies.absent for replies in (lastfm, ml1m)},
    )


def read_benefits(dataset: str, protocol: str, folder: Path | None = None) -> pd.DataFrame:
    """Read the benefit table of a data set under a protocol.

    Parameters
    ----------
    dataset, protocol : str
        Such as ``"lastfm1k", "released"``.
    folder : Path, optional
        Where the tables are; the project's ``data/released`` if not given.

    Returns
    -------
    DataFrame
        One row per reply with the columns of `COLUMNS`; ``average_rank`` is NaN where undefined.

    Raises
    ------
    ParameterError
        If there is no such data set or protocol.
    ProtocolError
        If the protocol cannot be applied to the data set.
    DataError
        If the file is absent, or a column, a label, a number or a row is not as documented.
    """
    for setting, value, known in (("dataset", dataset, DATASETS), ("protocol", protocol, tuple(PROTOCOLS))):
        if value not in known:
            raise ParameterError(f"{setting} = {value!r}: unknown; expected one of {', '.join(known)}")
    if (dataset, protocol) not in BENEFIT_FILES:
        usable = [name for name, rule in BENEFIT_FILES if rule == protocol]
        raise ProtocolError(
            f"protocol = '{protocol}' cannot be applied to dataset = '{dataset}': its held-out plays were "
            f"not released; expected dataset = {' or '.join(usable)} or another protocol"
        )
    return read_benefit_file((folder or paths.released()) / BENEFIT_FILES[dataset, protocol])


def read_benefit_file(file: Path) -> pd.DataFrame:
    """Read one benefit table and check it against its documented columns, labels and ranges.

    Parameters
    ----------
    file : Path
        A table that `import_released` wrote.

    Returns
    -------
    DataFrame
        The columns of `COLUMNS`; see `read_benefits`.

    Raises
    ------
    DataError
        If the file is absent or damaged; if a column is missing, a label unknown or a number none; if
        ``hit_rate`` is no share or not ``hits`` / K, or ``average_rank`` is undefined or below 1 where
        there are hits; if a user stands twice in a condition, or in two groups of one attribute.
    """
    text = files.read_text_table(file, _REMEDY)
    missing = [column for column in COLUMNS if column not in text.columns]
    if missing:
        raise DataError(f"{file}: no column {missing[0]}; expected {', '.join(COLUMNS)}; was it renamed? {_REMEDY}")
    for column, known in _LABELS.items():
        _check(text[column].isin(known), text[column], f"one of {', '.join(known)}", file)
    table = text[COLUMNS].copy()
    for column in ("user", "n_items", "n_matched", "hits"):
        _check(text[column].str.fullmatch("[0-9]{1,9}"), text[column], "a whole number", file)
        table[column] = text[column].astype("int64")
    decimal = r"[0-9]{1,9}(\.[0-9]+)?"
    share, rank = text["hit_rate"], text["average_rank"]
    _check(share.str.fullmatch(decimal), share, "a number", file)
    _check(rank.str.fullmatch(f"({decimal})?"), rank, "a number or nothing", file)
    table["hit_rate"] = share.astype(float)
    table["average_rank"] = rank.mask(rank == "").astype(float)
    _check(table["hit_rate"].between(0, 1), share, "a share from 0 to 1", file)
    consistent = (table["hit_rate"] * files.K - table["hits"]).abs() < 1e-9
    _check(consistent, share, f"hits / {files.K}", file)
    _check((table["average_rank"] >= 1) | (table["hits"] == 0), rank, "1 or more, since there are hits", file)
    key = ["user", "sampling", "icl", "counterfactual", "demographics"]
    _check(~table.duplicated(key), text["user"], "one row per user and condition", file)
    for group in ("gender", "age_group"):
        first = table.groupby("user")[group].transform("first")
        _check(table[group] == first, text[group], f"one {group} per user", file)
    return table.reset_index(drop=True)


def _check(good: pd.Series, shown: pd.Series, expected: str, file: Path) -> None:
    if not good.all():
        line = (~good).idxmax()
        raise DataError(f"{file}, line {line}, column {shown.name}: {shown[line]!r}; expected {expected}; {_REMEDY}")


def _ranked_titles(replies: files.Replies, catalogue: Catalogue) -> pd.DataFrame:
    rows = []
    readable = replies.replies[replies.replies["status"] == "ok"]
    for reply, text in zip(readable["reply"], readable["text"], strict=True):
        for rank, item in enumerate(parse_lines(text).items, start=1):
            item_id = catalogue.match(item.readings).item_id
            if item_id is not None:
                rows.append((reply, rank, item_id))
    return pd.DataFrame(rows, columns=["reply", "rank", "item_id"])


def _table(source: files.Replies, rankings: pd.DataFrame, truth: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    table = source.replies.merge(source.users, on="user_id", validate="many_to_one")
    parsed = [parse_lines(text) for text in table["text"]]
    # What the file's own columns did not hold keeps that status; our reading of the text comes second.
    readable = table["status"] == "ok"
    table["n_items"] = [len(reply.items) if good else 0 for reply, good in zip(parsed, readable, strict=True)]
    table["status"] = [reply.status if good else "unparsed" for reply, good in zip(parsed, readable, strict=True)]
    table["n_matched"] = table["reply"].map(rankings.groupby("reply").size()).fillna(0).astype(int)
    scored = benefits(rankings, truth, source.replies, files.K, protocol)
    return table.merge(scored, on="reply", validate="one_to_one")[COLUMNS]


def _require_same_users(source: files.Replies, part: pd.DataFrame, name: str) -> None:
    lost = set(source.users["user_id"]) - set(part["user_id"])
    if lost:
        raise DataError(
            f"{name} data of ml1m: no row of user {min(lost)} "
            f"({len(lost)} of {len(source.users)} users lack them); "
            f"the split and the result file do not belong together; download both again"
        )


def _split_counts(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    rows = [
        ("ml1m", part, len(frame), frame["user_id"].nunique()) for part, frame in (("train", train), ("test", test))
    ]
    return pd.DataFrame(rows, columns=["dataset", "part", "rows", "users"])
