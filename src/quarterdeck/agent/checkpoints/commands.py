"""The commands ``/changes /undo /redo /rewind``, and changes of files as text."""

import asyncio
import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.events import Redone, Rewound
from quarterdeck.wire.terminal_text import count_noun

from .errors import ContentMissingError, NothingToUndoError
from .file_state import BlobStore, FileChange, FileState, Manifest, path_text

if TYPE_CHECKING:
    from .service import Checkpoints
    from .turn_history import TurnState

__all__ = [
    "MoveWords",
    "describe_move",
    "diff_lines",
    "read_move_words",
    "run_checkpoint_command",
    "summary_lines",
    "turn_line",
]

_LONGEST = 1_000_000
"""Bytes of a file beyond which it is not compared line by line."""


def summary_lines(manifest: Manifest) -> Iterator[str]:
    """A line for each file: ``A`` created, ``D`` deleted, ``M`` changed."""
    for change in manifest.changes:
        letter = "A" if change.before is None else "D" if change.after is None else "M"
        yield f"{letter} {path_text(change.path, manifest.root)}"
    yield from (f"! not covered: {one}" for one in manifest.uncovered)


def diff_lines(manifest: Manifest, blobs: BlobStore) -> Iterator[str]:
    """All changes in the form of ``diff -u``, without line ends."""
    for change in manifest.changes:
        yield from _one(change, manifest.root, blobs)


def _one(change: FileChange, root: bytes, blobs: BlobStore) -> Iterator[str]:
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
        yield "contents differ; they are not text, too long, or not stored"
        return
    names = ("/dev/null" if old is None else f"a/{shown}", f"b/{shown}" if new else "/dev/null")
    for line in difflib.unified_diff(before, after, *names, lineterm=""):
        yield line.removesuffix("\n").removesuffix("\r")


def _named(entry: FileState) -> str:
    return f"executable {entry.kind}" if entry.executable else entry.kind


def _text(entry: FileState | None, blobs: BlobStore) -> list[str] | None:
    """The lines of a content; None: it is no text."""
    if entry is None:
        return []
    if not entry.is_restorable:
        return None
    try:
        data = blobs.get(entry.digest)
    except ContentMissingError:
        return None
    if len(data) > _LONGEST or b"\0" in data[:8192]:
        return None
    return data.decode("utf-8", "replace").splitlines(keepends=True)


_MOST_LINES = 400
_MOST_TURNS = 30


class MoveWords(NamedTuple):
    """What was typed after the name of a command."""

    turn: str | None
    files: bool
    conversation: bool
    force: bool


async def run_checkpoint_command(checkpoints: "Checkpoints", name: str, words: str) -> str:
    """Run one of the commands within its turn and give what it says.

    Raises:
        CheckpointError: it could not be done; nothing was changed then.
    """
    move = read_move_words(words)
    if name == "changes":
        return await _changes(checkpoints, move.turn)
    if name == "rewind" and move.turn is None:
        return await _turns(checkpoints)
    if move.turn is not None and name != "rewind":
        raise NothingToUndoError(f"{move.turn!r} is not valid here; use /rewind to go back further")
    history = await checkpoints.history(move.conversation)
    files, conversation, force = move.files, move.conversation, move.force
    if name == "redo":
        done = await history.redo(force=force)
    elif name == "undo":
        done = await history.undo(files=files, conversation=conversation, force=force)
    else:
        assert move.turn is not None
        done = await history.rewind(move.turn, files=files, conversation=conversation, force=force)
    await checkpoints.retold()
    ledger = await checkpoints.ledger()
    return describe_move(done, next(turn for turn in ledger.turns if turn.id == done.to))


def describe_move(done: Rewound | Redone, turn: "TurnState") -> str:
    """What was done, for people."""
    files = f"{done.changed} file{'s' * (done.changed != 1)} restored"
    if isinstance(done, Redone):
        lines = [f"Redone: {files}."]
    else:
        text = (
            "the conversation continues before it"
            if done.conversation
            else ("the conversation is unchanged")
        )
        lines = [f"Restored the start of turn {turn.number} ({turn.prompt!r}): {files}; {text}."]
    if done.kept:
        lines.append(f"Not changed: {', '.join(f'`{path}`' for path in done.kept)}.")
    if done.forced:
        lines.append("Files changed since then were overwritten; redo brings them back.")
    return "\n\n".join(lines)


def turn_line(turn: "TurnState") -> str:
    """A turn in one line."""
    time = format_local_time(turn.time, "%H:%M")
    changed = turn.checkpoint.changed if turn.checkpoint else 0
    state = "" if turn.in_conversation else ", not in the conversation"
    if turn.checkpoint and not turn.is_applied:
        state += ", files undone"
    return f"{turn.number}. {time} {turn.prompt!r}: {count_noun(changed, 'file')}{state}"


async def _turns(checkpoints: "Checkpoints") -> str:
    await checkpoints.history()
    turns = (await checkpoints.ledger()).turns
    if not turns:
        raise NothingToUndoError("no turn has run yet")
    lines = "\n".join(map(turn_line, turns[-_MOST_TURNS:]))
    return f"`/rewind N` goes back to where turn N began.\n\n{lines}"


async def _changes(checkpoints: "Checkpoints", turn: str | None) -> str:

    history = await checkpoints.history()
    manifest = await history.changes(turn)
    blobs = (await checkpoints.snapshots()).blobs
    if not manifest.changes:
        return "No files were changed."
    summary = list(summary_lines(manifest))[:_MOST_LINES]
    lines = await asyncio.to_thread(lambda: list(diff_lines(manifest, blobs)))
    cut = f"\n… and {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else ""
    shown = "\n".join(lines[:_MOST_LINES]) + cut
    return "\n".join(summary) + f"\n\n```diff\n{shown}\n```"


def read_move_words(words: str) -> MoveWords:
    """What was typed after a command's name. Raises NothingToUndoError."""
    turn: str | None = None
    only: str | None = None
    force = False
    for word in words.replace(",", " ").split():
        if word in ("files", "conversation") and only is None:
            only = word
        elif word == "force":
            force = True
        elif turn is None and (word.isdecimal() or word.startswith("trn_")):
            turn = word
        else:
            raise NothingToUndoError(f"{word!r} is not a valid argument")
    return MoveWords(turn, only != "conversation", only != "files", force)
