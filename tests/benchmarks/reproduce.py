"""`fairnb reproduce` against papermill on notebooks that only import the same libraries, in one run.

Both execute the same number of notebooks, two at a time. The baseline uses papermill's own command line.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import nbformat

from fairnb.settings import DEFAULT_EXPERIMENTS, load_plan

IMPORTS = "import matplotlib.figure, numpy, pandas, scipy.stats, seaborn, statsmodels.api"
ROUNDS = 3


def timed(action: Callable[[], object]) -> float:
    """Return how long an action takes, in seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def command(arguments: Sequence[str]) -> None:
    """Run a command quietly; it must succeed."""
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def main() -> None:
    """Print the medians of alternating runs and their ratios."""
    count = sum(len(load_plan(name).notebooks) for name in DEFAULT_EXPERIMENTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "imports.ipynb"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(IMPORTS)])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, source)

        def baseline() -> None:
            calls = [
                ["-m", "papermill", str(source), str(folder / f"{number}.ipynb"), "--no-progress-bar"]
                for number in range(count)
            ]
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(command, calls))

        ours, theirs, again = [], [], []
        for _ in range(ROUNDS):
            theirs.append(timed(baseline))
            ours.append(timed(lambda: command(["-m", "fairnb.cli", "reproduce", "--force"])))
            again.append(timed(lambda: command(["-m", "fairnb.cli", "reproduce"])))
    ratio = median(mine / base for mine, base in zip(ours, theirs, strict=True))
    print(f"papermill, {count} notebooks of imports: {median(theirs):.1f} s; fairnb reproduce: {median(ours):.1f} s")
    print(f"ratio {ratio:.2f} (aim: 1.5 at most); with nothing changed {median(again):.2f} s (aim: 3 at most)")


if __name__ == "__main__":
    main()
