"""The table of states: every event, from every standing."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.fleet.agent_state import NEW_STATUS, STATUS_EVENTS, AgentStatus, advance_status
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider
from quarterdeck.wire.session_options import SessionOptions

BY = Decider(kind="person")
SPAWNED = SessionSpawned(options=SessionOptions(agent="x", cwd="/"), name="a")
OPENED = SessionOpened(agent="x", cwd="/")


def asks(request: str) -> Event:
    return PermissionAsked(request=RequestId(request), call=ToolCallId("c"), title="t", options=())


def allows(request: str) -> Event:
    return PermissionAnswered(
        request=RequestId(request), call=ToolCallId("c"), outcome=Cancelled(), by=BY
    )


def inquires(request: str, to: str | None = None) -> Event:
    return QuestionAsked(request=RequestId(request), text="?", to=SessionId(to) if to else None)


def replies(request: str) -> Event:
    return QuestionAnswered(request=RequestId(request), action="accept", by=BY)


LIVE = AgentStatus(phase="idle", is_live=True)
STANDINGS = {
    "starting": NEW_STATUS,
    "idle": LIVE,
    "running": replace(LIVE, phase="running"),
    "interrupted": replace(LIVE, phase="interrupted"),
    "turn failed": replace(LIVE, phase="failed", reason="r"),
    "done": AgentStatus(phase="done"),
    "failed": AgentStatus(phase="failed", reason="r"),
    "killed": AgentStatus(phase="killed"),
}
OVER = ("done", "failed", "killed")

TABLE: list[tuple[Event, str, bool, bool]] = [
    # event, the word after it, live after it; whether it also moves one that is over
    (SPAWNED, "starting", False, True),
    (OPENED, "idle", True, True),
    (SessionResumed(), "idle", True, True),
    (SessionEnded(how="closed"), "done", False, True),
    (SessionEnded(how="ended"), "done", False, True),
    (SessionEnded(how="broken", reason="r"), "failed", False, True),
    (SessionEnded(how="killed"), "killed", False, True),
    (TurnStarted(), "running", True, False),
    (TurnEnded(stop="end_turn"), "idle", True, False),
    (TurnEnded(stop="max_tokens"), "idle", True, False),
    (TurnEnded(stop="refusal"), "idle", True, False),
    (TurnEnded(stop="cancelled"), "interrupted", True, False),
    (TurnEnded(stop="failed", reason="r"), "failed", True, False),
    (asks("1"), "waiting", True, False),
    (inquires("1"), "waiting", True, False),
    (inquires("1", "ses_x"), "waiting", True, False),
]


@pytest.mark.parametrize("name", STANDINGS)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: repr(row[0])[:60])
def test_every_event_moves_every_standing(name: str, row: tuple[Event, str, bool, bool]):
    before, (event, state, is_live, always) = STANDINGS[name], row
    after = advance_status(before, event)
    if name in OVER and not always:
        # What it did may have to be approved; nothing else moves it.
        is_asked = isinstance(event, PermissionAsked)
        assert after == (replace(before, permissions=frozenset({"1"})) if is_asked else before)
        return
    assert after.state == state
    if name != "starting" or always:
        assert after.is_live == is_live


@pytest.mark.parametrize("status", STANDINGS.values(), ids=STANDINGS)
def test_what_says_nothing_about_the_state_leaves_it(status: AgentStatus):
    for event in (MessageChunk(content=text("x")), SessionChanged(title="t"), allows("?")):
        assert advance_status(status, event) == status


def test_the_most_pressing_is_named():
    now = after((TurnStarted(), inquires("a", "ses_x")))
    assert (now.waits_for, now.needs_person) == ("agent", False)
    now = advance_status(now, inquires("b"))
    assert (now.waits_for, now.needs_person) == ("person", True)
    now = advance_status(now, asks("c"))
    assert (now.waits_for, now.needs_person) == ("permission", True)


def test_the_first_answered_need_not_be_the_last_asked():
    now = after((TurnStarted(), inquires("a"), asks("b"), replies("a")))
    assert (now.state, now.waits_for) == ("waiting", "permission")
    assert advance_status(now, allows("b")).state == "running"


def test_archiving_keeps_the_state_and_outlasts_runs():
    now = advance_status(STANDINGS["killed"], SessionChanged(archived=True))
    assert (now.state, now.is_archived) == ("killed", True)
    assert advance_status(advance_status(now, SPAWNED), OPENED).is_archived
    assert not advance_status(now, SessionChanged(archived=False)).is_archived


def test_every_event_that_moves_is_in_the_list_of_types():
    moving = [*(row[0] for row in TABLE), allows("1"), replies("1"), SessionChanged(archived=True)]
    assert {event.__struct_config__.tag for event in moving} == STATUS_EVENTS


OPENERS = (asks, inquires, lambda request: inquires(request, "ses_x"))
CLOSERS = (allows, replies, replies)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6).flatmap(
        lambda kinds: st.tuples(
            st.just(kinds), st.permutations([n for n in range(len(kinds)) for _ in range(2)])
        )
    )
)
def test_any_order_of_overlapping_asks_ends_running_again(case: tuple[list[int], list[int]]):
    kinds, order = case
    now, open_ = after((TurnStarted(),)), set[int]()
    for number in order:  # the first time it is asked, the second time answered
        make = CLOSERS if number in open_ else OPENERS
        open_ ^= {number}
        now = advance_status(now, make[kinds[number]](str(number)))
        assert (now.state == "waiting") == bool(open_)
        assert now.needs_person == any(kinds[n] != 2 for n in open_)
    assert now.state == "running"


def after(events: Sequence[Event]) -> AgentStatus:
    now = LIVE
    for event in events:
        now = advance_status(now, event)
    return now
