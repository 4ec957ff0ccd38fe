"""The audit's tables and charts on the released replies and on the paper's sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from fairnb import fairness, paths, released, statistics
from fairnb.audit import claims, findings, lists
from fairnb.audit.check import Check
from fairnb.datasets.released import TITLES
from fairnb.exhibits.charts import style
from fairnb.exhibits.evaluated import benefits_folder, dataset_label, source
from fairnb.exhibits.exhibit import Exhibit, decimals, p_text
from fairnb.exhibits.tables import PRINTED_DATASET, SAMPLING_LABELS, compare_table4
from fairnb.settings import BENEFIT_FILES, BENEFITS, NOTIONS, Experiment

_RELEASED = "replies of gpt-3.5-turbo to the 80 released users of each data set, K = 3"


def _from(experiment: Experiment) -> str:
    other = f" Tables from {experiment.released_folder}." if experiment.released_folder else ""
    return f"Computed from the released files: {_RELEASED}.{other}"


def datasets() -> list[str]:
    """List the data sets with released replies."""
    return [name for name, protocol in BENEFIT_FILES if protocol == "released"]


def benefits_of(experiment: Experiment) -> dict[str, pd.DataFrame]:
    """Read the benefits of the released replies of every data set, protocol ``released``."""
    return {name: released.read_benefits(name, "released", benefits_folder(experiment)) for name in datasets()}


def tables_of(benefits: Mapping[str, pd.DataFrame], experiment: Experiment) -> dict[str, pd.DataFrame]:
    """Compute the rows of Table 2 of every data set, protocol ``released``."""
    return {
        name: fairness.table(frame, experiment.model_copy(update={"dataset": name, "protocol": "released"}))
        for name, frame in benefits.items()
    }


def folder(experiment: Experiment) -> Path:
    """Return the folder of the tables that were made from the released files."""
    return benefits_folder(experiment)


def claims_list() -> pd.DataFrame:
    """Read the sentences to check and the names of their checks."""
    return claims.read(paths.published() / "claims.csv")


def summary(checks: Sequence[Check], experiment: Experiment) -> Exhibit:
    """Put all checks into one table: a row a check, result and consequence."""
    data = findings.table(checks)
    shown = data[["check", "result", "consequence"]].rename(columns={"consequence": "what follows"})
    caption = (
        f"Every check of this audit, α = {experiment.alpha:g}; question and method of each, with its source, stand "
        f"in the sections above and in the CSV. {_from(experiment)}"
    )
    return Exhibit("summary", "All checks", caption, data, shown, width=44)


def evidence(experiment: Experiment) -> claims.Evidence:
    """Gather what the checks of the paper's sentences look at."""
    benefits = benefits_of(experiment)
    lastfm = experiment.model_copy(update={"dataset": PRINTED_DATASET, "protocol": "released"})
    full = {"sampling": {short: name for name, short in SAMPLING_LABELS.items()}}
    condition = ["sampling", "icl", "counterfactual", "demographics"]
    return claims.Evidence(
        table2=pd.read_csv(paths.published() / "fairevalllm_table2.csv").replace(full),
        table4=pd.read_csv(paths.published() / "fairevalllm_table4.csv"),
        rows=tables_of(benefits, experiment),
        intrinsic=fairness.intrinsic(benefits[PRINTED_DATASET], lastfm),
        replies={name: (len(frame), frame.groupby(condition).ngroups) for name, frame in benefits.items()},
        agreement=released.read_counts(released.AGREEMENT_FILE, benefits_folder(experiment)),
        alpha=experiment.alpha,
    )


def ground_truth(experiment: Experiment) -> Exhibit:
    """Set the ground truth of the files against the train and the held-out part."""
    data = released.read_counts(released.TRUTHS_FILE, benefits_folder(experiment))
    shown = pd.DataFrame(
        {
            "data set": data["dataset"].map(dataset_label),
            "users": data["users"].map("{:,}".format),
            "items": data["items"].map("{:,}".format),
            "in the train part": [_share(of, all_) for of, all_ in zip(data["in_train"], data["items"], strict=True)],
            "in the held-out part": [
                _share(of, all_) for of, all_ in zip(data["in_heldout"], data["items"], strict=True)
            ],
            "held-out items met": [
                _share(of, all_) for of, all_ in zip(data["in_heldout"], data["heldout"], strict=True)
            ],
            "users: equal to train": [
                _share(of, all_) for of, all_ in zip(data["equal_to_train"], data["users"], strict=True)
            ],
        }
    )
    caption = (
        f"The items in the files' ground-truth column against the author's temporal split, which was released for "
        f"MovieLens only; Last.fm's cannot be checked. {_from(experiment)}"
    )
    return Exhibit("ground_truth", "Which items count as hits", caption, data, shown)


def _share(count: float, of: float) -> str:
    if math.isnan(count) or not of:
        return "not released"
    return f"{int(count):,} of {int(of):,} ({100 * count / of:.1f} %)"


def ids_and_titles(experiment: Experiment) -> Exhibit:
    """Count how often the id beside a recommended title is that title's, as far as it can be checked."""
    data = released.read_counts(released.MATCHING_FILE, benefits_folder(experiment))
    shown = pd.DataFrame(
        {
            "data set": data["dataset"].map(dataset_label),
            "of the places of lists": data["check"],
            "count": [_share(count, of) for count, of in zip(data["places"], data["of"], strict=True)],
        }
    )
    caption = (
        "The ids that the author's matcher gave, beside the titles of the lists; lists with as many ids as titles. "
        "MovieLens: exact titles after normalising, against the released catalogue. Last.fm: no catalogue was "
        "released; an id is one item, so of several titles beside it at most one can be exact (a title in two "
        f"spellings counts as two). {_from(experiment)}"
    )
    return Exhibit("ids_and_titles", "Matched ids and recommended titles", caption, data, shown, labels=1)


def columns_of_users(benefits: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """List which users each column of Table 2 covers: how many, and what they are."""
    rules = experiment.rules
    rows = []
    for dataset, frame in benefits.items():
        groups = frame.drop_duplicates("user").set_index("user")
        for attribute in (fairness.GENDER, fairness.AGE):
            own = attribute.groups(groups)
            for notion in NOTIONS:
                found = fairness.deviations(frame, notion, attribute, rules)
                found = found[found["value"].notna() & (found["benefit"] == "hit")]
                for place, group in enumerate(attribute.values, start=1):
                    users = found.loc[found["group"] == group, "user"].unique()
                    counts = own.loc[users].value_counts()
                    rows.append(
                        {
                            "dataset": dataset,
                            "attribute": attribute.name,
                            "notion": notion,
                            "column": place,
                            "heading": group,
                            "users": len(users),
                            "truly": "; ".join(f"{name}: {count}" for name, count in counts.items()),
                        }
                    )
    data = pd.DataFrame(rows)
    shown = data.assign(dataset=data["dataset"].map(dataset_label), users=data["users"].astype(str))
    shown["column"] = shown["column"].astype(str)
    shown = shown.rename(columns={"dataset": "data set", "heading": "headed", "truly": "who they are"})
    caption = (
        f"The users behind the columns of Table 2, protocol {rules.name}. In NCSD rows a column holds the users who "
        f"were told its value, who are all of the other group: the columns change places. {_from(experiment)}"
    )
    return Exhibit("columns_of_users", "Who is in which column", caption, data, shown, labels=3)


def agreement(experiment: Experiment) -> tuple[Exhibit, pd.DataFrame]:
    """Draw how alike a user's lists are for every pair of prompts, as released and as it would be as described.

    Returns
    -------
    tuple of Exhibit and DataFrame
        The chart, and `fairnb.audit.lists.by_flag`.
    """
    counts = released.read_counts(released.AGREEMENT_FILE, benefits_folder(experiment))
    data = lists.pairs(counts)
    names = list(data["dataset"].unique())
    with style():
        figure = Figure(figsize=(11, 5.1 * len(names)), layout="constrained")
        panels = figure.subplots(len(names), 2, squeeze=False)
        for line, name in zip(panels, names, strict=True):
            part = data[data["dataset"] == name]
            low, high = part["jaccard"].min(), part["jaccard"].max()
            for panel, column, title in (
                (line[0], "jaccard", "as released"),
                (line[1], "described", "if only the stated facts mattered"),
            ):
                square = lists.matrix(data, name, column)
                square = square.mask(np.eye(len(square), dtype=bool))
                labels = [label.replace("/", ", ") for label in square.columns]
                sns.heatmap(
                    square.set_axis(labels).set_axis(labels, axis=1),
                    annot=True,
                    fmt=".2f",
                    vmin=low,
                    vmax=high,
                    cmap="cividis",
                    cbar=False,
                    linewidths=1,
                    linecolor="white",
                    annot_kws={"fontsize": 8.5},
                    ax=panel,
                )
                panel.grid(visible=False)
                panel.set_title(f"{dataset_label(name)}: {title}")
                panel.tick_params(axis="y", rotation=0, labelsize=8)
                panel.tick_params(axis="x", rotation=40, labelsize=8)
                for label in panel.get_xticklabels():
                    label.set_horizontalalignment("right")
    caption = (
        "Mean Jaccard similarity of the lists that a user got for two prompts of one scenario, over users and the "
        "nine scenarios; no, yes: counterfactual. Right: the mean over all pairs of prompts with as many stated "
        "facts apart, which is what the left would look like, up to noise, if prompts differed in these facts "
        f"alone. The two neutral prompts have one text. {_from(experiment)}"
    )
    chart = Exhibit("agreement_of_lists", "How alike the lists are", caption, data, figure=figure)
    return chart, lists.by_flag(counts)


def same_flag(by_flag: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Compare a list with the neutral list filed under the same value of counterfactual, and under the other."""
    shown = pd.DataFrame(
        {
            "data set": by_flag["dataset"].map(dataset_label),
            "same flag": [decimals(value, 3) for value in by_flag["same"]],
            "other flag": [decimals(value, 3) for value in by_flag["other"]],
            "two neutral lists": [decimals(value, 3) for value in by_flag["again"]],
            "scenarios": by_flag["scenarios"].astype(str),
            "same flag higher in": by_flag["same_higher"].astype(str),
            "p (sign test)": by_flag["p"].map(p_text),
        }
    )
    caption = (
        "Mean Jaccard of lists under one stated fact with the neutral list filed under the same value of "
        "counterfactual, and under the other. Both neutral prompts have one text, so both lists should be equally "
        f"near. same flag higher in: scenarios; p: sign test over them. {_from(experiment)}"
    )
    return Exhibit("same_flag", "Same counterfactual flag, or the other", caption, by_flag, shown)


def noise(benefits: Mapping[str, pd.DataFrame], tables: Mapping[str, pd.DataFrame], experiment: Experiment) -> Exhibit:
    """Set the changes of benefit behind Table 2 against those between two answers to one neutral text."""
    rows = []
    for dataset, frame in benefits.items():
        neutral = frame[frame["demographics"] == "none"]
        repeats = neutral.assign(repeat=neutral["counterfactual"].eq("yes").astype(int))
        for attribute in (fairness.GENDER, fairness.AGE):
            again = fairness.repeat_noise(repeats, experiment, [attribute])
            for notion in NOTIONS:
                found = fairness.deviations(frame, notion, attribute, experiment.rules)
                for benefit in BENEFITS:
                    own = again[(again["benefit"] == benefit) & (again["note"] == "")]
                    part = found[(found["benefit"] == benefit) & found["value"].notna()]
                    table = tables[dataset]
                    table = table[(table["attribute"] == attribute.name) & (table["notion"] == notion)]
                    both = table[table["benefit"] == benefit].merge(
                        own[["sampling", "icl", "delta"]], on=["sampling", "icl"], suffixes=("", "_again")
                    )
                    both = both[both["delta"].notna()]
                    rows.append(
                        {
                            "dataset": dataset,
                            "attribute": attribute.name,
                            "notion": notion,
                            "benefit": benefit,
                            "sd": _mean_sd(part),
                            "sd_again": own["sd"].mean(),
                            "changed": statistics.mean(part["value"].abs() > 1e-9),
                            "changed_again": own["share_changed"].mean(),
                            "rows": len(both),
                            "within": int((both["delta"].abs() <= both["delta_again"] + 1e-9).sum()),
                        }
                    )
    data = pd.DataFrame(rows)
    shown = pd.DataFrame(
        {
            ("", "data set"): data["dataset"].map(dataset_label),
            ("", "attribute"): data["attribute"],
            ("", "notion"): data["notion"],
            ("", "benefit"): data["benefit"],
            ("SD over users", "ΔB"): [decimals(value, 3) for value in data["sd"]],
            ("SD over users", "again"): [decimals(value, 3) for value in data["sd_again"]],
            ("users with a change", "ΔB"): [f"{100 * value:.0f} %" for value in data["changed"]],
            ("users with a change", "again"): [f"{100 * value:.0f} %" for value in data["changed_again"]],
            ("", "|δ| no larger"): [f"{count} of {of}" for count, of in zip(data["within"], data["rows"], strict=True)],
        }
    )
    caption = (
        "What asking the neutral text a second time changes (the neutral replies filed under counterfactual = no "
        "and yes), beside what stating an attribute changes. Means over the scenarios. |δ| no larger: rows in which "
        f"|δ| is no larger than between the two askings. Protocol {experiment.rules.name}. {_from(experiment)}"
    )
    return Exhibit("noise", "The noise under every ΔB", caption, data, shown, labels=3)


def _mean_sd(part: pd.DataFrame) -> float:
    return float(part.groupby(["sampling", "icl"])["value"].std(ddof=1).mean())


def cells_below_alpha(benefits: pd.DataFrame, rows: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Show every row of Table 2 with p below alpha in detail: its users' ΔB, and four tests.

    Parameters
    ----------
    benefits, rows : DataFrame
        Of Last.fm: from `benefits_of` and `tables_of`.
    experiment : Experiment
    """
    found = []
    for row in rows[rows["p"] < experiment.alpha].itertuples():
        attribute = fairness.ATTRIBUTES[str(row.attribute)]
        delta = fairness.deviations(benefits, str(row.notion), attribute, experiment.rules)
        part = delta[
            (delta["sampling"] == row.sampling) & (delta["icl"] == row.icl) & (delta["benefit"] == row.benefit)
        ]
        for name in (row.group1_name, row.group2_name):
            values = part.loc[part["group"] == name, "value"].dropna()
            counts = values.round(4).value_counts().sort_index()
            found.append(
                {
                    "attribute": row.attribute,
                    "notion": row.notion,
                    "icl": row.icl,
                    "sampling": row.sampling,
                    "benefit": row.benefit,
                    "group": name,
                    "n": len(values),
                    "mean": statistics.mean(values),
                    "sd": math.sqrt(statistics.variance(values, 1)),
                    "values": "; ".join(f"{value:g}: {count}" for value, count in counts.items()),
                    "p_welch": row.p_welch,
                    "p_student": row.p_student,
                    "p_permutation": row.p_permutation,
                    "p_mannwhitney": row.p_mannwhitney,
                    "note": row.note,
                }
            )
    columns = ["attribute", "notion", "icl", "sampling", "benefit", "group", "n", "mean", "sd", "values"]
    columns += ["p_welch", "p_student", "p_permutation", "p_mannwhitney", "note"]
    data = pd.DataFrame(found, columns=columns)
    first = ~data.duplicated(["attribute", "notion", "icl", "sampling", "benefit"])
    shown = pd.DataFrame(
        {
            "row": data["attribute"]
            + " "
            + data["notion"]
            + ", "
            + data["icl"]
            + " / "
            + data["sampling"]
            + ", "
            + data["benefit"],
            "column": data["group"],
            "users": data["n"].astype(str),
            "mean ΔB": [decimals(value, 4) for value in data["mean"]],
            "SD": [decimals(value, 4) for value in data["sd"]],
            "users by ΔB": data["values"],
            **{
                label: [p_text(value) if new else "" for value, new in zip(data[name], first, strict=True)]
                for label, name in (
                    ("Welch", "p_welch"),
                    ("Student", "p_student"),
                    ("permutation", "p_permutation"),
                    ("Mann-Whitney", "p_mannwhitney"),
                )
            },
            "note": data["note"].where(first, ""),
        }
    )
    caption = (
        f"Rows of Table 2 with p < {experiment.alpha:g}: how many users have which ΔB, and p by four tests. With a "
        f"constant group Welch's test takes that group's variance for 0, as if its mean were known exactly. "
        f"{source(experiment, 'lastfm1k')}"
    )
    return Exhibit("cells_below_alpha", "The cells below alpha", caption, data, shown, labels=1, width=34)


def table4_panels(intrinsic: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Set both panels of Table 4 against the group means that they should come from, and against the other panel's.

    Parameters
    ----------
    intrinsic : DataFrame
        `fairnb.fairness.intrinsic` of Last.fm, hit, protocol ``released``.
    experiment : Experiment
    """
    verdicts = compare_table4(intrinsic, experiment)
    head = ["attribute", "sampling", "icl"]
    printed = pd.read_csv(paths.published() / "fairevalllm_table4.csv")
    data = intrinsic[[*head, "mean1", "mean2", "error1", "error2"]].merge(printed[[*head, "group1", "group2"]], on=head)
    other = data[[*head, "mean1", "mean2", "error1", "error2"]].assign(
        attribute=data["attribute"].map({"gender": "age", "age": "gender"})
    )
    data = data.merge(other, on=head, suffixes=("", "_other"))
    for suffix in ("", "_other"):
        gaps = [
            (data[f"group{side}"] - data[f"mean{side}{suffix}"]).abs() / data[f"error{side}{suffix}"] for side in (1, 2)
        ]
        data[f"gap{suffix}"] = np.maximum(*gaps)
    data["within"] = verdicts["within"].to_numpy()
    shown = pd.DataFrame(
        {
            "panel": data["attribute"],
            "scenario": data["icl"] + " / " + data["sampling"].map(SAMPLING_LABELS),
            "printed": [_pair(*values) for values in zip(data["group1"], data["group2"], strict=True)],
            "own means": [_pair(*values) for values in zip(data["mean1"], data["mean2"], strict=True)],
            "gap": [decimals(value, 1) for value in data["gap"]],
            "other means": [_pair(*values) for values in zip(data["mean1_other"], data["mean2_other"], strict=True)],
            "other gap": [decimals(value, 1) for value in data["gap_other"]],
            "within 3": data["within"],
        }
    )
    caption = (
        "Table 4: each printed pair of means, the means of the panel's own groups, and those of the other "
        "attribute's groups in the same scenario. gap: the larger of the two distances in Monte Carlo standard "
        f"errors of a mean of {experiment.replicates:,} bootstrap means; within 3: the attributes whose groups are "
        f"as near. {source(experiment, 'lastfm1k')}"
    )
    keep = [*head, "group1", "group2", "mean1", "mean2", "gap", "mean1_other", "mean2_other", "gap_other", "within"]
    return Exhibit("table4_panels", "The panels of Table 4", caption, data[keep], shown, labels=1)


def _pair(first: float, second: float) -> str:
    return f"{decimals(first, 4)}, {decimals(second, 4)}"


def claims_table(verdicts: pd.DataFrame, experiment: Experiment) -> Exhibit:
    """Tabulate the paper's sentences, the rows they speak of, and what the checks say.

    Parameters
    ----------
    verdicts : DataFrame
        From `fairnb.audit.claims.verdicts`.
    experiment : Experiment
    """
    shown = pd.DataFrame(
        {
            "section": verdicts["section"],
            "sentence (part)": "“" + verdicts["quote"] + "”",
            "speaks of": verdicts["rows"].replace(TITLES, regex=True).replace({"none": "no row"}),
            "verdict": verdicts["verdict"],
            "computed": verdicts["why"],
        }
    )
    marks = pd.DataFrame("", index=shown.index, columns=shown.columns)
    colours = {claims.SUPPORTED: "level 1", claims.NOT_SUPPORTED: "level 2", claims.NOT_CHECKABLE: "quiet"}
    marks["verdict"] = verdicts["verdict"].map(colours)
    counts = ", ".join(f"{verdict} {count}" for verdict, count in verdicts["verdict"].value_counts().items())
    caption = (
        f"Sentences of FairEvalLLM's abstract and sections 5 and 6 that can be set against a number: {counts}. Each "
        "verdict is the result of a check in code (column check of the CSV, fairnb.audit.claims), at α = "
        f"{experiment.alpha:g}. {_from(experiment)}"
    )
    return Exhibit("claims", "Sentences and numbers", caption, verdicts, shown, marks, width=30)
