"""The frames between the steps: written whole, and checked when they are read."""

from __future__ import annotations

import pandas as pd
import pytest

from fairnb import frames, paths
from fairnb.errors import DataError, ParameterError
from fairnb.settings import Experiment


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.FIGURES_VARIABLE, str(tmp_path / "figures"))
    return Experiment()


def prompts(**changes):
    row = dict.fromkeys(frames.SCHEMAS["prompts"], "x") | {"user_id": 7, "value": "nan", "text": "Zoë\n{k} 椎名"}
    return pd.DataFrame([row | changes])


def test_what_is_written_is_read(experiment, tmp_path):
    frames.write(experiment, prompts=prompts())
    assert (tmp_path / "frames" / "prompts.parquet").is_file()
    pd.testing.assert_frame_equal(frames.read(experiment, "prompts"), prompts())


def test_missing_genders_stay_missing(experiment):
    users = pd.DataFrame({"user_id": [1, 2], "gender": ["NA", None], "age": [20.0, None], "age_group": ["Young", None]})
    users = users.astype({"gender": "str", "age_group": "str"})
    frames.write(experiment, users=users)
    back = frames.read(experiment, "users")
    assert back["gender"].tolist()[0] == "NA"
    assert back.isna().to_numpy().tolist() == [[False] * 4, [False, True, True, True]]


def test_faults_are_named(experiment, tmp_path):
    with pytest.raises(DataError, match=r"prompts\.parquet: not written yet; run the notebook before this one"):
        frames.read(experiment, "prompts")
    with pytest.raises(ParameterError, match="frame 'answers': unknown; expected one of interactions, users"):
        frames.read(experiment, "answers")
    with pytest.raises(DataError, match="prompts: no column text; expected prompt_id, user_id"):
        frames.write(experiment, prompts=prompts().drop(columns="text"))
    with pytest.raises(DataError, match="prompts, row 1: text is missing; expected a value"):
        frames.write(experiment, prompts=prompts(text=None))
    assert not (tmp_path / "frames").exists()
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "prompts.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"prompts\.parquet: not a parquet file"):
        frames.read(experiment, "prompts")
    prompts().drop(columns="value").to_parquet(tmp_path / "frames" / "prompts.parquet")
    with pytest.raises(DataError, match=r"prompts\.parquet: no column value"):
        frames.read(experiment, "prompts")


def test_without_a_runner_frames_lie_below_runs(monkeypatch):
    monkeypatch.delenv(paths.FIGURES_VARIABLE, raising=False)
    assert frames.folder(Experiment()) == paths.runs() / "released" / "frames"
