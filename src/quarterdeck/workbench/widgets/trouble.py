"""Below a transcript that does not go on by itself: what happened, and what can be done."""

from typing import TYPE_CHECKING

from ..literal import literal, one_line
from ..rendering.lines import Line, Span, plain, wrap
from ..stores.trouble import Trouble, trouble_of
from .lined import LinesView

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.wire.ids import SessionId

    from ..desk import Desk

__all__ = ["TroubleBar", "trouble_lines"]

_REASON = 4
"""Lines of the reason that are shown; the transcript has all of it."""


class TroubleBar(LinesView):
    """Tells the trouble of one agent; hidden while there is none.

    Args:
        desk: the agents, and what was found on this machine.
        whose: the agent, as it is when somebody looks.
    """

    def __init__(self, desk: "Desk", whose: "Callable[[], SessionId | None]") -> None:
        super().__init__(classes="trouble")
        self._desk = desk
        self._whose = whose
        self._trouble: Trouble | None = None
        self._stops: list[Callable[[], None]] = []

    def on_mount(self) -> None:
        """Follow the agents."""
        self.display = False
        self._stops = [self._desk.watch(self.check), self._desk.roster.watch(self.check)]
        self.check()

    def on_unmount(self) -> None:
        """Let go of the stores."""
        for stop in self._stops:
            stop()

    def check(self) -> None:
        """Find out anew what is wrong."""
        agent = self._desk.roster.find(self._whose())
        found = self._desk.ground.found
        kind = found.agent(agent.agent) if found is not None and agent is not None else None
        trouble = trouble_of(agent, kind) if agent is not None else None
        if trouble != self._trouble:
            self._trouble = trouble
            self.display = trouble is not None
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        if self._trouble is None:
            return []
        lines = trouble_lines(self._trouble, width)
        self.styles.height = len(lines) + self.gutter.height
        return lines


def trouble_lines(trouble: Trouble, width: int) -> list[Line]:
    """What happened, why, and what can be done, in as few lines as it takes."""
    is_calm = trouble.kind == "ended"
    sign = "‖ " if is_calm else "✗ "
    lines = wrap(plain(sign + one_line(trouble.title, 200), "faint" if is_calm else "bad"), width)
    if trouble.reason:
        reason: list[Line] = []
        for part in literal(trouble.reason).split("\n")[:_REASON]:
            reason += wrap(plain(part, "text"), width)
        lines += reason[:_REASON]
    spans: list[Span] = []
    for offer in trouble.offers:
        spans += [("   ", "text")] if spans else []
        spans += [(offer.key, "key"), (f" {one_line(offer.words, 200)}", "text")]
    return [*lines, *wrap(spans, width)]
