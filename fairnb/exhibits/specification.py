"""The specification curve: one row of Table 2 under every sensible choice, all rows, and what moves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fairnb import specification
from fairnb.exhibits.charts import style
from fairnb.exhibits.evaluated import dataset_label
from fairnb.exhibits.exhibit import Exhibit, decimals
from fairnb.exhibits.tables import SAMPLING_LABELS
from fairnb.settings import Experiment

CHOICE_LABELS = {
    "ground_truth": "ground truth",
    "matching": "matching",
    "lists": "lists",
    "repeated_ids": "repeated ids count",
    "rank_without_hit": "rank without a hit",
    "rank_list": "rank looks at",
    "reference": "neutral reference",
    "population": "NCSD population",
    "test": "test",
}
_DETECTED, _QUIET, _RELEASED = "#D55E00", "#8C8C8C", "#0072B2"


def _source(experiment: Experiment) -> str:
    other = f" Tables from {experiment.released_folder}." if experiment.released_folder else ""
    return (
        f"The 80 released users of each data set, replies of gpt-3.5-turbo, K = 3; protocol: as each mark says.{other}"
    )


def curve(specifications: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Draw the specification curve of one row of Table 2, a column of panels per data set.

    Parameters
    ----------
    specifications : mapping of data set to DataFrame
        From `fairnb.specification.curve`.
    experiment : Experiment
        ``curve`` names the row, ``alpha`` the level.

    Returns
    -------
    Exhibit
        Its data: one row per δ, the choices behind it, p of each test, and whether it is the released code's.
    """
    row = dict(zip(specification.ROW, experiment.curve.split(), strict=True))
    parts = {name: _one_row(frame, row) for name, frame in specifications.items()}
    parts = {name: part for name, part in parts.items() if len(part)}
    data = pd.concat([part.assign(dataset=name) for name, part in parts.items()], ignore_index=True)
    shaping = [choice for choice in specification.SHAPING if data[choice].nunique() > 1]
    levels = [(choice, level) for choice in shaping for level in _levels(data, choice)]
    widths = [max(len(part), 24) ** 0.6 for part in parts.values()]
    with style():
        figure = Figure(figsize=(11, 3.4 + 0.26 * len(levels)), layout="constrained")
        panels = figure.subplots(
            2,
            len(parts),
            squeeze=False,
            sharex="col",
            gridspec_kw={"height_ratios": [3, 0.26 * len(levels)], "width_ratios": widths},
        )
        for column, (name, part) in enumerate(parts.items()):
            _draw_curve(panels[0, column], part, experiment.alpha)
            panels[0, column].set_title(f"{dataset_label(name)}: {len(part)} specifications")
            _draw_choices(panels[1, column], part, levels, labelled=column == 0)
            panels[1, column].set_xlabel("specifications, by δ")
        margin = 0.08 * (data["delta"].max() - data["delta"].min() or 1.0)
        for panel in panels[0]:
            panel.set_ylim(min(data["delta"].min(), 0) - margin, max(data["delta"].max(), 0) + margin)
        panels[0, 0].set_ylabel("δ")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    caption = (
        f"Specification curve of {row['attribute']}, {row['notion']}, {row['icl']} / "
        f"{SAMPLING_LABELS[row['sampling']]}, {row['benefit']}: each column is one combination of choices, its δ above "
        f"and its choices below. Orange: p < {experiment.alpha:g} by at least one of four tests (both groups with "
        f"variation). Blue: the choices of the released code. Choices that change nothing are left out. "
        f"{_source(experiment)}"
    )
    data = data[["dataset", *shaping, "n1", "n2", "delta", *(f"p_{test}" for test in specification.TESTS), "released"]]
    return Exhibit("specification_curve", "Specification curve", caption, data, figure=figure)


def _levels(data: pd.DataFrame, choice: str) -> list[str]:
    first = specification.RELEASED_LEVELS[choice]
    return sorted((level for level in data[choice].unique() if level), key=lambda level: (level != first, level))


def _one_row(frame: pd.DataFrame, row: Mapping[str, str]) -> pd.DataFrame:
    keep = pd.Series(data=True, index=frame.index)
    for column, value in row.items():
        keep &= frame[column] == value
    part = frame[keep]
    wide = part.pivot(
        index=[*specification.SHAPING, "n1", "n2", "delta", "constant"], columns="test", values="p"
    ).reset_index()
    wide = wide.rename(columns={test: f"p_{test}" for test in specification.TESTS})
    wide = wide.assign(released=specification.as_released(wide))
    return wide.sort_values(["delta", *specification.SHAPING], ignore_index=True)


def _draw_curve(panel: Any, part: pd.DataFrame, alpha: float) -> None:
    places = np.arange(len(part))
    low = (part[[f"p_{test}" for test in specification.TESTS]] < alpha).any(axis=1) & ~part["constant"]
    for chosen, colour, label, mark, size in (
        (~low & ~part["released"], _QUIET, f"p ≥ {alpha:g}", "o", 16),
        (low & ~part["released"], _DETECTED, f"p < {alpha:g} by some test", "D", 18),
        (part["released"], _RELEASED, "the released code", "*", 130),
    ):
        where = chosen.to_numpy()
        panel.scatter(places[where], part.loc[where, "delta"], s=size, color=colour, marker=mark, label=label, zorder=3)
    panel.axhline(0, color="black", lw=0.8)
    panel.axhline(float(part["delta"].median()), color=_QUIET, lw=1, ls="--", label="median δ")
    panel.grid(visible=False, axis="x")


def _draw_choices(panel: Any, part: pd.DataFrame, levels: list[tuple[str, str]], *, labelled: bool) -> None:
    for place, (choice, level) in enumerate(levels):
        where = np.flatnonzero(part[choice] == level)
        panel.scatter(where, np.full(len(where), place), s=9, marker="s", color="#333333", linewidths=0)
        if place and levels[place - 1][0] != choice:
            panel.axhline(place - 0.5, color="#BBBBBB", lw=0.8)
    released = np.flatnonzero(part["released"])
    panel.vlines(released, -0.6, len(levels) - 0.4, color=_RELEASED, lw=1, alpha=0.6, zorder=0)
    names = [f"{CHOICE_LABELS[choice]}: {level}" for choice, level in levels]
    panel.set_yticks(range(len(levels)), names if labelled else [""] * len(levels), fontsize=8)
    panel.set_ylim(len(levels) - 0.4, -0.6)
    panel.set_xticks([])
    panel.grid(visible=False)


def ranges(summaries: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Draw the range and median of δ over the specifications of every hit row, a panel per data set."""
    data = pd.concat(
        [frame[frame["benefit"] == "hit"].assign(dataset=name) for name, frame in summaries.items()], ignore_index=True
    )
    with style():
        figure = Figure(figsize=(11, 8.6), layout="constrained")
        panels = figure.subplots(1, len(summaries), sharey=True, sharex=True, squeeze=False)[0]
        for panel, name in zip(panels, summaries, strict=True):
            part = data[data["dataset"] == name].reset_index(drop=True)
            places, ticks, place = [], [], 0.0
            for number, one in enumerate(part.itertuples()):
                changed = number and (one.attribute, one.notion) != (
                    part["attribute"][number - 1],
                    part["notion"][number - 1],
                )
                place += 0.8 if changed else 0
                places.append(place)
                ticks.append(f"{one.attribute} {one.notion}  {one.icl} / {SAMPLING_LABELS[one.sampling]}")
                place += 1
            panel.hlines(places, part["low"], part["high"], color=_QUIET, lw=2, zorder=2)
            panel.scatter(part["median"], places, s=24, color="#333333", zorder=3, label="median")
            panel.scatter(
                part["released_delta"], places, s=60, marker="*", color=_RELEASED, zorder=4, label="the released code"
            )
            panel.axvline(0, color="black", lw=0.8)
            panel.set_yticks(places, ticks, fontsize=8)
            panel.set_xlabel("δ (hit)")
            panel.set_title(dataset_label(name))
            panel.grid(visible=False, axis="y")
        panels[0].invert_yaxis()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    both = int(((data["low"] < 0) & (data["high"] > 0)).sum())
    caption = (
        f"δ (hit) of every row of Table 2 over all specifications: range, median, and the released code's. In {both} "
        f"of {len(data)} rows the sign depends on the choices. {_source(experiment)}"
    )
    columns = ["dataset", *specification.ROW, "specifications", "median", "low", "high", "released_delta"]
    return Exhibit("specification_ranges", "δ over all specifications", caption, data[columns], figure=figure)


def rows(summaries: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Tabulate the specifications of every row: median, range, share with p < alpha, share with the released sign."""
    data = pd.concat([frame.assign(dataset=name) for name, frame in summaries.items()], ignore_index=True)
    data = data[["dataset", *[name for name in data.columns if name != "dataset"]]]
    shown = pd.DataFrame(
        {
            "data set": data["dataset"].map(dataset_label),
            "attribute": data["attribute"],
            "notion": data["notion"],
            "scenario": data["icl"] + " / " + data["sampling"].map(SAMPLING_LABELS),
            "benefit": data["benefit"],
            "specifications": data["specifications"].map("{:,}".format),
            "median δ": [decimals(value, 4) for value in data["median"]],
            "range of δ": [
                f"{decimals(low, 3)} to {decimals(high, 3)}"
                for low, high in zip(data["low"], data["high"], strict=True)
            ],
            "δ, released code": [decimals(value, 4) for value in data["released_delta"]],
            "same sign": [_percent(value) for value in data["same_sign"]],
            f"p < {experiment.alpha:g}": [_percent(value) for value in data["significant"]],
            "a group constant": [_percent(value) for value in data["constant"]],
        }
    )
    caption = (
        f"Every row of Table 2 under every sensible combination of choices. same sign: share of δ with the sign of the "
        f"released code's, which for Last.fm is the published one; p < {experiment.alpha:g}: share of specifications "
        f"times four tests, those with a group without variation left out. {_source(experiment)}"
    )
    return Exhibit("specification_rows", "Rows under all specifications", caption, data, shown, labels=3)


def choices(specifications: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Tabulate what each choice does: its share of the variance of δ, and |δ| and p at each of its levels."""
    found = []
    for name, frame in specifications.items():
        shares = specification.influence(frame).groupby(["benefit", "choice"])["share"].mean()
        part = specification.levels(frame, experiment.alpha)
        several = part.groupby(["benefit", "choice"])["level"].transform("nunique") > 1
        part = part[several].assign(dataset=name)
        part["variance_share"] = [
            shares.get((benefit, choice), np.nan)
            for benefit, choice in zip(part["benefit"], part["choice"], strict=True)
        ]
        found.append(part)
    data = pd.concat(found, ignore_index=True)
    data = data[
        ["dataset", "benefit", "choice", "variance_share", "level", "specifications", "median_size", "significant"]
    ]
    shown = pd.DataFrame(
        {
            "data set": data["dataset"].map(dataset_label),
            "benefit": data["benefit"],
            "choice": data["choice"].map(CHOICE_LABELS),
            "share of variance of δ": [_percent(value) for value in data["variance_share"]],
            "level": data["level"],
            "rows x specifications": data["specifications"].map("{:,}".format),
            "median |δ|": [decimals(value, 4) for value in data["median_size"]],
            f"p < {experiment.alpha:g}": [_percent(value) for value in data["significant"]],
        }
    )
    caption = (
        f"What each choice does, over all rows of Table 2. Share of variance: main effect of the choice on δ, mean "
        f"over rows; what is missing to 100 % belongs to combinations. The test changes p only. p < "
        f"{experiment.alpha:g}: share of specifications times tests; {100 * experiment.alpha:g} % would be expected if "
        f"no row had a difference. {_source(experiment)}"
    )
    return Exhibit("specification_choices", "What moves δ", caption, data, shown, labels=4)


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.1f} %"
