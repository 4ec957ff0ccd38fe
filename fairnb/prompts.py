"""Prompts: versioned templates, the grid of conditions, and the texts, each asked once.

Source: FairEvalLLM (arXiv 2405.02219), sections 2.1 and 2.2; the prompts released with it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairnb import paths
from fairnb.datasets.dataset import Dataset
from fairnb.errors import DataError, ParameterError
from fairnb.profiles import EXAMPLES, Selection, age_labels
from fairnb.settings import ICLS, SAMPLINGS, Experiment, first_line

TEMPLATES = ("fairnb-1", "released-lastfm")
COLUMNS = [
    *("prompt_id", "user_id", "counterfactual", "sampling", "demographics", "icl"),
    *("ranker", "attribute", "value", "template", "text"),
]
# The columns of the users that hold an attribute's groups; any other attribute is its own column.
GROUP_COLUMN = {"age": "age_group"}
_FIELD = re.compile(r"\{(\w*)\}")
_BRACE = re.compile(r"[{}]")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_ITEM_FIELDS = {"songs": {"title", "artist"}, "films": {"title", "name", "name_year", "genres"}}
# Fields that a text may have, and those without which it would say nothing of the user.
_MAY = {
    "profile_line": {"item"},
    "context_line": {"number", "item"},
    "demographics": {"values"},
    "joiner": set(),
    "profile": {"profile"},
    "zero_shot": {"context", "question", "k"},
    "icl_1": {"context", "latest", "question_after", "k"},
    "icl_2": {"context", "previous", "latest", "question_after", "k"},
}
_MUST = {
    "profile_line": {"item"},
    "context_line": {"item"},
    "demographics": {"values"},
    "profile": {"profile"},
    "zero_shot": {"context", "question"},
    "icl_1": {"context", "latest", "question_after"},
    "icl_2": {"context", "previous", "latest", "question_after"},
}
_VALUE_FIELDS = {"value", "attribute", "cutoff", "phrase"}


class _Question(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    one: str
    many: str


class Template(BaseModel):
    """The wording of a prompt, as a TOML file gives it.

    A text names its fields in braces. What is put in for a field is never looked at again, so a title
    that holds braces stays as it is.

    Attributes
    ----------
    name : str
        What the wording is called; a changed wording deserves a new name.
    kind : {"songs", "films"}
        What the items are.
    system : str
        The system message.
    item : str
        How an item is named: ``{title}`` and ``{artist}`` for songs; ``{title}`` (as the catalogue has
        it), ``{name}``, ``{name_year}`` and ``{genres}`` for films.
    profile_line, context_line : str
        A line of the profile (``{item}``) and of the context (``{item}``, ``{number}``).
    demographics : str
        The sentence that states ``{values}``; it is left out of neutral prompts.
    joiner : str
        Between the values of an intersectional prompt.
    profile : str
        The passion profile, with ``{profile}`` for its lines.
    zero_shot, icl_1, icl_2 : str
        The interaction profile: ``{context}`` for its lines (oldest first), ``{latest}`` and
        ``{previous}`` for the most recent items, which are the worked examples.
    question, question_after : table
        ``one`` and ``many``, for K = 1 and more; ``{k}``, and in ``question_after`` ``{latest}``.
    values : table of tables
        Per attribute, how a value is worded: ``Male = "male"``; ``other`` for values not listed, the
        table ``other`` for attributes not listed. Fields are ``{value}``, ``{attribute}``, and for ages
        ``{cutoff}`` and ``{phrase}`` ("24 years old or younger").
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    kind: str = Field(pattern="^(songs|films)$")
    system: str = Field(min_length=1)
    item: str
    profile_line: str
    context_line: str
    demographics: str
    joiner: str = " and "
    profile: str
    zero_shot: str
    icl_1: str
    icl_2: str
    question: _Question
    question_after: _Question
    values: dict[str, dict[str, str]] = {}

    @model_validator(mode="after")
    def _fields_are_known(self) -> Template:
        _check("item", self.item, _ITEM_FIELDS[self.kind], set())
        if not _FIELD.search(self.item):
            raise ValueError("item: names nothing of the item; expected {title}")
        for key, may in _MAY.items():
            _check(key, getattr(self, key), may, _MUST.get(key, set()))
        for number in ("one", "many"):
            must = {"k"} if number == "many" else set()
            _check(f"question.{number}", getattr(self.question, number), {"k"}, must)
            _check(f"question_after.{number}", getattr(self.question_after, number), {"k", "latest"}, must)
        for attribute, words in self.values.items():
            for value, text in words.items():
                _check(f"values.{attribute}.{value}", text, _VALUE_FIELDS, set())
        return self

    @property
    def version(self) -> str:
        """Name, kind and hash of all texts, such as ``fairnb-1/songs@1a2b3c4d5e6f``."""
        text = json.dumps(self.model_dump(), sort_keys=True, ensure_ascii=False)
        return f"{self.name}/{self.kind}@{hashlib.sha256(text.encode('utf-8')).hexdigest()[:12]}"

    def word(self, attribute: str, value: str, ages: Mapping[str, tuple[int, str]]) -> str:
        """Word a value of an attribute; ``ages`` gives the cut-off and the phrase of each age group.

        Raises
        ------
        ParameterError
            If the template words neither this value nor others of the attribute.
        """
        words = self.values.get(attribute, self.values.get("other", {}))
        if value not in words and "other" not in words:
            raise ParameterError(
                f"template {self.name}: no wording for {attribute} = {value!r}; expected one in "
                f"[values.{attribute}] or [values.other]; add it, or choose fairnb-1"
            )
        text = words.get(value, words.get("other", ""))
        value = _BREAKS.sub(" ", value)
        fields = {"value": value, "attribute": attribute.replace("_", " "), "cutoff": "", "phrase": value}
        if attribute == "age" and value in ages:
            fields |= {"cutoff": str(ages[value][0]), "phrase": ages[value][1]}
        return fill(text, fields)


def _check(key: str, text: str, may: set[str], must: set[str]) -> None:
    found = set(_FIELD.findall(text))
    unknown = sorted(found - may)
    known = ", ".join(f"{{{name}}}" for name in sorted(may)) or "none"
    if unknown:
        raise ValueError(f"{key}: unknown field {{{unknown[0]}}}; known here: {known}")
    if _BRACE.search(_FIELD.sub("", text)):
        raise ValueError(f"{key}: a brace that belongs to no field; known fields here: {known}")
    if must - found:
        raise ValueError(f"{key}: field {{{min(must - found)}}} is missing; add it")


def fill(text: str, fields: Mapping[str, str]) -> str:
    """Put values in for the fields of a text, once: a value that looks like a field stays a value."""
    return _FIELD.sub(lambda found: fields[found[1]], text)


def load_template(name_or_file: str, kind: str) -> Template:
    """Read a template that comes with fairnb, or the reader's own.

    Parameters
    ----------
    name_or_file : str
        A name of `TEMPLATES`, or a TOML file.
    kind : {"songs", "films", ""}
        What the items of the data set are; empty for any (songs, where a name has both).

    Raises
    ------
    ParameterError
        If there is no such template, it is for other items, or a line, key or field of it is not as it
        should be.
    """
    if kind not in ("songs", "films", ""):
        raise ParameterError(f"kind = {kind!r}: expected songs or films")
    if name_or_file in TEMPLATES:
        folder = resources.files("fairnb") / "templates"
        file = next(
            folder / name
            for name in (f"{name_or_file}-{kind or 'songs'}.toml", f"{name_or_file}.toml")
            if (folder / name).is_file()
        )
        text, where = file.read_text("utf-8"), name_or_file
    else:
        path = Path(name_or_file)
        if not path.is_file() and path.suffix == ".toml":
            path = paths.root() / path  # a notebook runs in its own folder, and means the project's
        where = str(name_or_file)
        if not path.is_file():
            raise ParameterError(
                f"template = {name_or_file!r}: no such template; expected {', '.join(TEMPLATES)}, or a TOML file"
            )
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path}: cannot be read as text in UTF-8 ({type(error).__name__})") from None
    try:
        template = Template(**tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"{where}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise ParameterError(f"{where}: {first_line(error, Template)}") from None
    if kind and template.kind != kind:
        raise ParameterError(f"{where}: a template for {template.kind}; this data set holds {kind}; choose another")
    return template


def age_words(cutoffs: Sequence[int], codes: Mapping[int, str]) -> dict[str, tuple[int, str]]:
    """Give each age group its cut-off and a phrase.

    Parameters
    ----------
    cutoffs : sequence of int
        Upper ages of all groups but the last.
    codes : mapping of int to str
        Of ages that are codes for ranges (MovieLens 1M): a cut-off of 32 lies between the codes 25 (25 to
        34) and 35, so that it parts people under 35 from people of 35 and more.

    Returns
    -------
    dict of str to (int, str)
    """
    # First year of the group above each cut-off.
    starts = [min((code for code in codes if code > cut), default=cut + 1) for cut in cutoffs]
    phrases = []
    for place in range(len(cutoffs) + 1):
        low = starts[place - 1] if place else None
        high = starts[place] - 1 if place < len(cutoffs) else None
        if low is None and high is None:
            phrases.append("of any age")
        elif low is None:
            phrases.append(f"{high} years old or younger")
        elif high is None:
            phrases.append(f"{low} years old or older")
        else:
            phrases.append(f"{low} to {high} years old")
    cuts = [*cutoffs, *cutoffs[-1:]] or [0]
    return dict(zip(age_labels(cutoffs), zip(cuts, phrases, strict=True), strict=True))


def item_texts(dataset: Dataset, template: Template, item_ids: Sequence[int] | None = None) -> dict[int, str]:
    """Name items in the words of a template.

    Raises
    ------
    DataError
        If an item lacks a field that the template names.
    """
    fields = sorted(set(_FIELD.findall(template.item)))
    items = dataset.items if item_ids is None else dataset.items[dataset.items["item_id"].isin(set(item_ids))]
    columns: dict[str, list[Any]] = {}
    for field in fields:
        if field == "name_year":
            pairs = zip(items["name"], items["year"], items["title"], strict=True)
            columns[field] = [title if pd.isna(year) else f"{name} ({year})" for name, year, title in pairs]
        elif field in items.columns:
            columns[field] = items[field].tolist()
        else:
            raise DataError(f"items of {dataset.title}: no column {field}, which template {template.name} names")
    absent = set() if item_ids is None else set(item_ids) - set(items["item_id"])
    if absent:
        raise DataError(f"item {min(absent)}: not among the items of {dataset.title}; expected every item of a profile")
    texts: dict[int, str] = {}
    for place, item_id in enumerate(items["item_id"].tolist()):
        values = {field: columns[field][place] for field in fields}
        for field, value in values.items():
            if not isinstance(value, str) or not value.strip():
                raise DataError(
                    f"item {item_id} of {dataset.title}: no {field}, which template {template.name} names; "
                    f"leave the item out or choose another template"
                )
        # A line break in a title would end the line of the list that it stands in.
        texts[item_id] = fill(template.item, {field: _BREAKS.sub(" ", value) for field, value in values.items()})
    return texts


def build(
    dataset: Dataset,
    users: pd.DataFrame,
    passion: pd.DataFrame,
    recent: pd.DataFrame,
    template: Template,
    *,
    attributes: Sequence[str] = ("gender", "age"),
    cutoffs: Sequence[int] = (),
    context: int = 5,
    k: int = 3,
) -> pd.DataFrame:
    """Write the prompts of all conditions.

    Parameters
    ----------
    dataset : Dataset
        For the items' names.
    users : DataFrame
        ``user_id``, and a column per attribute (``age_group`` for age), NaN where it is missing.
    passion : DataFrame
        From `fairnb.profiles.passion`.
    recent : DataFrame
        From `fairnb.profiles.recent`: at least ``context + 2`` items a user.
    template : Template
    attributes : sequence of str
        What prompts state; with more than one there are intersectional prompts, which state all.
    cutoffs : sequence of int
        Of the age groups, for their wording.
    context : int, default 5
        Items of the interaction profile.
    k : int, default 3
        Items to ask for.

    Returns
    -------
    DataFrame
        One row per user and condition: ``prompt_id`` (equal for equal texts), ``user_id``,
        ``counterfactual`` (no, yes), ``sampling``, ``demographics`` (none, an attribute,
        intersectional), ``icl``, ``ranker`` (neutral, sensitive, counterfactual), ``attribute`` and
        ``value`` (empty if neutral; parts of an intersection joined by ``" & "``), ``template``, ``text``.
        Counterfactual prompts state another value for every attribute they name, do(v); with more than
        two values there is one for each. A user who lacks an attribute has no prompts that state it.

    Raises
    ------
    ParameterError
        If an attribute has one value only, or k or context is below 1.
    DataError
        If a user has no profile, too few recent items, or an item has no name.

    Notes
    -----
    Source: FairEvalLLM, eq. 4: demographics, passion profile, interaction profile, in this order. With two
    attributes of two values each there are 72 conditions per user.
    """
    if k < 1 or context < 1:
        raise ParameterError(f"k = {k}, context_length = {context}: expected 1 or more")
    columns = {attribute: GROUP_COLUMN.get(attribute, attribute) for attribute in attributes}
    values = {attribute: _values(users, attribute, column) for attribute, column in columns.items()}
    texts = item_texts(dataset, template, [*passion["item_id"], *recent["item_id"]])
    ages = age_words(cutoffs, dataset.age_codes)
    tastes = _profile_texts(passion, texts, template)
    latest = {user: rows["item_id"].tolist() for user, rows in recent.sort_values("back").groupby("user_id")}

    rows: list[tuple[object, ...]] = []
    for user in users[["user_id", *columns.values()]].to_dict("records"):
        user_id = user["user_id"]
        own = {name: str(user[column]) for name, column in columns.items() if not pd.isna(user[column])}
        opening = [
            (*condition, _sentence(template, condition[3], ages)) for condition in _stated(own, values, attributes)
        ]
        examples = _context_texts(user_id, [texts[item] for item in latest.get(user_id, [])], template, context, k)
        for sampling, icl in product(SAMPLINGS, ICLS):
            if (user_id, sampling) not in tastes:
                raise DataError(f"user {user_id}: no {sampling} profile; expected one for every user")
            rest = tastes[user_id, sampling] + examples[icl]
            for counterfactual, demographics, ranker, stated, sentence in opening:
                value = " & ".join(stated.values())
                attribute = demographics if stated else ""
                rows.append(
                    (user_id, counterfactual, sampling, demographics, icl, ranker, attribute, value, sentence + rest)
                )
    frame = pd.DataFrame(
        rows,
        columns=[name for name in COLUMNS if name not in ("prompt_id", "template")],
    )
    frame["prompt_id"] = [prompt_id(text) for text in frame["text"]]
    frame["template"] = template.version
    return frame[COLUMNS]


def build_for(
    experiment: Experiment,
    selection: Selection,
    passion: pd.DataFrame,
    recent: pd.DataFrame,
    template: Template,
) -> pd.DataFrame:
    """Write the prompts of an experiment; see `build`."""
    return build(
        selection.dataset,
        selection.users,
        passion,
        recent,
        template,
        attributes=experiment.stated,
        cutoffs=selection.cutoffs,
        context=experiment.context_length,
        k=experiment.k,
    )


def preview(template: Template, k: int = 3) -> dict[str, str]:
    """Write the prompts of a made-up user, to look at a template: heading to text."""
    numbers = list(range(1, 18))
    items = pd.DataFrame({"item_id": numbers, "title": [f"Title {n}" for n in numbers]})
    items["name"], items["artist"], items["genres"] = items["title"], [f"Artist {n}" for n in numbers], "Genre"
    items["year"] = pd.array([1970 + n for n in numbers], dtype="Int64")
    users = pd.DataFrame({"user_id": [1, 2], "gender": ["Female", "Male"], "age_group": ["Young", "Old"]})
    data = Dataset("own", "made-up items", template.kind, pd.DataFrame(), users, items, (), pd.DataFrame())
    passion = pd.DataFrame(
        [(user, sampling, n, n) for user in (1, 2) for sampling in SAMPLINGS for n in range(1, 11)],
        columns=["user_id", "sampling", "place", "item_id"],
    )
    recent = pd.DataFrame(
        [(user, back, 18 - back) for user in (1, 2) for back in range(1, 8)], columns=["user_id", "back", "item_id"]
    )
    grid = build(data, users, passion, recent, template, cutoffs=(24,), k=k)
    grid = grid[(grid["user_id"] == 1) & (grid["sampling"] == "random")]
    wanted = [("neutral", "none", icl) for icl in ICLS] + [("sensitive", "intersectional", "0-shot")]
    texts = {}
    for ranker, demographics, icl in wanted:
        rows = grid[(grid["ranker"] == ranker) & (grid["demographics"] == demographics) & (grid["icl"] == icl)]
        texts[f"{ranker}, {icl}"] = str(rows["text"].iloc[0])
    return texts


def prompt_id(text: str) -> str:
    """Return the identity of a prompt: the first 16 hexadecimal digits of the SHA-256 of its text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def unique(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return each text once: ``prompt_id``, ``text`` and ``conditions`` (how many rows use it).

    Answers join back to every condition by ``prompt_id``.
    """
    counts = prompts.groupby("prompt_id").size().rename("conditions")
    return prompts[["prompt_id", "text"]].drop_duplicates("prompt_id").merge(counts, on="prompt_id")


def estimate_tokens(texts: pd.Series) -> pd.Series:
    """Estimate the length of texts in tokens.

    Parameters
    ----------
    texts : Series of str

    Returns
    -------
    Series of int
        Three tokens for ten ASCII characters, and one for each other character. Models differ; take it for
        the size of a budget and not for a limit.

    Notes
    -----
    Against the tokenizer of GPT-2: 0.83 to 1.02 of its count on 80 of the released prompts (median 0.96), 0.93
    to 1.07 on 300 prompts of the bundled samples (medians 0.99 and 1.02).
    """
    return texts.map(tokens).astype("int64")


def tokens(text: str) -> int:
    """Estimate the length of one text in tokens; see `estimate_tokens`."""
    plain = len(text.encode("ascii", "ignore"))
    return (3 * plain + 9) // 10 + len(text) - plain


def check_for(experiment: Experiment, selection: Selection, template: Template) -> None:
    """Check that a template can word what is stated of the users drawn; see `build` for the errors."""
    ages = age_words(selection.cutoffs, selection.dataset.age_codes)
    for attribute in experiment.stated:
        for value in _values(selection.users, attribute, GROUP_COLUMN.get(attribute, attribute)):
            template.word(attribute, value, ages)


def _values(users: pd.DataFrame, attribute: str, column: str) -> list[str]:
    if column not in users.columns:
        raise ParameterError(f"attributes: users have no column {column}; they have {', '.join(users.columns)}")
    values = sorted(set(users[column].dropna().astype(str)))
    if len(values) < 2:
        other = "set age_split to part them" if attribute == "age" else "leave it out or draw other users"
        raise ParameterError(
            f"attributes: {attribute} is {values[0] if values else 'missing'} for all users; expected two values or "
            f"more, so that a prompt can state another; {other}"
        )
    return values


def _stated(
    own: Mapping[str, str], values: Mapping[str, Sequence[str]], attributes: Sequence[str]
) -> list[tuple[str, str, str, dict[str, str]]]:
    """List what a user's prompts state: counterfactual, demographics, ranker, and value per attribute."""
    named: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in attributes if name in own]
    if len(attributes) > 1 and len(own) == len(attributes):
        named.append(("intersectional", tuple(attributes)))
    conditions: list[tuple[str, str, str, dict[str, str]]] = [("no", "none", "neutral", {})]
    conditions += [("no", label, "sensitive", {name: own[name] for name in names}) for label, names in named]
    conditions.append(("yes", "none", "neutral", {}))
    for label, names in named:
        others = [[value for value in values[name] if value != own[name]] for name in names]
        conditions += [
            ("yes", label, "counterfactual", dict(zip(names, other, strict=True))) for other in product(*others)
        ]
    return conditions


def _sentence(template: Template, stated: Mapping[str, str], ages: Mapping[str, tuple[int, str]]) -> str:
    if not stated:
        return ""
    words = [template.word(attribute, value, ages) for attribute, value in stated.items()]
    return fill(template.demographics, {"values": template.joiner.join(words)})


def _profile_texts(passion: pd.DataFrame, texts: Mapping[int, str], template: Template) -> dict[tuple[Any, Any], str]:
    lines = [fill(template.profile_line, {"item": texts[item]}) for item in passion["item_id"]]
    joined = passion.assign(line=lines).sort_values("place", kind="stable")
    grouped = joined.groupby(["user_id", "sampling"], sort=False)["line"].agg("\n".join)
    return {key: fill(template.profile, {"profile": text}) for key, text in grouped.items()}


def _context_texts(user_id: object, latest: Sequence[str], template: Template, context: int, k: int) -> dict[str, str]:
    """Word the interaction profile of a user in its three forms; ``latest`` begins with the most recent."""
    if len(latest) < context + EXAMPLES:
        raise DataError(f"user {user_id}: {len(latest)} different recent items; expected {context + EXAMPLES}")
    number = "one" if k == 1 else "many"
    named = {"latest": latest[0], "previous": latest[1], "k": str(k)}
    texts = {}
    for examples, (icl, text) in enumerate(
        zip(ICLS, (template.zero_shot, template.icl_1, template.icl_2), strict=True)
    ):
        shown = latest[examples : examples + context][::-1]
        lines = [
            fill(template.context_line, {"number": str(place), "item": item})
            for place, item in enumerate(shown, start=1)
        ]
        fields = named | {
            "context": "\n".join(lines),
            "question": fill(getattr(template.question, number), named),
            "question_after": fill(getattr(template.question_after, number), named),
        }
        texts[icl] = fill(text, fields)
    return texts
