"""What ``codex exec --json`` prints: a thread, its turns, and items that start, change and end."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    PlanChanged,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnd,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.ids import ToolCallId, new_message_id
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ToolCallEnd, ToolCallLocation, ToolKind
from quarterdeck.wire.usage import TokenUsage

from ..agent_process import Launch
from ..driver import DriverSessionOptions
from ..errors import UnsupportedError
from ..foreign_json import (
    as_list,
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    thought,
)
from ..link import AgentExit, TurnOutcome
from .dialect import ExtraArguments, PipeDialect, TurnContext, failure_text

__all__ = ["CODEX", "CodexExecReader"]

_RETRY = re.compile(r"Reconnecting\.\.\. (\d+)/\d+\s*(?:\((.*)\))?", re.DOTALL)
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ENDS: dict[str, ToolCallEnd] = {"completed": "completed", "failed": "failed", "declined": "failed"}
_STOPS: tuple[tuple[str, TurnEnd], ...] = (
    ("max_output_tokens", "max_tokens"),
    ("content_filter", "refusal"),
)
"""Words in the text of a failure that say how the model stopped."""


class CodexExecReader:
    """Reads one turn of ``codex exec --json``."""

    def __init__(self, asked: TurnContext) -> None:
        self._before = asked.total
        self._usage: TokenUsage | None = None
        self._is_complete = False
        self._failed: str | None = None
        self._error = ""
        """Reported and not yet known to be the turn's failure."""
        self._limited = False
        self._messages: dict[str, tuple[str, str]] = {}
        """The message and the text so far of each item that is growing."""
        self._open: set[ToolCallId] = set()

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line."""
        match value.get("type"):
            case "thread.started":
                yield SessionChanged(agent_session=as_text(value.get("thread_id")))
            case "turn.started":
                pass
            case "item.started" | "item.updated" | "item.completed" as stage:
                yield from self._flush()
                yield from self._item(as_map(value.get("item")), stage, value)
            case "turn.completed":
                yield from self._flush()
                yield from self._completed(as_map(value.get("usage")))
            case "turn.failed":
                yield from self._failure(as_text(as_map(value.get("error")).get("message")))
            case "error":
                yield from self._trouble(as_text(value.get("message")))
            case _:
                yield _unknown(value)

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went: a turn that was not completed has failed."""
        if self._is_complete and self._failed is None:
            return TurnOutcome(stop="end_turn", usage=self._usage)
        reason = failure_text(left, self._failed or self._error)
        stops: list[TurnEnd] = [stop for word, stop in _STOPS if word in reason]
        return TurnOutcome(stop=stops[0] if stops else "failed", reason=reason, usage=self._usage)

    # The turn

    def _completed(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """The figures count the whole thread; the turn's own are what was added."""
        self._is_complete = True
        total = TokenUsage(
            input=as_number(data.get("input_tokens")),
            output=as_number(data.get("output_tokens")),
            cached=as_number(data.get("cached_input_tokens")),
            cache_written=as_number(data.get("cache_write_input_tokens")),
            thought=as_number(data.get("reasoning_output_tokens")),
        )
        if self._before is not None:
            self._usage = total.since(self._before)
        yield UsageReported(session_tokens=total)

    def _failure(self, text: str) -> Iterator[Event]:
        self._failed = text or self._error or "codex reported a failed turn without a reason"
        self._error = ""
        yield from self._limit(self._failed)

    def _trouble(self, text: str) -> Iterator[Event]:
        """An error: a retry, or the failure that ends the turn and is reported again."""
        yield from self._flush()
        retry = _RETRY.match(text)
        if retry is None:
            self._error = text
            return
        reason = retry[2] or text
        yield from self._limit(reason)
        yield RetryScheduled(attempt=int(retry[1]) + 1, delay=0.0, reason=reason)

    def _flush(self) -> Iterator[Event]:
        """Report an error after which the turn went on."""
        if self._error:
            yield NoticePosted(title=self._error, severity="error")
            self._error = ""

    def _limit(self, text: str) -> Iterator[Event]:
        limited = rate_limit(text)
        if limited is not None and not self._limited:
            self._limited = True
            yield limited

    # Items

    def _item(
        self, item: Mapping[str, Any], stage: str, line: Mapping[str, Any]
    ) -> Iterator[Event]:
        id_ = as_text(item.get("id"))
        match item.get("type"):
            case "agent_message":
                yield from self._grow(id_, item, message)
            case "reasoning":
                yield from self._grow(id_, item, thought)
            case "todo_list":
                yield PlanChanged(entries=tuple(_plan(item)))
            case "error":
                yield NoticePosted(title=as_text(item.get("message")), severity="warning")
            case str() as kind if kind in _CALLS:
                yield from self._call(ToolCallId(id_), kind, item, stage)
            case _:
                yield _unknown(line)

    def _call(
        self, call: ToolCallId, kind: str, item: Mapping[str, Any], stage: str
    ) -> Iterator[Event]:
        if call not in self._open:
            self._open.add(call)
            yield _started(call, kind, item)
        if stage == "item.updated":
            yield _updated(call, item)
        elif stage == "item.completed":
            self._open.discard(call)
            yield _ended(call, item)

    def _grow(
        self, id_: str, item: Mapping[str, Any], say: Callable[[str, str], Event]
    ) -> Iterator[Event]:
        """Emit what is new in an item's text; one that was rewritten is emitted whole."""
        now = as_text(item.get("text"))
        name, before = self._messages.get(id_, ("", ""))
        if not name or not now.startswith(before):
            name, before = new_message_id(), ""
        self._messages[id_] = name, now
        if len(now) > len(before):
            yield say(now[len(before) :], name)


def _unknown(value: Mapping[str, Any]) -> UnknownEvent:
    return UnknownEvent(origin="codex", raw=dict(value))


def _plan(item: Mapping[str, Any]) -> Iterator[PlanEntry]:
    for entry in map(as_map, as_list(item.get("items"))):
        status = "completed" if entry.get("completed") is True else "pending"
        yield PlanEntry(content=as_text(entry.get("text")), priority="medium", status=status)


# Tool calls: title, the tool's name, what it does, its input


_About: TypeAlias = tuple[str, str, ToolKind, Any]


def _command(item: Mapping[str, Any]) -> _About:
    command = as_text(item.get("command"))
    return command, "shell", "execute", {"command": command}


def _change(item: Mapping[str, Any]) -> _About:
    changes = [as_map(one) for one in as_list(item.get("changes"))]
    paths = ", ".join(as_text(one.get("path")) for one in changes)
    return f"Edit {paths}", "apply_patch", "edit", {"changes": list(changes)}


def _mcp(item: Mapping[str, Any]) -> _About:
    name = f"{as_text(item.get('server'))}.{as_text(item.get('tool'))}"
    return name, name, "other", item.get("arguments")


def _search(item: Mapping[str, Any]) -> _About:
    query = as_text(item.get("query"))
    return f"Search the web: {query}", "web_search", "fetch", {"query": query}


_CALLS: dict[str, Callable[[Mapping[str, Any]], _About]] = {
    "command_execution": _command,
    "file_change": _change,
    "mcp_tool_call": _mcp,
    "web_search": _search,
}


def _started(call: ToolCallId, kind: str, item: Mapping[str, Any]) -> ToolCallStarted:
    title, name, tool, given = _CALLS[kind](item)
    return ToolCallStarted(
        call=call,
        title=title,
        name=name,
        kind=tool,
        status="in_progress",
        locations=_locations(item),
        raw_input=given,
    )


def _updated(call: ToolCallId, item: Mapping[str, Any]) -> ToolCallUpdated:
    return ToolCallUpdated(call=call, status="in_progress", content=output_content(_output(item)))


def _ended(call: ToolCallId, item: Mapping[str, Any]) -> ToolCallEnded:
    status = as_text(item.get("status"))
    text = as_text(as_map(item.get("error")).get("message"))
    raw = {key: item[key] for key in _RESULTS if item.get(key) is not None}
    return ToolCallEnded(
        call=call,
        status=_ENDS.get(status, "completed"),
        reason=text or (status if status == "declined" else None),
        content=output_content(_output(item)),
        locations=_locations(item),
        raw_output=raw or None,
    )


_RESULTS = ("aggregated_output", "exit_code", "result", "error")


def _output(item: Mapping[str, Any]) -> str:
    """What a call gave, as text: a command's output, or the texts of an MCP tool's answer."""
    blocks = map(as_map, as_list(as_map(item.get("result")).get("content")))
    texts = [as_text(block.get("text")) for block in blocks]
    return as_text(item.get("aggregated_output")) or "\n".join(filter(None, texts))


def _locations(item: Mapping[str, Any]) -> tuple[ToolCallLocation, ...]:
    paths = (as_text(as_map(one).get("path")) for one in as_list(item.get("changes")))
    return tuple(ToolCallLocation(path=path) for path in paths if path)


# What words of the agent's file cannot say


def _extra(launch: Launch, opening: DriverSessionOptions) -> ExtraArguments:
    """Settings of codex's configuration, for this run only."""
    words: list[str] = []
    honoured: set[str] = set()
    environment: dict[str, str] = {}
    if opening.options.system_prompt is not None and "system_prompt" not in launch.words:
        words += ["-c", f"developer_instructions={_toml(opening.options.system_prompt)}"]
        honoured.add("system_prompt")
    for server in opening.options.mcp_servers:
        if not _SERVER_NAME.fullmatch(server.name):
            raise UnsupportedError(
                launch.agent,
                "pipe",
                f"accept a tool server named {server.name!r}",
                "Use only letters, digits, '-' and '_' in its name.",
            )
        words += ["-c", f"mcp_servers.{server.name}={_server(server, environment)}"]
    if opening.options.mcp_servers:
        honoured.add("mcp_servers")
    return ExtraArguments(words=tuple(words), environment=environment, honoured=frozenset(honoured))


def _server(server: AgentMcpServer, environment: dict[str, str]) -> str:
    """An MCP server as an inline table of TOML.

    A command line is public, so what may be secret goes into ``environment``.
    """
    if server.url:
        names = {
            header: _variable(server.name, header, value, environment)
            for header, value in server.sent_headers.items()
        }
        headers = f", env_http_headers={_table(names)}" if names else ""
        # Without, codex refuses every call of a tool that does not say that it only reads.
        leave = ', default_tools_approval_mode="approve"' if server.is_ours else ""
        return f"{{url={_toml(server.url)}{headers}{leave}}}"
    program, *arguments = server.command
    words = ",".join(map(_toml, arguments))
    environment.update(server.variables)
    names = ",".join(map(_toml, server.variables))
    return f"{{command={_toml(program)}, args=[{words}], env_vars=[{names}]}}"


def _variable(server: str, header: str, value: str, environment: dict[str, str]) -> str:
    plain = re.sub(r"\W", "_", f"{server}_{header}").upper()
    name = f"QUARTERDECK_MCP_{plain}"
    environment[name] = value
    return name


def _table(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_toml(key)}={_toml(value)}" for key, value in values.items()) + "}"


def _toml(value: str) -> str:
    """A basic string of TOML: JSON's escapes are a part of TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


CODEX = PipeDialect(name="codex", reader=CodexExecReader, extra=_extra, obeys_sigint=True)
