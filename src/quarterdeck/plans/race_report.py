"""The comparison of contenders: ranked, and written as a table, JSON, Markdown and HTML."""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence

from quarterdeck.wire.terminal_text import count as count_short
from quarterdeck.wire.terminal_text import escape_controls, escape_to_line

from .progress import ContenderReport

__all__ = [
    "REPORT_HEAD",
    "describe_costs",
    "make_report_html",
    "make_report_markdown",
    "make_report_rows",
    "rank_contenders",
]

REPORT_HEAD = (
    *("CONTENDER", "STATE", "CHECKS", "FILES", "+", "-", "TIME", "TOKENS", "COST", "ASKED"),
    *("ATTEMPTS", "NOTE"),
)


def rank_contenders(
    reports: Iterable[ContenderReport], rank: Sequence[str]
) -> list[ContenderReport]:
    """Contenders, the best first; those that passed before all others."""

    def place(report: ContenderReport) -> tuple[float, ...]:
        # A cost that is not known is not the lowest.
        cost = sum(report.costs.values()) if report.costs else float("inf")
        values = {
            "checks": -float(report.passed_checks),
            "diff": float(report.added + report.removed),
            "cost": cost,
            "time": report.seconds,
        }
        return (float(report.state != "passed"), *(values[rule] for rule in rank))

    return sorted(reports, key=place)


def make_report_rows(
    reports: Iterable[ContenderReport], winner: str = ""
) -> Iterator[tuple[str, ...]]:
    """A row for each contender, as texts; foreign parts are literal, one line each."""
    for one in reports:
        state = "won" if one.contender == winner else one.state
        note = one.reason or (f"{one.repeated} turn repeated" if one.repeated else "")
        row = (
            *(one.contender, state, f"{one.passed_checks}/{len(one.checks)}"),
            *(str(one.files), str(one.added), str(one.removed), f"{one.seconds:.0f}s"),
            *(count_short(one.tokens), describe_costs(one.costs), str(one.permissions)),
            *(str(one.attempts), note),
        )
        yield tuple(escape_to_line(cell) for cell in row)


def describe_costs(costs: Mapping[str, float]) -> str:
    """Money by currency; nothing is known about it: ``?``."""
    return ", ".join(f"{amount:.2f} {name}" for name, amount in sorted(costs.items())) or "?"


def make_report_markdown(title: str, reports: Sequence[ContenderReport], winner: str) -> str:
    """The comparison as Markdown; what agents and checks wrote is quoted."""
    lines = [f"# {_plain(title)}", "", _markdown_row(REPORT_HEAD), "|" + "---|" * len(REPORT_HEAD)]
    lines += [_markdown_row(row) for row in make_report_rows(reports, winner)]
    for one in reports:
        lines += ["", f"## {_plain(one.contender)}", ""]
        lines += [
            f"- {'passed' if check.passed else 'failed'}: {_plain(check.name)}"
            + (f" ({_plain(check.reason)})" if check.reason else "")
            for check in one.checks
        ]
        if one.output:
            lines += ["", *(f"    {escape_to_line(line)}" for line in one.output.splitlines())]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _plain(text: str) -> str:
    """Text in which Markdown and HTML find nothing to act on."""
    shown = escape_to_line(text)
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|&!~" else letter for letter in shown)


_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #8888;padding:.2rem .6rem;"
    "text-align:left}pre{background:#8881;padding:.6rem;white-space:pre-wrap}"
)


def make_report_html(title: str, reports: Sequence[ContenderReport], winner: str) -> str:
    """The comparison as a page that needs nothing else; everything foreign is escaped."""
    head = "".join(f"<th>{html.escape(one.title())}</th>" for one in REPORT_HEAD)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in make_report_rows(reports, winner)
    )
    parts = "".join(_html_part(one) for one in reports)
    name = _escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'unsafe-inline'\"><style>{_STYLE}</style></head>\n<body><h1>{name}</h1>\n"
        f"<table><tr>{head}</tr>\n{rows}</table>\n{parts}</body></html>\n"
    )


def _html_part(one: ContenderReport) -> str:
    checks = "".join(
        f"<li>{'passed' if check.passed else 'failed'}: {_escape(check.name)}"
        f"{f' ({_escape(check.reason)})' if check.reason else ''}</li>"
        for check in one.checks
    )
    words = html.escape(escape_controls(one.output, keep="\n\t"))
    output = f"<pre>{words}</pre>" if words else ""
    return f"<h2>{_escape(one.contender)}</h2><ul>{checks}</ul>{output}\n"


def _escape(text: str) -> str:
    return html.escape(escape_to_line(text))
