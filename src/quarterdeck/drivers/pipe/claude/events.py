"""Lines of Claude Code's stream-json as events; pure, so that recorded sessions can be replayed."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from quarterdeck.wire.content import ContentBlock, ImageContent, TextContent, text
from quarterdeck.wire.events import (
    CommandsChanged,
    CompactionChanged,
    Event,
    MessageChunk,
    ModeChanged,
    NoticePosted,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.ids import CompactionId, ToolCallId, new_compaction_id
from quarterdeck.wire.settings import Command, CommandInput
from quarterdeck.wire.tool_calls import ContentItem, Diff, ToolCallContent
from quarterdeck.wire.usage import ContextUsage, Cost

from ...foreign_json import as_list, as_map, as_number, as_text
from ...link import TurnOutcome
from .messages import ClaudeMessages, ClaudeUsage, as_amount, call_started_event

__all__ = ["ClaudeEvent", "ClaudeTranslator", "commands_of"]

_QUIET_TYPES = frozenset(("keep_alive", "command_lifecycle"))
_QUIET_SYSTEM = frozenset(("thinking_tokens", "session_state_changed", "task_updated"))
_INTERRUPTED = "[Request interrupted by user"
_COMMAND_OUTPUT = re.compile(r"<local-command-(?:stdout|stderr)>(.*?)</local-command-\w+>", re.S)
_LAST_MOMENT = 10**11
_RESET = re.compile(r"\|(\d{10})\b")


@dataclass(frozen=True, slots=True)
class ClaudeEvent:
    """One thing that a line says: an event in its place, or how the turn ended."""

    event: Event | None = None
    parent: ToolCallId | None = None
    outcome: TurnOutcome | None = None


class ClaudeTranslator:
    """Turns each line to what it says. Never raises, whatever the line; keeps the turn's state."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._accounts = ClaudeUsage()
        self._messages: dict[str, ClaudeMessages] = {"": ClaudeMessages(origin)}
        self._shown: dict[str, tuple[ToolCallContent, ...]] = {}
        """What open calls show, such as a change of a file."""
        self._tasks: dict[str, str] = {}
        """The call that began each sub-agent, by the sub-agent's own id."""
        self._session = ""
        self._model = ""
        self._mode = ""
        self._commands: frozenset[str] = frozenset()
        self._compaction: CompactionId | None = None
        self._failure = ""
        """The text of an answer that was a failure of the API."""
        self._lines: dict[str, Callable[[Mapping[str, Any]], Iterator[Event]]] = {
            "stream_event": self._stream,
            "assistant": self._assistant,
            "user": self._user,
            "system": self._system,
            "rate_limit_event": self._rate_limit,
            "tool_progress": self._progress,
        }

    def read(self, line: Mapping[str, Any]) -> Iterator[ClaudeEvent]:
        """What a line says, in order; all but the control protocol."""
        kind = as_text(line.get("type"))
        if kind == "result":
            yield from self._result(line)
            return
        if kind in _QUIET_TYPES:
            return
        reader = self._lines.get(kind, self._unknown)
        parent = as_text(line.get("parent_tool_use_id")) if kind != "tool_progress" else ""
        for event in reader(line):
            if isinstance(event, ToolCallStarted):
                self._shown[event.call] = event.content
            yield ClaudeEvent(event, ToolCallId(parent) if parent else None)

    def asked(self, request: Mapping[str, Any]) -> Iterator[ClaudeEvent]:
        """The call of a permission request; a sub-agent asks before it announces the call."""
        call = as_text(request.get("tool_use_id"))
        if not call or request.get("subtype") != "can_use_tool":
            return
        event = call_started_event(call, as_text(request.get("tool_name")), request.get("input"))
        self._shown[call] = event.content
        parent = self._tasks.get(as_text(request.get("agent_id")))
        yield ClaudeEvent(event, ToolCallId(parent) if parent else None)

    def noise(self, line: str) -> ClaudeEvent:
        """A line that is no JSON object."""
        return ClaudeEvent(
            UnknownEvent(origin=self._origin, raw=line, reason="it is not a JSON object")
        )

    def answer(self, response: Mapping[str, Any]) -> Iterator[Event]:
        """The events of an answer to a request of ours: the greeting, or another model."""
        commands = commands_of(response.get("commands"))
        if commands:
            self._commands = frozenset(one.name for one in commands)
            yield CommandsChanged(commands=commands)
        self._mode = as_text(response.get("current_permission_mode")) or self._mode
        model = as_text(response.get("model"))
        if model and model != self._model:
            self._model = model
            yield SessionChanged(model=model)

    def _unknown(self, line: Mapping[str, Any]) -> Iterator[Event]:
        yield UnknownEvent(origin=self._origin, raw=line)

    # What the model says

    def _speaker(self, line: Mapping[str, Any]) -> ClaudeMessages:
        parent = as_text(line.get("parent_tool_use_id"))
        return self._messages.setdefault(parent, ClaudeMessages(self._origin))

    def _stream(self, line: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._speaker(line).stream(as_map(line.get("event")))

    def _assistant(self, line: Mapping[str, Any]) -> Iterator[Event]:
        message = as_map(line.get("message"))
        if line.get("is_api_error_message"):
            # The result, which follows, has the same text; as a message it would appear twice.
            self._failure = _joined(message.get("content"))
            if line.get("error") == "rate_limit" or line.get("api_error_status") == 429:
                yield RateLimited(reason=self._failure, resets_at=_reset_in(self._failure))
            return
        yield from self._speaker(line).whole(message)

    # What is sent to the model

    def _user(self, line: Mapping[str, Any]) -> Iterator[Event]:
        content = as_map(line.get("message")).get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = as_list(content)
        results = [one for one in map(as_map, blocks) if one.get("type") == "tool_result"]
        for block in map(as_map, blocks):
            if block.get("type") == "tool_result":
                output = line.get("tool_use_result", UNSET) if len(results) == 1 else UNSET
                yield self._tool_result(block, output)
            else:
                yield from self._user_block(line, block)

    def _user_block(self, line: Mapping[str, Any], block: Mapping[str, Any]) -> Iterator[Event]:
        words = as_text(block.get("text"))
        if output := _COMMAND_OUTPUT.search(words):
            if output[1]:
                yield MessageChunk(content=text(output[1]))
        elif line.get("isReplay") or words.startswith(_INTERRUPTED):
            return
        elif words:
            yield MessageChunk(content=text(words), role="user")
        else:
            yield UnknownEvent(origin=self._origin, raw=block)

    def _tool_result(self, block: Mapping[str, Any], output: Any) -> ToolCallEnded:
        call = as_text(block.get("tool_use_id"))
        failed = block.get("is_error") is True
        content = tuple(ContentItem(content=one) for one in _blocks(block.get("content")))
        reason = _joined(block.get("content"))[:1000] if failed else None
        shown: tuple[ToolCallContent, ...] | UnsetType = content
        if self._shown.pop(call, ()) and not failed:
            shown = _changed(as_map(output))
        return ToolCallEnded(
            call=ToolCallId(call or "unnamed"),
            status="failed" if failed else "completed",
            reason=reason or None,
            content=shown,
            raw_output=output,
        )

    def _progress(self, line: Mapping[str, Any]) -> Iterator[Event]:
        # A heartbeat of a sub-agent has an id that no call has, and names the call as its parent.
        ids = (as_text(line.get(key)) for key in ("tool_use_id", "parent_tool_use_id"))
        call = next((one for one in ids if one in self._shown), None)
        if call is not None:
            yield ToolCallUpdated(call=ToolCallId(call), status="in_progress")

    # What the program says of itself

    def _system(self, line: Mapping[str, Any]) -> Iterator[Event]:
        match as_text(line.get("subtype")):
            case "init":
                yield from self._init(line)
            case "status":
                yield from self._status(line)
            case "compact_boundary":
                yield from self._compacted("completed")
            case "api_retry":
                yield from _retry(line)
            case "local_command_output":
                if words := as_text(line.get("content")):
                    yield MessageChunk(content=text(words))
            case "permission_denied":
                name = as_text(line.get("tool_name")) or "a tool"
                title = f"{name} was not allowed by the agent's own rules"
                yield NoticePosted(title=title, description=as_text(line.get("message")) or None)
            case "task_started" | "task_progress" | "task_notification":
                yield from self._task(line)
            case subtype if subtype in _QUIET_SYSTEM:
                pass
            case _:
                yield UnknownEvent(origin=self._origin, raw=line)

    def _task(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """How a sub-agent, or a command in the background, gets on."""
        call = as_text(line.get("tool_use_id"))
        if task := as_text(line.get("task_id")):
            self._tasks[task] = call
        if call in self._shown:
            yield ToolCallUpdated(call=ToolCallId(call), status="in_progress")
        elif line.get("subtype") == "task_notification":
            # Its call is over: it went on in the background.
            text = as_text(line.get("summary")) or "a task in the background"
            yield NoticePosted(title=f"{as_text(line.get('status')) or 'over'}: {text}")

    def _init(self, line: Mapping[str, Any]) -> Iterator[Event]:
        session, model = as_text(line.get("session_id")), as_text(line.get("model"))
        if (session, model) != (self._session, self._model):
            self._session, self._model = session, model
            yield SessionChanged(agent_session=session or UNSET, model=model or UNSET)
        yield from self._mode_now(line)
        names = line.get("slash_commands")
        commands = commands_of(names)
        if isinstance(names, list) and not self._commands and commands:
            self._commands = frozenset(one.name for one in commands)
            yield CommandsChanged(commands=commands)

    def _mode_now(self, line: Mapping[str, Any]) -> Iterator[Event]:
        mode = as_text(line.get("permissionMode"))
        if mode and mode != self._mode:
            self._mode = mode
            yield ModeChanged(mode=mode)

    def _status(self, line: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._mode_now(line)
        if line.get("status") == "compacting" and self._compaction is None:
            self._compaction = new_compaction_id()
            yield CompactionChanged(compaction=self._compaction, status="in_progress")
        elif line.get("compact_result") == "failed":
            yield from self._compacted("failed", as_text(line.get("compact_error")))

    def _compacted(self, status: Any, error: str = "") -> Iterator[Event]:
        compaction, self._compaction = self._compaction, None
        if compaction is None:
            compaction = new_compaction_id()
            yield CompactionChanged(compaction=compaction, status="in_progress")
        yield CompactionChanged(compaction=compaction, status=status, error=error or None)

    def _rate_limit(self, line: Mapping[str, Any]) -> Iterator[Event]:
        info = as_map(line.get("rate_limit_info"))
        status, resets = as_text(info.get("status")), info.get("resetsAt")
        resets_at = _moment(resets)
        kind = as_text(info.get("rateLimitType")).replace("_", " ") or "usage"
        if status == "rejected":
            yield RateLimited(reason=f"the {kind} limit is reached", resets_at=resets_at)
        elif status == "allowed_warning":
            yield NoticePosted(title=f"The {kind} limit is near", severity="warning")
        elif status != "allowed":
            yield UnknownEvent(origin=self._origin, raw=line)

    # The end of a turn

    def _result(self, line: Mapping[str, Any]) -> Iterator[ClaudeEvent]:
        if self._compaction is not None:
            for event in self._compacted("cancelled"):
                yield ClaudeEvent(event)
        outcome = self._accounts.outcome(line)
        failure, self._failure = self._failure, ""
        if outcome.stop == "failed" and not line.get("result") and failure:
            outcome = TurnOutcome(
                stop="failed", reason=failure, usage=outcome.usage, cost=outcome.cost
            )
        main = self._messages[""]
        self._messages = {"": main}
        self._shown.clear()
        yield ClaudeEvent(_usage(main, line))
        yield ClaudeEvent(outcome=outcome)


def commands_of(listed: Any) -> tuple[Command, ...]:
    """Slash commands, listed as objects or by name alone; others are left out."""
    return tuple(command for one in (as_list(listed)) if (command := _command(one)) is not None)


def _command(one: Any) -> Command | None:
    given = {"name": one} if isinstance(one, str) else as_map(one)
    name, hint = as_text(given.get("name")), as_text(given.get("argumentHint"))
    if not name:
        return None
    shown = CommandInput(hint=hint) if hint else None
    return Command(name=name, description=as_text(given.get("description")), input=shown)


def _usage(main: ClaudeMessages, result: Mapping[str, Any]) -> UsageReported:
    window = as_map(as_map(result.get("modelUsage")).get(main.model)).get("contextWindow")
    size, total = as_number(window), as_amount(result.get("total_cost_usd"))
    context = ContextUsage(used=main.usage.total, size=size) if main.usage and size else None
    cost = Cost(amount=total, currency="USD") if "total_cost_usd" in result else None
    return UsageReported(context=context, session_cost=cost)


def _retry(line: Mapping[str, Any]) -> Iterator[Event]:
    seconds = as_amount(line.get("retry_delay_ms")) / 1000
    status, error = line.get("error_status"), as_text(line.get("error")) or "unknown"
    reason = f"{error} (HTTP {status})" if isinstance(status, int) else error
    if status == 429:
        yield RateLimited(reason=reason, retry_after=seconds)
    attempt = as_number(line.get("attempt")) or 1
    yield RetryScheduled(attempt=attempt + 1, delay=seconds, reason=reason)


def _blocks(content: Any) -> Iterator[ContentBlock]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    for block in map(as_map, as_list(content)):
        source = as_map(block.get("source"))
        if block.get("type") == "image" and isinstance(source.get("data"), str):
            kind = as_text(source.get("media_type")) or "application/octet-stream"
            yield ImageContent(data=source["data"], mime_type=kind)
        elif isinstance(block.get("text"), str):
            yield text(block["text"])


def _joined(content: Any) -> str:
    return "\n".join(one.text for one in _blocks(content) if isinstance(one, TextContent))


def _changed(data: Mapping[str, Any]) -> tuple[ToolCallContent, ...] | UnsetType:
    """The change that a call made, where the agent sends the whole file before and after."""
    path, before, after = (data.get(key) for key in ("filePath", "originalFile", "content"))
    if isinstance(path, str) and isinstance(before, str) and isinstance(after, str):
        return (Diff(path=path, old_text=before, new_text=after),)
    return UNSET


def _reset_in(failure: str) -> int | None:
    found = _RESET.search(failure)
    return _moment(int(found[1])) if found else None


def _moment(seconds: Any) -> int | None:
    """Microseconds since the epoch, of seconds; None for what no clock shows."""
    count = as_number(seconds)
    return count * 1_000_000 if 0 < count < _LAST_MOMENT else None
