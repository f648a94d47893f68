"""Runs the hooks of a session, in order, and puts what they say together."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from quarterdeck.policy.call import Call
from quarterdeck.system.environment import PASSED_ON
from quarterdeck.wire.events import Event, Notice, PermissionAsked, QuestionAsked

from .called import call_function
from .commanded import run_command
from .hook import Hook, HookFailed, Reply
from .seam import Emit, Point, Verdict

__all__ = ["SessionHooks"]

_VERSION = 1
_MOST_CONTEXT = 20_000
"""Characters that a hook may tell the model."""
_MOST_WAITING = 20
"""Notifications that may be under way; more are dropped, as nobody could follow them."""
_LONG = 1000
"""Characters of a command beyond which it is held against a pattern in a thread."""


@dataclass(slots=True)
class _Place:
    session: str
    cwd: str
    project: str


class SessionHooks:
    """The hooks of one session; see ``seam.Hooks``."""

    def __init__(
        self,
        hooks: Mapping[Point, tuple[Hook, ...]],
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
        self._notifying: set[asyncio.Task[None]] = set()

    def has(self, point: Point) -> bool:
        """Whether there is any hook for a point."""
        return bool(self._hooks.get(point))

    async def run(
        self, point: Point, facts: Mapping[str, Any], emit: Emit, call: Call | None = None
    ) -> Verdict:
        """Run the hooks of a point; a refusal ends the row."""
        verdict = Verdict()
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

    def saw(self, event: Event, emit: Emit) -> None:
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
        task = asyncio.create_task(self._notify(facts, emit), name="hooks notify")
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    async def close(self) -> None:
        """End what runs in the background."""
        for task in tuple(self._notifying):
            task.cancel()
        if self._notifying:
            await asyncio.wait(self._notifying)

    async def _notify(self, facts: Mapping[str, Any], emit: Emit) -> None:
        await self.run("notification", facts, emit)

    async def _ask(self, hook: Hook, point: Point, facts: dict[str, Any], emit: Emit) -> Reply:
        place = self._place
        told = {
            "v": _VERSION,
            "point": point,
            "session": place.session,
            "cwd": place.cwd,
            "project": place.project,
            **facts,
        }
        try:
            if hook.target:
                return await call_function(hook, told, place.project)
            data = msgspec.json.encode(told, enc_hook=repr)
            return await run_command(hook, data, place.project, self._variables(point))
        except HookFailed as error:
            title = f"Hook {hook} at {point} is ignored"
            await emit(Notice(title=title, severity="warning", description=str(error)))
            return Reply()

    def _variables(self, point: Point) -> dict[str, str]:
        place = self._place
        return {
            **self._inherited,
            "QUARTERDECK_HOOK": point,
            "QUARTERDECK_SESSION": place.session,
            "QUARTERDECK_CWD": place.cwd,
            "QUARTERDECK_PROJECT": place.project,
        }


def _with(verdict: Verdict, reply: Reply, hook: Hook) -> Verdict:
    """What was said so far, and one more answer; asking outranks allowing."""
    if reply.context.strip():
        said = reply.context.strip()[:_MOST_CONTEXT]
        verdict = replace(verdict, context=(*verdict.context, said))
    if reply.input is not None:
        verdict = replace(verdict, input=reply.input)
    if reply.goes_on and verdict.again is None:
        again = reply.reason.strip()[:_MOST_CONTEXT] or f"Go on: hook {hook} says it is not done."
        verdict = replace(verdict, again=again, by=str(hook))
    reason = reply.reason.strip()[:_MOST_CONTEXT]
    match reply.decision:
        case "deny":
            refused = reason or f"{hook} gives no reason"
            return replace(verdict, refused=refused, by=str(hook))
        case "ask":
            return replace(verdict, wish="ask", by=str(hook), reason=reason)
        case "allow" if verdict.wish is None:
            return replace(verdict, wish="allow", by=str(hook), reason=reason)
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
    from quarterdeck.policy.matching import touches
    from quarterdeck.policy.parts import parts_of

    assert hook.pattern is not None
    return any(touches(hook.pattern, part, call) != "no" for part in parts_of(call))
