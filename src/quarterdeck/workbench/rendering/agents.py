"""The rows of the agent table, as many columns as fit."""

from typing import TYPE_CHECKING

from rich.cells import cell_len

from quarterdeck.wire.shown import count, since

from ..literal import one_line
from ..stores.roster import SYMBOLS, RosterStore
from .lines import Line, Span, clip

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo

__all__ = ["STATE_ROLES", "agent_head", "agent_line", "money"]

STATE_ROLES = {
    "running": "running",
    "starting": "running",
    "waiting": "asking",
    "failed": "bad",
    "killed": "bad",
    "interrupted": "warning",
    "done": "good",
}
_WAITS = {"permission": "asks leave", "person": "asks you", "agent": "asks agent"}
_STATE = 13
_WIDE = 96
"""Cells from which on the figures are shown."""


def agent_head(width: int) -> Line:
    """The names of the columns."""
    name = _name_width(width)
    line = f"  {'agent':<{name}} {'state':<{_STATE}} {'time':>4}  "
    if width < _WIDE:
        return ((line + "doing", "faint"),)
    middle = width - len(line) - 45
    return ((f"{line}{'doing':<{middle}}  kind       model       tokens  ctx    cost", "faint"),)


def agent_line(agent: "AgentInfo", roster: RosterStore, now: int, width: int) -> Line:
    """One agent; ``now`` in microseconds."""
    role = "faint" if agent.is_archived else STATE_ROLES.get(agent.state, "text")
    state = _WAITS.get(agent.waits_for or "", agent.state)
    spans: list[Span] = [
        (SYMBOLS[agent.state] + " ", role),
        (_cell(one_line(agent.name, 60), _name_width(width)) + " ", "strong"),
        (_cell(state, _STATE) + " ", role),
        (f"{since(roster.since(agent), now):>4}  ", "faint"),
    ]
    used = 2 + _name_width(width) + 1 + _STATE + 1 + 6
    doing = one_line(roster.doing(agent), 300)
    if agent.is_archived:
        doing = "(archived) " + doing
    if width < _WIDE:
        return clip((*spans, (doing, "text")), width)
    spans.append((_cell(doing, max(0, width - used - 45)) + "  ", "text"))
    spans.append((_cell(one_line(agent.agent, 20), 10) + " ", "faint"))
    spans.append((_cell(one_line(agent.model or "", 40), 10) + " ", "faint"))
    spans.append((_figures(agent), "faint"))
    return clip(tuple(spans), width)


def money(amount: float, currency: str) -> str:
    """An amount in few characters."""
    sign = "$" if currency == "USD" else one_line(currency, 4) + " "
    return f"{sign}{amount:.2f}" if amount >= 0.005 or not amount else f"<{sign}0.01"


def _figures(agent: "AgentInfo") -> str:
    context = agent.context
    full = f"{100 * context.used // context.size}%" if context and context.size else "-"
    cost = money(agent.cost.amount, agent.cost.currency) if agent.cost else "-"
    return f"{count(agent.usage.total):>7} {full:>4} {cost:>7}"


def _name_width(width: int) -> int:
    return 18 if width >= _WIDE else 12


def _cell(text: str, width: int) -> str:
    """A text in exactly so many cells."""
    ((shown, _),) = clip(((text, ""),), width) or (("", ""),)
    return shown + " " * (width - cell_len(shown))
