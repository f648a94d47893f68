"""Doing for an agent what it has us do, once it is decided."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from msgspec.structs import replace

from quarterdeck.policy.call import Call
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate, PermissionGranted
from quarterdeck.policy.modes import Containment
from quarterdeck.wire.events import Event, PermissionAsked, ToolCallEnded, ToolCallStarted
from quarterdeck.wire.ids import ToolCallId, new_request_id, new_tool_call_id
from quarterdeck.wire.tool_calls import ToolCallEnd

from .call_monitor import CallMonitor
from .errors import NotPermittedError
from .link import ServedCall
from .permissions import UnusedPermissions, call_of

__all__ = ["ServedCallRunner"]

T = TypeVar("T")


class _Session(Protocol):
    """What of a session is needed here."""

    @property
    def gate(self) -> Gate: ...

    @property
    def is_interrupted(self) -> bool: ...

    async def emit(self, event: Event, *, parent: ToolCallId | None = None) -> None: ...

    async def emit_asked(self, event: Event) -> None: ...


class ServedCallRunner:
    """Decides about what an agent has us do like about a call of our own, and does it."""

    def __init__(
        self,
        session: _Session,
        around: CallContext,
        clearances: UnusedPermissions,
        conduct: CallMonitor,
    ) -> None:
        self._session = session
        self._around = around
        self._clearances = clearances
        self._conduct = conduct

    async def carry_out(self, served: ServedCall, act: Callable[[Containment], Awaitable[T]]) -> T:
        """See ``link.Host``."""
        question, gate = _question_of(served), self._session.gate
        call = await call_of(question, self._around, gate)
        covered = self._clearances.take(call)
        if covered is not None:
            return await act(_containment(covered, served, is_auto=gate.mode == "full-auto"))
        known = self._conduct.find(call)
        if known is not None:
            return await self._decide(served, replace(question, call=known), call, act)
        return await self._decide_alone(served, question, call, act)

    async def _decide_alone(
        self,
        served: ServedCall,
        question: PermissionAsked,
        call: Call,
        act: Callable[[Containment], Awaitable[T]],
    ) -> T:
        """Decide it as a call of its own: the agent has announced none that it belongs to."""
        await self._session.emit(
            ToolCallStarted(
                call=question.call,
                title=served.title,
                name=served.name,
                kind=served.kind,
                content=served.content,
                raw_input=served.raw_input,
            )
        )
        try:
            done = await self._decide(served, question, call, act)
        except asyncio.CancelledError:
            await self._end(question.call, "cancelled")
            raise
        except Exception as error:
            await self._end(question.call, "failed", str(error))
            raise
        await self._end(question.call, "completed")
        return done

    async def _decide(
        self,
        served: ServedCall,
        question: PermissionAsked,
        call: Call,
        act: Callable[[Containment], Awaitable[T]],
    ) -> T:
        session = self._session
        is_auto = session.gate.mode == "full-auto"
        sandbox = served.sandbox if call.command is not None else None
        decided = await session.gate.permit(session.emit_asked, question, call, sandbox=sandbox)
        self._conduct.decided(question.call, allowed=isinstance(decided, PermissionGranted))
        if not isinstance(decided, PermissionGranted):
            raise NotPermittedError(decided.told, cancelled=session.is_interrupted)
        self._conduct.permitted(call, by_person=decided.option is not None)
        return await act(_containment(decided, served, is_auto=is_auto))

    async def _end(self, call: ToolCallId, how: ToolCallEnd, why: str | None = None) -> None:
        await self._session.emit(ToolCallEnded(call=call, status=how, reason=why))


def _containment(permitted: PermissionGranted, served: ServedCall, *, is_auto: bool) -> Containment:
    """What a command has to run in: as it was permitted, and in full-auto in the sandbox."""
    if permitted.containment == "none" and is_auto and served.sandbox.in_force:
        return "workspace"
    return permitted.containment


def _question_of(served: ServedCall) -> PermissionAsked:
    return PermissionAsked(
        request=new_request_id(),
        call=new_tool_call_id(),
        title=served.title,
        options=(),
        kind=served.kind,
        name=served.name,
        content=served.content,
        raw_input=served.raw_input,
    )
