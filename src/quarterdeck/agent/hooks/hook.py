"""A hook as it was declared, and what one may answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.policy.rules import Pattern

__all__ = ["Hook", "HookError", "HookFailed", "Reply", "read_reply", "refusal"]


class HookError(QuarterdeckError):
    """A hook is declared wrongly."""


class HookFailed(QuarterdeckError):
    """A hook did not come to an answer; the text is for people, its work is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook of one point."""

    name: str
    """How people are told of it: what it runs, shortened."""
    source: str
    """The file that declares it."""
    timeout: float
    """Seconds."""
    argv: tuple[str, ...] = ()
    """The program and its arguments; empty: it is a function."""
    target: str = ""
    """``module:function``, or the name of an installed one."""
    match: str | None = None
    """The rule of ``pattern``, as it was written."""
    pattern: "Pattern | None" = None
    """Only for calls that this holds for; None: for all."""

    def __str__(self) -> str:
        return repr(self.name)


class Reply(Struct, frozen=True, kw_only=True):
    """What a hook answers; fields that are not known are ignored."""

    decision: Literal["allow", "ask", "deny"] | None = None
    reason: str = ""
    input: dict[str, Any] | None = None
    context: str = ""
    goes_on: bool = field(name="continue", default=False)


def read_reply(data: bytes) -> Reply:
    """Read what a program printed; nothing at all is an answer without a word.

    Raises:
        HookFailed: it is not the JSON that we understand.
    """
    if not data.strip():
        return Reply()
    try:
        return msgspec.json.decode(data, type=Reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = data[:80].decode("utf-8", "replace")
        raise HookFailed(f"it printed no answer that is understood: {error} ({shown!r})") from error


def refusal(hook: Hook, words: str) -> Reply:
    """The answer of a program that left with code 2: it refuses, by what it wrote to stderr."""
    return Reply(decision="deny", reason=words.strip() or f"{hook} refuses and gives no reason")
