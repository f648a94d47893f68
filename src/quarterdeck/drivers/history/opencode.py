"""OpenCode: ``opencode.db``, earlier a file for each session, message and part.

Both are read: a session that is in both, because OpenCode has moved it, is listed once. Sessions of
sub-agents stand within the call that began them.
"""

import contextlib
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock, ImageContent, ResourceLink, text
from quarterdeck.wire.events import NoticePosted, SessionChanged

from ..foreign_json import as_list, as_map, as_text, message, thought
from ..opencode_messages import amount_of, call_ended, call_id, call_started, error_text, tokens_of
from .databases import open_database
from .files import (
    LONGEST_LINE,
    FoundFile,
    ReadBudget,
    decode_json,
    is_same_place,
    list_files,
    list_folders,
    make_title,
    parse_time,
    read_json,
)
from .reader import HistoryEvent, HistorySession, ReadTally
from .session import HistoryError, HistoryIncompleteError, HistoryUnreadableError
from .turn_builder import TurnBuilder

__all__ = [
    "OpencodeDatabase",
    "OpencodeEntry",
    "OpencodeFiles",
    "OpencodeHistory",
    "OpencodeStore",
    "find_databases",
    "upgrade_message",
]

_COLUMNS = ("id", "parent_id", "directory", "title", "version", "time_created", "time_updated")


@dataclass(frozen=True, slots=True)
class OpencodeEntry:
    """A message or a part."""

    id: str
    data: Mapping[str, Any]


class OpencodeStore(Protocol):
    """A place with sessions."""

    def sessions(self, budget: ReadBudget) -> Iterator[HistorySession]:
        """Every session that is no other's child, the last used first."""
        ...

    def messages(self, session: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        """A session's messages in order; ``parts`` within one stand for those beside it."""
        ...

    def parts(self, session: str, message: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        """A message's parts in order."""
        ...

    def first_words(self, session: str, budget: ReadBudget) -> str:
        """The first prompt, where it is cheap to find."""
        ...


def find_databases(home: Path) -> list[Path]:
    """The databases of OpenCode's channels."""
    return sorted(
        one.path
        for one in list_files(home, lambda n: n.startswith("opencode") and n.endswith(".db"))
    )


class OpencodeDatabase:
    """Sessions in SQLite; made by ``open``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path) -> Generator["OpencodeDatabase"]:
        """Open it for reading.

        Raises:
            HistoryLockedError, HistoryUnreadableError: see ``open_database``.
        """
        with open_database(path) as connection:
            yield cls(path, connection)

    def sessions(self, budget: ReadBudget) -> Iterator[HistorySession]:
        """See ``OpencodeStore``."""
        known = {row[1] for row in self._connection.execute("PRAGMA table_info(session)")}
        if not known.issuperset(_COLUMNS):
            raise HistoryUnreadableError(self.path, "its format is unknown")
        put_away = "time_archived" if "time_archived" in known else "NULL"
        query = (
            f"SELECT {', '.join(_COLUMNS)}, {put_away}, (SELECT count(*) FROM message "
            "WHERE session_id = session.id) FROM session WHERE parent_id IS NULL "
            "ORDER BY time_updated DESC, id DESC"
        )
        for (
            id_,
            _,
            directory,
            title,
            version,
            created,
            updated,
            archived,
            count,
        ) in self._connection.execute(query):
            yield HistorySession(
                agent="opencode",
                id=as_text(id_),
                path=str(self.path),
                cwd=as_text(directory) or None,
                title=as_text(title) or None,
                started=parse_time(created),
                updated=parse_time(updated),
                messages=count,
                version=as_text(version) or None,
                archived=archived is not None,
            )

    def messages(self, session: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        """See ``OpencodeStore``."""
        query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        yield from self._entries(query, session, tally)

    def parts(self, session: str, message: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        """See ``OpencodeStore``."""
        query = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
        yield from self._entries(query, message, tally)

    def first_words(self, session: str, budget: ReadBudget) -> str:
        """See ``OpencodeStore``."""
        row = self._connection.execute(
            "SELECT substr(data, 1, 4000) FROM part WHERE session_id = ? ORDER BY id LIMIT 1",
            (session,),
        ).fetchone()
        return as_text(as_map(decode_json(str(row[0]).encode())).get("text")) if row else ""

    def has_words(self, session: str, words: tuple[str, ...]) -> bool:
        """Whether every word may be in the parts of a session."""
        plain = [word for word in words if word.isascii() and not set('"\\\n\t') & set(word)]
        query = "SELECT 1 FROM part WHERE session_id = ? AND instr(lower(data), ?) LIMIT 1"
        return all(self._connection.execute(query, (session, word)).fetchone() for word in plain)

    def _entries(self, query: str, key: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        # Fetched whole: the consumer may run other queries in between.
        for id_, data in self._connection.execute(query, (key,)).fetchall():
            tally.lines += 1
            encoded = str(data).encode("utf-8", "replace")
            if len(encoded) > LONGEST_LINE:
                tally.too_long += 1
                continue
            value = decode_json(encoded)
            if not isinstance(value, dict):
                tally.corrupt += 1
                continue
            yield OpencodeEntry(str(id_), cast("Mapping[str, Any]", value))


_SESSION_FILE = 65_536
_ENDS = {"result": "completed"}


class OpencodeFiles:
    """Sessions in files."""

    def __init__(self, home: Path) -> None:
        self._storage = home / "storage"
        self._older = [
            project / "storage" / "session" for project in sorted(list_folders(home / "project"))
        ]

    def sessions(self, budget: ReadBudget) -> Iterator[HistorySession]:
        """See ``Store``."""
        folders = [*list_folders(self._storage / "session"), *(o / "info" for o in self._older)]
        found = [file for folder in folders for file in list_files(folder, _is_json)]
        known: set[str] = set()
        for file in sorted(found, key=lambda one: one.changed, reverse=True):
            past = self._past(file, budget)
            if past is not None and past.id not in known:
                known.add(past.id)
                yield past

    def messages(self, session: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        """See ``Store``."""
        for one in _read(self._messages(session), tally):
            yield OpencodeEntry(one.id, upgrade_message(one.data))

    def parts(self, session: str, message: str, tally: ReadTally) -> Iterator[OpencodeEntry]:
        """See ``Store``."""
        if _is_plain(session) and _is_plain(message):
            older = (one / "part" / session / message for one in self._older)
            yield from _read(_first(self._storage / "part" / message, *older), tally)

    def first_words(self, session: str, budget: ReadBudget) -> str:
        """See ``Store``."""
        for file in self._messages(session)[:1]:
            first = upgrade_message(as_map(read_json(file.path, budget, most=_SESSION_FILE)))
            parts = [as_map(part) for part in as_list(first.get("parts"))]
            parts = parts or [one.data for one in self.parts(session, file.path.stem, ReadTally())]
            return next((text for part in parts if (text := as_text(part.get("text")))), "")
        return ""

    def _past(self, file: FoundFile, budget: ReadBudget) -> HistorySession | None:
        data = as_map(read_json(file.path, budget, most=_SESSION_FILE))
        id_, time = as_text(data.get("id")), as_map(data.get("time"))
        if not _is_plain(id_) or data.get("parentID"):
            return None
        return HistorySession(
            agent="opencode",
            id=id_,
            path=str(file.path),
            cwd=as_text(data.get("directory")) or self._cwd(id_, budget),
            title=as_text(data.get("title")) or None,
            started=parse_time(time.get("created")) or file.changed,
            updated=parse_time(time.get("updated")) or file.changed,
            version=as_text(data.get("version")) or None,
        )

    def _messages(self, session: str) -> list[FoundFile]:
        if not _is_plain(session):
            return []
        older = (one / "message" / session for one in self._older)
        return _first(self._storage / "message" / session, *older)

    def _cwd(self, session: str, budget: ReadBudget) -> str | None:
        """Where a session worked, taken from an answer in it: older files do not record it."""
        for file in self._messages(session)[:8]:
            data = upgrade_message(as_map(read_json(file.path, budget, most=_SESSION_FILE)))
            if cwd := as_text(as_map(data.get("path")).get("cwd")):
                return cwd
        return None


def upgrade_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of the oldest form as the later ones are, its parts in it; any other as it is."""
    beside = as_map(message.get("metadata"))
    if not beside or "parts" not in message:
        return message
    parts = (_part(as_map(part), as_map(beside.get("tool"))) for part in as_list(message["parts"]))
    return {
        "id": message.get("id"),
        "role": message.get("role"),
        "time": beside.get("time"),
        "error": beside.get("error"),
        **as_map(beside.get("assistant")),
        "parts": list(parts),
    }


def _part(part: Mapping[str, Any], data: Mapping[str, Any]) -> Mapping[str, Any]:
    call = as_map(part.get("toolInvocation"))
    if not call:
        return part
    about = as_map(data.get(as_text(call.get("toolCallId"))))
    return {
        "type": "tool",
        "tool": call.get("toolName"),
        "callID": call.get("toolCallId"),
        "state": {
            "status": _ENDS.get(as_text(call.get("state")), "running"),
            "input": call.get("args"),
            "output": call.get("result"),
            "title": about.get("title"),
            "time": about.get("time"),
            "metadata": about,
        },
    }


def _is_plain(name: str) -> bool:
    """Whether a name is one step of a path."""
    return bool(name) and all(letter.isalnum() or letter in "_-" for letter in name)


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def _first(*folders: Path) -> list[FoundFile]:
    """The files of the first folder that has any, in order: their names are made of the time."""
    for folder in folders:
        if found := list(list_files(folder, _is_json)):
            return sorted(found, key=lambda one: one.path.name)
    return []


def _read(files: list[FoundFile], tally: ReadTally) -> Iterator[OpencodeEntry]:
    for file in files:
        tally.lines += 1
        value = read_json(file.path)
        if not isinstance(value, dict):
            tally.corrupt += 1
            continue
        yield OpencodeEntry(file.path.stem, cast("Mapping[str, Any]", value))


_MADE_UP = re.compile(r"(?:New|Child) session - ")
_QUIET = frozenset(
    ("agent", "compaction", "patch", "retry", "snapshot", "step-start", "subtask", "file")
)
_IMAGE = re.compile(r"data:(image/[\w+.-]+);base64,(.*)", re.S)
_DEEPEST = 4
"""Sub-agents within sub-agents."""


class OpencodeHistory:
    """Reads the sessions of OpenCode below its data directory."""

    agent = "opencode"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found: dict[str, HistorySession] = {}
        failure: HistoryError | None = None
        for path in find_databases(self._home):
            try:
                with OpencodeDatabase.open(path) as database:
                    for past in _here(database, directory, limit, budget):
                        found.setdefault(past.id, past)
            except HistoryError as error:
                failure = error
        for past in _here(OpencodeFiles(self._home), directory, limit, budget):
            found.setdefault(past.id, past)
        newest = sorted(found.values(), key=lambda past: past.updated, reverse=True)
        if failure is not None:
            raise HistoryIncompleteError(failure, newest[:limit])
        return newest[:limit]

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        with self._store(past) as store:
            reading = _Reading(past.id, tally, store)
            yield from reading.session(past.id)
            yield from reading.finish()

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        with self._store(past) as store:
            return not isinstance(store, OpencodeDatabase) or store.has_words(past.id, words)

    @contextmanager
    def _store(self, past: HistorySession) -> Generator[OpencodeStore]:
        if past.path.endswith(".db"):
            with OpencodeDatabase.open(Path(past.path)) as database:
                yield database
        else:
            yield OpencodeFiles(self._home)


def _here(
    store: OpencodeStore, directory: Path | None, limit: int | None, budget: ReadBudget
) -> Iterator[HistorySession]:
    count = 0
    for past in store.sessions(budget):
        if limit is not None and count >= limit:
            return
        if directory is not None and not is_same_place(past.cwd, directory):
            continue
        count += 1
        is_made_up = past.title is None or _MADE_UP.match(past.title)
        title = store.first_words(past.id, budget) if is_made_up else past.title
        yield replace(past, title=make_title(title) or past.title)


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally, store: OpencodeStore) -> None:
        self._turns = TurnBuilder("opencode", id_)
        self._tally = tally
        self._store = store
        self._model = ""

    def session(
        self, session: str, parent: str | None = None, depth: int = 0
    ) -> Iterator[HistoryEvent]:
        """The events of a session, in order; with a parent: a sub-agent's."""
        for one in self._store.messages(session, self._tally):
            time = parse_time(as_map(one.data.get("time")).get("created")) or None
            parts = [OpencodeEntry("", as_map(part)) for part in as_list(one.data.get("parts"))]
            parts = parts or list(self._store.parts(session, one.id, self._tally))
            if one.data.get("role") == "user":
                content = list(_content(parts))
                if content and parent is None:
                    yield from self._turns.prompt(content, time, one.id)
            else:
                yield from self._answer(session, one.data, parts, time, parent, depth)

    def finish(self) -> Iterator[HistoryEvent]:
        yield from self._turns.end()

    def _answer(
        self,
        session: str,
        data: Mapping[str, Any],
        parts: "list[OpencodeEntry]",
        time: int | None,
        parent: str | None,
        depth: int,
    ) -> Iterator[HistoryEvent]:
        model = as_text(data.get("modelID"))
        if parent is None and model and model != self._model:
            self._model = model
            name = f"{as_text(data.get('providerID'))}/{model}".lstrip("/")
            yield from self._turns.outside(SessionChanged(model=name), time)
        if data.get("summary") is True:
            yield from self._compacted(parts, time)
        else:
            for part in parts:
                yield from self._part(part.data, time, parent, depth)
        self._turns.spend(tokens_of(as_map(data.get("tokens"))), amount_of(data.get("cost")))
        if parent is None:
            yield from self._failed(as_map(data.get("error")), time)

    def _part(
        self, part: Mapping[str, Any], time: int | None, parent: str | None, depth: int
    ) -> Iterator[HistoryEvent]:
        began = parse_time(as_map(part.get("time")).get("start")) or time
        match as_text(part.get("type")):
            case "text":
                if text := as_text(part.get("text")):
                    chunk = message(text, self._turns.message())
                    yield from self._turns.tell(chunk, began, parent)
            case "reasoning":
                if text := as_text(part.get("text")):
                    thought_ = thought(text, self._turns.message())
                    yield from self._turns.tell(thought_, began, parent)
            case "tool":
                yield from self._call(part, time, parent, depth)
            case kind if kind not in _QUIET and kind != "step-finish":
                self._tally.note_unknown(kind)
            case _:
                pass

    def _call(
        self, part: Mapping[str, Any], time: int | None, parent: str | None, depth: int
    ) -> Iterator[HistoryEvent]:
        state = as_map(part.get("state"))
        times = as_map(state.get("time"))
        began = parse_time(times.get("start")) or time
        yield from self._turns.tell(call_started(part), began, parent)
        child = as_text(as_map(state.get("metadata")).get("sessionId"))
        if part.get("tool") == "task" and child and depth < _DEEPEST:
            yield from self.session(child, call_id(part), depth + 1)
        if state.get("status") in ("completed", "error"):
            ended = parse_time(times.get("end")) or began
            yield from self._turns.tell(call_ended(part), ended, parent)

    def _compacted(self, parts: "list[OpencodeEntry]", time: int | None) -> Iterator[HistoryEvent]:
        texts = (as_text(one.data.get("text")) for one in parts if one.data.get("type") == "text")
        yield from self._turns.compact("\n".join(texts) or None, time)

    def _failed(self, error: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        if not error:
            return
        if error.get("name") == "MessageAbortedError":
            self._turns.stop("cancelled")
            return
        reason = error_text(error)
        self._turns.stop("failed", reason)
        yield from self._turns.tell(NoticePosted(title=reason, severity="error"), time)


def _content(parts: "list[OpencodeEntry]") -> Iterator[ContentBlock]:
    """The person's message, without what the program added to it."""
    for part in (one.data for one in parts):
        if part.get("synthetic") or part.get("ignored"):
            continue
        words, url = as_text(part.get("text")), as_text(part.get("url"))
        image = _IMAGE.fullmatch(url) if part.get("type") == "file" else None
        if part.get("type") == "text" and words:
            yield text(words)
        elif image is not None:
            yield ImageContent(data=image[2], mime_type=image[1])
        elif part.get("type") == "file" and url and not url.startswith("data:"):
            yield ResourceLink(uri=url, name=as_text(part.get("filename")) or url)
