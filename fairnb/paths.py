"""Folders of a fairnb project, found from its root and never from the folder a command is run in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fairnb.errors import FairnbError

ROOT_VARIABLE = "FAIRNB_ROOT"
FIGURES_VARIABLE = "FAIRNB_FIGURES"
_MARKS = ("notebooks", "data", "figures", "pyproject.toml")


def _is_root(folder: Path) -> bool:
    return all((folder / mark).exists() for mark in _MARKS) and 'name = "fairnb"' in (
        folder / "pyproject.toml"
    ).read_text(encoding="utf-8")


def root() -> Path:
    """Return the root of the project (the folder with notebooks, data and figures).

    The variable ``FAIRNB_ROOT`` decides if it is set; else the checkout that this package was
    installed from; else the nearest folder above the current one that is a fairnb checkout.

    Raises
    ------
    FairnbError
        If ``FAIRNB_ROOT`` does not name a checkout, or no checkout is found.
    """
    named = os.environ.get(ROOT_VARIABLE)
    if named:
        folder = Path(named).expanduser().resolve()
        if not _is_root(folder):
            raise FairnbError(
                f"{ROOT_VARIABLE}={named}: not a fairnb checkout (expected {', '.join(_MARKS)} in it); "
                f"unset it, or set it to the folder that holds README.md"
            )
        return folder
    installed = Path(__file__).resolve().parent.parent
    if _is_root(installed):
        return installed
    here = Path.cwd()
    for folder in (here, *here.parents):
        if _is_root(folder):
            return folder
    raise FairnbError(
        f"no fairnb checkout found above {here}: clone the repository and run from it, "
        f"or set {ROOT_VARIABLE} to its folder"
    )


def data() -> Path:
    """Return the folder of bundled data (``data/``)."""
    return root() / "data"


def published() -> Path:
    """Return the folder of the papers' printed tables (``data/published/``)."""
    return data() / "published"


def released() -> Path:
    """Return the folder of numbers computed from the released replies (``data/released/``)."""
    return data() / "released"


def external() -> Path:
    """Return the folder that downloads go to (``data/external/``, ignored by git)."""
    return data() / "external"


def figures() -> Path:
    """Return the folder of the default experiments' exhibits (``figures/``)."""
    return root() / "figures"


def notebooks() -> Path:
    """Return the folder of notebooks."""
    return root() / "notebooks"


def runs() -> Path:
    """Return the folder of everything else that a run writes (``runs/``, ignored by git)."""
    return root() / "runs"


def shown(path: Path) -> str:
    """Return a path as it may be printed: relative to the root where it lies below it.

    Absolute paths name the user's home; they belong in no notebook or manifest.
    """
    path = path.resolve()
    base = root()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)


def write_text(path: Path, text: str) -> bool:
    """Write UTF-8 text with Unix line ends so that a reader sees the old file or the new, never half.

    Returns
    -------
    bool
        Whether the file changed; an equal file is left as it is, with its time stamp.

    Raises
    ------
    FairnbError
        If the folder or file cannot be written to.
    """
    return write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> bool:
    """Write bytes the way `write_text` writes text."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        raise FairnbError(
            f"{path}: cannot be written ({error.strerror}); make the folder writable or name another one"
        ) from error
    finally:
        # Left only if something went wrong, an interruption included.
        with suppress(OSError):
            scratch.unlink()
    return True
