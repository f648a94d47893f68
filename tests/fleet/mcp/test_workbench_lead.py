"""Our own agent leads in a host, and the screen is a client of it: the whole way of a call."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import MessageChunk, PermissionAsked, ToolCallEnded
from quarterdeck.wire.rpc import ByteStream, connect_unix
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, places_in

SCRIPT = """
default = "screen"

[[scenes.screen.replies]]
parts = [{ tool = "mcp", arguments = { server = "quarterdeck", tool = "screen_layout", arguments = { action = "set", layout = { tabs = [{ title = "mine", root = { type = "panel", id = "chat", widget = "chat" } }] } } } }]
[[scenes.screen.replies]]
parts = [{ tool = "mcp", arguments = { server = "quarterdeck", tool = "screen_show", arguments = { what = "file", path = "a.py" } } }]
[[scenes.screen.replies]]
parts = [{ text = "SHOWN: {{last_tool_result}}" }]
"""  # noqa: E501 - TOML allows inline tables on one line only


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        yield fleet


async def led(fleet: LocalFleet, tmp_path: Path, **fields: Any) -> str:
    """What a lead says in the end."""
    folder, script = tmp_path / "project", tmp_path / "script.toml"
    folder.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    model = f"scripted/{script}"
    await fleet.spawn(
        SpawnOptions.of(cwd=str(folder), name="boss", lead=True, prompt="go", model=model, **fields)
    )
    async with asyncio.timeout(SOON):
        await fleet.wait(["boss"])
    assert await events_of(fleet, "boss", lambda one: isinstance(one, PermissionAsked)) == []
    chunks = await events_of(fleet, "boss", lambda one: isinstance(one, MessageChunk))
    return "".join(
        one.content.text
        for one in chunks
        if isinstance(one, MessageChunk) and isinstance(one.content, TextContent)
    )


async def test_a_lead_in_the_host_arranges_the_screen_of_a_client(
    fleet: LocalFleet, tmp_path: Path
):
    socket = tmp_path / "run" / "host.sock"
    calls: list[tuple[str, dict[str, Any], str]] = []

    async def screen(name: str, arguments: dict[str, Any], by: str) -> Any:
        calls.append((name, arguments, by))
        return {"tabs": []} if name == "get_layout" else {"panel": "file-1"}

    async def dial() -> ByteStream:
        return await connect_unix(socket)

    async with FleetServer(fleet, stop=lambda: None).serve(socket):
        client = HostClient.create(dial, "workbench")
        async with client.attach_screen(screen, cwd=str(tmp_path)):
            assert 'SHOWN: {"panel":"file-1"}' in await led(fleet, tmp_path)
        await client.disconnect()
    boss = (await fleet.agent("boss")).session
    assert [(name, by) for name, _, by in calls] == [
        ("get_layout", boss),
        ("set_layout", boss),
        ("open_file", boss),
    ]
    assert calls[2][1] == {"path": str(tmp_path / "project" / "a.py"), "how": "view"}


async def test_without_a_workbench_a_lead_goes_on(fleet: LocalFleet, tmp_path: Path):
    told = await led(fleet, tmp_path)
    assert "SHOWN: No workbench is open" in told and "continue without it" in told


async def test_a_person_can_forbid_the_screen(fleet: LocalFleet, tmp_path: Path):
    calls: list[str] = []

    async def screen(name: str, arguments: dict[str, Any], by: str) -> Any:
        calls.append(name)

    async with fleet.attach_screen(screen, cwd=str(tmp_path)):
        await led(fleet, tmp_path, deny=("mcp(quarterdeck:screen_layout)",))
    assert calls == ["open_file"]
    ended = await events_of(fleet, "boss", lambda one: isinstance(one, ToolCallEnded))
    assert [one.status for one in ended if isinstance(one, ToolCallEnded)] == [
        "failed",
        "completed",
    ]
