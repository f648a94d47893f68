"""From records of the log to ACP's session updates. Nothing here waits or sends.

A ``UpdateTranslator`` holds only what updates need to know of the calls before them: what a call
shows and what its terminals have printed.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    ChildEnded,
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    Event,
    MessageChunk,
    ModeChanged,
    ModelCallFinished,
    NoticePosted,
    OptionsChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    Prompted,
    RetryScheduled,
    SessionChanged,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UsageReported,
)
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import ContentItem, TerminalItem, ToolCallContent
from quarterdeck.wire.usage import Cost

from . import permissions
from .handshake import EditorClient

__all__ = ["UpdateTranslator", "Updates", "without_bulk"]

Updates: TypeAlias = tuple[acp.SessionUpdate, ...]

_SHOWN = 16_000
"""Characters of a command's output that are shown as text: the last ones."""
_EVERY = 250_000
"""Microseconds between two updates of a command's output as text."""
_SHORT = 500
"""A reason up to this length is shown with the call that failed."""

_Way: TypeAlias = Literal["client", "meta", "text"]
"""How a terminal is shown: the client runs it; the client shows what we send; as text."""


class _Terminal(Struct):
    call: str
    way: _Way
    output: str = ""
    is_cut: bool = False
    sent_at: int = 0

    def add(self, data: str) -> None:
        self.output += data
        if len(self.output) > 2 * _SHOWN:
            self.output, self.is_cut = self.output[-_SHOWN:], True

    def content(self) -> tuple[ToolCallContent, ...]:
        shown = self.output[-_SHOWN:].strip("\n")
        if not shown:
            return ()
        if self.is_cut or len(self.output) > _SHOWN:
            shown = f"[…]\n{shown}"
        fence = "````" if "```" in shown else "```"
        return (ContentItem(content=text(f"{fence}console\n{shown}\n{fence}")),)


class _Call(Struct):
    started: ToolCallStarted
    content: tuple[ToolCallContent, ...] = ()
    """As the agent gave it, terminals included."""
    terminals: dict[str, _Terminal] = field(default_factory=dict[str, _Terminal])


class UpdateTranslator:
    """Translates the records of one session, in order.

    Args:
        client: what the client takes; it gets nothing else.
        is_clients_terminal: distinguishes the terminals that the client runs from ours.
        knows_cost: the records begin with the session's first, so that costs can be summed.
    """

    def __init__(
        self, client: EditorClient, is_clients_terminal: Callable[[str], bool], *, knows_cost: bool
    ) -> None:
        self._client = client
        self._is_clients_terminal = is_clients_terminal
        self._cost = Cost(amount=0.0, currency="USD") if knows_cost else None
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._requests: dict[str, str] = {}
        """What children ask, with the calls that were announced for it."""

    def translate(self, record: Record, *, is_replay: bool) -> Updates:
        """The updates for one record, maybe none.

        In a replay prompts are shown, terminals are text, and what concerns only the moment
        (notices, settings) is left out.
        """
        if record.parent is not None:  # the inner life of a sub-agent
            return ()
        event = record.event
        match event:
            case MessageChunk():
                return (_message(event),)
            case ThoughtChunk():
                return (acp.AgentThoughtChunk(content=event.content, message_id=event.message),)
            case Prompted():
                return _prompt(event) if is_replay else ()
            case PlanChanged():
                return (acp.Plan(entries=event.entries),)
            case ToolCallStarted() | ToolCallUpdated() | ToolCallEnded():
                return self._call_changed(event, is_replay=is_replay)
            case TerminalOutput() | TerminalExited():
                return self._terminal_changed(event, record.time, is_replay=is_replay)
            case PermissionAsked() | PermissionAnswered():
                return () if is_replay else self._asked_by_child(event)
            case SessionChanged() | UsageReported() | ModelCallFinished() | ChildEnded():
                return self._facts_changed(event, is_replay=is_replay)
            case _:
                return () if is_replay else self._moment(event)

    # ---- tool calls

    def _call_changed(
        self, event: ToolCallStarted | ToolCallUpdated | ToolCallEnded, *, is_replay: bool
    ) -> Updates:
        match event:
            case ToolCallStarted():
                call = self._calls[event.call] = _Call(event, event.content)
                self._meet_terminals(call, is_replay=is_replay)
                return (self._announcement(call),)
            case ToolCallUpdated():
                return self._updated(event, is_replay=is_replay)
            case ToolCallEnded():
                return (self._ended(event, is_replay=is_replay),)

    def _updated(self, event: ToolCallUpdated, *, is_replay: bool) -> Updates:
        call = self._calls.get(event.call)
        shown: tuple[ToolCallContent, ...] | None = None
        again: Updates = ()
        if event.content is not UNSET:
            if call is None:
                shown = event.content
            else:
                call.content = event.content
                if self._meet_terminals(call, is_replay=is_replay):
                    again = (self._announcement(call),)
                shown = _shown(call)
        update = acp.ToolCallUpdate(
            tool_call_id=event.call,
            title=_set(event.title),
            name=_set(event.name),
            kind=_set(event.kind),
            status=_set(event.status),
            content=shown,
            locations=_set(event.locations),
            raw_input=_set(event.raw_input),
            raw_output=_set(event.raw_output),
        )
        return (*again, update)

    def _ended(self, event: ToolCallEnded, *, is_replay: bool) -> acp.ToolCallUpdate:
        call = self._calls.pop(event.call, None)
        shown = None if event.content is UNSET else event.content
        if call is not None:
            shown = self._last_content(call, event, is_replay=is_replay)
            for terminal in call.terminals:
                self._terminals.pop(terminal, None)
        return acp.ToolCallUpdate(
            tool_call_id=event.call,
            status="completed" if event.status == "completed" else "failed",
            content=shown,
            locations=_set(event.locations),
            raw_output=_set(event.raw_output),
        )

    def _last_content(
        self, call: _Call, event: ToolCallEnded, *, is_replay: bool
    ) -> tuple[ToolCallContent, ...] | None:
        if event.content is not UNSET:
            call.content = event.content
            self._meet_terminals(call, is_replay=is_replay)
            return _shown(call)
        if any(terminal.way == "text" for terminal in call.terminals.values()):
            return _shown(call)
        if event.reason and len(event.reason) <= _SHORT and not call.terminals:
            return (*call.content, ContentItem(content=text(event.reason)))
        return None

    def _meet_terminals(self, call: _Call, *, is_replay: bool) -> bool:
        """Take note of a call's new terminals; True if one of them has to be announced."""
        is_new = False
        for item in call.content:
            if isinstance(item, TerminalItem) and item.terminal_id not in call.terminals:
                way = self._way(item.terminal_id, is_replay=is_replay)
                terminal = _Terminal(call.started.call, way)
                call.terminals[item.terminal_id] = terminal
                self._terminals[item.terminal_id] = terminal
                is_new = is_new or way == "meta"
        return is_new

    def _way(self, terminal_id: str, *, is_replay: bool) -> _Way:
        if is_replay:  # the terminals of a replay are gone
            return "text"
        if self._is_clients_terminal(terminal_id):
            return "client"
        return "meta" if self._client.takes_terminal_meta else "text"

    def _announcement(self, call: _Call) -> acp.ToolCall:
        started = call.started
        meta: dict[str, Any] | None = None
        for id_, terminal in call.terminals.items():
            if terminal.way == "meta":
                meta = {"terminal_info": {"terminal_id": id_}}
        return acp.ToolCall(
            tool_call_id=started.call,
            title=started.title,
            name=started.name,
            kind=started.kind,
            status=started.status,
            content=_shown(call),
            locations=started.locations,
            raw_input=started.raw_input,
            meta=meta,
        )

    def _asked_by_child(self, event: PermissionAsked | PermissionAnswered) -> Updates:
        if isinstance(event, PermissionAsked):
            if event.child is None:
                return ()
            self._requests[event.request] = permissions.client_call_id(event)
            return (permissions.announce_child_call(event),)
        call = self._requests.pop(event.request, None)
        return () if call is None else (permissions.end_child_call(call, event),)

    # ---- terminals

    def _terminal_changed(
        self, event: TerminalOutput | TerminalExited, time: int, *, is_replay: bool
    ) -> Updates:
        terminal = self._terminals.get(event.terminal)
        if terminal is None:
            return ()
        if isinstance(event, TerminalOutput):
            terminal.add(event.data)
        if is_replay or terminal.way == "client":
            return ()
        if terminal.way == "meta":
            meta = _terminal_meta(event)
            return (acp.ToolCallUpdate(tool_call_id=terminal.call, meta=meta),)
        if isinstance(event, TerminalExited) or time - terminal.sent_at < _EVERY:
            return ()  # the end of the call shows the rest
        terminal.sent_at = time
        shown = _shown(self._calls[terminal.call])
        return (acp.ToolCallUpdate(tool_call_id=terminal.call, content=shown),)

    # ---- facts and moments

    def _facts_changed(
        self,
        event: SessionChanged | UsageReported | ModelCallFinished | ChildEnded,
        *,
        is_replay: bool,
    ) -> Updates:
        match event:
            case SessionChanged():
                if event.title is UNSET:
                    return ()
                return (acp.SessionInfoUpdate(title=event.title),)
            case ModelCallFinished(cost=Cost() as cost) | ChildEnded(cost=Cost() as cost):
                if self._cost is not None and cost.currency == self._cost.currency:
                    total = self._cost.amount + cost.amount
                    self._cost = Cost(amount=total, currency=cost.currency)
                return ()
            case UsageReported(context=context) if context is not None:
                cost = event.session_cost or (self._cost if self._has_cost else None)
                return (acp.UsageUpdate(used=context.used, size=context.size, cost=cost),)
            case _:
                return ()

    @property
    def _has_cost(self) -> bool:
        return self._cost is not None and self._cost.amount > 0

    def _moment(self, event: Event) -> Updates:
        match event:
            case ModeChanged():
                return (acp.CurrentModeUpdate(current_mode_id=event.mode),)
            case OptionsChanged():
                return (acp.ConfigOptionUpdate(config_options=event.options),)
            case CommandsChanged():
                return (acp.AvailableCommandsUpdate(available_commands=event.commands),)
            case NoticePosted() | RetryScheduled() if self._client.takes_notices:
                return (_notice(event),)
            case CompactionChanged() | CompactionChunk() if self._client.takes_compaction:
                return (_compaction(event),)
            case _:
                return ()


def without_bulk(update: acp.SessionUpdate) -> acp.SessionUpdate | None:
    """An update without what can be large; None if nothing would be left of it."""
    match update:
        case acp.ToolCall():
            return replace(update, content=(), raw_input=None, raw_output=None)
        case acp.ToolCallUpdate():
            return replace(update, content=None, raw_input=None, raw_output=None)
        case _:
            return None


def _message(event: MessageChunk) -> acp.AgentMessageChunk | acp.UserMessageChunk:
    if event.role == "user":
        return acp.UserMessageChunk(content=event.content, message_id=event.message)
    return acp.AgentMessageChunk(content=event.content, message_id=event.message)


def _prompt(event: Prompted) -> Updates:
    return tuple(
        acp.UserMessageChunk(content=block, message_id=event.message) for block in event.content
    )


def _shown(call: _Call) -> tuple[ToolCallContent, ...]:
    """What a client is shown of a call: terminals that it cannot show become text."""
    shown: list[ToolCallContent] = []
    for item in call.content:
        if isinstance(item, TerminalItem) and (held := call.terminals.get(item.terminal_id)):
            shown.extend(held.content() if held.way == "text" else (item,))
        else:
            shown.append(item)
    return tuple(shown)


def _terminal_meta(event: TerminalOutput | TerminalExited) -> dict[str, Any]:
    if isinstance(event, TerminalOutput):
        return {"terminal_output": {"terminal_id": event.terminal, "data": event.data}}
    ended = {"exit_code": event.exit_code, "signal": event.signal}
    return {"terminal_exit": {"terminal_id": event.terminal, **ended}}


def _notice(event: NoticePosted | RetryScheduled) -> acp.Notice:
    if isinstance(event, NoticePosted):
        return acp.Notice(severity=event.severity, title=event.title, description=event.description)
    return acp.Notice(
        severity="warning",
        title=f"Retrying in {event.delay:.1f} s (attempt {event.attempt})",
        description=event.reason,
    )


def _compaction(
    event: CompactionChanged | CompactionChunk,
) -> acp.CompactionUpdate | acp.CompactionSummaryChunk:
    if isinstance(event, CompactionChunk):
        return acp.CompactionSummaryChunk(compaction_id=event.compaction, content=event.content)
    return acp.CompactionUpdate(
        compaction_id=event.compaction,
        status=event.status,
        summary=UNSET if event.summary is None else (text(event.summary),),
        error=UNSET if event.error is None else event.error,
    )


def _set(value: Any) -> Any:
    return None if value is UNSET else value
