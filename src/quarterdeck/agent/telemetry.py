"""What a session does, as OpenTelemetry spans and metrics by the conventions for generative AI.

Traces are sent where an SDK is at work in this process: in a program that embeds us, or under
``opentelemetry-instrument``. Else nothing of it is imported. Names, times, tokens and errors are
sent; messages, arguments of tools and their results are not.
"""

import sys
from typing import TYPE_CHECKING

from quarterdeck import __version__
from quarterdeck.wire.events import (
    ModelCallFinished,
    ModelCallStarted,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from quarterdeck.wire.record import Record
    from quarterdeck.wire.usage import TokenUsage

__all__ = ["Telemetry", "find_telemetry"]

_SDK = "opentelemetry.sdk"
_PROVIDERS = {"anthropic": "anthropic", "google": "gcp.gemini", "openai": "openai"}
"""What the conventions call a vendor; others go by their own name."""
_FAILED = frozenset({"failed", "cancelled"})


def find_telemetry() -> "Callable[[Record], None]":
    """A function for a session's records; it does nothing, and costs nothing, without an SDK."""
    return Telemetry().hear if _SDK in sys.modules else _ignore


def _ignore(record: "Record") -> None:
    del record


class Telemetry:
    """Turns the records of one session into spans: a turn, its model calls, its tool calls."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace

        self._tracer = trace.get_tracer("quarterdeck", __version__)
        meter = metrics.get_meter("quarterdeck", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens of a model call."
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="How long a model call took."
        )
        self._turn: Span | None = None
        self._calls: dict[str, Span] = {}
        self._model: tuple[Span, int, dict[str, str]] | None = None

    def hear(self, record: "Record") -> None:
        """Take one more record of the session; never raises for what it says."""
        match record.event:
            case TurnStarted():
                self._begin_turn(record)
            case ModelCallStarted() as event:
                self._begin_model_call(record, event)
            case ModelCallFinished() as event:
                self._end_model_call(record, event)
            case ToolCallStarted() as event:
                self._begin_tool_call(record, event)
            case ToolCallEnded() as event:
                error = event.status if event.status != "completed" else None
                _end(self._calls.pop(event.call, None), record, error)
            case TurnEnded() as event:
                self._end_turn(record, event)
            case SessionEnded():
                self._end_rest(record, "cancelled")
            case _:
                pass

    def _begin_turn(self, record: "Record") -> None:
        self._end_rest(record, "cancelled")
        self._turn = self._tracer.start_span(
            "invoke_agent quarterdeck",
            start_time=record.time * 1000,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "quarterdeck",
                "gen_ai.conversation.id": record.session,
            },
        )

    def _begin_model_call(self, record: "Record", event: ModelCallStarted) -> None:
        from opentelemetry.trace import SpanKind

        vendor, _, model = event.model.partition("/")
        facts = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(vendor, vendor),
            "gen_ai.request.model": model or event.model,
        }
        if self._model is not None:
            _end(self._model[0], record, "cancelled")
        span = self._tracer.start_span(
            f"chat {model or event.model}",
            context=self._within(),
            kind=SpanKind.CLIENT,
            start_time=record.time * 1000,
            attributes={**facts, "gen_ai.conversation.id": record.session},
        )
        if event.attempt > 1:
            span.set_attribute("quarterdeck.attempt", event.attempt)
        self._model = (span, record.time, facts)

    def _end_model_call(self, record: "Record", event: ModelCallFinished) -> None:
        if self._model is None:
            return
        (span, began, facts), self._model = self._model, None
        if event.stop is not None:
            span.set_attribute("gen_ai.response.finish_reasons", (event.stop,))
        if event.usage is not None:
            _tell_usage(span, event.usage)
            for kind, count in (("input", event.usage.input), ("output", event.usage.output)):
                self._tokens.record(count, {**facts, "gen_ai.token.type": kind})
        failed = {"error.type": "model_error"} if event.error is not None else {}
        self._seconds.record((record.time - began) / 1_000_000, {**facts, **failed})
        _end(span, record, failed.get("error.type"))

    def _begin_tool_call(self, record: "Record", event: ToolCallStarted) -> None:
        name = event.name or event.kind
        self._calls[event.call] = self._tracer.start_span(
            f"execute_tool {name}",
            context=self._within(),
            start_time=record.time * 1000,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": event.call,
                "gen_ai.tool.type": "function",
                "gen_ai.conversation.id": record.session,
            },
        )

    def _end_turn(self, record: "Record", event: TurnEnded) -> None:
        if self._turn is not None and event.usage is not None:
            _tell_usage(self._turn, event.usage)
        self._end_rest(record, event.stop if event.stop in _FAILED else None)

    def _end_rest(self, record: "Record", error: str | None) -> None:
        """End what is open: the inner ones first, as cut off."""
        if self._model is not None:
            _end(self._model[0], record, "cancelled")
            self._model = None
        for span in self._calls.values():
            _end(span, record, "cancelled")
        self._calls.clear()
        _end(self._turn, record, error)
        self._turn = None

    def _within(self) -> "Context | None":
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(self._turn) if self._turn is not None else None


def _tell_usage(span: "Span", usage: "TokenUsage") -> None:
    span.set_attributes(
        {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cached,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_written,
            "gen_ai.usage.reasoning.output_tokens": usage.thought,
        }
    )


def _end(span: "Span | None", record: "Record", error: str | None) -> None:
    from opentelemetry.trace import StatusCode

    if span is None:
        return
    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)
    span.end(record.time * 1000)
