"""How ``edit`` and ``multi_edit`` change a file: look, show, and do what was shown."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from quarterdeck.system.port import Identity
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.toolcalls import ToolCallContent, ToolCallLocation, ToolKind

from ..diffs import diff_content, first_change, unified
from ..seen import expect_seen
from ..targets import Target, expect_unmoved, look_at_file
from ..texts import FileText, decode_file
from ..tool import Live, Outcome, Prepared, ToolError
from ..workspace import Workspace
from .applying import Applied, Replacement, apply

__all__ = ["prepare_change"]

_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A file as it is, and as it would be."""

    file: FileText
    identity: Identity
    applied: Applied
    content: tuple[ToolCallContent, ...]
    line: int

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        return self.file.encode(self.applied.text)


async def prepare_change(
    tool: str, kind: ToolKind, path: str, replacements: Sequence[Replacement], workspace: Workspace
) -> Prepared:
    """Find out what would change. Raises NoSuchPath, OutsideRoots, ToolError."""
    target, stat = await look_at_file(workspace, path, "write")
    if stat.size > _LIMIT:
        raise ToolError(f"{target.shown!r} has {stat.size} bytes; at most {_LIMIT} can be edited.")
    planned = await _change(workspace, target, replacements)

    async def run(live: Live) -> Outcome:
        return await _run(workspace, target, replacements, planned)

    return Prepared(
        title=f"Edit {target.shown}",
        call=workspace.call(tool, kind, paths=(target.use,)),
        run=run,
        content=planned.content,
        locations=(ToolCallLocation(path=target.path, line=planned.line),),
    )


async def _change(
    workspace: Workspace, target: Target, replacements: Sequence[Replacement]
) -> _Change:
    # Before anything of the content can get into an error: was the model allowed to see it?
    expect_seen(workspace, target)
    there = await workspace.system.files.read(target.real)
    expect_seen(workspace, target, there.identity)
    return await asyncio.to_thread(_changed, target, there.data, there.identity, replacements)


def _changed(
    target: Target, data: bytes, identity: Identity, replacements: Sequence[Replacement]
) -> _Change:
    file = decode_file(data, target.shown)
    applied = apply(file.text, replacements, target.shown)
    if applied.text == file.text:
        raise ToolError(f"The edits leave {target.shown!r} as it is; there is nothing to change.")
    try:
        applied.text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f"'new' is no valid text ({error.reason}); send it again.") from error
    return _Change(
        file=file,
        identity=identity,
        applied=applied,
        content=diff_content(target.path, file.text, applied.text),
        line=first_change(file.text, applied.text),
    )


async def _run(
    workspace: Workspace, target: Target, replacements: Sequence[Replacement], planned: _Change
) -> Outcome:
    """Make the change in the file as it is now: a call of the same step may have edited it."""
    files = workspace.system.files
    async with workspace.seen.lock(target.real):
        await expect_unmoved(files, target)
        change = await _change(workspace, target, replacements)
        if change.applied.changes != planned.applied.changes:
            raise ToolError(
                f"Another call changed {target.shown!r} where this edit belongs; nothing was "
                "changed now. Read it again, then retry."
            )
        identity = await files.write(target.real, change.data, expected=change.identity)
        workspace.seen.note(target.real, identity)
    return Outcome(
        result=(TextPart(text=await asyncio.to_thread(_told, target, change)),),
        content=change.content if change.file != planned.file else None,
        locations=(ToolCallLocation(path=target.path, line=change.line),),
    )


def _told(target: Target, change: _Change) -> str:
    count = len(change.applied.changes)
    head = f"Edited {target.shown}: {count} replacement{'s' if count != 1 else ''}."
    notes = [f"({note})" for note in change.applied.notes]
    return "\n".join([head, *notes, unified(change.file.text, change.applied.text)])
