"""The live screen of an agent in its chat, and hostile programs in terminals."""

import asyncio
import unicodedata
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.workbench.panels.terminal.view import AgentTerminalView
from quarterdeck.workbench.widgets.terminal import TerminalView
from tests.support.hostile_text import hostile_strings
from tests.support.screen_strips import render_screen
from tests.support.terminal_workbench import LEAVE, Seat, echoing, seated
from tests.support.workbench_app import begin, until

SIZE = "trap 'stty size' WINCH; stty size; "


async def with_screen(seat: Seat, script: str) -> TerminalView:
    """An agent that runs in a terminal, and its live screen in the chat."""
    session = await begin(seat.fleet, "ann", "what it was asked")
    cwd = str(seat.home)
    seat.fleet.infos[session] = replace(seat.fleet.infos[session], transport="pty", cwd=cwd)
    await seat.fleet.give_screen("ann", "sh", "-c", script, size=(120, 40))
    seat.app.feed.refresh()
    roster = seat.app.context.roster
    await until(seat.pilot, lambda: getattr(roster.find(session), "transport", "") == "pty")
    await seat.shows("what it was asked")
    seat.app.action_command("screen")
    await until(seat.pilot, lambda: seat.app.main.query(AgentTerminalView))
    return seat.app.main.query_one(AgentTerminalView).view


async def test_a_chat_shows_the_live_screen_of_its_agent_and_the_transcript_again(tmp_path: Path):
    async with seated(tmp_path, (80, 24)) as seat:
        view = await with_screen(seat, SIZE + echoing("\\033[38;1HINPUT\\033[1;1Htop"))
        await seat.shows("live terminal", "INPUT")
        assert "what it was asked" not in seat.screen and "top" not in seat.screen
        assert view.page.shown.screen is not None and view.page.shown.screen.size == (120, 40)
        await seat.pilot.click(view)
        await until(seat.pilot, lambda: view.has_focus)
        await seat.press("home")
        await seat.shows("top", "lines up")
        await seat.press("end", "escape")
        await seat.shows("what it was asked")
        assert not seat.app.main.query(AgentTerminalView)


async def test_one_types_into_an_agent_only_after_a_step(tmp_path: Path):
    async with seated(tmp_path, (80, 24)) as seat:
        view = await with_screen(seat, echoing("\\033[38;1H"))
        await seat.shows("ready")
        view.focus()
        await until(seat.pilot, lambda: view.has_focus)
        await seat.press("x", "y")
        assert not seat.app.is_typed_through
        await seat.press("enter", "z", "ctrl+q")
        await seat.shows("z^Q", "you are typing into the agent")
        assert "x" not in seat.screen.split("ready")[1].split("z^Q")[0]
        await seat.press(LEAVE)
        await seat.shows("enter type")


async def test_a_screen_that_ends_gives_way_to_the_transcript(tmp_path: Path):
    async with seated(tmp_path, (80, 24)) as seat:
        await with_screen(seat, "echo ready; read x")
        await seat.shows("ready")
        await seat.fleet.write_terminal("ann", b"\r")
        await seat.shows("what it was asked")


async def test_an_agent_without_a_terminal_has_no_screen(tmp_path: Path):
    async with seated(tmp_path) as seat:
        seat.app.action_command("screen")
        await seat.shows("no agent selected")
        session = await begin(seat.fleet, "bob")
        await until(seat.pilot, lambda: seat.app.context.agent is not None)
        seat.app.action_command("screen")  # it may have one: the host knows
        await seat.shows("there is no terminal", "do it")
        seat.fleet.infos[session] = replace(seat.fleet.infos[session], transport="acp")
        seat.app.feed.refresh()
        await until(seat.pilot, lambda: seat.app.context.agent.transport == "acp")  # pyright: ignore[reportOptionalMemberAccess]
        seat.app.action_command("screen")
        await seat.shows("does not run in a terminal")


async def test_a_panel_shows_an_agents_screen_beside_its_chat(tmp_path: Path):
    async with seated(tmp_path, (140, 40)) as seat:
        await with_screen(seat, echoing())
        seat.app.action_command("screen")
        seat.app.action_command("terminals")
        await seat.shows("ann", "agent")
        await seat.press("enter")
        await until(seat.pilot, lambda: seat.app.main.query("TerminalPanel"))
        await seat.until("ready")
        assert seat.panel.is_agents and not seat.app.is_typed_through
        seat.app.action_command("close-panel")
        await until(seat.pilot, lambda: not seat.app.main.query("TerminalPanel"))
        assert len(await seat.fleet.terminals()) == 1


HOSTILE = [
    b"\x1b]52;c;aGFja2Vk\x07",
    b"\x1b]2;[bold red]title[/] \x1b\\",
    b"\x1b]0;\xe2\x80\xaeevil\x07",
    b"\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    b"\x1b[9999;9999H\x1b[9999@\x1b[9999L\x1b[9999P",
    b"\x1b[?1049h\x1b[?1003h\x1b[?2026h",
    b"\x1b[21t\x1b[c\x1b[6n\x1b]10;?\x07\x1b[?u",
    b"\x1bP+q544e\x1b\\\x1b_Gf=24;AAAA\x1b\\",
    b"\xff\xfe\x00\x9b31m\x1b[",
    b"\x1b[3J\x1bc",
]


async def test_hostile_output_acts_on_nothing(tmp_path: Path):
    texts = [one.encode("utf-8", "replace") for one in hostile_strings(150)]
    output = b"\r\n".join(piece for pair in zip(texts, HOSTILE * 15, strict=True) for piece in pair)
    (tmp_path / "hostile").write_bytes(output + b"\x1bc\x1b[?1049l\x1b]2;[bold]x[/]\x07all done")
    async with seated(tmp_path) as seat:
        await seat.run("cat hostile; read x", "all done")
        await seat.shows("[bold]x[/]")
        await asyncio.sleep(0.1)
        assert seat.app.clipboard == ""
        await seat.press("shift+pageup")
        for strip in render_screen(seat.app):
            assert strip.cell_length == seat.app.size.width
            assert not {unicodedata.category(one) for one in strip.text} & {"Cc", "Cf", "Cs"}


async def test_a_flood_leaves_the_workbench_to_the_person(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run("yes & sleep 1.5; kill $!; wait; echo over; read x", "y")
        await seat.press(LEAVE)
        await seat.pilot.click("#chat")
        await seat.press(*"here")
        assert seat.app.main.chat.text == "here"
        await seat.until("over")
