"""``write``: a whole file in one step."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from quarterdeck.system.api import FileIdentity
from quarterdeck.wire.terminal_text import count_noun
from quarterdeck.wire.tool_calls import ToolCallLocation, ToolKind

from ..diffs import diff_content
from ..file_access import (
    FileTarget,
    expect_seen,
    expect_unmoved,
    look_up_path,
    uses_crlf,
    with_crlf,
)
from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..workspace import ToolWorkspace

__all__ = ["WriteArguments", "WriteTool"]

_LIMIT = 10_000_000
_BOM = b"\xef\xbb\xbf"


class WriteArguments(Arguments, frozen=True, kw_only=True):
    """What to write where."""

    path: Annotated[
        str, Meta(description="The file, relative to the working directory or absolute.")
    ]
    content: Annotated[str, Meta(description="The full content of the file.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What would be written, and over what."""

    target: FileTarget
    data: bytes
    identity: FileIdentity | None
    """Of the content that would be replaced; None for a new file."""
    old: str | None
    kept: str
    """What of the old form is kept, for the model."""


class WriteTool:
    """Creates or replaces a file; one that is there only if the model has seen it as it is."""

    name = "write"
    kind: ToolKind = "edit"
    arguments = WriteArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(self, arguments: WriteArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Compare with what is there. Raises OutsideRootsError, ToolError."""
        target = await look_up_path(workspace, arguments.path, "write")
        plan = await _plan(workspace, target, arguments.content)
        new = plan.data.decode("utf-8").removeprefix("\ufeff")

        async def run(live: LiveCall) -> ToolOutcome:
            return await _write(workspace, plan)

        return PreparedCall(
            title=f"{'Create' if plan.old is None else 'Write'} {target.shown}",
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            content=await asyncio.to_thread(diff_content, target.path, plan.old, new),
            locations=(ToolCallLocation(path=target.path),),
        )


async def _plan(workspace: ToolWorkspace, target: FileTarget, content: str) -> _Plan:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The content is not valid text ({error.reason}); send it again."
        ) from error
    if len(data) > _LIMIT:
        raise ToolError(f"The content has {len(data)} bytes; {_LIMIT} can be written at once.")
    if target.stat is None:
        return _Plan(target=target, data=data, identity=None, old=None, kept="")
    if target.stat.kind != "file":
        raise ToolError(f"{target.shown!r} is a {target.stat.kind}; only files can be written.")
    if target.stat.size > _LIMIT:
        raise ToolError(
            f"{target.shown!r} has {target.stat.size} bytes, which is too large for write to "
            "replace."
        )
    if target.stat.size:
        expect_seen(workspace, target)
    there = await workspace.system.files.read(target.real)
    if there.data:
        expect_seen(workspace, target, there.identity)
    return await asyncio.to_thread(_over, target, content, there.data, there.identity)


def _over(target: FileTarget, content: str, there: bytes, identity: FileIdentity) -> _Plan:
    """Plan to write over a file, in its form."""
    old = there.decode("utf-8", "replace").removeprefix("\ufeff")
    kept: list[str] = []
    if uses_crlf(old) and "\n" in content and "\r\n" not in content:
        content = with_crlf(content)
        kept.append("CR LF line endings")
    data = content.encode("utf-8")
    if there.startswith(_BOM) and not data.startswith(_BOM):
        data = _BOM + data
        kept.append("the byte order mark")
    kept_note = f" Kept {' and '.join(kept)} of the file." if kept else ""
    return _Plan(target=target, data=data, identity=identity, old=old, kept=kept_note)


async def _write(workspace: ToolWorkspace, plan: _Plan) -> ToolOutcome:
    target = plan.target
    files = workspace.system.files
    async with workspace.seen.lock(target.real):
        await expect_unmoved(files, target)
        identity = await files.write(
            target.real,
            plan.data,
            expected=plan.identity,
            create=True if plan.identity is None else None,
        )
        workspace.seen.note(target.real, identity)
    lines = plan.data.count(b"\n") + (not plan.data.endswith(b"\n") and bool(plan.data))
    did = "Created" if plan.old is None else "Wrote"
    return text_outcome(
        f"{did} {target.shown}: {count_noun(lines, 'line')}, "
        f"{count_noun(len(plan.data), 'byte')}.{plan.kept}"
    )
