"""The radar's report: conflicts by repository, and the order in which landing meets the fewest."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ConflictFile

from ..agent_entry import AgentEntry
from .api import (
    BaseConflict,
    ConflictPair,
    LandingProposal,
    RadarAgent,
    RepositoryConflicts,
)
from .pairs import BaseComparison
from .worktree_state import WorktreeState

__all__ = ["RadarMember", "make_repository_report", "propose_order"]


class RadarMember(Struct, frozen=True, kw_only=True):
    """An agent of a repository and what is known of its work."""

    entry: AgentEntry
    state: WorktreeState | None = None
    base: BaseComparison = BaseComparison()


def make_repository_report(
    repository: str,
    members: Sequence[RadarMember],
    shared: Mapping[tuple[SessionId, SessionId], tuple[ConflictFile, ...]],
) -> RepositoryConflicts:
    """Everything about one repository. ``shared``: what pairs of its agents both change."""
    entries = {member.entry.session: member.entry for member in members}
    pairs = tuple(
        _pair(entries[one], entries[other], files)
        for (one, other), files in sorted(shared.items(), key=lambda item: _weight(item[1]))
        if files and one in entries and other in entries
    )
    against = tuple(
        BaseConflict(
            session=member.entry.session,
            name=member.entry.name,
            base=_base_name(member.entry),
            files=member.base.conflicts,
        )
        for member in members
        if member.base.conflicts
    )
    return RepositoryConflicts(
        repository=repository,
        agents=tuple(_agent(member) for member in members),
        pairs=pairs,
        against_base=against,
        landing_order=propose_order(members, pairs),
    )


def _weight(files: Sequence[ConflictFile]) -> tuple[int, int]:
    return -sum(file.kind == "text" for file in files), -len(files)


def _pair(one: AgentEntry, other: AgentEntry, files: tuple[ConflictFile, ...]) -> ConflictPair:
    return ConflictPair(
        one=one.session,
        one_name=one.name,
        other=other.session,
        other_name=other.name,
        files=files,
        is_shared=_directory(one) == _directory(other)
        or one.worktree is None
        or other.worktree is None,
    )


def _directory(entry: AgentEntry) -> str:
    return entry.worktree.path if entry.worktree is not None else entry.wish.options.cwd


def _base_name(entry: AgentEntry) -> str:
    worktree = entry.worktree
    return "" if worktree is None else worktree.base_ref or worktree.base[:10]


def _agent(member: RadarMember) -> RadarAgent:
    entry, worktree = member.entry, member.entry.worktree
    return RadarAgent(
        session=entry.session,
        name=entry.name,
        directory=_directory(entry),
        branch=worktree.branch if worktree is not None else None,
        base=_base_name(entry) or None,
        changes=member.state.counts if member.state is not None else None,
        is_landed=member.base.is_landed,
    )


def propose_order(
    members: Iterable[RadarMember], pairs: Iterable[ConflictPair]
) -> tuple[LandingProposal, ...]:
    """Agents with changes that have not landed; who conflicts least comes first."""
    hard: dict[SessionId, int] = {}
    soft: dict[SessionId, int] = {}
    for pair in pairs:
        unmerged = sum(file.kind == "text" for file in pair.files)
        for session in (pair.one, pair.other):
            hard[session] = hard.get(session, 0) + unmerged
            soft[session] = soft.get(session, 0) + len(pair.files) - unmerged
    found = [
        LandingProposal(
            session=member.entry.session,
            name=member.entry.name,
            conflicts=hard.get(member.entry.session, 0) + len(member.base.conflicts),
            shared=soft.get(member.entry.session, 0),
        )
        for member in members
        if member.state is not None and member.state.changes and not member.base.is_landed
    ]
    spawned = {member.entry.session: member.entry.spawned for member in members}
    found.sort(key=lambda one: (one.conflicts, one.shared, spawned[one.session], one.session))
    return tuple(found)
