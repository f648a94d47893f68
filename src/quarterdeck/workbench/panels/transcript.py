"""The transcript of an agent, to read only."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from textual.app import ComposeResult

from quarterdeck.version import __version__
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.ids import SessionId

from ..rendering.lines import Line, flow, plain, wrap
from ..sanitize import sanitize_text
from ..stores.transcript import TranscriptSpot
from ..widgets.bars import AgentBar
from ..widgets.transcript import TranscriptView
from .panel import Panel, PanelOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..feed import HostState

__all__ = [
    "AgentOptions",
    "TranscriptPanel",
    "empty_lines",
    "free_lines",
    "ready_lines",
    "unknown_agent_lines",
]


class AgentOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agent a panel is about."""

    agent: str | None = None
    """Its name or session; None: the selected one, whichever that is."""
    other: bool = False
    """None of these, but one that is shown nowhere else: the first of the list; it stays."""


class TranscriptPanel(Panel):
    """What an agent did; follows the selected agent unless its options name one."""

    options_type = AgentOptions
    has_head = False
    options: AgentOptions

    _saved_places: Mapping[str, TranscriptSpot] = MappingProxyType({})
    """Where transcripts were read in an earlier run, by session."""

    _saved_agent: "SessionId | None" = None
    _is_ready = False

    def compose(self) -> ComposeResult:
        """The parts."""
        yield AgentBar(classes="agent-bar")
        yield TranscriptView(id="transcript")

    def on_mount(self) -> None:
        """Follow the agents and which is selected."""
        self.transcript = self.query_one(TranscriptView)
        self._bar = self.query_one(AgentBar)  # kept: the stores may change while this is removed
        self.transcript.places.recall(self._saved_places)
        self.transcript.clock = self.context.clock
        self._is_ready = True
        self._shown: SessionId | None = None
        self._host = self.context.host
        if self.options.other and self._saved_agent is not None:
            self.context.places.put(str(self.id), self._saved_agent)
        self._choose_agent()
        self._stops = [self.context.watch(self._changed), self.context.roster.watch(self._changed)]
        self.show(self.session)

    def on_unmount(self) -> None:
        """Let go of the stores."""
        for stop in self._stops:
            stop()
        self.context.places.release(str(self.id))

    @property
    def title(self) -> str:
        """See ``Panel``."""
        agent = self.context.roster.find(self.session)
        return agent.name if agent is not None else (self.options.agent or self.kind)

    @property
    def kind(self) -> str:
        """What it is called while it shows no agent."""
        return "transcript"

    @property
    def follows(self) -> bool:
        """Whether it shows whichever agent is selected."""
        return self.options.agent is None and not self.options.other

    @property
    def session(self) -> "SessionId | None":
        """See ``Panel``."""
        if self.options.agent is not None:
            return self.context.find_session(self.options.agent)
        return self.context.places.get(str(self.id)) if self.options.other else self.context.shown

    def show_started(self, session: "SessionId") -> None:
        """Show an agent that was started from here; where another is shown, it is selected."""
        if self.options.other and self.session is None:
            self.context.places.put(str(self.id), session, is_new=True)
            self.context.changed()
        else:
            self.context.select(session)

    def _choose_agent(self) -> None:
        """Find the agent to show, where that is one which is shown nowhere else."""
        context, before = self.context, self.session
        is_decided = context.shown is not None or context.is_home
        if self.options.other and self.options.agent is None and is_decided:
            context.places.choose(str(self.id), context.roster, context.shown)
            if self.session != before:
                self.post_message(self.Altered())

    def change(self, options: AgentOptions) -> bool:
        """See ``Panel``: shows another agent."""
        self.options = options
        if self.is_mounted:
            self._changed()
        return True

    def toggle_screen(self) -> None:
        """Show the live screen of an agent that runs in a terminal, or the transcript again.

        Raises:
            RefusedCallError: it has no screen.
        """
        from .terminal.view import AgentTerminalView, check_agent_terminal

        if self.query(AgentTerminalView):
            self.close_screen()
            return
        screen = AgentTerminalView(
            self.context, check_agent_terminal(self.context.roster.find(self.session))
        )
        has_focus = self.transcript.has_focus
        self.transcript.display = False
        self.mount(screen, after=self.transcript)
        if has_focus:
            self.call_after_refresh(screen.view.focus)

    def close_screen(self) -> None:
        """Show the transcript, if a live screen is in its place."""
        if self.transcript.display:
            return
        screens = self.query(".agent-screen")
        has_focus = any(screen.has_focus_within for screen in screens)
        self.transcript.display = True
        if has_focus:
            self.transcript.focus()
        screens.remove()

    def on_agent_terminal_view_ended(self) -> None:
        """There is nothing to see but the transcript."""
        self.close_screen()

    def show(self, session: "SessionId | None") -> None:
        """Show an agent from its last page on."""
        if session != self._shown:
            self.close_screen()
        self._shown = session
        store = self.context.pages.store(session) if session is not None else None
        if store is not None and (agent := self.context.roster.find(session)) is not None:
            store.cwd = agent.cwd
        self.transcript.show(store)
        self.show_facts()
        self.show_hints()
        self.post_message(self.Renamed(self))
        if store is not None and not store.is_loaded:
            spot = self.transcript.places.expected(store.session)
            self.post_message(TranscriptView.Wanted(store.session, "first", spot))

    def remember(self) -> dict[str, Any]:
        """See ``Panel``: where it is read, unless that is at the end."""
        places = self.transcript.places.remember() if self._is_ready else self._saved_places
        read = {"read": {one: list(spot) for one, spot in places.items()}} if places else {}
        agent = self.session if self._is_ready else self._saved_agent
        return {**read, "agent": agent} if self.options.other and agent is not None else read

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        with suppress(msgspec.ValidationError):
            self._saved_places = convert(state.get("read", {}), dict[str, TranscriptSpot])
            self._saved_agent = convert(state.get("agent"), SessionId | None)

    def go_to(self, seq: int) -> None:
        """Show a record of the transcript, if its view can do that."""
        go: Callable[[int], None] | None = getattr(self.transcript, "go_to", None)
        if go is not None:
            go(seq)

    def show_facts(self) -> None:
        """Show the agent as the fleet last reported it."""
        agent = self.context.roster.find(self._shown)
        self.transcript.is_at_work = agent is not None and agent.state in _AT_WORK
        self._bar.show(agent)

    def show_hints(self) -> None:
        """Say what happened and what to do, where there is nothing else to see."""
        width = max(20, self.transcript.size.width - 2)
        context = self.context
        store = self.transcript.store
        if store is not None and context.roster.find(self._shown) is not None:
            self.transcript.empty = ready_lines(self.kind, width)  # once its first page is read
        elif store is not None and not store.is_loaded:
            self.transcript.empty = []
        elif self.options.agent is not None and context.roster.is_known:
            self.transcript.empty = unknown_agent_lines(self.options.agent, width)
        elif self.options.other and context.roster.is_known and context.host == "connected":
            self.transcript.empty = free_lines(self.kind, width)
        else:
            self.transcript.empty = empty_lines(context.host, context.host_reason, width)
        self.transcript.refresh()

    def on_resize(self) -> None:
        """Fit the hints."""
        self.show_hints()

    def _changed(self) -> None:
        self._choose_agent()
        was, self._host = self._host, self.context.host
        store = self.transcript.store
        if self._host == "connected" != was and store is not None:
            self.transcript.images.want_again(store)
        if self.session != self._shown:
            self.show(self.session)
        else:
            self.show_facts()
            self.show_hints()


_AT_WORK = ("starting", "running", "waiting")


def empty_lines(state: "HostState", reason: str, width: int) -> list[Line]:
    """The lines of an empty transcript; the more important, the higher."""
    lines: list[Line] = [(("quarterdeck ", "strong"), (__version__, "faint")), ()]
    match state:
        case "connecting":
            lines.append(plain("Connecting to the host that runs your agents …", "faint"))
        case "connected":
            lines.append(plain("No agent is selected.", "faint"))
        case "lost":
            lines += [
                plain("The host stopped, and its agents with it. You can resume them.", "bad"),
                plain("Waiting for it to return; /host starts a new one now.", "text"),
            ]
        case "failed":
            lines += [
                plain("Cannot use the host that runs the agents:", "bad"),
                *(plain(line, "text") for line in sanitize_text(reason).split("\n")),
                (),
                (("/host", "key"), ("  retry", "text")),
                (("/doctor", "key"), ("  see what is installed and what is missing", "text")),
                (("ctrl+q", "key"), ("  quit; your draft is saved", "text")),
            ]
    if reason and state != "failed":
        lines += [(), *(plain(line, "faint") for line in sanitize_text(reason).split("\n"))]
    return [part for line in lines for part in (wrap(line, width) if line else [()])]


def ready_lines(kind: str, width: int) -> list[Line]:
    """The lines of an agent that has no prompt so far."""
    if kind != "chat":
        return wrap(plain("No prompt so far.", "faint"), width)
    keys = (("@", "a file"), ("/", "a command"), ("!", "your shell"), ("#", "a note"))
    hints = [((key, "key"), (f" {what}", "faint")) for key, what in keys]
    return [
        *wrap(plain("Ready. Type a task below and press enter.", "text"), width),
        *flow(hints, width),
    ]


def free_lines(kind: str, width: int) -> list[Line]:
    """The lines of a panel for an agent that is shown nowhere else, while there is none."""
    keys = [(("ctrl+t", "key"), (" start an agent", "faint"))]
    if kind == "chat":
        keys.append((("enter", "key"), (" start one with a task", "faint")))
    return [*wrap(plain("The next agent appears here.", "text"), width), *flow(keys, width)]


def unknown_agent_lines(agent: str, width: int) -> list[Line]:
    """The lines of a chat whose agent is not there."""
    return [
        *wrap(plain(f"No agent named {sanitize_text(agent)!r}."), width),
        *wrap(plain("It appears here when it starts; start it with /spawn.", "faint"), width),
    ]
