"""Gemini CLI: ``tmp/<project>/chats/session-*.jsonl``, in older versions one ``.json`` file.

Before whole sessions were stored, a project's ``logs.json`` has the prompts.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import (
    NoticePosted,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.tool_calls import Diff, ToolCallContent, ToolCallEnd, ToolCallLocation
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import (
    as_list,
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    thought,
    tool_kind,
)
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
from .reader import HistoryEvent, HistorySession, ReadTally
from .turn_builder import TurnBuilder

__all__ = [
    "LOGS",
    "GeminiHistory",
    "GeminiMessageReader",
    "logged_sessions",
    "prompt_text",
    "read_logged",
]

_CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_SNAPSHOT = "<state_snapshot>"
_ENDS: dict[str, ToolCallEnd] = {"success": "completed", "cancelled": "cancelled"}
_TITLE = 200


def prompt_text(one: Mapping[str, Any]) -> str:
    """What a person said in a message; empty if it is none of that."""
    if one.get("type") != "user":
        return ""
    text = "\n".join(as_text(part.get("text")) for part in _parts(one) if part.get("text"))
    return "" if text.lstrip().startswith((*_CONTEXT, _SNAPSHOT)) else text


def _parts(one: Mapping[str, Any]) -> "list[Mapping[str, Any]]":
    content = one.get("content")
    if isinstance(content, str):
        return [{"text": content}]
    if alone := as_map(content):
        return [alone]
    return [{"text": part} if isinstance(part, str) else as_map(part) for part in as_list(content)]


class GeminiMessageReader:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._turns = TurnBuilder("gemini", id_)
        self._tally = tally
        self._known: set[str] = set()
        self._growing: Mapping[str, Any] | None = None
        """The last message; it may be written again with more in it."""
        self._model = ""

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        """The events of a line of the newer form."""
        if "$set" in entry:
            for one in map(as_map, as_list(as_map(entry["$set"]).get("messages"))):
                id_ = as_text(one.get("id"))
                if id_ not in self._known and not id_.endswith("_response"):
                    yield from self._next(one)
        elif "$rewindTo" in entry:
            yield from self._flush()
            went = NoticePosted(title="The person went back to an earlier message")
            yield from self._turns.outside(went, None)
        elif isinstance(entry.get("id"), str) and "type" in entry:
            yield from self._next(entry)
        elif "sessionId" not in entry:
            self._tally.note_unknown(next(iter(entry), ""))

    def _next(self, one: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        id_ = as_text(one.get("id"))
        if self._growing is not None and as_text(self._growing.get("id")) == id_:
            self._growing = one
            return
        yield from self._flush()
        if id_ not in self._known:
            self._known.add(id_)
            self._growing = one

    def _flush(self) -> Iterator[HistoryEvent]:
        growing, self._growing = self._growing, None
        if growing is not None:
            yield from self.message(growing)

    def finish(self) -> Iterator[HistoryEvent]:
        """What is left at the end of the file."""
        yield from self._flush()
        yield from self._turns.end()

    def message(self, one: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        """The events of a whole message."""
        time = parse_time(one.get("timestamp")) or None
        match as_text(one.get("type")):
            case "user":
                yield from self._user(one, time)
            case "gemini" | "model":
                yield from self._answer(one, time)
            case "info" | "warning" | "error" as severity:
                text = "\n".join(as_text(part.get("text")) for part in _parts(one))
                if severity == "error":
                    self._turns.stop("failed", text or None)
                yield from self._turns.tell(
                    NoticePosted(title=text or severity, severity=severity), time
                )
            case kind:
                self._tally.note_unknown(kind)

    def _user(self, one: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        parts = _parts(one)
        for answer in (as_map(part.get("functionResponse")) for part in parts):
            if answer:
                yield from self._turns.tell(_answered(answer), time)
        first = as_text(parts[0].get("text")).lstrip() if parts else ""
        if first.startswith(_SNAPSHOT):
            yield from self._turns.compact(first, time)
        elif (content := list(_content(parts))) and not first.startswith(_CONTEXT):
            yield from self._turns.prompt(content, time, as_text(one.get("id")))

    def _answer(self, one: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        model = as_text(one.get("model"))
        if model and model != self._model:
            self._model = model
            yield from self._turns.outside(SessionChanged(model=model), time)
        thoughts = map(as_map, as_list(one.get("thoughts")))
        if text := "".join(map(_thought, thoughts)):
            yield from self._turns.tell(thought(text, self._turns.message()), time)
        parts = _parts(one)
        if text := "".join(as_text(part.get("text")) for part in parts if not part.get("thought")):
            yield from self._turns.tell(message(text, self._turns.message()), time)
        for part in parts:
            if called := as_map(part.get("functionCall")):
                yield from self._turns.tell(_called(called), time)
        for call in map(as_map, as_list(one.get("toolCalls"))):
            for event in _call(call):
                yield from self._turns.tell(event, parse_time(call.get("timestamp")) or time)
        if tokens := as_map(one.get("tokens")):
            self._turns.spend(_usage(tokens))


def _thought(data: Mapping[str, Any]) -> str:
    subject, rest = as_text(data.get("subject")), as_text(data.get("description"))
    return f"**{subject}**\n{rest}\n" if subject else rest


def _content(parts: Iterable[Mapping[str, Any]]) -> Iterator[ContentBlock]:
    for part in parts:
        data = as_map(part.get("inlineData"))
        if words := as_text(part.get("text")):
            yield text(words)
        elif as_text(data.get("data")) and as_text(data.get("mimeType")).startswith("image/"):
            yield ImageContent(data=data["data"], mime_type=data["mimeType"])


def _called(call: Mapping[str, Any]) -> ToolCallStarted:
    """A call, of a message's ``toolCalls`` or of a part."""
    name, given = as_text(call.get("name")), as_map(call.get("args"))
    path = as_text(given.get("file_path")) or as_text(given.get("absolute_path"))
    about = as_text(given.get("command")) or path or as_text(call.get("description"))
    title = about if given.get("command") else f"{name} {about}".strip()
    return ToolCallStarted(
        call=ToolCallId(as_text(call.get("id")) or "unnamed"),
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        name=name or None,
        kind=tool_kind(name),
        status="in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(given),
    )


def _call(call: Mapping[str, Any]) -> Iterator[ToolCallStarted | ToolCallEnded]:
    yield _called(call)
    results = [as_map(as_map(one).get("functionResponse")) for one in as_list(call.get("result"))]
    output = "\n".join(_output(one) for one in results)
    status = _ENDS.get(as_text(call.get("status")), "failed")
    display = as_map(call.get("resultDisplay"))
    content: tuple[ToolCallContent, ...] = output_content(
        as_text(call.get("resultDisplay")) or output
    )
    path, new = as_text(display.get("filePath")), display.get("newContent")
    if path and isinstance(new, str):
        old = as_text(display.get("originalContent")) or None
        content = (Diff(path=path, old_text=old, new_text=new),)
    yield ToolCallEnded(
        call=ToolCallId(as_text(call.get("id")) or "unnamed"),
        status=status,
        reason=output[:1_000] or None if status != "completed" else None,
        content=content,
    )


def _answered(answer: Mapping[str, Any]) -> ToolCallEnded:
    failed = bool(as_map(answer.get("response")).get("error"))
    output = _output(answer)
    return ToolCallEnded(
        call=ToolCallId(as_text(answer.get("id")) or "unnamed"),
        status="failed" if failed else "completed",
        reason=output[:1_000] or None if failed else None,
        content=output_content(output),
    )


def _output(answer: Mapping[str, Any]) -> str:
    response = as_map(answer.get("response"))
    return as_text(response.get("output")) or as_text(response.get("error"))


def _usage(tokens: Mapping[str, Any]) -> TokenUsage:
    thinking = as_number(tokens.get("thoughts"))
    return TokenUsage(
        input=as_number(tokens.get("input")) + as_number(tokens.get("tool")),
        output=as_number(tokens.get("output")) + thinking,
        cached=as_number(tokens.get("cached")),
        thought=thinking,
    )


LOGS = "logs.json"
_LISTED = 1 << 20
"""Bytes; a larger file is left out of a listing."""


def logged_sessions(
    project: Path, cwd: str | None, known: set[str], budget: ReadBudget
) -> Iterator[HistorySession]:
    """Sessions of which nothing but prompts is left; those that are known otherwise are not
    reported.

    Those with commands for the program alone are left out.
    """
    path = project / LOGS
    prompts: dict[str, list[Mapping[str, Any]]] = {}
    for entry in map(as_map, as_list(read_json(path, budget, most=_LISTED))):
        id_ = as_text(entry.get("sessionId"))
        if id_ and id_ not in known and as_text(entry.get("message")):
            prompts.setdefault(id_, []).append(entry)
    for id_, entries in prompts.items():
        messages = [as_text(one.get("message")) for one in entries]
        title = next((one for one in messages if not one.startswith(("/", "?"))), None)
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
        words = as_text(entry.get("message"))
        if entry.get("sessionId") == past.id and words:
            tally.lines += 1
            name = str(entry.get("messageId", ""))
            yield from turns.prompt([text(words)], parse_time(entry.get("timestamp")), name)
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
            for one in map(as_map, as_list(whole.get("messages"))):
                tally.lines += 1
                yield from reading.message(one)
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
        """The directories of projects, and where each works, as far as it can be known."""
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
    """The directory that a project's name stands for, where it is recorded."""
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
    """The id, the beginning, a title and the kind, where the head has them."""
    id_ = title = kind = ""
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode_json(line))
        id_ = id_ or as_text(entry.get("sessionId"))
        kind = kind or as_text(entry.get("kind"))
        started = started or parse_time(entry.get("startTime"))
        for one in (entry, *_set_messages(entry)):
            title = title or prompt_text(one)
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
    title = next((words for one in messages if (words := prompt_text(one))), "")
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
