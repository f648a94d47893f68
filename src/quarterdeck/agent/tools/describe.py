"""The texts that the model reads, kept in a Markdown file beside each tool's code."""

from functools import cache
from importlib.resources import files

__all__ = ["describe"]


@cache
def describe(package: str) -> str:
    """Return the text of the tool in ``package``: the file ``<last name>.md`` in it.

    Read at first use and kept; touches the disk then, so ask outside of the event loop first.
    """
    name = package.rsplit(".", 1)[-1]
    return files(package).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
