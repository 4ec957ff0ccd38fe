"""One check of the audit: what was asked, how, what came out, and what follows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """A check in words; every number in them is computed.

    Attributes
    ----------
    name : str
        A few words.
    question : str
        What is asked of the numbers.
    method : str
        How it is answered, with the source of the method.
    result : str
        What came out, or why nothing could.
    consequence : str
        What follows for a reader.
    """

    name: str
    question: str
    method: str
    result: str
    consequence: str
