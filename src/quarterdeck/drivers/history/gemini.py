"""Gemini CLI: ``tmp/<project>/chats/session-*.jsonl``, in older versions one ``.json`` file.

Before whole sessions were stored, a project's ``logs.json`` has the prompts.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.content import text
from quarterdeck.wire.events import NoticePosted

from ..foreign_json import as_list, as_map, as_text
from .files import (
    FoundFile,
    ReadBudget,
    decode_json,
    head_lines,
    is_same_place,
    json_lines,
    list_files,
    list_folders,
    make_title,
    may_contain,
    open_plain,
    parse_time,
    read_json,
)
from .gemini_messages import GeminiMessageReader, said_by_person
from .reader import HistoryEvent, HistorySession, ReadTally
from .turn_builder import TurnBuilder

__all__ = ["LOGS", "GeminiHistory", "logged_sessions", "read_logged"]

LOGS = "logs.json"
_LISTED = 1 << 20
"""Bytes; a larger file is left out of a listing."""


def logged_sessions(
    project: Path, cwd: str | None, known: set[str], budget: ReadBudget
) -> Iterator[HistorySession]:
    """Sessions of which nothing but prompts is left; those that are known otherwise are not told.

    Those with commands for the program alone are left out.
    """
    path = project / LOGS
    prompts: dict[str, list[Mapping[str, Any]]] = {}
    for entry in map(as_map, as_list(read_json(path, budget, most=_LISTED))):
        id_ = as_text(entry.get("sessionId"))
        if id_ and id_ not in known and as_text(entry.get("message")):
            prompts.setdefault(id_, []).append(entry)
    for id_, entries in prompts.items():
        said = [as_text(one.get("message")) for one in entries]
        title = next((one for one in said if not one.startswith(("/", "?"))), None)
        times = [parse_time(one.get("timestamp")) for one in entries]
        if title is not None:
            yield HistorySession(
                agent="gemini",
                id=id_,
                path=str(path),
                cwd=cwd,
                title=make_title(title),
                started=min(times),
                updated=max(times),
                messages=len(entries),
                can_resume=False,
            )


def read_logged(past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
    """The prompts of a session.

    Raises:
        HistoryUnreadableError: the file cannot be opened.
    """
    with open_plain(Path(past.path)):
        pass  # to say why it cannot be opened
    whole = read_json(Path(past.path))
    tally.corrupt += not isinstance(whole, list)
    turns = TurnBuilder("gemini", past.id)
    event = NoticePosted(title="Gemini stored only the prompts of this session")
    yield from turns.outside(event, past.started)
    for entry in map(as_map, as_list(whole)):
        said = as_text(entry.get("message"))
        if entry.get("sessionId") == past.id and said:
            tally.lines += 1
            name = str(entry.get("messageId", ""))
            yield from turns.prompt([text(said)], parse_time(entry.get("timestamp")), name)
    yield from turns.end()


class GeminiHistory:
    """Reads the sessions of Gemini CLI below its own directory."""

    agent = "gemini"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        projects = list(self._projects(directory, budget))
        found = [
            (file, cwd)
            for project, cwd in projects
            for file in list_files(project / "chats", _is_session)
        ]
        sessions: dict[str, HistorySession] = {}
        for file, cwd in sorted(found, key=lambda one: one[0].changed, reverse=True):
            if limit is not None and len(sessions) >= limit:
                break
            past = _past(file, cwd, budget)
            if past is not None:
                sessions.setdefault(past.id, past)
        if limit is None or len(sessions) < limit:
            for project, cwd in projects:
                for past in logged_sessions(project, cwd, set(sessions), budget):
                    sessions[past.id] = past
        newest = sorted(sessions.values(), key=lambda past: past.updated, reverse=True)
        return newest[:limit]

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        reading, path = GeminiMessageReader(past.id, tally), Path(past.path)
        if path.name == LOGS:
            yield from read_logged(past, tally)
            return
        if path.suffix == ".json":
            with open_plain(path):
                pass  # to say why it cannot be opened
            whole = as_map(read_json(path))
            tally.corrupt += not whole
            for message in map(as_map, as_list(whole.get("messages"))):
                tally.lines += 1
                yield from reading.message(message)
        else:
            with open_plain(path) as file:
                for entry in json_lines(file, tally):
                    yield from reading.entry(entry)
        yield from reading.finish()

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        return may_contain((Path(past.path),), words, budget)

    def _projects(
        self, directory: Path | None, budget: ReadBudget
    ) -> Iterator[tuple[Path, str | None]]:
        """The directories of projects, and where each works, as far as it can be told."""
        digest = _digest(directory) if directory is not None else ""
        for project in list_folders(self._home / "tmp"):
            cwd = _root(project, budget)
            if directory is not None:
                if project.name == digest:
                    cwd = cwd or str(directory)
                if not is_same_place(cwd, directory):
                    continue
            yield project, cwd


def _is_session(name: str) -> bool:
    return name.startswith("session-") and name.endswith((".json", ".jsonl"))


def _digest(directory: Path) -> str:
    return hashlib.sha256(str(directory).encode("utf-8", "surrogateescape")).hexdigest()


def _root(project: Path, budget: ReadBudget) -> str | None:
    """The directory that a project's name stands for, where it is told."""
    line = next(head_lines(project / ".project_root", budget, most=4_096), b"")
    return line.decode("utf-8", "surrogateescape").strip() or None


def _past(file: FoundFile, cwd: str | None, budget: ReadBudget) -> HistorySession | None:
    look = _look_whole if file.path.suffix == ".json" else _look
    id_, started, title, kind = look(file, budget)
    if not id_ or kind == "subagent":
        return None
    return HistorySession(
        agent="gemini",
        id=id_,
        path=str(file.path),
        cwd=cwd,
        title=make_title(title),
        started=started or file.changed,
        updated=file.changed,
        size=file.size,
    )


def _look(file: FoundFile, budget: ReadBudget) -> tuple[str, int, str, str]:
    """The id, the beginning, a title and the kind, as far as the head tells."""
    id_ = title = kind = ""
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode_json(line))
        id_ = id_ or as_text(entry.get("sessionId"))
        kind = kind or as_text(entry.get("kind"))
        started = started or parse_time(entry.get("startTime"))
        for message in (entry, *_set_messages(entry)):
            title = title or said_by_person(message)
        if (id_ and title) or kind == "subagent":
            break
    return id_, started, title, kind


def _set_messages(entry: Mapping[str, Any]) -> "list[Mapping[str, Any]]":
    return [as_map(one) for one in as_list(as_map(entry.get("$set")).get("messages"))]


def _look_whole(file: FoundFile, budget: ReadBudget) -> tuple[str, int, str, str]:
    """The same of the older form: the first fields in the head of one object."""
    head = b"\n".join(head_lines(file.path, budget, most=16_384, first=2_048))
    fields = {name: _field(head, name) for name in (b"sessionId", b"startTime", b"kind")}
    messages = _messages_in(head)
    title = next((said for one in messages if (said := said_by_person(one))), "")
    started = parse_time(fields[b"startTime"])
    return fields[b"sessionId"], started, title, fields[b"kind"]


def _field(head: bytes, name: bytes) -> str:
    _, found, rest = head.partition(b'"' + name + b'"')
    value = rest.lstrip(b" :\t\r\n")
    end = value.find(b'"', 1)
    return as_text(decode_json(value[: end + 1])) if found and value[:1] == b'"' else ""


def _messages_in(head: bytes) -> Iterator[Mapping[str, Any]]:
    """Messages of an object whose end is cut off, as far as they are whole."""
    _, found, rest = head.decode("utf-8", "replace").partition('"messages"')
    rest = rest.lstrip(" :\t\r\n[")
    decoder = json.JSONDecoder()
    while found and rest.startswith("{"):
        try:
            value, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return
        yield as_map(value)
        rest = rest[end:].lstrip(" ,\t\r\n")
