"""Whatever bytes come, in whatever pieces: no hang, no crash, and the next request is answered."""

import asyncio
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.wire.rpc import Peer, RpcLimits, memory_pair
from quarterdeck.wire.rpc.frames import LineSplitter, replace_surrogates

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\n\\é", max_size=3), inner)
    ),
    max_leaves=10,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": st.integers(0, 3) | values,
        "method": st.sampled_from(["echo", "$/cancel_request", "n", "unknown"]) | values,
        "params": values | st.builds(lambda id: {"requestId": id}, st.integers(0, 3)),
        "result": values,
        "error": values | st.just({"code": 1, "message": "m"}),
    },
)
lines = st.binary(max_size=60) | messages.map(lambda m: json.dumps(m).encode())
PARTS = ["\\", "\\\\", "\\ud83d", "\\ude00", "\\n", "a", "ud83d", "\\uD800"]
garbage = st.lists(lines, max_size=12).map(b"\n".join)
cuts = st.lists(st.integers(1, 40), max_size=20)


class Echo:
    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes]] = []

    async def on_request(self, method: str, params: Any, context: Any) -> Any:
        return params

    def on_notification(self, method: str, params: Any) -> None:
        self.seen.append((method, bytes(params or b"")))


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut the data; what is left after the sizes is the last piece."""
    found: list[bytes] = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [piece for piece in [*found, data] if piece]


async def talk(data: bytes, sizes: list[int]) -> tuple[list[tuple[str, bytes]], Any, list[bytes]]:
    """Send the bytes and then a request; return what was seen, counted and answered."""
    near, far = memory_pair(10_000_000)
    handler = Echo()
    answers = b""
    probe = b'\n{"id":"probe","method":"echo","params":["probe"]}\n'
    async with asyncio.timeout(45), Peer(near, handler, limits=RpcLimits(grace_seconds=1)) as peer:
        for piece in pieces(data + probe, sizes):
            await far.send(piece)
            await asyncio.sleep(0)
        while b'"result":["probe"]' not in answers:
            answers += await far.receive()
    await far.close()
    # Answers of requests that ran side by side may come in any order.
    return handler.seen, peer.counters, sorted(answers.splitlines())


@settings(deadline=None, max_examples=80)
@given(garbage, cuts)
def test_any_bytes_leave_the_peer_alive_and_chunking_changes_nothing(
    data: bytes, sizes: list[int]
) -> None:
    seen, counters, _ = asyncio.run(talk(data, sizes))
    whole, whole_counters, _ = asyncio.run(talk(data, []))
    assert seen == whole
    assert counters.malformed == whole_counters.malformed
    assert counters.unasked == whole_counters.unasked


@settings(deadline=None, max_examples=60)
@given(st.lists(values, min_size=1, max_size=5))
def test_any_value_makes_the_round_trip(many: list[Any]) -> None:
    async def go() -> None:
        left, right = memory_pair()
        handler = Echo()
        async with Peer(left, handler) as near, Peer(right, handler):
            for value in many:
                got = msgspec.json.decode(await near.request("echo", [value], timeout=10))
                assert got == [value]

    asyncio.run(go())


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), cuts, st.integers(5, 50))
def test_splitter_gives_the_same_lines_for_every_chunking(
    data: bytes, sizes: list[int], limit: int
) -> None:
    def split(parts: list[bytes]) -> tuple[list[bytes], bool]:
        splitter = LineSplitter(limit)
        block = b""
        for part in parts:
            block += splitter.feed(part)
            if splitter.is_over:
                return block.splitlines(keepends=True), True
        return (block + splitter.rest()).splitlines(keepends=True), False

    lines, is_over = split(pieces(data, sizes))
    assert (lines, is_over) == split([data] if data else [])
    assert is_over == any(len(line) > limit for line in data.split(b"\n"))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_mended_text_always_decodes_like_a_lenient_reader(text: str) -> None:
    line = f'["{text}"]'.encode()
    try:
        expected = json.loads(line)
    except json.JSONDecodeError:
        return
    mended = replace_surrogates(line)
    decoded = msgspec.json.decode(line if mended is None else mended)
    assert decoded == [expected[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")]
