"""The calls of an agent: normalized, compared with what was decided, carried out where it asks us.

Agents report their calls whether or not they asked. A call that is over, that was not permitted and
that policy by itself would not have allowed is a violation: it is noted in the log, and by setting
it ends the turn.
"""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from quarterdeck.policy.call import Call
from quarterdeck.policy.decision import Allow, Deny
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate, PermissionGranted
from quarterdeck.policy.modes import Containment
from quarterdeck.wire.events import (
    Event,
    PermissionAsked,
    PermissionViolated,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId, new_request_id, new_tool_call_id
from quarterdeck.wire.tool_calls import (
    Diff,
    TerminalItem,
    ToolCallContent,
    ToolCallEnd,
    ToolCallLocation,
    ToolKind,
)

from .enforcement import Enforcement
from .errors import NotPermittedError
from .link import ServedCall
from .permissions import UnusedPermissions, call_of, core_command, write_of

if TYPE_CHECKING:
    from .file_changes import Fingerprint

__all__ = ["CallMonitor", "ServedCallRunner", "ToolCallNormalizer"]


class ToolCallNormalizer:
    """Makes what agents say about tool calls keep the rules of the vocabulary.

    Agents use ids again in later turns, announce a call first when they ask for permission, send
    the end as an update or twice, or not at all. An id that comes again in a later turn gets a new
    name, so that a call is one call in the whole log.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._open: dict[str, ToolCallId] = {}
        self._ended: set[str] = set()
        """Ids that ended in this turn, as the agent calls them."""
        self._used: dict[str, int] = {}
        """How often an id began, over the whole session."""

    def name(self, theirs: str) -> ToolCallId:
        """What we call the agent's call."""
        return self._open.get(theirs) or _numbered(theirs, self._used.get(theirs, 0))

    def begin(self, start: ToolCallStarted) -> Iterator[Event]:
        """The agent announces a call, perhaps again, perhaps one that is over already."""
        theirs = start.call
        if theirs in self._open:
            yield from self.update(_as_update(start))
            return
        if theirs in self._ended:
            yield _late(self._origin, start)
            return
        final = start.status if start.status in ("completed", "failed") else None
        ours = self._open_call(theirs)
        status = "in_progress" if final else start.status
        yield replace(start, call=ours, status=status)
        if final:
            yield self._end(theirs, ToolCallEnded(call=ours, status=final))

    def update(self, update: ToolCallUpdated) -> Iterator[Event]:
        """The agent tells of a call, perhaps for the first time, perhaps that it is over."""
        theirs = update.call
        if theirs in self._ended:
            yield _late(self._origin, update)
            return
        if theirs not in self._open:
            first = _as_start(update)
            over = first.status in ("completed", "failed")
            yield from self.begin(replace(first, status="in_progress") if over else first)
            if not over and update.raw_output is UNSET:
                return
            update = ToolCallUpdated(
                call=update.call,
                status=update.status if over else UNSET,
                content=update.content if over else UNSET,
                raw_output=update.raw_output,
            )
        ours = self._open[theirs]
        if isinstance(update.status, str) and update.status in ("completed", "failed"):
            yield from self._finish(theirs, ours, update, update.status)
        else:
            yield replace(update, call=ours)

    def ask(self, question: PermissionAsked) -> Iterator[Event]:
        """The agent asks for permission; some announce the call by nothing else.

        What it asks about under the id of a call that is over is another call.
        """
        if question.call not in self._open:
            self._ended.discard(question.call)
            yield from self.begin(
                ToolCallStarted(
                    call=question.call,
                    title=question.title,
                    name=question.name,
                    kind=question.kind,
                    content=question.content,
                    locations=question.locations,
                    raw_input=question.raw_input,
                )
            )

    def end(self, end: ToolCallEnded) -> Iterator[Event]:
        """The agent says that a call is over."""
        theirs = end.call
        if theirs in self._ended:
            yield _late(self._origin, end)
            return
        if theirs not in self._open:
            ours = self._open_call(theirs)
            yield ToolCallStarted(call=ours, title=theirs, status="in_progress")
        yield self._end(theirs, replace(end, call=self._open[theirs]))

    def close(self, status: ToolCallEnd, reason: str) -> Iterator[Event]:
        """End the calls that the agent left open; the turn is over."""
        for theirs, ours in list(self._open.items()):
            yield self._end(theirs, ToolCallEnded(call=ours, status=status, reason=reason))
        self._ended.clear()

    def _open_call(self, theirs: str) -> ToolCallId:
        count = self._used[theirs] = self._used.get(theirs, 0) + 1
        ours = self._open[theirs] = _numbered(theirs, count)
        return ours

    def _finish(
        self, theirs: str, ours: ToolCallId, update: ToolCallUpdated, status: ToolCallEnd
    ) -> Iterator[Event]:
        """An update that is the end: what an end has no place for is reported before."""
        named = {
            field: getattr(update, field)
            for field in ("title", "name", "kind", "raw_input")
            if not isinstance(getattr(update, field), UnsetType)
        }
        if named:
            yield ToolCallUpdated(call=ours, **named)
        yield self._end(
            theirs,
            ToolCallEnded(
                call=ours,
                status=status,
                content=update.content,
                locations=update.locations,
                raw_output=update.raw_output,
            ),
        )

    def _end(self, theirs: str, end: ToolCallEnded) -> ToolCallEnded:
        del self._open[theirs]
        self._ended.add(theirs)
        return end


def _numbered(theirs: str, count: int) -> ToolCallId:
    return ToolCallId(theirs if count <= 1 else f"{theirs}~{count}")


def _late(origin: str, event: ToolCallStarted | ToolCallUpdated | ToolCallEnded) -> UnknownEvent:
    return UnknownEvent(
        origin=origin,
        raw=msgspec.json.decode(msgspec.json.encode(event)),
        reason="it arrived after the end of its call",
    )


def _as_update(start: ToolCallStarted) -> ToolCallUpdated:
    data: dict[str, Any] = {
        "title": start.title or UNSET,
        "name": start.name if start.name is not None else UNSET,
        "kind": start.kind,
        "status": start.status,
        "content": start.content or UNSET,
        "locations": start.locations or UNSET,
        "raw_input": start.raw_input if start.raw_input is not None else UNSET,
    }
    return ToolCallUpdated(call=start.call, **data)


def _as_start(update: ToolCallUpdated) -> ToolCallStarted:
    fields = ("name", "kind", "status", "content", "locations", "raw_input")
    data: dict[str, Any] = {
        field: value
        for field in fields
        if not isinstance(value := getattr(update, field), UnsetType)
    }
    title = update.title if isinstance(update.title, str) else data.get("name") or update.call
    return ToolCallStarted(call=update.call, title=title, **data)


_CHANGES: tuple[ToolKind, ...] = ("edit", "delete", "move")
_CHANGES_NOTHING = frozenset(("read-only", "plan", "deny-all"))
"""Modes in which an agent may change no file unless a person lets it."""
_MOST_SHOWN = 5


@dataclass(slots=True)
class _KnownCall:
    """What is known of a call."""

    title: str
    name: str | None = None
    kind: ToolKind = "other"
    raw_input: Any = None
    locations: tuple[ToolCallLocation, ...] = ()
    content: tuple[ToolCallContent, ...] = ()
    diffs: dict[str, None] = field(default_factory=dict[str, None])
    """Every file that it was said to change, at whatever time."""
    decided: Literal["", "allowed", "refused"] = ""
    permitted: Call | None = None
    """What it was allowed to do, where that was certain."""


class CallMonitor:
    """The calls of a session that are under way, and what was decided about each."""

    def __init__(self, gate: Gate, around: CallContext) -> None:
        self._gate = gate
        self._around = around
        self._calls: dict[ToolCallId, _KnownCall] = {}
        self._terminals: set[str] = set()
        """Of ours: what runs in them was decided."""
        self._written: set[str] = set()
        """Real paths of files written in this turn with permission, or reported as without."""
        self._before: Fingerprint | None = None
        self._ran_command = False
        """A person let a command run in this turn; it may have changed any file."""

    # What is heard

    def started(self, start: ToolCallStarted) -> None:
        """A call is announced."""
        known = self._calls[start.call] = _KnownCall(
            title=start.title, name=start.name, kind=start.kind
        )
        self._take(known, start)

    def updated(self, update: ToolCallUpdated) -> None:
        """More is said of a call."""
        known = self._calls.get(update.call)
        if known is None:
            return
        for name in ("title", "name", "kind"):
            value = getattr(update, name)
            if not isinstance(value, UnsetType):
                setattr(known, name, value)
        self._take(known, update)

    def _take(
        self, known: _KnownCall, event: ToolCallStarted | ToolCallUpdated | ToolCallEnded
    ) -> None:
        if isinstance(event.content, tuple) and event.content:
            known.content = event.content
            known.diffs.update(
                (item.path, None) for item in event.content if isinstance(item, Diff)
            )
        if isinstance(event.locations, tuple) and event.locations:
            known.locations = event.locations
        raw = getattr(event, "raw_input", None)
        if raw and not isinstance(raw, UnsetType):
            known.raw_input = raw

    def decided(self, call: ToolCallId, *, allowed: bool) -> None:
        """Someone or something has decided about a call."""
        known = self._calls.get(call)
        if known is not None and known.decided != "allowed":
            known.decided = "allowed" if allowed else "refused"

    def permitted(self, call: Call, *, by_person: bool, of: ToolCallId | None = None) -> None:
        """A call was permitted that may write these files; ``of``: the agent's call it is."""
        known = self._calls.get(of) if of is not None else None
        if known is not None:
            known.permitted = call
        self._ran_command = self._ran_command or (by_person and call.command is not None)
        self._written.update(use.resolved for use in call.paths if use.access == "write")

    def shows(self, terminal: str) -> None:
        """A terminal of ours was started with permission."""
        self._terminals.add(terminal)

    def end_turn(self) -> None:
        """Nothing of this turn goes on."""
        self._calls.clear()
        self._written.clear()
        self._ran_command = False

    # What is seen on the disk

    async def begin_turn(self, held: Enforcement) -> None:
        """Look at the files before a turn in which none may change."""
        self._before = None
        if self._gate.mode in _CHANGES_NOTHING and not held.is_left("edit"):
            from .file_changes import read_fingerprint

            self._before = await asyncio.to_thread(read_fingerprint, self._around.roots)

    async def changed_on_disk(self) -> PermissionViolated | None:
        """What is wrong with files that changed in the turn; None: it was permitted."""
        if self._before is None or self._ran_command:
            return None
        from .file_changes import changed_files, read_fingerprint

        after = await asyncio.to_thread(read_fingerprint, self._around.roots)
        changed = () if after is None else changed_files(self._before, after)
        left = [path for path in changed if path not in self._written]
        if not left:
            return None
        here = self._around.cwd.rstrip("/") + "/"
        shown = ", ".join(path.removeprefix(here) for path in left[:_MOST_SHOWN])
        more = f" and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
        return PermissionViolated(
            request=new_request_id(),
            title=f"changed files: {shown}{more}",
            kind="edit",
            reason=(
                f"they changed during the turn, and the mode {self._gate.mode!r} allows no "
                "changes; ignore this if you or another program changed them"
            ),
        )

    # What is asked

    def find(self, call: Call) -> ToolCallId | None:
        """The call under way that something belongs to which the agent has us do."""
        for id_, known in reversed(self._calls.items()):
            if call.command is not None:
                if known.kind in ("execute", "other") and call.command in self._commands(
                    known, call
                ):
                    return id_
            elif any(use.path in self._paths(known) for use in call.paths):
                return id_
        return None

    def _commands(self, known: _KnownCall, call: Call) -> Iterator[str]:
        wanted = core_command(call.command or "", call.cwd)
        for text in (_fields(known.raw_input).get("command"), known.title):
            if isinstance(text, str) and core_command(text, call.cwd) == wanted:
                yield call.command or ""

    def _paths(self, known: _KnownCall) -> set[str]:
        named = [location.path for location in known.locations]
        named += [item.path for item in known.content if isinstance(item, Diff)]
        given = _fields(known.raw_input).values()
        named += [value for value in given if isinstance(value, str) and value[:1] == "/"]
        return {posixpath.join(self._around.cwd, path) for path in named}

    async def violation(self, end: ToolCallEnded, held: Enforcement) -> PermissionViolated | None:
        """What was wrong with a call that is over; None: nothing, as far as can be known."""
        known = self._calls.pop(end.call, None)
        if known is None or end.status not in ("completed", "failed"):
            return None
        self._take(known, end)
        if known.decided == "allowed":
            return await self._exceeded(end.call, known)
        if end.status != "completed":
            return None
        if known.kind not in ("read", "search", "execute", *_CHANGES):
            return None
        if any(
            isinstance(x, TerminalItem) and x.terminal_id in self._terminals for x in known.content
        ):
            return None
        call = await call_of(_question(end.call, known), self._around, self._gate)
        writes = {use.resolved for use in call.paths if use.access == "write"}
        if writes and writes <= self._written:
            return None
        reason = await self._reason(known, call, held)
        if reason is None:
            return None
        self._written |= writes  # reported once
        return PermissionViolated(
            request=new_request_id(),
            call=end.call,
            title=known.title,
            kind=known.kind,
            reason=reason,
        )

    async def _exceeded(self, id_: ToolCallId, known: _KnownCall) -> PermissionViolated | None:
        """What is wrong with a call that was allowed and has become another one since."""
        allowed = known.permitted
        if allowed is None:
            return None
        call = await call_of(_question(id_, known), self._around, self._gate)
        is_named = _fields(known.raw_input).keys() & {"command", "cmd"}  # not by a title
        runs_other = bool(
            is_named
            and call.command is not None
            and allowed.command is not None
            and core_command(call.command, call.cwd) != core_command(allowed.command, allowed.cwd)
        )
        covered = {use.resolved for use in allowed.paths} | self._written
        writes = {use.resolved for use in call.paths if use.access == "write"} - covered
        if not runs_other and (not writes or allowed.command is not None):
            return None
        if isinstance(await self._gate.judge(replace(call, doubts=())), Allow):
            return None
        self._written |= writes
        what = allowed.command if runs_other else ", ".join(use.path for use in allowed.paths)
        return PermissionViolated(
            request=new_request_id(),
            call=id_,
            title=known.title,
            kind=known.kind,
            reason=f"it was allowed for something else: {what!r}",
        )

    async def _reason(self, known: _KnownCall, call: Call, held: Enforcement) -> str | None:
        if known.decided == "refused" and known.kind not in ("read", "search"):
            return "it was denied, but the agent did it"
        # What an agent leaves unsaid is no proof that it did something else.
        decision = await self._gate.judge(replace(call, doubts=()))
        match decision:
            case Allow():
                return None
            case _ if call.mcp is not None and not isinstance(decision, Deny):
                return None  # a server of ours checks its calls itself
            case Deny(by=by) if by.kind == "rule":
                return decision.reason
            case _ if held.is_left(known.kind):
                return None
            case Deny():
                return decision.reason
            case _ if known.kind in ("read", "search"):
                return None
            case _:
                return f"no permission was requested: {decision.reason}"


def _fields(raw_input: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", raw_input) if isinstance(raw_input, dict) else {}


def _question(call: ToolCallId, known: _KnownCall) -> PermissionAsked:
    named = [*known.locations, *(ToolCallLocation(path=path) for path in known.diffs)]
    return PermissionAsked(
        request=new_request_id(),
        call=call,
        title=known.title,
        options=(),
        kind=known.kind,
        name=known.name,
        locations=tuple(named),
        raw_input=known.raw_input,
    )


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
        covered = self._clearances.take(
            call, await asyncio.to_thread(write_of, served.content, call)
        )
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
            raise NotPermittedError(decided.model_reason, cancelled=session.is_interrupted)
        self._conduct.permitted(call, by_person=decided.option is not None, of=question.call)
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
