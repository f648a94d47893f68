"""Session updates of an ACP agent as our events, in their order."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.events import (
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    CompactionStatus,
    MessageChunk,
    ModeChanged,
    NoticePosted,
    PlanChanged,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    Severity,
    ThoughtChunk,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.ids import CompactionId, MessageId, ToolCallId
from quarterdeck.wire.tool_calls import TerminalItem, ToolCallContent
from quarterdeck.wire.usage import ContextUsage, Cost

from .extensions import (
    codex_error,
    codex_failed,
    parent_call,
    terminal_events,
    tool_name,
)
from .known_calls import KnownCalls, call_details
from .settings import AcpSettings, EmitEvent

__all__ = [
    "AcpTranslator",
    "call_update_event",
    "to_plain_data",
]


def to_plain_data(value: Any) -> Any:
    """The value as it would be read again from JSON: objects, lists, texts and numbers only."""
    return msgspec.json.decode(msgspec.json.encode(value))


def call_update_event(update: acp.ToolCallUpdate) -> ToolCallUpdated:
    """The event for an update; what it leaves out is unchanged."""
    data: dict[str, Any] = {
        field: value
        for field in ("title", "kind", "status", "content", "locations", "raw_input", "raw_output")
        if (value := getattr(update, field)) is not None
    }
    if name := update.name:
        data["name"] = name
    return ToolCallUpdated(call=ToolCallId(update.tool_call_id), **data)


Step: TypeAlias = Awaitable[None] | None
"""What is left to do before the next message may be read."""

_SEVERITIES: dict[str, Severity] = {"info": "info", "warning": "warning", "error": "error"}
_STATUSES: dict[str, CompactionStatus] = {
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
_FINAL = ("completed", "failed")


class AcpTranslator:
    """Translates the updates of one session.

    Args:
        agent: what ``UnknownEvent`` events name as their origin.
        settings: kept up to date with what the agent says of itself.
        emit: takes the events.
        show_terminal: called for each terminal that a tool call shows, after the call was emitted.
        drops_echoes: leave out user messages that arrive while a turn runs.
        streams_input: the agent shows the arguments of a call as its text while they grow.
    """

    def __init__(
        self,
        agent: str,
        settings: AcpSettings,
        emit: EmitEvent,
        show_terminal: Callable[[str], None],
        *,
        drops_echoes: bool = False,
        streams_input: bool = False,
    ) -> None:
        self._agent = agent
        self._settings = settings
        self._emit = emit
        self._show_terminal = show_terminal
        self._drops_echoes = drops_echoes
        self._is_in_turn = False
        self._calls = KnownCalls(streams_input=streams_input)
        """What is known of the calls under way; a permission request may say less."""
        self._last_error: str | None = None
        self.failure: str | None = None
        """Why the turn failed, from an agent that does not say so in its answer."""
        self.cost: Cost | None = None
        """Of the session so far."""
        self._moment: dict[type, Callable[[Any], Step]] = {
            acp.AvailableCommandsUpdate: self._commands,
            acp.CurrentModeUpdate: self._mode,
            acp.ConfigOptionUpdate: self._options,
            acp.SessionInfoUpdate: self._info,
            acp.UsageUpdate: self._usage,
        }
        self._all: dict[type, Callable[[Any], Step]] = {
            acp.AgentMessageChunk: self._message,
            acp.AgentThoughtChunk: self._thought,
            acp.UserMessageChunk: self._user_message,
            acp.ToolCall: self._call,
            acp.ToolCallUpdate: self._call_update,
            acp.Plan: self._plan,
            acp.Notice: self._notice,
            acp.CompactionUpdate: self._compaction,
            acp.CompactionSummaryChunk: self._summary,
            acp.UnknownUpdate: self._unknown,
            **self._moment,
        }
        self._table = self._all

    def take(self, update: acp.SessionUpdate) -> Step:
        """Hand an update on as events; what is returned must be awaited before the next."""
        handle = self._table.get(type(update))
        return handle(update) if handle is not None else None

    def mute(self, is_muted: bool) -> None:
        """Leave out the history that an agent replays; updates of the present state still count."""
        self._table = self._moment if is_muted else self._all

    def begin_turn(self) -> None:
        """A prompt goes out."""
        self._is_in_turn = True
        self._calls.clear()  # also of what was said between two turns
        self.failure = self._last_error = None

    def end_turn(self) -> None:
        """The prompt was answered; calls that did not end are the session's business."""
        self._is_in_turn = False
        self._calls.clear()

    def requested(self, request: acp.RequestPermissionRequest) -> acp.ToolCallDetails:
        """The call of a permission request as far as it is known, with what is in doubt."""
        return self._calls.requested(request.tool_call, request.options)

    def strange(self, raw: Any, reason: str) -> Awaitable[None]:
        """Keep something that belongs to no session or no kind that we know."""
        return self._emit(UnknownEvent(origin=self._agent, raw=raw, reason=reason))

    # Messages

    def _message(self, chunk: acp.AgentMessageChunk) -> Step:
        event = MessageChunk(content=chunk.content, message=cast("MessageId", chunk.message_id))
        if chunk.meta is None:
            return self._emit(event)
        return self._emit(event, parent=parent_call(chunk.meta))

    def _thought(self, chunk: acp.AgentThoughtChunk) -> Step:
        event = ThoughtChunk(content=chunk.content, message=cast("MessageId", chunk.message_id))
        return self._emit(event, parent=parent_call(chunk.meta))

    def _user_message(self, chunk: acp.UserMessageChunk) -> Step:
        if self._drops_echoes and self._is_in_turn:
            return None
        message = cast("MessageId", chunk.message_id)
        event = MessageChunk(content=chunk.content, message=message, role="user")
        return self._emit(event, parent=parent_call(chunk.meta))

    # Tool calls

    async def _call(self, call: acp.ToolCall) -> None:
        name = call.name or tool_name(call.meta)
        self._calls.announce(call_details(call, name))
        parent = parent_call(call.meta)
        has_more = call.raw_output is not None and call.status in _FINAL
        await self._emit(
            ToolCallStarted(
                call=ToolCallId(call.tool_call_id),
                title=call.title,
                name=name,
                kind=call.kind,
                status="in_progress" if has_more else call.status,
                content=call.content,
                locations=call.locations,
                raw_input=call.raw_input,
            ),
            parent=parent,
        )
        if call.raw_output is not None:
            status = call.status if has_more else UNSET
            id_ = ToolCallId(call.tool_call_id)
            more = ToolCallUpdated(call=id_, status=status, raw_output=call.raw_output)
            await self._emit(more, parent=parent)
        for event in terminal_events(call.meta or {}):
            await self._emit(event, parent=parent)
        self._show(call.content)

    async def _call_update(self, update: acp.ToolCallUpdate) -> None:
        parent = parent_call(update.meta)
        changed = call_update_event(update)
        on_terminals = tuple(terminal_events(update.meta or {}))
        if on_terminals and update.content:
            shown = ToolCallUpdated(call=changed.call, content=update.content)
            await self._emit(shown, parent=parent)
        # The output of a terminal comes before the end of its call, which may be this update.
        for event in on_terminals:
            await self._emit(event, parent=parent)
        if changed != ToolCallUpdated(call=changed.call):
            await self._emit(changed, parent=parent)
        self._calls.update(update)
        self._show(update.content or ())

    def _show(self, content: Iterable[ToolCallContent]) -> None:
        for item in content:
            if isinstance(item, TerminalItem):
                self._show_terminal(item.terminal_id)

    # The session and its settings

    def _plan(self, plan: acp.Plan) -> Step:
        return self._emit(PlanChanged(entries=plan.entries))

    def _commands(self, update: acp.AvailableCommandsUpdate) -> Step:
        return self._emit(CommandsChanged(commands=update.available_commands))

    def _mode(self, update: acp.CurrentModeUpdate) -> Step:
        self._settings.mode = update.current_mode_id
        return self._emit(ModeChanged(mode=update.current_mode_id))

    async def _options(self, update: acp.ConfigOptionUpdate) -> None:
        for event in self._settings.changed(update.config_options):
            await self._emit(event)

    async def _info(self, update: acp.SessionInfoUpdate) -> None:
        if update.title is not UNSET or update.updated_at is not UNSET:
            await self._emit(SessionChanged(title=update.title, updated_at=update.updated_at))
            return
        meta = update.meta or {}
        events = codex_error(meta)
        for event in events:
            await self._emit(event)
            if isinstance(event, RateLimited | RetryScheduled):
                self._last_error = event.reason
        if codex_failed(meta):
            self.failure = self._last_error or "the agent's model failed"
        if not events:
            raw = {"sessionUpdate": "session_info_update", "_meta": meta}
            await self._emit(UnknownEvent(origin=self._agent, raw=raw))

    def _usage(self, update: acp.UsageUpdate) -> Step:
        self.cost = update.cost or self.cost
        context = ContextUsage(used=update.used, size=update.size)
        return self._emit(UsageReported(context=context, session_cost=update.cost))

    def _notice(self, notice: acp.Notice) -> Step:
        severity = _SEVERITIES.get(notice.severity, "info")
        return self._emit(
            NoticePosted(title=notice.title, severity=severity, description=notice.description)
        )

    def _compaction(self, update: acp.CompactionUpdate) -> Step:
        status = _STATUSES.get(update.status)
        if status is None:
            reason = f"unknown compaction state {update.status!r}"
            return self.strange(to_plain_data(update), reason)
        return self._emit(
            CompactionChanged(
                compaction=CompactionId(update.compaction_id),
                status=status,
                summary=_joined(update.summary) if isinstance(update.summary, tuple) else None,
                error=update.error if isinstance(update.error, str) else None,
            )
        )

    def _summary(self, chunk: acp.CompactionSummaryChunk) -> Step:
        id_ = CompactionId(chunk.compaction_id)
        return self._emit(CompactionChunk(compaction=id_, content=chunk.content))

    def _unknown(self, update: acp.UnknownUpdate) -> Step:
        reason = f"an unknown or unreadable update of kind {update.kind!r}"
        return self.strange(to_plain_data(update.raw), reason)


def _joined(blocks: tuple[ContentBlock, ...]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, TextContent))
