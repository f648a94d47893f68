"""Replacing text in a file, for ``edit`` and ``multi_edit``: look, show, and do what was shown;
all replacements or none.
"""

import asyncio
import difflib
import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterdeck.system.api import FileIdentity
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.tool_calls import ToolCallContent, ToolCallLocation, ToolKind

from ..diffs import diff_content, first_change, unified
from ..file_access import (
    FileTarget,
    FileText,
    decode_file,
    expect_seen,
    expect_unmoved,
    look_up_file,
)
from ..tool import LiveCall, PreparedCall, ToolError, ToolOutcome
from ..truncation import shorten
from ..workspace import ToolWorkspace
from .matching import TextMatches, TextSpan, find_text

__all__ = ["AppliedReplacements", "Replacement", "apply_replacements", "prepare_change"]

_LISTED = 20
_SHOWN_LINES = 12
_SEARCHED_LINES = 20_000
_COMPARED = 200
_TRIED_LINES = 3
_CANDIDATES = 20


class Replacement(Protocol):
    """One replacement, as the model asks for it."""

    @property
    def old(self) -> str:
        """The text to replace."""
        ...

    @property
    def new(self) -> str:
        """What comes in its place."""
        ...

    @property
    def replace_all(self) -> bool:
        """Whether every place is meant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedReplacements:
    """The text after all replacements."""

    text: str
    changes: tuple[tuple[str, str], ...]
    """What was taken out and put in, in order."""
    notes: tuple[str, ...] = ()
    """How tolerantly a text was found, for the model."""


def apply_replacements(
    text: str, replacements: Sequence[Replacement], shown: str
) -> AppliedReplacements:
    """Make the replacements one after the other, each in the result of the one before.

    Takes time for large texts; call it in a thread. ``shown`` names the file in errors.

    Raises:
        ToolError: one of them cannot be made; then none is.
    """
    changes: list[tuple[str, str]] = []
    notes: list[str] = []
    for number, one in enumerate(replacements, 1):
        which = f"edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
        spans, note = _spans(text, one, which, shown)
        changes += ((text[span.start : span.end], span.new) for span in spans)
        text = _replaced(text, spans)
        if note:
            notes.append(which + note)
    return AppliedReplacements(text=text, changes=tuple(changes), notes=tuple(notes))


def _spans(text: str, one: Replacement, which: str, shown: str) -> tuple[list[TextSpan], str]:
    if not one.old:
        raise ToolError(f"{which}'old' is empty; use write to create or replace a whole file.")
    if one.old == one.new:
        raise ToolError(f"{which}'old' and 'new' are identical; there is nothing to change.")
    found = find_text(text, one.old, one.new)
    if not found.spans:
        raise ToolError(_not_found(text, one.old, which, shown))
    if len(found.spans) > 1 and not (one.replace_all and found.is_exact):
        raise ToolError(_ambiguous(text, found, which, shown))
    note = f"matched ignoring {found.ignoring}" if found.ignoring else ""
    return _without_overlaps(found.spans), note


def _without_overlaps(spans: Sequence[TextSpan]) -> list[TextSpan]:
    kept: list[TextSpan] = []
    for span in spans:
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _replaced(text: str, spans: Sequence[TextSpan]) -> str:
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces += (text[position : span.start], span.new)
        position = span.end
    return "".join([*pieces, text[position:]])


def _ambiguous(text: str, found: TextMatches, which: str, shown: str) -> str:
    numbers = [text.count("\n", 0, span.start) + 1 for span in found.spans[:_LISTED]]
    listed = ", ".join(map(str, numbers)) + (", …" if len(found.spans) > _LISTED else "")
    loosely = f" (ignoring {found.ignoring})" if found.ignoring else ""
    advice = "Give more surrounding lines so that it is unique"
    advice += ", or set replace_all." if found.is_exact else "."
    return (
        f"{which}'old' is in {shown!r} {len(found.spans)} times{loosely}, at lines {listed}; "
        f"nothing was changed. {advice}"
    )


def _not_found(text: str, old: str, which: str, shown: str) -> str:
    told = f"{which}'old' is not in {shown!r}; nothing was changed."
    if re.match(r"\s*\d+\t", old):
        return f"{told} Omit the line numbers that read shows before each line."
    lines = text.split("\n")
    near = _nearest(lines, old)
    if near is None:
        return f"{told} No line of the file is similar. Read the file again."
    end = min(near + min(old.count("\n") + 1, _SHOWN_LINES), len(lines))
    rows = [f"{i + 1:>5}\t{shorten(lines[i].rstrip(), 300)}" for i in range(near, end)]
    return "\n".join([f"{told} The nearest lines are:", *rows])


def _nearest(lines: Sequence[str], old: str) -> int | None:
    """The line where something most like ``old`` begins; None if nothing is like it."""
    places: dict[str, int] = {}
    for index, line in enumerate(lines[:_SEARCHED_LINES]):
        places.setdefault(line.strip()[:_COMPARED], index)
    places.pop("", None)
    pairs = {line: _pairs(line) for line in places}
    wanted = [line.strip()[:_COMPARED] for line in old.split("\n")]
    for offset, line in list(enumerate(wanted))[:_TRIED_LINES]:
        close = difflib.get_close_matches(line, _candidates(pairs, line), n=1) if line else []
        if close:
            return max(places[close[0]] - offset, 0)
    return None


def _candidates(pairs: Mapping[str, set[str]], line: str) -> list[str]:
    """The few lines that share most pairs of letters: comparing all of them takes seconds."""
    wanted = _pairs(line)
    return heapq.nlargest(
        _CANDIDATES, pairs, key=lambda one: len(pairs[one] & wanted) / len(pairs[one] | wanted)
    )


def _pairs(line: str) -> set[str]:
    return {line[index : index + 2] for index in range(max(len(line) - 1, 1))}


_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A file as it is, and as it would be."""

    file: FileText
    identity: FileIdentity
    applied: AppliedReplacements
    content: tuple[ToolCallContent, ...]
    line: int

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        return self.file.encode(self.applied.text)


async def prepare_change(
    tool: str,
    kind: ToolKind,
    path: str,
    replacements: Sequence[Replacement],
    workspace: ToolWorkspace,
) -> PreparedCall:
    """Find out what would change. Raises NoSuchPathError, OutsideRootsError, ToolError."""
    target, stat = await look_up_file(workspace, path, "write")
    if stat.size > _LIMIT:
        raise ToolError(f"{target.shown!r} has {stat.size} bytes; at most {_LIMIT} can be edited.")
    planned = await _change(workspace, target, replacements)

    async def run(live: LiveCall) -> ToolOutcome:
        return await _run(workspace, target, replacements, planned)

    return PreparedCall(
        title=f"Edit {target.shown}",
        call=workspace.call(tool, kind, paths=(target.use,)),
        run=run,
        content=planned.content,
        locations=(ToolCallLocation(path=target.path, line=planned.line),),
    )


async def _change(
    workspace: ToolWorkspace, target: FileTarget, replacements: Sequence[Replacement]
) -> _Change:
    # Before anything of the content can get into an error: was the model allowed to see it?
    expect_seen(workspace, target)
    there = await workspace.system.files.read(target.real)
    expect_seen(workspace, target, there.identity)
    return await asyncio.to_thread(_changed, target, there.data, there.identity, replacements)


def _changed(
    target: FileTarget, data: bytes, identity: FileIdentity, replacements: Sequence[Replacement]
) -> _Change:
    file = decode_file(data, target.shown)
    applied = apply_replacements(file.text, replacements, target.shown)
    if applied.text == file.text:
        raise ToolError(f"The edits do not change {target.shown!r}.")
    try:
        applied.text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f"'new' is not valid text ({error.reason}); send it again.") from error
    return _Change(
        file=file,
        identity=identity,
        applied=applied,
        content=diff_content(target.path, file.text, applied.text),
        line=first_change(file.text, applied.text),
    )


async def _run(
    workspace: ToolWorkspace,
    target: FileTarget,
    replacements: Sequence[Replacement],
    planned: _Change,
) -> ToolOutcome:
    """Make the change in the file as it is now: a call of the same step may have edited it."""
    files = workspace.system.files
    async with workspace.seen.lock(target.real):
        await expect_unmoved(files, target)
        change = await _change(workspace, target, replacements)
        if change.applied.changes != planned.applied.changes:
            raise ToolError(
                f"Another call changed {target.shown!r} in the same place; this edit was not "
                "made. Read the file again, then retry."
            )
        identity = await files.write(target.real, change.data, expected=change.identity)
        workspace.seen.note(target.real, identity)
    return ToolOutcome(
        result=(TextPart(text=await asyncio.to_thread(_told, target, change)),),
        content=change.content if change.file != planned.file else None,
        locations=(ToolCallLocation(path=target.path, line=change.line),),
    )


def _told(target: FileTarget, change: _Change) -> str:
    count = len(change.applied.changes)
    head = f"Edited {target.shown}: {count} replacement{'s' if count != 1 else ''}."
    notes = [f"({note})" for note in change.applied.notes]
    return "\n".join([head, *notes, unified(change.file.text, change.applied.text)])
