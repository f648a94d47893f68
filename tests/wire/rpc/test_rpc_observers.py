"""Observers see each raw frame, in both directions, in order."""

from typing import Any

import pytest


async def test_observer_sees_raw_frames_of_both_directions(open_link: Any) -> None:
    frames: list[tuple[str, bytes]] = []
    async with open_link(observers=(lambda way, frame: frames.append((way, frame)),)) as link:
        await link.bare.send(b'{ "method" : "a" }\n', b"garbage\n", {"id": 1, "method": "echo"})
        await link.bare.read()
        await link.bare.read()
        await link.peer.notify("b", {"x": 1})
        await link.bare.read()
    ways = [way for way, _ in frames]
    assert ways == ["in", "in", "out", "in", "out", "out"]
    assert frames[0][1] == b'{ "method" : "a" }'
    assert frames[1][1] == b"garbage"
    assert frames[-1][1] == b'{"jsonrpc":"2.0","method":"b","params":{"x":1}}'


async def test_failing_observer_is_dropped_and_harms_nobody(
    open_link: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[bytes] = []

    def fail(_: str, frame: bytes) -> None:
        calls.append(frame)
        raise ValueError("observer")

    seen: list[bytes] = []
    async with open_link(observers=(fail, lambda _, frame: seen.append(frame))) as link:
        await link.settle()
        await link.settle()
    assert len(calls) == 1
    assert len(seen) == 4
    assert "sees no more frames" in caplog.text
