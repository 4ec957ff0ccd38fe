"""What a notebook and its runner agree on: the parameters cell, and how written files are told."""

from __future__ import annotations

import ast
import io
import json
import math
import platform
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from fairnb import __version__, paths
from fairnb.errors import ParameterError

# A notebook tells its runner by an output of this type which files it wrote.
WRITTEN_TYPE = "application/vnd.fairnb.exhibits+json"
# The output of a cell with this tag shows the reader's own machine and is not kept under version control.
VOLATILE_TAG = "volatile"

Value = bool | int | float | str
_TYPES: dict[str, type[Value]] = {"bool": bool, "int": int, "float": float, "str": str}
_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number such as 1000",
    "float": "a number such as 0.05",
    "str": "a text",
}
# Whole numbers that every reader of JSON and every array of numpy can hold.
_LIMIT = 2**63


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell.

    Attributes
    ----------
    name, kind : str
        Name and type (bool, int, float, str).
    default : bool, int, float or str
    help : str
        The comment behind it.
    """

    name: str
    kind: str
    default: Value
    help: str

    def value(self, given: object) -> Value:
        """Return a given value in the parameter's type.

        Texts are read strictly, as the command line gives them: ``010`` is no number, ``false`` no
        text for a bool parameter. Numbers of numpy and paths are accepted for what they are.

        Raises
        ------
        ParameterError
            If the value does not fit; nothing is converted that could have been meant otherwise.
        """
        plain = given
        if type(given).__module__ == "numpy" and getattr(given, "ndim", None) == 0 and hasattr(given, "item"):
            plain = given.item()
        if isinstance(plain, Path) and self.kind == "str":
            plain = str(plain)
        elif isinstance(plain, str) and self.kind != "str":
            plain = _read(plain, self.kind)
        if type(plain) is int and self.kind == "float" and abs(plain) < _LIMIT:
            plain = float(plain)
        if not _is_plain(plain, self.kind):
            about = f" ({self.help})" if self.help else ""
            raise ParameterError(f"{self.name} = {given!r:.80}: expected {_EXPECTED[self.kind]}{about}")
        return cast("Value", plain)


def _read(text: str, kind: str) -> object:
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    if kind == "int":
        return int(text) if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", text) else None
    return float(text) if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) else None


def _is_plain(value: object, kind: str) -> bool:
    if type(value) is not _TYPES[kind]:
        return False
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < _LIMIT


def read_cell(notebook: Path) -> dict[str, Parameter]:
    """Read what a notebook declares in its cell tagged ``parameters``.

    Parameters
    ----------
    notebook : Path

    Returns
    -------
    dict of str to Parameter

    Raises
    ------
    ParameterError
        If there is not exactly one such cell, or a line in it is not ``name: type = literal``.
    """
    name = paths.shown(notebook)
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        tagged = [
            "".join(cell["source"])
            for cell in cells
            if cell["cell_type"] == "code" and "parameters" in cell["metadata"].get("tags", [])
        ]
    except FileNotFoundError:
        raise ParameterError(f"{name}: no such notebook; `fairnb list` names them") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ParameterError(f"{name}: not a notebook; `git checkout` restores it") from None
    if len(tagged) != 1:
        raise ParameterError(
            f"{name}: {len(tagged)} code cells tagged 'parameters'; expected exactly one, right below the title"
        )
    return _declared(tagged[0], name)


def _declared(source: str, notebook: str) -> dict[str, Parameter]:
    try:
        lines = ast.parse(source).body
    except SyntaxError as error:
        raise ParameterError(f"{notebook}, parameters cell, line {error.lineno}: not Python ({error.msg})") from None
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found: dict[str, Parameter] = {}
    for line in lines:
        where = f"{notebook}, parameters cell, line {line.lineno}"
        if not (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(line.annotation, ast.Name)
            and line.annotation.id in _TYPES
            and line.value is not None
        ):
            raise ParameterError(f"{where}: expected `name: type = value`, type one of {', '.join(_TYPES)}")
        name, kind = line.target.id, line.annotation.id
        if name in found:
            raise ParameterError(f"{where}: {name} stands there twice; expected once")
        try:
            default = ast.literal_eval(line.value)
        except ValueError:
            default = None
        if kind == "float" and type(default) is int and abs(default) < _LIMIT:
            default = float(default)
        if not _is_plain(default, kind):
            raise ParameterError(f"{where}: the default of {name} is not {_EXPECTED[kind]}")
        found[name] = Parameter(name, kind, default, comments.get(line.lineno, ""))
    return found


def about() -> str:
    """Say which fairnb and which Python a notebook is running in."""
    environment = paths.shown(Path(sys.prefix))
    return f"fairnb {__version__}, Python {platform.python_version()} in {environment}"
