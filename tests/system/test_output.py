"""Bounded output: exact counts, whole characters, no lost lines."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.system.output import (
    OutputRing,
    RetainedOutput,
    Utf8Decoder,
    whole_characters,
    without_cut_start,
)

PIECES = st.lists(st.binary(max_size=30), max_size=20)


@settings(max_examples=200, deadline=None)
@given(pieces=PIECES, head=st.integers(0, 40), tail=st.integers(0, 40))
def test_head_tail_and_count_are_exact(pieces: list[bytes], head: int, tail: int):
    ring = OutputRing(head=head, tail=tail)
    for piece in pieces:
        ring.write(piece)
    whole = b"".join(pieces)
    kept = ring.kept()
    assert kept.head == whole[:head]
    rest = whole[head:]
    assert kept.tail == (rest[-tail:] if tail else b"")
    assert len(kept.head) + kept.dropped + len(kept.tail) == len(whole) == ring.total


@settings(max_examples=200, deadline=None)
@given(pieces=PIECES, head=st.integers(0, 40), tail=st.integers(1, 40), data=st.data())
def test_a_follower_misses_nothing_uncounted(
    pieces: list[bytes], head: int, tail: int, data: st.DataObject
):
    ring = OutputRing(head=head, tail=tail)
    whole, seen = b"", 0
    for piece in pieces:
        ring.write(piece)
        whole += piece
        if data.draw(st.booleans()):
            missing, new = ring.since(seen)
            assert whole[seen + missing :] == new
            seen = ring.total


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60), head=st.integers(0, 30), tail=st.integers(0, 30))
def test_cuts_fall_between_characters(text: str, head: int, tail: int):
    ring = OutputRing(head=head, tail=tail)
    ring.write(text.encode())
    kept = ring.kept().at_characters()
    assert len(kept.head) + kept.dropped + len(kept.tail) == ring.total
    if kept.dropped:
        assert text.startswith(kept.head.decode())
        assert text.endswith(kept.tail.decode())
        assert head - len(kept.head) < 4
        assert tail - len(kept.tail) < 4


def test_invalid_bytes_are_no_reason_to_cut_more():
    assert whole_characters(b"abc\x80\x80\x80\x80\x80") == b"abc\x80\x80\x80\x80\x80"
    assert whole_characters(b"abc\xff") in (b"abc", b"abc\xff")
    assert without_cut_start(b"\x80" * 5 + b"x") == b"\x80" * 5 + b"x"
    assert RetainedOutput(head=b"\xc3", dropped=0, tail=b"\xa9").at_characters().head == b"\xc3"


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=80), cuts=st.lists(st.integers(0, 80), max_size=6))
def test_decoding_in_pieces_is_decoding_the_whole(data: bytes, cuts: list[int]):
    decoder = Utf8Decoder()
    borders = [0, *sorted(cuts), len(data)]
    text = "".join(decoder.decode(data[a:b]) for a, b in pairwise(borders))
    assert text + decoder.decode(b"", final=True) == data.decode("utf-8", "replace")


def test_a_line_after_garbage_is_kept():
    ring = OutputRing(tail=100)
    ring.write(b"ok\n\xff\xfe\n")
    ring.write(b"later\n")
    assert ring.kept().tail.decode("utf-8", "replace").endswith("\nlater\n")


def test_negative_sizes_are_refused():
    with pytest.raises(ValueError, match="-1"):
        OutputRing(tail=-1)


def test_memory_stays_bounded_and_writing_cheap():
    ring = OutputRing(head=1000, tail=1000)
    for _ in range(100_000):
        ring.write(b"x" * 100)
    assert ring.total == 10_000_000
    assert ring.kept().dropped == 10_000_000 - 2000
