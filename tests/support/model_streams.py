"""Plays recorded streams to a parser, cut wherever a test likes."""

from collections.abc import Callable, Sequence
from itertools import count, pairwise
from pathlib import Path

from hypothesis import strategies as st

from quarterdeck.models.catalogue import profile_of
from quarterdeck.models.http_client import VendorEventDecoder
from quarterdeck.models.model import Delta, ModelProfile
from quarterdeck.models.remote import StreamParser

RECORDED = Path(__file__).parent.parent / "fixtures" / "models"


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.sse").read_bytes()


def named(name: str) -> ModelProfile:
    vendor, _, id_ = name.partition("/")
    return profile_of(vendor, id_)


def numbered() -> Callable[[], str]:
    """Ids for calls that came without one, the same in every run."""
    numbers = count(1)
    return lambda: f"made_{next(numbers)}"


def play(parser: StreamParser, raw: bytes, cuts: Sequence[int] = ()) -> list[Delta]:
    """Every delta, ``ReplyFinished`` at the end."""
    decoder = VendorEventDecoder()
    places = [0, *sorted(cuts), len(raw)]
    deltas: list[Delta] = []
    for start, end in pairwise(places):
        for event in decoder.feed(raw[start:end]):
            deltas.extend(parser.feed(event))
    for event in decoder.end():
        deltas.extend(parser.feed(event))
    return [*deltas, parser.finish()]


def cuts(raw: bytes) -> st.SearchStrategy[list[int]]:
    """Places at which to cut a stream."""
    return st.lists(st.integers(0, len(raw)), max_size=12)
