"""Checks of the machine and the checkout, each with its remedy."""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import NamedTuple

from fairnb import paths
from fairnb.errors import FairnbError
from fairnb.notebook import read_cell
from fairnb.pipeline import changed_data
from fairnb.settings import BENEFIT_FILES, load_plan, plans

# Packages with compiled parts: if two environments mix, it is these that do not load.
_COMPILED = ("numpy", "pandas", "scipy", "matplotlib", "zmq")
_AGAIN = "remove .venv and run `make setup`"


class Finding(NamedTuple):
    """One check: what was looked at, whether it is well, what was found, and what to do if not."""

    check: str
    good: bool
    found: str
    remedy: str


def examine() -> Iterator[Finding]:
    """Check interpreter, environment, packages, kernel, data and write access, one after the other."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("interpreter", sys.version_info >= (3, 11), f"Python {version}", "install Python 3.11 or newer")
    yield _environment()
    yield from _packages()
    yield _kernel()
    yield from _data()
    yield _notebooks()
    for folder in (paths.runs(), paths.figures(), paths.notebooks()):
        yield _write_access(folder)


def _environment() -> Finding:
    own = Path(sys.prefix).resolve()
    user = Path(site.getusersitepackages()).resolve()
    strangers = [entry for entry in sys.path if entry and Path(entry).resolve() == user]
    inside = sys.prefix != sys.base_prefix or (own / "conda-meta").is_dir()
    if strangers:
        remedy = "set PYTHONNOUSERSITE=1, so that packages of other environments do not mix in"
        return Finding("environment", good=False, found="user site-packages are on the path", remedy=remedy)
    return Finding("environment", inside, paths.shown(own), "run `make setup` and use .venv/bin/fairnb")


def _packages() -> Iterator[Finding]:
    try:
        required = metadata.requires("fairnb") or []
    except metadata.PackageNotFoundError:
        yield Finding("packages", good=False, found="fairnb is not installed", remedy="run `make setup`")
        return
    needed = [re.split(r"[<>=!~; ]", text, maxsplit=1)[0] for text in required if "extra ==" not in text]
    found = {name: _version(name) for name in needed}
    missing = [name for name, version in found.items() if version is None]
    yield Finding("packages", not missing, _listed(missing, "missing") or f"{len(needed)} found", _AGAIN)
    broken = [f"{name} ({error})" for name in _COMPILED if (error := _import_error(name))]
    remedy = f"{_AGAIN}: packages of different environments are mixed, or half installed"
    yield Finding("compiled packages", not broken, _listed(broken, "cannot be loaded") or "can be loaded", remedy)
    locked = _locked_versions()
    other = [
        f"{name} {version} (locked {' or '.join(sorted(locked[_key(name)]))})"
        for name, version in found.items()
        if version is not None and version not in locked.get(_key(name), {version})
    ]
    remedy = f"{_AGAIN} for the locked versions; others may change the last digits"
    yield Finding("versions", not other, _listed(other, "other than locked") or "as locked", remedy)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _import_error(name: str) -> str:
    try:
        import_module(name)
    except Exception as error:  # noqa: BLE001  (a mixed environment fails in many ways)
        return " ".join(str(error).split())[:120] or type(error).__name__
    return ""


def _key(name: str) -> str:
    return name.lower().replace("_", "-")


def _locked_versions() -> dict[str, set[str]]:
    """Read the lock; a package may have one version for each of several Pythons."""
    file = paths.root() / "requirements.lock"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    locked: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9_.-]+)==([^ \\;]+)", text, re.MULTILINE):
        locked.setdefault(_key(name), set()).add(version)
    return locked


def _listed(names: list[str], what: str) -> str:
    return f"{what}: {', '.join(names)}" if names else ""


def _kernel() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager  # noqa: PLC0415  (slow to import)

    manager = KernelSpecManager()
    names = ", ".join(sorted(manager.find_kernel_specs())) or "none"
    try:
        command = manager.get_kernel_spec("python3").argv[0]
    except (LookupError, ValueError, TypeError, OSError):
        found = f"no usable kernel python3 (found: {names})"
        return Finding("kernel", good=False, found=found, remedy="run `make setup`, then `make lab`")
    # Not the resolved files: the interpreters of two environments are often links to the same one.
    same = command in {"python", "python3"} or Path(command).parent.resolve() == Path(sys.executable).parent.resolve()
    found = f"python3 is {'this interpreter' if same else command} (found: {names})"
    remedy = "`fairnb run` starts this interpreter all the same; for JupyterLab use `make lab`, or remove that kernel"
    return Finding("kernel", same, found, remedy)


def _data() -> Iterator[Finding]:
    try:
        from fairnb.released import SPLIT_FILE, TRAIN_FILE, read_benefit_file  # noqa: PLC0415  (needs the packages)
    except ImportError as error:
        yield Finding("data", good=False, found=f"cannot be read ({error})", remedy="run `make setup`")
        return
    for name in (*BENEFIT_FILES.values(), TRAIN_FILE):
        try:
            rows = len(read_benefit_file(paths.released() / name))
            yield Finding(f"data/released/{name}", good=True, found=f"{rows:,} rows", remedy="")
        except FairnbError as error:
            yield Finding(f"data/released/{name}", good=False, found=str(error), remedy="git checkout data/released")
    rest = [paths.released() / SPLIT_FILE, *(paths.published() / f"fairevalllm_table{n}.csv" for n in (2, 3, 4))]
    missing = [paths.shown(file) for file in rest if not file.is_file()]
    yield Finding("other tables", not missing, _listed(missing, "missing") or "found", "git checkout data")
    changed = changed_data()
    found = "; ".join(changed) or "as in data/SHA256SUMS"
    yield Finding("checksums", not changed, found, "git checkout data")


def _notebooks() -> Finding:
    broken = []
    for name in sorted({name for plan in plans() for name in load_plan(plan).notebooks}):
        try:
            read_cell(paths.notebooks() / f"{name}.ipynb")
        except FairnbError as error:
            broken.append(str(error))
    return Finding("notebooks", not broken, "; ".join(broken) or "readable", "git checkout notebooks")


def _write_access(folder: Path) -> Finding:
    there = folder if folder.exists() else folder.parent
    writable = there.is_dir() and os.access(there, os.W_OK)
    found = "writable" if writable else "not writable" if there.is_dir() else "a file is in its place"
    return Finding(f"{paths.shown(folder)}/", writable, found, "make it a folder that your user may write to")
