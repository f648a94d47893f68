"""Notifications of ``codex app-server`` as events: pure, values in and events out."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    PlanChanged,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallUpdated,
    TurnEnd,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.settings import PlanEntry, PlanStatus
from quarterdeck.wire.usage import ContextUsage, TokenUsage

from ...foreign_json import as_list, as_map, as_number, as_text, output_content, rate_limit
from ...link import TurnOutcome
from .items import CodexItems

__all__ = ["CodexServerReader"]

_RETRY = re.compile(r"Reconnecting\.\.\. (\d+)/\d+")
_STEPS: dict[str, PlanStatus] = {"inProgress": "in_progress", "completed": "completed"}
_STOPS: tuple[tuple[str, TurnEnd], ...] = (
    ("max_output_tokens", "max_tokens"),
    ("content_filter", "refusal"),
)
_LIMITS = frozenset(("usageLimitExceeded", "rateLimitExceeded", "sessionBudgetExceeded"))
_SHOWN_OUTPUT = 8 * 1024
_STRIDE = 4 * 1024
"""Characters of a command's output after which it is shown again."""
_SILENT = frozenset(
    (
        *("thread/started", "thread/status/changed", "thread/readState/changed", "thread/closed"),
        *("thread/settings/updated", "thread/environment/connected", "thread/queue/changed"),
        *("thread/goal/updated", "thread/goal/cleared", "thread/prediction/updated"),
        *("turn/started", "turn/diff/updated", "turn/moderationMetadata"),
        *("item/commandExecution/terminalInteraction", "item/fileChange/outputDelta"),
        *("item/fileChange/patchUpdated", "item/mcpToolCall/progress", "serverRequest/resolved"),
        *("item/reasoning/summaryPartAdded", "item/autoApprovalReview/started"),
        *("item/autoApprovalReview/completed", "hook/started", "hook/completed"),
        *("skills/changed", "app/list/updated", "account/updated", "fs/changed", "project/changed"),
        *("remoteControl/status/changed", "rawResponse/completed", "rawResponseItem/completed"),
        *("model/verification", "model/safetyBuffering/updated", "thread/project/updated"),
        "thread/attachment/updated",
    )
)
"""Notifications that concern only the display, or repeat what another one reports."""


class CodexServerReader:
    """Reads the notifications of one thread. Nothing that a server sends makes it raise."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._items = CodexItems(origin)
        self._total: TokenUsage | None = None
        self._before: TokenUsage | None = None
        """The thread's tokens before the turn; None until the first figures come."""
        self._outputs: dict[str, tuple[str, int]] = {}
        """Of each running command: the end of its output, and how much of it is not shown."""
        self._resets_at: int | None = None
        self._is_limited = False
        self._tells: dict[str, Callable[[Mapping[str, Any]], Iterator[Event]]] = {
            "item/started": lambda data: self._items.begin(as_map(data.get("item"))),
            "item/completed": self._completed,
            "item/agentMessage/delta": self._grow,
            "item/plan/delta": self._grow,
            "item/reasoning/summaryTextDelta": self._think,
            "item/reasoning/textDelta": self._think,
            "item/commandExecution/outputDelta": self._output,
            "turn/plan/updated": _plan,
            "thread/tokenUsage/updated": self._usage,
            "thread/name/updated": _name,
            "thread/compacted": _compacted,
            "model/rerouted": _rerouted,
            "account/rateLimits/updated": self._limits,
            "mcpServer/startupStatus/updated": _server,
            "error": self._trouble,
            "warning": _warning,
            "guardianWarning": _warning,
            "configWarning": _warning,
            "deprecationNotice": _warning,
        }

    def begin_turn(self) -> None:
        """What comes now belongs to a new turn."""
        self._before = self._total
        self._is_limited = False
        self._outputs.clear()
        self._items.begin_turn()

    def begin_thread(self) -> None:
        """The thread is new: it has used no tokens."""
        self._total = TokenUsage()

    def gap(self) -> None:
        """The connection was cut: something may have been missed."""
        self._items.gap()
        self._outputs.clear()

    @property
    def has_gap(self) -> bool:
        """Whether something of this turn may have been missed."""
        return self._items.has_gap

    def is_new(self, item: Mapping[str, Any]) -> bool:
        """Whether this complete item has not been emitted yet; marks it as emitted."""
        return self._items.is_new(item)

    def read(self, method: str, params: Mapping[str, Any]) -> Iterator[Event]:
        """The events of one notification; one of ``UnknownEvent`` for what is not known."""
        tell = self._tells.get(method)
        if tell is not None:
            yield from tell(params)
        elif method not in _SILENT:
            yield UnknownEvent(origin=self._origin, raw={"method": method, "params": dict(params)})

    def outcome(self, turn: Mapping[str, Any]) -> TurnOutcome:
        """How a turn went that codex calls completed."""
        usage = None
        if self._total is not None and self._before is not None:
            usage = self._total.since(self._before)
        match turn.get("status"):
            case "completed":
                return TurnOutcome(stop="end_turn", usage=usage)
            case "interrupted":
                return TurnOutcome(stop="cancelled", usage=usage)
            case _:
                error = as_map(turn.get("error"))
                reason = as_text(error.get("message")) or (
                    "codex reported a failure without a reason"
                )
                if details := as_text(error.get("additionalDetails")):
                    reason = f"{reason}: {details}"
                stops: list[TurnEnd] = [stop for word, stop in _STOPS if word in reason]
                return TurnOutcome(stop=stops[0] if stops else "failed", reason=reason, usage=usage)

    def past(self, item: Mapping[str, Any]) -> Iterator[Event]:
        """The events of an item of an earlier turn."""
        yield from self._items.end(item)

    def catch_up(self, item: Mapping[str, Any]) -> Iterator[Event]:
        """The events of a complete item of this turn that were not emitted yet."""
        yield from self._completed({"item": item})

    # Items

    def _completed(self, data: Mapping[str, Any]) -> Iterator[Event]:
        item = as_map(data.get("item"))
        self._outputs.pop(as_text(item.get("id")), None)
        yield from self._items.end(item)

    def _grow(self, data: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._items.grow(as_text(data.get("itemId")), as_text(data.get("delta")))

    def _think(self, data: Mapping[str, Any]) -> Iterator[Event]:
        id_, delta = as_text(data.get("itemId")), as_text(data.get("delta"))
        yield from self._items.grow(id_, delta, is_thought=True)

    def _output(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """Show a running command's output from time to time: each showing holds all of it."""
        id_, delta = as_text(data.get("itemId")), as_text(data.get("delta"))
        if not self._items.is_running(id_):
            return  # its beginning was missed; its end says it all
        before, due = self._outputs.get(id_, ("", _STRIDE))
        output, due = (before + delta)[-_SHOWN_OUTPUT:], due + len(delta)
        if due >= _STRIDE:
            yield ToolCallUpdated(
                call=ToolCallId(id_), status="in_progress", content=output_content(output)
            )
            due = 0
        self._outputs[id_] = (output, due)

    # Figures

    def _usage(self, data: Mapping[str, Any]) -> Iterator[Event]:
        figures = as_map(data.get("tokenUsage"))
        last = as_map(figures.get("last"))
        total = _tokens(as_map(figures.get("total")))
        if self._before is None:
            self._before = total.since(_tokens(last))
        self._total = total
        size = as_number(figures.get("modelContextWindow"))
        used = as_number(last.get("totalTokens"))
        context = ContextUsage(used=used, size=size) if size else None
        yield UsageReported(context=context, session_tokens=total)

    def _limits(self, data: Mapping[str, Any]) -> Iterator[Event]:
        limits = as_map(data.get("rateLimits"))
        windows = [as_map(limits.get(name)) for name in ("primary", "secondary")]
        full = [one for one in windows if as_number(one.get("usedPercent")) >= 100]
        resets = [as_number(one.get("resetsAt")) for one in full]
        self._resets_at = max(resets, default=0) * 1_000_000 or None
        if reached := as_text(limits.get("rateLimitReachedType")):
            yield from self._limited(reached)

    # Trouble

    def _trouble(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """An error: a retry, or the failure that ends the turn and is reported again."""
        error = as_map(data.get("error"))
        text = as_text(error.get("message"))
        reason = as_text(error.get("additionalDetails")) or text
        info = error.get("codexErrorInfo")
        if (isinstance(info, str) and info in _LIMITS) or rate_limit(reason) is not None:
            yield from self._limited(reason)
        if data.get("willRetry") is True:
            retry = _RETRY.match(text)
            attempt = int(retry[1]) + 1 if retry else 2
            yield RetryScheduled(attempt=attempt, delay=0.0, reason=reason)

    def _limited(self, reason: str) -> Iterator[Event]:
        if not self._is_limited:
            self._is_limited = True
            yield RateLimited(reason=reason, resets_at=self._resets_at)


def _plan(data: Mapping[str, Any]) -> Iterator[Event]:
    steps = map(as_map, as_list(data.get("plan")))
    yield PlanChanged(
        entries=tuple(
            PlanEntry(
                content=as_text(step.get("step")),
                priority="medium",
                status=_STEPS.get(as_text(step.get("status")), "pending"),
            )
            for step in steps
        )
    )


def _name(data: Mapping[str, Any]) -> Iterator[Event]:
    if title := as_text(data.get("threadName")):
        yield SessionChanged(title=title)


def _compacted(data: Mapping[str, Any]) -> Iterator[Event]:
    return iter(())  # the item of the same name reports it


def _rerouted(data: Mapping[str, Any]) -> Iterator[Event]:
    model = as_text(data.get("toModel"))
    yield SessionChanged(model=model)
    title = f"Codex answers with {model} instead of {as_text(data.get('fromModel'))}."
    yield NoticePosted(title=title, severity="warning")


def _server(data: Mapping[str, Any]) -> Iterator[Event]:
    if data.get("status") == "failed":
        title = f"The tool server {as_text(data.get('name'))!r} did not start."
        error = as_text(data.get("error")) or None
        yield NoticePosted(title=title, severity="warning", description=error)


def _warning(data: Mapping[str, Any]) -> Iterator[Event]:
    title = as_text(data.get("message")) or as_text(data.get("summary"))
    if title:
        details = as_text(data.get("details")) or None
        yield NoticePosted(title=title, severity="warning", description=details)


def _tokens(data: Mapping[str, Any]) -> TokenUsage:
    return TokenUsage(
        input=as_number(data.get("inputTokens")),
        output=as_number(data.get("outputTokens")),
        cached=as_number(data.get("cachedInputTokens")),
        cache_written=as_number(data.get("cacheWriteInputTokens")),
        thought=as_number(data.get("reasoningOutputTokens")),
    )
