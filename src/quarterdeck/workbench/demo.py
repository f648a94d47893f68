"""The guide of the demo: which stage it is in, what that shows, and the key that goes on.

The stage is read from what the fleet reports and from what is on the screen; the guide has no
progress of its own, so that a person can do everything in any order, and leave at any time.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.wire.worktree_events import ChangesLanded, LandingFailed

from .rendering.lines import Line, Span, wrap
from .widgets.lines_view import LinesView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.demo import DemoScratch
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

    from .app import Workbench
    from .screens.landing_queue import LandingQueueScreen

__all__ = [
    "CAPTIONS",
    "SKIP_KEY",
    "CaptionBar",
    "DemoCaption",
    "DemoFacts",
    "DemoGuide",
    "DemoStage",
    "find_stage",
]

SKIP_KEY = "f12"
"""Does what the stage waits for."""
_WIDE = 110
"""Cells from which on both chats stand side by side."""
_LOOK = 0.2
"""Seconds between two looks at the screen."""

DemoStage: TypeAlias = Literal[
    "work", "command", "edit", "radar", "clear", "review", "land", "queue", "handed", "fix",
    "merge", "again", "end",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemoCaption:
    """What a stage shows, and the key that goes on; both are ours, not foreign text."""

    step: int
    """Of how many there are, see ``_STEPS``."""
    words: str
    key: str = ""
    does: str = ""


_STEPS = 7
CAPTIONS: dict[DemoStage, DemoCaption] = {
    "work": DemoCaption(
        1,
        "Two agents, two vendors, each in its own git worktree: tide is ours, guard is a fake that "
        "stands for another vendor's. The words are scripted, the rest is real.",
        "ctrl+n",
        "the other agent",
    ),
    "command": DemoCaption(
        2, "tide wants to run the tests. Nothing runs before you answer.", "y", "allow once"
    ),
    "edit": DemoCaption(
        2,
        "guard wants to edit the same function. The request of any vendor has the same keys.",
        "y",
        "allow once",
    ),
    "radar": DemoCaption(
        3,
        "Both change until_high, and git could not merge that. The radar warns while they work.",
        "/review tide",
        "see what it changed",
    ),
    "clear": DemoCaption(
        3, "Both are at rest; nothing conflicts.", "/review tide", "see what it changed"
    ),
    "review": DemoCaption(
        4,
        "The change of tide, line by line: c comments, s sends the comments back, a accepts.",
        "/land tide guard",
        "merge both",
    ),
    "land": DemoCaption(
        5,
        "The queue merges one after the other, and runs the tests before each.",
        "ctrl+s",
        "land",
    ),
    "queue": DemoCaption(5, "Merging, and running the tests on the result …"),
    "handed": DemoCaption(
        5,
        "What has landed is on main. What conflicts went back to its agent, with both sides.",
        "esc",
        "close",
    ),
    "fix": DemoCaption(6, "guard got its work back, and merges main in its own worktree."),
    "merge": DemoCaption(
        6, "guard shows how it keeps both changes of until_high.", "y", "allow once"
    ),
    "again": DemoCaption(
        6, "guard has resolved the conflict. It can land now.", "/land guard", "merge it"
    ),
    "end": DemoCaption(
        7,
        "Done: what you allowed is on main, and the tests passed before. That was the demo.",
        "ctrl+q",
        "leave; all of it is removed (/demo keep keeps it)",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFacts:
    """What decides about the stage."""

    request: Literal["command", "edit"] | None = None
    """What is asked for, if something is."""
    is_busy: bool = True
    """An agent works."""
    has_conflict: bool = False
    is_reviewing: bool = False
    """A review is on the screen."""
    queue: Literal["asks", "runs", "done"] | None = None
    """The dialog of the landing queue, if it is open."""
    landed: int = 0
    """Agents whose work is on the branch."""
    to_land: int = 2
    """Agents that have changed something."""
    is_handed_back: bool = False
    """The second agent got its work back and has not landed since."""


def find_stage(facts: DemoFacts) -> DemoStage:
    """The stage that the facts make."""
    if facts.queue is not None:
        return _queue_stage(facts)
    if facts.request is not None:
        return "merge" if facts.is_handed_back else facts.request
    if facts.is_handed_back:
        return "fix" if facts.is_busy else "again"
    if facts.is_busy:
        return "work"
    if facts.landed and facts.landed >= facts.to_land:
        return "end"
    if facts.is_reviewing:
        return "review"
    return "radar" if facts.has_conflict else "clear"


def _queue_stage(facts: DemoFacts) -> DemoStage:
    if facts.queue == "done":
        return "handed" if facts.is_handed_back else "end"
    return "land" if facts.queue == "asks" else "queue"


class CaptionBar(LinesView):
    """What happens in the demo, and which key goes on."""

    caption = CAPTIONS["work"]

    def __init__(self) -> None:
        super().__init__(classes="caption")

    def show(self, caption: DemoCaption) -> None:
        """Show another caption."""
        if caption is not self.caption:
            self.caption = caption
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        caption = self.caption
        spans: list[Span] = [
            (f"demo {caption.step}/{_STEPS} ", "strong"),
            (caption.words, "text"),
        ]
        keys: list[Span] = []
        if caption.key:
            keys += [(caption.key, "key"), (f" {caption.does}   ", "text")]
        keys += [(SKIP_KEY, "key"), (" do it for me   ", "faint")]
        if caption.key != "ctrl+q":
            keys += [("ctrl+q", "key"), (" leave", "faint")]
        lines = [*wrap(spans, width), *wrap(keys, width)]
        self.styles.height = len(lines)
        return lines


class DemoGuide:
    """Starts the agents of a demo, shows captions, and does a step for who wants that.

    Args:
        app: the workbench of the demo, which has its fleet.
        scratch: the demo's folder.
        has_captions: captions are shown.
    """

    def __init__(self, app: "Workbench", scratch: "DemoScratch", *, has_captions: bool) -> None:
        self._app = app
        self._scratch = scratch
        self._has_captions = has_captions
        self._sessions: tuple[SessionId, SessionId] | None = None
        self._landed: set[SessionId] = set()
        self._handed: set[SessionId] = set()
        self.stage: DemoStage = "work"

    async def begin(self) -> None:
        """Start the agents and show them. Raises QuarterdeckError."""
        from quarterdeck.fleet.demo import start_agents

        app = self._app
        app.keyboard.on_key = self._take_key
        app.context.listeners.append(self._listen)
        first, second = await start_agents(app.context.fleet, self._scratch)
        self._sessions = first.session, second.session
        app.feed.refresh()
        app.context.select(first.session)
        if app.size.width >= _WIDE:
            await self._show_beside(second.session)
        app.set_interval(_LOOK, self.look)
        self.look()

    async def _show_beside(self, session: "SessionId") -> None:
        main = self._app.main
        chat = main.panel.id
        arguments = {"widget": "chat", "options": {"agent": session}, "where": "right"}
        await self._app.screen_controller.call("open_panel", arguments)
        if chat is not None and chat in main.view.panels:
            main.view.enter(chat)

    def look(self) -> None:
        """Find out the stage, and show its caption."""
        if not self._app.screen_stack or self._sessions is None:
            return
        before, self.stage = self.stage, find_stage(self._gather())
        if before != self.stage and self.stage in ("fix", "merge") and self._is_review_shown():
            self._app.work(self._app.show_agent(self._sessions[1]))
        if self._has_captions:
            self._show_caption(CAPTIONS[self.stage])

    def skip(self) -> None:
        """Do what the stage waits for, as the person would."""
        run = self._app.commands.run_named
        match self.stage:
            case "command" | "edit" | "merge":
                self._allow()
            case "radar" | "clear":
                run("review", self._name(0))
            case "review":
                run("land", f"{self._name(0)} {self._name(1)}")
            case "again":
                run("land", self._name(1))
            case "land":
                if (dialog := self._dialog()) is not None:
                    dialog.action_land()
            case "handed":
                self._app.pop_screen()
            case "end":
                self._app.exit()
            case _:
                self._app.action_beside(1)

    async def keep(self) -> str:
        """Let the folder stay when the demo ends; returns where it is."""
        import asyncio

        await asyncio.to_thread(self._scratch.keep)
        return str(self._scratch.project)

    def _take_key(self, key: str) -> bool:
        """In dialogs too, which have no keys of the workbench."""
        if key != SKIP_KEY:
            return False
        self.skip()
        return True

    def _listen(self, records: "Sequence[Record]") -> None:
        for record in records:
            match record.event:
                case ChangesLanded():
                    self._landed.add(record.session)
                    self._handed.discard(record.session)
                case LandingFailed(stage="conflict" | "check"):
                    self._handed.add(record.session)
                case _:
                    pass

    def _gather(self) -> DemoFacts:
        agents = self._agents()
        request = self._request()
        return DemoFacts(
            request=_kind_of(request) if request is not None else None,
            is_busy=any(one.state in ("starting", "running", "waiting") for one in agents)
            or len(agents) < 2
            or any(one.changes is None for one in agents),
            has_conflict=any(one.conflicts for one in agents),
            is_reviewing=self._is_review_shown(),
            queue=self._queue_state(),
            landed=len(self._landed),
            to_land=len(
                [a for a in agents if a.session in self._landed or (a.changes and a.changes.files)]
            ),
            is_handed_back=bool(self._handed),
        )

    def _agents(self) -> "list[AgentInfo]":
        assert self._sessions is not None
        found = (self._app.context.roster.find(session) for session in self._sessions)
        return [agent for agent in found if agent is not None]

    def _name(self, number: int) -> str:
        return self._agents()[number].name

    def _request(self) -> "InboxItem | None":
        """The one that has the keys, or else the first."""
        assert self._sessions is not None
        current = self._app.requests.current
        mine = [one for one in self._app.context.inbox.items if one.session in self._sessions]
        if current is not None and current.item in mine:
            return current.item
        return mine[0] if mine else None

    def _allow(self) -> None:
        from .screens.permission import PermissionCard
        from .screens.permission_model import merge_options

        item = self._request()
        once = merge_options(item.permission.options).once if item and item.permission else None
        if item is not None and once is not None:
            self._app.post_message(PermissionCard.Answered(item=item, choice=once))

    def _is_review_shown(self) -> bool:
        view = self._app.main.view
        return any(
            node.startswith("review") and panel.display for node, panel in view.panels.items()
        )

    def _dialog(self) -> "LandingQueueScreen | None":
        from .screens.landing_queue import LandingQueueScreen

        screen = self._app.screen
        return screen if isinstance(screen, LandingQueueScreen) else None

    def _queue_state(self) -> Literal["asks", "runs", "done"] | None:
        dialog = self._dialog()
        return dialog.state if dialog is not None else None

    def _show_caption(self, caption: DemoCaption) -> None:
        """On the screen that is on top: a dialog covers the main one."""
        screen = self._app.screen
        bars = list(screen.query(CaptionBar))
        if bars:
            bars[0].show(caption)
            return
        bar = CaptionBar()
        bar.caption = caption
        status = screen.query("#status")
        screen.mount(bar, before=status.first() if status else None)


def _kind_of(item: "InboxItem") -> Literal["command", "edit"]:
    return "edit" if item.permission is not None and item.permission.kind == "edit" else "command"
