"""The files that FairEvalLLM's author released, as tidy frames.

Source: GitHub yasdel/Benchmark_RecLLM_Fairness, commit 5fdc3e1. Replies of gpt-3.5-turbo, K = 3, to
80 users x 72 conditions on Last.fm 1K and 80 x 71 on MovieLens 1M (whose file name says ``ml100k``).
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from fairnb.datasets.dataset import Dataset, FileFacts
from fairnb.datasets.lines import frame_of
from fairnb.datasets.movielens import AGE_CODES, OCCUPATIONS, with_names
from fairnb.errors import DataError, ParameterError
from fairnb.settings import DATASETS, ICLS, SAMPLINGS

K = 3
DEMOGRAPHICS = ("none", "gender", "age", "intersectional")
GENDERS = ("Male", "Female")
AGE_GROUPS = ("Young", "Old")
TITLES = {"lastfm1k": "Last.fm 1K", "ml1m": "MovieLens 1M"}

_RESULTS = {
    "lastfm1k": "results/final_df_foundItemIds_lastFM1k_fullInteraction_80users_nTrack10_lContext5_top3.csv",
    "ml1m": "results/final_df_foundItemIds_ml100k_fullInteraction_80users_nTrack10_lContext5_top3.csv",
}
_TRUTH_COLUMN = {"lastfm1k": "itemIds", "ml1m": "movieIds"}
_AGE_LABELS = {
    "lastfm1k": {"Early Adult (≤24 yrs)": "Young", "Mid Adult (>24 yrs)": "Old"},
    "ml1m": {"Early Adult (≤32 yrs)": "Young", "Mid Adult (>32 yrs)": "Old"},
}
_TRAIN = [f"data/train_data_ml1m_fullInteraction_80users_part_{part}.csv" for part in (1, 2, 3, 4)]
_TEST = "data/test_data_ml1m_fullInteraction_80users.csv"
_ITEMS = "data/df_item_ml-1m.csv"
_USERS = "data/df_user_ml-1m.csv"
_DEMOGRAPHICS_TAG = {
    "none": "no_info",
    "gender": "gender",
    "age": "age-group",
    "intersectional": "intersectional",
}
_ICL_TAG = {"0-shot": "zero-shot", "ICL-1": "ICL-Few-shot-1", "ICL-2": "ICL-Few-shot-2"}
_CONDITION = re.compile(
    r"recommendation_for_prompt_counterfact-(?P<counterfactual>False|True)_sample-(?P<sampling>[\w-]+)"
    r"_userDemo-(?P<demographics>[\w-]+)_interact-(?P<icl>[\w-]+?)(?P<ids>_itemIds)?"
)


@dataclass(frozen=True)
class Replies:
    """One released result file.

    Attributes
    ----------
    dataset : str
        ``lastfm1k`` or ``ml1m``.
    users : DataFrame
        ``user_id``, ``user`` (renumbered from 1 in the file's order), ``gender``, ``age_group``.
    truth : DataFrame
        ``user_id``, ``item_id``: the ids in the file's ground-truth column.
    replies : DataFrame
        ``reply`` (a running number), ``user_id``, ``sampling``, ``icl``, ``counterfactual`` (no, yes),
        ``demographics``, ``text`` (the recommended titles, one a line), ``status`` (``ok``; ``unparsed``
        if a cell of the reply is not what the file's format says).
    rankings : DataFrame
        ``reply``, ``rank`` (place in the id list, from 1), ``item_id``: the author's matches.
    unread : list of str
        Each cell that did not parse, as ``line 7, column NAME: why``; the line is the one that the
        row begins on.
    absent : list of str
        Conditions of the design that the file has no column for.
    """

    dataset: str
    users: pd.DataFrame
    truth: pd.DataFrame
    replies: pd.DataFrame
    rankings: pd.DataFrame
    unread: list[str]
    absent: list[str]


def read_replies(folder: Path, dataset: str) -> Replies:
    """Read a released result file.

    Parameters
    ----------
    folder : Path
        The folder that holds ``results/``.
    dataset : {"lastfm1k", "ml1m"}

    Returns
    -------
    Replies

    Raises
    ------
    DataError
        If the file is absent, a column is missing or has another name, a user stands twice, a
        label is unknown, or a ground truth does not parse. A reply that does not parse is no error:
        it is counted in ``unread``.
    ParameterError
        If there is no such data set.
    """
    if dataset not in _RESULTS:
        raise ParameterError(f"dataset = {dataset!r}: unknown; expected one of {', '.join(DATASETS)}")
    file = folder / _RESULTS[dataset]
    table = _read(file)
    _require(table, ["userId", "gender", "age_group", _TRUTH_COLUMN[dataset]], file)
    users = _users(table, dataset, file)

    truth_rows: list[tuple[int, int]] = []
    for line, user_id, cell in zip(table.index, users["user_id"], table[_TRUTH_COLUMN[dataset]], strict=True):
        ids = _id_list(cell, nested=False)
        if isinstance(ids, str):
            raise DataError(
                f"{file}, line {line}, column {_TRUTH_COLUMN[dataset]}: {ids}; "
                f"expected a list of whole numbers; download the file again"
            )
        truth_rows.extend((user_id, item) for item in ids)
    truth = pd.DataFrame(truth_rows, columns=["user_id", "item_id"])

    columns, absent = _conditions(table, file)
    nested = dataset == "lastfm1k"
    read_text: Callable[[str], tuple[str, str]] = _nested_text if nested else _plain_text
    replies: list[tuple[object, ...]] = []
    rankings: list[tuple[int, int, int]] = []
    unread: list[str] = []
    for condition, name in columns.items():
        cells = zip(table.index, users["user_id"], table[name], table[f"{name}_itemIds"], strict=True)
        for line, user_id, text_cell, ids_cell in cells:
            text, problem = read_text(text_cell)
            ids = _id_list(ids_cell, nested=nested)
            where = f"line {line}, column {name}"
            if problem:
                unread.append(f"{where}: {problem}")
            if isinstance(ids, str):
                unread.append(f"{where}_itemIds: {ids}")
            failed = problem or isinstance(ids, str)
            number = len(replies)
            replies.append((number, user_id, *condition, text, "unparsed" if failed else "ok"))
            if not isinstance(ids, str) and not problem:
                rankings.extend((number, rank, item) for rank, item in enumerate(ids, start=1))
    fields = ["reply", "user_id", "counterfactual", "sampling", "demographics", "icl", "text", "status"]
    return Replies(
        dataset,
        users,
        truth,
        pd.DataFrame(replies, columns=fields),
        pd.DataFrame(rankings, columns=["reply", "rank", "item_id"]),
        unread,
        absent,
    )


def read_items(folder: Path) -> pd.DataFrame:
    """Read the MovieLens 1M catalogue: ``item_id`` and ``title``.

    Raises
    ------
    DataError
        If the file is absent, lacks a column, or an id is no whole number.
    """
    file = folder / _ITEMS
    table = _read(file)
    _require(table, ["itemId", "title"], file)
    items = pd.DataFrame({"item_id": _whole_numbers(table, "itemId", file), "title": table["title"]})
    return items.reset_index(drop=True)


def read_split(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the author's temporal split of the 80 MovieLens users.

    Returns
    -------
    tuple of DataFrame
        Train and test interactions: ``user_id``, ``item_id``, ``rating``, ``timestamp`` (seconds).

    Raises
    ------
    DataError
        If a file is absent, lacks a column, or holds something else than whole numbers.
    """
    parts = [_read_interactions(folder / name) for name in _TRAIN]
    return pd.concat(parts, ignore_index=True), _read_interactions(folder / _TEST)


def read_dataset(folder: Path) -> Dataset:
    """Read the author's split as a data set: 80 users of MovieLens 1M, each interaction with its part.

    Parameters
    ----------
    folder : Path
        The folder that holds ``data/``.

    Returns
    -------
    Dataset
        ``interactions`` has a column ``part`` (train, test); users and items are those of the split's
        catalogue, users without interactions left out.

    Raises
    ------
    DataError
        If a file is absent or is not as it was released; these files are complete, so nothing is
        rejected line by line.
    """
    train, test = read_split(folder)
    interactions = pd.concat([train.assign(part="train"), test.assign(part="test")], ignore_index=True)
    file = folder / _ITEMS
    table = _read(file)
    _require(table, ["genres"], file)
    items = with_names(read_items(folder).assign(genres=table["genres"].to_numpy()))
    file = folder / _USERS
    table = _read(file)
    _require(table, ["userId", "gender", "age", "occupation", "zipCode"], file)
    users = pd.DataFrame({"user_id": _whole_numbers(table, "userId", file)})
    users["gender"] = _coded(table, "gender", {"M": "Male", "F": "Female"}, file)
    users["age"] = _coded(table, "age", {str(code): float(code) for code in AGE_CODES}, file)
    jobs = {str(number): name for number, name in enumerate(OCCUPATIONS)}
    users["occupation"] = _coded(table, "occupation", jobs, file)
    users["zip_code"] = table["zipCode"].astype("str")
    for name, column, known in ((_USERS, "user_id", users["user_id"]), (_ITEMS, "item_id", items["item_id"])):
        if known.duplicated().any():
            raise DataError(
                f"{folder / name}: {column} {known[known.duplicated()].iloc[0]} stands twice; expected once; "
                f"download the file again"
            )
        strange = ~interactions[column].isin(known)
        if strange.any():
            raise DataError(
                f"{folder / 'data'}: {column} {interactions.loc[strange, column].iloc[0]} of the split is not in the "
                f"catalogue; download the files again"
            )
    users = users[users["user_id"].isin(interactions["user_id"])].sort_values("user_id", ignore_index=True)
    facts = []
    for name in (*_TRAIN, _TEST, _ITEMS, _USERS):
        content = (folder / name).read_bytes()
        rows = len(_read(folder / name))
        facts.append(FileFacts(Path(name).name, "utf-8", rows, rows, 0, hashlib.sha256(content).hexdigest()))
    return Dataset(
        name="ml1m-author",
        title="MovieLens 1M, the author's split",
        kind="films",
        interactions=interactions.astype({"rating": "float64"}),
        users=users,
        items=items.sort_values("item_id", ignore_index=True),
        files=tuple(facts),
        remarks=frame_of([]),
        age_codes=dict(AGE_CODES),
    )


def _coded(table: pd.DataFrame, column: str, known: dict[str, Any], file: Path) -> pd.Series:
    strange = ~table[column].isin(known)
    if strange.any():
        line = strange.idxmax()
        raise DataError(
            f"{file}, line {line}, column {column}: unknown code {table.at[line, column]!r}; "
            f"expected one of {', '.join(known)}; download the file again"
        )
    return table[column].map(known)


def _read_interactions(file: Path) -> pd.DataFrame:
    table = _read(file)
    names = {"userId": "user_id", "itemId": "item_id", "rating": "rating", "timestamp": "timestamp"}
    _require(table, list(names), file)
    frame = pd.DataFrame({new: _whole_numbers(table, old, file) for old, new in names.items()})
    return frame.reset_index(drop=True)


def _read(file: Path) -> pd.DataFrame:
    return read_text_table(
        file,
        "expected the released files, a folder with data/ and results/ in it; "
        "`fairnb data get fairevalllm` downloads them",
    )


def read_text_table(file: Path, remedy: str) -> pd.DataFrame:
    """Read a CSV file as text, and nothing as missing: ``NA`` and ``None`` are texts like others.

    Parameters
    ----------
    file : Path
        In UTF-8, with a header.
    remedy : str
        What to do where the file is absent or damaged; the end of the error message.

    Returns
    -------
    DataFrame
        Strings; the index is the line that each row begins on.

    Raises
    ------
    DataError
        If the file is absent, unreadable, empty or not such a table.
    """
    if not file.is_file():
        raise DataError(f"{file}: no such file; {remedy}")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); {remedy}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{file}, line {line}: not a text in UTF-8; {remedy}") from None
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    end = 0
    try:
        for row in reader:
            # A reply fills several lines, so the number of a row is not that of its line.
            start, end = end + 1, reader.line_num
            if not row:
                continue
            if rows and len(row) != len(rows[0]):
                raise DataError(
                    f"{file}, line {start}: {len(row)} fields; expected {len(rows[0])}, as in the header; {remedy}"
                )
            rows.append(row)
            lines.append(start)
    except csv.Error as error:
        raise DataError(f"{file}, line {end + 1}: not a CSV file ({error}); {remedy}") from None
    if len(rows) < 2:
        raise DataError(f"{file}: {'no rows below the header' if rows else 'empty'}; {remedy}")
    if len(set(rows[0])) < len(rows[0]):
        twice = next(name for name in rows[0] if rows[0].count(name) > 1)
        raise DataError(f"{file}: column {twice} stands twice; {remedy}")
    return pd.DataFrame(rows[1:], columns=rows[0], index=lines[1:], dtype=str)


def _require(table: pd.DataFrame, columns: list[str], file: Path) -> None:
    for column in columns:
        if column not in table.columns:
            raise DataError(
                f"{file}: no column {column}; expected {', '.join(columns)}; it was renamed or this is another file"
            )


def _whole_numbers(table: pd.DataFrame, column: str, file: Path) -> pd.Series:
    odd = ~table[column].str.fullmatch("[0-9]{1,18}")
    if odd.any():
        line = odd.idxmax()
        raise DataError(
            f"{file}, line {line}, column {column}: {table.at[line, column]!r} is not a whole number; "
            f"download the file again"
        )
    return table[column].astype("int64")


def _users(table: pd.DataFrame, dataset: str, file: Path) -> pd.DataFrame:
    user_id = _whole_numbers(table, "userId", file)
    if user_id.duplicated().any():
        line = user_id.duplicated().idxmax()
        raise DataError(
            f"{file}, line {line}, column userId: user {user_id[line]} stands twice; "
            f"expected one row a user; download the file again"
        )
    labels = {"gender": {name: name for name in GENDERS}, "age_group": _AGE_LABELS[dataset]}
    users = pd.DataFrame({"user_id": user_id, "user": range(1, len(table) + 1)})
    for column, known in labels.items():
        strange = ~table[column].isin(known)
        if strange.any():
            line = strange.idxmax()
            raise DataError(
                f"{file}, line {line}, column {column}: unknown group {table.at[line, column]!r}; "
                f"expected one of {', '.join(known)}; download the file again"
            )
        users[column] = table[column].map(known)
    return users.reset_index(drop=True)


def _conditions(table: pd.DataFrame, file: Path) -> tuple[dict[tuple[str, str, str, str], str], list[str]]:
    from_tag = {tag: name for name, tag in _DEMOGRAPHICS_TAG.items()}
    from_icl = {tag: name for name, tag in _ICL_TAG.items()}
    found: dict[tuple[str, str, str, str], str] = {}
    for name in table.columns:
        if not name.startswith("recommendation_for_prompt"):
            continue
        parts = _CONDITION.fullmatch(name)
        if (
            parts is None
            or parts["demographics"] not in from_tag
            or parts["icl"] not in from_icl
            or parts["sampling"] not in SAMPLINGS
        ):
            raise DataError(
                f"{file}: column {name} names no condition of the design; it was renamed or this is another file"
            )
        if parts["ids"]:
            continue
        counterfactual = "yes" if parts["counterfactual"] == "True" else "no"
        found[counterfactual, parts["sampling"], from_tag[parts["demographics"]], from_icl[parts["icl"]]] = name
    if not found:
        raise DataError(f"{file}: no column recommendation_for_prompt_...; this is another file")
    _require(table, [f"{name}_itemIds" for name in found.values()], file)
    for name in table.columns:
        if name.endswith("_itemIds") and name.startswith("recommendation"):
            _require(table, [name.removesuffix("_itemIds")], file)
    absent = [
        f"counterfactual {c}, sampling {s}, demographics {d}, {i}"
        for c, s, d, i in product(("no", "yes"), SAMPLINGS, DEMOGRAPHICS, ICLS)
        if (c, s, d, i) not in found
    ]
    return found, absent


def _id_list(cell: str, *, nested: bool) -> list[int] | str:
    """Return the ids of a cell, or what is the matter with it."""
    value = _literal(cell)
    if not isinstance(value, list):
        return f"{cell[:40]!r} is not a list"
    if nested and all(isinstance(entry, list) and len(entry) == 1 for entry in value):
        value = [entry[0] for entry in value]
    # True is an int to Python, and an id beyond 64 bits would turn the column into one of objects.
    if not all(type(entry) is int and 0 <= entry < 2**63 for entry in value):
        return f"{cell[:40]!r} is not a list of ids"
    return value


def _nested_text(cell: str) -> tuple[str, str]:
    """Return the text in a cell of the form ``[['text']]``, and what is the matter with it."""
    value = _literal(cell)
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        return "", f"{cell[:40]!r} is not one text in nested lists"
    return value, ""


def _plain_text(cell: str) -> tuple[str, str]:
    return cell, ""


def _literal(cell: str) -> object:
    try:
        with warnings.catch_warnings():
            # An odd backslash is a warning to Python, and an error to whoever made warnings errors.
            warnings.simplefilter("ignore")
            return ast.literal_eval(cell)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
