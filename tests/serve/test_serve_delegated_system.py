"""Delegated files agree with this machine's; delegated terminals bear with odd clients."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.serve.delegated_files import DelegatedFiles
from quarterdeck.serve.delegated_system import DelegatedTerminals
from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import (
    FileChangedError,
    NoSuchDirectoryError,
    NoSuchPathError,
    OperatingSystemError,
    OutsideRootsError,
    PathRefusedError,
    SpawnError,
)
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.errors import RpcError
from tests.support.deadlines import SOON

Handler = Callable[[Any], Awaitable[Any]]


class FakeLink:
    """A client that answers from a table; what it was asked is kept."""

    session_id = "s"

    def __init__(self, **handlers: Handler) -> None:
        self.handlers = handlers
        self.asked: list[str] = []

    async def call(
        self, method: Method[Any, Any], params: Any, *, timeout: float | None = None
    ) -> Any:
        name = method.name.partition("/")[2]
        self.asked.append(name)
        async with asyncio.timeout(timeout):
            return await self.handlers[name](params)


async def read_from_disk(request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
    data = await asyncio.to_thread(Path(request.path).read_bytes)
    return acp.ReadTextFileResponse(content=data.decode())


def editing(folder: Path, **handlers: Handler) -> tuple[DelegatedFiles, LocalSystem, FakeLink]:
    link = FakeLink(**{"read_text_file": read_from_disk, **handlers})
    local = LocalSystem([folder])
    return DelegatedFiles(link, local), local, link


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(st.sampled_from("ab\n\r\tä🙂"), max_size=60),
    line=st.integers(1, 12),
    limit=st.none() | st.integers(0, 8),
    room=st.integers(1, 40),
    offset=st.integers(0, 70),
)
def test_reading_is_as_on_this_machine(
    tmp_path: Path, text: str, line: int, limit: int | None, room: int, offset: int
):
    (tmp_path / "f").write_bytes(text.encode())

    async def compare() -> None:
        files, local, _ = editing(tmp_path)
        window = {"line": line, "limit": limit, "max_bytes": room}
        assert await files.read_lines("f", **window) == await local.files.read_lines("f", **window)
        part = {"offset": offset, "limit": limit}
        mine, theirs = await files.read("f", **part), await local.files.read("f", **part)
        assert (mine.data, mine.at_end) == (theirs.data, theirs.at_end)

    asyncio.run(compare())


async def test_what_is_no_text_does_not_go_through_the_client(tmp_path: Path):
    files, _, link = editing(tmp_path)
    for data in (b"\x89PNG\0\0", b"\xff\xfe", "ä".encode("latin-1")):
        (tmp_path / "f").write_bytes(data)
        assert (await files.read("f")).data == data
        await files.write("f", data + b"!")
        assert (tmp_path / "f").read_bytes() == data + b"!"
    assert link.asked == []


async def test_what_the_client_says_becomes_an_error_of_the_system(tmp_path: Path):
    (tmp_path / "f").write_text("x")
    answers: dict[str, Exception] = {}

    async def refuse(_: Any) -> Any:
        raise answers["now"]

    files, _, _ = editing(tmp_path, read_text_file=refuse, write_text_file=refuse)
    answers["now"] = RpcError(-32002, "not there")
    with pytest.raises(NoSuchPathError):
        await files.read("f")
    answers["now"] = RpcError(-32603, "it is private")
    with pytest.raises(PathRefusedError, match="it is private"):
        await files.read("f")
    with pytest.raises(PathRefusedError, match="it is private"):
        await files.write("new", b"x")
    with pytest.raises(OutsideRootsError):
        await files.write("../new", b"x")


async def test_writing_keeps_its_promises(tmp_path: Path):
    async def write(request: acp.WriteTextFileRequest) -> acp.Empty:
        await asyncio.to_thread(Path(request.path).write_text, request.content)
        return acp.Empty()

    files, _, _ = editing(tmp_path, write_text_file=write)
    first = await files.write("deep/in/f", b"one", create=True)
    assert (tmp_path / "deep/in/f").read_text() == "one"
    with pytest.raises(FileChangedError):
        await files.write("deep/in/f", b"two", create=True)
    with pytest.raises(NoSuchPathError):
        await files.write("missing", b"two", create=False)
    second = await files.write("deep/in/f", b"two", expected=first)
    (tmp_path / "deep/in/f").write_text("other")
    with pytest.raises(FileChangedError):
        await files.write("deep/in/f", b"three", expected=second)
    (tmp_path / "deep/in/f").unlink()
    with pytest.raises(FileChangedError):
        await files.write("deep/in/f", b"three", expected=second)


class FakeTerminal:
    """A terminal of a client: the test says what is printed and when it ends."""

    def __init__(self) -> None:
        self.output = ""
        self.ended: asyncio.Future[acp.WaitForTerminalExitResponse] = (
            asyncio.get_running_loop().create_future()
        )

    def link(self, **others: Handler) -> FakeLink:
        async def create(_: Any) -> Any:
            return acp.CreateTerminalResponse(terminal_id="t")

        async def output(_: Any) -> Any:
            return acp.TerminalOutputResponse(output=self.output, truncated=False)

        async def wait(_: Any) -> Any:
            return await asyncio.shield(self.ended)

        async def nothing(_: Any) -> Any:
            return acp.Empty()

        table = {"create": create, "output": output, "wait_for_exit": wait}
        return FakeLink(**{**table, "kill": nothing, "release": nothing, **others})

    def end(self, code: int = 0) -> None:
        self.ended.set_result(acp.WaitForTerminalExitResponse(exit_code=code))


async def test_output_whose_beginning_is_dropped_is_pieced_together(tmp_path: Path):
    theirs = FakeTerminal()
    terminals = DelegatedTerminals(theirs.link(), LocalSystem([tmp_path]).files)
    terminal = await terminals.create(CommandSpec(argv=["x"]), spill=tmp_path / "all")
    for shown in ("one ", "one two ", "two three ", "wholly new"):
        theirs.output = shown
        await terminal.output()
    theirs.end(3)
    assert (await terminal.wait()).code == 3
    view = await terminal.output()
    assert view.text == "one two three \n[… some output is missing here …]\nwholly new"
    await terminal.release()
    assert (tmp_path / "all").read_text() == view.text


async def test_followers_see_everything_and_then_the_end(tmp_path: Path):
    theirs = FakeTerminal()
    terminals = DelegatedTerminals(theirs.link(), LocalSystem([tmp_path]).files)
    terminal = await terminals.create(CommandSpec(argv=["x"]))
    pieces = terminal.follow()
    theirs.output = "a"
    assert await anext(pieces) == "a"
    theirs.output = "abc"
    theirs.end()
    assert "".join([piece async for piece in pieces]) == "bc"
    await terminal.release()


async def test_a_client_that_ends_nothing_is_not_waited_for(tmp_path: Path):
    async def never(_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    theirs = FakeTerminal()
    link = theirs.link(kill=never, release=never)
    terminals = DelegatedTerminals(link, LocalSystem([tmp_path]).files)
    terminal = await terminals.create(CommandSpec(argv=["x"]))
    async with asyncio.timeout(45):
        await terminal.kill()
        assert (await terminal.wait()).signal == "SIGKILL"
        await terminals.close()
    assert {"kill", "release"} <= set(link.asked)


async def test_a_client_that_cannot_start_or_tell(tmp_path: Path):
    async def refuse(_: Any) -> Any:
        raise RpcError(-32603, "no more terminals")

    files = LocalSystem([tmp_path]).files
    theirs = FakeTerminal()
    with pytest.raises(SpawnError, match="no more terminals"):
        await DelegatedTerminals(theirs.link(create=refuse), files).create(CommandSpec(argv=["x"]))
    terminals = DelegatedTerminals(theirs.link(wait_for_exit=refuse), files)
    terminal = await terminals.create(CommandSpec(argv=["x"]))
    with pytest.raises(OperatingSystemError, match="no more terminals"):
        await terminal.wait()
    await terminal.release()


async def test_a_command_stays_within_the_roots(tmp_path: Path):
    link = FakeTerminal().link()
    terminals = DelegatedTerminals(link, LocalSystem([tmp_path]).files)
    with pytest.raises(OutsideRootsError):
        await terminals.create(CommandSpec(argv=["x"], cwd="/"))
    with pytest.raises(NoSuchDirectoryError):
        await terminals.create(CommandSpec(argv=["x"], cwd="missing"))
    assert link.asked == []


async def test_a_terminal_that_comes_after_the_turn_was_cancelled_is_released(tmp_path: Path):
    asked, may_answer, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def create(_: Any) -> acp.CreateTerminalResponse:
        asked.set()
        await may_answer.wait()
        return acp.CreateTerminalResponse(terminal_id="late")

    async def release(request: acp.ReleaseTerminalRequest) -> acp.Empty:
        assert request.terminal_id == "late"
        released.set()
        return acp.Empty()

    link = FakeLink(create=create, release=release)
    terminals = DelegatedTerminals(link, LocalSystem([tmp_path]).files)
    creating = asyncio.create_task(terminals.create(CommandSpec(argv=["sleep", "60"])))
    await asked.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    may_answer.set()
    await asyncio.wait_for(released.wait(), SOON)
    await terminals.close()


async def test_a_client_that_never_makes_the_terminal_holds_up_no_end(tmp_path: Path):
    asked = asyncio.Event()

    async def create(_: Any) -> acp.CreateTerminalResponse:
        asked.set()
        return await asyncio.Future()

    terminals = DelegatedTerminals(FakeLink(create=create), LocalSystem([tmp_path]).files)
    creating = asyncio.create_task(terminals.create(CommandSpec(argv=["sleep", "60"])))
    await asked.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    await asyncio.wait_for(terminals.close(), SOON)
