"""What a notebook and its runner agree on: the parameters cell, and how written files are told."""

from __future__ import annotations

import ast
import io
import json
import platform
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

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
        plain = given.item() if type(given).__module__ == "numpy" and hasattr(given, "item") else given
        if isinstance(plain, Path):
            plain = str(plain)
        if isinstance(plain, str) and self.kind != "str":
            plain = _read(plain, self.kind)
        if isinstance(plain, int) and not isinstance(plain, bool) and self.kind == "float":
            plain = float(plain)
        if type(plain) is not _TYPES[self.kind]:
            raise ParameterError(f"{self.name} = {given!r}: expected {_EXPECTED[self.kind]} ({self.help})")
        return plain


def _read(text: str, kind: str) -> object:
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    if kind == "int":
        return int(text) if re.fullmatch(r"-?(0|[1-9]\d*)", text) else None
    return float(text) if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE]-?\d+)?", text) else None


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
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except FileNotFoundError:
        raise ParameterError(f"{notebook}: no such notebook; `fairnb list` names them") from None
    except (ValueError, KeyError, TypeError):
        raise ParameterError(f"{notebook}: not a notebook; `git checkout` restores it") from None
    tagged = [cell for cell in cells if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise ParameterError(
            f"{notebook}: {len(tagged)} cells tagged 'parameters'; expected exactly one, right below the title"
        )
    return _declared("".join(tagged[0]["source"]), notebook)


def _declared(source: str, notebook: Path) -> dict[str, Parameter]:
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for line in ast.parse(source).body:
        where = f"{notebook}, parameters cell, line {line.lineno}"
        if not (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(line.annotation, ast.Name)
            and line.annotation.id in _TYPES
            and line.value is not None
        ):
            raise ParameterError(f"{where}: expected `name: type = value`, type one of {', '.join(_TYPES)}")
        try:
            default = ast.literal_eval(line.value)
        except ValueError:
            raise ParameterError(f"{where}: the default of {line.target.id} is not a plain value") from None
        parameter = Parameter(line.target.id, line.annotation.id, default, comments.get(line.lineno, ""))
        parameter.value(default)
        found[parameter.name] = parameter
    return found


def about() -> str:
    """Say which fairnb and which Python a notebook is running in."""
    environment = paths.shown(Path(sys.prefix))
    return f"fairnb {__version__}, Python {platform.python_version()} in {environment}"
