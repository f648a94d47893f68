"""Permission requests of an agent: the call as policy sees it, and the answer to the agent.

A permission also covers what the agent then asks us to do for the same call, which is not asked
about twice. Permission to edit a file covers reading it and one write of it, of what was shown if a
change was shown; permission for a command covers one terminal with exactly that command in that
directory; permission to read a file covers any read of it. It ends with the turn. Every other
request of the agent is decided by itself.
"""

import asyncio
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.policy.call import Call, PathUse, path_use
from quarterdeck.policy.foreign_calls import CallContext, bare_name, call_from_tool
from quarterdeck.policy.gate import Gate, PermissionGranted, PermissionRefused
from quarterdeck.policy.lookup import Disk, look_up
from quarterdeck.policy.paths import fixed_part, is_below
from quarterdeck.policy.permission_options import choice_of
from quarterdeck.policy.rules import PathPattern, Rule
from quarterdeck.system.local_disk import LocalDisk
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.tool_calls import Diff, ToolCallContent

from .link import PermissionVerdict

__all__ = [
    "FileWrite",
    "UnusedPermissions",
    "call_of",
    "core_command",
    "hold_against",
    "own_options",
    "read_recorded_call",
    "verdict_of",
    "write_of",
]

_SHELLS = frozenset(
    f"{place}{name}"
    for place in ("", "/bin/", "/usr/bin/", "/usr/local/bin/")
    for name in ("sh", "bash", "dash")
)
_LINE_FLAGS = frozenset(("-c", "-lc", "-cl", "-ic", "-lic"))
_CHANGE = re.compile(
    r"cd (?P<place>'[^']*'|\"[^\"$`\\]*\"|[^\s'\"$`\\;&|<>()*?\[{~#]+) && (?P<rest>.+)", re.S
)


_LARGEST = 16 * 1024 * 1024
"""Bytes of a file that is compared with the change that was allowed."""


@dataclass(slots=True)
class UnusedPermissions:
    """What is permitted and not used up; by real paths, and by command and directory."""

    _reads: set[str] = field(default_factory=set[str])
    _writes: dict[str, list[tuple[Diff, ...]]] = field(
        default_factory=dict[str, list[tuple[Diff, ...]]]
    )
    """With the changes that were shown; none: any."""
    _commands: dict[tuple[str, str], list[PermissionGranted]] = field(
        default_factory=dict[tuple[str, str], list[PermissionGranted]]
    )

    def add(
        self, call: Call, permitted: PermissionGranted, content: Iterable[ToolCallContent] = ()
    ) -> None:
        """Record that this call was allowed; ``content``: what of it was shown."""
        changes = [item for item in content if isinstance(item, Diff)]
        for use in call.paths:
            self._reads.add(use.resolved)
            if use.access == "write":
                shown = (one for one in changes if _path(one, call) == use.path)
                self._writes.setdefault(use.resolved, []).append(tuple(shown))
        if call.command is not None:
            self._commands.setdefault(_key(call), []).append(permitted)

    def take(self, call: Call, write: "FileWrite | None" = None) -> PermissionGranted | None:
        """The permission that covers what we are to do; used up where it was for one time.

        ``write``: what a call of ours would write.
        """
        if call.command is not None:
            waiting = self._commands.get(_key(call))
            return waiting.pop() if waiting else None
        if not call.paths or call.doubts:
            return None
        reads = [use.resolved for use in call.paths if use.access == "read"]
        writes = [use.resolved for use in call.paths if use.access == "write"]
        if any(path not in self._reads for path in reads):
            return None
        fitting = {path: self._fitting(path, write) for path in writes}
        if any(one is None for one in fitting.values()):
            return None
        for path, changes in fitting.items():
            self._writes[path].remove(changes or ())
        return PermissionGranted()

    def _fitting(self, path: str, write: "FileWrite | None") -> tuple[Diff, ...] | None:
        waiting = self._writes.get(path, ())
        return next((one for one in waiting if write is None or write.is_result_of(one)), None)

    def clear(self) -> None:
        """The turn is over, and what was permitted in it."""
        self._reads.clear()
        self._writes.clear()
        self._commands.clear()


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A file that is to be written whole: what is there and what comes."""

    before: str
    after: str

    def is_result_of(self, changes: Sequence[Diff]) -> bool:
        """Whether these changes make it; without any, everything does."""
        if not changes or (len(changes) == 1 and _same(changes[0].new_text, self.after)):
            return True
        once = every = self.before
        for change in changes:
            old = change.old_text or ""
            if old not in once:
                return False
            if not old and once:
                return False
            once = once.replace(old, change.new_text, 1)
            every = every.replace(old, change.new_text) if old else once
        return _same(once, self.after) or _same(every, self.after)


def write_of(content: Iterable[ToolCallContent], call: Call) -> FileWrite | None:
    """What a call would write over what, where it is one file; the write itself checks links."""
    change = next((item for item in content if isinstance(item, Diff)), None)
    if change is None or not call.paths:
        return None
    before = ""
    with suppress(OSError, UnicodeDecodeError, ValueError):
        path = Path(call.paths[0].resolved)
        if path.is_file() and path.stat().st_size <= _LARGEST:
            before = path.read_bytes().decode()
    return FileWrite(before, change.new_text)


def _same(one: str, other: str) -> bool:
    return _plain_lines(one) == _plain_lines(other)


def _plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\n")


def _path(change: Diff, call: Call) -> str:
    return path_use(change.path, "write", cwd=call.cwd, home=call.home).path


def core_command(command: str, cwd: str) -> str:
    """The line that a shell is started for, without the shell and without going where it is.

    ``/bin/bash -lc 'cd /work && make'`` in ``/work`` is ``make``; what is not plainly so stays.
    """
    line = command.strip()
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    if len(words) == 3 and words[0] in _SHELLS and words[1] in _LINE_FLAGS:
        line = words[2].strip()
    moved = _CHANGE.fullmatch(line)
    if moved is not None and _is_same_place(moved["place"], cwd):
        return moved["rest"].strip()
    return line


def _is_same_place(quoted: str, cwd: str) -> bool:
    place = quoted[1:-1] if quoted[0] in "'\"" else quoted
    return place.startswith("/") and posixpath.normpath(place) == posixpath.normpath(cwd)


def _key(call: Call) -> tuple[str, str]:
    return core_command(call.command or "", call.cwd), posixpath.normpath(call.cwd)


_LISTERS = frozenset(("ls", "list", "list_directory", "list_files", "listdir"))
"""Tools that show names and no content."""


async def call_of(question: PermissionAsked, around: CallContext, gate: Gate) -> Call:
    """The call that an agent asks about, with the real places of all that it names."""
    return await asyncio.to_thread(_call, question, around, gate)


def _call(question: PermissionAsked, around: CallContext, gate: Gate) -> Call:
    call = _looked_at(_read(question, around))
    given = gate.granted_rules(project=call.project, session=call.session, agent=call.agent)
    return hold_against(call, (*gate.rules, *given))


def read_recorded_call(question: PermissionAsked, around: CallContext, disk: Disk) -> Call:
    """The call that an agent asked about earlier, read as ``call_of`` does, with another disk.

    Symbolic links are not followed: where they led then is not known.
    """
    return look_up(_read(question, around), disk)


def _read(question: PermissionAsked, around: CallContext) -> Call:
    named = [location.path for location in question.locations]
    changed = [item.path for item in question.content if isinstance(item, Diff)]
    return call_from_tool(
        question.name,
        question.kind,
        question.raw_input,
        tuple(dict.fromkeys(named)),
        title=question.title,
        changed=tuple(dict.fromkeys(changed)),
        around=around,
    )


def _looked_at(call: Call) -> Call:
    """The same with what our disk says about it; policy itself touches none.

    The agent's own ``PATH`` may differ from ours; ours is the best guess.
    """
    call = replace(call, paths=tuple(_real(use) for use in call.paths))
    return look_up(call, LocalDisk())


def _real(use: PathUse) -> PathUse:
    return replace(use, resolved=os.path.realpath(use.path))


def _is_directory(path: str) -> bool:
    return Path(path).is_dir()


def hold_against(
    call: Call, rules: Iterable[Rule], is_directory: Callable[[str], bool] = _is_directory
) -> Call:
    """Doubt a search below which a rule denies something: the agent itself chooses what to read.

    ``is_directory`` says what was read; by default the disk does.
    """
    within = [use for use in call.paths if _looks_below(call, use, is_directory)]
    if not within:
        return call
    for rule in rules:
        pattern = rule.pattern
        if rule.effect == "allow" or not isinstance(pattern, PathPattern) or not pattern.glob:
            continue
        if pattern.access != "read":
            continue
        if any(_may_lie_below(pattern.glob, use.resolved, call) for use in within):
            doubt = f"it searches a directory in which a rule protects {pattern.glob!r}"
            return replace(call, doubts=(*call.doubts, doubt))
    return call


def _looks_below(call: Call, use: PathUse, is_directory: Callable[[str], bool]) -> bool:
    if call.kind == "search":
        return True
    is_read = call.kind == "read" and bare_name(call.tool) not in _LISTERS
    return is_read and is_directory(use.resolved)


def _may_lie_below(glob: str, directory: str, call: Call) -> bool:
    if "/" not in glob.rstrip("/"):  # a name, at any depth
        return True
    fixed = fixed_part(glob, root=call.project_root, home=call.home)
    return is_below(fixed, (directory,)) or is_below(directory, (fixed,))


def own_options(theirs: Iterable[PermissionOption], agent: str) -> tuple[PermissionOption, ...]:
    """The agent's options as a person may see them.

    What an option means to us stands in its ``_meta``; an agent has no say in that. One that the
    agent itself would remember is called so.
    """
    return tuple(_plain(option, agent) for option in theirs)


def _plain(option: PermissionOption, agent: str) -> PermissionOption:
    name = option.name
    if option.kind.endswith("_always"):
        name = f"{name} (kept by {agent} itself)"
    return PermissionOption(option_id=option.option_id, name=name, kind=option.kind)


def verdict_of(
    decided: PermissionGranted | PermissionRefused, theirs: Sequence[PermissionOption]
) -> PermissionVerdict:
    """The answer to the agent, in its own options where it offered any.

    An option that the agent would remember is selected only if a person chose that very one.
    """
    if isinstance(decided, PermissionGranted):
        option = _option(theirs, decided.option, "allow")
        return PermissionVerdict(allowed=option is not None or not theirs, option=option)
    if decided.cancelled:
        return PermissionVerdict(allowed=False, cancelled=True, model_reason=decided.model_reason)
    option = _option(theirs, decided.option, "reject")
    return PermissionVerdict(allowed=False, option=option, model_reason=decided.model_reason)


def _option(theirs: Sequence[PermissionOption], chosen: str | None, word: str) -> str | None:
    """The agent's own option that says what was decided: the chosen one, else for this once."""
    effect = "allow" if word == "allow" else "deny"
    known = [option.option_id for option in theirs]
    if chosen in known and choice_of(theirs, chosen).effect == effect:
        return chosen
    return next((one.option_id for one in theirs if one.kind == f"{word}_once"), None)
