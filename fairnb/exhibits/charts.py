"""The charts of FairEvalLLM and those beside them; each carries the numbers it shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product, zip_longest
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairnb import fairness
from fairnb.exhibits.evaluated import dataset_label, k_of, left_out, left_out_of, source
from fairnb.exhibits.exhibit import COLOURS, Exhibit
from fairnb.exhibits.tables import SAMPLING_LABELS, cut_offs, pair_texts
from fairnb.settings import BENEFITS, ICLS, NOTIONS, SAMPLINGS, Experiment

# Okabe & Ito's colours, told apart with any colour vision; fixed by name, never by order of appearance.
GROUP_COLOURS = {"Male": "#0072B2", "Female": "#D55E00", "Young": "#009E73", "Old": "#CC79A7"}
_FREE_COLOURS = ("#E69F00", "#56B4E9", "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C")
_MARKS = "os^Dvp*X"
DATASET_COLOURS = {"ml1m": "#B8860B", "lastfm1k": "#4D4D4D"}
BAND_COLOURS = {"ml1m": "#F0E442", "lastfm1k": "#BBBBBB"}
# Beyond so many pairs of groups of an attribute a chart shows those with the largest |δ| only.
_MOST_PAIRS = 10
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "figure.dpi": 110,
}
SCENARIOS = tuple(product(SAMPLINGS, ICLS))


@contextmanager
def style() -> Iterator[None]:
    """Draw with the project's own style, whatever the reader's is."""
    with sns.axes_style("whitegrid"), mpl.rc_context(_STYLE):
        yield


def scenario_label(sampling: str, icl: str) -> str:
    """Name a scenario on an axis, in two lines."""
    return f"{icl}\n{SAMPLING_LABELS[sampling]}"


def group_colours(groups: Sequence[str]) -> dict[str, str]:
    """Give each group its colour: a fixed one by name, or one of a fixed list by its place among sorted names."""
    colours = {group: GROUP_COLOURS[group] for group in groups if group in GROUP_COLOURS}
    free = [colour for colour in _FREE_COLOURS if colour not in colours.values()]
    others = sorted(set(groups) - set(colours))
    return colours | {group: free[place % len(free)] for place, group in enumerate(others)}


def _drawn_pairs(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Keep the rows of the pairs of groups that a chart has room for, and say what it leaves out."""
    rows = rows.assign(pair=pair_texts(rows))
    kept, said = [], ""
    for attribute, part in rows.groupby("attribute", sort=False):
        size = part["delta"].abs().groupby(part["pair"], sort=False).max().fillna(0)
        chosen = set(size.sort_values(ascending=False, kind="stable").index[:_MOST_PAIRS])
        kept.append(part[part["pair"].isin(chosen)])
        if len(size) > _MOST_PAIRS:
            said += f" Of the {len(size)} pairs of {attribute} the {_MOST_PAIRS} with the largest |δ| are drawn."
    return pd.concat(kept).sort_index(), said


def figure2(rows: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Figure 2: δ (hit, gender) of NSD and NCSD over the scenarios, one line per data set.

    Parameters
    ----------
    rows : mapping of data set to DataFrame
        From `fairnb.fairness.table`. Where no prompt states gender, the first attribute is drawn; more than two
        groups give a panel per pair.
    experiment : Experiment

    Returns
    -------
    Exhibit
        Its data: ``dataset, notion, sampling, icl, delta, p``, and ``attribute, group1_name, group2_name``
        unless it is the paper's pair alone.
    """
    columns = ["notion", "sampling", "icl", "delta", "p"]
    parts = []
    for dataset, frame in rows.items():
        names = list(frame["attribute"].unique())
        attribute = "gender" if "gender" in names else names[0]
        chosen = frame[(frame["benefit"] == "hit") & (frame["attribute"] == attribute)]
        parts.append(
            chosen[[*columns, "attribute", "group1_name", "group2_name", "without_group"]].assign(dataset=dataset)
        )
    data = pd.concat(parts, ignore_index=True)
    drawn, said = _drawn_pairs(data)
    absent = left_out(data)
    pairs = list(drawn["pair"].unique())
    attribute = str(drawn["attribute"].iloc[0])
    with style():
        figure = Figure(figsize=(11, 4.8 + 2.6 * (len(pairs) - 1)), layout="constrained")
        panels = figure.subplots(len(pairs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, pair in zip(panels, pairs, strict=True):
            # Of one data set the caption says the name; in a legend it would only take the lines' room.
            labels = {name: f"{dataset_label(name)}: " if len(rows) > 1 else "" for name in rows}
            _lines_of_pair(axes, drawn[drawn["pair"] == pair], labels)
            axes.set_ylabel(f"δ (hit) = {pair}")
        _scenario_axis(panels[-1])
        panels[0].set_title(f"Deviation from the neutral list by {attribute}: NSD and NCSD over the nine scenarios")
        panels[0].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption = f"δ of the hit benefit by {attribute}; bands mark the range of each data set over both notions"
    if experiment.replies == "released":
        gap = "; ".join(
            f"{dataset_label(row.dataset)} {row.notion} {row.icl} / {SAMPLING_LABELS[row.sampling]}"
            for row in data[data["delta"].isna()].itertuples()
        )
        caption += (
            f", as in the paper. Replies of gpt-3.5-turbo to the 80 released users of each data set, K = 3. "
            f"Protocol: {experiment.protocol}. "
            f"{f'Not computable, no neutral reply was released: {gap}. ' if gap else ''}"
            f"The paper prints no numbers for this figure."
        )
    else:
        caption += f".{said} {source(experiment)}{absent}"
    named = [] if pairs == ["Male − Female"] else ["attribute", "group1_name", "group2_name"]
    return Exhibit("figure2", "Figure 2", caption, data[["dataset", *named, *columns]], figure=figure)


def _lines_of_pair(axes: Axes, data: pd.DataFrame, labels: Mapping[str, str]) -> None:
    places = {(sampling, icl): place for place, (sampling, icl) in enumerate(SCENARIOS)}
    for dataset, name in labels.items():
        part = data[data["dataset"] == dataset]
        colour = DATASET_COLOURS.get(dataset, "#4D4D4D")
        low, high = part["delta"].min(), part["delta"].max()
        if part["delta"].notna().any():
            band, label = BAND_COLOURS.get(dataset, "#BBBBBB"), f"{name}range of δ"
            axes.axhspan(low, high, color=band, alpha=0.3, lw=0, label=label, zorder=0)
        for notion, mark, line in (("NSD", "o", "-"), ("NCSD", "s", "--")):
            one = part[part["notion"] == notion]
            axes.plot(
                [places[key] for key in zip(one["sampling"], one["icl"], strict=True)],
                one["delta"],
                marker=mark,
                ls=line,
                lw=1.8,
                color=colour,
                markerfacecolor="white" if notion == "NCSD" else colour,
                label=f"{name}{notion}",
            )
    axes.axhline(0, color="black", lw=0.8)


def _scenario_axis(axes: Axes) -> None:
    axes.set_xticks(range(len(SCENARIOS)), [scenario_label(*scenario) for scenario in SCENARIOS])
    axes.set_xlim(-0.4, len(SCENARIOS) - 0.6)
    axes.grid(visible=False, axis="x")


def forest(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Forest plot: δ of all rows of Table 2 with bootstrap intervals, hit and rank side by side."""
    columns = ["attribute", "notion", "icl", "sampling", "benefit", "delta", "low", "high", "n1", "n2", "p", "note"]
    drawn, said = _drawn_pairs(rows)
    blocks = _blocks(drawn)
    data = rows[_with_pairs(columns, blocks)].reset_index(drop=True)
    with style():
        figure = Figure(figsize=(11, 0.235 * len(drawn) / 2 + 1.6), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        labels: list[str] = []
        for panel, benefit in zip(panels, BENEFITS, strict=True):
            place, labels = 0.0, []
            ticks: list[float] = []
            for (attribute, notion, pair), block in blocks.items():
                chosen = drawn["pair"].eq(pair) & drawn["attribute"].eq(attribute) & drawn["notion"].eq(notion)
                part = drawn[chosen & drawn["benefit"].eq(benefit)]
                places = place + np.arange(len(part))
                panel.hlines(places, part["low"], part["high"], color="#555555", lw=1.4, zorder=2)
                faces = np.where(part["note"] == "", "#0072B2", "white")
                panel.scatter(part["delta"], places, s=25, edgecolors="#0072B2", facecolors=faces, zorder=3)
                ticks.extend(places)
                names = zip(part["icl"], part["sampling"].map(SAMPLING_LABELS), strict=True)
                labels.extend(f"{block}  {icl} / {sampling}" for icl, sampling in names)
                place += len(part) + 0.8
            panel.axvline(0, color="black", lw=0.8, zorder=1)
            panel.set_yticks(ticks, labels, fontsize=8)
            panel.grid(visible=False, axis="y")
            panel.set_title("hit" if benefit == "hit" else "average rank")
            panel.xaxis.set_major_locator(MaxNLocator(nbins=6))
            panel.set_xlabel("δ, with 95 % bootstrap interval")
        panels[0].invert_yaxis()
    n_zero = int(((data["low"] <= 0) & (data["high"] >= 0)).sum())
    n_known = int(data["low"].notna().sum())
    caption = (
        f"δ of all {len(data)} row-halves of Table 2. {n_zero} of {n_known} intervals include 0. Open circles: a group "
        f"without variation, or too small to test. {experiment.replicates:,} bootstrap replicates of users.{said} "
        f"{source(experiment)}{left_out(rows)}"
    )
    return Exhibit("forest", "Forest plot of δ", caption, data, figure=figure)


def _blocks(rows: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    """List attribute, notion and pair in the order of charts, with the label of each: the pair if there are several."""
    blocks: dict[tuple[str, str, str], str] = {}
    for attribute, notion in product(rows["attribute"].unique(), rows["notion"].unique()):
        pairs = rows.loc[(rows["attribute"] == attribute) & (rows["notion"] == notion), "pair"].unique()
        for pair in pairs:
            blocks[attribute, notion, pair] = f"{attribute} {notion}" + (f", {pair}" if len(pairs) > 1 else "")
    return blocks


def _with_pairs(columns: list[str], blocks: Mapping[tuple[str, str, str], str]) -> list[str]:
    """Add the columns that name a pair, unless the pairs are the paper's."""
    papers = {pair for _, _, pair in blocks} <= {"Male − Female", "Young − Old"}
    return columns if papers else [columns[0], "group1_name", "group2_name", *columns[1:]]


def levels(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Heat map of the levels of Table 1 over all rows; the level's number stands in each cell."""
    drawn, said = _drawn_pairs(rows)
    blocks = _blocks(drawn)
    columns = ["attribute", "notion", "icl", "sampling", "benefit", "delta", "p", "level", "note"]
    data = rows[_with_pairs(columns, blocks)]
    palette = ListedColormap([COLOURS[f"level {number}"] for number in fairness.LEVELS])
    with style():
        figure = Figure(figsize=(11, max(5.2 + 0.95 * (len(blocks) - 4), 3.3)), layout="constrained")
        panels = figure.subplots(2, 1, sharex=True)
        for panel, benefit in zip(panels, BENEFITS, strict=True):
            part = drawn[drawn["benefit"] == benefit].set_index(["attribute", "notion", "pair", "sampling", "icl"])
            grid = pd.DataFrame(
                [[part.at[(*key, *scenario), "level"] for scenario in SCENARIOS] for key in blocks],
                index=[label.replace(", ", "\n", 1) for label in blocks.values()],
                columns=[scenario_label(*scenario) for scenario in SCENARIOS],
            )
            notes = [[part.at[(*key, *scenario), "note"] for scenario in SCENARIOS] for key in blocks]
            number = grid.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
            words = [
                ["" if np.isnan(v) else _level_words(int(v), note) for v, note in zip(line, marks, strict=True)]
                for line, marks in zip(number, notes, strict=True)
            ]
            sns.heatmap(
                pd.DataFrame(number, grid.index, grid.columns),
                annot=np.array(words),
                fmt="",
                cmap=palette,
                vmin=0.5,
                vmax=4.5,
                linewidths=1,
                linecolor="white",
                cbar=False,
                annot_kws={"color": "#111111", "fontsize": 8.5},
                ax=panel,
            )
            _mark_untested(panel, number)
            panel.set_title("hit" if benefit == "hit" else "average rank", loc="left")
            panel.tick_params(axis="y", rotation=0)
            panel.set(xlabel="", ylabel="")
    caption = (
        f"Levels of Table 1 for every row of Table 2. * a group has no variation (then never level 4). "
        f"{cut_offs(experiment)}.{said} {source(experiment)}{left_out(rows)}"
    )
    return Exhibit("levels", "Levels", caption, data, figure=figure)


def _mark_untested(panel: Axes, number: np.ndarray) -> None:
    """Write into the cells without a level, which a heat map leaves blank and without their text."""
    for row, column in np.argwhere(np.isnan(number)):
        panel.grid(visible=False)
        panel.text(column + 0.5, row + 0.5, "not tested", ha="center", va="center", fontsize=8.5, color="#555555")


def _level_words(number: int, note: str) -> str:
    first, *rest = fairness.LEVELS[number].split()
    return "\n".join([f"{number} {first}", *rest]) + ("*" if note else "")


def intrinsic_means(benefits: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Group means of the neutral ranker's hit rate with 95 % bootstrap intervals of each mean."""
    attributes = fairness.single_attributes(experiment, benefits)
    data = pd.concat(
        [fairness.intrinsic_means(benefits, experiment, attribute) for attribute in attributes],
        ignore_index=True,
    )
    k, width = k_of(experiment), min(len(attributes), 2)
    height = -(-len(attributes) // width)
    top = max(float(data["high"].max()), float(data["mean"].max())) if data["mean"].notna().any() else math.nan
    with style():
        figure = Figure(figsize=(11, 4.4 * height), layout="constrained")
        panels = figure.subplots(height, width, sharey=True, squeeze=False)
        for panel, attribute in zip_longest(panels.flat, attributes):
            if attribute is None:
                panel.remove()
                continue
            part = data[data["attribute"] == attribute.name]
            groups = list(part["group"].unique())
            colours = group_colours(groups)
            for number, group in enumerate(groups):
                one = part[part["group"] == group].reset_index(drop=True)
                where = np.arange(len(one)) + (number - (len(groups) - 1) / 2) * min(0.22, 0.8 / len(groups))
                gaps = np.abs(one[["low", "high"]].to_numpy().T - one["mean"].to_numpy())
                label = f"{group} (n = {int(one['n'].max())})"
                mark = _MARKS[number % len(_MARKS)]
                panel.errorbar(where, one["mean"], yerr=gaps, fmt=mark, color=colours[group], capsize=3, label=label)
            _scenario_axis(panel)
            panel.tick_params(axis="x", labelsize=8)
            panel.set_title(attribute.name)
            panel.set_ylim(bottom=0)
            if len(groups) > 2:
                panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
            else:
                panel.legend(loc="upper left", ncols=len(groups))
        panels[0, 0].set_ylabel(f"mean HitRate@{k}, neutral list")
        panels[0, 0].set_ylim(0, top * 1.18 if top > 0 else 1 / k)
    caption = (
        f"Intrinsic fairness: the neutral ranker's mean HitRate@{k} per group and scenario, with 95 % percentile "
        f"intervals ({experiment.replicates:,} bootstrap replicates of users within groups). {source(experiment)}"
        f"{left_out_of(benefits, experiment)}"
    )
    return Exhibit("intrinsic_means", "Intrinsic fairness by scenario", caption, data, figure=figure)


def deviation_distribution(benefits: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Distribution of ΔB (hit) per group: how often a list gained, lost or kept its hits."""
    attributes, k = fairness.single_attributes(experiment, benefits), k_of(experiment)
    parts = []
    for attribute, notion in product(attributes, NOTIONS):
        delta = fairness.deviations(benefits, notion, attribute, experiment.rules)
        known = delta[(delta["benefit"] == "hit") & delta["value"].notna()]
        value = (known["value"] * k).round().astype(int)
        counts = known.assign(value=value).groupby(["group", "value"]).size().rename("pairs").reset_index()
        counts["share"] = counts["pairs"] / counts.groupby("group")["pairs"].transform("sum")
        parts.append(counts.assign(attribute=attribute.name, notion=notion))
    data = pd.concat(parts, ignore_index=True)[["attribute", "notion", "group", "value", "pairs", "share"]]
    data = data.rename(columns={"value": "change_in_hits"})
    # Of long lists most changes never occur; an axis with all of them would hide those that do.
    most = k if k <= 5 or data.empty else max(int(data["change_in_hits"].abs().max()), 1)
    labelled = False
    with style():
        figure = Figure(figsize=(11, 2.8 * len(attributes)), layout="constrained")
        panels = figure.subplots(len(attributes), 2, sharex=True, sharey=True, squeeze=False)
        for panel, (attribute, notion) in zip(panels.flat, product(attributes, NOTIONS), strict=True):
            part = data[(data["attribute"] == attribute.name) & (data["notion"] == notion)]
            groups = attribute.order(part["group"])
            panel.set_title(f"{attribute.name}, {notion}")
            if not groups:
                panel.text(0.5, 0.5, "no pair of lists", transform=panel.transAxes, ha="center")
                continue
            total, colours = part.groupby("group")["pairs"].sum(), group_colours(attribute.values)
            labels = {g: f"{g if notion == 'NSD' else f'do({g})'}: {total[g]:,} pairs" for g in groups}
            sns.barplot(
                part.assign(label=part["group"].map(labels)),
                x="change_in_hits",
                y="share",
                hue="label",
                hue_order=[labels[group] for group in groups],
                palette={labels[group]: colours[group] for group in groups},
                order=list(range(-most, most + 1)),
                errorbar=None,
                ax=panel,
            )
            if len(groups) * (2 * most + 1) <= 16:  # more labels would run into each other
                labelled = True
                for bars in panel.containers:
                    panel.bar_label(
                        bars, fmt=lambda share: f"{100 * share:.1f}" if share else "", fontsize=8, padding=1
                    )
            panel.set(xlabel=f"change in hits, ΔB × {k}", ylabel="share of pairs")
            panel.grid(visible=False, axis="x")
            place = "center left" if most > 2 else "upper left"
            panel.legend(loc=place, title=None, fontsize=9 if len(groups) <= 4 else 7)
        panels[0, 0].set_ylim(0, 0.6 if data["share"].max() < 0.4 else 1.09)
    percent = "; labels in percent" if labelled else ""
    caption = (
        f"Change in the number of hits from the neutral list to the sensitive (NSD) or counterfactual (NCSD) list, "
        f"over all scenarios{percent}. A user has {_number_of_pairs(attributes)}, so pairs are not independent. "
        f"{source(experiment)}{left_out_of(benefits, experiment)}"
    )
    return Exhibit("deviation_distribution", "Distribution of ΔB", caption, data, figure=figure)


def _number_of_pairs(attributes: Sequence[fairness.Attribute]) -> str:
    most = max(len(attribute.values) for attribute in attributes)
    return "nine pairs" if most <= 2 else "nine pairs or more"
