"""From replies to rankings and benefits: titles read and matched, lists scored against a ground truth."""

from __future__ import annotations

import pandas as pd

from fairnb import frames
from fairnb.benefits import benefits
from fairnb.generation import NOT_ASKED
from fairnb.matching import Catalogue, rank_items
from fairnb.parsing import Parsed, parse
from fairnb.profiles import Selection, passion_for
from fairnb.prompts import GROUP_COLUMN
from fairnb.settings import Experiment, Protocol
from fairnb.titles import match_key

_CONDITION = ["sampling", "icl", "counterfactual", "demographics", "stated"]


def read_lists(replies: pd.DataFrame, grid: pd.DataFrame, k: int) -> dict[tuple[str, int], Parsed]:
    """Read the list in each answer: (prompt_id, repeat) to what was parsed."""
    texts = dict(zip(grid["prompt_id"], grid["text"], strict=True))
    answered = replies[replies["status"] == "answered"]
    rows = zip(*(answered[name] for name in ("prompt_id", "repeat", "text", "finish_reason")), strict=True)
    return {
        (identity, int(repeat)): parse(text, k=k, finish_reason=finish, prompt=texts.get(identity, ""))
        for identity, repeat, text, finish in rows
    }


def listed(grid: pd.DataFrame, repeats: int) -> pd.DataFrame:
    """List whose replies there are: a row per user, prompt and repeat, numbered in ``reply``."""
    unique = grid.drop_duplicates(["user_id", "prompt_id"])
    count = unique["ranker"].eq("neutral").map({True: repeats, False: 1})
    rows = unique.loc[unique.index.repeat(count), ["user_id", "prompt_id"]].reset_index(drop=True)
    rows["repeat"] = rows.groupby(["user_id", "prompt_id"], sort=False).cumcount()
    return rows.assign(reply=range(len(rows)))


def rank(
    experiment: Experiment,
    replies: pd.DataFrame,
    grid: pd.DataFrame,
    items: pd.DataFrame,
    interactions: pd.DataFrame,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read all replies and match their titles.

    Parameters
    ----------
    experiment : Experiment
        ``k``, ``repeats``, ``fuzzy``.
    replies, grid, items, interactions : DataFrame
        The frames of these names; only the train part of the interactions is looked at, for the history.

    Returns
    -------
    lists : DataFrame
        A row per user, prompt and repeat: ``reply``, ``user_id``, ``prompt_id``, ``repeat``, ``status``, ``note``,
        ``n_items`` (0 unless ok), ``n_matched``, ``n_history``, ``n_invented``, ``n_ambiguous``, ``n_repeated``.
    rankings : DataFrame
        A row per item of each list; see `fairnb.matching.rank_items` (``repeat`` there is ``repeat_of_item`` here),
        and ``item``, the same for the same item or the same unknown title. Lists that are not ok are not in it.
    """
    lists = listed(grid, experiment.repeats)
    keys = list(zip(lists["prompt_id"], lists["repeat"], strict=True))
    arrived = dict(zip(zip(replies["prompt_id"], replies["repeat"], strict=True), replies["status"], strict=True))
    parsed = read_lists(replies, grid, experiment.k)
    found = [parsed.get(key) for key in keys]
    lists["status"] = [one.status if one else arrived.get(key, NOT_ASKED) for key, one in zip(keys, found, strict=True)]
    lists["note"] = [one.note if one else "" for one in found]
    train = interactions[interactions["part"] == "train"]
    history = {user: set(part) for user, part in train.groupby("user_id")["item_id"]}
    usable = {str(reply): one for reply, one in enumerate(found) if one and one.status == "ok"}
    owner = {str(reply): history.get(user, set()) for reply, user in enumerate(lists["user_id"])}
    rankings = rank_items(usable, Catalogue(items, fuzzy=experiment.fuzzy), owner)
    rankings = rankings.rename(columns={"repeat": "repeat_of_item"}).assign(reply=rankings["reply"].astype("int64"))
    rankings = rankings.merge(lists[["reply", "user_id", "prompt_id", "repeat"]], on="reply", how="left")
    keys_of_titles = "title " + rankings["title"].map(match_key)
    rankings["item"] = rankings["item_id"].astype("string").fillna(keys_of_titles)
    counts = pd.DataFrame(
        {
            "n_items": rankings.groupby("reply").size(),
            "n_matched": rankings["item_id"].notna().groupby(rankings["reply"]).sum(),
            "n_history": rankings["in_history"].groupby(rankings["reply"]).sum(),
            "n_invented": rankings["match"].eq("unknown").groupby(rankings["reply"]).sum(),
            "n_ambiguous": rankings["match"].eq("ambiguous").groupby(rankings["reply"]).sum(),
            "n_repeated": rankings["repeat_of_item"].groupby(rankings["reply"]).sum(),
        }
    )
    lists = lists.merge(counts, left_on="reply", right_index=True, how="left")
    return lists.fillna(dict.fromkeys(counts, 0)).astype(dict.fromkeys(counts, "int64")), rankings


def truth(interactions: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    """Return the ground truth of a protocol: ``user_id`` and ``item_id`` of the held-out part, or of the train part."""
    part = "test" if protocol.ground_truth == "held-out" else "train"
    return interactions.loc[interactions["part"] == part, ["user_id", "item_id"]].drop_duplicates()


def group_columns(experiment: Experiment) -> dict[str, str]:
    """Return the stated attributes, each with the column of the users that holds its groups."""
    return {attribute: GROUP_COLUMN.get(attribute, attribute) for attribute in experiment.stated}


def profile_texts(experiment: Experiment, selection: Selection, user: object, sampling: str = "frequent") -> list[str]:
    """Name the items of a user's profile, in its order."""
    passion = passion_for(experiment, selection.train)
    rows = passion[(passion["user_id"] == user) & (passion["sampling"] == sampling)].sort_values("place")
    texts: list[str] = selection.dataset.item_texts().loc[rows["item_id"]].tolist()
    return texts


def score(
    lists: pd.DataFrame,
    rankings: pd.DataFrame,
    grid: pd.DataFrame,
    users: pd.DataFrame,
    interactions: pd.DataFrame,
    k: int,
    protocol: Protocol,
) -> pd.DataFrame:
    """Score all lists and join them to every condition that uses them.

    Parameters
    ----------
    lists, rankings : DataFrame
        From `rank`.
    grid, users, interactions : DataFrame
        The frames ``prompts``, ``users``, ``interactions``.
    k : int
    protocol : Protocol
        The ground truth is the held-out part, or under ``file`` the train part.

    Returns
    -------
    DataFrame
        Frame ``benefits``: a row per user and condition, and one per repeat of a neutral prompt (``repeat`` above
        0, under counterfactual = no only).
    """
    matched = rankings[rankings["item_id"].notna()]
    if protocol.repeated_ids == "once":
        # Repeats are taken out after matching, those of titles that no catalogue knows too.
        matched = matched[~matched["repeat_of_item"]]
        places = matched["rank"]
    else:
        places = matched["place"]
    ranked = matched[["reply", "item_id"]].assign(
        rank=places.astype("int64"), item_id=matched["item_id"].astype("int64")
    )
    scored = benefits(ranked, truth(interactions, protocol), lists[["reply", "user_id"]], k, protocol)
    scored = lists.merge(scored, on="reply", validate="one_to_one")
    conditions = grid[["user_id", "prompt_id", "sampling", "icl", "counterfactual", "demographics", "value"]]
    joined = conditions.rename(columns={"value": "stated"}).merge(scored, on=["user_id", "prompt_id"], how="left")
    joined = joined[(joined["repeat"] == 0) | (joined["counterfactual"] == "no")]
    groups = [name for name in users.columns if name not in ("user_id", "registered", "zip_code")]
    joined = joined.merge(users[["user_id", *groups]], on="user_id", how="left", validate="many_to_one")
    numbers = ["n_items", "n_matched", "n_history", "n_invented", "n_ambiguous", "n_repeated"]
    columns = [
        "user_id",
        *groups,
        *_CONDITION,
        "repeat",
        *numbers,
        "hits",
        "hit_rate",
        "average_rank",
        "status",
        "prompt_id",
    ]
    return joined[columns].rename(columns={"user_id": "user"}).reset_index(drop=True)


def rescored(experiment: Experiment, protocol: Protocol) -> pd.DataFrame:
    """Score the run that an experiment evaluates under a protocol.

    Returns
    -------
    DataFrame
        See `score`; repeats included.
    """
    base = frames.evaluated(experiment)
    run = frames.run_settings(experiment)
    tables = {
        name: frames.read(experiment, name, base) for name in ("lists", "rankings", "prompts", "users", "interactions")
    }
    return score(
        tables["lists"], tables["rankings"], tables["prompts"], tables["users"], tables["interactions"], run.k, protocol
    )
