"""The WebSocket protocol: the RFC's own examples, any pieces, and what breaks the rules."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.net.websocket import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    BadFrameError,
    BadHandshakeError,
    MessageDecoder,
    WebSocketMessage,
    check_handshake,
    encode_frame,
    handshake_accept,
    handshake_request,
)
from quarterdeck.testing.daemons.codex import server_frame

KEY = base64.b64decode("dGhlIHNhbXBsZSBub25jZQ==")
MASK = bytes.fromhex("37fa213d")
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)


def part(kind: int, data: bytes, *, final: bool) -> bytes:
    whole = bytearray(server_frame(kind, data))
    whole[0] = kind | (0x80 if final else 0)
    return bytes(whole)


class TestOpening:
    def test_the_answer_to_a_key_is_that_of_the_rfc(self):
        assert handshake_accept(KEY) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

    def test_a_request_says_what_it_must(self):
        head = handshake_request("localhost:1", "/", KEY, {"Authorization": "Bearer x"}).decode()
        assert head.startswith("GET / HTTP/1.1\r\nHost: localhost:1\r\n")
        assert head.endswith("\r\n\r\n") and "Origin" not in head
        for line in ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Authorization: Bearer x"):
            assert f"\r\n{line}\r\n" in head

    def test_an_agreement_is_taken(self):
        check_handshake(AGREED, KEY)

    @pytest.mark.parametrize(
        ("head", "status"),
        [
            (b"HTTP/1.1 401 Unauthorized\r\n", 401),
            (b"HTTP/1.1 200 OK\r\n", 200),
            (b"SSH-2.0-OpenSSH\r\n", 0),
            (b"HTTP/1.1 \xb2\r\n", 0),
            (b"", 0),
            (AGREED.replace(b"WebSocket\r", b"h2c\r"), 101),
            (AGREED.replace(b"s3p", b"S3P"), 101),
            (AGREED + b"Sec-WebSocket-Extensions: permessage-deflate\r\n", 101),
            (AGREED + b"Sec-WebSocket-Protocol: chat\r\n", 101),
        ],
    )
    def test_anything_else_is_refused(self, head: bytes, status: int):
        with pytest.raises(BadHandshakeError) as told:
            check_handshake(head, KEY)
        assert told.value.status == status

    @settings(max_examples=50, deadline=None)
    @given(head=st.binary(max_size=200))
    def test_noise_is_refused(self, head: bytes):
        with pytest.raises(BadHandshakeError):
            check_handshake(head, KEY)


class TestFrames:
    def test_the_examples_of_the_rfc(self):
        assert encode_frame(TEXT, b"Hello", MASK) == bytes.fromhex("818537fa213d7f9f4d5158")
        decoder = MessageDecoder()
        assert decoder.feed(bytes.fromhex("810548656c6c6f")) == [WebSocketMessage(TEXT, b"Hello")]
        assert decoder.feed(bytes.fromhex("010348656c80026c6f")) == [
            WebSocketMessage(TEXT, b"Hello")
        ]
        assert decoder.feed(bytes.fromhex("890548656c6c6f")) == [WebSocketMessage(PING, b"Hello")]

    @pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 3_000_000])
    def test_every_form_of_length(self, size: int):
        sent = encode_frame(TEXT, b"x" * size, MASK)
        assert len(sent) == size + 6 + (0 if size < 126 else 2 if size < 65536 else 8)
        data = b"y" * size
        assert MessageDecoder().feed(server_frame(BINARY, data)) == [WebSocketMessage(BINARY, data)]

    @settings(max_examples=60, deadline=None)
    @given(
        messages=st.lists(
            st.tuples(
                st.lists(st.text(max_size=200), min_size=1, max_size=4),
                st.lists(st.tuples(st.sampled_from((PING, PONG)), st.binary(max_size=125))),
            ),
            max_size=5,
        ),
        cuts=st.lists(st.integers(0, 3000), max_size=20),
    )
    def test_parts_pings_and_pieces_in_any_order(
        self,
        messages: list[tuple[list[str], list[tuple[int, bytes]]]],
        cuts: list[int],
    ):
        stream, expected = b"", []
        for texts, controls in messages:
            for number, text in enumerate(texts):
                final = number == len(texts) - 1
                stream += part(0 if number else TEXT, text.encode(), final=final)
                if not final and controls:
                    kind, data = controls.pop()
                    stream += server_frame(kind, data)
                    expected.append(WebSocketMessage(kind, data))
            expected.append(WebSocketMessage(TEXT, "".join(texts).encode()))
        decoder, found, start = MessageDecoder(), [], 0
        for cut in [*sorted(cuts), len(stream)]:
            found += decoder.feed(stream[start:cut])
            start = max(start, min(cut, len(stream)))
        assert found == expected

    @settings(max_examples=60, deadline=None)
    @given(data=st.binary(max_size=400))
    def test_masking_is_undone_by_masking(self, data: bytes):
        head = 6 + (2 if len(data) > 125 else 0)
        masked = encode_frame(TEXT, data, MASK)[head:]
        assert bytes(a ^ MASK[i % 4] for i, a in enumerate(masked)) == data

    @settings(max_examples=200, deadline=None)
    @given(data=st.binary(max_size=400))
    def test_noise_raises_nothing_else(self, data: bytes):
        decoder = MessageDecoder(limit=1000)
        try:
            for byte in data:
                decoder.feed(bytes((byte,)))
        except BadFrameError as error:
            assert error.code in (1002, 1007, 1009)


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (b"\xc1\x00", 1002),  # a reserved bit
        (b"\x83\x00", 1002),  # an opcode that means nothing
        (b"\x81\x80", 1002),  # masked
        (b"\x09\x00", 1002),  # a ping in parts
        (b"\x89\x7e", 1002),  # a long ping
        (b"\x80\x00", 1002),  # the end of nothing
        (part(TEXT, b"a", final=False) + server_frame(TEXT, b"b"), 1002),
        (server_frame(TEXT, b"\xff"), 1007),
        (server_frame(TEXT, "é".encode()[:1]), 1007),
        (b"\x81\x7f" + b"\xff" * 8, 1009),
        (b"\x81\x7e\x27\x11", 1009),
        (part(TEXT, b"a" * 9000, final=False) + part(0, b"a" * 2000, final=True), 1009),
    ],
)
def test_what_breaks_the_rules_is_told(stream: bytes, code: int):
    with pytest.raises(BadFrameError) as told:
        MessageDecoder(limit=10_000).feed(stream)
    assert told.value.code == code


def test_a_character_may_be_split_between_parts():
    first, second = "é".encode()[:1], "é".encode()[1:]
    stream = part(TEXT, first, final=False) + part(0, second, final=True)
    assert MessageDecoder().feed(stream) == [WebSocketMessage(TEXT, "é".encode())]


def test_a_closing_frame_comes_out():
    assert MessageDecoder().feed(server_frame(CLOSE, b"\x03\xe8bye")) == [
        WebSocketMessage(CLOSE, b"\x03\xe8bye")
    ]
