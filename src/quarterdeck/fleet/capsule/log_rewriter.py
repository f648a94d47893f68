"""Turns the records of a capsule into those of a log here: ids, directories, and what has power.

A capsule may come from anyone. What it says is history; what in it would let an agent do something
here (grants, allow rules, modes that do not ask, tool servers, worktrees, further directories) is
taken in only if the person says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from quarterdeck.wire.events import (
    Event,
    GrantRevoked,
    ModeChanged,
    SessionChanged,
    SessionOpened,
    SessionSpawned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.record import Record, decode_event, encode_event
from quarterdeck.wire.session_options import SessionOptions

from .session_facts import SessionFacts

__all__ = ["LogRewriter"]

_CAREFUL = ("read-only", "plan", "ask", "deny-all", None)
"""Modes that let an agent do nothing that its person would want to be asked about."""
_BY = Decider(kind="person", name="capsule import")


class LogRewriter:
    """Rewrites the records of one log.

    Args:
        ids: new ids by old ones; only those that change.
        move: the directory that became another, and that one; None: none did.
        is_trusted: keep what has power.
    """

    def __init__(
        self,
        ids: Mapping[SessionId, SessionId],
        move: tuple[str, str] | None,
        *,
        is_trusted: bool,
    ) -> None:
        self._ids = ids
        self._move = move
        self._is_trusted = is_trusted
        self._facts: dict[SessionId, SessionFacts] = {}
        self._bold: dict[SessionId, str] = {}
        """Sessions with a mode that lets them do something, and the last such mode."""
        self.dropped: dict[str, int] = {}
        """What was not taken in, with how often."""

    def rewrite(self, record: Record) -> Record:
        """The record as it goes into the log here."""
        event = record.event
        if self._ids:
            event = self._rename(event)
        event = self._relocate(event)
        if not self._is_trusted:
            event = self._disarm(event)
        record = replace(record, session=self._ids.get(record.session, record.session), event=event)
        match event:
            case SessionOpened(mode=str(mode)) | ModeChanged(mode=mode) if mode not in _CAREFUL:
                self._bold[record.session] = mode
            case _:
                pass
        self._facts.setdefault(record.session, SessionFacts(record.session)).take(record)
        return record

    def closing(self) -> Iterator[tuple[SessionId, Event]]:
        """What is appended behind: nothing that was in force stays so."""
        if self._is_trusted:
            return
        for session, facts in self._facts.items():
            for grant in facts.grants:
                self._note("grants")
                yield session, GrantRevoked(grant=grant, by=_BY)
            if session in self._bold:
                self._note(f"mode {self._bold[session]!r}")
                yield session, SessionChanged(mode="ask")
                if facts.describe().agent == "native":
                    yield session, ModeChanged(mode="ask")
            if facts.worktree is not None:
                self._note("worktree")
                yield session, WorktreeReleased(path=facts.worktree.path, how="missing")

    def move_directory(self, path: str) -> str:
        """Where a directory is now."""
        if self._move is None:
            return path
        old, new = self._move
        if path == old:
            return new
        return new + path[len(old) :] if path.startswith(old.rstrip("/") + "/") else path

    def _note(self, what: str) -> None:
        self.dropped[what] = self.dropped.get(what, 0) + 1

    def _rename(self, event: Event) -> Event:
        plain = msgspec.json.decode(encode_event(event))
        renamed = self._renamed(plain)
        return event if renamed == plain else decode_event(msgspec.json.encode(renamed))

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._ids.get(SessionId(value), value)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {name: self._renamed(inner) for name, inner in items}
        if isinstance(value, list):
            return [self._renamed(inner) for inner in cast("list[Any]", value)]
        return value

    def _relocate(self, event: Event) -> Event:
        match event:
            case SessionOpened(cwd=cwd):
                return replace(event, cwd=self.move_directory(cwd))
            case SessionSpawned(options=options):
                cwd = self.move_directory(options.cwd)
                return replace(event, options=replace(options, cwd=cwd))
            case _:
                return event

    def _disarm(self, event: Event) -> Event:
        match event:
            case SessionOpened(roots=roots) if roots:
                self._note("further directories")
                return replace(event, roots=())
            case SessionSpawned(options=options):
                kept = _disarm_options(options)
                if kept != options or event.lead:
                    self._note("options of its start")
                # An agent may read the transcript of what it continues: no session of this machine.
                return replace(event, options=kept, lead=False, continues=None, fallback=None)
            case SessionChanged(mode=mode) if mode is not UNSET and mode not in _CAREFUL:
                return replace(event, mode="ask")
            case _:
                return event


def _disarm_options(options: SessionOptions) -> SessionOptions:
    """How it may be started here: with less than it was, never with more."""
    return SessionOptions(
        agent=options.agent,
        cwd=options.cwd,
        model=options.model,
        effort=options.effort,
        mode=options.mode if options.mode in _CAREFUL else "ask",
        deny=options.deny,
        tools=options.tools,
        denied_tools=options.denied_tools,
        limits=options.limits,
        resume=options.resume,
    )
