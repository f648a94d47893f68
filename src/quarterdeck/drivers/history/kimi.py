"""Kimi Code: ``sessions/<workspace>/<id>/state.json`` and ``agents/main/wire.jsonl`` beside it.

The wire has what the agent's loop did, one entry a line. Sub-agents have wires of their own, which
are not read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.events import SessionChanged, TurnEnd
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import as_map, as_number, as_text, message, thought
from .files import (
    FoundFile,
    ReadBudget,
    decode_json,
    head_lines,
    is_same_place,
    list_files,
    list_folders,
    make_title,
    may_contain,
    parse_time,
    read_json,
)
from .reader import HistoryEvent, HistorySession, ReadTally, newest_sessions, read_entries
from .turn_builder import TurnBuilder, call_ended, call_started, content_of, text_of_parts

__all__ = ["KimiHistory"]

_STATE = "state.json"
_LARGEST_STATE = 1 << 20
_QUIET = (
    *("metadata", "runtime.", "profile.", "permission.", "agent.", "plugin.", "llm.", "usage."),
    *("token_counting.", "file_history.", "prompt.", "context.", "turn.", "session.", "config."),
    *("tools.", "goal.", "plan.", "todo.", "mcp.", "hook.", "compaction.", "notify."),
)
"""The prefixes of kinds that add nothing."""
_STOPS: dict[str, TurnEnd] = {"cancelled": "cancelled", "aborted": "cancelled", "failed": "failed"}
_TITLE_BYTES = 262_144
"""The system's prompt stands before the first of the person's."""


class KimiHistory:
    """Reads the sessions of Kimi Code below its own directory."""

    agent = "kimi"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found = [
            file
            for workspace in list_folders(self._home / "sessions")
            for folder in list_folders(workspace)
            for file in list_files(folder, lambda name: name == _STATE)
        ]
        newest = newest_sessions(found, limit, lambda file: _past(file, directory, budget))
        return sorted(newest, key=lambda past: past.updated, reverse=True)

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        yield from read_entries(past, tally, _Reading(past.id, tally))

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        return may_contain((Path(past.path),), words, budget)


def _past(file: FoundFile, directory: Path | None, budget: ReadBudget) -> HistorySession | None:
    state = as_map(read_json(file.path, budget, most=_LARGEST_STATE))
    id_, cwd = as_text(state.get("id")), as_text(state.get("cwd"))
    if not id_ or (directory is not None and not is_same_place(cwd, directory)):
        return None
    wire = file.path.parent / "agents" / "main" / "wire.jsonl"
    (size,) = [one.size for one in list_files(wire.parent, lambda name: name == wire.name)] or [0]
    title = as_text(state.get("title")) or (_first_prompt(wire, budget) if size else "")
    return HistorySession(
        agent="kimi",
        id=id_,
        path=str(wire),
        cwd=cwd or None,
        title=make_title(title),
        started=parse_time(state.get("createdAt")) or file.changed,
        updated=parse_time(state.get("updatedAt")) or file.changed,
        size=size,
        archived=state.get("archived") is True,
    )


def _first_prompt(wire: Path, budget: ReadBudget) -> str:
    for line in head_lines(wire, budget, most=_TITLE_BYTES, first=65_536):
        if line.startswith(b'{"type":"turn.prompt"'):
            entry = as_map(decode_json(line))
            if as_map(entry.get("origin")).get("kind") == "user":
                return text_of_parts(entry.get("input"))
    return ""


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._turns = TurnBuilder("kimi", id_)
        self._tally = tally
        self._model = ""

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        time = parse_time(entry.get("time")) or None
        match as_text(entry.get("type")):
            case "turn.prompt":
                content = content_of(entry.get("input"))
                yield from self._turns.prompt(content, time, as_text(entry.get("promptId")))
            case "context.append_loop_event":
                yield from self._step(as_map(entry.get("event")), time)
            case "llm.request" if (model := as_text(entry.get("model"))) != self._model and model:
                self._model = model
                yield from self._turns.outside(SessionChanged(model=model), time)
            case "turn.ended":
                if how := _STOPS.get(as_text(entry.get("reason"))):
                    self._turns.stop(how)
                yield from self._turns.end()
            case "compaction.completed" | "context.apply_compaction":
                yield from self._turns.compact(as_text(entry.get("summary")) or None, time)
            case kind if not kind.startswith(_QUIET):
                self._tally.note_unknown(kind)
            case _:
                pass

    def finish(self) -> Iterator[HistoryEvent]:
        yield from self._turns.end()

    def _step(self, event: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        match as_text(event.get("type")):
            case "content.part":
                part = as_map(event.get("part"))
                if text := as_text(part.get("think")) or as_text(part.get("thinking")):
                    yield from self._turns.tell(thought(text, self._turns.message()), time)
                elif text := as_text(part.get("text")):
                    yield from self._turns.tell(message(text, self._turns.message()), time)
            case "tool.call":
                begun = call_started(
                    as_text(event.get("toolCallId")),
                    as_text(event.get("name")),
                    event.get("args"),
                )
                yield from self._turns.tell(begun, time)
            case "tool.result":
                yield from self._turns.tell(_ended(event), time)
            case "step.end":
                if usage := as_map(event.get("usage")):
                    self._turns.spend(_usage(usage))
            case "step.begin":
                return
            case kind:
                self._tally.note_unknown(f"loop {kind}")


def _ended(event: Mapping[str, Any]) -> Any:
    result = as_map(event.get("result"))
    output = as_text(result.get("output")) or text_of_parts(result.get("output"))
    failed = result.get("isError") is True or result.get("is_error") is True
    return call_ended(as_text(event.get("toolCallId")), "failed" if failed else "completed", output)


def _usage(data: Mapping[str, Any]) -> TokenUsage:
    cached = as_number(data.get("inputCacheRead"))
    written = as_number(data.get("inputCacheCreation"))
    return TokenUsage(
        input=as_number(data.get("inputOther")) + cached + written,
        output=as_number(data.get("output")),
        cached=cached,
        cache_written=written,
    )
