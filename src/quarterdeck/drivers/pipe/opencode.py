"""What ``opencode run --format json`` prints: the parts of messages as they are finished."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quarterdeck.wire.events import (
    Event,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnd,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_process import Launch
from ..command_line import render_mode
from ..driver import DriverSessionOptions
from ..foreign_json import (
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    thought,
    tool_kind,
)
from ..link import AgentExit, TurnOutcome
from .dialect import ExtraArguments, PipeDialect, TurnContext, failure_text

__all__ = ["OPENCODE", "OpencodeRunReader", "call_events", "server_of", "tokens_of"]

_STOPS: dict[str, TurnEnd] = {"length": "max_tokens", "content-filter": "refusal"}
_TOO_MANY = 429


class OpencodeRunReader:
    """Reads one turn of ``opencode run --format json``."""

    def __init__(self, asked: TurnContext) -> None:
        self._usage = TokenUsage()
        self._cost = 0.0
        self._reason: str | None = None
        """Why the last finished step ended; None before the first."""
        self._error = ""
        self._step = ""
        """The message of the step that is under way."""
        self._tries = 1

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line."""
        if session := as_text(value.get("sessionID")):
            yield SessionChanged(agent_session=session)
        part = as_map(value.get("part"))
        match value.get("type"):
            case "step_start":
                yield from self._begin(as_text(part.get("messageID")))
            case "text":
                yield message(as_text(part.get("text")), as_text(part.get("id")))
            case "reasoning":
                yield thought(as_text(part.get("text")), as_text(part.get("id")))
            case "tool_use":
                yield from call_events(part)
            case "step_finish":
                self._finish(part)
            case "error":
                yield from self._fail(as_map(value.get("error")))
            case _:
                yield UnknownEvent(origin="opencode", raw=dict(value))

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went: well if it finished a step and left with 0."""
        usage = self._usage if self._reason is not None else None
        cost = Cost(amount=self._cost, currency="USD") if self._cost else None
        if self._error or left.exit_code != 0 or self._reason is None:
            reason = failure_text(left, self._error)
            return TurnOutcome(stop="failed", reason=reason, usage=usage, cost=cost)
        return TurnOutcome(stop=_STOPS.get(self._reason, "end_turn"), usage=usage, cost=cost)

    def _begin(self, step: str) -> Iterator[Event]:
        """A step begins; the same one again means that the model's stream broke off."""
        if step and step == self._step:
            self._tries += 1
            told = "the model's answer was interrupted; opencode retries"
            yield RetryScheduled(attempt=self._tries, delay=0.0, reason=told)
        else:
            self._step, self._tries = step, 1

    def _finish(self, part: Mapping[str, Any]) -> None:
        self._step = ""
        self._reason = as_text(part.get("reason"))
        self._usage = self._usage + tokens_of(as_map(part.get("tokens")))
        cost = part.get("cost")
        self._cost += cost if isinstance(cost, int | float) else 0.0

    def _fail(self, error: Mapping[str, Any]) -> Iterator[Event]:
        data = as_map(error.get("data"))
        self._error = as_text(data.get("message")) or as_text(error.get("name")) or "an error"
        headers = as_map(data.get("responseHeaders"))
        after = _seconds(headers.get("retry-after"))
        if data.get("statusCode") == _TOO_MANY:
            yield RateLimited(reason=self._error, retry_after=after)
        elif (limited := rate_limit(self._error, after)) is not None:
            yield limited


def call_events(part: Mapping[str, Any]) -> Iterator[Event]:
    """A tool call; it is told once, when it is over."""
    state, name = as_map(part.get("state")), as_text(part.get("tool"))
    call = ToolCallId(as_text(part.get("callID")) or as_text(part.get("id")))
    given = as_map(state.get("input"))
    path = as_text(given.get("filePath"))
    yield ToolCallStarted(
        call=call,
        title=as_text(state.get("title")) or as_text(given.get("command")) or name,
        name=name,
        kind=tool_kind(name),
        status="in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(given),
    )
    failed = state.get("status") != "completed"
    output = as_text(state.get("error")) if failed else as_text(state.get("output"))
    yield ToolCallEnded(
        call=call,
        status="failed" if failed else "completed",
        reason=output if failed else None,
        content=output_content(output),
        raw_output=state.get("output"),
    )


def tokens_of(tokens: Mapping[str, Any]) -> TokenUsage:
    """The tokens of one step: what was cached or thought is counted apart from the rest."""
    cache = as_map(tokens.get("cache"))
    cached, written = as_number(cache.get("read")), as_number(cache.get("write"))
    thinking = as_number(tokens.get("reasoning"))
    return TokenUsage(
        input=as_number(tokens.get("input")) + cached + written,
        output=as_number(tokens.get("output")) + thinking,
        cached=cached,
        cache_written=written,
        thought=thinking,
    )


def _seconds(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


# What words of the agent's file cannot say


_ASKED = ("edit", "bash", "webfetch", "websearch", "codesearch", "external_directory", "*_*")
"""All that changes or leaves the workspace; ``*_*`` are the tools of MCP servers.

Not ``*``: opencode puts these after the person's own rules, and the last that fits decides.
"""
_ASK: dict[str, str] = dict.fromkeys(_ASKED, "ask")
_PERMISSIONS: dict[str, dict[str, str]] = {
    "ask": _ASK,
    "accept-edits": {**_ASK, "edit": "allow"},
    "plan": {**_ASK, "edit": "deny", "bash": "deny"},
    "read-only": {**_ASK, "edit": "deny", "bash": "deny"},
    "deny-all": {"*": "deny"},
}
"""By our mode. ``run`` answers what is asked with no, so that ``ask`` refuses with a reason."""


def _extra(launch: Launch, opening: DriverSessionOptions) -> ExtraArguments:
    """Permissions and MCP servers, which opencode takes from its environment.

    Without them opencode allows everything. A mode that is in the agent's file and not here, and
    a mode of its own, leave the permissions as the person has configured them.
    """
    environment: dict[str, str] = {}
    if opening.options.agent_mode is None:
        render_mode(launch, "pipe", opening.mode)  # one that the file does not offer is refused
        rules = _PERMISSIONS.get(opening.mode)
        if rules is not None:
            environment["OPENCODE_PERMISSION"] = json.dumps(rules)
    if opening.options.mcp_servers:
        servers = {server.name: server_of(server) for server in opening.options.mcp_servers}
        environment["OPENCODE_CONFIG_CONTENT"] = json.dumps({"mcp": servers})
    honoured = frozenset(("mcp_servers",) if opening.options.mcp_servers else ())
    return ExtraArguments(environment=environment, honoured=honoured)


def server_of(server: AgentMcpServer) -> dict[str, Any]:
    """A tool server as opencode describes it."""
    if server.url:
        return {"type": "remote", "url": server.url, "headers": server.sent_headers}
    return {
        "type": "local",
        "command": list(server.command),
        "environment": server.variables,
    }


OPENCODE = PipeDialect(name="opencode", reader=OpencodeRunReader, extra=_extra)
