"""Takes a capsule in: every byte is checked and all is prepared aside, then it appears in one step.

A session becomes a log of its own (``sessions/ID.db``) with its sub-agents in it, as if it had run
without a host.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.drivers.history.history import AgentHistory, AgentHomes
from quarterdeck.journal import Journal
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import MalformedRecordError, NewerVersionError
from quarterdeck.wire.ids import SessionId, new_session_id
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.record import Record, decode_record
from quarterdeck.wire.tasks import run_to_end
from quarterdeck.wire.values import Value

from .archive import CapsuleLimits
from .errors import CapsuleError, CapsuleRefusedError, WorkTreeError
from .exporter import ProgressCallback
from .import_stage import ImportStage, open_stage
from .log_rewriter import LogRewriter
from .manifest import CapsuleLog, CapsulePart, CapsuleSession, OmittedItem
from .reader import OpenCapsule, open_capsule
from .signature import CapsuleSignature
from .vendor_files import VendorFilesError, VendorHomes
from .work_tree import RestoredTree, place_beside, restore_work_tree

__all__ = [
    "CapsuleOrigin",
    "ImportOptions",
    "ImportReport",
    "MovedSession",
    "check_signer",
    "import_capsule",
]

_ROOM = 64 << 20
"""Bytes that stay free on the disk."""


class ImportOptions(Struct, frozen=True, kw_only=True):
    """How a capsule is taken in."""

    directory: Path | None = None
    """Where it works from now on, absolute; the work tree is restored there."""
    is_trusted: bool = False
    """Keep grants, rules, modes and servers."""
    has_vendor_files: bool = True
    allowed_signers: Path | None = None
    needs_signature: bool = False
    """Only by an allowed signer."""
    limits: CapsuleLimits = CapsuleLimits()


class MovedSession(Value, frozen=True, kw_only=True):
    """A session that was taken in, with its sub-agents."""

    id: SessionId
    original: SessionId
    agent: str
    cwd: str
    title: str | None = None
    records: int = 0
    sub_agents: int = 0
    continues: Literal["native", "hand over"]
    """``native``: its own agent can continue it."""
    was_there: bool = False
    """This capsule was taken in before; nothing was changed."""


class ImportReport(Value, frozen=True, kw_only=True):
    """What became of a capsule."""

    capsule: str
    """The digest of its manifest."""
    signature: str
    sessions: tuple[MovedSession, ...]
    omitted: tuple[OmittedItem, ...] = ()
    work_tree: tuple[str, ...] = ()
    """The directory that it was restored in, and in a repository that was there the references."""


class CapsuleOrigin(Value, frozen=True, kw_only=True):
    """Where a session came from, as it is kept beside the log."""

    v: int = 1
    capsule: str
    program: str
    imported: int
    signature: str
    session: MovedSession
    omitted: tuple[OmittedItem, ...] = ()


async def import_capsule(
    places: Places,
    path: Path,
    options: ImportOptions,
    *,
    homes: AgentHomes,
    progress: ProgressCallback | None = None,
) -> ImportReport:
    """Take a capsule in.

    Raises:
        CapsuleRefusedError: it is not what a capsule may be; nothing was written.
        SignatureError: its signature cannot be checked.
        WorkTreeError: the work tree cannot be restored in the directory; nothing was written.
        CapsuleError: the file cannot be opened, another import runs, or the disk is too small.
    """
    stack = ExitStack()
    try:
        stage = await asyncio.to_thread(lambda: stack.enter_context(open_stage(places)))
        opened = await asyncio.to_thread(
            lambda: stack.enter_context(open_capsule(path, options.limits))
        )
        signature = await asyncio.to_thread(opened.check_signature, options.allowed_signers)
        check_signer(signature, is_needed=options.needs_signature)
        run = _Import(places, stage, opened, options, homes, progress)
        return await run.take(signature)
    finally:
        await asyncio.to_thread(stack.close)


def check_signer(signature: CapsuleSignature, *, is_needed: bool) -> None:
    """Raise CapsuleRefusedError if an allowed signer is needed and it is none's."""
    if is_needed and signature.state == "none":
        raise CapsuleRefusedError("not signed", "a signature is required")
    if is_needed and signature.state != "good":
        raise CapsuleRefusedError("unknown signer", f"it is {signature.describe()}")


class _Import:
    """One capsule on its way in."""

    def __init__(
        self,
        places: Places,
        stage: ImportStage,
        opened: OpenCapsule,
        options: ImportOptions,
        homes: AgentHomes,
        progress: ProgressCallback | None,
    ) -> None:
        self._places = places
        self._stage = stage
        self._opened = opened
        self._manifest = opened.manifest
        self._options = options
        self._vendors = VendorHomes(homes)
        self._history = AgentHistory(homes)
        self._progress: ProgressCallback = progress or (lambda what, done, total: None)
        self._omitted = list(opened.manifest.omitted)
        self._ids: dict[SessionId, SessionId] = {}
        self._rewriters: dict[SessionId, LogRewriter] = {}
        self._placed: set[SessionId] = set()
        self._used: dict[Path, int] = {}
        self._done = 0

    async def take(self, signature: CapsuleSignature) -> ImportReport:
        """All of it."""
        if (known := await asyncio.to_thread(self._known)) is not None:
            return known
        await asyncio.to_thread(self._check_request)
        self._ids = await self._choose_ids()
        for log in self._manifest.logs:
            self._rewriters[log.root] = LogRewriter(
                self._ids, self._move(log), is_trusted=self._options.is_trusted
            )
        for part in self._manifest.parts:
            await self._take_part(part)
        tree = await self._restore_tree()
        await asyncio.to_thread(self._plan_vendor_files)
        await asyncio.to_thread(self._note_dropped)
        sessions = tuple(map(self._describe, self._manifest.logs))
        report = ImportReport(
            capsule=self._opened.digest,
            signature=signature.describe(),
            sessions=sessions,
            omitted=tuple(self._omitted),
            work_tree=(tree.directory, *tree.references) if tree is not None else (),
        )
        await asyncio.to_thread(self._plan_logs, report)
        await run_to_end(asyncio.to_thread(self._stage.commit), name="capsule: commit")
        return replace(report, omitted=(*report.omitted, *await self._find_unreadable()))

    async def _find_unreadable(self) -> list[OmittedItem]:
        """Files of vendors that were placed and whose form our readers do not know."""
        found: list[OmittedItem] = []
        sessions = [one for one in self._manifest.sessions if one.id in self._placed]
        for agent in dict.fromkeys(one.agent for one in sessions):
            listed = await self._history.list(None, agent=agent, limit=None)
            known = {past.id for past in listed.sessions}
            for one in sessions:
                if one.agent == agent and one.agent_session not in known:
                    version = one.agent_version or "of an unknown version"
                    why = f"the form of {agent} {version} is not known here; it may not continue"
                    what = f"{agent} session files"
                    found.append(OmittedItem(what=what, why=why, session=self._new_id(one.id)))
        return found

    # Before

    def _known(self) -> ImportReport | None:
        """The report of the same capsule, if it was taken in before and is still there."""
        folder = self._places.state / "capsules"
        files = sorted(folder.glob(f"{self._opened.digest[:16]}-*.json"))
        origins = [decode_json(file.read_bytes(), CapsuleOrigin) for file in files]
        moved = {
            one.session.original: replace(one.session, was_there=True)
            for one in origins
            if one.capsule == self._opened.digest and self._log_path(one.session.id).is_file()
        }
        if set(moved) != {log.root for log in self._manifest.logs}:
            return None
        return ImportReport(
            capsule=self._opened.digest,
            signature=origins[0].signature,
            sessions=tuple(moved.values()),
            omitted=origins[0].omitted,
        )

    def _check_request(self) -> None:
        directory = self._options.directory
        if directory is not None and len(self._manifest.logs) > 1:
            raise CapsuleError(
                "the capsule has several sessions, which cannot share one --directory; import it "
                "without, or export them one by one"
            )
        if directory is not None and self._tree_place() is None and not directory.is_dir():
            raise WorkTreeError(
                f"there is no directory {str(directory)!r}, and the capsule has no work tree to "
                "make it from"
            )
        free = shutil.disk_usage(self._stage.directory).free
        if self._opened.size + _ROOM > free:
            raise CapsuleError(
                f"the capsule needs {self._opened.size:,} bytes, and {free:,} are free below "
                f"{str(self._places.state)!r}; make room first"
            )

    async def _choose_ids(self) -> dict[SessionId, SessionId]:
        """New ids for sessions whose ids are taken here; with a root all of its tree."""
        taken = await self._taken()
        ids: dict[SessionId, SessionId] = {}
        for log in self._manifest.logs:
            found = [one for one in log.sessions if one.id in taken]
            if not found:
                continue
            for one in log.sessions:
                ids[one.id] = new_session_id()
            why = f"session {found[0].id!r} exists here already; this one is {ids[log.root]!r}"
            self._omitted.append(OmittedItem(what="id", why=why, session=log.root))
        return ids

    async def _taken(self) -> set[SessionId]:
        ids = [one.id for one in self._manifest.sessions]
        taken = await asyncio.to_thread(lambda: {i for i in ids if self._log_path(i).exists()})
        if await asyncio.to_thread(self._places.journal_file.exists):
            async with Journal.open(self._places.journal_file, write=False) as journal:
                taken |= {one for one in ids if await journal.read(0, one, limit=1)}
        return taken

    def _tree_place(self) -> int | None:
        return self._manifest.logs[0].sessions[0].work_tree

    def _move(self, log: CapsuleLog) -> tuple[str, str] | None:
        directory, root = self._options.directory, log.sessions[0]
        if directory is None:
            return None
        old = root.cwd.rstrip("/")
        if root.inside and old.endswith(f"/{root.inside}"):
            old = old[: -len(root.inside) - 1]
        return old or "/", str(directory)

    # Parts

    async def _take_part(self, part: CapsulePart) -> None:
        pieces = self._opened.stream(part)
        logs = [log for log in self._manifest.logs if log.events == part.sha256]
        if logs:
            await self._take_events(logs[0], self._lines(pieces))
            return
        target = self._part_path(part.sha256)
        await asyncio.to_thread(lambda: target.parent.mkdir(mode=0o700, exist_ok=True))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        number = await asyncio.to_thread(open_private, target, flags)
        with os.fdopen(number, "wb", buffering=0) as file:
            while piece := await asyncio.to_thread(next, pieces, None):
                await asyncio.to_thread(file.write, piece)
                self._advance(len(piece))

    def _advance(self, size: int) -> None:
        self._done += size
        self._progress("importing", self._done, self._opened.size)

    async def _lines(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Lines of bounded length."""
        rest = bytearray()
        most = self._options.limits.line
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            self._advance(len(piece))
            for number, line in enumerate(piece.split(b"\n")):
                if number:
                    yield bytes(rest)
                    rest.clear()
                rest += line
                if len(rest) > most:
                    raise CapsuleRefusedError("bad events", f"a line has more than {most:,} bytes")
        if rest:
            raise CapsuleRefusedError("bad events", "the last line has no end")

    async def _take_events(self, log: CapsuleLog, lines: AsyncIterator[bytes]) -> None:
        """Write a log aside."""
        rewriter = self._rewriters[log.root]
        counts = dict.fromkeys((one.id for one in log.sessions), 0)
        number = 0
        path = self._staged_log(log)
        async with Journal.open(path, owns_directory=True) as journal:
            async for line in lines:
                number += 1
                record = _read_record(line, number, counts)
                counts[record.session] += 1
                record = rewriter.rewrite(record)
                await journal.append(
                    record.session,
                    record.event,
                    turn=record.turn,
                    parent=record.parent,
                    time=record.time,
                )
            for session, event in rewriter.closing():
                await journal.append(session, event)
        if any(counts[one.id] != one.records for one in log.sessions):
            text = f"the log {log.root!r} does not have the records that the manifest lists"
            raise CapsuleRefusedError("bad events", text)

    # Places

    def _log_path(self, session: str) -> Path:
        return self._places.state / "sessions" / f"{session}.db"

    def _new_id(self, session: SessionId) -> SessionId:
        return self._ids.get(session, session)

    def _staged_log(self, log: CapsuleLog) -> Path:
        return self._stage.directory / "sessions" / f"{self._new_id(log.root)}.db"

    def _part_path(self, digest: str) -> Path:
        return self._stage.directory / "parts" / digest

    async def _restore_tree(self) -> RestoredTree | None:
        place, directory = self._tree_place(), self._options.directory
        if place is None:
            return None
        if directory is None:
            why = "it is restored only with --directory DIR"
            self._omitted.append(OmittedItem(what="work tree", why=why))
            return None
        tree = self._manifest.work_trees[place]
        root = self._new_id(self._manifest.logs[0].root)
        beside = place_beside(directory)
        await asyncio.to_thread(self._stage.note_beside, beside)
        bundle = self._part_path(tree.bundle)
        restored = await run_to_end(
            asyncio.to_thread(restore_work_tree, bundle, tree, directory, root),
            name="capsule: work tree",
        )
        if restored.is_new:
            self._stage.add(beside, directory, "directory")
        return restored

    def _plan_vendor_files(self) -> None:
        for log in self._manifest.logs:
            rewriter = self._rewriters[log.root]
            for session in log.sessions:
                if session.files:
                    self._plan_files_of(session, rewriter.move_directory(session.cwd))

    def _plan_files_of(self, session: CapsuleSession, cwd: str) -> None:
        what = f"{session.agent} session files"
        if not self._options.has_vendor_files:
            self._omit(session, what, "they were not wanted")
            return
        try:
            moves = [
                (self._part_path(file.sha256), file.sha256, self._place(session, file.name, cwd))
                for file in session.files
            ]
        except VendorFilesError as error:
            self._omit(session, what, str(error))
            return
        others = [to for _, digest, to in moves if to.exists() and _digest(to) != digest]
        if others:
            why = f"{str(others[0])!r} is there already, with another content"
            self._omit(session, what, why)
            return
        for source, _, target in moves:
            if target.exists():
                continue
            self._stage.add(self._own_copy(source), target)
        self._placed.add(session.id)

    def _own_copy(self, source: Path) -> Path:
        """A part to be moved: two files may be one part, and each is a file of its own."""
        self._used[source] = number = self._used.get(source, 0) + 1
        if number == 1:
            return source
        copy = source.with_name(f"{source.name}-{number}")
        shutil.copy(source, copy)
        return copy

    def _place(self, session: CapsuleSession, name: str, cwd: str) -> Path:
        if not cwd.startswith("/"):
            raise VendorFilesError(f"the directory {cwd!r} is not absolute")
        return self._vendors.place(session.agent, name, cwd)

    def _omit(self, session: CapsuleSession, what: str, why: str) -> None:
        self._omitted.append(OmittedItem(what=what, why=why, session=self._new_id(session.id)))

    def _note_dropped(self) -> None:
        for log in self._manifest.logs:
            root = log.sessions[0]
            for what in self._rewriters[log.root].dropped:
                self._omit(root, what, "not in force here; --trust keeps it")
            cwd = self._rewriters[log.root].move_directory(root.cwd)
            if cwd and not Path(cwd).is_dir() and self._options.directory is None:
                why = f"{cwd!r} is not here; --directory names another"
                self._omit(root, "directory", why)

    def _describe(self, log: CapsuleLog) -> MovedSession:
        root = log.sessions[0]
        is_native = root.agent == "native" or root.id in self._placed
        return MovedSession(
            id=self._new_id(log.root),
            original=log.root,
            agent=root.agent,
            cwd=self._rewriters[log.root].move_directory(root.cwd),
            title=root.title,
            records=log.records,
            sub_agents=len(log.sessions) - 1,
            continues="native" if is_native else "hand over",
        )

    def _plan_logs(self, report: ImportReport) -> None:
        """The logs come last: a session that is listed is whole."""
        for log in self._manifest.logs:
            id_ = self._new_id(log.root)
            origin = CapsuleOrigin(
                capsule=self._opened.digest,
                session=next(one for one in report.sessions if one.id == id_),
                program=self._manifest.program,
                imported=read_wall_clock(),
                signature=report.signature,
                omitted=report.omitted,
            )
            file = self._stage.directory / f"{id_}.json"
            file.write_bytes(msgspec.json.encode(origin))
            name = f"{self._opened.digest[:16]}-{id_}.json"
            self._stage.add(file, self._places.state / "capsules" / name)
        for log in self._manifest.logs:
            staged = self._staged_log(log)
            for beside in sorted(staged.parent.glob(f"{staged.name}-*")):
                self._stage.add(beside, self._places.state / "sessions" / beside.name)
            self._stage.add(staged, self._log_path(self._new_id(log.root)))


def _read_record(line: bytes, number: int, sessions: Mapping[SessionId, int]) -> Record:
    try:
        record = decode_record(line)
    except NewerVersionError as error:
        raise CapsuleRefusedError("newer version", f"record {number}: {error}") from error
    except MalformedRecordError as error:
        raise CapsuleRefusedError("bad events", f"record {number}: {error}") from error
    if record.seq != number:
        raise CapsuleRefusedError("reordered", f"record {number} has the number {record.seq}")
    if record.session not in sessions:
        text = f"record {number} is of the session {record.session!r}, which is not listed"
        raise CapsuleRefusedError("bad events", text)
    return record


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
