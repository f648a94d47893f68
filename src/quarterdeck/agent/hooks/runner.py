"""The hooks of a session: read from the configuration, run in order, also around tool calls."""

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec.structs import replace

from quarterdeck.config.schema import HookSettings
from quarterdeck.policy.call import Call
from quarterdeck.policy.errors import PolicyError
from quarterdeck.policy.gate import HookAdvice
from quarterdeck.system.environment import PASSED_ON
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    PermissionAsked,
    QuestionAsked,
    ToolCallUpdated,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.tasks import BackgroundTasks

from ..ports import HookEmit, HookPoint, HookVerdict, Turn
from ..tools.tool import PreparedCall, Tool, ToolOutcome
from .hook import Hook, HookError, HookReply, HookRunError, call_function, run_command

if TYPE_CHECKING:
    from quarterdeck.config.loader import Config, PlacedValue
    from quarterdeck.policy.rules import Pattern

    from ..environment import SessionEnvironment

__all__ = [
    "POINTS",
    "HookedCall",
    "SessionHooks",
    "read_hooks",
    "run_after_tool_hooks",
    "run_before_tool_hooks",
    "session_hooks",
]

_VERSION = 1
_MOST_CONTEXT = 20_000
"""Characters that a hook may send to the model."""
_MOST_WAITING = 20
"""Notifications that may be under way; more are dropped, too many to be followed."""
_LONG = 1000
"""Characters of a command beyond which it is matched with a pattern in a thread."""


@dataclass(slots=True)
class _Place:
    session: str
    cwd: str
    project: str


class SessionHooks:
    """The hooks of one session; see ``seam.Hooks``."""

    def __init__(
        self,
        hooks: Mapping[HookPoint, tuple[Hook, ...]],
        *,
        session: str,
        cwd: str,
        project: str,
        environment: Mapping[str, str],
        most_continued: int = 3,
    ) -> None:
        self.most_continued = most_continued
        self._hooks = hooks
        self._place = _Place(session, cwd, project)
        # A session's environment may be another than this process's: its word counts.
        self._inherited = {key: value for key, value in environment.items() if key in PASSED_ON}
        self._notifying = BackgroundTasks()

    def has(self, point: HookPoint) -> bool:
        """Whether there is any hook for a point."""
        return bool(self._hooks.get(point))

    async def run(
        self, point: HookPoint, facts: Mapping[str, Any], emit: HookEmit, call: Call | None = None
    ) -> HookVerdict:
        """Run the hooks of a point; a refusal ends the row."""
        verdict = HookVerdict()
        for hook in self._hooks.get(point, ()):
            if call is not None and not await _holds(hook, call):
                continue
            given = dict(facts)
            if verdict.input is not None:
                given["input"] = verdict.input
            reply = await self._ask(hook, point, given, emit)
            verdict = _with(verdict, reply, hook)
            if verdict.refused is not None:
                break
        return verdict

    def saw(self, event: Event, emit: HookEmit) -> None:
        """Notify, in the background, of what waits for a person."""
        if not self.has("notification") or len(self._notifying) >= _MOST_WAITING:
            return
        match event:
            case PermissionAsked(title=title, name=name):
                facts = {"kind": "permission", "title": title, "tool": name}
            case QuestionAsked(text=title, to=None):
                facts = {"kind": "question", "title": title}
            case _:
                return
        self._notifying.start(self._notify(facts, emit), name="hooks notify")

    async def close(self) -> None:
        """End what runs in the background."""
        await self._notifying.close()

    async def _notify(self, facts: Mapping[str, Any], emit: HookEmit) -> None:
        await self.run("notification", facts, emit)

    async def _ask(
        self, hook: Hook, point: HookPoint, facts: dict[str, Any], emit: HookEmit
    ) -> HookReply:
        place = self._place
        fields = {
            "v": _VERSION,
            "point": point,
            "session": place.session,
            "cwd": place.cwd,
            "project": place.project,
            **facts,
        }
        try:
            if hook.target:
                return await call_function(hook, fields, place.project)
            data = msgspec.json.encode(fields, enc_hook=repr)
            return await run_command(hook, data, place.project, self._variables(point))
        except HookRunError as error:
            title = f"Hook {hook} at {point} is ignored"
            await emit(NoticePosted(title=title, severity="warning", description=str(error)))
            return HookReply()

    def _variables(self, point: HookPoint) -> dict[str, str]:
        place = self._place
        return {
            **self._inherited,
            "QUARTERDECK_HOOK": point,
            "QUARTERDECK_SESSION": place.session,
            "QUARTERDECK_CWD": place.cwd,
            "QUARTERDECK_PROJECT": place.project,
        }


def _with(verdict: HookVerdict, reply: HookReply, hook: Hook) -> HookVerdict:
    """The verdict so far, and one more answer; asking outranks allowing."""
    if reply.context.strip():
        added = reply.context.strip()[:_MOST_CONTEXT]
        verdict = replace(verdict, context=(*verdict.context, added))
    if reply.input is not None:
        verdict = replace(verdict, input=reply.input)
    if reply.goes_on and verdict.again is None:
        again = reply.reason.strip()[:_MOST_CONTEXT] or (
            f"Continue: hook {hook} says the work is not done."
        )
        verdict = replace(verdict, again=again, by=str(hook))
    reason = reply.reason.strip()[:_MOST_CONTEXT]
    match reply.decision:
        case "deny":
            refused = reason or f"{hook} gave no reason"
            return replace(verdict, refused=refused, by=str(hook))
        case "ask":
            return replace(verdict, effect="ask", by=str(hook), reason=reason)
        case "allow" if verdict.effect is None:
            return replace(verdict, effect="allow", by=str(hook), reason=reason)
        case _:
            return verdict


async def _holds(hook: Hook, call: Call) -> bool:
    """Whether a hook is for a call; where only running it would tell, it is."""
    if hook.pattern is None:
        return True
    if len(call.command or "") > _LONG:
        return await asyncio.to_thread(_touched, hook, call)
    return _touched(hook, call)


def _touched(hook: Hook, call: Call) -> bool:
    from quarterdeck.policy.call_parts import parts_of
    from quarterdeck.policy.matching import touches

    assert hook.pattern is not None
    return any(touches(hook.pattern, part, call) != "no" for part in parts_of(call))


POINTS: tuple[HookPoint, ...] = get_args(HookPoint)
_FOR_TOOLS = ("before_tool", "after_tool")
_LONGEST_NAME = 60


def session_hooks(
    session_environment: "SessionEnvironment", environment: Mapping[str, str], session: str
) -> SessionHooks:
    """Make the hooks of a session.

    Raises:
        HookError: one is declared wrongly.
    """
    return SessionHooks(
        read_hooks(session_environment.config),
        session=session,
        cwd=session_environment.cwd,
        project=session_environment.project,
        environment=environment,
        most_continued=session_environment.settings.hooks.continue_at_most,
    )


def read_hooks(config: "Config") -> dict[HookPoint, tuple[Hook, ...]]:
    """The hooks of each point, in the order of their declaration, the user's own first.

    Raises:
        HookError: one is declared wrongly.
    """
    return {
        point: tuple(_hook(point, placed) for placed in found)
        for point in POINTS
        if (found := config.elements("hooks", point))
    }


def _hook(point: HookPoint, placed: "PlacedValue") -> Hook:
    settings = convert(placed.value, HookSettings)
    where = placed.source.place or placed.source.layer
    if (settings.command is None) == (settings.python is None):
        raise HookError(f"a hook for {point!r} in {where} needs either 'command' or 'python'")
    if settings.match is not None and point not in _FOR_TOOLS:
        raise HookError(
            f"a hook for {point!r} in {where} has 'match', which applies to tool hooks only"
        )
    name = settings.python or _shown(settings.command or "")
    return Hook(
        name=name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…",
        source=where,
        timeout=settings.timeout,
        argv=_argv(point, where, settings),
        target=settings.python or "",
        match=settings.match,
        pattern=_pattern(point, where, settings.match),
    )


def _shown(command: str | tuple[str, ...]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _argv(point: HookPoint, where: str, settings: HookSettings) -> tuple[str, ...]:
    command = settings.command
    if command is None:
        return ()
    if not command or not "".join(command).strip():
        raise HookError(f"a hook for {point!r} in {where} has an empty 'command'")
    if isinstance(command, str):
        return ("/bin/sh", "-c", command)
    return (_program(command[0]), *command[1:])


def _pattern(point: HookPoint, where: str, match: str | None) -> "Pattern | None":
    from quarterdeck.policy.grammar import parse_pattern

    try:
        return None if match is None else parse_pattern(match)
    except PolicyError as error:
        raise HookError(f"'match' of a hook for {point!r} in {where}: {error}") from error


def _program(name: str) -> str:
    # Path would take the "./" away, and the name would be looked for in PATH.
    return str(Path(name).expanduser()) if name.startswith("~") else name


_MOST_OUTPUT = 100_000
"""Characters of a tool's output that are sent to hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedCall:
    """A call as hooks leave it."""

    prepared: PreparedCall
    raw: Any
    """The arguments, as people see them."""
    refused: str | None = None
    urge: HookAdvice | None = None
    notes: tuple[str, ...] = ()
    """What is sent to the model with the result."""


async def run_before_tool_hooks(
    turn: Turn, id_: ToolCallId, tool: Tool, prepared: PreparedCall, raw: Any
) -> HookedCall:
    """Run the hooks of a call before a permission request.

    Where one changes the input, the call is prepared anew, and people are shown what will run.
    """
    facts = {"tool": tool.name, "kind": tool.kind, "title": prepared.title, "input": raw}
    facts["call"] = id_
    verdict = await turn.hooks.run("before_tool", facts, turn.emit, prepared.call)
    overseen = HookedCall(
        prepared=prepared,
        raw=raw,
        refused=_refused(verdict),
        urge=_urge(verdict),
        notes=verdict.context,
    )
    if verdict.input is None or verdict.refused is not None or verdict.input == raw:
        return overseen
    return await _changed(turn, id_, tool, overseen, verdict.input)


async def _changed(
    turn: Turn, id_: ToolCallId, tool: Tool, overseen: HookedCall, given: dict[str, Any]
) -> HookedCall:
    try:
        text = msgspec.json.encode(given).decode()
        arguments = turn.toolbox.decode(tool, text)
        prepared = await tool.prepare(arguments, turn.workspace)
    except QuarterdeckError as error:
        refused = f"a hook changed the input and made the call invalid: {error}"
        return with_changes(overseen, refused=refused)
    await turn.emit(
        ToolCallUpdated(
            call=id_,
            title=prepared.title,
            content=prepared.content,
            locations=prepared.locations,
            raw_input=given,
        )
    )
    await turn.emit(
        NoticePosted(title=f"A hook changed the input of {tool.name}", description=text)
    )
    note = f"[A hook changed the input of this call to {text}]"
    return with_changes(overseen, prepared=prepared, raw=given, notes=(note, *overseen.notes))


def _refused(verdict: HookVerdict) -> str | None:
    if verdict.refused is None:
        return None
    return f"hook {verdict.by} refused it: {verdict.refused}"


def _urge(verdict: HookVerdict) -> HookAdvice | None:
    if verdict.effect is None:
        return None
    by = Decider(kind="hook", name=verdict.by)
    text = f": {verdict.reason}" if verdict.reason else ""
    return HookAdvice(effect=verdict.effect, by=by, reason=f"hook {verdict.by} asks for it{text}")


async def run_after_tool_hooks(
    turn: Turn,
    id_: ToolCallId,
    tool: Tool,
    prepared: PreparedCall,
    raw: Any,
    notes: tuple[str, ...],
    outcome: ToolOutcome,
) -> ToolOutcome:
    """The outcome, with the notes of hooks about it; ``notes``: their earlier ones."""
    if turn.hooks.has("after_tool"):
        output = "\n".join(part.text for part in outcome.result if isinstance(part, TextPart))
        facts = {
            "tool": tool.name,
            "kind": tool.kind,
            "title": prepared.title,
            "input": raw,
            "call": id_,
            "output": output[:_MOST_OUTPUT],
            "is_error": outcome.is_error,
        }
        verdict = await turn.hooks.run("after_tool", facts, turn.emit, prepared.call)
        notes = (*notes, *verdict.context)
        if verdict.refused is not None:
            notes = (*notes, f"[Hook {verdict.by} objects to this: {verdict.refused}]")
    if not notes:
        return outcome
    return replace(outcome, result=(*outcome.result, *(TextPart(text=note) for note in notes)))
