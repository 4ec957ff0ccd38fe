"""Raw files line by line: the encoding found, and an account in which no line is lost."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fairnb.datasets.dataset import MAX_REJECTED, REMARK_COLUMNS, FileFacts, Remark
from fairnb.errors import DataError

# A small excerpt may have one or two bad lines without being another file.
_FEW = 20
# What UTF-8 looks like after it was read as Latin-1 or Windows-1252 and written again. Outside western
# Europe one pair may be a word that ends in a quote or a mark (cliché»); two in a row are not.
_REST = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_MOJIBAKE = re.compile(
    rf"Ã{_REST}|Â[\xa0-\xbf]|â[\x80€][\x93-\x9d“”•–—˜™š›œ]|(?:[Ä-ß]{_REST}){{2}}|(?:[à-ï]{_REST}{_REST}){{2}}"
)


class RawFile:
    """A text file with its encoding, and the account of its lines.

    Parameters
    ----------
    file : Path
        Plain, or compressed with a name ending in ``.gz``.
    remedy : str
        What to do where it is absent or damaged; the end of the error message.

    Attributes
    ----------
    content : bytes
        Without a byte-order mark.
    encoding : str
        ``utf-8`` if the bytes are valid UTF-8 (or ASCII), else ``latin-1``.
    remarks : list of Remark
        What was rejected or noticed so far.

    Raises
    ------
    DataError
        If the file is absent or unreadable, is UTF-16 or binary, a web page, or text that was decoded
        wrongly before it was saved (``Ã©`` for ``é``).
    """

    def __init__(self, file: Path, remedy: str) -> None:
        self.file = file
        self.remedy = remedy
        self.remarks: list[Remark] = []
        self.rejected = 0
        content, self.sha256 = _bytes(file, remedy)
        if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in content[:4096]:
            raise DataError(f"{file}: UTF-16 or binary; expected a text in UTF-8 or Latin-1; {remedy}")
        self.content = content.removeprefix(b"\xef\xbb\xbf")
        if self.content.lstrip()[:1] == b"<":
            raise DataError(f"{file}, line 1: a web page; expected data; {remedy}")
        try:
            self.content.decode("utf-8")
            self.encoding = "utf-8"
        except UnicodeDecodeError:
            self.encoding = "latin-1"
        for number, line in self.lines() if not self.content.isascii() else ():
            if self.encoding == "latin-1" and not line.isascii() and _is_utf8(line):
                raise DataError(
                    f"{file}, line {number}: in UTF-8, and other lines in Latin-1; expected the file as it was "
                    f"published, in one encoding; {remedy}"
                )
            found = _MOJIBAKE.search(line)
            if found:
                raise DataError(
                    f"{file}, line {number}: {found[0]!r} shows that the text was decoded "
                    f"wrongly before it was saved; expected the file as it was published; {remedy}"
                )

    def lines(self) -> Iterator[tuple[int, str]]:
        """Give each line that holds something: its number, from 1, and its text without the line end."""
        for number, line in enumerate(self.content.decode(self.encoding).split("\n"), start=1):
            # Tools on Windows that translate line ends twice leave two of them.
            text = line.rstrip("\r")
            if text.strip():
                yield number, text

    def reject(self, line: int, reason: str) -> None:
        """Record that a line is in no frame."""
        self.rejected += 1
        self.remarks.append(Remark(self.file.name, line, reason, kept=False))

    def note(self, line: int, reason: str) -> None:
        """Record something about a line that is in the frame."""
        self.remarks.append(Remark(self.file.name, line, reason, kept=True))

    def close(self, rows_out: int) -> FileFacts:
        """Draw the balance.

        Raises
        ------
        DataError
            If nothing is left, or more than 5 % of the lines (and more than 20) were rejected.
        """
        first = next((f"line {r.line}: {r.reason}" for r in sorted(self.remarks, key=_by_line) if not r.kept), "")
        total = rows_out + self.rejected
        require_usable(self.file, self.rejected, total, first, self.remedy)
        return FileFacts(self.file.name, self.encoding, total, rows_out, self.rejected, self.sha256)


def present(file: Path) -> Path:
    """Return a file, or its compressed form where only that is there."""
    packed = file.with_name(f"{file.name}.gz")
    return packed if packed.is_file() and not file.is_file() else file


def require_usable(file: Path, rejected: int, total: int, first: str, remedy: str) -> None:
    """Stop where no line is left, or more than 5 % of the lines (and more than 20) were rejected.

    Parameters
    ----------
    file : Path
    rejected, total : int
        Lines.
    first : str
        The first reject, as ``line 7: why``; empty if there is none.
    remedy : str
        The end of the message.

    Raises
    ------
    DataError
    """
    if rejected == total:
        raise DataError(f"{file}: no usable line{'; ' + first if first else ''}; {remedy}")
    if rejected > max(_FEW, MAX_REJECTED * total):
        raise DataError(
            f"{file}: {rejected:,} of {total:,} lines cannot be used, the first is {first}; "
            f"this is another file or a damaged one; {remedy}"
        )


def frame_of(remarks: list[Remark]) -> pd.DataFrame:
    """Return remarks as a frame, sorted by file and line."""
    ordered = sorted(remarks, key=lambda remark: (remark.file, remark.line))
    frame = pd.DataFrame(ordered, columns=REMARK_COLUMNS)
    return frame.astype({"file": str, "line": "int64", "reason": str, "kept": bool})


def _by_line(remark: Remark) -> int:
    return remark.line


def _is_utf8(line: str) -> bool:
    try:
        line.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _bytes(file: Path, remedy: str) -> tuple[bytes, str]:
    """Return what a file holds, unpacked, and the hash of the file as it is."""
    if file.is_dir():
        raise DataError(f"{file}: a folder; expected a file; {remedy}")
    if not file.is_file():
        raise DataError(f"{file}: no such file; {remedy}")
    try:
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        return (gzip.decompress(content) if file.name.endswith(".gz") else content), digest
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{file}: damaged, or not compressed by gzip; {remedy}") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); {remedy}") from None
