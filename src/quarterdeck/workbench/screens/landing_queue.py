"""The dialog that lands several agents, one after the other: in which order, and how each fares."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input

from quarterdeck.fleet.landing.api import (
    LandingEntry,
    LandingOptions,
    LandingPreview,
    LandingQueueInfo,
    LandingState,
)
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering import glyphs
from ..rendering.lines import Span
from ..sanitize import sanitize_line, sanitize_text
from .dialogs import FactsView, FieldRow
from .question import FormCheckbox

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import AgentInfo, Fleet

__all__ = ["LandingQueueScreen", "describe_queue", "entry_span"]

_SIGNS: dict[LandingState, tuple[str, str]] = {
    "waiting": (f"{glyphs.BETWEEN} waits", "faint"),
    "merging": (f"{glyphs.RUNNING} is being merged", "running"),
    "checking": (f"{glyphs.RUNNING} is being checked", "running"),
    "landed": (f"{glyphs.DONE} landed", "good"),
    "unchanged": (f"{glyphs.DONE} nothing to land", "good"),
    "refused": (f"{glyphs.FAILED} refused", "bad"),
    "conflict": (f"{glyphs.FAILED} conflicts", "bad"),
    "check": (f"{glyphs.FAILED} its check failed", "bad"),
    "cancelled": (f"{glyphs.STOPPED} cancelled", "warning"),
    "interrupted": (f"{glyphs.STOPPED} interrupted", "warning"),
}
_KEYS = "ctrl+s land · tab next field · esc cancel"
_LOADING_KEYS = "tab next field · esc cancel"
_RUNNING_KEYS = "ctrl+x stop the queue · esc close, it goes on"


def entry_span(number: int, entry: LandingEntry, size: int = 0) -> Span:
    """How an agent of a queue fares, as a line; names take ``size`` cells at least."""
    words, role = _SIGNS[entry.state]
    line = f"{number}. {_pad_name(entry.name, size)}  {words}"
    result = entry.result
    if result is None:
        return line, role
    if entry.state == "landed":
        line += f" on {sanitize_line(result.into, 60)}: {result.commit[:10]}"
    elif entry.state == "conflict":
        line += ": " + ", ".join(sanitize_line(one.path, 100) for one in result.conflicts[:4])
    elif result.reason and entry.state != "unchanged":
        line += f": {sanitize_text(result.reason)}"
    if result.handed_to:
        line += "; the agent was asked to resolve it"
    return line, role


def _find_name_size(names: Iterable[str]) -> int:
    return max((cell_len(sanitize_line(name, 40)) for name in names), default=0)


def _pad_name(name: str, size: int) -> str:
    """A name in at least so many cells, so that what follows stands below each other."""
    shown = sanitize_line(name, 40)
    return shown + " " * (size - cell_len(shown))


def describe_queue(info: LandingQueueInfo) -> str:
    """What became of a queue, in a line."""
    landed = [one.name for one in info.entries if one.state in ("landed", "unchanged")]
    failed = [
        f"{one.name} {_SIGNS[one.state][0][2:]}"
        for one in info.entries
        if one.state not in ("landed", "unchanged")
    ]
    words = f"landed on {info.into}: {', '.join(landed)}" if landed else "nothing was landed"
    return sanitize_line("; ".join((words, *failed)), 400)


class LandingQueueScreen(ModalScreen[None]):
    """Lands agents in the order that is given; whoever closes it still sees how it ended.

    Args:
        fleet: lands.
        agents: whose work it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close"),
        Binding("ctrl+s", "land", "land"),
        Binding("ctrl+x", "stop", "stop the queue", priority=True),
    ]

    def __init__(self, fleet: "Fleet", agents: "Sequence[AgentInfo]") -> None:
        super().__init__()
        self._fleet = fleet
        self._agents = agents
        self._queue: LandingQueueInfo | None = None
        self._is_starting = False
        self._is_read = False

    def compose(self) -> ComposeResult:
        """The parts."""
        count = len(self._agents)
        with Vertical(id="box") as box:
            box.border_title = f"land {count} agents, one after the other" if count > 1 else "land"
            box.border_subtitle = _LOADING_KEYS
            with VerticalScroll():
                yield FactsView()
                yield FieldRow("into", Input(id="into"))
                yield FieldRow("check", Input(id="check", placeholder="a command, if any"))
                yield FieldRow("files", FormCheckbox("update my checkout", id="checkout"))

    def on_mount(self) -> None:
        """Find out what would happen."""
        self.query_one("#checkout", Checkbox).disabled = True
        self.query_one("#into").focus()
        self._show([(f"loading {glyphs.CUT}", "faint")])
        self.run_worker(self._preview, group="preview", exclusive=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a field shows what would happen with it."""
        event.stop()
        if self._queue is None:
            self.run_worker(self._preview, group="preview", exclusive=True)

    @property
    def state(self) -> Literal["asks", "runs", "done"]:
        """Whether it still asks how to land, or lands, or has landed."""
        if self._queue is None:
            return "runs" if self._is_starting else "asks"
        return "done" if self._queue.is_done else "runs"

    def action_land(self) -> None:
        """Start the queue."""
        if not self._is_read:  # what it would do is not shown yet
            return
        if self._queue is None and not self._is_starting:
            self._is_starting = True
            app = cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]
            app.run_worker(self._land, group="landing-queue")

    def action_stop(self) -> None:
        """Cancel what has not landed yet."""
        if self._queue is not None and not self._queue.is_done:
            self.run_worker(partial(self._cancel, self._queue.id), group="cancel")

    def _options(self) -> LandingOptions:
        check = self.query_one("#check", Input).value.strip() or None
        return LandingOptions(
            into=self.query_one("#into", Input).value.strip() or None,
            check=None if check == "-" else check,
            skip_check=check == "-",
            checkout=self.query_one("#checkout", Checkbox).value,
        )

    async def _preview(self) -> None:
        facts: list[Span] = []
        size = _find_name_size(agent.name for agent in self._agents)
        for number, agent in enumerate(self._agents, 1):
            name = _pad_name(agent.name, size)
            try:
                preview = await self._fleet.preview_landing(agent.session, self._options())
            except QuarterdeckError as error:
                facts.append(
                    (f"{number}. {name}  {glyphs.FAILED} {sanitize_text(str(error))}", "bad")
                )
                continue
            facts.append(_preview_span(number, preview, size))
            if len(facts) == 1:
                self._ask(preview)
        self._is_read = True
        if self._queue is None and not self._is_starting:
            self.query_one("#box").border_subtitle = _KEYS
            self._show(facts)

    def _ask(self, preview: LandingPreview) -> None:
        """What is asked for depends on the branch."""
        target = preview.target
        self.query_one("#into", Input).placeholder = sanitize_line(target.branch, 60)
        check = sanitize_line(preview.check, 200) if preview.check else "a command, if any"
        self.query_one("#check", Input).placeholder = f"{check}; - runs none"
        box = self.query_one("#checkout", Checkbox)
        box.disabled = target.checkout is None or target.problem is not None
        box.value = not box.disabled
        words = f"update those in {sanitize_line(target.checkout or '', 200)}"
        if target.problem is not None:
            words = sanitize_line(target.problem, 200)
        elif target.checkout is None:
            words = "the branch is not checked out anywhere"
        box.label = Content(words)

    async def _land(self) -> None:
        names = [agent.session for agent in self._agents]
        try:
            info = await self._fleet.queue_landings(names, self._options())
            self._follow(info)
            while not info.is_done:
                info = await self._fleet.wait_landing(info.id, seen=info.revision, timeout=30.0)
                self._follow(info)
        except QuarterdeckError as error:
            self._queue, self._is_starting = None, False
            self._report(f"{glyphs.FAILED} {sanitize_text(str(error))}", is_bad=True)
            return
        if not self.is_current:
            is_bad = any(one.state not in ("landed", "unchanged") for one in info.entries)
            self._report(describe_queue(info), is_bad=is_bad)

    async def _cancel(self, queue: str) -> None:
        try:
            await self._fleet.cancel_landing(queue)
        except QuarterdeckError as error:
            self._report(f"{glyphs.FAILED} {sanitize_text(str(error))}", is_bad=True)

    def _follow(self, info: LandingQueueInfo) -> None:
        self._queue = info
        if not self.is_current:
            return
        for field in self.query(FieldRow):
            field.display = False
        self.query_one("#box").border_subtitle = "esc close" if info.is_done else _RUNNING_KEYS
        size = _find_name_size(one.name for one in info.entries)
        self._show([entry_span(at, one, size) for at, one in enumerate(info.entries, 1)])

    def _show(self, facts: Sequence[Span]) -> None:
        self.query_one(FactsView).show(facts)

    def _report(self, words: str, *, is_bad: bool) -> None:
        """In the dialog, or for who has closed it."""
        if self.is_current:
            self._show([(words, "bad" if is_bad else "good")])
        else:
            severity = "error" if is_bad else "information"
            self.notify(words, severity=severity, timeout=8, markup=False)


def _preview_span(number: int, preview: LandingPreview, size: int) -> Span:
    counts = preview.counts
    changes = f"+{counts.added} {glyphs.MINUS}{counts.removed}"
    line = f"{number}. {_pad_name(preview.name, size)}  {changes}"
    if preview.conflicts:
        paths = ", ".join(sanitize_line(one.path, 100) for one in preview.conflicts[:4])
        target = sanitize_line(preview.target.branch, 60)
        return f"{line}  {glyphs.CONFLICT} conflicts with {target}: {paths}", "bad"
    if preview.is_empty:
        return f"{line}  nothing to land", "faint"
    if preview.problem:
        return f"{line}  {glyphs.CONFLICT} {sanitize_text(preview.problem)}", "warning"
    return line, "text"
