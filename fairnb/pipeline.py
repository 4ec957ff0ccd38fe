"""Runs the notebooks of an experiment with papermill: strictly, in parallel, and only what changed."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fairnb import __version__, paths
from fairnb.errors import FairnbError, NotebookError, ParameterError
from fairnb.notebook import VOLATILE_TAG, WRITTEN_TYPE, Value, read_cell
from fairnb.settings import Experiment, Plan, load_plan

WORKERS = 2
_PACKAGES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "seaborn", "papermill", "ipykernel")


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes
    ----------
    experiment : Experiment
        The settings, all of them.
    folder : Path
        ``runs/SLUG``: executed notebooks, exhibits and manifest.
    ran, unchanged : tuple of str
        Notebooks that were executed, and those that needed not be.
    seconds : float
    """

    experiment: Experiment
    folder: Path
    ran: tuple[str, ...]
    unchanged: tuple[str, ...]
    seconds: float


def resolve(plan: Plan, given: Mapping[str, object]) -> tuple[Experiment, dict[str, dict[str, Value]]]:
    """Check parameters against the cells of the plan's notebooks and against `Experiment`.

    Parameters
    ----------
    plan : Plan
    given : mapping of str to object
        What the user set, as text or as values; it overrides the plan.

    Returns
    -------
    tuple of Experiment and dict
        The settings, and per notebook the parameters to inject: only those it declares and whose value
        is not its default.

    Raises
    ------
    ParameterError
        For a name that no notebook of the plan declares, or a value that does not fit.
    """
    cells = {name: read_cell(paths.notebooks() / f"{name}.ipynb") for name in plan.notebooks}
    known = {name: parameter for cell in cells.values() for name, parameter in cell.items()}
    values: dict[str, Value] = {}
    for name, value in {**plan.parameters, **given}.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ParameterError(
                f"{name}: no notebook of experiment {plan.name} has this parameter{hint} "
                f"(known: {', '.join(sorted(known))})"
            )
        values[name] = known[name].value(value)
    for name, value in values.items():
        if name.endswith("_folder") and value:
            values[name] = _rooted(str(value), name)
    experiment = Experiment(name=plan.name, **values)
    injected = {
        notebook: {name: value for name, value in values.items() if name in cell and cell[name].default != value}
        for notebook, cell in cells.items()
    }
    return experiment, injected


def _rooted(text: str, name: str) -> str:
    """Turn a folder as the user means it, from where the user is, into one relative to the root."""
    folder = Path(text).expanduser()
    for candidate in (folder.resolve(), (paths.root() / folder).resolve()):
        if candidate.is_dir():
            return paths.shown(candidate)
    raise ParameterError(f"{name} = {text!r}: no such folder; expected one with the files to read")


def run(
    plan: Plan,
    given: Mapping[str, object] | None = None,
    *,
    force: bool = False,
    announce: Callable[[str], None] = print,
) -> Outcome:
    """Execute the notebooks of an experiment into ``runs/``; nothing under version control is touched.

    Parameters
    ----------
    plan : Plan
    given : mapping, optional
        Parameters that override the plan's.
    force : bool
        Run also what is unchanged.
    announce : callable
        Gets one line per notebook.

    Returns
    -------
    Outcome

    Raises
    ------
    ParameterError
        Before anything runs, if a parameter has an unknown name or a value that does not fit.
    NotebookError
        If a notebook stops; names the notebook and the cell. Other notebooks' results are kept.
    FairnbError
        If the folder cannot be written to, or another run is using it.
    """
    start = time.monotonic()
    experiment, injected = resolve(plan, given or {})
    folder = paths.runs() / experiment.slug
    with _locked(folder):
        manifest = _read_manifest(folder)
        inputs = _inputs(experiment)
        prints = _fingerprints(plan, experiment, injected, inputs)
        fresh = set() if force else {name for name in plan.notebooks if _is_fresh(folder, manifest, name, prints[name])}
        # A notebook whose needs run again runs again: it reads what they write.
        stale = [name for name in plan.notebooks if name not in fresh]
        for name, needs in plan.notebooks.items():
            if name in fresh and not fresh.issuperset(needs):
                stale.append(name)
        unchanged = [name for name in plan.notebooks if name not in stale]
        for name in unchanged:
            announce(f"  {name:<24} unchanged")
        entries = {name: manifest["notebooks"][name] for name in unchanged}
        _save_manifest(folder, plan, experiment, inputs, entries)
        for name, entry in _execute_all(plan, stale, injected, folder, announce):
            entries[name] = {"fingerprint": prints[name], "parameters": injected[name], **entry}
            _save_manifest(folder, plan, experiment, inputs, entries)
        _drop_strangers(folder / "figures", entries)
    return Outcome(experiment, folder, tuple(stale), tuple(unchanged), time.monotonic() - start)


def reproduce(plan_name: str, *, force: bool = False, announce: Callable[[str], None] = print) -> Outcome:
    """Rebuild a default experiment in place: its exhibits under ``figures/`` and the notebooks' outputs.

    Nothing under version control changes unless all notebooks came to their end. The arguments and
    errors are those of `run`.
    """
    plan = load_plan(plan_name)
    targets = [paths.figures() / plan.name, paths.notebooks()]
    for target in targets:
        _require_writable(target)
    outcome = run(plan, force=force, announce=announce)
    if not outcome.experiment.is_default:
        raise ParameterError(f"experiment {plan.name} is not a default experiment; use `fairnb run {plan.name}`")
    manifest = _read_manifest(outcome.folder)
    for name in plan.notebooks:
        for exhibit in manifest["notebooks"][name]["exhibits"]:
            paths.write_bytes(targets[0] / exhibit, (outcome.folder / "figures" / exhibit).read_bytes())
        paths.write_bytes(targets[1] / f"{name}.ipynb", (outcome.folder / "notebooks" / f"{name}.ipynb").read_bytes())
    return outcome


def _execute_all(
    plan: Plan,
    names: list[str],
    injected: Mapping[str, Mapping[str, Value]],
    folder: Path,
    announce: Callable[[str], None],
) -> Iterator[tuple[str, dict[str, Any]]]:
    if not names:
        return
    done = set(plan.notebooks) - set(names)
    waiting = list(names)
    running: dict[Future[dict[str, Any]], str] = {}
    failures: list[NotebookError] = []
    # Processes, because a kernel's environment belongs to its process; spawned, because that is
    # the one way that works alike on every system.
    with ProcessPoolExecutor(min(WORKERS, len(names)), mp_context=get_context("spawn")) as pool:
        try:
            while waiting or running:
                for name in [name for name in waiting if done.issuperset(plan.notebooks[name])]:
                    waiting.remove(name)
                    running[pool.submit(_execute, name, dict(injected[name]), folder, paths.root())] = name
                if not running:
                    break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    name = running.pop(future)
                    try:
                        entry = future.result()
                    except NotebookError as error:
                        announce(f"  {name:<24} FAILED")
                        failures.append(error)
                        continue
                    except BrokenProcessPool:
                        raise NotebookError(
                            f"{name}: its process was killed, perhaps for want of memory; "
                            f"free some memory and run the same command again: finished notebooks are kept"
                        ) from None
                    done.add(name)
                    announce(f"  {name:<24} ran in {entry['seconds']:.1f} s")
                    yield name, entry
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failures:
        raise failures[0]


def _execute(name: str, parameters: dict[str, Value], folder: Path, root: Path) -> dict[str, Any]:
    """Execute one notebook; runs in a process of its own."""
    # Kernels write to a log and not to the terminal: newer ones warn about every headless run.
    os.environ |= {
        paths.ROOT_VARIABLE: str(root),
        paths.FIGURES_VARIABLE: str(folder / "figures"),
        "TQDM_DISABLE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # Two notebooks share two processors; more threads would only get in each other's way.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    import nbformat  # noqa: PLC0415  (the parent process never needs them, and they load slowly)
    import papermill  # noqa: PLC0415
    from nbclient.exceptions import DeadKernelError  # noqa: PLC0415

    start = time.monotonic()
    source = root / "notebooks" / f"{name}.ipynb"
    target = folder / "notebooks" / f"{name}.ipynb"
    scratch = target.with_name(f"{name}.unfinished.ipynb")
    scratch.parent.mkdir(parents=True, exist_ok=True)
    log = folder / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _stderr_to(log):
            papermill.execute_notebook(
                str(source),
                str(scratch),
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                kernel_manager_class="fairnb.kernel.ThisInterpreter",
            )
    except papermill.PapermillExecutionError as error:
        raise NotebookError(_told(name, error.exec_count, error.ename, error.evalue, scratch)) from None
    except (DeadKernelError, RuntimeError) as error:
        cell = _running_cell(scratch)
        raise NotebookError(
            f"notebooks/{name}.ipynb, cell {cell}: the kernel died ({' '.join(str(error).split())}), perhaps for "
            f"want of memory; {paths.shown(scratch)} holds what was done, {paths.shown(log)} what was said"
        ) from None
    notebook = nbformat.read(scratch, as_version=4)
    exhibits = [
        exhibit
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for exhibit in output.get("data", {}).get(WRITTEN_TYPE, [])
    ]
    missing = [exhibit for exhibit in exhibits if not (folder / "figures" / exhibit).is_file()]
    if not exhibits or missing:
        what = f"did not write {missing[0]}" if missing else "wrote no exhibit"
        raise NotebookError(f"notebooks/{name}.ipynb: came to its end but {what}; its last cell should write them")
    clean(notebook)
    paths.write_text(target, nbformat.writes(notebook, version=4).rstrip("\n") + "\n")
    scratch.unlink()
    return {
        "seconds": round(time.monotonic() - start, 2),
        "notebook": _sha256(target),
        "exhibits": {exhibit: _sha256(folder / "figures" / exhibit) for exhibit in exhibits},
    }


def clean(notebook: Any) -> None:
    """Take out of an executed notebook what differs from run to run or from machine to machine."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if VOLATILE_TAG in tags:
            cell.outputs = []


def _told(name: str, cell: int, kind: str, what: str, scratch: Path) -> str:
    first = next((line.strip() for line in what.splitlines() if line.strip()), "")
    return f"notebooks/{name}.ipynb, cell {cell}: {kind}: {first} (the run so far: {paths.shown(scratch)})"


def _running_cell(scratch: Path) -> str:
    try:
        cells = json.loads(scratch.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return "?"
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, start=1):
        if cell.get("metadata", {}).get("papermill", {}).get("status") == "running":
            return str(number)
    return "?"


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _fingerprints(
    plan: Plan,
    experiment: Experiment,
    injected: Mapping[str, Mapping[str, Value]],
    inputs: Mapping[str, str],
) -> dict[str, str]:
    shared = {
        "inputs": dict(inputs),
        "settings": experiment.model_dump(),
        "versions": versions(),
        "package": _package_hash(),
    }
    prints: dict[str, str] = {}
    for name in plan.notebooks:
        cells = json.loads((paths.notebooks() / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        source = [
            (cell["cell_type"], "".join(cell["source"]), cell.get("metadata", {}).get("tags", []), cell.get("id"))
            for cell in cells
        ]
        text = json.dumps([shared, source, injected[name]], sort_keys=True)
        prints[name] = hashlib.sha256(text.encode()).hexdigest()
    return prints


def versions() -> dict[str, str]:
    """List the versions that a result depends on."""
    found = {"fairnb": __version__, "python": platform.python_version()}
    return found | {package: metadata.version(package) for package in _PACKAGES}


def _package_hash() -> str:
    digest = hashlib.sha256()
    base = Path(__file__).resolve().parent
    for file in sorted([*base.rglob("*.py"), *base.rglob("*.toml")]):
        digest.update(file.relative_to(base).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _inputs(experiment: Experiment) -> dict[str, str]:
    released = paths.root() / experiment.released_folder if experiment.released_folder else paths.released()
    files = sorted([*paths.published().glob("*.csv"), *paths.released().glob("*.csv"), *released.glob("*.csv")])
    return {paths.shown(file): _sha256(file) for file in files}


def _is_fresh(folder: Path, manifest: Mapping[str, Any], name: str, fingerprint: str) -> bool:
    entry = manifest["notebooks"].get(name, {})
    if entry.get("fingerprint") != fingerprint:
        return False
    files = {folder / "notebooks" / f"{name}.ipynb": entry["notebook"]}
    files |= {folder / "figures" / exhibit: digest for exhibit, digest in entry["exhibits"].items()}
    return all(file.is_file() and _sha256(file) == digest for file, digest in files.items())


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        if isinstance(manifest["notebooks"], dict):
            return manifest
    except (OSError, ValueError, KeyError, TypeError):
        # Half-written or absent: everything runs, which is always right.
        pass
    return {"notebooks": {}}


def _save_manifest(
    folder: Path, plan: Plan, experiment: Experiment, inputs: Mapping[str, str], entries: Mapping[str, Any]
) -> None:
    manifest = {
        "experiment": plan.name,
        "title": plan.title,
        "settings": experiment.model_dump(),
        "protocol": experiment.rules.model_dump(),
        "commit": _commit(),
        "versions": versions(),
        "inputs": dict(inputs),
        "notebooks": {name: entries[name] for name in plan.notebooks if name in entries},
        "complete": all(name in entries for name in plan.notebooks),
    }
    paths.write_text(folder / "manifest.json", json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown: no git"
    answer = subprocess.run(  # noqa: S603  (a fixed command on the project's own folder)
        [git, "-C", str(paths.root()), "describe", "--always", "--dirty", "--abbrev=40"],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or "unknown: not a git checkout"


def _drop_strangers(folder: Path, entries: Mapping[str, Any]) -> None:
    """Remove exhibits that no notebook of this run writes any more, so that none is taken for new."""
    known = {exhibit for entry in entries.values() for exhibit in entry["exhibits"]}
    if folder.is_dir():
        for file in folder.iterdir():
            if file.name not in known:
                file.unlink()


def _require_writable(folder: Path) -> None:
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FairnbError(
            f"{paths.shown(folder)}: cannot be written to ({error.strerror}); make it writable, or use `fairnb run`"
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep two runs out of one folder; a lock whose process is gone counts for nothing."""
    _require_writable(folder)
    lock = folder / ".lock"
    while True:
        try:
            handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            owner = _owner(lock)
            if owner is not None:
                raise FairnbError(
                    f"{paths.shown(folder)}: process {owner} is running this experiment; wait for it, "
                    f"or remove {paths.shown(lock)} if there is no such process"
                ) from None
            lock.unlink(missing_ok=True)
            continue
        with os.fdopen(handle, "w") as file:
            file.write(str(os.getpid()))
        break
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _owner(lock: Path) -> int | None:
    try:
        owner = int(lock.read_text())
        os.kill(owner, 0)
    except (OSError, ValueError):
        return None
    return owner


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
