"""How results are shown: side by side, with the goal beside the ratio; as text or as Markdown."""

from dataclasses import dataclass

from .curves import CurveChart

__all__ = ["Row", "Table", "format_markdown", "format_text"]

_COLUMNS = ("what", "figure", "ratio")


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    figure: str
    ratio: str = ""
    goal: str = ""
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    rows: list[Row]
    notes: tuple[str, ...] = ()
    """What a reader must know: what was left out, and why."""
    charts: tuple[CurveChart, ...] = ()
    """Curves of the same figures; written beside the page."""


def format_text(table: Table, *, judges: bool = True) -> str:
    """Lay a table out for a terminal; with ``judges`` it says which goals are missed."""
    widths = [max((len(getattr(row, name)) for row in table.rows), default=0) for name in _COLUMNS]
    lines = [table.title]
    for row in table.rows:
        cells = (
            row.what.ljust(widths[0]),
            row.figure.rjust(widths[1]),
            row.ratio.rjust(widths[2]),
            f"goal {_goal(row, '  met', '  MISSED', judges)}" if row.goal else "",
        )
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join([*lines, *(f"  {note}" for note in table.notes)])


def format_markdown(table: Table) -> str:
    """Lay a table out for a page; columns that are empty in every row are left out."""
    has_ratio = any(row.ratio for row in table.rows)
    has_goal = any(row.goal for row in table.rows)
    shown = [True, True, has_ratio, has_goal]
    heads = ["", "", "ratio", "goal"]
    lines = [heads, ["---"] * 4]
    for row in table.rows:
        goal = _goal(row, ", met", ", **missed**", judges=True) if row.goal else ""
        lines.append([_cell(row.what), _cell(row.figure), _cell(row.ratio), _cell(goal)])
    kept = ([cell for cell, keep in zip(line, shown, strict=True) if keep] for line in lines)
    body = "\n".join(f"| {' | '.join(line)} |" for line in kept)
    notes = "".join(f"\n\n{note}" for note in table.notes)
    charts = "".join(f"\n\n![{one.title}](bench/{one.name}.svg)" for one in table.charts)
    return f"**{table.title}**\n\n{body}{notes}{charts}"


def _goal(row: Row, met: str, missed: str, judges: bool) -> str:
    mark = {None: "", True: met, False: missed}[row.met] if judges else ""
    return row.goal + mark


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
