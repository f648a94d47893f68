"""Claude Code: ``projects/<slug>/<id>.jsonl``, an entry a line; sub-agents within or beside it.

Up to 2.0 the entries of sub-agents stand among the others with ``isSidechain``; since then each
has a file ``<id>/subagents/agent-<name>.jsonl``, read where its call ends.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    Notice,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.ids import CompactionId

from ..pipe.claude_events import Translator
from ..pipe.claude_result import tokens_of
from ..pipe.told import as_list, as_map, as_text
from .files import (
    Budget,
    Found,
    decode,
    found_files,
    head_lines,
    is_same_place,
    json_lines,
    microseconds,
    one_title,
    open_plain,
    tail_lines,
)
from .past import PastEvent, PastSession, Tally
from .scanning import may_have
from .turns import Turns

__all__ = ["ClaudeHistory", "slug_of"]

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]")
_SLUG = 200
"""Characters; of a longer path the slug is cut and has a hash behind."""
_COMMAND = re.compile(r"<command-name>\s*(/?[^<]*?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.S)
_OUTPUT = ("<local-command-", "<task-notification>", "<bash-stdout>", "<system-reminder>")
_INTERRUPTED = "[Request interrupted by user"
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
"""Kinds of entries that tell nothing of the conversation."""
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}


def slug_of(directory: str) -> str:
    """The name of the directory in which Claude Code keeps what worked in a directory."""
    return _NOT_PLAIN.sub("-", directory)


class ClaudeHistory:
    """Reads the sessions of Claude Code below its own directory."""

    agent = "claude"

    def __init__(self, home: Path) -> None:
        self._projects = home / "projects"

    def list(self, directory: Path | None, limit: int | None, budget: Budget) -> list[PastSession]:
        """See ``HistoryReader``."""
        found = sorted(self._files(directory), key=lambda one: one.changed, reverse=True)
        sessions: list[PastSession] = []
        for file in found:
            past = _past(file, budget)
            if directory is not None and not is_same_place(past.cwd, directory):
                continue  # two directories can have one slug
            if past.cwd is None and past.title is None and not budget.is_spent:
                continue  # it holds no conversation
            sessions.append(past)
            if limit is not None and len(sessions) >= limit:
                break
        return [_titled(past, budget) for past in sessions]

    def read(self, past: PastSession, tally: Tally) -> Iterator[PastEvent]:
        """See ``HistoryReader``."""
        path = Path(past.path)
        reading = _Reading(past.id, tally, path.with_suffix("") / "subagents")
        with open_plain(path) as file:
            for entry in json_lines(file, tally):
                yield from reading.entry(entry)
        yield from reading.finish()

    def has_words(self, past: PastSession, words: tuple[str, ...], budget: Budget) -> bool:
        """See ``HistoryReader``."""
        return may_have((Path(past.path),), words, budget)

    def _files(self, directory: Path | None) -> Iterator[Found]:
        for project in self._directories(directory):
            yield from found_files(
                project, lambda name: name.endswith(".jsonl") and not name.startswith("agent-")
            )

    def _directories(self, directory: Path | None) -> Iterator[Path]:
        try:
            names = [one for one in self._projects.iterdir() if one.is_dir()]
        except OSError:
            return
        slug = slug_of(str(directory)) if directory is not None else ""
        for one in names:
            cut = len(slug) > _SLUG and one.name.startswith(slug[:_SLUG])
            if directory is None or one.name == slug or cut:
                yield one


def _past(file: Found, budget: Budget) -> PastSession:
    cwd = first = version = None
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode(line))
        kind = as_text(entry.get("type"))
        started = started or microseconds(entry.get("timestamp"))
        cwd = cwd or as_text(entry.get("cwd")) or None
        version = version or as_text(entry.get("version")) or None
        if kind == "user" and not entry.get("isMeta") and not entry.get("isSidechain"):
            first = first or _said(entry)
        if cwd and first:
            break
    return PastSession(
        agent="claude",
        id=file.path.stem,
        path=str(file.path),
        cwd=cwd,
        title=one_title(first),
        started=started or file.changed,
        updated=file.changed,
        size=file.size,
        version=version,
    )


def _titled(past: PastSession, budget: Budget) -> PastSession:
    """The same with the title that it was given, if the end of the file tells one."""
    for line in tail_lines(Path(past.path), past.size or 0, budget):
        entry = as_map(decode(line))
        if told := as_text(entry.get(_TITLES.get(as_text(entry.get("type")), ""))):
            return replace(past, title=one_title(told))
    return past


def _said(entry: Mapping[str, Any]) -> str:
    """What a person said, as text; empty if the entry is none of that."""
    blocks = _blocks(as_map(entry.get("message")).get("content"))
    said = "\n".join(as_text(one.get("text")) for one in blocks if one.get("type") == "text")
    command = _COMMAND.search(said)
    if command is not None:
        arguments = _ARGUMENTS.search(said)
        return f"{command[1]} {arguments[1] if arguments else ''}".strip()
    return "" if said.startswith((*_OUTPUT, _INTERRUPTED)) else said


def _blocks(content: object) -> "list[Mapping[str, Any]]":
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(one) for one in as_list(content)]


class _Reading:
    """One reading of one session."""

    def __init__(self, id_: str, tally: Tally, beside: Path) -> None:
        self._turns = Turns("claude", id_)
        self._tally = tally
        self._beside = beside
        self._translator = Translator("claude")
        self._spent: dict[str, Mapping[str, Any]] = {}
        """The usage of each message of this turn; one message is several entries."""
        self._tasks: dict[str, str] = {}
        """Calls that began sub-agents and are open, with what they asked for."""
        self._chains: dict[str, str] = {}
        """The call that each entry of a sub-agent belongs to."""
        self._compactions = 0
        self._boundary = False

    def entry(self, entry: Mapping[str, Any]) -> Iterator[PastEvent]:
        kind, time = as_text(entry.get("type")), microseconds(entry.get("timestamp")) or None
        if self._boundary and kind not in _QUIET:
            summary = _said(entry) if entry.get("isCompactSummary") else None
            yield from self._compacted(summary, time)
        match kind:
            case "user" if not entry.get("isCompactSummary"):
                yield from self._user(entry, time)
            case "assistant":
                yield from self._assistant(entry, time)
            case "system":
                yield from self._system(entry, time)
            case "custom-title" | "ai-title":
                if title := one_title(as_text(entry.get(_TITLES[kind]))):
                    yield from self._turns.outside(SessionChanged(title=title), time)
            case "user" | "summary":
                pass
            case _ if kind not in _QUIET:
                self._tally.note_unknown(kind)
            case _:
                pass

    def finish(self) -> Iterator[PastEvent]:
        if self._boundary:
            yield from self._compacted(None, None)
        yield from self._end()

    def _end(self) -> Iterator[PastEvent]:
        for usage in self._spent.values():
            self._turns.spend(tokens_of(usage))
        self._spent.clear()
        yield from self._turns.end()

    # What people say, and what tools answer

    def _user(self, entry: Mapping[str, Any], time: int | None) -> Iterator[PastEvent]:
        blocks = _blocks(as_map(entry.get("message")).get("content"))
        parent = self._parent(entry)
        if any(block.get("type") == "tool_result" for block in blocks):
            results = [one for one in blocks if one.get("type") == "tool_result"]
            yield from self._results(entry, results, time, parent)
            return
        said = _said(entry)
        if as_text(as_map(blocks[0] if blocks else {}).get("text")).startswith(_INTERRUPTED):
            self._turns.stop("cancelled")
        content = list(_content(blocks, said))
        if content and parent is None and not entry.get("isMeta"):
            yield from self._end()
            yield from self._turns.prompt(content, time)

    def _results(
        self,
        entry: Mapping[str, Any],
        results: Iterable[Mapping[str, Any]],
        time: int | None,
        parent: str | None,
    ) -> Iterator[PastEvent]:
        told = entry.get("toolUseResult")
        for block in results:
            call = as_text(block.get("tool_use_id"))
            if call in self._tasks:
                yield from self._sub_agent(call, as_text(as_map(told).get("agentId")))
                del self._tasks[call]
        line: dict[str, Any] = {"type": "user", "message": {"content": list(results)}}
        if told is not None:
            line["tool_use_result"] = told
        yield from self._translate(line, time, parent)

    # What the model says

    def _assistant(self, entry: Mapping[str, Any], time: int | None) -> Iterator[PastEvent]:
        message, parent = as_map(entry.get("message")), self._parent(entry)
        if entry.get("isApiErrorMessage"):
            told = "\n".join(as_text(one.get("text")) for one in _blocks(message.get("content")))
            self._turns.stop("failed", told or None)
            yield from self._turns.tell(Notice(title=told or "failed", severity="error"), time)
            return
        usage = as_map(message.get("usage"))
        if usage:
            self._spent[as_text(message.get("id"))] = usage
        yield from self._translate({"type": "assistant", "message": message}, time, parent)

    def _translate(
        self, line: Mapping[str, Any], time: int | None, parent: str | None
    ) -> Iterator[PastEvent]:
        for told in self._translator.read(line):
            if told.event is None:
                continue
            self._note_task(told.event)
            yield from self._turns.tell(told.event, time, parent)

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
            said = _said(entry)
            asked = [one for one, prompt in self._tasks.items() if prompt == said]
            call = (asked or [*self._tasks, ""])[-1] if asked else next(iter(self._tasks), "")
        self._chains[as_text(entry.get("uuid"))] = call
        return call or "sub-agent"

    def _sub_agent(self, call: str, name: str) -> Iterator[PastEvent]:
        """What a sub-agent did that has a file of its own."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
            return
        path = self._beside / f"agent-{name}.jsonl"
        if not path.is_file():
            return
        with open_plain(path) as file:
            for entry in json_lines(file, self._tally):
                kind, time = entry.get("type"), microseconds(entry.get("timestamp")) or None
                blocks = _blocks(as_map(entry.get("message")).get("content"))
                is_result = any(one.get("type") == "tool_result" for one in blocks)
                if kind == "assistant" or (kind == "user" and is_result):
                    line = {"type": kind, "message": entry.get("message")}
                    if kind == "assistant":
                        usage = as_map(as_map(entry.get("message")).get("usage"))
                        self._spent[as_text(as_map(entry["message"]).get("id"))] = usage
                    yield from self._translate(line, time, call)

    # What the program says

    def _system(self, entry: Mapping[str, Any], time: int | None) -> Iterator[PastEvent]:
        match as_text(entry.get("subtype")):
            case "compact_boundary":
                self._boundary = True
            case "api_error":
                told = as_text(entry.get("content")) or "the model's vendor failed"
                yield from self._turns.tell(Notice(title=told, severity="warning"), time)
            case _:
                pass  # reminders, timings, output of commands

    def _compacted(self, summary: str | None, time: int | None) -> Iterator[PastEvent]:
        self._boundary = False
        self._compactions += 1
        name = CompactionId(f"cmp_{self._compactions}")
        begun = CompactionChanged(compaction=name, status="in_progress")
        done = CompactionChanged(compaction=name, status="completed", summary=summary)
        for event in (begun, done):
            yield from self._turns.outside(event, time)


def _content(blocks: Iterable[Mapping[str, Any]], said: str) -> Iterator[ContentBlock]:
    if said:
        yield text(said)
    for block in blocks:
        source = as_map(block.get("source"))
        if block.get("type") == "image" and as_text(source.get("data")):
            kind = as_text(source.get("media_type")) or "application/octet-stream"
            yield ImageContent(data=as_text(source.get("data")), mime_type=kind)
