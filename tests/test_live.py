"""A real, small language model on this machine, from MovieLens 100K to Table 2, through the command line."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import llama_server
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.live, pytest.mark.shared]

EXPERIMENT = """\
name = "live"
title = "A model of 135 million parameters on eight users of MovieLens 100K"

[parameters]
dataset = "ml100k"
data_folder = "{folder}"
n_users = 8
stratify = "gender"
attributes = "gender"
model = "{model}"
base_url = "{base_url}"
max_tokens = 150
repeats = 1
timeout = 600.0
concurrency = 1
protocol = "paper"
replies = "this-run"
min_usable = 0.3
min_group = 2

[notebooks]
01_profiling = []
02_generation = ["01_profiling"]
03_nsd_ncsd = ["02_generation"]
04_intrinsic_fairness = ["02_generation"]
05_figures = ["02_generation"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if lacking := llama_server.missing():
        pytest.skip(lacking)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("llama") / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "llama_server.py"), str(port)], stdout=output, stderr=output
        )
    address = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(240):
            assert process.poll() is None, log.read_text()[-2000:]
            try:
                with urllib.request.urlopen(f"{address}/models", timeout=2):
                    break
            except OSError:
                time.sleep(0.5)
        yield address
    finally:
        process.kill()
        process.wait()


def test_eight_users_all_scenarios_neutral_and_gender_end_to_end(server, shared_folder, tmp_path):
    store = tmp_path / "replies.sqlite"
    file = tmp_path / "live.toml"
    folder = shared_folder / "data" / "ml-100k"
    file.write_text(EXPERIMENT.format(folder=folder.as_posix(), model=llama_server.NAME, base_url=server))
    command = [sys.executable, "-m", "fairnb.cli", "run", str(file), "-p", "store", str(store)]
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"TQDM_DISABLE": "1"}
    )
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stdout + done.stderr
    run = ROOT / re.search(r"Exhibits: (runs/live-\w+)/figures/", done.stdout)[1]
    figures = run / "figures"
    table = pd.read_csv(figures / "table2.csv")
    statuses = pd.read_csv(figures / "statuses.csv")
    calls = dict(pd.read_csv(figures / "calls.csv")[["measure", "value"]].itertuples(index=False))
    print(f"\nwall time {seconds:.0f} s\n{done.stdout}")
    for name in ("calls", "statuses", "hits_funnel", "matches"):
        print(pd.read_csv(figures / f"{name}.csv").to_string())
    print(table[["notion", "icl", "sampling", "benefit", "group1", "group2", "delta", "p", "n1", "n2"]].to_string())
    # Two ways to choose a profile may choose the same one; its prompt is then asked once.
    neutral = statuses.loc[statuses["demographics"] == "none", "replies"].item()
    assert neutral <= 8 * 9
    assert calls["conditions"] == 8 * 9 * 4
    assert calls["different texts"] == 3 * neutral == statuses["replies"].sum()
    assert calls["calls"] == 3 * neutral == calls["answers"]
    assert statuses["ok"].sum() > statuses["replies"].sum() / 2
    assert len(table) == 2 * 9 * 2
    # The same command asks nothing: the server may be gone.
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert "0 to ask" in again.stdout
    assert "5 unchanged" in again.stdout
    assert json.loads((run / "manifest.json").read_text())["settings"]["model"] == llama_server.NAME
