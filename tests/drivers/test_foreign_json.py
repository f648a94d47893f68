"""Lines of JSON from a program that may print anything."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.foreign_json import JsonLine, read_lines
from quarterdeck.wire.errors import LinkBrokenError


class Chunks:
    """A stream that ends after some chunks."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = list(chunks)

    async def receive(self) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""

    async def send(self, data: bytes) -> None:
        raise AssertionError(data)

    async def close(self) -> None:
        pass


async def lines_of(*chunks: bytes, limit: int = 1000) -> list[JsonLine]:
    return [line async for line in read_lines(Chunks(chunks), limit=limit)]


async def test_lines_are_found_wherever_they_are_cut() -> None:
    assert await lines_of(b'{"a":', b'1}\n\n{"b"', b": 2}\r\n") == [
        JsonLine({"a": 1}),
        JsonLine({"b": 2}),
    ]


async def test_the_last_line_needs_no_end() -> None:
    assert await lines_of(b'{"a":1}') == [JsonLine({"a": 1})]


async def test_what_is_no_object_is_kept_as_text() -> None:
    assert await lines_of(b"[1]\nhello \xff\n") == [
        JsonLine(None, "[1]"),
        JsonLine(None, "hello \ufffd"),
    ]


@pytest.mark.parametrize("half", [r"\ud83d", r"\uDE00", r"\ud83dx", r"\ud83d\ud83d"])
async def test_half_a_character_costs_no_line(half: str) -> None:
    (line,) = await lines_of(b'{"said": "cut ' + half.encode() + b'", "n": 1}\n')
    assert line.value is not None
    assert line.value["said"].startswith("cut ?") and line.value["n"] == 1


async def test_a_whole_character_in_two_halves_stays() -> None:
    assert await lines_of(rb'{"said": "\ud83d\ude00"}') == [JsonLine({"said": "😀"})]


async def test_a_line_that_never_ends_is_no_conversation() -> None:
    with pytest.raises(LinkBrokenError, match="longer than 10 bytes"):
        await lines_of(b"x" * 11, limit=10)


async def test_nesting_without_end_is_text() -> None:
    (line,) = await lines_of(b'{"\\ud800":' + b"[" * 100_000, limit=1_000_000)
    assert line.value is None


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.text(max_size=4), st.text(st.characters(codec="utf-8"), max_size=8), max_size=3
    ),
    st.integers(1, 9),
)
async def test_any_text_survives(value: dict[str, str], size: int) -> None:
    data = json.dumps(value).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert await lines_of(*chunks) == [JsonLine(value)]
