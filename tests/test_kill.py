"""A run that is killed without warning, again and again: what is stored is kept, and is never asked for twice."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

from counting_server import running

from fairnb.llm.store import Store

PROMPTS = 500
KILLS = int(os.environ.get("FAIRNB_KILLS", "4"))
CHILD = """
import sys
from pathlib import Path
from fairnb.llm.client import Limits, ask
from fairnb.llm.request import Request
from fairnb.llm.store import Store
import openai
requests = [Request(f"{n:016x}", f"prompt {n}", "", sys.argv[1], "counting") for n in range(int(sys.argv[3]))]
with Store(Path(sys.argv[2])) as store:
    known = store.statuses([request.key for request in requests])
    todo = [request for request in requests if request.key not in known]
    print("asking", len(todo), flush=True)
    ask(todo, store, limits=Limits(concurrency=8), progress=False)
"""


def stored(file):
    """Return the prompts whose replies are on the disk, as another process sees them."""
    if not file.is_file():
        return set()
    with sqlite3.connect(file) as db:
        try:
            return {int(row[0], 16) for row in db.execute("SELECT prompt_id FROM replies")}
        except sqlite3.OperationalError:  # killed before the table was there
            return set()


def test_a_run_that_is_killed_loses_nothing_and_asks_nothing_twice(tmp_path):
    file = tmp_path / "replies.sqlite"
    rng = random.Random(7)
    safe: dict[int, int] = {}
    kept = []
    with running(0.02) as (base_url, counts):

        def child():
            return subprocess.Popen(
                [sys.executable, "-c", CHILD, base_url, str(file), str(PROMPTS)], stdout=subprocess.PIPE, text=True
            )

        for _ in range(KILLS):
            process = child()
            process.stdout.readline()
            time.sleep(rng.uniform(0.1, 0.9))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            now = counts()
            for number in stored(file):
                safe.setdefault(number, now[f"prompt {number}"])
            kept.append(len(safe))
        process = child()
        left = int(process.stdout.readline().split()[1])
        assert process.wait() == 0
        process.stdout.close()
        asked = counts()
    print(f"\nstored after each kill: {kept}; then {left} asked; {sum(asked.values())} requests in all")
    assert kept[-1] > 0, "killed too early each time to show anything"
    assert left == PROMPTS - kept[-1]
    assert stored(file) == set(range(PROMPTS))
    assert all(asked[f"prompt {number}"] == times for number, times in safe.items())
    # What was under way when the process died, and only that, was asked for again.
    assert sum(asked.values()) <= PROMPTS + 8 * KILLS + 8 * KILLS
    with Store(file) as store:
        assert all(reply.status == "answered" and reply.text for reply in store.read())
