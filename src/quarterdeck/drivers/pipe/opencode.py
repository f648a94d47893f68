"""What ``opencode run --format json`` prints: the parts of messages as they are finished."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quarterdeck.wire.events import (
    Event,
    RetryScheduled,
    SessionChanged,
    UnknownEvent,
)
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_process import Launch
from ..command_line import render_mode
from ..driver import DriverSessionOptions
from ..foreign_json import (
    as_map,
    as_text,
    message,
    thought,
)
from ..link import AgentExit, TurnOutcome
from ..opencode_messages import (
    STOPS,
    amount_of,
    call_ended,
    call_started,
    error_text,
    limit_of,
    server_of,
    tokens_of,
)
from .dialect import ExtraArguments, PipeDialect, TurnContext, failure_text

__all__ = ["OPENCODE", "OpencodeRunReader"]


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
                yield call_started(part)
                yield call_ended(part)
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
        return TurnOutcome(stop=STOPS.get(self._reason, "end_turn"), usage=usage, cost=cost)

    def _begin(self, step: str) -> Iterator[Event]:
        """A step begins; the same one again means that the model's stream broke off."""
        if step and step == self._step:
            self._tries += 1
            reason = "the model's answer was interrupted; opencode retries"
            yield RetryScheduled(attempt=self._tries, delay=0.0, reason=reason)
        else:
            self._step, self._tries = step, 1

    def _finish(self, part: Mapping[str, Any]) -> None:
        self._step = ""
        self._reason = as_text(part.get("reason"))
        self._usage = self._usage + tokens_of(as_map(part.get("tokens")))
        self._cost += amount_of(part.get("cost"))

    def _fail(self, error: Mapping[str, Any]) -> Iterator[Event]:
        self._error = error_text(error)
        if (limited := limit_of(error)) is not None:
            yield limited


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


OPENCODE = PipeDialect(name="opencode", reader=OpencodeRunReader, extra=_extra)
