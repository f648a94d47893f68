"""OpenCode: ``opencode.db``, earlier a file for each session, message and part.

Both are read: a session that is in both, because OpenCode has moved it, is told once. Sessions of
sub-agents stand within the call that began them.
"""

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock, ImageContent, ResourceLink, text
from quarterdeck.wire.events import CompactionChanged, NoticePosted, SessionChanged
from quarterdeck.wire.ids import CompactionId

from ..foreign_json import as_list, as_map, as_text, message, thought
from ..opencode_messages import amount_of, call_ended, call_id, call_started, error_text, tokens_of
from .errors import HistoryError, HistoryIncompleteError
from .files import ReadBudget, is_same_place, make_title, parse_time
from .opencode_storage import (
    OpencodeDatabase,
    OpencodeEntry,
    OpencodeFiles,
    OpencodeStore,
    find_databases,
)
from .reader import HistoryEvent, HistorySession, ReadTally
from .turn_builder import TurnBuilder

__all__ = ["OpencodeHistory"]

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
        said = store.first_words(past.id, budget) if is_made_up else past.title
        yield replace(past, title=make_title(said) or past.title)


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally, store: OpencodeStore) -> None:
        self._turns = TurnBuilder("opencode", id_)
        self._tally = tally
        self._store = store
        self._model = ""
        self._compactions = 0

    def session(
        self, session: str, parent: str | None = None, depth: int = 0
    ) -> Iterator[HistoryEvent]:
        """What a session tells, in order; with a parent: a sub-agent's."""
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
                    said_ = message(text, self._turns.message())
                    yield from self._turns.tell(said_, began, parent)
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
        said = (as_text(one.data.get("text")) for one in parts if one.data.get("type") == "text")
        self._compactions += 1
        name = CompactionId(f"cmp_{self._compactions}")
        summary = "\n".join(said) or None
        begun = CompactionChanged(compaction=name, status="in_progress")
        done = CompactionChanged(compaction=name, status="completed", summary=summary)
        for event in (begun, done):
            yield from self._turns.outside(event, time)

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
    """What a person said: not what the program put beside it."""
    for part in (one.data for one in parts):
        if part.get("synthetic") or part.get("ignored"):
            continue
        said, url = as_text(part.get("text")), as_text(part.get("url"))
        image = _IMAGE.fullmatch(url) if part.get("type") == "file" else None
        if part.get("type") == "text" and said:
            yield text(said)
        elif image is not None:
            yield ImageContent(data=image[2], mime_type=image[1])
        elif part.get("type") == "file" and url and not url.startswith("data:"):
            yield ResourceLink(uri=url, name=as_text(part.get("filename")) or url)
