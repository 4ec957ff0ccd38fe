"""Tables and charts: built once from the numbers, shown and saved in many forms."""

from fairnb.exhibits.exhibit import Exhibit, folder, show, write

__all__ = ["Exhibit", "folder", "show", "write"]
