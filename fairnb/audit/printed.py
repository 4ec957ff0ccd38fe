"""A printed table of group means, as a person types it from a paper, read into numbers and their printed places."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairnb.errors import DataError

_ROLE = re.compile(r"group[1-9][0-9]?|n[1-9][0-9]?|n|delta|p|sd|range|snsr|snsv")
_HINT = "name the columns, as in --role group1=COLUMN"
_DELTA = {"delta", "δ", "diff", "difference", "gap", "meandiff", "meandifference", "deltab", "δb"}
_P = {"p", "pvalue", "pval"}
_SD = {"sd", "std", "stdev", "standarddeviation"}
_PEOPLE = {"male", "female", "males", "females", "men", "women", "man", "woman", "boys", "girls", "young", "old"}
_PEOPLE |= {"younger", "older", "majority", "minority", "protected", "unprotected", "privileged", "unprivileged"}
_PEOPLE |= {"advantaged", "disadvantaged"}
_NOTHING = {"", "-", "--", "—", "n.s.", "n.s", "ns", "na", "n/a", "n.a.", "nan", "none", "null", "not significant"}
_DASHES = str.maketrans(dict.fromkeys("−–‐‑﹣－", "-"))
_SPACES = " \u00a0\u2009\u202f"
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")
_GROUPED = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:([,{_SPACES}'’])[0-9]{{3}})(?:\1[0-9]{{3}})*(?:\.[0-9]*)?")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]{1,2})?")
_COMMA_GROUPED = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:([.{_SPACES}'’])[0-9]{{3}})(?:\1[0-9]{{3}})*(?:,[0-9]*)?")
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
_P_INSIDE = re.compile(r"(?P<rest>.*?)[\s,;]*[(\[]?\s*p\s*(?P<sign>[=:<>≤≥])\s*(?P<p>[^)\]]*?)\s*[)\]]?")
_WITH_SD = re.compile(r"(?P<mean>[^±(\[]*[^±(\[\s])\s*(?:±.*|\+/-.*|\(.*\)|\[.*\])")
_SHOWN_LINES = 5
_NOTE = {
    "nothing": "nothing printed in {}; taken as missing",
    "bound": "{} give a bound (such as <0.001) and no number; taken as missing",
    "unread": "{} could not be read as a number; left out",
    "ambiguous": "{} such as 1,234 or 1.234 can be read in two ways; left out; type them without separator",
    "percent": "{} with a percent sign; kept in percent",
    "thousands": "{} with thousands separators; read without them",
    "comma": "{} with a decimal comma",
    "stars": "{} with marks of significance; read without them",
    "sd": "{} print a mean with its dispersion; the mean is kept",
    "p": "{} print p beside the number; both are read",
}


@dataclass(frozen=True)
class Printed:
    """What a printed table says.

    Attributes
    ----------
    file : str
        Its name, for messages.
    labels : DataFrame
        Columns of text, under their own names; one row per printed row.
    numbers : DataFrame of float
        Columns by role: ``group1``, ``group2``, ..., ``delta``, ``p``, ``n1``, ``n2``, ..., ``n``, ``sd``; any other
        column of numbers under its own name in small letters. NaN where no usable number is printed.
    places : DataFrame of Int64
        Printed decimals, shaped as `numbers`; missing where the number is. A column whose cells differ in places gets
        the most places for all its cells: spreadsheets drop trailing zeros. Only where a shorter cell still ends in a
        zero (0.50 beside 0.1234; not 0.0, which programs write for zero) were they kept, and each cell has its own.
    lines : list of int
        The line of the file that each row begins on.
    remarks : list of str
        What was read differently or left out.
    names : dict of str to str
        Column of `numbers` to its name in the file.
    percent : tuple of str
        Columns of `numbers` in percent.
    """

    file: str
    labels: pd.DataFrame
    numbers: pd.DataFrame
    places: pd.DataFrame
    lines: list[int]
    remarks: list[str]
    names: dict[str, str]
    percent: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Cell:
    value: float = math.nan
    places: int = 0
    notes: tuple[str, ...] = ()
    p: str = ""
    kept_zero: bool = False


def read(file: Path, roles: Mapping[str, str] | None = None) -> Printed:
    """Read a printed table from a CSV file.

    Parameters
    ----------
    file : Path
        Comma, semicolon or tab between cells (the header line decides); UTF-8, UTF-16 with a byte-order mark, or else
        Windows-1252, the superset of Latin-1.
    roles : mapping of str to str, optional
        Role to column, where the names do not tell: ``{"group1": "Max", "group2": "Min"}``.

    Returns
    -------
    Printed

    Raises
    ------
    DataError
        If the file is absent, no text, empty or without rows, its rows differ in length, a column stands twice, a role
        is unknown or names no column of numbers, or fewer than two columns hold means of groups.
    """
    remarks: list[str] = []
    text = _text(file, remarks)
    header, rows, lines, delimiter = _rows(file, text)
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    commas = delimiter != "," and any(
        _COMMA.fullmatch(_tidy(cell)) and not _EITHER.fullmatch(_tidy(cell))
        for cells in columns.values()
        for cell in cells
    )
    read_cells = {name: [_cell(cell, delimiter, commas) for cell in cells] for name, cells in columns.items()}
    numeric = [name for name, cells in read_cells.items() if _numeric(cells)]
    of = _roles(file, header, numeric, roles or {})
    _p_inside(read_cells, of, delimiter, commas)

    numbers, places, percent = {}, {}, []
    for column, name in of.items():
        cells = read_cells[name]
        numbers[column] = [cell.value for cell in cells]
        places[column] = _places(cells)
        known = [cell for cell in cells if not math.isnan(cell.value)]
        signs = sum("percent" in cell.notes for cell in known)
        if "%" in name or (known and 2 * signs > len(known)):
            percent.append(column)
            if 0 < signs < len(known):
                remarks.append(f"column {name}: {signs} of {len(known)} numbers have a percent sign; all are taken so")
        mixed = {cell.places for cell in known}
        if len(mixed) > 1:
            how = "trailing zeros are taken as lost" if len(set(places[column]) - {None}) == 1 else "each as printed"
            remarks.append(f"column {name}: numbers with {min(mixed)} to {max(mixed)} decimals; {how}")
        remarks += _remarks(name, cells, lines)
        if name.lower() != column:
            remarks.append(f"column {name} is read as {column}")
    empty = [name for name in header if name not in of.values() and all(_nothing(cell) for cell in columns[name])]
    remarks += [f"column {name}: nothing printed; left out" for name in empty]
    texts = {
        name: [cell.strip() for cell in columns[name]]
        for name in header
        if name not in of.values() and name not in empty
    }
    return Printed(
        file=str(file),
        labels=pd.DataFrame(texts, index=range(len(rows))),
        numbers=pd.DataFrame(numbers, dtype=float),
        places=pd.DataFrame(places).astype("Int64"),
        lines=lines,
        remarks=remarks,
        names=of,
        percent=tuple(percent),
    )


def _text(file: Path, remarks: list[str]) -> str:
    if not file.is_file():
        what = "a folder" if file.is_dir() else "no such file"
        raise DataError(f"{file}: {what}; expected a table as CSV, one line a row; {_HINT}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); make it readable") from None
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    odd = f"{file}: not a text (it may be a spreadsheet or an image); expected CSV in UTF-8; save it as CSV"
    try:
        text = content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError as error:
        if marked:
            raise DataError(odd) from None
        line = content[: error.start].count(b"\n") + 1
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            raise DataError(odd) from None
        remarks.append(f"line {line} is not UTF-8: the file is read as Latin-1 (Windows-1252)")
    if re.search(r"[\x00-\x08\x0e-\x1f]", text):
        raise DataError(odd)
    return text


def _rows(file: Path, text: str) -> tuple[list[str], list[list[str]], list[int], str]:
    """Return header, rows, the line of each row, and the delimiter."""
    first = re.sub('"[^"]*"', "", next((line for line in text.splitlines() if line.strip()), ""))
    delimiter = max("\t;,", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    end = 0
    try:
        for row in reader:
            start, end = end + 1, reader.line_num
            if not any(cell.strip() for cell in row):
                continue
            if rows and len(row) != len(rows[0]):
                raise DataError(
                    f"{file}, line {start}: {len(row)} cells; expected {len(rows[0])}, as in the header; "
                    "fill empty cells with nothing, and quote cells that hold the delimiter"
                )
            rows.append(row)
            lines.append(start)
    except csv.Error as error:
        raise DataError(f"{file}, line {end + 1}: not a CSV file ({error}); mend the quotes of that line") from None
    if len(rows) < 2:
        what = "no row below the header" if rows else "empty"
        raise DataError(f"{file}: {what}; expected a header and a line per printed row; {_HINT}")
    header = [name.strip() or f"column {place}" for place, name in enumerate(rows[0], start=1)]
    for name, count in Counter(name.lower() for name in header).items():
        if count > 1:
            raise DataError(f"{file}: column {name} stands {count} times; expected once; rename one in the header")
    return header, rows[1:], lines[1:], delimiter


def _tidy(text: str) -> str:
    return text.strip().translate(_DASHES)


def _nothing(text: str) -> bool:
    return _tidy(text).lower() in _NOTHING


def _cell(text: str, delimiter: str, commas: bool) -> _Cell:
    """Read one cell; `commas` says that decimal commas stand in the file."""
    rest, notes, p = _tidy(text), [], ""
    if _nothing(rest):
        return _Cell(notes=("nothing",))
    inside = _P_INSIDE.fullmatch(rest)
    if inside and inside["rest"]:
        rest, p = inside["rest"], inside["sign"].strip("=:") + inside["p"]
        notes.append("p")
    bare = rest.rstrip("*†‡⁎∗").rstrip()
    if bare != rest and bare:
        rest = bare
        notes.append("stars")
    with_sd = _WITH_SD.fullmatch(rest)
    if with_sd:
        rest = with_sd["mean"]
        notes.append("sd")
    if rest.endswith("%"):
        rest = rest[:-1].rstrip()
        notes.append("percent")
    if rest[:1] in "<>≤≥":
        return _Cell(notes=(*notes, "bound"), p=p)
    # "- 0.01" is a minus with a space, as typeset formulas have it.
    rest = re.sub(r"^([+-])\s+", r"\1", rest)
    if delimiter != "," and _EITHER.fullmatch(rest) and ("," in rest or commas):
        return _Cell(notes=(*notes, "ambiguous"), p=p)
    if _PLAIN.fullmatch(rest):
        number = rest
    elif delimiter != "," and _COMMA.fullmatch(rest):
        number = rest.replace(",", ".")
        notes.append("comma")
    elif _GROUPED.fullmatch(rest):
        number = re.sub(rf"[,{_SPACES}'’]", "", rest)
        notes.append("thousands")
    elif delimiter != "," and _COMMA_GROUPED.fullmatch(rest):
        number = re.sub(rf"[.{_SPACES}'’]", "", rest).replace(",", ".")
        notes.append("thousands")
    else:
        return _Cell(notes=(*notes, "unread"), p=p)
    mantissa, _, exponent = number.lower().partition("e")
    decimals = mantissa.partition(".")[2]
    places = max(len(decimals) - int(exponent or 0), 0)
    return _Cell(float(number), places, tuple(notes), p, decimals.endswith("0") and decimals != "0")


def _numeric(cells: list[_Cell]) -> bool:
    printed = [cell for cell in cells if "nothing" not in cell.notes]
    read_ones = sum("unread" not in cell.notes for cell in printed)
    return bool(printed) and 2 * read_ones > len(printed)


def _places(cells: list[_Cell]) -> list[int | None]:
    known = [cell for cell in cells if not math.isnan(cell.value)]
    most = max((cell.places for cell in known), default=0)
    own = any(cell.kept_zero and cell.places < most for cell in known)
    return [None if math.isnan(cell.value) else cell.places if own else most for cell in cells]


def _remarks(name: str, cells: list[_Cell], lines: list[int]) -> Iterator[str]:
    found: dict[str, list[int]] = defaultdict(list)
    for cell, line in zip(cells, lines, strict=True):
        for note in cell.notes:
            found[note].append(line)
    for note, where in found.items():
        shown = ", ".join(str(line) for line in where[:_SHOWN_LINES])
        more = f" and {len(where) - _SHOWN_LINES} more" if len(where) > _SHOWN_LINES else ""
        count = f"{len(where)} cell{'s' if len(where) > 1 else ''}"
        yield f"column {name}: {_NOTE[note].format(count)} (line{'s' if len(where) > 1 else ''} {shown}{more})"


def _role_of(name: str) -> str:
    """Return the role that a column's name tells; the empty text if it tells none."""
    bare = re.sub(r"[\s_\-./()\[\]%:]+", "", name.lower())
    numbered = re.fullmatch(r"(group|mean|avg|average|meangroup|groupmean|meanofgroup|n|ngroup)0*([1-9][0-9]?)", bare)
    if numbered:
        return f"{'n' if numbered[1] in ('n', 'ngroup') else 'group'}{numbered[2]}"
    for role, known in (("delta", _DELTA), ("p", _P), ("sd", _SD), ("n", {"n"})):
        if bare in known:
            return role
    return ""


def _roles(file: Path, header: list[str], numeric: list[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each role, and of each other column of numbers by its own name in small letters."""
    of: dict[str, str] = {}
    lower = {name.lower(): name for name in header}
    for role, wanted in given.items():
        if not _ROLE.fullmatch(role):
            raise DataError(f"role {role}: unknown; expected group1, group2, delta, p, n1, n2, sd, range, snsr or snsv")
        name = lower.get(wanted.strip().lower())
        if name is None:
            raise DataError(
                f"{file}: role {role} names column {wanted}, which is not there; "
                f"expected one of {', '.join(header)}; {_HINT}"
            )
        if name in of.values():
            raise DataError(f"{file}: column {name} has two roles; expected one a column; {_HINT}")
        if name not in numeric:
            raise DataError(f"{file}, column {name}: not a column of numbers, which {role} must be; {_HINT}")
        of[role] = name
    rest = [name for name in numeric if name not in of.values()]
    told = {name: _role_of(name) for name in rest}
    if not any(re.fullmatch("group[0-9]+", role) for role in (*of, *told.values())):
        people = [name for name in rest if _people(name) in _PEOPLE]
        told |= {name: f"group{place}" for place, name in enumerate(people, start=1)}
        users = {f"n{_people(name)}": f"n{place}" for place, name in enumerate(people, start=1)}
        told |= {name: users[_people(name)] for name in rest if _people(name) in users}
    for name, role in told.items():
        if role and role in of and role not in given:
            raise DataError(f"{file}: columns {of[role]} and {name} both read as {role}; {_HINT}")
        key = name.lower() if not role or role in given else role
        of[key if key not in of else f"{key} (column)"] = name
    groups = [column for column in of if re.fullmatch("group[0-9]+", column)]
    if len(groups) < 2:
        found = f"only {of[groups[0]]} reads as the mean of a group" if groups else "no column reads as a group's mean"
        raise DataError(f"{file}: {found}; expected two of the columns {', '.join(header)}; {_HINT}")
    lacking = [f"group{place}" for place in range(1, len(groups) + 1) if f"group{place}" not in of]
    if lacking:
        raise DataError(f"{file}: columns read as {', '.join(sorted(groups))}, none as {lacking[0]}; {_HINT}")
    return of


def _people(name: str) -> str:
    return re.sub(r"[\s_\-./()]+|mean", "", name.lower())


def _p_inside(cells: dict[str, list[_Cell]], of: dict[str, str], delimiter: str, commas: bool) -> None:
    """Take p from the cells of δ where no column of p prints one."""
    if "delta" not in of or not any(cell.p for cell in cells[of["delta"]]):
        return
    inside = [_cell(cell.p, delimiter, commas) if cell.p else _Cell() for cell in cells[of["delta"]]]
    if "p" in of:
        own = cells[of["p"]]
        inside = [other if math.isnan(mine.value) else mine for mine, other in zip(own, inside, strict=True)]
    cells[of.setdefault("p", "p")] = inside
