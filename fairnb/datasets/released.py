"""The files that FairEvalLLM's author released, as tidy frames.

Source: GitHub yasdel/Benchmark_RecLLM_Fairness, commit 5fdc3e1. Replies of gpt-3.5-turbo, K = 3, to
80 users x 72 conditions on Last.fm 1K and 80 x 71 on MovieLens 1M (whose file name says ``ml100k``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from fairnb.errors import DataError
from fairnb.settings import ICLS, SAMPLINGS

K = 3
DEMOGRAPHICS = ("none", "gender", "age", "intersectional")
GENDERS = ("Male", "Female")
AGE_GROUPS = ("Young", "Old")

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
        ``reply`` (row number), ``user_id``, ``sampling``, ``icl``, ``counterfactual`` (no, yes),
        ``demographics``, ``text`` (the recommended titles, one a line), ``status`` (``ok``; ``unparsed``
        if a cell of the reply is not what the file's format says).
    rankings : DataFrame
        ``reply``, ``rank`` (place in the id list, from 1), ``item_id``: the author's matches.
    unread : list of str
        Each cell that did not parse, as ``line 7, column NAME: why``.
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
    """
    file = folder / _RESULTS[dataset]
    table = _read_text_table(file)
    _require(table, ["userId", "gender", "age_group", _TRUTH_COLUMN[dataset]], file)
    users = _users(table, dataset, file)

    truth_rows: list[tuple[int, int]] = []
    for row, (user_id, cell) in enumerate(zip(users["user_id"], table[_TRUTH_COLUMN[dataset]], strict=True)):
        ids = _id_list(cell, nested=False)
        if isinstance(ids, str):
            raise DataError(
                f"{file.name}, line {row + 2}, column {_TRUTH_COLUMN[dataset]}: {ids}; "
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
        for row, user_id in enumerate(users["user_id"]):
            text, problem = read_text(table.at[row, name])
            ids = _id_list(table.at[row, f"{name}_itemIds"], nested=nested)
            where = f"line {row + 2}, column {name}"
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
    table = _read_text_table(file)
    _require(table, ["itemId", "title"], file)
    return pd.DataFrame({"item_id": _whole_numbers(table, "itemId", file), "title": table["title"]})


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


def _read_interactions(file: Path) -> pd.DataFrame:
    table = _read_text_table(file)
    names = {"userId": "user_id", "itemId": "item_id", "rating": "rating", "timestamp": "timestamp"}
    _require(table, list(names), file)
    return pd.DataFrame({new: _whole_numbers(table, old, file) for old, new in names.items()})


def _read_text_table(file: Path) -> pd.DataFrame:
    if not file.is_file():
        raise DataError(
            f"{file}: no such file; expected the released files, a folder with data/ and results/ in it; "
            f"`fairnb data get fairevalllm` downloads them"
        )
    try:
        # Nothing may be taken for missing: NA and None are texts like others.
        return pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8")
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{file}: not a CSV file in UTF-8 ({reason}); download it again") from None


def _require(table: pd.DataFrame, columns: list[str], file: Path) -> None:
    for column in columns:
        if column not in table.columns:
            raise DataError(
                f"{file}: no column {column}; expected {', '.join(columns)}; it was renamed or this is another file"
            )


def _whole_numbers(table: pd.DataFrame, column: str, file: Path) -> pd.Series:
    odd = ~table[column].str.fullmatch(r"\d+")
    if odd.any():
        row = int(odd.to_numpy().argmax())
        raise DataError(
            f"{file}, line {row + 2}, column {column}: {table.at[row, column]!r} is not a whole number; "
            f"download the file again"
        )
    return table[column].astype("int64")


def _users(table: pd.DataFrame, dataset: str, file: Path) -> pd.DataFrame:
    user_id = _whole_numbers(table, "userId", file)
    if user_id.duplicated().any():
        row = int(user_id.duplicated().to_numpy().argmax())
        raise DataError(
            f"{file}, line {row + 2}, column userId: user {user_id[row]} stands twice; expected one row a user"
        )
    labels = {"gender": {name: name for name in GENDERS}, "age_group": _AGE_LABELS[dataset]}
    users = pd.DataFrame({"user_id": user_id, "user": range(1, len(table) + 1)})
    for column, known in labels.items():
        strange = ~table[column].isin(known)
        if strange.any():
            row = int(strange.to_numpy().argmax())
            raise DataError(
                f"{file}, line {row + 2}, column {column}: unknown group {table.at[row, column]!r}; "
                f"expected one of {', '.join(known)}"
            )
        users[column] = table[column].map(known)
    return users


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
    if not all(type(entry) is int for entry in value):
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
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
