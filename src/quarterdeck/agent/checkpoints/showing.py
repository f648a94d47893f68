"""Changes of files as people read them. Everything here blocks."""

import difflib
from collections.abc import Iterator

from .blobs import Blobs
from .entries import Change, Entry, Manifest, path_text
from .errors import ContentMissing

__all__ = ["diff_lines", "summary_lines"]

_LONGEST = 1_000_000
"""Bytes of a file beyond which it is not compared line by line."""


def summary_lines(manifest: Manifest) -> Iterator[str]:
    """A line for each file: ``A`` created, ``D`` deleted, ``M`` changed."""
    for change in manifest.changes:
        letter = "A" if change.before is None else "D" if change.after is None else "M"
        yield f"{letter} {path_text(change.path, manifest.root)}"
    yield from (f"! not covered: {one}" for one in manifest.uncovered)


def diff_lines(manifest: Manifest, blobs: Blobs) -> Iterator[str]:
    """All changes in the form of ``diff -u``, without line ends."""
    for change in manifest.changes:
        yield from _one(change, manifest.root, blobs)


def _one(change: Change, root: bytes, blobs: Blobs) -> Iterator[str]:
    shown = path_text(change.path, root)
    old, new = change.before, change.after
    yield f"diff a/{shown} b/{shown}"
    if old is None and new is not None:
        yield f"new {_named(new)}"
    elif new is None and old is not None:
        yield f"deleted {_named(old)}"
    elif old is not None and new is not None and _named(old) != _named(new):
        yield f"was {_named(old)}, is {_named(new)}"
    before, after = _text(old, blobs), _text(new, blobs)
    if before is None or after is None:
        yield "contents differ; they are no text, too long, or not kept"
        return
    names = ("/dev/null" if old is None else f"a/{shown}", f"b/{shown}" if new else "/dev/null")
    for line in difflib.unified_diff(before, after, *names, lineterm=""):
        yield line.removesuffix("\n").removesuffix("\r")


def _named(entry: Entry) -> str:
    return f"executable {entry.kind}" if entry.executable else entry.kind


def _text(entry: Entry | None, blobs: Blobs) -> list[str] | None:
    """The lines of a content; None: it is no text."""
    if entry is None:
        return []
    if not entry.is_restorable:
        return None
    try:
        data = blobs.get(entry.digest)
    except ContentMissing:
        return None
    if len(data) > _LONGEST or b"\0" in data[:8192]:
        return None
    return data.decode("utf-8", "replace").splitlines(keepends=True)
