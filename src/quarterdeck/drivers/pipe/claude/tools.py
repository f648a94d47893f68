"""What Claude Code's tools do, in the terms of a tool call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from quarterdeck.wire.content import text
from quarterdeck.wire.settings import PlanEntry, PlanStatus
from quarterdeck.wire.tool_calls import (
    ContentItem,
    Diff,
    ToolCallContent,
    ToolCallLocation,
    ToolKind,
)

from ...foreign_json import as_map

__all__ = ["ClaudeCallDescription", "describe", "plan_of"]

_TITLE = 200
"""Characters of a title; the whole is in the raw input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeCallDescription:
    """A tool call for people: what, on which files, with which change."""

    title: str
    kind: ToolKind = "other"
    locations: tuple[ToolCallLocation, ...] = ()
    content: tuple[ToolCallContent, ...] = ()


@dataclass(frozen=True, slots=True)
class _Tool:
    kind: ToolKind
    verb: str = ""
    field: str = ""
    """The field of the input that says what it is about."""


# Qwen speaks the same protocol with names of its own.
_TOOLS: dict[str, _Tool] = {
    "Bash": _Tool("execute", "", "command"),
    "BashOutput": _Tool("read", "Output of", "bash_id"),
    "TaskOutput": _Tool("read", "Output of", "task_id"),
    "KillShell": _Tool("execute", "Stop", "shell_id"),
    "TaskStop": _Tool("execute", "Stop", "task_id"),
    "Monitor": _Tool("execute", "Watch", "command"),
    "Read": _Tool("read", "Read", "file_path"),
    "Edit": _Tool("edit", "Edit", "file_path"),
    "MultiEdit": _Tool("edit", "Edit", "file_path"),
    "Write": _Tool("edit", "Write", "file_path"),
    "NotebookEdit": _Tool("edit", "Edit", "notebook_path"),
    "Glob": _Tool("search", "Find", "pattern"),
    "Grep": _Tool("search", "Search", "pattern"),
    "LS": _Tool("read", "List", "path"),
    "WebFetch": _Tool("fetch", "Fetch", "url"),
    "WebSearch": _Tool("fetch", "Search the web:", "query"),
    "ToolSearch": _Tool("search", "Find a tool:", "query"),
    "Task": _Tool("think", "Task:", "description"),
    "Agent": _Tool("think", "Task:", "description"),
    "Skill": _Tool("other", "Skill", "skill"),
    "TodoWrite": _Tool("think", "Update the plan"),
    "EnterPlanMode": _Tool("switch_mode", "Start to plan"),
    "ExitPlanMode": _Tool("switch_mode", "Ready to carry out this plan"),
    "AskUserQuestion": _Tool("other", "Ask the person"),
    "run_shell_command": _Tool("execute", "", "command"),
    "read_file": _Tool("read", "Read", "absolute_path"),
    "write_file": _Tool("edit", "Write", "file_path"),
    "edit": _Tool("edit", "Edit", "file_path"),
    "grep_search": _Tool("search", "Search", "pattern"),
    "glob": _Tool("search", "Find", "pattern"),
    "list_directory": _Tool("read", "List", "path"),
    "web_fetch": _Tool("fetch", "Fetch", "url"),
    "todo_write": _Tool("think", "Update the plan"),
}
_PATHS = ("file_path", "notebook_path", "absolute_path", "path")
_STATES: dict[str, PlanStatus] = {"in_progress": "in_progress", "completed": "completed"}


def describe(name: str, raw_input: Any) -> ClaudeCallDescription:
    """Say what a call does. Never raises: what the input does not say is left out."""
    given = as_map(raw_input)
    tool = _TOOLS.get(name)
    if tool is None:
        return ClaudeCallDescription(title=_unknown_title(name))
    about = given.get(tool.field)
    detail = about if isinstance(about, str) else ""
    title = f"{tool.verb} {detail}".strip() if detail else tool.verb.rstrip(":") or name
    content = _CONTENT.get(name)
    return ClaudeCallDescription(
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        kind=tool.kind,
        locations=_locations(given),
        content=content(given) if content is not None else (),
    )


def plan_of(name: str, raw_input: Any) -> tuple[PlanEntry, ...] | None:
    """The plan that a call writes down; None if it writes none."""
    if name not in ("TodoWrite", "todo_write"):
        return None
    todos = as_map(raw_input).get("todos")
    if not isinstance(todos, list):
        return None
    entries = [_entry(as_map(todo)) for todo in cast("list[Any]", todos)]
    return tuple(entry for entry in entries if entry is not None)


def _entry(todo: Mapping[str, Any]) -> PlanEntry | None:
    content = todo.get("content")
    if not isinstance(content, str):
        return None
    status = _STATES.get(str(todo.get("status")), "pending")
    return PlanEntry(content=content, priority="medium", status=status)


def _unknown_title(name: str) -> str:
    prefix, _, rest = name.partition("__")
    return rest.replace("__", ": ", 1) if prefix == "mcp" and rest else name


def _locations(given: Mapping[str, Any]) -> tuple[ToolCallLocation, ...]:
    line = given.get("offset")
    at = line if isinstance(line, int) and line > 0 else None
    paths = (given.get(field) for field in _PATHS)
    return tuple(
        ToolCallLocation(path=path, line=at) for path in paths if isinstance(path, str) and path
    )


def _written(given: Mapping[str, Any]) -> tuple[ToolCallContent, ...]:
    path, content = given.get("file_path"), given.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return ()
    return (Diff(path=path, new_text=content),)


def _edited(given: Mapping[str, Any]) -> tuple[ToolCallContent, ...]:
    path, edits = given.get("file_path"), given.get("edits")
    several = cast("list[Any]", edits) if isinstance(edits, list) else [given]
    if not isinstance(path, str):
        return ()
    return tuple(
        Diff(path=path, old_text=old, new_text=new)
        for edit in map(as_map, several)
        if isinstance(old := edit.get("old_string"), str)
        and isinstance(new := edit.get("new_string"), str)
    )


def _planned(given: Mapping[str, Any]) -> tuple[ToolCallContent, ...]:
    plan = given.get("plan")
    return (ContentItem(content=text(plan)),) if isinstance(plan, str) else ()


_CONTENT: dict[str, Callable[[Mapping[str, Any]], tuple[ToolCallContent, ...]]] = {
    "Write": _written,
    "write_file": _written,
    "Edit": _edited,
    "MultiEdit": _edited,
    "edit": _edited,
    "ExitPlanMode": _planned,
}
