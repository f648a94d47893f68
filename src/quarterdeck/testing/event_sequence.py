"""Asserts on the events of a session: which came, in which order."""

from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType
from typing import Any, TypeAlias, cast

from quarterdeck.wire.events import Event
from quarterdeck.wire.record import Record, event_type

__all__ = ["EventPattern", "assert_events", "assert_in_order"]

EventPattern: TypeAlias = str | type[Event] | Event | Callable[[Any], object] | EllipsisType
"""An event by its type (``"turn_ended"``), its class, the event itself, or a function that says
whether it is meant; ``...`` stands for any number of events."""


def assert_events(events: Iterable[Event | Record], *expected: EventPattern) -> None:
    """Assert that the events are these, all of them and in this order.

    Raises:
        AssertionError: it shows both, and the first event that does not fit.
    """
    found = [event.event if isinstance(event, Record) else event for event in events]
    reached = _reach(found, expected)
    if reached is None:
        return
    shown = [f"  {event_type(event)}" for event in found]
    if reached < len(shown):
        shown[reached] = f"> {event_type(found[reached])}    <- does not fit"
    wanted = [f"  {_name(one)}" for one in expected]
    end = "" if reached < len(shown) else "\n> the events end before the expected ones"
    lines = ["the events are not as expected", "expected:", *wanted, "found:", *shown]
    raise AssertionError("\n".join(lines) + end)


def assert_in_order(events: Iterable[Event | Record], *expected: EventPattern) -> None:
    """Assert that these events come in this order, whatever comes between them.

    Raises:
        AssertionError: as ``assert_events``.
    """
    between: list[EventPattern] = [...]
    for one in expected:
        between += [one, ...]
    assert_events(events, *between)


def _reach(found: Sequence[Event], expected: Sequence[EventPattern]) -> int | None:
    """How many events fit; None: all of them do, and nothing is left of what is expected."""
    places = _skip({0}, expected)
    for index, event in enumerate(found):
        after = {at + 1 for at in places if at < len(expected) and _fits(expected[at], event)}
        stays = {at for at in places if at < len(expected) and expected[at] is ...}
        following = _skip(after | stays, expected)
        if not following:
            return index
        places = following
    return None if len(expected) in places else len(found)


def _skip(places: set[int], expected: Sequence[EventPattern]) -> set[int]:
    """The places, and those behind each ``...`` that stands for nothing."""
    found = set(places)
    for at in sorted(places):
        while at < len(expected) and expected[at] is ...:
            at += 1
            found.add(at)
    return found


def _fits(pattern: EventPattern, event: Event) -> bool:
    if pattern is ...:
        return True
    if isinstance(pattern, str):
        return event_type(event) == pattern
    if isinstance(pattern, type):
        return isinstance(event, pattern)
    if callable(pattern):
        try:
            return bool(pattern(event))
        except AttributeError:
            return False  # it is about an event of another type
    return pattern == event


def _name(pattern: EventPattern) -> str:
    if pattern is ...:
        return "..."
    if isinstance(pattern, str):
        return pattern
    return str(getattr(cast("Any", pattern), "__name__", repr(pattern)))
