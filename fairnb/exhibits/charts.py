"""The charts of FairEvalLLM and those beside them; each carries the numbers it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from fairnb import fairness
from fairnb.exhibits.exhibit import COLOURS, Exhibit
from fairnb.exhibits.tables import DATASET_LABELS, SAMPLING_LABELS, cut_offs, source
from fairnb.settings import BENEFITS, ICLS, NOTIONS, SAMPLINGS, Experiment

# Okabe & Ito's colours, told apart with any colour vision; fixed by name, never by order of appearance.
GROUP_COLOURS = {"Male": "#0072B2", "Female": "#D55E00", "Young": "#009E73", "Old": "#CC79A7"}
DATASET_COLOURS = {"ml1m": "#B8860B", "lastfm1k": "#4D4D4D"}
BAND_COLOURS = {"ml1m": "#F0E442", "lastfm1k": "#BBBBBB"}
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


def figure2(rows: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Figure 2: δ (hit, gender) of NSD and NCSD over the scenarios, one line per data set.

    Parameters
    ----------
    rows : mapping of data set to DataFrame
        From `fairnb.fairness.table`.
    experiment : Experiment

    Returns
    -------
    Exhibit
        Its data: ``dataset, notion, sampling, icl, delta, p``.
    """
    parts = []
    for dataset, frame in rows.items():
        chosen = frame[(frame["benefit"] == "hit") & (frame["attribute"] == "gender")]
        parts.append(chosen[["notion", "sampling", "icl", "delta", "p"]].assign(dataset=dataset))
    data = pd.concat(parts, ignore_index=True)[["dataset", "notion", "sampling", "icl", "delta", "p"]]
    with style():
        figure = Figure(figsize=(11, 4.8), layout="constrained")
        axes = figure.subplots()
        places = {(sampling, icl): place for place, (sampling, icl) in enumerate(SCENARIOS)}
        for dataset in rows:
            part = data[data["dataset"] == dataset]
            low, high = part["delta"].min(), part["delta"].max()
            label = f"{DATASET_LABELS[dataset]}: range of δ"
            axes.axhspan(low, high, color=BAND_COLOURS[dataset], alpha=0.3, lw=0, label=label, zorder=0)
            for notion, mark, line in (("NSD", "o", "-"), ("NCSD", "s", "--")):
                one = part[part["notion"] == notion]
                where = [places[key] for key in zip(one["sampling"], one["icl"], strict=True)]
                axes.plot(
                    where,
                    one["delta"],
                    marker=mark,
                    ls=line,
                    lw=1.8,
                    color=DATASET_COLOURS[dataset],
                    markerfacecolor="white" if notion == "NCSD" else DATASET_COLOURS[dataset],
                    label=f"{DATASET_LABELS[dataset]}: {notion}",
                )
        _scenario_axis(axes)
        axes.axhline(0, color="black", lw=0.8)
        axes.set_ylabel("δ (hit) = Male − Female")
        axes.set_title("Deviation from the neutral list by gender: NSD and NCSD over the nine scenarios")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    absent = data[data["delta"].isna()]
    gap = "; ".join(
        f"{DATASET_LABELS[row.dataset]} {row.notion} {row.icl} / {SAMPLING_LABELS[row.sampling]}"
        for row in absent.itertuples()
    )
    caption = (
        f"δ of the hit benefit by gender; bands mark the range of each data set over both notions, as in the paper. "
        f"Replies of gpt-3.5-turbo to the 80 released users of each data set, K = 3. Protocol: {experiment.protocol}. "
        f"{f'Not computable, no neutral reply was released: {gap}. ' if gap else ''}"
        f"The paper prints no numbers for this figure."
    )
    return Exhibit("figure2", "Figure 2", caption, data, figure=figure)


def _scenario_axis(axes: Axes) -> None:
    axes.set_xticks(range(len(SCENARIOS)), [scenario_label(*scenario) for scenario in SCENARIOS])
    axes.set_xlim(-0.4, len(SCENARIOS) - 0.6)
    axes.grid(visible=False, axis="x")


def forest(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Forest plot: δ of all rows of Table 2 with bootstrap intervals, hit and rank side by side."""
    columns = ["attribute", "notion", "icl", "sampling", "benefit", "delta", "low", "high", "n1", "n2", "p", "note"]
    data = rows[columns].reset_index(drop=True)
    blocks = list(product(rows["attribute"].unique(), rows["notion"].unique()))
    with style():
        figure = Figure(figsize=(11, 0.235 * len(data) / 2 + 1.6), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        labels: list[str] = []
        for panel, benefit in zip(panels, BENEFITS, strict=True):
            place, labels = 0.0, []
            ticks: list[float] = []
            for attribute, notion in blocks:
                part = data[
                    (data["benefit"] == benefit) & (data["attribute"] == attribute) & (data["notion"] == notion)
                ]
                places = place + np.arange(len(part))
                panel.hlines(places, part["low"], part["high"], color="#555555", lw=1.4, zorder=2)
                faces = np.where(part["note"] == "", "#0072B2", "white")
                panel.scatter(part["delta"], places, s=25, edgecolors="#0072B2", facecolors=faces, zorder=3)
                ticks.extend(places)
                names = zip(part["icl"], part["sampling"].map(SAMPLING_LABELS), strict=True)
                labels.extend(f"{attribute} {notion}  {icl} / {sampling}" for icl, sampling in names)
                place += len(part) + 0.8
            panel.axvline(0, color="black", lw=0.8, zorder=1)
            panel.set_yticks(ticks, labels, fontsize=8)
            panel.grid(visible=False, axis="y")
            panel.set_title("hit" if benefit == "hit" else "average rank")
            panel.set_xlabel("δ, with 95 % bootstrap interval")
        panels[0].invert_yaxis()
    n_zero = int(((data["low"] <= 0) & (data["high"] >= 0)).sum())
    n_known = int(data["low"].notna().sum())
    caption = (
        f"δ of all {len(data)} row-halves of Table 2. {n_zero} of {n_known} intervals include 0. Open circles: a group "
        f"without variation, or too small to test. {experiment.replicates:,} bootstrap replicates of users. "
        f"{source(experiment)}"
    )
    return Exhibit("forest", "Forest plot of δ", caption, data, figure=figure)


def levels(rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Heat map of the levels of Table 1 over all rows; the level's number stands in each cell."""
    data = rows[["attribute", "notion", "icl", "sampling", "benefit", "delta", "p", "level", "note"]]
    keys = list(product(rows["attribute"].unique(), rows["notion"].unique()))
    palette = ListedColormap([COLOURS[f"level {number}"] for number in fairness.LEVELS])
    with style():
        figure = Figure(figsize=(11, 5.2), layout="constrained")
        panels = figure.subplots(2, 1, sharex=True)
        for panel, benefit in zip(panels, BENEFITS, strict=True):
            part = data[data["benefit"] == benefit].set_index(["attribute", "notion", "sampling", "icl"])
            grid = pd.DataFrame(
                [[part.at[(*key, *scenario), "level"] for scenario in SCENARIOS] for key in keys],
                index=[f"{attribute} {notion}" for attribute, notion in keys],
                columns=[scenario_label(*scenario) for scenario in SCENARIOS],
            )
            notes = [[part.at[(*key, *scenario), "note"] for scenario in SCENARIOS] for key in keys]
            number = grid.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
            words = [
                [
                    "not tested" if np.isnan(v) else _level_words(int(v), note)
                    for v, note in zip(line, marks, strict=True)
                ]
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
            panel.set_title("hit" if benefit == "hit" else "average rank", loc="left")
            panel.tick_params(axis="y", rotation=0)
            panel.set(xlabel="", ylabel="")
    caption = (
        f"Levels of Table 1 for every row of Table 2. * a group has no variation (then never level 4). "
        f"{cut_offs(experiment)}. {source(experiment)}"
    )
    return Exhibit("levels", "Levels", caption, data, figure=figure)


def _level_words(number: int, note: str) -> str:
    first, *rest = fairness.LEVELS[number].split()
    return "\n".join([f"{number} {first}", *rest]) + ("*" if note else "")


def intrinsic_means(benefits: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Group means of the neutral ranker's hit rate with 95 % bootstrap intervals of each mean."""
    names = ("gender", "age")
    data = pd.concat(
        [fairness.intrinsic_means(benefits, experiment, fairness.ATTRIBUTES[name]) for name in names],
        ignore_index=True,
    )
    with style():
        figure = Figure(figsize=(11, 4.4), layout="constrained")
        panels = figure.subplots(1, len(names), sharey=True)
        for panel, name in zip(panels, names, strict=True):
            part = data[data["attribute"] == name]
            groups = list(part["group"].unique())
            for number, group in enumerate(groups):
                one = part[part["group"] == group].reset_index(drop=True)
                where = np.arange(len(one)) + (number - (len(groups) - 1) / 2) * 0.22
                gaps = np.abs(one[["low", "high"]].to_numpy().T - one["mean"].to_numpy())
                colour = GROUP_COLOURS.get(group, "#333333")
                label = f"{group} (n = {int(one['n'].max())})"
                panel.errorbar(
                    where, one["mean"], yerr=gaps, fmt="os"[number % 2], color=colour, capsize=3, label=label
                )
            _scenario_axis(panel)
            panel.tick_params(axis="x", labelsize=8)
            panel.set_title(name)
            panel.set_ylim(bottom=0)
            panel.legend(loc="upper left", ncols=len(groups))
        panels[0].set_ylabel("mean HitRate@3, neutral list")
        panels[0].set_ylim(0, float(np.nanmax(data["high"])) * 1.18)
    caption = (
        f"Intrinsic fairness: the neutral ranker's mean HitRate@3 per group and scenario, with 95 % percentile "
        f"intervals ({experiment.replicates:,} bootstrap replicates of users within groups). {source(experiment)}"
    )
    return Exhibit("intrinsic_means", "Intrinsic fairness by scenario", caption, data, figure=figure)


def deviation_distribution(benefits: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Distribution of ΔB (hit) per group: how often a list gained, lost or kept its hits."""
    parts = []
    for name, notion in product(("gender", "age"), NOTIONS):
        attribute = fairness.ATTRIBUTES[name]
        delta = fairness.deviations(benefits, notion, attribute, experiment.rules)
        known = delta[(delta["benefit"] == "hit") & delta["value"].notna()]
        value = (known["value"] * 3).round().astype(int)
        counts = known.assign(value=value).groupby(["group", "value"]).size().rename("pairs").reset_index()
        counts["share"] = counts["pairs"] / counts.groupby("group")["pairs"].transform("sum")
        parts.append(counts.assign(attribute=name, notion=notion))
    data = pd.concat(parts, ignore_index=True)[["attribute", "notion", "group", "value", "pairs", "share"]]
    data = data.rename(columns={"value": "change_in_hits"})
    with style():
        figure = Figure(figsize=(11, 5.6), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for panel, (name, notion) in zip(panels.flat, product(("gender", "age"), NOTIONS), strict=True):
            part = data[(data["attribute"] == name) & (data["notion"] == notion)]
            groups = [group for group in fairness.ATTRIBUTES[name].values if group in set(part["group"])]
            total = part.groupby("group")["pairs"].sum()
            labels = {g: f"{g if notion == 'NSD' else f'do({g})'}: {total[g]:,} pairs" for g in groups}
            sns.barplot(
                part.assign(label=part["group"].map(labels)),
                x="change_in_hits",
                y="share",
                hue="label",
                hue_order=[labels[group] for group in groups],
                palette={labels[group]: GROUP_COLOURS[group] for group in groups},
                order=list(range(-3, 4)),
                errorbar=None,
                ax=panel,
            )
            for bars in panel.containers:
                panel.bar_label(bars, fmt=lambda share: f"{100 * share:.1f}" if share else "", fontsize=8, padding=1)
            panel.set_title(f"{name}, {notion}")
            panel.set(xlabel="change in hits, ΔB × 3", ylabel="share of pairs")
            panel.grid(visible=False, axis="x")
            panel.legend(loc="center left", title=None, fontsize=9)
        panels[0, 0].set_ylim(0, 1)
    caption = (
        f"Change in the number of hits from the neutral list to the sensitive (NSD) or counterfactual (NCSD) list, "
        f"over all scenarios; labels in percent. A user has nine pairs, so pairs are not independent. "
        f"{source(experiment)}"
    )
    return Exhibit("deviation_distribution", "Distribution of ΔB", caption, data, figure=figure)
