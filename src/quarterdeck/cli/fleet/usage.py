"""``usage``: tokens and money, by agent, tree, project, vendor, model, day or turn."""

import csv
import datetime
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.clock import format_local_time, read_wall_clock

from ..command_io import as_json_option, echo_json, echo_lines, terminal_width, with_fleet
from ..output import count, escape_to_line, table, write_output

if TYPE_CHECKING:
    from quarterdeck.fleet.usage.api import UsageReport, UsageRow

__all__ = ["Day", "format_usage", "usage"]

_DAY = 86_400 * 1_000_000
_UNITS = {"d": 1, "w": 7}
_MOST_NAMED = 5
_SORTS = ("agent", "tree", "project", "vendor", "model", "day", "turn")


class Day(click.ParamType[str]):
    """A local day: ``2026-11-09``, or so many days or weeks ago (``7d``, ``2w``)."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The day as ``YYYY-MM-DD``."""
        text = str(value).strip()
        if text[:-1].isascii() and text[:-1].isdigit() and text[-1:] in _UNITS and len(text) < 6:
            back = int(text[:-1]) * _UNITS[text[-1]]
            if day := format_local_time(read_wall_clock() - back * _DAY, "%Y-%m-%d"):
                return day
        try:
            return datetime.date.fromisoformat(text).isoformat()
        except ValueError:
            self.fail(f"{text!r} is not a day; write it as 2026-11-09, 7d or 2w", param, ctx)


@click.command()
@click.option(
    "--by", type=click.Choice(_SORTS), default="agent", show_default=True, help="What to add up."
)
@click.option(
    "--since", type=Day(), metavar="DAY", help="From this day on: 2026-11-09, 7d, 2w. Default: all."
)
@click.option("--agent", metavar="NAME", help="Only this agent and all that it started.")
@click.option(
    "--runs/--no-runs",
    default=True,
    help="With or without sessions of `run` and of editors, which have own logs. Default: with.",
)
@as_json_option
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV.")
def usage(
    by: Any, since: str | None, agent: str | None, runs: bool, as_json: bool, as_csv: bool
) -> None:
    """Show what agents used, and what it cost.

    Everything is counted once, on the day on which it was used. Costs that an agent reports count;
    otherwise they are computed by the prices of the catalogue. A cost that is not known is
    "unknown", not zero.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv cannot be used together")
    report = with_fleet(lambda fleet: fleet.usage(by, since=since, agent=agent, runs=runs))
    if as_json:
        echo_json(report)
    elif as_csv:
        write_output(_write_csv(report))
    else:
        echo_lines(format_usage(report, terminal_width()))


_HEADS = {
    "agent": "AGENT",
    "tree": "LEAD",
    "project": "PROJECT",
    "vendor": "VENDOR",
    "model": "MODEL",
    "day": "DAY",
    "turn": "AGENT",
}


def format_usage(report: "UsageReport", width: int | None) -> Iterator[str]:
    """A report as lines for people; foreign names are escaped."""
    since = f" since {report.since}" if report.since else ""
    if not report.rows:
        yield f"No usage{since}."
        return
    head = (_HEADS[report.by], "INPUT", "CACHED", "OUTPUT", "THINKING", "TOTAL", "COST")
    rows = [_cells(row, report.by) for row in report.rows]
    if len(rows) > 1:
        rows.append(("all", *_cells(report.total, report.by)[1:]))
    yield from table(head, rows, width)
    notes = list(_notes(report))
    if notes:
        yield ""
        yield from notes


def _cells(row: "UsageRow", by: str) -> tuple[str, ...]:
    tokens = row.tokens
    figures = (tokens.input, tokens.cached + tokens.cache_written, tokens.output, tokens.thought)
    name = row.name
    if by == "turn":
        name = f"{row.name} {format_local_time(row.first)}"
    return name, *(count(one) for one in figures), count(tokens.total), _cost(row)


def _cost(row: "UsageRow") -> str:
    parts = [f"{amount:.2f} {escape_to_line(currency)}" for currency, amount in row.costs.items()]
    if row.computed and parts:
        parts = [f"~{part}" if part.endswith(" USD") else part for part in parts]
    if row.unpriced:
        parts.append("unknown" if not parts else f"+ unknown for {count(row.unpriced)}")
    return " ".join(parts) or "-"


def _notes(report: "UsageReport") -> Iterator[str]:
    total = report.total
    if total.computed:
        yield (
            f"~ in part computed by list prices of {report.prices_of}, where agents report no cost."
        )
    if total.unpriced:
        names = [escape_to_line(name) for name in report.unpriced_models[:_MOST_NAMED]]
        more = len(report.unpriced_models) - len(names)
        models = ", ".join((*names, *([f"{more} more"] if more else []))) or "an unknown model"
        yield (
            f"unknown: {count(total.unpriced)} tokens whose cost no agent reports; no price for "
            f"{models}. Set it in the settings (models.NAME.prices)."
        )
    if report.ignored:
        yield f"{report.ignored} reports of agents cannot be true and were left out."


_COLUMNS = (
    *("name", "session", "turn", "input", "cached", "cache_written", "output", "thought", "total"),
    *("currency", "reported", "computed_usd", "unpriced_tokens", "first", "last"),
)


def _write_csv(report: "UsageReport") -> str:
    """A line for each row, and a further one for each further currency."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in report.rows:
        tokens = row.tokens
        figures = (tokens.input, tokens.cached, tokens.cache_written, tokens.output)
        first, *more = [*row.reported.items()] or [("", "")]
        writer.writerow(
            (
                *(_plain(row.name), row.session or "", row.turn or "", *figures),
                *(tokens.thought, tokens.total, *first, f"{row.computed:.6f}", row.unpriced),
                *(row.first, row.last),
            )
        )
        for currency, amount in more:
            blank = ("",) * 6
            name = (_plain(row.name), row.session or "", row.turn or "")
            writer.writerow((*name, *blank, currency, amount, "", "", "", ""))
    return out.getvalue()


def _plain(name: str) -> str:
    """A name on one line that no table program reads as a formula."""
    text = escape_to_line(name)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
