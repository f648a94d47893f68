"""``conflicts``: which agents change what others change too."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import click
import msgspec

from quarterdeck.wire.events import (
    ChangesCounted,
    ChangesLanded,
    ConflictChanged,
    SessionChanged,
    WorktreeAssigned,
    WorktreeReleased,
)

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    plain_json,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from ..output import echo, escape_to_line, table
from .exit_codes import CONFLICTS, OK

if TYPE_CHECKING:
    from quarterdeck.fleet.api import Fleet
    from quarterdeck.fleet.radar.api import ConflictReport, RadarAgent, RepositoryConflicts
    from quarterdeck.wire.worktrees import ConflictFile

__all__ = ["conflicts", "format_report"]

_SETTLE = 0.3
"""Seconds in which several changes are shown at once."""
_KINDS = {"text": "cannot be merged", "symbol": "same symbol", "file": "same file"}
_SHOWN_FILES = 20
_NONE = "·"
_NEWS = (
    *(ConflictChanged, ChangesCounted, ChangesLanded, WorktreeAssigned, WorktreeReleased),
    SessionChanged,
)


@click.command()
@click.option(
    "-a", "--all", "everywhere", is_flag=True, help="All repositories, not only this one."
)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@as_json_option
@click.pass_context
def conflicts(context: click.Context, everywhere: bool, watch: bool, as_json: bool) -> None:
    """Show which agents change what others change too, before anything is committed.

    Compares the worktrees of all agents of the repository around the current directory, in pairs
    and with their base branches. Exits with 7 if git cannot merge some of it. With --watch and
    --json, each report is one line.
    """
    cwd = None if everywhere else resolve_directory(None)
    if watch:
        with_fleet(lambda fleet: _watch(fleet, cwd, as_json))
        return
    report = with_fleet(lambda fleet: fleet.conflicts(cwd))
    if as_json:
        echo_json(report)
    else:
        echo_lines(format_report(report, terminal_width(), everywhere=everywhere))
    context.exit(CONFLICTS if _has_conflicts(report) else OK)


def _has_conflicts(report: "ConflictReport") -> bool:
    return any(
        file.kind == "text"
        for one in report.repositories
        for some in (*one.pairs, *one.against_base)
        for file in some.files
    )


async def _watch(fleet: "Fleet", cwd: str | None, as_json: bool) -> None:
    shown: ConflictReport | None = None
    async with aclosing(_reports(fleet, cwd)) as reports:
        async for report in reports:
            if report == shown:
                continue
            if as_json:
                echo(plain_json(msgspec.json.encode(report)))
            else:
                if shown is not None:
                    echo()
                echo_lines(format_report(report, terminal_width(), everywhere=cwd is None))
            shown = report


async def _reports(fleet: "Fleet", cwd: str | None) -> "AsyncGenerator[ConflictReport]":
    """A report now, and after each thing that may have changed it."""
    changed = asyncio.Event()
    changed.set()

    async def follow() -> None:
        async with aclosing(fleet.follow()) as records:
            async for record in records:
                if isinstance(record.event, _NEWS):
                    changed.set()

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow())
        try:
            while True:
                await changed.wait()
                await asyncio.sleep(_SETTLE)
                changed.clear()
                yield await fleet.conflicts(cwd)
        finally:
            following.cancel()


def format_report(
    report: "ConflictReport", width: int | None, *, everywhere: bool = False
) -> Iterator[str]:
    """A report as lines for people; foreign names are escaped."""
    if not report.repositories:
        where = "" if everywhere else " in this repository; --all shows all repositories"
        yield f"No agents with worktrees{where}."
    for place, one in enumerate(report.repositories):
        if place:
            yield ""
        yield from _repository_lines(one, width)
    for problem in report.problems:
        yield f"Note: {escape_to_line(problem)}"


def _repository_lines(report: "RepositoryConflicts", width: int | None) -> Iterator[str]:
    yield escape_to_line(report.repository)
    yield from table(*_matrix(report), width)
    if not report.pairs and not report.against_base:
        yield "No conflicts."
        return
    yield f"{_NONE} none, 2 files that git cannot merge, ~2 files that both change"
    for pair in report.pairs:
        shared = ", in one directory" if pair.is_shared else ""
        yield ""
        yield f"{escape_to_line(pair.one_name)} and {escape_to_line(pair.other_name)}{shared}"
        yield from _file_lines(pair.files, width)
    for base in report.against_base:
        yield ""
        yield f"{escape_to_line(base.name)} and its base {escape_to_line(base.base)}"
        yield from _file_lines(base.files, width)
    if len(report.landing_order) > 1:
        names = ", ".join(escape_to_line(one.name) for one in report.landing_order)
        yield ""
        yield f"Fewest conflicts in this order: {names}"


def _matrix(report: "RepositoryConflicts") -> tuple[list[str], list[list[str]]]:
    """Agents below each other and side by side, by number."""
    cells: dict[tuple[str, str], str] = {}
    for pair in report.pairs:
        cell = _cell(pair.files)
        cells[pair.one, pair.other] = cells[pair.other, pair.one] = cell
    bases = {one.session: _cell(one.files) for one in report.against_base}
    numbers = [str(number) for number in range(1, len(report.agents) + 1)]
    head = ["", "AGENT", "BRANCH", "CHANGES", "BASE", *numbers]
    rows = [
        [
            number,
            agent.name,
            agent.branch or "-",
            _changes(agent),
            bases.get(agent.session, _NONE if agent.base else "-"),
            *(
                "" if agent is other else cells.get((agent.session, other.session), _NONE)
                for other in report.agents
            ),
        ]
        for number, agent in zip(numbers, report.agents, strict=True)
    ]
    return head, rows


def _cell(files: "Sequence[ConflictFile]") -> str:
    unmerged = sum(file.kind == "text" for file in files)
    return str(unmerged) if unmerged else f"~{len(files)}"


def _changes(agent: "RadarAgent") -> str:
    counts = agent.changes
    if counts is None:
        return "-"
    if agent.is_landed:
        return "landed"
    words = f"{counts.files} file{'s' * (counts.files != 1)}"
    return f"{words} +{counts.added} -{counts.removed}" if counts.files else "none"


def _file_lines(files: "Sequence[ConflictFile]", width: int | None) -> Iterator[str]:
    rows = [(_KINDS[file.kind], file.path, ", ".join(file.symbols)) for file in files]
    lines = list(table(("", "", ""), rows[:_SHOWN_FILES], None if width is None else width - 2))
    for line in lines[1:]:
        yield f"  {line}"
    if len(rows) > _SHOWN_FILES:
        yield f"  and {len(rows) - _SHOWN_FILES} more files; --json shows all"
