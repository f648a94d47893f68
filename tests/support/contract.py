"""A judge of the drivers' contract: what must hold for the events of any session, whoever's."""

from collections.abc import Sequence

from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
)
from tests.support.driver_rig import Heard

__all__ = ["judge"]


def judge(heard: Sequence[Heard], *, is_over: bool = True) -> None:
    """Fail if these events, a whole run of a session, break the contract."""
    events = [one.event for one in heard]
    assert isinstance(events[0], SessionOpened | SessionResumed), events[0]
    assert not any(isinstance(event, SessionOpened | SessionResumed) for event in events[1:])
    ends = [index for index, event in enumerate(events) if isinstance(event, SessionEnded)]
    assert ends == ([len(events) - 1] if is_over else []), "one end, and nothing after it"
    _judge_turns(heard)
    _judge_calls(events)
    _judge_requests(events)


def _judge_turns(heard: Sequence[Heard]) -> None:
    open_turn = None
    seen: set[str] = set()
    prompted = 0
    for one in heard:
        match one.event:
            case Prompted():
                assert open_turn is None or one.event.steers
                prompted += 1
            case TurnStarted():
                assert open_turn is None and one.turn is not None and one.turn not in seen
                assert prompted, "a turn begins after its prompt"
                open_turn = one.turn
                seen.add(one.turn)
            case TurnEnded():
                assert one.turn == open_turn is not None
                open_turn = None
            case MessageChunk() | ToolCallStarted() | PermissionAsked():
                assert one.turn == open_turn, f"{one} is not in its turn"
            case _:
                assert one.turn in (open_turn, None), f"{one} is in a turn that is over"
    assert open_turn is None, "every turn ends"


def _judge_calls(events: Sequence[Event]) -> None:
    lives: dict[str, bool] = {}
    for event in events:
        match event:
            case ToolCallStarted():
                assert event.call not in lives, f"{event.call} starts twice"
                lives[event.call] = True
            case ToolCallUpdated():
                assert lives.get(event.call), f"{event} is not within its call"
            case ToolCallEnded():
                assert lives.get(event.call), f"{event} is not within its call"
                lives[event.call] = False
            case TurnEnded():
                assert not any(lives.values()), "calls end before their turn"
            case _:
                pass


def _judge_requests(events: Sequence[Event]) -> None:
    asked: set[str] = set()
    answered: set[str] = set()
    for event in events:
        match event:
            case PermissionAsked() | QuestionAsked():
                assert event.request not in asked
                asked.add(event.request)
            case PermissionAnswered() | QuestionAnswered():
                assert event.request not in answered, "answered twice"
                answered.add(event.request)
            case _:
                pass
    assert asked <= answered, "every request is answered"
