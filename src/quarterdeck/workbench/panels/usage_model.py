"""What the usage panel draws: budgets as gauges, a column for each day, a bar for each row. Pure:
it asks no one and knows no widget.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from rich.cells import cell_len

from quarterdeck.wire.clock import format_day, format_local_time
from quarterdeck.wire.terminal_text import count, count_noun

from ..rendering.agent_rows import format_money
from ..rendering.budget_text import LEVEL_LOOKS, format_budget_part, format_budget_use
from ..rendering.glyphs import BAR, FREE, HALF_BAR, LEVELS, UNKNOWN, USED, WALL, WARNING
from ..rendering.lines import Line, Span, clip, width_of, wrap
from ..sanitize import sanitize_line
from .components import empty_lines

if TYPE_CHECKING:
    from quarterdeck.fleet.budgets.api import BudgetRow
    from quarterdeck.fleet.usage.api import UsageReport, UsageRow

__all__ = [
    "GROUPINGS",
    "PERIODS",
    "Grouping",
    "Period",
    "UsagePage",
    "draw_bar",
    "draw_columns",
    "draw_gauge",
    "find_first_day",
    "format_cost",
    "usage_facts",
    "usage_lines",
]

Grouping: TypeAlias = Literal["agent", "tree", "project", "vendor", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = ("agent", "tree", "project", "vendor", "model", "day")
Period: TypeAlias = Literal["today", "week", "month", "all"]
PERIODS: tuple[Period, ...] = ("month", "all", "today", "week")
"""In the order in which a key goes through them."""
_DAYS = {"today": 0, "week": 6, "month": 29}
_DAY = 86_400_000_000
_TITLES: dict[str, str] = {
    "agent": "by agent", "tree": "by lead", "project": "by project", "vendor": "by vendor",
    "model": "by model", "day": "by day",
}  # fmt: skip
_AXIS = 7
"""Cells before a chart."""
_CHART_ROWS = 4
_WIDEST_DAY = 6
"""Cells of a column; wider ones say no more."""
_LEAST_BAR = 10
_LONGEST_BAR = 60
"""Longer ones say no more, and figures would be far from names."""
_GAUGE = 8
"""Cells of a bar that shows how full something is."""
_FULL = 0.9
_MOST_NAMED = 3
"""Models without a price that are named."""
_MOST_BUDGETS = 12
_LEAST_NAME = 16
"""Cells for what a budget is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    """What is known of a period, and how it is to be shown."""

    days: "UsageReport"
    """By day."""
    rows: "UsageReport"
    """By what was asked for."""
    budgets: "Sequence[BudgetRow]" = ()
    period: Period = "month"
    today: str = ""
    archived: frozenset[str] = frozenset()
    """Sessions of archived agents that are shown as one."""
    contexts: Mapping[str, float] = field(default_factory=dict[str, float])
    """How full the window of an agent's model is, from 0 to 1, by session."""


def find_first_day(period: Period, now: int) -> str | None:
    """The first local day of a period; None: all. ``now`` is in microseconds."""
    if period == "all":
        return None
    return format_local_time(now - _DAYS[period] * _DAY, "%Y-%m-%d") or None


def draw_bar(part: float, width: int) -> str:
    """A line as long as ``part`` (from 0 to 1) of so many cells, by halves."""
    if width <= 0:
        return ""
    filled = round(max(0.0, min(1.0, part)) * width * 2)
    if part > 0 and not filled:
        filled = 1  # little is not nothing
    whole, rest = divmod(filled, 2)
    return (BAR * whole + HALF_BAR * rest).ljust(width)


def draw_gauge(part: float, width: int) -> str:
    """How much of something is used, of exactly so many cells."""
    used = round(max(0.0, min(1.0, part)) * width)
    if part > 0 and not used and width > 0:
        used = 1
    return USED * used + FREE * (max(0, width) - used)


def draw_columns(values: Sequence[int], height: int, wide: int = 1) -> list[str]:
    """A column for each figure, from the top row to the bottom; what is more than 0 is seen."""
    most = max(values, default=0)
    steps = [max(1, round(value / most * height * 8)) if value else 0 for value in values]
    gap = " " if wide > 2 else ""
    rows: list[str] = []
    for below in range(height - 1, -1, -1):
        cells = (max(0, min(8, step - below * 8)) for step in steps)
        signs = (LEVELS[cell - 1] if cell else " " for cell in cells)
        rows.append("".join(sign * (wide - len(gap)) + gap for sign in signs))
    return rows


def format_cost(row: "UsageRow") -> str:
    """What something cost; ``~``: computed by list prices; a cost that is not known is said."""
    parts = [
        ("~" if row.computed and currency == "USD" else "") + format_money(amount, currency)
        for currency, amount in row.costs.items()
    ]
    if row.unpriced and parts:
        parts.append("+ ?")
    return " ".join(parts) or UNKNOWN


def usage_facts(page: UsagePage) -> list[Span]:
    """What stands in the head of the panel, the most important first."""
    total = page.rows.total
    if not page.rows.rows:
        return [(_describe_period(page), "faint")]
    cost = format_cost(total) if total.costs or not total.unpriced else "cost unknown"
    facts = [f"{count(total.tokens.total)} tokens", cost, _describe_period(page)]
    if total.computed:
        facts.append(f"list prices of {sanitize_line(page.rows.prices_of, 20)}")
    return [(fact, "faint") for fact in facts]


def _describe_period(page: UsagePage) -> str:
    if page.period == "all":
        return "since the first day"
    if page.period == "today":
        return "today"
    return f"since {_format_day(page.rows.since or '')}"


def _format_day(day: str) -> str:
    """A day as in ``12 Nov``; what is none stays as it is."""
    return format_day(day) or sanitize_line(day, 20)


def usage_lines(page: UsagePage, width: int) -> list[Line]:
    """The whole page."""
    parts = [_budget_lines(page.budgets, width)] if page.budgets else []
    if page.rows.rows:
        if page.rows.by != "day":
            parts.append(_day_lines(page, width))
        parts.append(_note_lines(page.rows, width))
        parts.append(_row_lines(page, width))
    else:
        parts.append(_empty(page, width))
    lines: list[Line] = []
    for part in parts:
        lines += [(), *part] if lines and part else part
    return [clip(line, width) for line in lines]


def _empty(page: UsagePage, width: int) -> list[Line]:
    hints = [("ctrl+t", "starts an agent")]
    if page.period == "all":
        return empty_lines("What agents use appears here.", hints, width)
    period = "today" if page.period == "today" else _describe_period(page)
    hints.append(("p", "shows another period"))
    return empty_lines(f"What agents use appears here; nothing {period}.", hints, width)


# Budgets


def _budget_lines(budgets: "Sequence[BudgetRow]", width: int) -> list[Line]:
    """A gauge for each budget, the fullest first; what has no room goes as a column."""
    shown = budgets[:_MOST_BUDGETS]
    layout = _place_budgets(shown, width)
    lines: list[Line] = [(("budgets", "strong"),)]
    for row in shown:
        sign, words, role = LEVEL_LOOKS[row.level]
        name = sanitize_line(row.name, 120)
        figures: list[Span] = []
        if layout.gauge:
            figures += [("  ", "text"), (draw_gauge(row.used / row.amount, layout.gauge), role)]
        figures.append((f"  {format_budget_use(row):>{layout.use}}", "text"))
        figures += [(f"  {format_budget_part(row):>{layout.part}}", "faint")] * bool(layout.part)
        figures += [(f"  {words}", role)] * bool(layout.words and words)
        if layout.name:
            lines.append(((f"{sign} ", role), *_pad(name, layout.name, "text"), *figures))
        else:
            lines += [((f"{sign} ", role), (name, "text")), tuple(figures)]
    if len(budgets) > len(shown):
        more = count_noun(len(budgets) - len(shown), "more budget")
        lines.append(((f"  {more}: /budgets", "faint"),))
    return lines


class _BudgetLayout(NamedTuple):
    """Cells of the columns of budgets; 0: there is none."""

    name: int
    gauge: int
    use: int
    part: int
    words: int


def _place_budgets(budgets: "Sequence[BudgetRow]", width: int) -> _BudgetLayout:
    names = [cell_len(sanitize_line(row.name, 120)) for row in budgets]
    use = max(cell_len(format_budget_use(row)) for row in budgets)
    room = width - use - 4
    if room < _LEAST_NAME:
        return _BudgetLayout(0, 0, use, 0, 0)  # figures have a line of their own
    part = max(cell_len(format_budget_part(row)) for row in budgets)
    part = part if room - part - 2 >= _LEAST_NAME else 0
    room -= part + 2 if part else 0
    words = max(cell_len(LEVEL_LOOKS[row.level][1]) for row in budgets)
    words = words if room - words - 2 >= _LEAST_NAME else 0
    room -= words + 2 if words else 0
    gauge = min(24, room - 24) if room - 24 >= _GAUGE else 0
    room -= gauge + 2 if gauge else 0
    return _BudgetLayout(min(room, max(names)), gauge, use, part, words)


def _pad(text: str, width: int, role: str) -> list[Span]:
    shown = clip(((text, role),), width)
    return [*shown, (" " * (width - width_of(shown)), role)]


# Days


def _day_lines(page: UsagePage, width: int) -> list[Line]:
    """Tokens of each day as columns over the width; of many days those up to today that fit."""
    days = _list_days(page, max(1, width - _AXIS))
    if len(days) < 2:
        return []
    known = {row.name: row.tokens.total for row in page.days.rows}
    values = [known.get(day, 0) for day in days]
    wide = max(1, min(_WIDEST_DAY, (width - _AXIS) // len(days)))
    used = sum(map(bool, values))
    summary = f"  on {used} of {count_noun(len(days), 'day')}, at most {count(max(values))}"
    lines: list[Line] = [(("tokens by day", "strong"), (summary, "faint"))]
    if not any(values):
        return lines
    for at, drawn in enumerate(draw_columns(values, _CHART_ROWS, wide)):
        label = count(max(values)) if not at else "0" if at == _CHART_ROWS - 1 else ""
        lines.append(((f"{label:>{_AXIS - 2}} {WALL}", "faint"), (drawn, "running")))
    first, last = _format_day(days[0]), "today" if days[-1] == page.today else _format_day(days[-1])
    gap = len(days) * wide - cell_len(first) - cell_len(last)
    if gap > 0:
        lines.append(((" " * _AXIS + first + " " * gap + last, "faint"),))
    return lines


def _list_days(page: UsagePage, most: int) -> list[str]:
    """The days of a period in their order, also those without usage; the last of many."""
    try:
        last = datetime.date.fromisoformat(page.today)
        names = [row.name for row in page.days.rows if row.name <= page.today]
        first = datetime.date.fromisoformat(page.days.since or min(names, default=page.today))
    except ValueError:
        return []
    length = min((last - first).days + 1, most)
    begin = last.toordinal() - length + 1
    return [datetime.date.fromordinal(begin + at).isoformat() for at in range(length)]


def _note_lines(report: "UsageReport", width: int) -> list[Line]:
    """What is to be known of the figures: prices that are missing, reports that were left out."""
    lines: list[Line] = []
    if report.total.unpriced:
        names = [sanitize_line(name, 60) for name in report.unpriced_models[:_MOST_NAMED]]
        more = len(report.unpriced_models) - len(names)
        models = ", ".join((*names, *([f"{more} more"] if more else []))) or "an unknown model"
        words = (
            f"no price for {models}: the cost of {count(report.total.unpriced)} tokens is unknown"
        )
        lines += wrap([(f"{WARNING} {words}", "warning")], width)
    if report.ignored:
        reports = count_noun(report.ignored, "report")
        words = f"{reports} of agents cannot be true and were left out"
        lines += wrap([(f"{WARNING} {words}", "warning")], width)
    return lines


# Rows


class _Share(NamedTuple):
    """What one row shows."""

    name: str
    row: "UsageRow"
    context: float | None = None


class _Column(NamedTuple):
    """A column of figures, right-aligned below its name."""

    name: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.name, *self.cells)))


def _row_lines(page: UsagePage, width: int) -> list[Line]:
    """A line for each row: name, bar, figures; figures that have no room go as a column."""
    shares = _list_shares(page)
    by = page.rows.by
    room = min(max(8, *(cell_len(one.name) for one in shares)), max(8, width // 3), 32)
    columns = _columns(shares, page.rows.total.tokens.total, by)
    while len(columns) > 1 and _figures_width(columns) + room + _LEAST_BAR + 1 > width:
        columns.pop()
    has_context = any(one.context is not None for one in shares)
    gauge = _GAUGE if has_context and width - room - _figures_width(columns) > 2 * _GAUGE + 8 else 0
    left = width - room - 1 - _figures_width(columns) - (gauge + 10 if gauge else 0)
    length = max(0, min(left, _LONGEST_BAR))
    head = _TITLES[by].ljust(room + 1 + length)[: room + 1 + length]
    titles = "".join(f"  {column.name:>{column.width}}" for column in columns)
    gauge_title = f"  {'context':<{gauge + 8}}" if gauge else ""
    lines: list[Line] = [((head, "strong"), (titles + gauge_title, "faint"))]
    most = max(one.row.tokens.total for one in shares)
    for at, one in enumerate(shares):
        bar = draw_bar(one.row.tokens.total / most if most else 0.0, length)
        figures = "".join(f"  {column.cells[at]:>{column.width}}" for column in columns)
        lines.append((*_pad(one.name, room, "text"), (" ", "text"), (bar, "running"),
                      (figures, "text"), *_context(one.context, gauge)))  # fmt: skip
    return lines


def _list_shares(page: UsagePage) -> list[_Share]:
    """The rows with their names; those of archived agents are one, at the end."""
    shares: list[_Share] = []
    archived: list[UsageRow] = []
    for row in page.rows.rows:
        if page.rows.by == "agent" and row.session in page.archived:
            archived.append(row)
            continue
        name = _format_day(row.name) if page.rows.by == "day" else sanitize_line(row.name, 120)
        if page.rows.by == "day" and row.name == page.today:
            name = "today"
        context = page.contexts.get(row.session or "") if page.rows.by == "agent" else None
        shares.append(_Share(name, row, context))
    if archived:
        shares.append(_Share(f"{len(archived)} archived", _add_rows(archived)))
    return shares


def _add_rows(rows: "Sequence[UsageRow]") -> "UsageRow":
    from msgspec.structs import replace

    first, *others = rows
    reported = dict(first.reported)
    tokens = first.tokens
    for row in others:
        tokens += row.tokens
        for currency, amount in row.reported.items():
            reported[currency] = reported.get(currency, 0.0) + amount
    return replace(
        first,
        tokens=tokens,
        reported=reported,
        computed=sum(row.computed for row in rows),
        unpriced=sum(row.unpriced for row in rows),
        agents=sum(row.agents for row in rows),
    )


def _columns(shares: list[_Share], total: int, by: str) -> list[_Column]:
    """The figures of rows; those that say nothing are not there, the least needed last."""
    rows = [one.row for one in shares]
    found = [_Column("tokens", [count(row.tokens.total) for row in rows])]
    if any(row.costs or row.unpriced for row in rows):
        found.append(_Column("cost", [format_cost(row) for row in rows]))
    if total:
        found.append(_Column("share", [f"{100 * row.tokens.total / total:.0f} %" for row in rows]))
    if any(row.tokens.cached for row in rows):
        found.append(_Column("cached", [count(row.tokens.cached) for row in rows]))
    if by != "agent" and any(row.agents > 1 for row in rows):
        found.append(_Column("agents", [str(row.agents) for row in rows]))
    return found


def _figures_width(columns: list[_Column]) -> int:
    return sum(column.width + 2 for column in columns)


def _context(part: float | None, length: int) -> list[Span]:
    if not length:
        return []
    if part is None:
        return [(f"  {UNKNOWN:<{length + 8}}", "faint")]
    is_full = part > _FULL
    role, sign = ("warning", WARNING) if is_full else ("faint", " ")
    return [(f"  {draw_gauge(part, length)} {part * 100:>3.0f} % {sign}", role)]
