"""A terminal in a panel: every key, the mouse, what is above, its end, and who may start it."""

import asyncio
from pathlib import Path

import pytest
from textual import events
from textual.events import Paste

from quarterdeck.wire.content import text
from quarterdeck.workbench.screens import key_guard
from quarterdeck.workbench.widgets import terminal as terminal_widget
from tests.support.terminal_workbench import LEAVE, Seat, echoing, seated
from tests.support.workbench_app import begin, until


async def test_every_key_goes_to_the_program(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        await seat.press("f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f12")
        functions = [f"^[O{one}" for one in "PQRS"] + [
            f"^[[{n}~" for n in (15, 17, 18, 19, 20, 21, 24)
        ]
        await seat.until("".join(functions))
        await seat.press(*(f"ctrl+{one}" for one in "pqctwgnboreyfz"))
        await seat.until("^P^Q^C^T^W^G^N^B^O^R^E^Y^F^Z")
        await seat.press(
            "tab", "shift+tab", "escape", "enter", "alt+left", "alt+x", "question_mark"
        )
        await seat.until("^I^[[Z^[^M^[[1;3D^[x?")
        assert seat.app.is_typed_through and len(seat.app.screen_stack) == 1


async def test_one_key_leaves_and_twice_it_is_sent(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        await seat.shows("ctrl+\\ stop typing")
        await seat.press("a", LEAVE, "b")
        await seat.shows("enter type")
        assert not seat.app.is_typed_through and seat.view.has_focus
        await seat.press(LEAVE, "c")
        await seat.until("a^\\c")
        assert "b" not in seat.text and seat.app.is_typed_through
        await seat.press(LEAVE, "enter", "d")
        await seat.until("a^\\cd")
        await seat.press(LEAVE, "f4")
        await until(seat.pilot, lambda: not seat.view.has_focus)
        await seat.press("f4", "f")  # coming back is typing again
        await seat.until("a^\\cdf")


async def test_a_click_elsewhere_leaves(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        await seat.pilot.click("#chat")
        await until(seat.pilot, lambda: seat.app.main.chat.has_focus)
        await seat.press(*"for the agent")
        assert seat.app.main.chat.text == "for the agent" and seat.text == "ready"


async def test_a_person_can_choose_another_key_to_leave(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        seat.app.action_command("bind", "f11 leave-terminal @terminal")
        seat.app.action_command("bind", "ctrl+x mode plan")
        await until(seat.pilot, lambda: len(list(seat.app.preferences.keymap)) == 2)
        await seat.press("ctrl+x", "f11")
        await until(seat.pilot, lambda: not seat.app.is_typed_through)
        await seat.until("^X")
        assert "^[" not in seat.text


async def test_a_request_waits_while_somebody_types_into_a_shell(tmp_path: Path):
    async with seated(tmp_path) as seat:
        session = await begin(seat.fleet, "ann")
        await until(seat.pilot, lambda: seat.app.context.shown == session)
        await seat.run(echoing())
        await seat.fleet.send(session, (text("ask"),))
        await seat.shows("1 need")
        await seat.press(*"yes")
        await seat.until("yes")
        assert len(seat.app.screen_stack) == 1
        assert len(await seat.fleet.inbox()) == 1
        await seat.press(LEAVE, "ctrl+g")
        await seat.shows("y allow once")


async def test_a_paste_presses_no_key(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing("\\033[?2004h"))
        seat.app.post_message(Paste("one\ntwo\x1b[201~rm -rf\x03\n"))
        await seat.press("x")
        await seat.until("^[[200~one^Mtwo", "[201~rm -rf", "^M^[[201~x")
        plain = seat.text.replace("M-^[", "").replace("M-^C", "")  # pictures of controls
        assert plain.count("^[[201~") == 1 and "^C" not in plain


async def test_what_is_above_is_read_and_typing_goes_back(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run("seq 1 300; " + echoing())
        await seat.until("300ready")
        await seat.press("shift+pageup")
        await seat.shows("lines up")
        assert "ready" not in seat.text and seat.app.is_typed_through
        await seat.press("x")
        await seat.until("readyx")
        assert not seat.view.page.back
        await seat.press(LEAVE, "home")
        await seat.until("1234567")
        await seat.press("slash", *"27", "enter")
        assert seat.view.page.found == "27"
        await seat.press("end", "n")
        await seat.until("277")
        await seat.press("N", "end", "down", "pageup", "k", "left", "right", "escape")
        assert not seat.view.page.found


async def test_the_place_stays_while_more_comes(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run("seq 1 100; while read x; do seq 1 40; echo ready $x; done", "100")
        await seat.press("shift+pageup", "shift+pageup")
        await until(seat.pilot, lambda: seat.view.page.back > 40)
        before = seat.text
        await seat.fleet.write_terminal(seat.panel.terminal or "", b"a\r")
        await until(seat.pilot, lambda: seat.view.page.back > 90)
        assert seat.text == before


async def test_the_mouse_is_for_a_program_that_asks(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing("\\033[?1002h\\033[?1006h"))
        await seat.pilot.mouse_down(seat.view, offset=(4, 2))
        await seat.pilot.hover(seat.view, offset=(6, 3))
        await seat.pilot.mouse_up(seat.view, offset=(6, 3))
        await seat.until("^[[<0;5;3M", "^[[<0;7;4m")
        seat.view.post_message(wheel(events.MouseScrollUp, seat.view))
        await seat.until("^[[<64;2;2M")
        assert seat.app.clipboard == ""


async def test_shift_keeps_the_mouse_from_the_program(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing("\\033[?1002h\\033[?1006hone two\\r\\n"))
        await seat.pilot.mouse_down(seat.view, offset=(0, 0), shift=True)
        await seat.pilot.hover(seat.view, offset=(2, 0))
        await seat.pilot.mouse_up(seat.view, offset=(2, 0), shift=True)
        await until(seat.pilot, lambda: seat.app.clipboard == "one")
        assert "^[[<" not in seat.text


def wheel(kind: type[events.MouseEvent], view: object) -> events.MouseEvent:
    return kind(view, 1, 1, 0, 0, 0, False, False, False)  # pyright: ignore[reportArgumentType]


async def test_the_wheel_scrolls_or_moves_a_pager(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run("seq 1 300; " + echoing())
        seat.view.post_message(wheel(events.MouseScrollUp, seat.view))
        await until(seat.pilot, lambda: seat.view.page.back == 3)
        seat.view.post_message(wheel(events.MouseScrollDown, seat.view))
        await until(seat.pilot, lambda: seat.view.page.back == 0)
    async with seated(tmp_path) as seat:
        await seat.run(echoing("\\033[?1049h\\033[?1h"))
        seat.view.post_message(wheel(events.MouseScrollDown, seat.view))
        await seat.until("^[OB^[OB^[OB")
        await seat.press("shift+pageup")  # there is nothing above: the program gets it
        await seat.until("^[[5;2~")


async def test_what_is_selected_is_copied(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing("say 你好 /tmp/x.py\\r\\nsecond\\r\\n"))
        await seat.pilot.mouse_down(seat.view, offset=(4, 0))
        await seat.pilot.hover(seat.view, offset=(2, 1))
        await seat.pilot.mouse_up(seat.view, offset=(2, 1))
        await until(seat.pilot, lambda: seat.app.clipboard == "你好 /tmp/x.py\nsec")
        await seat.pilot.click(seat.view, offset=(12, 0), times=2)
        await until(seat.pilot, lambda: seat.app.clipboard == "/tmp/x.py")
        assert seat.view.page.selected is not None
        await seat.press("x")
        assert seat.view.page.selected is None


async def test_a_line_that_is_wrapped_is_copied_as_one(tmp_path: Path):
    async with seated(tmp_path) as seat:
        words = "ab 你 " * 40 + "end"
        await seat.run(echoing(f"{words}\\r\\nnext\\r\\n"))
        rows = seat.view.page.shown.rows(0, seat.view.size.height)
        last = next(at for at, row in enumerate(rows) if row.text == "next")
        assert last > 2
        await seat.pilot.mouse_down(seat.view, offset=(0, 0))
        await seat.pilot.hover(seat.view, offset=(3, last))
        await seat.pilot.mouse_up(seat.view, offset=(3, last))
        copied = f"{words}\nnext"
        await until(seat.pilot, lambda: seat.app.clipboard == copied)


async def test_focus_is_reported_to_a_program_that_asks(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing("\\033[?1004h"))
        await seat.press(LEAVE, "f4")
        await seat.until("^[[O")
        await seat.press("f4", "x")
        await seat.until("^[[O^[[Ix")


async def test_the_program_hears_of_the_panels_size(tmp_path: Path):
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    async with seated(tmp_path, (100, 30)) as seat:
        await seat.run(script, "28")
        rows, columns = seat.view.size.height, seat.view.size.width
        await seat.until(f"{rows} {columns}")
        await seat.pilot.resize_terminal(140, 40)
        await seat.until(f"{rows + 10} {columns + 20}")
        for size in ((20, 5), (3, 2), (1, 1), (200, 60)):
            await seat.pilot.resize_terminal(*size)
            await seat.pilot.pause(0.1)
        await until(seat.pilot, lambda: seat.view.page.shown.height == seat.view.size.height)


async def test_who_types_on_after_the_end_interrupts_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(terminal_widget, "QUIET", 60.0)  # however slow this machine types
    async with seated(tmp_path) as seat:
        session = await begin(seat.fleet, "ann")
        await until(seat.pilot, lambda: seat.app.context.shown == session)
        await seat.run("echo ready; read x")
        await seat.press("enter")
        await until(seat.pilot, lambda: seat.view.state == "ended")
        await seat.press("ctrl+c", "ctrl+w", "r")
        assert seat.app.context.agent is not None and seat.app.context.agent.state == "running"
        assert seat.view.is_attached and seat.view.state == "ended"


async def test_an_end_is_told_and_a_key_starts_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(terminal_widget, "QUIET", 60.0)
    async with seated(tmp_path) as seat:
        await seat.run("echo ready; read x; exit 3")
        await seat.press("enter", "r")  # in one go: the second is not meant for what comes
        await seat.shows("exit code 3", "r restart", "ctrl+w close")
        monkeypatch.setattr(terminal_widget, "QUIET", 0.0)
        await until(seat.pilot, lambda: not seat.app.is_typed_through)
        assert "ready" in seat.text
        first = seat.panel.terminal
        await seat.press("r")
        await until(seat.pilot, lambda: seat.panel.terminal != first and seat.app.is_typed_through)
        assert [one.id for one in await seat.fleet.terminals()] == [seat.panel.terminal]
        assert "exit code 3" not in seat.screen


def layout(**options: object) -> dict[str, object]:
    """A chat, and a terminal beside it."""
    chat = {"type": "panel", "id": "chat", "widget": "chat"}
    terminal = {"type": "panel", "id": "run", "widget": "terminal", "options": options}
    root = {"type": "horizontal", "children": [chat, terminal]}
    return {"version": 1, "tabs": [{"title": "main", "root": root}]}


async def test_no_layout_starts_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with seated(tmp_path) as seat:
        wanted = layout(command=["touch", str(tmp_path / "done")])
        for by in ("person", "sess_1"):
            await seat.app.screen_controller.call("set_layout", {"layout": wanted}, by)
            await seat.shows("Nothing is running here", "Layouts never start", "touch")
            await seat.pilot.pause(0.2)
        assert not (tmp_path / "done").exists() and not await seat.fleet.terminals()
        monkeypatch.setattr(key_guard, "QUIET", 60.0)
        seat.app.main.view.enter("run")
        await until(seat.pilot, lambda: seat.panel.has_focus_within)
        await seat.press("enter")  # right after the focus came: not meant
        assert len(seat.app.screen_stack) == 1 and not await seat.fleet.terminals()
        monkeypatch.setattr(key_guard, "QUIET", 0.0)
        monkeypatch.setattr(terminal_widget, "QUIET", 0.0)
        await seat.press("enter")
        await seat.shows("run this?", "The layout wants to start it")
        await seat.press("y")
        await until(seat.pilot, (tmp_path / "done").exists)
        await seat.shows("r restart")
        (tmp_path / "done").unlink()
        await seat.press("r")  # they know it now
        await until(seat.pilot, (tmp_path / "done").exists)


async def test_there_is_no_search_where_nothing_runs(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.app.screen_controller.call("set_layout", {"layout": layout()})
        await seat.shows("Nothing is running here")
        seat.app.main.view.enter("run")
        await seat.press("slash")
        assert not seat.panel.bar.display


async def test_a_layout_that_names_a_terminal_which_is_gone_runs_nothing_unasked(tmp_path: Path):
    async with seated(tmp_path) as seat:
        wanted = layout(terminal="term-0", command=["touch", str(tmp_path / "done")])
        await seat.app.screen_controller.call("set_layout", {"layout": wanted})
        await seat.shows("this terminal no longer exists")
        seat.app.main.view.enter("run")
        await asyncio.sleep(0.35)
        await seat.press("r")
        await seat.shows("run this?")
        await seat.press("n")
        await seat.pilot.pause(0.1)
        assert not await seat.fleet.terminals() and not (tmp_path / "done").exists()


async def test_an_agent_that_opens_a_panel_starts_nothing(tmp_path: Path):
    async with seated(tmp_path) as seat:
        request = {"widget": "terminal", "options": {"command": ["touch", str(tmp_path / "done")]}}
        await seat.app.screen_controller.call("open_panel", request, "sess_1")
        await seat.shows("Nothing is running here")
        await seat.pilot.pause(0.2)
        assert not await seat.fleet.terminals()


async def test_an_agent_does_not_take_the_focus_from_who_types_into_a_terminal(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        await seat.app.screen_controller.call("open_tab", {"title": "mine"}, "sess_1")
        await seat.app.screen_controller.call("open_panel", {"widget": "usage"}, "sess_1")
        assert seat.app.is_typed_through


async def close(seat: Seat, key: str) -> None:
    if seat.app.is_typed_through:
        await seat.press(LEAVE)
    await seat.press("ctrl+w")
    await seat.shows("is running", "e end it")
    await asyncio.sleep(0.35)
    await seat.press(key)


async def test_closing_a_panel_asks_what_shall_become_of_the_program(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        await close(seat, "escape")
        assert seat.view.is_attached
        await close(seat, "l")
        await until(seat.pilot, lambda: not seat.app.main.query("TerminalPanel"))
        assert [one.ended for one in await seat.fleet.terminals()] == [None]
        seat.app.action_command("terminals")
        await seat.shows("enter show", "running")
        await seat.press("enter")
        await until(seat.pilot, lambda: seat.app.main.query("TerminalPanel"))
        await seat.until("ready")
        await close(seat, "e")
        await until(seat.pilot, lambda: not seat.app.main.query("TerminalPanel"))
        assert not await seat.fleet.terminals()


async def test_a_terminal_is_ended_from_the_list(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        await seat.press(LEAVE)
        seat.app.action_command("terminals")
        await seat.shows("x end")
        await seat.press("enter")  # it is on the screen already, and gets the focus
        await until(seat.pilot, lambda: len(seat.app.screen_stack) == 1)
        assert len(seat.app.main.query("TerminalPanel")) == 1
        seat.app.action_command("terminals")
        await seat.shows("x end")
        await seat.press("x")
        await seat.shows("its child processes")
        await asyncio.sleep(0.35)
        await seat.press("y")
        await seat.shows("r restart")
        assert not await seat.fleet.terminals()


async def test_a_hidden_terminal_rests_and_comes_back_as_it_is(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(terminal_widget, "_UNSEEN", 0.05)
    async with seated(tmp_path) as seat:
        await seat.run("echo ready; read x; echo got $x; sleep 60")
        seat.view.send(b"")
        await seat.press(LEAVE)
        seat.app.action_command("tab", "new other")
        await until(seat.pilot, lambda: not seat.view._workers)
        (info,) = await seat.fleet.terminals()
        await seat.fleet.write_terminal(info.id, b"hidden\r")
        await seat.pilot.pause(0.1)
        assert "got" not in seat.text
        seat.app.action_command("tab", "previous")
        await seat.until("got hidden")


async def test_a_terminal_that_is_gone_is_offered_again(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.app.screen_controller.call("set_layout", {"layout": layout(terminal="term-0")})
        await seat.shows("this terminal no longer exists", "r restart")
        await seat.pilot.pause(0.2)
        assert not await seat.fleet.terminals()


async def test_what_a_terminal_remembers_is_its_id(tmp_path: Path):
    async with seated(tmp_path) as seat:
        await seat.run(echoing())
        kept = seat.app.main.view.remember()
        panel = seat.app.main.view.current
        assert panel is not None and kept[panel] == {
            "terminal": seat.panel.terminal,
            "command": seat.panel.argv,
        }
        seat.panel.recall({"terminal": 3})
        assert seat.panel.terminal == kept[panel]["terminal"]
