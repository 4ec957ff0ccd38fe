"""Tables and charts of notebook 02: what was asked, what came back, and what it could be matched to."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fairnb import generation, prompts, similarity
from fairnb.exhibits.charts import SCENARIOS, scenario_label, style
from fairnb.exhibits.evaluated import run_source
from fairnb.exhibits.exhibit import Exhibit, decimals
from fairnb.exhibits.tables import SAMPLING_LABELS
from fairnb.llm.store import ANSWERS
from fairnb.settings import Experiment

STATUS_WORDS = {
    "ok": "a list was read",
    "refused": "refused",
    "filtered": "filtered by the server",
    "empty": "blank",
    "unparsed": "text without a list",
    "truncated": "cut off",
    "looping": "repeats itself",
    "not_asked": "not asked",
}
# Okabe & Ito's colours; a line type and a mark go with each.
_ARMS = {
    "the neutral prompt, asked again": ("#000000", "D", ":"),
    "sensitive": ("#0072B2", "o", "-"),
    "counterfactual": ("#D55E00", "s", "--"),
}


def _source(experiment: Experiment, users: pd.Series) -> str:
    return run_source(experiment, users.nunique(), experiment.protocol)


def calls(experiment: Experiment, grid: pd.DataFrame, replies: pd.DataFrame) -> Exhibit:
    """Count conditions, texts and calls, and the tokens they took."""
    once = prompts.unique(grid)
    estimated = int(prompts.estimate_tokens(once["text"]).sum())
    read, written = (int(replies[name].fillna(0).sum()) for name in ("prompt_tokens", "completion_tokens"))
    lines: list[tuple[str, float, str]] = [
        ("conditions", len(grid), "users x (stated truly, flipped) x samplings x demographics x worked examples"),
        ("different texts", len(once), "a text that serves several conditions is asked once"),
        ("askings again", len(replies) - len(once), f"each neutral text is asked {experiment.repeats} times"),
        ("calls", len(replies), "different texts and askings again"),
        ("answers", int(replies["status"].isin(ANSWERS).sum()), "replies that came, whatever they say"),
        ("tokens of prompts, estimated", estimated, "of the different texts, without the system message"),
        ("tokens read", read, "as the model reports them, over all calls"),
        ("tokens written", written, "as the model reports them"),
    ]
    if experiment.price_input or experiment.price_output:
        lines.append(("cost", generation.cost(experiment, read, written), "at the prices given"))
    data = pd.DataFrame(lines, columns=["measure", "value", "meaning"])
    shown = data.assign(value=[f"{value:,.2f}" if name == "cost" else f"{value:,.0f}" for name, value, _ in lines])
    return Exhibit(
        "calls", "What was asked", f"From conditions to calls. {_source(experiment, grid['user_id'])}", data, shown
    )


def statuses(lists: pd.DataFrame, grid: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Count what became of the replies, by what the prompt states: a refusal rate that differs is a result."""
    stated = grid.drop_duplicates(["user_id", "prompt_id"])[["user_id", "prompt_id", "demographics", "value"]]
    rows = lists[lists["repeat"] == 0].merge(stated, on=["user_id", "prompt_id"])
    found = [
        name
        for name in (*STATUS_WORDS, *sorted(set(rows["status"]) - set(STATUS_WORDS)))
        if name in set(rows["status"])
    ]
    order = ["none", *experiment.stated, "intersectional"]
    lines = []
    for demographics in [name for name in order if name in set(rows["demographics"])]:
        part = rows[rows["demographics"] == demographics]
        for value in sorted(part["value"].unique()):
            one = part[part["value"] == value]
            counts = {name: int((one["status"] == name).sum()) for name in found}
            lines.append({"demographics": demographics, "value": value or "(nothing)", "replies": len(one), **counts})
    data = pd.DataFrame(lines)
    data["ok_share"] = data["ok"] / data["replies"] if "ok" in data else 0.0
    shown = pd.DataFrame({"prompt states": data["demographics"], "value": data["value"]})
    shown["replies"] = [f"{count:,}" for count in data["replies"]]
    for name in found:
        share = data[name] / data["replies"]
        label = STATUS_WORDS.get(name, name.replace("_", " "))
        shown[label] = [f"{n:,} ({100 * part:.1f} %)" for n, part in zip(data[name], share, strict=True)]
    caption = (
        f"What became of the replies, by what the prompt states (repeats left out). Only a reply with a list is "
        f"scored; the others leave the sample or count as no hit, as the protocol says, and never just disappear. "
        f"{_source(experiment, grid['user_id'])}"
    )
    return Exhibit("statuses", "Replies by what the prompt states", caption, data, shown, labels=1)


def funnel(benefits: pd.DataFrame, experiment: Experiment, columns: dict[str, str]) -> Exhibit:
    """Follow the replies from prompt to hit, per group.

    Parameters
    ----------
    benefits : DataFrame
        From `fairnb.scoring.score`.
    experiment : Experiment
    columns : dict of str to str
        Attribute to the column that holds its groups.
    """
    rows = benefits[benefits["repeat"] == 0].drop_duplicates(["user", "prompt_id"])
    lines = [_funnel_line("everyone", "", rows)]
    for attribute, column in columns.items():
        for group in sorted(rows[column].dropna().unique()):
            lines.append(_funnel_line(attribute, str(group), rows[rows[column] == group]))
        unknown = rows[rows[column].isna()]
        if len(unknown):
            lines.append(_funnel_line(attribute, "(not known)", unknown))
    data = pd.DataFrame(lines)
    items = data["items"].clip(lower=1)
    shown = pd.DataFrame({"attribute": data["attribute"], "group": data["group"]})
    for name in ("users", "replies", "lists", "items"):
        shown[name] = [f"{count:,}" for count in data[name]]
    for name in ("matched", "in_history", "ambiguous", "invented", "repeated"):
        shown[name.replace("_", " ")] = [f"{100 * share:.1f} %" for share in data[name] / items]
    shown["hits"] = [f"{count:,}" for count in data["hits"]]
    shown[f"HR@{experiment.k}"] = [decimals(value, 4) for value in data["hit_rate"]]
    caption = (
        f"From replies to hits, per group; each reply once, though it may serve several conditions. lists: replies "
        f"from which a list was read. Shares are of items: matched to the catalogue; in history: among what the user "
        f"is known to have chosen before; ambiguous: the title of several items; invented: a title that the catalogue "
        f"does not have; repeated: an item named before in the same list. {_source(experiment, benefits['user'])}"
    )
    return Exhibit("hits_funnel", "From replies to hits", caption, data, shown, labels=1)


def _funnel_line(attribute: str, group: str, rows: pd.DataFrame) -> dict[str, object]:
    good = rows[rows["status"] == "ok"]
    counts = {
        "items": "n_items",
        "matched": "n_matched",
        "in_history": "n_history",
        "ambiguous": "n_ambiguous",
        "invented": "n_invented",
        "repeated": "n_repeated",
        "hits": "hits",
    }
    return {
        "attribute": attribute,
        "group": group,
        "users": rows["user"].nunique(),
        "replies": len(rows),
        "lists": len(good),
        **{name: int(good[column].sum()) for name, column in counts.items()},
        "hit_rate": float(good["hit_rate"].mean()) if len(good) else float("nan"),
    }


def matches(rankings: pd.DataFrame, lists: pd.DataFrame, experiment: Experiment, most: int = 3) -> Exhibit:
    """Count the titles by the reason of their match, with examples."""
    texts = rankings.assign(title=rankings["title"].astype(str))
    rows = []
    for reason, part in texts.groupby("match", sort=False):
        examples = part["title"].value_counts().head(most).index.tolist()
        rows.append(
            (reason, bool(part["item_id"].notna().any()), len(part), part["title"].nunique(), "; ".join(examples))
        )
    data = pd.DataFrame(rows, columns=["reason", "matched", "items", "different_titles", "examples"])
    data = data.sort_values(["matched", "items"], ascending=False, ignore_index=True)
    shown = pd.DataFrame(
        {
            "reason": data["reason"],
            "to an item": data["matched"].map({True: "yes", False: "no"}),
            "items": [f"{n:,} ({100 * n / max(len(rankings), 1):.1f} %)" for n in data["items"]],
            "different titles": [f"{n:,}" for n in data["different_titles"]],
            "most frequent": data["examples"],
        }
    )
    fuzzy = f"likeness of at least {experiment.fuzzy:g} %, and of one item only" if experiment.fuzzy else "switched off"
    caption = (
        f"Why a title counts as an item of the catalogue, or does not. fuzzy: {fuzzy}; tried only for what no exact "
        f"step matched. {_source(experiment, lists['user_id'])}"
    )
    return Exhibit("matches", "Titles and items", caption, data, shown, width=60)


def telling_user(
    grid: pd.DataFrame,
    lists: pd.DataFrame,
    rankings: pd.DataFrame,
    truth: pd.DataFrame,
    experiment: Experiment,
    scenario: tuple[str, str] = ("frequent", "0-shot"),
) -> object:
    """Return the user whom the settings name, or the first one with a hit in one list and other items in another."""
    users = grid["user_id"].drop_duplicates().tolist()
    if experiment.example_user:
        return {str(user): user for user in users}[experiment.example_user]
    rows = grid[(grid["sampling"] == scenario[0]) & (grid["icl"] == scenario[1])].drop_duplicates("prompt_id")
    first = lists.loc[lists["repeat"] == 0, ["user_id", "prompt_id", "reply"]]
    items = rows.merge(first, on=["user_id", "prompt_id"]).merge(rankings[["reply", "item", "item_id"]], on="reply")
    hits = items.merge(truth, on=["user_id", "item_id"])["user_id"]
    sets = items.groupby(["user_id", "reply"])["item"].agg(frozenset).groupby("user_id").nunique()
    telling = [user for user in users if user in set(hits) and sets.get(user, 0) > 1]
    return telling[0] if telling else users[0]


def one_user(
    grid: pd.DataFrame,
    lists: pd.DataFrame,
    rankings: pd.DataFrame,
    truth: pd.DataFrame,
    profile: list[str],
    user: object,
    experiment: Experiment,
    scenario: tuple[str, str] = ("frequent", "0-shot"),
) -> Exhibit:
    """Set one user's lists side by side, as Figure 1 of the paper does; the profile is in the caption.

    Parameters
    ----------
    grid, lists, rankings : DataFrame
        See `fairnb.scoring.rank`.
    truth : DataFrame
        ``user_id`` and ``item_id`` of the ground truth.
    profile : list of str
        The items of the user's profile.
    user : object
        An id.
    experiment : Experiment
    scenario : tuple of str
        Sampling and ICL style.
    """
    sampling, icl = scenario
    rows = grid[(grid["user_id"] == user) & (grid["sampling"] == sampling) & (grid["icl"] == icl)]
    rows = rows.drop_duplicates("prompt_id")
    mine = lists[lists["user_id"] == user].set_index(["prompt_id", "repeat"])
    good = set(truth.loc[truth["user_id"] == user, "item_id"])
    neutral = rows.loc[rows["ranker"] == "neutral", "prompt_id"].iloc[0]
    prompts_of = [("neutral", neutral, 0)]
    prompts_of += [("neutral, asked again", neutral, repeat) for repeat in range(1, experiment.repeats)]
    prompts_of += [(f"{row.ranker}: {row.value}", row.prompt_id, 0) for row in rows.itertuples() if row.value]
    base = set(rankings.loc[rankings["reply"] == mine.loc[(neutral, 0), "reply"], "item"])
    records, cells, marks = [], [], []
    for label, identity, repeat in prompts_of:
        reply = mine.loc[(identity, repeat)]
        part = rankings[rankings["reply"] == reply["reply"]].sort_values("place")
        told = [
            (
                row.place,
                row.title,
                row.match,
                row.item_id in good,
                bool(base) and row.item not in base,
                bool(row.in_history),
            )
            for row in part.itertuples()
        ] or [(1, "", reply["status"], False, False, False)]
        records += [(label, *one) for one in told]
        words = STATUS_WORDS.get(reply["status"], str(reply["status"]).replace("_", " "))
        texts = [f"{title or f'({words})'}{' ✓' * hit}{' ≠' * new}" for _, title, _, hit, new, _ in told]
        cells.append([label, *texts])
        marks.append(["", *("level 1" if one[3] else "level 2" if one[4] else "" for one in told)])
    columns = ["prompt", *(str(place) for place in range(1, max(map(len, cells))))]
    shown, marked = (
        pd.DataFrame([[*line, *[""] * (len(columns) - len(line))] for line in side], columns=columns)
        for side in (cells, marks)
    )
    data = pd.DataFrame(records, columns=["prompt", "place", "title", "match", "in_truth", "changed", "in_history"])
    part = "held-out items" if experiment.rules.ground_truth == "held-out" else "train items"
    caption = (
        f"User {user}, {icl} / {SAMPLING_LABELS[sampling]}; profile in the prompt: {'; '.join(profile)}. The lists "
        f"that came back, place by place: ✓ in the ground truth ({part}), ≠ not in the neutral list. What changes when "
        f"neutral is asked again is the model's own variation. {_source(experiment, grid['user_id'])}"
    )
    return Exhibit("figure1", "Figure 1 for one user", caption, data, shown, marked, width=36)


def similarities(grid: pd.DataFrame, lists: pd.DataFrame, rankings: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Chart how alike lists are to the neutral list: when only the asking changed, and when the prompt did."""
    pairs = _pairs(grid, lists, experiment)
    pairs["jaccard"] = similarity.jaccard_of(rankings, pairs)
    data = (
        pairs.dropna(subset="jaccard")
        .groupby(["arm", "sampling", "icl"], sort=False)["jaccard"]
        .agg(pairs="size", mean="mean", share_equal=lambda values: (values == 1).mean())
        .reset_index()
    )
    with style():
        figure = Figure(figsize=(11, 4.4), layout="constrained")
        axes = figure.subplots()
        places = {scenario: place for place, scenario in enumerate(SCENARIOS)}
        for arm, (colour, mark, line) in _ARMS.items():
            part = data[data["arm"] == arm]
            where = [places[key] for key in zip(part["sampling"], part["icl"], strict=True)]
            if len(part):
                axes.plot(where, part["mean"], color=colour, marker=mark, ls=line, lw=1.8, label=arm)
        axes.set_xticks(range(len(SCENARIOS)), [scenario_label(*scenario) for scenario in SCENARIOS])
        axes.set_ylim(0, 1.03)
        axes.set_ylabel(f"mean Jaccard@{experiment.k} with the neutral list")
        if data.empty:
            axes.text(0.5, 0.5, "no two lists to compare", transform=axes.transAxes, ha="center")
        else:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    again = "" if experiment.repeats > 1 else " Neutral prompts were asked once, so the noise of asking is not known."
    caption = (
        f"Similarity to the neutral list. Where the lines of changed prompts lie no lower than that of the same prompt "
        f"asked again, the change is not distinguishable from the noise of asking.{again} Pairs in which both lists "
        f"could be read. {_source(experiment, grid['user_id'])}"
    )
    return Exhibit("similarities", "Similarity and repeat noise", caption, data, figure=figure)


def _pairs(grid: pd.DataFrame, lists: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Pair lists with the neutral list of their user and scenario."""
    usable = lists.loc[lists["status"] == "ok", ["user_id", "prompt_id", "repeat", "reply"]]
    key = ["user_id", "sampling", "icl"]
    rows = grid.drop_duplicates(["user_id", "prompt_id", "sampling", "icl"])[[*key, "prompt_id", "ranker"]]
    rows = rows.merge(usable, on=["user_id", "prompt_id"])
    neutral = rows[rows["ranker"] == "neutral"]
    base = neutral.loc[neutral["repeat"] == 0, [*key, "reply"]].rename(columns={"reply": "first"})
    again = neutral[neutral["repeat"] > 0].assign(arm="the neutral prompt, asked again")
    other = rows[(rows["ranker"] != "neutral") & (rows["repeat"] == 0)]
    both = pd.concat([again, other.assign(arm=other["ranker"])]).rename(columns={"reply": "second"})
    order = {scenario: place for place, scenario in enumerate(SCENARIOS)}
    joined = both.merge(base, on=key)
    rank = [order[pair] for pair in zip(joined["sampling"], joined["icl"], strict=True)]
    return joined.iloc[np.argsort(rank, kind="stable")].reset_index(drop=True)[["arm", *key, "first", "second"]]
