"""Worktrees are looked at when agents may have changed them, and never without a reason."""

from quarterdeck.fleet.radar.monitor import WorktreeMonitor
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    SessionChanged,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, SessionId, ToolCallId
from quarterdeck.wire.record import Record

ANN, BOB = SessionId("ses_ann"), SessionId("ses_bob")
CALL = ToolCallId("call")


class Rig:
    def __init__(self) -> None:
        self.time = 100.0
        self.monitor = WorktreeMonitor(lambda: self.time)

    def take(self, event: Event, session: SessionId = ANN) -> bool:
        return self.monitor.take(Record(seq=1, time=0, session=session, event=event))

    def due_after(self, seconds: float) -> set[SessionId]:
        self.time += seconds
        return self.monitor.take_due()


def begin_turn() -> TurnStarted:
    return TurnStarted(prompt=MessageId("msg"))


def test_an_agent_at_rest_is_never_due():
    rig = Rig()
    assert rig.monitor.next_due() is None
    rig.take(begin_turn())
    rig.take(TurnEnded(stop="end_turn"))
    assert rig.due_after(0.4) == set()
    assert rig.due_after(0.2) == {ANN}
    assert rig.monitor.next_due() is None and rig.due_after(1_000) == set()


def test_what_an_agent_says_has_nothing_looked_at():
    rig = Rig()
    assert not rig.take(MessageChunk(content=text("hello")))
    assert not rig.take(SessionChanged(title="x"))
    assert rig.monitor.next_due() is None


def test_a_call_that_may_write_is_followed_by_a_look_and_many_by_one():
    rig = Rig()
    rig.take(begin_turn())
    for number in range(3):
        call = ToolCallId(f"call{number}")
        rig.take(ToolCallStarted(call=call, title="Edit", kind="edit"))
        assert rig.take(ToolCallEnded(call=call, status="completed"))
        rig.time += 0.1
    assert rig.monitor.next_due() == 100.5
    assert rig.due_after(0.3) == {ANN}
    assert rig.due_after(0.5) == set()


def test_a_call_that_only_reads_is_not():
    rig = Rig()
    rig.take(begin_turn())
    rig.take(ToolCallStarted(call=CALL, title="Read", kind="read"))
    assert not rig.take(ToolCallEnded(call=CALL, status="completed"))
    assert rig.due_after(5) == set()


def test_a_long_command_is_looked_at_while_it_runs():
    rig = Rig()
    rig.take(begin_turn())
    rig.take(ToolCallStarted(call=CALL, title="make", kind="execute"))
    looks = [sum(ANN in rig.due_after(0.5) for _ in range(10)) for _ in range(4)]
    assert looks == [2, 3, 2, 3]  # every 2 s
    rig.take(SessionEnded(how="killed"))
    assert rig.due_after(0.5) == {ANN} and rig.monitor.next_due() is None


def test_an_update_tells_what_a_call_is():
    rig = Rig()
    rig.take(begin_turn())
    rig.take(ToolCallStarted(call=CALL, title="?"))
    rig.take(ToolCallUpdated(call=CALL, kind="search"))
    assert rig.due_after(5) == set()
    rig.take(ToolCallUpdated(call=CALL, title="x"))
    rig.take(ToolCallUpdated(call=CALL, kind="execute"))
    assert rig.due_after(2) == {ANN}


def test_an_agent_that_reports_no_calls_is_looked_at_now_and_then():
    rig = Rig()
    rig.take(begin_turn())
    assert rig.due_after(14) == set()
    assert rig.due_after(2) == {ANN}


def test_looks_that_take_long_come_less_often_but_within_five_seconds():
    rig = Rig()
    rig.monitor.report_cost(0.4)
    for session in (ANN, BOB):
        rig.take(begin_turn(), session)
        rig.take(ToolCallStarted(call=CALL, title="make", kind="execute"), session)
    assert rig.due_after(3) == set()
    assert rig.due_after(1) == {ANN, BOB}


def test_one_that_is_forgotten_is_not_due():
    rig = Rig()
    rig.take(begin_turn())
    rig.monitor.demand(ANN)
    rig.monitor.forget(ANN)
    assert rig.due_after(100) == set()
