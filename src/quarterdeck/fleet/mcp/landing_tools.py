"""The tools of a lead that land the work of its agents and show the conflicts between them.

A lead lands on the branch of its own worktree, whose files are its own too. Any other branch is the
person's, and so is a branch of that name in another repository, or one whose files are checked out
elsewhere: each landing there needs a person's permission. Of new conflicts between its agents a
lead is also notified.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.references import BRANCHES
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import SessionId, new_request_id, new_tool_call_id
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.terminal_text import escape_to_line
from quarterdeck.wire.worktrees import ConflictFile, LandingMethod, Worktree

from ..api import AgentInfo
from ..errors import NoSuchAgentError
from ..landing.api import LandingOptions, LandingPreview, LandingResult
from ..landing.checkout import find_checkouts
from ..radar.api import ConflictPair, ConflictReport, RepositoryConflicts
from .agent_text import NOT_A_PERSON, frame_agent_message
from .tool import FleetTool, FleetToolResult, failed_result
from .tool_context import FleetToolContext, FleetToolServices

__all__ = ["LANDING_TOOLS", "RADAR_TOOLS", "ConflictsArguments", "MergeArguments", "tell_leads"]

log = logging.getLogger(__name__)

_PATIENCE = 3_600.0
_OPTIONS = (
    PermissionOption(option_id="allow", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="deny", name="Deny", kind="reject_once"),
)
_MOST_FILES = 20
_OUTPUT = 4_000


class MergeArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``merge``."""

    agent: Annotated[
        str, Meta(min_length=1, max_length=80, description="A name or id from list_agents.")
    ]
    method: Annotated[
        LandingMethod | None, Meta(description="squash, merge or rebase; default: as configured.")
    ] = None
    into: Annotated[
        str | None,
        Meta(
            description=(
                "A branch; default: your own worktree's. Another needs a person's permission."
            )
        ),
    ] = None
    message: Annotated[
        str | None, Meta(description="Message of the commit; default: from its transcript.")
    ] = None
    hand_back: Annotated[
        bool, Meta(description="Send conflicts back to the agent as a prompt.")
    ] = False


async def _merge(seat: FleetToolContext, a: MergeArguments) -> FleetToolResult:
    child = await seat.own(a.agent)
    own = seat.entry.worktree
    mine = own.branch if own is not None else None
    into = a.into or mine or _base_of(child)
    if into is None:
        return failed_result(f"{child.name} has no worktree, so there is nothing to merge.")
    is_mine = False
    if own is not None and into.removeprefix(BRANCHES) == mine and child.worktree is not None:
        is_mine = await asyncio.to_thread(_is_own_branch, own, child.worktree)
    options = LandingOptions(
        method=a.method,
        into=into,
        message=a.message,
        checkout=True,
        skip_check=is_mine,
        hand_to=child.session if a.hand_back else None,
    )
    if not is_mine:
        preview = await seat.fleet.preview_landing(child.session, options)
        if (problem := _find_problem(preview)) is not None:
            return failed_result(problem)
        if not preview.is_empty and not await _ask_person(seat, preview):
            return failed_result(
                f"A person did not permit to land {child.name} on {preview.target.branch}. "
                "Continue without it."
            )
        options = replace(options, expected=preview.tree)
    result = await seat.fleet.land(child.session, options)
    text = _describe(result)
    data = msgspec.to_builtins(result)
    is_error = result.state not in ("landed", "unchanged")
    return FleetToolResult(text=text, data=data, is_error=is_error)


def _is_own_branch(own: Worktree, child: Worktree) -> bool:
    """Whether landing on the branch of a lead's worktree changes nothing but that worktree."""
    try:
        mine = open_worktree(own.path, own.repository)
        theirs = open_worktree(child.path, child.repository)
        users = find_checkouts(mine, f"{BRANCHES}{own.branch}")
    except GitError:
        return False
    return mine.common_dir == theirs.common_dir and all(
        one.git_dir == mine.git_dir for one in users
    )


def _base_of(child: AgentInfo) -> str | None:
    return child.worktree.base_ref if child.worktree is not None else None


def _find_problem(preview: LandingPreview) -> str | None:
    """Why a person need not be asked."""
    if preview.problem is not None:
        return f"{preview.problem[:1].upper()}{preview.problem[1:]}."
    if preview.conflicts:
        files = ", ".join(path_line(one.path) for one in preview.conflicts[:_MOST_FILES])
        return f"{preview.name} conflicts with {preview.target.branch}: {files}."
    if preview.target.problem is not None and not preview.is_empty:
        return f"{preview.target.problem[:1].upper()}{preview.target.problem[1:]}."
    return None


async def _ask_person(seat: FleetToolContext, preview: LandingPreview) -> bool:
    counts = preview.counts
    title = f"Land {preview.name} on {preview.target.branch} by {preview.method}"
    where = f", updating the files in {preview.target.checkout}" * bool(preview.target.checkout)
    check = f", after the check {preview.check!r}" * bool(preview.check)
    request = PermissionAsked(
        request=new_request_id(),
        call=new_tool_call_id(),
        title=title,
        options=_OPTIONS,
        kind="other",
        reason=f"{counts.files} files, +{counts.added} -{counts.removed}{where}{check}",
    )
    timeout = seat.seconds(None, _PATIENCE)
    return await seat.bridge.asking.permit(seat.session, request, timeout=timeout)


def _describe(result: LandingResult) -> str:
    match result.state:
        case "landed":
            counts = result.counts
            text = (
                f"{result.name} landed on {result.into} as {result.commit[:12]}: {counts.files} "
                f"files, +{counts.added} -{counts.removed}."
            )
        case "unchanged":
            text = f"{result.into} has all of the work of {result.name} already."
        case _:
            text = f"{result.name} was not landed, nothing was changed: {result.reason}."
            text += "".join(f"\n- {path_line(one.path)} ({one.kind})" for one in result.conflicts)
            text += f"\n{result.output[-_OUTPUT:]}" if result.output else ""
            text += f"\n{result.handed_to} was asked to fix it." if result.handed_to else ""
    return f"{text}\n{result.note}" if result.note else text


LANDING_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="merge", arguments=MergeArguments, run=_merge),
)


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
    words = "\n".join(lines) or "No conflicts between your agents."
    words += "".join(f"\nNote: {problem}" for problem in report.problems)
    return FleetToolResult(text=words, data=_data(found, report))


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
    named = ", ".join(escape_to_line(one) for one in file.symbols[:5])
    symbols = f": {named}" if file.symbols else ""
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
    notified: set[SessionId] = set()
    for session, partner in ((one, other), (other, one)):
        lead = entries[session].spawn.parent_session
        if lead is None or lead in notified or not bridge.notices.is_watched(session):
            continue
        notified.add(lead)
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
