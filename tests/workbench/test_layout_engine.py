"""Layouts on the screen: panels are kept, errors change nothing, a restart brings it back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import TextArea

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import AgentPlaces, WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.layout.panel_set import UnsavedPanelsError
from quarterdeck.workbench.layout.spec import LayoutError, dump_layout, panels_of
from quarterdeck.workbench.panels.kinds import KINDS, PanelKind
from quarterdeck.workbench.panels.panel import Panel, PanelOptions
from quarterdeck.workbench.preferences.store import Preferences
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.stores.roster import RosterStore
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, say, screen_text, until


class NoteOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str = ""
    fails: bool = False


class NotePanel(Panel):
    """A text that can be unsaved, and cannot take other options but by being made anew."""

    options_type: ClassVar[type[PanelOptions]] = NoteOptions
    made: ClassVar[int] = 0

    def __init__(self, desk: Any, options: Any, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
        if options.fails:
            raise RuntimeError("no ink")
        NotePanel.made += 1
        self.state: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        yield TextArea(self.options.text)

    @property
    def unsaved(self) -> str | None:
        text = self.query_one(TextArea).text if self.is_mounted else ""
        return "a note" if text.startswith("unsaved") else None

    def remember(self) -> dict[str, Any]:
        return {"text": self.query_one(TextArea).text} if self.is_mounted else {}

    def recall(self, state: dict[str, Any]) -> None:
        self.state = state


class NoteKind(PanelKind):
    def load(self) -> type[Panel]:
        return NotePanel


NOTE = NoteKind(name="note", help="a note", target="")


@pytest.fixture(autouse=True)
def note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "note", NOTE)


def panel(name: str, widget: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "panel", "id": name, "widget": widget or name, **more}


def rows(*children: Any, **more: Any) -> dict[str, Any]:
    return {"type": "vertical", "children": list(children), **more}


def beside(*children: Any, **more: Any) -> dict[str, Any]:
    return {"type": "horizontal", "children": list(children), **more}


def layout(*roots: Any) -> dict[str, Any]:
    return {"tabs": [{"title": f"tab {n}", "root": root} for n, root in enumerate(roots, 1)]}


@asynccontextmanager
async def kept(
    fleet: FakeFleet, home: Path, cwd: str, size: tuple[int, int] = (120, 40)
) -> AsyncGenerator[tuple[Workbench, Pilot[None]]]:
    """A workbench that keeps what is open under ``home``."""

    async def there(starts: bool) -> None:
        del starts

    drafts = Drafts(home / "drafts")
    await asyncio.to_thread(drafts.load)
    desk = WorkbenchContext(fleet=fleet, drafts=drafts, cwd=cwd, clock=lambda: 1_000_000)
    desk.discovery.places = Places(
        config=home / "config", state=home / "state", cache=home / "c", runtime=home / "r"
    )
    app = await asyncio.to_thread(Workbench, desk, there)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: desk.roster.is_known)
        yield app, pilot


async def put(app: Workbench, data: dict[str, Any], **more: Any) -> Any:
    return await app.screen_controller.call("set_layout", {"layout": data, **more})


def state_of(app: Workbench) -> tuple[Any, ...]:
    """Everything that a refused layout must leave alone."""
    view = app.main.view
    return (
        dump_layout(view.spec),
        view.tab,
        view.current,
        [(name, id(one), one.display, one.region) for name, one in view.panels.items()],
        [id(child) for child in view.children],
        app.focused,
    )


async def test_a_panel_that_moves_keeps_its_place_draft_and_text(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    for number in range(60):
        await say(fleet, ann, f"paragraph {number}\n\nmore of {number}\n\n")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await put(app, layout(beside(panel("chat"), panel("note", options={"text": "one\n" * 90}))))
        await until(pilot, lambda: "more of 59" in screen_text(app))
        chat, note = app.main.view.panels["chat"], app.main.view.panels["note"]
        await pilot.press(*"half a th")
        area = note.query_one(TextArea)
        area.insert("unsaved ", (0, 0))
        area.scroll_to(y=40, animate=False)
        app.main.transcript.focus()
        await pilot.press("pageup", "pageup")
        await pilot.pause()
        place, top = app.main.transcript.scroll_offset, app.main.transcript.line_at
        first = top(place.y)
        made = NotePanel.made
        await put(
            app,
            layout(
                panel("transcript"),
                rows(panel("note", options={"text": "one\n" * 90}), beside(panel("agents"))),
                beside(rows(panel("inbox"), panel("chat", size="33%"))),
            ),
        )
        await app.main.view.show_tab(2)
        await pilot.pause()
        await put(app, layout(beside(panel("note", options={"text": "one\n" * 90}), panel("chat"))))
        await pilot.pause()
        assert app.main.view.panels["chat"] is chat
        assert app.main.view.panels["note"] is note and NotePanel.made == made
        assert app.main.chat.text == "half a th"
        assert area.text.startswith("unsaved one") and area.scroll_offset.y == 40
        assert not app.main.transcript.follows
        assert app.main.transcript.line_at(app.main.transcript.scroll_offset.y) == first


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"version": 9, "tabs": []},
        layout(panel("agents")),
        layout(beside(panel("chat"), panel("chat"))),
        layout(beside(panel("chat"), panel("x", "clock"))),
        layout(beside(panel("chat"), panel("x", "note", options={"txt": 1}))),
        layout(beside(panel("chat"), panel("x", "note", options={"fails": True}))),
        layout(
            beside(
                panel("chat", options={"agent": "bob"}), panel("n", "note", options={"fails": True})
            )
        ),
        layout(beside(panel("chat", size="wide"))),
    ],
)
async def test_an_invalid_layout_changes_nothing(tmp_path: Path, data: dict[str, Any]):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with kept(fleet, tmp_path, "/work/project") as (app, pilot):
        await put(app, layout(beside(panel("chat"), panel("note")), panel("inbox")))
        await pilot.press(*"typed")
        await app.workspace.save()
        await pilot.pause()
        before, files = state_of(app), _files(tmp_path)
        with pytest.raises(QuarterdeckError):
            await put(app, data)
        with pytest.raises(QuarterdeckError):
            await app.screen_controller.call("open_tab", {"title": "x", "root": {"type": "panel"}})
        await pilot.pause()
        assert state_of(app) == before
        assert app.main.panel.options.agent is None
        await app.workspace.save()
        assert _files(tmp_path) == files


def _files(home: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in home.rglob("*.json")
        if "state" in path.parts or "config" in path.parts
    }


async def test_what_is_not_saved_is_not_dropped(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (120, 40)) as (app, pilot):
        await put(app, layout(beside(panel("chat"), panel("note"))))
        area = app.main.view.panels["note"].query_one(TextArea)
        area.text = "unsaved"
        before = state_of(app)
        for data in (layout(panel("chat")), layout(beside(panel("chat"), panel("note", "agents")))):
            with pytest.raises(UnsavedPanelsError, match="note: a note"):
                await put(app, data)
        changed = layout(beside(panel("chat"), panel("note", options={"text": "other"})))
        with pytest.raises(UnsavedPanelsError):
            await put(app, changed)
        with pytest.raises(UnsavedPanelsError):  # an agent cannot force it
            call = {"layout": layout(panel("chat")), "force": True}
            await app.screen_controller.call("set_layout", call, by="session-of-an-agent")
        assert state_of(app) == before
        app.main.view.enter("note")
        app.action_command("close-panel")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.pause(QUIET + 0.05)
        await pilot.press("y")
        await until(pilot, lambda: list(app.main.view.panels) == ["chat"])


async def test_the_last_chat_cannot_be_closed(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        await pilot.press(*"a draft", "ctrl+w")
        assert app.main.chat.text == "a "
        await pilot.press("ctrl+w", "ctrl+w")
        await until(pilot, lambda: "cannot close the last chat" in screen_text(app))
        await app.screen_controller.call("open_tab", {"root": panel("other", "chat")})
        await app.screen_controller.call("close_panel", {"panel": "chat"})
        with pytest.raises(LayoutError, match="last chat"):
            await app.screen_controller.call("close_tab", {"tab": 2})


async def test_when_a_tab_is_closed_the_focus_is_where_it_was_before_at_once(tmp_path: Path):
    """Keys that come before the next frame are meant for it already."""
    async with opened(FakeFleet(), tmp_path, (120, 40)) as (app, pilot):
        await put(app, layout(beside(panel("chat"), panel("right", "chat"))))
        view = app.main.view
        view.enter("right")
        await pilot.pause()
        await app.screen_controller.call("open_tab", {"root": panel("note")})
        await until(pilot, lambda: view.panels["note"].has_focus_within)
        await app.screen_controller.call("close_panel", {"panel": "note"})
        assert view.panels["right"].has_focus_within
        view.enter("chat")  # the person goes elsewhere: what comes late does not take it back
        await pilot.pause()
        assert view.panels["chat"].has_focus_within


async def test_chats_have_an_agent_a_draft_and_keys_each(tmp_path: Path):
    fleet = FakeFleet()
    ann, bob = await begin(fleet, "ann"), await begin(fleet, "bob")
    await say(fleet, ann, "words of ann")
    await say(fleet, bob, "words of bob")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        own = panel("right", "chat", options={"agent": "bob"})
        await put(app, layout(beside(panel("chat"), own)))
        shown = lambda words: words in screen_text(app)  # noqa: E731
        await until(pilot, lambda: shown("words of ann") and shown("words of bob"))
        await pilot.press(*"to ann")
        await pilot.press("f4")
        await pilot.press(*"to bob")
        assert app.main.panel is app.main.view.panels["right"]
        texts = {name: one.chat.text for name, one in app.main.view.panels.items()}  # type: ignore[attr-defined]
        assert texts == {"chat": "to ann", "right": "to bob"}
        assert app.context.agent is not None and app.context.agent.name == "bob"
        await pilot.press("ctrl+c")
        await until(pilot, lambda: fleet.infos[bob].state == "interrupted")
        assert fleet.infos[ann].state == "running"
        app.context.select(bob)
        app.context.select(ann)
        assert app.context.focused == bob
        await pilot.press("ctrl+n")  # both chats show bob now: two drafts all the same
        assert {one.session for one in app.main.chats()} == {bob}
        await pilot.press("shift+f4", *"also", "f4")
        assert app.main.chat.text == "to bob"
        await pilot.press("enter")
        await until(pilot, lambda: app.main.chat.text == "")
        await pilot.press("f4")
        assert app.main.chat.text == "also"


async def test_tabs_remember_the_focus_and_are_renamed_and_closed(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (100, 30)) as (app, pilot):
        view = app.main.view
        assert "main" not in screen_text(app).splitlines()[0]
        await pilot.press(*"/tab new second", "enter")
        await until(pilot, lambda: view.tab == 1 and app.main.chat.has_focus)
        assert "1 main" in screen_text(app) and "[2 second" in screen_text(app)
        await pilot.press(*"here")
        await until(pilot, lambda: app.main.chat.text == "here")
        await pilot.press("f6")
        await until(pilot, lambda: view.tab == 0 and app.main.chat.has_focus)
        assert app.main.chat.text == ""
        app.main.transcript.focus()
        await until(pilot, lambda: app.main.transcript.has_focus)
        await pilot.press("f7")
        await until(pilot, lambda: view.tab == 1 and app.main.chat.has_focus)
        assert app.main.chat.text == "here"
        await pilot.press("f7")
        await until(pilot, lambda: view.tab == 0 and app.main.transcript.has_focus)
        await pilot.click("#tabs", offset=(14, 0))
        await until(pilot, lambda: view.tab == 1)
        await app.screen_controller.call("rename_tab", {"title": "other"})
        await pilot.pause()
        assert "[2 other" in screen_text(app)
        app.action_command("tab", "close")
        await until(pilot, lambda: len(view.spec.tabs) == 1)
        await until(pilot, lambda: app.main.transcript.has_focus)


async def test_a_focus_that_comes_while_a_tab_opens_is_remembered_for_its_own_tab(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (100, 30)) as (app, pilot):
        view = app.main.view
        await put(app, layout(beside(panel("chat"), panel("agents")), panel("second", "chat")))
        await until(pilot, lambda: app.main.chat.has_focus)
        view.panels["agents"].enter()  # its message is on the way while the tab is made
        await view.show_tab(1)
        await until(pilot, lambda: view.current == "second" and app.main.chat.has_focus)
        await view.show_tab(0)
        await until(pilot, lambda: view.current == "agents")


async def test_lines_are_moved_by_mouse_and_keys_and_reset(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (100, 30)) as (app, pilot):
        await put(app, layout(beside(panel("chat"), panel("transcript"))))
        await pilot.pause()
        view = app.main.view
        at = view.plan.panels["transcript"].x - 1
        await pilot.mouse_down(offset=(at, 5))
        await pilot.hover(offset=(at + 10, 7))
        await pilot.mouse_up(offset=(at + 10, 7))
        await until(pilot, lambda: view.plan.panels["transcript"].x - 1 == at + 10)
        assert view.region.width == 100
        await pilot.press("alt+left")
        await until(pilot, lambda: view.plan.panels["transcript"].x - 1 == at + 8)
        await pilot.resize_terminal(200, 30)
        await until(pilot, lambda: view.plan.panels["chat"].width > 100)
        await pilot.resize_terminal(100, 30)
        app.action_command("layout", "reset")
        await until(pilot, lambda: view.plan.panels["transcript"].x - 1 == at)


async def test_one_panel_alone_and_all_again(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (120, 30)) as (app, pilot):
        assert set(app.main.view.plan.panels) == {"agents", "chat"}
        app.action_command("zoom")
        await until(pilot, lambda: list(app.main.view.plan.panels) == ["chat"])
        assert app.main.view.plan.panels["chat"][2:] == (120, 29)
        app.action_command("zoom")
        await until(pilot, lambda: set(app.main.view.plan.panels) == {"agents", "chat"})


async def test_a_storm_of_sizes_leaves_a_usable_screen(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await put(
            app,
            layout(
                beside(
                    rows(panel("agents", size="auto"), panel("inbox", size="auto"), size="40%"),
                    rows(panel("chat"), beside(panel("t", "transcript"), panel("u", "transcript"))),
                    stack_below=90,
                ),
                panel("more", "chat"),
            ),
        )
        for width, height in ((20, 5), (200, 50), (1, 1), (81, 3), (4, 40), (300, 2), (20, 5)):
            await say(fleet, ann, "words ")
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            assert app.main.view.plan.panels
        await pilot.press(*"ok")
        assert app.main.chat.text == "ok"
        assert "ok" in screen_text(app)
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "words" in screen_text(app))


async def test_what_was_open_is_there_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    bob = await begin(fleet, "bob")
    async with kept(fleet, tmp_path, "/work/one") as (app, pilot):
        await put(
            app,
            layout(panel("chat"), beside(panel("note", size="30%"), panel("side", "chat"))),
        )
        await app.main.view.show_tab(1)
        await pilot.pause()
        app.main.view.panels["note"].query_one(TextArea).text = "remembered"
        app.main.view.enter("note")
        app.context.select(bob)
        await app.main.view.resize_panel("right")
        before = dump_layout(app.main.view.spec)
        await pilot.press("ctrl+q")
    monkeypatch.delitem(KINDS, "note")
    async with kept(fleet, tmp_path, "/work/one") as (app, pilot):
        assert app.context.shown == bob
        assert app.main.view.tab == 1
        # The widget is not there any more: a box says so, and what it stands for is kept.
        assert "No widget 'note'." in " ".join(screen_text(app).split())
    async with kept(fleet, tmp_path, "/work/two") as (app, _):
        assert [p.id for p in panels_of(app.main.view.spec)] == ["agents", "chat"]
    monkeypatch.setitem(KINDS, "note", NOTE)
    async with kept(fleet, tmp_path, "/work/one") as (app, pilot):
        assert dump_layout(app.main.view.spec) == before
        assert app.main.view.current == "note"
        assert app.main.view.panels["note"].state == {"text": "remembered"}  # type: ignore[attr-defined]


async def test_a_tab_without_a_chat_is_there_after_a_restart(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with kept(fleet, tmp_path, "/work/one") as (app, pilot):
        await put(app, layout(panel("chat"), panel("note")))
        await app.main.view.show_tab(1)
        app.main.view.enter("note")
        await pilot.press("ctrl+q")
    async with kept(fleet, tmp_path, "/work/one") as (app, pilot):
        view = app.main.view
        assert (view.tab, view.current) == (1, "note")
        assert not app.main.panel.display and view.panels["note"].display
        await view.show_tab(0)
        await pilot.press(*"ok")
        assert app.main.panel.display and app.main.chat.text == "ok"


@pytest.mark.parametrize(
    "text", ["{", '{"version": 7}', "[]", '{"version":1,"cwd":"","layout":{}}']
)
async def test_a_file_that_cannot_be_used_is_kept_aside(tmp_path: Path, text: str):
    async with kept(FakeFleet(), tmp_path, "/work/one") as (app, pilot):
        app.main.view.post_message(app.main.view.Changed())
        await pilot.pause()
    folder = tmp_path / "state" / "workbench" / "workspaces"
    (file,) = await asyncio.to_thread(lambda: list(folder.glob("*.json")))
    await asyncio.to_thread(file.write_text, text)
    async with kept(FakeFleet(), tmp_path, "/work/one") as (app, pilot):
        assert [p.id for p in panels_of(app.main.view.spec)] == ["agents", "chat"]
        await until(
            pilot, lambda: "cannot restore the open panels" in " ".join(screen_text(app).split())
        )
        (aside,) = await asyncio.to_thread(lambda: list(folder.glob("*.aside-*")))
        assert await asyncio.to_thread(aside.read_text) == text


async def test_another_directory_has_its_own_screen_and_agents_go_on(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    await say(fleet, ann, "words of ann")
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with kept(fleet, tmp_path, str(one)) as (app, pilot):
        await put(app, layout(beside(panel("chat"), panel("t", "transcript"))))
        chat = app.main.view.panels["chat"]
        await pilot.press(*"/cd ../two", "enter")
        await until(pilot, lambda: app.context.cwd == str(two))
        await pilot.pause()
        assert [p.id for p in panels_of(app.main.view.spec)] == ["agents", "chat"]
        assert app.main.view.panels["chat"] is chat
        assert "words of ann" in screen_text(app)
        assert fleet.infos[ann].state == "running"
        await pilot.press(*"/cd nowhere", "enter")
        await until(pilot, lambda: "no directory" in " ".join(screen_text(app).split()))
        app.action_command("cd", str(one))
        await until(pilot, lambda: app.context.cwd == str(one))
        assert [p.id for p in panels_of(app.main.view.spec)] == ["chat", "t"]


async def test_layouts_are_saved_listed_loaded_and_deleted(tmp_path: Path):
    async with kept(FakeFleet(), tmp_path, str(tmp_path)) as (app, pilot):
        call = app.screen_controller.call
        await put(app, layout(beside(panel("chat"), panel("t", "transcript"))))
        await call("save_layout", {"name": "mine"})
        assert (tmp_path / "config" / "layouts" / "mine.json").exists()
        await pilot.press(*"/layout default", "enter")
        await until(pilot, lambda: "agents" in app.main.view.panels)
        names = {one["name"]: one["scope"] for one in (await call("list_layouts", {}))["layouts"]}
        assert names["mine"] == "user" and names["default"] == "built-in"
        await call("load_layout", {"name": "mine"})
        assert "t" in app.main.view.panels
        await call("delete_layout", {"name": "mine"})
        for name, wrong in (("mine", "no layout"), ("../x", "no layout"), ("default", "no saved")):
            deed = "delete_layout" if name == "default" else "load_layout"
            with pytest.raises(QuarterdeckError, match=wrong):
                await call(deed, {"name": name})
        with pytest.raises(QuarterdeckError, match="not a valid name"):
            await call("save_layout", {"name": "../x"})
        with pytest.raises(QuarterdeckError, match="not trusted"):
            await call("save_layout", {"name": "x", "scope": "project"})
        future = tmp_path / "config" / "layouts" / "new.json"
        await asyncio.to_thread(future.write_text, '{"version": 5, "tabs": []}')
        with pytest.raises(QuarterdeckError, match="newer"):
            await call("load_layout", {"name": "new"})
        assert await asyncio.to_thread(future.read_text) == '{"version": 5, "tabs": []}'


async def test_calls_are_checked_and_an_agent_does_not_disturb_who_types(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        call = app.screen_controller.call
        for name, arguments in (("fly", {}), ("focus", {}), ("focus", {"panel": "chat", "x": 1})):
            with pytest.raises(QuarterdeckError):
                await call(name, arguments)
        got = await call("get_layout", {})
        assert await call("set_layout", {"layout": got["layout"]})
        await pilot.press(*"typing")
        await call("open_tab", {"title": "theirs"}, by="an-agent")
        with pytest.raises(QuarterdeckError, match="typing"):
            await call("focus", {"panel": "agents"}, by="an-agent")
        await pilot.press("!")
        assert app.main.chat.text == "typing!" and app.main.view.tab == 0
        assert {one["name"] for one in (await call("list_widgets", {}))["widgets"]} >= {"chat"}
        assert (await call("list_themes", {}))["themes"]
        assert (await call("get_keys", {}))["built_in"]
        await call("notify", {"text": "[bold]look[/]"})
        await until(pilot, lambda: "[bold]look[/]" in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_files_open_where_the_like_is_open_already(tmp_path: Path, size: tuple[int, int]):
    for name in ("a.py", "b.py", "c.md"):
        (tmp_path / name).write_text(f"text of {name}\n" * 30)
    async with kept(FakeFleet(), tmp_path / "home", str(tmp_path), size) as (app, pilot):
        view = app.main.view
        app.action_command("open-file", "a.py:20")
        await until(pilot, lambda: "text of a.py" in screen_text(app))
        assert len(view.spec.tabs) == (2 if size[0] < 100 else 1)
        viewer = view.panels["file"]
        viewer.post_message(Panel.FileWanted(str(tmp_path / "b.py")))
        await until(pilot, lambda: "text of b.py" in screen_text(app))
        assert view.panels["file"] is viewer
        app.action_command("edit", "a.py")
        await until(pilot, lambda: view.current == "editor")
        app.action_command("open-file", "c.md")
        await until(pilot, lambda: view.current == "markdown")
        app.action_command("diff")
        await until(pilot, lambda: view.current == "diff")
        app.action_command("open-file", "missing.py")
        await until(pilot, lambda: "no file" in " ".join(screen_text(app).split()))
        assert [p.id for p in panels_of(view.spec)][-4:] == ["file", "editor", "markdown", "diff"]


def sessions_of(app) -> list[object]:
    return [one.session for one in app.main.chats()]


async def test_a_grid_shows_different_agents_those_that_need_you_first(tmp_path: Path):
    fleet = FakeFleet()
    ids = {name: await begin(fleet, name) for name in ("ann", "bob", "cleo", "dan", "eve")}
    fleet.infos[ids["eve"]] = replace(fleet.infos[ids["eve"]], state="waiting", needs_person=True)
    async with opened(fleet, tmp_path, (120, 50)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == ids["eve"])
        await app.screen_controller.call("load_layout", {"name": "grid"})
        await until(pilot, lambda: len(sessions_of(app)) == 4)
        assert sessions_of(app) == [ids[one] for one in ("eve", "ann", "bob", "cleo")]

        # The next agent is where its chat is; one without a chat comes into the first.
        for name, place in (("ann", 1), ("bob", 2), ("cleo", 3), ("dan", 0), ("eve", 0)):
            await pilot.press("ctrl+n")
            assert app.context.agent is not None and app.context.agent.name == name
            assert list(app.main.chats()).index(app.main.panel) == place
            assert len(set(sessions_of(app))) == 4

        # One that is selected elsewhere is shown once: the chat that had it takes another.
        app.context.select(ids["bob"])
        assert sessions_of(app) == [ids[one] for one in ("bob", "ann", "eve", "cleo")]

        # One that has ended stays; one that is archived does not.
        await fleet.close(ids["ann"])
        app.feed.refresh()
        await until(pilot, lambda: not app.context.roster.find(ids["ann"]).is_live)
        assert sessions_of(app)[1] == ids["ann"]
        await fleet.archive(ids["ann"])
        app.feed.refresh()
        await until(pilot, lambda: sessions_of(app)[1] == ids["dan"])
        kept = app.workspace.capture().states
        assert kept["chat-2"]["agent"] == ids["dan"]


async def test_a_free_chat_of_a_grid_says_what_comes_and_takes_the_agent_that_starts_there(
    tmp_path: Path,
):
    fleet, looks = FakeFleet(), Preferences()
    looks.choices.spawns["/work/project"] = {"agent": "claude", "mode": "ask"}
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (120, 50), looks=looks) as (app, pilot):
        await until(pilot, lambda: app.context.shown == ann)
        await app.screen_controller.call("load_layout", {"name": "grid"})
        await until(pilot, lambda: screen_text(app).count("The next agent appears here.") == 3)
        assert sessions_of(app) == [ann, None, None, None]
        app.main.view.enter("chat-3")
        await until(pilot, lambda: app.main.panel.id == "panel-chat-3")
        await pilot.press(*"do it", "enter")
        await until(pilot, lambda: len(fleet.infos) == 2)
        new = next(one for one in fleet.infos if one != ann)
        await until(pilot, lambda: sessions_of(app) == [ann, None, new, None])
        await until(pilot, lambda: app.context.roster.find(new) is not None)
        assert sessions_of(app) == [ann, None, new, None] and app.context.shown == ann
        bob = await begin(fleet, "bob")  # by someone else: into the first that is free
        await until(pilot, lambda: sessions_of(app) == [ann, bob, new, None])


async def test_chats_with_agents_shown_nowhere_else_show_the_same_after_a_restart():
    store = roster_of("ann", "bob", "cleo")
    places = AgentPlaces()
    places.put("two", SessionId("s-cleo"))
    for panel in ("two", "three"):
        places.choose(panel, store, SessionId("s-ann"))
    assert (places.get("two"), places.get("three")) == ("s-cleo", "s-bob")
    places.put("three", SessionId("s-gone"))  # of an earlier run; the fleet does not know it
    places.choose("three", store, SessionId("s-ann"))
    assert places.get("three") == "s-bob"
    places.release("two")
    assert not places.has(SessionId("s-cleo"))


def roster_of(*names: str) -> RosterStore:
    store = RosterStore()
    known = [
        AgentInfo(session=SessionId(f"s-{name}"), name=name, agent="claude", cwd="/", state="idle")
        for name in names
    ]
    store.replace(known, None)
    return store


async def test_built_in_layouts_can_be_loaded_and_a_grid_shows_several_agents(tmp_path: Path):
    fleet = FakeFleet()
    for name in ("ann", "bob", "cleo"):
        await say(fleet, await begin(fleet, name), f"words of {name}")
    async with opened(fleet, tmp_path, (120, 50)) as (app, pilot):
        for name in ("wide", "review", "default", "grid"):
            await app.screen_controller.call("load_layout", {"name": name})
        shown = lambda name: f"words of {name}" in screen_text(app)  # noqa: E731
        await until(pilot, lambda: shown("ann") and shown("bob") and shown("cleo"))
        cleo = fleet.find("cleo")
        app.main.panel.post_message(Panel.AgentWanted(cleo))
        await until(pilot, lambda: app.main.panel.session == cleo and app.main.chat.has_focus)
        assert app.context.agent is not None and app.context.agent.name == "cleo"
