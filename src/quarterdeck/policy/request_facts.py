"""What a permission request says: the command, the directory, the arguments, and what is risky
about it. Pure, as far as its text tells; never raises for what it is given.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.tool_calls import Diff

if TYPE_CHECKING:
    from .call_parts import CallPart, CommandPart, PathPart
    from .shell.command_line import ShellCommand

__all__ = [
    "COMMAND_KEYS",
    "DIRECTORY_KEYS",
    "PermissionRisk",
    "RequestArgument",
    "find_command",
    "find_directory",
    "find_risks",
    "list_arguments",
]

COMMAND_KEYS = ("command", "cmd", "script")
"""Arguments that hold a command line; the first that is there counts."""
DIRECTORY_KEYS = ("cwd", "workdir", "working_directory", "directory")
"""Arguments that hold the directory of a command; the first that is there counts."""
_SHELL = re.compile(r"(?:/(?:usr/)?bin/)?(?:bash|sh|zsh|dash)")
RequestArgument: TypeAlias = tuple[str, str, Any]
"""The last name of an argument, its whole name, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRisk:
    """A part of a call that deserves a second look."""

    reason: str
    """In two or three words: deletes files, uses the network."""
    words: str
    """The part, as it is written."""
    mark: str = ""
    """What of it is marked in the command; empty: nothing."""


def find_command(asked: PermissionAsked) -> str | None:
    """The command line that is to run; None: the request is about something else."""
    raw = asked.raw_input
    if isinstance(raw, dict):
        given = cast("dict[str, Any]", raw)
        for key in COMMAND_KEYS:
            if isinstance(found := given.get(key), str) and found.strip():
                return found
            if isinstance(found, list) and found:
                return _line_of(cast("list[Any]", found))
    elif asked.kind == "execute" and isinstance(raw, str) and raw.strip():
        return raw
    if asked.kind == "execute" and not raw:
        return asked.title.strip().strip("`") or None
    return None


def _line_of(words: list[Any]) -> str:
    texts = [str(word) for word in words]
    if len(texts) == 3 and _SHELL.fullmatch(texts[0]) and texts[1] in ("-c", "-lc"):
        return texts[2]
    from .shell.command_line import render_argv

    return render_argv(texts)


def find_directory(raw: object) -> str | None:
    """The directory that arguments name to work in; None: none."""
    if not isinstance(raw, dict):
        return None
    given = cast("dict[str, Any]", raw)
    found = (given.get(key) for key in DIRECTORY_KEYS)
    return next((one for one in found if isinstance(one, str) and one), None)


def list_arguments(value: object, name: str = "", last: str = "") -> Iterator[RequestArgument]:
    """Each value of the arguments with its name, however deep it is; none twice."""
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[object, object]", value).items():
            yield from list_arguments(inner, f"{name}.{key}" if name else str(key), str(key))
    elif isinstance(value, list) and any(
        isinstance(one, dict | list) for one in cast("list[object]", value)
    ):
        for number, inner in enumerate(cast("list[object]", value), 1):
            yield from list_arguments(inner, f"{name}[{number}]", last)
    elif value is not None:
        yield last, name or "input", value


_ELEVATING = frozenset(("sudo", "doas", "su", "pkexec", "run0", "gosu"))
_DELETING = frozenset(("rm", "rmdir", "shred", "unlink", "trash", "truncate", "dd", "mkfs"))
_NETWORK = frozenset(
    (
        *("curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "telnet", "ftp"),
        *("ping", "dig", "nslookup", "http", "https", "aws", "gcloud", "az", "gh", "glab"),
    )
)
_NETWORK_VERBS = {
    "git": ("push", "pull", "fetch", "clone", "ls-remote", "submodule"),
    "pip": ("install", "download"),
    "pip3": ("install", "download"),
    "uv": ("add", "sync", "pip", "publish", "tool"),
    "npm": ("install", "i", "ci", "add", "publish", "update"),
    "pnpm": ("install", "i", "add", "publish", "update"),
    "yarn": ("install", "add", "publish", "up"),
    "cargo": ("install", "publish", "fetch", "update", "add"),
    "go": ("get", "install", "mod"),
    "docker": ("pull", "push", "login"),
    "apt": ("install", "update", "upgrade"),
    "apt-get": ("install", "update", "upgrade"),
    "brew": ("install", "update", "upgrade"),
    "gem": ("install", "push"),
}


def find_risks(
    asked: PermissionAsked, cwd: str | None, home: str = ""
) -> tuple[PermissionRisk, ...]:
    """What is risky about a call, as far as its text tells. Never raises for what it is given."""
    from .call_parts import parts_of
    from .foreign_calls import CallContext, call_from_tool

    where = cwd if cwd and cwd.startswith("/") else "/"
    paths = [place.path for place in asked.locations]
    paths += [item.path for item in asked.content if isinstance(item, Diff)]
    around = CallContext(cwd=where, roots=(where,), home=home)
    raw = asked.raw_input
    command = find_command(asked)
    if command is not None and isinstance(raw, dict):
        raw = {**cast("dict[str, Any]", raw), "command": command}
    call = call_from_tool(
        asked.name, asked.kind, raw, tuple(dict.fromkeys(paths)), title=asked.title, around=around
    )
    found = dict.fromkeys(
        risk for part in parts_of(call) for risk in _part_risks(part, (where,), asked)
    )
    return tuple(found)


def _part_risks(
    part: "CallPart", roots: tuple[str, ...], asked: PermissionAsked
) -> Iterator[PermissionRisk]:
    from .call_parts import CommandPart, FetchPart, PathPart

    match part:
        case CommandPart():
            yield from _command_risks(part, roots)
        case PathPart():
            yield from _path_risks(part, asked)
        case FetchPart(target=target, action=action):
            reason = "not a public address" if action == "fetch inner" else "uses the network"
            yield PermissionRisk(reason=reason, words=str(target), mark=target.host)
        case _:
            return


def _path_risks(part: "PathPart", asked: PermissionAsked) -> Iterator[PermissionRisk]:
    path = part.use.path
    mark = _written(path, find_command(asked) or "")
    if part.whole or asked.kind == "delete":
        yield PermissionRisk(reason="deletes or moves", words=path, mark=mark)
    if (reason := _OUTSIDE.get(part.action)) is not None:
        yield PermissionRisk(reason=reason, words=path, mark=mark)


_OUTSIDE = {
    "write outside": "writes outside the workspace",
    "run write outside": "writes outside the workspace",
    "write protected": "changes what programs run later",
    "read outside": "reads outside the workspace",
}


def _command_risks(part: "CommandPart", roots: tuple[str, ...]) -> Iterator[PermissionRisk]:
    from .paths import is_below
    from .shell.hazards import never_lasting

    command = part.command
    text = command.text
    reason = _program_reason(command)
    if reason is None and (never_lasting(command) or "").endswith("lasting harm"):
        reason = "can do lasting harm"
    if reason is not None:
        yield PermissionRisk(reason=reason, words=text, mark=command.words[0].raw)
    if part.action == "run outside":
        yield PermissionRisk(reason="runs outside the workspace", words=text)
    does = "reads" if part.reading is not None else "reaches"
    for use in part.reads if part.reading is not None else part.named:
        mark = _written(use.path, text)
        if mark and not is_below(use.path, (*roots, "/dev")):
            reason = f"{does} outside the workspace"
            yield PermissionRisk(reason=reason, words=use.path, mark=mark)
    for inner in part.inner:
        yield from _command_risks(inner, roots)


def _program_reason(command: "ShellCommand") -> str | None:
    name = command.name or ""
    words = [word.exact or "" for word in command.words[1:]]
    if name in _ELEVATING:
        return "runs as another user"
    if name in _DELETING or name.startswith("mkfs.") or (name == "find" and "-delete" in words):
        return "deletes files"
    if name in _NETWORK or any(word in _NETWORK_VERBS.get(name, ()) for word in words[:3]):
        return "uses the network"
    return None


def _written(path: str, text: str) -> str:
    """A path as it stands in a text; empty: it does not, such as an option that only may be one."""
    if path in text:
        return path
    tail = re.escape(path.rpartition("/")[2])
    pattern = rf"(?:~|\.\.|\$\w+)(?:/[^\s'\"<>|;&]*)?/{tail}(?![\w.-])" if tail else r"\.\.(?=\s|$)"
    found = re.search(pattern, text)
    return found[0] if found else ""
