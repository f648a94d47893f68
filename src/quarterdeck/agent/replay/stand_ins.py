"""What stands in for the model, the hooks, the gate and the instructions of directories."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from quarterdeck.models.errors import (
    ContextOverflowError,
    ModelError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
)
from quarterdeck.models.model import (
    Delta,
    Model,
    ModelInfo,
    ModelRequest,
    ModelStop,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
)
from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import (
    NOBODY,
    Emit,
    Gate,
    HookAdvice,
    PermissionGranted,
    PermissionRefused,
)
from quarterdeck.policy.modes import SandboxState
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.conversation import Message, TextPart, ToolUsePart
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    ModelCallFinished,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    RateLimited,
    Redone,
    RetryScheduled,
    Rewound,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import TokenUsage

from ..conversation import Conversation
from ..instructions import NestedInstructions
from ..model_call import digest_request
from ..ports import HookEmit, HookPoint, HookVerdict
from .conductor import Conductor, asking, speaker
from .recorded_run import CallRecord, ModelAnswer, RecordedItem, parse_hook_refusal

if TYPE_CHECKING:
    from ..ports import Hooks

__all__ = [
    "RecordedHooks",
    "RecordedInstructions",
    "RecordedModel",
    "ReplayGate",
    "was_attended",
]

_CUT = frozenset(("max_tokens", "length", "MAX_TOKENS", "max_output_tokens", "incomplete"))
_REFUSED = frozenset(("refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "RECITATION"))
_OVERFLOW = "start a new session, or choose a model with a larger window"


class RecordedModel:
    """Answers each request with what was recorded, and compares the request."""

    def __init__(self, conductor: Conductor, info: ModelInfo) -> None:
        self._conductor = conductor
        self.info = info

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Give the recorded answer to the model call that was announced last, or a summary.

        Raises:
            ModelError: the recorded one, or one that says that nothing more was recorded.
        """
        new = speaker.get()
        session = self._conductor.recorded_id(new) if new is not None else None
        if session is None or not asking.get():
            yield await self._summary(session or self._conductor.recording.root)
            return
        asking.set(False)
        async for delta in self._answer(session, request):
            yield delta

    async def close(self) -> None:
        """Nothing is open."""

    async def _answer(self, session: SessionId, request: ModelRequest) -> AsyncIterator[Delta]:
        conductor = self._conductor
        answer = self._next(session)
        if answer is None:
            if conductor.is_over:  # the recording ends here: the rest is not of it
                await conductor.interrupt()
            raise RequestRejectedError("the recording has no answer to this request")
        self._compare(session, answer, request)
        for delta in answer.deltas:
            if isinstance(delta.content, TextContent):
                text = delta.content.text
                yield TextDelta(text) if isinstance(delta, MessageChunk) else ThinkingDelta(text)
        finished = answer.finished
        if finished is None or finished.stop == "cancelled" or _is_of_a_crash(answer):
            await conductor.reach(answer.end_index)
            await conductor.interrupt()
            return
        await conductor.before_release(session, answer.end_index)
        if finished.error is not None:
            raise self._error(conductor.recording.items[answer.end_index], finished)
        item = conductor.recording.items[answer.end_index]
        assert finished.reply is not None
        yield ReplyFinished(
            reply=finished.reply,
            stop=self._stop(item, finished),
            usage=finished.usage or TokenUsage(),
            raw_stop=finished.stop,
        )

    def _next(self, session: SessionId) -> ModelAnswer | None:
        """The answer to the call that was announced last: its start is done, its end is not."""
        items = self._conductor.recording.items
        for answer in self._conductor.recording.answers.get(session, ()):
            is_begun = items[answer.index].is_done
            if is_begun and (answer.finished is None or not items[answer.end_index].is_done):
                return answer
        return None

    def _compare(self, session: SessionId, answer: ModelAnswer, request: ModelRequest) -> None:
        conductor = self._conductor
        place = conductor.recording.items[answer.index].place
        conductor.compared += 1
        reference = conductor.kept.setdefault(session, _Reference(conductor, session))
        until = conductor.recording.items[answer.index].record.seq
        recorded = _shown(reference.messages(until))
        replayed = _shown(request.messages, conductor.unify)
        if recorded != replayed:
            conductor.note_divergence(
                "request", place, "messages of the request", recorded, replayed
            )
        self._compare_digest(answer, request)

    def _compare_digest(self, answer: ModelAnswer, request: ModelRequest) -> None:
        conductor = self._conductor
        if answer.digest is None:
            note = "system prompt and tools were not compared: an older program recorded this"
            conductor.notes[note] = None
            return
        place = conductor.recording.items[answer.index].place
        recorded, replayed = answer.digest, digest_request(request)
        if recorded.system != replayed.system:
            conductor.note_divergence(
                "request",
                place,
                "system prompt",
                f"{recorded.system} (checksum-bytes)",
                f"{replayed.system} (checksum-bytes)",
            )
        if len(_without_servers(recorded.tools)) < len(recorded.tools):
            note = "texts of tools of MCP servers were not compared: no server is started"
            conductor.notes[note] = None
        before, now = _without_servers(recorded.tools), _without_servers(replayed.tools)
        if before != now or list(before) != list(now):
            what = "tools: " + ", ".join(_changed(before, now))
            conductor.note_divergence("request", place, what, before, now)

    async def _summary(self, session: SessionId) -> ReplyFinished:
        """The recorded summary of the compaction under way, when the recording has it."""
        conductor = self._conductor
        ends = (
            item
            for item in conductor.recording.of_session.get(session, ())
            if isinstance(item.record.event, CompactionChanged)
            and item.record.event.status != "in_progress"
            and not item.is_done
        )
        item = next(ends, None)
        if item is None:
            raise RequestRejectedError("the recording has no summary")
        event = item.record.event
        assert isinstance(event, CompactionChanged)
        await conductor.reach(item.index)
        before = conductor.recording.items[item.index - 1].record.event
        if isinstance(before, TurnEnded):
            await conductor.wait_until_idle()
        if event.status == "cancelled":
            await asyncio.Event().wait()
        if event.status == "failed":
            raise RequestRejectedError(event.error or "the summary failed")
        return ReplyFinished(
            reply=Message(role="assistant", parts=(TextPart(text=event.summary or ""),)),
            stop="end_turn",
            usage=event.usage or TokenUsage(),
        )

    def _error(self, item: RecordedItem, finished: ModelCallFinished) -> ModelError:
        """The recorded failure, as one that is retried, makes room, or ends the turn as then."""
        recording, text = self._conductor.recording, finished.error or ""
        limited = [
            r.event
            for r in recording.records
            if r.session == item.session
            and r.seq > item.record.seq
            and isinstance(r.event, RateLimited | RetryScheduled | TurnEnded | ModelCallFinished)
        ]
        after = limited[0] if limited else None
        if isinstance(after, RateLimited):
            return RateLimitedError(text, status=429, retry_after=after.retry_after)
        if isinstance(after, RetryScheduled):
            kind = ContextOverflowError if after.delay == 0.0 else OverloadedError
            return kind(text)
        if isinstance(after, TurnEnded) and _OVERFLOW in (after.reason or ""):
            return ContextOverflowError(text)
        kind = OverloadedError if self._has_retried(item) else RequestRejectedError
        return kind(text, partial=finished.reply)

    def _has_retried(self, item: RecordedItem) -> bool:
        """Whether the last attempts were retried, so that this one used up the retries."""
        own = self._conductor.recording.of_session[item.session]
        before = [one.record.event for one in own[: own.index(item)]][-2:]
        return any(isinstance(event, RetryScheduled) for event in before)

    def _stop(self, item: RecordedItem, finished: ModelCallFinished) -> ModelStop:
        reply = finished.reply
        assert reply is not None
        word = finished.stop or ""
        if any(isinstance(part, ToolUsePart) for part in reply.parts):
            return "max_tokens" if word in _CUT else "tool_use"
        following = next(self._conductor.recording.following(item), None)
        end = following.record.event if following is not None else None
        if isinstance(end, TurnEnded) and end.stop in ("max_tokens", "refusal"):
            return "max_tokens" if end.stop == "max_tokens" else "refusal"
        if word in _CUT or word == "model_context_window_exceeded":
            return "max_tokens"
        return "refusal" if word in _REFUSED else "end_turn"


if TYPE_CHECKING:
    _model: Model = RecordedModel(cast("Conductor", None), cast("ModelInfo", None))


def _is_of_a_crash(answer: ModelAnswer) -> bool:
    """Whether the next run wrote the end of a call that a crash left open."""
    error = answer.finished.error if answer.finished is not None else None
    return error == "the process that ran the session died"


class _Reference:
    """The recorded conversation of one session, up to a place that only grows."""

    def __init__(self, conductor: Conductor, session: SessionId) -> None:
        recording = conductor.recording
        whole = (*recording.earlier, *recording.records)
        self._records = [record for record in whole if record.session == session]
        self._has_moved = any(isinstance(r.event, Rewound | Redone) for r in self._records)
        self._conversation = Conversation()
        self._next = 0

    def messages(self, until: int) -> tuple[Message, ...]:
        """The messages of a request that was sent before the record of this number."""
        if self._has_moved:
            from ..checkpoints.turn_history import rebuild_conversation

            return rebuild_conversation(r for r in self._records if r.seq < until).messages()
        while self._next < len(self._records) and self._records[self._next].seq < until:
            self._conversation.apply(self._records[self._next].event)
            self._next += 1
        return self._conversation.messages()


def _shown(messages: Iterable[Message], unify: Callable[[str], str] = str) -> list[Any]:
    text = unify(msgspec.json.encode(list(messages)).decode())
    return msgspec.json.decode(text)


def _without_servers(tools: Mapping[str, str]) -> dict[str, str]:
    return {name: sum_ for name, sum_ in tools.items() if not name.startswith("mcp__")}


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    found = [f"{name} is new" for name in now if name not in before]
    found += [f"{name} is gone" for name in before if name not in now]
    found += [f"{name} changed" for name in before if now.get(name, before[name]) != before[name]]
    return found or ["another order"]


class RecordedHooks:
    """Gives the verdicts that the recording shows; no hook is run."""

    most_continued = 1_000_000

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._points = frozenset(_hook_points(conductor))
        if self._points:
            note = "hooks were not run: their recorded effects were used"
            conductor.notes[note] = None

    def has(self, point: HookPoint) -> bool:
        """Whether the recording shows an effect of hooks at this point."""
        return point in self._points

    async def run(
        self, point: HookPoint, facts: Mapping[str, Any], emit: HookEmit, call: Call | None = None
    ) -> HookVerdict:
        """The recorded verdict; context that was added is emitted as it was."""
        session = self._session()
        match point:
            case "session_start" | "after_compaction":
                await self._conductor.add_context(session, emit)
                return HookVerdict()
            case "before_tool":
                return self._before_tool(session, str(facts.get("call")))
            case "prompt":
                return self._prompt(session)
            case "turn_end":
                return self._turn_end(session)
            case "before_compaction":
                return self._before_compaction(session)
            case _:
                return HookVerdict()

    def saw(self, event: Event, emit: HookEmit) -> None:
        """No one is notified."""

    async def close(self) -> None:
        """Nothing runs."""

    def _session(self) -> SessionId:
        new = speaker.get()
        found = self._conductor.recorded_id(new) if new is not None else None
        return found or self._conductor.recording.root

    def _before_tool(self, session: SessionId, call: str) -> HookVerdict:
        found = self._conductor.recording.call(session, call)
        if found is None:
            return HookVerdict()
        refused = parse_hook_refusal(found.ended.reason if found.ended is not None else None)
        if refused is not None:
            return HookVerdict(refused=refused[1], by=refused[0])
        verdict = HookVerdict()
        if found.answered is not None and found.answered.by.kind == "hook":
            verdict = replace(verdict, effect="allow", by=found.answered.by.name or "")
        reason = found.asked.reason if found.asked is not None else None
        if reason and reason.startswith("hook ") and " asks for it" in reason:
            by, _, why = reason.removeprefix("hook ").partition(" asks for it")
            verdict = replace(verdict, effect="ask", by=by, reason=why.removeprefix(": "))
        changed: Any = found.changed_input
        if isinstance(changed, dict):
            verdict = replace(verdict, input=cast("dict[str, Any]", changed))
        return verdict

    def _prompt(self, session: SessionId) -> HookVerdict:
        item = self._conductor.next_of(session)
        event = item.record.event if item is not None else None
        if item is None or not isinstance(event, Prompted):
            return HookVerdict()
        ended = next(
            (
                one.record.event
                for one in self._conductor.recording.following(item)
                if isinstance(one.record.event, TurnEnded)
            ),
            None,
        )
        if ended is not None and ended.stop == "refusal" and not event.steers:
            refused = parse_hook_refusal(ended.reason)
            if refused is not None:
                return HookVerdict(refused=refused[1], by=refused[0])
        if event.model_content is None or len(event.model_content) <= len(event.content):
            return HookVerdict()
        added = event.model_content[len(event.content) :]
        texts = tuple(block.text for block in added if isinstance(block, TextContent))
        return HookVerdict(context=texts)

    def _turn_end(self, session: SessionId) -> HookVerdict:
        item = self._conductor.next_of(session)
        event = item.record.event if item is not None else None
        if not isinstance(event, Prompted) or event.origin != "hook":
            return HookVerdict()
        words = [block.text for block in event.content if isinstance(block, TextContent)]
        return HookVerdict(again="\n".join(words), by="recorded")

    def _before_compaction(self, session: SessionId) -> HookVerdict:
        item = self._conductor.next_of(session)
        event = item.record.event if item is not None else None
        error = event.error if isinstance(event, CompactionChanged) else None
        refused = parse_hook_refusal(error)
        return HookVerdict(refused=refused[1], by=refused[0]) if refused else HookVerdict()


if TYPE_CHECKING:
    _hooks: Hooks = RecordedHooks(cast("Conductor", None))


def _hook_points(conductor: Conductor) -> Iterable[HookPoint]:
    recording = conductor.recording
    for call in recording.calls.values():
        reason = call.asked.reason if call.asked is not None else None
        by = call.answered.by.kind if call.answered is not None else None
        has_refused = parse_hook_refusal(call.ended.reason if call.ended is not None else None)
        if by == "hook" or has_refused or (reason or "").startswith("hook "):
            yield "before_tool"
        if call.changed_input is not UNSET:
            yield "before_tool"
    for event in recording.events():
        match event:
            case Prompted(origin="hook"):
                yield "turn_end"
            case Prompted(model_content=tuple(sent), content=content) if len(sent) > len(content):
                yield "prompt"
            case TurnEnded(stop="refusal", reason=reason) if parse_hook_refusal(reason):
                yield "prompt"
            case CompactionChanged(error=error) if parse_hook_refusal(error):
                yield "before_compaction"
            case NoticePosted(title=title) if title.startswith("A hook changed the input of"):
                yield "before_tool"
            case _:
                pass


class ReplayGate(Gate, kw_only=True, eq=False):
    """Decides for real, and goes on as it was decided in the recording."""

    conductor: Conductor

    async def permit(
        self,
        emit: Emit,
        question: PermissionAsked,
        call: Call,
        urge: HookAdvice | None = None,
        sandbox: SandboxState | None = None,
    ) -> PermissionGranted | PermissionRefused:
        """Decide about a call; what was recorded counts, whatever is decided now."""
        found = self.conductor.recording.call(self.conductor.recording.root, question.call)
        if found is not None and _was_stopped_before(found):
            await self.conductor.interrupt()
        verdict = await super().permit(emit, question, call, urge, sandbox)
        if found is None or found.answered is None or found.ended is None:
            return verdict
        if found.was_allowed:
            return verdict if isinstance(verdict, PermissionGranted) else PermissionGranted()
        if isinstance(verdict, PermissionRefused):
            return verdict
        result = found.ended.result
        words = [p.text for p in result.content if isinstance(p, TextPart)] if result else []
        return PermissionRefused(found.ended.reason or "", "\n".join(words))


def _was_stopped_before(call: CallRecord) -> bool:
    """Whether an interrupt ended a call before it was decided."""
    is_undecided = call.answered is None and call.asked is None and not call.has_run
    return is_undecided and call.ended is not None and call.ended.status == "cancelled"


def was_attended(events: Iterable[Event]) -> bool:
    """Whether a person could answer requests."""
    return not any(isinstance(e, PermissionAnswered) and e.by == NOBODY for e in events)


class RecordedInstructions(NestedInstructions, kw_only=True, eq=False):
    """Sends the instructions of directories that were recorded; no file is read."""

    conductor: Conductor

    async def touched(
        self,
        paths: Iterable[str],
        conversation: Conversation,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        """Send what was recorded next."""
        new = speaker.get()
        session = self.conductor.recorded_id(new) if new is not None else None
        await self.conductor.add_context(session or self.conductor.recording.root, emit)
