"""A call taken apart: each thing in it that needs leave of its own.

A call is allowed when all of its parts are. A call without parts is never allowed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .call import Access, Call, PathUse
from .domains import Target, parse_target
from .modes import Deed
from .paths import absolute, is_below, is_protected
from .shell.line import Command, Line
from .shell.parse import read_line
from .shell.readonly import Reading, vet
from .shell.words import FED_FILE, Word

__all__ = [
    "Fetch",
    "Hidden",
    "McpUse",
    "Part",
    "Run",
    "Touch",
    "Unclear",
    "Use",
    "mentioned_paths",
    "parts_of",
]

Family: TypeAlias = Literal["bash", "read", "edit", "fetch", "mcp", "other"]

_HARMLESS_DEVICES = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", FED_FILE))
_LONGEST_PATH = 4096
_READING_KINDS = frozenset(("read", "search"))
_WRITING_KINDS = frozenset(("edit", "delete", "move"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command, with those that it runs in turn."""

    command: Command
    deed: Deed
    cwds: tuple[str, ...] | None
    """Where it may run; None: anywhere."""
    reading: Reading | None = None
    """Set when it is known to change nothing."""
    reads: tuple[PathUse, ...] = ()
    """With ``reading``: all that it names and reads."""
    named: tuple[PathUse, ...] = ()
    """Without ``reading``: every path that its words may name."""
    inner: tuple["Run", ...] = ()

    @property
    def label(self) -> str:
        """The part, for people."""
        return self.command.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A file that is read or written."""

    use: PathUse
    deed: Deed
    by_shell: bool = False
    whole: bool = False
    """It is deleted or moved, with all below it."""

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"{self.use.access} {self.use.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """An address that is asked."""

    target: Target
    deed: Deed

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"fetch from {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpUse:
    """A tool of an MCP server."""

    server: str
    tool: str
    deed: Deed = "mcp"

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"{self.tool} of the MCP server {self.server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A tool that is known by its name only."""

    name: str
    deed: Deed

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"the tool {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """Something that could not be read with certainty."""

    reason: str
    family: Family
    deed: Deed
    unread: bool = False
    """It may hold anything."""

    @property
    def label(self) -> str:
        """The part, for people."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """What a command line might also run. Only deny and ask rules look at it."""

    commands: tuple[Command, ...]
    tokens: tuple[str, ...]
    deed: Deed = "run"

    @property
    def label(self) -> str:
        """The part, for people."""
        return "what the line may run besides"


Part: TypeAlias = Run | Touch | Fetch | McpUse | Use | Unclear | Hidden


def parts_of(call: Call) -> tuple[Part, ...]:
    """Take a call apart. Never raises and never returns nothing."""
    parts: list[Part] = []
    family = _family(call)
    parts.extend(_unclear(reason, family, call) for reason in call.doubts)
    if call.command is not None:
        parts.extend(_shell_parts(call, call.command))
    parts.extend(_touch(call, use) for use in call.paths)
    for url in call.urls:
        target = parse_target(url)
        if isinstance(target, str):
            parts.append(_unclear(target, "fetch", call, unread=True))
        else:
            public = target.address_class == "public"
            parts.append(Fetch(target=target, deed="fetch" if public else "fetch inner"))
    if call.mcp is not None:
        deed: Deed = "read" if call.mcp.only_reads else "mcp"
        parts.append(McpUse(server=call.mcp.server, tool=call.mcp.tool, deed=deed))
    return tuple(parts) or (_bare(call),)


def mentioned_paths(call: Call) -> tuple[str, ...]:
    """Return the absolute paths that a call's command names, for resolving symbolic links.

    Whoever can look at the disk puts those that lead elsewhere into ``Call.links``.
    """
    if call.command is None:
        return ()
    found: dict[str, None] = {}
    for part in _shell_parts(call, call.command):
        if isinstance(part, Run):
            for run in _flat(part):
                found.update(dict.fromkeys(use.path for use in (*run.reads, *run.named)))
        elif isinstance(part, Touch):
            found[part.use.path] = None
    return tuple(found)


def _flat(run: Run) -> Iterable[Run]:
    yield run
    for inner in run.inner:
        yield from _flat(inner)


def _family(call: Call) -> Family:
    if call.command is not None or call.kind == "execute":
        return "bash"
    if call.mcp is not None:
        return "mcp"
    if call.kind in _READING_KINDS:
        return "read"
    if call.kind in _WRITING_KINDS:
        return "edit"
    return "fetch" if call.urls or call.kind == "fetch" else "other"


_FAMILY_DEEDS: dict[Family, Deed] = {
    "bash": "run",
    "read": "read outside",
    "edit": "write outside",
    "fetch": "fetch inner",
    "mcp": "mcp",
    "other": "other",
}


def _unclear(reason: str, family: Family, call: Call, unread: bool = False) -> Unclear:
    deed = _FAMILY_DEEDS[family]
    if family == "bash" and not is_below(call.cwd, call.roots):
        deed = "run outside"
    return Unclear(reason=reason, family=family, deed=deed, unread=unread)


def _bare(call: Call) -> Part:
    family = _family(call)
    if family in ("bash", "read", "edit"):
        return _unclear("what it works on is not said", family, call)
    if call.kind == "think":
        return Use(name=call.tool, deed="think")
    return Use(name=call.tool, deed="other")


def _touch(call: Call, use: PathUse) -> Touch:
    whole = call.kind in ("delete", "move")
    deed = _touch_deed(call, use)
    # A directory goes with what is in it, and a workspace always has what is protected.
    if whole and deed == "write" and (call.holds_protected or use.path in call.roots):
        deed = "write protected"
    return Touch(use=use, deed=deed, whole=whole)


def _touch_deed(call: Call, use: PathUse) -> Deed:
    inside = is_below(use.path, call.roots) and is_below(use.resolved, call.roots)
    if use.access == "read":
        return "read" if inside else "read outside"
    if not inside:
        return "write outside"
    protected = is_protected(_within(use.path, call)) or is_protected(_within(use.resolved, call))
    return "write protected" if protected else "write"


def _within(path: str, call: Call) -> str:
    """Return the part of a path below the innermost root: a root's own name protects nothing."""
    roots = [root for root in call.roots if is_below(path, (root,))]
    return path[len(max(roots, key=len)) :] if roots else path


# Command lines


def _shell_parts(call: Call, text: str) -> list[Part]:
    line = read_line(text)
    parts: list[Part] = [_unclear(reason, "bash", call, line.unread) for reason in line.doubts]
    if not (line.commands or line.redirects or line.doubts):
        parts.append(_unclear("it runs nothing that is known", "bash", call))
    parts.extend(_run(call, line, command) for command in line.commands)
    for redirect in line.redirects:
        access: Access = "write" if redirect.writes else "read"
        parts.extend(_redirect(call, line, redirect.target, redirect.moves, access))
    if line.hidden or line.tokens:
        parts.append(Hidden(commands=line.hidden, tokens=line.tokens))
    return parts


def _redirect(
    call: Call, line: Line, target: Word, moves: tuple[str | None, ...], access: Access
) -> list[Part]:
    if target.value is None or target.glob or target.value in _HARMLESS_DEVICES:
        return []
    cwds = _cwds(call, line, moves)
    if cwds is None and not target.value.startswith(("/", "~")):
        return [_unclear("which file a redirection opens is not certain", "bash", call)]
    parts: list[Part] = []
    for cwd in cwds or (call.cwd,):
        use = _use(call, target, cwd, access)
        deed = _touch_deed(call, use)
        if deed == "write":
            deed = "run write"
        elif deed == "write outside":
            deed = "run write outside"
        elif deed in ("read", "read outside"):
            deed = "run reading" if deed == "read" else "run reading outside"
        parts.append(Touch(use=use, deed=deed, by_shell=True))
    return parts


def _use(call: Call, word: Word, cwd: str, access: Access) -> PathUse:
    value = word.value or ""
    if value.startswith("~") and not word.tilde:
        value = "./" + value
    path = absolute(value, cwd=cwd, home=call.home)
    return PathUse(path=path, resolved=call.links.get(path, path), access=access)


def _cwds(call: Call, line: Line, moves: tuple[str | None, ...]) -> tuple[str, ...] | None:
    """Return every directory that a command may run in; None: any.

    A ``cd`` may have failed or been skipped, so each one adds places and removes none.
    """
    if line.moves_unknown or None in moves or len(moves) > 6:
        return None
    places = [call.cwd]
    for move in moves:
        reached = [absolute(move or "", cwd=place, home=call.home) for place in places]
        places = list(dict.fromkeys((*places, *reached)))
        if len(places) > 16:
            return None
    return tuple(places)


def _run(call: Call, line: Line, command: Command) -> Run:
    cwds = _cwds(call, line, command.moves)
    inner = tuple(_run(call, line, each) for each in command.inner)
    inside = cwds is not None and all(is_below(cwd, call.roots) for cwd in cwds)
    reading = vet(command)
    reads = None if reading is None else _reads(call, reading, cwds)
    if reading is None or reads is None or not _git_is_safe(call, reading, cwds):
        deed: Deed = "run" if inside else "run outside"
        named = _named(call, command, cwds)
        return Run(command=command, deed=deed, cwds=cwds, named=named, inner=inner)
    near = all(_touch_deed(call, use) == "read" for use in reads)
    deed = "run reading" if near else "run reading outside"
    return Run(command=command, deed=deed, cwds=cwds, reading=reading, reads=reads, inner=inner)


def _named(call: Call, command: Command, cwds: tuple[str, ...] | None) -> tuple[PathUse, ...]:
    found: dict[str, None] = {}
    for word in command.words[1:]:
        value = word.value
        if not value or len(value) > _LONGEST_PATH:
            continue
        # "--file=x", "-fx" and "if=x" name x as well.
        texts = [value[2:]] if value.startswith("-") else [value]
        texts.append(value.partition("=")[2])
        for text in filter(None, texts):
            for cwd in cwds or (call.cwd,):
                found[absolute(text, cwd=cwd, home=call.home)] = None
    return tuple(
        PathUse(path=path, resolved=call.links.get(path, path), access="write") for path in found
    )


def _git_is_safe(call: Call, reading: Reading, cwds: tuple[str, ...] | None) -> bool:
    """Say whether git finds the workspace's own settings.

    A directory of the project that looks like a repository brings settings that name programs.
    """
    return not reading.at_root or (cwds is not None and all(cwd in call.roots for cwd in cwds))


def _reads(
    call: Call, reading: Reading, cwds: tuple[str, ...] | None
) -> tuple[PathUse, ...] | None:
    """Return all that a command may read; None when that is not certain."""
    words = [word for word in reading.paths if word.value not in ("-", *_HARMLESS_DEVICES)]
    if cwds is None:
        relative = [word for word in words if not (word.value or "").startswith(("/", "~"))]
        if relative or reading.here:
            return None
    places = cwds or (call.cwd,)
    uses: list[PathUse] = []
    for word in words:
        if word.glob and not _glob_stays(word.value or ""):
            return None
        fixed = _before_glob(word) if word.glob else word
        uses.extend(_use(call, fixed, cwd, "read") for cwd in places)
    if reading.here:
        uses.extend(PathUse(path=cwd, resolved=cwd, access="read") for cwd in places)
    return tuple(uses)


def _glob_stays(value: str) -> bool:
    """Say whether a pattern cannot match ``..`` and so leave its directory."""
    parts = value.split("/")
    first = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
    return not any(part.startswith((".", "[")) for part in parts[first:])


def _before_glob(word: Word) -> Word:
    kept: list[str] = []
    for part in (word.value or "").split("/"):
        if any(sign in part for sign in "*?["):
            break
        kept.append(part)
    text = "/".join(kept) or ("/" if (word.value or "").startswith("/") else ".")
    return Word(word.raw, text, tilde=word.tilde)
