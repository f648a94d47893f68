"""The names that can be completed: of agents, sessions, requests, worktrees, terminals, models,
runs of plans.

They come from the host if one runs, else from its log, which is only read. Nothing is started.
Raises whatever goes wrong: completion is silent about it.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.config.places import Places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quarterdeck.fleet.client import HostClient
    from quarterdeck.wire.worktrees import Worktree

__all__ = ["NameKind", "NamePair", "read_names"]

NameKind: TypeAlias = Literal[
    "agent", "vendor", "session", "request", "worktree", "trash", "terminal", "model", "run"
]
NamePair: TypeAlias = tuple[str, str]
"""A name, and what it is in a few words; these may be empty."""

_HOST_SECONDS = 1.0
"""How long the host may take; one that hangs accepts connections all the same."""
_MOST_SESSIONS = 50
_PACKAGE = Path(__file__).parents[2]


def read_names(kind: NameKind) -> list[NamePair]:
    """All names of a kind, those that are most likely meant first."""
    places = Places.find()
    if kind == "vendor":
        return list(_described_agents(places))
    if kind == "model":
        return list(_models(places))
    if kind == "run":
        from quarterdeck.plans.run import list_runs

        return [(one.info.name, Path(one.info.plan).name) for one in list_runs(places)]
    from quarterdeck.fleet.host.lock import holder, lock_file

    if holder(lock_file(places))[0]:
        import asyncio  # late, as all that costs more than a key press may

        try:
            return asyncio.run(_ask_host(places, kind))
        except Exception:
            # A host of another version, or one that hangs: its log can be read all the same.
            return list(_read_log(places, kind))
    return list(_read_log(places, kind))


async def _ask_host(places: Places, kind: NameKind) -> list[NamePair]:
    import asyncio

    from quarterdeck.fleet.client import HostClient

    async with (
        asyncio.timeout(_HOST_SECONDS),
        HostClient.connect(places, name="completion") as fleet,
    ):
        return await _host_names(fleet, places, kind)


async def _host_names(fleet: "HostClient", places: Places, kind: NameKind) -> list[NamePair]:
    match kind:
        case "request":
            return await _host_requests(fleet)
        case "terminal":
            found = await fleet.terminals()
            named = [(one.name, " ".join(one.command)) for one in found]
            return [*((one.id, one.name) for one in found), *named]
        case "trash":
            return [(one.id, one.name) for one in await fleet.trash()]
        case "worktree":
            agents = await fleet.agents(archived=True)
            return list(_worktrees((one.name, one.worktree) for one in agents))
        case "session":
            agents = await fleet.agents(archived=True)
            return [*((one.session, one.name) for one in agents), *_lone_sessions(places)]
        case _:
            return [(one.name, f"{one.agent}, {one.state}") for one in await fleet.agents()]


async def _host_requests(fleet: "HostClient") -> list[NamePair]:
    requests = [
        (one.request, f"{one.name}: {_title(one.permission or one.question)}")
        for one in await fleet.inbox()
    ]
    waiting = [(one.name, "needs you") for one in await fleet.agents() if one.needs_person]
    return [*requests, *waiting]


def _read_log(places: Places, kind: NameKind) -> Iterator[NamePair]:
    if kind == "session":
        yield from _lone_sessions(places)
    if not places.journal_file.exists():
        return
    from quarterdeck.fleet import projections
    from quarterdeck.journal.store import connect_reader

    with closing(connect_reader(places.journal_file)) as log:
        if kind == "request":
            for asked in projections.load_requests(log):
                yield asked.request, _title(asked.event)
            return
        entries = projections.load_unarchived(log)[::-1]
        if kind == "agent":
            yield from ((one.name, f"{one.spawn.options.agent}, {one.state}") for one in entries)
            return
        entries += projections.load_archived(log)
        if kind == "session":
            yield from ((one.session, one.name) for one in entries)
        elif kind == "worktree":
            yield from _worktrees((one.name, one.worktree) for one in entries)


def _worktrees(agents: "Iterable[tuple[str, Worktree | None]]") -> Iterator[NamePair]:
    for name, worktree in agents:
        if worktree is not None:
            yield Path(worktree.path).name, f"{name}, {worktree.branch or 'no branch'}"


def _lone_sessions(places: Places) -> Iterator[NamePair]:
    """Sessions that ran without a host: each has a file of its own."""
    files = sorted(
        (places.state / "sessions").glob("ses_*.db"), key=lambda one: -one.stat().st_mtime
    )
    yield from ((file.stem, "") for file in files[:_MOST_SESSIONS])


def _described_agents(places: Places) -> Iterator[NamePair]:
    # By the names of their files: reading all of them takes longer than a key press may.
    files = [*(_PACKAGE / "drivers" / "agents").glob("*.toml"), *places.agents.glob("*.toml")]
    yield from ((name, "") for name in sorted({file.stem for file in files}))


def _models(places: Places) -> Iterator[NamePair]:
    import json

    known: dict[str, dict[str, object]] = json.loads(
        (_PACKAGE / "models" / "catalogue.json").read_bytes()
    )
    names = [f"{vendor}/{one}" for vendor in known if vendor != "defaults" for one in known[vendor]]
    if places.config_file.exists():
        from quarterdeck.config.loader import load_config

        names = [*load_config(places).settings.models, *names]
    yield from ((name, "") for name in dict.fromkeys((*names, "scripted/default")))


def _title(asked: object) -> str:
    return str(getattr(asked, "title", "") or getattr(asked, "message", "") or "").strip()
