"""Records of the log as updates, one by one."""

from typing import Any

import pytest

from quarterdeck.policy.call import Call
from quarterdeck.policy.permission_options import options_for, suggest_grants, suggest_refusal
from quarterdeck.serve.handshake import EditorClient
from quarterdeck.serve.permissions import shorten_options
from quarterdeck.serve.updates import UpdateTranslator
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    ModeChanged,
    ModelCallFinished,
    NoticePosted,
    PlanChanged,
    Prompted,
    RetryScheduled,
    TerminalOutput,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UsageReported,
)
from quarterdeck.wire.ids import CompactionId, MessageId, SessionId, TerminalId, ToolCallId
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, TerminalItem
from quarterdeck.wire.usage import ContextUsage, Cost

PYTEST = Call(
    tool="bash", kind="execute", command="pytest -q", cwd="/w", roots=("/w",), project="w"
)
CALL, TERMINAL = ToolCallId("c1"), TerminalId("t1")
STARTED = ToolCallStarted(call=CALL, title="run", kind="execute")
SHOWN = ToolCallUpdated(call=CALL, content=(TerminalItem(terminal_id="t1"),))


class Line:
    """Translates events as if they stood one second apart in a log."""

    def __init__(self, *, theirs: bool = False, step: int = 1_000_000, **client: Any) -> None:
        self.translator = UpdateTranslator(
            EditorClient(**client), lambda _: theirs, knows_cost=True
        )
        self.seq, self.step = 0, step

    def __call__(self, event: Event, *, is_replay: bool = False, parent: str | None = None) -> Any:
        self.seq += 1
        record = Record(
            seq=self.seq,
            time=self.seq * self.step,
            session=SessionId("s"),
            event=event,
            parent=None if parent is None else ToolCallId(parent),
        )
        return self.translator.translate(record, is_replay=is_replay)


def test_prompts_are_told_only_in_a_replay():
    prompted = Prompted(content=(text("a"), text("b")), message=MessageId("m"))
    line = Line()
    assert line(prompted) == ()
    told = line(prompted, is_replay=True)
    assert [(each.content.text, each.message_id) for each in told] == [("a", "m"), ("b", "m")]


def test_the_inner_life_of_a_sub_agent_is_not_told():
    assert Line()(MessageChunk(content=text("x")), parent="c9") == ()


def test_a_cancelled_call_is_a_failed_one_with_its_reason():
    line = Line()
    line(STARTED)
    (ended,) = line(ToolCallEnded(call=CALL, status="cancelled", reason="cancelled"))
    assert ended.status == "failed"
    assert ended.content == (ContentItem(content=text("cancelled")),)


def test_live_output_as_text_is_told_now_and_then_and_at_the_end():
    line = Line(step=100_000)
    line(STARTED)
    line(SHOWN)
    told = [line(TerminalOutput(terminal=TERMINAL, data=f"{n}\n")) for n in range(6)]
    assert sum(map(len, told)) == 2
    (ended,) = line(ToolCallEnded(call=CALL, status="completed"))
    assert ended.content[0].content.text == "```console\n0\n1\n2\n3\n4\n5\n```"


def test_long_output_shows_its_end():
    line = Line()
    line(STARTED)
    line(SHOWN)
    for number in range(100):
        line(TerminalOutput(terminal=TERMINAL, data=f"{number} " + "x" * 1000 + "\n"))
    (ended,) = line(ToolCallEnded(call=CALL, status="completed"))
    shown = ended.content[0].content.text
    assert len(shown) < 17_000
    assert shown.startswith("```console\n[…]")
    assert "99 x" in shown


def test_a_terminal_of_the_clients_is_left_to_it():
    line = Line(theirs=True, has_terminals=True)
    line(STARTED)
    (shown,) = line(SHOWN)
    assert shown.content == (TerminalItem(terminal_id="t1"),)
    assert line(TerminalOutput(terminal=TERMINAL, data="x")) == ()
    (ended,) = line(ToolCallEnded(call=CALL, status="completed"))
    assert ended.content is None


def test_in_a_replay_terminals_are_text():
    line = Line(theirs=True, has_terminals=True)
    line(STARTED, is_replay=True)
    line(SHOWN, is_replay=True)
    assert line(TerminalOutput(terminal=TERMINAL, data="x\n"), is_replay=True) == ()
    (ended,) = line(ToolCallEnded(call=CALL, status="completed"), is_replay=True)
    assert ended.content[0].content.text == "```console\nx\n```"


@pytest.mark.parametrize(
    ("event", "offer"),
    [
        (NoticePosted(title="Look"), "takes_notices"),
        (RetryScheduled(attempt=2, delay=1, reason="busy"), "takes_notices"),
        (
            CompactionChanged(compaction=CompactionId("k"), status="in_progress"),
            "takes_compaction",
        ),
    ],
)
def test_what_a_client_did_not_offer_it_does_not_get(event: Event, offer: str):
    assert Line()(event) == ()
    assert len(Line(**{offer: True})(event)) == 1
    assert Line(**{offer: True})(event, is_replay=True) == ()


def test_costs_are_summed_for_the_session():
    line = Line()
    usage = UsageReported(context=ContextUsage(used=5, size=10))
    assert line(usage) == (acp.UsageUpdate(used=5, size=10),)
    for _ in range(2):
        line(ModelCallFinished(model="m", cost=Cost(amount=0.5, currency="USD")))
    (update,) = line(usage)
    assert update.cost == Cost(amount=1.0, currency="USD")


def test_plans_and_modes():
    entry = PlanEntry(content="Look", priority="high", status="pending")
    line = Line()
    assert line(PlanChanged(entries=(entry,))) == (acp.Plan(entries=(entry,)),)
    assert line(ModeChanged(mode="plan")) == (acp.CurrentModeUpdate(current_mode_id="plan"),)
    assert line(ModeChanged(mode="plan"), is_replay=True) == ()


def test_an_editor_gets_the_narrowest_option_of_each_scope_and_those_of_an_agent():
    ours = options_for(suggest_grants(PYTEST), refusal=suggest_refusal(PYTEST), call=PYTEST)
    theirs = tuple(
        PermissionOption(option_id=f"own-{n}", name="Own", kind="allow_always") for n in "12"
    )
    assert len(ours) == 8
    assert [one.option_id for one in shorten_options((*ours, *theirs))] == [
        *("allow-once", "allow-session-1", "allow-project-1", "allow-user-1"),
        *("reject-once", "reject-project", "own-1", "own-2"),
    ]
