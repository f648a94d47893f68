"""Results of undo for people, and what an agent is sent of one."""

from collections.abc import Iterator

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.events import Redone, Rewound
from quarterdeck.wire.terminal_text import count_noun

from .api import TurnInfo, UndoResult

__all__ = ["describe_result", "describe_turn", "make_note"]

_MOST_NAMED = 20


def describe_result(result: UndoResult) -> str:
    """What was done, in a few lines."""
    return "\n".join(_result_lines(result))


def _result_lines(result: UndoResult) -> Iterator[str]:
    done = "undone" if result.action == "undo" else "redone"
    conversation = {
        "rewound": "the conversation continues before it",
        "noted": "the next prompt tells the agent",
        "unchanged": "the conversation is unchanged",
    }[result.conversation]
    if result.action == "redo" and result.conversation == "rewound":
        conversation = "the conversation is restored"
    files = count_noun(result.restored, "file")
    yield f"{result.name}: turn {result.number} ({result.prompt!r}) {done}: {files} restored; " + (
        conversation
    )
    if result.merged:
        yield f"Later changes by others stay in {', '.join(result.merged[:_MOST_NAMED])}."
    for one in result.kept[:_MOST_NAMED]:
        yield f"Not changed: {one.path}: {one.reason}"
    if len(result.kept) > _MOST_NAMED:
        yield f"Not changed: {len(result.kept) - _MOST_NAMED} more files"
    for reason in result.uncovered[:_MOST_NAMED]:
        yield f"Not recorded exactly: {reason}"
    if result.forced:
        yield "Later changes were overwritten; redo brings them back."


def describe_turn(turn: TurnInfo) -> str:
    """A turn in one line."""
    time = format_local_time(turn.time, "%H:%M")
    state = "" if turn.in_conversation else ", not in the conversation"
    if turn.files in ("undone", "partly undone"):
        state += f", files {turn.files}"
    names = sorted({name for one in turn.shared for name in one.agents})
    if names:
        state += f", {count_noun(len(turn.shared), 'file')} shared with {', '.join(names)}"
    return f"{turn.number}. {time} {turn.prompt!r}: {count_noun(turn.changed, 'file')}{state}"


def make_note(moves: list[tuple[Rewound | Redone, tuple[str, ...]]]) -> str | None:
    """What an agent is sent of undone turns before its next prompt; None: nothing.

    ``moves``: each with the prompts of its turns.
    """
    lines: list[str] = []
    for event, prompts in moves:
        what = "undone" if isinstance(event, Rewound) else "restored after an undo"
        lines += [
            f"- your changes to files after the prompt {one!r} were {what}" for one in prompts
        ]
        if event.kept:
            named = ", ".join(event.kept[:_MOST_NAMED])
            lines.append(f"  except in these files, which are unchanged: {named}")
    if not lines:
        return None
    return (
        "[Quarterdeck] Since your last turn:\n" + "\n".join(lines) + "\n"
        "Read files again before you rely on what you know of them.\n"
    )
