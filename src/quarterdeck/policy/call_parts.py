"""A call taken apart: each thing in it that needs its own permission.

A call is allowed when all of its parts are. A call without parts is never allowed. What reads
command lines is imported with the first of them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from .call import Access, Call, PathUse
from .command_paths import (
    before_pattern,
    directories_of,
    joined_path,
    matched_uses,
    path_texts,
    path_use_of,
    pattern_key,
    read_use,
    word_use,
    written_path,
)
from .domains import UrlTarget, parse_target
from .modes import ActionKind
from .paths import is_below, is_protected
from .shell.command_line import FED_FILE, CommandLine, ShellCommand, ShellWord
from .shell.hazards import deletes_words

if TYPE_CHECKING:
    from .shell.plain_grammar import PlainCommand
    from .shell.readonly import ReadOnlyUse

__all__ = [
    "CallMentions",
    "CallPart",
    "CommandPart",
    "FetchPart",
    "HiddenPart",
    "McpPart",
    "NamedToolPart",
    "PathPart",
    "UnclearPart",
    "find_mentions",
    "parts_of",
]

Family: TypeAlias = Literal["bash", "read", "edit", "fetch", "mcp", "other"]

_HARMLESS_DEVICES = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", FED_FILE))
_FEEDS = frozenset(("-", "/dev/null", "/dev/stdin"))
"""What a command may read in place of a file."""
_BUILTINS = frozenset(
    (
        *("echo", "printf", "test", "[", "cd", "pwd", "true", "false", ":", "type", "command"),
        *("set", "exit", "return", "break", "continue", "time"),
    )
)
"""Names that shells run themselves."""
_UNASKED_WRAPPERS = frozenset(("time", "timeout", "gtimeout", "nice", "command", "stdbuf", "env"))
"""Wrappers that may run a harmless command unasked. ``nohup`` writes a file, ``xargs`` takes words
from elsewhere, ``exec`` takes the shell's place."""
_SHELLS = frozenset(("bash", "sh", "dash"))
_SHELL_FILES = frozenset(f"{place}/bin/{name}" for place in ("", "/usr") for name in _SHELLS)
"""Shells that are read as such; agents name them by their files, too."""
_CERTAIN_WRAPPERS = frozenset(("time", "timeout", "nice", "command", *_SHELLS, *_SHELL_FILES))
"""What they run is as certain as without them. Codex sends every command as ``bash -lc``; what a
login shell reads first is the person's own."""
_SYSTEM_PLACES = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
"""Where programs are the machine's own, also when the workspace is the whole disk."""
_READING_KINDS = frozenset(("read", "search"))
_WRITING_KINDS = frozenset(("edit", "delete", "move"))


class CommandPart(Struct, frozen=True, kw_only=True):
    """A command, with those that it runs in turn."""

    command: ShellCommand
    action: ActionKind
    cwds: tuple[str, ...] | None
    """Where it may run; None: anywhere."""
    reading: "ReadOnlyUse | None" = None
    """Set when it is known to change nothing."""
    reads: tuple[PathUse, ...] = ()
    """With ``reading``: all that it names and reads."""
    named: tuple[PathUse, ...] = ()
    """Without ``reading``: every path that its words may name."""
    inner: tuple["CommandPart", ...] = ()

    @property
    def label(self) -> str:
        """The part, for people."""
        return self.command.text


class PathPart(Struct, frozen=True, kw_only=True):
    """A file that is read or written."""

    use: PathUse
    action: ActionKind
    by_shell: bool = False
    whole: bool = False
    """It is deleted or moved, with all below it."""

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"{self.use.access} {self.use.path}"


class FetchPart(Struct, frozen=True, kw_only=True):
    """An address that is asked."""

    target: UrlTarget
    action: ActionKind

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"fetch from {self.target}"


class McpPart(Struct, frozen=True, kw_only=True):
    """A tool of an MCP server."""

    server: str
    tool: str
    action: ActionKind = "mcp"

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"{self.tool} of the MCP server {self.server}"


class NamedToolPart(Struct, frozen=True, kw_only=True):
    """A tool that is known by its name only."""

    name: str
    action: ActionKind

    @property
    def label(self) -> str:
        """The part, for people."""
        return f"the tool {self.name}"


class UnclearPart(Struct, frozen=True, kw_only=True):
    """Something that could not be read with certainty."""

    reason: str
    family: Family
    action: ActionKind
    unread: bool = False
    """It may hold anything."""

    @property
    def label(self) -> str:
        """The part, for people."""
        return self.reason


class HiddenPart(Struct, frozen=True, kw_only=True):
    """What a command line might also run. Only deny and ask rules look at it."""

    commands: tuple[ShellCommand, ...]
    tokens: tuple[str, ...]
    action: ActionKind = "run"

    @property
    def label(self) -> str:
        """The part, for people."""
        return "what else the line may run"


CallPart: TypeAlias = (
    CommandPart | PathPart | FetchPart | McpPart | NamedToolPart | UnclearPart | HiddenPart
)


def parts_of(call: Call) -> tuple[CallPart, ...]:
    """Take a call apart. Never raises and never returns nothing."""
    parts: list[CallPart] = []
    family = _family(call)
    parts.extend(_unclear(reason, family, call, call.is_partial) for reason in call.doubts)
    # As doubtful as an address that is not known: no mode allows it, no rule covers it.
    parts.extend(_unclear(reason, "fetch", call, unread=True) for reason in call.wider)
    if call.command is not None:
        parts.extend(_shell_parts(call, call.command))
    parts.extend(_touch(call, use) for use in call.paths)
    for url in call.urls:
        target = parse_target(url)
        if isinstance(target, str):
            parts.append(_unclear(target, "fetch", call, unread=True))
        else:
            public = target.address_class == "public"
            parts.append(FetchPart(target=target, action="fetch" if public else "fetch inner"))
    if call.mcp is not None:
        action: ActionKind = "read" if call.mcp.only_reads else "mcp"
        parts.append(McpPart(server=call.mcp.server, tool=call.mcp.tool, action=action))
    return tuple(parts) or (_bare(call),)


class CallMentions(Struct, frozen=True, kw_only=True):
    """What a command names that has to be looked up on disk."""

    names: tuple[str, ...] = ()
    """Programs."""
    paths: tuple[str, ...] = ()
    """Absolute, with every ``..`` that was written."""
    patterns: tuple[str, ...] = ()
    """Absolute file patterns; the directory before them is escaped as ``glob`` does."""
    deleted: tuple[str, ...] = ()
    """Those of the paths and patterns that a command deletes or moves."""


def find_mentions(call: Call) -> CallMentions:
    """Return what a call's command names. ``lookup.look_up`` asks a disk about it."""
    if call.command is None:
        paths = tuple(use.path for use in call.paths)
        return CallMentions(deleted=paths if call.kind in ("delete", "move") else ())
    from .shell.parser import read_line

    line = read_line(call.command)
    found = _Mentioned(call, line)
    for command in _all_commands(line.commands):
        found.add(command)
    for redirect in line.redirects:
        if redirect.target.value and redirect.target.value not in _HARMLESS_DEVICES:
            found.add_words((redirect.target,), redirect.moves)
    return CallMentions(
        names=tuple(found.names),
        paths=tuple(found.paths),
        patterns=tuple(found.patterns),
        deleted=tuple(found.deleted),
    )


class _Mentioned:
    """What the commands of one line name; the keys of each, in order."""

    def __init__(self, call: Call, line: CommandLine) -> None:
        self.call = call
        self.line = line
        self.names: dict[str, None] = {}
        self.paths: dict[str, None] = {}
        self.patterns: dict[str, None] = {}
        self.deleted: dict[str, None] = {}

    def add(self, command: ShellCommand) -> None:
        """Add a command's name, the directories it may run in, and its words."""
        name = command.words[0].exact
        if name and "/" not in name:
            self.names[name] = None
        named = self.add_words(command.words[1:], command.moves)
        if deletes_words(command):
            self.deleted.update(dict.fromkeys(named))

    def add_words(self, words: tuple[ShellWord, ...], moves: tuple[str | None, ...]) -> list[str]:
        """Add the paths that words name, wherever they may be read; returns what they name."""
        named: list[str] = []
        for cwd in directories_of(self.call, self.line, moves) or (self.call.cwd,):
            self.paths[cwd] = None
            for word in words:
                named.extend(self._add_word(word, cwd))
        return named

    def _add_word(self, word: ShellWord, cwd: str) -> list[str]:
        pattern: list[str] = []
        if word.glob and word.value:
            pattern.append(pattern_key(self.call, word, cwd))
            self.patterns[pattern[0]] = None
            word = before_pattern(word)
        paths = [joined_path(self.call, text, cwd) for text in path_texts(word)]
        self.paths.update(dict.fromkeys(paths))
        return pattern or paths


def _all_commands(commands: Iterable[ShellCommand]) -> Iterable[ShellCommand]:
    for command in commands:
        yield command
        yield from _all_commands(command.inner)


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


_FAMILY_ACTIONS: dict[Family, ActionKind] = {
    "bash": "run",
    "read": "read outside",
    "edit": "write outside",
    "fetch": "fetch inner",
    "mcp": "mcp",
    "other": "other",
}


def _unclear(reason: str, family: Family, call: Call, unread: bool = False) -> UnclearPart:
    action = _FAMILY_ACTIONS[family]
    if family == "bash" and not is_below(call.cwd, call.roots):
        action = "run outside"
    return UnclearPart(reason=reason, family=family, action=action, unread=unread)


def _bare(call: Call) -> CallPart:
    family = _family(call)
    if family in ("bash", "read", "edit"):
        return _unclear("it does not name its target", family, call)
    if call.kind == "think":
        return NamedToolPart(name=call.tool, action="think")
    return NamedToolPart(name=call.tool, action="other")


def _touch(call: Call, use: PathUse) -> PathPart:
    whole = call.kind in ("delete", "move")
    action = _touch_action(call, use)
    # A directory goes with what is in it, and a workspace always has what is protected.
    if whole and action == "write" and (call.holds_protected or use.path in call.roots):
        action = "write protected"
    return PathPart(use=use, action=action, whole=whole)


def _touch_action(call: Call, use: PathUse) -> ActionKind:
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


def _shell_parts(call: Call, text: str) -> list[CallPart]:
    from .shell.parser import read_line

    line = read_line(text)
    parts: list[CallPart] = [_unclear(reason, "bash", call, line.unread) for reason in line.doubts]
    if not (line.commands or line.redirects or line.doubts):
        parts.append(_unclear("it runs an unknown program", "bash", call))
    plain = _is_plain(text, line)
    parts.extend(_run(call, line, command, plain) for command in line.commands)
    for redirect in line.redirects:
        access: Access = "write" if redirect.writes else "read"
        parts.extend(_redirect(call, line, redirect.target, redirect.moves, access))
    if line.hidden or line.tokens:
        parts.append(HiddenPart(commands=line.hidden, tokens=line.tokens))
    return parts


def _is_plain(text: str, line: CommandLine) -> bool:
    """Say whether a line is understood whole, by the small grammar and by the tree alike."""
    from .shell.plain_grammar import agrees, read_plain

    plain = read_plain(text)
    return plain is not None and agrees(plain, line) and _tests_are_harmless(plain)


def _tests_are_harmless(plain: "tuple[PlainCommand, ...]") -> bool:
    from .shell.readonly import classify_read_only

    tests = (each for each in plain if each.words[0].raw == "[")
    return all(classify_read_only(ShellCommand(words=each.words)) is not None for each in tests)


def _inner_is_plain(call: Call, command: ShellCommand, by_shell: bool) -> bool:
    """Say whether what a wrapper runs is as certain as the wrapper's own line."""
    name = command.words[0].exact or ""
    if command.wrapping != "transparent" or command.assignments:
        return False
    if not (name in _SHELL_FILES or _is_known_program(call, name, by_shell)):
        return False
    if name not in _SHELLS and name not in _SHELL_FILES:
        return name in _UNASKED_WRAPPERS
    # "-x" expands $PS4 before each command, and that may run some.
    if any("x" in (word.exact or "x") for word in command.words[1:-1]):
        return False
    from .shell.plain_grammar import read_plain, same_words

    plain = read_plain(command.words[-1].exact or "")
    return plain is not None and same_words(plain, command.inner) and _tests_are_harmless(plain)


def _is_known_program(call: Call, name: str, by_shell: bool) -> bool:
    """Say whether a bare name is the program that people mean by it, not one of the project.

    What a shell runs itself needs no file, unless another program runs it: ``timeout 5 echo``.
    """
    file = "" if call.programs is None else call.programs.get(name, "")
    if by_shell and name in _BUILTINS and not file:
        return True
    ours = is_below(file, _SYSTEM_PLACES) or not is_below(file, call.roots)
    return file.startswith("/") and ours


def _redirect(
    call: Call, line: CommandLine, target: ShellWord, moves: tuple[str | None, ...], access: Access
) -> list[CallPart]:
    if target.value is None or target.glob or target.value in _HARMLESS_DEVICES:
        return []
    cwds = directories_of(call, line, moves)
    if cwds is None and not target.value.startswith(("/", "~")):
        return [_unclear("which file a redirection opens is not certain", "bash", call)]
    parts: list[CallPart] = []
    for cwd in cwds or (call.cwd,):
        use = word_use(call, target, cwd, access)
        action = _touch_action(call, use)
        if action == "write":
            action = "run write"
        elif action == "write outside":
            action = "run write outside"
        elif action in ("read", "read outside"):
            action = "run reading" if action == "read" else "run reading outside"
        parts.append(PathPart(use=use, action=action, by_shell=True))
    return parts


def _run(
    call: Call, line: CommandLine, command: ShellCommand, plain: bool, by_shell: bool = True
) -> CommandPart:
    """Judge a command; ``plain``: its line is understood whole; ``by_shell``: a shell runs it."""
    from .shell.readonly import classify_read_only

    cwds = directories_of(call, line, command.moves)
    inner = _inner_runs(call, line, command, plain, by_shell)
    inside = cwds is not None and all(_is_inside(call, cwd) for cwd in cwds)
    known = plain and _is_known_program(call, command.words[0].exact or "/", by_shell)
    reading = classify_read_only(command) if known else None
    reads = None if reading is None else _reads(call, reading, cwds)
    if reading is None or reads is None or not _git_is_safe(call, reading, cwds):
        action: ActionKind = "run" if inside else "run outside"
        named = _named(call, command, cwds)
        return CommandPart(command=command, action=action, cwds=cwds, named=named, inner=inner)
    near = all(_touch_action(call, use) == "read" for use in reads)
    action = "run reading" if near else "run reading outside"
    return CommandPart(
        command=command, action=action, cwds=cwds, reading=reading, reads=reads, inner=inner
    )


def _is_inside(call: Call, directory: str) -> bool:
    use = path_use_of(call, directory, "read")
    return is_below(use.path, call.roots) and is_below(use.resolved, call.roots)


def _inner_runs(
    call: Call, line: CommandLine, command: ShellCommand, plain: bool, by_shell: bool
) -> tuple[CommandPart, ...]:
    plain = plain and bool(command.inner) and _inner_is_plain(call, command, by_shell)
    by_shell = command.words[0].exact in _SHELLS | _SHELL_FILES
    runs = tuple(_run(call, line, each, plain, by_shell) for each in command.inner)
    if command.words[0].exact in _CERTAIN_WRAPPERS:
        return runs
    return tuple(
        run if run.reading is None else replace(run, reading=replace(run.reading, core=False))
        for run in runs
    )


def _named(call: Call, command: ShellCommand, cwds: tuple[str, ...] | None) -> tuple[PathUse, ...]:
    found: dict[PathUse, None] = {}
    for word in command.words[1:]:
        for cwd in cwds or (call.cwd,):
            for text in path_texts(word):
                found[path_use_of(call, joined_path(call, text, cwd), "write")] = None
            if word.glob and word.value:
                for path, real in call.matches.get(pattern_key(call, word, cwd)) or ():
                    found[PathUse(path=path, resolved=real, access="write")] = None
    return tuple(found)


def _git_is_safe(call: Call, reading: "ReadOnlyUse", cwds: tuple[str, ...] | None) -> bool:
    """Say whether git finds the workspace's own settings.

    A directory of the project that looks like a repository brings settings that name programs.
    """
    return not reading.at_root or (cwds is not None and all(cwd in call.roots for cwd in cwds))


def _names_directory(call: Call, words: list[ShellWord], cwds: tuple[str, ...] | None) -> bool:
    places = cwds or (call.cwd,)
    texts = (joined_path(call, written_path(word), cwd) for word in words for cwd in places)
    return any(word.glob for word in words) or any(text in call.directories for text in texts)


def _reads(
    call: Call, reading: "ReadOnlyUse", cwds: tuple[str, ...] | None
) -> tuple[PathUse, ...] | None:
    """Return all that a command may read; None when that is not certain."""
    words = [word for word in reading.paths if word.value not in _FEEDS]
    if reading.follows and _names_directory(call, words, cwds):
        return None
    if cwds is None:
        relative = [word for word in words if not (word.value or "").startswith(("/", "~"))]
        if relative or reading.here:
            return None
    places = cwds or (call.cwd,)
    uses: list[PathUse] = []
    for word in words:
        for cwd in places:
            found = matched_uses(call, word, cwd) if word.glob else read_use(call, word, cwd)
            if found is None:
                return None
            uses.extend(found)
    if reading.here:
        uses.extend(path_use_of(call, cwd, "read") for cwd in places)
    return tuple(uses)
