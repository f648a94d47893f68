"""Mistral Vibe: ``logs/session/unified/<id>/``, a snapshot in pieces and a journal after it.

``CURRENT`` names a generation, whose manifest names the files that hold the session's entries;
what happened since stands in a segment of the journal.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.events import SessionChanged, TurnEnd
from quarterdeck.wire.tool_calls import ToolCallEnd
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import as_list, as_map, as_number, as_text, message, thought
from .files import (
    FoundFile,
    ReadBudget,
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
from .reader import HistoryEvent, HistorySession, ReadTally, newest_sessions
from .turn_builder import TurnBuilder, call_ended, call_started, content_of, text_of_parts

__all__ = ["VibeHistory"]

_META = "meta.json"
_LARGEST = 1 << 20
_LARGEST_CHUNK = 64 << 20
_GENERATION = re.compile(r"[0-9]{1,20}")
_CHUNK = re.compile(r"[0-9a-f]{64}")
_SEGMENT = re.compile(r"journal/[0-9]{1,20}\.jsonl")
_ENDS: dict[str, ToolCallEnd] = {"completed": "completed", "cancelled": "cancelled"}
_STOPS: dict[str, TurnEnd] = {"failed": "failed", "cancelled": "cancelled", "error": "failed"}


class VibeHistory:
    """Reads the sessions of Mistral Vibe below its own directory."""

    agent = "vibe"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found = [
            file
            for folder in list_folders(self._home / "logs" / "session" / "unified")
            for file in list_files(folder, lambda name: name == _META)
        ]
        newest = newest_sessions(found, limit, lambda file: _past(file, directory, budget))
        return sorted(newest, key=lambda past: past.updated, reverse=True)

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        with open_plain(Path(past.path)):
            pass  # to say why it cannot be opened
        folder = Path(past.path).parent
        manifest = _manifest(folder)
        reading = _Reading(past.id, tally)
        yield from reading.begin(as_map(read_json(Path(past.path), most=_LARGEST)))
        for entry in _entries(folder, manifest, tally).values():
            yield from reading.entry(entry)
        yield from reading.finish(_spent(folder, manifest))

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        folder = Path(past.path).parent
        manifest = _manifest(folder)
        return may_contain((*_chunks(folder, manifest), *_segment(folder, manifest)), words, budget)


def _past(file: FoundFile, directory: Path | None, budget: ReadBudget) -> HistorySession | None:
    meta = as_map(read_json(file.path, budget, most=_LARGEST))
    id_ = as_text(meta.get("session_id"))
    cwd = as_text(as_map(meta.get("environment")).get("working_directory"))
    is_elsewhere = directory is not None and not is_same_place(cwd, directory)
    if not id_ or id_ != file.path.parent.name or is_elsewhere or meta.get("parent_session_id"):
        return None
    folder = file.path.parent
    title = as_text(meta.get("title")) or _preview(folder, budget)
    return HistorySession(
        agent="vibe",
        id=id_,
        path=str(file.path),
        cwd=cwd or None,
        title=make_title(title),
        started=parse_time(meta.get("start_time")) or file.changed,
        updated=parse_time(meta.get("end_time")) or file.changed,
        archived=bool(meta.get("archived_at")),
    )


def _manifest(folder: Path, budget: ReadBudget | None = None) -> Mapping[str, Any]:
    current = as_map(read_json(folder / "CURRENT", budget, most=_LARGEST))
    generation = as_text(current.get("generation"))
    if not _GENERATION.fullmatch(generation):
        return {}
    path = folder / "generations" / generation / "manifest.json"
    return {**as_map(read_json(path, budget, most=_LARGEST)), "generation": generation}


def _state(
    folder: Path, manifest: Mapping[str, Any], budget: ReadBudget | None
) -> Mapping[str, Any]:
    generation = as_text(manifest.get("generation"))
    if not generation:
        return {}
    path = folder / "generations" / generation / "projection-state.json"
    whole = as_map(read_json(path, budget, most=_LARGEST))
    return as_map(as_map(whole.get("snapshot")).get("session"))


def _preview(folder: Path, budget: ReadBudget) -> str:
    return as_text(_state(folder, _manifest(folder, budget), budget).get("preview"))


def _spent(folder: Path, manifest: Mapping[str, Any]) -> TokenUsage:
    data = as_map(_state(folder, manifest, None).get("tokenUsage"))
    return TokenUsage(
        input=as_number(data.get("inputTokens")),
        output=as_number(data.get("outputTokens")),
        cached=as_number(data.get("cachedInputTokens")),
    )


def _chunks(folder: Path, manifest: Mapping[str, Any]) -> list[Path]:
    names = as_list(as_map(manifest.get("projection_state")).get("chunks"))
    # Names come from a file; they must not lead anywhere else.
    return [
        folder / "chunks" / f"{one}.json" for one in map(as_text, names) if _CHUNK.fullmatch(one)
    ]


def _segment(folder: Path, manifest: Mapping[str, Any]) -> list[Path]:
    path = as_text(as_map(manifest.get("recovery_journal_segment")).get("path"))
    if not _SEGMENT.fullmatch(path) or not (folder / path).is_file():
        return []
    return [folder / path]


def _entries(
    folder: Path, manifest: Mapping[str, Any], tally: ReadTally
) -> dict[str, Mapping[str, Any]]:
    """The entries of a session under their ids, in order; a later form of one counts."""
    entries: dict[str, Mapping[str, Any]] = {}
    for path in _chunks(folder, manifest):
        chunk = read_json(path, most=_LARGEST_CHUNK)
        tally.corrupt += not isinstance(chunk, list)
        for entry in map(as_map, as_list(chunk)):
            tally.lines += 1
            entries[as_text(entry.get("id"))] = entry
    for path in _segment(folder, manifest):
        with open_plain(path) as file:
            for record in json_lines(file, tally):
                for change in map(as_map, as_list(as_map(record.get("payload")).get("delta"))):
                    if entry := as_map(change.get("entry")):
                        entries[as_text(entry.get("id"))] = entry
    return entries


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._turns = TurnBuilder("vibe", id_)
        self._tally = tally

    def begin(self, meta: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        if model := as_text(as_map(meta.get("config")).get("model_name")):
            yield from self._turns.outside(SessionChanged(model=model), None)

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        time = parse_time(entry.get("createdAt")) or None
        match as_text(entry.get("type")), as_text(entry.get("role")):
            case "message", "user":
                content = content_of(entry.get("content"))
                yield from self._turns.prompt(content, time, as_text(entry.get("turnId")))
            case "message", "assistant":
                if text := text_of_parts(entry.get("content")):
                    yield from self._turns.tell(message(text, self._turns.message()), time)
            case (("reasoning" | "thought" | "thinking"), _):
                if text := text_of_parts(entry.get("content")) or as_text(entry.get("text")):
                    yield from self._turns.tell(thought(text, self._turns.message()), time)
            case "effect", _:
                yield from self._effect(entry, time)
            case kind, _:
                self._tally.note_unknown(kind)

    def finish(self, usage: TokenUsage) -> Iterator[HistoryEvent]:
        # Vibe counts a session as a whole; its last turn has what all of them took.
        if usage.total:
            self._turns.spend(usage)
        yield from self._turns.end()

    def _effect(self, entry: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        detail, state = as_map(entry.get("detail")), as_map(entry.get("state"))
        id_ = as_text(entry.get("id"))
        name = as_text(detail.get("toolName")) or as_text(entry.get("title"))
        yield from self._turns.tell(call_started(id_, name, detail.get("input")), time)
        status = as_text(state.get("status"))
        if status in ("running", "pending", "waiting"):
            return
        output = as_map(state.get("output"))
        text = as_text(state.get("outputText")) or text_of_parts(output.get("content"))
        failed = (
            output.get("type") == "error" or as_map(state.get("display")).get("success") is False
        )
        how = "failed" if failed else _ENDS.get(status, "failed")
        given = as_map(detail.get("input"))
        diff = {"path": as_map(output.get("structured_content")).get("path")}
        diff["new"] = given.get("content") if "write" in name else None
        ended = call_ended(id_, how, text, diff if how == "completed" else None)
        yield from self._turns.tell(ended, parse_time(entry.get("updatedAt")) or time)
