"""What a lead learns of conflicts between its agents: by a tool, and by notices."""

import logging
from collections.abc import Sequence

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ConflictFile

from ..errors import NoSuchAgentError
from ..radar.api import ConflictPair, ConflictReport, RepositoryConflicts
from .agent_text import NOT_A_PERSON, frame_agent_message
from .tool import FleetTool, FleetToolResult
from .tool_context import FleetToolContext, FleetToolServices

__all__ = ["RADAR_TOOLS", "ConflictsArguments", "tell_leads"]

log = logging.getLogger(__name__)

_MOST = 20
"""Files of a pair that are named."""
_KINDS = {"text": "cannot be merged", "symbol": "same symbol", "file": "same file"}
_HINT = "Let one of them wait or change another place; the tool conflicts shows all conflicts."


class ConflictsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``conflicts``: none."""


async def _conflicts(seat: FleetToolContext, a: ConflictsArguments) -> FleetToolResult:
    mine = {info.session for info in await seat.fleet.agents(parent=seat.session)}
    report = await seat.fleet.conflicts()
    found = [_own(one, mine, seat.session) for one in report.repositories]
    lines = [line for one in found for line in _lines(one)]
    told = "\n".join(lines) or "No conflicts between your agents."
    told += "".join(f"\nNote: {problem}" for problem in report.problems)
    return FleetToolResult(text=told, data=_data(found, report))


def _own(report: RepositoryConflicts, mine: set[SessionId], lead: SessionId) -> RepositoryConflicts:
    """What concerns a lead's agents, and the lead with them."""
    near = mine | {lead}
    return RepositoryConflicts(
        repository=report.repository,
        agents=tuple(one for one in report.agents if one.session in near),
        pairs=tuple(
            pair
            for pair in report.pairs
            if (pair.one in mine or pair.other in mine) and {pair.one, pair.other} <= near
        ),
        against_base=tuple(one for one in report.against_base if one.session in mine),
        landing_order=tuple(one for one in report.landing_order if one.session in mine),
    )


def _lines(report: RepositoryConflicts) -> list[str]:
    lines = [_pair_line(pair) for pair in report.pairs]
    lines += [
        f"{one.name} and its base {one.base}: {describe_files(one.files)}"
        for one in report.against_base
    ]
    if lines and len(report.landing_order) > 1:
        order = ", ".join(one.name for one in report.landing_order)
        lines.append(f"Fewest conflicts if landed in this order: {order}")
    return lines


def _pair_line(pair: ConflictPair) -> str:
    where = " (in one directory)" if pair.is_shared else ""
    return f"{pair.one_name} and {pair.other_name}{where}: {describe_files(pair.files)}"


def describe_files(files: Sequence[ConflictFile]) -> str:
    """Files and what is wrong with each, in one line."""
    words = [_file_words(file) for file in files[:_MOST]]
    if len(files) > _MOST:
        words.append(f"{len(files) - _MOST} more files")
    return "; ".join(words)


def _file_words(file: ConflictFile) -> str:
    name = path_line(file.path)
    symbols = f": {', '.join(file.symbols[:5])}" if file.symbols else ""
    return f"{name} ({_KINDS[file.kind]}{symbols})"


def _data(found: Sequence[RepositoryConflicts], report: ConflictReport) -> dict[str, object]:
    pairs = [
        {
            "agents": [pair.one_name, pair.other_name],
            "shared_directory": pair.is_shared,
            "files": [_facts(file) for file in pair.files],
        }
        for one in found
        for pair in one.pairs
    ]
    against = [
        {"agent": base.name, "base": base.base, "files": [_facts(file) for file in base.files]}
        for one in found
        for base in one.against_base
    ]
    order = [proposal.name for one in found for proposal in one.landing_order]
    return {
        "pairs": pairs,
        "against_base": against,
        "landing_order": order,
        "problems": list(report.problems),
    }


def _facts(file: ConflictFile) -> dict[str, object]:
    return {"path": file.path, "kind": file.kind, "symbols": list(file.symbols)}


async def tell_leads(
    bridge: FleetToolServices, one: SessionId, other: SessionId, files: Sequence[ConflictFile]
) -> None:
    """Prompt each lead that wants notices about one of the two, once; it may be one of them."""
    try:
        entries = {session: bridge.current.get(session) for session in (one, other)}
    except NoSuchAgentError:
        return
    told: set[SessionId] = set()
    for session, partner in ((one, other), (other, one)):
        lead = entries[session].wish.parent_session
        if lead is None or lead in told or not bridge.notices.is_watched(session):
            continue
        told.add(lead)
        name = entries[session].name
        whom = "you" if partner == lead else entries[partner].name
        words = f"{name} and {whom} change the same: {describe_files(files)}. {_HINT}"
        framed = frame_agent_message(name, "conflict", words)
        content = (text(f"{NOT_A_PERSON}\n\n{framed}"),)
        try:
            await bridge.fleet.send(lead, content, origin="agent", sender=session)
        except QuarterdeckError as error:
            log.info("%s is not notified about a conflict of %s: %s", lead, session, error)


RADAR_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="conflicts", arguments=ConflictsArguments, run=_conflicts),
)
