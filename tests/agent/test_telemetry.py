"""Spans and metrics of a session, by the conventions for generative AI."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.telemetry import find_telemetry
from quarterdeck.wire.events import ModelCallStarted, SessionEnded, TurnStarted
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from tests.support.agent_tools import FakeTool, returns
from tests.support.native_agents import call, deck, says

SDK = "opentelemetry.sdk"


class Ears:
    """What the SDK was told. Imported here alone: once it is there, every session speaks to it."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        trace.set_tracer_provider(self.traces)
        self.meters = MeterProvider([self.reader])
        metrics.set_meter_provider(self.meters)

    def all(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())

    def spans(self) -> dict[str, Any]:
        return {span.name: span for span in self.all()}


@pytest.fixture(scope="module")
def process() -> Iterator[Ears]:
    """For the whole process: OpenTelemetry lets nobody set its providers twice."""
    ears = Ears()
    yield ears
    ears.traces.shutdown()
    ears.meters.shutdown()
    sys.modules.pop(SDK, None)


@pytest.fixture
def ears(process: Ears) -> Ears:
    process.exporter.clear()
    return process


def facts(span: Any) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_turn_its_model_calls_and_its_tools_are_spans_within_each_other(
    tmp_path: Path, ears: Ears
):
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    tool = FakeTool(returns("a secret result"))
    replies = (says("Wait.", call("fake", n=1)), "a secret answer")
    async with deck(tmp_path, *replies, tools=[tool]) as ship:
        ended = await ship.prompt("a secret prompt")
    found = ears.spans()
    turn = found["invoke_agent quarterdeck"]
    chats = [s for s in ears.all() if s.name.startswith("chat ")]
    ran = found["execute_tool fake"]
    assert len(chats) == 2
    for span in (*chats, ran):
        assert span.parent is not None
        assert span.parent.span_id == turn.context.span_id
        assert span.start_time is not None and span.end_time is not None
        assert turn.start_time is not None and turn.end_time is not None
        assert turn.start_time <= span.start_time <= span.end_time <= turn.end_time
    assert facts(ran)["gen_ai.tool.name"] == "fake"
    assert facts(turn)["gen_ai.operation.name"] == "invoke_agent"
    assert ended.usage is not None
    assert facts(turn)["gen_ai.usage.output_tokens"] == ended.usage.output
    assert sum(facts(chat)["gen_ai.usage.output_tokens"] for chat in chats) == ended.usage.output
    told = " ".join(str(facts(span)) + span.name for span in ears.all())
    assert "secret" not in told
    official = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    named = {key for span in ears.all() for key in facts(span)}
    assert {key for key in named if key.startswith("gen_ai.")} <= official


async def test_tokens_and_times_are_metrics(tmp_path: Path, ears: Ears):
    async with deck(tmp_path, "Hello.", tools=()) as ship:
        await ship.prompt("Hi")
    data = ears.reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found["gen_ai.client.operation.duration"].unit == "s"
    points = found["gen_ai.client.token.usage"].data.data_points
    kinds = {dict(point.attributes or {})["gen_ai.token.type"] for point in points}
    assert kinds == {"input", "output"}


async def test_a_tool_that_fails_is_a_span_that_failed(tmp_path: Path, ears: Ears):
    async with deck(tmp_path, says(call("missing", n=1)), "Well.", tools=()) as ship:
        await ship.prompt("Hi")
    (ran,) = [s for s in ears.all() if s.name.startswith("execute_tool")]
    assert ran.status.status_code.name == "ERROR"
    assert facts(ran)["error.type"] == "failed"
    assert ears.spans()["invoke_agent quarterdeck"].status.status_code.name == "UNSET"


def test_a_session_that_ends_in_a_turn_leaves_no_span_open(ears: Ears):
    hear = find_telemetry()
    session = SessionId("ses_1")
    events = (TurnStarted(), ModelCallStarted(model="anthropic/opus"), SessionEnded(how="killed"))
    for seq, event in enumerate(events, 1):
        hear(Record(seq=seq, time=seq * 1000, session=session, event=event))
    assert sorted(ears.spans()) == ["chat opus", "invoke_agent quarterdeck"]
    chat = ears.spans()["chat opus"]
    assert chat.status.status_code.name == "ERROR"
    assert facts(chat)["gen_ai.provider.name"] == "anthropic"


def test_without_an_sdk_nothing_is_heard(ears: Ears, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, SDK)
    hear = find_telemetry()
    record = Record(seq=1, time=1, session=SessionId("ses_1"), event=TurnStarted())
    assert hear(record) is None
    assert not ears.all()
