"""Peers over Unix sockets."""

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkEndedError
from quarterdeck.wire.rpc import ByteStream, Peer, RpcLimits, connect_unix, serve_unix


@pytest.fixture
def place() -> Iterator[Path]:
    # A short path: 104 bytes is all that some systems allow.
    with TemporaryDirectory(prefix="qd") as folder:
        yield Path(folder) / "s"


async def test_many_clients_are_served_at_once(place: Path, recorder: Any) -> None:
    async def serve(stream: ByteStream) -> None:
        async with Peer(stream, recorder) as peer:
            await peer.wait_closed()

    async def ask(n: int) -> bytes:
        async with Peer(await connect_unix(place), recorder) as peer:
            return bytes(await peer.request("echo", n, timeout=10))

    async with serve_unix(place, serve):
        answers = await asyncio.gather(*(ask(n) for n in range(20)))
    assert answers == [b"%d" % n for n in range(20)]
    assert not await asyncio.to_thread(place.exists)


async def test_large_frames_cross_in_both_directions_at_once(place: Path, recorder: Any) -> None:
    async def serve(stream: ByteStream) -> None:
        async with Peer(stream, recorder) as peer:
            await peer.request("echo", "y" * 3_000_000, timeout=10)
            await peer.wait_closed()

    async with serve_unix(place, serve), Peer(await connect_unix(place), recorder) as peer:
        results = await asyncio.gather(*(peer.request("echo", "x" * 3_000_000) for _ in range(3)))
        assert [len(result) for result in results] == [3_000_002] * 3


async def test_only_this_user_may_connect(place: Path) -> None:
    async def serve(stream: ByteStream) -> None:
        pass

    async with serve_unix(place, serve):
        assert stat.S_IMODE((await asyncio.to_thread(place.stat)).st_mode) == 0o600


async def test_second_listener_is_busy_and_a_dead_socket_is_replaced(
    place: Path, recorder: Any
) -> None:
    import socket

    async def serve(stream: ByteStream) -> None:
        async with Peer(stream, recorder) as peer:
            await peer.wait_closed()

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    async with serve_unix(place, serve):
        with pytest.raises(LinkBusyError, match="another process listens"):
            async with serve_unix(place, serve):
                pass
        async with Peer(await connect_unix(place), recorder) as peer:
            await peer.request("echo", timeout=10)


async def test_file_in_the_way_is_kept(place: Path) -> None:
    async def serve(stream: ByteStream) -> None:
        pass

    await asyncio.to_thread(place.write_text, "mine")
    with pytest.raises(LinkBrokenError, match="cannot listen"):
        async with serve_unix(place, serve):
            pass
    assert await asyncio.to_thread(place.read_text) == "mine"


async def test_nobody_listening_is_broken(place: Path) -> None:
    with pytest.raises(LinkBrokenError, match="cannot connect"):
        await connect_unix(place)


async def test_end_of_the_listener_ends_its_links(place: Path, recorder: Any) -> None:
    async def serve(stream: ByteStream) -> None:
        async with Peer(stream, recorder, limits=RpcLimits(grace_seconds=0.1)) as peer:
            await peer.wait_closed()

    async with serve_unix(place, serve):
        peer = Peer(await connect_unix(place), recorder)
        await peer.__aenter__()
        await peer.request("echo", timeout=10)
    assert isinstance(await peer.wait_closed(), LinkEndedError)


async def test_failing_connection_is_logged_and_others_go_on(
    place: Path, recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    served = 0

    async def serve(stream: ByteStream) -> None:
        nonlocal served
        served += 1
        if served == 1:
            raise ValueError("first")
        async with Peer(stream, recorder) as peer:
            await peer.wait_closed()

    async with serve_unix(place, serve):
        first = await connect_unix(place)
        assert await first.receive() == b""
        await first.close()
        async with Peer(await connect_unix(place), recorder) as peer:
            await peer.request("echo", timeout=10)
    assert "serving a connection failed" in caplog.text
