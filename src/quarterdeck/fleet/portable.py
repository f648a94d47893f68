"""What a session was about, in a page: for another agent, of any make, and without a model.

The goal, the last prompts, the files that were touched, the last answer. All of it is quoted.
"""

from collections import deque
from collections.abc import AsyncIterable

from msgspec import UNSET

from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    Prompted,
    Rewound,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.record import Record
from quarterdeck.wire.toolcalls import Diff, ToolCallContent, ToolCallLocation

__all__ = ["Portable", "summarise"]

_GOAL = 4_000
_PROMPTS = 5
_PROMPT = 1_000
_ANSWER = 6_000
_SUMMARY = 6_000
_FILES = 60
_ENDS_A_MESSAGE = (Prompted, ThoughtChunk, ToolCallStarted, TurnStarted, TurnEnded, Rewound)


async def summarise(records: AsyncIterable[Record]) -> str:
    """The summary of a session's records, at most about 25 000 characters."""
    portable = Portable()
    async for record in records:
        if record.parent is None:
            portable.take(record.event)
    return portable.text()


class Portable:
    """Folds events into a summary; takes little memory, whatever the session."""

    def __init__(self) -> None:
        self._goal = ""
        self._prompts: deque[str] = deque(maxlen=_PROMPTS)
        self._answer = ""
        self._speaker: str | None = None
        self._is_speaking = False
        self._changed: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._compacted = ""
        self._kinds: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, _ENDS_A_MESSAGE):
            self._is_speaking = False
        match event:
            case Prompted(content=content):
                said = _words(content)
                self._goal = self._goal or said
                self._prompts.append(said)
            case MessageChunk(content=TextContent(text=said), role="agent", message=message):
                # Without ids, pieces belong together until something else happens.
                is_more = self._is_speaking and None in (message, self._speaker)
                is_more = is_more or (message is not None and message == self._speaker)
                self._answer = (self._answer + said if is_more else said)[: _ANSWER * 4]
                self._speaker, self._is_speaking = message, True
            case ToolCallStarted(call=call, kind=kind):
                self._kinds = {call: kind}
                self._touch(kind, event.locations, event.content)
            case ToolCallEnded(call=call):
                locations = event.locations if event.locations is not UNSET else ()
                content = event.content if event.content is not UNSET else ()
                self._touch(self._kinds.get(call, "other"), locations, content)
            case CompactionChanged(status="completed", summary=str(summary)):
                self._compacted = summary
            case _:
                pass

    def text(self) -> str:
        """The summary so far."""
        parts = [f"What was wanted first:\n{_cut(self._goal, _GOAL) or '(not known)'}"]
        if self._compacted:
            parts.append(f"The agent's own summary:\n{_cut(self._compacted, _SUMMARY)}")
        if len(self._prompts) > 1:
            told = "\n".join(f"- {_cut(' '.join(one.split()), _PROMPT)}" for one in self._prompts)
            parts.append(f"The last prompts:\n{told}")
        if self._changed:
            parts.append(f"Files that were changed:\n{_listed(self._changed)}")
        if looked := {path: None for path in self._read if path not in self._changed}:
            parts.append(f"Files that were looked at:\n{_listed(looked)}")
        parts.append(f"The last answer:\n{_cut(self._answer.strip(), _ANSWER) or '(none)'}")
        return "\n\n".join(parts)

    def _touch(
        self,
        kind: str,
        locations: tuple[ToolCallLocation, ...],
        content: tuple[ToolCallContent, ...],
    ) -> None:
        for item in content:
            if isinstance(item, Diff):
                _note(self._changed, item.path)
        files = self._changed if kind in ("edit", "delete", "move") else self._read
        for location in locations:
            _note(files, location.path)


def _note(files: dict[str, None], path: str) -> None:
    """Note a file as the latest; of many the latest are kept."""
    files.pop(path, None)
    files[path] = None
    if len(files) > _FILES:
        del files[next(iter(files))]


def _words(content: tuple[ContentBlock, ...]) -> str:
    return "\n".join(one.text for one in content if isinstance(one, TextContent)).strip()


def _cut(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _listed(files: dict[str, None]) -> str:
    return "\n".join(f"- {path}" for path in files)
