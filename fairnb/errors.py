"""Exceptions and warnings that a user of fairnb is meant to read."""

from __future__ import annotations


class FairnbError(Exception):
    """An expected failure, told in one line.

    The message names the file, line or field at fault, what was expected there, and what to do.
    The command line prints it without a traceback and exits with a status that is not 0.
    """


class DataError(FairnbError):
    """An input file or frame does not hold what its documentation promises."""


class ParameterError(FairnbError):
    """A parameter or setting has an unknown name, a wrong type or a value that cannot be used."""


class ProtocolError(FairnbError):
    """A protocol asks for something the data set at hand cannot give."""


class DownloadError(FairnbError):
    """A file could not be downloaded, or is not the file that was published."""


class NotebookError(FairnbError):
    """A notebook stopped before its end."""


class FairnbWarning(UserWarning):
    """Something was left out or filled in, and a reader should know of it."""
