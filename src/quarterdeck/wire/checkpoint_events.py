"""What turns did to files, and how a session goes back; part of ``events``, imported from there.

Nothing of the history is changed: going back is an event, and from then on requests are built as
if the turns had not been. The contents of files are not in the log but beside it, named by digest.
"""

from .ids import TurnId
from .values import Value

__all__ = ["Checkpointed", "Redone", "Rewound"]


class Checkpointed(Value, frozen=True, kw_only=True, tag_field="type", tag="checkpointed"):
    """A turn changed files and can be undone; at most once a turn, before its end or later."""

    turn: TurnId
    manifest: str
    """The digest of the list of changes, which is kept beside the log."""
    changed: int
    """How many files: created, changed and deleted ones."""
    created: int = 0
    deleted: int = 0
    paths: tuple[str, ...] = ()
    """Some of the files, for people."""
    uncovered: tuple[str, ...] = ()
    """What cannot be brought back, for people."""


class Rewound(Value, frozen=True, kw_only=True, tag_field="type", tag="rewound"):
    """The session went back to where a turn began; between turns or within a command's."""

    to: TurnId
    conversation: bool = False
    """What was said from that turn up to here is no longer told to the model."""
    files: tuple[TurnId, ...] = ()
    """The turns whose changes to files were taken back."""
    restored: str | None = None
    """The digest of the list of what was done to files."""
    changed: int = 0
    """How many files were brought back."""
    kept: tuple[str, ...] = ()
    """Files that could not be brought back and are as they were."""
    forced: bool = False
    """Files that somebody had changed since were overwritten."""


class Redone(Value, frozen=True, kw_only=True, tag_field="type", tag="redone"):
    """The newest ``Rewound`` that was not redone is taken back; before the next turn."""

    to: TurnId
    """As in that ``Rewound``."""
    changed: int = 0
    kept: tuple[str, ...] = ()
    forced: bool = False
