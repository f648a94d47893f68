"""The format of scripts: what a scripted model says, scene by scene.

A script is a TOML or JSON file of named scenes. A scene has replies, one for each model call of
a turn; a reply has parts, or fails, or breaks in the middle. ``docs/scripted-model.md`` explains
every key with examples; ``file`` reads the files.
"""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, field

from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import ModelStop
from quarterdeck.wire.usage import TokenUsage
from quarterdeck.wire.values import Value

__all__ = [
    "AbstractTool",
    "CallPart",
    "Failure",
    "Fault",
    "FaultKind",
    "Reply",
    "ReplyPart",
    "Scene",
    "Script",
    "ScriptError",
    "SleepPart",
    "TextPart",
    "ThinkingPart",
    "ToolPart",
    "When",
]

Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]
Status: TypeAlias = Annotated[int, Meta(ge=400, le=599)]

AbstractTool: TypeAlias = Literal["write", "shell", "read", "edit", "mcp"]
"""What a tool does, whatever the asking agent calls it."""
FaultKind: TypeAlias = Literal["garbage", "badjson", "unknown", "drop", "noend", "error", "stall"]
"""How a stream goes wrong.

``garbage``, ``badjson`` and ``unknown`` put something unreadable into the stream, which then goes
on; the others end it: the connection is cut, the end marker is missing, the vendor says that it
failed, or nothing more comes.
"""


class ScriptError(ModelSetupError):
    """A script cannot be played; the message names the file, the scene and the key."""


class TextPart(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text; a list is sent chunk by chunk."""

    text: str | tuple[str, ...]
    chunks: Count | None = None
    """In how many pieces the text is sent; one when not said."""
    pause: Seconds | None = None
    """Seconds after each chunk; the reply's when not said."""
    repeat: Count = 1


class ThinkingPart(Value, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """Reasoning shown before the answer."""

    thinking: str | tuple[str, ...]
    chunks: Count | None = None
    pause: Seconds | None = None
    repeat: Count = 1


class ToolPart(Value, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """A call of whichever offered tool does this, with the argument names that it declares."""

    tool: AbstractTool
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: str | None = None
    """What is sent in place of the arguments, valid JSON or not."""
    chunks: Count = 1
    pause: Seconds | None = None
    repeat: Count = 1


class CallPart(Value, frozen=True, kw_only=True, tag_field="type", tag="call"):
    """A call of the tool with exactly this name, offered or not."""

    call: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: str | None = None
    """What is sent in place of the arguments, valid JSON or not."""
    chunks: Count = 1
    pause: Seconds | None = None
    repeat: Count = 1


class SleepPart(Value, frozen=True, kw_only=True, tag_field="type", tag="sleep"):
    """Silence, in seconds."""

    sleep: Seconds


ReplyPart: TypeAlias = TextPart | ThinkingPart | ToolPart | CallPart | SleepPart


class Failure(Value, frozen=True, kw_only=True):
    """The call is refused before any reply begins."""

    status: Status = 500
    kind: Literal["overflow", "quota", "hangup"] | None = None
    """``overflow`` and ``quota`` take each vendor's own words for a request larger than the
    window and for an empty account; ``hangup`` closes the connection without an answer."""
    message: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str | dict[str, Any] | None = None
    """In place of the vendor's error body."""
    times: Count | None = None
    """How often, per prompt; afterwards the reply's parts are played. Always when not said."""


class Fault(Value, frozen=True, kw_only=True):
    """The reply begins and then goes wrong."""

    kind: FaultKind
    after: Annotated[int, Meta(ge=0)] | None = None
    """How many chunks come first; all of them when not said."""
    times: Count | None = None
    """How often, per prompt; afterwards the reply is played without it. Always when not said."""
    seconds: Seconds = 600.0
    """How long a ``stall`` lasts before the connection is cut."""
    status: Status = 529
    """What an ``error`` says."""
    message: str | None = None

    ENDING: ClassVar[frozenset[str]] = frozenset(["drop", "noend", "error", "stall"])

    @property
    def ends(self) -> bool:
        """Whether nothing of the reply comes after the fault."""
        return self.kind in self.ENDING


class Reply(Value, frozen=True, kw_only=True):
    """The answer to one model call."""

    parts: tuple[ReplyPart, ...] = ()
    usage: TokenUsage | None = None
    """Counted when not said: bytes divided by four, rounded up."""
    stop: ModelStop | None = None
    """``tool_use`` or ``end_turn`` when not said."""
    delay: Seconds = 0.0
    """Seconds before the answer begins, headers included."""
    pause: Seconds = 0.0
    """Seconds after each chunk."""
    error: Failure | None = None
    fault: Fault | None = None
    repeat: Count = 1
    """For how many model calls of the turn this reply stands."""

    @classmethod
    def of(cls, *parts: ReplyPart | str) -> "Reply":
        """A reply of these parts; a string is text."""
        return cls(parts=tuple(TextPart(text=p) if isinstance(p, str) else p for p in parts))


class When(Value, frozen=True, kw_only=True):
    """Conditions that must all hold for a scene to be chosen without being named."""

    contains: str | None = None
    """Text within the last prompt."""
    matches: str | None = None
    """A regular expression found in the last prompt."""
    turn: Count | None = None
    """The number of the prompt in its conversation, from 1."""
    agent: str | None = None
    """Who asks: the NAME of a server path that begins with ``/agent/NAME``."""
    model: str | None = None
    """A regular expression found in the name of the model that is asked for."""


class Scene(Value, frozen=True, kw_only=True):
    """What happens in one turn. Past the last reply, the last one is played again."""

    replies: Annotated[tuple[Reply, ...], Meta(min_length=1)]
    when: When | None = None


class Script(Value, frozen=True, kw_only=True):
    """Everything a scripted model says."""

    scenes: dict[str, Scene]
    play: Literal["scenes", "sequence"] = "scenes"
    """``sequence``: each model call takes the next reply of the file, whatever is asked."""
    default: str | None = None
    """The scene for prompts that choose none; an echo of the prompt when not said."""

    @classmethod
    def sequence(cls, *replies: Reply | str) -> "Script":
        """A script whose replies are played one after the other; a string is a text reply."""
        played = tuple(Reply.of(r) if isinstance(r, str) else r for r in replies)
        return cls(scenes={"sequence": Scene(replies=played)}, play="sequence")
