"""What can go wrong about going back."""

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "CheckpointError",
    "ContentMissingError",
    "FilesChangedError",
    "NothingToUndoError",
    "RestoreError",
    "SnapshotError",
]

_MOST_NAMED = 10


class CheckpointError(QuarterdeckError):
    """Files could not be kept or brought back; each kind is a class of its own."""


class SnapshotError(CheckpointError):
    """A work tree could not be written down."""


class ContentMissingError(CheckpointError):
    """What is needed was deleted from the store."""


class NothingToUndoError(CheckpointError):
    """There is no such turn, or nothing to take back."""


class RestoreError(CheckpointError):
    """The operating system refused; what had been done was taken back as far as possible."""


class FilesChangedError(CheckpointError):
    """The files changed after the turn; nothing was changed now."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        named = ", ".join(map(repr, paths[:_MOST_NAMED]))
        more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
        super().__init__(
            f"changed since by another program: {named}{more}; nothing was restored. Put the "
            "files back as they were, or add 'force' to overwrite them"
        )
        self.paths = paths
