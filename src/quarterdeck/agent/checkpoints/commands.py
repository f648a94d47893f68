"""The commands about going back, as people type them: ``/changes /undo /redo /rewind``."""

import asyncio
import datetime
from typing import TYPE_CHECKING, NamedTuple

from quarterdeck.wire.events import Redone, Rewound

from .errors import NothingToUndo

if TYPE_CHECKING:
    from .front import Checkpoints
    from .ledger import TurnState

__all__ = ["answer", "told", "turn_line"]

_MOST_LINES = 400
_MOST_TURNS = 30


class _Wish(NamedTuple):
    turn: str | None
    files: bool
    conversation: bool
    force: bool


async def answer(checkpoints: "Checkpoints", name: str, words: str) -> str:
    """Run one of the commands within its turn and give what it says.

    Raises:
        CheckpointError: it could not be done; nothing was changed then.
    """
    wish = _read(words)
    if name == "changes":
        return await _changes(checkpoints, wish.turn)
    if name == "rewind" and wish.turn is None:
        return await _turns(checkpoints)
    if wish.turn is not None and name != "rewind":
        raise NothingToUndo(f"{wish.turn!r} is not understood; to go back further use /rewind")
    history = await checkpoints.history(wish.conversation)
    files, conversation, force = wish.files, wish.conversation, wish.force
    if name == "redo":
        done = await history.redo(force=force)
    elif name == "undo":
        done = await history.undo(files=files, conversation=conversation, force=force)
    else:
        assert wish.turn is not None
        done = await history.rewind(wish.turn, files=files, conversation=conversation, force=force)
    await checkpoints.retold()
    ledger = await checkpoints.ledger()
    return told(done, next(turn for turn in ledger.turns if turn.id == done.to))


def told(done: Rewound | Redone, turn: "TurnState") -> str:
    """What was done, for people."""
    files = f"{done.changed} file{'s' * (done.changed != 1)} restored"
    if isinstance(done, Redone):
        lines = [f"Redone: {files}."]
    else:
        said = (
            "the conversation goes on before it" if done.conversation else "the conversation stays"
        )
        lines = [f"Back to where turn {turn.number} began ({turn.prompt!r}): {files}; {said}."]
    if done.kept:
        lines.append(f"Left as they are: {', '.join(f'`{path}`' for path in done.kept)}.")
    if done.forced:
        lines.append(
            "Files that somebody had changed since were overwritten; redo brings them back."
        )
    return "\n\n".join(lines)


def turn_line(turn: "TurnState") -> str:
    """A turn in one line."""
    time = datetime.datetime.fromtimestamp(turn.time / 1_000_000).astimezone()
    count = turn.checkpoint.changed if turn.checkpoint else 0
    state = "" if turn.is_told else ", not told"
    if turn.checkpoint and not turn.is_applied:
        state += ", files undone"
    return f"{turn.number}. {time:%H:%M} {turn.prompt!r}: {count} files{state}"


async def _turns(checkpoints: "Checkpoints") -> str:
    await checkpoints.history()
    turns = (await checkpoints.ledger()).turns
    if not turns:
        raise NothingToUndo("no turn has run yet")
    lines = "\n".join(map(turn_line, turns[-_MOST_TURNS:]))
    return f"`/rewind N` goes back to where turn N began.\n\n{lines}"


async def _changes(checkpoints: "Checkpoints", turn: str | None) -> str:
    from .showing import diff_lines, summary_lines

    history = await checkpoints.history()
    manifest = await history.changes(turn)
    blobs = (await checkpoints.keeping()).blobs
    if not manifest.changes:
        return "No files were changed."
    summary = list(summary_lines(manifest))[:_MOST_LINES]
    lines = await asyncio.to_thread(lambda: list(diff_lines(manifest, blobs)))
    cut = f"\n… and {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else ""
    shown = "\n".join(lines[:_MOST_LINES]) + cut
    return "\n".join(summary) + f"\n\n```diff\n{shown}\n```"


def _read(words: str) -> _Wish:
    """What was typed after a command's name. Raises NothingToUndo."""
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
            raise NothingToUndo(f"{word!r} is not understood")
    return _Wish(turn, only != "conversation", only != "files", force)
