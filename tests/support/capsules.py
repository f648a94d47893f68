"""Homes, sessions and capsules for tests; containers that no export would write."""

import asyncio
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from quarterdeck.config.places import Places
from quarterdeck.drivers.history.history import AgentHomes
from quarterdeck.fleet.capsule.exporter import ExportOptions, export_capsule
from quarterdeck.fleet.capsule.importer import ImportOptions, ImportReport, import_capsule
from quarterdeck.fleet.capsule.manifest import CapsuleManifest
from quarterdeck.fleet.capsule.reader import open_capsule
from quarterdeck.journal import Journal
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    Prompted,
    SessionEnded,
    SessionOpened,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, TurnId, new_message_id, new_session_id, new_turn_id

__all__ = [
    "Machine",
    "events_of",
    "files_below",
    "read_members",
    "rewrite_capsule",
    "short_session",
    "write_members",
]

TIME = 1_793_520_000_000_000
Entry = tuple[SessionId, Event, TurnId | None]


class Machine:
    """A home of this program and of the vendors, as on a machine of its own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.home = directory
        self.places = Places.find({"QUARTERDECK_HOME": str(directory / "quarterdeck")})
        self.homes = AgentHomes.find({"HOME": str(directory)})

    def record(self, entries: Iterable[Entry], *, in_host: bool = False) -> None:
        """Write a log: the first session's own, or the host's."""
        asyncio.run(self._record(list(entries), in_host))

    async def _record(self, entries: list[Entry], in_host: bool) -> None:
        own = self.places.state / "sessions" / f"{entries[0][0]}.db"
        path = self.places.journal_file if in_host else own
        async with Journal.open(path, owns_directory=True) as journal:
            for number, (session, event, turn) in enumerate(entries):
                await journal.append(session, event, turn=turn, time=TIME + number)

    def export(self, file: Path, *sessions: str, **options: Any) -> CapsuleManifest:
        """Write a capsule."""

        async def run() -> CapsuleManifest:
            with file.open("wb") as output:
                return await export_capsule(
                    self.places, sessions, output, ExportOptions(**options), homes=self.homes
                )

        return asyncio.run(run())

    def take(self, file: Path, **options: Any) -> ImportReport:
        """Import a capsule."""
        return asyncio.run(self.take_later(file, **options))

    async def take_later(
        self, file: Path, *, progress: Callable[..., None] | None = None, **options: Any
    ) -> ImportReport:
        """The same, in a loop that is running."""
        return await import_capsule(
            self.places, file, ImportOptions(**options), homes=self.homes, progress=progress
        )

    def read(self, session: str) -> list[Event]:
        """The events of a session in its own log."""

        async def run() -> list[Event]:
            path = self.places.state / "sessions" / f"{session}.db"
            async with Journal.open(path, write=False) as journal:
                return [record.event async for record in journal.history(0, SessionId(session))]

        return asyncio.run(run())


def short_session(
    cwd: str, *words: str, agent: str = "native", theirs: str | None = None
) -> list[Entry]:
    """A session with a turn for each of the words; its first entry has its id."""
    id_ = new_session_id()
    opened = SessionOpened(agent=agent, cwd=cwd, title="A session", agent_session=theirs)
    entries: list[Entry] = [(id_, opened, None)]
    for word in words:
        turn, message = new_turn_id(), new_message_id()
        entries += [
            (id_, Prompted(content=(text(word),), message=message), None),
            (id_, TurnStarted(prompt=message), turn),
            (id_, MessageChunk(content=text(f"You wrote {word}.")), turn),
            (id_, TurnEnded(stop="end_turn"), turn),
        ]
    return [*entries, (id_, SessionEnded(how="closed"), None)]


def events_of(file: Path) -> list[list[dict[str, Any]]]:
    """The records of each log in a capsule."""
    with open_capsule(file) as opened:
        parts = {part.sha256: part for part in opened.manifest.parts}
        data = [
            b"".join(opened.stream(parts[digest]))
            for digest in dict.fromkeys(log.events for log in opened.manifest.logs)
        ]
    return [[json.loads(line) for line in one.splitlines()] for one in data]


def read_members(file: Path) -> list[tuple[str, bytes]]:
    """The members of a capsule, as any zip program has them."""
    with zipfile.ZipFile(file) as container:
        return [(one.filename, container.read(one)) for one in container.infolist()]


def write_members(
    file: Path,
    members: Sequence[tuple[str | zipfile.ZipInfo, bytes]],
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """A container with these members, whatever they are."""
    with zipfile.ZipFile(file, "w", compression) as container:
        for name, data in members:
            info = zipfile.ZipInfo(name) if isinstance(name, str) else name
            info.compress_type = compression
            container.writestr(info, data)
    return file


def rewrite_capsule(source: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A capsule with another manifest."""
    members = read_members(source)
    name, data = members[-1]
    manifest = json.loads(data)
    change(manifest)
    return write_members(target, [*members[:-1], (name, json.dumps(manifest).encode())])


def files_below(directory: Path) -> set[str]:
    """Every file below a directory but locks and the empty folders of ours."""
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and path.name != "lock"
    }
