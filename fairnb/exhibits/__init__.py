"""Tables and charts: built once from the numbers, shown and saved in many forms."""

from fairnb.exhibits.exhibit import Exhibit, Written, folder, say, show, write

__all__ = ["Exhibit", "Written", "folder", "say", "show", "write"]
