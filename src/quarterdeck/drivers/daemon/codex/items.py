"""What ``codex app-server`` calls items: messages, thoughts and tool calls, as events."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.ids import MessageId, ToolCallId, new_message_id
from quarterdeck.wire.tool_calls import ToolCallEnd, ToolCallLocation, ToolKind

from ...foreign_json import as_list, as_map, as_text, message, output_content, thought

__all__ = ["About", "CodexItems", "describe", "script_of"]

About: TypeAlias = tuple[str, str, ToolKind, Any]
"""Of a tool call: its title, the tool's name, what it does, its input."""

_SHELLS = re.compile(r"(?:/bin/|/usr/bin/|/usr/local/bin/|/opt/homebrew/bin/)?(?:ba|z|da)?sh")
"""Shells of the system; a model may have named any other program as the one to run a script."""
_ENDS: dict[str, ToolCallEnd] = {"failed": "failed", "declined": "failed"}
_SILENT = frozenset(("userMessage", "hookPrompt", "subAgentActivity", "functionCallOutput"))
"""Items that only repeat what other items report."""


@dataclass(slots=True)
class _Growing:
    """A text or a thought that grows: our message, and its pieces so far."""

    name: MessageId = field(default_factory=new_message_id)
    pieces: list[str] = field(default_factory=list[str])
    has_gap: bool = False
    """Some of its pieces were missed; what comes is held back until the whole of it is there."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class CodexItems:
    """The items of one thread. Text grows in pieces; what pieces left out the whole adds.

    After a cut (``gap``) a complete item may arrive twice, and is emitted once.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._messages: dict[str, _Growing] = {}
        self._open: set[str] = set()
        """The calls that run."""
        self._ended: dict[str, int] = {}
        """Items emitted whole in this turn, each with a hash: an id may come again for another."""
        self.has_gap = False
        """Whether something of this turn may have been missed."""

    def begin_turn(self) -> None:
        """What comes now belongs to a new turn."""
        self._ended.clear()
        self.has_gap = False

    def gap(self) -> None:
        """The connection was cut: pieces of what was growing may be missing."""
        self.has_gap = True
        for growing in self._messages.values():
            growing.has_gap = True

    def is_running(self, call: str) -> bool:
        """Whether the start of this call was emitted, and not its end."""
        return call in self._open

    def is_new(self, item: Mapping[str, Any]) -> bool:
        """Whether this complete item has not been emitted yet; marks it as emitted."""
        id_, mark = as_text(item.get("id")), hash(_text_of(item))
        if self.has_gap and self._ended.get(id_) == mark:
            return False
        self._ended[id_] = mark
        return True

    def begin(self, item: Mapping[str, Any]) -> Iterator[Event]:
        """An item has begun; ids of messages are the model's and may come again."""
        kind, id_ = item.get("type"), as_text(item.get("id"))
        if kind in _CALLS:
            self._open.add(id_)
            yield _started(ToolCallId(id_), item)
        elif kind in ("agentMessage", "plan", "reasoning"):
            self._messages[id_] = _Growing()

    def grow(self, id_: str, delta: str, *, is_thought: bool = False) -> Iterator[Event]:
        """A piece of an item's text."""
        known = self._messages.get(id_)
        if known is None:
            known = self._messages[id_] = _Growing(has_gap=self.has_gap)
        if delta and not known.has_gap:
            known.pieces.append(delta)
            yield thought(delta, known.name) if is_thought else message(delta, known.name)

    def end(self, item: Mapping[str, Any]) -> Iterator[Event]:
        """An item is complete."""
        kind, id_ = item.get("type"), as_text(item.get("id"))
        if not self.is_new(item):
            return
        if kind in _CALLS:
            if id_ not in self._open:
                yield _started(ToolCallId(id_), item)
            self._open.discard(id_)
            yield _ended(ToolCallId(id_), item)
        elif kind in ("agentMessage", "plan"):
            yield from self._rest(id_, as_text(item.get("text")))
        elif kind == "reasoning":
            yield from self._thoughts(id_, item)
        elif kind == "contextCompaction":
            yield NoticePosted(title="Codex has compacted its context.")
        elif kind not in _SILENT:
            yield UnknownEvent(origin=self._origin, raw=dict(item))

    def _rest(self, id_: str, whole: str) -> Iterator[Event]:
        known = self._messages.pop(id_, None) or _Growing()
        before, name = known.text, known.name
        if whole.startswith(before):
            whole = whole[len(before) :]
        elif before.startswith(whole):
            return
        else:  # it was rewritten, and is emitted whole
            name = new_message_id()
        if whole:
            yield message(whole, name)

    def _thoughts(self, id_: str, item: Mapping[str, Any]) -> Iterator[Event]:
        """What it thought, if no piece of it came before, or some were missed."""
        known = self._messages.pop(id_, None) or _Growing()
        items = as_list(item.get("summary")) or as_list(item.get("content"))
        texts = "\n\n".join(filter(None, map(as_text, items)))
        if known.pieces and not known.has_gap:
            return
        if rest := _after(known.text, texts):
            yield thought(rest, known.name)


def _after(before: str, whole: str) -> str:
    """What of a thought follows its beginning, whose parts had nothing between them."""
    index = 0
    for character in before:
        while index < len(whole) and whole[index] != character and whole[index].isspace():
            index += 1
        if index == len(whole) or whole[index] != character:
            return ""
        index += 1
    return whole[index:]


def _text_of(item: Mapping[str, Any]) -> str:
    texts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
    return as_text(item.get("text")) or "\n".join(filter(None, map(as_text, texts)))


def script_of(command: str) -> str:
    """The script that a shell of the system runs; any other command is returned as it is."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and _SHELLS.fullmatch(words[0]) and words[1] in ("-lc", "-c"):
        return words[2]
    return command


def describe(item: Mapping[str, Any]) -> About:
    """The description of a tool call."""
    about = _CALLS.get(as_text(item.get("type")))
    if about is None:
        kind = as_text(item.get("type")) or "tool"
        return kind, kind, "other", None
    return about(item)


def _command(item: Mapping[str, Any]) -> About:
    script = script_of(as_text(item.get("command")))
    given = {"command": script}
    if cwd := as_text(item.get("cwd")):
        given["cwd"] = cwd
    return script, "shell", "execute", given


def _change(item: Mapping[str, Any]) -> About:
    paths = [location.path for location in _locations(item)]
    title = f"Edit {', '.join(paths)}" if paths else "Edit files"
    return title, "apply_patch", "edit", {"paths": paths, "diff": _diff(item)}


def _mcp(item: Mapping[str, Any]) -> About:
    name = f"{as_text(item.get('server'))}.{as_text(item.get('tool'))}"
    return name, name, "other", item.get("arguments")


def _dynamic(item: Mapping[str, Any]) -> About:
    name = as_text(item.get("tool"))
    return name, name, "other", item.get("arguments")


def _search(item: Mapping[str, Any]) -> About:
    query = as_text(item.get("query"))
    return f"Search the web: {query}", "web_search", "fetch", {"query": query}


def _view(item: Mapping[str, Any]) -> About:
    path = as_text(item.get("path"))
    return f"View {path}", "view_image", "read", {"path": path}


def _agent(item: Mapping[str, Any]) -> About:
    name = as_text(item.get("tool")) or "agent"
    return (
        f"{name}: {as_text(item.get('prompt'))[:80]}",
        name,
        "think",
        {"prompt": item.get("prompt")},
    )


def _sleep(item: Mapping[str, Any]) -> About:
    return "Wait", "sleep", "other", {"durationMs": item.get("durationMs")}


_CALLS: dict[str, Callable[[Mapping[str, Any]], About]] = {
    "commandExecution": _command,
    "fileChange": _change,
    "mcpToolCall": _mcp,
    "dynamicToolCall": _dynamic,
    "webSearch": _search,
    "imageView": _view,
    "collabAgentToolCall": _agent,
    "sleep": _sleep,
}


def _started(call: ToolCallId, item: Mapping[str, Any]) -> ToolCallStarted:
    title, name, kind, given = describe(item)
    return ToolCallStarted(
        call=call,
        title=title,
        name=name,
        kind=kind,
        status="in_progress",
        content=output_content(_diff(item)),
        locations=_locations(item),
        raw_input=given,
    )


_RESULTS = ("aggregatedOutput", "exitCode", "result", "error", "contentItems", "results")


def _ended(call: ToolCallId, item: Mapping[str, Any]) -> ToolCallEnded:
    status = as_text(item.get("status"))
    text = as_text(as_map(item.get("error")).get("message"))
    raw = {key: item[key] for key in _RESULTS if item.get(key) is not None}
    return ToolCallEnded(
        call=call,
        status=_ENDS.get(status, "completed"),
        reason=text or ("it was not allowed" if status == "declined" else None),
        content=output_content(_output(item)),
        locations=_locations(item),
        raw_output=raw or None,
    )


def _output(item: Mapping[str, Any]) -> str:
    """What a call gave, as text."""
    blocks = as_list(as_map(item.get("result")).get("content")) + as_list(item.get("contentItems"))
    texts = [as_text(as_map(block).get("text")) for block in blocks]
    output = as_text(item.get("aggregatedOutput")) or "\n".join(filter(None, texts))
    return output or _diff(item)


def _diff(item: Mapping[str, Any]) -> str:
    changes = map(as_map, as_list(item.get("changes")))
    return "\n".join(filter(None, (as_text(one.get("diff")) for one in changes)))


def _locations(item: Mapping[str, Any]) -> tuple[ToolCallLocation, ...]:
    changes = [as_map(one) for one in as_list(item.get("changes"))]
    paths = [as_text(one.get("path")) for one in changes]
    paths += [as_text(as_map(one.get("kind")).get("move_path")) for one in changes]
    return tuple(ToolCallLocation(path=path) for path in paths if path)
