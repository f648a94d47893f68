"""goose: ``sessions/sessions.db``, a table of sessions and one of messages.

Sessions of other kinds than a person's (sub-agents, schedules) are left out.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quarterdeck.wire.events import NoticePosted, SessionChanged
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import as_list, as_map, as_number, as_text, message, thought
from .databases import open_database
from .files import ReadBudget, decode_json, is_same_place, make_title
from .reader import HistoryEvent, HistorySession, ReadTally
from .session import HistoryUnreadableError
from .turn_builder import TurnBuilder, call_ended, call_started, content_of, text_of_parts

__all__ = ["GooseHistory"]

_MANY = 1_000_000
_QUIET = frozenset(
    (
        *("systemNotification", "toolConfirmationRequest", "frontendToolRequest"),
        *("actionRequired", "redactedThinking", "contextLengthExceeded", "image"),
    )
)


class GooseHistory:
    """Reads the sessions of goose below its data directory."""

    agent = "goose"

    def __init__(self, home: Path) -> None:
        self._path = home / "sessions" / "sessions.db"

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        if not self._path.exists():
            return []
        with open_database(self._path) as database:
            places = [place for (place,) in _rows(database, "SELECT DISTINCT working_dir", ())]
            if directory is not None:
                places = [one for one in places if is_same_place(as_text(one), directory)]
            rows = [row for place in places for row in _sessions(database, place, limit)]
        found = [self._past(row) for row in rows]
        return sorted(found, key=lambda past: past.updated, reverse=True)[:limit]

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        with open_database(self._path) as database:
            reading = _Reading(past.id, tally)
            yield from reading.begin(database)
            rows = database.execute(
                "SELECT role, content_json, created_timestamp, metadata_json, message_id"
                " FROM messages WHERE session_id = ? ORDER BY id",
                (past.id,),
            )
            for role, content, time, about, name in rows:
                tally.lines += 1
                parts = as_list(decode_json(_bytes(content)))
                if not parts:
                    tally.corrupt += 1
                    continue
                if as_map(decode_json(_bytes(about))).get("userVisible") is False:
                    continue  # only for the model
                moment = as_number(time) * 1_000_000 or None
                yield from reading.message(as_text(role), parts, moment, as_text(name))
            yield from reading.finish()

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        plain = [word for word in words if word.isascii() and not set('"\\\n\t') & set(word)]
        try:
            with open_database(self._path) as database:
                return all(
                    database.execute(
                        "SELECT 1 FROM messages WHERE session_id = ?"
                        " AND instr(lower(content_json), ?) LIMIT 1",
                        (past.id, word),
                    ).fetchone()
                    for word in plain
                )
        except HistoryUnreadableError:
            return False

    def _past(self, row: tuple[Any, ...]) -> HistorySession:
        id_, name, description, cwd, created, updated, archived, first, count = row
        title = as_text(name) or as_text(description)
        if not title:
            title = text_of_parts(decode_json(_bytes(first)))
        return HistorySession(
            agent="goose",
            id=as_text(id_),
            path=str(self._path),
            cwd=as_text(cwd) or None,
            title=make_title(title),
            started=_moment(created),
            updated=_moment(updated),
            messages=as_number(count),
            archived=archived is not None,
        )


def _rows(
    database: sqlite3.Connection, select: str, values: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    return database.execute(
        f"{select} FROM sessions WHERE session_type = 'user'", values
    ).fetchall()


def _sessions(database: sqlite3.Connection, place: Any, limit: int | None) -> list[tuple[Any, ...]]:
    columns = {row[1] for row in database.execute("PRAGMA table_info(sessions)")}
    # They came with later versions of the table.
    archived = "archived_at" if "archived_at" in columns else "NULL"
    name = "name" if "name" in columns else "''"
    return database.execute(
        f"SELECT s.id, {name}, description, working_dir, created_at, updated_at, {archived},"
        " (SELECT content_json FROM messages WHERE session_id = s.id AND role = 'user'"
        " ORDER BY id LIMIT 1), (SELECT count(*) FROM messages WHERE session_id = s.id)"
        " FROM sessions s WHERE session_type = 'user' AND working_dir = ?"
        " ORDER BY updated_at DESC LIMIT ?",
        (place, _MANY if limit is None else limit),
    ).fetchall()


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else as_text(value).encode()


def _moment(value: Any) -> int:
    """Microseconds since the epoch, of SQLite's text in UTC."""
    try:
        moment = datetime.fromisoformat(as_text(value))
    except ValueError:
        return 0
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1_000_000)


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._id = id_
        self._turns = TurnBuilder("goose", id_)
        self._tally = tally
        self._usage = TokenUsage()

    def begin(self, database: sqlite3.Connection) -> Iterator[HistoryEvent]:
        row = database.execute(
            "SELECT accumulated_input_tokens, accumulated_output_tokens, model_config_json"
            " FROM sessions WHERE id = ?",
            (self._id,),
        ).fetchone()
        if row is None:
            return
        self._usage = TokenUsage(input=as_number(row[0]), output=as_number(row[1]))
        if model := as_text(as_map(decode_json(_bytes(row[2]))).get("model_name")):
            yield from self._turns.outside(SessionChanged(model=model), None)

    def message(
        self, role: str, parts: list[Any], time: int | None, name: str
    ) -> Iterator[HistoryEvent]:
        contents = [as_map(part) for part in parts]
        if role == "user" and any(one.get("type") in ("text", "image") for one in contents):
            yield from self._turns.prompt(content_of(parts), time, name)
        for part in contents:
            yield from self._part(role, part, time)

    def finish(self) -> Iterator[HistoryEvent]:
        # goose counts a session as a whole; its last turn has what all of them took.
        if self._usage.total:
            self._turns.spend(self._usage)
        yield from self._turns.end()

    def _part(self, role: str, part: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        id_ = as_text(part.get("id"))
        match as_text(part.get("type")):
            case "text":
                text = as_text(part.get("text"))
                if role == "assistant" and text:
                    yield from self._turns.tell(message(text, self._turns.message()), time)
            case "thinking" | "reasoning":
                text = as_text(part.get("thinking")) or as_text(part.get("text"))
                if text:
                    yield from self._turns.tell(thought(text, self._turns.message()), time)
            case "toolRequest":
                call = as_map(as_map(part.get("toolCall")).get("value"))
                begun = call_started(id_, as_text(call.get("name")), call.get("arguments"))
                yield from self._turns.tell(begun, time)
            case "toolResponse":
                yield from self._turns.tell(_ended(id_, as_map(part.get("toolResult"))), time)
            case "summarizationRequested" | "conversationCompacted":
                title = as_text(part.get("msg")) or "The conversation was shortened"
                yield from self._turns.outside(NoticePosted(title=title), time)
            case kind if kind not in _QUIET:
                self._tally.note_unknown(kind)
            case _:
                pass


def _ended(id_: str, result: Mapping[str, Any]) -> Any:
    value = as_map(result.get("value"))
    content = value.get("content") if value else result.get("value")
    failed = result.get("status") == "error" or value.get("isError") is True
    output = text_of_parts(content) or as_text(result.get("error"))
    return call_ended(id_, "failed" if failed else "completed", output)
