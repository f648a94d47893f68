"""The live screen of an agent that runs in a terminal, where its transcript is otherwise.

Its size is the driver's, who reads it: it is clipped, never resized. What is typed there reaches
the agent as typed, past the driver, so one types only after ``enter``.
"""

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ..literal import literal
from ..screening import RefusedCall
from ..widgets.terminal import TerminalView
from .terminal_lines import TitleLine, foot_spans, head_spans

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo

    from ..desk import Desk

__all__ = ["AgentScreen", "check_screen"]


def check_screen(agent: "AgentInfo | None") -> "AgentInfo":
    """An agent whose screen can be seen. Raises RefusedCall: it has none."""
    if agent is None:
        raise RefusedCall("there is no agent here, and so no screen")
    if agent.transport not in ("pty", None):  # it is not known before the agent has started
        raise RefusedCall(f"{agent.name!r} does not run in a terminal, so it has no screen")
    if not agent.is_live:
        raise RefusedCall(f"{agent.name!r} is not at work; /resume starts it again")
    return agent


class AgentScreen(Widget):
    """What an agent's program shows at the moment."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.command('screen')", "the transcript again"),
    ]

    class Ended(Message):
        """There is nothing more to see."""

    def __init__(self, desk: "Desk", agent: "AgentInfo") -> None:
        super().__init__(classes="agent-screen")
        self.agent = agent
        self._head = TitleLine()
        self.view = TerminalView(desk, guarded=True, tell=self._tell, id="screen")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self._head, self.view)

    def on_mount(self) -> None:
        """Look at it."""
        self.view.attach(self.agent.session)
        self._say()

    def on_descendant_focus(self) -> None:
        """Say what keys do."""
        self._say()

    def on_descendant_blur(self) -> None:
        """Say less."""
        self._say()

    @on(TerminalView.Told)
    def _told(self, event: TerminalView.Told) -> None:
        event.stop()
        self._say()
        if self.view.standing == "gone":
            self._tell(self.view.reason)
        if self.view.standing in ("ended", "gone"):
            self.post_message(self.Ended())

    def _say(self) -> None:
        view = self.view
        foot = foot_spans(view, ())
        spans = [*([("  ", "faint"), *foot] if foot else ()), *head_spans(view, "")]
        if not view.takes_every_key:
            key = "esc" if view.has_focus else "/screen"
            between = " · " if view.has_focus and view.standing == "live" else "  "
            spans += [(between, "faint"), (key, "key"), (" shows the transcript", "faint")]
        self._head.show("live screen", *spans)

    def _tell(self, words: str) -> None:
        self.notify(literal(words), severity="error", timeout=8, markup=False)
