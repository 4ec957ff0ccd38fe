"""A run on a model, from the command line to the frames, in a project of its own: a real server on a real port."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from counting_server import running

ROOT = Path(__file__).resolve().parents[1]
KEY = "sk-test-1234567890abcdef"
EXPERIMENT = """\
name = "mine"
title = "Mine"

[parameters]
dataset = "sample-films"
n_users = 4
attributes = "gender"
model = "{model}"
base_url = "{base_url}"
repeats = 2
retry_seconds = 1
price_input = 1.0

[notebooks]
01_profiling = []
02_generation = ["01_profiling"]
"""
CALLS = 4 * 9 * (3 + 1)

pytestmark = pytest.mark.notebook


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of this project without figures and runs, with the two notebooks from data to replies."""
    root = tmp_path_factory.mktemp("model") / "a project"
    for folder in ("notebooks", "figures"):
        (root / folder).mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(ROOT / "data", root / "data", ignore=shutil.ignore_patterns("external"))
    for name in ("01_profiling", "02_generation"):
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", root / "notebooks")
    return root


def fairnb(root, *arguments, **variables):
    """Run the command line from another folder."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    environment |= {"FAIRNB_ROOT": str(root), "TQDM_DISABLE": "1", **variables}
    return subprocess.run(
        [sys.executable, "-m", "fairnb.cli", *arguments],
        cwd=root.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def experiment(root, base_url, model="counting"):
    file = root.parent / "mine.toml"
    file.write_text(EXPERIMENT.format(base_url=base_url, model=model))
    return str(file)


def test_from_server_to_frames_and_again_without_it(project):
    with running(0.0) as (base_url, counts):
        file = experiment(project, base_url.removesuffix("/v1"))
        dry = fairnb(project, "run", file, "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert f"to ask: {CALLS}" in dry.stdout
        assert "Cost, estimated: 0.0" in dry.stdout
        assert counts() == {}
        done = fairnb(project, "run", file, OPENAI_API_KEY=KEY)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{CALLS:,} answers" in done.stdout
        assert sum(counts().values()) == CALLS
    (run,) = (folder for folder in (project / "runs").iterdir() if (folder / "manifest.json").is_file())
    frames = {name: pd.read_parquet(run / "frames" / f"{name}.parquet") for name in ("replies", "rankings", "benefits")}
    assert len(frames["replies"]) == CALLS
    assert frames["rankings"]["title"].unique().tolist() == ["Heat (1995)", "Alien (1979)", "Jaws (1975)"]
    assert len(frames["benefits"]) == 4 * 36 + 4 * 9
    assert frames["benefits"]["status"].eq("ok").all()
    # The server is gone: everything comes from the store.
    again = fairnb(project, "run", file)
    assert again.returncode == 0, again.stderr
    assert "0 to ask" in again.stdout
    assert "2 unchanged" in again.stdout
    # The key was needed once and is nowhere.
    for found in [*project.rglob("*"), Path(file)]:
        assert not (found.is_file() and KEY.encode() in found.read_bytes()), found
    assert KEY not in done.stdout + done.stderr
    # Shared as a file, and replayed from it in another project without key and server.
    exported = fairnb(project, "replies", "export", "replies.jsonl")
    assert f"{CALLS} replies" in exported.stdout
    counted = fairnb(project, "replies")
    assert f"answered {CALLS}" in counted.stdout
    (project / "runs" / "replies.sqlite").unlink()
    replay = fairnb(project, "run", file, "-p", "store", "replies.jsonl")
    assert replay.returncode == 0, replay.stderr
    assert "2 unchanged" in replay.stdout
    imported = fairnb(project, "replies", "import", "replies.jsonl")
    assert f"{CALLS} added" in imported.stdout
    assert json.loads((run / "manifest.json").read_text())["complete"]


def test_a_server_that_is_not_there_is_one_line_and_the_command_that_goes_on(project):
    file = experiment(project, "http://127.0.0.1:9", model="nobody")
    done = fairnb(project, "run", file)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("fairnb: asking stopped: ")
    assert "connection" in line
    assert f"`fairnb run {file}` again with --retry-failed" in line
    assert "missing: " in done.stdout
    assert f"`fairnb run {file} --retry-failed` asks for these only" in done.stdout


def test_a_model_that_the_server_does_not_list_is_named_before_anything_is_asked(project):
    with running(0.0) as (base_url, counts):
        done = fairnb(project, "run", experiment(project, base_url, model="other"))
        assert counts() == {}
    assert done.returncode == 2
    assert "model = 'other': not listed by the server" in done.stderr
    assert "expected one of counting" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
