"""One object for a table or chart, with all its renderings."""

from __future__ import annotations

import io
import math
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from fairnb import paths
from fairnb.notebook import WRITTEN_TYPE
from fairnb.settings import Experiment

# Every mark goes with a word in the cell: the colours only help the eye, and print well in grey.
COLOURS = {
    "level 1": "#d9efe3",
    "level 2": "#fdf0c4",
    "level 3": "#fbd3b0",
    "level 4": "#f3b0b5",
    "differs": "#f3b0b5",
    "quiet": "#eef0f2",
}

_HTML = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<figure style="margin:0 0 1.2em 0;overflow-x:auto">
<figcaption style="text-align:left;max-width:60em;margin-bottom:.5em"><b>{{ title }}.</b> {{ caption }}</figcaption>
<table style="border-collapse:collapse;font-size:88%;font-variant-numeric:tabular-nums">
<thead>
{% for line in head %}
<tr>
{% for cell in line %}
<th colspan="{{ cell.width }}" style="text-align:{{ 'center' if cell.width > 1 else cell.side }};\
white-space:nowrap;padding:.15em .45em;border-bottom:1px solid #888;vertical-align:bottom">{{ cell.text }}</th>
{% endfor %}
</tr>
{% endfor %}
</thead>
<tbody>
{% for line in body %}
<tr>
{% for cell in line %}
<td style="text-align:{{ cell.side }};padding:.1em .45em;\
white-space:{{ 'normal;min-width:%sem' % (width // 2) if cell.text | length > width > 0 else 'nowrap' }}\
{% if cell.colour %};background-color:{{ cell.colour }};color:#111{% endif %}\
{% if line.new %};border-top:1px solid #ccc{% endif %}">{{ cell.text }}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
</figure>
"""
)

_LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≠": r"$\neq$",
    "✓": r"$\surd$",
    "×": r"$\times$",
    "√": r"$\surd$",
    "−": "--",
    "–": "--",
    "—": "---",
    "±": r"$\pm$",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
    "→": r"$\to$",
    "\n": " ",
}
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi"
_LATEX |= {mark: f"$\\{name}$" for mark, name in zip("αβγδεζηθικλμνξπρστυφχ", _GREEK.split(), strict=True)}
_LATEX |= {"ψ": r"$\psi$", "ω": r"$\omega$"}
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
_LATEX |= {mark: f"$\\{name}$" for mark, name in zip("ΓΔΘΛΞΠΣΦΨΩ", _CAPITALS.split(), strict=True)}


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A table or chart of an experiment.

    Attributes
    ----------
    name : str
        File name without its ending, such as ``table2``.
    title : str
        Short, such as ``Table 2``.
    caption : str
        What is shown, of how many users, by which protocol and test; plain text.
    data : DataFrame
        The numbers in full: what the CSV holds.
    shown : DataFrame, optional
        The cells a reader sees, as text, one row per row of `data`; columns may have two levels. The
        numbers themselves if absent.
    marks : DataFrame, optional
        Names of `COLOURS` for cells, in the shape of `shown`; empty text for none.
    figure : matplotlib Figure, optional
        For charts.
    labels : int
        How many leading columns of `shown` name the row; a name that the row above has too is left out.
    width : int, optional
        Letters beyond which the text of a cell wraps; 0 for cells of one line.
    """

    name: str
    title: str
    caption: str
    data: pd.DataFrame
    shown: pd.DataFrame | None = None
    marks: pd.DataFrame | None = None
    figure: Any = None
    labels: int = 0
    width: int = 0

    def __repr__(self) -> str:
        return f"<Exhibit {self.name}: {len(self.data)} rows>"

    def only(self, **labels: object) -> Exhibit:
        """Return the part of a table whose rows have these values in `data`, for showing.

        A shown column that is named as one of the labels says the same in every row and is left out.
        """
        keep = pd.Series(data=True, index=self.data.index)
        for column, value in labels.items():
            keep &= self.data[column] == value

        def part(cells: pd.DataFrame | None) -> pd.DataFrame | None:
            if cells is None:
                return None
            kept = [(name[-1] if isinstance(name, tuple) else name) not in labels for name in cells.columns]
            return cells.loc[keep, kept]

        return replace(self, data=self.data[keep], shown=part(self.shown), marks=part(self.marks))

    @property
    def csv(self) -> str:
        """The numbers as CSV, to 12 significant digits, with an empty field for what is undefined."""
        columns = [
            [number_text(value, probability=_is_probability(name)) for value in self.data[name]]
            for name in self.data.columns
        ]
        frame = pd.DataFrame(dict(zip(self.data.columns, columns, strict=True)), dtype=object)
        return str(frame.to_csv(index=False, lineterminator="\n"))

    @property
    def html(self) -> str:
        """The table as HTML with its styles inline; every text is escaped."""
        shown = self._cells
        pairs = _header_pairs(shown)
        sides = _sides(shown)
        marks = self.marks.to_numpy() if self.marks is not None else None
        body = []
        for row, cells in enumerate(shown.to_numpy()):
            line = [
                {
                    "text": cell,
                    "side": sides[place],
                    "colour": COLOURS.get(marks[row][place], "") if marks is not None else "",
                }
                for place, cell in enumerate(cells)
            ]
            body.append(_Line(line, new=row > 0 and bool(str(cells[0]))))
        return _HTML.render(
            title=self.title, caption=self.caption, head=_head(pairs, sides), body=body, width=self.width
        )

    @property
    def latex(self) -> str:
        """The table as LaTeX (needs booktabs); every text is escaped."""
        shown = self._cells
        cells = shown.map(latex_text)
        pairs = _header_pairs(shown)
        if any(group for group, _ in pairs):
            cells.columns = pd.MultiIndex.from_tuples([(latex_text(g), latex_text(t)) for g, t in pairs])
        else:
            cells.columns = pd.Index([latex_text(text) for _, text in pairs])
        text: str = cells.style.hide(axis="index").to_latex(
            hrules=True,
            column_format="".join(self._latex_column(shown, place) for place in range(shown.shape[1])),
            multicol_align="c",
            position="htbp",
            position_float="centering",
            caption=f"{latex_text(self.title)}. {latex_text(self.caption)}",
            label=f"tab:{self.name}",
        )
        return "% needs \\usepackage{booktabs}\n" + text.replace("\\centering\n", "\\centering\\scriptsize\n", 1)

    def _latex_column(self, shown: pd.DataFrame, place: int) -> str:
        longest = max((len(cell) for cell in shown.iloc[:, place]), default=0)
        return f"p{{{self.width // 2}em}}" if 0 < self.width < longest else _sides(shown)[place][0]

    @cached_property
    def png(self) -> bytes:
        """The chart as PNG."""
        return self._drawn("png")

    @cached_property
    def svg(self) -> bytes:
        """The chart as SVG, with text as text and the same bytes at every run."""
        return self._drawn("svg")

    def _drawn(self, form: str) -> bytes:
        from matplotlib import rc_context  # noqa: PLC0415  (tables need no plotting library)

        buffer = io.BytesIO()
        meta = {"Date": None} if form == "svg" else {"Software": None}
        with rc_context({"svg.hashsalt": self.name, "svg.fonttype": "none"}):
            if self.figure.get_layout_engine() is not None:
                # Laid out once for all forms; a layout engine would do it again at every drawing.
                self.figure.get_layout_engine().execute(self.figure)
                self.figure.set_layout_engine("none")
            self.figure.savefig(buffer, format=form, dpi=110, metadata=meta)
        return buffer.getvalue()

    @property
    def _cells(self) -> pd.DataFrame:
        if self.shown is None:
            return self.data.map(number_text)
        cells = self.shown.fillna("").astype(str)
        repeated = pd.Series(data=True, index=cells.index)
        for place in range(self.labels):
            column = cells.iloc[:, place]
            repeated &= column.eq(column.shift())
            cells.isetitem(place, column.mask(repeated, ""))
        return cells

    def files(self) -> dict[str, bytes]:
        """Render everything: file name to content."""
        texts = {"csv": self.csv}
        if self.figure is None:
            texts |= {"html": self.html, "tex": self.latex}
        files = {f"{self.name}.{ending}": text.encode("utf-8") for ending, text in texts.items()}
        if self.figure is not None:
            files |= {f"{self.name}.png": self.png, f"{self.name}.svg": self.svg}
        return files


class _Line(list[dict[str, str]]):
    """A table row that knows whether a rule goes above it."""

    def __init__(self, cells: list[dict[str, str]], *, new: bool) -> None:
        super().__init__(cells)
        self.new = new


def folder(experiment: Experiment) -> Path:
    """Return the folder of an experiment's exhibits.

    ``figures/NAME`` only for the default experiment, whose files are under version control; any other
    settings have a folder of their own below ``runs/``, so that no number is taken for another.
    """
    named = os.environ.get(paths.FIGURES_VARIABLE)
    if named:
        return Path(named)
    if experiment.is_default:
        return paths.figures() / experiment.name
    return paths.runs() / experiment.slug / "figures"


@dataclass(frozen=True)
class Written:
    """The files that a notebook wrote; as the last value of a cell it tells reader and runner."""

    files: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(["Exhibits written:", *(f"  {name}" for name in self.files)])

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        return {"text/plain": repr(self), WRITTEN_TYPE: list(self.files)}


def write(experiment: Experiment, exhibits: Iterable[Exhibit]) -> Written:
    """Write exhibits to the folder of the experiment.

    Returns
    -------
    Written
        The file names, in order.

    Raises
    ------
    FairnbError
        If a file cannot be written.
    """
    target = folder(experiment)
    names = []
    for exhibit in exhibits:
        for name, content in exhibit.files().items():
            paths.write_bytes(target / name, content)
            names.append(name)
    return Written(tuple(names))


def show(*exhibits: Exhibit) -> None:
    """Show exhibits in a notebook: a table as HTML, a chart as an image below its caption."""
    from IPython import display  # noqa: PLC0415  (only notebooks need it)

    for exhibit in exhibits:
        if exhibit.figure is None:
            display.display(display.HTML(exhibit.html))
        else:
            display.display(display.Markdown(f"**{exhibit.title}.** {markdown_text(exhibit.caption)}"))
            display.display(display.Image(exhibit.png, alt=exhibit.title))


def say(text: str) -> None:
    """Show a sentence whose numbers were computed, as Markdown."""
    from IPython import display  # noqa: PLC0415

    display.display(display.Markdown(text))


def number_text(value: object, *, probability: bool = False) -> str:
    """Write a number for a CSV file: whole numbers as such, others to 12 significant digits.

    Twelve digits are the same on every processor; the last four of a float are not. A difference that
    is nothing but rounding is 0, unless it is a probability.
    """
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, float):
        if abs(value) < 1e-13 and not probability:
            return "0"
        return f"{value:.12g}"
    return str(value)


def decimals(value: float, places: int) -> str:
    """Write a number for a reader: fixed places, no minus before zero, empty if undefined."""
    if value is None or value is pd.NA or math.isnan(value):
        return ""
    # From twelve digits, so that 0.04375, which is stored as a little less, rounds as it is written.
    text = f"{Decimal(f'{value:.12g}'):.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def p_text(value: float) -> str:
    """Write a p-value: three places, never 0."""
    text = decimals(value, 3)
    return "<0.001" if text == "0.000" else text


def latex_text(text: object) -> str:
    """Escape a text for LaTeX; the papers' symbols become math.

    Letters that pdflatex does not know are left as they are (XeLaTeX and LuaLaTeX set them).
    """
    return "".join(_LATEX.get(mark, mark) for mark in unicodedata.normalize("NFC", str(text)))


def markdown_text(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", text)


def _is_probability(column: object) -> bool:
    return re.fullmatch(r"[pq]|[pq]_.*|.*_[pq]", str(column)) is not None


def _sides(shown: pd.DataFrame) -> list[str]:
    """Align columns of numbers to the right and columns of text to the left."""
    sides = []
    for place in range(shown.shape[1]):
        cells = [cell for cell in shown.iloc[:, place] if cell]
        numbers = cells and all(re.match(r"^[<-]?[\d,.]+($| \[|, \d)", cell) for cell in cells)
        sides.append("right" if numbers else "left")
    return sides


def _header_pairs(shown: pd.DataFrame) -> list[tuple[str, str]]:
    if isinstance(shown.columns, pd.MultiIndex):
        return [(str(group), str(text)) for group, text in shown.columns]
    return [("", str(text)) for text in shown.columns]


def _head(pairs: list[tuple[str, str]], sides: list[str]) -> list[list[dict[str, object]]]:
    lower: list[dict[str, object]] = [
        {"text": text, "width": 1, "side": side} for (_, text), side in zip(pairs, sides, strict=True)
    ]
    if not any(group for group, _ in pairs):
        return [lower]
    upper: list[dict[str, object]] = []
    previous = None
    for group, _ in pairs:
        if group and group == previous:
            upper[-1]["width"] = int(str(upper[-1]["width"])) + 1
        else:
            upper.append({"text": group, "width": 1, "side": "left"})
        previous = group
    return [upper, lower]
