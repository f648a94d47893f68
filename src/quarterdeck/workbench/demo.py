"""The guide of the demo: which stage it is in, what that shows, and the key that goes on.

The stage is read from what the fleet reports and from what is on the screen; the guide has no
progress of its own, so that a person can do everything in any order, and quit at any time.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.fleet.demo import FIRST, SECOND
from quarterdeck.wire.events import ToolCallEnded, ToolCallStarted
from quarterdeck.wire.worktree_events import ChangesLanded, LandingFailed

from .rendering import glyphs
from .rendering.lines import Line, Span, wrap
from .widgets.lines_view import LinesView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.demo import DemoScratch
    from quarterdeck.wire.ids import SessionId, ToolCallId
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
    "start", "command", "edit", "work", "radar", "clear", "review", "ready", "land", "queue",
    "handed", "fix", "merge", "again", "end",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemoCaption:
    """What a stage shows, and the key that goes on; all of it is ours, not foreign text."""

    step: int
    """Of how many there are, see ``_STEPS``."""
    words: str
    """``{back}`` is the agent that got its work back."""
    key: str = ""
    does: str = ""


_STEPS = 7
_LAND = f"/land {FIRST} {SECOND}"
CAPTIONS: dict[DemoStage, DemoCaption] = {
    "start": DemoCaption(
        1,
        "Two agents in a git worktree each: tide is ours, guard a fake that stands for another "
        "vendor's. Only their words are scripted.",
        "ctrl+n",
        "the other agent",
    ),
    "command": DemoCaption(
        2, "tide wants to run the tests. Nothing runs before you answer.", "y", "allow once"
    ),
    "edit": DemoCaption(
        2,
        "guard wants to edit the same function. Any vendor's request has these keys.",
        "y",
        "allow once",
    ),
    "work": DemoCaption(
        2, "They go on, and you see what each of them does.", "ctrl+n", "the other agent"
    ),
    "radar": DemoCaption(
        3,
        f"{glyphs.CONFLICT} Both change until_high, and git cannot merge that. "
        "The radar warns early.",
        f"/review {FIRST}",
        "what it changed",
    ),
    "clear": DemoCaption(
        3, "Both are idle, and nothing conflicts.", f"/review {FIRST}", "what it changed"
    ),
    "review": DemoCaption(
        4,
        "What tide changed: c comments on a line, s sends it back, a accepts.",
        _LAND,
        "land both",
    ),
    "ready": DemoCaption(5, "Both can land now.", _LAND, "land both"),
    "land": DemoCaption(
        5, "The queue merges one after the other, and tests before each.", "ctrl+s", "land"
    ),
    "queue": DemoCaption(5, "It merges, and runs the tests on the result …"),
    "handed": DemoCaption(
        5, "The other is on main. {back} got its work back, with what is wrong.", "esc", "close"
    ),
    "fix": DemoCaption(6, "{back} merges main in its own worktree, and resolves the conflict."),
    "merge": DemoCaption(
        6, "{back} shows how it keeps both changes of until_high.", "y", "allow once"
    ),
    "again": DemoCaption(
        6, "{back} has resolved the conflict and can land.", "/land {back}", "land it"
    ),
    "end": DemoCaption(
        7,
        "Both changes are on main, and the tests passed. That was the demo; /demo keep keeps it.",
        "ctrl+q",
        "quit and remove it",
    ),
}
_SHORT_OF_END = DemoCaption(
    7, "What you allowed is on main. /demo keep keeps it.", "ctrl+q", "quit and remove it"
)
_BACK_FROM_REVIEW = ("esc", "back")
"""Where the review covers the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFacts:
    """What decides about the stage."""

    request: Literal["command", "edit"] | None = None
    """What is asked for, if something is."""
    is_busy: bool = True
    """An agent works."""
    has_changes: bool = False
    """An agent has changed something, or was answered."""
    has_conflict: bool = False
    is_reviewing: bool = False
    """A review is on the screen."""
    has_reviewed: bool = False
    queue: Literal["asks", "runs", "done"] | None = None
    """The dialog of the landing queue, if it is open."""
    landed: int = 0
    """Agents whose work is on the branch."""
    to_land: int = 2
    """Agents that have changed something."""
    is_handed_back: bool = False
    """An agent got its work back and has not landed since."""


def find_stage(facts: DemoFacts) -> DemoStage:
    """The stage that the facts make."""
    if facts.queue is not None:
        return _find_queue_stage(facts)
    if facts.request is not None:
        return "merge" if facts.is_handed_back else facts.request
    if facts.is_handed_back:
        return "fix" if facts.is_busy else "again"
    if facts.is_busy:
        return "work" if facts.has_changes else "start"
    return _find_idle_stage(facts)


def _find_queue_stage(facts: DemoFacts) -> DemoStage:
    if facts.queue == "done":
        return "handed" if facts.is_handed_back else "end"
    return "land" if facts.queue == "asks" else "queue"


def _find_idle_stage(facts: DemoFacts) -> DemoStage:
    if facts.landed >= facts.to_land and (facts.landed or facts.has_reviewed):
        return "end"
    if facts.is_reviewing:
        return "review"
    if facts.has_reviewed:
        return "ready"
    return "radar" if facts.has_conflict else "clear"


class CaptionBar(LinesView):
    """What happens in the demo, and which key goes on."""

    def __init__(self, caption: DemoCaption) -> None:
        super().__init__(classes="caption")
        self.caption = caption

    def show(self, caption: DemoCaption) -> None:
        """Show another caption."""
        if caption != self.caption:
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
            keys += [("ctrl+q", "key"), (" quit", "faint")]
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
        self._edits: set[tuple[SessionId, ToolCallId]] = set()
        """Calls that edit a file and have not ended."""
        self._uncounted: set[SessionId] = set()
        """Agents that have edited a file, which is not in what is counted of their work yet."""
        self._has_reviewed = False
        self._has_changed = False
        self.stage: DemoStage = "start"

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
        """Both chats side by side, below the agents."""
        own = {"type": "panel", "id": "beside", "widget": "chat", "options": {"agent": session}}
        chats = [{"type": "panel", "id": "chat", "widget": "chat"}, own]
        agents = {"type": "panel", "id": "agents", "widget": "agents", "size": "6"}
        root = {"type": "vertical", "children": [agents, {"type": "horizontal", "children": chats}]}
        layout = {"version": 1, "tabs": [{"title": "main", "root": root}]}
        await self._app.screen_controller.call("set_layout", {"layout": layout})

    def look(self) -> None:
        """Find out the stage, and show its caption."""
        if not self._app.screen_stack or self._sessions is None:
            return
        self._has_reviewed |= self._is_review_shown()
        before, self.stage = self.stage, find_stage(self._gather())
        if before != self.stage and self.stage in ("fix", "merge"):
            self._app.work(self._go_back_to(next(iter(self._handed), self._sessions[1])))
        if self._has_captions:
            self._show_caption(self._make_caption())

    async def _go_back_to(self, session: "SessionId") -> None:
        """Show the agent that resolves its conflict, and what it asks for."""
        await self._app.show_agent(session)
        self._app.requests.offer()

    def skip(self) -> None:
        """Do what the stage waits for, as the person would."""
        run = self._app.commands.run_named
        match self.stage:
            case "command" | "edit" | "merge":
                self._allow()
            case "radar" | "clear":
                run("review", FIRST)
            case "review" | "ready":
                run("land", " ".join(one.name for one in self._agents() if _has_work(one)))
            case "again":
                run("land", self._name_back())
            case "land":
                if (dialog := self._dialog()) is not None:
                    dialog.action_land()
            case "handed" | "end" if self._dialog() is not None:
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
                case ToolCallStarted(kind="edit", call=call):
                    self._edits.add((record.session, call))
                case ToolCallEnded(call=call, status=status):
                    self._note_end(record.session, call, is_done=status == "completed")
                case _:
                    pass

    def _note_end(self, session: "SessionId", call: "ToolCallId", *, is_done: bool) -> None:
        if (session, call) in self._edits:
            self._edits.discard((session, call))
            if is_done:
                self._uncounted.add(session)

    def _gather(self) -> DemoFacts:
        agents = self._agents()
        request = self._request()
        self._uncounted -= {one.session for one in agents if _has_work(one)} | self._landed
        self._has_changed |= bool(self._uncounted) or any(_has_work(one) for one in agents)
        working = [one for one in agents if one.state in ("starting", "running", "waiting")]
        is_counted = len(agents) == 2 and all(one.changes is not None for one in agents)
        return DemoFacts(
            request=_kind_of(request) if request is not None else None,
            is_busy=bool(working or self._uncounted) or not is_counted,
            has_changes=self._has_changed,
            has_conflict=any(one.conflicts for one in agents),
            is_reviewing=self._is_review_shown(),
            has_reviewed=self._has_reviewed,
            queue=self._find_queue_state(),
            landed=len(self._landed),
            to_land=len([one for one in agents if one.session in self._landed or _has_work(one)]),
            is_handed_back=bool(self._handed),
        )

    def _make_caption(self) -> DemoCaption:
        caption = CAPTIONS[self.stage]
        if self.stage == "end" and len(self._landed) < 2:
            caption = _SHORT_OF_END
        if self.stage == "review" and not any(chat.display for chat in self._app.main.chats()):
            key, does = _BACK_FROM_REVIEW
            return replace(caption, key=key, does=does)
        if self.stage in ("command", "edit", "merge") and self._app.requests.current is None:
            caption = replace(caption, key="ctrl+g", does="open the request")
        back = self._name_back()
        return replace(
            caption, words=caption.words.format(back=back), key=caption.key.format(back=back)
        )

    def _agents(self) -> "list[AgentInfo]":
        assert self._sessions is not None
        found = (self._app.context.roster.find(session) for session in self._sessions)
        return [agent for agent in found if agent is not None]

    def _name_back(self) -> str:
        """The agent that got its work back."""
        return next((one.name for one in self._agents() if one.session in self._handed), SECOND)

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

    def _find_queue_state(self) -> Literal["asks", "runs", "done"] | None:
        dialog = self._dialog()
        return dialog.state if dialog is not None else None

    def _show_caption(self, caption: DemoCaption) -> None:
        """On the screen that is on top; what is below it keeps its room and shows none."""
        *below, top = self._app.screen_stack
        for screen in below:
            screen.query(CaptionBar).add_class("-below")
        bars = top.query(CaptionBar)
        if bars:
            bars.remove_class("-below")
            bars.first().show(caption)
            return
        status = top.query("#status")
        top.mount(CaptionBar(caption), before=status.first() if status else None)


def _has_work(agent: "AgentInfo") -> bool:
    return agent.changes is not None and agent.changes.files > 0


def _kind_of(item: "InboxItem") -> Literal["command", "edit"]:
    return "edit" if item.permission is not None and item.permission.kind == "edit" else "command"
