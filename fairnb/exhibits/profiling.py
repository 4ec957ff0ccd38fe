"""From raw data to prompts, as tables and charts: what was read, who was drawn, what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairnb import profiles, prompts
from fairnb.datasets.dataset import Dataset
from fairnb.datasets.loading import Raw
from fairnb.exhibits.charts import style
from fairnb.exhibits.exhibit import Exhibit, decimals
from fairnb.exhibits.side_by_side import SideBySide, table_of
from fairnb.profiles import Selection
from fairnb.settings import ICLS, SAMPLINGS, Experiment

_KEPT = {True: "kept", False: "rejected"}
_PART_COLOURS = {"train": "#0072B2", "test": "#E69F00"}
_UNNAMED = "missing"


def source(data: Dataset | Raw) -> str:
    """Say in a caption what the data are, and so where they are made up."""
    card = data.card if isinstance(data, Raw) else data
    if card.synthetic:
        return f"Data: {card.title}. Users and interactions are made up; only titles and names are real."
    return f"Data: {card.title}."


def files(data: Dataset) -> Exhibit:
    """List the raw files: encoding, lines in, rows out, rejects."""
    frame = pd.DataFrame([vars(facts) for facts in data.files])
    noticed = data.remarks[data.remarks["kept"]].groupby("file").size()
    frame["noticed"] = frame["file"].map(noticed).fillna(0).astype("int64")
    frame = frame[["file", "encoding", "lines_in", "rows_out", "rejected", "noticed", "sha256"]]
    shown = pd.DataFrame(
        {
            "file": frame["file"],
            "encoding": frame["encoding"],
            **{
                name.replace("_", " "): [f"{count:,}" for count in frame[name]]
                for name in ("lines_in", "rows_out", "rejected", "noticed")
            },
        }
    )
    caption = (
        f"{source(data)} Lines in are lines that hold something, without a header; each of them is a row out or was "
        f"rejected. Noticed are rows that are in, with a remark."
    )
    return Exhibit("files", "Raw files", caption, frame, shown)


def remarks(data: Dataset, most: int = 25) -> Exhibit:
    """List rejected lines, and lines kept with a remark; a reader sees the first of many."""
    frame = data.remarks.assign(fate=data.remarks["kept"].map(_KEPT))[["file", "line", "fate", "reason"]]
    caption = f"{source(data)} Every line that is not in the frames as it stands in its file, and why."
    if frame.empty:
        caption += " There is none."
    if len(frame) > most:
        caption += f" The first {most} of {len(frame):,}."
        frame = frame.head(most)
    shown = frame.astype({"line": str})
    return Exhibit("remarks", "Rejected lines and remarks", caption, frame, shown, labels=1, width=44)


def missing(raw: Raw, experiment: Experiment) -> Exhibit:
    """Count users by what is known of the attributes that prompts are to state."""
    users = raw.users
    rows = []
    for attribute in experiment.stated:
        known = users[attribute].notna()
        values = users.loc[known, attribute].nunique()
        rows.append((attribute, len(users), int(known.sum()), int((~known).sum()), values))
    if len(experiment.stated) > 1:
        known = users[list(experiment.stated)].notna().all(axis=1)
        rows.append(("all of them", len(users), int(known.sum()), int((~known).sum()), None))
    frame = pd.DataFrame(rows, columns=["attribute", "users", "known", "missing", "values"]).astype({"values": "Int64"})
    shown = frame.assign(
        missing=[f"{row.missing:,} ({100 * row.missing / row.users:.0f} %)" for row in frame.itertuples()]
    )
    shown["values"] = ["" if pd.isna(count) else str(count) for count in frame["values"]]
    fate = {
        "exclude": "Users who lack one are not drawn.",
        "keep": "Users who lack one are drawn, and have no prompts that state it.",
        "fill": "What is missing is filled in: the median age, the most frequent value of anything else.",
    }
    caption = f"{source(raw)} What is missing stays missing and is counted. {fate[experiment.missing]}"
    return Exhibit("missing", "Known and missing attributes", caption, frame, shown.astype(str))


def funnel(selection: Selection, experiment: Experiment) -> Exhibit:
    """Show how many users are left after each step of the selection."""
    shown = selection.funnel.assign(
        users=[f"{count:,}" for count in selection.funnel["users"]],
        left_out=[f"{count:,}" if count else "" for count in selection.funnel["left_out"]],
    ).rename(columns={"left_out": "left out"})
    how = f"in the shares of {', '.join(experiment.strata)}" if experiment.strata else "at random"
    draw = f"Drawn {how}, with seed {experiment.seed}." if experiment.n_users else "All that are eligible are taken."
    caption = f"{source(selection.dataset)} Users left after each step. {draw}"
    if selection.filled:
        filled = ", ".join(f"{name} of {n}" for name, n in selection.filled.items())
        caption += f" Of the users drawn, filled in: {filled}."
    return Exhibit("funnel", "From all users to those of the experiment", caption, selection.funnel, shown)


def activity(raw: Raw, selection: Selection, experiment: Experiment) -> Exhibit:
    """Chart the interactions per user, and which users count as moderate."""
    counts = raw.activity[raw.activity > 0]
    drawn = counts.index.isin(selection.users["user_id"])
    bounds = (experiment.min_interactions, experiment.max_interactions + 1)
    spread = np.geomspace(counts.min(), counts.max() + 1, 31).round().astype(int)
    # The bounds are edges, so that no bar stands on both sides of one; edges close by would make slivers.
    near = [bound for bound in bounds if counts.min() < bound <= counts.max()]
    far = [edge for edge in spread if all(abs(np.log(edge / bound)) > 0.1 for bound in near)]
    # The last bar is as wide as others, so that the few users beyond the bound are seen.
    last = max(counts.max() + 1, *(round(1.25 * bound) for bound in near)) if near else counts.max() + 1
    edges = np.unique([counts.min(), *(edge for edge in far if edge <= counts.max()), *near, last])
    data = pd.DataFrame({"from": edges[:-1], "below": edges[1:]})
    for name, part in (("users", counts), ("drawn", counts[drawn])):
        data[name] = np.histogram(part, edges)[0]
    with style():
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for name, colour, label in (("users", "#C9CED3", "all users"), ("drawn", "#0072B2", "drawn")):
            axes.stairs(data[name], edges, fill=True, color=colour, label=label)
        lines = ((experiment.min_interactions, "fewest", "left"), (experiment.max_interactions, "most", "right"))
        for bound, word, side in lines:
            if counts.min() <= bound <= counts.max():
                axes.axvline(bound, color="#333333", linestyle="--", linewidth=1)
                axes.annotate(
                    f" {word}: {bound:,} ",
                    (bound, 1),
                    xycoords=("data", "axes fraction"),
                    va="top",
                    ha=side,
                    fontsize=9,
                )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel("interactions of a user (log scale)")
        axes.set_ylabel("users")
        axes.legend(loc="center", bbox_to_anchor=(0.78, 0.6))
    caption = (
        f"{source(raw)} Users by their number of interactions. Moderate users have {experiment.min_interactions:,} "
        f"to {experiment.max_interactions:,}; {int(drawn.sum())} were drawn."
    )
    return Exhibit("activity", "Activity of users", caption, data, figure=figure)


def demographics(selection: Selection, experiment: Experiment) -> Exhibit:
    """Count the drawn users by their groups, with their interactions."""
    columns = [prompts.GROUP_COLUMN.get(name, name) for name in experiment.stated]
    counts = selection.dataset.interactions.groupby("user_id").size()
    users = selection.users.assign(interactions=selection.users["user_id"].map(counts))
    parts = [[column] for column in columns] + ([columns] if len(columns) > 1 else [])
    rows = []
    for part in parts:
        groups = users[part[0]].fillna(_UNNAMED)
        for column in part[1:]:
            groups = groups + " & " + users[column].fillna(_UNNAMED)
        for group, members in users.groupby(groups):
            rows.append(
                (
                    " & ".join(part),
                    group,
                    len(members),
                    len(members) / len(users),
                    float(members["interactions"].mean()),
                    float(members["age"].mean()),
                )
            )
    frame = pd.DataFrame(rows, columns=["attribute", "group", "users", "share", "interactions_per_user", "mean_age"])
    shown = pd.DataFrame(
        {
            "attribute": frame["attribute"].str.replace("_", " "),
            "group": frame["group"],
            "users": frame["users"].astype(str),
            "share": [f"{100 * share:.0f} %" for share in frame["share"]],
            "interactions per user": [decimals(value, 1) for value in frame["interactions_per_user"]],
            "mean age": [decimals(value, 1) for value in frame["mean_age"]],
        }
    )
    caption = f"{source(selection.dataset)} The {len(users)} users drawn, by group."
    if "age" in experiment.stated:
        caption += f" {age_rule(selection, experiment)}"
    small = frame[frame["users"] < experiment.min_group]
    if len(small):
        caption += f" Groups under {experiment.min_group} users, too few for a test: {', '.join(small['group'])}."
    return Exhibit("demographics", "Groups of the users drawn", caption, frame, shown, labels=1)


def age_rule(selection: Selection, experiment: Experiment) -> str:
    """Say where the age groups part."""
    if not selection.cutoffs:
        return "No age is known."
    words = prompts.age_words(selection.cutoffs, selection.dataset.age_codes)
    groups = ", ".join(f"{label}: {phrase}" for label, (_, phrase) in words.items())
    how = "the mean age over train rows, cut to a whole number" if experiment.age_split == "mean" else "as set"
    codes = " (ages are codes for ranges)" if selection.dataset.age_codes else ""
    return f"Age groups part at {', '.join(map(str, selection.cutoffs))}, {how}{codes}. {groups}."


def table3(selections: Sequence[Selection]) -> Exhibit:
    """Table 3: interactions of the train and test parts, for each data set."""
    frame = pd.concat(
        [profiles.table3(part.dataset.interactions).assign(dataset=part.dataset.name) for part in selections],
        ignore_index=True,
    )
    titles = {part.dataset.name: part.dataset.title for part in selections}
    ties = {part.dataset.name: len(profiles.ties_at_split(part.dataset.interactions)) for part in selections}
    frame = frame[["dataset", "part", "interactions", "users", "items", "per_user"]]
    shown = pd.DataFrame(
        {
            "data set": frame["dataset"].map(titles),
            "part": frame["part"],
            **{name: [f"{count:,}" for count in frame[name]] for name in ("interactions", "users", "items")},
            "per user": [decimals(value, 2) for value in frame["per_user"]],
        }
    )
    tied = "; ".join(f"{titles[name]}, {count}" for name, count in ties.items())
    caption = (
        f"Interactions before (train) and after (test) the temporal split of each user's history. Users whose last "
        f"train and first test interaction are of the same second, so that the order in the file decides: {tied}."
    )
    if any(part.dataset.synthetic for part in selections):
        caption += " Synthetic samples: users and interactions are made up."
    return Exhibit("table3", "Table 3", caption, frame, shown, labels=1)


def history(selection: Selection, user: object, experiment: Experiment) -> Exhibit:
    """Chart one user's interactions in time, train and test apart, and the latest items of train."""
    rows = selection.dataset.interactions
    rows = rows[rows["user_id"] == user].reset_index(drop=True)
    data = pd.DataFrame({"number": np.arange(1, len(rows) + 1), "timestamp": rows["timestamp"], "part": rows["part"]})
    number = experiment.context_length + profiles.EXAMPLES
    latest = profiles.recent(selection.train[selection.train["user_id"] == user], number)["item_id"]
    last = rows[rows["part"] == "train"].drop_duplicates("item_id", keep="last")
    data["shown"] = data.index.isin(last[last["item_id"].isin(latest)].index)
    dates = pd.to_datetime(data["timestamp"], unit="s")
    with style():
        figure = Figure(figsize=(7.5, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for part, colour in _PART_COLOURS.items():
            of = data["part"] == part
            axes.scatter(dates[of], data.loc[of, "number"], s=9, color=colour, label=f"{part} ({int(of.sum())})")
        shown = data["shown"]
        axes.scatter(
            dates[shown],
            data.loc[shown, "number"],
            s=52,
            facecolors="none",
            edgecolors="#111111",
            label=f"latest {int(shown.sum())} different train items",
        )
        axes.set_xlabel("time of the interaction")
        axes.set_ylabel("number of the interaction")
        axes.legend(loc="upper left")
        locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator, show_offset=False)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(formatter)
    caption = (
        f"{source(selection.dataset)} User {user}: the first {100 * experiment.train_share:.0f} % in time order are "
        f"train, the rest is held out. Profiles are made of train only; the circled items stand in the prompts as "
        f"context and worked examples."
    )
    return Exhibit("history", "One user's history", caption, data, figure=figure)


def one_profile(selection: Selection, passion: pd.DataFrame, user: object, experiment: Experiment) -> Exhibit:
    """Show one user's profile under the three samplings, side by side."""
    texts = selection.dataset.item_texts()
    rows = passion[passion["user_id"] == user]
    often = rows.groupby("item_id").size()
    frame = rows.assign(item=rows["item_id"].map(texts), samplings=rows["item_id"].map(often)).drop(columns="user_id")
    rated = "rating" in selection.dataset.interactions.columns
    shown: dict[tuple[str, str], list[str]] = {}
    marks: dict[tuple[str, str], list[str]] = {}
    places = sorted(frame["place"].unique())
    shown["", "place"] = [str(place) for place in places]
    marks["", "place"] = [""] * len(places)
    for sampling in SAMPLINGS:
        part = frame[frame["sampling"] == sampling].set_index("place").loc[places]
        label = sampling
        common = ["quiet" if count > 1 else "" for count in part["samplings"]]
        shown[label, "item"] = [
            f"{item} *" if count > 1 else item for item, count in zip(part["item"], part["samplings"], strict=True)
        ]
        shown[label, "rating" if rated else "plays"] = [f"{weight:.0f}" for weight in part["weight"]]
        for column in ("item", "rating" if rated else "plays"):
            marks[label, column] = common
        if sampling == "recent-frequent":
            shown[label, "last"] = [datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m") for stamp in part["last"]]
            marks[label, "last"] = common
            shown[label, "score"] = [decimals(score, 3) for score in part["score"]]
            marks[label, "score"] = common
    weight = "rating" if rated else "number of plays"
    caption = (
        f"{source(selection.dataset)} User {user}: {len(places)} train items, chosen at random; by {weight}, ties by "
        f"recency; by {experiment.omega:g} × recency + {decimals(1 - experiment.omega, 12).rstrip('0')} × {weight}, "
        f"both scaled to [0, 1] (eq. 5). An item marked * stands in more than one list."
    )
    return Exhibit(
        "one_profile",
        "One user's profile under three samplings",
        caption,
        frame.reset_index(drop=True),
        pd.DataFrame(shown),
        pd.DataFrame(marks),
        width=22,
    )


def stated_side_by_side(grid: pd.DataFrame, user: object, data: Dataset) -> Exhibit:
    """Set one user's neutral, sensitive and counterfactual prompts side by side, for one scenario."""
    rows = grid[(grid["user_id"] == user) & (grid["sampling"] == "frequent") & (grid["icl"] == "0-shot")]
    rows = rows[~((rows["ranker"] == "neutral") & (rows["counterfactual"] == "yes"))]
    texts: dict[str, str] = {}
    for row in rows[rows["ranker"] == "neutral"].itertuples():
        texts["neutral"] = row.text
    widest = rows[rows["ranker"] != "neutral"]
    shown = "intersectional" if (widest["demographics"] == "intersectional").any() else None
    for ranker in ("sensitive", "counterfactual"):
        part = widest[widest["ranker"] == ranker]
        part = part[part["demographics"] == shown] if shown else part
        for row in part.head(1).itertuples():
            texts[f"{ranker}: {row.value}"] = row.text
    caption = (
        f"{source(data)} User {user}, frequent profile, 0-shot. What the neutral prompt does not have is marked: the "
        f"sentence that states the user's values, or others, do(v). The rest is the same, letter for letter."
    )
    return SideBySide("prompts_stated", "What a prompt states", caption, table_of(texts), texts=texts)


def icl_side_by_side(grid: pd.DataFrame, user: object, data: Dataset) -> Exhibit:
    """Set one user's neutral prompts with no, one and two worked examples side by side."""
    rows = grid[(grid["user_id"] == user) & (grid["sampling"] == "frequent") & (grid["ranker"] == "neutral")]
    first = rows.drop_duplicates("icl").set_index("icl")["text"]
    texts = {icl: first[icl] for icl in ICLS}
    caption = (
        f"{source(data)} User {user}, frequent profile, neutral: no worked example, one, and two. What 0-shot does not "
        f"have is marked. The examples are the user's own latest items, so the context ends one or two items earlier."
    )
    return SideBySide("prompts_icl", "Worked examples in a prompt", caption, table_of(texts), texts=texts)


def user_conditions(grid: pd.DataFrame, user: object, data: Dataset) -> Exhibit:
    """List what one user's prompts state in each condition, and which of them are the same text."""
    rows = grid[(grid["user_id"] == user) & (grid["sampling"] == "frequent") & (grid["icl"] == "0-shot")]
    neutral = rows.loc[rows["ranker"] == "neutral", "text"].iloc[0]
    frame = rows[["counterfactual", "demographics", "ranker", "value", "prompt_id"]].reset_index(drop=True)
    frame["sentence"] = [text.removesuffix(neutral).strip() for text in rows["text"]]
    shown = pd.DataFrame(
        {
            "counterfactual": frame["counterfactual"],
            "demographics": frame["demographics"],
            "ranker": frame["ranker"],
            "the prompt begins with": frame["sentence"].where(frame["sentence"] != "", "(nothing)"),
            "prompt": frame["prompt_id"],
        }
    )
    caption = (
        f"{source(data)} User {user}, frequent profile, 0-shot. Prompts with the same number are the same "
        f"text, and are asked once: a neutral prompt has nothing to flip."
    )
    return Exhibit("user_conditions", "One user's conditions", caption, frame, shown, labels=1)


def grid_size(grid: pd.DataFrame, data: Dataset, experiment: Experiment) -> Exhibit:
    """Count conditions, different texts and tokens, by what a prompt states."""
    once = prompts.unique(grid)
    once["tokens"] = prompts.estimate_tokens(once["text"])
    rows = grid.merge(once[["prompt_id", "tokens"]], on="prompt_id")

    def counted(label: str, part: pd.DataFrame) -> tuple[object, ...]:
        texts = part.drop_duplicates("prompt_id")
        return (
            label,
            part["user_id"].nunique(),
            len(part),
            len(texts),
            float(texts["tokens"].mean()),
            texts["tokens"].sum(),
        )

    labels = ["none", *experiment.stated, "intersectional"]
    lines = [
        counted(label, rows[rows["demographics"] == label]) for label in labels if (rows["demographics"] == label).any()
    ]
    lines.append(counted("all", rows))
    frame = pd.DataFrame(lines, columns=["demographics", "users", "conditions", "prompts", "mean_tokens", "tokens"])
    shown = pd.DataFrame(
        {
            "demographics": frame["demographics"],
            "users": frame["users"].astype(str),
            "conditions": [f"{count:,}" for count in frame["conditions"]],
            "different prompts": [f"{count:,}" for count in frame["prompts"]],
            "tokens per prompt": [f"{value:,.0f}" for value in frame["mean_tokens"]],
            "tokens in all": [f"{value:,}" for value in frame["tokens"]],
        }
    )
    caption = (
        f"{source(data)} Template {grid['template'].iloc[0]}, K = {experiment.k}. A text that serves several "
        f"conditions is asked once. Tokens are estimated (three for ten ASCII characters, one for any other), "
        f"without the reply and the system message."
    )
    return Exhibit("grid_size", "Conditions and prompts", caption, frame, shown)


def prompt_lengths(grid: pd.DataFrame, data: Dataset) -> Exhibit:
    """Chart the estimated length of prompts by scenario."""
    # A text that two scenarios share stands in both.
    rows = grid.drop_duplicates(["prompt_id", "sampling", "icl"])
    rows = rows.assign(tokens=prompts.estimate_tokens(rows["text"]))
    tokens = rows.groupby(["sampling", "icl"])["tokens"]
    frame = tokens.quantile([0, 0.25, 0.5, 0.75, 1]).unstack()
    frame.columns = pd.Index(["min", "lower_quartile", "median", "upper_quartile", "max"])
    frame.insert(0, "prompts", tokens.size())
    frame = frame.loc[list(product(SAMPLINGS, ICLS))].reset_index()
    with style():
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for shift, (icl, colour) in enumerate(zip(ICLS, ("#7FB8DA", "#0072B2", "#00344F"), strict=True)):
            part = frame[frame["icl"] == icl]
            x = np.arange(len(part)) + 0.22 * (shift - 1)
            axes.vlines(x, part["min"], part["max"], color=colour, linewidth=1)
            axes.vlines(x, part["lower_quartile"], part["upper_quartile"], color=colour, linewidth=9)
            axes.plot(x, part["median"], "_", color="white", markersize=9, markeredgewidth=1.6)
            axes.plot([], [], color=colour, linewidth=7, label=icl)
        axes.set_xticks(range(len(SAMPLINGS)), SAMPLINGS)
        axes.set_xlim(-0.5, len(SAMPLINGS) - 0.5)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("tokens (estimated)")
        axes.set_ylim(bottom=0)
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    caption = (
        f"{source(data)} Estimated tokens of the different prompts of each scenario (profile and worked examples): "
        f"median (white), middle half (thick), range (thin)."
    )
    return Exhibit("prompt_lengths", "Length of prompts", caption, frame, figure=figure)
