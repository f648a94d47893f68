"""Items of a Codex rollout as events, of every form of the file."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import ContextUsage, TokenUsage

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
from .files import decode_json, parse_time
from .reader import HistoryEvent, ReadTally
from .turn_builder import TurnBuilder

__all__ = ["CodexItemReader", "prompt_text"]

_CONTEXT = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|turn_aborted"
    r"|skills?_instructions|skill|collaboration_mode|model_switch|subagent_notification"
    r"|user_shell_command|INSTRUCTIONS|apps_instructions|plugins_instructions)\b"
    r"|# AGENTS\.md instructions|# Context from my IDE setup)",
)
"""How messages begin that Codex writes in a person's name."""
_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.M)
_OUTPUT = "\nOutput:\n"
_ABOUT = 600
"""Characters before the output of a command in which Codex describes it."""
_IMAGE = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.S)
_QUIET = frozenset(("session_meta", "world_state", "token_usage_record", "state", "ghost_snapshot"))
_REPEATED_ITEMS = frozenset(
    (
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "context_compacted",
        "entered_review_mode",
        "exited_review_mode",
        "exec_command_end",
        "item_completed",
        "item_started",
        "mcp_tool_call_end",
        "patch_apply_end",
        "plan_update",
        "thread_name_updated",
        "thread_settings_applied",
        "undo_completed",
        "user_message",
        "view_image_tool_call",
        "web_search_end",
    )
)
"""Events that repeat items, or that are no part of the conversation."""
_TITLE = 200


def prompt_text(item: Mapping[str, Any]) -> str:
    """What a person said in an item; empty if it is none of that."""
    if item.get("type") != "message" or item.get("role") != "user":
        return ""
    texts = [as_text(as_map(one).get("text")) for one in as_list(item.get("content"))]
    return "\n".join(one for one in texts if one and not _CONTEXT.match(one))


class CodexItemReader:
    """One reading of one rollout."""

    def __init__(self, id_: str, tally: ReadTally) -> None:
        self._turns = TurnBuilder("codex", id_)
        self._tally = tally
        self._total = TokenUsage()
        self._model = ""
        self._turn = ""
        """What Codex calls the turn, if it does."""
        self._is_asked = True
        """Whether a person asked for this turn; the answer of another may be a summary."""
        self._unasked: tuple[str, int | None] | None = None

    def entry(self, entry: Mapping[str, Any]) -> Iterator[HistoryEvent]:
        """The events of a line."""
        kind, time = as_text(entry.get("type")), parse_time(entry.get("timestamp")) or None
        payload = as_map(entry.get("payload"))
        match kind:
            case "response_item":
                yield from self._item(payload, time)
            case "event_msg":
                yield from self._event(payload, time)
            case "turn_context":
                yield from self._context(payload, time)
            case "compacted":
                yield from self._compacted(as_text(payload.get("message")), time)
            case _ if kind in _QUIET or not kind:
                pass  # "": the session itself, and states, of the older form
            case _:
                yield from self._item(entry, time)

    def finish(self) -> Iterator[HistoryEvent]:
        """What is left at the end of the file."""
        yield from self._answered()
        yield from self._turns.end()

    def _answered(self) -> Iterator[HistoryEvent]:
        """Emit the model's message that was held back, if there is one."""
        if self._unasked is not None:
            words, time = self._unasked
            self._unasked = None
            yield from self._turns.tell(message(words, self._turns.message()), time)

    # Items

    def _item(self, item: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        kind = as_text(item.get("type"))
        if kind not in ("message", *_QUIET):
            yield from self._answered()
        match kind:
            case "message":
                yield from self._message(item, time)
            case "reasoning":
                yield from self._reasoning(item, time)
            case "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call":
                yield from self._turns.tell(_started(item), time)
            case "web_search_call":
                yield from self._search(item, time)
            case "function_call_output" | "custom_tool_call_output" | "tool_search_output":
                yield from self._turns.tell(_ended(item), time)
            case _ if kind in _QUIET:
                pass
            case _:
                self._tally.note_unknown(kind)

    def _message(self, item: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        match item.get("role"):
            case "user":
                content = list(_content(item))
                if content:
                    self._is_asked = True
                    yield from self._turns.prompt(content, time, self._turn)
            case "assistant":
                texts = (as_text(as_map(one).get("text")) for one in as_list(item.get("content")))
                if text := "".join(texts):
                    yield from self._answered()
                    self._unasked = text, time
                if self._is_asked:
                    yield from self._answered()
            case _:
                pass  # instructions of the program

    def _reasoning(self, item: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        parts = as_list(item.get("summary")) or as_list(item.get("content"))
        text = "\n\n".join(filter(None, (as_text(as_map(one).get("text")) for one in parts)))
        if text:
            yield from self._turns.tell(thought(text, self._turns.message()), time)

    def _search(self, item: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        action = as_map(item.get("action"))
        about = as_text(action.get("query")) or as_text(action.get("url"))
        call = ToolCallId(as_text(item.get("id")) or self._turns.message())
        title = f"Search the web: {about}"[:_TITLE]
        begun = ToolCallStarted(
            call=call, title=title, name="web_search", kind="fetch", raw_input=dict(action)
        )
        for event in (begun, ToolCallEnded(call=call, status="completed")):
            yield from self._turns.tell(event, time)

    # What the program says

    def _event(self, event: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        match as_text(event.get("type")):
            case "token_count":
                yield from self._count(as_map(event.get("info")), time)
            case "task_started" | "turn_started":
                self._turn, self._is_asked = as_text(event.get("turn_id")), False
            case "task_complete" | "turn_complete":
                yield from self._answered()
                yield from self._turns.end()
                self._is_asked = True
            case "thread_rolled_back":
                went = NoticePosted(title="The person went back to an earlier message")
                yield from self._turns.outside(went, time)
            case "turn_aborted":
                reason = as_text(event.get("reason")) or None
                self._turns.stop("cancelled", reason)
                yield from self._turns.end()
            case "error" | "stream_error" as kind:
                title = as_text(event.get("message")) or "an error"
                severity = "error" if kind == "error" else "warning"
                if kind == "error":
                    self._turns.stop("failed", title)
                yield from self._turns.tell(NoticePosted(title=title, severity=severity), time)
            case kind if kind not in _REPEATED_ITEMS:
                self._tally.note_unknown(kind)
            case _:
                pass

    def _count(self, info: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        total = _tokens(as_map(info.get("total_token_usage")))
        if not info or total == self._total:
            return
        before, self._total = self._total, total
        self._turns.spend(total.since(before))
        last = _tokens(as_map(info.get("last_token_usage")))
        size = as_number(info.get("model_context_window"))
        context = ContextUsage(used=last.total, size=size) if size else None
        event: Event = UsageReported(session_tokens=total, context=context)
        yield from self._turns.tell(event, time)

    def _context(self, context: Mapping[str, Any], time: int | None) -> Iterator[HistoryEvent]:
        model = as_text(context.get("model"))
        if model and model != self._model:
            self._model = model
            yield from self._turns.outside(SessionChanged(model=model), time)

    def _compacted(self, summary: str, time: int | None) -> Iterator[HistoryEvent]:
        if self._unasked is not None and self._unasked[0] in summary:
            self._unasked = None
        yield from self._answered()
        yield from self._turns.compact(summary or None, time)


def _content(item: Mapping[str, Any]) -> Iterator[ContentBlock]:
    for block in map(as_map, as_list(item.get("content"))):
        words = as_text(block.get("text"))
        image = _IMAGE.fullmatch(as_text(block.get("image_url")))
        if image is not None:
            yield ImageContent(data=image[2], mime_type=image[1])
        elif words and not _CONTEXT.match(words):
            yield text(words)


def _started(item: Mapping[str, Any]) -> ToolCallStarted:
    name = as_text(item.get("name")) or "shell"
    arguments = item.get("arguments", item.get("input", item.get("action")))
    given = (
        decode_json(arguments.encode("utf-8", "replace"))
        if isinstance(arguments, str)
        else arguments
    )
    given = as_map(given) or {"input": arguments}
    command = given.get("cmd", given.get("command"))
    words = " ".join(map(str, as_list(command))) or as_text(command)
    files = _FILE.findall(as_text(given.get("input")) or words)
    title = f"Edit {', '.join(files)}" if files else words or name
    return ToolCallStarted(
        call=ToolCallId(as_text(item.get("call_id")) or as_text(item.get("id")) or "unnamed"),
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        name=name,
        kind="edit" if files else tool_kind(name),
        status="in_progress",
        locations=tuple(ToolCallLocation(path=path) for path in files),
        raw_input=dict(given),
    )


def _ended(item: Mapping[str, Any]) -> ToolCallEnded:
    raw: object = item.get("output")
    whole = as_map(decode_json(raw.encode("utf-8", "replace")) if isinstance(raw, str) else raw)
    output = as_text(whole.get("output")) or as_text(whole.get("content")) or as_text(raw)
    if blocks := as_list(raw):
        output = "\n".join(as_text(as_map(one).get("text")) for one in blocks)
    found = _EXIT.search(output)
    code = as_map(whole.get("metadata")).get("exit_code", int(found[1]) if found else 0)
    failed = code not in (0, None) or whole.get("success") is False
    failed = failed or output.startswith(("patch rejected", "apply_patch verification failed"))
    begins = output.find(_OUTPUT, 0, _ABOUT)
    if found is not None and found.start() < begins:
        output = output[begins + len(_OUTPUT) :]
    return ToolCallEnded(
        call=ToolCallId(as_text(item.get("call_id")) or as_text(item.get("id")) or "unnamed"),
        status="failed" if failed else "completed",
        reason=output[:1_000] or None if failed else None,
        content=output_content(output),
        raw_output={"exit_code": code} if isinstance(code, int) and code else None,
    )


def _tokens(data: Mapping[str, Any]) -> TokenUsage:
    return TokenUsage(
        input=as_number(data.get("input_tokens")),
        output=as_number(data.get("output_tokens")),
        cached=as_number(data.get("cached_input_tokens")),
        cache_written=as_number(data.get("cache_write_input_tokens")),
        thought=as_number(data.get("reasoning_output_tokens")),
    )
