"""What was at a path, what a turn made of it, and the lists of that which are kept."""

import os
from typing import Literal, TypeAlias

from msgspec import Struct, field

__all__ = ["Change", "Entry", "Kind", "Manifest", "is_within", "path_text"]

Kind: TypeAlias = Literal["file", "link", "large", "repository", "other"]


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was at a path; only ``file`` and ``link`` can be brought back."""

    kind: Kind
    digest: str
    """Names the content, or the link's target, in the store; else tells two states apart."""
    executable: bool = False

    @property
    def is_restorable(self) -> bool:
        """Whether the content is known."""
        return self.kind in ("file", "link")


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path that was one thing and is another; None: nothing was there."""

    path: bytes
    """Absolute, as the file system has it."""
    before: Entry | None = None
    after: Entry | None = None

    @property
    def reversed(self) -> "Change":
        """The way back."""
        return Change(path=self.path, before=self.after, after=self.before)


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A list of changes, as it is kept: MessagePack, because paths are bytes."""

    v: int = 1
    root: bytes = b""
    """Where the session worked; paths below are shown relative to it."""
    changes: tuple[Change, ...] = ()
    uncovered: tuple[str, ...] = field(default=())


def is_within(path: bytes, directory: bytes) -> bool:
    """Whether a path is a directory or below it, by its name alone."""
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


def path_text(path: bytes, root: bytes = b"") -> str:
    """A path for people: relative to ``root`` where it is below, bytes that are no text escaped."""
    if root and path != root and is_within(path, root):
        path = path[len(root.rstrip(b"/")) + 1 :]
    return os.fsdecode(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
