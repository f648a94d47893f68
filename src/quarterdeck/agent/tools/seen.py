"""The rule that a file may be changed only as the model has seen it."""

from quarterdeck.system.port import Identity

from .targets import Target, is_same
from .tool import ToolError
from .workspace import Workspace

__all__ = ["expect_seen"]


def expect_seen(workspace: Workspace, target: Target, now: Identity | None = None) -> None:
    """Make sure that the file was read, and, where ``now`` is known, that it is as it was then.

    Raises:
        ToolError: it was not, or has changed since.
    """
    seen = workspace.seen.get(target.real)
    if seen is None:
        raise ToolError(
            f"{target.shown!r} was not read in this session; nothing was changed. "
            "Read it first, then retry."
        )
    if now is not None and not is_same(seen, now):
        raise ToolError(
            f"{target.shown!r} was changed since it was read, by somebody else; nothing was "
            "changed now. Read it again, then retry."
        )
