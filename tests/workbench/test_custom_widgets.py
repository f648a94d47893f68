"""Custom widgets: run once approved, boxed when they fail, and nothing else is harmed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest
from blockbuster import BlockBuster
from textual.app import App, ComposeResult
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from quarterdeck.config.places import Places
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.custom_widgets.kinds import (
    all_kinds,
    blame_custom_widget,
    guard_custom_widgets,
    offer_widget,
)
from quarterdeck.workbench.custom_widgets.library import CustomWidgetError, WidgetLibrary
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.preferences.store import Preferences, load_preferences
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.trust import ApproveScreen
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, screen_text, until

HEAD = """
    import sys, time
    from textual.app import ComposeResult
    from textual.widgets import Button, Static
    from textual.containers import Vertical
    from quarterdeck.workbench.panels.panel import Panel

    class Mine(Panel):
"""
GOOD = (
    HEAD
    + """
        def render(self):
            return "fine weather"
"""
)
FAULTS = {
    "import": ("import nothing_like_that", "ModuleNotFoundError"),
    "exit in import": ("import sys; sys.exit(3)", "sys.exit(3)"),
    "syntax": ("def (:", "SyntaxError"),
    "no panel": ("x = 1", "0 subclasses"),
    "init": (HEAD + """
        def __init__(self, *given, **named):
            raise RuntimeError("no init")
    """, "no init"),
    "exit in init": (HEAD + """
        def __init__(self, *given, **named):
            sys.exit("gone")
    """, "sys.exit('gone')"),
    "compose": (HEAD + """
        def compose(self):
            yield Static("a")
            raise RuntimeError("no compose")
    """, "no compose"),
    "compose gives nonsense": (HEAD + """
        def compose(self):
            yield 5
    """, "MountError"),
    "exit in compose": (HEAD + """
        def compose(self):
            sys.exit()
            yield Static("a")
    """, "sys.exit(None)"),
    "render": (HEAD + """
        def render(self):
            raise RuntimeError("no [bold]render")
    """, "no [bold]render"),
    "render of a child": (HEAD + """
        def compose(self):
            yield Static("[/nonsense]")
    """, "MarkupError"),
    "child of a child": (HEAD + """
        class Bad(Static):
            def render(self):
                return 1 / 0
        def compose(self):
            with Vertical():
                yield self.Bad()
    """, "ZeroDivisionError"),
    "height": (HEAD + """
        DEFAULT_CSS = "Mine { height: auto; }"
        def get_content_height(self, *given):
            raise RuntimeError("no height")
    """, "no height"),
    "mount handler": (HEAD + """
        def on_mount(self):
            raise RuntimeError("no mount")
    """, "no mount"),
    "exit in a handler": (HEAD + """
        def on_mount(self):
            sys.exit(1)
    """, "sys.exit(1)"),
    "timer": (HEAD + """
        def on_mount(self):
            self.set_timer(0.01, self.tick)
        def tick(self):
            raise RuntimeError("no tick")
    """, "no tick"),
    "exit in a timer": (HEAD + """
        def on_mount(self):
            self.set_interval(0.01, lambda: sys.exit(7))
    """, "sys.exit(7)"),
    "callback": (HEAD + """
        def on_mount(self):
            self.call_after_refresh(sys.exit, 8)
    """, "sys.exit(8)"),
    "worker": (HEAD + """
        def on_mount(self):
            self.run_worker(self.toil())
        async def toil(self):
            sys.exit(9)
    """, "sys.exit(9)"),
    "thread": (HEAD + """
        def on_mount(self):
            self.run_worker(self.toil, thread=True)
        def toil(self):
            raise RuntimeError("no thread")
    """, "no thread"),
    "watch": (HEAD + """
        from textual.reactive import var
        n = var(0)
        def watch_n(self, _):
            raise RuntimeError("no watch")
    """, "no watch"),
    "style sheet": (HEAD + """
        DEFAULT_CSS = "Mine { colr: red; }"
    """, "DEFAULT_CSS"),
    "options": (HEAD + """
        options_type = int
    """, "options"),
}  # fmt: skip
NEVER_RUN = {"import", "exit in import", "syntax", "no panel", "style sheet", "options"}
BLOCKS = {
    "import": "while True: pass",
    "sleep": "import time; time.sleep(60)",
    "init": HEAD + """
        def __init__(self, *given, **named):
            while True: pass
    """,
    "handler": HEAD + """
        def on_mount(self):
            while True:
                try: time.sleep(0.001)
                except Exception: pass
    """,
    "render": HEAD + """
        def render(self):
            while True: pass
    """,
    "worker": HEAD + """
        async def on_mount(self):
            self.run_worker(self.toil())
        async def toil(self):
            time.sleep(60)
    """,
}  # fmt: skip


STRESS = pytest.mark.stress


class Hall(App[None]):
    """A custom panel beside an input, as small as it can be."""

    CSS = "#custom { height: 18; }"

    def __init__(self, desk: WorkbenchContext, name: str) -> None:
        super().__init__()
        self.context = desk
        self.named = name

    def _register(self, parent: DOMNode, *widgets: Widget, **how: Any) -> list[Widget]:
        registered = super()._register(parent, *widgets, **how)
        guard_custom_widgets(parent, widgets)
        return registered

    def _handle_exception(self, error: Exception) -> None:
        if not blame_custom_widget(error):
            super()._handle_exception(error)

    def compose(self) -> ComposeResult:
        kind = all_kinds(self.context)[f"custom/{self.named}"].load()
        options = msgspec.convert({}, kind.options_type)
        yield kind(self.context, options, id="custom")
        yield Input(id="beside")


@pytest.fixture
def places() -> Places:
    return Places.find()


def put(places: Places, name: str, text: str, *, approved: bool = True) -> WidgetLibrary:
    library = WidgetLibrary(places)
    library.folder.mkdir(parents=True, exist_ok=True)
    (library.folder / f"{name}.py").write_text(dedent(text))
    library.scan()
    if approved:
        library.approve(library.waiting(name))
    return library


@asynccontextmanager
async def hall(places: Places, name: str = "mine") -> AsyncGenerator[tuple[Hall, Pilot[None]]]:
    looks = await asyncio.to_thread(load_preferences, places, "/work", {})
    desk = WorkbenchContext(
        fleet=FakeFleet(),
        drafts=Drafts(places.state / "drafts"),
        cwd="/work",
        clock=lambda: 0,
        preferences=looks,
    )
    app = await asyncio.to_thread(Hall, desk, name)
    async with app.run_test(size=(100, 24)) as pilot:
        yield app, pilot


async def lives_on(app: Hall, pilot: Pilot[None]) -> None:
    app.query_one(Input).focus()
    await pilot.press(*"still here")
    await until(pilot, lambda: app.query_one(Input).value == "still here")


async def test_an_approved_widget_is_shown(places: Places):
    await asyncio.to_thread(put, places, "mine", GOOD)
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "fine weather" in screen_text(app))
        library = app.context.preferences.library
        assert library is not None and library.outcome("mine") == ("loaded", "")
        await lives_on(app, pilot)


async def test_a_widget_that_uses_the_old_name_of_the_context_is_shown(places: Places):
    text = (
        HEAD
        + """
        def render(self):
            return f"in {self.desk.cwd}"
    """
    )
    await asyncio.to_thread(put, places, "mine", text)
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "in /work" in screen_text(app))


@pytest.mark.parametrize("fault", list(FAULTS))
async def test_a_widget_that_fails_is_a_box_and_harms_nothing_else(places: Places, fault: str):
    text, said = FAULTS[fault]
    await asyncio.to_thread(put, places, "mine", text)
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: said in screen_text(app))
        library = app.context.preferences.library
        assert "✗" in screen_text(app)
        if fault not in NEVER_RUN:
            assert library is not None and said in library.outcome("mine")[1]
        await lives_on(app, pilot)
    assert app.return_code in (0, None)


@pytest.mark.parametrize(
    "where",
    [one if one in ("sleep", "handler") else pytest.param(one, marks=STRESS) for one in BLOCKS],
)
async def test_a_widget_that_never_ends_is_broken_off_and_stays_off(
    places: Places, where: str, blockbuster: BlockBuster
):
    blockbuster.deactivate()  # it would break off the sleep itself
    await asyncio.to_thread(put, places, "mine", BLOCKS[where])
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "was stopped" in screen_text(app))
        await lives_on(app, pilot)
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "approve it again" in screen_text(app))
    library = await asyncio.to_thread(WidgetLibrary(places).scan)
    await asyncio.to_thread(library.approve, library.waiting("mine"))
    assert library.outcome("mine") == ("ready", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [("feed", "built in"), ("Big", "lower-case letters"), ("a.b", "lower-case letters")],
)
def test_a_name_that_cannot_be_is_told(places: Places, name: str, said: str):
    library = put(places, name, GOOD, approved=False)
    assert library.outcome(name)[0] == "failed"
    assert said in library.outcome(name)[1]
    with pytest.raises(CustomWidgetError, match=said):
        library.waiting(name)
    with pytest.raises(CustomWidgetError, match=said):
        library.offer(name, GOOD)


async def test_nothing_of_a_widget_runs_before_it_is_approved(places: Places, tmp_path: Path):
    trace = tmp_path / "trace"
    text = f"open({str(trace)!r}, 'w').close()\n"
    await asyncio.to_thread(put, places, "mine", text, approved=False)
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "/widget approve mine" in screen_text(app))
        assert not trace.exists()


async def test_a_changed_file_waits_for_approval_anew(places: Places):
    library = await asyncio.to_thread(put, places, "mine", GOOD)
    await asyncio.to_thread(put, places, "mine", GOOD + "\n# more\n", approved=False)
    library = await asyncio.to_thread(library.scan)
    assert library.outcome("mine") == ("needs approval", "it changed since you approved it")
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "changed since you approved" in screen_text(app))


async def test_a_widget_whose_file_is_gone_says_so(places: Places):
    async with hall(places, "lost") as (app, pilot):
        await until(pilot, lambda: "widget 'lost'" in screen_text(app))


async def test_source_of_an_agent_is_shown_whole_and_runs_once_approved(
    places: Places, tmp_path: Path
):
    looks: Preferences = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    source = dedent(GOOD) + "# \u202ehidden\n" + "#\n" * 30 + "# the end\n"
    async with opened(FakeFleet(), tmp_path, looks=looks) as (app, pilot):
        told = await asyncio.to_thread(offer_widget, app.context, "weather", source, by="ann")
        assert "/widget approve weather" in told
        library = looks.library
        assert library is not None
        with pytest.raises(CustomWidgetError, match="review it with"):
            library.usable("weather")
        await pilot.press(*"/widgets", "enter")
        await until(pilot, lambda: "needs approval: offered by ann" in screen_text(app))
        await pilot.press("escape")
        await pilot.press(*"/widget approve weather", "enter")
        await until(pilot, lambda: isinstance(app.screen, ApproveScreen))
        await until(pilot, lambda: "fine weather" in screen_text(app))
        assert "\\u202ehidden" in screen_text(app)
        await pilot.press("end")
        await until(pilot, lambda: "# the end" in screen_text(app))
        await pilot.pause(QUIET + 0.05)
        await pilot.press("y")
        await until(pilot, lambda: library.outcome("weather") == ("ready", ""))
        assert library.usable("weather").text == source
        assert "custom/weather" in all_kinds(app.context)
        await pilot.press(*"/widget forget weather", "enter")
        await until(pilot, lambda: library.outcome("weather")[0] == "needs approval")


async def test_approving_shows_the_widget_where_it_waits(places: Places):
    await asyncio.to_thread(put, places, "mine", GOOD, approved=False)
    async with hall(places) as (app, pilot):
        await until(pilot, lambda: "/widget approve mine" in screen_text(app))
        library = app.context.preferences.library
        assert library is not None
        await asyncio.to_thread(library.approve, library.waiting("mine"))
        library.notify_watchers()
        await until(pilot, lambda: "fine weather" in screen_text(app))


async def test_what_a_widget_remembers_comes_back(places: Places):
    text = (
        HEAD
        + """
        n = 0
        @property
        def title(self):
            return f"count \\x1b[31m{self.n}"
        def remember(self):
            return {"n": self.n + 1}
        def recall(self, state):
            self.n = state["n"]
    """
    )
    library = await asyncio.to_thread(put, places, "mine", text)
    del library
    async with hall(places) as (app, pilot):
        panel = app.query_one("#custom")
        await pilot.pause()
        assert panel.title == "count \\x1b[31m0"
        assert panel.remember() == {"n": 1}


@pytest.mark.parametrize("text", [GOOD, FAULTS["render"][0], FAULTS["exit in a timer"][0]])
async def test_a_widget_stands_in_a_layout_of_the_workbench(
    places: Places, tmp_path: Path, text: str
):
    await asyncio.to_thread(put, places, "mine", text)
    looks = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    said = ("fine weather", "no [bold]render", "sys.exit(7)")
    async with opened(FakeFleet(), tmp_path, (160, 40), looks=looks) as (app, pilot):
        await pilot.press(*"/open custom/mine", "enter")
        await until(pilot, lambda: any(words in screen_text(app) for words in said))
        app.main.chat.focus()
        await pilot.press(*"still here")
        await until(pilot, lambda: app.main.chat.text == "still here")
        assert app.crash is None
