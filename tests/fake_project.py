"""A small project with the layout of this one, for tests of the runner: tiny notebooks, one exhibit each."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
import psutil

from fairnb.released import COLUMNS
from fairnb.settings import load_plan

NAMES = ("00_start_here", "03_nsd_ncsd", "04_intrinsic_fairness", "05_figures")
# The notebook of the other default experiment, which reads no benefit table.
SAMPLE = "01_profiling"
SAMPLE_PARAMETERS = """\
dataset: str = "sample-songs"  # data set
k: int = 3  # items to ask for
seed: int = 20240502  # root of all random numbers
"""
# The one notebook of the audit.
AUDIT = "07_audit"
AUDIT_PARAMETERS = """\
alpha: float = 0.05  # level
seed: int = 20240502  # root of all random numbers
"""
GENERATION = "02_generation"
# The cell of the notebook that collects replies, with the settings that the plan of `sample` names.
GENERATION_PARAMETERS = (
    "".join(
        f"{name}: {type(value).__name__} = {value!r}  # {name}\n"
        for name, value in load_plan("sample").parameters.items()
        if name != "replies"
    )
    + "seed: int = 20240502  # root of all random numbers\n"
)
PARAMETERS = """\
dataset: str = "lastfm1k"  # data set
protocol: str = "released"  # protocol
replies: str = "released"  # whose replies
released_folder: str = ""  # folder of tables
alpha: float = 0.05  # level
permutations: int = 10000  # how many
seed: int = 20240502  # root of all random numbers
"""
SETUP = """\
import os, time
from pathlib import Path
import pandas as pd
import fairnb
from fairnb import exhibits
root = Path(os.environ["FAIRNB_ROOT"])
marks = root / "marks"
marks.mkdir(exist_ok=True)
def mark(name):
    (marks / name).write_text(str(os.getpid()))
def await_mark(name):
    deadline = time.monotonic() + 60
    while not (marks / name).exists():
        assert time.monotonic() < deadline, f"no mark {name}"
        time.sleep(0.02)
experiment = fairnb.Experiment()
"""


def writing(name: str, value: str = "seed") -> str:
    """Source of a last cell that writes an exhibit with one number."""
    frame = f'pd.DataFrame({{"value": [{value}]}})'
    return f'exhibits.write(experiment, [exhibits.Exhibit("{name}", "{name}", "One number.", {frame})])'


def notebook(stem: str, *code: str, parameters: str = PARAMETERS, tags: Mapping[int, Sequence[str]] | None = None):
    """A notebook of a title, the parameters cell, the set-up and code cells; `tags` by the number of a code cell."""
    cells = [nbformat.v4.new_markdown_cell(f"# {stem}")]
    cells += [nbformat.v4.new_code_cell(source) for source in (parameters, SETUP, *code)]
    cells[1].metadata["tags"] = ["parameters"]
    for number, names in (tags or {}).items():
        cells[number].metadata["tags"] = list(names)
    for number, cell in enumerate(cells):
        cell["id"] = f"{stem[:2]}-{number:02}"
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def put(root: Path, stem: str, *code: str, **options) -> None:
    """Write a notebook into a project; without code, one that writes an exhibit of its own name."""
    nbformat.write(notebook(stem, *(code or (writing(stem),)), **options), root / "notebooks" / f"{stem}.ipynb")


def make_project(root: Path) -> Path:
    """Write a project whose notebooks have the names of the default experiment."""
    for folder in ("notebooks", "data/released", "data/published", "figures"):
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\nname = "fairnb"\n')
    (root / "data" / "released" / "lastfm1k_top3.csv").write_text(benefits())
    for name in NAMES:
        put(root, name)
    put(root, SAMPLE, parameters=SAMPLE_PARAMETERS)
    put(root, AUDIT, parameters=AUDIT_PARAMETERS)
    put(root, GENERATION, parameters=GENERATION_PARAMETERS)
    return root


def benefits(gender: str = "Male") -> str:
    """A benefit table of one reply."""
    return f"{','.join(COLUMNS)}\n1,{gender},Young,random,0-shot,no,none,3,3,0,0,0,ok\n"


def edit(root: Path, stem: str, old: str, new: str) -> None:
    """Change the text of a notebook's file."""
    file = root / "notebooks" / f"{stem}.ipynb"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def plan_file(root: Path, notebooks: str, name: str = "mine", rest: str = "") -> Path:
    """Write an experiment file."""
    file = root / f"{name}.toml"
    file.write_text(f'name = "{name}"\ntitle = "Mine"\n{rest}\n[notebooks]\n{notebooks}\n', "utf-8")
    return file


def cli_process(root: Path, *arguments: str, cwd: Path = Path("/"), new_session: bool = False, **variables: str):
    """Start the command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "fairnb.cli", *arguments],
        env=os.environ | {"FAIRNB_ROOT": str(root), "PYTHONUNBUFFERED": "1"} | variables,
        cwd=cwd,
        start_new_session=new_session,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def snapshot(*folders: Path) -> dict[str, bytes]:
    """All files below folders, by path."""
    return {str(file): file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text("utf-8"))


def alive(root: Path) -> list[str]:
    """Names of the marks whose kernels are still there."""
    pids = {file.name: int(file.read_text()) for file in (root / "marks").iterdir() if file.read_text().isdigit()}
    assert pids
    return [name for name, pid in pids.items() if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
