"""Claude Code: ``projects/<slug>/<id>.jsonl``, an entry a line; sub-agents within or beside it.

Up to 2.0 the entries of sub-agents stand among the others with ``isSidechain``; since then each
has a file ``<id>/subagents/agent-<name>.jsonl``, read where its call ends.

Beside ``<id>.jsonl`` there may be a directory ``<id>`` with the title that a person gave it and
whether it was put away.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
)

from ..foreign_json import as_list, as_map, as_text
from ..pipe.claude.events import ClaudeTranslator
from ..pipe.claude.messages import tokens_of
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
    tail_lines,
)
from .reader import HistoryEvent, HistorySession, ReadTally
from .turn_builder import TurnBuilder

__all__ = [
    "INTERRUPTED",
    "TITLES",
    "ClaudeHistory",
    "blocks_of",
    "is_slug_of",
    "prompt_text",
    "read_metadata",
    "slug_of",
    "with_title",
]

TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Kinds of entries with a title, and the field that has it; the best comes first."""
INTERRUPTED = "[Request interrupted by user"
_COMMAND = re.compile(r"<command-name>\s*(/?[^<]*?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.S)
_OUTPUT = ("<local-command-", "<task-notification>", "<bash-stdout>", "<system-reminder>")
_CWD = re.compile(rb'"cwd":("(?:[^"\\]|\\.)*")')
_TEXT = re.compile(rb'"text":("(?:[^"\\]|\\.)*")')
_SIDE_FILE = 4_096
_SLUG = 200
"""Characters; of a longer path the slug is cut and has a hash behind."""
_TAIL = 65_536
"""Bytes of the end that are looked through where the beginning does not say where it worked."""


def slug_of(directory: str) -> str:
    """The name of the directory in which Claude Code keeps what worked in a directory."""
    # JavaScript counts a letter beyond the first plane as two.
    return "".join(
        letter if letter.isascii() and letter.isalnum() else "-" * (1 + (ord(letter) > 0xFFFF))
        for letter in directory
    )


def is_slug_of(name: str, directory: str) -> bool:
    """Whether Claude Code may keep in a directory of this name what worked in a directory."""
    slug = slug_of(directory)
    return name == slug or (len(slug) > _SLUG and name.startswith(slug[:_SLUG]))


def read_metadata(
    file: FoundFile, directory: Path | None, budget: ReadBudget
) -> HistorySession | None:
    """The facts but the title that was given; None: of another directory, or no conversation."""
    cwd, first, version, started = _head(file, budget)
    if cwd is None or not is_slug_of(file.path.parent.name, cwd):
        # A first prompt with a picture in it may be longer than what is read; and a project that
        # was moved together with its sessions has its new place where it went on.
        cwd = _last_cwd(file, budget) or cwd
    if directory is not None and not is_same_place(cwd, directory):
        return None  # two directories can have one slug
    if cwd is None and first is None and not budget.is_spent:
        return None
    return HistorySession(
        agent="claude",
        id=file.path.stem,
        path=str(file.path),
        cwd=cwd,
        title=make_title(first),
        started=started or file.changed,
        updated=file.changed,
        size=file.size,
        version=version,
    )


def with_title(past: HistorySession, budget: ReadBudget) -> HistorySession:
    """The same with the title that it was given, and whether it was put away."""
    beside = Path(past.path).with_suffix("")
    given = archived = None
    if beside.is_dir():
        given = as_map(read_json(beside / "custom-title.json", budget, most=_SIDE_FILE))
        archived = as_map(read_json(beside / "archived.json", budget, most=_SIDE_FILE))
    title = make_title(as_text(as_map(given).get("customTitle"))) or _find_title(past, budget)
    return replace(
        past, title=title or past.title, archived=as_map(archived).get("archived") is True
    )


def prompt_text(entry: Mapping[str, Any]) -> str:
    """The text of a person's prompt; empty for any other entry."""
    blocks = blocks_of(as_map(entry.get("message")).get("content"))
    words = "\n".join(as_text(one.get("text")) for one in blocks if one.get("type") == "text")
    command = _COMMAND.search(words)
    if command is not None:
        arguments = _ARGUMENTS.search(words)
        return f"{command[1]} {arguments[1] if arguments else ''}".strip()
    return "" if words.startswith((*_OUTPUT, INTERRUPTED)) else words


def blocks_of(content: object) -> list[Mapping[str, Any]]:
    """The blocks of a message, which may be a text alone."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(one) for one in as_list(content)]


def _head(file: FoundFile, budget: ReadBudget) -> tuple[str | None, str | None, str | None, int]:
    """Where it worked, what was said first, the version and the beginning, as far as reported."""
    cwd = first = version = None
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode_json(line)) or _cut(line)
        started = started or parse_time(entry.get("timestamp"))
        cwd = cwd or as_text(entry.get("cwd")) or None
        version = version or as_text(entry.get("version")) or None
        if entry.get("type") == "user" and not _is_made(entry):
            first = first or prompt_text(entry) or None
        if cwd and first:
            break
    return cwd, first, version, started


def _is_made(entry: Mapping[str, Any]) -> bool:
    """Whether the program wrote it in a person's name."""
    return any(entry.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary"))


def _cut(line: bytes) -> Mapping[str, Any]:
    """What the beginning of an entry has whose end is not read; strings in it are escaped."""
    if b'"type":"user"' not in line:
        return {}
    cwd, words = _CWD.search(line), _TEXT.search(line)
    content = [{"type": "text", "text": decode_json(words[1])}] if words else []
    return {
        "type": "user",
        "cwd": decode_json(cwd[1]) if cwd else None,
        "message": {"content": content},
    }


def _last_cwd(file: FoundFile, budget: ReadBudget) -> str | None:
    """Where it worked last of the places whose sessions are kept here, if the end has it."""
    for line in tail_lines(file.path, file.size, budget, most=_TAIL):
        cwd = as_text(as_map(decode_json(line)).get("cwd"))
        if cwd and is_slug_of(file.path.parent.name, cwd):
            return cwd
    return None


def _find_title(past: HistorySession, budget: ReadBudget) -> str | None:
    """The best title that the end of the file tells."""
    data: dict[str, str] = {}
    for line in tail_lines(Path(past.path), past.size or 0, budget):
        for kind, title in _titles(as_map(decode_json(line))):
            data.setdefault(kind, title)
    last = data.pop("last-prompt", None)
    for kind in TITLES:
        if kind in data:
            return data[kind]
    return last if past.title is None else None


def _titles(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = as_text(entry.get("type"))
    field = {**TITLES, "last-prompt": "lastPrompt"}.get(kind, "")
    if title := make_title(as_text(entry.get(field))):
        yield kind, title


_QUIET = frozenset(
    (
        "agent-name",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attachment",
        "cost-state",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "pr-link",
        "progress",
        "queue-operation",
        "tag",
        "tools-used",
        "worktree-state",
    )
)
"""Kinds of entries that are no part of the conversation."""


class ClaudeHistory:
    """Reads the sessions of Claude Code below its own directory."""

    agent = "claude"

    def __init__(self, home: Path) -> None:
        self._projects = home / "projects"

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found = sorted(self._files(directory), key=lambda one: one.changed, reverse=True)
        sessions: list[HistorySession] = []
        for file in found:
            past = read_metadata(file, directory, budget)
            if past is not None:
                sessions.append(past)
            if limit is not None and len(sessions) >= limit:
                break
        return [with_title(past, budget) for past in sessions]

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        path = Path(past.path)
        reading = _Reading(past.id, tally, path.with_suffix("") / "subagents")
        with open_plain(path) as file:
            for entry in json_lines(file, tally):
                yield from reading.entry(entry)
        yield from reading.finish()

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        return may_contain((Path(past.path),), words, budget)

    def _files(self, directory: Path | None) -> Iterator[FoundFile]:
        for project in self._directories(directory):
            yield from list_files(
                project, lambda name: name.endswith(".jsonl") and not name.startswith("agent-")
            )

    def _directories(self, directory: Path | None) -> Iterator[Path]:
        for one in list_folders(self._projects):
            if directory is None or is_slug_of(one.name, str(directory)):
                yield one


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: ReadTally, beside: Path) -> None:
        self._turns = TurnBuilder("claude", id_)
        self._tally = tally
        self._beside = beside
        self._translator = ClaudeTranslator("claude")
        self._spent: dict[str, Mapping[str, Any]] = {}
        """The usage of each message of this turn; one message is several entries."""
        self._tasks: dict[str, str] = {}
        """Calls that began sub-agents and are open, with what they asked for."""
        self._chains: dict[str, str] = {}
        """The call that each entry of a sub-agent belongs to."""
        self._boundary = False
        self._tip = ""
        """The last entry of the conversation itself."""

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        kind, time = as_text(entry.get("type")), parse_time(entry.get("timestamp")) or None
        before, is_side = self._tip, bool(entry.get("isSidechain"))
        self._tip = (not is_side and as_text(entry.get("uuid"))) or before
        if self._boundary and kind not in _QUIET:
            summary = prompt_text(entry) if entry.get("isCompactSummary") else None
            yield from self._compacted(summary, time)
        match kind:
            case "user" if not entry.get("isCompactSummary"):
                yield from self._user(entry, time, before)
            case "assistant":
                yield from self._assistant(entry, time)
            case "system":
                yield from self._system(entry, time)
            case "custom-title" | "ai-title":
                if title := make_title(as_text(entry.get(TITLES[kind]))):
                    yield from self._turns.outside(SessionChanged(title=title), time)
            case "user" | "summary":
                pass
            case _ if kind not in _QUIET:
                self._tally.note_unknown(kind)
            case _:
                pass

    def finish(self) -> Iterator[HistoryEvent]:
        if self._boundary:
            yield from self._compacted(None, None)
        yield from self._end()

    def _end(self) -> Iterator[HistoryEvent]:
        for usage in self._spent.values():
            self._turns.spend(tokens_of(usage))
        self._spent.clear()
        yield from self._turns.end()

    # What people say, and what tools answer

    def _user(
        self, entry: Mapping[str, Any], time: int | None, before: str
    ) -> Iterator[HistoryEvent]:
        blocks = blocks_of(as_map(entry.get("message")).get("content"))
        parent = self._parent(entry)
        if any(block.get("type") == "tool_result" for block in blocks):
            results = [one for one in blocks if one.get("type") == "tool_result"]
            yield from self._results(entry, results, time, parent)
            return
        words = prompt_text(entry)
        if as_text(as_map(blocks[0] if blocks else {}).get("text")).startswith(INTERRUPTED):
            self._turns.stop("cancelled")
        content = list(_content(blocks, words))
        if content and parent is None and not entry.get("isMeta"):
            yield from self._end()
            if before and as_text(entry.get("parentUuid")) not in ("", before):
                went = NoticePosted(title="The person went back to an earlier message")
                yield from self._turns.outside(went, time)
            yield from self._turns.prompt(content, time, as_text(entry.get("uuid")))

    def _results(
        self,
        entry: Mapping[str, Any],
        results: Iterable[Mapping[str, Any]],
        time: int | None,
        parent: str | None,
    ) -> Iterator[HistoryEvent]:
        result = entry.get("toolUseResult")
        for block in results:
            call = as_text(block.get("tool_use_id"))
            if call in self._tasks:
                yield from self._sub_agent(call, as_text(as_map(result).get("agentId")))
                del self._tasks[call]
        line: dict[str, Any] = {"type": "user", "message": {"content": list(results)}}
        if result is not None:
            line["tool_use_result"] = result
        yield from self._translate(line, time, parent)

    # What the model says

    def _assistant(self, entry: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        message, parent = as_map(entry.get("message")), self._parent(entry)
        if entry.get("isApiErrorMessage"):
            text = "\n".join(as_text(one.get("text")) for one in blocks_of(message.get("content")))
            self._turns.stop("failed", text or None)
            yield from self._turns.tell(
                NoticePosted(title=text or "failed", severity="error"), time
            )
            return
        usage = as_map(message.get("usage"))
        if usage:
            self._spent[as_text(message.get("id"))] = usage
        yield from self._translate({"type": "assistant", "message": message}, time, parent)

    def _translate(
        self, line: Mapping[str, Any], time: int | None, parent: str | None
    ) -> Iterator[HistoryEvent]:
        for item in self._translator.read(line):
            if item.event is None:
                continue
            self._note_task(item.event)
            yield from self._turns.tell(item.event, time, parent)

    def _note_task(self, event: Event) -> None:
        if isinstance(event, ToolCallStarted) and event.name in ("Task", "Agent"):
            self._tasks[event.call] = as_text(as_map(event.raw_input).get("prompt"))
        elif isinstance(event, ToolCallEnded):
            self._tasks.pop(event.call, None)

    # Sub-agents

    def _parent(self, entry: Mapping[str, Any]) -> str | None:
        """The call within which an entry happened; None: the conversation itself."""
        if not entry.get("isSidechain"):
            return None
        call = self._chains.get(as_text(entry.get("parentUuid")))
        if call is None:
            words = prompt_text(entry)
            asked = [one for one, prompt in self._tasks.items() if prompt == words]
            call = (asked or [*self._tasks, ""])[-1] if asked else next(iter(self._tasks), "")
        self._chains[as_text(entry.get("uuid"))] = call
        return call or "sub-agent"

    def _sub_agent(self, call: str, name: str) -> Iterator[HistoryEvent]:
        """What a sub-agent did that has a file of its own."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
            return
        path = self._beside / f"agent-{name}.jsonl"
        if not path.is_file():
            return
        with open_plain(path) as file:
            for entry in json_lines(file, self._tally):
                kind, time = entry.get("type"), parse_time(entry.get("timestamp")) or None
                blocks = blocks_of(as_map(entry.get("message")).get("content"))
                is_result = any(one.get("type") == "tool_result" for one in blocks)
                if kind == "assistant" or (kind == "user" and is_result):
                    line = {"type": kind, "message": entry.get("message")}
                    if kind == "assistant":
                        usage = as_map(as_map(entry.get("message")).get("usage"))
                        self._spent[as_text(as_map(entry["message"]).get("id"))] = usage
                    yield from self._translate(line, time, call)

    # What the program says

    def _system(self, entry: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        match as_text(entry.get("subtype")):
            case "compact_boundary":
                self._boundary = True
            case "api_error":
                title = as_text(entry.get("content")) or "the model's vendor failed"
                yield from self._turns.tell(NoticePosted(title=title, severity="warning"), time)
            case _:
                pass  # reminders, timings, output of commands

    def _compacted(self, summary: str | None, time: int | None) -> Iterator[HistoryEvent]:
        self._boundary = False
        yield from self._turns.compact(summary, time)


def _content(blocks: Iterable[Mapping[str, Any]], words: str) -> Iterator[ContentBlock]:
    if words:
        yield text(words)
    for block in blocks:
        source = as_map(block.get("source"))
        if block.get("type") == "image" and as_text(source.get("data")):
            kind = as_text(source.get("media_type")) or "application/octet-stream"
            yield ImageContent(data=as_text(source.get("data")), mime_type=kind)
