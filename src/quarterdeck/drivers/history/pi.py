"""pi: ``agent/sessions/--<directory>--/<time>_<id>.jsonl``, a tree of entries in one file.

Each entry names the one before it. Where a person went back, the next entry names an earlier one;
both branches are read, with a notice between.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.events import NoticePosted, SessionChanged, TurnEnd

from ..foreign_json import as_list, as_map, as_number, as_text, message, read_pi_usage, thought
from .files import (
    FoundFile,
    ReadBudget,
    decode_json,
    head_lines,
    is_same_place,
    list_files,
    make_title,
    may_contain,
    parse_time,
    session_folders,
)
from .reader import HistoryEvent, HistorySession, ReadTally, newest_sessions, read_entries
from .turn_builder import TurnBuilder, call_ended, call_started, content_of, text_of_parts

__all__ = ["PiHistory"]

_QUIET = frozenset(
    (
        *("session", "thinking_level_change", "usage", "custom"),
        *("custom_message", "label", "context_edit"),
    )
)
_STOPS: dict[str, TurnEnd] = {"aborted": "cancelled", "error": "failed", "length": "max_tokens"}


class PiHistory:
    """Reads the sessions of pi below its own directory."""

    agent = "pi"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found = [
            file
            for folder in session_folders(self._home / "sessions", directory)
            for file in list_files(folder, lambda name: name.endswith(".jsonl"))
        ]
        return newest_sessions(found, limit, lambda file: _past(file, directory, budget))

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        yield from read_entries(past, tally, _Reading(past.id, tally))

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        return may_contain((Path(past.path),), words, budget)


def _past(file: FoundFile, directory: Path | None, budget: ReadBudget) -> HistorySession | None:
    id_ = cwd = title = ""
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode_json(line))
        if entry.get("type") == "session":
            id_, cwd = as_text(entry.get("id")), as_text(entry.get("cwd"))
            started = parse_time(entry.get("timestamp"))
            if directory is not None and not is_same_place(cwd, directory):
                return None
        data = as_map(entry.get("message"))
        if data.get("role") == "user":
            title = text_of_parts(data.get("content"))
        if not id_ or title:
            break
    if not id_:
        return None
    return HistorySession(
        agent="pi",
        id=id_,
        path=str(file.path),
        cwd=cwd or None,
        title=make_title(title),
        started=started or file.changed,
        updated=file.changed,
        size=file.size,
    )


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._turns = TurnBuilder("pi", id_)
        self._tally = tally
        self._last = ""

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        time = parse_time(entry.get("timestamp")) or None
        before = as_text(entry.get("parentId"))
        if before and self._last and before != self._last:
            went = NoticePosted(title="The person went back to an earlier message")
            yield from self._turns.outside(went, time)
        self._last = as_text(entry.get("id")) or self._last
        match as_text(entry.get("type")):
            case "message":
                yield from self._message(as_map(entry.get("message")), entry, time)
            case "model_change":
                model = as_text(entry.get("modelId"))
                yield from self._turns.outside(SessionChanged(model=model or None), time)
            case "session_info":
                title = make_title(as_text(entry.get("name")))
                yield from self._turns.outside(SessionChanged(title=title), time)
            case "compaction" | "branch_summary":
                yield from self._turns.compact(as_text(entry.get("summary")) or None, time)
            case kind if kind not in _QUIET:
                self._tally.note_unknown(kind)
            case _:
                pass

    def finish(self) -> Iterator[HistoryEvent]:
        yield from self._turns.end()

    def _message(
        self, data: Mapping[str, Any], entry: Mapping[str, Any], time: int | None
    ) -> Iterator[HistoryEvent]:
        match as_text(data.get("role")):
            case "user":
                content = content_of(data.get("content"))
                yield from self._turns.prompt(content, time, as_text(entry.get("id")))
            case "assistant":
                yield from self._answer(data, time)
            case "toolResult":
                failed = data.get("isError") is True
                output = text_of_parts(data.get("content"))
                ended = call_ended(
                    as_text(data.get("toolCallId")), "failed" if failed else "completed", output
                )
                yield from self._turns.tell(ended, time)
            case "bashExecution":
                yield from self._typed(data, as_text(entry.get("id")), time)
            case "system" | "custom" | "branchSummary" | "compactionSummary":
                return
            case kind:
                self._tally.note_unknown(f"message {kind}")

    def _answer(self, data: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        for part in map(as_map, as_list(data.get("content"))):
            match as_text(part.get("type")):
                case "text" if words := as_text(part.get("text")):
                    yield from self._turns.tell(message(words, self._turns.message()), time)
                case "thinking" if words := as_text(part.get("thinking")):
                    yield from self._turns.tell(thought(words, self._turns.message()), time)
                case "toolCall":
                    begun = call_started(
                        as_text(part.get("id")), as_text(part.get("name")), part.get("arguments")
                    )
                    yield from self._turns.tell(begun, time)
                case _:
                    continue
        usage = as_map(data.get("usage"))
        if usage:
            cost = as_map(usage.get("cost")).get("total")
            self._turns.spend(read_pi_usage(usage), cost if isinstance(cost, int | float) else 0.0)
        if how := _STOPS.get(as_text(data.get("stopReason"))):
            self._turns.stop(how, as_text(data.get("errorMessage")) or None)
        else:
            self._turns.stop("end_turn")

    def _typed(self, data: Mapping[str, Any], id_: str, time: int | None) -> Iterator[HistoryEvent]:
        """A command that the person ran with ``!``."""
        begun = call_started(f"typed-{id_}", "bash", {"command": as_text(data.get("command"))})
        yield from self._turns.tell(begun, time)
        failed = as_number(data.get("exitCode")) != 0
        output = as_text(data.get("output"))
        ended = call_ended(f"typed-{id_}", "failed" if failed else "completed", output)
        yield from self._turns.tell(ended, time)
