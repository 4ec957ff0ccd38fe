"""Users, their temporal split, and their profiles: what a prompt may know of a user.

Source: FairEvalLLM (arXiv 2405.02219), sections 2.1 and 4, eqs 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from fairnb import paths
from fairnb.datasets.dataset import Dataset
from fairnb.datasets.loading import Raw, open_raw
from fairnb.errors import DataError, ParameterError
from fairnb.seeds import ROOT_SEED, generator
from fairnb.settings import SAMPLINGS, Experiment

MISSING = ("exclude", "keep", "fill")
# ICL-2 shows two of the user's latest items as worked examples, on top of the context.
EXAMPLES = 2


@dataclass(frozen=True, eq=False)
class Selection:
    """The users of an experiment, with their interactions split in time.

    Attributes
    ----------
    dataset : Dataset
        Of the chosen users only; its interactions have ``part`` (train, test) and are sorted by user and
        time.
    users : DataFrame
        `Dataset.users` with ``age_group``, sorted by ``user_id``; missing is NaN.
    funnel : DataFrame
        ``step``, ``users`` (left after it), ``left_out``: from the data set to the draw.
    cutoffs : tuple of int
        Upper ages of all age groups but the last; empty where no age is known.
    filled : dict of str to int
        Of the users drawn, how many had an attribute filled in.
    """

    dataset: Dataset
    users: pd.DataFrame
    funnel: pd.DataFrame
    cutoffs: tuple[int, ...]
    filled: dict[str, int]

    @property
    def train(self) -> pd.DataFrame:
        """The interactions that a profile may be made of."""
        return _part(self.dataset.interactions, "train")

    @property
    def test(self) -> pd.DataFrame:
        """The held-out interactions."""
        return _part(self.dataset.interactions, "test")


def open_data(experiment: Experiment) -> Raw:
    """Open the data set that an experiment names, in the folder that it names."""
    folder = paths.root() / Path(experiment.data_folder).expanduser() if experiment.data_folder else None
    # The bundled sample is read in a moment; a cache of it would only be one more thing that can be stale.
    cache = paths.runs() / "cache" if experiment.dataset == "lastfm1k" else None
    return open_raw(experiment.dataset, folder, cache=cache)


def select_for(experiment: Experiment, raw: Raw) -> Selection:
    """Draw the users of an experiment; see `select`."""
    return select(
        raw,
        experiment.n_users,
        minimum=experiment.min_interactions,
        maximum=experiment.max_interactions,
        attributes=experiment.stated,
        missing=experiment.missing,
        stratify=experiment.strata,
        share=experiment.train_share,
        length=experiment.profile_length,
        context=experiment.context_length,
        cutoffs=experiment.cutoff_ages,
        seed=experiment.seed,
    )


# What decides who is drawn and how their interactions are split, with the settings that fit both bundled samples.
_PLAIN = Experiment().model_dump(
    include={
        *("data_folder", "n_users", "min_interactions", "max_interactions", "attributes", "missing", "stratify"),
        *("train_share", "age_split", "profile_length", "context_length", "seed"),
    }
)


def select_companions(experiment: Experiment, selection: Selection) -> list[Selection]:
    """Return a selection together with one of the other bundled sample, drawn by the same settings.

    Table 3 of the paper has a row per data set. With other settings than the default, which may not fit the other
    sample, and with data that are not bundled, there is the one data set that the reader named.
    """
    bundled = ("sample-songs", "sample-films")
    fits = experiment.dataset in bundled and all(getattr(experiment, name) == value for name, value in _PLAIN.items())
    others = [name for name in bundled if fits and name != experiment.dataset]
    named = [experiment.model_copy(update={"dataset": name, "data_folder": ""}) for name in others]
    return [selection, *(select_for(other, open_data(other)) for other in named)]


def example_user(selection: Selection, experiment: Experiment) -> object:
    """Return the user that is shown: the one that the settings name, or the first one drawn.

    Raises
    ------
    ParameterError
        If the user named was not drawn.
    """
    ids = selection.users["user_id"].tolist()
    if not experiment.example_user:
        return ids[0]
    named = {str(identity): identity for identity in ids}
    if experiment.example_user not in named:
        raise ParameterError(
            f"example_user = {experiment.example_user!r}: not among the users drawn; expected one of "
            f"{', '.join(list(named)[:10])}{', ...' if len(named) > 10 else ''}"
        )
    return named[experiment.example_user]


def passion_for(experiment: Experiment, train: pd.DataFrame) -> pd.DataFrame:
    """Choose the profiles of an experiment; see `passion`."""
    return passion(
        train,
        length=experiment.profile_length,
        omega=experiment.omega,
        recency=experiment.recency,
        seed=experiment.seed,
    )


def _part(interactions: pd.DataFrame, part: str) -> pd.DataFrame:
    return interactions[interactions["part"] == part].drop(columns="part").reset_index(drop=True)


def split(interactions: pd.DataFrame, share: float = 0.8) -> pd.DataFrame:
    """Split each user's interactions in time.

    Parameters
    ----------
    interactions : DataFrame
        ``user_id``, ``item_id``, ``timestamp``. A column ``part`` that is there already is kept.
    share : float, default 0.8
        In (0, 1). Of n interactions the first ``int(share * n)`` are train.

    Returns
    -------
    DataFrame
        The same rows with ``part`` (train, test), by user and time. Interactions of the same second keep
        their order in the file.

    Raises
    ------
    ParameterError
        If the share is not in (0, 1).

    Notes
    -----
    Source: FairEvalLLM, section 4 (80 % of a user's interactions in time order).
    """
    if not 0 < share < 1:
        raise ParameterError(f"train_share = {share}: expected a number above 0 and below 1, such as 0.8")
    rows = interactions.sort_values(["user_id", "timestamp"], kind="stable", ignore_index=True)
    if "part" in rows.columns:
        return rows
    by_user = rows.groupby("user_id", sort=False)["timestamp"]
    train = by_user.cumcount() < (share * by_user.transform("size")).astype("int64")
    return rows.assign(part=np.where(train, "train", "test"))


def ties_at_split(interactions: pd.DataFrame) -> pd.DataFrame:
    """List users whose last train and first test interaction are of the same second.

    For them the split hangs on the order in the file.

    Parameters
    ----------
    interactions : DataFrame
        From `split`.

    Returns
    -------
    DataFrame
        ``user_id``, ``timestamp``, ``train`` and ``test`` (interactions of that second in each part).
    """
    last = interactions[interactions["part"] == "train"].groupby("user_id")["timestamp"].max()
    first = interactions[interactions["part"] == "test"].groupby("user_id")["timestamp"].min()
    boundary = last[last == first.reindex(last.index)].rename("boundary")
    tied = interactions.merge(boundary, left_on="user_id", right_index=True)
    tied = tied[tied["timestamp"] == tied["boundary"]]
    counts = tied.groupby(["user_id", "timestamp"])["part"].value_counts().unstack("part", fill_value=0)
    columns = ["user_id", "timestamp", "train", "test"]
    return counts.reindex(columns=["train", "test"], fill_value=0).reset_index()[columns].rename_axis(columns=None)


def age_cutoff(train: pd.DataFrame, users: pd.DataFrame) -> int | None:
    """Return the mean age over train rows, cut to a whole number; None if no age is known.

    A user counts once for each interaction, so heavy users weigh more, as in the released code.
    """
    ages = train["user_id"].map(users.set_index("user_id")["age"]).dropna()
    return int(ages.mean()) if len(ages) else None


def age_groups(ages: pd.Series, cutoffs: Sequence[int]) -> pd.Series:
    """Sort ages into groups.

    Parameters
    ----------
    ages : Series of float
        In years; part of a year does not count. NaN where missing.
    cutoffs : sequence of int
        Rising upper ages (inclusive) of all groups but the last. One makes Young and Old.

    Returns
    -------
    Series of str
        NaN where the age is missing.

    Raises
    ------
    ParameterError
        If the cut-offs do not rise.
    """
    if list(cutoffs) != sorted(set(cutoffs)):
        raise ParameterError(f"age_split = {', '.join(map(str, cutoffs))}: expected rising ages such as 24, 34")
    labels = age_labels(cutoffs)
    place = np.searchsorted(np.asarray(cutoffs, dtype="float64"), np.floor(ages.to_numpy(dtype="float64")), side="left")
    return pd.Series(np.array(labels, dtype=object)[place], index=ages.index).where(ages.notna()).astype("str")


def age_labels(cutoffs: Sequence[int]) -> list[str]:
    """Name the groups that cut-offs make: Young and Old, or ``up to 24``, ``25 to 34``, ``over 34``."""
    if len(cutoffs) == 1:
        return ["Young", "Old"]
    if not cutoffs:
        return ["all ages"]
    middle = [f"{low + 1} to {high}" for low, high in pairwise(cutoffs)]
    return [f"up to {cutoffs[0]}", *middle, f"over {cutoffs[-1]}"]


def select(
    raw: Raw,
    n: int = 80,
    *,
    minimum: int = 50,
    maximum: int = 10_000,
    attributes: Sequence[str] = ("gender", "age"),
    missing: str = "exclude",
    stratify: Sequence[str] = (),
    share: float = 0.8,
    length: int = 10,
    context: int = 5,
    cutoffs: Sequence[int] | None = None,
    seed: int = ROOT_SEED,
) -> Selection:
    """Draw users of moderate activity, read their interactions and split them in time.

    Parameters
    ----------
    raw : Raw
        An opened data set.
    n : int, default 80
        Users to draw; 0 takes all that are eligible.
    minimum, maximum : int
        Interactions that a user of moderate activity has, both inclusive.
    attributes : sequence of str
        Columns of the users that prompts are to state.
    missing : {"exclude", "keep", "fill"}
        Users who lack one of the attributes: left out and counted; kept, with neutral prompts where it is
        missing; or given the median age and the most frequent gender of all users, as in the released
        code.
    stratify : sequence of str
        Columns of the users in whose shares they are drawn (largest remainders); empty for a plain draw.
    share : float
        Of interactions that are train; see `split`.
    length, context : int
        Items of a profile and of the context: users need ``max(length, context + 2)`` different train
        items.
    cutoffs : sequence of int, optional
        Of age groups; by default one, `age_cutoff` of the chosen users.
    seed : int
        Root of the draw. It depends on the seed, the data set's name and the eligible users' ids, not on
        their order.

    Returns
    -------
    Selection

    Raises
    ------
    ParameterError
        If fewer users are eligible than asked for, a column is unknown, or a number is out of range.
    """
    _check_numbers(n, minimum, maximum, length, context)
    if missing not in MISSING:
        raise ParameterError(f"missing = {missing!r}: expected one of {', '.join(MISSING)}")
    _check_columns(raw, attributes, stratify)
    everyone = _filled(raw.users, attributes) if missing == "fill" else raw.users
    known = everyone[list(attributes)].notna().all(axis=1) | (missing != "exclude")
    plays = everyone["user_id"].map(raw.activity)
    steps = [
        ("in the data set", pd.Series(data=True, index=everyone.index)),
        ("with interactions", plays > 0),
        (f"with at least {minimum:,} interactions", plays >= minimum),
        (f"with at most {maximum:,} interactions", plays <= maximum),
    ]
    if attributes and missing == "exclude":
        steps.append((f"whose {' and '.join(attributes)} {'is' if len(attributes) == 1 else 'are'} known", known))
    left = pd.Series(data=True, index=everyone.index)
    funnel: list[tuple[str, int]] = []
    for step, keeps in steps:
        left &= keeps
        funnel.append((step, int(left.sum())))
    eligible = everyone[left]
    needs = _Needs(share, max(length, context + EXAMPLES))
    chosen, looked_at, most = _draw(raw, eligible, n, stratify, seed, needs)
    if len(chosen) < (n or 1):
        shares = f" in the shares of {', '.join(stratify)}" if stratify else ""
        raise ParameterError(
            f"n_users = {n}: only {len(chosen)} of the {len(everyone)} users of {raw.card.title} can be taken: "
            + "; ".join(f"{count} {step}" for step, count in funnel)
            + f"; {len(chosen)} with {needs.items} different train items (see profile_length, context_length and "
            f"train_share){shares}; " + (f"set n_users to at most {most}, or relax these" if most else "relax these")
        )
    short = looked_at - len(chosen)
    funnel.append((f"with {needs.items} different train items, of those looked at", len(eligible) - short))
    funnel.append(("drawn", len(chosen)))
    dataset = raw.read(chosen)
    dataset = replace(dataset, interactions=split(dataset.interactions, share))
    users = everyone[everyone["user_id"].isin(set(chosen))].sort_values("user_id", ignore_index=True)
    _check_ends(raw, dataset, cutoffs)
    if cutoffs is None:
        cut = age_cutoff(_part(dataset.interactions, "train"), users)
        cutoffs = () if cut is None else (cut,)
    users = users.assign(age_group=age_groups(users["age"], cutoffs))
    table = pd.DataFrame(funnel, columns=["step", "users"])
    table["left_out"] = (table["users"].shift(fill_value=len(everyone)) - table["users"]).astype("int64")
    lacking = raw.users[raw.users["user_id"].isin(set(chosen))][list(attributes)].isna().sum()
    filled = {name: int(count) for name, count in lacking.items() if count and missing == "fill"}
    return Selection(replace(dataset, users=users), users, table, tuple(cutoffs), filled)


def _check_numbers(n: int, minimum: int, maximum: int, length: int, context: int) -> None:
    least = (
        *(("n_users", n, 0), ("min_interactions", minimum, 2), ("max_interactions", maximum, minimum)),
        *(("profile_length", length, 1), ("context_length", context, 1)),
    )
    for name, value, bound in least:
        if value < bound:
            raise ParameterError(f"{name} = {value}: expected {bound} or more")


def _check_columns(raw: Raw, attributes: Sequence[str], stratify: Sequence[str]) -> None:
    usable = raw.users.columns.drop("user_id")
    for setting, columns in (("attributes", attributes), ("stratify", stratify)):
        if isinstance(columns, str):
            raise ParameterError(f"{setting} = {columns!r}: one text; expected a list such as [{columns!r}]")
        for column in columns:
            if column not in usable:
                raise ParameterError(
                    f"{setting} = {column}: users of {raw.card.title} have no such attribute; they have "
                    f"{', '.join(usable)}"
                )
            if setting == "attributes" and raw.users[column].isna().all():
                raise ParameterError(
                    f"attributes = {column}: it is missing for all users of {raw.card.title}; name another"
                )


def _check_ends(raw: Raw, dataset: Dataset, cutoffs: Sequence[int] | None) -> None:
    """Stop at several cut-offs within ranges of ages, for which no group could be named truly."""
    ends = [code - 1 for code in sorted(dataset.age_codes)[1:]]
    if cutoffs is not None and len(cutoffs) > 1 and ends and not set(cutoffs) <= set(ends):
        raise ParameterError(
            f"age_split = {','.join(map(str, cutoffs))}: ages of {raw.card.title} are codes for ranges; "
            f"expected the ends of ranges: {', '.join(map(str, ends))}"
        )


def _filled(users: pd.DataFrame, attributes: Sequence[str]) -> pd.DataFrame:
    users = users.copy()
    for column in attributes:
        lacking = users[column].isna()
        if not lacking.any() or lacking.all():
            continue
        numeric = pd.api.types.is_numeric_dtype(users[column])
        # mode() is sorted, so that a draw between two equally frequent values falls the same way each time.
        users[column] = users[column].fillna(users[column].median() if numeric else users[column].mode()[0])
    return users


@dataclass(frozen=True)
class _Needs:
    """What a user must have to be given all prompts."""

    share: float
    items: int

    def met_by(self, interactions: pd.DataFrame) -> set[object]:
        parts = split(interactions, self.share)
        items = parts[parts["part"] == "train"].groupby("user_id")["item_id"].nunique()
        tested = set(parts.loc[parts["part"] == "test", "user_id"])
        return set(items.index[items >= self.items]) & tested


def _draw(
    raw: Raw, eligible: pd.DataFrame, n: int, stratify: Sequence[str], seed: int, needs: _Needs
) -> tuple[list[object], int, int]:
    """Return the users drawn, how many had to be looked at for them, and how many could be drawn at most."""
    wanted = n or len(eligible)
    most = len(eligible)
    chosen: list[object] = []
    looked_at = 0
    lots = generator("strata", raw.card.name, root=seed)
    for stratum, ids, quota in _strata(eligible, stratify, min(wanted, len(eligible)), lots):
        order = [ids[place] for place in generator("users", raw.card.name, stratum, root=seed).permutation(len(ids))]
        found: list[object] = []
        while order and len(found) < quota:
            batch, order = order[: quota - len(found)], order[quota - len(found) :]
            fit = needs.met_by(raw.read(batch).interactions)
            found += [user for user in batch if user in fit]
            looked_at += len(batch)
        chosen += found
        if len(found) < quota:
            # Fewer than this many, and no remainder can lift the stratum's number above what it has.
            most = min(most, len(found) * len(eligible) // len(ids))
    return chosen, looked_at, most


def _strata(
    eligible: pd.DataFrame, columns: Sequence[str], n: int, rng: np.random.Generator
) -> list[tuple[str, list[object], int]]:
    """Return name, sorted ids and number to draw of each stratum."""
    if not columns or eligible.empty:
        return [("", sorted(eligible["user_id"].tolist()), n)]
    names = eligible[list(columns)].astype("str").fillna("missing").agg(" and ".join, axis=1)
    groups = {name: sorted(ids.tolist()) for name, ids in eligible.groupby(names)["user_id"]}
    quota, remainder = {}, {}
    for name, ids in groups.items():
        quota[name], remainder[name] = divmod(n * len(ids), len(eligible))
    # Equal remainders go by lot: by name, small strata would always lose to those that stand first.
    lots = dict(zip(sorted(groups), rng.permutation(len(groups)).tolist(), strict=True))
    by_remainder = sorted(groups, key=lambda name: (-remainder[name], lots[name]))
    for name in by_remainder[: n - sum(quota.values())]:
        quota[name] += 1
    return [(name, groups[name], quota[name]) for name in sorted(groups)]


def passion(
    train: pd.DataFrame,
    *,
    length: int = 10,
    omega: float = 0.65,
    recency: str = "last",
    seed: int = ROOT_SEED,
) -> pd.DataFrame:
    """Choose the items that stand for a user's taste, in three ways.

    Parameters
    ----------
    train : DataFrame
        ``user_id``, ``item_id``, ``timestamp``, and ``rating`` where items are rated.
    length : int, default 10
        Items of a profile.
    omega : float, default 0.65
        Weight of recency in recent-frequent sampling, in [0, 1].
    recency : {"last", "first"}
        Whether an item is as recent as its last or as its first interaction (the released code's).
    seed : int
        Root of the random sampling; each user has a stream of their own.

    Returns
    -------
    DataFrame
        ``user_id``, ``sampling``, ``place`` (from 1), ``item_id``, ``weight`` (interactions, or the
        rating), ``last`` (seconds since 1970), ``score`` (NaN but for recent-frequent).

    Raises
    ------
    ParameterError
        If omega is outside [0, 1] or recency is unknown.
    DataError
        If a user has fewer different items than the profile is to hold.

    Notes
    -----
    *random*: uniform over the user's items. *frequent*: by weight, ties by recency. *recent-frequent*: by
    omega * recency + (1 - omega) * weight, both scaled to [0, 1] within the user (eq. 5); where all are
    equal the scale is 0. What is still tied goes by ``item_id``. Source: FairEvalLLM, section 2.1.
    """
    if not 0 <= omega <= 1:
        raise ParameterError(f"omega = {omega}: expected a number from 0 to 1")
    if recency not in ("last", "first"):
        raise ParameterError(f"recency = {recency!r}: expected last or first")
    if train.empty:
        raise DataError("no train interactions; expected some for each user; draw users first")
    items = _item_statistics(train)
    few = items.groupby("user_id")["item_id"].size()
    if (few < length).any():
        user = few.index[few < length][0]
        raise DataError(f"user {user}: {few[user]} different train items; expected {length} for a profile")
    score = omega * _scaled(items, recency) + (1 - omega) * _scaled(items, "weight")
    # Rounded, so that no order hangs on the last bit of a sum.
    items["score"] = score.round(12)
    frequent = items.sort_values(
        ["user_id", "weight", recency, "item_id"], ascending=[True, False, False, True], ignore_index=True
    )
    both = items.sort_values(
        ["user_id", "score", recency, "item_id"], ascending=[True, False, False, True], ignore_index=True
    )
    parts = {"random": _random(items, length, seed), "frequent": frequent, "recent-frequent": both}
    chosen = []
    for sampling in SAMPLINGS:
        rows = parts[sampling]
        rows = rows.assign(sampling=sampling, place=rows.groupby("user_id").cumcount() + 1)
        chosen.append(rows[rows["place"] <= length])
    result = pd.concat(chosen, ignore_index=True)
    result["score"] = result["score"].where(result["sampling"] == "recent-frequent")
    return result[["user_id", "sampling", "place", "item_id", "weight", "last", "score"]]


def _item_statistics(train: pd.DataFrame) -> pd.DataFrame:
    grouped = train.groupby(["user_id", "item_id"])
    items = grouped["timestamp"].agg(["min", "max", "size"]).reset_index()
    items = items.rename(columns={"min": "first", "max": "last", "size": "weight"})
    if "rating" in train.columns:
        items["weight"] = grouped["rating"].mean().to_numpy()
    return items.astype({"weight": "float64"})


def _scaled(items: pd.DataFrame, column: str) -> pd.Series:
    values = items.groupby("user_id")[column]
    low, span = values.transform("min"), values.transform("max") - values.transform("min")
    return ((items[column] - low) / span.where(span > 0)).fillna(0.0)


def _random(items: pd.DataFrame, length: int, seed: int) -> pd.DataFrame:
    places = []
    for user, rows in items.groupby("user_id").indices.items():
        rng = generator("profile", "random", user, root=seed)
        places.append(rows[rng.choice(len(rows), size=length, replace=False)])
    return items.iloc[np.concatenate(places)]


def recent(train: pd.DataFrame, number: int = 5 + EXAMPLES) -> pd.DataFrame:
    """List each user's latest different items.

    Parameters
    ----------
    train : DataFrame
        ``user_id``, ``item_id``, ``timestamp``; of the same second, the later row is the later one.
    number : int, default 7
        Items per user; a user with fewer has fewer rows.

    Returns
    -------
    DataFrame
        ``user_id``, ``back`` (1 is the most recent), ``item_id``.
    """
    rows = train.sort_values(["user_id", "timestamp"], kind="stable")
    rows = rows.drop_duplicates(["user_id", "item_id"], keep="last").iloc[::-1]
    rows = rows.assign(back=rows.groupby("user_id").cumcount() + 1)
    rows = rows[rows["back"] <= number]
    return rows.sort_values(["user_id", "back"], ignore_index=True)[["user_id", "back", "item_id"]]


def table3(interactions: pd.DataFrame) -> pd.DataFrame:
    """Count the parts of a split: rows, users and rows per user (Table 3).

    Parameters
    ----------
    interactions : DataFrame
        From `split`.

    Returns
    -------
    DataFrame
        ``part``, ``interactions``, ``users``, ``items``, ``per_user`` (mean).
    """
    rows = interactions.groupby("part").agg(
        interactions=("item_id", "size"), users=("user_id", "nunique"), items=("item_id", "nunique")
    )
    rows = rows.reindex(["train", "test"]).dropna().astype("int64")
    return rows.assign(per_user=rows["interactions"] / rows["users"]).reset_index()
