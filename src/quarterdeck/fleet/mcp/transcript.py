"""What an agent said and did, as short text for another agent, page by page."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.event_text import describe_event
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.permissions import Selected
from quarterdeck.wire.record import Record

from ..api import Fleet
from .agent_text import cut, extract_prompt_text

__all__ = ["AgentTranscriptPage", "last_words", "read_page"]

_PAGE_RECORDS = 400
_MOST_READS = 25
_END = 1 << 62
"""Beyond every sequence number."""
_LONGEST_ENTRY = 4_000
_LONGEST_LINE = 1_000
"""Of what is said about an event; messages and prompts are longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTranscriptPage:
    """A part of a transcript."""

    text: str
    earlier: str | None
    """The cursor of what came before; None at the beginning."""
    later: str
    """The cursor of what comes after, now or later."""
    has_more: bool
    """Whether something comes after already."""


@dataclass(slots=True)
class _Entry:
    who: str
    words: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.who}: {cut(self.words.strip(), _LONGEST_ENTRY)}"


async def read_page(fleet: Fleet, agent: str, cursor: str | None, most: int) -> AgentTranscriptPage:
    """Read one page of at most about ``most`` characters; without a cursor the last one.

    Raises:
        ValueError: it is no cursor of ours.
    """
    way, position = _parse(cursor)
    if way == "after":
        return await _after(fleet, agent, position, most)
    return await _before(fleet, agent, position, most)


async def last_words(fleet: Fleet, agent: str, most: int) -> str:
    """What the agent said last, since its last prompt; empty if it said nothing."""
    entries: list[_Entry] = []
    position: int | None = None
    for _ in range(_MOST_READS):
        records = await fleet.read(agent, before=position or _END, limit=_PAGE_RECORDS)
        entries = _joined([*_entries(records), *entries])
        if not records or any(one.who == "prompt" for one in entries):
            break
        position = records[0].seq
    last = next((n for n, one in enumerate(reversed(entries)) if one.who == "prompt"), len(entries))
    answers = [one.words for one in entries[len(entries) - last :] if one.who == "agent"]
    words = answers[-1].strip() if answers else ""
    return (
        words if len(words) <= most else f"({len(words) - most} characters before) {words[-most:]}"
    )


async def _after(fleet: Fleet, agent: str, position: int, most: int) -> AgentTranscriptPage:
    entries: list[_Entry] = []
    first, last, has_more = position, position, True
    for _ in range(_MOST_READS):
        records = await fleet.read(agent, after=last, limit=_PAGE_RECORDS)
        has_more = len(records) == _PAGE_RECORDS
        entries = _joined([*entries, *_entries(records)])
        last = records[-1].seq if records else last
        if not has_more or _size(entries) >= most:
            break
    kept = _fitting(entries, most)
    if len(kept) < len(entries):
        last, has_more = kept[-1].last, True
    earlier = f"before:{first + 1}" if first else None
    return AgentTranscriptPage(
        text=_text(kept), earlier=earlier, later=f"after:{last}", has_more=has_more
    )


async def _before(fleet: Fleet, agent: str, position: int, most: int) -> AgentTranscriptPage:
    entries: list[_Entry] = []
    first, last = position, 0
    has_earlier = True
    for _ in range(_MOST_READS):
        records = await fleet.read(agent, before=first, limit=_PAGE_RECORDS)
        has_earlier = len(records) == _PAGE_RECORDS
        if records:
            first, last = records[0].seq, max(last, records[-1].seq)
        entries = _joined([*_entries(records), *entries])
        if not has_earlier or _size(entries) >= most:
            break
    kept = _fitting(entries[::-1], most)[::-1]
    if len(kept) < len(entries):
        first, has_earlier = kept[0].first, True
    has_more = position < _END
    return AgentTranscriptPage(
        text=_text(kept),
        earlier=f"before:{first}" if has_earlier else None,
        later=f"after:{position - 1 if has_more else last}",
        has_more=has_more,
    )


def _parse(cursor: str | None) -> tuple[str, int]:
    if cursor is None:
        return "before", _END
    way, _, number = cursor.partition(":")
    if way not in ("after", "before") or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{cursor!r} is not a cursor; use one that read_transcript returned")
    return way, min(int(number), _END)


def _size(entries: Iterable[_Entry]) -> int:
    return sum(min(len(one.words), _LONGEST_ENTRY) for one in entries)


def _fitting(entries: list[_Entry], most: int) -> list[_Entry]:
    """The first of them that fit, one at the least."""
    size = 0
    for n, one in enumerate(entries):
        size += min(len(one.words), _LONGEST_ENTRY)
        if size > most and n:
            return entries[:n]
    return entries


def _text(entries: Iterable[_Entry]) -> str:
    return "\n\n".join(str(one) for one in entries)


def _joined(entries: Iterable[_Entry]) -> list[_Entry]:
    """Pieces of one message as one entry."""
    joined: list[_Entry] = []
    for one in entries:
        if joined and one.who == joined[-1].who == "agent":
            joined[-1].words += one.words
            joined[-1].last = one.last
        else:
            joined.append(one)
    return joined


def _entries(records: Iterable[Record]) -> Iterator[_Entry]:
    for record in records:
        if record.parent is not None:
            continue  # what sub-agents of an agent's own do is its own affair
        if (shown := _shown_entry(record.event)) is not None:
            yield _Entry(*shown, record.seq, record.seq)


def _shown_entry(event: Event) -> tuple[str, str] | None:
    """Who says what; None: nothing that another agent needs to know."""
    if isinstance(event, Prompted):
        return "prompt", extract_prompt_text(event.content)
    if isinstance(event, MessageChunk) and isinstance(event.content, TextContent):
        return "agent", event.content.text
    who = _speaker(event)
    shown = describe_event(event) if who else None
    return (who, cut(shown.text, _LONGEST_LINE)) if shown is not None else None


def _speaker(event: Event) -> str:
    match event:
        case ToolCallStarted() | ToolCallEnded(status="failed" | "cancelled"):
            return "tool"
        case TurnEnded(stop="end_turn"):
            return ""
        case TurnEnded() | SessionEnded():
            return "end"
        case PermissionAsked() | PermissionAnswered(outcome=Selected()):
            return "permission"
        case QuestionAsked() | QuestionAnswered():
            return "question"
        case _:
            return ""
