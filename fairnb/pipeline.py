"""Runs the notebooks of an experiment with papermill: strictly, in parallel, and only what changed."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fairnb import __version__, paths
from fairnb.errors import DataError, FairnbError, NotebookError, ParameterError
from fairnb.llm.request import put_right
from fairnb.notebook import VOLATILE_TAG, WRITTEN_TYPE, Parameter, Value, read_cell
from fairnb.settings import OPERATIONAL, SETTINGS_VARIABLE, Experiment, Plan, load_plan

if TYPE_CHECKING:
    from fairnb.collecting import Asking

GENERATION = "02_generation"
_READERS = ("03_nsd_ncsd", "04_intrinsic_fairness", "05_figures")
WORKERS = 2
_LARGE = 200_000_000
_PACKAGES = (
    "numpy",
    "pandas",
    "pyarrow",
    "rapidfuzz",
    "openai",
    "scipy",
    "statsmodels",
    "matplotlib",
    "seaborn",
    "papermill",
    "ipykernel",
)


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
        For a name that no notebook of the plan declares, a value that does not fit, or a parameter that
        nobody set and whose defaults differ between the notebooks.
    """
    cells = {name: read_cell(paths.notebooks() / f"{name}.ipynb") for name in plan.notebooks}
    known = {name: parameter for cell in cells.values() for name, parameter in cell.items()}
    values = _common_defaults(plan, cells, {**plan.parameters, **given})
    for name, value in {**plan.parameters, **given}.items():
        if name in plan.parameters and name not in given and name not in known and name in Experiment.model_fields:
            # A setting of a notebook that this plan leaves out.
            values[name] = plan.parameters[name]
            continue
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ParameterError(
                f"{name}: no notebook of experiment {plan.name} has this parameter{hint} "
                f"(known: {', '.join(sorted(known))})"
            )
        values[name] = known[name].value(value)
    for name, value in values.items():
        if (name.endswith("_folder") and value) or (name == "replies" and value not in ("released", "this-run")):
            values[name] = _rooted(str(value), name)
        elif name == "store" and value:
            values[name] = _stored(str(value))
        elif name == "base_url" and value:
            values[name] = put_right(str(value))
        elif name == "template" and str(value).endswith(".toml"):
            values[name] = _rooted(str(value), name, what="file")
    experiment = Experiment(name=plan.name, **values)
    _require_own_replies(plan, experiment)
    injected = {
        notebook: {
            name: value
            for name, value in values.items()
            # How a model is asked is the runner's affair: the notebook reads the replies, however they came.
            if name in cell and cell[name].default != value and name not in OPERATIONAL
        }
        for notebook, cell in cells.items()
    }
    return experiment, injected


def _common_defaults(
    plan: Plan, cells: Mapping[str, Mapping[str, Parameter]], given: Mapping[str, object]
) -> dict[str, Value]:
    """Return the defaults that the plan's notebooks share for what nobody set."""
    found: dict[str, Value] = {}
    for notebook, cell in cells.items():
        for name, parameter in cell.items():
            if name not in given and found.setdefault(name, parameter.default) != parameter.default:
                raise ParameterError(
                    f"{name}: notebooks of experiment {plan.name} have different defaults ({found[name]!r}, and "
                    f"{parameter.default!r} in {notebook}); set it in the experiment's file or with -p"
                )
    return found


def _require_own_replies(plan: Plan, experiment: Experiment) -> None:
    """See that a run which collects replies evaluates these and no others."""
    collects, reads = GENERATION in plan.notebooks, [name for name in _READERS if name in plan.notebooks]
    if collects and reads and experiment.replies != "this-run":
        raise ParameterError(
            f"replies = {experiment.replies!r}: experiment {plan.name} collects replies in {GENERATION}, and "
            f"{reads[0]} would evaluate others; expected replies = 'this-run'"
        )
    if experiment.replies == "this-run" and not collects:
        raise ParameterError(
            f"replies = 'this-run': experiment {plan.name} does not run {GENERATION}; expected released, or the folder "
            f"of a run, such as runs/sample"
        )


def _stored(text: str) -> str:
    """Turn the path of a store as the user means it into one relative to the root; it need not be there yet."""
    path = Path(text).expanduser()
    if path.suffix not in (".sqlite", ".jsonl"):
        raise ParameterError(f"store = {text!r}: expected a file that ends in .sqlite, or an exported one in .jsonl")
    there = [place for place in (path.resolve(), (paths.root() / path).resolve()) if place.is_file()]
    if path.suffix == ".jsonl" and not there:
        raise ParameterError(f"store = {text!r}: no such file; expected one that `fairnb replies export` wrote")
    return paths.shown((there or [path.resolve()])[0])


def _rooted(text: str, name: str, what: str = "folder") -> str:
    """Turn a path as the user means it, from where the user is, into one relative to the root."""
    with suppress(OSError, ValueError, RuntimeError):  # too long, with a null byte, the home of nobody
        path = Path(text).expanduser()
        for candidate in (path.resolve(), (paths.root() / path).resolve()):
            if candidate.is_dir() if what == "folder" else candidate.is_file():
                return paths.shown(candidate)
    expected = "one with the files to read" if what == "folder" else "a template in TOML"
    raise ParameterError(f"{name} = {text!r}: no such {what}; expected {expected}")


def run(
    plan: Plan,
    given: Mapping[str, object] | None = None,
    *,
    force: bool = False,
    retry: bool = False,
    command: str = "",
    progress: bool = False,
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
    retry : bool
        Ask also for replies that failed before.
    command : str
        The command that runs this again, for messages.
    progress : bool
        Draw a bar while a model is asked.
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
    from fairnb.collecting import Asking  # noqa: PLC0415  (loads pandas)

    asking = Asking(retry, command or f"fairnb run {plan.name}", progress)
    return _run(plan, given or {}, force=force, announce=announce, in_place=False, asking=asking)


def dry_run(plan: Plan, given: Mapping[str, object] | None = None, *, retry: bool = False) -> list[str]:
    """Tell what a run would ask, without asking: lines of text.

    Raises
    ------
    ParameterError
        As `run`, or if the plan asks no model.
    """
    from fairnb import generation  # noqa: PLC0415

    experiment, _ = resolve(plan, given or {})
    _require_data()
    grid = _require_inputs(plan, experiment)
    if grid is None:
        raise ParameterError(f"experiment {plan.name}: asks no model; expected one with {GENERATION}")
    if generation.is_simulated(experiment):
        calls = len(generation.requests_for(experiment, grid))
        return [f"{calls:,} questions to the simulated recommender in this process: no server, no cost"]
    with generation.open_store(experiment) as store:
        asked = generation.plan_for(experiment, grid, store)
    estimate = asked.estimate(experiment, retry=retry)
    failed = len(asked.to_ask(retry=True)) - len(asked.to_ask())
    lines = [
        f"Model {experiment.model} at {experiment.base_url}",
        f"Conditions: {asked.conditions:,}; different texts: {asked.texts:,}; "
        f"calls with repeats of neutral prompts: {len(asked.requests):,}",
        f"Stored already: {len(asked.requests) - len(asked.to_ask()):,}; to ask: {estimate['calls']:,}"
        + (f"; failed before: {failed:,} (--retry-failed asks again)" if failed and not retry else ""),
        f"Tokens, estimated: {estimate['prompt_tokens']:,} to read, {estimate['completion_tokens']:,} to write",
    ]
    if experiment.price_input or experiment.price_output:
        lines.append(f"Cost, estimated: {estimate['cost']:.2f} at the prices given")
    return lines


def reproduce(plan_name: str, *, force: bool = False, announce: Callable[[str], None] = print) -> Outcome:
    """Rebuild a default experiment in place: its exhibits under ``figures/`` and the notebooks' outputs.

    Nothing under version control changes unless all notebooks came to their end. The arguments and
    errors are those of `run`.
    """
    plan = load_plan(plan_name)
    experiment, _ = resolve(plan, {})
    if not experiment.is_default:
        raise ParameterError(f"experiment {plan.name} is not a default experiment; use `fairnb run {plan.name}`")
    for target in (paths.figures() / experiment.name, paths.notebooks()):
        _require_writable(target, "or use `fairnb run`, which writes to runs/")
    return _run(plan, {}, force=force, announce=announce, in_place=True)


def _run(
    plan: Plan,
    given: Mapping[str, object],
    *,
    force: bool,
    announce: Callable[[str], None],
    in_place: bool,
    asking: Asking | None = None,
) -> Outcome:
    start = time.monotonic()
    experiment, injected = resolve(plan, given)
    _require_data()
    grid = _require_inputs(plan, experiment)
    folder = paths.runs() / experiment.slug
    with _locked(folder):
        manifest = _read_manifest(folder)
        kept = manifest.get("frames") == _frames(folder)
        lacking: list[str] = []
        from fairnb import collecting, frames  # noqa: PLC0415  (loads pandas; unknown names are told before)

        frames.write_settings(experiment, folder / "frames")
        if grid is not None:
            lacking = collecting.collect(experiment, grid, asking or collecting.Asking(), folder / "frames", announce)
        inputs = _inputs(plan, experiment)
        prints = _fingerprints(plan, experiment, injected, inputs)
        fresh = (
            set()
            if force or not kept
            else {name for name in plan.notebooks if _is_fresh(folder, manifest, name, prints[name])}
        )
        # A notebook whose needs run again runs again, for it reads what they write; and so on.
        while hungry := {name for name in fresh if not fresh.issuperset(plan.notebooks[name])}:
            fresh -= hungry
        unchanged = [name for name in plan.notebooks if name in fresh]
        stale = [name for name in plan.notebooks if name not in fresh]
        for name in unchanged:
            announce(f"  {name:<24} unchanged")
        entries = {name: manifest["notebooks"][name] for name in unchanged}
        _save_manifest(folder, plan, experiment, inputs, entries)
        # What the stale ones wrote last time must not be taken for what they write now.
        _drop_strangers(folder / "figures", entries)
        for name, entry in _execute_all(plan, stale, injected, folder, experiment.api_key_variable, announce):
            _require_own_exhibits(name, entry, entries)
            entries[name] = {"fingerprint": prints[name], "parameters": injected[name], **entry}
            _save_manifest(folder, plan, experiment, inputs, entries)
        _save_manifest(folder, plan, experiment, inputs, entries)
        for line in lacking:
            announce(f"  {line}")
        if in_place:
            if _fingerprints(plan, experiment, injected, _inputs(plan, experiment)) != prints:
                raise FairnbError(
                    "a notebook, the package or the data changed during the run; nothing was replaced; "
                    "run the same command again"
                )
            _publish(folder, experiment, entries)
    return Outcome(experiment, folder, tuple(stale), tuple(unchanged), time.monotonic() - start)


def _frames(folder: Path) -> dict[str, str]:
    """Hash the frames that a run has left, for what a notebook reads is part of what it depends on."""
    files = sorted((folder / "frames").glob("*.parquet"))
    return {file.name: _sha256(file) for file in files}


def _publish(folder: Path, experiment: Experiment, entries: Mapping[str, Any]) -> None:
    for name, entry in entries.items():
        for exhibit in entry["exhibits"]:
            content = (folder / "figures" / exhibit).read_bytes()
            paths.write_bytes(paths.figures() / experiment.name / exhibit, content)
        if entry["parameters"]:
            continue  # the stored outputs of a notebook are those of its own defaults
        notebook = f"{name}.ipynb"
        paths.write_bytes(paths.notebooks() / notebook, (folder / "notebooks" / notebook).read_bytes())


def changed_data() -> list[str]:
    """Name bundled data that are not as in ``data/SHA256SUMS``: a table that lost a row would pass for a result."""
    sums = paths.data() / "SHA256SUMS"
    if not sums.is_file():
        return []
    changed = []
    for digest, name in re.findall(r"^([0-9a-f]{64}) [ *](.+)$", sums.read_text(encoding="utf-8"), re.MULTILINE):
        file = paths.data() / name
        if not file.is_file():
            changed.append(f"data/{name}: no such file")
        elif _sha256(file) != digest:
            changed.append(f"data/{name}: not as committed")
    return changed


def _require_own_exhibits(name: str, entry: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """See that no notebook writes over what another one of the same run wrote."""
    for other, known in others.items():
        both = sorted(set(entry["exhibits"]) & set(known["exhibits"]))
        if both and other != name:
            raise NotebookError(
                f"notebooks/{name}.ipynb: writes {both[0]}, which {other} writes too; give one of them another name"
            )


def _require_data() -> None:
    for change in changed_data():
        raise DataError(f"{change} (see data/SHA256SUMS); `git checkout data` restores it")


def _require_inputs(plan: Plan, experiment: Experiment) -> Any:
    """Look at what the notebooks start from, so that a fault in it is told before a kernel starts.

    Returns the grid of prompts of a plan that asks a model; None of another.
    """
    declared = _declared(plan)
    if "released_folder" in declared and experiment.replies == "released":
        from fairnb.released import read_benefits  # noqa: PLC0415  (loads pandas; unknown names are told before)

        folder = paths.root() / experiment.released_folder if experiment.released_folder else None
        read_benefits(experiment.dataset, experiment.protocol, folder)
    if "data_folder" in declared:
        from fairnb import profiles, prompts  # noqa: PLC0415

        raw = profiles.open_data(experiment)
        template = prompts.load_template(experiment.template, raw.card.kind)
        if "n_users" in declared:
            selection = profiles.select_for(experiment, raw)
            prompts.check_for(experiment, selection, template)
            profiles.example_user(selection, experiment)
            if GENERATION in plan.notebooks:
                from fairnb import generation  # noqa: PLC0415

                generation.check(experiment)
                return generation.grid_for(experiment, selection)
    if experiment.replies not in ("released", "this-run"):
        from fairnb import frames  # noqa: PLC0415

        frames.run_settings(experiment)
    return None


def _execute_all(
    plan: Plan,
    names: list[str],
    injected: Mapping[str, Mapping[str, Value]],
    folder: Path,
    key_variable: str,
    announce: Callable[[str], None],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Execute notebooks, `WORKERS` at a time, each in a process of its own; a failure stops only its dependants."""
    done = set(plan.notebooks) - set(names)
    waiting = list(names)
    running: dict[str, tuple[subprocess.Popen[str], float]] = {}
    failures: list[str] = []
    try:
        while True:
            ready = [name for name in waiting if done.issuperset(plan.notebooks[name])]
            for name in ready[: WORKERS - len(running)]:
                waiting.remove(name)
                running[name] = _start(name, injected[name], folder, key_variable), time.monotonic()
            if not running:
                break
            ended = [name for name, (worker, _) in running.items() if worker.poll() is not None]
            if not ended:
                time.sleep(0.05)
            for name in ended:
                worker, start = running.pop(name)
                _stop([worker])
                try:
                    entry = _result(name, worker.returncode, folder)
                except NotebookError as error:
                    announce(f"  {name:<24} FAILED")
                    failures.append(str(error))
                    continue
                done.add(name)
                seconds = time.monotonic() - start
                announce(f"  {name:<24} ran in {seconds:.1f} s")
                yield name, {"seconds": round(seconds, 2), **entry}
    finally:
        _stop([worker for worker, _ in running.values()])
    for name in waiting:
        announce(f"  {name:<24} not run: it needs {', '.join(plan.notebooks[name])}")
    if failures:
        raise NotebookError(_together(failures))


def _together(failures: Sequence[str]) -> str:
    """Tell the same failure of several notebooks once."""
    found: dict[str, list[str]] = {}
    for failure in failures:
        where, colon, why = failure.partition(": ")
        found.setdefault(re.sub(r" \(the run so far: [^()]*\)$", "", why) if colon else failure, []).append(where)
    if len(found) == len(failures):
        return "; ".join(failures)
    return "; ".join(f"{', '.join(where)}: {why}" for why, where in found.items())


def _start(name: str, parameters: Mapping[str, Value], folder: Path, key_variable: str) -> subprocess.Popen[str]:
    """Start the process that executes a notebook; see `fairnb.kernel`."""
    target, scratch, log = _files(name, folder)
    for file in (target, log):
        file.parent.mkdir(parents=True, exist_ok=True)
    scratch.unlink(missing_ok=True)
    environment = {
        paths.ROOT_VARIABLE: str(paths.root()),
        paths.FIGURES_VARIABLE: str(folder / "figures"),
        SETTINGS_VARIABLE: str(folder / "frames" / "settings.json"),
        "TQDM_DISABLE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUTF8": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # Two notebooks share two processors; more threads would only get in each other's way.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    # Kernels write to a log and not to the terminal: newer ones warn about every headless run.
    with log.open("w", encoding="utf-8") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "fairnb.kernel"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=paths.notebooks(),
            env={name: value for name, value in os.environ.items() if name != key_variable} | environment,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the runner, which stops its workers once and in order
        )
    task = {"source": f"{paths.notebooks() / name}.ipynb", "target": str(scratch), "parameters": dict(parameters)}
    assert worker.stdin is not None  # noqa: S101  (for the type checker)
    with suppress(BrokenPipeError):  # it is gone already; its log says why
        worker.stdin.write(json.dumps(task) + "\n")
        worker.stdin.flush()
    return worker


def _stop(workers: Iterable[subprocess.Popen[str]]) -> None:
    """Close the workers' input, upon which they stop their kernels and end."""
    for worker in workers:
        assert worker.stdin is not None  # noqa: S101  (for the type checker)
        with suppress(BrokenPipeError):
            worker.stdin.close()
    for worker in workers:
        try:
            worker.wait(timeout=20)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _files(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """Name the executed notebook, the one that is not finished, and the log."""
    notebooks = folder / "notebooks"
    return notebooks / f"{name}.ipynb", notebooks / f"{name}.unfinished.ipynb", folder / "logs" / f"{name}.log"


def _result(name: str, status: int, folder: Path) -> dict[str, Any]:
    """Take over what a notebook wrote, or say why it stopped."""
    import nbformat  # noqa: PLC0415  (loads slowly)

    target, scratch, log = _files(name, folder)
    if status != 0:
        raise NotebookError(_why(name, status, scratch, log))
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
        "notebook": _sha256(target),
        "exhibits": {exhibit: _sha256(folder / "figures" / exhibit) for exhibit in exhibits},
    }


def _why(name: str, status: int, scratch: Path, log: Path) -> str:
    """Say where a notebook stopped and why, from what it left behind."""
    try:
        cells = json.loads(scratch.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError):
        cells = []
    code = [
        cell
        for cell in cells
        if cell["cell_type"] == "code" and "injected-parameters" not in cell["metadata"].get("tags", [])
    ]
    started = [cell for cell in code if cell["metadata"].get("papermill", {}).get("start_time")]
    where = f"notebooks/{name}.ipynb" + (f", code cell {len(started)}" if started else "")
    so_far = f"(the run so far: {paths.shown(scratch)})"
    for cell in started:
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                return f"{where}: {output['ename']}: {_first_line(output['evalue'])} {so_far}"
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line for line in reversed(said) if re.match(r"[\w.]+(Error|Exception)\b", line)), "see the log")
    if status < 0 or last.endswith("Kernel died"):
        return (
            f"{where}: its kernel was killed, perhaps for want of memory; free some, and run the same command again: "
            f"finished notebooks are kept {so_far}"
        )
    return f"{where}: could not be executed: {last} (log: {paths.shown(log)})"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


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


def _fingerprints(
    plan: Plan,
    experiment: Experiment,
    injected: Mapping[str, Mapping[str, Value]],
    inputs: Mapping[str, str],
) -> dict[str, str]:
    shared = {
        "inputs": dict(inputs),
        "settings": experiment.matter,
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


def _declared(plan: Plan) -> set[str]:
    """Return the parameters that the plan's notebooks declare, which tell what they read."""
    return {name for notebook in plan.notebooks for name in read_cell(paths.notebooks() / f"{notebook}.ipynb")}


def _inputs(plan: Plan, experiment: Experiment) -> dict[str, str]:
    declared = _declared(plan)
    files: list[Path] = []
    if "released_folder" in declared and experiment.replies == "released":
        released = paths.root() / experiment.released_folder if experiment.released_folder else paths.released()
        files += sorted([*paths.published().glob("*.csv"), *paths.released().glob("*.csv"), *released.glob("*.csv")])
    if "template" in declared and experiment.template.endswith(".toml"):
        files.append(paths.root() / experiment.template)
    if experiment.replies not in ("released", "this-run"):
        files += sorted((paths.root() / experiment.replies / "frames").glob("*.*"))
    replies = paths.runs() / experiment.slug / "frames" / "replies.parquet"
    if GENERATION in plan.notebooks and experiment.base_url and replies.is_file():
        files.append(replies)
    inputs = {paths.shown(file): _sha256(file) for file in files}
    for file in _data_files(experiment) if "data_folder" in declared else ():
        # Last.fm 1K has 2.4 GB: its size and time say quickly enough whether it is still the same.
        stat = file.stat()
        large = stat.st_size > _LARGE
        inputs[paths.shown(file)] = f"{stat.st_size} bytes, {stat.st_mtime_ns}" if large else _sha256(file)
    return inputs


def _data_files(experiment: Experiment) -> list[Path]:
    from fairnb.datasets.cards import folder_of  # noqa: PLC0415

    named = paths.root() / experiment.data_folder if experiment.data_folder else None
    folder = folder_of(experiment.dataset, named)
    return sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else []


def _is_fresh(folder: Path, manifest: Mapping[str, Any], name: str, fingerprint: str) -> bool:
    try:
        entry = manifest["notebooks"][name]
        files = {folder / "notebooks" / f"{name}.ipynb": entry["notebook"]}
        files |= {folder / "figures" / exhibit: digest for exhibit, digest in entry["exhibits"].items()}
        return bool(entry["fingerprint"] == fingerprint) and all(
            file.is_file() and _sha256(file) == digest for file, digest in files.items()
        )
    except (OSError, KeyError, TypeError, AttributeError):
        # Not there, or not as this version writes it: it runs, which is always right.
        return False


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
        "frames": _frames(folder),
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
            if file.is_file() and file.name not in known:
                file.unlink()


def _require_writable(folder: Path, remedy: str) -> None:
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FairnbError(
            f"{paths.shown(folder)}: cannot be written to ({error.strerror}); make it a writable folder, {remedy}"
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep two runs out of one folder; the system takes the lock back from a process that is gone."""
    _require_writable(folder, f"or set {paths.ROOT_VARIABLE} to a checkout that is one")
    with (folder / ".lock").open("a+", encoding="utf-8") as lock:
        if not _try_lock(lock):
            lock.seek(0)
            raise FairnbError(
                f"{paths.shown(folder)}: process {lock.read() or '?'} is running this experiment; wait for its end"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _try_lock(lock: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
