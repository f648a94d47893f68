"""Writes sessions into a capsule: reads the log, the vendors' files and the work tree, once each.

Nothing is held as a whole: a part is packed and hashed as it is read, in a nameless file, and goes
into the container when its digest is known.
"""

import asyncio
import heapq
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck import __version__
from quarterdeck.config.places import Places, make_private
from quarterdeck.drivers.history.files import open_plain
from quarterdeck.drivers.history.history import AgentHistory, AgentHomes
from quarterdeck.drivers.history.session import HistoryError, HistorySession
from quarterdeck.journal import Journal
from quarterdeck.journal.sessions import list_sessions
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record, encode_record
from quarterdeck.wire.redaction import mask_secrets

from ..projections import load_archived, load_unarchived
from ..sessions.retention import find_session_log
from .archive import MANIFEST, SIGNATURE, ArchiveWriter, ByteOutput, PartSpool, part_name
from .errors import CapsuleError
from .manifest import (
    CapsuleFile,
    CapsuleLog,
    CapsuleManifest,
    CapsulePart,
    CapsuleSession,
    CapsuleWorkTree,
    OmittedItem,
    encode_manifest,
    is_session_id,
)
from .secrets_mask import LongLineError, MaskReport, mask_file_lines, mask_record_lines
from .session_facts import SessionFacts
from .signature import sign_manifest
from .vendor_files import CARRIED, NOT_CARRIED, VendorFile, VendorFilesError, VendorHomes
from .work_tree import bundle_work_tree

__all__ = ["ExportOptions", "ProgressCallback", "export_capsule"]

ProgressCallback: TypeAlias = Callable[[str, int, int | None], None]
"""Called with what is done now, the bytes so far and, where known, all of them."""
_PAGE = 200
_CHUNK = 1 << 18
_MANY = 1_000_000


class ExportOptions(Struct, frozen=True, kw_only=True):
    """What goes into a capsule, and how."""

    is_masked: bool = True
    secrets: Mapping[str, str] = {}
    """Variables whose values are masked."""
    has_work_tree: bool = True
    is_thin: bool = False
    """The work tree without commits that branches of remotes have."""
    key: Path | None = None
    """The SSH key that signs it."""


async def export_capsule(
    places: Places,
    sessions: Sequence[str],
    output: ByteOutput,
    options: ExportOptions,
    *,
    homes: AgentHomes,
    progress: ProgressCallback | None = None,
) -> CapsuleManifest:
    """Write sessions, by id or name, each with its tree of sub-agents; returns the manifest.

    Raises:
        NoSuchSessionError: no log has one of them.
        SignatureError: it cannot be signed.
        CapsuleError: a session has an id that no capsule can have.
        OSError: the output or the disk failed.
    """
    folder = await asyncio.to_thread(make_private, places.cache / "capsules")
    export = _Export(folder, output, options, homes, progress)
    for path, root in await _find_roots(places, sessions):
        if root not in export.known:
            async with Journal.open(path, write=False) as journal:
                await export.add_log(journal, root)
    return await export.finish()


async def _find_roots(places: Places, sessions: Sequence[str]) -> list[tuple[Path, SessionId]]:
    found = [await find_session_log(places, name) for name in sessions]
    for _, id_ in found:
        if not is_session_id(id_):
            raise CapsuleError(f"session {id_!r} has an id of another form; it cannot be exported")
    return list(dict.fromkeys(found))


class _Export:
    """One capsule on its way."""

    def __init__(
        self,
        folder: Path,
        output: ByteOutput,
        options: ExportOptions,
        homes: AgentHomes,
        progress: ProgressCallback | None,
    ) -> None:
        self.known: set[SessionId] = set()
        self._folder = folder
        self._archive = ArchiveWriter(output)
        self._options = options
        self._vendors = VendorHomes(homes)
        self._history = AgentHistory(homes)
        self._progress: ProgressCallback = progress or (lambda what, done, total: None)
        self._report = MaskReport()
        self._parts: dict[str, int] = {}
        self._logs: list[CapsuleLog] = []
        self._trees: list[CapsuleWorkTree] = []
        self._tops: dict[str, int | None] = {}
        self._omitted: list[OmittedItem] = []
        self._stored: dict[str, dict[str, HistorySession]] = {}

    async def add_log(self, journal: Journal, root: SessionId) -> None:
        """Take a session with its sub-agents."""
        tree = await journal.query(lambda connection: _find_tree(connection, root))
        facts = {id_: SessionFacts(id_) for id_ in tree}
        async with self._part(f"events of {root}") as part:
            records = _numbered(_merged(journal, tree), facts)
            if self._options.is_masked:
                lines = mask_record_lines(records, self._options.secrets, self._report)
            else:
                lines = _plain_lines(records)
            count = 0
            pending = bytearray()
            async for line in lines:
                count += 1
                pending += line
                if len(pending) >= _CHUNK:
                    await part.write(bytes(pending))
                    pending.clear()
            await part.write(bytes(pending))
        if not count:
            raise CapsuleError(f"session {root!r} has no events; there is nothing to export")
        sessions = [await self._describe(facts[id_]) for id_ in tree]
        log = CapsuleLog(root=root, events=part.digest, records=count, sessions=tuple(sessions))
        self._logs.append(log)
        self.known.update(tree)

    async def finish(self) -> CapsuleManifest:
        """Write the manifest, the signature and the end."""
        report = self._report
        manifest = CapsuleManifest(
            program=f"quarterdeck {__version__}",
            created=read_wall_clock(),
            is_masked=self._options.is_masked,
            logs=tuple(self._logs),
            parts=tuple(CapsulePart(sha256=one, size=size) for one, size in self._parts.items()),
            work_trees=tuple(self._trees),
            masked=tuple(report.places),
            masked_count=report.count,
            omitted=tuple(self._omitted),
        )
        data = encode_manifest(manifest)
        await self._add_member(MANIFEST, data)
        if self._options.key is not None:
            signature = await asyncio.to_thread(sign_manifest, data, self._options.key)
            await self._add_member(SIGNATURE, signature)
        await asyncio.to_thread(self._archive.finish)
        return manifest

    # Parts

    @asynccontextmanager
    async def _part(self, what: str, *, deflates: bool = True) -> AsyncGenerator["_Part"]:
        """A part that is written within; afterwards it is in the container."""
        spool = PartSpool(self._folder, deflates=deflates)
        with spool:
            part = _Part(spool, lambda size: self._progress(what, size, None))
            yield part
            await asyncio.to_thread(spool.finish)
            part.digest = spool.digest
            if part.digest not in self._parts:
                self._parts[part.digest] = spool.size
                await asyncio.to_thread(self._archive.add, part_name(part.digest), spool)

    async def _add_member(self, name: str, data: bytes) -> None:
        with PartSpool(self._folder) as spool:
            spool.write(data)
            spool.finish()
            await asyncio.to_thread(self._archive.add, name, spool)

    # Sessions

    async def _describe(self, facts: SessionFacts) -> CapsuleSession:
        session = facts.describe()
        if self._options.is_masked:
            session = _mask_session(session, self._options.secrets)
        if facts.has_checkpoints:
            self._omit(session, "undo", "what files were before each turn stays where it is")
        if facts.unset:
            named = ", ".join(facts.unset[:10])
            self._omit(session, "values", f"the log does not keep the values of {named}")
        session = replace(session, files=await self._vendor_files(session))
        if not self._options.has_work_tree:
            return session
        place, inside = await self._work_tree(session)
        return replace(session, work_tree=place, inside=inside)

    def _omit(self, session: CapsuleSession, what: str, why: str) -> None:
        self._omitted.append(OmittedItem(what=what, why=why, session=session.id))

    async def _vendor_files(self, session: CapsuleSession) -> tuple[CapsuleFile, ...]:
        agent, theirs = session.agent, session.agent_session
        if agent == "native" or theirs is None:
            return ()
        what = f"{agent} session files"
        if agent not in CARRIED:
            why = NOT_CARRIED.get(agent, "where it keeps its sessions is not known")
            self._omit(session, what, why)
            return ()
        try:
            past = (await self._history_of(agent)).get(theirs)
            if past is None:
                raise VendorFilesError(f"the files of {theirs!r} are not on this machine")
            files = await asyncio.to_thread(self._vendors.find_files, past)
            if self._options.is_masked and any(one.path.suffix == ".zst" for one in files):
                raise VendorFilesError("they are compressed, so nothing in them can be masked")
            return tuple([await self._vendor_file(one, session) for one in files])
        except (CapsuleError, HistoryError, LongLineError, OSError) as error:
            self._omit(session, what, str(error))
            return ()

    async def _history_of(self, agent: str) -> Mapping[str, HistorySession]:
        if agent not in self._stored:
            listed = await self._history.list(None, agent=agent, limit=None)
            if reason := listed.failures.get(agent):
                raise VendorFilesError(reason)
            self._stored[agent] = {past.id: past for past in listed.sessions}
        return self._stored[agent]

    async def _vendor_file(self, file: VendorFile, session: CapsuleSession) -> CapsuleFile:
        where = f"{session.agent} file {file.name}"
        async with self._part(where, deflates=file.path.suffix != ".zst") as part:
            await asyncio.to_thread(self._copy_vendor_file, file.path, part, where)
        return CapsuleFile(name=file.name, sha256=part.digest)

    def _copy_vendor_file(self, path: Path, part: "_Part", where: str) -> None:
        with open_plain(path) as source:
            if self._options.is_masked:
                lines = mask_file_lines(source, self._options.secrets, self._report, where)
                for line in lines:
                    part.put(line)
                return
            while data := source.read(_CHUNK):
                part.put(data)

    # Work trees

    async def _work_tree(self, session: CapsuleSession) -> tuple[int | None, str]:
        """Its place among the work trees, and where in it the session worked."""
        if not session.cwd:
            return None, ""
        try:
            repository = await asyncio.to_thread(_find_repository, session.cwd)
        except (GitError, OSError) as error:
            self._omit(session, "work tree", str(error))
            return None, ""
        if repository is None:
            self._omit(session, "work tree", f"{session.cwd!r} is not in a git repository here")
            return None, ""
        if repository.top not in self._tops:
            self._tops[repository.top] = None
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._folder))
            try:
                self._tops[repository.top] = await self._bundle(repository.top, folder, session)
            except (GitError, OSError) as error:
                self._omit(session, "work tree", str(error))
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, True)
        place = self._tops[repository.top]
        if place is None:
            return None, ""
        inside = await asyncio.to_thread(_inside, session.cwd, repository.top)
        return place, inside

    async def _bundle(self, top: str, folder: Path, session: CapsuleSession) -> int:
        repository = await asyncio.to_thread(find_repository, top)
        assert repository is not None
        self._progress(f"work tree {top}", 0, None)
        made = await asyncio.to_thread(
            lambda: bundle_work_tree(
                repository,
                folder,
                environment=self._options.secrets if self._options.is_masked else None,
                report=self._report,
                is_thin=self._options.is_thin,
            )
        )
        async with self._part(f"work tree {top}", deflates=False) as part:
            await asyncio.to_thread(_copy_file, made.path, part)
        for name in made.unexamined:
            self._omit(session, "masking", f"{name!r} is too large to be looked through")
        for name in made.repositories:
            self._omit(session, "files", f"{name!r} is a repository of its own")
        is_sha256 = made.object_format == "sha256"
        tree = CapsuleWorkTree(
            bundle=part.digest,
            base=made.base,
            tree=made.tree,
            branch=made.branch,
            object_format="sha256" if is_sha256 else "sha1",
            needs=made.needs,
        )
        self._trees.append(tree)
        return len(self._trees) - 1


class _Part:
    """What a part is written through; ``digest`` is known afterwards."""

    def __init__(self, spool: PartSpool, progress: Callable[[int], None]) -> None:
        self.digest = ""
        self._spool = spool
        self._progress = progress

    async def write(self, data: bytes) -> None:
        """Take bytes, off the event loop."""
        await asyncio.to_thread(self.put, data)

    def put(self, data: bytes) -> None:
        """Take bytes; blocks."""
        self._spool.write(data)
        self._progress(self._spool.size)


def _copy_file(path: Path, part: _Part) -> None:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            part.put(data)


def _find_repository(cwd: str) -> GitRepository | None:
    return find_repository(cwd) if Path(cwd).is_dir() else None


def _inside(cwd: str, top: str) -> str:
    below = Path(cwd).resolve().relative_to(top)
    return "" if below == Path() else PurePosixPath(below).as_posix()


def _mask_session(session: CapsuleSession, secrets: Mapping[str, str]) -> CapsuleSession:
    """Titles and prompts are text of people and agents."""
    title = session.title and mask_secrets(session.title, secrets)
    queue = tuple(replace(one, text=mask_secrets(one.text, secrets)) for one in session.queue)
    grants = tuple(
        replace(one, pattern=mask_secrets(one.pattern, secrets)) for one in session.grants
    )
    return replace(session, title=title, queue=queue, grants=grants)


def _find_tree(connection: sqlite3.Connection, root: SessionId) -> list[SessionId]:
    """A session and all below it, parents before their children."""
    below: dict[str, list[str]] = {}
    for row in reversed(list_sessions(connection, limit=_MANY)):
        if row.parent is not None:
            below.setdefault(row.parent, []).append(row.id)
    try:
        for entry in (*load_unarchived(connection), *load_archived(connection)):
            parent = entry.spawn.parent_session
            if parent is not None and entry.session not in below.get(parent, ()):
                below.setdefault(parent, []).append(entry.session)
    except sqlite3.OperationalError:
        pass  # a log of its own has no roster
    found: dict[str, None] = {root: None}
    waiting = [root]
    while waiting:
        for child in below.get(waiting.pop(0), ()):
            if child not in found and is_session_id(child):
                found[child] = None
                waiting.append(SessionId(child))
    return [SessionId(one) for one in found]


async def _merged(journal: Journal, sessions: Sequence[SessionId]) -> AsyncIterator[Record]:
    """The records of several sessions in the order of the log, up to where it is now."""
    last = journal.last
    pages: dict[SessionId, list[Record]] = {}
    heads: list[tuple[int, SessionId]] = []
    size = max(10, _PAGE // len(sessions))

    async def advance(session: SessionId, after: int) -> None:
        page = pages.get(session)
        if not page:
            page = pages[session] = await journal.read(after, session, limit=size)
            page.reverse()
        if page and page[-1].seq <= last:
            heapq.heappush(heads, (page[-1].seq, session))

    for session in sessions:
        await advance(session, 0)
    while heads:
        seq, session = heapq.heappop(heads)
        yield pages[session].pop()
        await advance(session, seq)


async def _numbered(
    records: AsyncIterator[Record], facts: Mapping[SessionId, SessionFacts]
) -> AsyncIterator[Record]:
    """The same, numbered from 1; each is noted."""
    number = 0
    async for record in records:
        number += 1
        facts[record.session].take(record)
        yield replace(record, seq=number)


async def _plain_lines(records: AsyncIterator[Record]) -> AsyncIterator[bytes]:
    async for record in records:
        yield encode_record(record) + b"\n"
