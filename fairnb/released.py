"""From the released files to the benefit tables that come with the project.

The tables hold numbers and labels only: no title, no original id. `import_released` writes them,
`read_benefits` reads them, and the notebooks start from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairnb import paths, places, released_lists
from fairnb.benefits import benefits
from fairnb.datasets import released as files
from fairnb.errors import DataError, FairnbError, ParameterError, ProtocolError
from fairnb.matching import Catalogue
from fairnb.parsing import parse_lines
from fairnb.settings import BENEFIT_FILES, DATASETS, ICLS, PAPER, PROTOCOLS, RELEASED, SAMPLINGS, Protocol

TRAIN_FILE = "ml1m_top3_train.csv"
SPLIT_FILE = "ml1m_split.csv"
PLACES_FILES = {"lastfm1k": "lastfm1k_places.csv", "ml1m": "ml1m_places.csv"}
AGREEMENT_FILE = "agreement.csv"
MATCHING_FILE = "matching.csv"
TRUTHS_FILE = "truths.csv"
TRAIN_TITLES = PAPER.model_copy(update={"name": "paper, scored against train"})

COLUMNS = [
    *("user", "gender", "age_group", "sampling", "icl", "counterfactual", "demographics"),
    *("n_items", "n_matched", "hits", "hit_rate", "average_rank", "status"),
]
PLACES_KEY = COLUMNS[:7]
_COUNTS_LABELS = ("dataset", "sampling", "icl", "first", "second", "check")
# Tables whose decimals are few and short by themselves.
_EXACT = {*BENEFIT_FILES.values(), TRAIN_FILE, SPLIT_FILE}
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
        **_list_tables(lastfm, ml1m, catalogue, titles, (train, test)),
    }
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FairnbError(
            f"{to}: cannot hold the tables ({error.strerror}); expected a folder that you may write to; "
            f"name another one"
        ) from error
    for name, table in tables.items():
        # Twelve digits are the same on every processor.
        text = table.to_csv(index=False, lineterminator="\n", float_format=None if name in _EXACT else "%.12g")
        paths.write_text(to / name, text)
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


def _list_tables(
    lastfm: files.Replies,
    ml1m: files.Replies,
    catalogue: Catalogue,
    titles: pd.DataFrame,
    split: tuple[pd.DataFrame, pd.DataFrame],
) -> dict[str, pd.DataFrame]:
    train, test = split
    ways = {
        "lastfm1k": {"ids_file": (lastfm.rankings, lastfm.truth)},
        "ml1m": {
            "ids_file": (ml1m.rankings, ml1m.truth),
            "ids_heldout": (ml1m.rankings, test),
            "titles_file": (titles, train),
            "titles_heldout": (titles, test),
        },
    }
    items = {source.dataset: released_lists.items_of(source) for source in (lastfm, ml1m)}
    tables = {}
    for source in (lastfm, ml1m):
        table = source.replies.merge(source.users, on="user_id", validate="many_to_one")
        for name, (rankings, truth) in ways[source.dataset].items():
            table[name] = places.words(rankings, truth, table)
        tables[PLACES_FILES[source.dataset]] = table[[*PLACES_KEY, *ways[source.dataset]]]
    both = [(source, items[source.dataset]) for source in (lastfm, ml1m)]
    return {
        **tables,
        AGREEMENT_FILE: pd.concat([released_lists.agreement(*one) for one in both], ignore_index=True),
        MATCHING_FILE: pd.concat(
            [released_lists.matching(*one, catalogue if one[0] is ml1m else None) for one in both],
            ignore_index=True,
        ),
        TRUTHS_FILE: pd.concat(
            [released_lists.truths(lastfm), released_lists.truths(ml1m, train, test)], ignore_index=True
        ),
    }


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


def read_places(dataset: str, folder: Path | None = None) -> pd.DataFrame:
    """Read what stands on each place of a data set's lists.

    Parameters
    ----------
    dataset : str
        ``lastfm1k`` or ``ml1m``.
    folder : Path, optional
        Where the tables are; the project's ``data/released`` if not given.

    Returns
    -------
    DataFrame
        One row per reply: the columns of `PLACES_KEY` and one word per way to find hits (see `fairnb.places`):
        ``ids_file`` (the author's ids against the file's ground truth), and for MovieLens ``ids_heldout``,
        ``titles_file`` and ``titles_heldout`` (exact titles; the file's ground truth is the train part).

    Raises
    ------
    ParameterError
        If there is no such data set.
    DataError
        If the file is absent or damaged.
    """
    if dataset not in PLACES_FILES:
        raise ParameterError(f"dataset = {dataset!r}: unknown; expected one of {', '.join(PLACES_FILES)}")
    file = (folder or paths.released()) / PLACES_FILES[dataset]
    table = files.read_text_table(file, _REMEDY)
    ways = [name for name in table.columns if name.startswith(("ids_", "titles_"))]
    if list(table.columns[: len(PLACES_KEY)]) != PLACES_KEY or not ways:
        raise DataError(f"{file}: expected the columns {', '.join(PLACES_KEY)} and words of places; {_REMEDY}")
    for column in PLACES_KEY[1:]:
        _check(table[column].isin(_LABELS[column]), table[column], f"one of {', '.join(_LABELS[column])}", file)
    _check(table["user"].str.fullmatch("[0-9]{1,9}"), table["user"], "a whole number", file)
    for name in ways:
        _check(table[name].str.fullmatch(f"[{places.LETTERS}]*"), table[name], "a word of places", file)
    return table.astype({"user": "int64"}).reset_index(drop=True)


def read_counts(name: str, folder: Path | None = None) -> pd.DataFrame:
    """Read one of the small tables on the lists: `AGREEMENT_FILE`, `MATCHING_FILE` or `TRUTHS_FILE`.

    Raises
    ------
    DataError
        If the file is absent or damaged, or a cell that should hold a number holds none.
    """
    file = (folder or paths.released()) / name
    table = files.read_text_table(file, _REMEDY)
    for column in table.columns:
        if column not in _COUNTS_LABELS:
            good = table[column].str.fullmatch(r"([0-9]+(\.[0-9]+)?(e-[0-9]+)?)?")
            _check(good, table[column], "a number or nothing", file)
            table[column] = pd.to_numeric(table[column].mask(table[column] == ""))
    return table.reset_index(drop=True)
