"""The states of a screen that are about panels, layouts, looks and help."""

import asyncio
import os
from pathlib import Path
from textwrap import dedent

from quarterdeck.config.places import Places
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, SessionEnded, TurnEnded
from quarterdeck.workbench.custom_widgets.library import WidgetLibrary
from quarterdeck.workbench.panels.feed_model import FEED_MODES
from quarterdeck.workbench.panels.history import HistoryPanel
from quarterdeck.workbench.panels.system import MachineSample, ProcessGroup, SystemPanel

from .agent_states import at_work, calm, command_asked, many
from .staged_workbench import Stage, StagedFleet, state

__all__: list[str] = []

_G = 1_000_000_000


@state(many)
async def help_of_everything(stage: Stage) -> None:
    await calm(stage)
    await stage.press("f1")
    await stage.until("Here, in the input")


@state()
async def keys_and_how_to_bind(stage: Stage) -> None:
    await stage.command("keys")
    await stage.until("f1")


@state()
async def palette(stage: Stage) -> None:
    await stage.press("ctrl+p")
    await stage.until("type to search")
    await stage.press(*"lay")
    await stage.until("layouts")


@state()
async def themes(stage: Stage) -> None:
    await stage.command("themes")
    await stage.until("mono")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def theme_without_colours(stage: Stage) -> None:
    await stage.command("theme", "mono")
    await stage.until("1/3")
    stage.app.clear_notifications()


@state()
async def layouts_to_choose_from(stage: Stage) -> None:
    await stage.command("layouts")
    await stage.until("four chats")


@state(at_work, files=True)  # pyright: ignore[reportArgumentType]
async def layout_with_tabs(stage: Stage) -> None:
    await stage.command("tab", "new Review of it")
    await stage.command("open", "tree")
    await stage.until("Review of it", "notes.txt", "2 changed")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def layout_of_four_chats(stage: Stage) -> None:
    await stage.command("layout", "grid")
    await stage.until("collected 14 items")


async def _four_kinds(fleet: StagedFleet, home: Path) -> None:
    """One waits for the person, one works, one is done, one has failed; each of another vendor."""
    await at_work(fleet)
    dora = await fleet.agent_at_work("dora", "Remove dead code", agent="codex", model="gpt-6")
    await fleet.tool(dora, "read", "Read /work/project/src/zones.py", kind="read")
    await fleet.ask(dora, command_asked())
    cleo = await fleet.agent_at_work("cleo", "Count the tests", agent="opencode", model="qwen-4")
    await fleet.tell(cleo, MessageChunk(content=text("There are 214.")), TurnEnded(stop="end_turn"))
    bob = await fleet.agent_at_work("bob", "Upgrade the build", agent="gemini", model="gemini-4")
    await fleet.tell(bob, SessionEnded(how="broken", reason="gemini ended with exit code 3"))


@state(_four_kinds)
async def layout_of_four_agents(stage: Stage) -> None:
    await stage.command("layout", "grid")
    await stage.until("needs permission", "collected 14 items", "There are 214", "exit code 3")


@state(at_work, files=True)  # pyright: ignore[reportArgumentType]
async def layout_for_review(stage: Stage) -> None:
    stage.app.context.cwd = str(stage.project)
    await stage.command("layout", "review")
    await stage.until("collected 14 items", "x + 70")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def zoomed(stage: Stage) -> None:
    await stage.until("1/3")
    await stage.command("zoom")
    await stage.pilot.pause(0.05)


async def _panel(stage: Stage, command: str, words: str, *shown: str) -> None:
    """A panel alone on the screen, so that its look at each size is its own."""
    await stage.command(command, words)
    await stage.until(*shown)
    await stage.command("zoom")
    await stage.until(*shown)


@state(files=True)
async def tree_of_files(stage: Stage) -> None:
    await _panel(stage, "open", "tree", "notes.txt", "changed")
    await stage.press("down", "enter")
    await stage.until("parser.py")


@state(files=True)
async def view_of_a_file(stage: Stage) -> None:
    await _panel(stage, "open-file", "src/parser.py:30", "step_9")


@state(files=True)
async def diff_of_a_file(stage: Stage) -> None:
    await _panel(stage, "open", "diff", "x + 70", "notes.txt")


@state(files=True)
async def editor(stage: Stage) -> None:
    await _panel(stage, "edit", "src/parser.py", "step_2", "1:1")
    await stage.press(*"x = 1 ")
    await stage.until("x = 1 def")


@state(files=True)
async def editor_in_conflict(stage: Stage) -> None:
    await _panel(stage, "edit", "README.md", "Parser", "1:1")
    await stage.press(*"mine ")
    file = stage.project / "README.md"
    file.write_text("# Theirs\n")
    os.utime(file, ns=(1, 1))
    await stage.until("The file changed on disk")


@state(files=True)
async def unsaved_text_would_be_lost(stage: Stage) -> None:
    await _panel(stage, "edit", "README.md", "Parser", "1:1")
    await stage.press(*"mine ")
    await stage.command("close-panel")
    await stage.until("unsaved changes in")


@state(files=True)
async def tail_of_a_log(stage: Stage) -> None:
    await _panel(stage, "tail", "build.log", "step 60: ok")


@state(files=True)
async def markdown_file(stage: Stage) -> None:
    await _panel(stage, "open", "markdown path=README.md", "almost", "code")


@state(files=True)
async def notebook(stage: Stage) -> None:
    await _panel(stage, "open", "notebook path=work.ipynb", "42", "division by zero")


@state(many)
async def system_load(stage: Stage) -> None:
    groups = (
        ProcessGroup(pid=101, name="claude", count=4, cpu=0.62, memory=412_000_000, place="/work"),
        ProcessGroup(pid=202, name="codex", count=1, cpu=None, memory=88_000_000),
    )
    await calm(stage)
    await stage.command("open", "system")
    await stage.until("process")
    panel = stage.app.main.query_one(SystemPanel)
    panel.look_now = lambda: None  # pyright: ignore[reportAttributeAccessIssue]

    async def no_look() -> None:
        panel.sample = MachineSample(
            cpu=0.37, processors=8, load=(1.2, 0.8, 0.5), memory=(11 * _G, 16 * _G),
            disk=(420 * _G, 500 * _G), groups=groups,
        )  # fmt: skip
        panel.page.update()
        panel._show_head(panel.sample)

    panel.look = no_look  # pyright: ignore[reportAttributeAccessIssue]
    await no_look()
    await stage.command("zoom")
    await stage.until("37 %")


def _feed_state(mode: str) -> None:
    async def play(stage: Stage) -> None:
        await calm(stage)
        await _panel(stage, "open", f"feed mode={mode}", mode)
        await stage.pilot.pause(0.05)

    play.__name__ = f"feed_of_{mode}"
    state(many)(play)


for _mode in FEED_MODES:
    _feed_state(_mode)


async def _widgets(fleet: StagedFleet, home: Path) -> None:
    del fleet
    await asyncio.to_thread(_write_widgets, home)


def _write_widgets(home: Path) -> None:
    places = Places(
        config=home / "config", state=home / "state", cache=home / "c", runtime=home / "r"
    )
    library = WidgetLibrary(places)
    library.folder.mkdir(parents=True, exist_ok=True)
    source = """\
        from quarterdeck.workbench.panels.panel import Panel

        class Weather(Panel):
            def render(self):
                raise RuntimeError("no [bold]weather today")
        """
    for name in ("weather", "clock"):
        (library.folder / f"{name}.py").write_text(dedent(source))
    library.scan()
    library.approve(library.waiting("weather"))


@state(_widgets)
async def widget_that_fails(stage: Stage) -> None:
    await stage.command("open", "custom/weather")
    await stage.until("weather today")


@state(_widgets)
async def widget_to_approve(stage: Stage) -> None:
    await stage.command("widgets")
    await stage.pilot.pause(0.1)
    await stage.until("clock")


@state()
async def something_went_wrong_is_told(stage: Stage) -> None:
    await stage.command("layout", "nowhere")
    await stage.until("nowhere")


@state(many)
async def palette_with_recent_commands(stage: Stage) -> None:
    stage.app.preferences.choices.recent = ("review", "themes", "mode")
    await stage.press("ctrl+p")
    await stage.until("recent", "agents", "choose a theme")


@state()
async def notices_to_read_again(stage: Stage) -> None:
    for words, is_bad in (("theme ember", False), ("cannot save this choice: disk full", True)):
        stage.app.show_message(words, is_bad)
    await stage.until("disk full")
    stage.app.clear_notifications()
    await stage.command("notices")
    await stage.until("latest first")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def everything_in_ascii(stage: Stage) -> None:
    stage.app.theme_control.draw_signs("ascii")
    stage.app.refresh_css(animate=False)
    await stage.until("1/3", "* ann")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def theme_of_sixteen_colours(stage: Stage) -> None:
    await stage.command("theme", "sixteen")
    await stage.until("1/3")
    stage.app.clear_notifications()


def _empty_state(kind: str, words: str) -> None:
    async def play(stage: Stage) -> None:
        await _panel(stage, "open", kind, words)

    play.__name__ = f"empty_{kind.partition(' ')[0]}_panel"
    state()(play)


for _kind, _words in (
    ("file", "No file is open"),
    ("markdown", "No Markdown file is open"),
    ("notebook", "No notebook is open"),
    ("tail", "No file is followed"),
    ("usage", "What agents use appears here"),
    ("feed", "What agents do appears here"),
    ("diff cwd=/", "is not in a git repository"),
):
    _empty_state(_kind, _words)


@state()
async def file_that_cannot_be_read(stage: Stage) -> None:
    await _panel(stage, "open", "file path=/work/none.py", "cannot show", "try again")


@state()
async def tail_that_waits(stage: Stage) -> None:
    await _panel(stage, "open", "tail path=/work/none.log", "waits for the file")


@state()
async def history_that_is_empty(stage: Stage) -> None:
    await stage.command("open", "history")
    panel = stage.app.main.query_one(HistoryPanel)
    panel.environment = {"HOME": str(stage.project.parent)}
    panel.look_now()
    await stage.until("No sessions in this")
    await stage.command("zoom")
    await stage.until("No sessions in this")
