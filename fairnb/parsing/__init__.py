"""Reply text to an ordered list of titles, or a named reason why there is none."""

from fairnb.parsing.lines import STATUSES, Item, Parsed, Status, parse_lines
from fairnb.parsing.reply import parse

__all__ = ["STATUSES", "Item", "Parsed", "Status", "parse", "parse_lines"]
