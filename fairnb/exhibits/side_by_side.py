"""Texts side by side, with what differs from the first one marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import jinja2
import pandas as pd

from fairnb.exhibits.exhibit import Exhibit, latex_text

_HTML = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<figure style="margin:0 0 1.2em 0;overflow-x:auto">
<figcaption style="text-align:left;max-width:60em;margin-bottom:.5em"><b>{{ title }}.</b> {{ caption }}</figcaption>
<div style="display:grid;grid-template-columns:repeat({{ columns | length }},minmax(19em,1fr));gap:.8em">
{% for label, pieces in columns %}
<div><div style="font-weight:bold;border-bottom:1px solid #888;padding:.15em .45em">{{ label }}</div>
<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;\
font-size:80%;line-height:1.35;padding:.3em .45em;margin:0">\
{% for text, changed in pieces %}\
{% if changed %}\
<mark style="background-color:#fdf0c4;color:#111;font-weight:bold;text-decoration:underline">{{ text }}</mark>\
{% else %}{{ text }}{% endif %}\
{% endfor %}</pre></div>
{% endfor %}
</div>
</figure>
"""
)


@dataclass(frozen=True, eq=False)
class SideBySide(Exhibit):
    """Texts in columns; words that the first text does not have are marked, bold and underlined.

    Attributes
    ----------
    texts : mapping of str to str
        Heading to text, the text to compare with first.
    """

    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def pieces(self) -> list[tuple[str, list[tuple[str, bool]]]]:
        """Each heading with its text in pieces, and whether a piece differs from the first text."""
        first = next(iter(self.texts.values()), "")
        return [(heading, differences(first, text)) for heading, text in self.texts.items()]

    @property
    def html(self) -> str:
        """The texts as columns; everything in them is escaped."""
        return _HTML.render(title=self.title, caption=self.caption, columns=self.pieces)

    @property
    def latex(self) -> str:
        """The texts one after the other, differences underlined."""
        parts = []
        for heading, pieces in self.pieces:
            lines = [
                "\\\\\n".join(
                    f"\\underline{{{latex_text(line)}}}" if changed and line.strip() else latex_text(line)
                    for line in text.split("\n")
                )
                for text, changed in pieces
            ]
            body = re.sub(r"\A(\\\\\n)+", "", re.sub(r"(\\\\\n){2,}", "\\\\\\\\[1ex]\n", "".join(lines)))
            parts.append(f"\\paragraph{{{latex_text(heading)}}}\\mbox{{}}\\\\\n{{\\small\\raggedright {body}\\par}}\n")
        return f"% {' '.join(self.title.split())}\n{latex_text(self.caption)}\n\n" + "\n".join(parts)


def differences(first: str, text: str) -> list[tuple[str, bool]]:
    """Cut a text into pieces that another text has as well, and pieces that it has not.

    Parameters
    ----------
    first : str
        The text to compare with.
    text : str

    Returns
    -------
    list of (str, bool)
        Pieces of ``text`` in order, joined they are ``text``; True where ``first`` has no such words there.
    """
    old, new = (re.findall(r"\s+|[^\s]+", part) for part in (first, text))
    pieces: list[tuple[str, bool]] = []

    for tag, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "delete":
            pieces.append(("".join(new[start:end]), tag != "equal"))
    # A blank between two marked words belongs to them; marked one by one they are hard to read.
    joined: list[tuple[str, bool]] = []
    for place, (text_of, changed) in enumerate(pieces):
        between = 0 < place < len(pieces) - 1 and text_of == " " and not changed
        if joined and (changed or between) and joined[-1][1]:
            joined[-1] = (joined[-1][0] + text_of, True)
        else:
            joined.append((text_of, changed))
    return joined


def table_of(texts: Mapping[str, str]) -> pd.DataFrame:
    """Return texts as the rows of a CSV file: ``heading``, ``text``."""
    return pd.DataFrame({"heading": list(texts), "text": list(texts.values())})
