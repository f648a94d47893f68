"""Calls of agents that we did not write, read as well as they can be.

Agents name the same tools differently and describe them more or less fully. What is known about
a tool is in one table; a field that is not in it is a doubt, and so is a tool that is described
by its title alone. A doubt is asked about, and deny rules see all that was found.
"""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, cast

from msgspec.structs import replace

from quarterdeck.wire.tool_calls import ToolKind

from .call import Access, Call, McpTool, PathUse, path_use
from .shell.command_line import render_argv
from .shell.parser import MAX_LENGTH

__all__ = ["UNSEEN", "WIDER", "CallContext", "bare_name", "call_from_tool"]

UNSEEN = "unseen"
"""A field that a driver adds to a call which it knows in part, or of which it was given two
accounts: why it is in doubt."""

WIDER = "wider"
"""A field that a driver adds: what else a permission for the call would grant."""

_WIDER_FIELDS = {
    "grant_root": "writing anything below a directory",
    "grantRoot": "writing anything below a directory",
    "additional_permissions": "a wider sandbox",
    "additionalPermissions": "a wider sandbox",
    "sandbox_permissions": "a wider sandbox",
    "sandboxPermissions": "a wider sandbox",
    "with_escalated_permissions": "running outside the agent's sandbox",
    "withEscalatedPermissions": "running outside the agent's sandbox",
    "dangerouslyDisableSandbox": "running outside the agent's sandbox",
    "network_approval_context": "the network",
    "networkApprovalContext": "the network",
}
"""Fields by which a request asks for more than its call."""
_NO_MORE: tuple[Any, ...] = (None, False, "", "use_default", "useDefault", "none")
"""Values of such a field that ask for nothing."""

_WILD = frozenset("*?[{")

_COMMAND_FIELDS = ("command", "cmd")
_CWD_FIELDS = ("cwd", "workdir", "directory", "dir_path")
_PATH_FIELDS = frozenset(
    (
        *("file_path", "filePath", "filepath", "absolute_path", "absolutePath", "path", "dir_path"),
        *("notebook_path", "target_file", "targetFile", "relative_path", "relativePath", "file"),
        *("filename", "file_name", "fileName", "dir", "directory", "folder", "root", "base_path"),
        *("basePath", "search_path", "searchPath", "source_path", "target_path", "output_path"),
        *("old_path", "new_path", "oldPath", "newPath", "source", "destination", "src", "dst"),
        *("from", "to"),
    )
)
_PATHS_FIELDS = frozenset(("paths", "file_paths", "filePaths", "files", "directories"))
_PATTERN_FIELDS = frozenset(
    (
        *("glob", "globs", "include", "includes", "glob_pattern", "globPattern", "file_pattern"),
        *("filePattern", "include_pattern", "includePattern", "path_pattern", "pathPattern"),
    )
)
"""Fields with patterns of paths: a tool reaches below the part of one that has no wildcard."""
_NAME_FIELDS = frozenset(("pattern", "query", "patterns"))
"""The same in a tool that finds files; in one that looks into them, what is looked for."""
_WITHIN = frozenset(("grep", "grep_search", "search_file_content", "ripgrep", "rg", "codesearch"))
"""Tools that look into files."""
_URL_FIELDS = ("url", "uri")
_SILENT_FIELDS = frozenset(
    (
        *("description", "timeout", "title", "explanation", "justification", "reason"),
        *("content", "contents", "old_string", "new_string", "oldString", "newString"),
        *("replace_all", "replaceAll", "expected_replacements", "instruction", "edits", "diff"),
        *("new_source", "cell_id", "cell_type", "edit_mode", "offset", "limit", "line"),
        *("start_line", "end_line", "pages", "exclude", "type", "regex", "exclude_pattern"),
        *("output_mode", "head_limit", "multiline", "-i", "-n", "-A", "-B", "-C"),
        *("case_sensitive", "respect_git_ignore", "prompt", "format", "ignore", "recursive"),
        *("timeout_ms", "max_output_tokens", "yield_time_ms", "parsed_cmd", "commandActions"),
        *("call_id", "callId", "run_in_background", "is_background", "background", "limitLines"),
        # What adapters add for themselves, such as Zed's codex-acp.
        *("turn_id", "turnId", "process_id", "processId", "approval_id", "approvalId", "itemId"),
        *("available_decisions", "availableDecisions", "started_at_ms", "startedAtMs", "item_id"),
        *("proposed_execpolicy_amendment", "proposedExecpolicyAmendment", "interaction_input"),
        *("auto_approved", "aggregated_output", "formatted_output", "stdout", "stderr"),
        *("exit_code", "exitCode", "duration", "status", "max_depth", "maxDepth", "max_results"),
    )
)
"""Fields that say nothing about where a call reaches."""


_SHOWN = 300
"""Characters of a value in a reason."""

_TYPES_INTO = frozenset(("write_stdin", "send_input", "terminal_input"))
"""Tools that give a running program its input; what that does, no command says."""

_TOOLS: dict[str, ToolKind] = {
    "bash": "execute",
    "shell": "execute",
    "local_shell": "execute",
    "exec_command": "execute",
    "run_shell_command": "execute",
    "run_terminal_cmd": "execute",
    "execute": "execute",
    "read": "read",
    "read_file": "read",
    "view": "read",
    "view_file": "read",
    "readfile": "read",
    "read_many_files": "read",
    "list_directory": "read",
    "list_files": "read",
    "listdir": "read",
    "ls": "read",
    "list": "read",
    "glob": "search",
    "find": "search",
    "find_files": "search",
    "file_search": "search",
    "grep": "search",
    "grep_search": "search",
    "search_file_content": "search",
    "edit": "edit",
    "multiedit": "edit",
    "write": "edit",
    "write_file": "edit",
    "writefile": "edit",
    "strreplacefile": "edit",
    "str_replace": "edit",
    "search_replace": "edit",
    "edit_file": "edit",
    "apply_patch": "edit",
    "replace": "edit",
    "notebookedit": "edit",
    "delete": "delete",
    "move": "move",
    "webfetch": "fetch",
    "web_fetch": "fetch",
    "fetch": "fetch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Where a call comes from: what all calls of a session share."""

    cwd: str
    roots: tuple[str, ...] = ()
    home: str = ""
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    on_unheld: Literal["refuse", "warn"] = "refuse"
    """What to do where the agent could not keep to the mode or a rule."""
    on_violation: Literal["report", "stop"] = "report"
    """What to do where it did what no one permitted; it is reported in any case."""


@dataclass(slots=True)
class _Findings:
    command: str | None = None
    cwd: str | None = None
    paths: list[str] = field(default_factory=list[str])
    urls: list[str] = field(default_factory=list[str])
    patterns: list[str] = field(default_factory=list[str])
    """Of paths; they begin where ``paths`` or the directory say."""
    doubts: list[str] = field(default_factory=list[str])
    wider: list[str] = field(default_factory=list[str])
    is_partial: bool = False


def call_from_tool(
    name: str | None,
    kind: ToolKind,
    raw_input: Any,
    locations: Sequence[str] = (),
    *,
    title: str = "",
    changed: Sequence[str] = (),
    around: CallContext,
) -> Call:
    """Make a call from what an agent says about it. Never raises.

    ``locations`` are the paths that it announces, ``changed`` those of which it shows a change;
    ``title`` is used when it says nothing else, and is never certain.
    """
    mcp = _mcp_tool(name) if name is not None else _described_mcp_tool(title, raw_input)
    known = _TOOLS.get(bare_name(name or ""))
    found = _Findings()
    if known is not None and kind not in (known, "other") and not _kin(known, kind):
        found.doubts.append(f"the agent reports {name!r} as a tool of kind {kind!r}")
    kind = known or kind
    call = Call(
        tool=name or title or kind,
        kind=kind,
        cwd=around.cwd,
        roots=around.roots,
        home=around.home,
        project=around.project,
        session=around.session,
        agent=around.agent,
        mcp=mcp,
    )
    if mcp is not None:
        return _with_marks(call, raw_input)
    _read_input(raw_input, kind, bare_name(name or "") in _WITHIN, found)
    named = tuple(dict.fromkeys((*locations, *changed)))
    _complete(kind, found, named, title)
    if bare_name(name or "") in _TYPES_INTO:
        found.doubts.append("it types into a program that runs")
        found.is_partial = True
    if kind == "other":
        return _bare(call, found, named)
    return _with_changes(_filled(call, found, named), changed)


def _with_changes(call: Call, changed: Sequence[str]) -> Call:
    """The call as one that writes what it shows changes of, whatever kind it is said to be."""
    if not changed or call.kind in ("edit", "delete", "move"):
        return call
    writes = tuple(_use(path, "write", call) for path in changed)
    doubt = f"it shows changes of files and is reported as {call.kind!r}"
    return replace(call, paths=(*call.paths, *writes), doubts=(*call.doubts, doubt))


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _with_marks(call: Call, raw_input: Any) -> Call:
    """A server's tool with what a driver has marked; its own arguments are the server's."""
    if not isinstance(raw_input, Mapping):
        return call
    fields, found = cast("Mapping[Any, Any]", raw_input), _Findings()
    for key in (UNSEEN, WIDER):
        if fields.get(key) is not None:
            _read_field(key, fields[key], call.kind, False, found)
    return replace(call, doubts=tuple(found.doubts), wider=tuple(found.wider))


def _unseen(reason: Any) -> str:
    return f"it is not known for certain: {reason}"


def _kin(one: ToolKind, other: ToolKind) -> bool:
    return {one, other} <= {"read", "search"} or {one, other} <= {"edit", "delete", "move"}


def _mcp_tool(name: str | None) -> McpTool | None:
    prefix, _, rest = (name or "").partition("__")
    server, separator, tool = rest.partition("__")
    if prefix != "mcp" or not (separator and server and tool):
        return None
    return McpTool(server=server, tool=tool)


def _described_mcp_tool(title: str, raw_input: Any) -> McpTool | None:
    """A tool that is described by its title and its input alike, as codex does; never by one
    alone.
    """
    if not isinstance(raw_input, dict):
        return None
    fields = cast("dict[str, Any]", raw_input)
    server, tool = fields.get("server"), fields.get("tool")
    if fields.keys() != {"server", "tool", "arguments"}:
        return None
    if not (isinstance(server, str) and isinstance(tool, str) and server and tool):
        return None
    return McpTool(server=server, tool=tool) if title == f"mcp.{server}.{tool}" else None


def bare_name(name: str) -> str:
    """A tool's name as the table has it: without the extension that brings it, in small letters.

    Goose writes ``developer__shell``; what begins with ``mcp__`` is a server's tool, and no other.
    """
    lowered = name.lower()
    extension, separator, rest = lowered.partition("__")
    return rest if separator and extension == "developer" else lowered


def _read_input(raw_input: Any, kind: ToolKind, is_within: bool, found: _Findings) -> None:
    if not isinstance(raw_input, Mapping):
        return
    for key, value in cast("Mapping[Any, Any]", raw_input).items():
        if value is not None:
            _read_field(str(key), value, kind, is_within, found)


def _read_field(key: str, value: Any, kind: ToolKind, is_within: bool, found: _Findings) -> None:
    if key == UNSEEN:
        found.doubts.append(_unseen(value))
        found.is_partial = True
    elif key == WIDER:
        found.wider.append(f"it would also grant {value}")
    elif key in _WIDER_FIELDS:
        if value not in _NO_MORE and value != {} and value != []:
            found.wider.append(f"it would also grant {_WIDER_FIELDS[key]}: {_shortened(value)}")
    elif kind == "execute":
        _read_execution(key, value, found)
    elif key in _NAME_FIELDS and is_within:
        return
    elif key in _PATTERN_FIELDS | _NAME_FIELDS and (isinstance(value, str) or _is_texts(value)):
        found.patterns.extend([value] if isinstance(value, str) else value)
    else:
        _read_place(key, value, found)


def _read_execution(key: str, value: Any, found: _Findings) -> None:
    if key in _COMMAND_FIELDS:
        _read_command(value, found)
    elif key in _CWD_FIELDS and isinstance(value, str):
        if found.cwd not in (None, value):
            found.doubts.append("it names two directories to run in")
        found.cwd = value
    elif key != "source":  # codex says by it who runs the command
        _read_place(key, value, found)


def _read_place(key: str, value: Any, found: _Findings) -> None:
    if key in _PATH_FIELDS and isinstance(value, str):
        found.paths.append(value)
    elif key in _PATHS_FIELDS and _is_texts(value):
        found.paths.extend(value)
    elif key == "changes" and isinstance(value, Mapping):
        found.paths.extend(str(path) for path in cast("Mapping[Any, Any]", value))
    elif key in _URL_FIELDS and isinstance(value, str):
        found.urls.append(value)
    elif key not in _SILENT_FIELDS:
        found.doubts.append(f"the input key {key!r} is unknown")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) for item in cast("list[Any]", value)
    )


def _read_command(value: Any, found: _Findings) -> None:
    if isinstance(value, str):
        line = value
    elif _is_texts(value) and value:
        # A list is an argument vector: no shell splits it, so each word is quoted.
        line = render_argv(cast("list[str]", value))
    else:
        found.doubts.append("its command is not text")
        return
    if found.command not in (None, line):
        # Which of them the tool runs is not known; deny rules see both.
        found.doubts.append("it names two commands")
        line = f"{found.command}\n{line}"
    found.command = line


def _complete(kind: ToolKind, found: _Findings, locations: Sequence[str], title: str) -> None:
    """Add what the agent left out of the input, with a doubt."""
    if kind == "execute" and found.command is None:
        found.command = title.strip().strip("`")[: MAX_LENGTH + 1]
        found.doubts.append("the agent gives the command as a title only")
    named = found.paths or found.patterns or locations
    if kind in ("read", "edit", "delete", "move") and not named:
        found.doubts.append("the agent does not say which files")
    if kind == "fetch" and not found.urls:
        found.doubts.append("the agent does not say which address")


def _bare(call: Call, found: _Findings, locations: Sequence[str]) -> Call:
    """Return a call of a tool that we know by its name only; what it reaches is unknown."""
    named = dict.fromkeys((*found.paths, *_below_patterns(found), *locations))
    paths = tuple(_use(path, "write", call) for path in named)
    if not (paths or found.urls or found.is_partial or found.wider):
        return call
    doubts = tuple(found.doubts) if found.is_partial else ()
    return replace(
        call,
        paths=paths,
        urls=tuple(found.urls),
        globs=tuple(found.patterns),
        doubts=(*doubts, "its effect is unknown"),
        wider=tuple(found.wider),
        is_partial=found.is_partial,
    )


def _filled(call: Call, found: _Findings, locations: Sequence[str]) -> Call:
    cwd = path_use(found.cwd, "read", cwd=call.cwd).path if found.cwd else call.cwd
    access: Access = "write" if call.kind in ("edit", "delete", "move") else "read"
    named = [*found.paths, *_below_patterns(found)]
    if call.kind == "search" and not named:
        named.append(cwd)
    if call.kind in ("read", "search", "edit", "delete", "move"):
        named.extend(locations)
    call = replace(call, cwd=cwd)
    uses = dict.fromkeys(_use(path, access, call) for path in named)
    going_back = [path for path in (*named, found.cwd or "") if _goes_back(path)]
    found.doubts.extend(f"where {path!r} leads is not certain" for path in going_back)
    doubts = tuple(dict.fromkeys(found.doubts))
    return replace(
        call,
        command=found.command if call.kind == "execute" else None,
        paths=tuple(uses),
        urls=tuple(found.urls),
        globs=tuple(found.patterns),
        doubts=doubts,
        wider=tuple(found.wider),
        is_partial=found.is_partial,
    )


def _goes_back(path: str) -> bool:
    """Say whether ``..`` follows a name: from a symlink, programs go back to different places."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return any(part == ".." and before != ".." for before, part in pairwise(parts))


def _below_patterns(found: _Findings) -> list[str]:
    """Where patterns of paths reach: what has no wildcard in it is a path itself."""
    starts = found.paths or [""]
    reached: list[str] = []
    for pattern in found.patterns:
        parts = pattern.split("/")
        fixed = next((i for i, part in enumerate(parts) if _WILD & set(part)), len(parts))
        below = "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else "")
        reached.extend(posixpath.join(start, below) if below else start for start in starts)
    return [path or "." for path in dict.fromkeys(reached)]


def _use(path: str, access: Access, call: Call) -> PathUse:
    return path_use(path, access, cwd=call.cwd, home=call.home)
