"""The blocks that a transcript is made of, and their text."""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.events import Origin
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import Diff, ToolCallLocation
from quarterdeck.wire.usage import Cost, TokenUsage

from .images import BlockImage

__all__ = [
    "MOST_TEXT",
    "Block",
    "CallStatus",
    "EndBlock",
    "NoteBlock",
    "PlanBlock",
    "PromptBlock",
    "RunBlock",
    "ShownBlock",
    "TextBlock",
    "ToolBlock",
    "can_join_run",
    "format_json",
    "has_failed",
    "images_of",
    "text_of_block",
    "truncate_text",
    "weigh_block",
]

MOST_TEXT = 200_000
"""Characters of one block that are kept in memory; the log has all of it."""

CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]


class PromptBlock(Struct, kw_only=True):
    """What someone said to the agent."""

    first: int
    last: int
    version: int = 0
    time: int = 0
    """Microseconds since the epoch; 0 in any block: not known."""
    text: str
    left: int = 0
    """Characters that are not in ``text``."""
    origin: Origin = "person"
    steers: bool = False
    """It was given to a running turn."""
    images: tuple[BlockImage, ...] = ()
    """Shown below the text."""
    expanded: bool = False


class TextBlock(Struct, kw_only=True):
    """Words of the agent, or its thoughts, as they come."""

    first: int
    last: int
    version: int = 0
    time: int = 0
    """When its first part came."""
    ended: int = 0
    """When its last part came."""
    kind: Literal["message", "thought", "user"]
    message: str | None = None
    is_whole: bool = False
    """Nothing more comes."""
    is_cut: bool = False
    """It may have begun before the first record that is known."""
    parts: list[str] = field(default_factory=list[str])
    """Their text only ever grows, so that a view may go on from where it was."""
    size: int = 0
    """Characters of all parts."""
    left: int = 0
    """Characters that came after those and are not kept."""
    parent: str | None = None
    """The tool call whose sub-agent says it."""
    images: tuple[BlockImage, ...] = ()
    """Shown in the place of the text, which then only says what they are."""
    expanded: bool = False

    @property
    def text(self) -> str:
        """All of it that is kept."""
        if len(self.parts) > 1 and self.is_whole:
            self.parts[:] = ["".join(self.parts)]
        return "".join(self.parts)

    def add(self, text: str, most: int | None = MOST_TEXT) -> None:
        """Take what comes next; what is beyond ``most`` characters is only counted."""
        part = text if most is None else text[: max(0, most - self.size)]
        if part:
            self.parts.append(part)
            self.size += len(part)
        self.left += len(text) - len(part)

    def since(self, taken: int) -> str:
        """What stands after the first ``taken`` characters; costs what that costs."""
        found: list[str] = []
        missing = self.size - taken
        for part in reversed(self.parts):
            if missing <= 0:
                break
            found.append(part if len(part) <= missing else part[-missing:])
            missing -= len(part)
        return "".join(reversed(found))


class ToolBlock(Struct, kw_only=True):
    """A tool call: what it is, how far, and what came of it."""

    first: int
    last: int
    version: int = 0
    time: int = 0
    began: int = 0
    """When it started, or was allowed; 0: not known."""
    ended: int = 0
    cwd: str = ""
    """Where the agent works: paths are shown from there on."""
    call: str
    title: str = ""
    name: str | None = None
    kind: str = "other"
    status: CallStatus = "pending"
    reason: str | None = None
    texts: tuple[str, ...] = ()
    """Content that is no diff and no terminal."""
    images: tuple[BlockImage, ...] = ()
    """Images among its content; ``texts`` says what each is."""
    diffs: tuple[Diff, ...] = ()
    terminals: tuple[str, ...] = ()
    output: str = ""
    """What its terminals wrote; the end of it where it is very long."""
    exit: str | None = None
    """How its terminal's command ended."""
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    decision: str | None = None
    """Who allowed or denied it."""
    asked: str = ""
    """What permission was asked for; its title where the call has none."""
    is_asking: bool = False
    is_cut: bool = False
    """Its beginning is not known yet."""
    is_interrupted: bool = False
    """Its session ended before it did; there is no result."""
    is_persons: bool = False
    """A command that the person ran, not the agent."""
    inner: "Block | None" = None
    """What its sub-agent did last."""
    inner_calls: int = 0
    """Tool calls of its sub-agent."""
    run: "RunBlock | None" = None
    """The run that it is the first of; see ``RunBlock``."""
    is_run_open: bool = False
    """The run that it belongs to is unfolded."""
    parent: str | None = None
    expanded: bool = False


class PlanBlock(Struct, kw_only=True):
    """The agent's plan as it was at one time."""

    first: int
    last: int
    version: int = 0
    time: int = 0
    entries: tuple[PlanEntry, ...]
    parent: str | None = None
    expanded: bool = False


class NoteBlock(Struct, kw_only=True):
    """One thing that happened, in a line."""

    first: int
    last: int
    version: int = 0
    time: int = 0
    text: str
    severity: Literal["quiet", "info", "warning", "error", "question"] = "quiet"
    request: str | None = None
    is_checkpoint: bool = False
    """It says how many files a turn changed."""
    parent: str | None = None
    expanded: bool = False


class EndBlock(Struct, kw_only=True):
    """How a turn ended, and what it took."""

    first: int
    last: int
    version: int = 0
    stop: str
    reason: str | None = None
    usage: TokenUsage | None = None
    cost: Cost | None = None
    began: tuple[int, int] | None = None
    """Sequence number and time of its beginning; None: that is not in the window."""
    ended: int
    """Microseconds since the epoch."""
    edits: tuple[Diff, ...] = ()
    """What the calls of the turn changed, as far as they are in the window."""
    parent: str | None = None

    @property
    def time(self) -> int:
        """When the turn ended."""
        return self.ended


Block: TypeAlias = PromptBlock | TextBlock | ToolBlock | PlanBlock | NoteBlock | EndBlock


class RunBlock(Struct, kw_only=True, eq=False):
    """Reads and searches that follow each other, shown in one line; in no log and no store."""

    first: int
    last: int
    version: int = 0
    calls: tuple[ToolBlock, ...]
    parent: str | None = None
    expanded: bool = False

    @property
    def time(self) -> int:
        """When the first of them came."""
        return self.calls[0].time

    def update(self, calls: tuple[ToolBlock, ...]) -> None:
        """Take its calls as they are now; ``version`` changes if anything of it does."""
        expanded = any(call.is_run_open or call.expanded for call in calls)
        for call in calls:
            call.is_run_open = expanded
        is_same = (
            self.expanded == expanded
            and len(calls) == len(self.calls)
            and all(map(lambda a, b: a is b, calls, self.calls))
        )
        self.calls, self.expanded = calls, expanded
        self.first, self.last = calls[0].first, calls[-1].last
        self.parent = calls[0].parent
        self.version += not is_same

    def toggle(self) -> None:
        """Show its calls, or only how many they are."""
        for call in self.calls:
            call.is_run_open = not self.expanded
            call.expanded = call.expanded and call.is_run_open
            call.version += 1


ShownBlock: TypeAlias = Block | RunBlock
"""What a view shows: blocks, and runs of them."""


def images_of(block: ShownBlock) -> tuple[BlockImage, ...]:
    """The images of a block."""
    return block.images if isinstance(block, PromptBlock | TextBlock | ToolBlock) else ()


def has_failed(block: ToolBlock) -> bool:
    """Whether a call failed; a command whose exit code is not 0 did."""
    return block.status == "failed" or block.exit not in (None, "0")


def can_join_run(block: Block) -> bool:
    """Whether a block may be folded into one line with others like it."""
    return (
        isinstance(block, ToolBlock)
        and block.kind in ("read", "search")
        and block.status == "completed"
        and block.inner is None
        and not (block.is_asking or block.diffs or block.images or has_failed(block))
        and not (block.decision or "").startswith(("denied", "cancelled"))
    )


def weigh_block(block: Block) -> int:
    """About how many characters a block keeps in memory."""
    match block:
        case TextBlock():
            return block.size
        case PromptBlock() | NoteBlock():
            return len(block.text)
        case ToolBlock():
            changed = sum(len(diff.old_text or "") + len(diff.new_text) for diff in block.diffs)
            return len(block.output) + sum(map(len, block.texts)) + changed
        case EndBlock():
            return sum(len(diff.old_text or "") + len(diff.new_text) for diff in block.edits)
        case PlanBlock():
            return 0


def truncate_text(text: str, most: int | None = MOST_TEXT) -> str:
    """The beginning of a text, with a note where it is longer than may be kept; None: all."""
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters in the log"


def format_json(value: Any) -> str:
    """A value as a person reads it: one text as it is, all else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return repr(value)


def text_of_block(block: Block) -> str:
    """What the block says, as it was said; a tool call with all of its parts."""
    match block:
        case PromptBlock() | TextBlock() | NoteBlock():
            return block.text
        case ToolBlock():
            return "\n".join(_tool(block))
        case PlanBlock():
            return "\n".join(entry.content for entry in block.entries)
        case EndBlock():
            return block.reason or ""


def _tool(block: ToolBlock) -> Iterator[str]:
    yield " ".join(filter(None, (block.name, block.title or block.asked)))
    if block.raw_input is not None:
        yield format_json(block.raw_input)
    for place in block.locations:
        yield place.path
    for diff in block.diffs:
        yield from (diff.path, diff.new_text)
    yield from block.texts
    yield from (f"[image {one.facts} {one.name}]" for one in block.images)
    if block.output:
        yield block.output
    shown = block.texts or block.images or block.diffs or block.output
    if block.raw_output is not None and not shown:
        yield format_json(block.raw_output)
    if block.decision:
        yield block.decision
    if block.reason:
        yield block.reason
