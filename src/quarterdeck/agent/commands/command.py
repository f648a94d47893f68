"""What a slash command is: one that is answered here, or one that stands for a longer prompt."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from quarterdeck.wire.content import ContentBlock

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["BUILT_IN", "AnsweredCommand", "Command", "ExpandedCommand"]

BUILT_IN = "built in"


class _Named(Struct, frozen=True, kw_only=True):
    """What people see of a command."""

    name: str
    """Without the slash; no white space."""
    description: str
    hint: str = ""
    """What may be typed after the name."""
    source: str = BUILT_IN
    """Where it comes from: ``built in``, or its file."""


class AnsweredCommand(_Named, frozen=True, kw_only=True):
    """A command that we answer; the model is neither asked nor ever told of it."""

    answer: Callable[["Session", str], Awaitable[str]]
    """Does it, in a turn of its own, with what was typed after the name; gives what to say.

    A ``QuarterdeckError`` is said, too. May be cancelled.
    """


class ExpandedCommand(_Named, frozen=True, kw_only=True):
    """A command that stands for a prompt: the model is told that, people see what was typed."""

    expand: Callable[["Session", str], Awaitable[tuple[ContentBlock, ...]]]
    """Gives the prompt. A ``QuarterdeckError`` is said instead, and the model is not asked."""


Command: TypeAlias = AnsweredCommand | ExpandedCommand
