"""Checks of the machine and the checkout, each with its remedy."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import site
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from fairnb import paths
from fairnb.errors import FairnbError
from fairnb.released import SPLIT_FILE, TRAIN_FILE, read_benefit_file
from fairnb.settings import BENEFIT_FILES


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
    wanted = re.findall(r"^([A-Za-z0-9_.-]+)==([^ \\;]+)", _lock_text(), re.MULTILINE)
    locked = {name.lower().replace("_", "-"): version for name, version in wanted}
    needed = [
        re.split(r"[<>=!~; ]", text, maxsplit=1)[0]
        for text in metadata.requires("fairnb") or []
        if "extra ==" not in text
    ]
    missing = [name for name in needed if importlib.util.find_spec(_module(name)) is None]
    yield Finding("packages", not missing, _listed(missing, "missing") or f"{len(needed)} found", "run `make setup`")
    other = [
        f"{name} {metadata.version(name)} (locked {locked[name.lower().replace('_', '-')]})"
        for name in needed
        if name not in missing
        and metadata.version(name) != locked.get(name.lower().replace("_", "-"), metadata.version(name))
    ]
    remedy = "run `make setup` for the locked versions; others may change the last digits"
    yield Finding("versions", not other, _listed(other, "other than locked") or "as locked", remedy)


def _module(name: str) -> str:
    return name.replace("-", "_")


def _listed(names: list[str], what: str) -> str:
    return f"{what}: {', '.join(names)}" if names else ""


def _lock_text() -> str:
    file = paths.root() / "requirements.lock"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _kernel() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel  # noqa: PLC0415  (slow to import)

    manager = KernelSpecManager()
    names = ", ".join(sorted(manager.find_kernel_specs())) or "none"
    remedy = "`fairnb run` starts this interpreter whatever is installed; for JupyterLab use `make lab`"
    try:
        command = manager.get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return Finding("kernel", good=False, found=f"no kernel python3 (found: {names})", remedy="run `make setup`")
    same = command.startswith("python") or Path(command).resolve() == Path(sys.executable).resolve()
    found = f"python3 is {'this interpreter' if same else command} (found: {names})"
    return Finding("kernel", same, found, remedy)


def _data() -> Iterator[Finding]:
    for name in (*BENEFIT_FILES.values(), TRAIN_FILE):
        try:
            rows = len(read_benefit_file(paths.released() / name))
            yield Finding(f"data/released/{name}", good=True, found=f"{rows:,} rows", remedy="")
        except FairnbError as error:
            yield Finding(f"data/released/{name}", good=False, found=str(error), remedy="git checkout data/released")
    rest = [paths.released() / SPLIT_FILE, *(paths.published() / f"fairevalllm_table{n}.csv" for n in (2, 3, 4))]
    missing = [paths.shown(file) for file in rest if not file.is_file()]
    yield Finding("other tables", not missing, _listed(missing, "missing") or "found", "git checkout data")
    broken = []
    for file in sorted(paths.notebooks().glob("*.ipynb")):
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            broken.append(file.name)
    yield Finding("notebooks", not broken, _listed(broken, "unreadable") or "readable", "git checkout notebooks")


def _write_access(folder: Path) -> Finding:
    there = folder if folder.exists() else folder.parent
    writable = os.access(there, os.W_OK)
    word = "writable" if writable else "not writable"
    return Finding(f"{paths.shown(folder)}/", writable, word, "make the folder writable for your user")
