"""What the tests can detect at the paper's numbers of users: power curves, false positives, users needed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fairnb import fairness, power
from fairnb.exhibits.charts import style
from fairnb.exhibits.evaluated import source
from fairnb.exhibits.exhibit import Exhibit, decimals
from fairnb.settings import Experiment

EFFECTS = tuple(round(0.01 * step, 2) for step in range(20))
WANTED = (0.02, 0.05, 0.10)
_COLOURS = {"student": "#0072B2", "welch": "#D55E00", "mann-whitney": "#009E73", "permutation": "#CC79A7"}
_MARKS = {"student": "o", "welch": "s", "mann-whitney": "^", "permutation": "D"}
# Replicates of the costlier tests; their intervals say how sure the rates are.
_BOOTSTRAP_REPLICATES = 1_000
_PERMUTATIONS = 999
_NEAR = 0.02


def designs() -> dict[str, tuple[int, int]]:
    """Return the group sizes of the paper's Last.fm users, by attribute, and ten times those by gender."""
    return {"gender": (45, 35), "age": (73, 7), "gender, ten times as many": (450, 350)}


def observed(benefits: pd.DataFrame, experiment: Experiment) -> tuple[power.Values, power.Values]:
    """Estimate the distribution of ΔB (hit, NSD by gender) and of the neutral hit rate from all scenarios.

    Parameters
    ----------
    benefits : DataFrame
        Of Last.fm, protocol ``released``.
    experiment : Experiment
    """
    delta = fairness.deviations(benefits, "NSD", fairness.GENDER, experiment.rules)
    hit = delta.loc[delta["benefit"] == "hit", "value"].dropna()
    neutral = benefits[(benefits["demographics"] == "none") & (benefits["counterfactual"] == "no")]
    return power.Values.of(hit.to_numpy()), power.Values.of(neutral["hit_rate"].to_numpy())


def simulate(null: power.Values, experiment: Experiment) -> pd.DataFrame:
    """Simulate all tests over `EFFECTS` for both designs, with the power by formula beside the t-tests.

    Returns
    -------
    DataFrame
        What `fairnb.power.rejections` returns, ``attribute``, and ``formula`` (NaN for tests without one).
    """
    parts = []
    for attribute, (n1, n2) in designs().items():
        # With ten times as many users every effect beyond these is found.
        frame = power.rejections(
            null,
            EFFECTS if n1 + n2 < 200 else EFFECTS[: len(EFFECTS) // 2],
            n1,
            n2,
            replicates=experiment.simulations,
            permutations=_PERMUTATIONS,
            alpha=experiment.alpha,
            root=experiment.seed,
        )
        frame["formula"] = [
            power.formula_power(null, row.effect, n1, n2, row.test, experiment.alpha)
            if row.test in power.FORMULAS
            else np.nan
            for row in frame.itertuples()
        ]
        parts.append(frame.assign(attribute=attribute))
    return pd.concat(parts, ignore_index=True)


def curves(simulated: pd.DataFrame, null: power.Values, experiment: Experiment) -> Exhibit:
    """Draw power against the planted δ, a panel per design."""
    with style():
        figure = Figure(figsize=(11, 4.8), layout="constrained")
        panels = figure.subplots(1, len(designs()), sharey=True, sharex=True)
        for panel, (attribute, (n1, n2)) in zip(panels, designs().items(), strict=True):
            part = simulated[simulated["attribute"] == attribute]
            for test, one in part.groupby("test", sort=False):
                colour = _COLOURS[str(test)]
                panel.plot(one["effect"], one["rate"], marker=_MARKS[str(test)], ms=5, color=colour, label=str(test))
                if one["formula"].notna().any():
                    panel.plot(one["effect"], one["formula"], ls=":", lw=2, color=colour, label=f"{test}, by formula")
            panel.axhline(0.8, color="black", lw=0.8, ls="--")
            panel.axhline(experiment.alpha, color="black", lw=0.8, ls="--")
            panel.set_title(f"{attribute}:\n{n1} and {n2} users")
            panel.set_xlabel("planted δ (hit)")
        panels[0].set_ylabel("share of simulated experiments with p < α")
        panels[0].set_ylim(-0.02, 1.02)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    caption = (
        f"Power of four tests for δ of NSD (hit) at the sizes of the Last.fm groups, {experiment.simulations:,} "
        f"simulated experiments a point, α = {experiment.alpha:g} (lower dashed line; upper: 80 %). Group 2 is drawn "
        f"from the ΔB observed over all users and scenarios (mean {decimals(null.mean, 4)}, SD "
        f"{decimals(null.sd, 4)}), group 1 from the same distribution tilted exponentially until its mean is δ "
        f"higher. Permutation: {_PERMUTATIONS} labellings. {source(experiment, 'lastfm1k')}"
    )
    columns = ["attribute", "n1", "n2", "effect", "test", "replicates", "rejected", "rate", "low", "high", "formula"]
    columns += ["constant", "rejected_constant"]
    return Exhibit("power_curves", "Power", caption, simulated[columns], figure=figure)


def false_positives(simulated: pd.DataFrame, levels: power.Values, experiment: Experiment) -> Exhibit:
    """Tabulate how often each test finds a difference where none was planted, the released IF test included."""
    columns = ["attribute", "n1", "n2", "test", "replicates", "rejected", "rate", "low", "high"]
    rows = [simulated.loc[simulated["effect"] == 0, columns]]
    for attribute, (n1, n2) in list(designs().items())[:2]:
        frame = power.bootstrap_means_test_rate(
            levels,
            n1,
            n2,
            replicates=min(experiment.simulations, _BOOTSTRAP_REPLICATES),
            bootstrap_replicates=experiment.replicates,
            alpha=experiment.alpha,
            root=experiment.seed,
        )
        rows.append(frame.assign(attribute=attribute, test="bootstrap means")[columns])
    data = pd.concat(rows, ignore_index=True)
    theory = power.bootstrap_means_formula(experiment.replicates, experiment.alpha)
    data["expected"] = np.where(data["test"] == "bootstrap means", theory, experiment.alpha)
    shown = pd.DataFrame(
        {
            "users": data["n1"].astype(str) + " and " + data["n2"].astype(str),
            "test": data["test"],
            "simulated experiments": data["replicates"].map("{:,}".format),
            "p < α": [
                f"{100 * rate:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
                for rate, low, high in zip(data["rate"], data["low"], data["high"], strict=True)
            ],
            "expected": [f"{100 * value:.1f} %" for value in data["expected"]],
        }
    )
    caption = (
        f"False positives at α = {experiment.alpha:g}: both groups drawn from one distribution, ΔB (hit) for the "
        "four tests, the neutral hit rate for the released code's test of intrinsic fairness (Welch on two sets of "
        f"{experiment.replicates:,} bootstrap means). 95 % intervals. expected: α, and for bootstrap means what "
        f"theory gives for so many replicates. {source(experiment, 'lastfm1k')}"
    )
    return Exhibit("false_positives", "False positives", caption, data, shown, labels=1)


def on_constant_groups(simulated: pd.DataFrame, effect: float = 0.1) -> pd.DataFrame:
    """Tell how many of Welch's detections of an effect are made where a group has no variation.

    Returns
    -------
    DataFrame
        ``n1``, ``n2``, ``effect``, ``rejected``, ``rejected_constant``; a row per design that simulates the effect.
    """
    rows = simulated[(simulated["test"] == "welch") & ((simulated["effect"] - effect).abs() < 1e-9)]
    return rows[["n1", "n2", "effect", "rejected", "rejected_constant"]].reset_index(drop=True)


def detectable(simulated: pd.DataFrame, null: power.Values, experiment: Experiment) -> Exhibit:
    """Tabulate the smallest δ that each test detects with 80 % power, by simulation and by formula."""
    rows = []
    for attribute, (n1, n2) in designs().items():
        for test, part in simulated[simulated["attribute"] == attribute].groupby("test", sort=False):
            formula = np.nan
            if test in power.FORMULAS:
                formula = power.smallest_detectable(null, n1, n2, str(test), alpha=experiment.alpha)
            rows.append(
                {
                    "attribute": attribute,
                    "n1": n1,
                    "n2": n2,
                    "test": test,
                    "by_simulation": power.crossing(part["effect"], part["rate"]),
                    "by_formula": formula,
                    "largest_gap": float((part["rate"] - part["formula"]).abs().max()),
                    "holds_to": _holds_to(part),
                }
            )
    data = pd.DataFrame(rows)
    shown = pd.DataFrame(
        {
            "users": data["n1"].astype(str) + " and " + data["n2"].astype(str),
            "test": data["test"],
            "by simulation": [decimals(value, 3) or "not reached" for value in data["by_simulation"]],
            "by formula": [decimals(value, 3) for value in data["by_formula"]],
            "formula holds to δ": [decimals(value, 2) for value in data["holds_to"]],
            "largest gap, points": [decimals(100 * value, 1) for value in data["largest_gap"]],
        }
    )
    caption = (
        f"Smallest δ (hit) that is detected with 80 % power at α = {experiment.alpha:g}. By simulation: where the "
        "curve crosses 80 %; by formula: noncentral t with the standard deviations of both distributions. "
        f"formula holds to: up to this δ the power by both is within two points. The gap "
        f"is that of power by simulation and by formula, in percentage points. {source(experiment, 'lastfm1k')}"
    )
    return Exhibit("detectable", "Smallest detectable difference", caption, data, shown, labels=1)


def _holds_to(part: pd.DataFrame) -> float:
    """Return the effect up to which formula and simulation are within two points; NaN if not even at 0."""
    near = ((part["rate"] - part["formula"]).abs() <= _NEAR).cumprod().astype(bool)
    return float(part.loc[near, "effect"].max()) if near.any() else np.nan


def needed(null: power.Values, experiment: Experiment) -> Exhibit:
    """Tabulate how many users a δ needs to be detected with 80 % power."""
    rows = []
    for attribute, (n1, n2) in list(designs().items())[:2]:
        for effect in WANTED:
            first = power.needed_n(null, effect, n2 / n1, "welch", alpha=experiment.alpha)
            rows.append({"attribute": attribute, "effect": effect, "n1": first, "n2": power.second_n(first, n2 / n1)})
    data = pd.DataFrame(rows)
    shown = pd.DataFrame(
        {
            "groups as": [f"{n1} : {n2}" for n1, n2 in (designs()[name] for name in data["attribute"])],
            "δ (hit)": [decimals(value, 2) for value in data["effect"]],
            "users, group 1": data["n1"].map("{:,}".format),
            "users, group 2": data["n2"].map("{:,}".format),
            "in all": (data["n1"] + data["n2"]).map("{:,}".format),
        }
    )
    caption = (
        f"Users needed to detect a δ with 80 % power at α = {experiment.alpha:g}, Welch's test, groups in the "
        f"proportions of the Last.fm users; noncentral t. {source(experiment, 'lastfm1k')}"
    )
    return Exhibit("needed_users", "Users needed", caption, data, shown, labels=1)
