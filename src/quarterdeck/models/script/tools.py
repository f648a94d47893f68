"""Which of the tools that an agent offers does what a script wants done.

A script says ``write``, ``shell``, ``read``, ``edit`` or ``mcp``; every agent has its own name
for that and its own argument names. What the agents call them was taken from their requests.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from quarterdeck.models.script.format import AbstractTool

__all__ = ["OfferedTool", "ResolvedCall", "resolve_tool", "sample_of"]

Arguments: TypeAlias = Mapping[str, Any]


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool as the asking agent declares it."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """A JSON schema of an object."""
    free: bool = False
    """Whether it takes plain text in place of JSON (OpenAI's custom tools)."""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The declared arguments, by name."""
        return self.parameters.get("properties") or {}


class ResolvedCall(Struct, frozen=True, kw_only=True):
    """A call that can be sent: ``text`` is JSON, or plain text for a tool that is ``free``."""

    name: str
    text: str
    free: bool = False


_BuildTable: TypeAlias = Callable[[OfferedTool, Arguments], dict[str, Any] | None]
_Build: TypeAlias = Callable[[OfferedTool, Arguments], "dict[str, Any] | str | None"]
"""The arguments for this tool, or None when it is not one of the kind."""


class _Form(Struct, frozen=True, kw_only=True):
    """One way in which agents offer a tool."""

    names: tuple[str, ...]
    build: _Build


_ROLES: Mapping[str, tuple[str, ...]] = {
    "path": ("file_path", "filePath", "path", "absolute_path", "target_file", "filename"),
    "content": ("content", "contents", "file_text", "text"),
    "command": ("command", "cmd", "script"),
    "old": ("old_string", "oldString", "old_text", "oldText", "old_str", "old"),
    "new": ("new_string", "newString", "new_text", "newText", "new_str", "new"),
}


def _by_role(*roles: str, **fixed: Any) -> _BuildTable:
    """Give each role to the argument that plays it; ``fixed`` ones must be declared too."""

    def build(tool: OfferedTool, arguments: Arguments) -> dict[str, Any] | None:
        declared = tool.properties
        if not fixed.keys() <= declared.keys():
            return None
        built = dict(fixed)
        for role in roles:
            name = next((n for n in _ROLES[role] if n in declared and n not in fixed), None)
            if name is None:
                return None
            built[name] = _fit(declared[name], arguments[role])
        extra = {k: v for k, v in arguments.items() if k in declared and k not in roles}
        return _complete(tool, {**extra, **built})

    return build


def _fit(schema: Any, value: Any) -> Any:
    """A command goes to a tool that wants a list of words as a shell that runs it."""
    if isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "array":
        return ["bash", "-lc", value]
    return value


def _complete(tool: OfferedTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a smallest value for each required argument that the script does not know."""
    for name in cast("list[str]", tool.parameters.get("required") or ()):
        if name not in arguments:
            arguments[name] = sample_of(tool.properties.get(name))
    return arguments


def _cat(tool: OfferedTool, arguments: Arguments) -> dict[str, Any] | None:
    return _by_role("command")(tool, {"command": f"cat {_quoted(arguments['path'])}"})


def _patch(make: Callable[[Arguments], str]) -> _Build:
    def build(tool: OfferedTool, arguments: Arguments) -> dict[str, Any] | str | None:
        if tool.free:
            return make(arguments)
        if "input" in tool.properties:
            return {"input": make(arguments)}
        return None

    return build


def _add_file(arguments: Arguments) -> str:
    lines = "".join(f"+{line}\n" for line in str(arguments["content"]).splitlines())
    return f"*** Begin Patch\n*** Add File: {_relative(arguments)}\n{lines}*** End Patch\n"


def _update_file(arguments: Arguments) -> str:
    old = "".join(f"-{line}\n" for line in str(arguments["old"]).splitlines())
    new = "".join(f"+{line}\n" for line in str(arguments["new"]).splitlines())
    path = _relative(arguments)
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n{old}{new}*** End Patch\n"


def _code(make: Callable[[Arguments], str]) -> _Build:
    """A tool that runs JavaScript in which the other tools are functions."""

    def build(tool: OfferedTool, arguments: Arguments) -> str | None:
        return make(arguments) if tool.free else None

    return build


def _code_patch(make: Callable[[Arguments], str]) -> _Build:
    return _code(lambda a: f"text(await tools.apply_patch({json.dumps(make(a))}));")


def _code_shell(command: Callable[[Arguments], str]) -> _Build:
    return _code(
        lambda a: (
            f"text(JSON.stringify(await tools.exec_command({json.dumps({'cmd': command(a)})})));"
        )
    )


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def _relative(arguments: Arguments) -> str:
    return str(arguments.get("given_path", arguments["path"]))


_EDITORS = ("str_replace_based_edit_tool", "file_editor", "text_editor")
_SHELLS = (
    "Bash",
    "bash",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "terminal",
    "Shell",
    "execute_command",
)

_FORMS: Mapping[AbstractTool, tuple[_Form, ...]] = {
    "write": (
        _Form(
            names=("Write", "write", "write_file", "WriteFile", "create_file"),
            build=_by_role("path", "content"),
        ),
        _Form(names=("apply_patch",), build=_patch(_add_file)),
        _Form(names=_EDITORS, build=_by_role("path", "content", command="create")),
        _Form(names=("exec",), build=_code_patch(_add_file)),
    ),
    "shell": (
        _Form(names=_SHELLS, build=_by_role("command")),
        _Form(names=("exec",), build=_code_shell(lambda a: str(a["command"]))),
    ),
    "read": (
        _Form(names=("Read", "read", "read_file", "ReadFile", "view_file"), build=_by_role("path")),
        _Form(names=_EDITORS, build=_by_role("path", command="view")),
        _Form(names=_SHELLS, build=_cat),
        _Form(names=("exec",), build=_code_shell(lambda a: f"cat {_quoted(str(a['path']))}")),
    ),
    "edit": (
        _Form(
            names=("Edit", "edit", "replace", "edit_file", "StrReplaceFile", "search_replace"),
            build=_by_role("path", "old", "new"),
        ),
        _Form(names=("apply_patch",), build=_patch(_update_file)),
        _Form(names=_EDITORS, build=_by_role("path", "old", "new", command="str_replace")),
        _Form(names=("exec",), build=_code_patch(_update_file)),
    ),
}

_NEEDED: Mapping[AbstractTool, tuple[str, ...]] = {
    "write": ("path", "content"),
    "shell": ("command",),
    "read": ("path",),
    "edit": ("path", "old", "new"),
    "mcp": ("tool",),
}


def resolve_tool(
    tool: AbstractTool, arguments: Arguments, offered: tuple[OfferedTool, ...], cwd: str | None
) -> ResolvedCall | None:
    """The call of the first offered tool that does this; None when no tool does.

    A ``path`` is made absolute with ``cwd``, when that is known, because most agents refuse
    others. Arguments that the script gives beyond the needed ones are passed on to tools that
    declare them; required arguments that it does not give get a smallest valid value.
    """
    by_name = {t.name: t for t in offered}
    if any(name not in arguments for name in _NEEDED[tool]):
        return None
    if tool == "mcp":
        return _resolve_mcp(arguments, by_name)
    known = dict(arguments)
    if cwd is not None and not str(known.get("path", "/")).startswith("/"):
        known["given_path"] = known["path"]
        known["path"] = f"{cwd.rstrip('/')}/{known['path']}"
    for form in _FORMS[tool]:
        for name in form.names:
            if (found := by_name.get(name)) is None:
                continue
            if (built := form.build(found, known)) is not None:
                text = built if isinstance(built, str) else json.dumps(built)
                return ResolvedCall(name=name, text=text, free=isinstance(built, str))
    return None


def _resolve_mcp(arguments: Arguments, offered: Mapping[str, OfferedTool]) -> ResolvedCall | None:
    wanted = str(arguments["tool"])
    server = arguments.get("server")
    names = list(_mcp_names(str(server), wanted)) if server else []
    names += [wanted, *(n for n in offered if not server and _is_tail(n, wanted))]
    for name in names:
        if name in offered:
            return ResolvedCall(name=name, text=json.dumps(arguments.get("arguments", {})))
    return None


def _mcp_names(server: str, tool: str) -> Iterator[str]:
    for prefix in ("mcp__", "mcp_", ""):
        for joint in ("__", "_", "-", "."):
            yield f"{prefix}{server}{joint}{tool}"


def _is_tail(name: str, tool: str) -> bool:
    return name.endswith(tuple(joint + tool for joint in ("__", "_", "-", ".")))


_SAMPLES: Mapping[str, Any] = {"string": "scripted", "integer": 1, "number": 1, "boolean": False}


def sample_of(schema: Any) -> Any:
    """A smallest value that fits a JSON schema, as far as its keywords are understood."""
    if not isinstance(schema, dict):
        return None
    table = cast("dict[str, Any]", schema)
    if "const" in table:
        return table["const"]
    if table.get("enum"):
        return table["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if table.get(key):
            return sample_of(table[key][0])
    named: Any = table.get("type", "object" if "properties" in table else "string")
    kind = str(cast("list[Any]", named)[0] if isinstance(named, list) else named).lower()
    if kind == "object":
        properties = cast("dict[str, Any]", table.get("properties") or {})
        return {name: sample_of(value) for name, value in properties.items()}
    if kind == "array":
        return [sample_of(table.get("items"))] * int(table.get("minItems") or 0)
    return _SAMPLES.get(kind)
