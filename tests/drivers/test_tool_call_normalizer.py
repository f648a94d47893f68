"""One start, any number of updates, one end for each call, whatever an agent sends."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.tool_calls import ToolCallNormalizer
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    PermissionAsked,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.tool_calls import ContentItem

A = ToolCallId("a")


def start(call: str = "a", **fields: object) -> ToolCallStarted:
    return ToolCallStarted(call=ToolCallId(call), title="look", **fields)  # pyright: ignore[reportArgumentType]


def update(call: str = "a", **fields: object) -> ToolCallUpdated:
    return ToolCallUpdated(call=ToolCallId(call), **fields)  # pyright: ignore[reportArgumentType]


def test_a_plain_call_passes_as_it_came():
    ledger = ToolCallNormalizer("acp")
    said = [start(), update(status="in_progress"), ToolCallEnded(call=A, status="completed")]
    heard = [*ledger.begin(said[0]), *ledger.update(said[1]), *ledger.end(said[2])]  # pyright: ignore[reportArgumentType]
    assert heard == said


def test_an_update_that_says_completed_is_the_end():
    ledger = ToolCallNormalizer("acp")
    list(ledger.begin(start()))
    done = (ContentItem(content=text("42")),)
    heard = list(ledger.update(update(status="completed", content=done, title="looked")))
    assert heard == [
        update(title="looked"),
        ToolCallEnded(call=A, status="completed", content=done),
    ]


def test_an_update_of_an_unknown_call_starts_it():
    heard = list(
        ToolCallNormalizer("acp").update(update(title="look", kind="read", status="in_progress"))
    )
    assert heard == [start(kind="read", status="in_progress")]


def test_a_start_that_is_also_the_end_is_both():
    heard = list(ToolCallNormalizer("acp").begin(start(status="failed")))
    assert heard == [start(status="in_progress"), ToolCallEnded(call=A, status="failed")]


def test_a_first_update_with_its_output_starts_and_ends_the_call():
    heard = list(
        ToolCallNormalizer("acp").update(update(title="look", status="completed", raw_output=42))
    )
    ends = [event for event in heard if isinstance(event, ToolCallEnded)]
    assert isinstance(heard[0], ToolCallStarted)
    assert len(ends) == 1 and ends[0].raw_output == 42


def test_what_comes_after_the_end_is_kept_as_unknown():
    ledger = ToolCallNormalizer("acp")
    list(ledger.begin(start()))
    list(ledger.end(ToolCallEnded(call=A, status="completed")))
    (late,) = ledger.update(update(title="more"))
    assert isinstance(late, UnknownEvent) and late.raw["title"] == "more"


def test_a_question_about_an_unknown_call_starts_it():
    question = PermissionAsked(
        request=RequestId("r"), call=A, title="rm x", options=(), kind="execute"
    )
    ledger = ToolCallNormalizer("acp")
    (begun,) = ledger.ask(question)
    assert begun == ToolCallStarted(call=A, title="rm x", kind="execute")
    assert list(ledger.ask(question)) == []


def test_an_id_that_comes_again_in_a_later_turn_is_another_call():
    ledger = ToolCallNormalizer("pipe")
    list(ledger.begin(start("item_0", status="completed")))
    list(ledger.close("failed", ""))
    first, end = ledger.begin(start("item_0", status="completed"))
    assert isinstance(first, ToolCallStarted) and isinstance(end, ToolCallEnded)
    assert first.call == end.call == "item_0~2"


def test_calls_left_open_end_with_the_turn():
    ledger = ToolCallNormalizer("acp")
    list(ledger.begin(start("a")))
    list(ledger.begin(start("b")))
    heard = list(ledger.close("cancelled", "forgotten"))
    assert [(e.call, e.status) for e in heard if isinstance(e, ToolCallEnded)] == [
        ("a", "cancelled"),
        ("b", "cancelled"),
    ]
    assert list(ledger.close("cancelled", "forgotten")) == []


_ids = st.sampled_from(["a", "b", "c"])
_statuses = st.sampled_from(["pending", "in_progress", "completed", "failed"])
_steps = st.one_of(
    st.builds(lambda call, status: start(call, status=status), _ids, _statuses),
    st.builds(lambda call, status: update(call, status=status), _ids, _statuses),
    st.builds(lambda call: update(call, raw_output=1), _ids),
    st.builds(lambda call: ToolCallEnded(call=ToolCallId(call), status="completed"), _ids),
    st.just(None),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_steps, max_size=30))
def test_every_call_starts_once_and_ends_once_in_any_order(steps: list[Event | None]):
    ledger = ToolCallNormalizer("acp")
    heard: list[Event] = []
    for step in [*steps, None]:
        match step:
            case ToolCallStarted():
                heard += ledger.begin(step)
            case ToolCallUpdated():
                heard += ledger.update(step)
            case ToolCallEnded():
                heard += ledger.end(step)
            case _:
                heard += ledger.close("failed", "turn over")
    lives: dict[str, str] = {}
    for event in heard:
        match event:
            case ToolCallStarted():
                assert event.call not in lives
                lives[event.call] = "open"
            case ToolCallUpdated():
                assert lives[event.call] == "open"
            case ToolCallEnded():
                assert lives[event.call] == "open"
                lives[event.call] = "over"
            case _:
                assert isinstance(event, UnknownEvent)
    assert set(lives.values()) <= {"over"}
