"""The commands about the window, as people type them."""

from typing import NamedTuple

from quarterdeck.wire.errors import QuarterdeckError

from .keeper import Context

__all__ = ["COMMANDS", "ContextCommand", "answer"]


class ContextCommand(NamedTuple):
    """A command; ``hint`` is what may be typed after its name."""

    name: str
    description: str
    hint: str = ""


COMMANDS = (
    ContextCommand("context", "Show what fills the model's window"),
    ContextCommand("compact", "Summarise the conversation to make room", "what to keep above all"),
    ContextCommand("pin", "Keep a text, or what was said last, whole", "text"),
    ContextCommand("unpin", "Let a pinned text go, or all of them", "number"),
)


async def answer(context: Context, name: str, words: str) -> str:
    """Run one of ``COMMANDS`` and give what it says; what went wrong is said too."""
    words = words.strip()
    try:
        match name:
            case "context":
                return context.report()
            case "compact":
                return await context.compact(words)
            case "pin":
                return await context.pin(words)
            case "unpin":
                return await _unpin(context, words)
            case _:
                raise ValueError(f"{name!r} is no command about the window")
    except QuarterdeckError as error:
        return f"Not done: {error}."


async def _unpin(context: Context, words: str) -> str:
    if words and not words.isdecimal():
        return f"Not done: {words!r} is no number of a pin."
    return await context.unpin(int(words) if words else None)
