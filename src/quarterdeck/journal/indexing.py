"""Turning the log into searchable passages, a slice at a time. Everything here blocks.

A message arrives in chunks; they are joined into one passage so that a word split over two of
them is found. What is still growing is kept apart; its text so far becomes a passage each time
the end of the log is reached. Passages are cut at ``_PIECE`` characters, so no step depends on
how long a message gets.
A tool call's output is indexed when the call ends, since each report repeats the one before.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from quarterdeck.wire.events import (
    CompactionChunk,
    Event,
    MessageChunk,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallUpdated,
)
from quarterdeck.wire.record import encode_event, event_type

from .errors import damage_error
from .records import RecordReader, event_of
from .searchable_text import block_text, cut_into_pieces, output_text, own_text
from .store import transaction

__all__ = ["SCHEMA", "Indexer"]

SCHEMA = (
    "CREATE TABLE state (log TEXT NOT NULL, through INTEGER NOT NULL, deletion INTEGER NOT NULL)",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, session TEXT NOT NULL, seq INTEGER NOT NULL,"
    " type TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX passages_by_session ON passages (session)",
    # slot: which of its session's streams it is; passage: where its text so far is indexed.
    "CREATE TABLE growing (session TEXT, slot TEXT, seq INTEGER NOT NULL, type TEXT NOT NULL,"
    " message TEXT, text TEXT NOT NULL, passage INTEGER, PRIMARY KEY (session, slot))",
    "CREATE TABLE outputs (session TEXT, call TEXT, seq INTEGER NOT NULL,"
    " PRIMARY KEY (session, call)) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE words USING fts5(text, content='passages', content_rowid='id',"
    " tokenize='unicode61 remove_diacritics 2')",
)

_PIECE = 16_000
_ROWS = 1_000
_BYTES = 128 << 10
_MERGED_PAGES = 64
"""Pages that one step of a merge writes at the most: some milliseconds."""
_FEWEST_DROPPED = 256
"""Passages that must have been dropped before a merge is worth a look."""
_CHUNKS = ("message_chunk", "thought_chunk", "compaction_chunk")
_CLOSERS = ("turn_started", "turn_ended", "session_ended")
_TYPES = (
    *_CHUNKS,
    "prompted",
    "tool_call_started",
    "tool_call_updated",
    "tool_call_ended",
    "terminal_output",
    "terminal_exited",
    "notice",
    "question_asked",
    "compaction_changed",
    "session_opened",
    "session_changed",
)
_READ = (
    "SELECT seq, coalesce(id, 'lost_' || session), parent, type,"
    f" CASE WHEN type IN ({', '.join(map(repr, _TYPES))}) THEN body END"
    " FROM events LEFT JOIN session_ids ON key = session WHERE seq > ? ORDER BY seq LIMIT ?"
)


@dataclass(slots=True, kw_only=True)
class _Growing:
    """The end of a stream of chunks."""

    seq: int
    type: str
    message: str | None
    text: str
    passage: int | None = None
    is_known: bool = False
    """It has a row, perhaps an old one."""
    is_saved: bool = False
    is_indexed: bool = False


class Indexer:
    """Reads the log over one connection and writes the index over another.

    Several processes may do so at once: a slice begins by taking the index's write lock and
    looks again if another has moved it on.
    """

    def __init__(self, index: sqlite3.Connection, log: sqlite3.Connection) -> None:
        self._index = index
        self._log = log
        self._through = -1
        self._growing: dict[str, dict[str, _Growing]] = {}
        self._dropped = 0
        """Passages of deleted sessions, whose words may still stand in the index."""
        self._is_merging = False

    def advance(self) -> bool:
        """Index the next slice of the log; False when there is nothing left."""
        try:
            with transaction(self._index):
                through, deletion = self._index.execute(
                    "SELECT through, deletion FROM state"
                ).fetchone()
                if through != self._through:
                    self._load()
                self._drop_deleted(deletion)
                seq, is_end = self._take_slice(through)
                if is_end:
                    self._index_growing()
                    self._merge()
                self._save_growing()
                self._index.execute("UPDATE state SET through = ?", (seq,))
        except BaseException:
            self._through = -1
            raise
        self._through = seq
        return not is_end

    def _take_slice(self, through: int) -> tuple[int, bool]:
        rows, is_end = self._slice(through)
        for seq, session, parent, kind, body in rows:
            through = seq
            self._take(seq, session, parent or "", kind, body)
        return through, is_end

    def _slice(self, through: int) -> tuple[list[tuple[Any, ...]], bool]:
        """The next rows, and whether they are the last; in order, however damaged the log is."""
        room, rows, last = _BYTES, list[tuple[Any, ...]](), through
        try:
            with closing(self._log.execute(_READ, (through, _ROWS))) as cursor:
                for row in cursor:
                    if row[0] <= last:
                        raise damage_error("records are out of order")
                    rows.append(row)
                    last = row[0]
                    room -= len(row[4]) if isinstance(row[4], bytes) else 0
                    if room < 0:
                        break
        except sqlite3.DatabaseError:
            return self._slice_carefully(through)
        return rows, room >= 0 and len(rows) < _ROWS

    def _slice_carefully(self, through: int) -> tuple[list[tuple[Any, ...]], bool]:
        records = RecordReader(self._log, _BYTES).after(through, limit=_ROWS)
        rows = [
            (one.seq, one.session, one.parent, event_type(one.event), encode_event(one.event))
            for one in records
        ]
        return rows, not records

    def _take(self, seq: int, session: str, parent: str, kind: str, body: Any) -> None:
        if kind not in _CHUNKS:
            self._close_unnamed(session)
        if kind in _CLOSERS or kind == "prompted":
            self._close_all(session)
        if body is None:
            return
        event = event_of(body)
        match event:
            case MessageChunk():
                slot = f"{event.role} {parent}"
                self._grow(seq, session, slot, kind, event.message, block_text(event.content))
            case ThoughtChunk():
                slot = f"thought {parent}"
                self._grow(seq, session, slot, kind, event.message, block_text(event.content))
            case CompactionChunk():
                text = block_text(event.content)
                self._grow(seq, session, "compaction", kind, event.compaction, text)
            case TerminalOutput():
                slot = f"terminal {event.terminal}"
                self._grow(seq, session, slot, kind, event.terminal, event.data)
            case TerminalExited():
                self._close(session, f"terminal {event.terminal}")
            case _:
                self._take_whole(seq, session, kind, event)

    def _take_whole(self, seq: int, session: str, kind: str, event: Event) -> None:
        if isinstance(event, ToolCallUpdated) and _has_output(event):
            self._index.execute(
                "INSERT OR REPLACE INTO outputs VALUES (?, ?, ?)", (session, event.call, seq)
            )
        self._add_pieces(seq, session, kind, own_text(event))
        if isinstance(event, ToolCallEnded):
            self._take_output(seq, session, event)

    def _take_output(self, seq: int, session: str, event: ToolCallEnded) -> None:
        text = output_text(event)
        row = self._index.execute(
            "DELETE FROM outputs WHERE session = ? AND call = ? RETURNING seq",
            (session, event.call),
        ).fetchone()
        if row is not None and not text:
            (seq,) = row
            found = self._log.execute("SELECT body FROM events WHERE seq = ?", row).fetchone()
            text = output_text(event_of(found[0])) if found else ""
        self._add_pieces(seq, session, "tool_call_ended", text)

    def _grow(
        self, seq: int, session: str, slot: str, kind: str, message: str | None, text: str
    ) -> None:
        slots = self._growing.setdefault(session, {})
        growing = slots.get(slot)
        if growing is not None and message is not None and growing.message != message:
            self._close(session, slot)
            # Closing its last passage lets go of the session's slots.
            slots, growing = self._growing.setdefault(session, {}), None
        if growing is None:
            growing = slots[slot] = _Growing(seq=seq, type=kind, message=message, text="")
        growing.text += text
        growing.is_saved = growing.is_indexed = False
        if len(growing.text) > _PIECE:
            *whole, rest = cut_into_pieces(growing.text, _PIECE)
            growing.text = "".join(whole)
            self._close(session, slot)
            slots[slot] = _Growing(seq=seq, type=kind, message=message, text=rest)

    def _close(self, session: str, slot: str) -> None:
        growing = self._growing.get(session, {}).pop(slot, None)
        if growing is not None:
            if growing.is_known:
                self._index.execute(
                    "DELETE FROM growing WHERE session = ? AND slot = ?", (session, slot)
                )
            if not growing.is_indexed:
                self._remove(growing.passage)
                self._add_pieces(growing.seq, session, growing.type, growing.text)

    def _close_unnamed(self, session: str) -> None:
        for slot, growing in list(self._growing.get(session, {}).items()):
            if growing.message is None:
                self._close(session, slot)

    def _close_all(self, session: str) -> None:
        for slot in list(self._growing.get(session, {})):
            self._close(session, slot)

    def _add_pieces(self, seq: int, session: str, kind: str, text: str) -> None:
        for piece in cut_into_pieces(text, _PIECE):
            self._add(seq, session, kind, piece)

    def _add(self, seq: int, session: str, kind: str, text: str) -> int | None:
        if not text.strip():
            return None
        passage = self._index.execute(
            "INSERT INTO passages (session, seq, type, text) VALUES (?, ?, ?, ?)",
            (session, seq, kind, text),
        ).lastrowid
        self._index.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (passage, text))
        return passage

    def _remove(self, passage: int | None) -> None:
        if passage is None:
            return
        row = self._index.execute(
            "DELETE FROM passages WHERE id = ? RETURNING id, text", (passage,)
        ).fetchone()
        if row is not None:
            self._index.execute(
                "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", row
            )

    def _index_growing(self) -> None:
        for session, slots in self._growing.items():
            for growing in slots.values():
                if not growing.is_indexed:
                    self._remove(growing.passage)
                    growing.passage = self._add(growing.seq, session, growing.type, growing.text)
                    growing.is_indexed, growing.is_saved = True, False

    def _merge(self) -> None:
        """Take a step towards an index without the words of what was dropped.

        A word that is dropped is only marked; it goes when the parts with the word and with its
        mark become one, which for old sessions may take as long again as they were kept.
        """
        if not self._is_merging:
            if self._dropped < _FEWEST_DROPPED:
                return
            (kept,) = self._index.execute("SELECT count(*) FROM passages").fetchone()
            if 2 * self._dropped < kept:
                return
            self._dropped, self._is_merging = 0, True
            self._write_merged(-_MERGED_PAGES)  # all parts are to become one
        elif self._write_merged(_MERGED_PAGES) < 2:
            self._is_merging = False  # nothing was left to do; see the manual of FTS5

    def _write_merged(self, pages: int) -> int:
        """Merge so many pages; returns how many rows that changed."""
        before = self._index.total_changes
        self._index.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
        return self._index.total_changes - before

    def _save_growing(self) -> None:
        self._growing = {session: slots for session, slots in self._growing.items() if slots}
        rows = [
            (
                session,
                slot,
                growing.seq,
                growing.type,
                growing.message,
                growing.text,
                growing.passage,
            )
            for session, slots in self._growing.items()
            for slot, growing in slots.items()
            if not growing.is_saved
        ]
        self._index.executemany("INSERT OR REPLACE INTO growing VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        for slots in self._growing.values():
            for growing in slots.values():
                growing.is_known = growing.is_saved = True

    def _load(self) -> None:
        self._growing = {}
        rows = self._index.execute(
            "SELECT growing.session, slot, growing.seq, growing.type, message, growing.text,"
            " passage, passages.text IS growing.text"
            " FROM growing LEFT JOIN passages ON passages.id = passage"
        )
        for session, slot, seq, kind, message, text, passage, is_indexed in rows:
            self._growing.setdefault(session, {})[slot] = _Growing(
                seq=seq,
                type=kind,
                message=message,
                text=text,
                passage=passage,
                is_known=True,
                is_saved=True,
                is_indexed=bool(is_indexed),
            )

    def _drop_deleted(self, number: int) -> None:
        notes = self._log.execute(
            "SELECT number, session, through FROM deletions WHERE number > ?", (number,)
        ).fetchall()
        for number, session, through in notes:
            slots = self._growing.get(session, {})
            for slot in [name for name, growing in slots.items() if growing.seq <= through]:
                del slots[slot]
            rows = self._index.execute(
                "SELECT id FROM passages WHERE session = ? AND seq <= ?", (session, through)
            ).fetchall()
            for (passage,) in rows:
                self._remove(passage)
            self._dropped += len(rows)
            for table in ("growing", "outputs"):
                self._index.execute(
                    f"DELETE FROM {table} WHERE session = ? AND seq <= ?", (session, through)
                )
            self._index.execute("UPDATE state SET deletion = ?", (number,))


def _has_output(event: ToolCallUpdated) -> bool:
    return event.content is not UNSET or event.raw_output is not UNSET
