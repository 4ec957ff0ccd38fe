"""The frames between the steps: parquet files of fixed names, whose columns are checked when they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

from fairnb import paths
from fairnb.errors import DataError, ParameterError
from fairnb.settings import Experiment

# Columns that a step may rely on; a frame may have more.
SCHEMAS: dict[str, tuple[str, ...]] = {
    "interactions": ("user_id", "item_id", "timestamp", "part"),
    "users": ("user_id", "gender", "age", "age_group"),
    "items": ("item_id", "title"),
    "prompts": (
        *("prompt_id", "user_id", "counterfactual", "sampling", "demographics", "icl"),
        *("ranker", "attribute", "value", "template", "text"),
    ),
    "replies": (
        *("prompt_id", "repeat", "model", "status", "text", "finish_reason"),
        *("prompt_tokens", "completion_tokens", "error"),
    ),
    "lists": ("reply", "user_id", "prompt_id", "repeat", "status", "n_items", "n_matched", "n_history", "n_invented"),
    "rankings": ("reply", "prompt_id", "repeat", "user_id", "place", "rank", "title", "item_id", "match", "in_history"),
    "benefits": (
        *("user", "sampling", "icl", "counterfactual", "demographics", "stated", "repeat"),
        *("n_items", "n_matched", "hits", "hit_rate", "average_rank", "status"),
    ),
}
_NEVER_MISSING = {
    "interactions": ("user_id", "item_id", "timestamp", "part"),
    "users": ("user_id",),
    "items": ("item_id", "title"),
    "prompts": ("prompt_id", "user_id", "text"),
    "replies": ("prompt_id", "repeat", "status"),
    "lists": ("reply", "user_id", "prompt_id", "repeat", "status"),
    "rankings": ("reply", "prompt_id", "repeat", "user_id", "place", "title", "match"),
    "benefits": ("user", "sampling", "icl", "counterfactual", "demographics", "repeat", "status"),
}
SETTINGS = "settings.json"


def folder(experiment: Experiment) -> Path:
    """Return the folder of an experiment's frames, below ``runs/`` (ignored by git)."""
    named = os.environ.get(paths.FIGURES_VARIABLE)
    return Path(named).parent / "frames" if named else paths.runs() / experiment.slug / "frames"


def run_folder(experiment: Experiment) -> str:
    """Return the folder of an experiment's run as the setting ``replies`` takes it, such as ``runs/sample``."""
    return paths.shown(folder(experiment).parent)


def evaluated(experiment: Experiment) -> Path:
    """Return the folder of frames whose replies an experiment evaluates.

    Raises
    ------
    ParameterError
        If ``replies`` names no run.
    """
    if experiment.replies == "this-run":
        return folder(experiment)
    return paths.root() / experiment.replies / "frames"


def run_settings(experiment: Experiment) -> Experiment:
    """Return the settings of the run whose replies an experiment evaluates: its own, unless it names another.

    Raises
    ------
    DataError
        If that run has left none.
    """
    if experiment.replies in ("released", "this-run"):
        return experiment
    file = evaluated(experiment) / SETTINGS
    try:
        return Experiment(**json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        raise DataError(
            f"{paths.shown(file)}: not written yet; run notebook 02 first, and set replies to the folder it names, "
            f"such as replies = 'runs/sample'"
        ) from None
    except (OSError, ValueError, TypeError, ParameterError) as error:
        raise DataError(f"{paths.shown(file)}: not the settings of a run ({error}); run notebook 02 again") from None


def write_settings(experiment: Experiment, target: Path) -> None:
    """Write the settings of a run beside its frames."""
    paths.write_text(target / SETTINGS, json.dumps(experiment.model_dump(), indent=2, ensure_ascii=False) + "\n")


def write(experiment: Experiment, *, to: Path | None = None, **frames: pd.DataFrame) -> None:
    """Write frames for the steps that follow.

    Parameters
    ----------
    experiment : Experiment
    to : Path, optional
        The folder; the experiment's own if not given.
    **frames : DataFrame
        By the names of `SCHEMAS`.

    Raises
    ------
    ParameterError
        If a name is unknown.
    DataError
        If a column is missing, or a value where there must be one.
    """
    target = to or folder(experiment)
    for name, frame in frames.items():
        _check(name, frame, name)
    write_settings(experiment, target)
    for name, frame in frames.items():
        paths.write_bytes(target / f"{name}.parquet", frame.to_parquet(index=False))


def read(experiment: Experiment, name: str, base: Path | None = None) -> pd.DataFrame:
    """Read a frame of an earlier step, of this experiment or in another folder of frames.

    Raises
    ------
    ParameterError
        If the name is unknown.
    DataError
        If the frame was not written yet, or is not what it should be.
    """
    file = (base or folder(experiment)) / f"{name}.parquet"
    if name in SCHEMAS and not file.is_file():
        raise DataError(
            f"{paths.shown(file)}: not written yet; run the notebook before this one "
            f"(by hand, name a run's folder in replies)"
        )
    try:
        frame = pd.read_parquet(file) if name in SCHEMAS else pd.DataFrame()
    except (OSError, ValueError) as error:
        raise DataError(f"{paths.shown(file)}: not a parquet file ({type(error).__name__}); run again") from None
    _check(name, frame, paths.shown(file))
    return frame


def _check(name: str, frame: pd.DataFrame, where: str) -> None:
    if name not in SCHEMAS:
        raise ParameterError(f"frame {name!r}: unknown; expected one of {', '.join(SCHEMAS)}")
    for column in SCHEMAS[name]:
        if column not in frame.columns:
            raise DataError(f"{where}: no column {column}; expected {', '.join(SCHEMAS[name])}")
    for column in _NEVER_MISSING[name]:
        lacking = frame[column].isna()
        if lacking.any():
            raise DataError(
                f"{where}, row {int(lacking.to_numpy().argmax()) + 1}: {column} is missing; expected a value"
            )
