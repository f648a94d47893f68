"""What ``codex app-server`` calls items: messages, thoughts and tool calls, as events."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from quarterdeck.wire.events import Event, Notice, ToolCallEnded, ToolCallStarted, Unknown
from quarterdeck.wire.ids import MessageId, ToolCallId, new_message_id
from quarterdeck.wire.toolcalls import ToolCallEnd, ToolCallLocation, ToolKind

from ..pipe.told import as_list, as_map, as_text, message, shown, thought

__all__ = ["About", "Items", "describe", "script_of"]

About: TypeAlias = tuple[str, str, ToolKind, Any]
"""Of a tool call: its title, the tool's name, what it does, its input."""

_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh")
_ENDS: dict[str, ToolCallEnd] = {"failed": "failed", "declined": "failed"}
_SILENT = frozenset(("userMessage", "hookPrompt", "subAgentActivity", "functionCallOutput"))
"""Items that tell nothing that is not told otherwise."""


class Items:
    """The items of one thread. Text grows in pieces; what pieces left out the whole adds."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._said: dict[str, tuple[MessageId, list[str]]] = {}
        """Our message and the pieces so far of each item that is growing."""
        self._open: set[str] = set()
        """The calls that run."""

    def begin(self, item: Mapping[str, Any]) -> Iterator[Event]:
        """An item has begun; ids of messages are the model's and may come again."""
        kind, id_ = item.get("type"), as_text(item.get("id"))
        if kind in _CALLS:
            self._open.add(id_)
            yield _started(ToolCallId(id_), item)
        elif kind in ("agentMessage", "plan", "reasoning"):
            self._said[id_] = (new_message_id(), [])

    def grow(self, id_: str, delta: str, *, is_thought: bool = False) -> Iterator[Event]:
        """A piece of an item's text."""
        known = self._said.get(id_)
        if known is None:
            known = self._said[id_] = (new_message_id(), [])
        name, pieces = known
        pieces.append(delta)
        if delta:
            yield thought(delta, name) if is_thought else message(delta, name)

    def end(self, item: Mapping[str, Any]) -> Iterator[Event]:
        """An item is complete."""
        kind, id_ = item.get("type"), as_text(item.get("id"))
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
            yield Notice(title="Codex has compacted its context.")
        elif kind not in _SILENT:
            yield Unknown(origin=self._origin, raw=dict(item))

    def _rest(self, id_: str, whole: str) -> Iterator[Event]:
        name, pieces = self._said.pop(id_, None) or (new_message_id(), [])
        before = "".join(pieces)
        if whole.startswith(before):
            whole = whole[len(before) :]
        elif before.startswith(whole):
            return
        else:  # it was rewritten, and is told whole
            name = new_message_id()
        if whole:
            yield message(whole, name)

    def _thoughts(self, id_: str, item: Mapping[str, Any]) -> Iterator[Event]:
        """What it thought, if no piece of it came before: summaries, or else all of it."""
        name, pieces = self._said.pop(id_, None) or (new_message_id(), [])
        told = as_list(item.get("summary")) or as_list(item.get("content"))
        texts = "\n\n".join(filter(None, map(as_text, told)))
        if texts and not pieces:
            yield thought(texts, name)


def script_of(command: str) -> str:
    """What a shell is told to do; a command that is no shell's as it is."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and _SHELLS.fullmatch(words[0]) and words[1] in ("-lc", "-c"):
        return words[2]
    return command


def describe(item: Mapping[str, Any]) -> About:
    """What can be said about a tool call."""
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
    return f"Look at {path}", "view_image", "read", {"path": path}


def _agent(item: Mapping[str, Any]) -> About:
    name = as_text(item.get("tool")) or "agent"
    return f"{name}: {as_text(item.get('prompt'))[:80]}", name, "think", {"prompt": item["prompt"]}


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
        content=shown(_diff(item)),
        locations=_locations(item),
        raw_input=given,
    )


_RESULTS = ("aggregatedOutput", "exitCode", "result", "error", "contentItems", "results")


def _ended(call: ToolCallId, item: Mapping[str, Any]) -> ToolCallEnded:
    status = as_text(item.get("status"))
    told = as_text(as_map(item.get("error")).get("message"))
    raw = {key: item[key] for key in _RESULTS if item.get(key) is not None}
    return ToolCallEnded(
        call=call,
        status=_ENDS.get(status, "completed"),
        reason=told or ("it was not allowed" if status == "declined" else None),
        content=shown(_output(item)),
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
