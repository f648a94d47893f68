"""Where answers begin and end, in any pieces, and what is no answer."""

import contextlib

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.meter.frames import AnswerFrames, UnreadableAnswerError
from quarterdeck.models.answer_usage import AnswerUsage
from quarterdeck.wire.usage import TokenUsage


def read(raw: bytes, cuts: list[int], method: bytes = b"POST") -> tuple[bytes, AnswerFrames]:
    frames, body, at = AnswerFrames(method), b"", 0
    for cut in (*cuts, len(raw)):
        if piece := raw[at : at + cut]:
            body += b"".join(frames.feed(piece))
            at += cut
    return body, frames


def read_h11(raw: bytes) -> tuple[bytes, bool]:
    """The body, and whether it has its end, by another parser."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    parser.receive_data(raw)
    body = b""
    while True:
        event = parser.next_event()
        if isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return body, True
        elif event is h11.NEED_DATA:
            return body, False


PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
CUTS = st.lists(st.integers(1, 30), max_size=60)
NOTICE = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"


@settings(deadline=None, max_examples=150)
@given(PIECES, CUTS, st.sampled_from(["length", "chunked"]), st.booleans(), st.integers(0, 30))
def test_an_answer_in_any_pieces_is_read_as_another_parser_reads_it(
    pieces: list[bytes], cuts: list[int], form: str, notice: bool, missing: int
):
    whole = b"".join(pieces)
    raw = NOTICE if notice else b""
    if form == "length":
        raw += b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(whole), whole)
    else:
        raw += b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n"
        raw += b"".join(b"%X;a=b\r\n%s\r\n" % (len(one), one) for one in pieces)
        raw += b"0\r\nTrailer: t\r\n\r\n"
    raw = raw[: len(raw) - missing] if missing else raw
    body, frames = read(raw, cuts)
    assert (body, frames.is_over) == read_h11(raw)
    assert frames.is_kept == frames.is_over or not frames.is_over
    if frames.is_over:
        frames.feed(b"H")
        assert not frames.is_kept  # more than one answer to one request


def test_an_answer_without_a_length_ends_with_its_connection():
    for head in (b"HTTP/1.0 200 OK\n\n", b"HTTP/1.1 200\r\nConnection: close\r\n\r\n"):
        body, frames = read(head + b"abc", [7, 1, 12])
        assert (body, frames.status, frames.is_over) == (b"abc", 200, False)
        frames.end()
        assert (frames.is_over, frames.is_kept) == (True, False)
    _, cut = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", [])
    cut.end()
    assert not cut.is_over


@pytest.mark.parametrize(
    ("raw", "method"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"POST"),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", b"GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"HEAD"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"POST"),
    ],
)
def test_some_answers_have_no_body(raw: bytes, method: bytes):
    body, frames = read(raw, [3], method)
    assert (body, frames.is_over, frames.is_kept) == (b"", True, True)


def test_a_connection_that_is_to_be_closed_is_not_kept():
    for fields in (b"Connection: Close\r\nContent-Length: 1", b"Content-Length: 1"):
        version = b"0" if fields.startswith(b"Content") else b"1"
        _, frames = read(b"HTTP/1.%s 200 OK\r\n%s\r\n\r\nx" % (version, fields), [])
        assert (frames.is_over, frames.is_kept) == (True, False)


HEAD = b"HTTP/1.1 200 OK\r\n"
UNREADABLE = [
    b"<html>502</html>",
    b"HTTP/2 200 OK\r\n\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\n\r\n",
    HEAD + b"no colon\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
    HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5_000,
    HEAD + b"X: " + b"y" * 300_000,
]


@pytest.mark.parametrize("raw", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_is_no_answer_is_named_as_such(raw: bytes):
    with pytest.raises(UnreadableAnswerError):
        read(raw, [])


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200), CUTS)
def test_no_bytes_make_it_fail_otherwise(raw: bytes, cuts: list[int]):
    for before in (b"", HEAD, HEAD + b"Transfer-Encoding: chunked\r\n\r\n"):
        with contextlib.suppress(UnreadableAnswerError):
            read(before + raw, cuts)


# Counts in a stream of which most is skipped

EVENT = b'event: x\ndata: {"type": "content_block_delta", "text": "%s"}\n\n'
START = b'data: {"message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}\n\n'
END = b'data: {"usage": {"output_tokens": 5}}\n\n'


@settings(deadline=None, max_examples=100)
@given(CUTS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans(), st.integers(0, 70_000))
def test_counts_are_found_however_a_stream_is_cut(
    cuts: list[int], ending: bytes, closed: bool, length: int
):
    raw = START + EVENT % b"word" * 3 + EVENT % (b"long " * (length // 5)) + END
    raw = (raw if closed else raw[:-2]).replace(b"\n", ending)
    usage, at = AnswerUsage("anthropic", "text/event-stream", ""), 0
    for cut in (*cuts, 4_096, len(raw)):
        usage.feed(raw[at : at + cut])
        at += cut
    usage.end()
    assert usage.usage == TokenUsage(input=7, output=5)
    assert usage.output is not None
    assert length // 5 - 150 <= usage.output <= length // 2 + 150
