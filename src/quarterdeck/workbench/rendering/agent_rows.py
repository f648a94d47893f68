"""The rows and cards of the agent table: columns that a person chose, or as many as fit.

A column is wide enough for what is in it, or it is not there. Only the one in words is cut, and
never below ``LEAST_WORDS`` cells while another column could go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.event_text import describe_request
from quarterdeck.wire.terminal_text import count, format_age

from ..sanitize import sanitize_line
from ..stores.roster import BUCKETS, RosterStore, state_symbol
from . import glyphs
from .budget_text import LEVEL_LOOKS, format_budget_use
from .lines import Line, Span, clip

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.budgets.api import BudgetRow

    from ..stores.checkouts import Checkout

__all__ = [
    "COLUMNS", "LEAST_WORDS", "STATE_ROLES", "AgentColumn", "AgentRow", "agent_card", "agent_head",
    "agent_line", "draw_context", "find_urgent_columns", "format_money", "format_since",
    "group_line", "measure_columns", "place_columns"
]  # fmt: skip

STATE_ROLES = {
    "running": "running",
    "starting": "running",
    "needs you": "asking",
    "failed": "bad",
    "stopped": "warning",
    "host lost": "warning",
    "done": "good",
}
"""By the words of ``AgentInfo.state_word``."""
_EASY_WORDS = 30
"""Cells of words beside which a card shows activity in its first line."""
_LEAST_FACTS = 6
LEAST_WORDS = 16
"""Cells that the column in words has at least."""
_WEEK = 7 * 86_400 * 1_000_000
_NARROW = 60
"""Cells below which the group and the sign of a state stand for its word."""
_WIDE = 100
"""Cells from which the word for a state has a column, besides the sign and the group."""
_BAR = 5
_LONGEST = {"name": 20, "kind": 12, "model": 24, "branch": 28}
"""Cells that a column may grow to with what is in it."""
_LONGEST_NARROW_NAME = 12
_MEASURED = ("time", "changes", "context", "budget", "cost")


class AgentRow(Struct, frozen=True, kw_only=True):
    """What a row is made of."""

    agent: "AgentInfo"
    roster: RosterStore
    now: int
    """Microseconds since the epoch."""
    checkout: "Checkout | None" = None
    requests: "Sequence[InboxItem]" = ()
    """What it waits for a person with, oldest first."""
    budget: "BudgetRow | None" = None
    """The fullest of those that are for it."""


class AgentColumn(Struct, frozen=True, kw_only=True):
    """A column; ``width`` is in cells."""

    name: str
    width: int
    text: Callable[[AgentRow], str]
    title: str = ""
    is_right: bool = False
    role: str = "faint"

    @property
    def head(self) -> str:
        """What stands above it."""
        return self.title or self.name


def format_since(then: int, now: int) -> str:
    """How long ago, up to six days; then the date."""
    return format_age(then, now) if now - then < _WEEK else format_local_time(then, "%-d %b")


def format_money(amount: float, currency: str) -> str:
    """An amount in few characters."""
    sign = "$" if currency == "USD" else sanitize_line(currency, 4)
    if 0 < amount < 0.005:
        return f"<0.01 {sign}"
    return f"{amount:.2f} {sign}" if amount < 1_000 else f"{amount:.0f} {sign}"


def draw_context(agent: "AgentInfo") -> str:
    """How full the window of the model is, as a bar and a number; a dash where it is not known."""
    context = agent.context
    if context is None or not context.size:
        return glyphs.UNKNOWN
    part = 100 * context.used // context.size
    used = min(_BAR, (part * _BAR + 50) // 100)
    return f"{glyphs.USED * used}{glyphs.FREE * (_BAR - used)} {min(part, 100):>2} %"


def _elapsed(row: AgentRow) -> str:
    """How long the turn has been running, or since when the agent has its state."""
    then = row.requests[0].since if row.requests else row.roster.since(row.agent)
    return format_since(then, row.now) if then else ""


def _plan(row: AgentRow) -> str:
    plan = row.roster.activity(row.agent.session).plan
    if plan is None:
        return ""
    text = f"{plan[0]}/{plan[1]}"
    return text if len(text) <= 5 else f"{100 * plan[0] // plan[1]} %"


def _activity(row: AgentRow) -> str:
    return row.roster.activity(row.agent.session).sparkline(row.now)


def _cost(row: AgentRow) -> str:
    cost = row.agent.cost
    return format_money(cost.amount, cost.currency) if cost else glyphs.UNKNOWN


def _budget(row: AgentRow) -> str:
    """How much of its budget is used, with the sign of its level."""
    if row.budget is None:
        return ""
    return f"{LEVEL_LOOKS[row.budget.level][0]} {format_budget_use(row.budget)}".lstrip()


def _budget_role(row: AgentRow) -> str:
    is_noted = row.budget is not None and row.budget.level is not None
    return LEVEL_LOOKS[row.budget.level][2] if row.budget is not None and is_noted else "faint"


def _request(row: AgentRow) -> str:
    """What a person has to decide, in words; empty: nothing that we know."""
    if not row.requests:
        return ""
    first, more = row.requests[0], len(row.requests) - 1
    if first.permission is not None:
        words = describe_request(first.permission.title, first.permission.kind)
    else:
        words = f"asks: {first.question.text}" if first.question else ""
    words = sanitize_line(words, 300)
    return f"+{more} {words}" if more else words


def _doing(row: AgentRow) -> str:
    """What it waits for, does, or did last; without the word for its state."""
    if row.agent.needs_person and (asked := _request(row)):
        return asked
    if row.agent.waits_for == "agent":
        return "asks another agent"
    return sanitize_line(row.roster.doing(row.agent), 300)


def _state_and_doing(row: AgentRow, has_changes: bool) -> str:
    """The words where no column has the state: what it does, or the state and the reason."""
    agent, doing = row.agent, _doing(row)
    word = agent.state_word
    if word == "running" or (word == "needs you" and doing):
        return doing or word
    changes = "" if has_changes or agent.worktree is None else _changes(row)
    facts = [word if word != "idle" or not (changes or doing) else "", changes, doing]
    return " · ".join(fact for fact in facts if fact)


COLUMNS = {
    column.name: column
    for column in (
        AgentColumn(
            name="name", title="agent", width=6, text=lambda r: sanitize_line(r.agent.name, 60)
        ),
        AgentColumn(name="state", width=9, text=lambda r: r.agent.state_word),
        AgentColumn(name="doing", width=LEAST_WORDS, text=_doing, role="text"),
        AgentColumn(name="conflicts", width=12, text=lambda r: _conflicts(r), role="warning"),
        AgentColumn(name="plan", width=5, text=_plan, is_right=True),
        AgentColumn(name="activity", title="recent", width=BUCKETS, text=_activity, role="running"),
        AgentColumn(name="time", width=4, text=_elapsed, is_right=True),
        AgentColumn(name="changes", width=11, text=lambda r: _changes(r), is_right=True),
        AgentColumn(
            name="context", width=_BAR + 6, text=lambda r: draw_context(r.agent), is_right=True
        ),
        AgentColumn(name="budget", width=6, text=_budget, is_right=True),
        AgentColumn(name="cost", width=7, text=_cost, is_right=True),
        AgentColumn(
            name="tokens", width=6, text=lambda r: count(r.agent.usage.total), is_right=True
        ),
        AgentColumn(name="kind", width=8, text=lambda r: sanitize_line(r.agent.agent, 20)),
        AgentColumn(name="model", width=10, text=lambda r: sanitize_line(r.agent.model or "", 40)),
        AgentColumn(name="branch", width=10, text=lambda r: sanitize_line(_branch(r), 60)),
    )
}
"""In the order in which they stand."""
_NEEDED = ("name", "doing", "time")
_BY_WORTH = ("activity", "state", "context", "cost", "changes", "kind", "model", "branch", "tokens")
"""Which come first where there is room."""
_SOMETIMES = ("conflicts", "plan", "budget")
"""Only where some agent has something there."""


def find_urgent_columns(
    agents: "Iterable[AgentInfo]", roster: RosterStore | None = None, *, budgets: bool = False
) -> tuple[str, ...]:
    """Columns that come before others, because some agent has something there.

    ``budgets``: some agent has a budget.
    """
    known = list(agents)
    conflicts = ("conflicts",) if any(map(_is_in_conflict, known)) else ()
    has_plan = roster is not None and any(roster.activity(one.session).plan for one in known)
    trees = ("changes", "branch") if any(agent.worktree for agent in known) else ()
    limits = ("budget",) if budgets else ()
    return (*conflicts, *(("activity", "plan") if has_plan else ()), *limits, *trees)


def measure_columns(rows: Iterable[AgentRow]) -> dict[str, int]:
    """How wide the columns with names are, so that none of them is cut without need."""
    wide = {name: COLUMNS[name].width for name in _LONGEST}
    wide |= {**dict.fromkeys(_MEASURED, 0), "time": COLUMNS["time"].width}
    for row in rows:
        for name, most in _LONGEST.items():
            indent = 2 * min(row.roster.depth(row.agent.session), 4) if name == "name" else 0
            wide[name] = min(most, max(wide[name], indent + cell_len(COLUMNS[name].text(row))))
        for name in _MEASURED:
            wide[name] = max(wide[name], cell_len(COLUMNS[name].text(row)))
    return wide


def _is_in_conflict(agent: "AgentInfo") -> bool:
    return any(file.kind != "file" for one in agent.conflicts for file in one.files)


def place_columns(
    width: int,
    chosen: Sequence[str] = (),
    urgent: Sequence[str] = (),
    wide: Mapping[str, int] | None = None,
) -> list[tuple[AgentColumn, int, int]]:
    """The columns that are shown, each with where it begins and how wide it is.

    ``urgent``: which come first where a person chose none. ``wide``: see ``measure_columns``. What
    is done gets what is left over.
    """
    sizes = {name: max(column.width, (wide or {}).get(name, 0)) for name, column in COLUMNS.items()}
    if width < _NARROW:
        sizes["name"] = max(4, min(sizes["name"], _LONGEST_NARROW_NAME, width - 2 - LEAST_WORDS))
    words = width // 2 if width < _NARROW else min(width // 3, _EASY_WORDS)
    least = sizes if chosen else {**sizes, "doing": max(LEAST_WORDS, words)}
    wanted = _that_fit(width, chosen or _automatic(width, urgent), least)
    names = [name for name in COLUMNS if name in wanted]
    spare = width - 2 - sum(sizes[name] for name in names) - len(names) + 1
    grower = "doing" if "doing" in names else "name"
    sizes[grower] = max(1, sizes[grower] + spare)
    found: list[tuple[AgentColumn, int, int]] = []
    at = 2
    for name in names:
        found.append((COLUMNS[name], at, sizes[name]))
        at += sizes[name] + 1
    return found


def _automatic(width: int, urgent: Sequence[str]) -> list[str]:
    """Every column that is of use at a width, the most important first."""
    if width < _NARROW:
        return [*_NEEDED, "activity"]
    names = dict.fromkeys((*_NEEDED, *urgent, *_BY_WORTH))
    return [name for name in names if name != "state" or width >= _WIDE]


def _that_fit(width: int, names: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
    """As many of the columns as there is room for; the name and the first are always there."""
    ordered = list(dict.fromkeys(("name", *names)))
    room = width - 2 - sizes["name"]
    kept = ["name"]
    for name in ordered[1:]:
        room -= sizes[name] + 1
        if room < 0 and len(kept) > 1:
            break
        kept.append(name)
    return kept


def agent_head(
    width: int,
    chosen: Sequence[str] = (),
    by: str = "need",
    urgent: Sequence[str] = (),
    wide: Mapping[str, int] | None = None,
) -> Line:
    """The names of the columns; the one that is sorted by has a sign."""
    spans: list[Span] = [("  ", "faint")]
    for column, _, cells in place_columns(width, chosen, urgent, wide):
        title = column.head + (glyphs.UNFOLDED if column.name == by else "")
        role = "strong" if column.name == by else "faint"
        spans += [(_cell(title, cells, column.is_right), role), (" ", "text")]
    return clip(tuple(spans[:-1]), width)


def group_line(title: str, number: int, width: int) -> Line:
    """The title of a group, and how many are in it."""
    return clip(((f"{sanitize_line(title, 200)} {number}", "faint"),), width)


def agent_line(
    row: AgentRow,
    width: int,
    chosen: Sequence[str] = (),
    urgent: Sequence[str] = (),
    wide: Mapping[str, int] | None = None,
) -> Line:
    """One agent in one line."""
    role = _role(row.agent)
    spans: list[Span] = [(state_symbol(row.agent) + " ", role)]
    columns = place_columns(width, chosen, urgent, wide)
    names = {column.name for column, _, _ in columns}
    for column, _, cells in columns:
        text = column.text(row)
        if column.name == "name":
            text = _indented(row) + text
        if column.name == "doing" and "state" not in names:
            text = _state_and_doing(row, "changes" in names)
        if column.name == "doing" and "conflicts" not in names and (sign := _conflicts(row)):
            text = f"{sign}  {text}"
        own = {"name": "strong", "state": role, "budget": _budget_role(row)}.get(
            column.name, column.role
        )
        spans += [(_cell(text, cells, column.is_right), own), (" ", "text")]
    return clip(tuple(spans[:-1]), width)


def agent_card(row: AgentRow, width: int, wide: Mapping[str, int] | None = None) -> list[Line]:
    """One agent in two lines: what it does, then its figures; figures stand below each other."""
    agent = row.agent
    sizes = dict(wide or measure_columns([row]))
    name_size = min(sizes["name"], max(4, width // 3 - 2))
    room = width - 2 - name_size - 1 - sizes["time"] - 1
    has_activity = room - BUCKETS - 1 >= _EASY_WORDS
    room -= BUCKETS + 1 if has_activity else 0
    first: list[Span] = [
        (state_symbol(agent) + " ", _role(agent)),
        (_cell(_indented(row) + sanitize_line(agent.name, 60), name_size) + " ", "strong"),
        (_cell(_state_and_doing(row, has_changes=True), max(1, room)), "text"),
        (" " + _cell(_activity(row), BUCKETS) if has_activity else "", "running"),
        (" " + _cell(_elapsed(row), sizes["time"], True), "faint"),
    ]
    figures = {name: sizes[name] for name in ("budget", "cost", "context", "changes")}
    figures["activity"] = 0 if has_activity else BUCKETS
    return [clip(tuple(first), width), _card_figures(row, width, figures)]


def _card_figures(row: AgentRow, width: int, sizes: Mapping[str, int]) -> Line:
    """Facts in words at the left, figures at the right; what has no room is left out whole."""
    figures: list[Span] = []
    room = width - 2
    pressing = max(cell_len(f"{_conflicts(row)}  {_plan(row)}".strip()), _LEAST_FACTS)
    for name, size in sizes.items():
        needed = pressing if name == "activity" else _LEAST_FACTS
        if size < 2 or room - size - 1 < needed:  # a dash alone says nothing
            continue
        room -= size + 1
        text = COLUMNS[name].text(row)
        role = {"activity": "running", "budget": _budget_role(row)}.get(name, "faint")
        figures.insert(0, (" " + _cell("" if text == glyphs.UNKNOWN else text, size, True), role))
    spans: list[Span] = [("  ", "text")]
    used = 0
    for text, role in _card_facts(row):
        need = cell_len(text) + (2 if used else 0)
        if text and used + need <= room:
            spans.append((("  " if used else "") + text, role))
            used += need
    return clip((*spans, (" " * (room - used), "text"), *figures), width)


def _card_facts(row: AgentRow) -> Iterable[Span]:
    """What is said of an agent in words, the most important first."""
    agent = row.agent
    yield _conflicts(row), "warning"
    yield _plan(row), "text"
    yield sanitize_line(agent.agent, 20), "faint"
    yield sanitize_line(agent.model or "", 40), "faint"
    yield sanitize_line(_branch(row), 60), "faint"


def _role(agent: "AgentInfo") -> str:
    return "faint" if agent.is_archived else STATE_ROLES.get(agent.state_word, "text")


def _indented(row: AgentRow) -> str:
    depth = row.roster.depth(row.agent.session)
    return "  " * (min(depth, 4) - 1) + f"{glyphs.CORNER} " if depth else ""


def _branch(row: AgentRow) -> str:
    """The branch of its worktree, or the one that is checked out where it works."""
    tree = row.agent.worktree
    if tree is not None:
        return f"{glyphs.BRANCH} {tree.branch}" if tree.branch else "no branch"
    branch = _checkout(row).branch
    return f"{glyphs.BRANCH} {branch}" if branch else ""


def _changes(row: AgentRow) -> str:
    """Lines that it changed in its worktree, or that are uncommitted where it works."""
    counts = row.agent.changes
    if row.agent.worktree is None or counts is None:
        return _checkout(row).changes
    return f"+{counts.added} {glyphs.MINUS}{counts.removed}" if counts.files else ""


def _conflicts(row: AgentRow) -> str:
    """The agents that change the same lines or symbols."""
    names: list[str] = []
    for conflict in row.agent.conflicts:
        other = row.roster.find(conflict.other)
        if any(file.kind != "file" for file in conflict.files):
            names.append(other.name if other is not None else conflict.other)
    if not names:
        return ""
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{glyphs.CONFLICT} {sanitize_line(names[0], 30)}{more}"


def _checkout(row: AgentRow) -> "Checkout":
    from ..stores.checkouts import Checkout

    return row.checkout or Checkout()


def _cell(text: str, width: int, is_right: bool = False) -> str:
    """A text in exactly so many cells."""
    ((shown, _),) = clip(((text, ""),), width) or (("", ""),)
    room = " " * (width - cell_len(shown))
    return room + shown if is_right else shown + room
