"""Qwen Code: ``projects/<directory>/chats/<id>.jsonl``, entries in the manner of Claude Code.

What is said has Gemini's form: parts with texts, calls and answers. Each entry names the one
before it, so that going back leaves both branches in the file; both are reported.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import NoticePosted, SessionChanged
from quarterdeck.wire.tool_calls import ToolCallEnd
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import as_list, as_map, as_number, as_text, message, thought
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
    tail_lines,
)
from .reader import HistoryEvent, HistorySession, ReadTally, newest_sessions, read_entries
from .turn_builder import TurnBuilder, call_ended, call_started

__all__ = ["QwenHistory"]

_ENDS: dict[str, ToolCallEnd] = {"error": "failed", "cancelled": "cancelled"}
_REMINDER = "<system-reminder>"


class QwenHistory:
    """Reads the sessions of Qwen Code below its own directory."""

    agent = "qwen"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found = [
            file
            for folder in session_folders(self._home / "projects", directory)
            for file in list_files(folder / "chats", lambda name: name.endswith(".jsonl"))
        ]
        return newest_sessions(found, limit, lambda file: _past(file, directory, budget))

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        yield from read_entries(past, tally, _Reading(past.id, tally))

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        return may_contain((Path(past.path),), words, budget)


def _past(file: FoundFile, directory: Path | None, budget: ReadBudget) -> HistorySession | None:
    id_ = cwd = title = version = ""
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode_json(line))
        if not id_:
            id_, cwd = as_text(entry.get("sessionId")), as_text(entry.get("cwd"))
            version = as_text(entry.get("version"))
            started = parse_time(entry.get("timestamp"))
            if not id_ or (directory is not None and not is_same_place(cwd, directory)):
                return None
        if title := _prompt_text(entry):
            break
    if not id_:
        return None
    for line in tail_lines(file.path, file.size, budget):
        if named := _named(as_map(decode_json(line))):
            title = named
            break
    return HistorySession(
        agent="qwen",
        id=id_,
        path=str(file.path),
        cwd=cwd or None,
        title=make_title(title),
        started=started or file.changed,
        updated=file.changed,
        size=file.size,
        version=version or None,
    )


def _parts(entry: Mapping[str, Any]) -> "list[Mapping[str, Any]]":
    return [as_map(part) for part in as_list(as_map(entry.get("message")).get("parts"))]


def _prompt_text(entry: Mapping[str, Any]) -> str:
    """What a person said in an entry; empty if it is none of that."""
    if entry.get("type") != "user" or entry.get("isSidechain") is True:
        return ""
    texts = (as_text(part.get("text")) for part in _parts(entry))
    return "\n".join(item for item in texts if item and not item.lstrip().startswith(_REMINDER))


def _named(entry: Mapping[str, Any]) -> str:
    if entry.get("type") != "system" or entry.get("subtype") != "custom_title":
        return ""
    payload = as_map(entry.get("systemPayload"))
    return as_text(payload.get("customTitle")) or as_text(payload.get("title"))


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._turns = TurnBuilder("qwen", id_)
        self._tally = tally
        self._last = ""
        self._model = ""

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        time = parse_time(entry.get("timestamp")) or None
        before = as_text(entry.get("parentUuid"))
        if before and self._last and before != self._last:
            went = NoticePosted(title="The person went back to an earlier message")
            yield from self._turns.outside(went, time)
        self._last = as_text(entry.get("uuid")) or self._last
        match as_text(entry.get("type")):
            case "user":
                if content := list(_content(entry)):
                    yield from self._turns.prompt(content, time, as_text(entry.get("uuid")))
            case "assistant":
                yield from self._answer(entry, time)
            case "tool_result":
                yield from self._result(entry, time)
            case "system":
                yield from self._system(entry, time)
            case kind:
                self._tally.note_unknown(kind)

    def finish(self) -> Iterator[HistoryEvent]:
        yield from self._turns.end()

    def _answer(self, entry: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        model = as_text(entry.get("model"))
        if model and model != self._model:
            self._model = model
            yield from self._turns.outside(SessionChanged(model=model), time)
        for part in _parts(entry):
            if text := as_text(part.get("text")):
                make = thought if part.get("thought") is True else message
                yield from self._turns.tell(make(text, self._turns.message()), time)
            if call := as_map(part.get("functionCall")):
                begun = call_started(
                    as_text(call.get("id")), as_text(call.get("name")), call.get("args")
                )
                yield from self._turns.tell(begun, time)
        if usage := as_map(entry.get("usageMetadata")):
            self._turns.spend(_usage(usage))

    def _result(self, entry: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        result = as_map(entry.get("toolCallResult"))
        shown = as_map(result.get("resultDisplay"))
        diff = {
            "path": shown.get("filePath"),
            "old": shown.get("originalContent"),
            "new": shown.get("newContent"),
        }
        for part in _parts(entry):
            answer = as_map(part.get("functionResponse"))
            if not answer:
                continue
            response = as_map(answer.get("response"))
            output = as_text(response.get("output")) or as_text(response.get("error"))
            status = _ENDS.get(as_text(result.get("status")), "completed")
            status = "failed" if response.get("error") and status == "completed" else status
            ended = call_ended(
                as_text(answer.get("id")), status, output, diff if status == "completed" else None
            )
            yield from self._turns.tell(ended, time)

    def _system(self, entry: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        if title := make_title(_named(entry)):
            yield from self._turns.outside(SessionChanged(title=title), time)
        if entry.get("subtype") != "chat_compression":
            return  # snapshots and telemetry
        yield from self._turns.compact(None, time)


def _content(entry: Mapping[str, Any]) -> Iterator[ContentBlock]:
    if words := _prompt_text(entry):
        yield text(words)
    for part in _parts(entry):
        data = as_map(part.get("inlineData"))
        if as_text(data.get("data")) and as_text(data.get("mimeType")).startswith("image/"):
            yield ImageContent(data=data["data"], mime_type=data["mimeType"])


def _usage(data: Mapping[str, Any]) -> TokenUsage:
    thinking = as_number(data.get("thoughtsTokenCount"))
    return TokenUsage(
        input=as_number(data.get("promptTokenCount")),
        output=as_number(data.get("candidatesTokenCount")) + thinking,
        cached=as_number(data.get("cachedContentTokenCount")),
        thought=thinking,
    )
