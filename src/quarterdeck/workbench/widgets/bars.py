"""Single lines around the transcript: the agent's, its queue, and the state of everything."""

from typing import TYPE_CHECKING

from quarterdeck.wire.shown import count

from ..feed import HostState
from ..literal import one_line
from ..rendering.agents import STATE_ROLES, money
from ..rendering.lines import Line, Span, clip, width_of
from ..stores.contents import told
from ..stores.roster import SYMBOLS, RosterStore
from .lined import LinesView

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.port import AgentInfo

__all__ = ["AgentBar", "QueueBar", "StatusBar"]

_HOST_WORDS: dict[HostState, tuple[str, str]] = {
    "connecting": ("host: connecting", "warning"),
    "connected": ("host: connected", "faint"),
    "lost": ("host: lost, waiting for it", "bad"),
    "failed": ("host: cannot be used", "bad"),
}
_ORDER = ("running", "starting", "waiting", "idle", "interrupted", "failed", "killed", "done")
_SHOWN_QUEUE = 3


class AgentBar(LinesView):
    """Which agent is shown."""

    agent: "AgentInfo | None" = None

    def show(self, agent: "AgentInfo | None") -> None:
        """Show another agent, or the same as it is now."""
        if agent != self.agent:
            self.agent = agent
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        agent = self.agent
        if agent is None:
            return [(("no agent", "faint"),)]
        role = STATE_ROLES.get(agent.state, "text")
        facts = [agent.agent, agent.model, agent.mode, agent.cwd]
        rest = " · ".join(one_line(fact, 80) for fact in facts if fact)
        state = f" {SYMBOLS[agent.state]} {agent.state}"
        line: Line = ((one_line(agent.name, 60), "strong"), (state, role), (f"  {rest}", "faint"))
        return [clip(line, width)]


class QueueBar(LinesView):
    """The prompts that wait for their turn; hidden while there is none."""

    agent: "AgentInfo | None" = None

    def show(self, agent: "AgentInfo | None") -> None:
        """Show the queue of an agent."""
        self.agent = agent
        self.display = bool(agent and agent.queue)
        self.styles.height = min(len(agent.queue), _SHOWN_QUEUE) if agent else 0
        self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        queue = self.agent.queue if self.agent else ()
        lines = [
            clip(
                (("⋯ waits: ", "faint"), (one_line(" ".join(map(told, q.content))), "text")), width
            )
            for q in queue
        ]
        if len(lines) > _SHOWN_QUEUE:
            left = len(lines) - _SHOWN_QUEUE + 1
            lines[_SHOWN_QUEUE - 1 :] = [((f"⋯ and {left} more wait", "faint"),)]
        return lines


class StatusBar(LinesView):
    """Agents by state, who needs a person, what it costs, and whether the host is there."""

    def __init__(self, roster: RosterStore, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._roster = roster
        self._host: HostState = "connecting"
        self._is_untrusted = False
        self._unwatch: Callable[[], None] = lambda: None

    def on_mount(self) -> None:
        """Follow the store."""
        self._unwatch = self._roster.watch(self.update)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def show_host(self, state: HostState) -> None:
        """Tell how the way to the host is."""
        self._host = state
        self.update()

    def show_trust(self, is_untrusted: bool) -> None:
        """Tell that the workspace has files which do nothing until it is trusted."""
        if is_untrusted is not self._is_untrusted:
            self._is_untrusted = is_untrusted
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        totals = self._roster.totals
        spans: list[Span] = []
        if totals.needs_person:
            need = "needs" if totals.needs_person == 1 else "need"
            spans.append((f" {totals.needs_person} {need} you: ctrl+g ", "asking"))
        for state in _ORDER:
            if number := totals.states.get(state):
                role = STATE_ROLES.get(state, "text")
                spans.append((f" {SYMBOLS[state]} {number} {state}", role))
        problem = self._roster.status.problem if self._roster.status else None
        if problem:
            spans.append((f"  the log cannot be written: {one_line(problem, 80)}", "bad"))
        words, role = _HOST_WORDS[self._host]
        if self._host != "connected" or width_of(tuple(spans)) + len(words) + 2 <= width:
            spans.append((f"  {words}", role))
        if self._is_untrusted:
            spans.append(("  untrusted: /trust", "warning"))
        if totals.tokens:
            cost = f" {money(totals.cost, totals.currency)}" if totals.cost else ""
            spans.append((f"  {count(totals.tokens)} tokens{cost}", "faint"))
        keys = " f1 help  ctrl+p commands  ctrl+q leave "
        room = width - width_of(tuple(spans)) - len(keys)
        if room < 0:
            keys, room = " f1 help ", width - width_of(tuple(spans)) - 9
        if room >= 0:
            spans += [(" " * room, "text"), (keys, "faint")]
        return [clip(tuple(spans), width)]
