"""Hostile text on whole screens, wherever foreign text is shown: nothing acts, hides or breaks."""

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.screen import Screen

from quarterdeck.fleet.api import AgentInfo, FleetStatus, InboxItem, QueuedPrompt, SpawnOptions
from quarterdeck.fleet.permissions.workspace_trust import TrustEffect, WorkspaceTrust
from quarterdeck.fleet.terminals.api import TerminalInfo
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    CommandsChanged,
    MessageChunk,
    NoticePosted,
    PermissionAsked,
    PlanChanged,
    Prompted,
    QuestionAsked,
    SessionEnded,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, TerminalId, ToolCallId
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.settings import Command, PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.completion import CompletionChoice
from quarterdeck.workbench.custom_widgets.library import WidgetSource
from quarterdeck.workbench.preferences.themes.files import FoundTheme
from quarterdeck.workbench.sanitize import sanitize_text
from quarterdeck.workbench.screens.dialogs import (
    AskLineScreen,
    ConfirmScreen,
    LeaveTerminalScreen,
    ReadingScreen,
)
from quarterdeck.workbench.screens.help import HelpScreen
from quarterdeck.workbench.screens.permission import PermissionScreen, RequestSetting
from quarterdeck.workbench.screens.permission_lines import RequestQueue
from quarterdeck.workbench.screens.pickers import LayoutsScreen, TerminalsScreen, ThemesScreen
from quarterdeck.workbench.screens.question import QuestionScreen
from quarterdeck.workbench.screens.queue import QueueScreen
from quarterdeck.workbench.screens.spawn import SpawnScreen
from quarterdeck.workbench.screens.spawn_model import SpawnAgent, SpawnDirectory
from quarterdeck.workbench.screens.trust import ApproveScreen, TrustScreen
from quarterdeck.workbench.stores.discovery import DiscoveredAgent, MachineDiscovery
from quarterdeck.workbench.widgets.completion_list import CompletionList
from quarterdeck.workbench.widgets.select import SelectOption
from tests.support.hostile_text import hostile_strings
from tests.support.memory_fleet import FakeFleet
from tests.support.screen_strips import render_screen
from tests.support.workbench_app import begin, opened, until

Words: TypeAlias = Callable[[], str]
Place: TypeAlias = Callable[["Hall"], Awaitable[None]]

PLACES: dict[str, Place] = {}


_SAFE_LINK = re.compile(r"(?:https?://|file:///)[!-~]+")
"""What a terminal may be told to open."""


class Hall:
    """A workbench into which hostile text is put."""

    def __init__(
        self, app: Workbench, pilot: Pilot[None], fleet: FakeFleet, session: SessionId, words: Words
    ) -> None:
        self.app, self.pilot, self.fleet, self.session = app, pilot, fleet, session
        self.words = words

    async def check(self) -> None:
        """Nothing on the screen has power over it."""
        await self.pilot.pause()
        strips = render_screen(self.app)
        for strip in strips:
            assert sanitize_text(strip.text) == strip.text and "\n" not in strip.text
            assert strip.cell_length == self.app.size.width
            for segment in strip:
                assert segment.control is None
                style = segment.style
                assert style is None or "@click" not in (style.meta or {})
                link = style.link if style is not None else None
                assert link is None or _SAFE_LINK.fullmatch(link), link

    async def show(self, screen: Screen[Any], *keys: str) -> None:
        """Look at a screen, after keys as well, and leave it."""
        self.app.push_screen(screen)
        await self.check()
        for key in keys:
            await self.pilot.press(key)
            await self.check()
        while len(self.app.screen_stack) > 1:
            self.app.pop_screen()
        await self.pilot.pause()


def whole(words: Words) -> Words:
    """What a log, a wire or a file system can hold: no half of a character."""
    return lambda: words().replace("\ud800", "")


def place(put: Place) -> Place:
    PLACES[put.__name__] = put
    return put


def options(words: Words) -> tuple[PermissionOption, ...]:
    kinds = ("allow_once", "allow_always", "reject_once", words())
    return tuple(
        PermissionOption(option_id=str(n), name=words(), kind=k) for n, k in enumerate(kinds)
    )


def permission(words: Words) -> PermissionAsked:
    return PermissionAsked(
        request=RequestId("r"), call=ToolCallId("c"), title=words(), name=words(),
        options=options(words), raw_input={words(): words(), "n": [words(), 1]}, reason=words(),
        content=(
            Diff(path=words(), old_text=words(), new_text=words()),
            ContentItem(content=text(words())),
        ),
    )  # fmt: skip


def question(words: Words) -> QuestionAsked:
    form = {
        "properties": {
            "a" + words(): {"title": words(), "description": words(), "enum": [words(), "b"]},
            "b" + words(): {"type": "array", "items": {"enum": [words(), "x"]}},
            "c": {"type": "string", "title": words(), "default": words()},
        }
    }
    return QuestionAsked(request=RequestId("q"), text=words(), form=form, url=words())


def item(words: Words, **asked: Any) -> InboxItem:
    (one,) = asked.values()
    return InboxItem(
        request=one.request, session=SessionId("s"), name=words(), since=0, seq=1, **asked
    )


@place
async def a_request(hall: Hall) -> None:
    asked = item(hall.words, permission=permission(hall.words))
    screen = PermissionScreen(asked, RequestSetting(cwd=hall.words()), RequestQueue())
    hall.app.push_screen(screen)
    await until(hall.pilot, lambda: screen.card.summary.heading)  # it is read in a thread
    screen.card.action_more()
    await hall.check()
    hall.app.pop_screen()
    await hall.pilot.pause()


@place
async def a_question(hall: Hall) -> None:
    await hall.show(QuestionScreen(item(hall.words, question=question(whole(hall.words)))))


@place
async def the_inbox(hall: Hall) -> None:
    asked = item(hall.words, permission=permission(hall.words))
    hall.app.context.inbox.replace([asked, item(hall.words, question=question(whole(hall.words)))])
    await hall.check()
    while len(hall.app.screen_stack) > 1:
        hall.app.pop_screen()
    hall.app.context.inbox.replace([])


@place
async def the_agents(hall: Hall) -> None:
    words = hall.words
    status = FleetStatus(
        version=words(), pid=1, started=0, log=words(), last_seq=0, agents={}, needs_person=0,
        problem=words(),
    )  # fmt: skip
    agents = [
        AgentInfo(
            session=hall.session if state == "failed" else SessionId(state), name=words(),
            agent=words(), cwd=words(), state=state, model=words(), mode=words(), title=words(),
            reason=words(), context=ContextUsage(used=1, size=2),
            cost=Cost(amount=1, currency=words()), usage=TokenUsage(input=1),
            queue=(QueuedPrompt(message=MessageId("m"), content=(text(words()),)),),
        )
        for state in ("failed", "running", "idle")
    ]  # fmt: skip
    hall.app.context.roster.replace(agents, status)
    hall.app.context.changed()
    await hall.check()
    queue = QueueScreen(hall.app.context, hall.session, lambda _: None)
    await hall.show(queue)


@place
async def the_transcript(hall: Hall) -> None:
    words = whole(hall.words)
    call, terminal = ToolCallId("c" + words()), TerminalId("t" + words())
    entries = tuple(PlanEntry(content=words(), priority="low", status="pending") for _ in range(2))
    items = (
        Diff(path=words(), old_text=words(), new_text=words()),
        TerminalItem(terminal_id=terminal),
    )
    for event in (
        Prompted(content=(text(words()),), message=MessageId("m")),
        ThoughtChunk(content=text(words())),
        ToolCallStarted(
            call=call, title=words(), name=words(), raw_input={words(): words()}, content=items
        ),
        TerminalOutput(terminal=terminal, data=words()),
        ToolCallEnded(call=call, status="failed", reason=words(), raw_output=words()),
        PlanChanged(entries=entries),
        NoticePosted(title=words(), description=words()),
        MessageChunk(content=text(words())),
        CommandsChanged(commands=(Command(name=words(), description=words()),)),
        TurnEnded(stop="failed", reason=words()),
        SessionEnded(how="broken", reason=words(), stderr=words()),
        MessageChunk(content=text(words() + "\n\n" + words())),
    ):  # fmt: skip
        await hall.fleet.append(hall.session, event)
    await hall.pilot.pause(0.05)
    await hall.check()


@place
async def the_feed(hall: Hall) -> None:
    await hall.app.screen_controller.call(
        "open_panel", {"widget": "feed", "options": {"mode": "debug"}, "where": "auto"}
    )
    words = whole(hall.words)
    await hall.fleet.append(hall.session, NoticePosted(title=words(), description=words()))
    await hall.check()
    await hall.app.screen_controller.call("load_layout", {"name": "default"})


@place
async def titles_of_a_layout(hall: Hall) -> None:
    tree = {"type": "panel", "id": "chat", "widget": "chat", "title": ("t" + hall.words())[:60]}
    feed = {"type": "panel", "id": "usage", "widget": "usage", "title": ("t" + hall.words())[:60]}
    root = {"type": "vertical", "children": [tree, feed]}
    tabs = [{"title": hall.words()[:60].strip() or "t", "root": root}, {"title": "b", "root": {
        "type": "panel", "id": "n", "widget": "inbox"}}]  # fmt: skip
    await hall.app.screen_controller.call("set_layout", {"layout": {"tabs": tabs}})
    await hall.check()
    await hall.app.screen_controller.call("load_layout", {"name": "default"})


@place
async def what_is_offered_to_a_word(hall: Hall) -> None:
    offers = [
        CompletionChoice(
            text=hall.words(), name=hall.words(), help=hall.words(), origin=hall.words()
        )
        for _ in range(4)
    ]
    popup = CompletionList()
    await hall.app.main.mount(popup)
    popup.show(offers, Offset(3, 20))
    await hall.check()
    await popup.remove()


@place
async def what_is_told(hall: Hall) -> None:
    hall.app.show_message(hall.words(), True)
    hall.app.show_message(hall.words())
    await hall.check()
    hall.app.clear_notifications()


@place
async def a_failure_of_the_host(hall: Hall) -> None:
    hall.app.main.show_host("failed", hall.words())
    hall.app.context.roster.replace([], None)
    hall.app.context.select(None)
    await hall.check()
    hall.app.main.show_host("connected", "")


@place
async def what_is_found_here(hall: Hall) -> None:
    words, ground = hall.words, hall.app.context.discovery
    agents = tuple(
        DiscoveredAgent(
            name=words(), title=words(), is_here=here, install=words(), login_hint=words()
        )
        for here in (True, False)
    )
    ground.found = MachineDiscovery(agents=agents, keys=(), key_names=())
    acts = (TrustEffect(path=words(), what=words()),)
    ground.trust = WorkspaceTrust(root=words(), state="untrusted", acts=acts)
    hall.app.context.cwd = whole(words)().replace("\0", "")  # as on disks
    hall.app.context.roster.replace([], None)
    hall.app.context.select(None)
    hall.app.context.changed()
    await hall.check()
    await hall.show(TrustScreen(ground.trust))
    hall.app.context.cwd = "/work/project"
    ground.trust = None


@place
async def screens_to_read(hall: Hall) -> None:
    words = hall.words
    await hall.show(ReadingScreen(words(), [(words(), [(words(), words()), (words(), words())])]))
    await hall.show(HelpScreen([(words(), [(words(), words())])], title=words(), query=""))
    await hall.show(ConfirmScreen(words(), words(), "do it"))
    await hall.show(AskLineScreen(words(), words()))
    layouts = [{"name": words(), "scope": "user", "help": words()}]
    await hall.show(LayoutsScreen(layouts))

    async def refuse(options: SpawnOptions) -> None:
        raise QuarterdeckError(words())

    class Hostile:
        async def look(self, cwd: str) -> SpawnDirectory:
            known = SpawnDirectory(problem=words(), worktrees=(words(),), branches=(words(),))
            return replace(known, mode=words(), model=words(), effort=words(), head=words())

        async def agents(self, *, with_versions: bool) -> list[SpawnAgent]:
            here = SpawnAgent(name="native", title=words(), is_here=True, version=words())
            return [here, SpawnAgent(name=words(), title=words(), install=words())]

        async def models(self, agent: SpawnAgent) -> list[SelectOption]:
            return [SelectOption(value=words(), words=words(), group=words(), problem=words())]

        async def directories(self, typed: str) -> list[SelectOption]:
            return [SelectOption(value=words(), words=words())]

    chosen = dict.fromkeys(("agent", "model", "mode", "effort", "worktree"), words())
    form = SpawnScreen(words(), words(), Hostile(), start=refuse, chosen=chosen)
    await hall.show(form, *["down", "tab"] * 8)
    await hall.show(LeaveTerminalScreen(words(), words()))
    terminals = [
        TerminalInfo(
            id=str(n), name=words(), command=(words(), words()), cwd=words(), pid=1, columns=80,
            rows=24, opened=n, title=words() if n else "", ended=words() if n > 1 else None,
        )
        for n in range(3)
    ]  # fmt: skip
    await hall.show(TerminalsScreen(terminals))


@place
async def a_widget_to_approve(hall: Hall) -> None:
    source = WidgetSource(
        name=hall.words(), text=hall.words(), digest="d", path=Path("/x"), by=hall.words()
    )
    await hall.show(ApproveScreen(source))


@place
async def themes(hall: Hall) -> None:
    shelved = [FoundTheme(name=hall.words(), scope="user", path=Path("/x"), error=hall.words())]
    await hall.show(ThemesScreen(shelved))


@place
async def a_search(hall: Hall) -> None:
    hall.app.context.select(hall.session)
    hall.app.main.transcript.action_search(hall.words())
    await hall.check()
    hall.app.main.transcript.action_end_search()


async def put_everywhere(tmp_path: Path, count: int) -> None:
    strings = hostile_strings(count)
    given = 0

    def words() -> str:
        nonlocal given
        given += 1
        return strings[(given - 1) % len(strings)]

    fleet = FakeFleet()
    session = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (80, 24)) as (app, pilot):
        hall = Hall(app, pilot, fleet, session, words)
        rounds: Iterator[tuple[str, Place]] = cycle(PLACES.items())
        for number, (name, put) in enumerate(rounds):
            if given >= count and number >= len(PLACES):
                break
            begun = given
            try:
                await put(hall)
            except Exception as error:
                used = [strings[n % len(strings)][:60] for n in range(begun, given)]
                raise AssertionError(f"{name} with {used!r}: {error}") from error
        await until(pilot, lambda: app.is_running)


async def test_hostile_text_acts_nowhere(tmp_path: Path):
    await put_everywhere(tmp_path, 350)


@pytest.mark.stress
@pytest.mark.timeout(1500)
async def test_ten_thousand_hostile_texts_act_nowhere(tmp_path: Path):
    await put_everywhere(tmp_path, 10_000)
