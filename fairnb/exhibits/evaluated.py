"""Which replies the exhibits are about: reading their benefits, and saying in captions whose they are."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fairnb import fairness, frames, paths, released, statistics
from fairnb.datasets.cards import CARDS
from fairnb.datasets.released import TITLES
from fairnb.datasets.released import K as RELEASED_K
from fairnb.errors import DataError
from fairnb.parsing import STATUSES
from fairnb.settings import BENEFIT_FILES, SIMULATED, Experiment, Protocol

DATASET_LABELS = TITLES
_PLANTED = ("sim_bias", "sim_gap", "sim_noise", "sim_echo", "sim_invented", "sim_refusals", "sim_format")


def source(experiment: Experiment, dataset: str | None = None) -> str:
    """Say in a caption what the numbers come from: data, users, model, K and protocol."""
    if experiment.replies != "released":
        return run_source(frames.run_settings(experiment), users_of(experiment), experiment.protocol)
    name = dataset_label(dataset or experiment.dataset)
    other = f" Tables from {experiment.released_folder}." if experiment.released_folder else ""
    return f"{name}, the 80 released users, replies of gpt-3.5-turbo, K = 3. Protocol: {experiment.protocol}.{other}"


def users_of(experiment: Experiment) -> int:
    """Count the users of the evaluated run."""
    return int(frames.read(experiment, "benefits", frames.evaluated(experiment))["user"].nunique())


def run_source(run: Experiment, users: int, protocol: str) -> str:
    """Say in a caption what the numbers of a run come from."""
    alike = f" or at least {run.fuzzy:g} % alike" if run.fuzzy else ""
    return f"{run_words(run, users)} Protocol: {protocol}; titles exact{alike}."


def run_words(run: Experiment, users: int) -> str:
    """Say what a run is of: data, users, model and K."""
    name = dataset_label(run.dataset)
    return f"{name[0].upper()}{name[1:]} ({users:,} users), replies of {_model(run)}, K = {run.k}."


def _model(run: Experiment) -> str:
    if run.model != SIMULATED or run.base_url:
        warmth = "the server's own temperature" if run.temperature < 0 else f"temperature {run.temperature:g}"
        return f"{run.model or 'a model without a name'} at {warmth}"
    fields = type(run).model_fields
    changed = [(name, getattr(run, name)) for name in _PLANTED if getattr(run, name) != fields[name].default]
    dials = ", ".join(
        f"{name.removeprefix('sim_')} {value if isinstance(value, str) else f'{value:g}'}" for name, value in changed
    )
    return f"the simulated recommender ({dials or 'all dials at 0'})"


def dataset_of(experiment: Experiment) -> str:
    """Return the name of the data set that the evaluated replies are about."""
    return frames.run_settings(experiment).dataset


def dataset_label(name: str) -> str:
    """Name a data set for readers."""
    return DATASET_LABELS.get(name) or CARDS[name].title


def k_of(experiment: Experiment) -> int:
    """Return the K of the evaluated lists."""
    return RELEASED_K if experiment.replies == "released" else frames.run_settings(experiment).k


def load(experiment: Experiment, dataset: str | None = None) -> pd.DataFrame:
    """Read the benefits that an experiment evaluates, the answer that counts of each prompt.

    Parameters
    ----------
    experiment : Experiment
        Of a run's replies the benefits are computed anew if its protocol was another.
    dataset : str, optional
        Of the released replies: another data set under the same protocol.

    Returns
    -------
    DataFrame
        One row per user and condition; see `fairnb.fairness`.

    Raises
    ------
    DataError
        If fewer than ``min_usable`` of the replies hold a list, or what is needed was not written yet.
    """
    benefits = _scored(experiment, dataset)
    if experiment.replies != "released":
        benefits = benefits[benefits["repeat"] == 0].reset_index(drop=True)
    _require_usable(benefits, experiment)
    return benefits


def load_repeats(experiment: Experiment) -> pd.DataFrame:
    """Read all answers to the neutral prompts: what asking the same text again changes.

    Returns
    -------
    DataFrame
        The columns of `load` and ``repeat``: 0 for the first asking, 1 and more for the others. The two
        neutral replies of the released files, filed under counterfactual = no and yes, are 0 and 1.
    """
    benefits = _scored(experiment)
    neutral = benefits["demographics"] == "none"
    if experiment.replies == "released":
        return benefits[neutral].assign(repeat=benefits["counterfactual"].eq("yes").astype(int)).reset_index(drop=True)
    return answers(benefits[neutral]).reset_index(drop=True)


def _scored(experiment: Experiment, dataset: str | None = None) -> pd.DataFrame:
    if experiment.replies == "released":
        return released.read_benefits(dataset or experiment.dataset, experiment.protocol, benefits_folder(experiment))
    if frames.run_settings(experiment).protocol == experiment.protocol:
        return frames.read(experiment, "benefits", frames.evaluated(experiment))
    return rescored_as(experiment, experiment.rules)


def answers_at_all(statuses: pd.Series) -> pd.Series:
    """Tell which replies came, whatever they hold: their status is a parser's, or the server filtered them."""
    return statuses.isin([*STATUSES, "filtered"])


def rescored_as(experiment: Experiment, protocol: Protocol) -> pd.DataFrame:
    """Score the evaluated run by another protocol."""
    from fairnb.scoring import rescored  # noqa: PLC0415  (what the released replies do not need)

    return rescored(experiment, protocol)


def answers(benefits: pd.DataFrame) -> pd.DataFrame:
    """Keep each answer of a run once: a neutral one stands under counterfactual = no and yes."""
    if "repeat" not in benefits.columns:
        return benefits
    ordered = benefits.sort_values("counterfactual", kind="stable")
    twice = ordered["demographics"].eq("none") & ordered.duplicated(
        ["user", "sampling", "icl", "demographics", "repeat"]
    )
    return benefits[~twice.reindex(benefits.index)]


def _require_usable(benefits: pd.DataFrame, experiment: Experiment) -> None:
    found = answers(benefits)
    usable = found["status"] == "ok"
    share = statistics.mean(usable) if len(usable) else 0.0
    if share >= experiment.min_usable - 1e-9:
        return
    parts = []
    for attribute in fairness.single_attributes(experiment, benefits):
        groups = attribute.groups(found)
        shares = [f"{group} {100 * usable[groups == group].mean():.1f} %" for group in attribute.order(groups)]
        parts.append(f"users by {attribute.name}: {', '.join(shares) or 'no group known'}")
    stated = found["stated"].fillna("").replace("", "nothing") if "stated" in found.columns else pd.Series(dtype=str)
    if len(stated):
        said = usable.groupby(stated).mean().sort_values()
        parts.append(f"prompts that state {', '.join(f'{v} {100 * x:.1f} %' for v, x in said.head(6).items())}")
    counts = ", ".join(f"{status} {count:,}" for status, count in found["status"].value_counts().items())
    if experiment.replies == "released":
        where, remedy = paths.shown(benefits_folder(experiment)), "take the tables that come with fairnb"
    else:
        where = paths.shown(frames.evaluated(experiment))
        failed = int((~answers_at_all(found["status"])).sum())
        remedy = "look at what came back (statuses.csv, notebook 02)"
        if failed:
            remedy = f"ask again for the {failed:,} that never came (the command of the run, with --retry-failed)"
    raise DataError(
        f"{where}, benefits: {100 * share:.1f} % of {len(found):,} replies hold a list ({counts}; "
        f"{'; '.join(parts)}); expected at least {100 * experiment.min_usable:g} %; {remedy}, or lower min_usable"
    )


def left_out(rows: pd.DataFrame) -> str:
    """Say in a caption how many users are in no comparison because their group is not known; empty if none."""
    if rows.empty or "without_group" not in rows.columns:
        return ""
    counts = rows.groupby("attribute", sort=False)["without_group"].max()
    return "".join(
        f" {count:,} {'user' if count == 1 else 'users'} without {name} {'is' if count == 1 else 'are'} in no "
        f"comparison by {name}."
        for name, count in counts.items()
        if count
    )


def left_out_of(benefits: pd.DataFrame, experiment: Experiment) -> str:
    """Say the same from the benefits."""
    rows = [
        (one.name, fairness.without_group(benefits, one)) for one in fairness.single_attributes(experiment, benefits)
    ]
    return left_out(pd.DataFrame(rows, columns=["attribute", "without_group"]))


def benefits_folder(experiment: Experiment) -> Path:
    """Return the folder of benefit tables: the project's, or the one that the settings name."""
    if not experiment.released_folder:
        return paths.released()
    return paths.root() / experiment.released_folder


def datasets(experiment: Experiment) -> list[str]:
    """List the data sets whose replies can be evaluated by the experiment's protocol; of a run, its own."""
    if experiment.replies != "released":
        return [dataset_of(experiment)]
    return [dataset for dataset, protocol in BENEFIT_FILES if protocol == experiment.protocol]
