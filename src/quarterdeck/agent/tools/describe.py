"""The texts that the model reads, kept in a Markdown file beside each tool's code."""

from functools import cache
from importlib import import_module
from pathlib import Path

__all__ = ["describe"]


@cache
def describe(package: str, name: str | None = None) -> str:
    """Return the text of a tool in ``package``: the file ``<name>.md`` in its directory.

    Without a name it is that of the package. Read at first use and kept; touches the disk then,
    so ask outside of the event loop first.
    """
    # Not importlib.resources: that imports zipfile and tempfile, which a start can do without.
    file = import_module(package).__file__
    assert file is not None
    path = Path(file).with_name(f"{name or package.rsplit('.', 1)[-1]}.md")
    return path.read_text(encoding="utf-8").strip()
